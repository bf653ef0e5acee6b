"""Engine for files that may be larger than memory. Reads Parquet by row groups and CSV by blocks."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from threading import Event
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.fs as pa_fs
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pais._base.randomness import BitSource, KeyedBits, RowBits, row_bits
from pais._base.threads import in_threads
from pais._base.validate import attempt, without_sizes
from pais.data.cells import is_text_column, numbers_of_text, whole_numbers_of_text
from pais.data.columns import Columns, Layout, is_csv, kind_of, require_header
from pais.data.engines.base import Engine, Fold, Kept, Thinning, WeightedRows, together
from pais.data.engines.blocks import Block, ColumnBlock, RowBlock, empty_block
from pais.data.engines.lines import open_csv
from pais.data.engines.memory import MemoryEngine
from pais.data.engines.screen import Screen
from pais.errors import DataError

T = TypeVar("T")

# Rows decoded and processed at a time.
_BATCH_ROWS = 1 << 17

_CSV_BLOCK_BYTES = 1 << 22


@dataclass(frozen=True, kw_only=True)
class Part:
    """A row group of a Parquet file, or a whole CSV file, and the position of its first row among all rows."""

    file: DataFile
    row_group: int | None
    first: int


@dataclass(frozen=True, kw_only=True, eq=False)
class DataFile:
    """A Parquet or CSV file: where it is, its schema, and which columns to read."""

    filesystem: pa_fs.FileSystem
    path: str
    schema: pa.Schema
    layout: Layout
    metadata: pq.FileMetaData | None
    stamp: tuple[int | None, int | None]

    @property
    def where(self) -> str:
        return where_of(self.path)

    def guarded(self, action: Callable[[], T]) -> T:
        """Return the result of `action`, or raise an error that names the file and quotes none of its content."""
        try:
            return action()
        except MemoryError:
            raise
        except Exception:
            pass
        causes = "it is damaged, cut short or gone"
        if self.metadata is None:
            causes = "it is gone or damaged"
        raise DataError(f"{self.where} cannot be read to its end: {causes}. Check the file.")

    def require_unchanged(self) -> None:
        """Raise if the file changed after its columns were checked. Call this once the file is open."""
        if self.guarded(lambda: stamp_of(self.filesystem, self.path)) != self.stamp:
            raise DataError(
                f"{self.where} was changed or replaced after it was opened. Run again on files that stay as they are."
            )

    def batches(self, row_group: int | None) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a row group, or of a CSV file, with the columns of the layout."""
        if row_group is None:
            yield from self._csv_batches()
            return
        # Pre-buffering is off so that memory holds one row group instead of the whole file.
        file = self.guarded(
            lambda: pq.ParquetFile(
                self.filesystem.open_input_file(self.path),
                metadata=self.metadata,
                pre_buffer=False,
                page_checksum_verification=True,
            )
        )
        with file:
            self.require_unchanged()
            stream = file.iter_batches(
                _BATCH_ROWS, row_groups=[row_group], columns=self.layout.to_read, use_threads=False
            )
            yield from self._each(stream)

    def _csv_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a CSV file. All cells are read as text; features and keys are converted cell by cell."""
        key, features = self.layout.columns.key, set(self.layout.features)
        for batch in self.text_batches():
            columns = {}
            for name in self.layout.to_read:
                cells = batch.column(name)
                if name == key:
                    columns[name] = whole_numbers_of_text(cells)
                else:
                    columns[name] = numbers_of_text(cells) if name in features else cells
            yield pa.RecordBatch.from_pydict(columns)

    def text_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a CSV file with all cells as text."""
        reader = self.guarded(
            lambda: open_csv(
                self.filesystem,
                self.path,
                _CSV_BLOCK_BYTES,
                include_columns=self.layout.to_read,
                column_types=dict.fromkeys(self.layout.to_read, pa.string()),
                check_utf8=False,
                # Carried cells must stay unchanged. In other columns only numbers count, and allowing nulls is faster.
                strings_can_be_null=not self.layout.columns.carry,
            )
        )
        with reader:
            self.require_unchanged()
            yield from self._each(reader)

    def _each(self, stream: Any) -> Iterator[pa.RecordBatch]:
        found = iter(stream)
        while True:
            batch = self.guarded(lambda: next(found, None))
            if batch is None:
                return
            yield batch


class ArrowEngine(Engine):
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
        self._files = [_opened(filesystem, path, columns) for filesystem, path in files]
        first = self._files[0].layout
        for file in self._files[1:]:
            if file.layout.names != first.names:
                raise DataError(
                    f"{file.where} has other columns than {self._files[0].where}. Name the columns to use, or leave "
                    "the file out."
                )
            _require_same_carried(file, self._files[0])
        self.names, self.n_features = first.names, len(first.names)
        self._on_rows = on_rows

    @property
    def titles(self) -> tuple[str, ...]:
        layout = self._files[0].layout
        return super().titles if any(layout.widths) else layout.titles

    @property
    def known_rows(self) -> int | None:
        """Number of rows from the Parquet footers, or None if a file has no footer. Secret; for a progress bar."""
        counts = [None if file.metadata is None else int(file.metadata.num_rows) for file in self._files]
        return None if None in counts else sum(count for count in counts if count is not None)

    @without_sizes
    def held(self) -> Engine:
        parts = [found for part in self._parts(places=True) for found in self._blocks(part, by_rows=True)]
        carry = list(self._files[0].layout.columns.carry)
        none = empty_block(self.n_features)
        return MemoryEngine(
            np.concatenate([none.rows(), *(block.rows() for block, _ in parts)]),
            names=self.names,
            carried=self._carried_table([pa.table(batch.select(carry)) for _, batch in parts]),
            identity=np.concatenate([none.identity, *(block.identity for block, _ in parts)]),
        )

    @without_sizes
    def fold(self, fold: Fold, *, seeded: bool) -> NDArray[Any]:
        def of_part(part: Part, stop: Event) -> NDArray[Any] | None:
            found = [fold.over(block) for block, _ in self._blocks(part, by_rows=seeded, stop=stop)]
            return reduce(operator.add, found) if found else None

        found = [total for total in _over_parts(of_part, list(self._parts())) if total is not None]
        return reduce(operator.add, found) if found else fold.over(empty_block(self.n_features))

    @without_sizes
    def thin(self, thinning: Thinning, bits: BitSource) -> WeightedRows:
        screen, draws = thinning.screen(self.n_features), row_bits(bits)
        parts = list(self._parts(places=isinstance(draws, KeyedBits)))

        def of_part(part: Part, stop: Event) -> list[tuple[Kept, pa.Table]]:
            return self._thinned(part, thinning, screen, draws, stop)

        found = [one for several in _over_parts(of_part, parts) for one in several]
        carried = self._carried_table([table for _, table in found])
        kept = [one for one, _ in found]
        found.clear()
        return together(kept, self.n_features, carried)

    def _thinned(
        self, part: Part, thinning: Thinning, screen: Screen, draws: RowBits, stop: Event
    ) -> list[tuple[Kept, pa.Table]]:
        carry = list(part.file.layout.columns.carry)
        found = []
        for block, batch in self._blocks(part, stop=stop):
            kept = thinning.keep(block, screen, draws)
            beside = pa.table(batch.select(carry).take(pa.array(kept.index)) if carry else {})
            found.append((kept, beside))
        return found

    def _blocks(
        self, part: Part, *, by_rows: bool = False, stop: Event | None = None
    ) -> Iterator[tuple[Block, pa.RecordBatch]]:
        layout, place = part.file.layout, part.first
        for batch in part.file.batches(part.row_group):
            if stop is not None and stop.is_set():
                return
            n = batch.num_rows
            identity = np.arange(place, place + n, dtype=np.uint64)
            place += n
            having_key = layout.having_key(batch, part.file.where)
            if having_key is not None:
                batch = batch.filter(pa.array(having_key))
            if batch.num_rows:
                keys = layout.keys(batch)
                identity = identity if keys is None else keys
                if by_rows or layout.by_rows:
                    yield RowBlock(layout.rows(batch), identity), batch
                else:
                    yield ColumnBlock(layout.numbers(batch), identity), batch
            if self._on_rows is not None:
                self._on_rows(n)

    def _parts(self, *, places: bool = False) -> Iterator[Part]:
        """Yield the parts in order. Row positions are correct only with `places`, which a seeded run sets."""
        first = 0
        for file in self._files:
            if file.metadata is None:
                yield Part(file=file, row_group=None, first=first)
                # A CSV file does not state its number of rows, so counting them takes a pass.
                first += sum(batch.num_rows for batch in file.text_batches()) if places else 0
                continue
            for group in range(file.metadata.num_row_groups):
                n = file.metadata.row_group(group).num_rows
                if n:
                    yield Part(file=file, row_group=group, first=first)
                first += n

    def _carried_table(self, parts: Sequence[pa.Table]) -> pa.Table | None:
        """Concatenate the carried columns of all parts. A column without values takes its type from the other parts."""
        first = self._files[0]
        if not first.layout.columns.carry:
            return None
        none = pa.schema([first.schema.field(name) for name in first.layout.columns.carry]).empty_table()
        return pa.concat_tables(parts or [none], promote_options="default")


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


def _require_same_carried(file: DataFile, first: DataFile) -> None:
    for name in file.layout.columns.carry:
        kinds = [one.schema.field(name).type for one in (file, first)]
        if not any(pa.types.is_null(kind) for kind in kinds) and kinds[0] != kinds[1]:
            one, other = map(kind_of, kinds)
            raise DataError(
                f"column {name!r} of {file.where} is of type {one}, and of {'another ' if one == other else ''}type "
                f"{other} in {first.where}. Convert one of them, or do not carry the column."
            )


def where_of(path: str) -> str:
    """Return the path for error messages, without values in directory names: in `city=Oslo`, Oslo is row data."""
    return "file " + re.sub(r"([^/=]+)=[^/]+", r"\1=...", path)


def stamp_of(filesystem: pa_fs.FileSystem, path: str) -> tuple[int | None, int | None]:
    """Return the size and modification time of a file, used to detect that it changed."""
    info = filesystem.get_file_info(path)
    return info.size, info.mtime_ns


def _opened(filesystem: pa_fs.FileSystem, path: str, columns: Columns) -> DataFile:
    """Open a file and check its columns, before any row is used."""
    where = where_of(path)

    def look() -> tuple[pa.Schema, pq.FileMetaData | None, tuple[int | None, int | None]]:
        stamp = stamp_of(filesystem, path)
        if is_csv(path):
            return _csv_schema(filesystem, path), None, stamp
        metadata = pq.read_metadata(filesystem.open_input_file(path))
        return metadata.schema.to_arrow_schema(), metadata, stamp

    opened = attempt(look)
    if opened is None:
        raise DataError(f"{where} cannot be read as Parquet or CSV. Check the file.")
    schema, metadata, stamp = opened
    if metadata is None:
        require_header(schema.names, where)
        typed = attempt(lambda: _with_types(schema.names, columns, filesystem, path))
        if typed is None:
            raise DataError(f"{where} cannot be read as CSV. Check the file.")
        schema = typed
    layout = Layout.of(schema, columns, where, shown=metadata is not None)
    return DataFile(filesystem=filesystem, path=path, schema=schema, layout=layout, metadata=metadata, stamp=stamp)


def _csv_schema(filesystem: pa_fs.FileSystem, path: str) -> pa.Schema:
    """Return the column names of a CSV file, as a schema of text columns."""
    with open_csv(filesystem, path, _CSV_BLOCK_BYTES, check_utf8=False) as reader:
        # A name that is not valid text raises here, where the caller discards the error.
        return pa.schema([(reader.schema.field(place).name, pa.string()) for place in range(len(reader.schema.names))])


def _with_types(names: Sequence[str], columns: Columns, filesystem: pa_fs.FileSystem, path: str) -> pa.Schema:
    """Return the types of the columns of a CSV file: double for features, integer for the key, text for all others.

    Columns that the user names have these types regardless of their cells. If the user names no features, the cells of
    the first block decide which columns are text: see `is_text_column`.
    """
    features: set[str] = set(columns.features or ())
    if columns.features is None:
        as_text = dict.fromkeys(names, pa.string())
        with open_csv(filesystem, path, _CSV_BLOCK_BYTES, column_types=as_text, check_utf8=False) as reader:
            first = next(iter(reader), None)
        for place, name in enumerate(names):
            cells = pa.nulls(0, pa.string()) if first is None else first.column(place)
            if name not in columns.set_aside and not is_text_column(cells, numbers_of_text(cells)):
                features.add(name)

    def type_of(name: str) -> pa.DataType:
        if name in features:
            return pa.float64()
        return pa.int64() if name == columns.key else pa.string()

    return pa.schema([(name, type_of(name)) for name in names])
