"""Private principal components: captured variance by sampling rule, and the intervals of explained variances.

``python -m benchmarks.pca --quick`` for a look, without ``--quick`` for the record. Seeded runs are not private; they
are here to be repeated.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from rich.progress import Progress

import pais
from benchmarks.coverage import LEAST_WARNED
from benchmarks.coverage_models import ADULT, LEAST
from benchmarks.data import DELTA, FloatArray
from benchmarks.tables import Cell, Table, parser, run
from experiments.paper.formats import read_parquet

EPSILONS = (0.1, 1.0)
NUMBERS = (5, 10)

# Intervals are checked for this many of the first components, as far as they stand above the noise.
INTERVALS, INTERVAL_EPSILONS, INTERVAL_FITS = 5, (0.3, 1.0, 3.0), 60


@dataclass(frozen=True, kw_only=True)
class Source:
    """A file, the share of its rows in a small sample, and the captured variances to reach at epsilon 0.1."""

    file: str
    title: str
    share: float
    goals: tuple[float | None, float | None]


SOURCES = (
    Source(file="ijcnn1", title="Ijcnn1", share=0.1, goals=(0.98, None)),
    Source(file="kdd-protein", title="KDD-Protein", share=0.02, goals=(0.965, 0.915)),
    Source(file="song-sample", title="Song sample", share=0.02, goals=(0.965, 0.915)),
)
# At epsilon 1, for the sample without extra noise.
GOALS_AT_ONE = (0.998, 0.998)

# Sampling rule, and whether the sample has the small size of the source.
KINDS = (("constrained", True), ("coreset", True), ("uniform", True), ("constrained", False), ("none", False))


@dataclass(frozen=True, kw_only=True, eq=False)
class Rows:
    """All rows of a file as they are, with their covariance matrix and its eigenvalues, the largest first."""

    source: Source
    rows: FloatArray
    covariance: FloatArray
    variances: FloatArray

    @classmethod
    def read(cls, source: Source, directory: Path) -> Rows:
        rows = np.asarray(read_parquet(directory / f"{source.file}.parquet"), dtype=np.float64)
        covariance = np.cov(rows, rowvar=False, bias=True)
        variances = np.asarray(np.linalg.eigvalsh(covariance)[::-1], dtype=np.float64)
        return cls(source=source, rows=rows, covariance=covariance, variances=variances)

    def captured(self, components: FloatArray, k: int) -> float:
        """Variance along the first components over that along the best ones."""
        along = np.einsum("ki,ij,kj->", components[:k], self.covariance, components[:k])
        return float(along / self.variances[:k].sum())


def tables(options: argparse.Namespace, progress: Progress) -> Iterator[Table]:
    sources = [source for source in SOURCES if (options.data / f"{source.file}.parquet").exists()]
    sources = sources[:1] if options.quick else sources
    if "captured" in options.only:
        yield captured([Rows.read(source, options.data) for source in sources], options.seeds, progress)
    if "intervals" in options.only:
        yield intervals(options.data, sources, 5 if options.quick else INTERVAL_FITS, progress)


def captured(sets: list[Rows], seeds: int, progress: Progress) -> Table:
    """Captured variance by rule."""
    table = Table(
        name="pca-captured",
        title="Variance captured by private components over that of the best components, nothing stated",
        shown=("data", "epsilon", "sampling", "share of rows", "k = 5", "goal", "k = 10", "goal (10)", "result"),
        remarks=[
            "All raw rows; the private survey of center, radius and norms is paid from the same epsilon, delta = 1e-6.",
            f"Medians of {seeds} seeds. The captured variance is that of all rows, unclipped, about their mean.",
        ],
    )
    for data in sets:
        for epsilon, (sampling, small) in progress.track(
            list(itertools.product(EPSILONS, KINDS)), description=data.source.title
        ):
            size: float | Literal["free"] = data.source.share * len(data.rows) if small else "free"
            models = [
                pais.DPPCA(
                    max(NUMBERS), epsilon=epsilon, delta=DELTA, sampling=sampling, sample_size=size, random_state=seed
                ).fit(data.rows)
                for seed in range(seeds)
            ]
            table.rows.append(_captured_row(data, epsilon, sampling, small, models))
    return table


def _captured_row(data: Rows, epsilon: float, sampling: str, small: bool, models: list[pais.DPPCA]) -> dict[str, Cell]:
    shares = [float(model.plan_.expected_rows or 0.0) / len(data.rows) for model in models]
    row: dict[str, Cell] = {
        "data": data.source.title,
        "epsilon": epsilon,
        "sampling": sampling,
        "size": "stated" if small else "free",
        "share of rows": "100 %" if sampling == "none" else f"{100.0 * float(np.median(shares)):.1f} %",
        "seeds": len(models),
    }
    has_goal = sampling == "constrained" and small == (epsilon < 1.0)
    goals = data.source.goals if epsilon < 1.0 else GOALS_AT_ONE
    met = []
    for k, goal, name in zip(NUMBERS, goals, ("goal", "goal (10)"), strict=True):
        ratios = np.array([data.captured(model.components_, k) for model in models])
        low, high = np.quantile(ratios, [0.25, 0.75]).tolist()
        row |= {f"k = {k}": f"{np.median(ratios):.4f}", f"lower quartile {k}": low, f"upper quartile {k}": high}
        if has_goal and goal is not None:
            row[name] = f"{goal:g}"
            met.append(float(np.median(ratios)) >= goal)
    return {**row, "result": ("met" if all(met) else "missed") if met else ""}


@dataclass(frozen=True, kw_only=True, eq=False)
class Known:
    """A table, what is public about it, and the weight of each row, which is not 1 if people have several rows."""

    title: str
    rows: Any
    facts: dict[str, Any]
    weights: FloatArray | None = None


def known_tables(data: Path, sources: list[Source]) -> list[Known]:
    """Tables of numbers with nothing stated, tables about people with stated bounds, and skewed ones."""
    tables = [
        Known(title=source.title, rows=np.asarray(read_parquet(data / f"{source.file}.parquet"), float), facts={})
        for source in sources
    ]
    columns = {name: fact for name, fact in ADULT.items() if name not in ("workclass", "income_class")}
    adult = pd.read_parquet(data / "adult.parquet")[list(columns)].dropna()
    tables.append(Known(title="Adult", rows=adult, facts={"columns": columns}))
    stated = {
        "age": (18, 100),
        "income": (0, 250_000),
        "balance": (0, 100_000),
        "visits": (0, 50),
        "region": ["north", "south", "east", "west", "centre"],
        "premium": bool,
    }
    people = pais.example_people(20_000).to_pandas().dropna()
    weights = 1.0 / people.groupby("customer_id")["age"].transform("size").to_numpy(float)
    facts = {"columns": stated, "unit": "customer_id"}
    tables.append(Known(title="example people, by person", rows=people, facts=facts, weights=weights))
    rng = np.random.default_rng(5)
    for n_rows in (20_000, 100_000):
        normal = rng.normal(size=(n_rows, 2)) @ rng.normal(size=(2, 6)) * 0.6 + 0.5 * rng.normal(size=(n_rows, 6))
        tables.append(Known(title="lognormal", rows=np.exp(0.8 * normal), facts={}))
    return tables


def intervals(data: Path, sources: list[Source], fits: int, progress: Progress) -> Table:
    """How often two standard errors hold the variances of the table."""
    table = Table(
        name="pca-intervals",
        title="Intervals of the explained variances: how often they hold the variances of the table",
        shown=(
            *("data", "rows", "epsilon", "components", "least coverage", "least coverage, along", "error, first"),
            *("error shown, first", "captured", "warned", "result"),
        ),
        remarks=[
            f"{fits} fits in each cell, sampling as by default. Coverage: share of the fits in which two standard "
            "errors hold the variance of the same principal component of all rows, unclipped but within stated bounds; "
            f"along: the variance of all rows along the released component. The least one over the first {INTERVALS} "
            "components, where they stand above the noise; components: their median number.",
            "Error, first: median relative error of the first variance; error shown: median of its standard error.",
            "Warned: share of the fits with a warning that much of the variance lies beyond the radius.",
            f"Met: least coverage of {LEAST}. Met, warned: below it, with a warning in {LEAST_WARNED:.0%} of the fits "
            "or more, as in the table of statistics. A thousandth of the rows of KDD-Protein carries more than a third "
            "of the variance, and lies beyond the radius.",
        ],
    )
    for known in progress.track(known_tables(data, sources), description="intervals"):
        table.rows += [_interval_row(known, epsilon, fits) for epsilon in INTERVAL_EPSILONS]
    return table


def _interval_row(known: Known, epsilon: float, fits: int) -> dict[str, Cell]:
    models = [
        pais.DPPCA(None, epsilon=epsilon, random_state=1000 + s, **known.facts).fit(known.rows) for s in range(fits)
    ]
    rows = models[0]._doubles(known.rows)
    covariance = np.cov(rows, rowvar=False, bias=True, aweights=known.weights)
    best = np.linalg.eigvalsh(covariance)[::-1]
    k = min(INTERVALS, len(best))
    numbers, gaps, errors, captured, warned = [], [], [], [], []
    for model in models:
        along = np.einsum("ki,ij,kj->k", model.components_, covariance, model.components_)
        numbers.append(min(k, model.n_above_noise_))
        gaps.append([np.abs(model.explained_variance_ - truth)[:k] for truth in (best, along)])
        errors.append(model.explained_variance_se_[:k])
        captured.append(along[:k].sum() / best[:k].sum())
        warned.append("beyond the radius" in (model.fit_.concern or ""))
    held = np.array(gaps) <= 2.0 * np.array(errors)[:, None, :]
    shown = np.arange(k) < np.array(numbers)[:, None]
    coverage = [
        min(float(held[shown[:, j], truth, j].mean()) for j in range(k) if shown[:, j].any()) for truth in (0, 1)
    ]
    met = "met" if min(coverage) >= LEAST else "met, warned" if np.mean(warned) >= LEAST_WARNED else "missed"
    return {
        "data": known.title,
        "rows": len(rows),
        "epsilon": epsilon,
        "components": float(np.median(numbers)),
        "least coverage": coverage[0],
        "least coverage, along": coverage[1],
        "error, first": float(np.median([gap[0][0] for gap in gaps]) / best[0]),
        "error shown, first": float(np.median([error[0] for error in errors]) / best[0]),
        "captured": float(np.median(captured)),
        "warned": float(np.mean(warned)),
        "fits": fits,
        "result": met,
    }


if __name__ == "__main__":
    run(parser(__doc__, seeds=10, only=("captured", "intervals")).parse_args(), tables)
