"""Private bounds of "auto" columns: a center and a half-range for each, found from noisy counts of cells.

Columns of a regression get a mean and a deviation instead, from the same counts.

There are three stages and two passes over the rows. The first stage counts cells by sign and octave, which gives the
magnitude of a column. The second releases a noisy mean within that magnitude. The first pass adds up the cells of each
octave, so that the mean needs no further pass. The third stage counts cells by sign and size about the mean. The
bounds of a column follow from tails that fit the third histogram, so that few cells lie outside. All columns go through
a stage together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from pais._base.lattice import N_BINS, OCTAVES, IntArray, Lattice, bin_of, edges, modulo, octave_of
from pais._base.numerics import FloatArray
from pais._base.randomness import BitSource
from pais.data.engines.base import Engine, Fold
from pais.data.engines.blocks import Block
from pais.data.kinds import Auto
from pais.mechanisms.noise import NoiseLaw
from pais.planning.facts import NoisyCounts, NormCounts, Stage, SurveyNoise
from pais.planning.tails import Spread

# The constants of this module were set by trial (2662a01, 77121a8, 10fec7f, d8906f5). No table records it;
# tests/theory/test_columns.py checks what the bounds find.

# Of the cells on one side of the mean, at least this share lies within the bound, however few they are.
_LEAST_OF_SIDE = 0.5

# Cells other than zero are not seen if they are fewer than this many standard deviations of the noise of a bin.
_UNSEEN = 4.5

# Bounds are rounded outwards to this many decimal places more than their distance has.
_PLACES = 2

# Bounds are at least this far apart, relative to the larger of them. A column within the second number counts as zero.
_LEAST_RANGE, _NEARLY_ZERO = 1e-9, 2.0**-90

# Shares of the three stages.
_MAGNITUDE_SHARE, _MEAN_SHARE, _SIZE_SHARE = 0.2, 0.1, 0.7

# Steps in the upper edge of an octave, in which its cells are added up, as a power of two.
_STEP_BITS = 24
_STEPS_PER_UNIT = np.ldexp(1.0, _STEP_BITS + OCTAVES - 1 - np.arange(2 * OCTAVES))

# Cells are counted in pieces of this many rows, which stay in the cache from one column to the next.
_PIECE_ROWS = 1 << 13

# The mean is released in steps of at most 2**-_LEAST_BITS of the half-range of the column.
_LEAST_BITS = 4

# Share of the cells beyond each end of the range in which the mean is clipped.
_MEAN_TAIL = 0.02

# Bins per octave of the last histogram, for numbers of cells over the noise of a bin from which they are used.
_BINS_OF_SIZES = ((400.0, 4), (150.0, 2), (0.0, 1))

# Probability that noise alone shows cells where there are none, in any column and stage.
_RISK = 0.002

# Bounds are good if the number of cells is above this many standard deviations of the noise of a bin.
_CLEAR = 50.0


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


@dataclass(frozen=True, kw_only=True, eq=False)
class ColumnBounds(Stage):
    """The bounds of "auto" columns. Finds a `ColumnRange` for each of them, by name.

    `choose` may replace a range by one that is better for what follows.
    """

    name: str = "columns"
    choose: Callable[[str, ColumnRange], ColumnRange] | None = None

    def read(self, engine: Engine, noise: SurveyNoise, bits: BitSource) -> IntArray:
        return octave_totals(engine, _open_positions(engine), seeded=not bits.private)

    def release(
        self, totals: IntArray, engine: Engine, noise: SurveyNoise, bits: BitSource
    ) -> tuple[Engine, dict[str, ColumnRange]]:
        schema = engine.schema
        assert schema is not None
        ranges = column_ranges(totals, engine, _open_positions(engine), noise, bits)
        found = dict(zip(schema.open, ranges, strict=True))
        if self.choose is not None:
            found = {name: self.choose(name, column) for name, column in found.items()}
        columns = []
        for name, one in found.items():
            column = schema[name]
            assert isinstance(column, Auto)
            center, scale = (one.mean, one.deviation) if column.standardized else (one.center, one.scale)
            columns.append(column.resolved(center, scale, one.low, one.high))
        return engine.with_schema(schema.with_columns(columns)), found


def _open_positions(engine: Engine) -> list[int]:
    schema = engine.schema
    assert schema is not None
    return [schema.labels.index(name) for name in schema.open]


def octave_totals(engine: Engine, positions: Sequence[int], *, seeded: bool) -> IntArray:
    """The totals of the first pass, from which `column_ranges` begins. Secret."""
    return np.asarray(engine.fold(_OctaveTotals(positions=tuple(positions)), seeded=seeded))


def column_ranges(
    totals: IntArray, engine: Engine, positions: Sequence[int], noise: SurveyNoise, bits: BitSource
) -> tuple[ColumnRange, ...]:
    """Release bounds for the columns at some positions, each of which holds numbers in its own units.

    `totals` are the `octave_totals` of these columns. A cell that is missing contributes nothing to its column. With
    units, a row with a missing cell contributes nothing.

    Notes
    -----
    Guarantee. The three stages together cost at most `noise`: `tests/theory/test_columns.py`.
    """
    places, d = tuple(positions), len(positions)
    _, first = _sides(totals[..., 0], engine, [1] * d, noise.on_cells(_MAGNITUDE_SHARE, d), bits)
    rough = [_rough_range(sides) for sides in first]
    n_cells = [number_of_cells(sides) for sides in first]
    means = _means(totals, engine, rough, n_cells, noise.on_cells(_MEAN_SHARE, d), bits)
    counts = engine.fold(_CellCounts(positions=places, centers=means), seeded=not bits.private)
    law = noise.on_cells(_SIZE_SHARE, d)
    noisy, estimates = _sides(counts, engine, [_bins_for(number / law.deviation(1)) for number in n_cells], law, bits)
    ranges = []
    for coarse, before, mean, fine, sides in zip(rough, first, means, estimates, noisy, strict=True):
        spread = None
        if any(fine):
            below, above = sides
            spread = Spread(
                center=mean,
                sides=(below, above),
                reach=(max(mean - coarse.low, 0.0), max(coarse.high - mean, 0.0)),
                # Cells of these signs were seen about zero.
                signs=(before[0] is not None, before[1] is not None),
            )
        bounds = settled_range(
            coarse if spread is None else apart(*spread.wide_bounds()),
            clear=number_of_cells(fine) > _CLEAR * law.deviation(1),
            negative=before[0] is not None if spread is None else spread.negative,
            positive=before[1] is not None if spread is None else spread.positive,
        )
        bounds = replace(bounds, spread=spread)
        ranges.append(with_moments(bounds, coarse, before, fine, mean, law.deviation(1)))
    return tuple(ranges)


@dataclass(frozen=True, kw_only=True)
class _CellCounts(Fold):
    """Number of cells of each column by sign and size about a center, or their mass in steps: shape (d, 2, bins)."""

    uses_masses = True

    positions: tuple[int, ...]
    centers: tuple[float, ...]

    def of(self, block: Block) -> IntArray:
        counts = np.zeros((len(self.positions), 2 * N_BINS), dtype=np.int64)
        for column, gap, masses in _gaps(block, self.positions, self.centers):
            # A cell is in one bin of its column. [note: columns-1]
            index = bin_of(np.abs(gap))
            index += N_BINS * (gap >= 0.0)
            counts[column] += _summed(index, masses, 2 * N_BINS)
        return counts.reshape(-1, 2, N_BINS)


@dataclass(frozen=True, kw_only=True)
class _OctaveTotals(Fold):
    """Number of cells of each column by sign and octave, and the sum of their sizes: shape (d, 2, octaves, 2).

    Numbers are in steps of mass. A size is truncated to whole steps of its octave, and at most the octave's upper edge.
    """

    uses_masses = True

    positions: tuple[int, ...]

    def of(self, block: Block) -> IntArray:
        n_octaves = 2 * OCTAVES
        totals = np.zeros((len(self.positions), 2, 2 * n_octaves), dtype=np.int64)
        for column, cell, masses in _gaps(block, self.positions, (0.0,) * len(self.positions)):
            size = np.abs(cell)
            octave = octave_of(size)
            # Factors are powers of two, so that nothing is rounded but the steps.
            steps = size * _STEPS_PER_UNIT.take(octave)
            np.minimum(steps, 2.0**_STEP_BITS, out=steps)  # [note: columns-7]
            if masses is not None:
                steps *= masses * block.mass_step
            octave += n_octaves * (cell >= 0.0)
            totals[column, 0] += _summed(octave, masses, 2 * n_octaves)
            totals[column, 1] += _summed(octave, np.trunc(steps, out=steps), 2 * n_octaves)
        return totals.reshape(-1, 2, 2, n_octaves).transpose(0, 2, 3, 1)


def _summed(index: NDArray[np.intp], numbers: FloatArray | None, length: int) -> IntArray:
    """Sum of the whole numbers at each index, or how often it occurs. Sums below 2**53 are exact."""
    return np.bincount(index, numbers, minlength=length).astype(np.int64, copy=False)


def _gaps(
    block: Block, positions: Sequence[int], centers: Sequence[float]
) -> Iterator[tuple[int, FloatArray, FloatArray | None]]:
    """Yield a column, the finite differences of its cells and the center, and the masses of these rows, in pieces."""
    columns = block.columns()
    # The masses of a unit are those of its complete rows.
    complete = None if block.masses is None else block.finite()  # [note: columns-6]
    for start in range(0, block.n_rows, _PIECE_ROWS):
        piece = slice(start, start + _PIECE_ROWS)
        for number, (position, center) in enumerate(zip(positions, centers, strict=True)):
            gap = np.subtract(columns[position][piece], center, dtype=np.float64)
            present = np.isfinite(gap)
            masses = None
            if complete is not None and block.masses is not None:
                present &= complete[piece]
                masses = block.masses[piece][present].astype(np.float64)
            yield number, gap if present.all() else gap[present], masses


def _sides(
    counts: IntArray, engine: Engine, bins_per_octave: Sequence[int], noise: NoiseLaw, bits: BitSource
) -> tuple[list[list[NoisyCounts]], list[list[NormCounts | None]]]:
    """For each column, the noisy numbers of cells below and above its center, by size, and their estimates.

    An estimate is None if no cells are seen.
    """
    # Merge neighbouring bins before the noise is drawn.
    merged = [
        side.reshape(2 * OCTAVES * bins, -1).sum(axis=1)
        for column, bins in zip(counts, bins_per_octave, strict=True)
        for side in column
    ]
    ends = np.cumsum([side.size for side in merged])
    # A cell counts one; with units, a whole number of steps, which add up to at most one for a unit and a column.
    lattice = Lattice(step=1.0 if engine.unit is None else 2.0**-engine.unit.mass_bits)
    noisy = lattice.decode(noise.added_to(np.concatenate(merged)[:, None], lattice, bits)[:, 0])
    risk = _RISK / (4 * len(counts))
    sides = [
        NoisyCounts(counts=side, bins_per_octave=bins_per_octave[number // 2], noise=noise, risk=risk)
        for number, side in enumerate(np.split(noisy, ends[:-1]))
    ]
    columns = [sides[2 * column : 2 * column + 2] for column in range(len(counts))]
    return columns, [[side.estimate() for side in column] for column in columns]


def _means(
    totals: IntArray,
    engine: Engine,
    ranges: Sequence[ColumnRange],
    n_cells: Sequence[float],
    noise: NoiseLaw,
    bits: BitSource,
) -> tuple[float, ...]:
    """Noisy means of the cells, each clipped to the range of its column, whose ends are widened to octaves."""
    lattice = Lattice(step=min(Lattice.for_scale(noise.scale).step, 2.0**-_LEAST_BITS))
    mass_bits = 0 if engine.unit is None else engine.unit.mass_bits
    ends = [(_octave_end(-column.low), _octave_end(column.high)) for column in ranges]
    total = np.array(
        [modulo(clipped_total(column, end, mass_bits, lattice)) for column, end in zip(totals, ends, strict=True)],
        dtype=np.int64,
    )
    sums = lattice.decode(noise.added_to(total[:, None], lattice, bits)[:, 0])
    shares = np.clip(sums / np.maximum(n_cells, 1.0), -1.0, 1.0).tolist()
    return tuple(
        math.ldexp(high - low + share * (high + low), -OCTAVES) for (low, high), share in zip(ends, shares, strict=True)
    )


def _octave_end(size: float) -> int:
    """The upper edge of the octave of a size, in units of the first octave's; 0 for a size that is not positive."""
    if size <= 0.0:
        return 0
    mantissa, exponent = math.frexp(size)
    exponent -= mantissa == 0.5
    return 1 << min(max(exponent + OCTAVES - 1, 0), 2 * OCTAVES - 1)


def clipped_total(totals: IntArray, ends: tuple[int, int], mass_bits: int, lattice: Lattice) -> int:
    """Sum of the cells of a column, shifted and scaled from [-ends[0], ends[1]] to [-1, 1] and clipped there, in steps.

    `totals` are those of `_OctaveTotals`, and the ends are edges of octaves, or 0. The sum is computed in whole numbers
    of any size and rounded once.
    """
    size, center = sum(ends), ends[1] - ends[0]
    total = 0
    for sign, end, side in zip((-1, 1), ends, totals, strict=True):
        for octave in np.flatnonzero(side[:, 0]).tolist():
            count, steps = side[octave].tolist()
            # In units of size * 2**(_STEP_BITS + mass_bits).
            if 1 << octave <= end:
                total += (sign * steps << octave + mass_bits + 1) - (center * count << _STEP_BITS)
            else:
                total += sign * size * count << _STEP_BITS  # [note: columns-5]
    # The half-range is a whole number of steps, so rounding does not let a cell change the sum by more.
    return total * round(1.0 / lattice.step) // (size << _STEP_BITS + mass_bits)  # [note: columns-8]


def _bins_for(signal: float) -> int:
    """Bins per octave of the last histogram, for the number of cells over its noise. Fewer bins have less noise."""
    return next(bins for least, bins in _BINS_OF_SIZES if signal >= least)


def _short(number: float) -> float:
    """A number without the digits that are rounding errors."""
    return float(f"{number:.14g}")


def number_of_cells(sides: Sequence[NormCounts | None]) -> float:
    return sum(side.n_rows for side in sides if side is not None)


def _rough_range(sides: Sequence[NormCounts | None]) -> ColumnRange:
    """Bounds about zero with a small share of the cells beyond each."""
    if not any(sides):
        return ColumnRange(seen=False)
    rows = _MEAN_TAIL * number_of_cells(sides)
    below, above = (0.0 if side is None else _end(side, rows) for side in sides)
    return apart(0.0 - below, above)


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
    # Half of the range of the cells, but not of zeros if no zeros were seen; 1 if nothing but zeros was seen.
    reach = coarse.scale
    if not coarse.seen or reach < _NEARLY_ZERO:
        reach = 1.0
    elif None in octaves:
        # Without cells on the other side of zero, the smallest cells seen are the other end.
        seen = next(side for side in octaves if side is not None)
        reach -= 0.5 * float(edges()[:: N_BINS // seen.counts.size][np.argmax(seen.counts > 0.0)])
    least = reach * math.sqrt(min(1.0, _UNSEEN * noise / n_cells))
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
