"""The primitives of secret draws: SipHash-2-4, the keyed hash of a row's content, and occurrence numbers."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest

from pais import DataError
from pais._base.numerics import FloatArray
from pais._base.randomness import ContentHash, SecretBits, StreamBits, Words32, Words64, siphash24
from pais.data.engines import partition as row_ids
from pais.data.engines.partition import Occurrences, RowIds

KEY = bytes(range(32))

# From the reference implementation of SipHash (vectors_sip64): key 00 01 ... 0f, message 00 01 ..., by its length.
VECTORS = {
    0: "310e0edd47db6f72",
    8: "6224939a79f5f593",
    16: "db9bc2577fcc2a3f",
    24: "94af49f6c650adb8",
    32: "ce7cf2722f512771",
    40: "d0a704536ba93e0e",
    48: "51a9cb9ecba312e6",
    56: "bd838d3aafbf8db7",
}


# -- SipHash -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", VECTORS)
def test_siphash_of_the_reference_vectors(length: int) -> None:
    message = np.frombuffer(bytes(range(length)), dtype="<u8").reshape(1, -1)
    assert siphash24(bytes(range(16)), message)[0].astype("<u8").tobytes().hex() == VECTORS[length]


def siphash_in_whole_numbers(key: bytes, message: bytes) -> int:
    """SipHash-2-4 as its definition reads, in Python's integers."""
    mask = (1 << 64) - 1

    def rotated(word: int, bits: int) -> int:
        return (word << bits | word >> (64 - bits)) & mask

    def rounds(v: list[int], count: int) -> None:
        for _ in range(count):
            v[0] = (v[0] + v[1]) & mask
            v[1] = rotated(v[1], 13) ^ v[0]
            v[0] = rotated(v[0], 32)
            v[2] = (v[2] + v[3]) & mask
            v[3] = rotated(v[3], 16) ^ v[2]
            v[0] = (v[0] + v[3]) & mask
            v[3] = rotated(v[3], 21) ^ v[0]
            v[2] = (v[2] + v[1]) & mask
            v[1] = rotated(v[1], 17) ^ v[2]
            v[2] = rotated(v[2], 32)

    halves = [int.from_bytes(key[:8], "little"), int.from_bytes(key[8:], "little")]
    text = b"somepseudorandomlygeneratedbytes"
    v = [int.from_bytes(text[8 * i : 8 * i + 8], "big") ^ halves[i % 2] for i in range(4)]
    padded = message + bytes(7 - len(message) % 8) + bytes([len(message) % 256])
    for start in range(0, len(padded), 8):
        word = int.from_bytes(padded[start : start + 8], "little")
        v[3] ^= word
        rounds(v, 2)
        v[0] ^= word
    v[2] ^= 0xFF
    rounds(v, 4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def test_the_plain_siphash_has_the_result_that_the_paper_states() -> None:
    assert siphash_in_whole_numbers(bytes(range(16)), bytes(range(15))) == 0xA129CA6149BE45E5


def test_siphash_of_many_messages_is_that_of_each() -> None:
    rng = np.random.default_rng(4)
    messages = rng.integers(0, 2**64, (300, 2), dtype=np.uint64)
    for key in (rng.bytes(16), bytes(16), b"\xff" * 16):
        expected = [siphash_in_whole_numbers(key, row.astype("<u8").tobytes()) for row in messages]
        assert siphash24(key, messages).tolist() == expected
    assert siphash24(bytes(16), messages[:0]).shape == (0,)


# -- bits of rows --------------------------------------------------------------------------------------------


def test_secret_bits_follow_from_key_partition_turn_and_id_alone() -> None:
    ids = np.random.default_rng(6).integers(0, 2**64, (40_000, 2), dtype=np.uint64)
    bits = SecretBits(KEY, partition=2)
    whole, later = bits.first(ids), bits.more(ids, 1)
    order = np.random.default_rng(7).permutation(len(ids))
    other = SecretBits(KEY, partition=2)
    assert np.array_equal(other.more(ids[order[:9]], 1), later[order[:9]])
    assert np.array_equal(other.first(ids[order]), whole[order])
    assert later.max() < 2**53
    for changed in (
        SecretBits(KEY, partition=3).more(ids, 1),
        SecretBits(bytes(32), partition=2).more(ids, 1),
        bits.more(ids, 2),
        bits.more(ids ^ np.uint64(1), 1),
    ):
        assert not np.any(changed == later)


# -- hashes of content ---------------------------------------------------------------------------------------


def test_content_hash_is_the_multilinear_sum_modulo_2_to_the_64() -> None:
    rows = np.array([[1.5, -2.25, 0.0], [-1e300, 5e-324, -0.0]])
    key = StreamBits(KEY).words64(3 * 7).reshape(7, 3)
    upper, lower = ContentHash(StreamBits(KEY), 3).of(list(rows.T))
    for row, high, low in zip(rows, upper, lower, strict=True):
        characters = np.frombuffer((row + 0.0).astype("<f8").tobytes(), dtype="<u4")
        sums = [
            (int(key[0, j]) + sum(int(key[1 + i, j]) * int(characters[i]) for i in range(6))) % 2**64 for j in range(3)
        ]
        parts = [total >> 32 for total in sums]
        assert (int(high), int(low)) == (parts[0] << 32 | parts[1], parts[2])


def test_rows_that_differ_in_one_bit_of_one_number_have_different_hashes() -> None:
    base = np.full((1, 3), 1.5)
    rows = np.repeat(base, 1 + 3 * 64, axis=0)
    words = rows.view(np.uint64)
    for place in range(3 * 64):
        words[1 + place, place // 64] ^= np.uint64(1) << np.uint64(place % 64)
    upper, lower = ContentHash(StreamBits(KEY), 3).of(list(rows.T))
    assert len(set(zip(upper.tolist(), lower.tolist(), strict=True))) == len(rows)
    # Each of the three parts tells them apart by itself, but for chance.
    assert min(len(set(part.tolist())) for part in (upper >> np.uint64(32), upper & np.uint64(2**32 - 1), lower)) > 190


# -- occurrence numbers --------------------------------------------------------------------------------------


def counted(hashes: list[tuple[int, int]]) -> list[int]:
    seen: defaultdict[tuple[int, int], int] = defaultdict(int)
    numbers = []
    for one in hashes:
        numbers.append(seen[one])
        seen[one] += 1
    return numbers


@pytest.mark.parametrize("distinct", [1, 2, 50, 3000, 10**9])
@pytest.mark.parametrize("room", [1, 64, 1 << 16])
def test_occurrences_are_numbered_without_gaps_in_any_batches(distinct: int, room: int) -> None:
    rng = np.random.default_rng(distinct)
    upper = rng.integers(0, distinct, 5000).astype(np.uint64) << np.uint64(32)  # all of them in one slot at first
    lower = rng.integers(0, 2, 5000).astype(np.uint32)
    numbers: list[int] = []
    occurrences, start = Occurrences(room=room), 0
    for size in (1, 0, 999, 1, 3000, 999):
        piece = slice(start, start + size)
        numbers += occurrences.number(upper[piece], lower[piece]).tolist()
        start += size
    hashes = list(zip(upper.tolist(), lower.tolist(), strict=True))
    assert sorted(zip(hashes, numbers, strict=True)) == sorted(zip(hashes, counted(hashes), strict=True))


def test_row_ids_are_unique_even_if_all_hashes_collide(monkeypatch: pytest.MonkeyPatch) -> None:
    def zeros(self: ContentHash, columns: list[FloatArray]) -> tuple[Words64, Words32]:
        return np.zeros(len(columns[0]), dtype=np.uint64), np.zeros(len(columns[0]), dtype=np.uint32)

    monkeypatch.setattr(ContentHash, "of", zeros)
    rows = np.random.default_rng(1).standard_normal((40_000, 2))
    ids = RowIds(KEY, partition=0, n_features=2).of(list(rows.T))
    assert len(np.unique(ids, axis=0)) == len(rows)


def test_a_partition_of_too_many_rows_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_ids, "_MOST_ROWS", 100)
    occurrences = Occurrences()
    occurrences.number(np.zeros(100, dtype=np.uint64), np.zeros(100, dtype=np.uint32))
    with pytest.raises(DataError, match=r"more than 100 rows\. Use more partitions"):
        occurrences.number(np.zeros(1, dtype=np.uint64), np.zeros(1, dtype=np.uint32))
