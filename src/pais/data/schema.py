"""The public schema of a table: what is known about its columns, and the scaled vectors that follow from it."""

from __future__ import annotations

import datetime
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pais._base import validate
from pais._base.numerics import FloatArray
from pais.data.kinds import (
    Auto,
    Boolean,
    Bounds,
    Categories,
    Column,
    Dates,
    FoundCategories,
    Groups,
    Names,
    Periods,
    Ranges,
    Scale,
    could_be_edges,
    date_in_days,
    ranges,
)
from pais.errors import ArgumentError

_KINDS = (
    'Pass (low, high), "auto", a list of categories, bool, two dates, ranges such as pais.ranges(0, 18, 65), or a '
    "number by which to divide the values"
)

# The facts of an "auto" column that a survey finds, before it has.
_OPEN: dict[str, Any] = dict.fromkeys(("middle", "scale", "low", "high"))

_ALL = (Auto, Boolean, Bounds, Categories, Dates, FoundCategories, Names, Periods, Ranges, Scale)
_BY_NAME: dict[str, type[Column]] = {kind.kind: kind for kind in _ALL}


@dataclass(frozen=True)
class Schema:
    """What is public about the columns of a table. It maps rows to scaled vectors, and vectors to own units.

    Build one with `Schema.of`. A column has one of these kinds:

    - ``(low, high)``, a tuple of two numbers: bounds. Values are clipped and mapped to [-1, 1]. Released values are in
      own units, within the bounds.
    - ``(first, last)``, a tuple of two dates: the same for dates and times.
    - ``"auto"``: as with bounds, which a private survey finds. If the type of the column is text, the survey finds its
      categories: those that enough people have, and "other". A CSV file and a column of Python objects have no such
      type, so state `pais.names()` for them.
    - A list, or a tuple of more than two values: categories. Each one is a coordinate, 0 or sqrt(2). Released values
      are shares.
    - ``pais.ranges(0, 20, 40)``: ranges of numbers, as categories. ``pais.months("2024-01-01", "2024-12-31")`` and the
      functions `days`, `weeks`, `quarters` and `years`: the same for periods of dates.
    - ``bool``, or ``[True, False]``: -1 or 1, released as the share of true.
    - A number s: values are divided by s and not clipped. Released values are in own units.

    A *tuple of two* states bounds and a *list* states categories, so ``["yes", "no"]`` are two categories. Two
    categories are as far apart as the ends of a stated range. A list of numbers with gaps or decimals, such as
    ``[0, 20, 40]``, is refused, because it could be meant as edges of ranges; as text, they are categories. A category
    that is unknown or missing is none of those listed. Categories are compared without blanks at their ends; if all of
    them are numbers, as numbers. Among other categories, ``"5"`` is also the number 5 and the text ``"5.0"``, but not
    ``"05"``; ``"True"`` is also the boolean. Truth values are booleans, the numbers 0 and 1, or the words true, false,
    yes and no in any case. This holds for ``bool``, for two categories that stand for false and true, ``[0, 1]`` or
    ``["no", "yes"]``, and for the bounds ``(0, 1)``, between which they are 1 and 0. Dates are `datetime.date` or
    `datetime.datetime` objects or text such as ``"2025-01-31"``. Times with a zone count in UTC, and times without a
    zone as they are.

    A cell has the same coordinates whatever the type of its column: number, text, object or dictionary. In a pandas
    frame, whose types depend on all cells, a cell that does not fit the kind of its column is missing. Other tables
    state the types of their columns, and a type that does not fit is refused.

    Notes
    -----
    Guarantee. The encoding of a row depends on that row and the schema only, is finite or NaN, and never raises:
    `tests/unit/data/test_schema.py`, `tests/unit/data/test_cells.py`.

    Examples
    --------
    >>> from pais import Schema
    >>> schema = Schema.of({"age": (18, 100), "region": ["north", "south"], "premium": bool})
    >>> schema.labels
    ('age', 'region=north', 'region=south', 'premium')
    >>> schema.decode([[0.0, 1.0, 0.2, 0.5]]).round(2).tolist()
    [[59.0, 0.71, 0.14, 0.75]]
    """

    columns: tuple[Column, ...]
    #: Names of the columns.
    names: tuple[str, ...] = field(init=False, compare=False)
    #: One label for each coordinate of a vector, such as ``region=north``.
    labels: tuple[str, ...] = field(init=False, compare=False)
    #: Number of coordinates of a vector.
    width: int = field(init=False, compare=False)
    #: Names of the "auto" columns whose scale is not known yet.
    open: tuple[str, ...] = field(init=False, compare=False)
    #: For each coordinate, whether 0 is a public midpoint that can stand in for a missing value.
    fills_missing: tuple[bool, ...] = field(init=False, compare=False)
    _by_name: dict[str, Column] = field(init=False, compare=False)
    _slices: list[slice] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        columns = tuple(self.columns)
        for column in columns:
            validate.instance("columns", column, Column, "Build a schema with Schema.of({...}).")
        if not columns:
            raise ArgumentError("columns is empty. State at least one column.")
        # All of this is computed now: if the first row did it, the schema of a result would show that there was one.
        names = tuple(column.name for column in columns)
        labels = tuple(label for column in columns for label in column.labels)
        ends = [0, *itertools.accumulate(len(column.labels) for column in columns)]
        self.__dict__.update(
            columns=columns,
            names=names,
            labels=labels,
            width=len(labels),
            open=tuple(column.name for column in columns if column.is_open),
            fills_missing=tuple(
                column.has_midpoint and not column.is_target for column in columns for _ in column.labels
            ),
            _by_name=dict(zip(names, columns, strict=True)),
            _slices=list(itertools.starmap(slice, itertools.pairwise(ends))),
        )
        for texts in (names, labels):
            if len(set(texts)) < len(texts):
                repeated = next(text for text in texts if texts.count(text) > 1)
                raise ArgumentError(f"{repeated!r} occurs twice among the columns. Give each its own name.")

    @classmethod
    def of(cls, columns: Mapping[str, object] | Schema) -> Schema:
        """Build a schema from a mapping of column names to what is public about them; a schema is returned as is."""
        if isinstance(columns, Schema):
            return columns
        if not isinstance(columns, Mapping):
            raise ArgumentError(_not_a_mapping(columns))
        return cls(tuple(_column(name, stated) for name, stated in columns.items()))

    def __repr__(self) -> str:
        return f"Schema({', '.join(f'{column.name}: {column.kind}' for column in self.columns)})"

    def __reduce__(self) -> tuple[type[Schema], tuple[tuple[Column, ...]]]:
        return Schema, (self.columns,)

    @property
    def category_places(self) -> tuple[tuple[int, ...], ...]:
        """Coordinates of each column of categories, if it lists at least two, which can be compared with each other."""
        return tuple(
            tuple(range(places.start, places.stop))
            for column, places in zip(self.columns, self._slices, strict=True)
            if isinstance(column, Categories) and len(column.values) > 1
        )

    @cached_property
    def unlisted(self) -> tuple[Names | FoundCategories, ...]:
        """The columns whose names are not published yet."""
        named = (column for column in self.columns if isinstance(column, (Names, FoundCategories)))
        return tuple(column for column in named if column.is_unlisted)

    def may_become(self, resolved: Schema) -> bool:
        """Whether a schema is this one, or this one with some of its open columns resolved."""

        def as_stated(column: Column, after: Column) -> Column:
            if column.is_open and isinstance(after, Auto):
                return replace(after, **_OPEN)
            if column in self.unlisted and isinstance(after, (Names, FoundCategories)):
                return after.opened()
            return after

        return len(self.columns) == len(resolved.columns) and all(
            column == as_stated(column, after) for column, after in zip(self.columns, resolved.columns, strict=True)
        )

    @property
    def midpoint(self) -> tuple[float, ...] | None:
        """The middle of all values that a vector can have, with the bounds yet to be found; None if some have none.

        That is 0 for a range and for a boolean, and equal shares of all categories.
        """
        if not all(column.has_midpoint or column.is_open for column in self.columns):
            return None
        return tuple(value for column in self.columns for value in column.midpoint)

    @property
    def is_bounded(self) -> bool:
        """Whether public bounds limit every coordinate."""
        return all(column.is_bounded for column in self.columns)

    def reach(self, center: Sequence[float] | None) -> float:
        """Largest distance between a point and the vector of a row; infinite if bounds do not limit every coordinate.

        None stands for the origin.
        """
        point = np.zeros(self.width) if center is None else np.asarray(center, dtype=np.float64)
        pairs = zip(self.columns, self._slices, strict=True)
        return math.sqrt(sum(column.square_reach(point[places]) for column, places in pairs))

    @cached_property
    def unit_scale(self) -> FloatArray:
        """Own units per unit of each coordinate, by which a standard error of a vector is multiplied."""
        scales = np.array([column.unit_scale for column in self.columns for _ in column.labels])
        validate.freeze(scales)
        return scales

    @cached_property
    def centers(self) -> FloatArray:
        """Value in own units at 0 of each coordinate."""
        centers = np.array([column.center for column in self.columns for _ in column.labels])
        validate.freeze(centers)
        return centers

    def __getitem__(self, name: str) -> Column:
        """Return what is known about one column."""
        return self._by_name[name]

    def encode_column(self, name: str, cells: pa.Array, *, marked: bool = False) -> list[FloatArray]:
        """Return one array per coordinate of a column, with NaN where the value is missing or cannot be read.

        If `marked`, clipped values are marked: see `pais.data.kinds.BEYOND`.
        """
        column = self[name]
        return (
            column.encode(cells, marked=True) if marked and isinstance(column, (Auto, Bounds)) else column.encode(cells)
        )

    def resolved(self, scales: Mapping[str, tuple[float, float]]) -> Schema:
        """Return the schema in which these "auto" columns have a center and a scale."""
        wrong = [name for name in scales if name not in self.names or not isinstance(self[name], Auto)]
        if wrong:
            raise ArgumentError(f"column {wrong[0]!r} is not an auto column of the schema. Pass only those.")
        columns: list[Column] = []
        for column in self.columns:
            if isinstance(column, Auto) and column.name in scales:
                center, scale = scales[column.name]
                column = column.resolved(center, scale, center - scale, center + scale)
            columns.append(column)
        return Schema(tuple(columns))

    def with_columns(self, columns: Iterable[Column]) -> Schema:
        """Return the schema in which these columns replace those of the same name."""
        by_name = {column.name: column for column in columns}
        return Schema(tuple(by_name.get(column.name, column) for column in self.columns))

    def rescaled(
        self,
        rows: NDArray[np.generic],
        resolved: Schema,
        *,
        marked: bool = False,
        named: Mapping[str, list[FloatArray]] | None = None,
    ) -> FloatArray:
        """Return vectors of this schema as vectors of the schema in which its open columns are resolved.

        `named` has the coordinates of columns whose names were not published before.
        """
        named = named or {}
        scaled = np.array(rows, dtype=np.float64) if not named else np.empty((len(rows), resolved.width))
        for column, place, target in zip(self.columns, self._slices, resolved._slices, strict=True):
            after = resolved[column.name]
            if column.name in named:
                scaled[:, target] = np.stack(named[column.name], axis=1)
            elif column.is_open and isinstance(after, Auto):
                scaled[:, target] = after.scaled(np.asarray(rows[:, place], dtype=np.float64), marked=marked)
            elif named:
                scaled[:, target] = rows[:, place]
        return scaled

    def decode(self, vectors: Any) -> FloatArray:
        """Return vectors of shape (m, width) in own units: within bounds, shares of categories and booleans, days."""
        array = validate.real_array("vectors", vectors)
        if array.ndim != 2 or array.shape[1] != self.width:
            raise ArgumentError(f"vectors must have shape (m, {self.width}). Pass one number for each coordinate.")
        decoded = np.empty_like(array)
        for column, place in zip(self.columns, self._slices, strict=True):
            decoded[:, place] = column.decode(array[:, place])
        return decoded

    def decode_frame(self, vectors: Any) -> dict[str, NDArray[Any]]:
        """Return decoded vectors as one array per label, with dates as `datetime64`; pandas makes a frame of it.

        Dates are whole days if the bounds are whole days.
        """
        decoded = self.decode(vectors)
        frame: dict[str, NDArray[Any]] = {}
        for column, place in zip(self.columns, self._slices, strict=True):
            for label, numbers in zip(column.labels, decoded[:, place].T, strict=True):
                frame[label] = column.times(numbers) if isinstance(column, Dates) else numbers
        return frame

    def to_dict(self) -> dict[str, Any]:
        """All public facts, for files."""
        return {"columns": [column.to_dict() for column in self.columns]}

    @classmethod
    def read(cls, described: Mapping[str, Any] | None) -> Schema | None:
        """Rebuild a schema from a file that may have none."""
        return None if described is None else cls.from_dict(described)

    @classmethod
    def from_dict(cls, described: Mapping[str, Any]) -> Schema:
        """Rebuild a schema from its dictionary."""
        return cls(tuple(_from_dict(column) for column in described["columns"]))


def _not_a_mapping(columns: object) -> str:
    """The error for columns that are not a mapping, with an example of one."""
    names = [columns] if isinstance(columns, str) else list(columns) if isinstance(columns, (list, tuple)) else []
    first = next((name for name in names if isinstance(name, str)), "age")
    return (
        f"columns must be a mapping, but its type is {type(columns).__name__}. State bounds or a kind for each column: "
        f"columns={{{first!r}: (low, high)}}. {_KINDS}."
    )


def _column(name: Any, stated: object) -> Column:
    """Return one column from what the user states about it."""
    title = f"columns[{name!r}]"
    if stated is bool or (isinstance(stated, str) and stated == "bool"):
        return Boolean(name=name)
    if isinstance(stated, str) and stated == "auto":
        return Auto(name=name)
    if isinstance(stated, Groups):
        return stated.named(name)
    if isinstance(stated, Real) and not isinstance(stated, (bool, np.bool_)):
        return Scale(name=name, scale=float(stated))
    if isinstance(stated, tuple) and len(stated) == 2:
        if all(isinstance(end, (str, datetime.date, np.datetime64)) for end in stated):
            low, high = (date_in_days(f"a bound in {title}", end) for end in stated)
            return Dates(name=name, low=low, high=high)
        return Bounds(name=name, low=stated[0], high=stated[1])
    if isinstance(stated, tuple) and len(stated) == 1:
        raise ArgumentError(
            f"{title} is a tuple of one value. Bounds need two numbers: (low, high). Write categories as a list."
        )
    if isinstance(stated, (Sequence, np.ndarray)) and not isinstance(stated, (str, bytes)):
        if len(stated) == 2 and all(isinstance(value, (bool, np.bool_)) for value in stated) and stated[0] != stated[1]:
            return Boolean(name=name)
        may_be_edges = could_be_edges(list(stated))
        if len(stated) == 2 and may_be_edges:
            raise ArgumentError(
                f"{title} is a list of two numbers, which could be bounds or categories. Pass a tuple, (low, high), "
                "for bounds, or the categories as text."
            )
        if may_be_edges:
            raise ArgumentError(_edges_or_values(name, list(stated)))
        return Categories(name=name, values=tuple(stated))
    raise ArgumentError(f"{title} of type {type(stated).__name__} is not understood. {_KINDS}.")


def _edges_or_values(name: str, stated: Sequence[Any]) -> str:
    """The error for a list of numbers that could be edges, with both spellings."""
    edges, texts = ranges(sorted(set(stated))), ", ".join(repr(str(value)) for value in stated)
    return (
        f"the list of numbers for column {name!r} could be edges of ranges or exact values. Write {edges!r} for "
        f"ranges, or the numbers as text, [{texts}], for exact values."
    )


def _from_dict(described: Mapping[str, Any]) -> Column:
    """Rebuild a column from its dictionary."""
    facts = {key: value for key, value in described.items() if key != "kind"}
    kind = _BY_NAME.get(str(described["kind"]))
    if kind is None:
        raise ArgumentError("a column of the schema has an unknown kind. Install the version that wrote it.")
    if kind is Dates:
        facts |= {side: date_in_days("a bound of the schema", facts[side]) for side in ("low", "high")}
    elif kind is Periods:
        facts |= {side: date_in_days("a date of the schema", facts[side]) for side in ("first", "last")}
    elif kind is Ranges:
        *inner, last = facts["ends"]
        facts["ends"] = tuple(-math.inf if end is None else end for end in inner)
        facts["ends"] += (math.inf if last is None else last,)
    elif kind in (Categories, Names):
        facts["values"] = tuple(facts["values"])
    elif kind is FoundCategories:
        with_other, values = facts.pop("with_other"), tuple(facts.pop("values"))
        names = Names(values=values, **facts)
        return FoundCategories(name=names.name, named=names, with_other=validate.flag("with_other", with_other))
    elif kind is Auto:
        facts["middle"] = facts.pop("center", None)
    return kind(**facts)
