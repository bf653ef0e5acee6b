"""Engine for streams of Arrow batches: queries of polars and DuckDB, generators and readers. It holds few batches."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pais._base.randomness import BitSource, row_bits
from pais._base.threads import over_stream
from pais._base.validate import without_sizes
from pais.data.columns import Columns, Layout
from pais.data.engines.base import Engine, Fold, KeptRows, RunningSum, Thinning, WeightedRows
from pais.data.engines.blocks import Block, ColumnBlock, Index, RowBlock
from pais.data.engines.local import CarriedAt, LocalEngine
from pais.data.engines.streams import BATCH_ROWS, Stream
from pais.data.schema import Schema
from pais.errors import DataError

T = TypeVar("T")


class BatchEngine(LocalEngine):
    """Rows that a query or a generator yields in batches. The calling thread takes batches, and other threads use them.

    The identity of a row is its position, or its key if a key column is given. A block has no `place`, because a query
    may return the rows in another order in the next pass. So the units of rows are looked up in every pass.
    """

    def __init__(self, stream: Stream, columns: Columns, *, on_rows: Callable[[int], None] | None = None) -> None:
        self._stream, self._columns, self._on_rows = stream, columns, on_rows
        self._layout = Layout.of(stream.schema, columns, stream.where)
        self.names, self.n_features = self._layout.names, len(self._layout.names)
        self.schema, self.unit, self._carry = columns.schema, columns.unit, list(columns.carry)
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
    def feature_columns(self) -> tuple[str, ...] | None:
        return self._layout.features

    @property
    def known_rows(self) -> int | None:
        return self._n_rows

    @without_sizes
    def fold(self, fold: Fold, *, seeded: bool) -> NDArray[Any]:
        if self.unit is not None:
            return self._fold_units(fold, seeded=seeded)
        total = RunningSum(fold)
        self._over_blocks(lambda block, _: total.over(block), by_rows=seeded)
        return total.result(self)

    @without_sizes
    def thin(self, thinning: Thinning, bits: BitSource) -> WeightedRows:
        if self.unit is not None:
            return self._thin_units(thinning, bits)
        screen, draws = thinning.screen(self.n_features), row_bits(bits)
        sample = self._sifted(thinning, draws)
        if sample is not None:
            return sample

        def keep(block: Block, carried_at: CarriedAt) -> tuple[KeptRows, pa.Table]:
            kept = thinning.keep(block, screen, draws)
            return kept, carried_at(kept.index)

        return self._joined(self._over_blocks(keep))

    def _rescaled(self, schema: Schema) -> Engine:
        engine = copy.copy(self)
        # More rows may be usable once missing values have a midpoint.
        engine._members, engine._people = None, None
        engine._columns, engine.schema = replace(self._columns, schema=schema), schema
        engine._layout = self._layout.with_schema(schema)
        return engine

    def _over_blocks(self, work: Callable[[Block, CarriedAt], T], *, by_rows: bool = False) -> list[T]:
        def over(block: Block, batch: pa.RecordBatch) -> T:
            def carried_at(index: Index) -> pa.Table:
                return pa.table(batch.select(self._carry).take(pa.array(index))) if self._carry else pa.table({})

            return work(block, carried_at)

        return list(self._pass(over, by_rows=by_rows))

    @without_sizes
    def in_order(self, work: Callable[[NDArray[np.generic], pa.Table], T]) -> Iterator[T]:
        def over(block: Block, batch: pa.RecordBatch) -> T:
            return work(block.rows(), pa.Table.from_batches([batch]).select(self._carry))

        yield from self._pass(over, by_rows=True)

    @property
    def carried_schema(self) -> pa.Schema:
        return pa.schema([self._stream.schema.field(name) for name in self._carry])

    def _join_carried(self, tables: list[pa.Table]) -> pa.Table | None:
        return pa.concat_tables([self.carried_schema.empty_table(), *tables]) if self._carry else None

    def _pass(self, work: Callable[[Block, pa.RecordBatch], T], *, by_rows: bool) -> Iterator[T]:
        """Yield the results of `work` on all blocks, in order. Memory holds a few batches for each thread."""

        def over(item: tuple[int, pa.Table]) -> T:
            return work(*self._block(*item, by_rows=by_rows))

        yield from over_stream(over, self._pieces())

    def _block(self, first_row: int, table: pa.Table, *, by_rows: bool) -> tuple[Block, pa.RecordBatch]:
        layout, batch = self._layout, self._layout.batch(table)
        keys = layout.keys(batch)
        identity = np.arange(first_row, first_row + batch.num_rows, dtype=np.uint64) if keys is None else keys
        block: Block = (
            RowBlock(layout.rows(batch), identity)
            if by_rows or layout.by_rows
            else ColumnBlock(layout.numbers(batch), identity)
        )
        block.units = layout.ids(batch)
        return block, batch

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
