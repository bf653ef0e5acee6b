"""Norms of rows in one fixed order of elementwise operations, so that no row's norm depends on the other rows.

The functions below call only ufuncs whose result IEEE 754 determines for each element: add, multiply, divide, square
root and absolute value. The result does not depend on the width of vector registers, on the element's place in the
array or on its address. Every operation is a call of its own, so none is contracted with the next to a fused
multiply-add. A maximum rounds nothing and can be reduced in any order. A sum cannot: NumPy chooses the order in which
`sum` and `einsum` add, and only the functions named "rough" use them.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from pais._numerics import ULP, FloatArray

#: Columns that lie this far apart are added up first.
LANES = 64

# Terms of this many columns, and of so many rows that they stay in the cache from column to column.
_PIECE_COLUMNS = 256
_PIECE_NUMBERS = 1 << 18
_MOST_ROWS = 4096

# Bits of an exponent: the rest changes a norm by less than 2**-60 of it.
_EXPONENT_BITS = 64

_Terms = Callable[[FloatArray, slice, FloatArray], object]


def square_sums(rows: FloatArray) -> FloatArray:
    """The sum of squares of each row, in the order of `sum_columns`."""
    return _sums(rows, lambda part, _, out: np.multiply(part, part, out=out))


def norms_of(rows: FloatArray, order: float) -> FloatArray:
    """The l_order norm of each row; its own rounding error is that of the note on balls."""
    if order == 2.0:
        power = square_sums(rows)
        return np.sqrt(power, out=power)
    if order == 1.0:
        return _sums(rows, lambda part, _, out: np.abs(part, out=out))
    largest: FloatArray = np.abs(rows).max(axis=1)
    if math.isinf(order):
        return largest
    scale = np.where(largest > 0.0, largest, 1.0)

    def terms(part: FloatArray, place: slice, out: FloatArray) -> None:
        np.divide(np.abs(part), scale[place, None], out=out)
        np.copyto(out, _power(out, order))

    return largest * _power(_sums(rows, terms), 1.0 / order)


def rough_square_sums(rows: FloatArray) -> FloatArray:
    """The same as `square_sums` up to rounding, in whatever order is quickest: see `rough_slack`."""
    return np.asarray(np.einsum("ij,ij->i", rows, rows))


def rough_norms_of(rows: FloatArray, order: float) -> FloatArray:
    """The same as `norms_of` within `rough_slack`, in whatever order is quickest."""
    if order == 2.0:
        power = rough_square_sums(rows)
        return np.sqrt(power, out=power)
    return np.asarray(np.abs(rows).sum(axis=1)) if order == 1.0 else norms_of(rows, order)


def rough_slack(n_features: int) -> float:
    """How far a rough norm can be from the norm of the fixed order, relative to either.

    Added in any order, fused or not, n terms err by at most n half-ulps; a root adds one and halves the others.
    """
    return (n_features + 8) * ULP  # [note: ball-5]


def _sums(rows: FloatArray, terms: _Terms) -> FloatArray:
    """The sum of the nonnegative terms of each row, in the order of `sum_columns`."""
    n, d = rows.shape
    total = np.zeros(n)
    width = min(d, _PIECE_COLUMNS)
    step = max(1, min(n, _MOST_ROWS, _PIECE_NUMBERS // width))
    # Rows of a multiple of 512 bytes would put the numbers of a column into few sets of the cache.
    scratch = np.empty((step, width + 8 * (width % 64 == 0)))
    for start in range(0, n, step):
        place = slice(start, min(start + step, n))
        lanes = _lanes(rows[place], place, terms, scratch[: place.stop - start, :width])
        sums = total[place]
        for lane in range(lanes.shape[1]):
            sums += lanes[:, lane]  # [note: ball-6]
    return total


def _lanes(rows: FloatArray, place: slice, terms: _Terms, scratch: FloatArray) -> FloatArray:
    """Sums of every `LANES`-th column of some rows, with a column for each."""
    d, width = rows.shape[1], scratch.shape[1]
    if d <= LANES:
        terms(rows, place, scratch)
        return scratch
    lanes = np.zeros((len(rows), LANES + 8))[:, :LANES]
    for first in range(0, d, width):
        part = scratch[:, : d - first]
        terms(rows[:, first : first + width], place, part)
        for start in range(0, part.shape[1], LANES):
            chunk = part[:, start : start + LANES]
            lanes[:, : chunk.shape[1]] += chunk
    return lanes


def sum_columns(term: Callable[[int], FloatArray], n_columns: int, n_rows: int) -> FloatArray:
    """The sum of the nonnegative terms of all columns.

    Columns 0, 64, 128, ... are added one after another, columns 1, 65, 129, ... likewise, and so on; then these sums.
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
    """base**exponent for base >= 0 and exponent > 0, by products and square roots.

    IEEE 754 determines these. It does not determine `np.power`, whose vector and scalar code can round differently.
    """
    whole = int(exponent)
    result = np.ones_like(base)
    # x ** 0.b1b2b3... = sqrt(x**b1 * sqrt(x**b2 * sqrt(x**b3 * ...))): each root halves the error so far.
    bits = int((exponent - whole) * 2.0**_EXPONENT_BITS)
    lowest = (bits & -bits).bit_length() - 1
    for place in range(lowest, _EXPONENT_BITS) if bits else ():
        result = np.sqrt(result * base if bits >> place & 1 else result)
    square = base
    while whole:
        result = result * square if whole & 1 else result
        whole >>= 1
        square = square * square if whole else square
    return result
