"""Quantiles of columns: for each, a private choice among the points of a public grid, and noisy counts around it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from pais._base import files, validate
from pais._base.files import stored
from pais._base.lattice import IntArray, Lattice
from pais._base.numerics import FloatArray, exact
from pais._base.randomness import BitSource
from pais.data.ball import Ball
from pais.data.engines import AllRows, WeightedRows
from pais.errors import ArgumentError
from pais.mechanisms.base import Extent, Mechanism
from pais.mechanisms.blocks import Levels, present
from pais.mechanisms.integer_noise import GeometricNoise
from pais.mechanisms.selection import permute_and_flip, selection_scale
from pais.privacy.profiles import LinearProfile

# Share of the price for the noisy counts from which intervals follow, and, if quantiles divide the rows, for the share
# of the rows at a point that goes to either side.
_COUNTS_SHARE, _DIVISION_SHARE = Fraction(1, 10), Fraction(1, 10)

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
        whole = Lattice(step=self.step).encode(weights)
        group = np.zeros(len(rows), dtype=np.int64)
        for column in self.by:
            level = column.level_of(rows)
            whole = np.where(level < column.n_levels, whole, 0)
            group = group * column.n_levels + np.minimum(level, column.n_levels - 1)
        totals = []
        for grid in self.grids:
            coordinates, steps = present(rows[:, grid.column], whole)
            total = np.zeros(self.n_groups * grid.n_cells, dtype=np.int64)
            np.add.at(total, group * grid.n_cells + grid.cells(coordinates), steps)  # [note: quantile-3]
            totals.append(total)
        return np.concatenate(totals)

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


@dataclass(frozen=True)
class _Node:
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
    target = level.numerator * int(upto[-1])
    gaps = []
    for rank, sign in (((upto - counts)[::2], 1), (upto[::2], -1)):
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
