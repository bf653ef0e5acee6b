"""The demonstration: four sampling methods at the same guarantee, on a bundled public sample."""

from __future__ import annotations

import importlib.resources
import time
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table as RichTable
from sklearn.cluster import KMeans
from sklearn.metrics import pairwise_distances_argmin_min

from pais.cli import files, options, show
from pais.data.tables import Table, read
from pais.kmeans.labels import CenterModel
from pais.kmeans.planning import KMeansSettings
from pais.pipeline import fit as private_fit
from pais.planning.plan import Fit
from pais.show.page import ReportHeader, today

N_CLUSTERS, EPSILON, DELTA = 25, 1.0, 1e-6
TITLE, DATA_NAME = "Private k-means: demonstration", "Covertype, a public sample of 30,000 rows"
SAMPLINGS = ("constrained", "coreset", "uniform", "none")
REFERENCE_RUNS = 3

# Share of the rows that the sampling methods keep. A radius at a quantile makes them differ in nothing but sampling.
SAMPLE_SHARE = 0.1
QUANTILE = 0.99

#: Numbers of one run, or medians over the runs, of one sampling method.
Numbers = dict[str, Any]


def demo(wanted: options.Demo) -> None:
    """Run every sampling method at the same guarantee, write the first constrained run as a release, show the table."""
    files.require_free([wanted.out / name for name in files.RELEASE], overwrite=True)
    runs: dict[str, list[Numbers]] = {sampling: [] for sampling in SAMPLINGS}
    first: Fit | None = None
    with show.watch(quiet=wanted.quiet) as bar:
        table = bundled_sample()
        bar.begin("scikit-learn, not private")
        best, reference_seconds = _reference(table.rows)
        for repeat in range(wanted.repeats):
            for sampling, numbers in runs.items():
                bar.begin(f"{sampling}, run {repeat + 1} of {wanted.repeats}")
                fit, found = _run_once(
                    table.rows, sampling, best, None if wanted.seed is None else wanted.seed + repeat
                )
                numbers.append(found)
                first = first or fit
        assert first is not None
        bar.begin("write")
        header = ReportHeader(title=TITLE, data_name=DATA_NAME, date=today())
        model = CenterModel(centers=first.value.centers, columns=table.names).to_dict()
        paths = files.write_release(wanted.out, first, first.results(table.names), table.names or (), model, header)
    rows = [
        {"sampling": sampling, **{name: median(run[name] for run in numbers) for name in numbers[0]}}
        for sampling, numbers in runs.items()
    ]
    described = {
        "data": "covertype-sample",
        "n_rows": len(table.rows),
        "n_clusters": N_CLUSTERS,
        "epsilon": EPSILON,
        "delta": DELTA,
        "repeats": wanted.repeats,
        "note": first.certificate.note,
        "reference": {
            "what": f"scikit-learn KMeans, best of {REFERENCE_RUNS} runs; not private, for this comparison only",
            "seconds": reference_seconds,
        },
        "rows": rows,
    }
    if wanted.as_json:
        show.print_json({**described, "files": paths})
    elif not wanted.quiet:
        _print(described)
        show.say(f"The first constrained run as a report: open {paths['report.html']}")


def bundled_sample() -> Table:
    """30,000 rows of Covertype: real and public."""
    source = importlib.resources.files("pais") / "data" / "covertype-sample.parquet"
    with importlib.resources.as_file(source) as path:
        return read(path)


def _reference(rows: NDArray[np.generic]) -> tuple[float, float]:
    """Cost of the best of a few non-private runs, and seconds per run. Not private: the sample is public."""
    start = time.perf_counter()
    costs = [float(KMeans(N_CLUSTERS, n_init=1, random_state=run).fit(rows).inertia_) for run in range(REFERENCE_RUNS)]
    return min(costs), (time.perf_counter() - start) / REFERENCE_RUNS


def _run_once(rows: NDArray[np.generic], sampling: str, best: float, seed: int | None) -> tuple[Fit, Numbers]:
    """Fit with one sampling method; the epsilon of a fit includes its survey. The cost is not protected."""
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
    plan, profile = fit.plan, fit.plan.mechanism.profile
    assert plan.norms is not None
    _, distance = pairwise_distances_argmin_min(rows, fit.value.centers)
    return fit, {
        "expected_rows": plan.norms.expected_size(plan.rule),
        "noise": 1.0 / float(profile.loss(np.ones(1), np.array([plan.ball.radius]))[0]),
        "relative_cost": float(np.square(distance).sum()) / best,
        "seconds": seconds,
    }


def _print(described: dict[str, Any]) -> None:
    n_rows, repeats = described["n_rows"], described["repeats"]
    title = f"{n_rows:,} rows of Covertype: k = {N_CLUSTERS}, epsilon = {EPSILON:g}, delta = {DELTA:g} in all"
    runs = "One run" if repeats == 1 else f"Medians of {repeats} runs"
    table = RichTable(title=title, title_justify="left", caption_justify="left")
    table.caption = (
        f"{runs}, {described['note']}; each budget includes a survey. Noise: of all releases together, in "
        "units of what a row at the radius contributes. Relative spread: the sum of squared distances to the centers, "
        f"divided by that of the best of {REFERENCE_RUNS} scikit-learn runs. "
        "The spreads and the scikit-learn run are NOT private; they are shown only because this sample is public."
    )
    table.add_column("sampling")
    for name in ("expected rows", "noise", "relative spread", "seconds"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in described["rows"]:
        name = "none (all rows)" if row["sampling"] == "none" else row["sampling"]
        expected = f"{n_rows if row['sampling'] == 'none' else row['expected_rows']:,.0f}"
        spread, seconds = f"{row['relative_cost']:.3f}", f"{row['seconds']:.2f}"
        table.add_row(name, expected, f"{row['noise']:.2f}", spread, seconds)
    table.add_section()
    seconds = described["reference"]["seconds"]
    table.add_row("scikit-learn, NOT private", f"{n_rows:,}", "0", "1.000", f"{seconds:.2f}")
    Console().print(table)
