"""Rows, rules, sums of clipped rows and scripted bits for the tests of samples and surveys."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from pais import Ball, CoresetRule, WeightedSample
from pais._base.lattice import IntArray, Lattice
from pais._base.randomness import BitSource
from pais.data.engines.base import WeightedRows, _Contributions

Floats = NDArray[np.float64]
RADIUS = 2.0
BALL = Ball(radius=RADIUS)
TOP = 2**53 - 1
# How many bits of a draw are served first; the rest comes in words of 53.
COARSE_BITS = next(n for n in (8, 16, 32) if hasattr(BitSource, f"words{n}"))
CELLS = 2**COARSE_BITS
# Larger than any block a table is read in.
SEVERAL_BLOCKS = 40_000_000


def coreset(rate: float = 0.1, radius: float = RADIUS) -> CoresetRule:
    return CoresetRule(sample_size=1000.0 * rate, n_rows=1000.0, mean_square_norm=0.3 * radius**2, radius=radius)


def rows_in_ball(n: int, d: int = 4, seed: int = 0, radius: float = RADIUS) -> Floats:
    """Rows of every norm from 0 to the radius, no two alike."""
    rng = np.random.default_rng(seed)
    direction = rng.standard_normal((n, d))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    return np.asarray(direction * rng.uniform(0.0, 0.999 * radius, (n, 1)))


def coarse_words(bits: BitSource, n: int) -> NDArray[np.unsignedinteger]:
    words: NDArray[np.unsignedinteger] = getattr(bits, f"words{COARSE_BITS}")(n)
    return words


def as_coarse(words: Sequence[int]) -> NDArray[np.unsignedinteger]:
    return np.array(words, dtype=f"uint{COARSE_BITS}")


def opened(kept: WeightedSample) -> WeightedRows:
    return kept.spend("a test")


def positions(content: WeightedRows, rows: Floats) -> NDArray[np.intp]:
    """Which rows were kept, found by their unique first coordinate."""
    order = np.argsort(rows[:, 0])
    found = order[np.searchsorted(rows[order, 0], content.rows[:, 0])]
    assert np.array_equal(rows[found, 0], content.rows[:, 0])
    return np.asarray(found)


class ScriptedBits(BitSource):
    """Serves chosen 53-bit words, and counts them."""

    private = False

    def __init__(self, words: Sequence[int]) -> None:
        self._words = list(words)
        self.served = 0

    def raw(self, n_bytes: int) -> bytes:
        assert n_bytes % 8 == 0
        n = n_bytes // 8
        words = self._words[self.served : self.served + n]
        assert len(words) == n, "more words were asked for than the script holds"
        self.served += n
        # The low 11 bits are thrown away by the reader; make them noisy.
        return b"".join(((word << 11) | 0x5A5).to_bytes(8, "little") for word in words)


def served(bits: BitSource) -> Callable[[NDArray[np.intp], int], NDArray[np.uint64]]:
    """Bits as they come, whichever draw goes on."""
    return lambda place, turn: bits.words53(place.size)


def sigmas(kept: int, n: int, q: float) -> float:
    return (kept - n * q) / math.sqrt(n * q * (1.0 - q))


def cloud(n: int = 20_000, d: int = 5, seed: int = 0) -> Floats:
    """Normal rows that are not centered."""
    shift = np.array([3.0, 0.0, 0.0, -2.0, 1.0])[:d]
    return np.random.default_rng(seed).standard_normal((n, d)) + shift


def clipped_sum(ball: Ball, lattice: Lattice) -> _Contributions:
    """A fold that adds up the rows in whole steps, clipped to the ball and multiplied by their masses."""

    def contribution(rows: Floats, masses: Floats) -> IntArray:
        return np.asarray(lattice.encode(rows * masses[:, None]).sum(axis=0))

    return _Contributions(ball=ball, contribution=contribution)
