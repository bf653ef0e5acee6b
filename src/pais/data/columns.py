"""Read arrays, tables and files as columns of numbers. Error messages never contain values."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pais._base.numerics import FloatArray
from pais._base.validate import as_array, attempt, count
from pais.data.cells import is_text, numbers_of_objects, whole_numbers_of_objects
from pais.errors import ArgumentError, DataError

Missing = Literal["drop", "error", "refuse"]

# Largest number of column names shown in a message.
_SHOWN = 8

# Text that can be a cell but not a column name. Arrow reads these words as missing or as booleans.
_CELL_WORDS = {*pa_csv.ConvertOptions().null_values, "none", "true", "false"}
_CELL_MARKS = re.compile(
    r"[;|]|\d{5}"  # another separator; an id, or a number with more digits than a year
    r"|(?<![^\W\d_])\d{1,4}([-/.:])\d{1,2}\1\d{1,4}"  # a date or a time
    r"|^\s*[+-]?0[xX][\da-fA-F]+\s*$"
)


@dataclass(frozen=True, kw_only=True, repr=False)
class Table:
    """Rows in memory, and the names of their columns if the source has names. Secret."""

    rows: NDArray[np.generic]
    names: tuple[str, ...] | None


@dataclass(frozen=True, kw_only=True)
class Columns:
    """The user's choice of columns from a table. Public.

    Attributes
    ----------
    features : tuple of str, optional
        Numeric columns, in this order; None takes every column that is not named below.
    carry : tuple of str
        Columns of any type to keep with the rows of a sample. Their values are not inspected.
    key : str, optional
        A column of integers, one per row, that keys the draws of a seeded run. It is not a feature.
    missing : {"drop", "error"}
        How to treat rows in which a feature is not a finite number. "refuse" is another name for "error".
    widths : mapping of str to int
        Lengths of the vectors in columns of a Spark frame, for columns whose type does not state the length.
    """

    features: tuple[str, ...] | None = None
    carry: tuple[str, ...] = ()
    key: str | None = None
    missing: Missing = "drop"
    widths: Mapping[str, int] = field(default_factory=dict, hash=False)

    @property
    def set_aside(self) -> tuple[str, ...]:
        """The carried columns and the key, which `features=None` leaves out."""
        return self.carry if self.key is None else (*self.carry, self.key)

    def __post_init__(self) -> None:
        if self.missing == "refuse":
            object.__setattr__(self, "missing", "error")
        if self.missing not in ("drop", "error"):
            raise ArgumentError(f"missing={self.missing!r} is not known. Pass 'drop' or 'error'.")
        if self.features is not None:
            object.__setattr__(self, "features", tuple(self.features))
            if not self.features:
                raise DataError("the source has no columns. Pass at least one feature.")
        object.__setattr__(self, "carry", tuple(self.carry))
        widths = {name: count(f"widths[{name!r}]", width) for name, width in self.widths.items()}
        object.__setattr__(self, "widths", widths)
        for names in (self.features or (), self.carry):
            twice = [str(name) for name in dict.fromkeys(names) if names.count(name) > 1]
            if twice:
                raise ArgumentError(f"column(s) {', '.join(twice)} are named more than once. Name each once.")


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The columns of one table or file: which are features, and how to convert them to numbers. Public.

    Attributes
    ----------
    names : tuple of str
        One name per number: ``vector[0]``, ``vector[1]``, ... for a column of vectors.
    widths : tuple of int
        One width per feature column: 0 for a column of numbers, the vector length for a column of vectors.
    titles : tuple of str
        How error messages refer to each feature column: by name, or by position if the name is not shown.
    """

    columns: Columns
    features: tuple[str, ...]
    widths: tuple[int, ...]
    names: tuple[str, ...]
    titles: tuple[str, ...]

    @classmethod
    def of(cls, schema: pa.Schema, columns: Columns, where: str, *, shown: bool = True) -> Layout:
        """Return the layout of a table with this schema. `where` describes the table in error messages.

        Column names belong to the schema and are public. But in a CSV file without a header, the names could be a row
        of data. So if `shown` is false, errors repeat only names that the user typed, and refer to other columns by
        position.
        """
        features = _all_features(schema, columns, where) if columns.features is None else columns.features
        wanted = dict.fromkeys((*features, *columns.set_aside))
        missing = [str(name) for name in wanted if name not in schema.names]
        if missing:
            hint = _meant(missing, schema.names) if shown else "Pass names that stand in its first line."
            raise DataError(f"column(s) {listed(missing)} do not exist in {where}. {hint}")
        shown = shown or columns.features is not None
        doubled = [name for name in wanted if schema.names.count(name) > 1]
        if doubled:
            which = f"column(s) {', '.join(doubled)} are in {where}" if shown else f"a name of a column is in {where}"
            raise DataError(f"{which} more than once. Give each a name of its own.")
        if not features:
            raise DataError(f"{where} has no columns. Pass at least one feature.")
        titles = tuple(repr(name) if shown else f"{schema.names.index(name) + 1} from the left" for name in features)
        widths = _widths(titles, [schema.field(name).type for name in features], where)
        names = tuple(
            label
            for name, width in zip(features, widths, strict=True)
            for label in ([name] if width == 0 else [f"{name}[{place}]" for place in range(width)])
        )
        if columns.key is not None and not pa.types.is_integer(schema.field(columns.key).type):
            raise DataError(f"column {columns.key!r} of {where} holds no whole numbers. Name another key.")
        return cls(columns=columns, features=features, widths=widths, names=names, titles=titles)

    @property
    def to_read(self) -> list[str]:
        """Columns to read from a file, each once."""
        return list(dict.fromkeys([*self.features, *self.columns.set_aside]))

    @property
    def by_rows(self) -> bool:
        """Whether the only feature is a column of vectors, whose numbers are already stored row by row."""
        return len(self.widths) == 1 and self.widths[0] > 0

    def having_key(self, batch: pa.RecordBatch, where: str) -> NDArray[np.bool_] | None:
        """Return a mask of the rows that have a key, or None if all rows have one or no key is used.

        With ``missing="error"``, raise an error if a row has no key.
        """
        if self.columns.key is None or batch.column(self.columns.key).null_count == 0:
            return None
        if self.columns.missing == "error":
            raise DataError(
                f"column {self.columns.key!r} of {where}, the key, has missing values. Fill them, or leave those rows "
                "out with missing='drop'."
            )
        return np.asarray(batch.column(self.columns.key).is_valid().to_numpy(zero_copy_only=False), dtype=bool)

    def numbers(self, batch: pa.RecordBatch) -> list[FloatArray]:
        """Return one array per number of a row, with NaN for missing values."""
        found: list[FloatArray] = []
        for name, width in zip(self.features, self.widths, strict=True):
            column = batch.column(name)
            if width == 0:
                found.append(_as_floats(column))
            else:
                found.extend(_vectors(column, width).T)
        return found

    def rows(self, batch: pa.RecordBatch) -> FloatArray:
        """Return all numbers as the rows of one array."""
        if self.by_rows:
            return _vectors(batch.column(self.features[0]), self.widths[0])
        rows = np.empty((batch.num_rows, len(self.names)))
        for place, column in enumerate(self.numbers(batch)):
            rows[:, place] = column
        return rows

    def keys(self, batch: pa.RecordBatch) -> NDArray[np.uint64] | None:
        """Return the keys of a batch in which every row has a key, or None if there is no key column."""
        if self.columns.key is None:
            return None
        column = batch.column(self.columns.key)
        return np.asarray(pc.cast(column, pa.int64(), safe=False).to_numpy(zero_copy_only=False)).view(np.uint64)


def listed(names: Sequence[str]) -> str:
    """Join column names on one line; of many names, show only the first few. Column names are public."""
    more = len(names) - _SHOWN
    return ", ".join(names) if more <= 0 else f"{', '.join(names[:_SHOWN])} and {more} more"


def _meant(missing: Sequence[str], names: Sequence[str]) -> str:
    """Return a hint with similar column names and the names that exist."""
    # Compare without case: difflib counts a letter in another case as a different letter.
    by_letters = {name.casefold(): name for name in names}
    near = [difflib.get_close_matches(name.casefold(), by_letters, n=1) for name in missing]
    found = listed([by_letters[match] for matches in near for match in matches])
    return f"{f'Did you mean {found}? ' if found else ''}Pass names of its columns: {listed(names)}."


def is_tabular(source: object) -> bool:
    """Whether a source is a table with named columns or a path, not a plain array."""
    return isinstance(source, (str, Path)) or hasattr(source, "__arrow_c_stream__")


def read(source: object, *, columns: Sequence[str] | None = None) -> Table:
    """Read an array, a pandas, polars or Arrow table, or a Parquet or CSV file into memory.

    No row is dropped. A cell that is missing or not a number becomes NaN.

    Parameters
    ----------
    source : array, table or path
        Tables are read through the Arrow interface, so neither pandas nor polars is imported.
    columns : sequence of str, optional
        Columns to take, by name; None takes all.
    """
    chosen = Columns(features=None if columns is None else tuple(columns))
    if isinstance(source, (str, Path)):
        path = Path(source)
        return from_arrow(_read_file(path, chosen), chosen, shown=not is_csv(path.name))
    if hasattr(source, "__arrow_c_stream__"):
        return from_arrow(as_table(source, chosen), chosen)
    if columns is not None:
        raise DataError("columns can be chosen by name only from a table or a file. Select them in the array instead.")
    return Table(rows=from_array(source), names=None)


def as_table(source: object, columns: Columns) -> pa.Table:
    """Convert any table through the Arrow interface. In a pandas frame, columns of Python objects become numbers."""
    table = attempt(lambda: _pandas_table(source, columns) if is_frame(source, "pandas") else pa.table(source))
    if table is None:
        raise DataError("the source cannot be read as a table of numbers. Pass columns of one type each.")
    if table.num_columns == 0:
        raise DataError("the source has no columns. Pass at least one feature.")
    return table


def is_frame(source: object, *libraries: str) -> bool:
    """Whether this is a data frame of one of these libraries. Checked by class name, so none is imported."""
    return any(
        kind.__name__ == "DataFrame" and kind.__module__.split(".")[0] in libraries for kind in type(source).__mro__
    )


def _pandas_table(frame: Any, columns: Columns) -> pa.Table:
    """Convert a pandas frame to an Arrow table. Columns of Python objects are converted cell by cell.

    Arrow would infer the type of such a column from all its cells, so one cell could change the values of others or
    make the conversion fail. A column in which most cells are not numbers is text, unless the user names it as a
    feature.
    """
    converted: dict[int, pa.Array] = {}
    for place, (label, kind) in enumerate(zip(frame.columns, frame.dtypes, strict=True)):
        name = str(label)
        is_feature = name not in columns.set_aside if columns.features is None else name in columns.features
        if kind != np.dtype(object) or (name in columns.carry and not is_feature):
            continue
        cells = frame.iloc[:, place].to_numpy(dtype=object)
        if is_feature:
            numbers = numbers_of_objects(cells, len(cells))
            text = columns.features is None and is_text(cells, numbers)
            converted[place] = pa.nulls(len(cells), pa.string()) if text else pa.array(numbers)
        else:
            converted[place] = whole_numbers_of_objects(cells) if name == columns.key else pa.nulls(len(cells))
    typed = frame.copy(deep=False)
    for place in converted:
        typed.isetitem(place, 0.0)
    table = pa.table(typed)
    for place, column in converted.items():
        table = table.set_column(place, table.field(place).name, column)
    return table


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
    rows = numbers_of_objects(array.flat, array.size).reshape(array.shape)
    text = [str(place) for place in range(array.shape[1]) if is_text(array[:, place], rows[:, place])]
    if text:
        raise DataError(f"column(s) {', '.join(text)} hold no numbers. Leave them out or convert them to floats.")
    return rows


def from_arrow(table: pa.Table, columns: Columns, *, shown: bool = True) -> Table:
    """Convert the rows of an Arrow table to an array."""
    layout = Layout.of(table.schema, columns, "the source", shown=shown)
    return Table(rows=layout.rows(one_batch(table, layout)), names=layout.names)


def one_batch(table: pa.Table, layout: Layout) -> pa.RecordBatch:
    """Return the columns of a layout as one batch, without rows that lack a key if the layout has a key."""
    columns = [_one_chunk(table.column(name)) for name in layout.to_read]
    batch = pa.RecordBatch.from_arrays(columns, names=layout.to_read)
    having_key = layout.having_key(batch, "the source")
    return batch if having_key is None else batch.filter(pa.array(having_key))


def is_csv(name: str) -> bool:
    return name.lower().removesuffix(".gz").removesuffix(".bz2").endswith((".csv", ".txt"))


def require_header(names: Sequence[str], where: str) -> None:
    """Raise if the first line could be a row of data, because its cells would be published as names.

    The error does not quote the line. A name is refused if it is empty or has no letter; if it is a number, an amount,
    a date, a time, a boolean or a word for a missing value; or if it contains five digits in a row, or a semicolon, tab
    or bar, which separate cells in other files. Three or more consecutively numbered names, such as `0,1,2` or
    `x1,x2,x3`, are accepted as a header.
    """
    if not _is_count(names) and any(_is_cell(name) for name in names):
        raise DataError(
            f"{where} has a first line that looks like a row of values, not like names of columns. Write a header with "
            "commas between names that have letters, none empty (pandas writes an empty one for its index: pass "
            "index=False), or pass a table that has names."
        )


def _is_count(names: Sequence[str]) -> bool:
    first = re.fullmatch(r"(\D*)([01])", names[0]) if len(names) >= 3 else None
    if first is None or (first[1] and _is_cell(first[1])):
        return False
    return all(name == f"{first[1]}{number}" for number, name in enumerate(names, int(first[2])))


def _is_cell(name: str) -> bool:
    """Whether this text looks like a cell of a row rather than a column name."""
    # Spark appends a number to a name that occurs twice.
    word = name.strip().rstrip("0123456789")
    if {name, word, word.casefold()} & _CELL_WORDS or not any(letter.isalpha() for letter in name):
        return True
    if not name.isprintable() or _CELL_MARKS.search(name):
        return True
    plain = re.sub(r"[\s,'\"()\[\]$€£¥%]", "", name)
    return attempt(lambda: float(plain)) is not None


def _read_file(path: Path, columns: Columns) -> pa.Table:
    if not path.exists():
        raise DataError(f"{path} does not exist. Pass the path of a Parquet or CSV file.")
    chosen = None if columns.features is None else list(columns.features)
    if is_csv(path.name):
        options = pa_csv.ConvertOptions(include_columns=chosen or [])
        table = attempt(lambda: pa_csv.read_csv(path, convert_options=options))
        if table is not None:
            require_header(table.column_names, str(path))
            # A column without any value counts as numeric.
            kinds = [pa.float64() if pa.types.is_null(field.type) else field.type for field in table.schema]
            table = table.cast(pa.schema(list(zip(table.column_names, kinds, strict=True))))
    else:
        table = attempt(lambda: pq.read_table(path, columns=chosen))
    if table is None:
        raise DataError(f"{path} cannot be read as Parquet or CSV with these columns. Check the file.")
    return table


def _all_features(schema: pa.Schema, columns: Columns, where: str) -> tuple[str, ...]:
    """Return all columns except carried columns, the key and the pandas index, which names rows."""
    index: object = []
    if b"pandas" in (schema.metadata or {}):
        notes = attempt(lambda: schema.pandas_metadata)
        index = notes.get("index_columns", []) if isinstance(notes, dict) else None
    if not isinstance(index, list) or not all(isinstance(one, (str, dict, type(None))) for one in index):
        raise DataError(f"what pandas noted of its index in {where} is damaged. Name the columns to use.")
    return tuple(name for name in schema.names if name not in index and name not in columns.set_aside)


def kind_of(kind: pa.DataType) -> str:
    """Return a type's name without its parameters, which can be row data: dict keys become struct field names."""
    return re.split(r"[<\[(]", str(kind), maxsplit=1)[0]


def _widths(titles: Sequence[str], types: Sequence[pa.DataType], where: str) -> tuple[int, ...]:
    """Return, for each column, 0 if it holds numbers or the length if it holds vectors. Raise for other types."""
    pairs = list(zip(titles, types, strict=True))
    hollow = [title for title, kind in pairs if pa.types.is_fixed_size_list(kind) and kind.list_size == 0]
    if hollow:
        raise DataError(f"column(s) {', '.join(hollow)} of {where} hold vectors without a number. Leave them out.")
    vectors = [pa.types.is_fixed_size_list(kind) and _is_numeric(kind.value_type) for kind in types]
    require_numbers(
        [
            (title, kind_of(kind))
            for (title, kind), is_vector in zip(pairs, vectors, strict=True)
            if not is_vector and not _is_numeric(kind)
        ],
        where,
    )
    return tuple(int(kind.list_size) if is_vector else 0 for kind, is_vector in zip(types, vectors, strict=True))


def require_numbers(others: Sequence[tuple[str, str]], where: str) -> None:
    """Raise one error that lists all columns that are not numeric, given by title and type."""
    if others:
        shown = listed([f"{title} (type {kind})" for title, kind in others])
        raise DataError(f"column(s) {shown} of {where} hold no numbers. Leave them out or convert them.")


def _is_numeric(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_decimal(kind)
    )


def _one_chunk(column: pa.ChunkedArray) -> pa.Array:
    merged = column.combine_chunks()
    return merged if isinstance(merged, pa.Array) else pa.concat_arrays(merged.chunks)


def _as_floats(column: pa.Array) -> FloatArray:
    """Convert numbers of any type to doubles, with NaN for null."""
    if pa.types.is_float64(column.type):
        return np.asarray(column.to_numpy(zero_copy_only=False))
    floats = attempt(lambda: pc.cast(column, pa.float64(), safe=False).to_numpy(zero_copy_only=False))
    if floats is None:
        raise DataError(f"a column of type {kind_of(column.type)} cannot be read as doubles. Convert it first.")
    return np.asarray(floats)


def _vectors(column: pa.FixedSizeListArray, width: int) -> FloatArray:
    rows = _as_floats(column.values.slice(column.offset * width, len(column) * width)).reshape(-1, width)
    if column.null_count == 0:
        return rows
    missing = np.asarray(column.is_null().to_numpy(zero_copy_only=False), dtype=bool)
    return np.where(missing[:, None], np.nan, rows)
