"""Recipes: which blocks a statistic releases, and how its values follow from released totals.

A recipe estimates the values of many totals at once, in arrays of shape (draws, groups, coordinates), because standard
errors and intervals come from totals with simulated noise. Estimates see released totals only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from pais._base.numerics import FloatArray
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
    #: Whether it is a statistic of columns.
    needs_columns: ClassVar[bool] = True
    #: Whether values mean nothing without cells. Counts and sums do: they are 0.
    needs_cells: ClassVar[bool] = True

    @abstractmethod
    def require(self, fields: Fields) -> None:
        """Raise if the statistic is not defined for these columns."""

    @abstractmethod
    def blocks(self, fields: Fields) -> list[Weighted]:
        """The blocks to release, with their importance."""

    @abstractmethod
    def estimate(self, parts: list[FloatArray], fields: Fields) -> FloatArray:
        """The values of each group, of shape (draws, groups, values), from the totals of each block."""

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

    name, title = "counts", "count"
    needs_cells = False
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

    def estimate(self, parts: list[FloatArray], fields: Fields) -> FloatArray:
        return np.concatenate(parts, axis=-1)

    def limited(self, values: FloatArray, fields: Fields) -> FloatArray:
        return np.maximum(values, 0.0)


class Sums(Recipe):
    """Sum of each column in own units; for booleans the number of true, for categories the number of rows in each."""

    name, title = "sums", "sum"
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

    def estimate(self, parts: list[FloatArray], fields: Fields) -> FloatArray:
        pairs = zip(parts, fields.columns, strict=True)
        return np.concatenate([part if field.is_listed else part * largest(field) for part, field in pairs], axis=-1)

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

    def estimate(self, parts: list[FloatArray], fields: Fields) -> FloatArray:
        split = [
            part
            if field.is_listed or part.shape[-1] == 1
            else (part @ [field.low, field.high])[..., None] / largest(field)
            for part, field in zip(parts, fields.columns, strict=True)
        ]
        return super().estimate(split, fields)


# From this many columns with one number of cells, a total for each and one count have less noise than splits.
_FEWEST_SHARED = 4


class Means(Recipe):
    """Mean of each column in own units; for booleans the share of true, for categories the share of each."""

    name, title = "means", "mean"

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

    def estimate(self, parts: list[FloatArray], fields: Fields) -> FloatArray:
        shared = self._is_shared(fields)
        n = parts[-1] if shared else self._pooled_rows(parts, fields)
        means = [
            shares(part) if field.is_listed else field.low + field.width * mean_place(part, n)
            for part, field in zip(parts, fields.columns, strict=not shared)
        ]
        return np.concatenate(means, axis=-1)

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

    def require(self, fields: Fields) -> None:
        fields.require(self.title)

    def blocks(self, fields: Fields) -> list[Weighted]:
        return [(moments(field), 1.0) for field in fields.columns]

    def estimate(self, parts: list[FloatArray], fields: Fields) -> FloatArray:
        pairs = zip(parts, fields.columns, strict=True)
        return np.concatenate([mean_and_variance(part, field)[1] for part, field in pairs], axis=-1)


def moments(field: Field) -> Block:
    """The block from which mean and variance of a column follow."""
    if field.is_listed:
        return field.levels(others=False)
    return Split(column=field.start, degree=1 if field.is_truth else 2)
