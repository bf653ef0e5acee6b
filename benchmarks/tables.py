"""A table of results: printed, and written as CSV (all columns) and Markdown (those a reader needs)."""

from __future__ import annotations

import csv
from dataclasses import dataclass, field
from pathlib import Path

import rich.table
from rich.console import Console

Cell = str | int | float | None


@dataclass(kw_only=True)
class Table:
    """Rows of named cells.

    Attributes
    ----------
    name : str
        Stem of the files, after the prefix.
    shown : tuple of str
        Columns of the Markdown and of the print; the CSV holds all.
    """

    name: str
    title: str
    shown: tuple[str, ...]
    prefix: str = "kmeans-"
    remarks: list[str] = field(default_factory=list)
    rows: list[dict[str, Cell]] = field(default_factory=list)

    def publish(self, directory: Path, console: Console) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        stem = directory / f"{self.prefix}{self.name}"
        stem.with_suffix(".md").write_text(self.markdown(), encoding="utf-8")
        columns = list(dict.fromkeys(column for row in self.rows for column in row))
        with stem.with_suffix(".csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, columns, lineterminator="\n")
            writer.writeheader()
            writer.writerows({key: _precise(value) for key, value in row.items()} for row in self.rows)
        console.print(self.printed())
        for remark in self.remarks:
            console.print(f"  {remark}", markup=False)

    def markdown(self) -> str:
        lines = [f"## {self.title}", "", _line(self.shown), _line(("---",) * len(self.shown))]
        lines += [_line(self._texts(row)) for row in self.rows]
        lines += ["", *(f"- {remark}" for remark in self.remarks)]
        return "\n".join(lines).rstrip() + "\n"

    def printed(self) -> rich.table.Table:
        table = rich.table.Table(*self.shown, title=self.title)
        for row in self.rows:
            table.add_row(*self._texts(row), style="red" if str(row.get("result")).startswith("missed") else None)
        return table

    def _texts(self, row: dict[str, Cell]) -> tuple[str, ...]:
        return tuple(_text(row.get(column)) for column in self.shown)


def verdict(value: float, target: float | None) -> str:
    if target is None:
        return "reported"
    return "met" if value <= target else "missed"


def _line(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(cells) + " |"


def _text(value: Cell) -> str:
    if value is None:
        return ""
    if isinstance(value, float) and abs(value) >= 1000.0:
        return f"{value:,.0f}"
    if isinstance(value, float):
        return f"{value:.4f}" if 1.0 < value < 10.0 and value != round(value, 3) else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else value


def _precise(value: Cell) -> Cell:
    return f"{value:.6g}" if isinstance(value, float) else value
