"""The function `source`, which opens every supported kind of data as an engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as pa_dataset
import pyarrow.fs as pa_fs

from pais._base.validate import attempt, without_sizes
from pais.data.ball import table_of
from pais.data.cells import is_text, value_type
from pais.data.columns import Columns, Layout, Missing
from pais.data.dialect import CSVFile, Dialect, no_csv
from pais.data.engines.base import Engine, require_finite
from pais.data.engines.files import ArrowEngine, files_of, names_in, types_in
from pais.data.engines.local import MemoryEngine
from pais.data.engines.streams import BatchEngine, is_stream, stream_of
from pais.data.kinds import Auto, FoundCategories, Names
from pais.data.schema import Schema
from pais.data.tables import as_table, from_array, holds_objects, is_frame, require_table
from pais.data.units import Unit, unit_of
from pais.errors import ArgumentError


@dataclass(frozen=True, kw_only=True, eq=False)
class Opening:
    """Data with options of `source` that an estimator does not have, such as the separator of a CSV file. Secret."""

    data: object
    options: Mapping[str, Any]
    held: bool = False

    def open(self, **stated: Any) -> Engine:
        """Open the data with what the estimator states, and hold the rows in memory if so asked."""
        engine = source(self.data, **stated, **self.options)
        return engine.held() if self.held else engine


@without_sizes
def source(
    data: object,
    *,
    columns: Sequence[str] | Mapping[str, object] | Schema | None = None,
    carry: Sequence[str] = (),
    unit: str | Unit | None = None,
    max_rows_per_unit: int | None = None,
    key: str | None = None,
    missing: Missing = "drop",
    widths: Mapping[str, int] | None = None,
    separator: str | None = None,
    decimal: str | None = None,
    thousands: str | None = None,
    encoding: str | None = None,
    date_format: str | None = None,
    on_rows: Callable[[int], None] | None = None,
) -> Engine:
    """Open data of any supported kind. Pass the result to any function that takes rows.

    Parameters
    ----------
    data : array, table, path, CSVFile, dataset, query, batches or Spark DataFrame
        An array of numbers; a pandas, polars or Arrow table; the path of a Parquet or CSV file, a directory of them, a
        pattern such as ``"data/2024-*.parquet"`` or an address such as ``"s3://bucket/data"``; a `CSVFile`, which is a
        path together with how the file is written; a pyarrow dataset of
        files; a Spark DataFrame; a polars LazyFrame or a DuckDB relation, whose query is executed in every pass; a
        function that returns a new iterator of record batches in every call, or a list of them; a generator of record
        batches or a `pyarrow.RecordBatchReader`, which can be read in one pass only. Files, queries and batches are
        streamed and never held in memory. A query or a function must return the same rows every time. A CSV file must
        begin with the names of its columns, which are published with a release. A first line that could be a row is
        refused: a name that is empty, has no letter, has five digits in a row, has another separator in it, or is a
        number, an amount, a date, a time, `true`, `false` or a word for a missing value. Write a header then, or read
        the file yourself and pass a table. A first line of words above columns of numbers cannot be distinguished from
        names, and is taken as the names. Errors about CSV files refer to columns by position, unless you named them;
        errors about Spark frames refer to them by name. In a CSV file every line is a row. A line contributes nothing
        if it has a quote that is not closed on the same line, if its number of cells differs from the header's, or if
        it is longer than 1 MB. So a row with a line break in a quoted cell is dropped, but the text after the break
        counts as a row if it has as many cells as the header. Use Parquet for such text.
    columns : sequence of str, mapping or Schema, optional
        A mapping, or a `Schema`, states what is public about each column, for example ``{"age": (18, 100), "income":
        "auto", "region": ["north", "south"], "premium": bool}``. Rows are then scaled vectors: see `Schema`. Cells of
        text are converted one by one, by the kind of their column. A sequence names the features. None takes all
        columns that are not named below. Without a mapping, features are numbers.

        In CSV files, and in pandas columns of Python objects, a column that is not named here counts as text if it has
        at least three non-empty cells and fewer than half of them are numbers (in a CSV file, only its first block
        counts). Text is refused. Columns named here are read as stated regardless of what their cells contain.
    carry : sequence of str
        Columns to keep with the rows of a sample. Carried columns of a CSV file are text, unless they are features or
        the key.
    unit : str, optional
        Who is protected: the column that names the person, or other unit, of each row. The guarantee then holds for
        adding or removing a unit with all of its rows. Ids are integers or text; a row without an id contributes
        nothing. Floats of 2**53 or more have lost digits and count as missing, as does text with characters that
        could not be decoded. None protects single rows. The source is
        read once more to count the rows of each unit, of which there may be up to 100 million.
    max_rows_per_unit : int, optional
        Number of rows M of a unit that count in full. Each of its m rows has mass 1 / max(M, m). With 1, and by
        default, every unit counts once. A larger M gives units with many rows more influence, and every unit M times
        less. Sums and counts of rows add up all rows of a unit, up to M of them; by default, they find a bound
        privately.
    key : str, optional
        Not a privacy unit (see `unit`): a column of integers, one per row, that makes seeded runs repeatable. A seeded
        run keys its draws by this column, so it draws the same sample from the same rows in any order. A row without a
        key contributes nothing.
    missing : {"drop", "midpoint", "error"}
        How to treat rows in which a feature is NaN, infinite, missing or not a number. With "drop", the default, such
        a row contributes nothing and causes no error. With "midpoint", the public midpoint of the column replaces the
        value; every column needs bounds, categories, bool or "auto" for this. A category that is missing is none of
        those listed in either case. With "error", this function reads all rows once and raises a
        `DataError` that names the columns. This is outside the privacy guarantee, because a single row decides whether
        the call succeeds.
    widths : mapping of str to int, optional
        Lengths of the vectors in columns of a Spark DataFrame, by column: ``widths={"v": 3}`` gives the features
        ``v[0]``, ``v[1]`` and ``v[2]``. Every array column that is a feature needs a width, and so does a column of
        Spark ML vectors without a size in its metadata. A row with a vector of another length contributes nothing.
        Widths are public. Other sources do not accept widths: the type of an Arrow fixed-size list contains its length.
    separator, decimal, thousands, encoding, date_format : str, optional
        How a CSV file is written: see `CSVFile`. A file that shows another form than the usual one is refused with a
        message that names it, unless the form is stated.
    on_rows : callable, optional
        Called with the number of rows after each batch of a pass, for example to update a progress bar.

    Notes
    -----
    Guarantee. All engines sample rows with the same code, and with draws from the cryptographic generator unless a seed
    is given. With a seed, all engines give the same sample and the same survey: `tests/conformance/test_engines.py`.
    With or without a schema, a row's vector depends on that row alone: `tests/unit/data/test_schema.py`.
    With ``missing="drop"``, rows that are not finite change nothing: `tests/conformance/missing/test_missing_rows.py`.
    No line of a CSV file changes the contribution of another line: `tests/conformance/test_one_line.py`.
    """
    if isinstance(data, Opening):
        return data.open(
            columns=columns, carry=carry, unit=unit, max_rows_per_unit=max_rows_per_unit, key=key, missing=missing
        )
    selection = Columns.of(
        columns,
        carry=tuple(carry),
        key=key,
        unit=unit_of(unit, max_rows_per_unit),
        missing=missing,
        widths=widths or {},
        dialect=Dialect(
            separator=separator, decimal=decimal, thousands=thousands, encoding=encoding, date_format=date_format
        ),
    )
    unlisted = () if selection.schema is None else selection.schema.unlisted
    names = [column.name for column in unlisted if isinstance(column, Names)]
    if names:
        raise ArgumentError(
            f"columns[{names[0]!r}] is pais.names(). Only a model or a statistic finds names, because that has a "
            f"price: pass columns to it, with the table itself. A source needs a list: columns={{{names[0]!r}: "
            "['a', 'b']}."
        )
    # The survey of a model reads the names, so they are carried.
    carried = (*selection.carry, *(column.name for column in unlisted if column.name not in selection.carry))
    return _open(data, replace(selection, carry=carried), columns, on_rows)


@without_sizes
def cells(
    data: object,
    *,
    columns: Schema | None,
    unit: str | Unit | None,
    max_rows_per_unit: int | None,
    missing: Missing,
    by_cell: bool = True,
    on_rows: Callable[[int], None] | None = None,
    **dialect: Any,
) -> Engine:
    """Open a table as `source` does, for statistics, which count the values that are clipped.

    If `by_cell` and ``missing="drop"``, a missing value leaves out its cell alone. Data that is open already stays as
    it is. `dialect` says how CSV files are written. Columns with names that nobody listed are carried as they are.
    """
    selection = Columns.of(
        columns,
        carry=() if columns is None else tuple(column.name for column in columns.unlisted),
        unit=unit_of(unit, max_rows_per_unit),
        missing=missing,
        by_cell=by_cell and missing == "drop",
        marked=True,
        dialect=Dialect(**dialect),
    )
    return _open(data, selection, columns, on_rows)


def _open(data: object, selection: Columns, columns: object, on_rows: Callable[[int], None] | None) -> Engine:
    """Open data for `source` and `cells`. Data that is open already must have been opened in the same way."""
    if isinstance(data, Engine):
        _require_same(data, selection, columns)
        return data
    if isinstance(data, CSVFile):
        selection, data = replace(selection, dialect=data.dialect_beside(selection.dialect)), data.path
    if selection.widths and not is_frame(data, "pyspark.sql"):
        raise ArgumentError("widths is only for Spark DataFrames, and the source is not one. Leave it out.")
    engine: Engine
    if isinstance(data, (str, Path)):
        engine = ArrowEngine(files_of(data), selection, on_rows=on_rows)
    elif isinstance(data, pa_dataset.FileSystemDataset):
        filesystem: pa_fs.FileSystem = data.filesystem
        engine = ArrowEngine([(filesystem, path) for path in sorted(data.files)], selection, on_rows=on_rows)
    elif is_frame(data, "pyspark.sql"):
        from pais.data.engines.spark import SparkEngine

        engine = SparkEngine(data, selection, on_rows=on_rows)
    else:
        require_table(data)
        if selection.dialect.stated:
            raise no_csv("the data", selection.dialect)
        stream = stream_of(data)
        engine = _in_memory(data, selection) if stream is None else BatchEngine(stream, selection, on_rows=on_rows)
    if selection.missing == "error":
        require_finite(engine)
    return engine


def _require_same(engine: Engine, stated: Columns, columns: object) -> None:
    """Raise if an option is stated for a source that was opened with another value. It would have no effect."""
    before, default = engine.stated, Columns()
    differ = [
        name
        for name in ("carry", "key", "missing", "widths", "dialect")
        if getattr(stated, name) not in (getattr(default, name), getattr(before, name))
    ]
    if stated.unit not in (None, engine.unit):
        differ.append("unit")
    if stated.schema is not None:
        same_columns = engine.schema is not None and stated.schema.may_become(engine.schema)
    else:
        same_columns = columns is None or (engine.schema is None and stated.features == engine.feature_columns)
    if not same_columns:
        differ.append("columns")
    if differ:
        # The arguments of `source` behind what differs.
        options = [option for name in differ for option in (stated.dialect.stated if name == "dialect" else (name,))]
        raise ArgumentError(
            f"{', '.join(options)} cannot be stated for a source that is open already. State it where pais.source "
            "opens the data."
        )


def opened(data: object, schema: Schema | None, unit: Unit | None) -> Engine:
    """Open data with a schema and a unit, if there are any. Raise if it is open already, with another schema."""
    if isinstance(data, Engine):
        return data if schema in (None, data.schema) else data.with_schema(schema)
    return source(data, columns=schema, unit=unit)


def names_of(data: Any) -> list[str]:
    """Return the names of the columns of a table, a file or a frame; none for an array. Public."""
    if isinstance(data, (str, Path, CSVFile)):
        path, dialect = (data.path, data.dialect) if isinstance(data, CSVFile) else (data, Dialect())
        return names_in(*files_of(path)[0], dialect)
    stream = stream_of(data)
    if stream is not None:
        return list(stream.schema.names)
    names = data.columns if is_frame(data, "pandas", "polars", "pyspark.sql") else getattr(data, "column_names", ())
    return [str(name) for name in names]


def text_columns(data: Any) -> frozenset[str]:
    """Names of the columns whose type is text. Public.

    The type of a column of a CSV file or of Python objects says nothing, so these are never among them.
    """
    if isinstance(data, Opening):
        return text_columns(data.data)
    if is_frame(data, "pyspark.sql"):
        # Columns of a CSV file that this package opened have a mark.
        fields = [field for field in data.schema.fields if not field.metadata.get("pais_csv")]
        return frozenset(field.name for field in fields if field.dataType.typeName() in ("string", "varchar", "char"))
    types: Any = {}
    if isinstance(data, (str, Path)):
        types = types_in(*files_of(data)[0])
    elif isinstance(data, pa_dataset.FileSystemDataset):
        types = data.schema
    elif is_frame(data, "pandas"):
        columns = [(str(label), data.iloc[:0, place]) for place, label in enumerate(data.columns)]
        empty = {label: attempt(partial(pa.array, cells)) for label, cells in columns if not holds_objects(cells.dtype)}
        types = {label: None if cells is None else cells.type for label, cells in empty.items()}
    elif not isinstance(data, (Engine, CSVFile)):
        stream = stream_of(data)
        if stream is not None:
            types = stream.schema
        elif hasattr(data, "__arrow_c_stream__"):
            types = pa.RecordBatchReader.from_stream(data).schema
    pairs = types.items() if isinstance(types, dict) else ((field.name, field.type) for field in types)
    return frozenset(name for name, kind in pairs if kind is not None and is_text(value_type(kind)))


def with_names(schema: Schema, data: Any) -> Schema:
    """The schema of a table in which "auto" columns of text have names that a private survey finds."""
    auto = [column.name for column in schema.columns if isinstance(column, Auto) and column.is_open]
    texts = text_columns(data) if auto else ()
    return schema.with_columns(Names(name=name) for name in auto if name in texts) if texts else schema


def with_categories(schema: Schema, data: Any) -> Schema:
    """The same for a model, in which each name is a category."""
    schema = with_names(schema, data)
    return schema.with_columns(FoundCategories.of(each) for each in schema.columns if isinstance(each, Names))


def _in_memory(data: object, selection: Columns) -> MemoryEngine:
    """The engine for an array or a table."""
    if not hasattr(data, "__arrow_c_stream__"):
        selection.require_no_names()
        return MemoryEngine(table_of(from_array(data)))
    table = as_table(data, selection)
    layout = Layout.of(table.schema, selection, "the source")
    batch, keys, ids = layout.batch(table)
    carried = pa.table(batch.select(list(selection.carry))) if selection.carry else None
    rows = layout.rows(batch)
    return MemoryEngine(rows, names=layout.names, carried=carried, identity=keys, columns=selection, ids=ids)


def is_streamed(data: object) -> bool:
    """Whether `data` is read in passes, as a file or a query is, rather than an array or a table in memory."""
    return (
        isinstance(data, (Engine, Opening, str, Path, CSVFile, pa_dataset.Dataset))
        or is_frame(data, "pyspark.sql")
        or is_stream(data)
    )
