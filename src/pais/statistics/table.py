"""The table of a statistic: the columns it reads, before and after they have bounds, and the labels of its result."""

from __future__ import annotations

import datetime
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pais._base.numerics import FloatArray
from pais._base.validate import attempt
from pais.data.engines.base import Engine
from pais.data.kinds import Auto, Boolean, Bounds, Categories, Column, Dates, Names, Scale
from pais.data.schema import Schema
from pais.data.sources import names_of, with_names
from pais.data.tables import is_series
from pais.errors import ArgumentError, DataError
from pais.mechanisms.blocks import Levels, Places, Truth

By = str | Sequence[str] | Mapping[str, object] | None

_BOUNDS = 'such as columns={"age": (18, 100)}, or "auto" for bounds that are found privately'


class Field(NamedTuple):
    """A column of a table.

    Attributes
    ----------
    column : Column
        What is public about it.
    start : int
        Place of its first coordinate.
    is_listed, is_truth, is_date, is_bounded : bool
        Whether it has a list of categories, ranges or periods; whether it is true or false; whether it has dates; and
        whether the values are clipped to bounds.
    low, high, width : float
        Its bounds in own units; false is 0 and true is 1, as are the shares of categories.
    """

    column: Column
    start: int
    name: str
    labels: tuple[str, ...]
    is_listed: bool
    is_truth: bool
    is_date: bool
    is_bounded: bool
    low: float
    high: float
    width: float

    @property
    def largest(self) -> float:
        """The largest absolute value within the bounds."""
        return max(abs(self.low), abs(self.high))

    @property
    def values(self) -> tuple[Any, ...]:
        """The categories, or false and true."""
        return self.column.values if isinstance(self.column, (Categories, Names)) else (False, True)

    def coordinates(self, values: FloatArray) -> tuple[float, ...]:
        """Own units as the coordinates that cells with these values have."""
        assert isinstance(self.column, (Auto, Bounds))
        return tuple(self.column.scaled(values).tolist())

    def levels(self) -> Levels:
        """The block that counts the categories, or false and true."""
        if self.is_truth:
            return Truth(column=self.start, others=False)
        if isinstance(self.column, Names):
            return Places(column=self.start, n_levels=len(self.values), others=False)
        return Levels(column=self.start, n_levels=len(self.values), others=False)


class Fields(NamedTuple):
    """The columns that a statistic summarises, and those that form groups.

    Attributes
    ----------
    columns, by : tuple of Field
        The summarised columns, and those whose categories form groups.
    pooled : bool
        Whether every column has the same number of cells, because missing values are filled in or refused.
    bounded : tuple of Field
        The summarised columns whose values are clipped to bounds.
    labels : tuple of str
        One label for each summarised number, such as ``age`` and ``region=north``.
    subject : str
        The label of the only summarised number; empty if there are several or none.
    levels : tuple of Levels
        The blocks whose categories divide the rows into groups.
    """

    columns: tuple[Field, ...] = ()
    by: tuple[Field, ...] = ()
    pooled: bool = False
    bounded: tuple[Field, ...] = ()
    labels: tuple[str, ...] = ()
    subject: str = ""
    levels: tuple[Levels, ...] = ()

    @classmethod
    def of(cls, schema: Schema | None, columns: Sequence[str], by: Sequence[str], *, pooled: bool) -> Fields:
        """Find the columns of a schema by their names. Raises if a column cannot form groups."""
        if schema is None:
            return cls()
        start, named = 0, dict[str, Field]()
        for column in schema.columns:
            is_listed, is_truth = isinstance(column, (Categories, Names)), isinstance(column, Boolean)
            low, high = (0.0, 1.0) if is_listed else column.decode(np.array([[-1.0], [1.0]])).ravel().tolist()
            named[column.name] = Field(
                column=column,
                start=start,
                name=column.name,
                # The names of a column share one coordinate.
                labels=tuple(f"{column.name}={value}" for value in column.values)
                if isinstance(column, Names)
                else column.labels,
                is_listed=is_listed,
                is_truth=is_truth,
                is_date=isinstance(column, Dates),
                is_bounded=not (is_listed or is_truth),
                low=low,
                high=high,
                width=high - low,
            )
            start += len(column.labels)
        for name in by:
            if name not in named or named[name].is_bounded:
                raise ArgumentError(_no_groups(name, named.get(name)))
        summarised, groups = [named[name] for name in columns], [named[name] for name in by]
        labels = [label for field in summarised for label in field.labels]
        return cls(
            columns=tuple(summarised),
            by=tuple(groups),
            pooled=pooled,
            bounded=tuple(field for field in summarised if field.is_bounded),
            labels=tuple(labels),
            subject=labels[0] if len(labels) == 1 else "",
            levels=tuple(field.levels() for field in groups),
        )

    @property
    def groups(self) -> Axis | None:
        """One label for each group; None if there are no groups."""
        if not self.by:
            return None
        labels = list(itertools.product(*(field.values for field in self.by)))
        return Axis(names=tuple(field.name for field in self.by), levels=tuple(zip(*labels, strict=True)))

    @property
    def listed_by(self) -> tuple[Field, ...]:
        """The columns whose groups the user stated."""
        return tuple(field for field in self.by if not isinstance(field.column, Names))

    def require(self, what: str, *, dates: bool = True, categories: bool = True) -> None:
        """Raise if there are no columns, or columns that the statistic cannot use."""
        if not self.columns:
            raise ArgumentError(f"the {what} needs at least one column. State it, {_BOUNDS}.")
        for field in self.columns:
            if isinstance(field.column, Scale):
                raise ArgumentError(
                    f"the {what} of column {field.name!r} needs bounds, and a number states a scale. State them, "
                    f"{_BOUNDS}."
                )
            if (field.is_date and not dates) or (field.is_listed and not categories):
                kind = "dates" if field.is_date else "categories"
                raise ArgumentError(f"the {what} of {kind} is not defined. Leave out column {field.name!r}.")


class Selection(NamedTuple):
    """A table and the columns that the user states, before it is opened."""

    rows: object
    schema: Schema | None
    columns: tuple[str, ...]
    by: tuple[str, ...]

    @classmethod
    def of(cls, rows: object, columns: Any, by: By, unit: object) -> Selection:
        """Combine what the user states. A single column needs no name. A selection is returned as it is."""
        if isinstance(rows, cls):
            return rows
        if isinstance(rows, Engine) and columns is None:
            columns = rows.schema
        is_column = is_series(rows) or (isinstance(rows, np.ndarray) and rows.ndim == 1)
        if is_column and columns is not None and not isinstance(columns, (Mapping, Schema)):
            name = str(getattr(rows, "name", None) or "value")
            schema = Schema.of({name: columns})
            rows, columns = _as_table(rows, schema.columns[0]), schema
        facts = {} if columns is None else {column.name: column for column in Schema.of(columns).columns}
        names = (by,) if isinstance(by, str) else tuple(by or ())
        if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
            raise ArgumentError(
                "by must name columns, each once. Pass a name, a list of names, or a mapping with their categories."
            )
        if isinstance(by, Mapping):
            repeated = [name for name in names if name in facts]
            if repeated:
                raise ArgumentError(f"column {repeated[0]!r} is stated in columns and in by. State it once.")
            facts |= {column.name: column for column in Schema.of(by).columns} if by else {}
        elif not isinstance(rows, Engine):
            # Nobody listed these names, so they are found privately.
            facts |= {name: Names(name=name) for name in names if name not in facts}
        if facts:
            facts = {column.name: column for column in with_names(Schema(tuple(facts.values())), rows).columns}
        summarised = tuple(name for name in facts if name not in names)
        if not facts and not isinstance(rows, Engine):
            facts = _any_column(rows, unit)
        return cls(rows=rows, schema=Schema(tuple(facts.values())) if facts else None, columns=summarised, by=names)


def _no_groups(name: str, field: Field | None) -> str:
    """The error for a column that forms no groups, with a spelling that does."""
    if field is not None and isinstance(field.column, Dates):
        low, high = field.column.times(np.array([field.low, field.high])).astype("datetime64[D]")
        return (
            f"by={name!r} is stated with two dates, which form no groups. State periods, such as by={{{name!r}: "
            f"pais.months('{low}', '{high}')}}, instead."
        )
    if field is not None:
        return (
            f"by={name!r} is stated as numbers, which form no groups. State ranges, such as by={{{name!r}: "
            "pais.ranges(0, 20, 40, 60)}, instead."
        )
    return (
        f"by={name!r} needs public categories. State them, such as by={{{name!r}: ['a', 'b']}}, or as a list or bool "
        "in columns. For numbers, state pais.ranges(0, 20, 40); for dates, pais.months('2024-01-01', '2024-12-31')."
    )


def _as_table(cells: Any, column: Column) -> object:
    """A single column of numbers, text or dates as a table. No cell of an array decides how the others are read."""
    if hasattr(cells, "to_frame"):
        return cells.to_frame(column.name)
    is_mixed = isinstance(cells, np.ndarray) and cells.dtype.kind == "O"
    table = attempt(lambda: pa.table({column.name: column.cells_of_objects(cells) if is_mixed else cells}))
    if table is None:
        raise DataError("the data cannot be read as one column. Pass a Series, or an array of numbers.")
    return table


def _any_column(rows: Any, unit: object) -> dict[str, Column]:
    """One column of a table, as a category, so that its rows can be counted whatever they hold."""
    names = names_of(rows)
    others = [name for name in names if name != unit]
    if names and not others:
        raise DataError(f"the table has only the column {names[0]!r}, which is the unit. Add a column, such as ones.")
    return {name: Categories(name=name, values=("-",)) for name in others[:1]}


class Caution(NamedTuple):
    """What a reader must know before using a result, and the category of the warning that says so. Released values."""

    text: str
    category: type[Warning]


class Bin(NamedTuple):
    """A bin of a histogram: all values from `low` to below `high`. The last bin holds `high` too."""

    low: Any
    high: Any

    def __str__(self) -> str:
        return f"{short(self.low)} to {short(self.high)}"


@dataclass(frozen=True, kw_only=True)
class Axis:
    """Labels along one side of a table: a name, and one label for each place, on each level."""

    names: tuple[str | None, ...]
    levels: tuple[tuple[Any, ...], ...]

    @classmethod
    def of(cls, labels: Any, name: str | None = None) -> Axis:
        """An axis of one level."""
        return cls(names=(name,), levels=(tuple(labels),))

    def __len__(self) -> int:
        return len(self.levels[0])

    def texts(self) -> list[str]:
        """One text for each place."""
        return [", ".join(str(label) for label in labels) for labels in zip(*self.levels, strict=True)]


def combined(groups: Axis | None, inner: Axis | None) -> Axis | None:
    """Labels of the rows of a table that stacks the tables of all groups."""
    if groups is None or inner is None:
        return inner if groups is None else groups
    outer = [tuple(label for label in level for _ in range(len(inner))) for level in groups.levels]
    return Axis(names=(*groups.names, *inner.names), levels=(*outer, *(level * len(groups) for level in inner.levels)))


def labelled(numbers: NDArray[Any], rows: Axis | None, columns: Axis | None, name: str) -> Any:
    """A table of numbers as a frame, or as a series if one axis is None; as an array if pandas is not installed."""
    flat = numbers[:, 0] if columns is None else numbers[0] if rows is None else numbers
    try:
        import pandas as pd
    except ImportError:
        return flat

    def interval(ends: Bin) -> Any:
        low, high = (pd.Timestamp(end) if isinstance(end, (np.datetime64, datetime.date)) else end for end in ends)
        return pd.Interval(low, high, closed="left")

    def index(axis: Axis) -> Any:
        levels = [[interval(label) if isinstance(label, Bin) else label for label in level] for level in axis.levels]
        if len(levels) == 1:
            return pd.Index(levels[0], name=axis.names[0])
        return pd.MultiIndex.from_arrays(levels, names=axis.names)

    if rows is not None and columns is not None:
        return pd.DataFrame(flat, index=index(rows), columns=index(columns))
    axis = columns if rows is None else rows
    return pd.Series(flat, index=None if axis is None else index(axis), name=name)


def side_by_side(numbers: Mapping[str, NDArray[Any]], rows: Axis) -> Any:
    """A frame of several columns of numbers with the same labels."""
    try:
        import pandas as pd
    except ImportError:
        raise ArgumentError("to_frame needs pandas. Install it: pip install pandas.") from None
    return pd.DataFrame({name: labelled(column, rows, None, name) for name, column in numbers.items()})


def short(value: Any) -> str:
    """A number or a date in a few characters; nothing for a value that is not defined."""
    if isinstance(value, (np.datetime64, datetime.date)):
        return str(np.datetime64(value).astype("datetime64[D]"))
    if not isinstance(value, (int, float)):
        return str(value)
    # Totals are easier to read as 3,560,120,000 than as 3.56012e+09.
    return f"{float(f'{value:.6g}'):,.0f}" if 1e6 <= abs(value) < 1e15 else f"{value:,.6g}"


def with_error(value: Any, error: float) -> str:
    """A number or a date with its standard error, both to the second digit of the error; nothing if not defined."""
    # Only a value that is not defined differs from itself.
    if value != value:
        return ""
    if not isinstance(value, (int, float)):
        return f"{short(value)} ± {error:.2g} d"
    if not 0.0 < error < math.inf:
        return short(value)
    digits = 1 - math.floor(math.log10(float(f"{error:.1e}")))
    if digits > 12:
        return f"{short(value)} ± {error:.2g}"
    return " ± ".join(f"{round(number, digits):,.{max(digits, 0)}f}" for number in (value, error))


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of texts as lines, in columns of equal width."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(f"{text:<{width}}" for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]
