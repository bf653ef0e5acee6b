"""Read the tables on disk: rows, titles, columns, and the state that each was measured at."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from pathlib import Path

from benchmarks.state import ROOT, State, read_state

RESULTS = ROOT / "benchmarks" / "results"

#: Tables that take about as long as all others together. They are measured apart, and may name another commit.
LONG_TABLES = ("coverage-statistics",)

Rows = list[dict[str, str]]


class AbsentError(Exception):
    """A table has not been measured."""


@dataclass(frozen=True, kw_only=True)
class Published:
    """A directory of results: a Markdown file for each table, and a CSV with all its columns."""

    directory: Path = RESULTS

    def names(self) -> list[str]:
        return sorted(path.stem for path in self.directory.glob("*.md"))

    def text(self, name: str) -> str:
        path = self.directory / f"{name}.md"
        if not path.exists():
            raise AbsentError(name)
        return path.read_text(encoding="utf-8")

    def title(self, name: str) -> str:
        return self.text(name).splitlines()[0].lstrip("# ")

    def body(self, name: str) -> str:
        """A table as it was published, without its title and its state."""
        text = re.sub(r"\A#+ .*\n+", "", self.text(name))
        return re.sub(
            r"(^- | )Measured at .*\n", lambda match: "\n" if match[1] == " " else "", text, flags=re.MULTILINE
        )

    def shown(self, name: str) -> list[str]:
        """Columns of the Markdown, in their order."""
        header = next((line for line in self.text(name).splitlines() if line.startswith("| ")), "")
        return [cell.strip() for cell in header.strip("| ").split(" | ")]

    def rows(self, name: str, **fixed: str) -> Rows:
        """Rows of a table in which each column named has the value given."""
        path = self.directory / f"{name}.csv"
        if not path.exists():
            raise AbsentError(name)
        with path.open(encoding="utf-8") as file:
            return [row for row in csv.DictReader(file) if all(row.get(key) == value for key, value in fixed.items())]

    def state(self, name: str) -> State:
        return read_state(self.text(name)) or State(commit="unknown", sources="unknown")


def span(rows: Rows, column: str, digits: int = 2, factor: float = 1.0) -> str:
    """Smallest and largest value of a column. A table without such rows counts as absent."""
    if not rows:
        raise AbsentError(column)
    values = [factor * float(row[column].rstrip(" %")) for row in rows]
    low, high = f"{min(values):,.{digits}f}", f"{max(values):,.{digits}f}"
    return low if low == high else f"{low} to {high}"
