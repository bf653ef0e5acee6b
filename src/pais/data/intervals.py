"""Ranges of numbers and periods of dates, stated as groups: each cell belongs to one of them or to none."""

from __future__ import annotations

import datetime
import itertools
import math
import statistics
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from numbers import Real
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pais._base.numerics import FloatArray
from pais.data import scales, typed
from pais.data.cells import numbers_of_objects
from pais.data.kinds import CATEGORY, LARGEST, Categories, Column
from pais.errors import ArgumentError

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
        object.__setattr__(self, "values", self._texts())
        Column.__post_init__(self)

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

    @abstractmethod
    def _numbers(self, cells: pa.Array) -> FloatArray:
        """Cells as finite numbers, or NaN."""

    def places(self, numbers: FloatArray) -> NDArray[np.intp]:
        """The interval of each number, from 0; a place beyond the first or the last one for a number outside.

        An interval holds its lower end and not its upper end.
        """
        # [note: schema-1] NaN is sorted after every number, so it is in no interval.
        return np.searchsorted(self.edges, numbers, side="right") - 1

    def encode(self, cells: pa.Array) -> list[FloatArray]:
        places = self.places(self._numbers(cells))
        return [np.where(places == place, CATEGORY, 0.0) for place in range(len(self.values))]


@dataclass(frozen=True, kw_only=True)
class Ranges(Intervals):
    """Numbers in ranges between stated edges. The last range holds its upper edge too."""

    kind: ClassVar[str] = "ranges"
    cells: ClassVar[str] = "numbers"

    ends: tuple[float, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "ends", _ascending(self.ends))
        super().__post_init__()

    @property
    def edges(self) -> FloatArray:
        return np.array(self.ends)

    @property
    def form(self) -> str:
        return "numbers"

    def places(self, numbers: FloatArray) -> NDArray[np.intp]:
        return np.where(numbers == self.ends[-1], len(self.values) - 1, super().places(numbers))

    def cells_of_objects(self, cells: NDArray[Any]) -> pa.Array:
        return pa.array(numbers_of_objects(cells))

    def _numbers(self, cells: pa.Array) -> FloatArray:
        return typed.numbers_of(cells)

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
        object.__setattr__(self, "first", float(_start(self.period, begin)))
        object.__setattr__(self, "last", float(_start(self.period, end + 1)) - 1.0)
        super().__post_init__()

    @property
    def _numbered(self) -> tuple[int, int]:
        """Numbers of the first and the last period, counted from 1970."""
        begin, end = (_number(self.period, math.floor(day)) for day in (self.first, self.last))
        return begin, end

    @property
    def edges(self) -> FloatArray:
        return np.array(_starts(self.period, *self._numbered))

    def accepts(self, kind: pa.DataType) -> bool:
        kind = typed.value_type(kind)
        return typed.is_time(kind) or typed.is_text(kind) or pa.types.is_null(kind)

    def cells_of_objects(self, cells: NDArray[Any]) -> pa.Array:
        return typed.texts_of_objects(cells)

    @property
    def form(self) -> str:
        return "dates"

    def _numbers(self, cells: pa.Array) -> FloatArray:
        return np.full(len(cells), np.nan) if pa.types.is_null(cells.type) else typed.days_of(cells)

    def _texts(self) -> tuple[str, ...]:
        return tuple(_LABELS[self.period](int(day)) for day in self.edges[:-1])

    def span(self) -> str:
        return f"{_date(self.first)} to {_date(self.last)}"

    def facts(self) -> dict[str, Any]:
        return {"period": self.period, "first": _date(self.first), "last": _date(self.last)}


@dataclass(frozen=True, repr=False)
class Groups:
    """Ranges of numbers or periods of dates that a user states for a column: what `ranges` or `months` returns."""

    column: Ranges | Periods

    def named(self, name: str) -> Ranges | Periods:
        """The groups as a column of a schema."""
        return replace(self.column, name=name)

    def __repr__(self) -> str:
        if isinstance(self.column, Ranges):
            return f"pais.ranges({', '.join(_shown(end) for end in self.column.ends)})"
        return f"pais.{self.column.period}s('{_date(self.column.first)}', '{_date(self.column.last)}')"


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
    numbers = [float(value) for value in values if _is_number(value) and abs(value) <= LARGEST]
    if len(numbers) < max(2, len(values)):
        return False
    if not all(number.is_integer() for number in numbers):
        return True
    steps = np.diff(numbers).tolist()
    # Two numbers in descending order are not categories either, but bounds in the wrong order.
    is_ascending = len(steps) == 1 or min(steps) > 0.0
    return is_ascending and statistics.median_low(map(abs, steps)) > 1.0


def _periods(period: str, first: Date, last: Date) -> Groups:
    low, high = (scales.days(f"a date of {period}s", end) for end in (first, last))
    return Groups(Periods(name=f"{period}s", period=period, first=low, last=high))


def _ascending(edges: Sequence[Any]) -> tuple[float, ...]:
    numbers = [float(edge) for edge in edges if _is_number(edge) and (abs(edge) <= LARGEST or abs(edge) == math.inf)]
    # Of an ascending list, only the ends can be infinite.
    is_ascending = all(low < high for low, high in itertools.pairwise(numbers))
    if len(numbers) < max(2, len(edges)) or not is_ascending:
        raise ArgumentError("ranges needs two or more numbers in ascending order. Pass edges, such as 0, 20, 40, 60.")
    if len(numbers) > _MOST_GROUPS + 1:
        raise ArgumentError(f"there are more than {_MOST_GROUPS} ranges. State fewer edges.")
    # Otherwise -0.0 would have another label than 0.
    return tuple(number + 0.0 for number in numbers)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


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


@lru_cache(maxsize=64)
def _starts(period: str, first: int, last: int) -> tuple[float, ...]:
    """The first days of periods, and the day after the last one. A column does not keep them: see `Schema`."""
    return tuple(float(_start(period, number)) for number in range(first, last + 2))


def _start(period: str, number: int) -> int:
    """The first day of a period."""
    if period in _MONTHS:
        return int(np.datetime64(number * _MONTHS[period], "M").astype("datetime64[D]").astype(int))
    return number if period == "day" else 7 * number - 3


def _month_in_words(day: int) -> str:
    return _date(day)[:-3]


def _quarter_in_words(day: int) -> str:
    year, month = _month_in_words(day).rsplit("-", 1)
    return f"{year}-Q{(int(month) + 2) // 3}"


def _year_in_words(day: int) -> str:
    return _date(day)[:-6]


def _week_in_words(day: int) -> str:
    """The year and number of a week are those of its Thursday."""
    year = _year_in_words(day + 3)
    first = int(np.datetime64(f"{year}-01-01", "D").astype(int))
    return f"{year}-W{(day + 3 - first) // 7 + 1:02d}"


_LABELS: dict[str, Callable[[int], str]] = {
    "day": _date,
    "week": _week_in_words,
    "month": _month_in_words,
    "quarter": _quarter_in_words,
    "year": _year_in_words,
}
