"""Words and checks for messages about columns. Messages name columns, which are public, and never show values."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

import pyarrow as pa

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


def require_columns(names: Sequence[str], where: str) -> None:
    if not names:
        raise DataError(f"{where} has no columns. Pass at least one feature.")


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
