"""The hash index against a Python dictionary."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray

from pais.data import units as hashing
from pais.data.units import HashIndex

Words = NDArray[np.uint64]


class Numbers:
    """The same numbers from a dictionary: new keys of a batch get any of the next numbers."""

    def __init__(self) -> None:
        self.of: dict[tuple[int, int], int] = {}

    def require(self, keys: Words, numbers: NDArray[np.intp]) -> None:
        before = len(self.of)
        for key, number in zip(map(tuple, keys.tolist()), numbers.tolist(), strict=True):
            assert self.of.setdefault(key, number) == number
        assert sorted(self.of.values()) == list(range(len(self.of)))
        assert all(number >= before for number in list(self.of.values())[before:])


def keys_of(*numbers: int) -> Words:
    return np.array([[number, number // 3] for number in numbers], dtype=np.uint64).reshape(-1, 2)


words = st.integers(0, 2**64 - 1) | st.integers(0, 5)
batches = st.lists(st.lists(st.tuples(words, words), max_size=40), max_size=6)


@settings(max_examples=150, deadline=None)
@given(batches, st.sampled_from([1, 3, 64]), st.sampled_from([1, 4]))
def test_numbers_are_those_of_a_dictionary(batches: list[list[tuple[int, int]]], chunk: int, room: int) -> None:
    index, expected = HashIndex(room=room), Numbers()
    with patch.object(hashing, "_CHUNK", chunk):
        for batch in batches:
            keys = np.array(batch, dtype=np.uint64).reshape(-1, 2)
            expected.require(keys, index.add(keys))
            assert index.size == len(expected.of)
        known = np.array(list(expected.of), dtype=np.uint64).reshape(-1, 2)
        assert index.find(known).tolist() == list(expected.of.values())


@settings(max_examples=100, deadline=None)
@given(st.sets(st.integers(0, 60), max_size=40), st.lists(st.integers(0, 60), max_size=60))
def test_a_key_that_was_never_added_is_not_found(added: set[int], asked: list[int]) -> None:
    index = HashIndex(room=1)
    index.add(keys_of(*added))
    found = index.find(keys_of(*asked))
    assert [number >= 0 for number in found] == [number in added for number in asked]


def test_repeated_keys_in_one_batch_have_one_number() -> None:
    index = HashIndex()
    numbers = index.add(keys_of(7, 7, 8, 7, 8))
    assert index.size == 2
    assert numbers[0] == numbers[1] == numbers[3] != numbers[2] == numbers[4]
    assert index.add(keys_of(8, 9)).tolist() == [numbers[2], 2]


def test_keys_that_agree_in_one_word_are_different() -> None:
    index = HashIndex()
    numbers = index.add(np.array([[1, 2], [1, 3], [2, 2], [2, 1]], dtype=np.uint64))
    assert sorted(numbers.tolist()) == [0, 1, 2, 3]


def test_keys_with_one_home_are_told_apart() -> None:
    """All keys start at the same slot, so that every one of them is found by probing."""
    with patch.object(HashIndex, "_home", lambda self, keys: np.zeros(len(keys), dtype=np.intp)):
        index, keys = HashIndex(room=1), keys_of(*range(300))
        numbers = np.concatenate([index.add(part) for part in np.array_split(keys, 7)])
        assert sorted(numbers.tolist()) == list(range(300))
        np.testing.assert_array_equal(index.find(keys), numbers)
        assert (index.find(keys_of(1000, 2000)) == -1).all()


def test_a_growing_index_keeps_its_numbers_and_its_size() -> None:
    rng = np.random.default_rng(0)
    keys = rng.integers(0, 2**64, (100_000, 2), dtype=np.uint64)
    index = HashIndex(room=16)
    numbers = np.concatenate([index.add(part) for part in np.array_split(keys, 11)])
    np.testing.assert_array_equal(np.sort(numbers), np.arange(100_000))
    np.testing.assert_array_equal(index.find(keys), numbers)
    order = rng.permutation(100_000)
    np.testing.assert_array_equal(index.add(keys[order]), numbers[order])
    assert index.size == 100_000


def test_no_keys() -> None:
    index = HashIndex()
    assert index.add(keys_of()).size == index.find(keys_of()).size == index.size == 0
    assert index.find(keys_of(3)).tolist() == [-1]
