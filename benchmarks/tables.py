"""What all benchmarks share: tables of results, the state that they were measured at, and the options of a command."""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import os
import platform
import shutil
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import rich.table
from rich.console import Console
from rich.progress import Progress
from threadpoolctl import threadpool_info

import pais
from pais._base.threads import cores

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
# Columns of text that the widest table needs.
_WIDTH = 190

Cell = str | int | float | None


@dataclass(kw_only=True)
class Table:
    """Rows of named cells. The Markdown and the print have the columns `shown`, and the CSV has all."""

    name: str
    title: str
    shown: tuple[str, ...]
    remarks: list[str] = field(default_factory=list)
    rows: list[dict[str, Cell]] = field(default_factory=list)

    def publish(self, directory: Path, console: Console) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        (directory / f"{self.name}.md").write_text(self.markdown(), encoding="utf-8")
        columns = list(dict.fromkeys(column for row in self.rows for column in row))
        with (directory / f"{self.name}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, columns, lineterminator="\n")
            writer.writeheader()
            for row in self.rows:
                writer.writerow({key: f"{cell:.6g}" if isinstance(cell, float) else cell for key, cell in row.items()})
        printed = rich.table.Table(*self.shown, title=self.title)
        for row in self.rows:
            printed.add_row(*self._texts(row), style="red" if str(row.get("result")).startswith("missed") else None)
        console.print(printed)
        for remark in self.remarks:
            console.print(f"  {remark}", markup=False)

    def markdown(self) -> str:
        lines = [self.shown, ("---",) * len(self.shown), *(self._texts(row) for row in self.rows)]
        table = [f"| {' | '.join(line)} |" for line in lines]
        return "\n".join([f"## {self.title}", "", *table, "", *(f"- {remark}" for remark in self.remarks)]) + "\n"

    def _texts(self, row: dict[str, Cell]) -> tuple[str, ...]:
        return tuple(_text(row.get(column)) for column in self.shown)


def _text(value: Cell) -> str:
    if value is None:
        return ""
    if isinstance(value, float) and abs(value) >= 1000.0:
        return f"{value:,.0f}"
    if isinstance(value, float):
        return f"{value:.4f}" if 1.0 < value < 10.0 and value != round(value, 3) else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else value


def verdict(value: float, target: float | None) -> str:
    if target is None:
        return "reported"
    return "met" if value <= target else "missed"


def measured_at() -> str:
    """The last remark of a table: commit, sources, day and machine. No host name, no paths, no user."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    blas = {f"{pool['internal_api']} {pool['version']}" for pool in threadpool_info() if pool["user_api"] == "blas"}
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    named = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    day = time.strftime("%Y-%m-%d", time.gmtime())
    return (
        f"Measured at {commit()}, sources {sources()}, on {day}, {cores()} cores of {[*named, platform.machine()][0]}, "
        f"{memory:.0f} GB of memory, Python {platform.python_version()}, NumPy {np.__version__}, "
        f"BLAS {' and '.join(sorted(blas)) or 'unknown'}."
    )


def commit() -> str:
    """The commit, marked if files of the package differ from it."""
    return f"{_git('rev-parse', '--short=7', 'HEAD') or 'no commit'}{' with uncommitted changes' * bool(uncommitted())}"


def uncommitted() -> list[str]:
    """Files of the package that differ from the commit."""
    return [line[3:] for line in _git("status", "--porcelain", "--", "src").splitlines()]


def sources() -> str:
    """A short digest of the package's sources: equal for commits that differ elsewhere alone."""
    digest = hashlib.sha256()
    for path in sorted(Path(pais.__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def _git(*words: str) -> str:
    git = shutil.which("git")
    if git is None:
        return ""
    process = subprocess.run([git, "-C", str(ROOT), *words], capture_output=True, text=True)
    return process.stdout.rstrip() if process.returncode == 0 else ""


@dataclass(frozen=True)
class Store:
    """Results by key in a file, one in a line, so that a stopped run goes on. Lines of another state do not count."""

    path: Path | None
    state: str

    def read(self) -> dict[str, Any]:
        if self.path is None or not self.path.exists():
            return {}
        lines = map(json.loads, self.path.read_text(encoding="utf-8").splitlines())
        return {line["key"]: line["result"] for line in lines if line["state"] == self.state}

    def add(self, key: str, result: Any) -> None:
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as file:
                print(json.dumps({"state": self.state, "key": key, "result": result}), file=file)


def parser(description: str | None, *, seeds: int | None = None, only: Sequence[str] = ()) -> argparse.ArgumentParser:
    """The options that most benchmarks have: a quick look, seeds, parts, and places."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    if seeds is not None:
        made.add_argument("--quick", action="store_true", help="a look: few seeds, and small or few tables")
        made.add_argument("--seeds", type=int, default=seeds, help="runs of each cell")
    if only:
        made.add_argument("--only", nargs="+", choices=only, default=list(only), help="parts")
    made.add_argument("--data", type=Path, default=Path("../shared/data"), help="directory of the Parquet files")
    made.add_argument("--out", type=Path, default=RESULTS, help="where the tables are written")
    made.add_argument(
        "--cache",
        type=Path,
        default=Path(tempfile.gettempdir()) / "pais-benchmarks",
        help="preprocessed rows, floors and the environments of other packages",
    )
    return made


def run(options: argparse.Namespace, measure: Callable[[argparse.Namespace, Progress], Iterable[Table]]) -> None:
    """Measure tables, and write each of them with its state as soon as it is complete."""
    if getattr(options, "quick", False):
        options.seeds = min(options.seeds, 2)
    console = Console(highlight=False)
    console.width = max(console.width, _WIDTH)
    state = measured_at()  # Before the runs: the sources may be edited meanwhile.
    # The fits are many, no ledger holds them, and some tables are too small for their noise or their delta.
    warnings.simplefilter("ignore", UserWarning)
    # Drawn rarely: the bar shares the cores with what is measured.
    with Progress(console=console, transient=True, refresh_per_second=1) as progress:
        for table in measure(options, progress):
            table.remarks.append(state)
            table.publish(options.out, console)
