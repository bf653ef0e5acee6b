"""Table 1 of the paper, measured again: size, radius and mean square of every data set beside what is printed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table

from experiments.paper.datasets import NOT_THE_PAPERS, SOURCES, PaperRow, Prepared

MATCH = "yes"
MISMATCH = "no"
SUBSET = "subset"

_HEADER = ("Data set", "n", "d", "r", "x̃", "paper: n", "d", "r", "x̃", "match")


@dataclass(frozen=True, kw_only=True)
class TableRow:
    """One data set: what was measured, in the digits of the paper, what the paper prints, and whether they agree.

    `match` is "yes", "no", or, for a part of the paper's data, "subset" whatever the numbers.
    """

    title: str
    measured: PaperRow
    paper: PaperRow
    match: str


def table_rows(sets: Sequence[Prepared]) -> tuple[TableRow, ...]:
    """A row for each data set, in the order given."""
    return tuple(
        TableRow(title=data.source.title, measured=data.printed(), paper=data.source.paper, match=_match(data))
        for data in sets
    )


def rich_table(rows: Sequence[TableRow]) -> Table:
    """The table for the console."""
    table = Table(
        title="Table 1: data sets after preprocessing, measured and as printed in the paper", caption=_absent(rows)
    )
    table.add_column(_HEADER[0])
    for name in _HEADER[1:-1]:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column(_HEADER[-1])
    for row in rows:
        table.add_row(*_cells(row), style=None if row.match == MATCH else "yellow")
    return table


def markdown(rows: Sequence[TableRow]) -> str:
    """The table as Markdown text."""
    rule = ("---", *("---:" for _ in _HEADER[1:-1]), "---")
    lines = [_line(_HEADER), _line(rule), *(_line(_cells(row)) for row in rows)]
    absent = _absent(rows)
    if absent is not None:
        lines += ["", absent]
    return "\n".join(lines) + "\n"


def _match(data: Prepared) -> str:
    if data.source.subset:
        return SUBSET
    return MATCH if data.printed() == data.source.paper else MISMATCH


def _cells(row: TableRow) -> tuple[str, ...]:
    numbers = (
        cell for facts in (row.measured, row.paper) for cell in (facts.n, facts.d, facts.radius, facts.mean_square)
    )
    return (row.title, *numbers, NOT_THE_PAPERS if row.match == SUBSET else row.match)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _absent(rows: Sequence[TableRow]) -> str | None:
    """The data sets of the paper that the table does not hold in whole."""
    titles = {row.title for row in rows}
    absent = [source.title for source in SOURCES if not source.subset and source.title not in titles]
    return f"Not at hand: {', '.join(absent)}." if absent else None
