"""Engine for rows in memory: an array that threads process in blocks."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pais._base.randomness import BitSource, RandomState, row_bits
from pais._base.threads import cores, in_threads
from pais._base.validate import without_sizes
from pais.data.columns import Columns
from pais.data.engines.base import READ_ALL_FROM, Engine, Fold, RunningSum, Thinning, WeightedRows, join
from pais.data.engines.blocks import Block, Index, RowBlock
from pais.data.engines.local import CarriedAt, LocalEngine
from pais.data.schema import Schema
from pais.data.units import Unit

T = TypeVar("T")

# Large enough that the overhead of the calls on a block is small compared with reading it.
_BLOCK_BYTES = 1 << 24

# A thinning pass copies only the candidates of a block, so its blocks may be larger.
_THIN_BLOCK_BYTES = 1 << 26


class MemoryEngine(LocalEngine):
    """Rows of a two-dimensional array. The identity of a row is its position, unless `identity` is given."""

    def __init__(
        self,
        rows: NDArray[np.generic],
        *,
        names: tuple[str, ...] | None = None,
        carried: pa.Table | None = None,
        identity: NDArray[np.uint64] | None = None,
        columns: Columns | None = None,
        unit: Unit | None = None,
        ids: pa.Array | None = None,
    ) -> None:
        self._rows = rows
        self._columns = Columns() if columns is None else columns
        self.schema = self._columns.schema
        self._carried, self._identity = carried, identity
        self.names, self.unit, self._ids = names, unit, ids
        self.n_features = int(self._rows.shape[1])

    @without_sizes
    def fold(self, fold: Fold, *, seeded: bool) -> NDArray[Any]:
        if self.unit is not None:
            return self._fold_units(fold, seeded=seeded)
        step, total = self._step(_BLOCK_BYTES), RunningSum(fold)
        in_threads(lambda start: total.over(self._block(start, step)), self._starts(step))
        return total.result(self)

    def sifting(self, random_state: RandomState | BitSource, *, stream: int = 0) -> Engine:
        # Sampling from memory reads candidates alone.
        return self

    @without_sizes
    def thin(self, thinning: Thinning, bits: BitSource) -> WeightedRows:
        if self.unit is not None:
            return self._thin_units(thinning, bits)
        screen, draws = thinning.screen(self.n_features), row_bits(bits)
        if thinning.read_all is None:
            # Gathering single rows from an array stored by columns is slow, so all of it is read.
            read_all = screen.share >= READ_ALL_FROM or not self._rows.flags.c_contiguous
            thinning = replace(thinning, read_all=read_all)
        step = self._step(_BLOCK_BYTES if thinning.read_all else _THIN_BLOCK_BYTES)
        starts = self._starts(step)
        kept = in_threads(lambda start: thinning.keep(self._block(start, step), screen, draws), starts)
        carried = None
        if self._carried is not None:
            positions = [start + part.index for start, part in zip(starts, kept, strict=True)]
            carried = self._carried.take(pa.array(np.concatenate(positions)))
        return join(kept, self.n_features, carried)

    @without_sizes
    def _rescaled(self, schema: Schema) -> Engine:
        assert self.schema is not None
        engine = copy.copy(self)
        # More rows may be usable once missing values have a midpoint.
        engine._members, engine._people = None, None
        engine._columns = replace(self._columns, schema=schema)
        engine.schema = schema
        rows = self.schema.rescaled(self._rows, schema, marked=self._columns.marked)
        for position, numbers in enumerate(engine._columns.filled(list(rows.T))):
            rows[:, position] = numbers
        engine._rows = rows
        return engine

    def _over_blocks(self, work: Callable[[Block, CarriedAt], T], *, by_rows: bool = False) -> list[T]:
        step = self._step(_BLOCK_BYTES)

        def over(start: int) -> T:
            def carried_at(index: Index) -> pa.Table:
                return pa.table({}) if self._carried is None else self._carried.take(pa.array(start + index))

            return work(self._block(start, step), carried_at)

        return in_threads(over, self._starts(step))

    @without_sizes
    def in_order(self, work: Callable[[NDArray[np.generic], pa.Table], T]) -> Iterator[T]:
        step = self._step(_BLOCK_BYTES)
        carried = pa.table({"": pa.nulls(len(self._rows))}).select([]) if self._carried is None else self._carried

        def over(start: int) -> T:
            return work(self._rows[start : start + step], carried.slice(start, step))

        yield from in_threads(over, self._starts(step))

    @property
    def carried_schema(self) -> pa.Schema:
        return pa.schema([]) if self._carried is None else self._carried.schema.remove_metadata()

    @property
    def feature_columns(self) -> tuple[str, ...] | None:
        return self.names if self._columns.features is None else self._columns.features

    def _join_carried(self, tables: list[pa.Table]) -> pa.Table | None:
        return None if self._carried is None else pa.concat_tables(tables)

    def _step(self, n_bytes: int) -> int:
        """Rows of a block of at most so many bytes. All blocks are equal, and every thread gets as many of them."""
        largest, n_threads = max(1, n_bytes // (8 * self.n_features)), cores()
        if len(self._rows) <= largest:
            return largest
        turns = -(-len(self._rows) // (largest * n_threads))
        return -(-len(self._rows) // (turns * n_threads))

    def _starts(self, step: int) -> range:
        # An empty table gives one empty block, so that a fold still returns a zero of the right shape.
        return range(0, max(1, len(self._rows)), step)

    def _block(self, start: int, step: int) -> RowBlock:
        rows = self._rows[start : start + step]
        if self._identity is not None:
            block = RowBlock(rows, self._identity[start : start + step])
        else:
            block = RowBlock(rows, np.arange(start, start + rows.shape[0], dtype=np.uint64))
        block.units = None if self._ids is None else self._ids.slice(start, step)
        block.place = (start, step)
        return block
