"""How a set is measured and judged: the fits of its cases, the non-private floor, and the tables of all of them."""

from __future__ import annotations

import hashlib
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import threadpoolctl
from sklearn.cluster import KMeans

import pais
from benchmarks.data import FLOOR_RUNS, FloatArray
from benchmarks.regimes.cases import MEAN_OVER_MEDIAN, PE_EPSILONS, PE_GOALS, PE_PUBLISHED, Case
from benchmarks.regimes.sets import tables
from benchmarks.tables import Cell, Table

# Distances that are held at once.
_MOST_DISTANCES = 1 << 23


def cost(rows: FloatArray, centers: FloatArray) -> float:
    """Sum of squared distances of all rows to their nearest centers."""
    origin = rows.mean(axis=0)
    moved = centers - origin
    square = np.einsum("ij,ij->i", moved, moved)
    block = max(1, _MOST_DISTANCES // len(centers))
    total = 0.0
    for start in range(0, len(rows), block):
        part = rows[start : start + block] - origin
        gap = part @ (-2.0 * moved.T)
        gap += square
        nearest = gap.min(axis=1) + np.einsum("ij,ij->i", part, part)
        total += float(np.maximum(nearest, 0.0).sum())
    return total


def one_center_cost(rows: FloatArray) -> float:
    """Cost of the mean of the rows, which is the best single center."""
    return cost(rows, rows.mean(axis=0, keepdims=True))


def floor_cost(rows: FloatArray, n_clusters: int) -> float:
    """Cost of the best of five non-private runs on all rows."""
    runs = (
        KMeans(n_clusters, init="k-means++", n_init=1, algorithm="lloyd", random_state=seed).fit(rows).cluster_centers_
        for seed in range(FLOOR_RUNS)
    )
    return min(cost(rows, centers) for centers in runs)


def area(epsilons: Sequence[float], losses: Sequence[float]) -> float:
    """Area under the loss by epsilon, by the trapezoid rule."""
    return float(np.trapezoid(losses, epsilons))


@dataclass(frozen=True, kw_only=True)
class Line:
    """The fits of a case, and what their costs are compared with. A fit that ends in an error has infinite cost."""

    case: Case
    n_rows: int
    n_features: int
    n_clusters: int
    one_center: float
    floor: float
    costs: list[float]
    seconds: list[float]
    sample_sizes: list[float]


def measured(
    directory: Path, cases: list[Case], seeds: int | None, floors: dict[str, float]
) -> tuple[list[Line], dict[str, float]]:
    """All cases of one set, in a process with one thread, and the floors that are known then."""
    threadpoolctl.threadpool_limits(1)
    warnings.simplefilter("ignore")
    table = tables(directory)[cases[0].table]
    rows = table.rows()
    key = f"{table.name} {digest(rows)}"
    if key not in floors:
        floors[key] = floor_cost(rows, table.n_clusters)
    one_center = one_center_cost(rows)
    lines = []
    for case in cases:
        made = settings(case, rows, table.n_clusters, table.radius)
        fits = [fitted(rows, made, seed) for seed in range(case.seeds if seeds is None else seeds)]
        costs, seconds, sizes = map(list, zip(*fits, strict=True))
        lines.append(
            Line(
                case=case,
                n_rows=rows.shape[0],
                n_features=rows.shape[1],
                n_clusters=table.n_clusters,
                one_center=one_center,
                floor=floors[key],
                costs=costs,
                seconds=seconds,
                sample_sizes=sizes,
            )
        )
    return lines, floors


def digest(rows: FloatArray) -> str:
    """Twelve hexadecimal digits that tell rows apart."""
    state = hashlib.sha256(repr(rows.shape).encode())
    state.update(rows.tobytes())
    return state.hexdigest()[:12]


def settings(case: Case, rows: FloatArray, n_clusters: int, stated_radius: float | None) -> pais.KMeansSettings:
    """The facts that a case states: none, a ball, or a ball and norms, which count as public."""
    radius, center, norms = None, None, None
    if case.stated != "nothing":
        middle = np.zeros(rows.shape[1]) if stated_radius is not None else rows.mean(axis=0)
        center = tuple(middle.tolist())
        order = 1.0 if case.mechanism == "laplace" else 2.0
        # In blocks, so that a large table is not copied.
        blocks = np.array_split(rows, max(1, len(rows) >> 16))
        norm = np.concatenate([np.linalg.norm(block - middle, ord=order, axis=1) for block in blocks])
        radius = float(norm.max()) if stated_radius is None else stated_radius
        if case.stated == "ball and norms":
            norms = pais.NormDistribution.from_private_norms(norm, radius=radius)
    return pais.KMeansSettings(
        n_clusters=n_clusters,
        epsilon=case.epsilon,
        delta=None if case.delta_power is None else len(rows) ** -case.delta_power,
        radius=radius,
        center=center,
        norms=norms,
        sample_size=case.sample_size,
        mechanism=case.mechanism,
    )


def fitted(rows: FloatArray, made: pais.KMeansSettings, seed: int) -> tuple[float, float, float]:
    """Cost on all rows, seconds, and expected rows of the sample."""
    start = time.perf_counter()
    try:
        fit = pais.fit(rows, made, random_state=seed, counted=False)
    except pais.PaisError:
        return float("inf"), time.perf_counter() - start, 0.0
    seconds = time.perf_counter() - start
    return cost(rows, fit.value.centers), seconds, float(fit.plan.expected_rows or 0.0)


def row_of(line: Line) -> dict[str, Cell]:
    """Costs over the floor of one case."""
    case, ratios, one_center = line.case, np.array(line.costs) / line.floor, line.one_center / line.floor
    return {
        "group": case.group,
        "data": case.table,
        "rows": line.n_rows,
        "columns": line.n_features,
        "k": line.n_clusters,
        "epsilon": case.epsilon,
        "mechanism": case.mechanism,
        "stated": case.stated,
        "expected rows": round(float(np.median(line.sample_sizes))),
        "median": float(np.median(ratios)),
        "mean": float(ratios.mean()),
        "worst": float(ratios.max()),
        "goal": case.goal,
        "result": judged(case, ratios, one_center),
        "one center": one_center,
        "worst / one center": float(ratios.max()) / one_center,
        "seconds": round(float(np.median(line.seconds)), 3),
        "errors": int(np.isinf(ratios).sum()),
        "seeds": len(ratios),
    }


def judged(case: Case, ratios: FloatArray, one_center: float) -> str:
    """Whether the goals of a case are met; a missed one is named where there are several."""
    if case.goal is None and case.one_center_goal is None:
        return "reported"
    if case.goal is not None and float(np.median(ratios)) > case.goal:
        return "missed"
    if case.goal is not None and float(ratios.mean()) > MEAN_OVER_MEDIAN * float(np.median(ratios)):
        return "missed: mean"
    if case.one_center_goal is not None and float(ratios.max()) > case.one_center_goal * one_center:
        return "missed: one center"
    return "met"


def costs(lines: Sequence[Line]) -> Table:
    return Table(
        name="regimes",
        title="Cost over the floor in many regimes",
        shown=(
            *("group", "data", "epsilon", "mechanism", "median", "mean", "worst", "goal", "result", "one center"),
            *("worst / one center", "seconds", "seeds"),
        ),
        remarks=[
            "Cost over the best of five non-private runs on all rows. Nothing is stated unless the column `stated` of "
            "the CSV says so; delta is the smaller of 1e-6 and 0.1 / n, and n^-1.1 in group pe.",
            "A goal is met if the median is at most the goal and the mean at most 1.03 times the median. In group zoo "
            "the worst run must cost at most 1.05 times as much as one center, the mean of all rows.",
            "Some cells are reported without a goal: those of the zoo in which the noise of one mean with the whole "
            "budget already adds more than 5 %, and the two heavy sets in which a thousandth of the rows carries more "
            "than a quarter of the variance. No goal is below the cost of one scikit-learn fit of ten rounds.",
            "Seconds: median of a fit in a process with one thread.",
        ],
        rows=[row_of(line) for line in lines],
    )


def areas(lines: Sequence[Line]) -> Table:
    """Area under the mean loss for each row by epsilon, of the sets of the PE-means protocol that are complete."""
    table = Table(
        name="regimes-areas",
        title="PE-means protocol: area under the mean loss of a row, epsilon 0.25 to 4",
        shown=("data", "area", "goal", "published", "floor", "result", "seeds"),
        remarks=[
            "Published: the better variant of PE-means. Its code could not be run here.",
            "Floor: the same area without noise.",
        ],
    )
    for name, published in PE_PUBLISHED.items():
        by_epsilon = {line.case.epsilon: line for line in lines if line.case.table == name}
        if set(by_epsilon) == set(PE_EPSILONS):
            members = [by_epsilon[epsilon] for epsilon in PE_EPSILONS]
            value = area(PE_EPSILONS, [float(np.mean(line.costs)) / line.n_rows for line in members])
            table.rows.append(
                {
                    "data": name,
                    "area": value,
                    "goal": PE_GOALS[name],
                    "published": published,
                    "floor": area(PE_EPSILONS, [line.floor / line.n_rows for line in members]),
                    "result": "met" if value <= PE_GOALS[name] else "missed",
                    "seeds": min(len(line.costs) for line in members),
                }
            )
    return table
