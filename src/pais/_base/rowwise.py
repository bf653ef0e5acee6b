"""Norms of rows, computed in a fixed order of elementwise operations, so that they do not depend on other rows.

The functions below call only ufuncs whose result IEEE 754 determines for each element: add, multiply, divide, square
root and absolute value. The result does not depend on the width of vector registers, on the element's position in the
array or on its address. Every operation is a separate call, so the compiler cannot fuse two of them into a fused
multiply-add. A maximum involves no rounding and can be reduced in any order. A sum cannot: NumPy chooses the order in
which `sum` and `einsum` add, so only the functions named "rough" use them.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from pais._base.numerics import ULP, FloatArray

#: Columns whose distance is a multiple of this are added first.
LANES = 64

# Terms are computed for this many columns, and for few enough rows that they stay in the cache between columns.
_PIECE_COLUMNS = 256
_PIECE_NUMBERS = 1 << 18
_MOST_ROWS = 4096

# Number of bits of an exponent that are used. The rest changes a norm by less than 2**-60 of its value.
_EXPONENT_BITS = 64

_Terms = Callable[[FloatArray, slice, FloatArray], object]


def square_sums(rows: FloatArray) -> FloatArray:
    """Return the sum of squares of each row, added in the order of `sum_columns`."""
    return _sums(rows, lambda part, _, out: np.multiply(part, part, out=out))


def norms_of(rows: FloatArray, order: float) -> FloatArray:
    """Return the l_order norm of each row. The note on balls bounds its rounding error."""
    if order == 2.0:
        power = square_sums(rows)
        return np.sqrt(power, out=power)
    if order == 1.0:
        return _sums(rows, lambda part, _, out: np.abs(part, out=out))
    largest: FloatArray = np.abs(rows).max(axis=1)
    if math.isinf(order):
        return largest
    scale = np.where(largest > 0.0, largest, 1.0)

    def terms(part: FloatArray, piece: slice, out: FloatArray) -> None:
        np.divide(np.abs(part), scale[piece, None], out=out)
        np.copyto(out, _power(out, order))

    return largest * _power(_sums(rows, terms), 1.0 / order)


def rough_square_sums(rows: FloatArray) -> FloatArray:
    """Return the same as `square_sums` up to rounding, added in whatever order is fastest: see `rough_slack`."""
    return np.asarray(np.einsum("ij,ij->i", rows, rows))


def rough_norms_of(rows: FloatArray, order: float) -> FloatArray:
    """Return the same as `norms_of` within `rough_slack`, added in whatever order is fastest."""
    if order == 2.0:
        power = rough_square_sums(rows)
        return np.sqrt(power, out=power)
    return np.asarray(np.abs(rows).sum(axis=1)) if order == 1.0 else norms_of(rows, order)


def rough_slack(n_features: int) -> float:
    """Return the largest relative difference between a rough norm and the norm computed in the fixed order.

    A sum of n terms, in any order, fused or not, has an error of at most n half-ulps. A square root halves this error
    and adds one half-ulp.
    """
    return (n_features + 8) * ULP  # [note: ball-5]


def _sums(rows: FloatArray, terms: _Terms) -> FloatArray:
    """Return the sum of the nonnegative terms of each row, added in the order of `sum_columns`."""
    n, d = rows.shape
    total = np.zeros(n)
    width = min(d, _PIECE_COLUMNS)
    step = max(1, min(n, _MOST_ROWS, _PIECE_NUMBERS // width))
    # Padded, because with rows of a multiple of 512 bytes the numbers of a column would share few cache sets.
    scratch = np.empty((step, width + 8 * (width % 64 == 0)))
    for start in range(0, n, step):
        piece = slice(start, min(start + step, n))
        lanes, sums = scratch[: piece.stop - start, :width], total[piece]
        if d <= LANES:
            terms(rows[piece], piece, lanes)
        else:
            lanes = _lanes(rows[piece], piece, terms, lanes)
        for lane in range(lanes.shape[1]):
            sums += lanes[:, lane]  # [note: ball-6]
    return total


def _lanes(rows: FloatArray, piece: slice, terms: _Terms, scratch: FloatArray) -> FloatArray:
    """Return the sums of every `LANES`-th column of more than `LANES`, one output column per lane."""
    d, width = rows.shape[1], scratch.shape[1]
    lanes = np.zeros((len(rows), LANES + 8))[:, :LANES]
    for first in range(0, d, width):
        part = scratch[:, : d - first]
        terms(rows[:, first : first + width], piece, part)
        for start in range(0, part.shape[1], LANES):
            chunk = part[:, start : start + LANES]
            lanes[:, : chunk.shape[1]] += chunk
    return lanes


def sum_columns(term: Callable[[int], FloatArray], n_columns: int, n_rows: int) -> FloatArray:
    """Return the sum of the nonnegative terms of all columns.

    Columns 0, 64, 128, ... are added one after another, then columns 1, 65, 129, ..., and so on. Then these sums are
    added in the same order.
    """
    total, lane = np.zeros(n_rows), np.empty(n_rows)
    for first in range(min(LANES, n_columns)):
        if first + LANES >= n_columns:
            total += term(first)
            continue
        lane[:] = 0.0
        for number in range(first, n_columns, LANES):
            lane += term(number)
        total += lane
    return total


def _power(base: FloatArray, exponent: float) -> FloatArray:
    """Return base**exponent for base >= 0 and exponent > 0, computed with products and square roots.

    IEEE 754 determines the results of these, but not of `np.power`, whose vector and scalar code can round differently.
    """
    whole = int(exponent)
    result = np.ones_like(base)
    # x ** 0.b1b2b3... = sqrt(x**b1 * sqrt(x**b2 * sqrt(x**b3 * ...))): each root halves the error so far.
    bits = int((exponent - whole) * 2.0**_EXPONENT_BITS)
    lowest = (bits & -bits).bit_length() - 1
    for bit in range(lowest, _EXPONENT_BITS) if bits else ():
        result = np.sqrt(result * base if bits >> bit & 1 else result)
    square = base
    while whole:
        result = result * square if whole & 1 else result
        whole >>= 1
        square = square * square if whole else square
    return result
