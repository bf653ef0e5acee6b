"""Files that may be larger than memory: find them, check their columns, and read them in batches.

Parquet is read by row groups, and CSV by blocks: see `pais.data.dialect` for its lines.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.fs as pa_fs
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pais._base.randomness import BitSource, RandomState
from pais._base.threads import cores, in_threads
from pais._base.validate import attempt, without_sizes
from pais.data.cells import is_text_column, type_name, whole_numbers_of_text
from pais.data.columns import Columns, Layout
from pais.data.dialect import (
    FIRST_CELLS,
    SEPARATORS,
    Dialect,
    first_line,
    in_words,
    is_csv,
    n_lines,
    no_csv,
    open_csv,
    recognised,
    require_header,
    require_numbers,
    separator_in,
)
from pais.data.engines.base import Engine
from pais.data.engines.blocks import Block, empty_block
from pais.data.engines.local import LocalEngine, MemoryEngine, block_of
from pais.data.schema import Schema
from pais.data.units import joined, kind_of_ids
from pais.errors import DataError

T = TypeVar("T")
Stamp = tuple[int | None, int | None]

# Rows, or bytes of text, decoded and processed at a time. Chosen by eye: few calls, and a few MB for each thread.
_BATCH_ROWS, _CSV_BLOCK_BYTES = 1 << 17, 1 << 22

# The bytes of a CSV file that are read for its first lines, which show how it is written.
_FIRST_BYTES = 1 << 18

# The first bytes of a file in UTF-16.
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def files_of(source: str | Path) -> list[tuple[pa_fs.FileSystem, str]]:
    """Return the files that a path, a directory, a pattern or an address refers to, sorted by name."""
    text = str(source)
    is_address = "://" in text
    opened: Any = (pa_fs.LocalFileSystem(), text)
    if is_address:
        opened = attempt(lambda: pa_fs.FileSystem.from_uri(text))
        if opened is None:
            raise DataError(f"{text} cannot be opened. Check the scheme of the address and your access.")
    filesystem, path = opened
    if not is_address and any(mark in text for mark in "*?[") and attempt(Path(text).exists) is False:
        pattern = Path(text)
        start = Path(pattern.anchor) if pattern.is_absolute() else Path()
        inner = str(pattern.relative_to(pattern.anchor))
        names = attempt(lambda: [str(file) for file in start.glob(inner) if file.is_file()]) or []
        hint = f"no file matches {text}. Check the pattern."
    else:
        names = _files_at(filesystem, path, text)
        hint = f"{text} has no Parquet or CSV file. Check the directory."
    if not names:
        raise DataError(hint)
    return [(filesystem, name) for name in sorted(names)]


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


def _require_dialect(file: DataFile) -> None:
    """Raise if the first lines of a CSV file show that it is written in another way than stated. No cell is quoted."""
    schema = file.layout.columns.schema
    if file.metadata is not None or schema is None:
        return
    as_text = dict.fromkeys(file.layout.to_read, pa.string())
    options = {"include_columns": file.layout.to_read, "column_types": as_text, "check_utf8": False}
    size = min(_FIRST_BYTES, _CSV_BLOCK_BYTES)

    def first_cells() -> dict[str, pa.Array]:
        with open_csv(file.filesystem, file.path, size, file.dialect, whole=False, **options) as reader:
            first: Any = next(iter(reader), None)
        names = () if first is None else file.layout.to_read
        return {name: first.column(name)[:FIRST_CELLS].cast(pa.large_string()) for name in names}

    first = attempt(first_cells) or {}
    cells: dict[str, list[pa.Array]] = {"numbers": [], "dates": [], "text": []}
    for name, column in first.items():
        cells[schema[name].form if name in schema.names else "text"].append(column)
    form = recognised(cells, file.dialect)
    if form is not None:
        raise DataError(f"{file.where} has {in_words(form, file.dialect)}.")
    for name in schema.open if first else ():
        require_numbers(name, first[name], file.dialect, file.where)


def names_in(filesystem: pa_fs.FileSystem, path: str, dialect: Dialect) -> list[str]:
    """Return the names of the columns of a file. Public."""
    return list(_schema(filesystem, path, dialect)[0].names)


def types_in(filesystem: pa_fs.FileSystem, path: str) -> pa.Schema:
    """Return the types of the columns of a Parquet file; nothing for a CSV file, whose cells are text. Public."""
    return pa.schema([]) if is_csv(path) else _schema(filesystem, path, Dialect())[0]


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


@dataclass(frozen=True, kw_only=True)
class Part:
    """A row group of a Parquet file, or a whole CSV file, and the position of its first row among all rows."""

    file: DataFile
    row_group: int | None
    first_row: int


class ArrowEngine(LocalEngine):
    """Rows of one or more Parquet or CSV files, read in the order of the files' names.

    The identity of a row is its position among the rows of all files, or its key if a key column is given.
    """

    def __init__(
        self,
        files: Sequence[tuple[pa_fs.FileSystem, str]],
        columns: Columns,
        *,
        on_rows: Callable[[int], None] | None = None,
    ) -> None:
        self._files = [open_file(filesystem, path, columns) for filesystem, path in files]
        first = self._files[0]
        for file in self._files:
            _require_dialect(file)
        if columns.dialect.stated and self._have_footers:
            raise no_csv(first.where, columns.dialect)
        for file in self._files[1:]:
            _require_same_columns(file, first)
        if columns.unit is not None:
            _require_same_ids(self._files, columns.unit.column)
        layout, self._on_rows = first.layout, on_rows
        super().__init__(columns, names=layout.names, features=layout.features, n_features=len(layout.names))

    @property
    def _have_footers(self) -> bool:
        """Whether all files state the number of their rows."""
        return all(file.metadata is not None for file in self._files)

    @property
    def titles(self) -> tuple[str, ...]:
        layout = self._files[0].layout
        return super().titles if any(layout.widths) or self.schema is not None else layout.titles

    @property
    def known_rows(self) -> int | None:
        """Number of rows from the Parquet footers, or None if a file has no footer. Secret; for a progress bar."""
        return sum(file.most_rows for file in self._files) if self._have_footers else None

    @property
    def carried_schema(self) -> pa.Schema:
        types = {name: [file.schema.field(name).type for file in self._files] for name in self.stated.carry}
        # In files without values of the column, its type is null.
        known = {name: [kind for kind in kinds if not pa.types.is_null(kind)] for name, kinds in types.items()}
        return pa.schema([(name, (known[name] or types[name])[0]) for name in types])

    @without_sizes
    def held(self) -> Engine:
        blocks = self._over_blocks(lambda block, carried: (block, carried), by_rows=True, positions=True)
        empty = empty_block(self.n_features)
        return MemoryEngine(
            np.concatenate([empty.rows(), *(block.rows() for block, _ in blocks)]),
            names=self.names,
            carried=self._join_carried([carried for _, carried in blocks]) if self.stated.carry else None,
            identity=np.concatenate([empty.identity, *(block.identity for block, _ in blocks)]),
            columns=replace(self.stated, features=self.feature_columns),
            ids=None if self.unit is None else joined([block.units for block, _ in blocks if block.units is not None]),
        )

    def _rescale(self, before: Schema) -> None:
        self._members, self._people = None, None
        assert self.schema is not None
        self._files = [replace(file, layout=file.layout.with_schema(self.schema)) for file in self._files]

    def collecting(self, random_state: RandomState | BitSource, *, stream: int = 0, most: int | None = None) -> Engine:
        # Without a footer, the positions of rows, which key seeded draws, are not known in every pass.
        has_positions = random_state is None or self._have_footers
        return super().collecting(random_state, stream=stream, most=most) if has_positions else self

    def _over_blocks(
        self, work: Callable[[Block, pa.Table], T], *, by_rows: bool = False, positions: bool = False
    ) -> list[T]:
        def over(part: Part, stop: Event) -> list[T]:
            return [work(block, carried) for block, carried in self._blocks(part, by_rows=by_rows, stop=stop)]

        return [result for results in _over_parts(over, list(self._parts(positions=positions))) for result in results]

    @without_sizes
    def in_order(self, work: Callable[[NDArray[np.generic], pa.Table], T]) -> Iterator[T]:
        def over(part: Part, stop: Event) -> Iterator[T]:
            for block, carried in self._blocks(part, by_rows=True, stop=stop):
                yield work(block.rows(), carried)

        parts = list(self._parts())
        if any(part.row_group is None for part in parts):
            # A CSV file is a single part, whose results need not fit into memory.
            for part in parts:
                yield from over(part, Event())
            return
        for start in range(0, len(parts), cores()):
            window = parts[start : start + cores()]
            for results in _over_parts(lambda part, stop: list(over(part, stop)), window):
                yield from results

    def _blocks(self, part: Part, *, by_rows: bool = False, stop: Event) -> Iterator[tuple[Block, pa.Table]]:
        """Yield the blocks of a part and their carried columns, until `stop` is set."""
        layout, position = part.file.layout, part.first_row
        for number, batch in enumerate(part.file.batches(part.row_group)):
            if stop.is_set():
                return
            n_rows = batch.num_rows
            usable = layout.usable(batch, part.file.where)
            if usable[0].num_rows:
                block = block_of(layout, usable, position, by_rows=by_rows)
                block.place = (part.file.path, part.row_group, number)
                yield block, pa.Table.from_batches([usable[0]]).select(list(self.stated.carry))
            position += n_rows
            if self._on_rows is not None:
                self._on_rows(n_rows)

    def _parts(self, *, positions: bool = False) -> Iterator[Part]:
        """Yield the parts in order. Row positions are correct only with `positions`, which a seeded run sets."""
        first_row = 0
        for file in self._files:
            if file.metadata is None:
                yield Part(file=file, row_group=None, first_row=first_row)
                # A CSV file does not state its number of rows, so counting them takes a pass.
                first_row += sum(batch.num_rows for batch in file.text_batches()) if positions else 0
                continue
            for group in range(file.metadata.num_row_groups):
                n_rows = file.metadata.row_group(group).num_rows
                if n_rows:
                    yield Part(file=file, row_group=group, first_row=first_row)
                first_row += n_rows


def _over_parts(work: Callable[[Part, Event], T], parts: Sequence[Part]) -> list[T]:
    """Run `work` on every part in threads and return the results.

    After an error or Ctrl-C, threads stop at their next batch instead of at the end of a file.
    """
    stop = Event()
    try:
        return in_threads(lambda part: work(part, stop), parts)
    except BaseException:
        stop.set()
        raise


def _require_same_columns(file: DataFile, first: DataFile) -> None:
    if file.layout.names != first.layout.names:
        raise DataError(
            f"{file.where} has other columns than {first.where}. Name the columns to use, or leave the file out."
        )
    for name in file.layout.columns.carry:
        kind, first_kind = file.schema.field(name).type, first.schema.field(name).type
        if kind != first_kind and not pa.types.is_null(kind) and not pa.types.is_null(first_kind):
            title, first_title = type_name(kind), type_name(first_kind)
            raise DataError(
                f"column {name!r} of {file.where} is of type {title}, but in {first.where} it is of "
                f"{'another ' if title == first_title else ''}type {first_title}. Convert one of them, or do not carry "
                "the column."
            )


def _require_same_ids(files: Sequence[DataFile], column: str) -> None:
    """Raise unless the ids of all files can be compared: all numbers, all text, or all bytes. Files without ids may be.

    Otherwise one person could be two units: the text "0017" and the number 17, or a text and its bytes.
    """
    first, first_kind = files[0], None
    for file in files:
        kind = kind_of_ids(file.schema.field(column).type, file.where)
        if first_kind is None:
            first, first_kind = file, kind
        if kind not in (None, first_kind):
            raise DataError(
                f"the unit column {column!r} of {file.where} holds {kind}, but in {first.where} it holds {first_kind}. "
                "Convert one of them."
            )
