"""One Parquet or CSV file: open it, check its columns, and read it in batches."""

from __future__ import annotations

import codecs
import functools
import io
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.fs as pa_fs
import pyarrow.parquet as pq

from pais._base.validate import attempt
from pais.data.cells import is_text_column, whole_numbers_of_text
from pais.data.columns import Columns, Layout
from pais.data.dialect import SEPARATORS, Dialect, in_words, is_csv, recognised, require_header, separator_in
from pais.errors import DataError


def files_of(source: str | Path) -> list[tuple[pa_fs.FileSystem, str]]:
    """Return the files that a path, a directory, a pattern or an address refers to, sorted by name."""
    text = str(source)
    is_address = "://" in text
    filesystem, path = _filesystem(text) if is_address else (pa_fs.LocalFileSystem(), text)
    if not is_address and any(mark in text for mark in "*?[") and attempt(Path(text).exists) is False:
        names = _matching(Path(text))
        hint = f"no file matches {text}. Check the pattern."
    else:
        names = _files_at(filesystem, path, text)
        hint = f"{text} has no Parquet or CSV file. Check the directory."
    if not names:
        raise DataError(hint)
    return [(filesystem, name) for name in sorted(names)]


def _filesystem(address: str) -> tuple[pa_fs.FileSystem, str]:
    opened: tuple[pa_fs.FileSystem, str] | None = attempt(lambda: pa_fs.FileSystem.from_uri(address))
    if opened is None:
        raise DataError(f"{address} cannot be opened. Check the scheme of the address and your access.")
    return opened


def _matching(pattern: Path) -> list[str]:
    start = Path(pattern.anchor) if pattern.is_absolute() else Path()
    inner = str(pattern.relative_to(pattern.anchor))
    return attempt(lambda: [str(file) for file in start.glob(inner) if file.is_file()]) or []


def _files_at(filesystem: pa_fs.FileSystem, path: str, text: str) -> list[str]:
    info = attempt(lambda: filesystem.get_file_info(path))
    if info is None:
        raise DataError(f"{text} cannot be accessed. Check the path and your permissions.")
    if info.type == pa_fs.FileType.NotFound:
        raise DataError(f"{text} does not exist. Pass a Parquet or CSV file, a directory of them, or a pattern.")
    if info.type != pa_fs.FileType.Directory:
        return [path]
    contents = attempt(lambda: filesystem.get_file_info(pa_fs.FileSelector(path, recursive=True)))
    if contents is None:
        raise DataError(f"{text} cannot be listed. Check your permissions for the directory and its subdirectories.")
    files = [entry.path for entry in contents if entry.type == pa_fs.FileType.File]
    return [name for name in files if _is_data(name.removeprefix(path))]


def _is_data(inner: str) -> bool:
    """Whether a file in a directory is a data file, rather than a hidden file, a marker, a log or an unfinished file.

    Spark, Hive and Delta give the latter, or their directories, names that begin with a dot or an underscore. An
    exception is a partition directory such as `_name=value`, whose files are data.
    """
    *directories, name = inner.strip("/").split("/")
    if any(folder.startswith(".") or (folder.startswith("_") and "=" not in folder) for folder in directories):
        return False
    return not name.startswith((".", "_")) and (".parquet" in name.lower() or is_csv(name))


_ENDS = re.compile(rb"[\r\n]")


def first_line(filesystem: pa_fs.FileSystem, path: str, block_bytes: int) -> bytes:
    """Return the header of a CSV file."""
    with filesystem.open_input_stream(path) as stream:
        text: bytes = stream.read(block_bytes // 4)
    return _ENDS.split(text.lstrip(b"\r\n"), 1)[0]


def n_lines(filesystem: pa_fs.FileSystem, path: str) -> int:
    """Return the number of lines of a text file that are not empty. Secret."""
    number, after_end = 0, True
    with filesystem.open_input_stream(path) as stream:
        while chunk := stream.read(1 << 20):
            codes = np.frombuffer(chunk, dtype=np.uint8)
            is_end = (codes == 10) | (codes == 13)
            number += int(np.count_nonzero(~is_end & np.concatenate([[after_end], is_end[:-1]])))
            after_end = bool(is_end[-1])
    return number


def open_csv(
    filesystem: pa_fs.FileSystem, path: str, block_bytes: int, dialect: Dialect, *, whole: bool = True, **convert: Any
) -> pa_csv.CSVStreamingReader:
    """Open a CSV file with a known separator for reading block by block.

    The reader skips lines whose number of cells differs from the header's, lines with an unclosed quoted cell, and
    lines longer than a quarter of a block. Whether a line is skipped depends on that line alone. Bytes that the
    encoding does not have become replacement characters. Unless `whole`, the file ends with its first block.
    """
    separator = dialect.separator or ","
    lines = _ClosedLines(filesystem.open_input_stream(path), block_bytes // 4, separator, dialect.codec)
    return pa_csv.open_csv(
        pa.PythonFile(lines, mode="r") if whole else _first_block(lines, block_bytes),
        read_options=pa_csv.ReadOptions(block_size=block_bytes, use_threads=False),
        parse_options=pa_csv.ParseOptions(delimiter=separator, invalid_row_handler=lambda line: "skip"),
        convert_options=pa_csv.ConvertOptions(**convert),
    )


def _first_block(lines: _ClosedLines, block_bytes: int) -> pa.BufferReader:
    """The whole lines of the first block, in memory.

    Arrow reads ahead in a thread that calls Python. A process that ends with an error about the first lines would be
    aborted, if that thread were still reading.
    """
    with lines:
        block = lines.read(block_bytes)
    return pa.BufferReader(block[: max(block.rfind(b"\n"), block.rfind(b"\r")) + 1])


class _ClosedLines(io.RawIOBase):
    """A byte stream that skips lines with an unclosed quoted cell and overlong lines.

    Arrow would continue an unclosed cell into the following lines, up to the next quote or the end of the block.
    """

    def __init__(self, stream: Any, longest: int, separator: str, codec: str) -> None:
        super().__init__()
        self._stream = stream
        self._pieces = _closed(_whole_lines(stream, longest), separator, codec)
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        parts, wanted = [], size
        while wanted != 0:
            if not self._rest:
                piece = next(self._pieces, None)
                if piece is None:
                    break
                self._rest = memoryview(piece)
            part = self._rest if wanted < 0 else self._rest[:wanted]
            self._rest = self._rest[len(part) :]
            parts.append(part)
            wanted -= len(part) if wanted > 0 else 0
        return bytes(parts[0]) if len(parts) == 1 else b"".join(parts)

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
        super().close()


def _whole_lines(stream: Any, longest: int) -> Iterator[bytes]:
    """Yield pieces that end at a line end, without lines longer than `longest`. Raise if the header is that long."""
    tail, overlong, in_header = b"", False, True
    while chunk := stream.read(longest):
        end = max(chunk.rfind(b"\n"), chunk.rfind(b"\r"))
        if end < 0:
            tail = b"" if overlong else tail + chunk
        else:
            first = _ENDS.search(chunk)
            head = 0 if first is None else first.start()
            overlong = overlong or len(tail) + head > longest
            _require_header(not (in_header and overlong))
            # A line that lies within one chunk is never too long. Only a line that began in an earlier chunk can be.
            piece = chunk[head : end + 1] if overlong else tail + chunk[: end + 1]
            in_header = in_header and not piece.strip(b"\r\n")
            yield piece
            tail, overlong = chunk[end + 1 :], False
        if len(tail) > longest:
            tail, overlong = b"", True
    _require_header(not (in_header and overlong))
    if tail:
        yield tail + b"\n"


def _closed(pieces: Iterator[bytes], separator: str, codec: str) -> Iterator[bytes]:
    """Yield the pieces as UTF-8, without lines with an unclosed quoted cell. Raise if the header is such a line."""
    in_header = True
    for piece in pieces:
        if in_header:
            lines = piece.lstrip(b"\r\n")
            in_header = not lines
            _require_header(_is_header(_ENDS.split(lines, 1)[0], separator, codec))
        closed = _without_open_lines(piece, separator) if b'"' in piece else piece
        yield closed if closed.isascii() else _as_utf8(closed, codec)


@functools.lru_cache
def _closed_line(separator: str) -> re.Pattern[bytes]:
    """Match a line in which every quoted cell is closed. Arrow treats a quote as such only at the start of a cell."""
    mark = re.escape(separator.encode())
    cell = rb'(?:"(?:[^"]|"")*"(?!")[^%b]*|[^"%b][^%b]*|)' % (mark, mark, mark)
    return re.compile(rb"%b(?:%b%b)*" % (cell, mark, cell))


def _is_header(line: bytes, separator: str, codec: str) -> bool:
    return _closed_line(separator).fullmatch(line) is not None and attempt(lambda: line.decode(codec)) is not None


def _require_header(fits: bool) -> None:
    if not fits:
        raise DataError(
            "the first line is too long, is in another encoding or has an unclosed quote. Correct the header."
        )


def _as_utf8(piece: bytes, codec: str) -> bytes:
    """Write a piece in UTF-8, with replacement characters for bytes that the encoding does not have. ASCII stays."""
    is_whole = codec.startswith("utf-8") and attempt(piece.decode) is not None
    return piece if is_whole else piece.decode(codec, errors="replace").encode()


def _without_open_lines(piece: bytes, separator: str) -> bytes:
    """Drop the lines with an unclosed quoted cell from a piece of whole lines.

    A vectorised test accepts most lines with quotes: a line is closed if its number of quotes is even and the first
    quote of each pair stands at the start of a cell or right after another quote. A regular expression checks the
    remaining lines one by one.
    """
    codes = np.frombuffer(piece, dtype=np.uint8)
    ends = np.flatnonzero((codes == 10) | (codes == 13))
    quotes = np.flatnonzero(codes == 34)
    line = np.searchsorted(ends, quotes)
    n_before = np.searchsorted(quotes, ends)
    n_quotes = np.diff(n_before, prepend=0)
    # The position of each quote among the quotes of its line.
    rank = np.arange(quotes.size) - (n_before - n_quotes)[line]
    previous = codes[quotes - 1]
    previous[quotes == 0] = 10
    opens_late = (rank % 2 == 0) & ~np.isin(previous, np.array([10, 13, 34, ord(separator)], dtype=np.uint8))
    doubtful = n_quotes % 2 == 1
    doubtful[line[opens_late]] = True
    closed, start = [], 0
    for number in np.flatnonzero(doubtful):
        first = int(ends[number - 1]) + 1 if number else 0
        end = int(ends[number])
        if _closed_line(separator).fullmatch(piece, first, end) is None:
            closed.append(piece[start:first])
            start = end + 1
    return b"".join([*closed, piece[start:]])


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
