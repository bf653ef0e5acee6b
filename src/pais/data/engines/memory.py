"""Engine for rows in memory: an array that threads process in blocks."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pais._base.randomness import BitSource, row_bits
from pais._base.threads import in_threads
from pais._base.validate import without_sizes
from pais.data.columns import Columns
from pais.data.engines.base import READ_ALL_FROM, Engine, Fold, Thinning, WeightedRows, join
from pais.data.engines.blocks import RowBlock
from pais.data.schema import Schema

# Large enough that the overhead of the calls on a block is small compared with reading it.
_BLOCK_BYTES = 1 << 24

# A thinning pass copies only the candidates of a block, so its blocks may be larger.
_THIN_BLOCK_BYTES = 1 << 26


class MemoryEngine(Engine):
    """Rows of a two-dimensional array. The identity of a row is its position, unless `identity` is given."""

    def __init__(
        self,
        rows: NDArray[np.generic],
        *,
        names: tuple[str, ...] | None = None,
        carried: pa.Table | None = None,
        identity: NDArray[np.uint64] | None = None,
        columns: Columns | None = None,
    ) -> None:
        self._rows = rows
        self._columns = Columns() if columns is None else columns
        self.schema = self._columns.schema
        self._carried, self._identity = carried, identity
        self.names = names
        self.n_features = int(self._rows.shape[1])

    @without_sizes
    def fold(self, fold: Fold, *, seeded: bool) -> NDArray[Any]:
        step = self._step(_BLOCK_BYTES)
        return self.total(fold, in_threads(lambda start: fold.over(self._block(start, step)), self._starts(step)))

    @without_sizes
    def thin(self, thinning: Thinning, bits: BitSource) -> WeightedRows:
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
        engine._columns = replace(self._columns, schema=schema)
        engine.schema = schema
        rows = self.schema.rescaled(self._rows, schema)
        for position, numbers in enumerate(engine._columns.filled(list(rows.T))):
            rows[:, position] = numbers
        engine._rows = rows
        return engine

    def _step(self, n_bytes: int) -> int:
        return max(1, n_bytes // (8 * self.n_features))

    def _starts(self, step: int) -> range:
        # An empty table gives one empty block, so that a fold still returns a zero of the right shape.
        return range(0, max(1, len(self._rows)), step)

    def _block(self, start: int, step: int) -> RowBlock:
        rows = self._rows[start : start + step]
        if self._identity is not None:
            return RowBlock(rows, self._identity[start : start + step])
        return RowBlock(rows, np.arange(start, start + rows.shape[0], dtype=np.uint64))
