"""Room 1: what can be read. Everything becomes numbers by column; values never reach an error text."""

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

from pais._numerics import FloatArray
from pais._validate import as_array, attempt, count
from pais.cells import is_text, numbers_of_objects, whole_numbers_of_objects
from pais.errors import ArgumentError, DataError

Missing = Literal["drop", "error", "refuse"]

# Names of columns shown at a time.
_SHOWN = 8

# What a cell of a row can hold, and no name of a column does. Arrow reads these words as missing or as truths.
_CELL_WORDS = {*pa_csv.ConvertOptions().null_values, "none", "true", "false"}
_CELL_MARKS = re.compile(
    r"[;|]|\d{5}"  # another separator; an id, or a number of more digits than a year has
    r"|(?<![^\W\d_])\d{1,4}([-/.:])\d{1,2}\1\d{1,4}"  # a date or a time
    r"|^\s*[+-]?0[xX][\da-fA-F]+\s*$"
)


@dataclass(frozen=True, kw_only=True, repr=False)
class Table:
    """Rows in memory, and the names of their columns where the source has any. Secret."""

    rows: NDArray[np.generic]
    names: tuple[str, ...] | None


@dataclass(frozen=True, kw_only=True)
class Columns:
    """What is taken of a table: public.

    Attributes
    ----------
    features : tuple of str, optional
        Columns of numbers, in this order; None takes every column that is not named below.
    carry : tuple of str
        Columns of any type that go along with the rows of a sample; they are not looked at.
    key : str, optional
        A column of whole numbers, one for each row, that a seeded run keys its draws by; not a feature.
    missing : {"drop", "error"}
        What becomes of rows in which a feature is not a finite number; "refuse" is another word for "error".
    widths : mapping of str to int
        Lengths of the vectors in columns of a Spark frame, for columns whose type does not state it.
    """

    features: tuple[str, ...] | None = None
    carry: tuple[str, ...] = ()
    key: str | None = None
    missing: Missing = "drop"
    widths: Mapping[str, int] = field(default_factory=dict, hash=False)

    @property
    def set_aside(self) -> tuple[str, ...]:
        """Columns that are named and are no features."""
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
    """The columns of one table or file: which are features, and how they become numbers. Public.

    Attributes
    ----------
    names : tuple of str
        One for each number: ``vector[0]``, ``vector[1]``, ... where a column holds vectors.
    widths : tuple of int
        Numbers of each feature column: 0 for a plain one, the length for one of vectors.
    titles : tuple of str
        What errors call each feature column: its name, or its place where the name is not shown.
    """

    columns: Columns
    features: tuple[str, ...]
    widths: tuple[int, ...]
    names: tuple[str, ...]
    titles: tuple[str, ...]

    @classmethod
    def of(cls, schema: pa.Schema, columns: Columns, where: str, *, shown: bool = True) -> Layout:
        """The layout of a table of this schema; `where` says whose it is, for people.

        Names are schema, and public. Those of a CSV file could be a row, if it has no header: with `shown` false,
        errors repeat the names that a user typed, and call other columns by their places.
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
        """Columns a file must be asked for, once each."""
        return list(dict.fromkeys([*self.features, *self.columns.set_aside]))

    @property
    def by_rows(self) -> bool:
        """Whether all features are one column of vectors, which lie row by row already."""
        return len(self.widths) == 1 and self.widths[0] > 0

    def having_key(self, batch: pa.RecordBatch, where: str) -> NDArray[np.bool_] | None:
        """Which rows have a key, None where all have or need none. Rows without one are left out, or an error."""
        if self.columns.key is None or batch.column(self.columns.key).null_count == 0:
            return None
        if self.columns.missing == "error":
            raise DataError(
                f"column {self.columns.key!r} of {where}, the key, has missing values. Fill them, or leave those rows "
                "out with missing='drop'."
            )
        return np.asarray(batch.column(self.columns.key).is_valid().to_numpy(zero_copy_only=False), dtype=bool)

    def numbers(self, batch: pa.RecordBatch) -> list[FloatArray]:
        """One array for each number of a row; NaN where a value is missing."""
        found: list[FloatArray] = []
        for name, width in zip(self.features, self.widths, strict=True):
            column = batch.column(name)
            if width == 0:
                found.append(_as_floats(column))
            else:
                found.extend(_vectors(column, width).T)
        return found

    def rows(self, batch: pa.RecordBatch) -> FloatArray:
        """All numbers as rows of one array."""
        if self.by_rows:
            return _vectors(batch.column(self.features[0]), self.widths[0])
        rows = np.empty((batch.num_rows, len(self.names)))
        for place, column in enumerate(self.numbers(batch)):
            rows[:, place] = column
        return rows

    def keys(self, batch: pa.RecordBatch) -> NDArray[np.uint64] | None:
        """The keys of rows that all have one, or None where no column is the key."""
        if self.columns.key is None:
            return None
        column = batch.column(self.columns.key)
        return np.asarray(pc.cast(column, pa.int64(), safe=False).to_numpy(zero_copy_only=False)).view(np.uint64)


def listed(names: Sequence[str]) -> str:
    """Names of columns on one line, the first few of many. They are schema, and public."""
    more = len(names) - _SHOWN
    return ", ".join(names) if more <= 0 else f"{', '.join(names[:_SHOWN])} and {more} more"


def _meant(missing: Sequence[str], names: Sequence[str]) -> str:
    """What whoever named these columns may have meant, and what there is."""
    # A name in other letters is as near as can be, and far from itself to difflib.
    by_letters = {name.casefold(): name for name in names}
    near = [difflib.get_close_matches(name.casefold(), by_letters, n=1) for name in missing]
    found = listed([by_letters[match] for matches in near for match in matches])
    return f"{f'Did you mean {found}? ' if found else ''}Pass names of its columns: {listed(names)}."


def is_tabular(source: object) -> bool:
    """Whether a source has named columns or is a file: anything but a bare array."""
    return isinstance(source, (str, Path)) or hasattr(source, "__arrow_c_stream__")


def read(source: object, *, columns: Sequence[str] | None = None) -> Table:
    """The rows of an array, a pandas, polars or Arrow table, or a Parquet or CSV file, in memory.

    Every row is there: a cell that is missing or not a number is NaN.

    Parameters
    ----------
    source : array, table or path
        Tables are taken through the Arrow interface, so neither pandas nor polars is imported.
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
    """Any table, through the Arrow interface; columns of Python objects in a pandas frame become numbers."""
    table = attempt(lambda: _pandas_table(source, columns) if is_frame(source, "pandas") else pa.table(source))
    if table is None:
        raise DataError("the source cannot be read as a table of numbers. Pass columns of one type each.")
    if table.num_columns == 0:
        raise DataError("the source has no columns. Pass at least one feature.")
    return table


def is_frame(source: object, *libraries: str) -> bool:
    """Whether this is a data frame of one of these libraries, without importing any."""
    return any(
        kind.__name__ == "DataFrame" and kind.__module__.split(".")[0] in libraries for kind in type(source).__mro__
    )


def _pandas_table(frame: Any, columns: Columns) -> pa.Table:
    """A pandas frame as a table. Columns of Python objects are converted cell by cell, whatever the cells hold.

    Arrow takes the type of such a column from all its cells, so that one cell could change the others or be refused.
    A column of which most cells are no numbers is text, unless it is named as a feature.
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
    """Anything that is an array of numbers."""
    if isinstance(source, np.ma.MaskedArray):
        raise DataError("rows have a mask. Fill or drop the masked values first.")
    array = as_array(source)
    if array is not None and array.dtype.kind in "USc" and isinstance(source, (list, tuple)):
        # NumPy turns all numbers of a list into text, or into complex numbers, if one cell is.
        array = attempt(lambda: np.asarray(source, dtype=object))
    if array is None:
        raise DataError("rows cannot be read as a table of numbers. Pass a two-dimensional array of floats.")
    return _from_objects(array) if array.dtype.kind in "OUS" and array.ndim == 2 else array


def _from_objects(array: NDArray[Any]) -> FloatArray:
    """Text and Python objects as numbers, cell by cell. Columns of which most cells are no numbers are refused."""
    rows = numbers_of_objects(array.flat, array.size).reshape(array.shape)
    text = [str(place) for place in range(array.shape[1]) if is_text(array[:, place], rows[:, place])]
    if text:
        raise DataError(f"column(s) {', '.join(text)} hold no numbers. Leave them out or convert them to floats.")
    return rows


def from_arrow(table: pa.Table, columns: Columns, *, shown: bool = True) -> Table:
    """The rows of an Arrow table."""
    layout = Layout.of(table.schema, columns, "the source", shown=shown)
    return Table(rows=layout.rows(one_batch(table, layout)), names=layout.names)


def one_batch(table: pa.Table, layout: Layout) -> pa.RecordBatch:
    """What a table holds for a layout, as one batch of the rows that have a key, if there is to be one."""
    columns = [_one_chunk(table.column(name)) for name in layout.to_read]
    batch = pa.RecordBatch.from_arrays(columns, names=layout.to_read)
    having_key = layout.having_key(batch, "the source")
    return batch if having_key is None else batch.filter(pa.array(having_key))


def is_csv(name: str) -> bool:
    return name.lower().removesuffix(".gz").removesuffix(".bz2").endswith((".csv", ".txt"))


def require_header(names: Sequence[str], where: str) -> None:
    """Refuse a first line that could be a row, without quoting it: its cells would be published as names.

    Refused is a name that is empty or has no letter; that is a number, an amount, a date, a time, a truth or a word for
    a missing value; that has five digits in a row, or a semicolon, tab or bar, which separate the cells of other files.
    A running count of three or more columns, as `0,1,2` or `x1,x2,x3`, is a header.
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
    """Whether a cell of a row could look so, and a name not."""
    # Spark appends a number to a name that is there twice.
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
            # A column without a value is one of numbers.
            kinds = [pa.float64() if pa.types.is_null(field.type) else field.type for field in table.schema]
            table = table.cast(pa.schema(list(zip(table.column_names, kinds, strict=True))))
    else:
        table = attempt(lambda: pq.read_table(path, columns=chosen))
    if table is None:
        raise DataError(f"{path} cannot be read as Parquet or CSV with these columns. Check the file.")
    return table


def _all_features(schema: pa.Schema, columns: Columns, where: str) -> tuple[str, ...]:
    """All columns that nobody set aside. The index of a pandas table names rows; it is no feature."""
    index: object = []
    if b"pandas" in (schema.metadata or {}):
        notes = attempt(lambda: schema.pandas_metadata)
        index = notes.get("index_columns", []) if isinstance(notes, dict) else None
    if not isinstance(index, list) or not all(isinstance(one, (str, dict, type(None))) for one in index):
        raise DataError(f"what pandas noted of its index in {where} is damaged. Name the columns to use.")
    return tuple(name for name in schema.names if name not in index and name not in columns.set_aside)


def kind_of(kind: pa.DataType) -> str:
    """A type in a word: the rest can be row content, as fields of a struct are where dicts were read."""
    return re.split(r"[<\[(]", str(kind), maxsplit=1)[0]


def _widths(titles: Sequence[str], types: Sequence[pa.DataType], where: str) -> tuple[int, ...]:
    """For each column 0 if it holds numbers, the length if it holds vectors of them; other columns are refused."""
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
    """Refuse columns of other types, given by title and type, all at once."""
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
    """Numbers of any type as doubles, with NaN for null."""
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
