"""Means and deviations of columns whose counts hardly stand out of the noise, from shapes that fit these counts.

With few rows for each column, single octaves are lost in the noise although a column as a whole is not: its cells are
in a few neighbouring octaves, and all columns have about the same number of cells. So the counts of a column are
compared with those of usual shapes, such as normal or lognormal values, at every size. A column gets a mean and a
deviation that suit most of the shapes which fit. A column that fits everything gets a large scale, so that it does not
drown the others. All of it is post-processing of released counts.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from pais._base.lattice import N_OCTAVES, OCTAVES
from pais._base.numerics import FloatArray
from pais.planning.facts import octave_weights

# The constants of this module were set by trial on tables like the first ones of
# benchmarks/results/regression-drowned.md, which shows what they reach there and on others.

# Octaves that a shape has below and above its unit. Smaller cells are left out.
_BELOW, _ABOVE = 12, 4
_WINDOW = _BELOW + _ABOVE

# Places of the unit of a shape within an octave, as powers of two.
_PHASES = (0.0, 0.25, 0.5, 0.75)

# Values of a shape, at even steps of probability. Means and deviations are those of values within these quantiles.
_LEVELS = (np.arange(400) + 0.5) / 400
_TRIMMED = 0.02

# Means of normal shapes over their deviation, deviations of the logarithm of lognormal ones, octaves of values whose
# logarithm is uniform, and shares of zeros.
_OFFSETS, _LOG_DEVIATIONS, _LOG_RANGES = (0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 16.0), (0.5, 1.0, 1.5, 2.0), (4, 8)
_ZERO_SHARES = (0.5, 0.75, 0.9, 0.97)

# Probability, before the counts are seen, that a column holds zeros and ones, and that it holds nothing but zeros.
_ONES, _LOG_EMPTY = 0.3, math.log(0.02)

# Numbers of cells that are compared, and one in their middle, in deviations of the noise of a count.
_NUMBERS, _TYPICAL = np.geomspace(2.0, 200.0, 24), 10.0

# Cells other than zero are not seen if they are fewer than this many standard deviations of the noise of a count.
_UNSEEN = 4.5

# A column is known if shapes with the first probability agree on its deviation to within the factor, and clear from the
# second probability on.
_KNOWN, _CLEAR, _FACTOR = 0.5, 0.9, 3.0

# Quantile of the likely deviations that a column gets, if it is known, and if it is not.
_USUAL, _WIDE = 0.6, 0.9

# Bounds of a column, in deviations about the mean.
_REACH = 6.0

# Octaves beyond twice the deviation, and up to so many times it, count by themselves if they exceed what the shapes
# expect by this many standard deviations of the noise.
_FAR, _EXCESS = 300.0, 4.0


class FittedColumn(NamedTuple):
    """What the shapes say about a column: whether it has cells other than zero, and on which side of zero."""

    mean: float
    deviation: float
    low: float
    high: float
    clear: bool
    seen: bool


class _Shapes(NamedTuple):
    """Shapes of columns, in units of the lower edge of an octave.

    Shares of the cells by sign and octave, share of zeros, mean and deviation, whether there are values of each sign,
    and whether it is a shape of zeros and ones.
    """

    shares: FloatArray
    zeros: FloatArray
    means: FloatArray
    deviations: FloatArray
    negative: NDArray[np.bool_]
    positive: NDArray[np.bool_]
    of_ones: NDArray[np.bool_]

    @property
    def squares(self) -> FloatArray:
        """Sum of the squared shares of each shape."""
        return np.asarray(np.square(self.shares).sum(axis=1) + np.square(self.zeros))


def _values() -> Iterator[tuple[FloatArray, float, bool]]:
    """Values of each shape other than zeros, the share of zeros, and whether the mirrored values are another shape."""
    normal, exponential = special.ndtri(_LEVELS), -np.log1p(-_LEVELS)
    yield normal, 0.0, False
    for offset in _OFFSETS:
        yield (normal + offset) / max(offset, 1.0), 0.0, True
    for deviation in _LOG_DEVIATIONS:
        yield np.exp(deviation * normal), 0.0, True
    for octaves in _LOG_RANGES:
        yield np.exp2(octaves * (_LEVELS - 1.0)), 0.0, True
    yield _LEVELS, 0.0, True
    yield 2.0 * _LEVELS - 1.0, 0.0, False
    yield exponential, 0.0, True
    for zeros in _ZERO_SHARES:
        yield np.ones(_LEVELS.size), zeros, True
        yield exponential, zeros, True
        yield normal, zeros, False


@functools.cache
def _shapes() -> _Shapes:
    found = []
    for values, zeros, one_sided in _values():
        for sign in (1.0, -1.0) if one_sided else (1.0,):
            for phase in _PHASES:
                x = sign * math.exp2(phase) * values
                octaves = np.floor(np.log2(np.abs(x))).astype(np.intp) + _BELOW
                kept = (octaves >= 0) & (octaves < _WINDOW)
                index = octaves[kept] + _WINDOW * (x[kept] > 0.0)
                shares = np.bincount(index, minlength=2 * _WINDOW) * ((1.0 - zeros) / x.size)
                trimmed = np.clip(x, *np.quantile(x, [_TRIMMED, 1.0 - _TRIMMED]))
                mean, square = (1.0 - zeros) * trimmed.mean(), (1.0 - zeros) * np.square(trimmed).mean()
                deviation = math.sqrt(max(square - mean**2, 0.0))
                of_ones = zeros > 0.0 and bool(np.all(x == 1.0))
                found.append((shares, zeros, mean, deviation, x.min() < 0.0, x.max() > 0.0, of_ones))
    return _Shapes(*(np.array(each) for each in zip(*found, strict=True)))


def fitted_columns(counts: FloatArray, deviations: FloatArray) -> list[FittedColumn]:
    """Mean and deviation of each column from released counts by sign and octave, of shape (d, 2, octaves).

    `deviations` are those of the noise of a count, one for each column.
    """
    log_prior = _log_prior()
    n_cells = _number_of_cells(counts, deviations, log_prior)
    return [_fitted(column, float(noise), n_cells, log_prior) for column, noise in zip(counts, deviations, strict=True)]


def _products(counts: FloatArray) -> FloatArray:
    """Product of the counts of a column with each shape at each place."""
    shapes = _shapes()
    windows = np.lib.stride_tricks.sliding_window_view(counts, _WINDOW, axis=1).transpose(0, 2, 1)
    return np.asarray(shapes.shares @ windows.reshape(2 * _WINDOW, -1) + shapes.zeros[:, None] * counts[1, 0])


def _number_of_cells(counts: FloatArray, deviations: FloatArray, log_prior: FloatArray) -> float:
    """The most likely number of cells, which is about the same in all columns. A shape counts at its best place."""
    least, every = float(deviations.min()), np.arange(len(log_prior))
    products, priors = [], []
    for column, noise in zip(counts, deviations.tolist(), strict=True):
        each = _products(column)
        best = np.argmax(_TYPICAL * least / noise**2 * each + log_prior, axis=1)
        products.append(each[every, best])
        priors.append(log_prior[every, best])
    zeros, precisions = counts[:, 1, 0], 1.0 / np.square(deviations)

    def evidence(n_cells: float) -> float:
        fits = n_cells * precisions[:, None] * (np.array(products) - 0.5 * n_cells * _shapes().squares) + priors
        empty = n_cells * precisions * (zeros - 0.5 * n_cells) + _LOG_EMPTY
        return float(np.logaddexp(special.logsumexp(fits, axis=1), empty).sum())

    return float(max((_NUMBERS * least).tolist(), key=evidence))


def _fitted(counts: FloatArray, noise: float, n_cells: float, log_prior: FloatArray) -> FittedColumn:
    """What the shapes that fit the counts of a column say about it."""
    precision = n_cells / noise**2
    fits = precision * (_products(counts) - 0.5 * n_cells * _shapes().squares[:, None]) + log_prior
    empty = precision * (float(counts[1, 0]) - 0.5 * n_cells) + _LOG_EMPTY
    largest = max(float(fits.max()), empty)
    weights, only_zeros = np.exp(fits - largest), math.exp(empty - largest)
    total = float(weights.sum()) + only_zeros
    return _column(counts / n_cells, noise / n_cells, weights / total, only_zeros / total)


def _log_prior() -> FloatArray:
    """Logarithm of the probability of each shape at each place, before the counts are seen."""
    of_ones = _shapes().of_ones
    places = octave_weights(N_OCTAVES)[_BELOW : N_OCTAVES - _ABOVE + 1]
    prior = np.tile(places / of_ones.size, (of_ones.size, 1))
    prior[of_ones, OCTAVES - _BELOW] += _ONES / of_ones.sum()
    return np.asarray(np.log(prior))


def _column(shares: FloatArray, noise: float, weights: FloatArray, only_zeros: float) -> FittedColumn:
    """Mean and deviation of a column from the weights of shapes by place. Shares and noise are per cell."""
    if only_zeros > 0.5:
        # The deviation of ones among zeros that are just too few to be seen.
        return FittedColumn(0.0, math.sqrt(min(1.0, _UNSEEN * noise)), -1.0, 1.0, clear=False, seen=False)
    shapes = _shapes()
    likely = weights > 1e-4 * weights.max()
    shape, place = np.nonzero(likely)
    weight = weights[likely] / weights[likely].sum()
    unit = np.ldexp(1.0, place + _BELOW - OCTAVES)
    means = shapes.means[shape] * unit
    mean = _quantile(means, weight, 0.5)
    sizes = np.hypot(shapes.deviations[shape] * unit, means - mean)
    deviation = _quantile(sizes, weight, _USUAL)
    agreed = float(weight[(sizes > deviation / _FACTOR) & (sizes < deviation * _FACTOR)].sum())
    if agreed < _KNOWN:
        deviation = _quantile(sizes, weight, _WIDE)
    deviation = math.sqrt(deviation**2 + _beyond(shares, noise, weights, deviation))
    low, high = mean - _REACH * deviation, mean + _REACH * deviation
    if weight @ shapes.negative[shape] < 0.5:
        low = max(low, 0.0)
    if weight @ shapes.positive[shape] < 0.5:
        high = min(high, 0.0)
    return FittedColumn(mean, deviation, low, high, clear=agreed > _CLEAR, seen=True)


def _beyond(shares: FloatArray, noise: float, weights: FloatArray, deviation: float) -> float:
    """Mean square of cells in octaves far out that the shapes do not expect, and that stand out of the noise."""
    sizes = 1.5 * np.ldexp(1.0, np.arange(N_OCTAVES) - OCTAVES)
    by_place = weights.T @ _shapes().shares.reshape(-1, 2, _WINDOW).sum(axis=1)
    expected = np.zeros(N_OCTAVES)
    for octave in range(_WINDOW):
        expected[octave : octave + len(by_place)] += by_place[:, octave]
    excess = shares.sum(axis=0) - expected
    far = (sizes > 2.0 * deviation) & (sizes < _FAR * deviation) & (excess > _EXCESS * math.sqrt(2.0) * noise)
    return float(np.minimum(excess[far], 1.0) @ np.square(sizes[far]))


def _quantile(values: FloatArray, weights: FloatArray, level: float) -> float:
    order = np.argsort(values, kind="stable")
    within = np.cumsum(weights[order])
    return float(values[order][min(int(np.searchsorted(within, level * within[-1])), values.size - 1)])
