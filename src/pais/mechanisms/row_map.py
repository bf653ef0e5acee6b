"""A user's function from rows to vectors, called in such a way that the vector of a row depends on that row alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from pais._base.numerics import FloatArray
from pais._base.threads import one_blas_thread
from pais.errors import ArgumentError, AssumptionError

#: Takes rows of shape (n, n_features) and returns vectors of shape (n, width).
RowFunction = Callable[[FloatArray], FloatArray]

#: A function is always called on this many rows. Rows that are missing at the end are rows of zeros.
BLOCK = 1024

# Number of synthetic rows of which a whole block is made, to see whether the place of a row in its block matters.
_REPEATED = 16


@dataclass(frozen=True, kw_only=True)
class RowMap:
    """A function that was tried on synthetic rows.

    Attributes
    ----------
    width : int
        Number of coordinates of a vector.
    block : int
        Number of rows of each call: 1 if the last bits of a vector depend on the place of the row in a block.
    """

    function: RowFunction
    width: int
    block: int

    @classmethod
    def probed(cls, function: RowFunction, n_features: int) -> RowMap:
        """Try a function on synthetic rows. Raise if it fails, or if the vector of a row depends on other rows."""
        if not callable(function):
            raise ArgumentError(
                "vectors must be a function of rows. Pass a function that returns one vector for each row."
            )
        rows = _synthetic_rows(n_features)
        with one_blas_thread():
            whole = _tried(function, rows)
            differs = _differs(_tried(function, rows[::-1])[::-1], whole)
            for place in range(0, BLOCK, BLOCK // _REPEATED):
                row, vector = rows[place : place + 1], whole[place : place + 1]
                differs |= _differs(_tried(function, np.repeat(row, BLOCK, axis=0)), np.repeat(vector, BLOCK, axis=0))
                # A call on one row may differ in its last bits, because a block always has the same number of rows.
                _differs(_tried(function, row), vector)
        return cls(function=function, width=whole.shape[1], block=1 if differs else BLOCK)

    def pieces(self, rows: FloatArray) -> Iterator[tuple[slice, FloatArray]]:
        """Slices of the rows, and their vectors: zero where they are not finite or the function fails."""
        with one_blas_thread():
            for start in range(0, len(rows), self.block):
                piece = slice(start, start + self.block)
                yield piece, self._vectors(rows[piece])

    def _vectors(self, rows: FloatArray) -> FloatArray:
        block = np.zeros((self.block, rows.shape[1]))
        block[: len(rows)] = rows
        try:
            vectors = _called(self.function, block).reshape(self.block, self.width)[: len(rows)]
        except MemoryError:
            raise
        except Exception:  # whatever a user's function raises; the text could show a row
            if len(rows) == 1:
                return np.zeros((1, self.width))
            # A row that the function fails on must not change the vectors of the others.
            half = len(rows) // 2
            return np.concatenate([self._vectors(rows[:half]), self._vectors(rows[half:])])  # [note: vectors-8]
        finite = np.isfinite(vectors).all(axis=1, keepdims=True)
        return np.where(finite, vectors, 0.0)  # [note: vectors-9]


def _called(function: RowFunction, rows: FloatArray) -> FloatArray:
    """Call a function on rows that it cannot write to."""
    rows.flags.writeable = False
    with np.errstate(all="ignore"):
        return np.asarray(function(rows), dtype=np.float64)


def _tried(function: RowFunction, rows: FloatArray) -> FloatArray:
    try:
        vectors = _called(function, rows.copy())
    except Exception as error:
        raise AssumptionError(
            f"vectors failed for synthetic rows of {rows.shape[1]} columns. Make it return one vector for every row."
        ) from error
    if vectors.ndim != 2 or len(vectors) != len(rows) or vectors.shape[1] == 0:
        raise AssumptionError(
            f"vectors returned shape {vectors.shape} for rows of shape {rows.shape}. Make it return an array with one "
            "vector for each row."
        )
    return vectors


def _differs(vectors: FloatArray, expected: FloatArray) -> bool:
    """Whether vectors differ by rounding errors. Raise if they differ by more."""
    if vectors.shape != expected.shape or not np.allclose(vectors, expected, rtol=1e-9, atol=1e-9, equal_nan=True):
        raise AssumptionError(
            "the vector of a row depends on the other rows of a call, or on earlier calls. Make it a function of the "
            "row alone: no means, ranks or sums over rows."
        )
    return not np.array_equal(vectors, expected, equal_nan=True)


@lru_cache(maxsize=8)
def _synthetic_rows(n_features: int) -> FloatArray:
    """Public rows of many lengths, among them rows of zeros and ones."""
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(BLOCK, n_features)) * 10.0 ** generator.integers(-3, 4, size=(BLOCK, 1))
    rows[::97], rows[1::97] = 0.0, 1.0
    return rows
