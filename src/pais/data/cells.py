"""Convert cells that are text or Python objects to numbers. A cell's value does not depend on other cells."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
from numpy.typing import NDArray

from pais._base.numerics import FloatArray
from pais._base.validate import attempt

# What Arrow's conversion of text accepts, except words such as "nan" and "inf", which are not finite.
_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
_WHOLE = r"^-?0*\d{1,19}$"
_BLANKS = " \t"

# Size of the pieces that a column is split into if one of its cells is not a number.
_PIECE_CELLS = 512

# A column with fewer non-empty cells counts as numeric, unless its type says otherwise.
_CELLS_THAT_SHOW = 3

#: The words for missing values that Arrow's CSV reader recognises.
MISSING_WORDS = pa.array(pa_csv.ConvertOptions().null_values)

#: The words for booleans, in lower case. In a column of numbers they are 1 and 0.
TRUTHS = {"true": 1.0, "false": 0.0}

# Objects that Python would convert to a number although they are none. No column of times holds numbers.
_NOT_REAL = (np.datetime64, np.timedelta64, np.ndarray, datetime.date, datetime.time)


def plain(cell: object) -> float | str | None:
    """Return a Python object as a float or as text, or None if it is neither. Bytes are text if they are UTF-8."""
    if isinstance(cell, (float, np.floating)):
        return float(cell)
    if isinstance(cell, str):
        # A lone surrogate is no text.
        return str(cell) if cell.isascii() else attempt(lambda: cell.encode().decode())
    if isinstance(cell, bytes):
        return attempt(cell.decode)
    number = real(cell)
    return None if isinstance(number, _NOT_REAL) else attempt(lambda: float(number))  # type: ignore[arg-type]  # any object


def real(cell: object) -> object:
    """Return a complex number as a float, or None if it is not real; anything else as it is.

    One complex cell makes NumPy and pandas convert all numbers of a column to complex numbers, so 1 and 1 + 0j must be
    the same cell.
    """
    if not isinstance(cell, (complex, np.complexfloating)):
        return cell
    return float(cell.real) if cell.imag == 0 else None


def numbers_of_objects(cells: Iterable[object]) -> FloatArray:
    """Convert Python objects to floats, one by one. Text is read as in a column of text; NaN for what is no number."""
    plains = [cell if type(cell) is float else plain(cell) for cell in cells]
    numbers = np.array([cell if type(cell) is float else math.nan for cell in plains], dtype=np.float64)
    places = [place for place, cell in enumerate(plains) if type(cell) is str]
    if places:
        texts = pa.array([plains[place] for place in places], pa.large_string())
        numbers[places] = numbers_of_text(texts).to_numpy(zero_copy_only=False)
    return numbers


def is_text(cells: NDArray[Any], numbers: FloatArray) -> bool:
    """Whether a column is text: it has at least three non-empty cells, and fewer than half of them are numbers."""
    unreadable = sum(not _is_empty(cell) for cell in cells[np.isnan(numbers)])
    return _shows_text(unreadable, int(np.count_nonzero(~np.isnan(numbers))))


def _shows_text(n_unreadable: int, n_numbers: int) -> bool:
    """Whether a column is text. One row decides it at a tie, so the type of a column counts as public: see LIMITS."""
    return n_unreadable > n_numbers and n_unreadable + n_numbers >= _CELLS_THAT_SHOW


def _is_empty(cell: object) -> bool:
    """Whether a cell that is not a number is a missing value. NA and NaT of pandas are recognised by type name."""
    if isinstance(cell, (str, bytes)):
        return not cell.strip()
    return cell is None or isinstance(cell, (float, np.floating)) or type(cell).__name__ in ("NAType", "NaTType")


def whole_numbers_of_objects(cells: Iterable[object]) -> pa.Array:
    """Convert Python integers to 64-bit integers; anything else becomes null."""
    wholes = [
        int(cell)
        if isinstance(cell, (int, np.integer)) and not isinstance(cell, bool) and -(2**63) <= cell < 2**63
        else None
        for cell in cells
    ]
    return pa.array(wholes, pa.int64())


def trimmed(column: pa.Array) -> pa.Array:
    """Return text without blanks at its ends."""
    return pc.ascii_trim(column, characters=_BLANKS)


def numbers_of_text(column: pa.Array) -> pa.Array:
    """Convert text to doubles. Words for true and false become 1 and 0; other cells that are not numbers become null.

    Most columns contain only numbers and are converted at once. Otherwise the column is split into pieces, and in
    pieces with other cells only the numbers are converted. A number has the same value either way, since Arrow converts
    it in both cases.
    """
    numbers = attempt(lambda: pc.cast(column, pa.float64()))
    if numbers is not None:
        return numbers
    if len(column) > _PIECE_CELLS:
        starts = range(0, len(column), _PIECE_CELLS)
        return pa.concat_arrays([numbers_of_text(column.slice(start, _PIECE_CELLS)) for start in starts])
    cells = trimmed(column)
    numbers = pc.cast(_matching(cells, _NUMBER), pa.float64())
    lowered = pc.ascii_lower(cells)
    for word, value in TRUTHS.items():
        numbers = pc.if_else(pc.equal(lowered, word), pa.scalar(value), numbers)
    return numbers


def with_decimal_points(column: pa.Array, decimal: str) -> pa.Array:
    """Write the decimal mark of text cells as a point. With a decimal comma, a cell with a point is not a number."""
    if decimal == ".":
        return column
    pointed = pc.replace_substring(column, decimal, ".")
    return pc.if_else(pc.match_substring(column, "."), pa.scalar(None, column.type), pointed)


def whole_numbers_of_text(column: pa.Array) -> pa.Array:
    """Convert text to 64-bit integers; a cell that is not a decimal integer in that range becomes null.

    Arrow's own conversion also accepts hexadecimal numbers. So it is used only if it succeeds for all cells and none
    contains an x; then it gives the same result as the slower method.
    """
    cells = trimmed(column)
    wholes = attempt(lambda: pc.cast(cells, pa.int64()))
    if wholes is not None and not pc.any(pc.match_substring(cells, "x", ignore_case=True)).as_py():
        return wholes
    # Without leading zeros, a match has at most 19 digits. These fit into a decimal, whose range can be checked.
    digits = pc.replace_substring_regex(_matching(cells, _WHOLE), "^(-?)0*([0-9])", r"\1\2")
    exact = pc.cast(digits, pa.decimal128(38, 0))
    limits = [pa.scalar(limit, pa.decimal128(38, 0)) for limit in (-(2**63), 2**63 - 1)]
    within = pc.and_(pc.greater_equal(exact, limits[0]), pc.less_equal(exact, limits[1]))
    return pc.cast(pc.if_else(within, exact, pa.scalar(None, exact.type)), pa.int64())


def _matching(column: pa.Array, pattern: str) -> pa.Array:
    """Replace the cells that do not match with null."""
    return pc.if_else(pc.match_substring_regex(column, pattern), column, pa.scalar(None, column.type))


def is_text_column(column: pa.Array, numbers: pa.Array) -> bool:
    """Whether a column is text: it has at least three non-empty cells, and fewer than half of them are numbers."""
    empty = pc.is_in(trimmed(column), value_set=MISSING_WORDS)
    unreadable = pc.and_not(pc.is_null(numbers), pc.fill_null(empty, True))
    return _shows_text(int(pc.sum(unreadable).as_py() or 0), len(numbers) - int(numbers.null_count))
