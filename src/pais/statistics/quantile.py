"""Private quantiles of columns, for all rows or for groups: selection, mechanism, settings and result."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, NamedTuple

import mpmath as mp
import numpy as np
from numpy.typing import NDArray

from pais._base import files, validate
from pais._base.files import stored
from pais._base.lattice import IntArray, Lattice, Tails, current_tape, rounded_noise
from pais._base.numerics import FloatArray, exact
from pais._base.randomness import BitSource, RandomState
from pais.accounting.certificate import Release
from pais.accounting.ledger import Ledger
from pais.accounting.part import Part
from pais.data.ball import Ball
from pais.data.cells import listed
from pais.data.columns import Missing
from pais.data.engines.base import AllRows, Engine, WeightedRows
from pais.data.kinds import Auto
from pais.data.schema import Schema
from pais.data.units import Unit
from pais.errors import ArgumentError, QualityWarning
from pais.mechanisms.base import Extent, Mechanism
from pais.mechanisms.blocks import Levels, grouped, present
from pais.mechanisms.noise import GeometricNoise
from pais.planning.column_survey import ColumnBounds
from pais.planning.facts import Findings, Stage, Stages
from pais.planning.names import NameStage
from pais.planning.plan import Plan
from pais.privacy.profiles import LinearProfile
from pais.privacy.rules import Rule, UniformRule
from pais.statistics.found import names_cautions, names_notes
from pais.statistics.result import Statistic, Texts
from pais.statistics.settings import DEFAULT_DELTA, TableSettings, about_rows, require_delta, unclear_cautions
from pais.statistics.table import Axis, By, Caution, Fields, combined
from pais.statistics.uncertainty import clipping_in_words, lost_cautions

# An exponential variable of this scale, whatever its bits, stays below 2**62 steps but for a chance of exp(-256).
_LARGEST_SCALE = 2.0**54


@dataclass(frozen=True, kw_only=True)
class _Exponential:
    """An exponential variable minus half a step, so that rounding to the nearest step rounds the variable down."""

    scale: float

    def n_uniforms(self, d: int) -> int:
        return d

    def evaluate(self, tails: Tails) -> tuple[FloatArray, FloatArray]:
        size = -np.log(2.0 * tails.values())
        half = 0.5 / self.scale
        return size - half, 2.0 * tails.spread() + 2.0**-49 * (1.0 + size + half)

    def evaluate_exactly(self, tails: list[mp.mpf], signs: list[float]) -> list[mp.mpf]:
        half = 1 / (2 * mp.mpf(self.scale))
        return [-mp.log(2 * tail) - half for tail in tails]


def selection_scale(spread: int, epsilon: Fraction) -> float:
    """Scale at which a selection costs at most epsilon, if a record changes no two scores by more than `spread` apart.

    Raises if the scale is too large for 64-bit integers. All numbers are public.
    """
    quotient = Fraction(spread) / epsilon
    scale = float(quotient)
    if Fraction(scale) < quotient:
        scale = math.nextafter(scale, math.inf)  # [note: quantile-2]
    if scale > _LARGEST_SCALE:
        raise ArgumentError(f"epsilon={float(epsilon):.3g} is too small for 64-bit scores. Increase epsilon.")
    return scale


# Unless the first 15 bits of its tail are all 0, an exponential variable is at most log(2**15), which is below this.
_FAR = 11.0


def permute_and_flip(scores: IntArray, scale: float, bits: BitSource) -> int:
    """Choose a candidate: each one below the best by g steps is accepted with probability exp(-g / scale).

    One of the accepted candidates is drawn at random, all with the same probability. The best are always accepted.

    Notes
    -----
    Guarantee. If the scores of two tables differ by numbers of which no two are more than s apart, the probabilities
    of any choice differ by a factor of at most exp(s / scale): `tests/theory/test_quantile.py`.
    """
    gaps = scores.max() - scores
    first = np.frombuffer(bits.raw(2 * gaps.size), dtype=np.uint16)
    # All others are rejected, whatever their further bits are.
    near = np.flatnonzero((gaps <= _FAR * scale) | (first << 1 == 0))  # [note: quantile-7]
    words = first[near].astype(np.uint64) << np.uint64(48) | bits.words64(near.size) >> np.uint64(16)
    law, tails = _Exponential(scale=scale), Tails(raw=words[:, None])
    steps = rounded_noise(law, (near.size, 1), scale, bits, tails=tails)[:, 0]
    accepted = near[steps >= gaps[near]]  # [note: quantile-1]
    choice = int(accepted[uniform_below(accepted.size, bits)])
    tape = current_tape()
    return choice if tape is None else tape.chosen(scores, choice, scale=scale)


def uniform_below(n: int, bits: BitSource) -> int:
    """A whole number in [0, n), each with exactly the same probability."""
    while True:
        # Words at or above the largest multiple of n are drawn again, so that no number is favoured.
        word = int(bits.words64(1)[0])
        if word < 2**64 - 2**64 % n:
            return word % n


# Share of the price for the noisy counts from which intervals follow, and, if quantiles divide the rows, for the share
# of the rows at a point that goes to either side. Chosen by eye (4e00d50).
_COUNTS_SHARE, _DIVISION_SHARE = Fraction(1, 10), Fraction(1, 10)

# Share of epsilon for groups that nobody listed. Chosen by eye: half as much finds a third fewer names in Zipf tables
# of 10,000 rows, and one and a half times as much finds up to a third more, for errors that are larger by a seventh.
_NAMES_SHARE = 0.2

# The rows at a point are divided in this many parts.
_PARTS = 1024

# A value this close to a point, in steps, is at the point.
_NEAR = 1e-6

# Levels are fractions with denominators up to this, so that scores are whole numbers.
_LARGEST_DENOMINATOR = 1000

# Scores further below the best than this are equal. They are never chosen in practice.
_LOWEST = 2**61


@stored("grid", "even")
@dataclass(frozen=True, kw_only=True)
class Grid:
    """The values that a quantile of a column can have: multiples of a step within the bounds of the column. Public.

    Attributes
    ----------
    column : int
        Position of the column among the coordinates of a row.
    center, scale : float
        A coordinate u, in [-1, 1], stands for the value center + scale * u.
    step : float
        Distance of neighbouring values.
    first : float
        The first value, divided by the step.
    n_points : int
        Number of values.
    """

    column: int
    center: float
    scale: float
    step: float
    first: float
    n_points: int

    def __post_init__(self) -> None:
        validate.stored_fields(self)

    @classmethod
    def over(cls, column: int, center: float, scale: float, *, most_points: int, step: float | None = None) -> Grid:
        """The grid with a stated step, or with the smallest step 1, 2 or 5 times a power of ten for so many points."""
        if step is None:
            least = 2.0 * scale / (most_points - 2)
            power = 10.0 ** math.floor(math.log10(least))
            step = next(factor * power for factor in (1.0, 2.0, 5.0, 10.0) if factor * power >= least)
        first, last = math.floor((center - scale) / step), math.ceil((center + scale) / step)
        if last - first >= 8 * most_points:
            raise ArgumentError(f"step={step:g} gives more than {8 * most_points} values. Pass a larger step.")
        return cls(column=column, center=center, scale=scale, step=step, first=float(first), n_points=last - first + 1)

    def to_dict(self) -> dict[str, Any]:
        """Public description of the grid, for certificates and files."""
        return files.to_dict(self, "grid")

    @property
    def n_cells(self) -> int:
        return 2 * self.n_points - 1

    def cells(self, coordinates: FloatArray) -> IntArray:
        """Numbers of cells: even for values at a point of the grid, odd for values between two points."""
        place = (self.center + self.scale * coordinates) / self.step - self.first
        nearest = np.rint(place)
        # Decoding has errors of a few ulps.
        cell = np.where(np.abs(place - nearest) <= _NEAR, 2.0 * nearest, 2.0 * np.floor(place) + 1.0)
        return np.clip(cell, 0, self.n_cells - 1).astype(np.int64)

    def values(self, points: IntArray) -> FloatArray:
        """The values of points of the grid, within the bounds."""
        places = 15 - math.ceil(math.log10(max(abs(self.center) + self.scale, self.step)))
        values = [float(f"{value:.{max(places, 0)}f}") for value in ((self.first + points) * self.step).flat]
        low, high = self.center - self.scale, self.center + self.scale
        return np.asarray(np.clip(np.array(values).reshape(points.shape), low, high))


@dataclass(frozen=True, kw_only=True)
class QuantileValue:
    """Released quantiles and the noisy counts around them. They are protected and may be published.

    Attributes
    ----------
    values : array of shape (groups, columns, levels)
        The quantiles, in own units.
    edges, noisy_counts : tuple of array
        For each group and column: the cells at which bins begin or end, and the noisy number of rows in each bin.
    """

    values: FloatArray
    edges: tuple[IntArray, ...]
    noisy_counts: tuple[FloatArray, ...]


@stored("mechanism", "quantiles")
@dataclass(frozen=True, kw_only=True)
class GridQuantiles(Mechanism):
    """Quantiles of several columns, for each group of rows, with pure epsilon.

    Parameters
    ----------
    epsilon : float
        Price of everything that is released.
    levels : tuple of float
        Levels of the quantiles, in (0, 1), in increasing order.
    grids : tuple of Grid
        One grid for each column.
    by : tuple of Levels
        Columns whose categories divide the rows into groups. A row whose category is unknown adds nothing.
    step : float
        Weights are truncated to multiples of this power of two: 1 for rows, the step of the masses for units.

    Notes
    -----
    Guarantee. The release costs `epsilon` for a record of weight 1, and w times as much for weight w, for any number
    of groups: `tests/theory/test_quantile.py`.
    """

    epsilon: float
    levels: tuple[float, ...]
    grids: tuple[Grid, ...]
    by: tuple[Levels, ...] = ()
    step: float = 1.0
    name = "quantiles"
    protects_units = True
    streams = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", validate.target_epsilon(self.epsilon))
        for name in ("levels", "grids", "by"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        inside = all(0.0 < level < 1.0 for level in self.levels)
        if not self.levels or not inside or list(self.levels) != sorted(set(self.levels)):
            raise ArgumentError("levels must be increasing numbers between 0 and 1. Pass at least one.")
        if not self.grids:
            raise ArgumentError("grids is empty. Pass a grid for at least one column.")
        object.__setattr__(self, "step", validate.positive("step", self.step))
        if self.step > 1.0 or math.frexp(self.step)[0] != 0.5:
            raise ArgumentError(f"step={self.step!r} must be a power of two, at most 1. Use 1 for rows.")
        for node in self._nodes:
            self._scale(node.level, node.price)  # Raises if epsilon is too small.

    @property
    def profile(self) -> LinearProfile:
        return LinearProfile(float(self.epsilon), 0.0)

    @property
    def order(self) -> None:
        return None

    @property
    def exact_price(self) -> Fraction:
        """Epsilon of a record of weight 1, in binary and in decimal form not above the stated one."""
        return min(Fraction(self.epsilon), exact(self.epsilon))

    @property
    def n_groups(self) -> int:
        return math.prod(column.n_levels for column in self.by)

    @property
    def count_noise(self) -> GeometricNoise:
        """Noise of the counts around the quantiles."""
        price = self.exact_price / len(self.grids) * _COUNTS_SHARE
        return GeometricNoise(scale=selection_scale(1, price), step=self.step)

    @cached_property
    def _nodes(self) -> list[_Node]:
        """The order in which quantiles are chosen: the one in the middle first, then those on either side."""
        # The rows of a part are those of one node on each level of the tree.
        depth = len(self.levels).bit_length()
        price = self.exact_price / len(self.grids) * (1 - _COUNTS_SHARE) / depth  # [note: quantile-6]
        points = [Fraction(0), *map(exact, self.levels), Fraction(1)]
        nodes = []
        for below, at, above, turn in _tree(0, len(self.levels)):
            share = (points[at + 1] - points[below]) / (points[above + 1] - points[below])
            level = share.limit_denominator(_LARGEST_DENOMINATOR)
            level = min(max(level, Fraction(1, _LARGEST_DENOMINATOR)), 1 - Fraction(1, _LARGEST_DENOMINATOR))
            if above - below == 1:
                nodes.append(_Node(below, at, above, level, price * (depth - turn), Fraction(0)))
            else:
                division = price * _DIVISION_SHARE
                nodes.append(_Node(below, at, above, level, price - division, division))
        return nodes

    def require_lattice(self, extent: Extent) -> None:
        Lattice(step=self.step).require(extent.weight)

    def add(self, rows: FloatArray, weights: FloatArray) -> IntArray:
        """Number of rows in each cell of each grid, for each group, in steps."""
        group, whole = grouped(rows, Lattice(step=self.step).encode(weights), self.by)
        totals = []
        for grid in self.grids:
            coordinates, steps = present(rows[:, grid.column], whole)
            total = np.zeros(self.n_groups * grid.n_cells, dtype=np.int64)
            np.add.at(total, group * grid.n_cells + grid.cells(coordinates), steps)  # [note: quantile-3]
            totals.append(total)
        return np.concatenate(totals)

    def exact_epsilon(self, ball: Ball) -> Fraction | None:
        return self.exact_price

    def measure(self, content: WeightedRows | AllRows, ball: Ball, bits: BitSource) -> QuantileValue:
        ends = np.cumsum([self.n_groups * grid.n_cells for grid in self.grids])[:-1]
        totals = [total.reshape(self.n_groups, -1) for total in np.split(content.total(self.add), ends)]
        values = np.empty((self.n_groups, len(self.grids), len(self.levels)))
        edges, counts = [], []
        for group in range(self.n_groups):
            for column, grid in enumerate(self.grids):
                points = self._chosen(totals[column][group], bits)
                values[group, column] = grid.values(points)
                edges.append(_edges_about(points, grid.n_points))
                counts.append(self._noisy(totals[column][group], edges[-1], bits))
        return QuantileValue(values=values, edges=tuple(edges), noisy_counts=tuple(counts))

    def in_rows(self, value: Any, max_rows: int) -> Any:
        return replace(value, noisy_counts=tuple(counts * max_rows for counts in value.noisy_counts))

    def _noisy(self, counts: IntArray, edges: IntArray, bits: BitSource) -> FloatArray:
        lattice = Lattice(step=self.step)
        bins = np.add.reduceat(counts, edges[:-1])
        return lattice.decode(self.count_noise.added_to(bins[:, None], lattice, bits)[:, 0])

    def _chosen(self, counts: IntArray, bits: BitSource) -> IntArray:
        """The points of all quantiles. The one in the middle divides the rows; the others follow on either side."""
        points = np.empty(len(self.levels), dtype=np.int64)
        parts = {(0, len(self.levels)): (0, counts)}
        for node in self._nodes:
            start, part = parts.pop((node.below, node.above))
            point = permute_and_flip(-_gaps(part, node.level), self._scale(node.level, node.price), bits)
            points[node.at] = start + point
            if node.division:
                left, cell = self._division(part, 2 * point, node, bits), 2 * point
                lower, upper = part[: cell + 1].copy(), part[cell:].copy()
                lower[-1], upper[0] = left, part[cell] - left  # [note: quantile-5]
                parts[node.below, node.at] = (start, lower)
                parts[node.at + 1, node.above] = (start + point, upper)
        return points

    def _division(self, counts: IntArray, cell: int, node: _Node, bits: BitSource) -> int:
        """How many of the rows in a cell belong to its left side, so that the quantile is at the border."""
        within, below, total = int(counts[cell]), int(counts[:cell].sum()), int(counts.sum())
        # Python integers, because the products can exceed 64 bits.
        choices = [within * part // _PARTS for part in range(_PARTS + 1)]
        first = node.level.denominator * below - node.level.numerator * total
        gaps = [min(abs(first + node.level.denominator * left), _LOWEST) for left in choices]
        scores = -np.array(gaps, dtype=np.int64)
        return choices[permute_and_flip(scores, self._scale(node.level, node.division), bits)]

    def _scale(self, level: Fraction, price: Fraction) -> float:
        largest = max(level.numerator, level.denominator - level.numerator)
        return selection_scale(2 * largest * round(1.0 / self.step), price)  # [note: quantile-4]


class _Node(NamedTuple):
    """A quantile that is chosen among the rows between two others, and the prices of choosing it and of dividing."""

    below: int
    at: int
    above: int
    level: Fraction
    price: Fraction
    division: Fraction


def _tree(below: int, above: int, turn: int = 0) -> Iterator[tuple[int, int, int, int]]:
    """Ranges of quantiles with the one in their middle, and their depth. Parents come before children."""
    if below < above:
        at = (below + above) // 2
        yield below, at, above, turn
        yield from _tree(below, at, turn + 1)
        yield from _tree(at + 1, above, turn + 1)


def _gaps(counts: IntArray, level: Fraction) -> IntArray:
    """Distance of each point from the quantile, as a number of rows times the denominator of the level.

    It is 0 if the quantile is among the rows at the point, and at most 2**61.
    """
    upto = np.cumsum(counts)
    total, target = int(upto[-1]), level.numerator * int(upto[-1])
    after = upto[::2]
    before = after - counts[::2]
    if total * level.denominator < _LOWEST:
        beside: IntArray = np.maximum(before * level.denominator - target, target - after * level.denominator)
        return np.asarray(np.maximum(beside, 0, out=beside))
    gaps = []
    for rank, sign in ((before, 1), (after, -1)):
        # Exact modulo 2**64, and in doubles, to tell where it is exact.
        rough = sign * (rank.astype(np.float64) * level.denominator - float(target))
        wrapped = (rank.astype(np.uint64) * np.uint64(level.denominator) - np.uint64(target % 2**64)).astype(np.int64)
        far = np.where(rough > 0.0, _LOWEST, -_LOWEST)
        gaps.append(np.where(np.abs(rough) < 1.001 * _LOWEST, sign * wrapped, far))
    return np.clip(np.maximum(*gaps), 0, _LOWEST)


def _edges_about(points: IntArray, n_points: int) -> IntArray:
    """Ends of bins that are twice as wide with each step away from the nearest of some points.

    An even number is the cell of a point that begins a bin, and an odd one follows the cell of a point that ends a bin.
    """
    widths = 2 ** np.arange(max(n_points - 1, 1).bit_length() + 1) - 1
    begins = np.clip(points[:, None] - widths, 0, None)
    ends = np.clip(points[:, None] + widths, None, n_points - 1)
    return np.unique(np.append(2 * begins, 2 * ends + 1)).astype(np.int64)


# Points of a grid: at most this many for a column, and for all columns and groups together, but at least so many. They
# limit memory: the counts of 2**20 points and the cells between them take 16 MB.
_MOST_POINTS, _ALL_POINTS, _LEAST_POINTS = 2**17, 2**20, 2**10

# Draws of the noise behind an interval, and numbers that are held at a time.
_DRAWS, _MOST_NUMBERS = 10_000, 1_000_000


@validate.without_sizes
def quantile(
    rows: object,
    q: float | Sequence[float] = 0.5,
    columns: Mapping[str, object] | Schema | object = None,
    *,
    step: float | Mapping[str, float] | None = None,
    by: By = None,
    unit: str | Unit | None = None,
    max_rows_per_unit: int | None = None,
    missing: Missing = "drop",
    epsilon: float = 1.0,
    delta: float | None = None,
    ledger: Ledger | None = None,
    random_state: RandomState = None,
) -> Statistic:
    """Release quantiles of each column. ``pais.quantile(rows, columns=...)`` is the median.

    Parameters
    ----------
    rows : table, path, Spark DataFrame or source
        The table, or a single column.
    q : float or sequence of float
        Levels in (0, 1). They share the price. The released quantiles increase with the level.
    columns : mapping, Schema
        As in `pais.mean`: numbers and dates with bounds, or "auto".
    step : float or mapping, optional
        The values of a column are multiples of this public number, such as 1 for ages in years. The quantile is then
        one of these multiples. By default, the bounds are divided into about 100,000 values, or fewer if there are
        many groups and columns.
    by, unit, max_rows_per_unit, missing, epsilon, ledger, random_state : optional
        As in `pais.mean`. All rows are used.
    delta : float, optional
        Used only to find groups that nobody listed; None then means 1e-9. Otherwise the guarantee is pure, so it holds
        for every delta.

    Returns
    -------
    Statistic
        `value` has one row for each level if `q` is a sequence. An interval holds the quantile of the clipped rows with
        *at least* its probability, whatever the rows are, and is usually much wider than the error. The interval of a
        quantile at a bound has no end on that side: it is infinite, and the text says "at least" or "at most". So has
        every interval that reaches a bound that was found privately. A bound of 0 is an end, because values beyond it
        are rare. A tenth of epsilon pays for the intervals. A standard error is half the width of the interval at 68 %.

    Notes
    -----
    Guarantee. Everything that the call releases costs at most epsilon, and delta if it finds groups:
    `tests/theory/test_quantile.py`, `tests/conformance/test_found_categories.py`.

    Examples
    --------
    >>> import pais
    >>> people = pais.example_people(5000, random_state=0)
    >>> result = pais.quantile(people, [0.25, 0.5, 0.75], columns={"age": (18, 100)}, epsilon=1.0)
    >>> bool(18 <= result.value[0.25] <= result.value[0.5] <= result.value[0.75] <= 100)
    True
    """
    return QuantileSettings.released(rows, locals(), levels=_levels(q), is_list=np.ndim(q) > 0)


@dataclass(frozen=True, kw_only=True, eq=False)
class QuantileSettings(TableSettings):
    """Settings of quantiles. `levels` are in the order of the user, and `is_list` tells whether they were a list."""

    levels: tuple[float, ...]
    step: float | Mapping[str, float] | None
    is_list: bool
    delta: float | None

    @property
    def what(self) -> str:
        return GridQuantiles.name

    def require(self) -> None:
        delta = 0.0 if self.delta is None else validate.target_delta(self.delta)
        if self.unlisted and self.delta is not None:
            require_delta(delta, self.unlisted)
        self._steps(self.fields(self.schema))

    @property
    def names_delta(self) -> float:
        """The delta of groups that nobody listed. The quantiles have pure noise, which needs none."""
        if not self.unlisted:
            return 0.0
        return DEFAULT_DELTA if self.delta is None else validate.target_delta(self.delta)

    @property
    def noise_delta(self) -> float:
        return 0.0

    @property
    def names_share(self) -> float:
        return _NAMES_SHARE if self.unlisted else 0.0

    @property
    def price(self) -> Part:
        return replace(super().price, delta=self.names_delta)

    def stages(self, rows: Engine, random_state: RandomState) -> Stages:
        """Names that nobody listed, and the bounds of "auto" columns, with epsilon alone but for names."""
        bounds, names = self.bounds_share(rows), self.names_share
        noise = self.survey_noise(names + bounds)
        if noise is None:
            return Stages()
        stages: list[Stage] = []
        if names:
            stages.append(
                NameStage(
                    share=names / (names + bounds),
                    columns=self.unlisted,
                    delta=self.names_delta,
                    most_groups=_ALL_POINTS // _LEAST_POINTS,
                )
            )
        if bounds:
            stages.append(ColumnBounds(share=1.0 - names / (names + bounds)))
        return Stages(noise=noise, stages=tuple(stages), passes=2 + bool(names), delta=self.names_delta)

    def _steps(self, fields: Fields) -> dict[str, float | None]:
        """The step of each column; raises if a column has no quantiles."""
        fields.require("quantile", categories=False)
        truth = next((field.name for field in fields.columns if field.is_truth), None)
        if truth is not None:
            raise ArgumentError(
                f"the quantile of a boolean is not defined. Leave out column {truth!r}, or use pais.mean."
            )
        names = [field.name for field in fields.columns]
        stated: dict[str, Any] = dict(self.step) if isinstance(self.step, Mapping) else dict.fromkeys(names, self.step)
        unknown = [name for name in stated if name not in names]
        if unknown:
            raise ArgumentError(f"step names {unknown[0]!r}, which is not among the columns. Pass names of columns.")
        return {
            name: None if stated.get(name) is None else validate.positive(f"step of {name!r}", stated[name])
            for name in names
        }

    def _mechanism(
        self, facts: Findings, rows: Engine, ball: Ball, epsilon: float, delta: float
    ) -> tuple[Rule, Mechanism]:
        fields = self.fields(rows.schema)
        mechanism = GridQuantiles(
            epsilon=epsilon,
            levels=tuple(sorted(self.levels)),
            grids=_grids(fields, self._steps(fields)),
            by=fields.levels,
            step=1.0 if rows.unit is None else 2.0**-rows.unit.mass_bits,
        )
        return UniformRule(rate=1.0), mechanism

    def result(self, plan: Plan, release: Release, facts: Findings) -> Statistic:
        mechanism, fields = plan.mechanism, self.fields(plan.schema)
        max_rows = 1 if plan.unit is None else plan.unit.full_rows
        value = release.value
        assert isinstance(mechanism, GridQuantiles)
        assert isinstance(value, QuantileValue)
        intervals = QuantileIntervals(
            value=value,
            mechanism=mechanism,
            order=np.searchsorted(mechanism.levels, self.levels),
            max_rows=max_rows,
            found=tuple(isinstance(field.column, Auto) for field in fields.columns),
        )
        estimates = intervals.table(value.values)
        dates = np.array([field.is_date for field in fields.columns])
        lost = intervals.lost
        cautions = [
            *unclear_cautions(facts.found.get("columns", {})),
            *names_cautions(facts, fields, plan.unit),
            *lost_cautions(np.all(lost.reshape(-1, len(mechanism.levels), dates.size), axis=1), fields),
            *_bound_cautions(np.any(np.isinf(intervals(0.95)), axis=0), fields),
        ]
        name = "median" if mechanism.levels == (0.5,) else "quantile"
        n_rows = intervals.noisy_rows(len(fields.columns))
        about, note = about_rows(name, plan.unit, n_rows, by_groups=bool(fields.by))
        clipping = f"{clipping_in_words(fields)} Clipping does not move a quantile that lies between the bounds."
        noise = (
            "Quantiles were chosen at random from a grid, with probabilities that fall exponentially with the distance "
            f"in rows. Noisy counts of scale {mechanism.count_noise.scale * max_rows:.4g} give the intervals, which "
            "hold with at least their probability. All rows were used."
        )
        return Statistic(
            name=name,
            about=about,
            cautions=tuple(cautions),
            certificate=replace(release.certificate, about=about),
            estimates=estimates,
            errors=intervals.standard_errors,
            bounds=intervals,
            texts=partial(Texts, noise, clipping, tuple(filter(None, (note, *names_notes(facts, plan.unit))))),
            rows=combined(fields.groups, Axis.of(self.levels, "quantile") if self.is_list else None),
            columns=None if len(fields.columns) == 1 else Axis.of(fields.labels),
            is_date=np.tile(dates, (len(estimates), 1)),
            released=value,
            plan=plan,
            subject=fields.subject,
            level=None if self.is_list else mechanism.levels[0],
            lost=lost,
        )


def _levels(q: float | Sequence[float]) -> tuple[float, ...]:
    """The levels in the order of the user."""
    rule = "a number in (0, 1)"
    values = [q] if np.ndim(q) == 0 else list(q)  # type: ignore[arg-type]  # a sequence
    levels = tuple(
        validate.number("q", level, rule=rule, low=0, high=1, open_low=True, open_high=True) for level in values
    )
    if not levels or len(set(levels)) < len(levels):
        raise ArgumentError("q must have at least one level, and each only once. Pass a number or a list of numbers.")
    return levels


def _grids(fields: Fields, steps: Mapping[str, float | None]) -> tuple[Grid, ...]:
    """A grid for each column, with fewer points if there are many columns and groups."""
    n_grids = len(fields.columns) * (1 if fields.groups is None else len(fields.groups))
    most_points = int(np.clip(_ALL_POINTS // n_grids, _LEAST_POINTS, _MOST_POINTS))
    grids = []
    for field in fields.columns:
        low, high, step = field.low, field.high, steps[field.name]
        if step is None and field.is_date and low % 1.0 == high % 1.0 == 0.0 and high - low < most_points:
            step = 1.0
        center, scale = low / 2.0 + high / 2.0, high / 2.0 - low / 2.0
        grids.append(Grid.over(field.start, center, scale, most_points=most_points, step=step))
    return tuple(grids)


def _bound_cautions(is_open: NDArray[np.bool_], fields: Fields) -> list[Caution]:
    """Name the columns of quantiles that may lie beyond a bound."""
    names = [field.name for field, one in zip(fields.columns, np.any(is_open, axis=0), strict=True) if one]
    if not names:
        return []
    text = (
        f"a quantile of column(s) {listed(names)} lies at a bound, or may do. If values beyond it can occur, the "
        "quantile of the table itself may lie there too, so its interval has no end on that side. State wider bounds."
    )
    return [Caution(text, QualityWarning)]


@dataclass(frozen=True, kw_only=True, eq=False)
class QuantileIntervals:
    """Ends of intervals that hold each quantile of the rows with at least a stated probability.

    At each edge of the noisy bins, the number of rows below it is compared with the share that the level of the
    quantile states. The quantile is beyond an edge if the difference exceeds what noise reaches at any edge.

    Values beyond a bound were clipped to it, so a quantile at a bound may lie anywhere beyond it: the interval has no
    end there. `found` tells of which columns the bounds were found privately. Their intervals have no end wherever they
    reach a bound. Zero is an end, beyond which there are often no values.
    """

    value: QuantileValue
    mechanism: GridQuantiles
    order: Any
    max_rows: int
    found: tuple[bool, ...]

    def __call__(self, level: float) -> tuple[FloatArray, FloatArray]:
        low, high = self._within_bounds(level)
        estimates, lost = self.table(self.value.values), self.lost
        opened = []
        for ends, bound, beyond in zip((low, high), self._grid_ends, (-np.inf, np.inf), strict=True):
            at_bound = (estimates == bound) | ((ends == bound) & np.array(self.found))
            opened.append(np.where(at_bound & (bound != 0.0) & ~lost, beyond, ends))
        return opened[0], opened[1]

    def standard_errors(self) -> FloatArray:
        """Half the widths of intervals that a normal variable would be in with the same probability."""
        low, high = self(0.6827)
        return np.asarray(0.5 * (high - low))

    @property
    def _grid_ends(self) -> FloatArray:
        """The first and the last value of the grid of each column, of shape (2, columns)."""
        return np.array([grid.values(np.array([0, grid.n_points - 1])) for grid in self.mechanism.grids]).T

    def _within_bounds(self, level: float) -> tuple[FloatArray, FloatArray]:
        """Ends of intervals of the quantiles of clipped rows."""
        values, noise = self.value.values, self.mechanism.count_noise
        low, high = np.empty_like(values), np.empty_like(values)
        for place, edges, counts in zip(
            np.ndindex(values.shape[:2]), self.value.edges, self.value.noisy_counts, strict=True
        ):
            grid = self.mechanism.grids[place[1]]
            below = np.append(0.0, np.cumsum(counts))
            for number, share in enumerate(self.mechanism.levels):
                # The noise of the difference stays below this at all edges, with probability (1 + level) / 2.
                highest, final = _walks(counts.size, noise.scale / noise.step)
                quantile = float(np.quantile(highest - share * final, 0.5 + 0.5 * level))
                margin = self.max_rows * (quantile * noise.step)
                offset = below - share * below[-1]
                begins = edges[(offset <= -margin) & (edges % 2 == 0)]
                ends = edges[(offset >= margin) & (edges % 2 == 1)]
                first = begins.max() // 2 if begins.size else 0
                last = ends.min() // 2 if ends.size else grid.n_points - 1
                chosen, ends_of_interval = values[(*place, number)], grid.values(np.array([first, last]))
                low[(*place, number)] = min(ends_of_interval[0], chosen)
                high[(*place, number)] = max(ends_of_interval[1], chosen)
        return self.table(low), self.table(high)

    def noisy_rows(self, n_columns: int) -> float:
        """Number of rows according to the release, or of people if there are units."""
        counts = np.array([each.sum() for each in self.value.noisy_counts]).reshape(-1, n_columns)
        return float(counts.sum(axis=0).max()) / self.max_rows

    @functools.cached_property
    def lost(self) -> NDArray[np.bool_]:
        """Which intervals at 95 % are as wide as the grids."""
        low, high = self._within_bounds(0.95)
        least, most = self._grid_ends
        return np.asarray((low <= least) & (high >= most))

    def table(self, values: FloatArray) -> FloatArray:
        """Values of shape (groups, columns, levels) as rows for each group and level, in the order of the user."""
        return values[..., self.order].swapaxes(1, 2).reshape(-1, values.shape[1])


@functools.lru_cache(maxsize=64)
def _walks(n_bins: int, scale: float) -> tuple[FloatArray, FloatArray]:
    """Largest and last value of many sums of noise over bins, from a fixed public seed.

    The noise is symmetric, so the mirror image of each walk is a walk too.
    """
    n_draws = max(1000, min(_DRAWS, _MOST_NUMBERS // n_bins)) // 2
    # An exponential variable rounded down is geometric, and the noise is the difference of two.
    steps = np.random.default_rng(0).standard_exponential((2, n_draws, n_bins))
    steps *= scale
    walks = np.floor(steps, out=steps)[0]
    walks -= steps[1]
    np.cumsum(walks, axis=1, out=walks)
    highest = np.concatenate([walks.max(axis=1), -walks.min(axis=1)])
    return np.maximum(highest, 0.0), np.concatenate([walks[:, -1], -walks[:, -1]])
