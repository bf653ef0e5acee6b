"""The kinds of columns in a schema: how cells become coordinates of scaled vectors, and coordinates own units again."""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pais._base import validate
from pais._base.numerics import FloatArray
from pais.data import typed
from pais.errors import ArgumentError

#: Coordinates without bounds are clipped here, so that they stay finite.
LARGEST = 1e300

#: Two categories are as far apart as the two ends of a stated range: sqrt(2) * sqrt(2) = 2.
CATEGORY = math.sqrt(2.0)


@dataclass(frozen=True, kw_only=True)
class Column(ABC):
    """A column of a table and the public facts about it."""

    kind: ClassVar[str]
    #: What the cells have to be, for error messages.
    cells: ClassVar[str] = "numbers"

    name: str

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise ArgumentError("columns must be named by text that is not empty. Pass the names of the columns.")

    @property
    def labels(self) -> tuple[str, ...]:
        """One label for each coordinate."""
        return (self.name,)

    @property
    def is_open(self) -> bool:
        """Whether the scale is still unknown."""
        return False

    @property
    def is_bounded(self) -> bool:
        """Whether public bounds limit every coordinate."""
        return True

    @property
    def midpoint(self) -> tuple[float, ...]:
        """The middle of all vectors that a cell can have."""
        return (0.0,)

    def square_reach(self, point: FloatArray) -> float:
        """Largest squared distance between a point and the coordinates of a cell, stated or missing."""
        return math.inf

    @property
    def has_midpoint(self) -> bool:
        """Whether coordinate 0 is a public midpoint."""
        return True

    @property
    def fills_missing(self) -> bool:
        """Whether the midpoint can stand in for a missing value."""
        return self.has_midpoint

    @property
    def form(self) -> str:
        """What text cells are read as, for the dialect of a file: "numbers", "dates" or "text"."""
        return "numbers"

    def accepts(self, kind: pa.DataType) -> bool:
        """Whether cells of this type can be converted. Text is converted cell by cell."""
        kind = typed.value_type(kind)
        return typed.is_number(kind) or typed.is_text(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind)

    def cells_of_objects(self, cells: NDArray[Any]) -> pa.Array:
        """Return a column of Python objects as cells that `encode` reads, one by one."""
        return typed.texts_of_objects(cells)

    @abstractmethod
    def encode(self, cells: pa.Array) -> list[FloatArray]:
        """Return one array per coordinate, finite or NaN where the value is missing."""

    @abstractmethod
    def decode(self, coordinates: FloatArray) -> FloatArray:
        """Return coordinates of shape (m, width) in own units, within the public bounds."""

    @property
    @abstractmethod
    def unit_scale(self) -> float:
        """Own units per unit of a coordinate."""

    @property
    def center(self) -> float:
        """Value in own units at coordinate 0."""
        return 0.0

    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """What is known about the column, for files."""

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "kind": self.kind, **self.facts()}


@dataclass(frozen=True, kw_only=True)
class Boolean(Column):
    """True or false: one coordinate, 1 or -1, which is released as the share of true."""

    kind: ClassVar[str] = "boolean"
    cells: ClassVar[str] = "booleans"

    def encode(self, cells: pa.Array) -> list[FloatArray]:
        return [2.0 * typed.truths_of(cells) - 1.0]

    def decode(self, coordinates: FloatArray) -> FloatArray:
        return np.clip((coordinates + 1.0) / 2.0, 0.0, 1.0)

    def square_reach(self, point: FloatArray) -> float:
        return (1.0 + abs(float(point[0]))) ** 2

    @property
    def unit_scale(self) -> float:
        return 0.5

    @property
    def center(self) -> float:
        return 0.5

    def facts(self) -> dict[str, Any]:
        return {}


@dataclass(frozen=True, kw_only=True)
class Categories(Column):
    """A public list of categories: one coordinate each. A value that is unknown or missing is none of them.

    Two categories of which one stands for true and the other for false are truth values, as in `Boolean`. If all
    categories are numbers, cells are compared as numbers; otherwise as `typed.matches` says.
    """

    kind: ClassVar[str] = "categories"
    cells: ClassVar[str] = "text, numbers or booleans"

    values: tuple[str | int | float, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        is_truth = tuple(self.values) in ((False, True), (True, False)) and isinstance(self.values[0], bool)
        values = self.values if is_truth else tuple(self._checked(value) for value in self.values)
        if not all(isinstance(value, (int, float)) for value in values):
            values = tuple(str(value) for value in values)
        marks = [typed.mark_of(value) if isinstance(value, str) else value for value in values]
        # Otherwise True would be equal to 1.
        if not values or len({(type(mark), mark) for mark in marks}) < len(values):
            raise ArgumentError(
                f"columns[{self.name!r}] has no categories or the same one twice. List each category once."
            )
        object.__setattr__(self, "values", values)

    def _checked(self, value: object) -> str | int | float:
        value = value.item() if isinstance(value, np.generic) else value
        if isinstance(value, str):
            trimmed = value.strip(" \t\n\r\v\f")
            if validate.is_text(trimmed):
                return trimmed
        elif isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= LARGEST:
            return int(value) if float(value).is_integer() and abs(value) < 2**53 else float(value)
        raise ArgumentError(
            f"columns[{self.name!r}] has a category of type {type(value).__name__} that cannot be used. List short "
            "texts or finite numbers; for true and false, pass bool."
        )

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(f"{self.name}={value}" for value in self.values)

    @property
    def form(self) -> str:
        are_texts = any(isinstance(value, str) for value in self.values) and _truths(self.values) is None
        return "text" if are_texts else "numbers"

    @property
    def midpoint(self) -> tuple[float, ...]:
        return (CATEGORY / len(self.values),) * len(self.values)

    def square_reach(self, point: FloatArray) -> float:
        # A category that is not listed is at the origin.
        return float(point @ point + max(0.0, 2.0 - 2.0 * CATEGORY * point.min()))

    def cells_of_objects(self, cells: NDArray[Any]) -> pa.Array:
        return typed.texts_of_objects(cells, with_times=False)

    def encode(self, cells: pa.Array) -> list[FloatArray]:
        if pa.types.is_null(typed.value_type(cells.type)):
            return [np.zeros(len(cells)) for _ in self.values]
        truths = _truths(self.values)
        if truths is not None:
            cell_truths = typed.truths_of(cells)
            return [np.where(cell_truths == truth, CATEGORY, 0.0) for truth in truths]
        texts = [value for value in self.values if isinstance(value, str)]
        if texts:
            return [np.where(equal, CATEGORY, 0.0) for equal in typed.matches(cells, texts)]
        numbers = typed.numbers_of(cells)
        return [CATEGORY * (numbers == value) for value in self.values]

    def decode(self, coordinates: FloatArray) -> FloatArray:
        shares = np.clip(coordinates / CATEGORY, 0.0, 1.0)
        return np.asarray(shares / np.maximum(shares.sum(axis=1, keepdims=True), 1.0))

    @property
    def unit_scale(self) -> float:
        return 1.0 / CATEGORY

    def facts(self) -> dict[str, Any]:
        return {"values": list(self.values)}


@functools.lru_cache
def _truths(values: tuple[str | int | float, ...]) -> tuple[float, ...] | None:
    """The truth value of each category, if one of two is true and the other is false."""
    if len(values) != 2:
        return None
    truths = tuple(typed.truths_of(typed.texts_of_objects(values)).tolist())
    return truths if set(truths) == {0.0, 1.0} else None
