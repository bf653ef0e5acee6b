"""Engine for streams of Arrow batches: queries of polars and DuckDB, generators and readers. It holds few batches."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pais._base.threads import over_stream
from pais._base.validate import attempt, without_sizes
from pais.data.cells import type_name
from pais.data.columns import Columns, Layout
from pais.data.engines.blocks import Block
from pais.data.engines.local import LocalEngine, block_of
from pais.data.schema import Schema
from pais.data.tables import as_table, is_class, is_frame
from pais.errors import DataError

T = TypeVar("T")

#: Rows that a query is asked to return at a time. Chosen by eye.
BATCH_ROWS = 1 << 16


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Stream:
    """A source of batches. `begin` starts a pass and yields the columns that it is given; `once` allows one pass.

    `require_unread` raises if that pass was made.
    """

    where: str
    schema: pa.Schema
    begin: Callable[[list[str]], Iterable[Any]]
    once: bool = False
    require_unread: Callable[[], None] = lambda: None

    def tables(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Yield these columns of all batches, in one pass. Every batch must have the types of the first one."""
        names = list(columns)
        kinds = [self.schema.field(name).type for name in names]
        batches = _guarded(self.where, lambda: iter(self.begin(names)))
        try:
            while (batch := _guarded(self.where, lambda: next(batches, None))) is not None:
                yield self._selected(_table(batch, self.where), names, kinds)
        finally:
            # A query that is not read to its end must not stay open: DuckDB has one result for each connection.
            attempt(getattr(batches, "close", lambda: None))

    def _selected(self, table: pa.Table, names: list[str], kinds: list[pa.DataType]) -> pa.Table:
        absent = [name for name in names if table.column_names.count(name) != 1]
        if absent:
            raise DataError(f"a batch of {self.where} lacks column {absent[0]!r}. Yield batches with the same columns.")
        columns = []
        for name, kind in zip(names, kinds, strict=True):
            column = table.column(name)
            if pa.types.is_null(column.type):
                column = column.cast(kind)
            if column.type != kind:
                raise DataError(
                    f"column {name!r} of {self.where} is of type {type_name(column.type)} in one batch and of type "
                    f"{type_name(kind)} in the first. Yield batches of one schema."
                )
            columns.append(column)
        return pa.table(columns, names=names)


def stream_of(data: Any) -> Stream | None:
    """Return a stream of the batches of a query, a function, a generator or a reader; None for any other data."""
    if not is_stream(data):
        return None
    if is_class("LazyFrame", data, "polars"):
        return _lazy_frame(data)
    if is_class("DuckDBPyRelation", data, "duckdb", "_duckdb"):
        return _relation(data)
    if isinstance(data, Iterator):
        return _iterator(data)
    return _repeatable(data, data if callable(data) else lambda: data)


def is_stream(data: Any) -> bool:
    """Whether `stream_of` takes this. Checked by class name, so no library is imported, and no batch is read."""
    if is_class("LazyFrame", data, "polars") or is_class("DuckDBPyRelation", data, "duckdb", "_duckdb"):
        return True
    if isinstance(data, (list, tuple)):
        return bool(data) and isinstance(data[0], pa.RecordBatch)
    # Arrays and tables can be iterated over, and some can be called, but they have a length or an interface.
    has_rows = any(hasattr(data, name) for name in ("__array__", "__len__", "__getitem__", "__arrow_c_array__"))
    if isinstance(data, Iterator):
        return not has_rows
    return not has_rows and not hasattr(data, "__arrow_c_stream__") and (callable(data) or isinstance(data, Iterable))


def _lazy_frame(frame: Any) -> Stream:
    where = "the LazyFrame"
    if not hasattr(frame, "collect_batches"):
        raise DataError("this version of polars cannot yield a LazyFrame in batches. Install polars 1.34 or later.")
    empty = _guarded(where, lambda: frame.collect_schema().to_frame())

    def begin(columns: list[str]) -> Iterable[Any]:
        batches: Iterable[Any] = frame.select(columns).collect_batches(
            chunk_size=BATCH_ROWS, lazy=True, engine="streaming"
        )
        return batches

    return Stream(where=where, schema=_table(empty, where).schema, begin=begin)


def _relation(relation: Any) -> Stream:
    where = "the DuckDB relation"

    def begin(columns: list[str]) -> Any:
        # A new relation in every pass, which holds no earlier result.
        names = ", ".join('"' + name.replace('"', '""') + '"' for name in columns)
        return _reader(relation.project(names))

    # Reading the empty result to its end closes it.
    empty = _guarded(where, lambda: _reader(relation.limit(0)).read_all())
    return Stream(where=where, schema=_table(empty, where).schema, begin=begin)


def _reader(relation: Any) -> Any:
    # The older name is for DuckDB before 1.5.
    read = getattr(relation, "to_arrow_reader", None) or relation.fetch_record_batch
    return read(BATCH_ROWS)


def _repeatable(data: object, start: Callable[[], Iterable[Any]]) -> Stream:
    """A function that returns a new iterator, or an object that can be iterated over again."""
    where = "the function" if callable(data) else "the source"
    batches = _guarded(where, lambda: iter(start()))
    if batches is _guarded(where, lambda: iter(start())):
        raise DataError(f"{where} returns the same iterator again. Return a new one in each call.")
    first = _guarded(where, lambda: next(batches, None))
    attempt(getattr(batches, "close", lambda: None))
    return Stream(where=where, schema=_first(first, where).schema, begin=lambda _: start())


@dataclass(kw_only=True, repr=False)
class _Once:
    """The state of an iterator: whether it was read, and the first batch, which was taken for its columns. Secret."""

    schema: pa.Schema
    taken: list[pa.Table] = field(default_factory=list)
    spent: bool = False


# The first batch of an iterator must not be lost if the iterator is opened a second time.
_STATES: weakref.WeakKeyDictionary[Any, _Once] = weakref.WeakKeyDictionary()


def _iterator(batches: Any) -> Stream:
    where = "the reader" if isinstance(batches, pa.RecordBatchReader) else "the generator"
    if attempt(lambda: (weakref.ref(batches), hash(batches))) is None:
        raise DataError(
            f"an iterator of type {type(batches).__name__} can be read only once. Pass a function that returns a new "
            "one each time, or a generator."
        )
    state = _STATES.get(batches)
    if state is None:
        if isinstance(batches, pa.RecordBatchReader):
            state = _Once(schema=_table(batches.schema.empty_table(), where).schema)
        else:
            first = _first(_guarded(where, lambda: next(batches, None)), where)
            state = _Once(schema=first.schema, taken=[first])
        _STATES[batches] = state
    _require_unread(state, where)
    return Stream(
        where=where,
        schema=state.schema,
        begin=lambda _: _remaining(batches, state, where),
        once=True,
        require_unread=lambda: _require_unread(state, where),
    )


def _remaining(batches: Iterator[Any], state: _Once, where: str) -> Iterator[Any]:
    _require_unread(state, where)
    state.spent = True
    taken, state.taken = state.taken, []
    return itertools.chain(taken, batches)


def _require_unread(state: _Once, where: str) -> None:
    if state.spent:
        raise DataError(f"{where} was read already, and can be read only once. Create a new one.")


def _first(batch: Any, where: str) -> pa.Table:
    if batch is None:
        raise DataError(f"{where} yields no batch, so its columns are not known. Yield one, which may have no rows.")
    return _table(batch, where)


def _table(batch: Any, where: str) -> pa.Table:
    if not hasattr(batch, "__arrow_c_stream__") and not isinstance(batch, pa.RecordBatch):
        raise DataError(f"{where} yields objects of type {type(batch).__name__}. Yield pyarrow record batches.")
    if is_frame(batch, "pandas"):
        # The cells of a pandas frame decide the types of its columns, so each frame could have other types.
        raise DataError(f"{where} yields pandas frames. Yield pyarrow.RecordBatch.from_pandas(frame, schema=...).")
    return as_table(batch, Columns()).replace_schema_metadata(None)


def _guarded(where: str, action: Callable[[], T]) -> T:
    """Return the result of the user's code, or raise an error that does not quote its error, which can hold rows."""
    try:
        return action()
    except (MemoryError, DataError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # A panic of polars is not an `Exception`.
        kind = type(error).__name__
    raise DataError(
        f"{where} failed with {kind}. The message is hidden, since it can quote rows: read the batches yourself to see "
        "it."
    )


class BatchEngine(LocalEngine):
    """Rows that a query or a generator yields in batches. The calling thread takes batches, and other threads use them.

    The identity of a row is its position, or its key if a key column is given. A block has no `place`, because a query
    may return the rows in another order in the next pass. So the units of rows are looked up in every pass.
    """

    def __init__(self, stream: Stream, columns: Columns, *, on_rows: Callable[[int], None] | None = None) -> None:
        self._stream, self._on_rows = stream, on_rows
        self._layout = layout = Layout.of(stream.schema, columns, stream.where)
        super().__init__(columns, names=layout.names, features=layout.features, n_features=len(layout.names))
        self._n_rows: int | None = None
        if columns.unit is not None:
            self.require_passes(3)
        if columns.missing == "error":
            self.require_passes(2)

    def require_passes(self, n: int) -> None:
        self._stream.require_unread()
        if self._stream.once and n > 1:
            raise DataError(
                f"{self._stream.where} can be read only once, but this takes {n} passes or more. Pass a function that "
                "returns a new one each time, state what a survey would find (radius, center and norms for a fit, "
                "bounds of columns for a statistic), or hold the rows in a table."
            )

    @property
    def known_rows(self) -> int | None:
        return self._n_rows

    @property
    def carried_schema(self) -> pa.Schema:
        return pa.schema([self._stream.schema.field(name) for name in self.stated.carry])

    def _rescale(self, before: Schema) -> None:
        self._members, self._people = None, None
        assert self.schema is not None
        self._layout = self._layout.with_schema(self.schema)

    def _over_blocks(
        self, work: Callable[[Block, pa.Table], T], *, by_rows: bool = False, positions: bool = False
    ) -> list[T]:
        return list(self._each_block(work, by_rows=by_rows))

    @without_sizes
    def in_order(self, work: Callable[[NDArray[np.generic], pa.Table], T]) -> Iterator[T]:
        yield from self._each_block(lambda block, carried: work(block.rows(), carried), by_rows=True)

    def _each_block(self, work: Callable[[Block, pa.Table], T], *, by_rows: bool) -> Iterator[T]:
        """Yield the results of `work` on all blocks, in order. Memory holds a few batches for each thread."""

        def over(piece: tuple[int, pa.Table]) -> T:
            first_row, table = piece
            usable = self._layout.batch(table)
            carried = pa.Table.from_batches([usable[0]]).select(list(self.stated.carry))
            return work(block_of(self._layout, usable, first_row, by_rows=by_rows), carried)

        yield from over_stream(over, self._pieces())

    def _pieces(self) -> Iterator[tuple[int, pa.Table]]:
        """Yield pieces of the rows with the positions of their first rows: neither tiny nor huge, however they come."""
        pending: list[pa.Table] = []
        first_row = size = 0
        for table in self._stream.tables(self._layout.to_read):
            for start in range(0, table.num_rows, BATCH_ROWS):
                pending.append(table.slice(start, BATCH_ROWS))
                size += pending[-1].num_rows
                if 2 * size >= BATCH_ROWS:
                    yield first_row, pa.concat_tables(pending)
                    first_row, size, pending = first_row + size, 0, []
            if self._on_rows is not None:
                self._on_rows(table.num_rows)
        if pending:
            yield first_row, pa.concat_tables(pending)
        if self._n_rows not in (None, first_row + size):
            raise DataError(f"{self._stream.where} yields other rows in each pass. Make it return the same rows again.")
        self._n_rows = first_row + size
