"""The rows of a table as streams of batches: queries of polars and DuckDB, functions, generators and readers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa


def lazy(table: pa.Table) -> pl.LazyFrame:
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return frame.lazy()


def relation(table: pa.Table) -> Any:
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.register("rows", table)
    return connection.sql("SELECT * FROM rows")


def uneven(table: pa.Table) -> Iterator[pa.RecordBatch]:
    """Batches of 0, 1, 2, ... rows, and a long one at the end."""
    yield from table.slice(0, 0).to_batches() or [pa.RecordBatch.from_pylist([], schema=table.schema)]
    start = 0
    for size in range(1, 40):
        yield from table.slice(start, size).combine_chunks().to_batches()
        start += size
    yield from table.slice(start).combine_chunks().to_batches()


def function(table: pa.Table) -> Callable[[], Iterator[pa.RecordBatch]]:
    return lambda: uneven(table)


#: Streams that can be read again.
STREAMS: dict[str, Callable[[pa.Table], Any]] = {
    "a LazyFrame": lazy,
    "a DuckDB relation": relation,
    "a function": function,
    "a list of batches": lambda table: list(uneven(table)),
}

#: Streams that can be read once.
ONCE: dict[str, Callable[[pa.Table], Any]] = {
    "a generator": uneven,
    "a reader": lambda table: table.to_reader(max_chunksize=33),
    "a generator of tables": lambda table: (pa.table(batch) for batch in uneven(table)),
    "a generator of polars frames": lambda table: (pl.from_arrow(pa.table(batch)) for batch in uneven(table)),
}


def shuffled(table: pa.Table) -> Callable[[], Iterator[pa.RecordBatch]]:
    """A function whose rows come in another order, in other batches, in every pass."""
    rng = np.random.default_rng(11)
    return lambda: uneven(table.take(pa.array(rng.permutation(table.num_rows))))
