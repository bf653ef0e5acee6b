"""The work of a Spark worker on one partition: it reads batches and returns a sum or the sampled rows, as batches.

All batches sent back have the same columns: `content` (a sampled row, or a sum), its `weight`, a `note`, and the
carried columns. In a row with a note, all other columns are null. An empty note means that the partition had rows; any
other note is an error message.
"""

from __future__ import annotations

import io
import pickle
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pais._base.keyed import SecretBits
from pais._base.numerics import FloatArray
from pais._base.randomness import KeyedBits, RowBits, mixed64
from pais.data.cells import numbers_of_text
from pais.data.columns import Layout
from pais.data.engines.base import Fold, Thinning, quiet
from pais.data.engines.blocks import Block, ColumnBlock, RowBlock
from pais.data.engines.row_ids import RowIds
from pais.data.engines.screen import Screen
from pais.errors import PaisError


def over_partition(work: bytes, partition: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Run the pickled work on a partition and yield the batches to send back.

    Errors are sent back as notes instead of being raised, because Spark would show raised errors, which can quote rows.
    """
    task: Task | None = None
    for batch in batches:
        found, trouble = None, None
        try:
            if task is None:
                task = pickle.loads(work).begin(partition)
            found = task.take(batch)
        except PaisError as error:
            trouble = str(error)
        except ImportError as error:
            trouble = f"a worker of Spark has no module {error.name!r}, which the work needs. Send it with addPyFile."
        except Exception as error:
            trouble = f"a worker of Spark failed with {type(error).__name__}. Its text is not shown: it can quote rows."
        if trouble is not None:
            yield _noted(trouble, batch.schema)
            # Read to the end: Spark ends a worker that stops early, and the next worker has to load everything again.
            for _ in batches:
                pass
            return
        if found is not None:
            yield found
    last = None if task is None else task.end()
    if last is not None:
        yield last


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How to turn batches into blocks. Batches hold the features, then the key if one is used, then carried columns."""

    layout: Layout
    by_rows: bool = False
    keyed: bool = False
    numbered: bool = False

    @property
    def features(self) -> list[str]:
        return list(dict.fromkeys(self.layout.features))

    def block(self, batch: pa.RecordBatch, numbering: _Numbering) -> tuple[Block, pa.RecordBatch]:
        """Return the rows of a batch, with NaN for missing values, and the carried columns."""
        layout, names = self.layout, self.features
        widths = dict(zip(layout.features, layout.widths, strict=True))
        found = [_fixed(batch.column(place), widths[name]) for place, name in enumerate(names)]
        numbers = pa.RecordBatch.from_arrays(found, names=names)
        beside = batch.select(list(range(len(names), batch.num_columns)))
        identity = np.zeros(numbers.num_rows, dtype=np.uint64)
        if self.keyed:
            keys = layout.keys(pa.RecordBatch.from_arrays([beside.column(0)], names=[layout.columns.key]))
            identity = identity if keys is None else keys
            beside = beside.select(list(range(1, beside.num_columns)))
        if self.numbered:
            identity = numbering.of(layout.rows(numbers))
        if self.by_rows or layout.by_rows or self.numbered:
            return RowBlock(layout.rows(numbers), identity), beside
        return ColumnBlock(layout.numbers(numbers), identity), beside


def _fixed(column: pa.Array, width: int) -> pa.Array:
    """Convert text to numbers, and vectors to a fixed-size list with null for vectors of another length."""
    if width == 0:
        return _as_numbers(column)
    fits = pc.equal(pc.list_value_length(column), width)
    if not pc.all(fits, min_count=0).as_py():
        column = pc.if_else(fits, column, pa.scalar(None, column.type))
    return column.cast(pa.list_(pa.float64(), width))


def _as_numbers(column: pa.Array) -> pa.Array:
    """Convert a text column, which comes from a CSV file, to doubles cell by cell; return other columns unchanged."""
    is_text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    return numbers_of_text(column.cast(pa.string())) if is_text else column


class _Numbering:
    """Row ids for seeded runs without a key: content hash plus occurrence number among equal rows. NOT PRIVATE.

    Spark has already sorted the rows so that equal rows are adjacent, also across batches. So it is enough to remember
    the last row and its number. It does not matter which of several equal rows is kept, but each needs its own draw.
    """

    def __init__(self) -> None:
        self._last: NDArray[np.uint64] | None = None
        self._number = 0

    def of(self, rows: FloatArray) -> NDArray[np.uint64]:
        with quiet():
            words = (rows + 0.0).view(np.uint64)  # -0.0 + 0.0 is 0.0, so both zeros hash alike
        content = np.zeros(len(words), dtype=np.uint64)
        for place in range(words.shape[1]):
            content = mixed64(content + words[:, place])
        if len(words) == 0:
            return content
        like = np.empty(len(words), dtype=bool)
        like[0] = self._last is not None and np.array_equal(words[0], self._last)
        like[1:] = (words[1:] == words[:-1]).all(axis=1)
        at = np.arange(len(words))
        start = np.maximum.accumulate(np.where(like, -1, at))
        number = np.where(start < 0, self._number + 1 + at, at - start)
        self._last, self._number = words[-1].copy(), int(number[-1])
        return mixed64(content + number.astype(np.uint64))


class Task(ABC):
    """One pass over one partition."""

    @abstractmethod
    def take(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        """Process a batch and return the rows to send back immediately, if any."""

    @abstractmethod
    def end(self) -> pa.RecordBatch | None:
        """Return the rows to send back after the last batch, if any."""


class Work(ABC):
    """A description of the work on every partition. It is pickled and sent to the workers."""

    @abstractmethod
    def begin(self, partition: int) -> Task: ...


@dataclass(frozen=True, kw_only=True)
class Converting(Work):
    """Convert text columns to numbers and leave other columns unchanged, for frames that are sorted by them later."""

    names: tuple[str, ...]

    def begin(self, partition: int) -> Task:
        return _ConvertTask(self)


class _ConvertTask(Task):
    def __init__(self, work: Converting) -> None:
        self._work = work

    def take(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = _columns(batch)
        return pa.RecordBatch.from_pydict(columns | {name: _as_numbers(columns[name]) for name in self._work.names})

    def end(self) -> None:
        return None


@dataclass(frozen=True, kw_only=True)
class Folding(Work):
    reading: Reading
    fold: Fold

    def begin(self, partition: int) -> Task:
        return _FoldTask(self)


class _FoldTask(Task):
    def __init__(self, work: Folding) -> None:
        self._work = work
        self._total: NDArray[Any] | None = None

    def take(self, batch: pa.RecordBatch) -> None:
        block, _ = self._work.reading.block(batch, _Numbering())
        if block.n_rows:
            part = self._work.fold.over(block)
            self._total = part if self._total is None else self._total + part

    def end(self) -> pa.RecordBatch | None:
        if self._total is None:
            return None
        file = io.BytesIO()
        np.save(file, self._total, allow_pickle=False)
        # Compressed because counts by bin are mostly zeros and there can be thousands of partitions.
        content = pa.array([zlib.compress(file.getvalue(), 1)], type=pa.binary())
        return _sent(content, pa.nulls(1, pa.float64()), None, {})


@dataclass(frozen=True, kw_only=True, repr=False)
class Thin(Work):
    """Sample the rows of each partition. `key` and everything derived from it are secret."""

    reading: Reading
    thinning: Thinning
    screen: Screen
    seeded: KeyedBits | None
    key: bytes

    def begin(self, partition: int) -> Task:
        if self.seeded is not None:
            return _ThinTask(self, self.seeded, None)
        ids = RowIds(self.key, partition=partition, n_features=self.screen.n_features)
        return _ThinTask(self, SecretBits(self.key, partition=partition), ids)


class _ThinTask(Task):
    """`ids` computes the row identities for secret draws; with None, rows keep the identities from `Reading`."""

    def __init__(self, work: Thin, bits: RowBits, ids: RowIds | None) -> None:
        self._work, self._bits, self._numbering, self._ids = work, bits, _Numbering(), ids
        self._seen: pa.Schema | None = None

    def take(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        work = self._work
        block, beside = work.reading.block(batch, self._numbering)
        if block.n_rows == 0:
            return None
        self._seen = batch.schema
        if self._ids is not None:
            block.identity = self._ids.of(block.columns())
        kept = work.thinning.keep(block, work.screen, self._bits)
        n, width = kept.rows.shape
        if n == 0:
            return None
        starts = np.arange(n + 1, dtype=np.int64) * (8 * width)
        numbers = np.ascontiguousarray(kept.rows, dtype="<f8")
        buffers = [None, pa.py_buffer(starts.astype(np.int32)), pa.py_buffer(numbers)]
        content = pa.Array.from_buffers(pa.binary(), n, buffers)
        return _sent(content, pa.array(kept.weights), None, _columns(beside.take(pa.array(kept.index))))

    def end(self) -> pa.RecordBatch | None:
        """Return an empty note if the partition had rows, even if none of them was kept."""
        return None if self._seen is None else _noted("", self._seen)


def _noted(note: str, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch with a single row that holds a note, and null in every other column."""
    beside = {name: pa.nulls(1, schema.field(name).type) for name in schema.names if name.startswith("c")}
    return _sent(pa.nulls(1, pa.binary()), pa.nulls(1, pa.float64()), note, beside)


def _columns(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    return dict(zip(batch.schema.names, batch.columns, strict=True))


def _sent(content: pa.Array, weight: pa.Array, note: str | None, beside: dict[str, pa.Array]) -> pa.RecordBatch:
    notes = pa.array([note] * len(content), type=pa.string())
    return pa.RecordBatch.from_pydict({"content": content, "weight": weight, "note": notes, **beside})


def rows_of(content: pa.ChunkedArray, n_features: int) -> FloatArray:
    """Convert the bytes that the workers sent into rows, without a Python loop over the rows."""
    parts = [np.empty((0, n_features))]
    for chunk in content.cast(pa.large_binary()).chunks:
        if len(chunk):
            _, starts, numbers = chunk.buffers()
            place = np.frombuffer(starts, dtype=np.int64)[chunk.offset : chunk.offset + len(chunk) + 1]
            found = np.frombuffer(numbers, dtype=np.uint8)[place[0] : place[-1]]
            parts.append(found.view("<f8").reshape(-1, n_features))
    return np.concatenate(parts)
