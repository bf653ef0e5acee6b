"""The demonstration: four sampling methods at the same guarantee, on a bundled public sample."""

from __future__ import annotations

import importlib.resources
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table as RichTable
from sklearn.cluster import KMeans
from sklearn.metrics import pairwise_distances_argmin_min

from pais._base.numerics import FloatArray
from pais.cli import files, options, show
from pais.data.labels import CenterModel
from pais.data.tables import Table, read
from pais.kmeans.planning import KMeansSettings
from pais.kmeans.result import KMeansFit
from pais.pipeline import fit as private_fit
from pais.privacy.calibration import Sampling
from pais.privacy.profiles import GaussianProfile
from pais.show.page import ReportHeader, today

N_CLUSTERS, EPSILON, DELTA = 25, 1.0, 1e-6
TITLE, DATA_NAME = "Private k-means: demonstration", "Covertype, a public sample of 30,000 rows"
SAMPLINGS: tuple[Sampling | str, ...] = ("constrained", "coreset", "uniform", "none")
REFERENCE_RUNS = 3

# Share of the rows that the sampling methods keep. A radius at a quantile makes them differ in nothing but sampling.
SAMPLE_SHARE = 0.1
QUANTILE = 0.99


@dataclass(frozen=True, kw_only=True)
class DemoRow:
    """Medians over the runs of one sampling method."""

    sampling: str
    expected_rows: float
    noise: float
    relative_cost: float
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Demo:
    """The comparison of the methods, and the first constrained run for the report."""

    rows: list[DemoRow]
    n_rows: int
    repeats: int
    reference_seconds: float
    fit: KMeansFit

    def describe(self) -> dict[str, Any]:
        return {
            "data": "covertype-sample",
            "n_rows": self.n_rows,
            "n_clusters": N_CLUSTERS,
            "epsilon": EPSILON,
            "delta": DELTA,
            "repeats": self.repeats,
            "note": self.fit.certificate.note,
            "reference": {
                "what": f"scikit-learn KMeans, best of {REFERENCE_RUNS} runs; not private, for this comparison only",
                "seconds": self.reference_seconds,
            },
            "rows": [asdict(row) for row in self.rows],
        }


def demo(wanted: options.Demo) -> None:
    """Run the comparison, write the first constrained run as a release, and show the table."""
    files.require_free([wanted.out / name for name in files.RELEASE], overwrite=True)
    with show.watch(quiet=wanted.quiet) as bar:
        table = bundled_sample()
        comparison = compare(table, repeats=wanted.repeats, seed=wanted.seed, begin=bar.begin)
        bar.begin("write")
        header = ReportHeader(title=TITLE, data_name=DATA_NAME, date=today())
        model = CenterModel(centers=comparison.fit.value.centers, columns=table.names).to_dict()
        results = comparison.fit.results(table.names)
        paths = files.write_release(wanted.out, comparison.fit, results, table.names or (), model, header)
    if wanted.as_json:
        show.print_json({**comparison.describe(), "files": paths})
    elif not wanted.quiet:
        demo_table(comparison)
        show.say(f"The first constrained run as a report: open {paths['report.html']}")


def bundled_sample() -> Table:
    """30,000 rows of Covertype: real and public."""
    source = importlib.resources.files("pais") / "data" / "covertype-sample.parquet"
    with importlib.resources.as_file(source) as path:
        return read(path)


def compare(table: Table, *, repeats: int, seed: int | None, begin: Callable[[str], None]) -> Demo:
    """Run every sampling method `repeats` times at the same guarantee; each run's epsilon includes its survey."""
    begin("scikit-learn, not private")
    best, reference_seconds = _reference(table.rows)
    runs: dict[str, list[DemoRow]] = {str(sampling): [] for sampling in SAMPLINGS}
    first: KMeansFit | None = None
    for repeat in range(repeats):
        for sampling in runs:
            begin(f"{sampling}, run {repeat + 1} of {repeats}")
            fit, row = _run_once(table.rows, sampling, best, None if seed is None else seed + repeat)
            runs[sampling].append(row)
            first = fit if first is None else first
    assert first is not None
    return Demo(
        rows=[_medians(fits) for fits in runs.values()],
        n_rows=table.rows.shape[0],
        repeats=repeats,
        reference_seconds=reference_seconds,
        fit=first,
    )


def _run_once(rows: NDArray[np.generic], sampling: str, best: float, seed: int | None) -> tuple[KMeansFit, DemoRow]:
    settings = KMeansSettings(
        n_clusters=N_CLUSTERS,
        epsilon=EPSILON,
        delta=DELTA,
        sampling=sampling,  # type: ignore[arg-type]  # one of SAMPLINGS
        sample_size=None if sampling == "none" else SAMPLE_SHARE * rows.shape[0],
        quantile=QUANTILE,
    )
    start = time.perf_counter()
    # The sample is public, so there is no need to warn about many fits without a ledger.
    fit = private_fit(rows, settings, random_state=seed, counted=False)
    seconds = time.perf_counter() - start
    assert isinstance(fit, KMeansFit)
    plan, profile = fit.plan, fit.plan.mechanism.profile
    assert plan.norms is not None
    assert isinstance(profile, GaussianProfile)
    row = DemoRow(
        sampling=sampling,
        expected_rows=plan.norms.expected_size(plan.rule),
        noise=1.0 / float(profile.loss(np.ones(1), np.array([plan.ball.radius]))[0]),
        relative_cost=_cost(rows, fit.value.centers) / best,
        seconds=seconds,
    )
    return fit, row


def _reference(rows: NDArray[np.generic]) -> tuple[float, float]:
    """Cost of the best of a few non-private runs, and seconds per run. Not private: the sample is public."""
    start = time.perf_counter()
    costs = [float(KMeans(N_CLUSTERS, n_init=1, random_state=run).fit(rows).inertia_) for run in range(REFERENCE_RUNS)]
    return min(costs), (time.perf_counter() - start) / REFERENCE_RUNS


def _cost(rows: NDArray[np.generic], centers: FloatArray) -> float:
    """Sum of squared distances to the nearest center. Not protected: the sample is public."""
    _, distance = pairwise_distances_argmin_min(rows, centers)
    return float(np.square(distance).sum())


def _medians(rows: list[DemoRow]) -> DemoRow:
    return DemoRow(
        sampling=rows[0].sampling,
        expected_rows=median(row.expected_rows for row in rows),
        noise=median(row.noise for row in rows),
        relative_cost=median(row.relative_cost for row in rows),
        seconds=median(row.seconds for row in rows),
    )


def demo_table(demo: Demo) -> None:
    title = f"{demo.n_rows:,} rows of Covertype: k = {N_CLUSTERS}, epsilon = {EPSILON:g}, delta = {DELTA:g} in all"
    runs = "One run" if demo.repeats == 1 else f"Medians of {demo.repeats} runs"
    table = RichTable(title=title, title_justify="left", caption_justify="left")
    table.caption = (
        f"{runs}, {demo.fit.certificate.note}; each budget includes a survey. Noise: of all releases together, in "
        "units of what a row at the radius contributes. Relative spread: the sum of squared distances to the centers, "
        f"divided by that of the best of {REFERENCE_RUNS} scikit-learn runs. "
        "The spreads and the scikit-learn run are NOT private; they are shown only because this sample is public."
    )
    table.add_column("sampling")
    for name in ("expected rows", "noise", "relative spread", "seconds"):
        table.add_column(name, justify="right")
    for row in demo.rows:
        name = "none (all rows)" if row.sampling == "none" else row.sampling
        expected = f"{demo.n_rows:,}" if row.sampling == "none" else f"{row.expected_rows:,.0f}"
        table.add_row(name, expected, f"{row.noise:.2f}", f"{row.relative_cost:.3f}", f"{row.seconds:.2f}")
    table.add_section()
    table.add_row("scikit-learn, NOT private", f"{demo.n_rows:,}", "0", "1.000", f"{demo.reference_seconds:.2f}")
    Console().print(table)
