"""The columns of a statistic: which ones are summarised, which ones form groups, and how the table is opened."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from pais._base.numerics import FloatArray
from pais._base.validate import attempt
from pais.data.engines import Engine
from pais.data.intervals import Intervals
from pais.data.kinds import Boolean, Categories, Column
from pais.data.scales import Auto, Bounds, Dates, Scale
from pais.data.schema import Schema
from pais.data.sources import names_of
from pais.data.tables import is_series
from pais.errors import ArgumentError, DataError
from pais.mechanisms.blocks import Levels, Truth
from pais.statistics.frames import Axis

By = str | Sequence[str] | Mapping[str, object] | None

_BOUNDS = 'such as columns={"age": (18, 100)}, or "auto" for bounds that are found privately'


@dataclass(frozen=True, kw_only=True)
class Field:
    """A column of a table and the place of its first coordinate."""

    column: Column
    start: int

    @property
    def name(self) -> str:
        return self.column.name

    @property
    def is_listed(self) -> bool:
        """Whether the column has a list of categories, ranges or periods."""
        return isinstance(self.column, Categories)

    @property
    def intervals(self) -> Intervals | None:
        """The column, if its categories are ranges or periods."""
        return self.column if isinstance(self.column, Intervals) else None

    @property
    def is_truth(self) -> bool:
        return isinstance(self.column, Boolean)

    @property
    def is_date(self) -> bool:
        return isinstance(self.column, Dates)

    @property
    def labels(self) -> tuple[str, ...]:
        return self.column.labels

    @property
    def low(self) -> float:
        """The lower bound in own units; false is 0."""
        return 0.0 if self.is_truth else self.column.decode(np.array([[-1.0]])).item()

    @property
    def high(self) -> float:
        return 1.0 if self.is_truth else self.column.decode(np.array([[1.0]])).item()

    @property
    def width(self) -> float:
        return self.high - self.low

    @property
    def values(self) -> tuple[Any, ...]:
        """The categories, or false and true."""
        return self.column.values if isinstance(self.column, Categories) else (False, True)

    def coordinates(self, values: FloatArray) -> tuple[float, ...]:
        """Own units as the coordinates that cells with these values have."""
        assert isinstance(self.column, (Auto, Bounds))
        return tuple(self.column.scaled(values).tolist())

    def levels(self, *, others: bool, factor: float = 1.0) -> Levels:
        """The block that counts the categories, or false and true."""
        if self.is_truth:
            return Truth(column=self.start, others=others, factor=factor)
        return Levels(column=self.start, n_levels=len(self.values), others=others, factor=factor)


@dataclass(frozen=True, kw_only=True)
class Fields:
    """The columns that a statistic summarises, and those that form groups.

    Attributes
    ----------
    columns, by : tuple of Field
        The summarised columns, and those whose categories form groups.
    pooled : bool
        Whether every column has the same number of cells, because missing values are filled in or refused.
    """

    columns: tuple[Field, ...] = ()
    by: tuple[Field, ...] = ()
    pooled: bool = False

    @classmethod
    def of(cls, schema: Schema | None, columns: Sequence[str], by: Sequence[str], *, pooled: bool) -> Fields:
        """Find the columns of a schema by their names. Raises if a column cannot form groups."""
        if schema is None:
            return cls()
        starts = np.cumsum([0, *(len(column.labels) for column in schema.columns)]).tolist()
        named = {
            column.name: Field(column=column, start=start)
            for column, start in zip(schema.columns, starts, strict=False)
        }
        for name in by:
            if name not in named or not (named[name].is_listed or named[name].is_truth):
                raise ArgumentError(_no_groups(name, named.get(name)))
        return cls(columns=tuple(named[name] for name in columns), by=tuple(named[name] for name in by), pooled=pooled)

    @property
    def groups(self) -> Axis | None:
        """One label for each group; None if there are no groups."""
        if not self.by:
            return None
        labels = list(itertools.product(*(field.values for field in self.by)))
        return Axis(names=tuple(field.name for field in self.by), levels=tuple(zip(*labels, strict=True)))

    @property
    def labels(self) -> list[str]:
        """One label for each summarised number, such as ``age`` and ``region=north``."""
        return [label for field in self.columns for label in field.labels]

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


@dataclass(frozen=True, kw_only=True)
class Selection:
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
        elif _is_column(rows) and columns is not None and not isinstance(columns, (Mapping, Schema)):
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
        summarised = tuple(name for name in facts if name not in names)
        if not facts and not isinstance(rows, Engine):
            facts = _any_column(rows, unit)
        return cls(rows=rows, schema=Schema(tuple(facts.values())) if facts else None, columns=summarised, by=names)

    def fields(self, schema: Schema | None, *, pooled: bool) -> Fields:
        """The columns, with the bounds of a schema."""
        return Fields.of(schema, self.columns, self.by, pooled=pooled)


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


def _is_column(rows: object) -> bool:
    return is_series(rows) or (isinstance(rows, np.ndarray) and rows.ndim == 1)


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
    others = [name for name in names_of(rows) if name != unit]
    return {name: Categories(name=name, values=("-",)) for name in others[:1]}
