"""The work of a Spark worker that labels the rows of a partition."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from pais._base.numerics import FloatArray
from pais.data.distances import NO_LABEL, nearest
from pais.data.engines.partition import Reading


def label_batches(
    reading: Reading, centers: FloatArray, name: str, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the carried columns with the label of each row, null if a value is missing. Errors quote no value."""
    for batch in batches:
        problem = None
        try:
            block, carried = reading.block(batch)
            labels = nearest(block.rows(), centers)
        except Exception as error:
            problem = type(error).__name__
        if problem is not None:
            raise RuntimeError(
                f"pais cannot label the rows ({problem}). The message is hidden, since it can quote rows."
            )
        columns = dict(zip(carried.schema.names, carried.columns, strict=True))
        yield pa.RecordBatch.from_pydict(columns | {name: pa.array(labels, mask=labels == NO_LABEL)})
