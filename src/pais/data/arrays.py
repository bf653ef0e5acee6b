"""Convert Arrow columns to arrays of doubles."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pais._base.numerics import FloatArray
from pais._base.validate import attempt
from pais.errors import DataError


def type_name(kind: pa.DataType) -> str:
    """Return a type's name without its parameters, which can be row data: dict keys become struct field names."""
    return re.split(r"[<\[(]", str(kind), maxsplit=1)[0]


def is_numeric(kind: pa.DataType) -> bool:
    """Whether a column of this type can be read as doubles."""
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal)
    return any(test(kind) for test in tests)


def one_chunk(column: pa.ChunkedArray) -> pa.Array:
    """Return the chunks of a column as one array."""
    merged = column.combine_chunks()
    return merged if isinstance(merged, pa.Array) else pa.concat_arrays(merged.chunks)


def doubles_of(column: pa.Array) -> FloatArray:
    """Convert numbers of any type to doubles, with NaN for null."""
    if pa.types.is_float64(column.type):
        return np.asarray(column.to_numpy(zero_copy_only=False))
    floats = attempt(lambda: pc.cast(column, pa.float64(), safe=False).to_numpy(zero_copy_only=False))
    if floats is None:
        raise DataError(f"a column of type {type_name(column.type)} cannot be read as doubles. Convert it first.")
    return np.asarray(floats)


def vectors_of(column: pa.FixedSizeListArray, width: int) -> FloatArray:
    """Convert a column of vectors to rows of doubles, with NaN for null."""
    rows = doubles_of(column.values.slice(column.offset * width, len(column) * width)).reshape(-1, width)
    if column.null_count == 0:
        return rows
    missing = np.asarray(column.is_null().to_numpy(zero_copy_only=False), dtype=bool)
    return np.where(missing[:, None], np.nan, rows)
