"""One-line statistics beside diffprivlib and OpenDP: errors at the same epsilon and bounds.

Run as `python -m benchmarks.peers.statistics`. Seeded runs are not private; they are here to be repeated.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray
from rich.progress import Progress

import pais
from benchmarks.peers.environment import DIFFPRIVLIB, OPENDP, answers
from benchmarks.tables import Cell, Table, parser, run

FloatArray = NDArray[np.float64]

LIMIT = 3600.0
BINS = 20

#: Rows of Covertype that are used, so that diffprivlib's quantile takes seconds, not minutes.
MOST_ROWS = 100_000

#: Columns: file, name and public bounds. All hold whole numbers, which is public too.
COLUMNS = {
    "age": ("adult", "age", 17.0, 90.0),
    "hours per week": ("adult", "hours_per_week", 1.0, 99.0),
    "capital gain": ("adult", "capital_gain", 0.0, 99_999.0),
    "elevation": ("covertype", "Elevation", 1850.0, 3870.0),
}

#: Statistics, and the levels of quantiles.
LEVELS = {"mean": (0.5,), "variance": (0.5,), "histogram": (0.5,), "quantile": (0.5, 0.9)}


@dataclass(frozen=True, kw_only=True)
class Task:
    """A statistic of a column at an epsilon, and how often it is released."""

    column: str
    low: float
    high: float
    statistic: str
    epsilon: float
    seeds: int
    q: float = 0.5
    bins: int = BINS
    step: float = 1.0
    first: int = 0

    @property
    def title(self) -> str:
        return f"quantile {self.q:g}" if self.statistic == "quantile" else self.statistic

    def truth(self, values: FloatArray) -> FloatArray:
        if self.statistic == "histogram":
            return np.histogram(values, self.bins, (self.low, self.high))[0].astype(np.float64)
        if self.statistic == "quantile":
            return np.quantile(values, [self.q], method="inverted_cdf")
        return np.array([values.mean() if self.statistic == "mean" else values.var()])

    def ours(self, values: FloatArray) -> list[FloatArray]:
        bounds = (self.low, self.high)
        release = {
            "mean": partial(pais.mean, delta=0.0),
            "variance": partial(pais.variance, delta=0.0),
            "histogram": partial(pais.histogram, bins=self.bins, delta=0.0),
            "quantile": partial(pais.quantile, q=self.q, step=self.step),
        }[self.statistic]
        return [
            np.ravel(release(values, columns=bounds, epsilon=self.epsilon, random_state=seed).estimates)
            for seed in range(self.first, self.first + self.seeds)
        ]


def tasks(quick: bool) -> list[Task]:
    runs = {"mean": 2000, "variance": 1000, "histogram": 1500, "quantile": 50}
    wanted = [
        Task(
            column=column,
            low=low,
            high=high,
            statistic=statistic,
            epsilon=epsilon,
            seeds=runs[statistic] // (20 if quick else 1),
            q=q,
        )
        for column, (_, _, low, high) in COLUMNS.items()
        for statistic, levels in LEVELS.items()
        for q in levels
        for epsilon in (1.0, 0.1)
    ]
    # Other seeds for each task, so that their errors are independent.
    return [replace(task, first=10_000 * number) for number, task in enumerate(wanted)]


def columns_of(data: Path) -> dict[str, FloatArray]:
    columns = {}
    for title, (file, name, low, high) in COLUMNS.items():
        values = pq.read_table(data / f"{file}.parquet", columns=[name])[name].to_numpy()
        columns[title] = np.clip(values[:MOST_ROWS].astype(np.float64), low, high)
    return columns


def error_of(estimates: list[FloatArray], truth: FloatArray) -> tuple[float, float]:
    """Root mean square error, and its relative standard error."""
    squares = np.square(np.array(estimates) - truth).mean(axis=1)
    mean = float(squares.mean())
    spread = 0.0 if mean == 0.0 else float(squares.std() / math.sqrt(squares.size) / mean / 2.0)
    return math.sqrt(mean), spread


def tables(options: argparse.Namespace, progress: Progress) -> Iterator[Table]:
    wanted, columns = tasks(options.quick), columns_of(options.data)
    file = options.cache / "peers-columns.npz"
    options.cache.mkdir(parents=True, exist_ok=True)
    np.savez(file, **columns)  # type: ignore[arg-type]  # arrays by name
    given = [{**asdict(task), "file": str(file)} for task in wanted]
    found = {peer.name: answers(peer, given, options.cache, progress.console, LIMIT) for peer in (DIFFPRIVLIB, OPENDP)}
    versions = {name: lines[0]["version"] if lines else problem for name, (lines, problem) in found.items()}
    peers = {name: lines for name, (lines, _) in found.items()}
    table = Table(
        name="peers-statistics",
        title="One-line statistics: root mean square error beside other packages",
        shown=("column", "statistic", "epsilon", "pais", *peers, "over the best", "standard error", "seeds"),
        remarks=[
            "Pure epsilon, the same public bounds, whole numbers, one row added or removed. Errors are about the value "
            "of the clipped column. Adult has 48,842 rows; of Covertype, the first 100,000 are used.",
            f"diffprivlib {versions['diffprivlib']}: takes the number of rows as public. Its quantile fails "
            "with an error if too many values are equal; these cells are empty.",
            f"OpenDP {versions['opendp']}: a sum and a count halve epsilon; a variance adds a sum of squares. "
            "Its quantile has the whole numbers as candidates, as ours has with step=1.",
            "pais: a tenth of the epsilon of a quantile pays for its interval. A ratio of 1 with errors of 0 means "
            "that both always release the exact value. The standard error is that of the ratio, from the seeds alone. "
            "Histograms have the same noise in all three packages.",
        ],
    )
    for number, task in enumerate(progress.track(wanted, description="pais")):
        values = columns[task.column]
        truth = task.truth(values)
        own, own_spread = error_of(task.ours(values), truth)
        row: dict[str, Cell] = {"column": task.column, "statistic": task.title, "epsilon": task.epsilon, "pais": own}
        others = []
        for name, lines in peers.items():
            estimates = lines[number]["estimates"] if len(lines) > number else []
            error, spread = error_of(estimates, truth) if estimates else (math.inf, 0.0)
            row[name] = error if estimates else None
            others.append((error, spread))
        best, best_spread = min(others)
        row["over the best"] = 1.0 if own == best else own / best if best > 0.0 else math.inf
        row["standard error"] = math.hypot(own_spread, best_spread)
        row["seeds"] = task.seeds
        table.rows.append(row)
    yield table


if __name__ == "__main__":
    run(parser(__doc__, seeds=1).parse_args(), tables)
