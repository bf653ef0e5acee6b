"""Read arrays, tables and files into memory. Error messages never contain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pais._base.numerics import FloatArray
from pais._base.validate import as_array, attempt
from pais.data.cells import (
    are_texts,
    is_numeric,
    no_columns,
    numbers_of_objects,
    texts_of_objects,
    whole_numbers_of_objects,
)
from pais.data.columns import Columns, Layout, Missing
from pais.data.dialect import FIRST_CELLS, CSVFile, Dialect, require_numbers
from pais.data.engines.files import ArrowEngine, files_of
from pais.data.schema import Schema
from pais.data.units import ids_of_objects
from pais.errors import DataError


@dataclass(frozen=True, kw_only=True, repr=False)
class Table:
    """Rows in memory, and the names of their columns if the source has names. Secret."""

    rows: NDArray[np.generic]
    names: tuple[str, ...] | None


def read(
    source: object, *, columns: Sequence[str] | Mapping[str, object] | Schema | None = None, missing: Missing = "drop"
) -> Table:
    """Read an array, a pandas, polars or Arrow table, or a Parquet or CSV file into memory.

    No row is dropped. A cell that is missing or not a number becomes NaN, or the midpoint of its column.

    Parameters
    ----------
    source : array, table, path or CSVFile
        Tables are read through the Arrow interface, so neither pandas nor polars is imported.
    columns : sequence of str, mapping or Schema, optional
        Columns to take, by name; None takes all. With a mapping or a schema, rows are scaled vectors.
    missing : {"drop", "midpoint", "error"}
        "midpoint" puts the public midpoint of a column in the place of missing values, which needs a schema.
    """
    selection = Columns.of(columns, missing=missing)
    if isinstance(source, (str, Path, CSVFile)):
        path, dialect = (source.path, source.dialect) if isinstance(source, CSVFile) else (source, Dialect())
        engine = ArrowEngine(files_of(path), replace(selection, dialect=dialect))
        parts = [np.empty((0, engine.n_features)), *engine.in_order(lambda rows, _: rows)]
        return Table(rows=np.concatenate(parts), names=engine.names)
    if not hasattr(source, "__arrow_c_stream__"):
        selection.require_no_names()
        return Table(rows=from_array(source), names=None)
    table = as_table(source, selection)
    layout = Layout.of(table.schema, selection, "the source")
    return Table(rows=layout.rows(layout.batch(table)[0]), names=layout.names)


def as_table(source: object, columns: Columns) -> pa.Table:
    """Convert any table through the Arrow interface. In a pandas frame, columns of Python objects become numbers."""
    is_pandas = is_frame(source, "pandas")
    if is_pandas and columns.schema is not None:
        _require_numbers(source, columns.schema.open)
    table = attempt(lambda: _pandas_table(source, columns) if is_pandas else pa.table(source))
    if table is None:
        raise DataError(
            "the source cannot be read as a table of numbers. Pass a table whose columns have one type each."
        )
    if not table.column_names:
        raise no_columns("the source")
    # polars uses string views for text. Arrow cannot take rows of a view.
    for position, column in enumerate(table.columns):
        if pa.types.is_string_view(column.type):
            table = table.set_column(position, table.field(position).name, column.cast(pa.large_string()))
    return table


def require_table(source: object) -> None:
    """Raise if there is nothing to read, or a single column instead of a table."""
    if source is None:
        raise DataError("the data is None. Pass an array, a table or the path of a file.")
    if is_series(source):
        raise DataError(
            "the data is a single column, not a table. Select it with two pairs of brackets, such as df[['age']], or "
            "put it into a table."
        )


def is_series(source: object) -> bool:
    """Whether this is a single column of Arrow, pandas or polars."""
    return isinstance(source, (pa.Array, pa.ChunkedArray)) or is_class("Series", source, "pandas", "polars")


def is_class(name: str, source: object, *libraries: str) -> bool:
    """Whether this is of a class with this name that one of these libraries defines. None of them is imported."""
    homes = tuple(f"{library}." for library in libraries)
    return any(kind.__name__ == name and f"{kind.__module__}.".startswith(homes) for kind in type(source).__mro__)


#: Whether this is a data frame of one of these libraries.
is_frame = partial(is_class, "DataFrame")


def _pandas_table(frame: Any, columns: Columns) -> pa.Table:
    """Convert a pandas frame to an Arrow table, column by column. Columns that are not used become null.

    pandas chooses the type of a column by all its cells, so the type decides neither the value of a cell nor success.
    The index is a column if the user names it.
    """
    labels = [str(label) for label in frame.columns]
    used = {*(columns.features or ()), *columns.set_aside}
    series = [(label, frame.iloc[:, position]) for position, label in enumerate(labels)]
    for level, label in enumerate(frame.index.names):
        if label is not None and str(label) in used and str(label) not in labels:
            series.append((str(label), frame.index.get_level_values(level).to_series()))
    arrays = [_pandas_column(name, cells, columns) for name, cells in series]
    return pa.table(arrays, names=[name for name, _ in series])


def _require_numbers(frame: Any, names: Sequence[str]) -> None:
    """Raise if the first cells of an "auto" column of Python objects are words."""
    for position, label in enumerate(map(str, frame.columns)):
        series = frame.iloc[:FIRST_CELLS, position]
        if label in names and holds_objects(series.dtype):
            require_numbers(label, texts_of_objects(_objects(series)), Dialect(), "the source")


def _pandas_column(name: str, series: Any, columns: Columns) -> pa.Array | pa.ChunkedArray:
    is_feature = name not in columns.set_aside if columns.features is None else name in columns.features
    if not is_feature and name not in columns.set_aside:
        return pa.nulls(len(series))
    if name in columns.carry and not is_feature:
        return pa.array(series)
    column = None if holds_objects(series.dtype) else attempt(lambda: pa.array(series))
    if is_feature and columns.schema is not None:
        kind = columns.schema[name]
        if column is None:
            return kind.cells_of_objects(_objects(series))
        return column if kind.accepts(column.type) else pa.nulls(len(series))
    if is_feature:
        is_read = column is not None and (is_numeric(column.type) or pa.types.is_fixed_size_list(column.type))
        # Columns that the user does not name are refused if their type is not numeric.
        is_refused = column is not None and columns.features is None
        return column if is_read or is_refused else _plain_numbers(series, columns)
    if column is not None:
        return column
    if columns.unit is not None and name == columns.unit.column:
        return ids_of_objects(_objects(series))
    return whole_numbers_of_objects(_objects(series))


def _plain_numbers(series: Any, columns: Columns) -> pa.Array:
    """Convert cells one by one. A column in which most cells are not numbers is text, unless the user names it."""
    cells = _objects(series)
    numbers = numbers_of_objects(cells)
    if columns.features is None and are_texts(cells, numbers):
        return pa.nulls(len(cells), pa.string())
    return pa.array(numbers)


def _objects(series: Any) -> NDArray[Any]:
    return np.asarray(series.to_numpy(dtype=object))


def holds_objects(kind: Any) -> bool:
    """Whether cells are Python objects, also as the categories of a categorical column, which can be mixed too."""
    return kind == np.dtype(object) or getattr(getattr(kind, "categories", None), "dtype", None) == np.dtype(object)


def from_array(source: object) -> NDArray[np.generic]:
    """Convert anything that NumPy can read as an array of numbers."""
    if isinstance(source, np.ma.MaskedArray):
        raise DataError("rows have a mask. Fill or drop the masked values first.")
    array = as_array(source)
    if array is not None and array.dtype.kind in "USc" and isinstance(source, (list, tuple)):
        # If one cell of a list is text or complex, NumPy converts all its numbers to text or complex numbers.
        array = attempt(lambda: np.asarray(source, dtype=object))
    if array is None:
        raise DataError("rows cannot be read as a table of numbers. Pass a two-dimensional array of floats.")
    return _from_objects(array) if array.dtype.kind in "OUS" and array.ndim == 2 else array


def _from_objects(array: NDArray[Any]) -> FloatArray:
    """Convert text and Python objects to numbers, cell by cell. Raise if most cells of a column are not numbers."""
    rows = numbers_of_objects(array.flat).reshape(array.shape)
    text = [str(column) for column in range(array.shape[1]) if are_texts(array[:, column], rows[:, column])]
    if text:
        raise DataError(f"column(s) {', '.join(text)} are not numeric. Leave them out or convert them to floats.")
    return rows
