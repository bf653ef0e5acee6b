"""A user's function from rows to vectors, called in such a way that the vector of a row depends on that row alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from pais._base.numerics import FloatArray
from pais.errors import ArgumentError, AssumptionError

#: Takes rows of shape (n, n_features) and returns vectors of shape (n, width).
RowFunction = Callable[[FloatArray], FloatArray]

# A function is called on at most this many rows, which is also the number of synthetic rows it is tried on.
_PIECE = 1024

# Numbers of rows that a function is tried on.
_SIZES = (1, 2, 3, 7, 64, 257, 1000)


@dataclass(frozen=True, kw_only=True)
class RowMap:
    """A function that was tried on synthetic rows.

    Attributes
    ----------
    width : int
        Number of coordinates of a vector.
    alone : bool
        Whether the last bits of a vector depend on the other rows of a call. It is then called for one row at a time.
    """

    function: RowFunction
    width: int
    alone: bool

    @classmethod
    def probed(cls, function: RowFunction, n_features: int) -> RowMap:
        """Try a function on synthetic rows. Raise if it fails, or if the vector of a row depends on other rows."""
        if not callable(function):
            raise ArgumentError(
                "vectors must be a function of rows. Pass a function that returns one vector for each row."
            )
        rows = _synthetic_rows(n_features)
        whole = _tried(function, rows)
        alone = False
        for size in _SIZES:
            for start in range(0, _PIECE - size + 1, max(size, _PIECE // 8)):
                part, expected = _tried(function, rows[start : start + size]), whole[start : start + size]
                if not np.array_equal(part, expected, equal_nan=True):
                    _require_close(part, expected)
                    alone = True
        backward = _tried(function, rows[::-1])[::-1]
        _require_close(backward, whole)
        alone |= not np.array_equal(backward, whole, equal_nan=True)
        return cls(function=function, width=whole.shape[1], alone=alone)

    def pieces(self, rows: FloatArray) -> Iterator[tuple[slice, FloatArray]]:
        """Slices of the rows, and their vectors: zero where they are not finite or the function fails."""
        step = 1 if self.alone else _PIECE
        for start in range(0, len(rows), step):
            piece = slice(start, start + step)
            yield piece, self._vectors(rows[piece])

    def _vectors(self, rows: FloatArray) -> FloatArray:
        try:
            vectors = _called(self.function, rows).reshape(len(rows), self.width)
        except MemoryError:
            raise
        except Exception:  # whatever a user's function raises; the text could show a row
            if len(rows) == 1:
                return np.zeros((1, self.width))
            # A row that the function fails on must not change the vectors of the others.
            return np.concatenate([self._vectors(rows[i : i + 1]) for i in range(len(rows))])  # [note: vectors-8]
        finite = np.isfinite(vectors).all(axis=1, keepdims=True)
        return np.where(finite, vectors, 0.0)  # [note: vectors-9]


def _called(function: RowFunction, rows: FloatArray) -> FloatArray:
    """Call a function on a copy of the rows that it cannot write to."""
    given = rows.copy()
    given.flags.writeable = False
    with np.errstate(all="ignore"):
        return np.asarray(function(given), dtype=np.float64)


def _tried(function: RowFunction, rows: FloatArray) -> FloatArray:
    try:
        vectors = _called(function, rows)
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


def _require_close(part: FloatArray, expected: FloatArray) -> None:
    """Raise unless the vectors differ by rounding errors only."""
    if part.shape != expected.shape or not np.allclose(part, expected, rtol=1e-9, atol=1e-9, equal_nan=True):
        raise AssumptionError(
            "the vector of a row depends on the other rows of a call, or on earlier calls. Make it a "
            "function of the row alone: no means, ranks or sums over rows."
        )


def _synthetic_rows(n_features: int) -> FloatArray:
    """Public rows of many lengths, among them rows of zeros and ones."""
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(_PIECE, n_features)) * 10.0 ** generator.integers(-3, 4, size=(_PIECE, 1))
    rows[::97], rows[1::97] = 0.0, 1.0
    return rows
