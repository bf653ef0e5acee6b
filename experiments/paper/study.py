"""The study from data to results: prepare the sets that are present, run what is missing, keep what is done."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from experiments.paper.datasets import Prepared, present
from experiments.paper.families import Workbench, measure
from experiments.paper.grid import Cell, Grid, Sizes, config_hash
from experiments.paper.results import Measured, Results


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


# Results reach the disk at least this often, in seconds.
_SAVE_EVERY = 10.0


@dataclass(frozen=True, kw_only=True)
class Job:
    """Cells of one data set, and where its prepared rows lie."""

    dataset: str
    title: str
    rows: Path
    cells: tuple[Cell, ...]


def run_missing(jobs: list[Job], grid: Grid, results: Results, progress: Progress, *, workers: int) -> None:
    """Measure every cell without results: costs and coresets side by side, then times alone on the machine."""
    began, before = time.monotonic(), results.minutes
    try:
        for job in jobs:
            side_by_side = [cell for cell in job.cells if cell.kind != "time"]
            _in_processes(job, results.missing(side_by_side), grid, results, progress, workers)
        for job in jobs:
            alone = [cell for cell in job.cells if cell.kind == "time"]
            _in_processes(job, results.missing(alone), grid, results, progress, 1)
    finally:
        results.minutes = before + (time.monotonic() - began) / 60.0
        results.save()


def _in_processes(job: Job, cells: list[Cell], grid: Grid, results: Results, progress: Progress, workers: int) -> None:
    if not cells:
        return
    what = "times" if cells[0].kind == "time" else "costs and coresets"
    bar = progress.add_task(f"{job.title}: {what}", total=len(cells))
    # Spawned, not forked: the parent has threads.
    context = get_context("spawn")
    with ProcessPoolExecutor(
        workers, mp_context=context, initializer=_open, initargs=(str(job.rows), grid.center_sets, workers == 1)
    ) as pool:
        # The longest first, so that no core waits for the last one.
        cells = sorted(cells, key=lambda cell: cell.sample_size or 1 << 40, reverse=True)
        waiting = {pool.submit(_measure, cell, grid.repetitions_of(cell)): cell for cell in cells}
        try:
            _collect(waiting, results, lambda: progress.advance(bar))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _collect(waiting: dict[Future[list[Measured]], Cell], results: Results, tick: Callable[[], None]) -> None:
    saved = time.monotonic()
    while waiting:
        done, _ = wait(waiting, timeout=_SAVE_EVERY, return_when=FIRST_COMPLETED)
        for future in done:
            results.add(waiting.pop(future), future.result())
            tick()
        if time.monotonic() - saved > _SAVE_EVERY:
            results.save()
            saved = time.monotonic()


_bench: Workbench | None = None


def _open(rows: str, center_sets: int, alone: bool) -> None:
    """In a worker: map the prepared rows. Ctrl-C is the parent's business, and without a parent there is no work."""
    global _bench
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_leave_with, args=(os.getppid(),), daemon=True).start()
    if alone and hasattr(os, "sched_setaffinity"):
        # Times are compared on one core: a pass on two would look cheap beside a DP-Lloyd on one.
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    _bench = Workbench(rows=np.load(rows, mmap_mode="r"), center_sets=center_sets)


def _leave_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


def _measure(cell: Cell, repetitions: int) -> list[Measured]:
    assert _bench is not None
    return measure(cell, _bench, repetitions)
