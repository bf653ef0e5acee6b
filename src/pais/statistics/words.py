"""What a statistic is about, in words. Stated and released values only."""

from __future__ import annotations

from typing import NamedTuple

from pais.data.units import Unit, people_word
from pais.statistics.table import Fields


class Caution(NamedTuple):
    """What a reader must know before using a result, and the category of the warning that says so. Released values."""

    text: str
    category: type[Warning]


def about_rows(title: str, unit: Unit | None, noisy_rows: float, *, by_groups: bool = False) -> str:
    """What a statistic of rows is about. `noisy_rows` is a released number of rows, which is not shown with units.

    With units it is the sum of weights, to which a person with missing cells adds less than one: see `weights_note`.
    """
    number = f"about {noisy_rows:,.0f} " if noisy_rows >= 0.5 else ""
    if unit is None:
        whole = {"count": "number of rows", "histogram": "number of rows by bin", "sum": "total over all rows"}
        return whole.get(title) or f"{title} over {number}rows"
    one, many = people_word(unit.column)
    shared = f"a {one} in several groups counts in each by the share of rows there" if by_groups else ""
    count = f"count is no number of {many}, as one with missing cells adds less than 1: count adds up these weights"
    count = count if title == "description" else ""
    if unit.full_rows == 1:
        texts = [f"{title} over {many}; each {one} counts once, with all rows sharing one weight", shared, count]
    else:
        limit = f"a {one} with more than {unit.full_rows} rows counts as {unit.full_rows} rows"
        texts = [f"{title} over the rows of {many}; {limit}", count]
    return "; ".join(text for text in texts if text)


def weights_note(title: str, unit: Unit | None, noisy_rows: float) -> str:
    """Over how many people a statistic is, as far as it is known; nothing if a description or rows tell."""
    if unit is None or unit.full_rows > 1 or title == "description" or noisy_rows < 0.5:
        return ""
    one, many = people_word(unit.column)
    return f"the weights of the {many} add up to about {noisy_rows:,.0f}; a {one} with missing cells adds less than 1"


def only_label(fields: Fields) -> str:
    """The label of the only column, or nothing."""
    return fields.labels[0] if len(fields.labels) == 1 else ""
