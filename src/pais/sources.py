"""Room 1: what can be read. Everything becomes one table of numbers; values never reach an error text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pais.errors import DataError

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, repr=False)
class Table:
    """Rows in memory, and the names of their columns where the source has any. Secret."""

    rows: NDArray[np.generic]
    names: tuple[str, ...] | None


def is_tabular(source: object) -> bool:
    """Whether a source has named columns or is a file: anything but a bare array."""
    return isinstance(source, (str, Path)) or hasattr(source, "__arrow_c_stream__")


def read(source: object, *, columns: Sequence[str] | None = None) -> Table:
    """The rows of an array, a pandas, polars or Arrow table, or a Parquet or CSV file.

    Parameters
    ----------
    source : array, table or path
        Tables are taken through the Arrow interface, so neither pandas nor polars is imported.
    columns : sequence of str, optional
        Columns to take, by name; None takes all.
    """
    if isinstance(source, (str, Path)):
        return _from_arrow(_read_file(Path(source), columns), columns)
    if hasattr(source, "__arrow_c_stream__"):
        return _from_arrow(_as_table(source), columns)
    if columns is not None:
        raise DataError("columns can be chosen by name only from a table or a file. Select them in the array instead.")
    return Table(rows=_from_array(source), names=None)


def _as_table(source: object) -> pa.Table:
    table = _attempt(lambda: pa.table(source))
    if table is None:
        raise DataError("the source cannot be read as a table of numbers. Pass columns of one type each.")
    return table


def _from_array(source: object) -> NDArray[np.generic]:
    if isinstance(source, np.ma.MaskedArray):
        raise DataError("rows have a mask. Fill or drop the masked values first.")
    array = _attempt(lambda: np.asarray(source))
    if array is not None and array.dtype.kind == "O":
        found = array
        array = _attempt(lambda: found.astype(np.float64))
    if array is None:
        raise DataError("rows cannot be read as a table of numbers. Pass a two-dimensional array of floats.")
    return array


def _are_values(names: list[str]) -> bool:
    """Whether a line of names looks like a row: numbers in it, other than a running count of the columns."""
    counts = ([str(i + start) for i in range(len(names))] for start in (0, 1))
    return names not in counts and any(_is_number(name) for name in names)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _attempt(action: Callable[[], T]) -> T | None:
    """The result, or None. No exception is kept: a library's own text may quote a value of the data."""
    try:
        return action()
    except (pa.ArrowException, ValueError, TypeError, KeyError, OSError):
        return None


def _read_file(path: Path, columns: Sequence[str] | None) -> pa.Table:
    if not path.exists():
        raise DataError(f"{path} does not exist. Pass the path of a Parquet or CSV file.")
    chosen = None if columns is None else list(columns)
    if path.suffix.lower() in (".csv", ".txt"):
        options = pa_csv.ConvertOptions(include_columns=chosen or [])
        table = _attempt(lambda: pa_csv.read_csv(path, convert_options=options))
        if table is not None and _are_values(table.column_names):
            raise DataError(
                f"{path} has a first line with numbers in it, not a header. Put the names of the columns there."
            )
    else:
        table = _attempt(lambda: pq.read_table(path, columns=chosen))
    if table is None:
        raise DataError(f"{path} cannot be read as Parquet or CSV with these columns. Check the file.")
    return table


def _from_arrow(table: pa.Table, columns: Sequence[str] | None) -> Table:
    if columns is None:
        # The index of a pandas table names rows; it is no feature.
        index = (table.schema.pandas_metadata or {}).get("index_columns", [])
        table = table.select([i for i, name in enumerate(table.column_names) if name not in index])
    else:
        missing = [str(name) for name in columns if table.column_names.count(name) != 1]
        if missing:
            raise DataError(f"column(s) {', '.join(missing)} do not exist. Pass names of columns of the source.")
        table = table.select(list(columns))
    if table.num_columns == 0:
        raise DataError("the source has no columns. Pass at least one feature.")
    if table.num_rows == 0:
        raise DataError("the source has no rows. Pass at least one row.")
    rows = np.empty((table.num_rows, table.num_columns))
    for index, name in enumerate(table.column_names):
        rows[:, index] = _numbers(name, table.column(index))
    return Table(rows=rows, names=tuple(table.column_names))


def _numbers(name: str, column: pa.ChunkedArray) -> NDArray[np.generic]:
    kind = column.type
    if not (
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_decimal(kind)
    ):
        raise DataError(f"column {name!r} is of type {kind}, not a number. Leave it out or convert it.")
    if column.null_count:
        raise DataError(f"column {name!r} has missing values. Fill or drop them first.")
    return np.asarray(pc.cast(column, pa.float64(), safe=False).to_numpy())
