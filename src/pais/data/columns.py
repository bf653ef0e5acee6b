"""The columns of a table: the user's choice, and the conversion to numbers. Error messages never show values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pais._base.numerics import FloatArray
from pais._base.threads import in_threads
from pais._base.validate import attempt, count, instance
from pais.data.cells import is_numeric, is_text, listed, no_columns, require_numeric, similar_names, type_name
from pais.data.dialect import Dialect
from pais.data.kinds import Column
from pais.data.schema import Schema
from pais.data.units import Unit, kind_of_ids, normalised
from pais.errors import ArgumentError, DataError

Missing = Literal["drop", "error", "midpoint"]

#: Stands for a missing value of a bounded column if single cells are left out. Values have coordinates in [-1, 1].
MISSING = 2.0

# A chunk of type string holds fewer bytes than this.
_MOST_TEXT_BYTES = 1 << 31

# Columns become rows in pieces of this many rows, which stay in the cache.
_PIECE_ROWS = 1 << 13


@dataclass(frozen=True, kw_only=True)
class Columns:
    """The user's choice of columns from a table. Public.

    Attributes
    ----------
    features : tuple of str, optional
        Numeric columns, in this order; None takes every column that is not named below. With a schema, its columns.
    carry : tuple of str
        Columns of any type to keep with the rows of a sample. Their values are not inspected.
    key : str, optional
        A column of integers, one per row, that keys the draws of a seeded run. It is not a feature.
    unit : Unit, optional
        The protected unit. Its column is not a feature.
    missing : {"drop", "error", "midpoint"}
        How to treat rows in which a feature is not a finite number. "midpoint" puts the public midpoint of the column
        in its place, which needs a schema.
    schema : Schema, optional
        What is public about the columns. The features are then the coordinates of scaled vectors.
    widths : mapping of str to int
        Lengths of the vectors in columns of a Spark frame, for columns whose type does not state the length.
    dialect : Dialect
        How CSV files are written.
    by_cell : bool
        Whether a missing value leaves out its cell alone: it becomes `MISSING`. For statistics of single columns.
    marked : bool
        Whether clipped values are marked, so that a statistic can count them: see `pais.data.kinds.BEYOND`.
    """

    features: tuple[str, ...] | None = None
    carry: tuple[str, ...] = ()
    key: str | None = None
    unit: Unit | None = None
    missing: Missing = "drop"
    schema: Schema | None = None
    widths: Mapping[str, int] = field(default_factory=dict, hash=False)
    dialect: Dialect = field(default_factory=Dialect)
    by_cell: bool = False
    marked: bool = False
    #: The carried columns, the key and the column of the unit, which `features=None` leaves out.
    set_aside: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.missing not in ("drop", "error", "midpoint"):
            raise ArgumentError(f"missing={self.missing!r} is not known. Pass 'drop', 'error' or 'midpoint'.")
        if self.schema is not None:
            instance("schema", self.schema, Schema, "Build one with Schema.of({...}).")
        if self.missing == "midpoint":
            _require_midpoints(self.schema)
        features, carry = self.features if self.schema is None else self.schema.names, tuple(self.carry)
        if features is not None and not features:
            raise no_columns("the source")
        for names in (tuple(features or ()), carry):
            if len(set(names)) < len(names):
                repeated = [str(name) for name in dict.fromkeys(names) if names.count(name) > 1]
                raise ArgumentError(f"column(s) {', '.join(repeated)} are named more than once. Name each column once.")
        unit = None if self.unit is None else self.unit.column
        self.__dict__.update(
            features=None if features is None else tuple(features),
            carry=carry,
            widths={name: count(f"widths[{name!r}]", width) for name, width in self.widths.items()},
            set_aside=(*carry, *(name for name in (self.key, unit) if name is not None)),
        )

    @classmethod
    def of(cls, columns: Sequence[str] | Mapping[str, object] | Schema | None, **options: Any) -> Columns:
        """Return a choice of columns by name, or by what is public about each, with the other options."""
        if isinstance(columns, (Mapping, Schema)):
            return cls(schema=Schema.of(columns), **options)
        if isinstance(columns, str):
            raise ArgumentError("columns is a single text. Pass a list of names, or a mapping from names to facts.")
        return cls(features=None if columns is None else tuple(columns), **options)

    def require_no_names(self) -> None:
        """Raise if columns are chosen by name. Called for arrays, whose columns have no names."""
        if self.schema is not None:
            raise DataError("columns= states facts by column name, but an array has no names. Pass a table or a file.")
        if self.features is not None or self.set_aside:
            raise DataError("an array has no column names. Select columns in the array, or pass a table or a file.")

    def filled(self, coordinates: Sequence[FloatArray]) -> list[FloatArray]:
        """Put midpoints, or `MISSING`, in the place of missing values if so stated. Columns with open scales wait."""
        if self.schema is None or (self.missing != "midpoint" and not self.by_cell):
            return list(coordinates)
        pairs = zip(coordinates, self.schema.fills_missing, strict=True)
        stand_in = 0.0 if self.missing == "midpoint" else MISSING
        return [np.where(np.isnan(numbers), stand_in, numbers) if has else numbers for numbers, has in pairs]

    def carried_cells(self, carried: pa.Table, column: Column) -> pa.Array:
        """The cells of a carried column; text cells as they are written without a dialect."""
        cells = one_chunk(carried.column(column.name))
        return self.dialect.cells(cells, column.form) if is_text(cells.type) else cells

    def key_is_missing(self, where: str) -> DataError:
        """Return the error for rows without a key if ``missing="error"``."""
        return DataError(
            f"the key column {self.key!r} of {where} has missing values. Fill them in, or pass missing='drop' to leave "
            "those rows out."
        )


def _require_midpoints(schema: Schema | None) -> None:
    if schema is None:
        raise ArgumentError("missing='midpoint' needs bounds. State them with columns={name: (low, high), ...}.")
    without = [column.name for column in schema.columns if not column.has_midpoint and not column.is_open]
    if without:
        raise ArgumentError(
            f"missing='midpoint' needs bounds, but column(s) {listed(without)} have only a scale. State their bounds."
        )


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The columns of one table or file: which are features, and how to convert them to numbers. Public.

    Attributes
    ----------
    names : tuple of str
        One name per number: ``vector[0]``, ``vector[1]``, ... for a column of vectors.
    widths : tuple of int
        One width per feature column: 0 for a column of numbers, the vector length for a column of vectors. With a
        schema, all are 0.
    titles : tuple of str
        How error messages refer to each feature column: by name, or by position if the name is not shown.
    to_read : list of str
        Columns to read from a file, each once.
    by_rows : bool
        Whether the only feature is a column of vectors, whose numbers are already stored row by row.
    """

    columns: Columns
    features: tuple[str, ...]
    widths: tuple[int, ...]
    names: tuple[str, ...]
    titles: tuple[str, ...]
    to_read: list[str]
    by_rows: bool

    @classmethod
    def of(cls, schema: pa.Schema, columns: Columns, where: str, *, shown: bool = True) -> Layout:
        """Return the layout of a table with this schema. `where` describes the table in error messages.

        Column names belong to the schema and are public. But in a CSV file without a header, the names could be a row
        of data. So if `shown` is false, errors repeat only names that the user typed, and refer to other columns by
        position.
        """
        features = _all_features(schema, columns, where) if columns.features is None else columns.features
        needed = list(dict.fromkeys((*features, *columns.set_aside)))
        unknown = [str(name) for name in needed if name not in schema.names]
        if unknown:
            hint = similar_names(unknown, schema.names) if shown else "Pass names from its first line."
            raise DataError(f"column(s) {listed(unknown)} do not exist in {where}. {hint}")
        shown = shown or columns.features is not None
        repeated = [name for name in needed if schema.names.count(name) > 1]
        if repeated:
            subject = f"column(s) {', '.join(repeated)} occur" if shown else "a column name occurs"
            raise DataError(f"{subject} more than once in {where}. Give each column its own name.")
        if not features:
            raise no_columns(where)
        titles = tuple(repr(name) if shown else f"{schema.names.index(name) + 1} from the left" for name in features)
        types = [schema.field(name).type for name in features]
        if columns.schema is None:
            widths = _vector_widths(titles, types, where)
            names = tuple(
                label
                for name, width in zip(features, widths, strict=True)
                for label in ([name] if width == 0 else [f"{name}[{entry}]" for entry in range(width)])
            )
        else:
            pairs = zip(columns.schema.columns, types, strict=True)
            others = [(column, kind) for column, kind in pairs if not column.accepts(kind)]
            if others:
                wrong = listed(
                    [f"{column.name!r} (type {type_name(kind)}, not {column.cells})" for column, kind in others]
                )
                raise DataError(f"column(s) {wrong} of {where} are not of the kind stated in columns. Correct these.")
            widths, names = (0,) * len(features), columns.schema.labels
        if columns.key is not None and not pa.types.is_integer(schema.field(columns.key).type):
            raise DataError(f"column {columns.key!r} of {where} does not hold integers. Choose another key.")
        if columns.unit is not None:
            unit = columns.unit.column
            if unit in features:
                raise ArgumentError(
                    f"column {unit!r} is the unit and a feature. Leave it out of the columns: an id says nothing about "
                    "a person."
                )
            # Raises if the column has a type that cannot name units.
            kind_of_ids(schema.field(unit).type, where)
        return cls(
            columns=columns,
            features=features,
            widths=widths,
            names=names,
            titles=titles,
            to_read=needed,
            by_rows=len(widths) == 1 and widths[0] > 0,
        )

    def with_schema(self, schema: Schema) -> Layout:
        """Return the layout with a schema of the same columns, such as one whose open columns are resolved."""
        return replace(self, columns=replace(self.columns, schema=schema), names=schema.labels)

    def batch(self, table: pa.Table) -> Usable:
        """Return the usable rows of a table: see `usable`."""
        columns = [one_chunk(table.column(name)) for name in self.to_read]
        return self.usable(pa.RecordBatch.from_arrays(columns, names=self.to_read), "the source")

    def usable(self, batch: pa.RecordBatch, where: str) -> Usable:
        """Return the rows that have a key and a unit. With ``missing="error"``, raise if a key is missing."""
        keys = ids = None
        if self.columns.unit is not None:
            ids = normalised(batch.column(self.columns.unit.column), where)
            if ids.null_count:
                has_id = ids.is_valid()
                batch, ids = batch.filter(has_id), ids.filter(has_id)
        if self.columns.key is not None:
            has_key = batch.column(self.columns.key).is_valid()
            if batch.column(self.columns.key).null_count:
                if self.columns.missing == "error":
                    raise self.columns.key_is_missing(where)
                batch, ids = batch.filter(has_key), ids if ids is None else ids.filter(has_key)
            keys = keys_of(batch.column(self.columns.key))
        return batch, keys, ids

    def numbers(self, batch: pa.RecordBatch) -> list[FloatArray]:
        """Return one array per number of a row, with NaN for missing values."""
        schema = self.columns.schema
        if schema is not None:
            marked = self.columns.marked
            encoded = [schema.encode_column(name, self._cells(name, batch), marked=marked) for name in self.features]
            return self.columns.filled([numbers for several in encoded for numbers in several])
        arrays: list[FloatArray] = []
        for name, width in zip(self.features, self.widths, strict=True):
            column = batch.column(name)
            arrays.extend([_as_floats(column)] if width == 0 else _vectors(column, width).T)
        return arrays

    def _cells(self, name: str, batch: pa.RecordBatch) -> pa.Array:
        """Return the cells of a column of the schema; text cells as they are written without a dialect."""
        column, schema = batch.column(name), self.columns.schema
        if schema is None or not is_text(column.type):
            return column
        return self.columns.dialect.cells(column, schema[name].form)

    def rows(self, batch: pa.RecordBatch) -> FloatArray:
        """Return all numbers as the rows of one array."""
        if self.by_rows:
            return _vectors(batch.column(self.features[0]), self.widths[0])
        rows = np.empty((batch.num_rows, len(self.names)))

        def fill(start: int) -> None:
            piece = slice(start, start + _PIECE_ROWS)
            for position, numbers in enumerate(self.numbers(batch.slice(start, _PIECE_ROWS))):
                rows[piece, position] = numbers

        in_threads(fill, range(0, max(1, batch.num_rows), _PIECE_ROWS))
        return rows


#: Rows that have a key and a unit, with their keys and the ids of their units; None if there are none.
Usable = tuple[pa.RecordBatch, NDArray[np.uint64] | None, pa.Array | None]


def keys_of(column: pa.Array) -> NDArray[np.uint64]:
    """Return the keys of rows, each of which has one."""
    return np.asarray(pc.cast(column, pa.int64(), safe=False).to_numpy(zero_copy_only=False)).view(np.uint64)


def one_chunk(column: pa.ChunkedArray) -> pa.Array:
    """The cells of a column as one array."""
    if pa.types.is_string(column.type) and column.nbytes >= _MOST_TEXT_BYTES:
        column = column.cast(pa.large_string())
    if pa.types.is_dictionary(column.type) and column.num_chunks > 1:
        # Arrow cannot combine dictionaries if one of them holds a null.
        decoded = [chunk.dictionary_decode() for chunk in column.chunks]
        column = pa.chunked_array(decoded, type=column.type.value_type)
    merged = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    return merged if isinstance(merged, pa.Array) else pa.concat_arrays(merged.chunks)


def _vector_widths(titles: Sequence[str], types: Sequence[pa.DataType], where: str) -> tuple[int, ...]:
    """Return, for each column, 0 if it holds numbers or the length if it holds vectors. Raise for other types."""
    widths = [kind.list_size if pa.types.is_fixed_size_list(kind) else None for kind in types]
    empty = [title for title, width in zip(titles, widths, strict=True) if width == 0]
    if empty:
        raise DataError(f"column(s) {', '.join(empty)} of {where} hold vectors of length 0. Leave them out.")
    numeric = [
        is_numeric(kind if width is None else kind.value_type) for kind, width in zip(types, widths, strict=True)
    ]
    columns = zip(titles, types, numeric, strict=True)
    require_numeric([(title, type_name(kind)) for title, kind, fits in columns if not fits], where)
    return tuple(int(width or 0) for width in widths)


def _all_features(schema: pa.Schema, columns: Columns, where: str) -> tuple[str, ...]:
    """Return all columns except carried columns, the key and the pandas index, which names rows."""
    index: object = []
    if b"pandas" in (schema.metadata or {}):
        metadata = attempt(lambda: schema.pandas_metadata)
        index = metadata.get("index_columns", []) if isinstance(metadata, dict) else None
    if not isinstance(index, list) or not all(isinstance(name, (str, dict, type(None))) for name in index):
        raise DataError(f"the pandas metadata of {where} is damaged. Name the columns to use.")
    return tuple(name for name in schema.names if name not in index and name not in columns.set_aside)


def _as_floats(column: pa.Array) -> FloatArray:
    """Convert numbers of any type to doubles, with NaN for null."""
    if pa.types.is_float64(column.type):
        return np.asarray(column.to_numpy(zero_copy_only=False))
    floats = attempt(lambda: pc.cast(column, pa.float64(), safe=False).to_numpy(zero_copy_only=False))
    if floats is None:
        raise DataError(f"a column of type {type_name(column.type)} cannot be read as doubles. Convert it first.")
    return np.asarray(floats)


def _vectors(column: pa.FixedSizeListArray, width: int) -> FloatArray:
    rows = _as_floats(column.values.slice(column.offset * width, len(column) * width)).reshape(-1, width)
    if column.null_count == 0:
        return rows
    missing = np.asarray(column.is_null().to_numpy(zero_copy_only=False), dtype=bool)
    return np.where(missing[:, None], np.nan, rows)
