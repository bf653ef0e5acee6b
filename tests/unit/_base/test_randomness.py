"""Sources of random bits: where they come from, and that none is used twice."""

from __future__ import annotations

import os

import numpy as np
import pytest

from pais._base.randomness import KeyedBits, StreamBits, bit_source


def test_private_bits_are_those_of_the_operating_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "urandom", lambda n_bytes: b"\x2a" * n_bytes)
    assert bit_source(None).raw(5) == b"\x2a" * 5
    assert bit_source(None).private


def test_the_bits_of_a_stream_do_not_repeat() -> None:
    n = StreamBits._BLOCK
    bits = StreamBits(bytes(32))
    blocks = [bits.raw(n) for _ in range(3)]
    assert len(set(blocks)) == 3
    assert StreamBits(bytes(32)).raw(3 * n) == b"".join(blocks)


def test_the_streams_of_one_seed_differ() -> None:
    assert len({bit_source(7, stream=stream).raw(16) for stream in range(5)}) == 5


def test_the_turns_of_a_keyed_draw_differ() -> None:
    bits, identity = KeyedBits(bytes(8)), np.arange(100, dtype=np.uint64)
    first, second = bits.more(identity, 1), bits.more(identity, 2)
    assert not np.any(first == second)
    # The first bits agree with the next ones by chance alone.
    assert np.mean(bits.first(identity) == (first >> np.uint64(45)).astype(np.uint8)) < 0.1
