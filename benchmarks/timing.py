"""Times of jobs that take turns in one run, as medians with their spread, and ratios of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.tables import Cell

#: A job is given the number of its turn, so that it can change its arguments a little: no answer is kept for the next.
Run = Callable[[int], object]


@dataclass(kw_only=True)
class Times:
    """Seconds of a job in every turn, on the clock and of all threads together."""

    seconds: list[float] = field(default_factory=list)
    work: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return float(np.median(self.seconds))


def interleaved(jobs: Mapping[str, Run], turns: Iterable[int], *, warm: bool = False) -> dict[str, Times]:
    """Times of jobs that take turns, so that a slow moment of the machine hits all alike.

    The order is shuffled in every turn: a job right after a heavy one takes longer, and in a fixed order that would
    always be the same job. A warm job runs once, untimed, before each timed run.
    """
    rng, names = np.random.default_rng(0), list(jobs)
    times = {name: Times() for name in jobs}
    for turn in turns:
        for name in rng.permutation(names).tolist():
            if warm:
                jobs[name](-turn - 1)
            start, worked = time.perf_counter(), time.process_time()
            jobs[name](turn)
            times[name].seconds.append(time.perf_counter() - start)
            times[name].work.append(time.process_time() - worked)
    return times


def compared(times: Times, base: Times) -> dict[str, Cell]:
    """Medians and quartiles of a job, and its ratios to another: the median ratio of a turn, and that of the minima."""
    ratios = np.array(times.seconds) / np.array(base.seconds)
    return {
        "ms": 1e3 * times.median,
        "ms, quartiles": quartiles([1e3 * value for value in times.seconds]),
        "its ms": 1e3 * base.median,
        "its quartiles": quartiles([1e3 * value for value in base.seconds]),
        "ratio": float(np.median(ratios)),
        "quartiles": quartiles(ratios.tolist()),
        "of minima": min(times.seconds) / min(base.seconds),
        "of work": float(np.median(np.array(times.work) / np.array(base.work))),
        "turns": len(times.seconds),
    }


def quartiles(values: list[float]) -> str:
    low, high = (f"{value:,.0f}" if value >= 100.0 else f"{value:.3g}" for value in np.quantile(values, [0.25, 0.75]))
    return f"{low} to {high}"


def resident_peak(run: Callable[[], object]) -> int | None:
    """Largest memory of a run beyond what was held before, as Linux counts resident pages; None elsewhere."""
    mark = Path("/proc/self/clear_refs")
    if not mark.exists():
        return None
    mark.write_text("5", encoding="ascii")  # the peak begins again at what is resident now
    before = resident_bytes("VmRSS")
    run()
    return resident_bytes("VmHWM") - before


def resident_bytes(key: str) -> int:
    """Resident memory of this process, as Linux counts it: VmRSS now, or VmHWM at most so far."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(f"{key}:"))
