"""Numbers of rows by norm, estimated from noisy counts. All of it is post-processing of released values."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from pais._base.numerics import FloatArray
from pais.mechanisms.noise import GaussianNoise, NoiseLaw

# The constants of this module were chosen by eye (commits e92db7f and 80c6e7b); kmeans-survey.md of benchmarks/results
# shows what they reach.

# Probability, by default, that noise alone lifts any empty octave above its threshold.
_EMPTY_OCTAVE_RISK = 0.02

# The outermost bin shown has more rows from it outwards than this many standard deviations of their noise.
_SEEN_TAIL = 2.5

# Where the number of rows outwards is known this well, in standard deviations, it shows how fast the tail falls.
_CLEAR_TAIL = 6.0

# Bins over which the fall of the tail is measured.
_FALL_BINS = 4

# The tail is continued if the number of rows is above this many standard deviations of the noise of a bin.
_MANY_ROWS = 100.0


@dataclass(frozen=True, kw_only=True)
class NormCounts:
    """Estimated numbers of rows in bins of norms, none negative, with the variance of their sum."""

    counts: FloatArray
    variance: float

    @property
    def n_rows(self) -> float:
        return float(self.counts.sum())


@dataclass(frozen=True, kw_only=True)
class NoisyCounts:
    """Released numbers of rows in bins of norms: the same number of bins in every octave, and noise on every bin.

    `risk` is the probability that noise alone lifts any empty octave above its threshold.
    """

    counts: FloatArray
    bins_per_octave: int
    noise: NoiseLaw
    risk: float = _EMPTY_OCTAVE_RISK

    @property
    def deviation(self) -> float:
        return self.noise.deviation(1)

    def estimate(self) -> NormCounts | None:
        """The numbers of rows from the counts that stand above the noise; None if none does.

        Octaves above a threshold count, and those beside them, which contain the tails of their norms. The number of
        rows from a bin outwards falls with the norm, so its noisy values are replaced by the nearest ones that fall.
        """
        by_octave = self.counts.reshape(-1, self.bins_per_octave).sum(axis=1)
        log_chance = -np.log(self.risk * octave_weights(by_octave.size))
        above = by_octave > sum_bound(self.noise, self.bins_per_octave, log_chance)
        if not np.any(above):
            return None
        near = above | np.append(above[1:], False) | np.append(False, above[:-1])
        bins = np.flatnonzero(np.repeat(near, self.bins_per_octave))
        outwards, spread = self._outwards(bins)
        seen = np.flatnonzero(outwards > _SEEN_TAIL * spread)
        n_seen = int(seen[-1]) + 1 if seen.size else bins.size
        counts = np.zeros_like(self.counts)
        counts[bins[:n_seen]] = falling_counts(self.counts[bins[:n_seen]])
        n_rows = float(counts.sum())
        if n_rows > _MANY_ROWS * self.deviation:
            counts += self._continuation(bins, n_seen)
            counts *= n_rows / counts.sum()
        return NormCounts(counts=counts, variance=n_seen * self.deviation**2)

    def _outwards(self, bins: NDArray[np.intp]) -> tuple[FloatArray, FloatArray]:
        """Noisy number of rows from each bin outwards, and its standard deviation."""
        outwards = np.cumsum(self.counts[bins][::-1])[::-1]
        return outwards, self.deviation * np.sqrt(np.arange(bins.size, 0, -1.0))

    def _continuation(self, bins: NDArray[np.intp], n_seen: int) -> FloatArray:
        """Rows beyond the bins that are seen: the tail falls on as a power of the norm, down to one row.

        The fall is measured where the tail is clear, with one standard deviation taken off the outer value and added
        to the inner one. A tail that ends within one bin is therefore not continued.
        """
        counts = np.zeros_like(self.counts)
        outwards, spread = self._outwards(bins)
        clear = np.flatnonzero(outwards > _CLEAR_TAIL * spread)
        end = int(clear[-1]) + 1 if clear.size else 0
        start = end - _FALL_BINS
        if start < 0 or end >= bins.size or bins[end] - bins[start] != _FALL_BINS:
            return counts
        outer, inner = outwards[end] - spread[end], outwards[start] + spread[start]
        if outer <= 0.0:
            return counts
        # At least by half in an octave.
        fall = max(math.log2(inner / outer) / _FALL_BINS, 1.0 / self.bins_per_octave)
        edges = np.arange(bins[n_seen - 1] + 1, self.counts.size + 1)
        tail = outer * np.exp2(-fall * (edges - bins[end]))
        tail[tail < 1.0] = 0.0
        counts[edges[:-1]] = tail[:-1] - tail[1:]
        return counts


def falling_counts(noisy: FloatArray) -> FloatArray:
    """Counts without negative values, with the same sum (at least 1), from noisy counts.

    The sums from each bin outwards are replaced by the nearest ones that fall (isotonic regression).
    """
    outwards = np.cumsum(noisy[::-1])[::-1]
    falling = np.maximum(isotonic_regression(outwards, increasing=False).x, 0.0)
    counts = np.maximum(falling - np.append(falling[1:], 0.0), 0.0)
    if not np.any(counts > 0.0):
        counts[-1] = 1.0
    return np.asarray(counts * (max(float(outwards[0]), 1.0) / counts.sum()))


def octave_weights(n_octaves: int) -> FloatArray:
    """Shares of the risk that an empty octave is taken for one with rows. They sum to 1.

    Norms near 1 have larger shares than extreme ones, and therefore lower thresholds.
    """
    distance = np.abs(np.arange(n_octaves) - n_octaves // 2 - 3)
    weights = (3.0 + distance) ** -1.5
    return np.asarray(weights / weights.sum())


def sum_bound(noise: NoiseLaw, n_terms: int, log_chance: FloatArray) -> FloatArray:
    """Bounds that a sum of `n_terms` independent noise values exceeds with probability at most exp(-log_chance)."""
    if isinstance(noise, GaussianNoise):
        return np.asarray(noise.scale * np.sqrt(2.0 * n_terms * log_chance))
    # Chernoff's bound for Laplace noise.
    tilt = np.linspace(0.01, 0.99, 99)
    bounds = (log_chance[:, None] - n_terms * np.log1p(-tilt * tilt)) / tilt
    return np.asarray(noise.scale * bounds.min(axis=1))


def combined(first: NormCounts, second: NormCounts) -> NormCounts:
    """The counts of `second`, scaled to the number of rows that follows from both with the least variance."""
    total = first.variance + second.variance
    n_rows = max((first.n_rows * second.variance + second.n_rows * first.variance) / total, 1.0)
    variance = first.variance * second.variance / total
    return NormCounts(counts=second.counts * (n_rows / second.n_rows), variance=variance)
