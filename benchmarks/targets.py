"""All targets of the published tables: which are met, which are missed, and by how much."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from benchmarks.coverage import LEAST_COVERED, LEAST_WARNED
from benchmarks.coverage_models import LEAST, MOST_FALSE
from benchmarks.logistic import MOST_RATIO
from benchmarks.prediction import MOST_LOSS
from benchmarks.published import AbsentError, Published
from benchmarks.regimes.cases import MEAN_OVER_MEDIAN, ONE_CENTER_GOAL
from benchmarks.stream.scale import FLAT_TARGET

Row = dict[str, str]


@dataclass(frozen=True, kw_only=True)
class Target:
    """A value and the one it has to reach."""

    table: str
    what: str
    group: str
    met: bool
    value: float
    target: float

    @property
    def miss(self) -> float:
        """How far the value is from its target, as a share of the target; 0 if the target is met."""
        return 0.0 if self.met else abs(self.value / self.target - 1.0)


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """A value, its target and whether it is met; the measure is named where a row has several."""

    value: float
    target: float
    met: bool
    measure: str = ""


def targets(published: Published) -> list[Target]:
    """The targets of all tables, missed ones first, the largest miss before the others."""
    found = [target for name in published.names() for target in _of_table(published, name)]
    return sorted(found, key=lambda target: (target.met, -target.miss))


def _of_table(published: Published, name: str) -> Iterator[Target]:
    try:
        rows = published.rows(name)
    except AbsentError:
        return
    shown = published.shown(name)
    judge = RULES.get(name, partial(_by_columns, shown))
    for row in rows:
        for judged in judge(row):
            words = ": ".join(filter(None, (_words(row, shown), judged.measure)))
            yield Target(
                table=name,
                what=words,
                group=row.get("group", ""),
                met=judged.met,
                value=judged.value,
                target=judged.target,
            )


def _by_columns(shown: list[str], row: Row) -> Iterator[Judgement]:
    """Every column of targets has the value before it, and the next column of results after it."""
    places = [place for place, column in enumerate(shown) if column.split()[-1] in ("target", "goal")]
    for place in places:
        value, target = shown[place - 1], shown[place]
        result = next((name for name in shown[place:] if name.split()[-1] == "result"), "result")
        if row.get(target) and row.get(result, "").startswith(("met", "missed")):
            measure = value if len(places) > 1 else ""
            yield Judgement(
                value=_number(row[value]), target=_number(row[target]), met=row[result] == "met", measure=measure
            )


def _fixed(column: str, target: float) -> Callable[[Row], Iterator[Judgement]]:
    """The target is not a column of the table. A miss within the error of the measurement is a miss that says so."""

    def judge(row: Row) -> Iterator[Judgement]:
        if row["result"].startswith(("met", "missed", "within error")):
            measure = "the errors of the fits allow the target" if row["result"] == "within error" else ""
            yield Judgement(value=_number(row[column]), target=target, met=row["result"] == "met", measure=measure)

    return judge


def _of_column(*columns: str) -> Callable[[Row], Iterator[Judgement]]:
    """The value is not in the column before the target; it is in the first of these columns that there is."""

    def judge(row: Row) -> Iterator[Judgement]:
        if row.get("target"):
            column = next(name for name in columns if name in row)
            yield Judgement(value=_number(row[column]), target=_number(row["target"]), met=row["result"] == "met")

    return judge


def _regimes(row: Row) -> Iterator[Judgement]:
    result, median = row["result"], _number(row["median"])
    if result == "missed: mean":
        yield Judgement(
            value=_number(row["mean"]) / median, target=MEAN_OVER_MEDIAN, met=False, measure="mean over median"
        )
    elif result == "missed: one center" or (result == "met" and not row["goal"]):
        worst = _number(row["worst / one center"])
        yield Judgement(value=worst, target=ONE_CENTER_GOAL, met=result == "met", measure="worst run over one center")
    elif result in ("met", "missed"):
        yield Judgement(value=median, target=_number(row["goal"]), met=result == "met")


def _captured(row: Row) -> Iterator[Judgement]:
    for column, goal in (("k = 5", "goal"), ("k = 10", "goal (10)")):
        if row.get(goal):
            value, target = _number(row[column]), _number(row[goal])
            yield Judgement(value=value, target=target, met=value >= target, measure=column)


def _below_adassp(row: Row) -> Iterator[Judgement]:
    best = min(_number(row[name]) for name in ("AdaSSP, published", "AdaSSP, tight noise"))
    yield Judgement(value=_number(row["pais"]), target=best, met=row["result"] == "met")


def _above_adassp(row: Row) -> Iterator[Judgement]:
    others = [row[name] for name in ("uniform", "coreset", "goal")]
    best = max(_number(other) for other in others if other)
    yield Judgement(value=_number(row["constrained"]), target=best, met=row["result"] == "met")


def _covered(row: Row) -> Iterator[Judgement]:
    value = _number(row["least coverage"])
    yield Judgement(value=value, target=LEAST, met=value >= LEAST)
    if row["false claims"]:
        value = _number(row["false claims"])
        yield Judgement(value=value, target=MOST_FALSE, met=value <= MOST_FALSE, measure="false claims")


def _held(row: Row) -> Iterator[Judgement]:
    """An interval holds the answer, or the result warns."""
    value = _number(row["warned" if row["result"] == "met, warned" else "covered"])
    target = LEAST_WARNED if row["result"] == "met, warned" else LEAST_COVERED
    yield Judgement(value=value, target=target, met=row["result"] != "missed")


def _held_variances(row: Row) -> Iterator[Judgement]:
    """An interval holds the variance, or the fit warns that much of it lies beyond the radius."""
    value = min(_number(row[name]) for name in ("least coverage", "least coverage, along"))
    warned = _number(row["warned"])
    if value < LEAST and warned >= LEAST_WARNED:
        yield Judgement(value=warned, target=LEAST_WARNED, met=True, measure="warned")
    else:
        yield Judgement(value=value, target=LEAST, met=value >= LEAST)


#: Tables in which a target is not simply the column after its value, or which have none.
RULES: dict[str, Callable[[Row], Iterator[Judgement]]] = {
    "audit": lambda _: iter(()),
    "coverage-models": _covered,
    "coverage-statistics": _held,
    "logistic-loss": _fixed("ratio of gaps", MOST_RATIO),
    "pca-captured": _captured,
    "pca-intervals": _held_variances,
    "prediction": _fixed("chosen / free cost", MOST_LOSS),
    "pca-speed": _of_column("ratio", "over scikit-learn"),
    "regimes": _regimes,
    "regression-large": _above_adassp,
    "regression-small": _below_adassp,
    "speed": _of_column("ratio"),
    "stream-memory": _fixed("over smallest", FLAT_TARGET),
    "stream-passes": _of_column("CPU ratio"),
}


def _words(row: Row, shown: list[str]) -> str:
    """What tells a row from the others: its cells of text, and epsilon."""
    words = []
    for column in shown:
        cell = row.get(column, "")
        if column == "epsilon" and cell:
            words.append(f"epsilon {cell}")
        elif column == "rows" and cell:
            words.append(f"{int(cell):,} rows")
        elif column in _NAMES and cell:
            words.append(cell)
    return ", ".join(words)


_NAMES = {
    *("data", "job", "compared with", "columns", "unit", "mechanism", "pass", "frame", "rows kept", "command", "fit"),
    *("sampling", "share of rows", "engine", "facts", "file", "measure", "size"),
    *("statistic", "table", "column", "by", "bounds"),
}


def _number(cell: str) -> float:
    return float(cell.rstrip(" %"))
