"""Cells that are text or Python objects, as numbers. The value of a cell does not depend on any other cell."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
from numpy.typing import NDArray

from pais._numerics import FloatArray
from pais._validate import attempt

# Accepted by Arrow's conversion of text, but for words such as "nan" and "inf", which are not finite.
_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
_WHOLE = r"^-?0*\d{1,19}$"
_BLANKS = " \t"

# Cells that are converted one by one where one of them is not a number.
_PIECE_CELLS = 512

# A column with fewer cells that are not empty is one of numbers, unless its type says otherwise.
_CELLS_THAT_SHOW = 3

# The words for a missing value and for truth values that Arrow's CSV reader knows.
_MISSING_WORDS = pa.array(pa_csv.ConvertOptions().null_values)
_TRUTHS = {1.0: ["true", "True", "TRUE"], 0.0: ["false", "False", "FALSE"]}

_NOT_REAL = (np.complexfloating, np.datetime64, np.timedelta64, np.ndarray)


def number(cell: object) -> float:
    """A Python object as a float; NaN where it is not a real number, nor text that Python reads as one."""
    if isinstance(cell, float):
        return cell
    if isinstance(cell, _NOT_REAL):
        return math.nan
    value = attempt(lambda: float(cell))  # type: ignore[arg-type]  # anything is tried
    return math.nan if value is None else value


def numbers_of_objects(cells: Iterable[object], count: int) -> FloatArray:
    """Python objects as floats, one by one."""
    return np.fromiter(map(number, cells), dtype=np.float64, count=count)


def is_text(cells: NDArray[Any], numbers: FloatArray) -> bool:
    """Whether fewer than half of the cells that are not empty are numbers, and there are some of these cells."""
    unreadable = sum(not _is_empty(cell) for cell in cells[np.isnan(numbers)])
    return _shows_text(unreadable, int(np.count_nonzero(~np.isnan(numbers))))


def _shows_text(n_unreadable: int, n_numbers: int) -> bool:
    """Whether cells show that their column is text. Fewer than three cells show nothing, so one row alone cannot."""
    return n_unreadable > n_numbers and n_unreadable + n_numbers >= _CELLS_THAT_SHOW


def _is_empty(cell: object) -> bool:
    """Whether a cell without a number stands for a missing value; NA and NaT of pandas are known by their types."""
    if isinstance(cell, (str, bytes)):
        return not cell.strip()
    return cell is None or isinstance(cell, (float, np.floating)) or type(cell).__name__ in ("NAType", "NaTType")


def whole_numbers_of_objects(cells: Iterable[object]) -> pa.Array:
    """Python integers as 64-bit integers; null for anything else."""
    found = [
        int(cell)
        if isinstance(cell, (int, np.integer)) and not isinstance(cell, bool) and -(2**63) <= cell < 2**63
        else None
        for cell in cells
    ]
    return pa.array(found, pa.int64())


def numbers_of_text(column: pa.Array) -> pa.Array:
    """Text as doubles, with null for a cell that is not a number; words for truth values are 1 and 0.

    Most columns hold numbers alone and are converted at once. Otherwise the pieces with cells that are not numbers are
    converted without these. A cell that is a number has the same value either way, since Arrow converts it.
    """
    numbers = attempt(lambda: pc.cast(column, pa.float64()))
    if numbers is not None:
        return numbers
    if len(column) > _PIECE_CELLS:
        starts = range(0, len(column), _PIECE_CELLS)
        return pa.concat_arrays([numbers_of_text(column.slice(start, _PIECE_CELLS)) for start in starts])
    trimmed = pc.ascii_trim(column, characters=_BLANKS)
    numbers = pc.cast(_matching(trimmed, _NUMBER), pa.float64())
    for value, words in _TRUTHS.items():
        numbers = pc.if_else(pc.is_in(trimmed, value_set=pa.array(words)), pa.scalar(value), numbers)
    return numbers


def whole_numbers_of_text(column: pa.Array) -> pa.Array:
    """Text as 64-bit integers, with null for a cell that is not a whole number of that size in decimal digits.

    Arrow's own conversion takes hexadecimal numbers too. So it is used only where it succeeds for all cells and none
    has an x in it; there it gives what the slower way gives.
    """
    trimmed = pc.ascii_trim(column, characters=_BLANKS)
    wholes = attempt(lambda: pc.cast(trimmed, pa.int64()))
    if wholes is not None and not pc.any(pc.match_substring(trimmed, "x", ignore_case=True)).as_py():
        return wholes
    # Without its zeros in front, a match has at most 19 digits. They fit a decimal, and its size is compared.
    digits = pc.replace_substring_regex(_matching(trimmed, _WHOLE), "^(-?)0*([0-9])", r"\1\2")
    exact = pc.cast(digits, pa.decimal128(38, 0))
    limits = [pa.scalar(limit, pa.decimal128(38, 0)) for limit in (-(2**63), 2**63 - 1)]
    within = pc.and_(pc.greater_equal(exact, limits[0]), pc.less_equal(exact, limits[1]))
    return pc.cast(pc.if_else(within, exact, pa.scalar(None, exact.type)), pa.int64())


def _matching(column: pa.Array, pattern: str) -> pa.Array:
    """The cells that match, and null in place of others."""
    return pc.if_else(pc.match_substring_regex(column, pattern), column, pa.scalar(None, column.type))


def is_text_column(column: pa.Array, numbers: pa.Array) -> bool:
    """Whether fewer than half of the cells that are not empty are numbers, and there are some of these cells."""
    empty = pc.is_in(pc.ascii_trim(column, characters=_BLANKS), value_set=_MISSING_WORDS)
    unreadable = pc.and_not(pc.is_null(numbers), pc.fill_null(empty, True))
    return _shows_text(int(pc.sum(unreadable).as_py() or 0), len(numbers) - int(numbers.null_count))
