"""Time and memory of a fit: table 5, as ratios measured in one run."""

from __future__ import annotations

import time
import tracemalloc
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from rich.progress import Progress
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

import pais
from benchmarks.core import clustered_rows
from benchmarks.data import DELTA, N_CLUSTERS, DataSet, FloatArray
from benchmarks.tables import Cell, Table, verdict
from pais.mechanisms import KMeans as PrivateKMeans
from pais.privacy.rules import UniformRule

SAMPLE_SIZE = 20_000
EPSILON = 1.0
SKLEARN_TARGET, ALL_ROWS_TARGET, MEMORY_TARGET = 0.3, 0.1, 0.3


@dataclass(frozen=True, kw_only=True)
class Jobs:
    """The fit, what it is compared with, and how many rounds each takes."""

    run: dict[str, Callable[[], object]]
    rounds: dict[str, int]


def speed(sets: list[DataSet], progress: Progress, *, repeats: int) -> Table:
    """Table 5: seconds of the jobs, interleaved, smallest of `repeats`; and the peak of a fit over its data."""
    rows = next((data.rows.astype(np.float64) for data in sets if data.source.file == "covertype"), None)
    name = "Covertype" if rows is not None else "synthetic rows"
    rows = clustered_rows() if rows is None else rows
    jobs = make_jobs(rows)
    times = interleaved(jobs, progress, repeats)
    best = {job: min(taken) for job, taken in times.items()}
    median = {job: float(np.median(taken)) for job, taken in times.items()}
    table = Table(
        name="speed",
        title=f"Speed: {name}, {rows.shape[0]:,} x {rows.shape[1]} float64, {SAMPLE_SIZE:,} expected rows, epsilon 1",
        shown=("job", "rounds", "seconds", "median seconds", "fit / job", "of medians", "target", "result"),
        remarks=[
            f"{repeats} interleaved runs in shuffled order, secure randomness, radius, center and norms stated.",
            "fit / job: smallest time over smallest time, each job at its quietest. Other work on the machine slows "
            "the all-rows jobs more than fit, so few repeats or medians flatter fit.",
        ],
    )
    targets = {"scikit-learn, all rows": SKLEARN_TARGET, "all rows, same rounds": ALL_ROWS_TARGET}
    for job, seconds in best.items():
        ratio, target = best["fit"] / seconds, targets.get(job)
        table.rows.append(
            {
                "job": job,
                "rounds": jobs.rounds[job],
                "seconds": seconds,
                "median seconds": median[job],
                "fit / job": ratio,
                "of medians": median["fit"] / median[job],
                "target": target,
                "result": verdict(ratio, target),
            }
        )
    peak = peak_bytes(jobs.run["fit"]) / rows.nbytes
    memory: dict[str, Cell] = {"job": "peak extra memory of fit / data", "fit / job": peak, "target": MEMORY_TARGET}
    table.rows.append({**memory, "result": verdict(peak, MEMORY_TARGET)})
    return table


def make_jobs(rows: FloatArray) -> Jobs:
    norm = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    radius = float(np.quantile(norm, 1.0))
    norms = pais.NormDistribution.from_private_norms(norm, radius=radius)
    center = (0.0,) * rows.shape[1]
    stated = pais.DPKMeans(N_CLUSTERS, epsilon=EPSILON, delta=DELTA, radius=radius, center=center, norms=norms)
    fitted = stated.set_params(sample_size=SAMPLE_SIZE).fit(rows)
    # The same mechanism on every row: the sampled plan's noise is larger than all rows need, so this is within budget.
    whole = replace(fitted.plan_, rule=UniformRule(rate=1.0, radius=radius))
    free = pais.DPKMeans(
        N_CLUSTERS, epsilon=EPSILON, delta=DELTA, radius=radius, center=center, norms=norms, sampling="none"
    )

    def lloyd() -> KMeans:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return KMeans(N_CLUSTERS, n_init=1, max_iter=10, algorithm="lloyd", random_state=0).fit(rows)

    return Jobs(
        run={
            "fit": lambda: stated.fit(rows),
            "scikit-learn, all rows": lloyd,
            "all rows, same rounds": lambda: pais.run(whole, rows),
            "all rows, rounds of its own plan": lambda: free.fit(rows),
        },
        rounds={
            "fit": rounds_of(fitted),
            "scikit-learn, all rows": lloyd().n_iter_,
            "all rows, same rounds": rounds_of(fitted),
            "all rows, rounds of its own plan": rounds_of(free.fit(rows)),
        },
    )


def rounds_of(model: pais.DPKMeans) -> int:
    mechanism = model.plan_.mechanism
    assert isinstance(mechanism, PrivateKMeans)
    return len(mechanism.rounds)


def interleaved(jobs: Jobs, progress: Progress, repeats: int) -> dict[str, list[float]]:
    """Times of each job, all jobs taking turns so that a slow moment of the machine hits all alike.

    The order is shuffled in every turn: a job right after scikit-learn's takes longer, and in a fixed order that would
    always be the same job.
    """
    rng = np.random.default_rng(0)
    names = list(jobs.run)
    times: dict[str, list[float]] = {name: [] for name in jobs.run}
    for _ in progress.track(range(repeats), description="speed"):
        for name in rng.permutation(names).tolist():
            start = time.perf_counter()
            jobs.run[name]()
            times[name].append(time.perf_counter() - start)
    return times


def peak_bytes(run: Callable[[], object]) -> int:
    """Largest memory held at once during a run beyond what was held before, as NumPy and Python report it."""
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        run()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return peak - before
