"""Cost and seconds of k-means in other packages beside ours, on the same rows.

``python -m benchmarks.peers --quick`` for a look, without ``--quick`` for the record. The environment of another
package is made once, in the cache; one that cannot be made has a row that says so. Seeded runs are not private; they
are here to be repeated.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import sklearn
from rich.progress import Progress
from sklearn.cluster import KMeans

import pais
from benchmarks.data import DELTA, FLOOR_RUNS, N_CLUSTERS, DataSet, FloatArray, load
from benchmarks.peers.environment import DIFFPRIVLIB, answers
from benchmarks.tables import Cell, Table, parser, run

#: Costs over the floor and seconds of the fits, and a note.
Outcome = tuple[list[float], list[float], str]


def tables(options: argparse.Namespace, progress: Progress) -> Iterator[Table]:
    table = Table(
        name="peers",
        title="Other packages: cost over the floor and seconds of a fit",
        shown=(
            *("data", "package", "guarantee", "taken as public", "rows used", "median", "seconds", "fewest seconds"),
            *("seeds", "note"),
        ),
        remarks=[
            "Same preprocessed rows, k = 25. Cost: median over seeds, over the floor. Seconds: median of the fit "
            "alone, rows in memory as doubles. Non-private: 10 rounds, but for the first line.",
            "pais: constrained sampling, the size that the plan chooses; planning is inside the seconds; costs from "
            "seeded runs, seconds with secure randomness. laplace: radius and norms are l1.",
            "A guarantee is what the package itself declares. diffprivlib: the smallest and largest value of each "
            "column are taken as public, and it picks 2 to 7 rounds by itself.",
            "Lines are measured one after another, so a busy moment of the machine may hit one alone.",
        ],
    )
    for data in load(options, progress.console):
        for row in lines(data, options, progress):
            table.rows.append(row)
            progress.console.print(f"[dim]{row['data']}, {row['package']}, {row['guarantee']}: {row['median']}")
    yield table


def lines(data: DataSet, options: argparse.Namespace, progress: Progress) -> Iterator[dict[str, Cell]]:
    """The lines of one set: non-private ones first, then by epsilon."""
    rows, seeds = data.rows.astype(np.float64), options.seeds
    KMeans(N_CLUSTERS, n_init=1, random_state=0).fit(rows[:1000])  # Threads are started before the clock.
    version, plain = f"scikit-learn {sklearn.__version__}", {"guarantee": "not private", "taken as public": ""}
    note = f"cost of the best of {FLOOR_RUNS} fits, seconds of one"
    for package, rounds in ((f"{version}, to the end", 300), (version, 10)):
        models = [KMeans(N_CLUSTERS, n_init=1, max_iter=rounds, random_state=seed) for seed in range(seeds)]
        seconds = [_seconds(model.fit, rows) for model in models]
        costs = [data.cost(model.cluster_centers_) / data.floor for model in models]
        yield _row(data, package, plain, len(rows), (costs, seconds, "") if rounds == 10 else ([1.0], seconds, note))
    for epsilon in (1.0,) if options.quick else (1.0, 10.0):
        for mechanism in ("gaussian", "l2", "laplace"):
            delta = ", delta 1e-6" if mechanism == "gaussian" else ""
            words = {"guarantee": f"epsilon {epsilon:g}{delta}", "taken as public": "radius, center, norms"}
            kept, outcome = private(data, rows, seeds, epsilon, mechanism)
            yield _row(data, f"pais, {mechanism}", words, kept, outcome, epsilon)
        words = {"guarantee": f"epsilon {epsilon:g}", "taken as public": "bounds of columns"}
        package, outcome = diffprivlib(data, epsilon, options, progress)
        yield _row(data, package, words, len(rows), outcome, epsilon)


def private(data: DataSet, rows: FloatArray, seeds: int, epsilon: float, mechanism: str) -> tuple[int, Outcome]:
    """Rows that a plan keeps, costs of seeded fits, and seconds of fits with secure randomness."""
    order = 1.0 if mechanism == "laplace" else 2.0
    model = pais.DPKMeans(
        N_CLUSTERS,
        epsilon=epsilon,
        delta=DELTA if mechanism == "gaussian" else 0.0,
        radius=data.ball(order).radius,
        center=(0.0,) * rows.shape[1],
        norms=data.norms(order),
        mechanism=mechanism,
    )
    costs, seconds = [], []
    for seed in range(seeds):
        model.set_params(random_state=seed).fit(rows)
        costs.append(data.cost(model.cluster_centers_) / data.floor)
        seconds.append(_seconds(model.set_params(random_state=None).fit, rows))
    return round(model.plan_.expected_rows or len(rows)), (costs, seconds, "")


def diffprivlib(data: DataSet, epsilon: float, options: argparse.Namespace, progress: Progress) -> tuple[str, Outcome]:
    """The package with its version, and its fits."""
    file: Path = options.cache / "peers-rows.npy"
    np.save(file, data.rows)
    task = {"statistic": "kmeans", "file": str(file), "k": N_CLUSTERS, "epsilon": epsilon, "seeds": options.seeds}
    found, problem = answers(DIFFPRIVLIB, [task], options.cache, progress.console, options.limit)
    file.unlink()
    costs = [data.cost(np.array(fit["centers"])) / data.floor for fit in found]
    note = f"did not finish: {problem}" if problem else ""
    package = f"diffprivlib {found[0]['version']}" if found else "diffprivlib"
    return package, (costs, [fit["seconds"] for fit in found], note)


def _seconds(fit: Callable[[FloatArray], object], rows: FloatArray) -> float:
    start = time.perf_counter()
    fit(rows)
    return time.perf_counter() - start


def _row(
    data: DataSet, package: str, words: dict[str, str], used: int, outcome: Outcome, epsilon: float | None = None
) -> dict[str, Cell]:
    costs, seconds, note = outcome
    low, median, high = np.quantile(costs, [0.25, 0.5, 0.75]).tolist() if costs else (None,) * 3
    return {
        "data": data.title,
        "package": package,
        "epsilon": epsilon,
        **words,
        "rows used": used,
        "lower quartile": low,
        "median": median,
        "upper quartile": high,
        "seconds": round(float(np.median(seconds)), 3) if seconds else None,
        "fewest seconds": round(min(seconds), 3) if seconds else None,
        "seeds": len(seconds) or None,
        "note": note,
    }


if __name__ == "__main__":
    made = parser(__doc__, seeds=5)
    made.add_argument("--limit", type=float, default=300.0, help="seconds for all fits of a line of another package")
    run(made.parse_args(), tables)
