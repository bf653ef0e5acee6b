"""Convert cells to numbers, truth values and days: Arrow columns, text and Python objects.

A cell that cannot be converted becomes NaN or null. No cell changes the value of another one, and none causes an error.
The first functions put names of columns and types into words.
"""

from __future__ import annotations

import datetime
import difflib
import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
from numpy.typing import NDArray

from pais._base.numerics import FloatArray
from pais._base.validate import attempt
from pais.errors import DataError

# Largest number of column names shown in a message.
_SHOWN = 8

# The same for columns that the user has to leave out or convert.
_SHOWN_TO_CORRECT = 60


def listed(names: Sequence[str], most: int = _SHOWN) -> str:
    """Join column names on one line; of many names, show only the first few. Column names are public."""
    more = len(names) - most
    return ", ".join(names) if more <= 0 else f"{', '.join(names[:most])} and {more} more"


def with_article(noun: str) -> str:
    """A noun with "a" or "an"; the nouns that begin with a u here, such as user, are spoken like "you"."""
    return f"an {noun}" if noun[:1] in "aeio" else f"a {noun}"


def all_of(number: int) -> str:
    """The start of a sentence about several things: "both", or "all 3"."""
    return "both" if number == 2 else f"all {number}"


def no_columns(where: str) -> DataError:
    return DataError(f"{where} has no columns. Pass at least one feature.")


def require_numeric(others: Sequence[tuple[str, str]], where: str) -> None:
    """Raise one error that lists all columns that are not numeric, given by title and type."""
    if others:
        shown = listed([f"{title} (type {kind})" for title, kind in others], most=_SHOWN_TO_CORRECT)
        raise DataError(
            f"column(s) {shown} of {where} are not numeric. Name the columns to use with `columns`, or convert these."
        )


def type_name(kind: pa.DataType) -> str:
    """Return a type's name without its parameters, which can be row data: dict keys become struct field names."""
    return re.split(r"[<\[(]", str(kind), maxsplit=1)[0]


def is_numeric(kind: pa.DataType) -> bool:
    """Whether cells of this type are converted to doubles without a schema."""
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal)
    return any(test(kind) for test in tests)


def similar_names(unknown: Sequence[str], names: Sequence[str]) -> str:
    """Return a hint with similar column names and the names that exist."""
    # Compare without case: difflib counts a letter in another case as a different letter.
    by_letters = {name.casefold(): name for name in names}
    matches = [difflib.get_close_matches(name.casefold(), by_letters, n=1) for name in unknown]
    similar = listed([by_letters[match] for several in matches for match in several])
    return f"{f'Did you mean {similar}? ' if similar else ''}Pass names of its columns: {listed(names)}."


#: The words for missing values that Arrow's CSV reader recognises.
MISSING_WORDS = pa.array(pa_csv.ConvertOptions().null_values)

# The words for booleans, in lower case. In a column of numbers they are 1 and 0.
_TRUTHS = {"true": 1.0, "false": 0.0}

# The words in a column of truth values, and the numbers that are written most often, which are faster found as words.
_TRUTH_WORDS = {**_TRUTHS, "no": 0.0, "yes": 1.0, "0": 0.0, "1": 1.0}

# What Arrow's conversion of text accepts, except words such as "nan" and "inf", which are not finite.
_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
_WHOLE = r"^-?0*\d{1,19}$"

# Numbers as they are usually written. Text with leading zeros or a plus sign, such as a postal code, is no number here.
_USUAL_NUMBER = r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$"

# Size of the pieces that a column is split into if one of its cells is not a number. Chosen by eye.
_PIECE_CELLS = 512

# A column with fewer non-empty cells counts as numeric, unless its type says otherwise. Chosen by eye.
_CELLS_THAT_SHOW = 3

# ISO 8601: a date, then optionally a time, then optionally a zone.
_DATE = (
    r"^(?P<year>-?\d{4,5})-(?P<month>\d{2})-(?P<day>\d{2})"
    r"(?:[T ](?P<hour>\d{2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:[.,](?P<fraction>\d{1,9}))?)?"
    r" ?(?P<zone>[Zz]|[+-]\d{2}:?\d{2}(?::?\d{2})?)?)?$"
)

# Types of texts that Arrow converts at once, by their length: dates, and dates with a time to the second.
_BY_LENGTH = {len("2025-01-31"): pa.date32(), len("2025-01-31 12:00:00"): pa.timestamp("s")}

# Ticks of a day in each unit of time. Nanoseconds are cut to microseconds: a double holds those of 285 years exactly.
_TICKS_PER_DAY = {"s": 86_400, "ms": 86_400 * 10**3, "us": 86_400 * 10**6}

# Days that `datetime64[us]` can hold with room to spare.
_MOST_DAYS = 10**8

# The first and the last day that text can name. Other days are missing values.
_FIRST_DAY, _LAST_DAY = np.array(["-99999-01-01", "99999-12-31"], "datetime64[D]").astype(np.int64)

# Objects that Python would convert to a number although they are none. No column of times holds numbers.
_NOT_REAL = (np.datetime64, np.timedelta64, np.ndarray, datetime.date, datetime.time)


def value_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of the cells: that of the categories for a dictionary column."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def is_text(kind: pa.DataType) -> bool:
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(test(kind) for test in tests)


def is_time(kind: pa.DataType) -> bool:
    return any(test(kind) for test in (pa.types.is_date, pa.types.is_timestamp))


def trimmed(column: pa.Array) -> pa.Array:
    """Return text without blanks at its ends."""
    return pc.ascii_trim(column, characters=" \t")


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
    for word, value in _TRUTHS.items():
        numbers = pc.if_else(pc.equal(lowered, word), pa.scalar(value), numbers)
    return numbers


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


def _shows_text(n_unreadable: int, n_numbers: int) -> bool:
    """Whether a column is text. One row decides it at a tie, so the type of a column counts as public: see LIMITS."""
    return n_unreadable > n_numbers and n_unreadable + n_numbers >= _CELLS_THAT_SHOW


def numbers_of(column: pa.Array) -> FloatArray:
    """Return numbers, booleans or text as finite doubles, with NaN for anything else."""
    column = _decoded(column)
    if pa.types.is_decimal(column.type):
        # Text is converted to the nearest double, but Arrow's own conversion of decimals rounds otherwise.
        column = pc.cast(column, pa.large_string())
    if is_text(column.type):
        column = numbers_of_text(_texts(column))
    floats = np.array(pc.cast(column, pa.float64(), safe=False).to_numpy(zero_copy_only=False), dtype=np.float64)
    floats[~np.isfinite(floats)] = np.nan
    return floats


def texts_of(column: pa.Array) -> pa.Array:
    """Return a text column without blanks at the ends of its cells."""
    return pc.ascii_trim_whitespace(_texts(_decoded(column)))


def matches(column: pa.Array, values: Sequence[str]) -> list[NDArray[np.bool_]]:
    """Return for each of some texts which cells are equal to it.

    A cell and a text are equal if both are numbers, as they are usually written, and the numbers are equal; if both
    are words for true or for false, or the cell is the boolean; or if they are the same text.
    """
    column = _decoded(column)
    marks = [mark_of(value) for value in values]
    none = np.zeros(len(column), dtype=bool)
    if pa.types.is_boolean(column.type):
        return [_mask(pc.equal(column, mark)) if isinstance(mark, bool) else none for mark in marks]
    if not is_text(column.type):
        numbers = numbers_of(column)
        return [numbers == mark if isinstance(mark, float) else none for mark in marks]
    texts = texts_of(column)
    has_numbers = any(isinstance(mark, float) for mark in marks)
    numbers = numbers_of(_matching(texts, _USUAL_NUMBER)) if has_numbers else np.empty(0)
    lowered = pc.ascii_lower(texts) if any(isinstance(mark, bool) for mark in marks) else texts
    index = pc.fill_null(pc.index_in(texts, value_set=pa.array([str(mark) for mark in marks], texts.type)), -1)
    owner = index.to_numpy(zero_copy_only=False)

    def equal(mark: float | bool | str, place: int) -> NDArray[np.bool_]:
        if isinstance(mark, float):
            return np.asarray(numbers == mark)
        return _mask(pc.equal(lowered, str(mark).lower())) if isinstance(mark, bool) else np.asarray(owner == place)

    return [equal(mark, place) for place, mark in enumerate(marks)]


def mark_of(text: str) -> float | bool | str:
    """Return the number or the truth value that a text stands for among categories, or else the text."""
    truth = _TRUTHS.get(text.lower())
    if truth is not None:
        return bool(truth)
    number = float(text) if re.fullmatch(_USUAL_NUMBER, text) else math.nan
    return number if math.isfinite(number) else text


def truths_of(column: pa.Array) -> FloatArray:
    """Return 1 for true and 0 for false, given as booleans, as the numbers 1 and 0 or as words; NaN for anything else.

    The words are true, false, yes and no, in any case.
    """
    column = _decoded(column)
    if not is_text(column.type):
        return _truths(numbers_of(column))
    words = pc.ascii_lower(texts_of(column))
    index = pc.index_in(words, value_set=pa.array(_TRUTH_WORDS, words.type))
    truths: FloatArray = np.array([*_TRUTH_WORDS.values(), np.nan])[
        pc.fill_null(index, len(_TRUTH_WORDS)).to_numpy(zero_copy_only=False)
    ]
    others = np.flatnonzero(_mask(pc.and_(pc.is_null(index), pc.is_valid(words))))
    if others.size:
        truths[others] = _truths(numbers_of(words.take(pa.array(others))))
    return truths


def _truths(numbers: FloatArray) -> FloatArray:
    return np.where((numbers == 0.0) | (numbers == 1.0), numbers, np.nan)


def days_of(column: pa.Array) -> FloatArray:
    """Return dates and times as days since 1970-01-01, in UTC where a zone is known; NaN where a cell is no date.

    Every unit gives the same double for the same instant: it is the correctly rounded quotient of two whole numbers.
    """
    column = _decoded(column)
    if pa.types.is_null(column.type):
        return np.full(len(column), np.nan)
    if is_text(column.type):
        texts = texts_of(column)
        # If all cells are dates, or dates with a time, converting them at once is faster and gives the same days.
        lengths = pc.unique(pc.drop_null(pc.binary_length(texts))).to_pylist()
        kind = _BY_LENGTH.get(lengths[0]) if len(lengths) == 1 else None
        column = None if kind is None else attempt(lambda: pc.cast(texts, kind))
        if column is None:
            return _days_of_text(texts)
    missing = _mask(column.is_null())
    if pa.types.is_date32(column.type):
        days = _integers(column, pa.int32()).astype(np.float64)
    else:
        unit = "ms" if pa.types.is_date64(column.type) else column.type.unit
        ticks = _integers(column, pa.int64())
        if unit == "ns":
            unit, ticks = "us", ticks // 1000
        days = ticks / _TICKS_PER_DAY[unit]
    return np.where(missing | (days < _FIRST_DAY) | (days >= _LAST_DAY + 1), np.nan, days)


def _decoded(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _texts(column: pa.Array) -> pa.Array:
    return column if pa.types.is_large_string(column.type) else pc.cast(column, pa.large_string())


def _mask(column: pa.Array) -> NDArray[np.bool_]:
    return np.asarray(pc.fill_null(column, False).to_numpy(zero_copy_only=False), dtype=bool)


def _integers(column: pa.Array, kind: pa.DataType) -> NDArray[Any]:
    return np.asarray(pc.fill_null(column.view(kind), 0).to_numpy(zero_copy_only=False))


def _days_of_text(texts: pa.Array) -> FloatArray:
    parts = pc.extract_regex(texts, _DATE)
    missing = ~_mask(parts.is_valid())

    def part(name: str, digits: int = 0) -> NDArray[np.int64]:
        cells = pc.struct_field(parts, name)
        if digits:
            cells = pc.utf8_slice_codeunits(pc.utf8_rpad(cells, digits, "0"), 0, digits)
        empty = pc.fill_null(pc.equal(cells, ""), True)
        return _integers(pc.cast(pc.if_else(empty, pa.scalar("0", cells.type), cells), pa.int64()), pa.int64())

    year, month, day = part("year"), part("month"), part("day")
    first = ((year - 1970) * 12 + month - 1).astype("datetime64[M]")
    date = first.astype("datetime64[D]") + (day - 1)
    hour, minute, second = part("hour"), part("minute"), part("second")
    ticks = ((date.astype(np.int64) * 24 + hour) * 60 + minute) * 60 + second - _offsets(pc.struct_field(parts, "zone"))
    ticks = ticks * 10**6 + part("fraction", 6)
    sound = (month >= 1) & (month <= 12) & (day >= 1) & (date.astype("datetime64[M]") == first)
    sound &= (hour < 24) & (minute < 60) & (second < 60) & ~missing
    return np.where(sound, ticks / _TICKS_PER_DAY["us"], np.nan)


def _offsets(zones: pa.Array) -> NDArray[np.int64]:
    """Return the seconds by which each zone is ahead of UTC; 0 without a zone."""
    plain_zones = pc.utf8_rpad(pc.replace_substring(zones, ":", ""), 7, "0")
    signed = pc.match_substring_regex(plain_zones, r"^[+-]\d{6}$")
    digits = pc.if_else(pc.fill_null(signed, False), plain_zones, pa.scalar("+000000", plain_zones.type))
    hours, minutes, seconds = (
        _integers(pc.cast(pc.utf8_slice_codeunits(digits, start, start + 2), pa.int64()), pa.int64())
        for start in (1, 3, 5)
    )
    ahead = hours * 3600 + minutes * 60 + seconds
    return np.asarray(np.where(_mask(pc.starts_with(digits, "-")), -ahead, ahead))


def times_of_days(days: FloatArray) -> NDArray[np.datetime64]:
    """Return days since 1970-01-01 as times, rounded to microseconds."""
    ticks = np.rint(np.clip(days, -_MOST_DAYS, _MOST_DAYS) * _TICKS_PER_DAY["us"])
    return ticks.astype(np.int64).astype("datetime64[us]")


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


def are_texts(cells: NDArray[Any], numbers: FloatArray) -> bool:
    """Whether a column is text: it has at least three non-empty cells, and fewer than half of them are numbers."""
    unreadable = sum(not _is_empty(cell) for cell in cells[np.isnan(numbers)])
    return _shows_text(unreadable, int(np.count_nonzero(~np.isnan(numbers))))


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


def texts_of_objects(cells: Iterable[object], *, with_times: bool = True) -> pa.Array:
    """Return Python objects as text, cell by cell: numbers, text, and dates in ISO 8601; null for anything else."""
    # Most cells are plain text, which stays as it is.
    texts = [cell if type(cell) is str and cell.isascii() else _text_of(cell, with_times=with_times) for cell in cells]
    return pa.array(texts, pa.large_string())


def _text_of(cell: object, *, with_times: bool) -> str | None:
    if isinstance(cell, (bool, np.bool_)):
        return str(cell)
    if isinstance(cell, (datetime.date, np.datetime64)):
        return attempt(lambda: _iso(cell)) if with_times else None
    value = plain(cell)
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else None
    return value


def _iso(time: datetime.date | np.datetime64) -> str | None:
    """Return a time in ISO 8601, or None for the missing time of pandas and NumPy."""
    if time != time:  # as NaN, it differs from itself
        return None
    return str(time.astype("datetime64[us]")) if isinstance(time, np.datetime64) else time.isoformat()
