"""Blocks of a vector statistic: the whole numbers that a row adds to a few coordinates of a total.

A row of weight w has W whole steps: w divided by the step of a lattice, rounded down. A block distributes these steps
over its coordinates, and the absolute values add up to at most W. So the l1 norm, and with it the l2 norm, of what a
row adds to a block is at most W, whatever the row holds.

Rows are scaled vectors of a schema. A number, date or boolean is a coordinate in [-1, 1]; -1.5 and 1.5 stand for a
number below or above the bounds, which counts as the bound. Other coordinates stand for a missing cell. A column of
categories has one coordinate for each, of which at most one is positive.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from pais._base import files, validate
from pais._base.files import stored
from pais._base.lattice import IntArray
from pais._base.numerics import FloatArray
from pais.data.scales import BEYOND
from pais.errors import ArgumentError

#: Coordinates of a total, one number for all rows or one for each, and the steps that the rows add there.
Steps = list[tuple[int | IntArray, IntArray]]


@dataclass(frozen=True, kw_only=True)
class Block(ABC):
    """A few coordinates of a total, over which a row distributes at most its whole steps.

    Attributes
    ----------
    factor : float
        The noise of the block is this many times the noise of a count that is released alone.

    Notes
    -----
    Guarantee. The absolute values of what a row adds sum to at most its whole steps: `tests/theory/test_statistics.py`.
    """

    factor: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "factor", validate.positive("factor", self.factor))

    @property
    def size(self) -> int:
        """Number of coordinates."""
        return 1

    @property
    def is_signed(self) -> bool:
        """Whether a row can add negative steps."""
        return False

    @abstractmethod
    def steps(self, rows: FloatArray, whole: IntArray) -> Steps:
        """What each row adds, given its whole steps."""

    def to_dict(self) -> dict[str, Any]:
        """Public description of the block, for certificates and files."""
        return files.to_dict(self, "block")

    @staticmethod
    def from_dict(described: Mapping[str, Any]) -> Block:
        """Rebuild a block from its description."""
        return cast(Block, files.from_dict(described, "block"))


@stored("block", "rows")
@dataclass(frozen=True, kw_only=True)
class Rows(Block):
    """Number of rows."""

    def steps(self, rows: FloatArray, whole: IntArray) -> Steps:
        return [(0, whole)]


@stored("block", "split")
@dataclass(frozen=True, kw_only=True)
class Split(Block):
    """Steps of a row split by the place of its cell between the bounds of a column.

    The place a, from 0 to 1, splits the steps into shares 1 - a and a (degree 1), or (1 - a)^2, 2 a (1 - a) and a^2
    (degree 2). The shares add up to 1, so a row adds at most 1 in the l1 norm. With degree 0, cells are counted.
    """

    column: int
    degree: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.degree not in (0, 1, 2):
            raise ArgumentError(f"degree={self.degree!r} is not known. Pass 0, 1 or 2.")

    @property
    def size(self) -> int:
        return self.degree + 1

    def steps(self, rows: FloatArray, whole: IntArray) -> Steps:
        place, whole = present(rows[:, self.column], whole)
        place = 0.5 * place + 0.5
        if self.degree == 0:
            return [(0, whole)]
        if self.degree == 1:
            upper = _share_of(place, whole)
            return [(0, whole - upper), (1, upper)]  # [note: statistics-2]
        # Rounded down, so that the remainder is not negative.
        upper = np.floor(place * place * whole).astype(np.int64)
        middle = np.minimum(np.floor(2.0 * place * (1.0 - place) * whole).astype(np.int64), whole - upper)
        return [(0, whole - upper - middle), (1, middle), (2, upper)]  # [note: statistics-3]


@stored("block", "ends")
@dataclass(frozen=True, kw_only=True)
class Ends(Block):
    """Number of cells below the lower bound of a column, within its bounds, and above the upper bound."""

    column: int

    @property
    def size(self) -> int:
        return 3

    def steps(self, rows: FloatArray, whole: IntArray) -> Steps:
        cells = rows[:, self.column]
        _, whole = present(cells, whole)
        return [(1 + (cells == BEYOND).astype(np.int64) - (cells == -BEYOND), whole)]  # [note: statistics-7]


@stored("block", "line")
@dataclass(frozen=True, kw_only=True)
class Line(Block):
    """Sum of a column in own units, divided by the largest absolute value: intercept + slope * coordinate."""

    column: int
    slope: float
    intercept: float

    @property
    def is_signed(self) -> bool:
        return self.intercept < abs(self.slope)

    def steps(self, rows: FloatArray, whole: IntArray) -> Steps:
        place, whole = present(rows[:, self.column], whole)
        return [(0, _share_of(self.intercept + self.slope * place, whole))]


@stored("block", "product")
@dataclass(frozen=True, kw_only=True)
class Product(Block):
    """Sum of the products of the coordinates of two columns."""

    first: int
    second: int

    @property
    def is_signed(self) -> bool:
        return self.first != self.second

    def steps(self, rows: FloatArray, whole: IntArray) -> Steps:
        first, whole = present(rows[:, self.first], whole)
        second, whole = present(rows[:, self.second], whole)
        return [(0, _share_of(first * second, whole))]


@stored("block", "bins")
@dataclass(frozen=True, kw_only=True)
class Bins(Block):
    """Number of cells in each bin of a column. Each of the `edges` begins the next bin."""

    column: int
    edges: tuple[float, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "edges", tuple(map(float, self.edges)))
        if np.any(np.diff(self.edges) <= 0.0):
            raise ArgumentError("edges must increase. Pass the edges of the bins in order, each once.")

    @property
    def size(self) -> int:
        return len(self.edges) + 1

    def steps(self, rows: FloatArray, whole: IntArray) -> Steps:
        place, whole = present(rows[:, self.column], whole)
        return [(np.searchsorted(self.edges, place, side="right").astype(np.int64), whole)]


@stored("block", "levels")
@dataclass(frozen=True, kw_only=True)
class Levels(Block):
    """Number of cells in each category of a column; the last coordinate counts all other cells, if `others`."""

    column: int
    n_levels: int
    others: bool = True

    @property
    def size(self) -> int:
        return self.n_levels + self.others

    def steps(self, rows: FloatArray, whole: IntArray) -> Steps:
        level = self.level_of(rows)
        if not self.others:
            whole = np.where(level == self.n_levels, 0, whole)
            level = np.minimum(level, self.n_levels - 1)
        return [(level, whole)]

    def level_of(self, rows: FloatArray) -> IntArray:
        """The category of each row, by number, and the number of categories for other cells."""
        cells = rows[:, self.column : self.column + self.n_levels] > 0.0
        return np.where(cells.any(axis=1), cells.argmax(axis=1), self.n_levels).astype(np.int64)


@stored("block", "truth")
@dataclass(frozen=True, kw_only=True)
class Truth(Levels):
    """The same for a boolean column: false, true, and other cells."""

    n_levels: int = 2

    def level_of(self, rows: FloatArray) -> IntArray:
        cells = rows[:, self.column]
        return np.where(np.abs(cells) <= 1.0, cells > 0.0, 2).astype(np.int64)


def present(cells: FloatArray, whole: IntArray) -> tuple[FloatArray, IntArray]:
    """Cells clipped to [-1, 1], and the whole steps of their rows; a row whose cell is missing has none."""
    size = np.abs(cells)
    outside = ~(size <= 1.0)
    if not outside.any():
        return cells, whole
    missing = outside & (size != BEYOND)
    return np.where(missing, 0.0, np.clip(cells, -1.0, 1.0)), np.where(missing, 0, whole)


def _share_of(share: FloatArray, whole: IntArray) -> IntArray:
    """A share in [-1, 1] of the whole steps, rounded to the nearest step; never more than all of them."""
    rounded = np.rint(np.clip(share, -1.0, 1.0) * whole).astype(np.int64)
    return np.clip(rounded, -whole, whole)  # [note: statistics-1]
