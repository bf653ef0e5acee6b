"""Bounds, mean and deviation of a column, from released counts of its cells. All of it is post-processing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from pais._base.octaves import N_BINS, edges
from pais.planning.norm_counts import NormCounts
from pais.planning.spread import Spread

# Of the cells on one side of the mean, at least this share lies within the bound, however few they are.
_LEAST_OF_SIDE = 0.5

# Cells other than zero are not seen if they are fewer than this many standard deviations of the noise of a bin.
_UNSEEN = 4.5

# Bounds are rounded outwards to this many decimal places more than their distance has.
_PLACES = 2

# Bounds are at least this far apart, relative to the larger of them. A column within the second number counts as zero.
_LEAST_RANGE, _NEARLY_ZERO = 1e-9, 2.0**-90


@dataclass(frozen=True, kw_only=True)
class ColumnRange:
    """Released bounds of a column, and its mean and deviation.

    The bounds are -1 and 1 if nothing but zeros is `seen` above the noise. They are `clear` if many cells are. The
    deviation is then that of ones among zeros, which are just too few to be seen. The `spread` tells what lies beyond
    other bounds.
    """

    low: float = -1.0
    high: float = 1.0
    seen: bool = True
    clear: bool = True
    mean: float = 0.0
    deviation: float = 1.0
    spread: Spread | None = field(default=None, compare=False, repr=False)

    @property
    def is_skewed(self) -> bool:
        """Whether far values decide the variance of the column, as far as the counts tell."""
        return self.spread is not None and self.spread.is_skewed(self.low, self.high, self.deviation**2)

    @property
    def center(self) -> float:
        return _short(0.5 * self.low + 0.5 * self.high)

    @property
    def scale(self) -> float:
        return _short(0.5 * self.high - 0.5 * self.low)


def _short(number: float) -> float:
    """A number without the digits that are rounding errors."""
    return float(f"{number:.14g}")


def number_of_cells(sides: Sequence[NormCounts | None]) -> float:
    return sum(side.n_rows for side in sides if side is not None)


def range_of(sides: Sequence[NormCounts | None], center: float, tail: float) -> ColumnRange:
    """Bounds with a share `tail` of the cells beyond each."""
    below, above = sides
    if below is None and above is None:
        return ColumnRange(seen=False)
    rows = tail * number_of_cells(sides)
    low = center if below is None else center - _end(below, rows)
    high = center if above is None else center + _end(above, rows)
    return apart(low, high)


def _end(side: NormCounts, rows: float) -> float:
    """The size beyond which a number of rows lies, but at most half of the rows."""
    rows = min(rows, _LEAST_OF_SIDE * side.n_rows)
    points = edges()[:: N_BINS // side.counts.size]
    outwards = np.append(np.cumsum(side.counts[::-1])[::-1], 0.0)
    at = int(np.flatnonzero(outwards > rows)[-1])
    within = (outwards[at] - rows) / (outwards[at] - outwards[at + 1])
    return float(points[at] + within * (points[at + 1] - points[at]))


def with_moments(
    bounds: ColumnRange,
    coarse: ColumnRange,
    octaves: Sequence[NormCounts | None],
    sides: Sequence[NormCounts | None],
    center: float,
    noise: float,
) -> ColumnRange:
    """Bounds with the mean and the deviation of the cells, from their counts by sign and size about a center.

    The deviation is at least that of cells which lie apart by the reach of the column, and are just too few to be seen.
    So rare values are not blown up.
    """
    n_cells = max(number_of_cells(sides), 1.0)
    least = _reach(coarse, octaves) * math.sqrt(min(1.0, _UNSEEN * noise / n_cells))
    if not bounds.seen:
        return replace(bounds, deviation=_short(least))
    if not any(sides):
        return replace(bounds, mean=bounds.center, deviation=0.5 * bounds.scale)
    total = np.zeros(2)
    for sign, side in zip((-1.0, 1.0), sides, strict=True):
        if side is not None:
            points = edges()[:: N_BINS // side.counts.size]
            low, high = points[:-1], points[1:]
            # Cells are spread evenly over their bin.
            total += side.counts @ np.column_stack([0.5 * sign * (low + high), (low**2 + low * high + high**2) / 3.0])
    shift, square = total / n_cells
    smallest = _LEAST_RANGE * max(abs(bounds.low), abs(bounds.high))
    deviation = max(math.sqrt(max(square - shift**2, 0.0)), least, smallest)
    return replace(bounds, mean=_short(center + shift), deviation=_short(deviation))


def _reach(coarse: ColumnRange, octaves: Sequence[NormCounts | None]) -> float:
    """Half of the range of the cells, but not of zeros if no zeros were seen; 1 if nothing but zeros was seen."""
    if not coarse.seen or coarse.scale < _NEARLY_ZERO:
        return 1.0
    # Without cells on the other side of zero, the smallest cells seen are the other end.
    smallest = [float(edges()[:: N_BINS // side.counts.size][np.argmax(side.counts > 0.0)]) for side in octaves if side]
    return coarse.scale if len(smallest) == 2 else coarse.scale - 0.5 * smallest[0]


def apart(low: float, high: float) -> ColumnRange:
    """A range whose ends are not too close to each other."""
    least = _LEAST_RANGE * max(abs(low), abs(high), _NEARLY_ZERO)
    missing = max(0.0, least - (high - low))
    return ColumnRange(low=low - 0.5 * missing, high=high + 0.5 * missing)


def settled_range(column: ColumnRange, *, clear: bool, negative: bool, positive: bool) -> ColumnRange:
    """Rounded bounds. They end at zero if no cells of that sign were seen."""
    if not column.seen or max(abs(column.low), abs(column.high)) < _NEARLY_ZERO:
        return ColumnRange(seen=False, clear=False)
    places = _PLACES - math.floor(math.log10(column.high - column.low))
    step = 10.0**-places
    low = round(math.floor(column.low / step) * step, places)
    high = round(math.ceil(column.high / step) * step, places)
    if not negative and low < 0.0 < high:
        low = 0.0
    if not positive and low < 0.0 < high:
        high = 0.0
    return ColumnRange(low=low, high=high, clear=clear)
