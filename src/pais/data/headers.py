"""The first line of a CSV file: check that it holds column names, because they are published with a release."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyarrow.csv as pa_csv

from pais._base.validate import attempt
from pais.errors import DataError

# Text that can be a cell but not a column name. Arrow reads these words as missing or as booleans.
_CELL_WORDS = {*pa_csv.ConvertOptions().null_values, "none", "true", "false"}
_CELL_MARKS = re.compile(
    r"[;|]|\d{5}"  # another separator; an id, or a number with more digits than a year
    r"|(?<![^\W\d_])\d{1,4}([-/.:])\d{1,2}\1\d{1,4}"  # a date or a time
    r"|^\s*[+-]?0[xX][\da-fA-F]+\s*$"
)


def is_csv(name: str) -> bool:
    return name.lower().removesuffix(".gz").removesuffix(".bz2").endswith((".csv", ".tsv", ".txt"))


def require_header(names: Sequence[str], where: str) -> None:
    """Raise if the first line could be a row of data, because its cells would be published as names.

    The error does not quote the line. A name is refused if it is empty or has no letter; if it is a number, an amount,
    a date, a time, a boolean or a word for a missing value; or if it contains five digits in a row, or a semicolon, tab
    or bar, which separate cells in other files. Three or more consecutively numbered names, such as `0,1,2` or
    `x1,x2,x3`, are accepted as a header.
    """
    if not _are_numbered(names) and any(_is_cell(name) for name in names):
        raise DataError(
            f"the first line of {where} looks like a row of values, not like column names. Write a header of names "
            "with letters, separated by commas, none of them empty (with pandas, pass index=False), or pass a table "
            "with column names."
        )


def _are_numbered(names: Sequence[str]) -> bool:
    first = re.fullmatch(r"(\D*)([01])", names[0]) if len(names) >= 3 else None
    if first is None or (first[1] and _is_cell(first[1])):
        return False
    return all(name == f"{first[1]}{number}" for number, name in enumerate(names, int(first[2])))


def _is_cell(name: str) -> bool:
    """Whether this text looks like a cell of a row rather than a column name."""
    # Spark appends a number to a name that occurs twice.
    word = name.strip().rstrip("0123456789")
    if {name, word, word.casefold()} & _CELL_WORDS or not any(letter.isalpha() for letter in name):
        return True
    if not name.isprintable() or _CELL_MARKS.search(name):
        return True
    plain = re.sub(r"[\s,'\"()\[\]$€£¥%]", "", name)
    return attempt(lambda: float(plain)) is not None
