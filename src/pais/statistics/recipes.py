"""Recipes: which blocks a statistic releases, and how its values follow from released totals.

A recipe estimates the values of many totals at once, in arrays of shape (draws, groups, coordinates), because standard
errors and intervals come from totals with simulated noise. Estimates see released totals only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pais._base.numerics import FloatArray
from pais.data.scales import Auto
from pais.errors import ArgumentError
from pais.mechanisms.blocks import Block, Line, Rows, Split
from pais.statistics.estimates import (
    largest,
    mean_and_variance,
    mean_place,
    shares,
)
from pais.statistics.frames import Axis
from pais.statistics.table import Field, Fields

#: A block, and its importance: the noise of a block is inversely proportional to it.
Weighted = tuple[Block, float]


class Lost(NamedTuple):
    """What clipping took away from the sums over the cells of each label, of shape (draws, groups, labels).

    `second` belongs to squares of distances from the `centers`, one for each label.
    """

    first: FloatArray
    second: FloatArray
    centers: FloatArray


@dataclass(frozen=True, kw_only=True)
class Recipe(ABC):
    """A statistic of the columns of a table."""

    #: Name of the mechanism, in certificates and ledgers.
    name: ClassVar[str]
    #: Name of the statistic.
    title: ClassVar[str]
    #: Whether a missing value leaves out its cell alone, or its row.
    by_cell: ClassVar[bool] = True
    #: Whether each value is one total times a number.
    is_linear: ClassVar[bool] = False
    #: Name of the mechanism where people are protected, if the statistic is a total over all of their rows.
    name_for_people: ClassVar[str] = ""
    #: Whether a person counts once in each group, however many rows they have there.
    presence: ClassVar[bool] = False
    #: Whether it is a statistic of columns.
    needs_columns: ClassVar[bool] = True
    #: Power of the values whose sum decides the statistic, for bounds that are found privately; 0 if such bounds are to
    #: hold nearly all values.
    power: ClassVar[int] = 0
    #: Whether the values beyond the bounds are counted. Those of a histogram are in its first and last bins.
    counts_clipped: ClassVar[bool] = True
    #: Whether values mean nothing without cells. Counts and sums do: they are 0.
    needs_cells: ClassVar[bool] = True

    @abstractmethod
    def require(self, fields: Fields) -> None:
        """Raise if the statistic is not defined for these columns."""

    @abstractmethod
    def blocks(self, fields: Fields) -> list[Weighted]:
        """The blocks to release, with their importance."""

    @abstractmethod
    def estimate(self, parts: list[FloatArray], fields: Fields, lost: Lost | None = None) -> FloatArray:
        """The values of each group, of shape (draws, groups, values), from the totals of each block.

        What is `lost` beyond the bounds is added, if it is known.
        """

    def noise_of_bounds(self, low: FloatArray, high: FloatArray, mean: float) -> FloatArray:
        """Variance of a value times its number of cells, for totals with noise of variance one: decides the bounds."""
        raise NotImplementedError

    def limited(self, values: FloatArray, fields: Fields) -> FloatArray:
        """Values within their natural limits, such as counts that are not negative."""
        return values

    def resolution(self, fields: Fields) -> FloatArray:
        """Width of the cells in which each value of a group is known without noise; 0 if it is known exactly."""
        return np.zeros(self.is_date(fields).size)

    def rows(self, fields: Fields) -> Axis | None:
        """Labels of the rows of the result of one group; None if it has one row."""
        return None

    def columns(self, fields: Fields) -> Axis | None:
        """Labels of the columns of the result; None if it has one column."""
        return None if len(fields.labels) <= 1 else Axis.of(fields.labels)

    def is_date(self, fields: Fields) -> NDArray[np.bool_]:
        """Which values of a group are dates."""
        return np.zeros(max(1, len(fields.labels)), dtype=bool)


class Counts(Recipe):
    """Number of rows, of cells that are not missing, or of rows in each category."""

    name, title, name_for_people = "counts", "count", "counts of rows"
    needs_cells = False
    counts_clipped = False
    is_linear = True
    needs_columns = False

    def require(self, fields: Fields) -> None:
        if fields.columns:
            fields.require(self.title)

    def blocks(self, fields: Fields) -> list[Weighted]:
        if not fields.columns:
            return [(Rows(), 1.0)]
        return [
            (field.levels(others=False) if field.is_listed else Split(column=field.start, degree=0), 1.0)
            for field in fields.columns
        ]

    def estimate(self, parts: list[FloatArray], fields: Fields, lost: Lost | None = None) -> FloatArray:
        return np.concatenate(parts, axis=-1)

    def limited(self, values: FloatArray, fields: Fields) -> FloatArray:
        return np.maximum(values, 0.0)


class PeopleCounts(Counts):
    """Number of people who have rows, in all or in each group."""

    name = name_for_people = "counts of people"
    title = "number of people"
    presence = True

    def require(self, fields: Fields) -> None:
        if fields.columns:
            raise ArgumentError(
                f"count_people counts people, not cells. Leave out column {fields.columns[0].name!r}, or put it in by."
            )


class Sums(Recipe):
    """Sum of each column in own units; for booleans the number of true, for categories the number of rows in each."""

    name, title, name_for_people = "sums", "sum", "totals"
    power = 1
    needs_cells = False
    is_linear = True

    def require(self, fields: Fields) -> None:
        fields.require(self.title, dates=False)

    def blocks(self, fields: Fields) -> list[Weighted]:
        return [(field.levels(others=False) if field.is_listed else self._line(field), 1.0) for field in fields.columns]

    def _line(self, field: Field) -> Line:
        half, middle = 0.5 * field.width, 0.5 * field.low + 0.5 * field.high
        size = largest(field)
        return Line(column=field.start, slope=half / size, intercept=middle / size)

    def estimate(self, parts: list[FloatArray], fields: Fields, lost: Lost | None = None) -> FloatArray:
        pairs = zip(parts, fields.columns, strict=True)
        sums = np.concatenate([part if field.is_listed else part * largest(field) for part, field in pairs], axis=-1)
        return sums if lost is None else sums + lost.first

    def noise_of_bounds(self, low: FloatArray, high: FloatArray, mean: float) -> FloatArray:
        return np.maximum(np.abs(low), np.abs(high)) ** 2

    def limited(self, values: FloatArray, fields: Fields) -> FloatArray:
        least = [
            0.0 if field.is_listed or field.low >= 0.0 else -np.inf for field in fields.columns for _ in field.labels
        ]
        return np.maximum(values, least)


class SumsOfSample(Sums):
    """The same for a sample. A column with both signs is split, so that its totals bound the error of the sample."""

    is_linear = False

    def blocks(self, fields: Fields) -> list[Weighted]:
        whole = super().blocks(fields)
        pairs = zip(whole, fields.columns, strict=True)
        return [(Split(column=field.start) if block.is_signed else block, weight) for (block, weight), field in pairs]

    def estimate(self, parts: list[FloatArray], fields: Fields, lost: Lost | None = None) -> FloatArray:
        split = [
            part
            if field.is_listed or part.shape[-1] == 1
            else (part @ [field.low, field.high])[..., None] / largest(field)
            for part, field in zip(parts, fields.columns, strict=True)
        ]
        return super().estimate(split, fields, lost)


# From this many columns with one number of cells, a total for each and one count have less noise than splits.
_FEWEST_SHARED = 4


class Means(Recipe):
    """Mean of each column in own units; for booleans the share of true, for categories the share of each."""

    name, title = "means", "mean"
    power = 1

    def require(self, fields: Fields) -> None:
        fields.require(self.title)

    def _is_shared(self, fields: Fields) -> bool:
        """Whether one count serves all columns of numbers."""
        return fields.pooled and sum(not field.is_listed for field in fields.columns) >= _FEWEST_SHARED

    def blocks(self, fields: Fields) -> list[Weighted]:
        shared = self._is_shared(fields)
        blocks: list[Weighted] = []
        for field in fields.columns:
            if field.is_listed:
                blocks.append((field.levels(others=False), 1.0))
            elif shared:
                blocks.append((Line(column=field.start, slope=1.0, intercept=0.0), 1.0))
            else:
                blocks.append((Split(column=field.start), 1.0))
        # The best importance of the count for means halfway between the middle and a bound.
        return [*blocks, (Rows(), float(np.cbrt(0.25 * len(blocks))))] if shared else blocks

    def estimate(self, parts: list[FloatArray], fields: Fields, lost: Lost | None = None) -> FloatArray:
        shared = self._is_shared(fields)
        n = parts[-1] if shared else self._pooled_rows(parts, fields)
        pairs = list(zip(parts, fields.columns, strict=not shared))
        means = np.concatenate(
            [
                shares(part) if field.is_listed else field.low + field.width * mean_place(part, n)
                for part, field in pairs
            ],
            axis=-1,
        )
        if lost is None:
            return means
        cells = [part.sum(axis=-1, keepdims=True) if n is None else n for part, _ in pairs]
        return means + lost.first / np.maximum(by_label(cells, fields), 1.0)

    def noise_of_bounds(self, low: FloatArray, high: FloatArray, mean: float) -> FloatArray:
        return (mean - low) ** 2 + (high - mean) ** 2

    def limited(self, values: FloatArray, fields: Fields) -> FloatArray:
        """Means within the bounds. What lies beyond bounds that were found is added, so only their sign is a limit."""
        least, most = np.array([_limits(field) for field in fields.columns for _ in field.labels]).T
        return np.clip(values, least, most)

    def _pooled_rows(self, parts: list[FloatArray], fields: Fields) -> FloatArray | None:
        """The number of cells from all columns, if it is the same in all of them; None if it is not."""
        pairs = zip(parts, fields.columns, strict=True)
        rows = [part.sum(axis=-1, keepdims=True) for part, field in pairs if not field.is_listed]
        return np.mean(rows, axis=0) if fields.pooled and len(rows) > 1 else None

    def is_date(self, fields: Fields) -> NDArray[np.bool_]:
        return np.array([field.is_date for field in fields.columns for _ in field.labels])


class Variances(Recipe):
    """Variance of each column, in squares of own units."""

    name, title = "variances", "variance"
    power = 2

    def require(self, fields: Fields) -> None:
        fields.require(self.title)

    def blocks(self, fields: Fields) -> list[Weighted]:
        return [(moments(field), 1.0) for field in fields.columns]

    def estimate(self, parts: list[FloatArray], fields: Fields, lost: Lost | None = None) -> FloatArray:
        return moments_of(parts, fields, lost)[1]

    def noise_of_bounds(self, low: FloatArray, high: FloatArray, mean: float) -> FloatArray:
        # The squared distance from the mean is a combination of the three totals with these squared factors.
        low, high = (low - mean) ** 2, (high - mean) ** 2
        return low**2 + low * high + high**2


def _limits(field: Field) -> tuple[float, float]:
    """The least and the largest mean that a column can have."""
    if field.is_listed or field.is_truth:
        return 0.0, 1.0
    if isinstance(field.column, Auto):
        return (0.0 if field.low >= 0.0 else -np.inf), (0.0 if field.high <= 0.0 else np.inf)
    return field.low, field.high


def moments(field: Field) -> Block:
    """The block from which mean and variance of a column follow."""
    if field.is_listed:
        return field.levels(others=False)
    return Split(column=field.start, degree=1 if field.is_truth else 2)


def by_label(parts: list[FloatArray], fields: Fields) -> FloatArray:
    """One number for each column as one for each label."""
    repeated = [np.repeat(part, len(field.labels), axis=-1) for part, field in zip(parts, fields.columns, strict=True)]
    return np.concatenate(repeated, axis=-1)


def moments_of(parts: list[FloatArray], fields: Fields, lost: Lost | None) -> tuple[FloatArray, FloatArray]:
    """Mean and variance of each label, from the totals of the blocks of `moments`."""
    pairs = [mean_and_variance(part, field) for part, field in zip(parts, fields.columns, strict=True)]
    mean, variance = (np.concatenate(several, axis=-1) for several in zip(*pairs, strict=True))
    if lost is None:
        return mean, variance
    n = np.maximum(by_label([part.sum(axis=-1, keepdims=True) for part in parts], fields), 2.0)
    shift = lost.first / n
    more = lost.second / n - shift * (2.0 * (mean - lost.centers) + shift)
    return mean + shift, np.maximum(variance + more, 0.0)
