"""What every part of the measurements is given."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.progress import Progress

from benchmarks.stream.data import Kind, Rows
from pais._base.threads import cores

N_FILES = 50
PREFIX = "stream-"
#: Expected rows where a fit is asked for a small sample instead of the free one.
SMALL_SAMPLE = 100_000


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

    @property
    def small_sample(self) -> int:
        """Never more than a hundredth of the rows, so that small sizes can be tried."""
        return min(SMALL_SAMPLE, self.rows // 100)

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


def machine() -> str:
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    return (
        f"{cores()} core(s) of {_processor()}, Python {platform.python_version()}, numpy {np.__version__}, "
        f"pyarrow {pa.__version__}; load average (1, 5, 15 min) when the table was written: {load}."
    )


def at_least(value: float, target: float) -> str:
    return "met" if value >= target else "missed"


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())
