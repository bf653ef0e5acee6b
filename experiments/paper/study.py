"""The study from data to results: prepare the sets that are present, measure what is missing."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from threadpoolctl import threadpool_limits

from experiments.paper.cost import Float32Array, mean_costs
from experiments.paper.datasets import Prepared, present
from experiments.paper.dplloyd import N_CLUSTERS
from experiments.paper.grid import Grid, Sizes, config_hash
from experiments.paper.results import Results
from experiments.paper.runner import Job, run_missing


@dataclass(frozen=True, kw_only=True)
class Study:
    """What was measured, and on what."""

    sets: list[Prepared]
    results: Results
    cells: int


def measured(
    grid: Grid, *, directories: list[Path], work: Path, keys: list[str] | None, fresh: bool, console: Console
) -> Study:
    """Results of all cells of the grid on the sets present; those that an earlier run left are kept."""
    cache = work / "prepared"
    sets = present(directories, cache, console, keys)
    path = work / "results.parquet"
    if fresh:
        path.unlink(missing_ok=True)
    results = Results(path, {one.source.key: config_hash(one.fingerprint, grid) for one in sets})
    jobs = [
        Job(
            dataset=one.source.key,
            title=one.source.title,
            rows=cache / f"{one.source.key}.npy",
            cells=tuple(grid.cells(one.source.key, Sizes(every=one.source.sample_sizes, shown=one.source.shown_sizes))),
        )
        for one in sets
    ]
    missing = sum(len(results.missing(job.cells)) for job in jobs)
    total = sum(len(job.cells) for job in jobs)
    console.print(f"{total - missing:,} of {total:,} cells are in {path}; {missing:,} to measure.", highlight=False)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=console) as progress:
        run_missing(jobs, grid, results, progress, workers=os.cpu_count() or 1)
    return Study(sets=sets, results=results, cells=missing)


def batched_cost_ratio(rows: Float32Array, *, sets: int = 50, runs: int = 3) -> float:
    """Time of the costs of many center sets over the time of the bare float32 product of that shape, in one run.

    The product is made in blocks too, since all of it at once would not fit the memory: by whatever of some sizes of
    blocks is the quickest.
    """
    rng = np.random.default_rng(0)
    rows = np.array(rows)
    picked = rows[rng.choice(len(rows), (sets, N_CLUSTERS))].astype(np.float64)
    flat = picked.reshape(-1, rows.shape[1]).astype(np.float32)
    with threadpool_limits(limits=1, user_api="blas"):
        ours: list[float] = []
        bare: list[float] = []
        for _ in range(runs):
            bare += [_seconds(partial(_products, rows, flat, block)) for block in (256, 512, 1024, 4096)]
            ours.append(_seconds(partial(mean_costs, rows, picked)))
    return min(ours) / min(bare)


def _products(rows: Float32Array, centers: Float32Array, block: int) -> None:
    out = np.empty((len(centers), block), dtype=np.float32)
    for start in range(0, len(rows), block):
        part = rows[start : start + block]
        np.matmul(centers, part.T, out=out[:, : len(part)])


def _seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin
