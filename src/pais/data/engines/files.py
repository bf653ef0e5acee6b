"""One Parquet or CSV file: open it, check its columns, and read it in batches."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.fs as pa_fs
import pyarrow.parquet as pq

from pais._base.validate import attempt
from pais.data.cells import is_text_column, whole_numbers_of_text
from pais.data.columns import Columns, Layout
from pais.data.dialect import SEPARATORS, Dialect, in_words, recognised, separator_in
from pais.data.engines.lines import first_line, n_lines, open_csv
from pais.data.headers import is_csv, require_header
from pais.errors import DataError

T = TypeVar("T")
Stamp = tuple[int | None, int | None]

# Rows decoded and processed at a time.
_BATCH_ROWS = 1 << 17

_CSV_BLOCK_BYTES = 1 << 22

# The first lines of a CSV file, which show how it is written, and the bytes that are read for them.
_FIRST_LINES, _FIRST_BYTES = 1000, 1 << 18

# The first bytes of a file in UTF-16.
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


@dataclass(frozen=True, kw_only=True, eq=False)
class DataFile:
    """A Parquet or CSV file: where it is, its schema, and which columns to read. CSV files have no metadata."""

    filesystem: pa_fs.FileSystem
    path: str
    schema: pa.Schema
    layout: Layout
    metadata: pq.FileMetaData | None
    stamp: Stamp
    dialect: Dialect

    @property
    def where(self) -> str:
        return _where(self.path)

    def batches(self, row_group: int | None) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a row group, or of a CSV file, with the columns of the layout."""
        return self._csv_batches() if row_group is None else self._parquet_batches(row_group)

    def _parquet_batches(self, row_group: int) -> Iterator[pa.RecordBatch]:
        # Pre-buffering is off so that memory holds one row group instead of the whole file.
        file = self._guarded(
            lambda: pq.ParquetFile(
                self.filesystem.open_input_file(self.path),
                metadata=self.metadata,
                pre_buffer=False,
                page_checksum_verification=True,
            )
        )
        with file:
            self._require_unchanged()
            yield from self._each(
                file.iter_batches(_BATCH_ROWS, row_groups=[row_group], columns=self.layout.to_read, use_threads=False)
            )

    def _csv_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a CSV file. All cells are read as text; features and keys are converted cell by cell."""
        # With a schema, the layout converts the text, by the kind of each column.
        plain = self.layout.features if self.layout.columns.schema is None else ()
        conversions: dict[str, Callable[[pa.Array], pa.Array]] = dict.fromkeys(plain, self.dialect.numbers)
        if self.layout.columns.key is not None:
            conversions[self.layout.columns.key] = whole_numbers_of_text
        for batch in self.text_batches():
            cells = {name: batch.column(name) for name in self.layout.to_read}
            yield pa.RecordBatch.from_pydict(
                {name: conversions[name](column) if name in conversions else column for name, column in cells.items()}
            )

    def text_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a CSV file with all cells as text."""
        columns = self.layout.columns
        # A word such as NA may be a category, so with a schema only an empty cell counts as missing here.
        words: dict[str, Any] = {} if columns.schema is None else {"null_values": [""]}
        reader = self._guarded(
            lambda: open_csv(
                self.filesystem,
                self.path,
                _CSV_BLOCK_BYTES,
                self.dialect,
                include_columns=self.layout.to_read,
                column_types=dict.fromkeys(self.layout.to_read, pa.string()),
                check_utf8=False,
                # Carried cells must stay unchanged. In other columns only numbers count, and allowing nulls is faster.
                strings_can_be_null=not columns.carry,
                **words,
            )
        )
        with reader:
            self._require_unchanged()
            yield from self._each(reader)

    @property
    def most_rows(self) -> int:
        """Number of rows of a Parquet file, or of lines after the header of a CSV file: rows or not. Secret."""
        if self.metadata is not None:
            return int(self.metadata.num_rows)
        return self._guarded(lambda: n_lines(self.filesystem, self.path)) - 1

    def _each(self, stream: Any) -> Iterator[pa.RecordBatch]:
        batches = iter(stream)
        while (batch := self._guarded(lambda: next(batches, None))) is not None:
            yield batch

    def _guarded(self, action: Callable[[], T]) -> T:
        """Return the result of `action`, or raise an error that names the file and quotes none of its content."""
        try:
            return action()
        except MemoryError:
            raise
        except Exception:
            pass
        raise DataError(f"{self.where} cannot be read to its end. Check whether it is damaged, cut short or deleted.")

    def _require_unchanged(self) -> None:
        """Raise if the file changed after its columns were checked. Call this once the file is open."""
        if self._guarded(lambda: _stamp(self.filesystem, self.path)) != self.stamp:
            raise DataError(f"{self.where} changed after it was opened. Run again on files that do not change.")


def open_file(filesystem: pa_fs.FileSystem, path: str, columns: Columns) -> DataFile:
    """Open a file and check its columns, before any row is used."""
    where = _where(path)
    stamp = attempt(lambda: _stamp(filesystem, path))
    schema, metadata, dialect = _schema(filesystem, path, columns.dialect)
    if metadata is None:
        typed = attempt(lambda: _csv_types(schema.names, columns, filesystem, path, dialect))
        if typed is None:
            raise DataError(f"{where} cannot be read as CSV. Check the file.")
        schema = typed
    layout = Layout.of(schema, columns, where, shown=metadata is not None)
    if stamp is None:
        raise DataError(f"{where} cannot be read as Parquet or CSV. Check the file.")
    return DataFile(
        filesystem=filesystem, path=path, schema=schema, layout=layout, metadata=metadata, stamp=stamp, dialect=dialect
    )


def require_dialect(file: DataFile) -> None:
    """Raise if the first lines of a CSV file show that it is written in another way than stated. No cell is quoted."""
    schema = file.layout.columns.schema
    if file.metadata is not None or schema is None:
        return
    as_text = dict.fromkeys(file.layout.to_read, pa.string())
    options = {"include_columns": file.layout.to_read, "column_types": as_text, "check_utf8": False}
    size = min(_FIRST_BYTES, _CSV_BLOCK_BYTES)

    def first_cells() -> dict[str, list[pa.Array]]:
        with open_csv(file.filesystem, file.path, size, file.dialect, whole=False, **options) as reader:
            first: Any = next(iter(reader), None)
        cells: dict[str, list[pa.Array]] = {"numbers": [], "dates": [], "text": []}
        for name in () if first is None else file.layout.to_read:
            form = schema[name].form if name in schema.names else "text"
            cells[form].append(first.column(name)[:_FIRST_LINES].cast(pa.large_string()))
        return cells

    cells = attempt(first_cells)
    form = None if cells is None else recognised(cells, file.dialect)
    if form is not None:
        raise DataError(f"{file.where} has {in_words(form, file.dialect)}.")


def names_in(filesystem: pa_fs.FileSystem, path: str, dialect: Dialect) -> list[str]:
    """Return the names of the columns of a file. Public."""
    return list(_schema(filesystem, path, dialect)[0].names)


def _where(path: str) -> str:
    """Return the path for error messages, without values in directory names: in `city=Oslo`, Oslo is row data."""
    return "file " + re.sub(r"([^/=]+)=[^/]+", r"\1=...", path)


def _stamp(filesystem: pa_fs.FileSystem, path: str) -> Stamp:
    """Return the size and modification time of a file, used to detect that it changed."""
    info = filesystem.get_file_info(path)
    return info.size, info.mtime_ns


def _schema(
    filesystem: pa_fs.FileSystem, path: str, stated: Dialect
) -> tuple[pa.Schema, pq.FileMetaData | None, Dialect]:
    """Return the schema, the metadata of a Parquet file, and the dialect of a CSV file, whose columns are text."""
    where = _where(path)
    if not is_csv(path):
        metadata = attempt(lambda: pq.read_metadata(filesystem.open_input_file(path)))
        if metadata is None:
            raise DataError(f"{where} cannot be read as Parquet or CSV. Check the file.")
        return metadata.schema.to_arrow_schema(), metadata, stated
    header = attempt(lambda: first_line(filesystem, path, _CSV_BLOCK_BYTES))
    dialect = stated if header is None else _shown_by(header, stated, where)

    def names_of() -> list[str]:
        with open_csv(filesystem, path, _CSV_BLOCK_BYTES, dialect, whole=False, check_utf8=False) as reader:
            # A name that is not valid text raises here.
            return [reader.schema.field(position).name for position in range(len(reader.schema.names))]

    names = attempt(names_of)
    if names is None:
        raise DataError(f"{where} cannot be read as Parquet or CSV. Check the file.")
    require_header(names, where)
    return pa.schema([(name, pa.string()) for name in names]), None, dialect


def _shown_by(header: bytes, stated: Dialect, where: str) -> Dialect:
    """Return the stated dialect with the separator that the header shows. Raise if the header is in another one."""
    if header[:2] in _UTF16:
        raise DataError(f"{where} is written in UTF-16. Convert it to UTF-8.")
    text = attempt(lambda: header.decode(stated.codec))
    if text is None:
        hint = "pass encoding='cp1252'" if stated.encoding is None else "pass its encoding"
        raise DataError(f"the first line of {where} is not written in {stated.codec}. If it is text, {hint}.")
    shown = separator_in(text)
    if stated.separator is None:
        return replace(stated, separator=shown)
    if stated.separator not in text and shown in text and shown in SEPARATORS:
        raise DataError(
            f"the first line of {where} has {SEPARATORS[shown]}, and not the separator that is stated. Pass "
            f"separator={shown!r}, if it separates the cells."
        )
    return stated


def _csv_types(
    names: Sequence[str], columns: Columns, filesystem: pa_fs.FileSystem, path: str, dialect: Dialect
) -> pa.Schema:
    """Return the types of the columns of a CSV file: double for features, integer for the key, text for all others.

    Columns that the user names have these types regardless of their cells. If the user names no features, the cells of
    the first block decide which columns are text: see `is_text_column`.
    """
    types = dict.fromkeys(names, pa.string())
    if columns.key is not None:
        types[columns.key] = pa.int64()
    if columns.features is not None:
        types |= dict.fromkeys(columns.features, pa.float64() if columns.schema is None else pa.string())
        return pa.schema([(name, types[name]) for name in names])
    as_text = dict.fromkeys(names, pa.string())
    options: dict[str, Any] = {"whole": False, "column_types": as_text, "check_utf8": False}
    with open_csv(filesystem, path, _CSV_BLOCK_BYTES, dialect, **options) as reader:
        first = next(iter(reader), None)
    for position, name in enumerate(names):
        cells = pa.nulls(0, pa.string()) if first is None else first.column(position)
        if name not in columns.set_aside and not is_text_column(cells, dialect.numbers(cells)):
            types[name] = pa.float64()
    return pa.schema([(name, types[name]) for name in names])
