"""The speed of fits and of their parts in memory, as ratios within one run, and the memory of a fit.

``python -m benchmarks.speed --only small kernels`` for a look, without ``--only`` for all. Every line compares two jobs
that took turns in a shuffled order. Seconds depend on the machine more than ratios of jobs that take turns.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
from rich.progress import Progress
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs
from sklearn.decomposition import PCA
from sklearn.linear_model import LinearRegression

import pais
from benchmarks.data import DELTA, N_CLUSTERS, FloatArray
from benchmarks.regression_sets import LARGE
from benchmarks.tables import Cell, Table, parser, run, verdict
from benchmarks.timing import Run, compared, interleaved, resident_peak
from experiments.paper.datasets import preprocess
from experiments.paper.formats import read_parquet
from pais.privacy.rules import ConstrainedRule, UniformRule
from pais.privacy.weights import closed_form_weight

BLOBS = (2_000_000, 16)
SPREAD = 2.0
#: Half the side of the cube that the centers of the blobs are drawn from.
BOXES = {"blobs": 10.0, "near blobs": 2.5}
SMALL, SMALL_CLUSTERS = (5_000, 5), 6
KERNEL_ROWS = (566_486, 54)
SAMPLE_SIZE = 20_000
TURNS = {"blobs": 5, "covertype": 3, "kernels": 10, "small": 30, "models": 7}
MEMORY_TARGET, MODEL_TARGET = 0.15, 0.5
DEFAULT, STATED, SKLEARN = "default fit, nothing stated", "fit, radius, center and norms stated", "scikit-learn KMeans"

#: Lines of the table of k-means about one kind of rows.
Part = Callable[[argparse.Namespace, Progress], Iterator[dict[str, Cell]]]


#: A job, the one that it is compared with, and the largest ratio that meets the target.
Line = tuple[str, str, float | None]


def tables(options: argparse.Namespace, progress: Progress) -> Iterator[Table]:
    parts = [part for name, part in PARTS.items() if name in options.only]
    if parts:
        yield kmeans_table(parts, options, progress)
    if "pca" in options.only:
        yield pca_table(options, progress)
    if "regression" in options.only:
        yield regression_table(options, progress)


def kmeans_table(parts: list[Part], options: argparse.Namespace, progress: Progress) -> Table:
    table = Table(
        name="speed",
        title="Speed and memory of fits and their parts, epsilon 1",
        shown=("data", "job", "compared with", "ms", "its ms", "ratio", "quartiles", "of minima", "target", "result"),
        remarks=[
            "Jobs on the same rows take turns, in a shuffled order. ms: medians. Ratio: the median of the ratios in a "
            "turn, with their quartiles; a target is judged by it. Of minima: smallest time over smallest time.",
            "Secure randomness. Epsilon differs from turn to turn by a millionth, so that no plan is reused. The seeds "
            "of scikit-learn differ too.",
            f"blobs: {N_CLUSTERS} Gaussian blobs of standard deviation {SPREAD:g} around centers drawn from a cube of "
            f"side {2 * BOXES['blobs']:g}; near blobs: of side {2 * BOXES['near blobs']:g}, so that they overlap.",
            "Covertype: preprocessed as in the paper, at its raw place. scikit-learn has n_init=1, and its default "
            "max_iter and tol unless rounds are named.",
            "Passes against einsum norms have no target: the norms alone take about as long as memory needs to deliver "
            "the rows, and a pass does more with them. Whole fits have targets.",
            "Memory: the peak of a separate process above what it held before the fit, over the bytes of the data.",
            f"Load average of the minute before the run: {os.getloadavg()[0]:.1f}.",
        ],
    )
    for part in parts:
        for row in part(options, progress):
            table.rows.append(row)
            progress.console.print(f"[dim]{row['data']}: {row['job']}: {row['ratio']:.3g}")
    return table


def timed(
    data: str, jobs: dict[str, Run], lines: list[Line], turns: int, progress: Progress, *, warm: bool = False
) -> Iterator[dict[str, Cell]]:
    """Ratios of jobs on the same rows, which take turns."""
    times = interleaved(jobs, progress.track(range(turns), description=data), warm=warm)
    for job, against, target in lines:
        cells = compared(times[job], times[against])
        result = verdict(float(str(cells["ratio"])), target)
        yield {"data": data, "job": job, "compared with": against, **cells, "target": target, "result": result}


def blobs(name: str) -> FloatArray:
    n_rows, n_features = BLOBS
    box = (-BOXES[name], BOXES[name])
    rows, _ = make_blobs(n_rows, n_features, centers=N_CLUSTERS, cluster_std=SPREAD, center_box=box, random_state=0)
    return np.asarray(rows)


def blob_lines(name: str, options: argparse.Namespace, progress: Progress) -> Iterator[dict[str, Cell]]:
    rows = blobs(name)
    facts = stated_facts(rows, rows.mean(axis=0))
    jobs: dict[str, Run] = {
        DEFAULT: lambda turn: private(turn).fit(rows),
        STATED: lambda turn: private(turn, **facts).fit(rows),
        SKLEARN: lambda turn: KMeans(N_CLUSTERS, n_init=1, random_state=turn).fit(rows),
    }
    lines: list[Line] = [(DEFAULT, SKLEARN, 0.08), (STATED, SKLEARN, 0.05)]
    yield from timed(sized(name, rows), jobs, lines, options.factor * TURNS["blobs"], progress)


def covertype_lines(options: argparse.Namespace, progress: Progress) -> Iterator[dict[str, Cell]]:
    path = options.data / "covertype.parquet"
    if not path.exists():
        progress.console.print(f"[yellow]{path.name} is not there: its lines are left out.")
        return
    paper = preprocess(read_parquet(path))
    rows = paper.rows + paper.mean
    facts = stated_facts(rows, paper.mean)
    small = private(0, **facts, sample_size=SAMPLE_SIZE).fit(rows).plan_
    # The same mechanism on every row: the sampled plan's noise is larger than all rows need, so this is within budget.
    whole = replace(small, rule=UniformRule(rate=1.0, radius=facts["radius"]))
    few = f"{STATED}, {SAMPLE_SIZE:,} rows"
    jobs: dict[str, Run] = {
        DEFAULT: lambda turn: private(turn).fit(rows),
        few: lambda turn: private(turn, **facts, sample_size=SAMPLE_SIZE).fit(rows),
        SKLEARN: lambda turn: KMeans(N_CLUSTERS, n_init=1, random_state=turn).fit(rows),
        f"{SKLEARN}, 10 rounds": lambda turn: KMeans(N_CLUSTERS, n_init=1, max_iter=10, random_state=turn).fit(rows),
        "all rows, same rounds and noise": lambda turn: pais.run(whole, rows),
    }
    lines: list[Line] = [
        (DEFAULT, SKLEARN, 0.06),
        (few, f"{SKLEARN}, 10 rounds", 0.3),
        (few, "all rows, same rounds and noise", 0.1),
    ]
    yield from timed(sized("Covertype", rows), jobs, lines, options.factor * TURNS["covertype"], progress)


def small_lines(options: argparse.Namespace, progress: Progress) -> Iterator[dict[str, Cell]]:
    n_rows, n_features = SMALL
    rows, _ = make_blobs(n_rows, n_features, centers=SMALL_CLUSTERS, cluster_std=SPREAD, random_state=0)
    jobs: dict[str, Run] = {
        DEFAULT: lambda turn: private(turn, n_clusters=SMALL_CLUSTERS).fit(rows),
        SKLEARN: lambda turn: KMeans(SMALL_CLUSTERS, n_init=1, random_state=turn % 1000).fit(rows),
    }
    lines: list[Line] = [(DEFAULT, SKLEARN, 2.0)]
    data = f"{sized('small blobs', rows)}, k = {SMALL_CLUSTERS}"
    yield from timed(data, jobs, lines, options.factor * TURNS["small"], progress, warm=True)


def kernel_lines(options: argparse.Namespace, progress: Progress) -> Iterator[dict[str, Cell]]:
    """Passes and planning against bare NumPy, on rows of the shape and the norms of Covertype."""
    rows = clustered_rows()
    norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    radius = float(np.quantile(norms, 0.975))
    ball, inside = pais.Ball(radius=radius), np.minimum(norms, radius)
    distribution = pais.NormDistribution.from_private_norms(norms, radius=radius)
    linear = pais.LinearProfile(intercept=0.1, slope=1.0 / radius)
    gaussian = pais.GaussianProfile(count_scale=10.0, sum_scale=radius, n_iterations=5)
    plan = pais.calibrate("constrained", linear, distribution, epsilon=1.0, sample_size=SAMPLE_SIZE)
    assert isinstance(plan.rule, ConstrainedRule)
    rule, at_one = plan.rule, plan.profile(1.0, inside)

    def noise(profile: Any, turn: int, **delta: float) -> object:
        epsilon = 1.0 + 1e-6 * turn
        return pais.calibrate("constrained", profile, distribution, epsilon=epsilon, sample_size=SAMPLE_SIZE, **delta)

    norm, einsum = "np.linalg.norm", "einsum norms"
    jobs: dict[str, Run] = {
        norm: lambda _: np.linalg.norm(rows, axis=1),
        einsum: lambda _: np.sqrt(np.einsum("ij,ij->i", rows, rows)),
        "weights, safe table": lambda _: rule.evaluate(inside),
        "weights, closed form": lambda _: closed_form_weight(at_one, 1.0),
        "blocked pass": lambda _: pais.sample(rows, ball=ball, rule=rule, strategy="pass"),
        "thinning pass": lambda _: pais.sample(rows, ball=ball, rule=rule, strategy="thin"),
        "noise for a target size, pure": lambda turn: noise(linear, turn),
        "noise for a target size, Gaussian": lambda turn: noise(gaussian, turn, delta=DELTA),
    }
    lines: list[Line] = [
        ("noise for a target size, Gaussian", norm, 0.2),
        ("noise for a target size, pure", norm, 0.3),
        ("thinning pass", einsum, None),
        ("blocked pass", einsum, None),
        ("weights, safe table", norm, 0.2),
        ("weights, closed form", norm, None),
    ]
    data = sized("rows like Covertype's", rows)
    yield from timed(data, jobs, lines, options.factor * TURNS["kernels"], progress, warm=True)


def memory_lines(_: argparse.Namespace, progress: Progress) -> Iterator[dict[str, Cell]]:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        share = pool.submit(memory_share).result()
    if share is None:
        progress.console.print("Memory is left out: this is not Linux.")
        return
    yield {
        "data": f"blobs, {BLOBS[0]:,} x {BLOBS[1]}",
        "job": "peak memory of a default fit above the data, resident",
        "compared with": "bytes of the data",
        "ratio": share,
        "target": MEMORY_TARGET,
        "result": verdict(share, MEMORY_TARGET),
    }


def memory_share() -> float | None:
    warnings.simplefilter("ignore", UserWarning)
    rows = blobs("blobs")
    private(0).fit(rows[:SAMPLE_SIZE])  # what the first fit of a process loads and keeps
    extra = resident_peak(lambda: private(1).fit(rows))
    return None if extra is None else extra / rows.nbytes


def private(turn: int, n_clusters: int = N_CLUSTERS, **settings: Any) -> pais.DPKMeans:
    return pais.DPKMeans(n_clusters, epsilon=1.0 + 1e-6 * turn, delta=DELTA, **settings)


def stated_facts(rows: FloatArray, center: FloatArray) -> dict[str, Any]:
    """Facts about the rows, taken as public."""
    gap = rows - center
    norm = np.sqrt(np.einsum("ij,ij->i", gap, gap))
    radius = float(norm.max())
    norms = pais.NormDistribution.from_private_norms(norm, radius=radius)
    return {"radius": radius, "center": tuple(center.tolist()), "norms": norms}


def clustered_rows() -> FloatArray:
    """Root mean square norm near 0.44 of the 97.5 % quantile, as Covertype has it."""
    rng = np.random.default_rng(0)
    rows: FloatArray = rng.standard_normal(KERNEL_ROWS)
    rows *= rng.lognormal(sigma=0.62, size=(KERNEL_ROWS[0], 1))
    return rows


def sized(name: str, rows: FloatArray) -> str:
    return f"{name}, {rows.shape[0]:,} x {rows.shape[1]}"


PARTS: dict[str, Part] = {
    "blobs": lambda options, progress: blob_lines("blobs", options, progress),
    "near-blobs": lambda options, progress: blob_lines("near blobs", options, progress),
    "covertype": covertype_lines,
    "kernels": kernel_lines,
    "memory": memory_lines,
    "small": small_lines,
}


def pca_table(options: argparse.Namespace, progress: Progress) -> Table:
    """Principal components of Covertype over those of scikit-learn."""
    rows = np.ascontiguousarray(preprocess(read_parquet(options.data / "covertype.parquet")).rows, dtype=np.float64)
    facts = stated_facts(rows, np.zeros(rows.shape[1]))
    radius, norms = facts["radius"], facts["norms"]

    def fit(turn: int, **stated: Any) -> pais.DPPCA:
        return pais.DPPCA(10, epsilon=1.0 + 1e-6 * turn, delta=DELTA, **stated).fit(rows)

    plan = fit(0, radius=radius, norms=norms).plan_
    sklearn = "scikit-learn, all rows"
    jobs: dict[str, Run] = {
        "fit, radius and norms stated": lambda turn: fit(turn, radius=radius, norms=norms),
        "run of a plan made before": lambda _: pais.run(plan, rows),
        "fit, radius stated": lambda turn: fit(turn, radius=radius),
        "fit, nothing stated": fit,
        sklearn: lambda _: PCA(10).fit(rows),
        f"{sklearn}, svd_solver='full'": lambda _: PCA(10, svd_solver="full").fit(rows),
    }
    table = Table(
        name="pca-speed",
        title=f"Speed: Covertype, {rows.shape[0]:,} x {rows.shape[1]} float64, 10 components, epsilon 1",
        shown=("job", *RATIO_COLUMNS),
        remarks=[
            RATIO_REMARK,
            "The default of scikit-learn multiplies the rows with themselves, which is the speed of memory for 54 "
            "columns. A private run reads each row once for its norm, and multiplies the rows of the sample. A plan "
            "can be made before the rows are there.",
        ],
    )
    lines: list[Line] = [(job, sklearn, MODEL_TARGET if place < 2 else None) for place, job in enumerate(jobs)]
    table.rows += timed(table.title, jobs, lines, options.factor * TURNS["models"], progress)
    return table


def regression_table(options: argparse.Namespace, progress: Progress) -> Table:
    """Linear regression on a table of the shape of Covertype over that of scikit-learn."""
    X, y = LARGE[-1].load(options.data)
    # As many features as the paper has, which are those and the target again.
    X, y = np.column_stack([X, y])[: KERNEL_ROWS[0]], y[: KERNEL_ROWS[0]]
    low, high = X.min(axis=0), X.max(axis=0)
    ends = zip(low.tolist(), np.where(high > low, high, low + 1.0).tolist(), strict=True)
    columns = {**{f"x{place}": pair for place, pair in enumerate(ends)}, "y": (float(y.min()), float(y.max()))}

    def fit(turn: int, **settings: Any) -> object:
        return pais.DPLinearRegression(epsilon=1.0 + 1e-6 * turn, delta=DELTA, **settings).fit(X, y)

    sklearn, stated = "scikit-learn LinearRegression", "pais, bounds stated"
    jobs: dict[str, Run] = {
        sklearn: lambda _: LinearRegression().fit(X, y),
        stated: lambda turn: fit(turn, columns=columns),
        f"{stated}, 5 % of the rows": lambda turn: fit(turn, columns=columns, sample_size=0.05 * len(y)),
        "pais, nothing stated": fit,
    }
    table = Table(
        name="regression-time",
        title=f"Time of a fit on {X.shape[0]:,} x {X.shape[1]} in memory",
        shown=("fit", *RATIO_COLUMNS),
        remarks=[RATIO_REMARK],
    )
    lines: list[Line] = [(job, sklearn, MODEL_TARGET if job == stated else None) for job in jobs]
    rows = timed(table.title, jobs, lines, options.factor * TURNS["models"], progress)
    table.rows += [{"fit": row["job"], **row} for row in rows]
    return table


RATIO_COLUMNS = ("ms", "ms, quartiles", "of minima", "of work", "ratio", "target", "result")
RATIO_REMARK = (
    "Medians of turns in shuffled order, secure randomness. Ratio: the median of the ratios to scikit-learn's default "
    "in a turn. Of minima: smallest time over smallest time. Of work: ratio of the seconds of all threads together, "
    "which other work on the machine changes less."
)


if __name__ == "__main__":
    made = parser(__doc__, only=(*PARTS, "pca", "regression"))
    made.add_argument("--factor", type=int, default=1, help="so many times the usual turns")
    run(made.parse_args(), tables)
