"""What every part of the measurements is given."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from rich.console import Console
from rich.progress import Progress

from benchmarks.stream.data import Kind, Rows

N_FILES = 50
PREFIX = "stream-"


@dataclass(frozen=True, kw_only=True)
class Bench:
    """Sizes, places, and where to show progress.

    `rows` is the largest size; others are shares of it, so that a small one tries everything.
    """

    rows: int
    repeats: int
    cache: Path
    console: Console
    progress: Progress

    def single(self, kind: Kind, n_rows: int) -> Rows:
        return Rows(kind=kind, n_rows=n_rows, n_files=1, cache=self.cache).written(self.progress)

    def mixture(self) -> Rows:
        return Rows(kind="mixture", n_rows=self.rows, n_files=N_FILES, cache=self.cache).written(self.progress)

    @contextmanager
    def steps(self, description: str, total: int) -> Iterator[Callable[[], None]]:
        task = self.progress.add_task(description, total=total)
        try:
            yield lambda: self.progress.advance(task)
        finally:
            self.progress.remove_task(task)


def surroundings() -> str:
    """What times of files depend on, beside the machine."""
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    return f"pyarrow {pa.__version__}; load average (1, 5, 15 min) when the table was written: {load}."


def at_least(value: float, target: float) -> str:
    return "met" if value >= target else "missed"
