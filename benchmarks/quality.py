"""Cost on all rows of private k-means over the non-private floor: tables 1 to 4."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
from rich.progress import Progress

import pais
from benchmarks.data import DELTA, N_CLUSTERS, DataSet, FloatArray
from benchmarks.tables import Cell, Table, verdict
from pais.kmeans.result import KMeansValue

Rule = Literal["constrained", "coreset", "uniform", "none"]
Mechanism = Literal["gaussian", "l2", "laplace"]

RULES: tuple[Rule, ...] = ("constrained", "coreset", "uniform")
PURE_MECHANISMS: tuple[Mechanism, ...] = ("l2", "laplace")
PURE_TARGETS = {1.0: 1.15, 3.0: 1.10, 10.0: 1.06}
PURE_SETS = ("covertype", "kdd-protein", "synthetic")
SURVEY_TARGET = 1.03
FREE_TARGET = 1.02


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What one cell of a table is a median of."""

    file: str
    epsilon: float
    mechanism: Mechanism = "gaussian"
    sampling: Rule = "constrained"
    sample_size: int | Literal["free"] | None = None
    surveyed: bool = False

    def words(self) -> str:
        size = f"{self.sample_size:,} rows" if isinstance(self.sample_size, int) else f"size {self.sample_size}"
        facts = "surveyed" if self.surveyed else "public facts"
        return f"{self.file}, epsilon {self.epsilon:g}, {self.mechanism}, {self.sampling}, {size}, {facts}"


@dataclass(frozen=True, kw_only=True, eq=False)
class Costs:
    """Costs over the floor, one for each seed, and the expected rows of the plan."""

    ratios: FloatArray
    expected_rows: float
    n_rows: int

    @cached_property
    def median(self) -> float:
        return float(np.median(self.ratios))

    def cells(self) -> dict[str, Cell]:
        low, high = np.quantile(self.ratios, [0.25, 0.75]).tolist()
        share = f"{100.0 * self.expected_rows / self.n_rows:.1f} %"
        return {
            "expected rows": round(self.expected_rows),
            "share of rows": share,
            "lower quartile": low,
            "median": self.median,
            "upper quartile": high,
            "seeds": len(self.ratios),
        }


@dataclass(kw_only=True)
class Bench:
    """Runs cells, each once, whatever number of tables asks for it."""

    sets: list[DataSet]
    seeds: int
    progress: Progress
    known: dict[Setting, Costs] = field(default_factory=dict)

    def costs(self, cell: Setting) -> Costs:
        if cell not in self.known:
            data = next(data for data in self.sets if data.source.file == cell.file)
            costs = self._surveyed(data, cell) if cell.surveyed else self._planned(data, cell)
            self.progress.console.print(f"[dim]{cell.words()}: {costs.median:.4f}")
            self.known[cell] = costs
        return self.known[cell]

    def _planned(self, data: DataSet, cell: Setting) -> Costs:
        """One plan from public facts, one run for each seed."""
        order = 1.0 if cell.mechanism == "laplace" else 2.0
        plan = pais.plan_kmeans(
            n_clusters=N_CLUSTERS,
            n_features=data.rows.shape[1],
            epsilon=cell.epsilon,
            delta=DELTA if cell.mechanism == "gaussian" else 0.0,
            ball=data.ball(order),
            norms=data.norms(order),
            sampling=cell.sampling,
            sample_size=cell.sample_size,
            mechanism=cell.mechanism,
        )
        ratios = []
        for seed in self._seeds(cell):
            value = pais.run(plan, data.rows, random_state=seed).value
            assert isinstance(value, KMeansValue)
            ratios.append(data.cost(value.centers) / data.floor)
        assert plan.norms is not None
        expected = plan.norms.expected_size(plan.rule)
        return Costs(ratios=np.array(ratios), expected_rows=expected, n_rows=len(data.rows))

    def _surveyed(self, data: DataSet, cell: Setting) -> Costs:
        """Rows at their raw place; center, radius and norms are paid for in each run."""
        rows = data.rows + data.mean
        ratios, expected = [], []
        for seed in self._seeds(cell):
            model = pais.DPKMeans(
                n_clusters=N_CLUSTERS,
                epsilon=cell.epsilon,
                delta=DELTA if cell.mechanism == "gaussian" else 0.0,
                sampling=cell.sampling,
                sample_size=cell.sample_size,
                mechanism=cell.mechanism,
                random_state=seed,
            ).fit(rows)
            ratios.append(data.cost(model.cluster_centers_ - data.mean) / data.floor)
            assert model.plan_.norms is not None
            expected.append(model.plan_.norms.expected_size(model.plan_.rule))
        return Costs(ratios=np.array(ratios), expected_rows=float(np.median(expected)), n_rows=len(rows))

    def _seeds(self, cell: Setting) -> list[int]:
        return list(self.progress.track(range(self.seeds), description=cell.words()))


def public_facts(bench: Bench, epsilons: tuple[float, ...]) -> Table:
    """Table 1: radius, center and norms public."""
    table = Table(
        name="public",
        title="Cost over the floor, radius, center and norms public (epsilon, delta = 1e-6)",
        shown=("data", "expected rows", "share of rows", "epsilon", "median", "target", "result"),
        remarks=["The norms are taken as public, as the paper's preprocessing takes the radius and the center."],
    )
    for data in bench.sets:
        for epsilon in epsilons:
            costs = bench.costs(_stated(data, epsilon))
            target = data.source.targets.get(epsilon)
            table.rows.append(_row(data, epsilon, costs, costs.median, target))
    return table


def private_survey(bench: Bench, epsilons: tuple[float, ...]) -> Table:
    """Table 2: nothing stated, over table 1."""
    table = Table(
        name="survey",
        title="Nothing stated: the private survey pays for center, radius and norms",
        shown=("data", "epsilon", "median", "with public facts", "ratio", "target", "result"),
        remarks=["Rows at their raw place (uncentered), same expected rows, same total guarantee."],
    )
    for data in bench.sets:
        for epsilon in epsilons:
            public = bench.costs(_stated(data, epsilon))
            cell = Setting(file=data.source.file, epsilon=epsilon, sample_size=data.source.sample_size, surveyed=True)
            paid = bench.costs(cell)
            ratio = paid.median / public.median
            row = _row(data, epsilon, paid, ratio, SURVEY_TARGET)
            table.rows.append({**row, "with public facts": public.median, "ratio": ratio})
    return table


def sampling_for_free(bench: Bench, epsilons: tuple[float, ...]) -> Table:
    """Table 3: as few rows as cost no extra noise, over all rows at the same guarantee."""
    table = Table(
        name="free",
        title="Sampling for free: as few rows as cost no extra noise, against all rows",
        shown=("data", "epsilon", "expected rows", "share of rows", "median", "all rows", "ratio", "target", "result"),
    )
    for data in bench.sets:
        for epsilon in epsilons:
            free = bench.costs(Setting(file=data.source.file, epsilon=epsilon, sample_size="free"))
            whole = bench.costs(Setting(file=data.source.file, epsilon=epsilon, sampling="none"))
            ratio = free.median / whole.median
            row = _row(data, epsilon, free, ratio, FREE_TARGET)
            table.rows.append({**row, "all rows": whole.median, "ratio": ratio})
    return table


def pure(bench: Bench, epsilons: tuple[float, ...]) -> Table:
    """Table 4: pure epsilon."""
    table = Table(
        name="pure",
        title="Pure epsilon, radius, center and norms public",
        shown=("data", "mechanism", "expected rows", "epsilon", "median", "target", "result"),
        remarks=["laplace: ball and norms are l1, on the same rows."],
    )
    for data in _pure_sets(bench):
        for mechanism in PURE_MECHANISMS:
            for epsilon in epsilons:
                costs = bench.costs(_stated(data, epsilon, mechanism))
                target = None if data.source.file == "synthetic" else PURE_TARGETS.get(epsilon)
                row = _row(data, epsilon, costs, costs.median, target)
                table.rows.append({**row, "mechanism": mechanism})
    return table


def ordering(bench: Bench, epsilons: tuple[float, ...]) -> Table:
    """Table 4, second part: constrained <= coreset <= uniform."""
    table = Table(
        name="ordering",
        title="Pure epsilon, medians by rule at the same expected rows: constrained <= coreset <= uniform?",
        shown=("data", "mechanism", "epsilon", *RULES, "exception"),
    )
    for data in _pure_sets(bench):
        for mechanism in PURE_MECHANISMS:
            for epsilon in epsilons:
                by_rule = [bench.costs(_stated(data, epsilon, mechanism, rule)) for rule in RULES]
                row: dict[str, Cell] = {"data": data.source.title, "mechanism": mechanism, "epsilon": epsilon}
                for rule, costs in zip(RULES, by_rule, strict=True):
                    low, high = np.quantile(costs.ratios, [0.25, 0.75]).tolist()
                    row |= {rule: costs.median, f"{rule} lower quartile": low, f"{rule} upper quartile": high}
                table.rows.append({**row, "exception": _exceptions(by_rule)})
    return table


def _exceptions(by_rule: list[Costs]) -> str:
    """Neighbours out of order, by how much, and whether the quartiles overlap."""
    exceptions = []
    for (left, first), (right, second) in zip(
        list(zip(RULES, by_rule, strict=True))[:-1], list(zip(RULES, by_rule, strict=True))[1:], strict=True
    ):
        if first.median > second.median:
            apart = np.quantile(first.ratios, 0.25) > np.quantile(second.ratios, 0.75)
            excess = 100.0 * (first.median / second.median - 1.0)
            exceptions.append(f"{left} > {right} by {excess:.2f} %" + ("" if apart else " (quartiles overlap)"))
    return "; ".join(exceptions)


def _pure_sets(bench: Bench) -> list[DataSet]:
    return [data for data in bench.sets if data.source.file in PURE_SETS]


def _stated(
    data: DataSet, epsilon: float, mechanism: Mechanism = "gaussian", sampling: Rule = "constrained"
) -> Setting:
    size = data.source.sample_size
    return Setting(file=data.source.file, epsilon=epsilon, mechanism=mechanism, sampling=sampling, sample_size=size)


def _row(data: DataSet, epsilon: float, costs: Costs, value: float, target: float | None) -> dict[str, Cell]:
    row: dict[str, Cell] = {"data": data.source.title, "epsilon": epsilon}
    return {**row, **costs.cells(), "target": target, "result": verdict(value, target)}
