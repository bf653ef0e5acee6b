"""The work of a Spark worker on one partition: it reads batches and returns a sum or the sampled rows, as batches.

All batches sent back have the same columns: `content` (a sampled row, or a sum), its `weight`, a `note`, and the
carried columns. In a row with a note, all other columns are null. An empty note means that the partition had rows; any
other note is an error message.
"""

from __future__ import annotations

import io
import itertools
import pickle
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pais._base.numerics import FloatArray
from pais._base.randomness import (
    CHUNK,
    ContentHash,
    KeyedBits,
    RowBits,
    SecretBits,
    StreamBits,
    Words32,
    Words64,
    mixed64,
)
from pais.data.cells import is_text
from pais.data.columns import Layout, keys_of
from pais.data.dialect import Dialect
from pais.data.engines.base import Fold, KeptRows, Sampling, quiet
from pais.data.engines.blocks import Block, ColumnBlock, RowBlock, Screen
from pais.data.engines.local import Members, UnitSampling
from pais.data.units import HashIndex, Unit, UnitHash, normalised, seeded_identity
from pais.errors import DataError, PaisError

# Occurrence numbers and the row numbers in the table have 32 bits each.
_MOST_ROWS = (1 << 32) - 1

_Numbers = NDArray[np.intp]


class RowIds:
    """Ids of the rows of one partition: 96 bits of content hash and 32 bits of occurrence number.

    Notes
    -----
    Guarantee. No two rows of a partition have the same id, even if their hashes collide. As long as the hashes of no
    two different rows collide, the set of pairs of an id and its row's content does not depend on the order of the
    rows: `tests/unit/_base/test_keyed.py`, `tests/conformance/test_partition_draws.py`.
    """

    def __init__(self, key: bytes, *, partition: int, n_features: int) -> None:
        self._hash = ContentHash(StreamBits(key, context=b"content %d" % partition), n_features)
        self._occurrences = Occurrences()

    def of(self, columns: Sequence[NDArray[np.generic]]) -> Words64:
        """Return the ids of the partition's next rows, as an array of shape (n, 2). Rows are passed as columns."""
        ids = np.empty((len(columns[0]), 2), dtype=np.uint64)
        for start in range(0, len(ids), CHUNK):
            piece = slice(start, start + CHUNK)
            upper, lower = self._hash.of([column[piece] for column in columns])
            number = self._occurrences.number(upper, lower)  # [note: spark-2]
            ids[piece, 0] = upper
            ids[piece, 1] = lower.astype(np.uint64) << np.uint64(32) | number
        return ids


class Occurrences:
    """Count, for each row of a partition, the equal rows before it. Rows are equal if their hashes are equal.

    Takes up to about 64 bytes per distinct row of the partition.
    """

    def __init__(self, *, room: int = 1 << 16) -> None:
        self._n_rows = 0
        self._index = HashIndex(room=room)
        # By number of the hash: how many rows have come so far.
        self._count = np.zeros(room, dtype=np.uint32)

    def number(self, upper: Words64, lower: Words32) -> Words32:
        """Return the occurrence numbers of the next rows, starting at 0."""
        self._n_rows += len(upper)
        if self._n_rows > _MOST_ROWS:
            raise DataError(f"a partition of the source has more than {_MOST_ROWS} rows. Use more partitions.")
        before = self._index.size
        content = self._index.add(np.stack([upper, lower.astype(np.uint64)], axis=1))
        if self._index.size > len(self._count):
            more = max(self._index.size, 2 * len(self._count)) - len(self._count)
            self._count = np.concatenate([self._count, np.zeros(more, dtype=np.uint32)])
        if self._index.size == before + len(content):
            # All rows are new, which is the usual case.
            self._count[content] = 1
            return np.zeros(len(content), dtype=np.uint32)
        # Equal rows that came in earlier calls, and those before a row in this call.
        earlier = self._count.take(content)
        np.add.at(self._count, content, np.uint32(1))
        return self._rank(content) + earlier

    @staticmethod
    def _rank(content: _Numbers) -> Words32:
        """Return, for each row, the number of equal rows before it in this call."""
        order = np.argsort(content, kind="stable")
        ordered = content.take(order)
        start = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
        length = np.diff(np.append(start, ordered.size))
        rank = np.empty(content.size, dtype=np.uint32)
        rank[order] = np.arange(ordered.size) - np.repeat(start, length)
        return rank


def over_partition(pickled: bytes, partition: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Run the pickled work on a partition and yield the batches to send back.

    Errors are sent back as notes instead of being raised, because Spark would show raised errors, which can quote rows.
    """
    task: Task | None = None
    schema: pa.Schema | None = None

    def answer_to(batch: pa.RecordBatch | None) -> pa.RecordBatch | None:
        nonlocal task
        if task is None and batch is not None:
            task = pickle.loads(pickled)
            task.begin(partition)
        if task is None:
            return None
        return task.end() if batch is None else task.take(batch)

    # None stands for the end of the partition.
    for batch in itertools.chain(batches, [None]):
        answer, problem = None, None
        try:
            schema = schema if batch is None else batch.schema
            answer = answer_to(batch)
        except PaisError as error:
            problem = str(error)
        except ImportError as error:
            problem = f"a Spark worker cannot import {error.name!r}. Send the module to the workers with addPyFile."
        except Exception as error:
            problem = f"a Spark worker failed with {type(error).__name__}. Its message is hidden: it can quote rows."
        if problem is not None:
            yield _note(problem, schema or pa.schema([]))
            # Read to the end: Spark ends a worker that stops early, and the next worker has to load everything again.
            for _ in batches:
                pass
            return
        if answer is not None:
            yield answer


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How to turn batches into blocks. Batches hold the features, then the key or unit if one is used, then the rest.

    With `keyed`, the key column gives the identities of the rows. With `numbering`, the features are the coordinates of
    vectors already, see `VectorsTask`, and the ids of these vectors are the identities. With `unit`, rows belong to
    units; key and numbering are not used then.
    """

    layout: Layout
    by_rows: bool = False
    keyed: bool = False
    numbering: Numbering | None = None
    unit: Unit | None = None

    def block(self, batch: pa.RecordBatch) -> tuple[Block, pa.RecordBatch]:
        """Return the rows of a batch, with NaN for missing values, and the carried columns."""
        layout, identity = self.layout, np.zeros(batch.num_rows, dtype=np.uint64)
        n_features = len(layout.features if self.numbering is None else layout.names)
        aside = self.keyed or self.unit is not None
        features = batch.select(list(range(n_features)))
        carried = batch.select(list(range(n_features + aside, batch.num_columns)))
        if self.numbering is not None:
            rows = np.column_stack([column.to_numpy(zero_copy_only=False) for column in features.columns])
            return RowBlock(rows, self.numbering.of(rows)), carried
        cells = self._cells(features.columns)
        if self.keyed:
            identity = keys_of(batch.column(n_features))
        block: Block = (
            RowBlock(layout.rows(cells), identity)
            if self.by_rows or layout.by_rows
            else ColumnBlock(layout.numbers(cells), identity)
        )
        if self.unit is not None:
            block.units = normalised(batch.column(n_features), "the source")
        return block, carried

    def _cells(self, columns: Sequence[pa.Array]) -> pa.RecordBatch:
        """Return the features as the layout reads them. With a schema, they have the types of the source."""
        layout = self.layout
        if layout.columns.schema is None:
            pairs = zip(columns, layout.widths, strict=True)
            columns = [_fixed(column, width, layout.columns.dialect) for column, width in pairs]
        return pa.RecordBatch.from_arrays(columns, names=layout.features)

    def weighted(self, batch: pa.RecordBatch) -> tuple[Block, Members | None, pa.RecordBatch]:
        """Return the block of a batch, its units if it has any, which give its rows their masses, and the rest."""
        block, carried = self.block(batch)
        if self.unit is None:
            return block, None, carried
        members = Members(self.unit)
        members.add(block)
        members.finish()
        return members.weighted(block), members, carried


def _fixed(column: pa.Array, width: int, dialect: Dialect) -> pa.Array:
    """Convert text, which comes from a CSV file, to numbers, and vectors to a list of fixed size.

    A vector of another length becomes null.
    """
    if width == 0:
        return dialect.numbers(column.cast(pa.string())) if is_text(column.type) else column
    fits = pc.equal(pc.list_value_length(column), width)
    if not pc.all(fits, min_count=0).as_py():
        column = pc.if_else(fits, column, pa.scalar(None, column.type))
    return column.cast(pa.list_(pa.float64(), width))


class Numbering:
    """Row ids for seeded runs without a key: content hash plus occurrence number among equal rows. NOT PRIVATE.

    Spark has already sorted the rows so that equal rows are adjacent, also across batches. So it is enough to remember
    the last row and its number. It does not matter which of several equal rows is kept, but each needs its own draw.
    """

    def __init__(self) -> None:
        self._last: NDArray[np.uint64] | None = None
        self._number = 0

    @quiet
    def of(self, rows: FloatArray) -> NDArray[np.uint64]:
        words = (rows + 0.0).view(np.uint64)  # -0.0 + 0.0 is 0.0, so both zeros have the same hash
        content = np.zeros(len(words), dtype=np.uint64)
        for column in words.T:
            content = mixed64(content + column)
        if len(words) == 0:
            return content
        is_repeat = np.empty(len(words), dtype=bool)
        is_repeat[0] = self._last is not None and np.array_equal(words[0], self._last)
        is_repeat[1:] = (words[1:] == words[:-1]).all(axis=1)
        position = np.arange(len(words))
        start = np.maximum.accumulate(np.where(is_repeat, -1, position))
        number = np.where(start < 0, self._number + 1 + position, position - start)
        self._last, self._number = words[-1].copy(), int(number[-1])
        return mixed64(content + number.astype(np.uint64))


class Task(ABC):
    """The work on a partition. It is pickled and sent to the workers.

    Each worker unpickles its own copy for each partition, so a copy may hold the state of its pass.
    """

    def begin(self, partition: int) -> None:  # noqa: B027  # most work needs no preparation
        """Prepare for the partition with this number."""

    @abstractmethod
    def take(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        """Process a batch and return the rows to send back immediately, if any."""

    def end(self) -> pa.RecordBatch | None:
        """Return the rows to send back after the last batch, if any."""
        return None


@dataclass(frozen=True, kw_only=True)
class VectorsTask(Task):
    """Replace features by the numbers of a row, one column of doubles each, by which frames are sorted later."""

    reading: Reading

    def take(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        block, carried = self.reading.block(batch)
        # Adding zero turns -0.0 into 0.0, so both zeros make equal rows.
        vectors = {f"f{position}": pa.array(np.add(numbers, 0.0)) for position, numbers in enumerate(block.columns())}
        return pa.RecordBatch.from_pydict(vectors | _columns(carried))


@dataclass(kw_only=True)
class FoldTask(Task):
    """Add the contributions of the rows of each partition."""

    reading: Reading
    fold: Fold
    _total: NDArray[Any] | None = field(default=None, init=False)

    def take(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        block, _, _ = self.reading.weighted(batch)
        self.add(block)
        return None

    def add(self, block: Block) -> None:
        if block.n_rows:
            part = self.fold.over(block)
            self._total = part if self._total is None else self._total + part

    def end(self) -> pa.RecordBatch | None:
        if self._total is None:
            return None
        file = io.BytesIO()
        np.save(file, self._total, allow_pickle=False)
        # Compressed because counts by bin are mostly zeros and there can be thousands of partitions.
        content = pa.array([zlib.compress(file.getvalue(), 1)], type=pa.binary())
        return _answer(content, pa.nulls(1, pa.float64()), None, {})


@dataclass(kw_only=True, repr=False)
class SampleTask(Task):
    """Sample the rows of each partition. `key` and everything derived from it are secret."""

    reading: Reading
    sampling: Sampling
    screen: Screen
    seeded: KeyedBits | None
    key: bytes
    _bits: RowBits = field(init=False)
    # Computes the row ids for secret draws. In a seeded run, rows keep the identities from `reading`.
    _ids: RowIds | None = field(default=None, init=False)
    _schema: pa.Schema | None = field(default=None, init=False)

    def begin(self, partition: int) -> None:
        if self.seeded is not None:
            self._bits = self.seeded
        else:
            self._bits = SecretBits(self.key, partition=partition)
            self._ids = RowIds(self.key, partition=partition, n_features=self.screen.n_features)

    def take(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        block, members, carried = self.reading.weighted(batch)
        if block.n_rows == 0:
            return None
        self._schema = batch.schema
        if members is not None:
            kept = self._kept_units(block, members)
        else:
            block.identity = block.identity if self._ids is None else self._ids.of(block.columns())
            kept = self.sampling.keep(block, self.screen, self._bits)
        if len(kept.rows) == 0:
            return None
        return _rows_answer(kept.rows, kept.weights, _columns(carried.take(pa.array(kept.index))))

    def _kept_units(self, block: Block, members: Members) -> KeptRows:
        """Sample the units of a block. A draw depends on the id alone, so another attempt keeps the same units."""
        identify = seeded_identity if self.seeded is not None else UnitHash(self.key).words
        sample = UnitSampling(members=members, sampling=self.sampling, identify=identify)
        sample.measure(block)
        sample.draw(self._bits)
        return sample.keep(block)

    def end(self) -> pa.RecordBatch | None:
        """Return an empty note if the partition had rows, even if none of them was kept."""
        return None if self._schema is None else _note("", self._schema)


#: Numbers that the candidates, which go to the driver, are expected to have at most: 32 MB.
MOST_NUMBERS = 1 << 22


def ceiling_for(n_numbers: int) -> int:
    """The largest first 8 bits of a candidate, for a table of so many numbers; -1 if it is too large for candidates.

    It depends on no bit, so the bits of the candidates are fair.
    """
    return int(min(256 * MOST_NUMBERS // max(n_numbers, 1), 256)) - 1  # [note: spark-3]


@dataclass(frozen=True, kw_only=True)
class Counted(Fold):
    """A fold, and the number of rows after its last number."""

    fold: Fold

    @property
    def uses_masses(self) -> bool:  # type: ignore[override]  # follows from the fold
        return self.fold.uses_masses

    def of(self, block: Block) -> NDArray[Any]:
        return np.append(self.fold.of(block), block.n_rows)


@dataclass(kw_only=True, repr=False)
class CandidatesTask(FoldTask):
    """Add the contributions of rows, and send back the finite rows whose first bits are at most a ceiling, with them.

    Notes
    -----
    Guarantee. As in a sample, the first bits of a row are determined by the key, the partition and the row id, so every
    attempt at a task sends the same candidates: `tests/unit/data/engines/test_spark_candidates.py`.
    """

    ceiling: int
    n_features: int
    key: bytes
    _bits: SecretBits = field(init=False)
    _ids: RowIds = field(init=False)

    def begin(self, partition: int) -> None:
        self._bits = SecretBits(self.key, partition=partition)
        self._ids = RowIds(self.key, partition=partition, n_features=self.n_features)

    def take(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        block, _ = self.reading.block(batch)
        self.add(block)
        if block.n_rows == 0:
            return None
        first = self._bits.first(self._ids.of(block.columns()))
        index = np.flatnonzero(first <= self.ceiling)
        candidates = block.part(index)
        finite = candidates.finite()
        if not finite.any():
            return None
        rows = candidates.rows().astype(np.float64, copy=False)[finite]
        return _rows_answer(rows, first.take(index[finite]).astype(np.float64), {})


@dataclass(kw_only=True, repr=False)
class UnitTask(Task):
    """Pass batches on to other work so that all rows of a unit are in one batch.

    Spark has put the rows of a unit into one partition and sorted them by unit. So only the last unit of a batch can
    continue in the next one. Its rows wait here until the unit is complete.
    """

    task: Task
    position: int
    _waiting: list[pa.RecordBatch] = field(default_factory=list, init=False)

    def begin(self, partition: int) -> None:
        self.task.begin(partition)

    def take(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        if batch.num_rows == 0:
            return None
        ids = batch.column(self.position)
        self._require_sorted(ids)
        last = pc.equal(ids, ids[len(ids) - 1])
        start = int(pc.index(last, pa.scalar(True)).as_py())
        if start == 0 and self._waiting and self._waiting[-1].column(self.position)[0].equals(ids[0]):
            self._waiting.append(batch)
            return None
        complete = [*self._waiting, batch.slice(0, start)]
        self._waiting = [batch.slice(start)]
        whole = _joined(complete)
        return self.task.take(whole) if whole.num_rows else None

    def _require_sorted(self, ids: pa.Array) -> None:
        """Raise if the units are not in order: the rows of a unit could then be apart, and would weigh too much."""
        ascending = pc.all(pc.less_equal(ids[:-1], ids[1:]), min_count=0).as_py()
        if self._waiting:
            last = self._waiting[-1].column(self.position)[0]
            ascending = ascending and pc.less_equal(last, ids[0]).as_py()
        if not ascending:
            raise DataError("Spark did not sort the rows by unit. Store the ids as integers or as plain text.")

    def end(self) -> pa.RecordBatch | None:
        rest = self.task.take(_joined(self._waiting)) if self._waiting else None
        answers = [answer for answer in (rest, self.task.end()) if answer is not None]
        return _joined(answers) if answers else None


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Join batches of one schema to one batch."""
    columns = zip(*(batch.columns for batch in batches), strict=True)
    return pa.RecordBatch.from_arrays([pa.concat_arrays(parts) for parts in columns], schema=batches[0].schema)


def _note(note: str, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch with a single row that holds a note, and null in every other column."""
    carried = {name: pa.nulls(1, schema.field(name).type) for name in schema.names if name.startswith("c")}
    return _answer(pa.nulls(1, pa.binary()), pa.nulls(1, pa.float64()), note, carried)


def _columns(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    return dict(zip(batch.schema.names, batch.columns, strict=True))


def _answer(content: pa.Array, weight: pa.Array, note: str | None, carried: dict[str, pa.Array]) -> pa.RecordBatch:
    notes = pa.array([note] * len(content), type=pa.string())
    return pa.RecordBatch.from_pydict({"content": content, "weight": weight, "note": notes, **carried})


def _rows_answer(rows: FloatArray, weights: FloatArray, carried: dict[str, pa.Array]) -> pa.RecordBatch:
    """Return a batch that sends rows back, each as the bytes of its numbers."""
    n_rows, width = rows.shape
    starts = np.arange(n_rows + 1, dtype=np.int64) * (8 * width)
    buffers = [None, pa.py_buffer(starts.astype(np.int32)), pa.py_buffer(np.ascontiguousarray(rows, dtype="<f8"))]
    return _answer(pa.Array.from_buffers(pa.binary(), n_rows, buffers), pa.array(weights), None, carried)


def rows_of(content: pa.ChunkedArray, n_features: int) -> FloatArray:
    """Convert the bytes that the workers sent into rows, without a Python loop over the rows."""
    parts = [np.empty((0, n_features))]
    for chunk in content.cast(pa.large_binary()).chunks:
        if len(chunk):
            _, offsets, numbers = chunk.buffers()
            starts = np.frombuffer(offsets, dtype=np.int64)[chunk.offset : chunk.offset + len(chunk) + 1]
            content_bytes = np.frombuffer(numbers, dtype=np.uint8)[starts[0] : starts[-1]]
            parts.append(content_bytes.view("<f8").reshape(-1, n_features))
    return np.concatenate(parts)


def label_batches(
    reading: Reading,
    label: Callable[[NDArray[np.generic]], NDArray[np.int32]],
    name: str,
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Yield the carried columns with the label of each row, null for a label below 0. Errors quote no value."""
    for batch in batches:
        problem = None
        try:
            block, carried = reading.block(batch)
            labels = label(block.rows())
        except Exception as error:
            problem = type(error).__name__
        if problem is not None:
            raise RuntimeError(
                f"pais cannot label the rows ({problem}). The message is hidden, since it can quote rows."
            )
        yield pa.RecordBatch.from_pydict(_columns(carried) | {name: pa.array(labels, mask=labels < 0)})
