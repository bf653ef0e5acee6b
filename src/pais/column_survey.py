"""Private bounds of "auto" columns: a center and a half-range for each, found from noisy counts of cells.

Columns of a regression get a mean and a deviation instead, from the same counts.

Three stages read all rows. The first counts cells by sign and octave, which gives the magnitude of a column. The second
releases a noisy mean within that magnitude. The third counts cells by sign and size about the mean. The bounds of a
column are quantiles of the third histogram, so that few cells lie outside. All columns go through a stage together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pais._base.lattice import IntArray, Lattice
from pais._base.numerics import FloatArray
from pais._base.octaves import N_BINS, OCTAVES, bin_of, edges
from pais._base.randomness import BitSource
from pais.data.engines import Block, Engine, Fold
from pais.data.kinds import Column
from pais.data.scales import Auto
from pais.mechanisms import NoiseLaw
from pais.planning.norm_counts import NoisyCounts, NormCounts
from pais.planning.survey_noise import SurveyNoise

# Shares of the three stages.
_MAGNITUDE_SHARE, _MEAN_SHARE, _SIZE_SHARE = 0.2, 0.1, 0.7

# Share of the cells beyond each bound, and beyond each end of the range in which the mean is clipped.
_TAIL, _MEAN_TAIL = 0.005, 0.02

# Of the cells on one side of the mean, at least this share lies within the bound, however few they are.
_LEAST_OF_SIDE = 0.5

# Bins per octave of the last histogram, for numbers of cells over the noise of a bin from which they are used.
_BINS_OF_SIZES = ((400.0, 4), (150.0, 2), (0.0, 1))

# Probability that noise alone shows cells where there are none, in any column and stage.
_RISK = 0.002

# Bounds are good if the number of cells is above this many standard deviations of the noise of a bin.
_CLEAR = 50.0

# A tail with fewer cells than this many standard deviations of the noise of a bin may be noise.
_LEAST_TAIL = 5.0

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
    deviation is then that of ones among zeros, which are just too few to be seen.
    """

    low: float = -1.0
    high: float = 1.0
    seen: bool = True
    clear: bool = True
    mean: float = 0.0
    deviation: float = 1.0

    @property
    def center(self) -> float:
        return _short(0.5 * self.low + 0.5 * self.high)

    @property
    def scale(self) -> float:
        return _short(0.5 * self.high - 0.5 * self.low)


def column_ranges(
    engine: Engine, positions: Sequence[int], noise: SurveyNoise, bits: BitSource
) -> tuple[ColumnRange, ...]:
    """Release bounds for the columns at some positions, each of which holds numbers in its own units.

    A cell that is missing contributes nothing to its column. With units, a row with a missing cell contributes nothing.

    Notes
    -----
    Guarantee. The three stages together cost at most `noise`: `tests/theory/test_columns.py`.
    """
    places, d = tuple(positions), len(positions)
    first = _sides(engine, places, (0.0,) * d, [1] * d, noise.on_cells(_MAGNITUDE_SHARE, d), bits)
    rough = [_range(sides, 0.0, _MEAN_TAIL) for sides in first]
    means = _means(engine, places, rough, [_n_cells(sides) for sides in first], noise.on_cells(_MEAN_SHARE, d), bits)
    law = noise.on_cells(_SIZE_SHARE, d)
    last = _sides(engine, places, means, [_bins_for(_n_cells(sides) / law.deviation(1)) for sides in first], law, bits)
    unsure = _LEAST_TAIL * law.deviation(1)
    ranges = []
    for coarse, before, mean, fine in zip(rough, first, means, last, strict=True):
        bounds = _settled(
            coarse if not any(fine) else _range(fine, mean, _TAIL, unsure),
            clear=_n_cells(fine) > _CLEAR * law.deviation(1),
            negative=before[0] is not None,
            positive=before[1] is not None,
        )
        ranges.append(_with_moments(bounds, before, fine, mean, law.deviation(1)))
    return tuple(ranges)


def with_bounds(engine: Engine, noise: SurveyNoise, bits: BitSource) -> tuple[Engine, SurveyNoise, tuple[str, ...]]:
    """Release bounds for the open columns of a source.

    Returns the source with the bounds in its schema, the noise that is left for norms and center, and the names of the
    columns whose bounds are not clear.
    """
    schema = engine.schema
    if schema is None or not schema.open:
        return engine, noise, ()
    positions = [schema.labels.index(name) for name in schema.open]
    share = noise.columns_share
    ranges = dict(zip(schema.open, column_ranges(engine, positions, noise.part(share), bits), strict=True))
    resolved = schema.with_columns(_resolved(schema[name], column) for name, column in ranges.items())
    unclear = tuple(name for name, column in ranges.items() if not column.clear)
    return engine.with_schema(resolved), noise.part(1.0 - share), unclear


def _resolved(column: Column, found: ColumnRange) -> Column:
    """The column with its bounds, or with mean and deviation if it is standardized."""
    assert isinstance(column, Auto)
    center, scale = (found.mean, found.deviation) if column.standardized else (found.center, found.scale)
    return column.resolved(center, scale, found.low, found.high)


@dataclass(frozen=True, kw_only=True)
class _CellCounts(Fold):
    """Number of cells of each column by sign and size about a center, or their mass in steps: shape (d, 2, bins)."""

    uses_masses = True

    positions: tuple[int, ...]
    centers: tuple[float, ...]

    def of(self, block: Block) -> IntArray:
        counts = np.zeros((len(self.positions), 2 * N_BINS), dtype=np.int64)
        for column, (gap, masses) in enumerate(_gaps(block, self.positions, self.centers)):
            # A cell is in one bin of its column. [note: columns-1]
            index = bin_of(np.abs(gap)) + np.where(gap < 0.0, 0, N_BINS)
            # Sums of integers below 2**53, which are exact.
            counts[column] = np.bincount(index, masses, minlength=2 * N_BINS)
        return counts.reshape(-1, 2, N_BINS)


@dataclass(frozen=True, kw_only=True)
class _CellSums(Fold):
    """Sum of the cells of each column, shifted and scaled to [-1, 1] and clipped there, in whole steps."""

    uses_masses = True

    positions: tuple[int, ...]
    centers: tuple[float, ...]
    scales: tuple[float, ...]
    mass_step: float
    lattice: Lattice

    def of(self, block: Block) -> IntArray:
        total = np.zeros(len(self.positions), dtype=np.int64)
        for column, (gap, masses) in enumerate(_gaps(block, self.positions, self.centers)):
            share = np.clip(gap / self.scales[column], -1.0, 1.0)  # [note: columns-5]
            if masses is not None:
                share *= masses * self.mass_step
            total[column] = self.lattice.encode(share).sum()
        return total


def _gaps(
    block: Block, positions: Sequence[int], centers: Sequence[float]
) -> Sequence[tuple[FloatArray, FloatArray | None]]:
    """For each column, the finite differences of its cells and the center, and the masses of these rows."""
    columns, gaps = block.columns(), []
    # The masses of a unit are those of its complete rows.
    complete = None if block.masses is None else block.finite()  # [note: columns-6]
    for position, center in zip(positions, centers, strict=True):
        gap = columns[position].astype(np.float64) - center
        present = np.isfinite(gap) if complete is None else complete & np.isfinite(gap)
        masses = None if block.masses is None else block.masses[present].astype(np.float64)
        gaps.append((gap[present], masses))
    return gaps


def _sides(
    engine: Engine,
    positions: tuple[int, ...],
    centers: tuple[float, ...],
    bins_per_octave: Sequence[int],
    noise: NoiseLaw,
    bits: BitSource,
) -> list[list[NormCounts | None]]:
    """For each column, the estimated numbers of cells below and above its center, by size; None if none are seen."""
    counts = engine.fold(_CellCounts(positions=positions, centers=centers), seeded=not bits.private)
    # Merge neighbouring bins before the noise is drawn.
    merged = [
        side.reshape(2 * OCTAVES * bins, -1).sum(axis=1)
        for column, bins in zip(counts, bins_per_octave, strict=True)
        for side in column
    ]
    ends = np.cumsum([side.size for side in merged])
    lattice = Lattice(step=_mass_step(engine))
    noisy = lattice.decode(np.concatenate(merged) + noise.draw_steps((int(ends[-1]), 1), lattice, bits)[:, 0])
    risk = _RISK / (4 * len(positions))
    sides = [
        NoisyCounts(counts=side, bins_per_octave=bins_per_octave[number // 2], noise=noise, risk=risk).estimate()
        for number, side in enumerate(np.split(noisy, ends[:-1]))
    ]
    return [sides[2 * column : 2 * column + 2] for column in range(len(positions))]


def _means(
    engine: Engine,
    positions: tuple[int, ...],
    ranges: Sequence[ColumnRange],
    n_cells: Sequence[float],
    noise: NoiseLaw,
    bits: BitSource,
) -> tuple[float, ...]:
    """Noisy means of the cells, each clipped to the range of its column."""
    lattice = Lattice.for_scale(noise.scale)
    fold = _CellSums(
        positions=positions,
        centers=tuple(column.center for column in ranges),
        scales=tuple(column.scale for column in ranges),
        mass_step=_mass_step(engine),
        lattice=lattice,
    )
    total = engine.fold(fold, seeded=not bits.private)
    sums = lattice.decode(total + noise.draw_steps((total.size, 1), lattice, bits)[:, 0])
    shares = np.clip(sums / np.maximum(n_cells, 1.0), -1.0, 1.0).tolist()
    return tuple(column.center + share * column.scale for column, share in zip(ranges, shares, strict=True))


def _mass_step(engine: Engine) -> float:
    """A cell counts one; with units, a whole number of steps, which add up to at most one for a unit and a column."""
    return 1.0 if engine.unit is None else 2.0**-engine.unit.mass_bits


def _short(number: float) -> float:
    """A number without the digits that are rounding errors."""
    return float(f"{number:.14g}")


def _n_cells(sides: Sequence[NormCounts | None]) -> float:
    return sum(side.n_rows for side in sides if side is not None)


def _bins_for(signal: float) -> int:
    """Bins per octave of the last histogram, for the number of cells over its noise. Fewer bins have less noise."""
    return next(bins for least, bins in _BINS_OF_SIZES if signal >= least)


def _range(sides: Sequence[NormCounts | None], center: float, tail: float, unsure: float = 0.0) -> ColumnRange:
    """Bounds with a share `tail` of the cells beyond each. Up to `unsure` cells in a tail may be noise."""
    below, above = sides
    if below is None and above is None:
        return ColumnRange(seen=False)
    rows = tail * _n_cells(sides)
    low = center if below is None else center - _end(below, rows, unsure)
    high = center if above is None else center + _end(above, rows, unsure)
    return _apart(low, high)


def _end(side: NormCounts, rows: float, unsure: float) -> float:
    """The size beyond which a number of rows lies, but at most half of the rows.

    If so few rows may be noise, the size is that of a longer tail, times a factor that holds for normal values.
    """
    half = _LEAST_OF_SIDE * side.n_rows
    rows, sure = min(rows, half), min(max(rows, unsure), half)
    points = edges()[:: N_BINS // side.counts.size]
    outwards = np.append(np.cumsum(side.counts[::-1])[::-1], 0.0)
    at = int(np.flatnonzero(outwards > sure)[-1])
    within = (outwards[at] - sure) / (outwards[at] - outwards[at + 1])
    size = float(points[at] + within * (points[at + 1] - points[at]))
    return size * math.sqrt(math.log(side.n_rows / rows) / math.log(side.n_rows / sure))


def _with_moments(
    bounds: ColumnRange,
    octaves: Sequence[NormCounts | None],
    sides: Sequence[NormCounts | None],
    center: float,
    noise: float,
) -> ColumnRange:
    """Bounds with the mean and the deviation of the cells, from their counts by sign and size about a center.

    The deviation is at least that of cells which lie apart by the reach of the column, and are just too few to be seen.
    So rare values are not blown up.
    """
    n_cells = max(_n_cells(sides), 1.0)
    least = _reach(octaves) * math.sqrt(min(1.0, _UNSEEN * noise / n_cells))
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


def _reach(octaves: Sequence[NormCounts | None]) -> float:
    """Half of the range of the cells, but not of zeros if no zeros were seen; 1 if nothing but zeros was seen."""
    coarse = _range(octaves, 0.0, _MEAN_TAIL)
    if not coarse.seen or coarse.scale < _NEARLY_ZERO:
        return 1.0
    # Without cells on the other side of zero, the smallest cells seen are the other end.
    smallest = [float(edges()[:: N_BINS // side.counts.size][np.argmax(side.counts > 0.0)]) for side in octaves if side]
    return coarse.scale if len(smallest) == 2 else coarse.scale - 0.5 * smallest[0]


def _apart(low: float, high: float) -> ColumnRange:
    """A range whose ends are not too close to each other."""
    least = _LEAST_RANGE * max(abs(low), abs(high), _NEARLY_ZERO)
    missing = max(0.0, least - (high - low))
    return ColumnRange(low=low - 0.5 * missing, high=high + 0.5 * missing)


def _settled(column: ColumnRange, *, clear: bool, negative: bool, positive: bool) -> ColumnRange:
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
