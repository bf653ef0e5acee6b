"""The kinds of columns, and the coordinates that their cells have in the vector of a row.

Numbers with bounds, a scale or bounds yet to be found, dates, truth values and categories; and groups, which are ranges
of numbers or periods of dates: each cell belongs to one of them or to none.
"""

from __future__ import annotations

import datetime
import functools
import itertools
import math
import statistics
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pais._base import validate
from pais._base.lattice import IntArray
from pais._base.numerics import FloatArray
from pais.data.cells import (
    days_of,
    is_numeric,
    is_text,
    is_time,
    listed,
    mark_of,
    matches,
    numbers_of,
    numbers_of_objects,
    texts_of_objects,
    times_of_days,
    truths_of,
    value_type,
)
from pais.errors import ArgumentError

#: Coordinates without bounds are clipped here, so that they stay finite.
LARGEST = 1e300

_public_scale = functools.partial(validate.number, rule="a number in [1e-300, 1e300]", low=1e-300, high=LARGEST)

#: Two categories are as far apart as the two ends of a stated range: sqrt(2) * sqrt(2) = 2.
CATEGORY = math.sqrt(2.0)


@dataclass(frozen=True, kw_only=True)
class Column(ABC):
    """A column of a table and the public facts about it.

    Attributes
    ----------
    cells, form : str
        Error messages name the cells that a column needs by `cells`. A file with a dialect reads text cells as `form`:
        "numbers", "dates" or "text".
    labels, midpoint : tuple
        One label for each coordinate, and the middle of all vectors that a cell can have.
    is_open, is_bounded, has_midpoint : bool
        Whether the scale is still unknown; public bounds limit every coordinate; coordinate 0 is a public midpoint.
    unit_scale, center : float
        Own units per unit of a coordinate, and the value in own units at coordinate 0.
    factor, is_target : float, bool
        The weight of a column of numbers in the norm of a row, and whether no number stands in for a missing one: a
        made-up target would bias a regression. Both are public.
    """

    kind: ClassVar[str]
    cells: ClassVar[str] = "numbers"
    form = "numbers"
    is_open, is_bounded, has_midpoint, is_target = False, True, True, False
    unit_scale, center, factor = 1.0, 0.0, 1.0

    name: str
    labels: tuple[str, ...] = field(init=False, repr=False, compare=False)
    midpoint: tuple[float, ...] = field(init=False, repr=False, compare=False, default=(0.0,))

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise ArgumentError("columns must be named by text that is not empty. Pass the names of the columns.")
        if self.factor != 1.0:
            # A frozen object sets what follows from its fields in its dictionary, here and in the subclasses.
            factor = validate.number("factor", self.factor, rule="a number in [1e-9, 1e9]", low=1e-9, high=1e9)
            self.__dict__.update(factor=factor)
        self.__dict__.update(labels=(self.name,))

    def square_reach(self, point: FloatArray) -> float:
        """Largest squared distance between a point and the coordinates of a cell, stated or missing."""
        return math.inf

    def accepts(self, kind: pa.DataType) -> bool:
        """Whether cells of this type can be converted. Text is converted cell by cell."""
        kind = value_type(kind)
        if is_text(kind) or pa.types.is_null(kind):
            return True
        return is_time(kind) if self.form == "dates" else is_numeric(kind)

    def cells_of_objects(self, cells: NDArray[Any]) -> pa.Array:
        """Return a column of Python objects as cells that `encode` reads, one by one."""
        return texts_of_objects(cells)

    @abstractmethod
    def encode(self, cells: pa.Array) -> list[FloatArray]:
        """Return one array per coordinate, finite or NaN where the value is missing."""

    @abstractmethod
    def decode(self, coordinates: FloatArray) -> FloatArray:
        """Return coordinates of shape (m, width) in own units, within the public bounds."""

    def facts(self) -> dict[str, Any]:
        """What is known about the column, for files."""
        return {}

    def to_dict(self) -> dict[str, Any]:
        own = {"factor": self.factor} if self.factor != 1.0 else {}
        others = {"is_target": True} if self.is_target else {}
        return {"name": self.name, "kind": self.kind, **self.facts(), **own, **others}


@dataclass(frozen=True, kw_only=True)
class Boolean(Column):
    """True or false: one coordinate, 1 or -1, which is released as the share of true."""

    kind: ClassVar[str] = "boolean"
    cells: ClassVar[str] = "booleans"
    unit_scale = center = 0.5

    def encode(self, cells: pa.Array) -> list[FloatArray]:
        return [2.0 * truths_of(cells) - 1.0]

    def decode(self, coordinates: FloatArray) -> FloatArray:
        return np.clip((coordinates + 1.0) / 2.0, 0.0, 1.0)

    def square_reach(self, point: FloatArray) -> float:
        return (1.0 + abs(float(point[0]))) ** 2


@dataclass(frozen=True, kw_only=True)
class Categories(Column):
    """A public list of categories: one coordinate each. A value that is unknown or missing is none of them.

    Two categories of which one stands for true and the other for false are truth values, as in `Boolean`. If all
    categories are numbers, cells are compared as numbers; otherwise as `pais.data.cells.matches` says.
    """

    kind: ClassVar[str] = "categories"
    cells: ClassVar[str] = "text, numbers or booleans"
    unit_scale = 1.0 / CATEGORY

    values: tuple[str | int | float, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        is_truth = tuple(self.values) in ((False, True), (True, False)) and isinstance(self.values[0], bool)
        values = self.values if is_truth else tuple(self._checked(value) for value in self.values)
        if not all(isinstance(value, (int, float)) for value in values):
            values = tuple(str(value) for value in values)
        marks = [mark_of(value) if isinstance(value, str) else value for value in values]
        # Otherwise True would be equal to 1.
        if not values or len({(type(mark), mark) for mark in marks}) < len(values):
            raise ArgumentError(
                f"columns[{self.name!r}] has no categories or the same one twice. List each category once."
            )
        are_texts = isinstance(values[0], str) and _truths(values) is None
        self.__dict__.update(values=values, form="text" if are_texts else "numbers")
        labels = tuple(f"{self.name}={value}" for value in values)
        self.__dict__.update(labels=labels, midpoint=(CATEGORY / len(labels),) * len(labels))

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

    def square_reach(self, point: FloatArray) -> float:
        # A category that is not listed is at the origin.
        return float(point @ point + max(0.0, 2.0 - 2.0 * CATEGORY * point.min()))

    def cells_of_objects(self, cells: NDArray[Any]) -> pa.Array:
        return texts_of_objects(cells, with_times=False)

    def encode(self, cells: pa.Array) -> list[FloatArray]:
        if pa.types.is_null(value_type(cells.type)):
            return [np.zeros(len(cells)) for _ in self.values]
        truths = _truths(self.values)
        if truths is not None:
            cell_truths = truths_of(cells)
            return [np.where(cell_truths == truth, CATEGORY, 0.0) for truth in truths]
        texts = [value for value in self.values if isinstance(value, str)]
        if texts:
            return [np.where(equal, CATEGORY, 0.0) for equal in matches(cells, texts)]
        numbers = numbers_of(cells)
        return [CATEGORY * (numbers == value) for value in self.values]

    def decode(self, coordinates: FloatArray) -> FloatArray:
        shares = np.clip(coordinates / CATEGORY, 0.0, 1.0)
        return np.asarray(shares / np.maximum(shares.sum(axis=1, keepdims=True), 1.0))

    def facts(self) -> dict[str, Any]:
        return {"values": list(self.values)}


@functools.lru_cache
def _truths(values: tuple[str | int | float, ...]) -> tuple[float, ...] | None:
    """The truth value of each category, if one of two is true and the other is false."""
    if len(values) != 2:
        return None
    truths = tuple(truths_of(texts_of_objects(values)).tolist())
    return truths if set(truths) == {0.0, 1.0} else None


# Numbers farther from the mean than this many deviations are clipped in a standardized column. If noise hides the size
# of a column, its deviation is far too small, and one cell would decide a prediction by itself.
_MOST_DEVIATIONS = 10.0

#: Coordinate, with a sign, of a clipped number if clipped numbers are marked. Those of other numbers are in [-1, 1].
BEYOND = 1.5

# A number is beyond a bound that was found privately only if rounding errors of the bound do not explain it, relative
# to the scale and to the center. A bound such as 0 can hold most of the cells.
_ROUNDING_OF_SCALE, _ROUNDING_OF_CENTER = 1e-9, 1e-13


#: The group of all cells that hold a name which was not published.
OTHER = "other"

# A longer name, or one with characters that cannot be printed, is never published: it counts as "other".
_LONGEST_NAME = 200


@dataclass(frozen=True, kw_only=True)
class Names(Column):
    """Names that nobody listed. A private release finds those that enough people have; all others are "other".

    A cell has one coordinate: the place of its name among `values`, between -1 and 1. The last of them is "other". A
    cell without a name has the coordinate 2, which is none of them.

    Attributes
    ----------
    values : tuple of str
        The published names and "other". Before the release, "other" alone.
    strip, casefold : bool
        Whether blanks at the ends do not count, and whether upper and lower case are the same.
    unicode_form : {"", "NFC", "NFD", "NFKC", "NFKD"}
        Unicode form in which names are compared and published; "" leaves them as they are.
    period : {"", "day", "month"}
        Name dates and times by their day or month.

    Notes
    -----
    Guarantee. The name of a cell is a function of this cell and of public options: `tests/unit/data/test_names.py`.
    """

    kind: ClassVar[str] = "names"
    cells: ClassVar[str] = "text, numbers, dates or booleans"

    values: tuple[str, ...] = (OTHER,)
    strip: bool = False
    casefold: bool = False
    unicode_form: str = ""
    period: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        values = tuple(self.values)
        if values[-1:] != (OTHER,) or len(set(values)) < len(values) or not all(isinstance(v, str) for v in values):
            raise ArgumentError(f"the names of column {self.name!r} do not end with {OTHER!r}, or one occurs twice.")
        self.__dict__.update(values=values, form="dates" if self.period else "text")
        for option, known in (("period", ("", "day", "month")), ("unicode_form", ("", "NFC", "NFD", "NFKC", "NFKD"))):
            if getattr(self, option) not in known:
                raise ArgumentError(
                    f"{option}={getattr(self, option)!r} is not known. Pass one of {listed(known[1:])}."
                )

    @property
    def is_unlisted(self) -> bool:
        """Whether no name is published."""
        return len(self.values) == 1

    @property
    def is_as_written(self) -> bool:
        """Whether the name of a text cell is its text."""
        return not (self.strip or self.casefold or self.unicode_form or self.period)

    def opened(self) -> Names:
        """The column before its names are published."""
        return replace(self, values=(OTHER,))

    def listed(self, published: Sequence[str]) -> Names:
        """The column with its published names."""
        return replace(self, values=(*published, OTHER))

    def alike(self, names: Sequence[str]) -> tuple[list[str], str]:
        """The names that are others but for blanks, case or Unicode form, and the call of `names` that makes them one.

        Of names that are alike, the first is not among them.
        """
        options = {"strip": True, "casefold": True, "unicode_form": self.unicode_form or "NFC"}
        cells = pa.array(names, pa.large_string())
        own = {option: getattr(self, option) for option in options}

        def merged(**stated: Any) -> list[str]:
            return list(replace(self.opened(), **stated).texts(cells).to_pylist())

        every = merged(**options)
        for option in options:
            fewer = options | {option: own[option]}
            if len(set(merged(**fewer))) == len(set(every)):
                options = fewer
        first = dict(zip(reversed(every), reversed(names), strict=True))
        apart = [name for name, one in zip(names, every, strict=True) if first[one] != name]
        return apart, f"pais.names({', '.join(f'{option}={value!r}' for option, value in options.items() if value)})"

    def accepts(self, kind: pa.DataType) -> bool:
        kind = value_type(kind)
        if is_text(kind) or pa.types.is_null(kind) or is_time(kind):
            return True
        return not self.period and is_numeric(kind)

    def square_reach(self, point: FloatArray) -> float:
        return float((2.0 + np.abs(point).max()) ** 2)

    def texts(self, cells: pa.Array) -> pa.Array:
        """The name in each cell; null for a cell without one. [note: names-7]"""
        cells = cells.dictionary_decode() if pa.types.is_dictionary(cells.type) else cells
        if self.period or is_time(cells.type):
            unit = "datetime64[M]" if self.period == "month" else "datetime64[D]"
            days = days_of(cells)
            missing = np.isnan(days)
            dates = np.floor(np.where(missing, 0.0, days)).astype("datetime64[D]").astype(unit)
            return pa.array(np.datetime_as_string(dates), pa.large_string(), mask=missing)
        if pa.types.is_floating(cells.type):
            cells = pc.if_else(pc.is_finite(cells), cells, pa.scalar(None, cells.type))
        texts = pc.cast(cells, pa.large_string())
        if self.unicode_form:
            texts = pc.utf8_normalize(texts, form=self.unicode_form)
        if self.strip:
            texts = pc.utf8_trim_whitespace(texts)
        if self.casefold:
            texts = pc.utf8_lower(texts)
        # Both ways have the same results; the functions for other characters than ASCII are slow.
        is_ascii = _is_printable_ascii(texts)
        trimmed = pc.ascii_trim_whitespace(texts) if is_ascii else pc.utf8_trim_whitespace(texts)
        texts = pc.if_else(pc.equal(pc.binary_length(trimmed), 0), pa.scalar(None, texts.type), texts)
        fits = pc.less_equal(pc.binary_length(texts) if is_ascii else pc.utf8_length(texts), _LONGEST_NAME)
        if not is_ascii:
            fits = pc.and_(fits, pc.utf8_is_printable(texts))
        return texts if pc.all(fits).as_py() is not False else pc.if_else(fits, texts, pa.scalar(OTHER, texts.type))

    def distinct(self, cells: pa.Array) -> tuple[pa.Array, IntArray]:
        """The names of the distinct cells, and the place of each cell among them; -1 for a cell that is missing.

        Names are made once for each distinct cell. Different cells may have the same name.
        """
        coded = cells if pa.types.is_dictionary(cells.type) else cells.dictionary_encode()
        places = pc.fill_null(coded.indices.cast(pa.int64()), -1)
        return self.texts(coded.dictionary), np.asarray(places.to_numpy(zero_copy_only=False))

    def cells_of_objects(self, cells: NDArray[Any]) -> pa.Array:
        """The names of objects are those of typed columns with the same values."""
        texts = texts_of_objects(cells).to_pylist()
        for place, cell in enumerate(cells):
            if isinstance(cell, (bool, np.bool_)):
                texts[place] = str(bool(cell)).lower()
            elif isinstance(cell, (int, np.integer)):
                texts[place] = str(int(cell))
            elif isinstance(cell, (float, np.floating)) and math.isfinite(cell):
                texts[place] = pa.scalar(float(cell)).cast(pa.string()).as_py()
        return pa.array(texts, pa.large_string())

    def places(self, cells: pa.Array) -> IntArray:
        """The place of the name of each cell among the published ones; -1 for a cell without a name."""
        if self.is_as_written and is_text(cells.type):
            whole = pc.cast(cells, pa.large_string())
            # Making names of ASCII text is faster than finding the distinct cells first.
            if _is_printable_ascii(whole):
                return self._places(self.texts(whole))
        texts, places = self.distinct(cells)
        return np.append(self._places(texts), -1).take(places)

    def _places(self, texts: pa.Array) -> IntArray:
        """The place of each name among the published ones; -1 for none."""
        found = pc.fill_null(pc.index_in(texts, value_set=self._value_set), len(self.values) - 1)
        nameless = np.asarray(texts.is_null().to_numpy(zero_copy_only=False))
        return np.where(nameless, -1, np.asarray(found.to_numpy(zero_copy_only=False))).astype(np.int64)

    def encode(self, cells: pa.Array) -> list[FloatArray]:
        places = self.places(cells)
        return [np.where(places < 0, 2.0, (2.0 * places + 1.0) / len(self.values) - 1.0)]

    @functools.cached_property
    def _value_set(self) -> pa.Array:
        return pa.array(self.values, pa.large_string())

    def decode(self, coordinates: FloatArray) -> FloatArray:
        return coordinates

    def facts(self) -> dict[str, Any]:
        options = ("strip", "casefold", "unicode_form", "period")
        return {"values": list(self.values), **{option: getattr(self, option) for option in options}}


@dataclass(frozen=True, kw_only=True)
class FoundCategories(Categories):
    """Categories of a model that nobody listed: the published names of a column and "other", one coordinate each.

    A private survey finds the names. Until then, all cells with a name are "other".

    Attributes
    ----------
    named : Names
        How cells are named, and the names that are published.
    with_other : bool
        Whether "other" has a coordinate if there are names. Otherwise such a cell is none of the categories.

    Notes
    -----
    Guarantee. At most one coordinate of a cell is not 0, and which one is a function of this cell and of published
    names: `tests/unit/data/test_found_categories.py`.
    """

    kind: ClassVar[str] = "found categories"
    cells: ClassVar[str] = Names.cells

    values: tuple[str | int | float, ...] = ()
    named: Names
    with_other: bool = True

    def __post_init__(self) -> None:
        # Names are compared as they are, and not as listed categories.
        Column.__post_init__(self)
        values = self.named.values
        if not self.with_other and len(values) > 1:
            values = values[:-1]
        labels = tuple(f"{self.name}={value}" for value in values)
        midpoint = (CATEGORY / len(labels),) * len(labels)
        self.__dict__.update(values=values, form=self.named.form, labels=labels, midpoint=midpoint)

    @classmethod
    def of(cls, named: Names) -> FoundCategories:
        """The categories of a model for names of a column."""
        return cls(name=named.name, named=named)

    def opened(self) -> FoundCategories:
        """The column before its names are published."""
        return replace(self, named=self.named.opened())

    def listed(self, published: Sequence[str]) -> FoundCategories:
        """The column with its published names."""
        return replace(self, named=self.named.listed(published))

    @property
    def is_unlisted(self) -> bool:
        """Whether no name is published."""
        return self.named.is_unlisted

    @property
    def is_as_written(self) -> bool:
        """Whether the name of a text cell is its text."""
        return self.named.is_as_written

    def distinct(self, cells: pa.Array) -> tuple[pa.Array, IntArray]:
        """The names of the distinct cells, as in `Names`."""
        return self.named.distinct(cells)

    def accepts(self, kind: pa.DataType) -> bool:
        return self.named.accepts(kind)

    def cells_of_objects(self, cells: NDArray[Any]) -> pa.Array:
        return self.named.cells_of_objects(cells)

    def encode(self, cells: pa.Array) -> list[FloatArray]:
        places = self.named.places(cells)
        return [np.where(places == place, CATEGORY, 0.0) for place in range(len(self.values))]

    def facts(self) -> dict[str, Any]:
        return {**self.named.facts(), "with_other": self.with_other}


def _is_printable_ascii(texts: pa.Array) -> bool:
    """Whether all characters of a column of text are ASCII, from blank to tilde."""
    _, offsets, content = texts.buffers()
    if content is None:
        return True
    bounds = np.frombuffer(offsets, dtype=np.int64)
    first, last = bounds[texts.offset], bounds[texts.offset + len(texts)]
    # Below the blank, the difference wraps around.
    codes = np.frombuffer(content, dtype=np.uint8)[first:last] - np.uint8(0x20)
    return bool(codes.max(initial=0) < 0x5F)


@dataclass(frozen=True, kw_only=True)
class _Affine(Column):
    """A column of numbers that is shifted and scaled: ``factor * (x - center) / scale``."""

    factor: float = 1.0
    is_target: bool = False

    def cells_of_objects(self, cells: NDArray[Any]) -> pa.Array:
        return pa.array(numbers_of_objects(cells))

    def encode(self, cells: pa.Array, *, marked: bool = False) -> list[FloatArray]:
        return [self.scaled(self.numbers(cells), marked=marked)]

    def numbers(self, cells: pa.Array) -> FloatArray:
        """Return cells as finite numbers in own units, not clipped; NaN where the value is missing."""
        return numbers_of(cells)

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
        title, rule = f"columns[{self.name!r}]", "a number in [-1e300, 1e300]"
        low, high = (
            validate.number(title, end, rule=rule, low=-LARGEST, high=LARGEST) for end in (self.low, self.high)
        )
        unit_scale = (high / 2.0 - low / 2.0) / self.factor
        self.__dict__.update(low=low, high=high, center=low / 2.0 + high / 2.0, unit_scale=unit_scale)
        if not unit_scale >= 1e-300:
            raise ArgumentError(
                f"columns[{self.name!r}] has the bounds {self._shown(self.low)} and {self._shown(self.high)}. Pass "
                "(low, high) with low < high."
            )

    def _shown(self, bound: float) -> str:
        return f"{bound:g}"

    @property
    def has_truths(self) -> bool:
        """Whether words for true and false are numbers of this column."""
        return (self.low, self.high) == (0.0, 1.0)

    def cells_of_objects(self, cells: NDArray[Any]) -> pa.Array:
        return texts_of_objects(cells) if self.has_truths else super().cells_of_objects(cells)

    def numbers(self, cells: pa.Array) -> FloatArray:
        numbers = super().numbers(cells)
        return np.where(np.isnan(numbers), truths_of(cells), numbers) if self.has_truths else numbers

    def scaled(self, numbers: FloatArray, *, marked: bool = False) -> FloatArray:
        inside = (np.clip(numbers, self.low, self.high) - self.center) / self.unit_scale
        inside = np.clip(inside, -self.factor, self.factor)
        return _marked(inside, numbers < self.low, numbers > self.high) if marked and self.factor == 1.0 else inside

    def square_reach(self, point: FloatArray) -> float:
        return (self.factor + abs(float(point[0]))) ** 2

    def decode(self, coordinates: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):
            return np.clip(coordinates * self.unit_scale + self.center, self.low, self.high)

    def facts(self) -> dict[str, Any]:
        return {"low": self.low, "high": self.high}


@dataclass(frozen=True, kw_only=True)
class Dates(Bounds):
    """Dates or times within stated bounds, as days since 1970-01-01."""

    kind: ClassVar[str] = "dates"
    cells: ClassVar[str] = "dates or times"
    form = "dates"

    def cells_of_objects(self, cells: NDArray[Any]) -> pa.Array:
        return texts_of_objects(cells)

    def numbers(self, cells: pa.Array) -> FloatArray:
        return days_of(cells)

    def times(self, date_in_days: FloatArray) -> NDArray[Any]:
        """Return decoded days as `datetime64`, rounded to whole days if the bounds are whole days."""
        whole = self.low % 1.0 == self.high % 1.0 == 0.0
        return times_of_days(np.rint(date_in_days) if whole else date_in_days)

    def _shown(self, bound: float) -> str:
        time = times_of_days(np.array([bound]))[0]
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
        if self.middle is None or self.scale is None:
            self.__dict__.update(is_open=True, is_bounded=False, has_midpoint=False)
            return
        rule = "a number in [-1e300, 1e300]"
        center = validate.number("center", self.middle, rule=rule, low=-LARGEST, high=LARGEST)
        scale = _public_scale(f"the scale of column {self.name!r}", self.scale)
        is_bounded = not self.standardized
        self.__dict__.update(
            middle=center, scale=scale, center=center, unit_scale=scale / self.factor, is_bounded=is_bounded
        )

    def resolved(self, center: float, scale: float, low: float, high: float) -> Auto:
        """Return the column with what a survey found. Only a standardized column keeps the bounds."""
        bounds = (low, high) if self.standardized else (None, None)
        return replace(self, middle=center, scale=scale, low=bounds[0], high=bounds[1])

    def scaled(self, numbers: FloatArray, *, marked: bool = False) -> FloatArray:
        if self.is_open:
            return numbers
        with np.errstate(over="ignore", invalid="ignore"):
            coordinates = (numbers - self.center) / self.unit_scale
        most = self.factor * (_MOST_DEVIATIONS if self.standardized else 1.0)
        inside = np.clip(coordinates, -most, most)
        if not marked or self.factor != 1.0 or self.standardized:
            return inside
        end = 1.0 + _ROUNDING_OF_SCALE + _ROUNDING_OF_CENTER * abs(self.center) / self.unit_scale
        return _marked(inside, coordinates < -end, coordinates > end)

    def decode(self, coordinates: FloatArray) -> FloatArray:
        if not self.is_open and not self.standardized:
            coordinates = np.clip(coordinates, -self.factor, self.factor)
        with np.errstate(over="ignore"):
            decoded = np.clip(coordinates * self.unit_scale + self.center, -LARGEST, LARGEST)
        return np.clip(decoded, self.low, self.high) if self.standardized and not self.is_open else decoded

    def facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = {"center": self.middle, "scale": self.scale}
        return {**facts, "standardized": True, "low": self.low, "high": self.high} if self.standardized else facts


@dataclass(frozen=True, kw_only=True)
class Scale(_Affine):
    """Numbers divided by a public number, without bounds."""

    kind: ClassVar[str] = "scale"
    is_bounded = has_midpoint = False

    scale: float

    def __post_init__(self) -> None:
        super().__post_init__()
        scale = _public_scale(f"the scale of column {self.name!r}", self.scale)
        self.__dict__.update(scale=scale, unit_scale=scale / self.factor)

    def facts(self) -> dict[str, Any]:
        return {"scale": self.scale}


def _marked(coordinates: FloatArray, below: NDArray[np.bool_], above: NDArray[np.bool_]) -> FloatArray:
    """Coordinates in which numbers below the lower bound or above the upper one are `BEYOND`, with a sign."""
    return np.where(above, BEYOND, np.where(below, -BEYOND, coordinates))


def date_in_days(title: str, value: object) -> float:
    """Return a public date or time, given as an object or in ISO 8601, as days since 1970-01-01."""
    date = float(days_of(texts_of_objects([value]))[0])
    if math.isnan(date):
        raise ArgumentError(f"{title} is not a date. Write dates such as 2025-01-31; write categories as a list.")
    return date


# Each group is a coordinate of every row, so many of them need much memory. Two years have 731 days.
_MOST_GROUPS = 750

Date = str | datetime.date | np.datetime64


@dataclass(frozen=True, kw_only=True)
class Intervals(Categories):
    """A column whose cells are sorted into intervals: one coordinate each, as for categories.

    A cell that is missing, or outside all intervals, belongs to none of them.

    Notes
    -----
    Guarantee. At most one coordinate of a cell is not 0, and which one is a function of this cell and of the public
    edges: `tests/theory/test_intervals.py`.
    """

    values: tuple[str | int | float, ...] = ()

    def __post_init__(self) -> None:
        # Labels of different intervals differ, and no cell is compared with them.
        Column.__post_init__(self)
        values = self._texts()
        labels = tuple(f"{self.name}={value}" for value in values)
        self.__dict__.update(values=values, labels=labels, midpoint=(CATEGORY / len(labels),) * len(labels))

    @property
    @abstractmethod
    def edges(self) -> FloatArray:
        """The ends of the intervals, in ascending order; dates as days since 1970-01-01."""

    @abstractmethod
    def span(self) -> str:
        """All intervals together, in words."""

    @abstractmethod
    def _texts(self) -> tuple[str, ...]:
        """One label for each interval."""

    def places(self, numbers: FloatArray) -> NDArray[np.intp]:
        """The interval of each number, from 0; a place beyond the first or the last one for a number outside.

        An interval holds its lower end and not its upper end.
        """
        # [note: schema-1] NaN is sorted after every number, so it is in no interval.
        return np.searchsorted(self.edges, numbers, side="right") - 1

    def cells_of_objects(self, cells: NDArray[Any]) -> pa.Array:
        return texts_of_objects(cells) if self.form == "dates" else pa.array(numbers_of_objects(cells))

    def encode(self, cells: pa.Array) -> list[FloatArray]:
        places = self.places(days_of(cells) if self.form == "dates" else numbers_of(cells))
        return [np.where(places == place, CATEGORY, 0.0) for place in range(len(self.values))]


@dataclass(frozen=True, kw_only=True)
class Ranges(Intervals):
    """Numbers in ranges between stated edges. The last range holds its upper edge too."""

    kind: ClassVar[str] = "ranges"
    cells: ClassVar[str] = "numbers"

    ends: tuple[float, ...]

    def __post_init__(self) -> None:
        self.__dict__.update(ends=_ascending(self.ends))
        super().__post_init__()

    @property
    def edges(self) -> FloatArray:
        return np.array(self.ends)

    def places(self, numbers: FloatArray) -> NDArray[np.intp]:
        return np.where(numbers == self.ends[-1], len(self.values) - 1, super().places(numbers))

    def _texts(self) -> tuple[str, ...]:
        texts = [_range_in_words(low, high) for low, high in itertools.pairwise(self.ends)]
        return (*texts[:-1], self.span() if len(texts) == 1 else texts[-1])

    def span(self) -> str:
        low, high = self.ends[0], self.ends[-1]
        return f"{_shown(high, ',')} or less" if low == -math.inf < high < math.inf else _range_in_words(low, high)

    def facts(self) -> dict[str, Any]:
        # JSON has no infinity: an open end is null.
        return {"ends": [end if math.isfinite(end) else None for end in self.ends]}


@dataclass(frozen=True, kw_only=True)
class Periods(Intervals):
    """Dates and times by day, week, month, quarter or year, from the period of one date to that of another.

    Times with a zone count in UTC. Weeks begin on Monday and are numbered as in ISO 8601.
    """

    kind: ClassVar[str] = "periods"
    cells: ClassVar[str] = "dates or times"
    form = "dates"

    period: str
    first: float
    last: float

    def __post_init__(self) -> None:
        begin, end = self._numbered
        if not begin <= end:
            raise ArgumentError(
                f"{self.period}s begin with {_date(self.first)} and end with {_date(self.last)}. Pass the first date, "
                "then the last."
            )
        if end - begin >= _MOST_GROUPS:
            raise ArgumentError(
                f"there are more than {_MOST_GROUPS} {self.period}s from {_date(self.first)} to {_date(self.last)}. "
                "State longer periods, or dates that are closer to each other."
            )
        # Periods are whole, so that a label means what it says.
        first, last = float(_start(self.period, begin)), float(_start(self.period, end + 1)) - 1.0
        self.__dict__.update(first=first, last=last)
        super().__post_init__()

    @property
    def _numbered(self) -> tuple[int, int]:
        """Numbers of the first and the last period, counted from 1970."""
        begin, end = (_number(self.period, math.floor(day)) for day in (self.first, self.last))
        return begin, end

    @property
    def edges(self) -> FloatArray:
        return np.array(_starts(self.period, *self._numbered))

    def _texts(self) -> tuple[str, ...]:
        return tuple(_LABELS[self.period](int(day)) for day in self.edges[:-1])

    def span(self) -> str:
        return f"{_date(self.first)} to {_date(self.last)}"

    def facts(self) -> dict[str, Any]:
        return {"period": self.period, "first": _date(self.first), "last": _date(self.last)}


@dataclass(frozen=True, repr=False)
class Groups:
    """Groups that a user states for a column: what `ranges`, `months` or `names` returns."""

    column: Ranges | Periods | Names

    def named(self, name: str) -> Ranges | Periods | Names:
        """The groups as a column of a schema."""
        return replace(self.column, name=name)

    def __repr__(self) -> str:
        if isinstance(self.column, Names):
            options = ((name, value) for name, value in self.column.facts().items() if name != "values" and value)
            return f"pais.names({', '.join(f'{name}={value!r}' for name, value in options)})"
        if isinstance(self.column, Ranges):
            return f"pais.ranges({', '.join(_shown(end) for end in self.column.ends)})"
        return f"pais.{self.column.period}s('{_date(self.column.first)}', '{_date(self.column.last)}')"


def names(*, strip: bool = False, casefold: bool = False, unicode_form: str = "", period: str = "") -> Groups:
    """Names that nobody listed, for `by` or `columns`: those that enough people have are found privately.

    All other names form one group or category, "other". Names are published as they are in the table. ``by="ward"`` is
    short for ``by={"ward": pais.names()}``. In `columns`, ``"auto"`` means the same for a column whose type is text.

    Parameters
    ----------
    strip : bool
        Leave out blanks at the ends.
    casefold : bool
        Write names in lower case, so that upper and lower case are the same.
    unicode_form : {"", "NFC", "NFD", "NFKC", "NFKD"}
        Bring names into a Unicode form.
    period : {"", "day", "month"}
        Name dates by day or month. Without it, dates are named by day.
    """
    return Groups(
        Names(name="names", strip=bool(strip), casefold=bool(casefold), unicode_form=unicode_form, period=period)
    )


def ranges(*edges: Any) -> Groups:
    """Group the numbers of a column into ranges, for `by` or `columns`.

    Parameters
    ----------
    *edges : float
        Two or more public numbers in ascending order, or one sequence of them. A range holds its lower edge and not
        its upper edge; the last range holds both. The first edge may be ``-math.inf`` and the last ``math.inf``. A
        number outside all ranges belongs to no group.

    Examples
    --------
    >>> import pais
    >>> people = pais.example_people(5000, random_state=0)
    >>> pais.count(people, by={"age": pais.ranges(0, 30, 60, 110)}).value.index.tolist()
    ['0 to 30', '30 to 60', '60 to 110']
    """
    single = len(edges) == 1 and isinstance(edges[0], (Sequence, np.ndarray)) and not isinstance(edges[0], str)
    return Groups(Ranges(name="ranges", ends=tuple(edges[0] if single else edges)))


def days(first: Date, last: Date) -> Groups:
    """Group the dates of a column by day: see `months`."""
    return _periods("day", first, last)


def weeks(first: Date, last: Date) -> Groups:
    """Group the dates of a column by week, from Monday to Sunday, numbered as in ISO 8601: see `months`."""
    return _periods("week", first, last)


def months(first: Date, last: Date) -> Groups:
    """Group the dates of a column by month, for `by` or `columns`.

    Parameters
    ----------
    first, last : date, or text such as "2025-01-31"
        Public dates in the first and in the last month. Both months are groups as a whole. A date before or after them
        belongs to no group. Times with a zone count in UTC.

    Examples
    --------
    >>> import pais
    >>> people = pais.example_people(5000, random_state=0)
    >>> pais.count(people, by={"joined": pais.quarters("2024-01-01", "2024-12-31")}).value.index.tolist()
    ['2024-Q1', '2024-Q2', '2024-Q3', '2024-Q4']
    """
    return _periods("month", first, last)


def quarters(first: Date, last: Date) -> Groups:
    """Group the dates of a column by quarter: see `months`."""
    return _periods("quarter", first, last)


def years(first: Date, last: Date) -> Groups:
    """Group the dates of a column by year: see `months`."""
    return _periods("year", first, last)


#: The functions that state periods, by their names.
PERIODS: dict[str, Callable[[Any, Any], Groups]] = {
    "days": days,
    "weeks": weeks,
    "months": months,
    "quarters": quarters,
    "years": years,
}


def could_be_edges(values: Sequence[Any]) -> bool:
    """Whether a list of categories may be meant as edges of ranges: numbers with decimals, or ascending with gaps.

    Whole numbers of which most follow each other, such as 1, 2, 3 and 1, 2, 9, are categories.
    """
    numbers = [float(value) for value in _reals(values) if abs(value) <= LARGEST]
    if len(numbers) < max(2, len(values)):
        return False
    if not all(number.is_integer() for number in numbers):
        return True
    steps = np.diff(numbers).tolist()
    # Two numbers in descending order are not categories either, but bounds in the wrong order.
    is_ascending = len(steps) == 1 or min(steps) > 0.0
    return is_ascending and statistics.median_low(map(abs, steps)) > 1.0


def _reals(values: Sequence[Any]) -> list[Any]:
    return [value for value in values if isinstance(value, Real) and not isinstance(value, bool)]


def _periods(period: str, first: Date, last: Date) -> Groups:
    low, high = (date_in_days(f"a date of {period}s", end) for end in (first, last))
    return Groups(Periods(name=f"{period}s", period=period, first=low, last=high))


def _ascending(edges: Sequence[Any]) -> tuple[float, ...]:
    numbers = [float(edge) for edge in _reals(edges) if abs(edge) <= LARGEST or abs(edge) == math.inf]
    # Of an ascending list, only the ends can be infinite.
    is_ascending = all(low < high for low, high in itertools.pairwise(numbers))
    if len(numbers) < max(2, len(edges)) or not is_ascending:
        raise ArgumentError("ranges needs two or more numbers in ascending order. Pass edges, such as 0, 20, 40, 60.")
    if len(numbers) > _MOST_GROUPS + 1:
        raise ArgumentError(f"there are more than {_MOST_GROUPS} ranges. State fewer edges.")
    # Otherwise -0.0 would have another label than 0.
    return tuple(number + 0.0 for number in numbers)


def _range_in_words(low: float, high: float) -> str:
    if math.isinf(low):
        return "any number" if math.isinf(high) else f"below {_shown(high, ',')}"
    return f"{_shown(low, ',')} or more" if math.isinf(high) else f"{_shown(low, ',')} to {_shown(high, ',')}"


def _shown(end: float, separator: str = "") -> str:
    """A number with all its digits, so that different edges have different labels."""
    if math.isinf(end):
        return "math.inf" if end > 0.0 else "-math.inf"
    whole = end.is_integer() and abs(end) < 2**53
    return format(int(end) if whole else end, separator)


def _date(day: float) -> str:
    return str(np.datetime64(math.floor(day), "D"))


_MONTHS = {"month": 1, "quarter": 3, "year": 12}


def _number(period: str, day: int) -> int:
    """The number of the period that a day belongs to. 1970-01-01 was a Thursday."""
    if period in _MONTHS:
        return int(np.datetime64(day, "D").astype("datetime64[M]").astype(int)) // _MONTHS[period]
    return day if period == "day" else (day + 3) // 7


@functools.lru_cache(maxsize=64)
def _starts(period: str, first: int, last: int) -> tuple[float, ...]:
    """The first days of periods, and the day after the last one. A column does not keep them: see `Schema`."""
    return tuple(float(_start(period, number)) for number in range(first, last + 2))


def _start(period: str, number: int) -> int:
    """The first day of a period."""
    if period in _MONTHS:
        return int(np.datetime64(number * _MONTHS[period], "M").astype("datetime64[D]").astype(int))
    return number if period == "day" else 7 * number - 3


def _quarter_in_words(day: int) -> str:
    year, month = _date(day)[:-3].rsplit("-", 1)
    return f"{year}-Q{(int(month) + 2) // 3}"


def _week_in_words(day: int) -> str:
    """The year and number of a week are those of its Thursday."""
    year = _date(day + 3)[:-6]
    first = int(np.datetime64(f"{year}-01-01", "D").astype(int))
    return f"{year}-W{(day + 3 - first) // 7 + 1:02d}"


_LABELS: dict[str, Callable[[int], str]] = {
    "day": _date,
    "week": _week_in_words,
    "month": lambda day: _date(day)[:-3],
    "quarter": _quarter_in_words,
    "year": lambda day: _date(day)[:-6],
}
