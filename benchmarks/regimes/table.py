"""Lines of the benchmark as rows of a table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.regimes.cases import MEAN_OVER_MEDIAN, PE_EPSILONS, PE_GOALS, PE_PUBLISHED
from benchmarks.regimes.protocol import area
from benchmarks.regimes.runner import Line
from benchmarks.tables import Cell, Table

SHOWN = (
    "group",
    "data",
    "epsilon",
    "mechanism",
    "median",
    "mean",
    "worst",
    "goal",
    "result",
    "one center",
    "worst / one center",
    "seconds",
    "seeds",
)
AREA_SHOWN = ("data", "area", "goal", "published", "floor", "result", "seeds")


def row_of(line: Line) -> dict[str, Cell]:
    """Costs over the floor of one case."""
    case, known = line.case, line.identity
    ratios = np.array([run.cost for run in line.runs]) / line.floor
    one_center = known.one_center / line.floor
    return {
        "group": case.group,
        "data": case.table,
        "rows": known.n_rows,
        "columns": known.n_features,
        "k": known.n_clusters,
        "epsilon": case.epsilon,
        "mechanism": case.mechanism,
        "stated": case.stated,
        "expected rows": round(float(np.median([run.sample_size for run in line.runs]))),
        "median": float(np.median(ratios)),
        "mean": float(ratios.mean()),
        "worst": float(ratios.max()),
        "goal": case.goal,
        "result": verdict(line, ratios, one_center),
        "one center": one_center,
        "worst / one center": float(ratios.max()) / one_center,
        "seconds": round(float(np.median([run.seconds for run in line.runs])), 3),
        "errors": sum(bool(run.error) for run in line.runs),
        "seeds": len(line.runs),
    }


def verdict(line: Line, ratios: np.ndarray, one_center: float) -> str:
    """Whether the goals of a case are met; a missed one is named where there are several."""
    case = line.case
    if case.goal is None and case.one_center_goal is None:
        return "reported"
    if case.goal is not None and float(np.median(ratios)) > case.goal:
        return "missed"
    if case.goal is not None and float(ratios.mean()) > MEAN_OVER_MEDIAN * float(np.median(ratios)):
        return "missed: mean"
    if case.one_center_goal is not None and float(ratios.max()) > case.one_center_goal * one_center:
        return "missed: one center"
    return "met"


def areas(lines: Sequence[Line]) -> Table:
    """Area under the mean loss for each row by epsilon, of the sets of the PE-means protocol that are complete."""
    table = Table(
        name="areas",
        prefix="regimes-",
        title="PE-means protocol: area under the mean loss of a row, epsilon 0.25 to 4",
        shown=AREA_SHOWN,
        remarks=[
            "Published: the better variant of PE-means. Its code could not be run here.",
            "Floor: the same area without noise.",
        ],
    )
    for name, published in PE_PUBLISHED.items():
        by_epsilon = {line.case.epsilon: line for line in lines if line.case.table == name}
        if set(by_epsilon) == set(PE_EPSILONS):
            members = [by_epsilon[epsilon] for epsilon in PE_EPSILONS]
            losses = [float(np.mean([run.cost for run in line.runs])) / line.identity.n_rows for line in members]
            floors = [line.floor / line.identity.n_rows for line in members]
            value = area(PE_EPSILONS, losses)
            table.rows.append(
                {
                    "data": name,
                    "area": value,
                    "goal": PE_GOALS[name],
                    "published": published,
                    "floor": area(PE_EPSILONS, floors),
                    "result": "met" if value <= PE_GOALS[name] else "missed",
                    "seeds": min(len(line.runs) for line in members),
                }
            )
    return table


def costs(lines: Sequence[Line]) -> Table:
    return Table(
        name="regimes",
        prefix="",
        title="Cost over the floor in many regimes",
        shown=SHOWN,
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


def progress_line(row: dict[str, Cell]) -> str:
    """One finished case in one line of text."""
    goal = "" if row["goal"] is None else f" goal {row['goal']:g}"
    facts = "" if row["stated"] == "nothing" else f" ({row['stated']} stated)"
    errors = f" errors {row['errors']}" if row["errors"] else ""
    return (
        f"{row['group']:13} {row['data']:26} eps {row['epsilon']:<5g}{row['mechanism']:8} median {row['median']:.4f} "
        f"mean {row['mean']:.4f} worst {row['worst']:.4f}{goal} {row['result']}; one center {row['one center']:.4g}, "
        f"worst / one center {row['worst / one center']:.3f}, {row['seconds']:.2f} s, rows {row['expected rows']:,}, "
        f"{row['seeds']} seeds{errors}{facts}"
    )
