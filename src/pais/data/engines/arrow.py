"""Engine for files that may be larger than memory. Reads Parquet by row groups and CSV by blocks."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from threading import Event
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.fs as pa_fs
from numpy.typing import NDArray

from pais._base.randomness import BitSource, KeyedBits, RandomState, row_bits
from pais._base.threads import cores, in_threads
from pais._base.validate import without_sizes
from pais.data.checks import type_name
from pais.data.columns import Columns
from pais.data.dialect import no_csv
from pais.data.engines.base import Engine, Fold, KeptRows, RunningSum, Thinning, WeightedRows
from pais.data.engines.blocks import Block, ColumnBlock, Index, RowBlock, empty_block
from pais.data.engines.files import DataFile, open_file, require_dialect
from pais.data.engines.local import CarriedAt, LocalEngine
from pais.data.engines.memory import MemoryEngine
from pais.data.ids import joined, kind_of_ids
from pais.data.schema import Schema
from pais.errors import DataError

T = TypeVar("T")


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
            require_dialect(file)
        if columns.dialect.stated and all(file.metadata is not None for file in self._files):
            raise no_csv(first.where, columns.dialect)
        for file in self._files[1:]:
            _require_same_columns(file, first)
        if columns.unit is not None:
            _require_same_ids(self._files, columns.unit.column)
        self.names, self.n_features = first.layout.names, len(first.layout.names)
        self.schema, self._columns = columns.schema, columns
        self._carry, self.unit = list(columns.carry), columns.unit
        self._on_rows = on_rows

    @property
    def titles(self) -> tuple[str, ...]:
        layout = self._files[0].layout
        return super().titles if any(layout.widths) or self.schema is not None else layout.titles

    @property
    def feature_columns(self) -> tuple[str, ...] | None:
        return self._files[0].layout.features

    @property
    def known_rows(self) -> int | None:
        """Number of rows from the Parquet footers, or None if a file has no footer. Secret; for a progress bar."""
        counts = [int(file.metadata.num_rows) for file in self._files if file.metadata is not None]
        return sum(counts) if len(counts) == len(self._files) else None

    @without_sizes
    def held(self) -> Engine:
        blocks = [pair for part in self._parts(positions=True) for pair in self._blocks(part, by_rows=True)]
        empty = empty_block(self.n_features)
        return MemoryEngine(
            np.concatenate([empty.rows(), *(block.rows() for block, _ in blocks)]),
            names=self.names,
            carried=self._join_carried([pa.table(batch.select(self._carry)) for _, batch in blocks]),
            identity=np.concatenate([empty.identity, *(block.identity for block, _ in blocks)]),
            columns=replace(self._columns, features=self.feature_columns),
            unit=self.unit,
            ids=None if self.unit is None else joined([block.units for block, _ in blocks if block.units is not None]),
        )

    def _rescaled(self, schema: Schema) -> Engine:
        engine = copy.copy(self)
        # More rows may be usable once missing values have a midpoint.
        engine._members, engine._people = None, None
        engine._columns = replace(self._columns, schema=schema)
        engine._files = [replace(file, layout=file.layout.with_schema(schema)) for file in self._files]
        engine.schema = schema
        return engine

    def sifting(self, random_state: RandomState | BitSource, *, stream: int = 0) -> Engine:
        # Without a footer, the positions of rows, which key seeded draws, are not known in every pass.
        has_positions = random_state is None or all(file.metadata is not None for file in self._files)
        return super().sifting(random_state, stream=stream) if has_positions else self

    @without_sizes
    def fold(self, fold: Fold, *, seeded: bool) -> NDArray[Any]:
        if self.unit is not None:
            return self._fold_units(fold, seeded=seeded)
        total = RunningSum(fold)

        def fold_part(part: Part, stop: Event) -> None:
            for block, _ in self._blocks(part, by_rows=seeded, stop=stop):
                total.over(block)

        _over_parts(fold_part, list(self._parts()))
        return total.result(self)

    @without_sizes
    def thin(self, thinning: Thinning, bits: BitSource) -> WeightedRows:
        if self.unit is not None:
            return self._thin_units(thinning, bits)
        screen, draws = thinning.screen(self.n_features), row_bits(bits)
        sample = self._sifted(thinning, draws)
        if sample is not None:
            return sample

        def thin_part(part: Part, stop: Event) -> list[tuple[KeptRows, pa.Table]]:
            samples = []
            for block, batch in self._blocks(part, stop=stop):
                kept = thinning.keep(block, screen, draws)
                carried = batch.select(self._carry).take(pa.array(kept.index)) if self._carry else {}
                samples.append((kept, pa.table(carried)))
            return samples

        parts = list(self._parts(positions=isinstance(draws, KeyedBits)))
        return self._joined([sample for several in _over_parts(thin_part, parts) for sample in several])

    def _over_blocks(self, work: Callable[[Block, CarriedAt], T], *, by_rows: bool = False) -> list[T]:
        def over(part: Part, stop: Event) -> list[T]:
            results = []
            for block, batch in self._blocks(part, by_rows=by_rows, stop=stop):
                carried = batch.select(self._carry)
                results.append(work(block, lambda index, carried=carried: _taken(carried, index)))  # type: ignore[misc]  # bound now
            return results

        return [result for results in _over_parts(over, list(self._parts())) for result in results]

    @without_sizes
    def in_order(self, work: Callable[[NDArray[np.generic], pa.Table], T]) -> Iterator[T]:
        def over(part: Part, stop: Event) -> Iterator[T]:
            for block, batch in self._blocks(part, by_rows=True, stop=stop):
                yield work(block.rows(), carried_of(batch, self._carry))

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

    def _blocks(
        self, part: Part, *, by_rows: bool = False, stop: Event | None = None
    ) -> Iterator[tuple[Block, pa.RecordBatch]]:
        layout, position = part.file.layout, part.first_row
        for number, batch in enumerate(part.file.batches(part.row_group)):
            if stop is not None and stop.is_set():
                return
            n_rows = batch.num_rows
            batch = layout.with_keys(batch, part.file.where)
            if batch.num_rows:
                keys = layout.keys(batch)
                identity = np.arange(position, position + batch.num_rows, dtype=np.uint64) if keys is None else keys
                whole = by_rows or layout.by_rows
                block: Block = (
                    RowBlock(layout.rows(batch), identity) if whole else ColumnBlock(layout.numbers(batch), identity)
                )
                block.units, block.place = layout.ids(batch), (part.file.path, part.row_group, number)
                yield block, batch
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

    @property
    def carried_schema(self) -> pa.Schema:
        return pa.schema([(name, self._carried_type(name)) for name in self._carry])

    def _carried_type(self, name: str) -> pa.DataType:
        """The type of a carried column. In files without values of the column, its type is null."""
        types = [file.schema.field(name).type for file in self._files]
        return next((kind for kind in types if not pa.types.is_null(kind)), types[0])

    def _join_carried(self, tables: Sequence[pa.Table]) -> pa.Table | None:
        """Concatenate carried columns. A column without values in one table takes its type from the others."""
        if not self._carry:
            return None
        empty = pa.schema([self._files[0].schema.field(name) for name in self._carry]).empty_table()
        return pa.concat_tables(tables or [empty], promote_options="default")


def carried_of(batch: pa.RecordBatch, names: Sequence[str]) -> pa.Table:
    """Return the carried columns of a batch as a table, which also has the number of rows if there are none."""
    return pa.Table.from_batches([batch]).select(list(names))


def _taken(carried: pa.RecordBatch, index: Index) -> pa.Table:
    return pa.table(carried.take(pa.array(index))) if carried.num_columns else pa.table({})


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
