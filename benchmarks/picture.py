"""The pictures of the README and of the guide to samples: private centers and their report, and sampling rules.

``python -m benchmarks.picture`` writes private-centers.png, private-report.png and sampling-rules.png to docs/guide in
about half a minute. It needs the `plots` extra, and Chromium for the picture of the report.

NOT PRIVATE, on purpose: the rows, the scikit-learn centers and the cost are shown. The rows are made up. The fit itself
has no seed, so every run draws slightly different centers.
"""

from __future__ import annotations

import argparse
import io
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL import Image
from scipy.stats import chi
from sklearn.cluster import KMeans

import pais

FloatArray = NDArray[np.float64]

BOUNDS = {"age": (18.0, 100.0), "log_income": (3.7, 5.7)}
LOW: FloatArray = np.array([low for low, _ in BOUNDS.values()])
HIGH: FloatArray = np.array([high for _, high in BOUNDS.values()])
INCOMES = (5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 400_000)
N_CLUSTERS = 4
EPSILON = 1.0
PLACE = Path(__file__).parents[1] / "docs" / "guide"

RULES = {"constrained": ("#0072B2", "-"), "coreset": ("#D55E00", "--"), "uniform": ("#444444", ":")}
RULE_RADIUS = 1.5

# Two colours of Okabe and Ito that differ with every common kind of colour vision. The markers differ as well.
PRIVATE, NOT_PRIVATE = "#0072B2", "#D55E00"

# Width and height of the window in which the report is opened: narrow, so that it can be read beside the other picture.
WINDOW = (760, 705)


def table() -> pd.DataFrame:
    people = pais.example_people(10_000).to_pandas()[["customer_id", "age", "income"]].dropna()
    return people.assign(log_income=np.log10(people.income))


def scaled(values: FloatArray) -> FloatArray:
    """Values with the bounds of their columns mapped to [-1, 1], as in a fit."""
    return np.clip((values - LOW) / (HIGH - LOW) * 2.0 - 1.0, -1.0, 1.0)


def in_own_units(values: FloatArray) -> FloatArray:
    return LOW + (values + 1.0) / 2.0 * (HIGH - LOW)


def cost(rows: FloatArray, masses: FloatArray, centers: FloatArray) -> float:
    squares = np.square(rows[:, None, :] - centers[None, :, :]).sum(axis=2)
    return float(masses @ squares.min(axis=1))


def draw_centers(axes: Axes, people: pd.DataFrame, private: FloatArray) -> None:
    values = people[list(BOUNDS)].to_numpy()
    rows = scaled(values)
    masses = 1.0 / people.groupby("customer_id").age.transform("size").to_numpy()
    best = KMeans(N_CLUSTERS, n_init=10, random_state=0).fit(rows, sample_weight=masses)
    excess = 100.0 * (cost(rows, masses, scaled(private)) / best.inertia_ - 1.0)
    plain = in_own_units(best.cluster_centers_)
    axes.hexbin(values[:, 0], values[:, 1], gridsize=44, bins="log", cmap="Greys", linewidths=0.1, vmax=2000)
    axes.scatter(
        plain[:, 0],
        plain[:, 1],
        marker="o",
        s=240,
        facecolors="none",
        edgecolors=NOT_PRIVATE,
        linewidths=2.4,
        zorder=3,
        label="scikit-learn, not private",
    )
    axes.scatter(
        private[:, 0],
        private[:, 1],
        marker="X",
        s=80,
        color=PRIVATE,
        edgecolors="white",
        linewidths=0.8,
        zorder=4,
        label=f"pais, epsilon {EPSILON:g}",
    )
    axes.set_xlabel("age")
    axes.set_yticks(np.log10(INCOMES), [f"{income:,}" for income in INCOMES])
    axes.set_ylabel("income")
    axes.set_title(f"{N_CLUSTERS} centers: {excess:.2f} % extra cost", loc="left")
    axes.legend(loc="lower right", framealpha=1.0)


def draw_fit(place: Path) -> None:
    """One release: its centers over the rows, and the top of its report."""
    people = table()
    model = pais.DPKMeans(n_clusters=N_CLUSTERS, epsilon=EPSILON, columns=dict(BOUNDS), unit="customer_id").fit(people)
    figure = Figure(figsize=(5.4, 5.0), dpi=150, layout="constrained", facecolor="white")
    draw_centers(figure.subplots(), people, model.centers_frame()[list(BOUNDS)].to_numpy())
    save(figure, place / "private-centers.png")
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        model.write_report(page, title="Customer segments", data_name="example people", date="2026-01-31")
        draw_report(page, place / "private-report.png", *WINDOW)


def draw_rules() -> Figure:
    """Probability of keeping a row by its norm, for the rules that the guide compares."""
    norms = pais.NormDistribution.from_quantiles(
        lambda level: chi(10).ppf(level) / 10**0.5, n_rows=200_000, radius=RULE_RADIUS
    )
    mean = pais.WeightedMean(count_noise=pais.GaussianNoise(scale=10.0), sum_noise=pais.GaussianNoise(scale=1.0))
    points = np.linspace(0.0, RULE_RADIUS, 400)
    figure = Figure(figsize=(7.0, 3.6), dpi=150, layout="constrained", facecolor="white")
    axes = figure.subplots()
    for name, (color, line) in RULES.items():
        calibration = pais.calibrate(name, mean.profile, norms, epsilon=1.0, delta=1e-6, sample_size=20_000)  # type: ignore[arg-type]  # one of the words
        label = f"{name}: noise {calibration.noise:.1f}"
        axes.plot(points, calibration.rule.probability(points), color=color, linestyle=line, linewidth=2.2, label=label)
    axes.set_xlabel("norm of the row")
    axes.set_ylabel("probability of keeping it")
    axes.set_ylim(0.0, None)
    axes.set_title("20,000 of 200,000 rows, epsilon 1", loc="left")
    axes.legend(loc="upper left", frameon=False)
    return figure


def save(figure: Figure, path: Path) -> None:
    buffer = io.BytesIO()
    figure.savefig(buffer)
    # 160 colours: half of the size, with no visible difference.
    Image.open(buffer).convert("RGB").quantize(160, dither=Image.Dither.NONE).save(path, optimize=True)


def draw_report(page: Path, place: Path, width: int, height: int) -> None:
    """Take a picture of the top of a report, with a profile of the browser that is thrown away."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        raise SystemExit("the picture of the report needs Chromium")
    with tempfile.TemporaryDirectory() as profile:
        picture = Path(profile) / "report.png"
        subprocess.run(
            [
                *(browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
                *(f"--user-data-dir={profile}", f"--screenshot={picture}", f"--window-size={width},{height}"),
                page.as_uri(),
            ],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": profile},
        )
        colours = Image.open(picture).convert("RGB").quantize(128, dither=Image.Dither.NONE)
        colours.save(place, optimize=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=PLACE, help="directory of the pictures")
    place = parser.parse_args().out
    with mpl.rc_context({"font.size": 11, "axes.spines.top": False, "axes.spines.right": False}):
        save(draw_rules(), place / "sampling-rules.png")
        draw_fit(place.absolute())


if __name__ == "__main__":
    main()
