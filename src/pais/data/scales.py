"""Columns of numbers and dates: shifted, scaled, and clipped if there are bounds."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pais._base import validate
from pais._base.numerics import FloatArray
from pais.data import typed
from pais.data.cells import numbers_of_objects
from pais.data.kinds import LARGEST, Column
from pais.errors import ArgumentError

# Numbers farther from the mean than this many deviations are clipped in a standardized column. If noise hides the size
# of a column, its deviation is far too small, and one cell would decide a prediction by itself.
_MOST_DEVIATIONS = 10.0

#: Coordinate, with a sign, of a clipped number if clipped numbers are marked. Those of other numbers are in [-1, 1].
BEYOND = 1.5

# A number is beyond a bound that was found privately only if rounding errors of the bound do not explain it, relative
# to the scale and to the center. A bound such as 0 can hold most of the cells.
_ROUNDING_OF_SCALE, _ROUNDING_OF_CENTER = 1e-9, 1e-13


@dataclass(frozen=True, kw_only=True)
class _Affine(Column):
    """A column of numbers that is shifted and scaled: ``factor * (x - center) / scale``.

    A `factor` other than 1 gives the column more or less weight in the norm of a row. It is public. If `is_target`, no
    number stands in for a missing one: a made-up target would bias a regression.
    """

    factor: float = 1.0
    is_target: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        rule = "a number in [1e-9, 1e9]"
        object.__setattr__(self, "factor", validate.number("factor", self.factor, rule=rule, low=1e-9, high=1e9))

    @property
    @abstractmethod
    def center(self) -> float: ...

    @property
    @abstractmethod
    def unit_scale(self) -> float: ...

    def to_dict(self) -> dict[str, Any]:
        own = {
            **({} if self.factor == 1.0 else {"factor": self.factor}),
            **({"is_target": True} if self.is_target else {}),
        }
        return {**super().to_dict(), **own}

    @property
    def fills_missing(self) -> bool:
        return self.has_midpoint and not self.is_target

    def cells_of_objects(self, cells: NDArray[Any]) -> pa.Array:
        return pa.array(numbers_of_objects(cells))

    def encode(self, cells: pa.Array, *, marked: bool = False) -> list[FloatArray]:
        return [self.scaled(self.numbers(cells), marked=marked)]

    def numbers(self, cells: pa.Array) -> FloatArray:
        """Return cells as finite numbers in own units, not clipped; NaN where the value is missing."""
        return typed.numbers_of(cells)

    def scaled(self, numbers: FloatArray, *, marked: bool = False) -> FloatArray:
        """Return finite numbers or NaN as coordinates. If `marked`, those that are clipped become `BEYOND`."""
        with np.errstate(over="ignore", invalid="ignore"):
            return np.clip((numbers - self.center) / self.unit_scale, -LARGEST, LARGEST)

    def decode(self, coordinates: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):
            return np.clip(coordinates * self.unit_scale + self.center, -LARGEST, LARGEST)


@dataclass(frozen=True, kw_only=True)
class Bounds(_Affine):
    """Numbers within stated bounds: clipped, and mapped to [-1, 1], or [-factor, factor].

    Bounds of 0 and 1 may stand for truth values, so words for true and false are 1 and 0 between them.
    """

    kind: ClassVar[str] = "bounds"

    low: float
    high: float

    def __post_init__(self) -> None:
        super().__post_init__()
        for side in ("low", "high"):
            rule = "a number in [-1e300, 1e300]"
            title = f"columns[{self.name!r}]"
            value = validate.number(title, getattr(self, side), rule=rule, low=-LARGEST, high=LARGEST)
            object.__setattr__(self, side, value)
        if not self.unit_scale >= 1e-300:
            raise ArgumentError(
                f"columns[{self.name!r}] has the bounds {self._shown(self.low)} and {self._shown(self.high)}. Pass "
                "(low, high) with low < high."
            )

    def _shown(self, bound: float) -> str:
        return f"{bound:g}"

    @property
    def center(self) -> float:
        return self.low / 2.0 + self.high / 2.0

    @property
    def unit_scale(self) -> float:
        return (self.high / 2.0 - self.low / 2.0) / self.factor

    @property
    def has_truths(self) -> bool:
        """Whether words for true and false are numbers of this column."""
        return (self.low, self.high) == (0.0, 1.0)

    def cells_of_objects(self, cells: NDArray[Any]) -> pa.Array:
        return typed.texts_of_objects(cells) if self.has_truths else super().cells_of_objects(cells)

    def numbers(self, cells: pa.Array) -> FloatArray:
        numbers = super().numbers(cells)
        return np.where(np.isnan(numbers), typed.truths_of(cells), numbers) if self.has_truths else numbers

    def scaled(self, numbers: FloatArray, *, marked: bool = False) -> FloatArray:
        inside = (np.clip(numbers, self.low, self.high) - self.center) / self.unit_scale
        inside = np.clip(inside, -self.factor, self.factor)
        return _marked(inside, numbers < self.low, numbers > self.high) if marked and self.factor == 1.0 else inside

    def square_reach(self, point: FloatArray) -> float:
        return (self.factor + abs(float(point[0]))) ** 2

    def decode(self, coordinates: FloatArray) -> FloatArray:
        return np.clip(super().decode(coordinates), self.low, self.high)

    def facts(self) -> dict[str, Any]:
        return {"low": self.low, "high": self.high}


@dataclass(frozen=True, kw_only=True)
class Dates(Bounds):
    """Dates or times within stated bounds, as days since 1970-01-01."""

    kind: ClassVar[str] = "dates"
    cells: ClassVar[str] = "dates or times"

    @property
    def form(self) -> str:
        return "dates"

    def accepts(self, kind: pa.DataType) -> bool:
        kind = typed.value_type(kind)
        return typed.is_time(kind) or typed.is_text(kind) or pa.types.is_null(kind)

    def cells_of_objects(self, cells: NDArray[Any]) -> pa.Array:
        return typed.texts_of_objects(cells)

    def numbers(self, cells: pa.Array) -> FloatArray:
        return np.full(len(cells), np.nan) if pa.types.is_null(cells.type) else typed.days_of(cells)

    def times(self, days: FloatArray) -> NDArray[Any]:
        """Return decoded days as `datetime64`, rounded to whole days if the bounds are whole days."""
        whole = self.low % 1.0 == self.high % 1.0 == 0.0
        return typed.times_of_days(np.rint(days) if whole else days)

    def _shown(self, bound: float) -> str:
        time = typed.times_of_days(np.array([bound]))[0]
        date = time.astype("datetime64[D]")
        return str(date if date == time else time)

    def facts(self) -> dict[str, Any]:
        return {"low": self._shown(self.low), "high": self._shown(self.high)}


@dataclass(frozen=True, kw_only=True)
class Auto(_Affine):
    """Numbers whose bounds, center - scale and center + scale, a private survey finds.

    They are clipped to the bounds. Until the bounds are known, a coordinate is the number itself.

    If `standardized`, the survey finds a mean and a deviation instead, as center and scale. The numbers are clipped
    at 10 deviations only, since a regression on clipped numbers is biased. Released values lie between `low` and
    `high`, which the survey finds too.
    """

    kind: ClassVar[str] = "auto"

    middle: float | None = None
    scale: float | None = None
    standardized: bool = False
    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        known = [self.middle, self.scale, *((self.low, self.high) if self.standardized else ())]
        if any(number is None for number in known) and any(number is not None for number in known):
            raise ArgumentError(f"columns[{self.name!r}] needs both a center and a scale, or neither. Pass both.")
        if self.middle is not None:
            rule = "a number in [-1e300, 1e300]"
            center = validate.number("center", self.middle, rule=rule, low=-LARGEST, high=LARGEST)
            object.__setattr__(self, "middle", center)
            object.__setattr__(self, "scale", _public_scale(self.name, self.scale))

    def opened(self) -> Auto:
        """Return the column as it was before the survey."""
        return replace(self, middle=None, scale=None, low=None, high=None)

    def resolved(self, center: float, scale: float, low: float, high: float) -> Auto:
        """Return the column with what a survey found. Only a standardized column keeps the bounds."""
        bounds = (low, high) if self.standardized else (None, None)
        return replace(self, middle=center, scale=scale, low=bounds[0], high=bounds[1])

    @property
    def is_open(self) -> bool:
        return self.scale is None

    @property
    def is_bounded(self) -> bool:
        return not self.is_open and not self.standardized

    @property
    def has_midpoint(self) -> bool:
        return not self.is_open

    @property
    def center(self) -> float:
        return 0.0 if self.middle is None else self.middle

    @property
    def unit_scale(self) -> float:
        return 1.0 if self.scale is None else self.scale / self.factor

    def scaled(self, numbers: FloatArray, *, marked: bool = False) -> FloatArray:
        if self.is_open:
            return numbers
        coordinates = super().scaled(numbers)
        most = self.factor * (_MOST_DEVIATIONS if self.standardized else 1.0)
        inside = np.clip(coordinates, -most, most)
        if not marked or self.factor != 1.0 or self.standardized:
            return inside
        end = 1.0 + _ROUNDING_OF_SCALE + _ROUNDING_OF_CENTER * abs(self.center) / self.unit_scale
        return _marked(inside, coordinates < -end, coordinates > end)

    def decode(self, coordinates: FloatArray) -> FloatArray:
        if self.is_open:
            return super().decode(coordinates)
        if self.standardized:
            return np.clip(super().decode(coordinates), self.low, self.high)
        return super().decode(np.clip(coordinates, -self.factor, self.factor))

    def facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = {"center": self.middle, "scale": self.scale}
        return {**facts, "standardized": True, "low": self.low, "high": self.high} if self.standardized else facts


@dataclass(frozen=True, kw_only=True)
class Scale(_Affine):
    """Numbers divided by a public number, without bounds."""

    kind: ClassVar[str] = "scale"
    is_bounded: ClassVar[bool] = False

    scale: float

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "scale", _public_scale(self.name, self.scale))

    @property
    def has_midpoint(self) -> bool:
        return False

    @property
    def center(self) -> float:
        return 0.0

    @property
    def unit_scale(self) -> float:
        return self.scale / self.factor

    def facts(self) -> dict[str, Any]:
        return {"scale": self.scale}


def _marked(coordinates: FloatArray, below: NDArray[np.bool_], above: NDArray[np.bool_]) -> FloatArray:
    """Coordinates in which numbers below the lower bound or above the upper one are `BEYOND`, with a sign."""
    coordinates = np.where(below, -BEYOND, coordinates)
    return np.where(above, BEYOND, coordinates)


def days(title: str, value: object) -> float:
    """Return a public date or time, given as an object or in ISO 8601, as days since 1970-01-01."""
    date = float(typed.days_of(typed.texts_of_objects([value]))[0])
    if math.isnan(date):
        raise ArgumentError(f"{title} is not a date. Write dates such as 2025-01-31; write categories as a list.")
    return date


def _public_scale(name: str, scale: object) -> float:
    rule = "a number in [1e-300, 1e300]"
    return validate.number(f"the scale of column {name!r}", scale, rule=rule, low=1e-300, high=LARGEST)
