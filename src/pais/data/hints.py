"""Hints about cells that do not fit what is stated about their column. For the owner of the data: NOT PRIVATE."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterator, Sequence

import pyarrow as pa

from pais._base.validate import attempt
from pais.data.dialect import Dialect, in_words, likely_forms
from pais.data.kinds import Boolean, Categories, Column

# Only the most frequent cells are compared with the categories, and a few are shown.
_COMPARED, _SHOWN = 200, 3

# How similar two texts are if one may be a misspelling of the other, from 0 to 1.
_SIMILAR = 0.75

# A form, or a single value, explains the cells that do not fit if so many of them have it.
_MOST = 0.5

_BESIDE = re.compile(r"\d.*[^\W\d_]|[^\W\d_].*\d|[€$£¥%<>~]")


def hints_of(column: Column, unreadable: Counter[str], unlisted: Counter[str], dialect: Dialect | None) -> list[str]:
    """Return hints from the texts of cells that cannot be read or are not listed, with their numbers.

    `dialect` is None for data whose dialect cannot be stated, such as a table in memory.
    """
    hints = list(_hints_of_text(column, unreadable, dialect)) if unreadable else []
    if unlisted and isinstance(column, Categories):
        hints += _hints_of_categories(list(map(str, column.values)), unlisted, dialect)
    return hints


def hint_of_values(beyond: Counter[str]) -> list[str]:
    """Return a hint if most values beyond the bounds are one and the same."""
    [(value, number)] = beyond.most_common(1) or [("", 0)]
    if number < 3 or number < _MOST * beyond.total():
        return []
    return [f"{value!r} is {_share(number, beyond)} of the values beyond the bounds: it may stand for a missing value"]


def _hints_of_text(column: Column, cells: Counter[str], dialect: Dialect | None) -> Iterator[str]:
    texts, total = list(cells), cells.total()
    if column.form in ("numbers", "dates"):
        stated = dialect or Dialect()
        forms, read = likely_forms(pa.array(texts, pa.large_string()), column.form, stated)
        number = sum(cells[text] for text, fits in zip(texts, read.tolist(), strict=True) if fits)
        if forms and number >= _MOST * total:
            yield f"{_share(number, cells)} of the unreadable cells have {_form_in_words(forms, stated, dialect)}"
            return
    if isinstance(column, Boolean) and sum(count for _, count in cells.most_common(2)) >= _MOST * total:
        words = [text for text, _ in cells.most_common(2)]
        yield f"the most frequent unreadable cells are {_listed(words)}: state such words as a list of two categories"
        return
    beside = Counter({text: count for text, count in cells.items() if _BESIDE.search(text)})
    if column.form == "numbers" and beside.total() >= _MOST * total:
        yield f"{_share(beside.total(), cells)} of the unreadable cells have text beside a number: {_frequent(beside)}"
        return
    yield f"the most frequent unreadable cells are {_frequent(cells)}"


def _form_in_words(forms: Sequence[Dialect], stated: Dialect, dialect: Dialect | None) -> str:
    # If no day is above 12, both orders of day and month are possible.
    texts = [in_words(form, stated) for form in forms[: 2 if forms[0].date_format else 1]]
    if dialect is None:
        return f"{' or '.join(text.partition(':')[0] for text in texts)}: convert them before"
    return " or ".join(texts)


def _hints_of_categories(values: Sequence[str], cells: Counter[str], dialect: Dialect | None) -> Iterator[str]:
    damaged = sum(count for text, count in cells.items() if "\ufffd" in text)
    if damaged:
        advice = "read the file again with its encoding" if dialect is None else "pass its encoding, such as 'cp1252'"
        yield f"{_share(damaged, cells)} of the unlisted cells have characters that are not UTF-8: {advice}"
    decoded = {text: _repaired(text) for text in cells}
    repaired = sum(count for text, count in cells.items() if decoded[text] in values)
    if repaired:
        yield f"{_share(repaired, cells)} of the unlisted cells are UTF-8 that was read as cp1252: write the file again"
    by_letters = {value.casefold(): value for value in values}
    alike, others = [], Counter[str]()
    for text, count in cells.most_common(_COMPARED):
        close = difflib.get_close_matches(text.casefold(), by_letters, n=1, cutoff=_SIMILAR)
        if "\ufffd" in text or decoded[text] in values:
            continue
        if close:
            alike.append(f"{text!r} ({count:,}) may be {by_letters[close[0]]!r}")
        else:
            others[text] = count
    if alike:
        more = f" and {len(alike) - _SHOWN} more" if len(alike) > _SHOWN else ""
        yield f"{', '.join(alike[:_SHOWN])}{more}"
    if others:
        yield f"the most frequent cells that are not listed are {_frequent(others)}"


def _repaired(text: str) -> str | None:
    """Text in UTF-8 that was read as cp1252, read as UTF-8."""
    return None if text.isascii() else attempt(lambda: text.encode("cp1252").decode())


def _frequent(cells: Counter[str]) -> str:
    return ", ".join(f"{text!r} ({count:,})" for text, count in cells.most_common(_SHOWN))


def _listed(words: Sequence[str]) -> str:
    return " and ".join(repr(word) for word in words)


def _share(number: int, cells: Counter[str]) -> str:
    return percent(number, cells.total())


def percent(number: int, total: int) -> str:
    """A share in percent with two digits; never 0 % or 100 % for some or for not all."""
    if total == 0 or number in (0, total):
        return "100 %" if total and number else "0 %"
    share = 100.0 * number / total
    if share < 0.1:
        return "under 0.1 %"
    return "over 99.9 %" if share > 99.9 else f"{share:.3g} %"
