"""The pictures of the README and the guides: private k-means centers on a public table, and sampling rules.

``python -m benchmarks.picture`` writes first-run.png and choose-a-rule.png to docs/guide in about half a minute. It
needs the `plots` extra.

NOT PRIVATE, on purpose: the draws are seeded so that the picture can be drawn again, and the rows, the scikit-learn
centers and the costs are shown. The rows are the Covertype sample bundled with the package, which is public.
"""

from __future__ import annotations

import argparse
import io
import warnings
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL import Image
from scipy.stats import chi
from sklearn.cluster import KMeans

import pais
from pais.cli.demo import bundled_sample

FloatArray = NDArray[np.float64]

COLUMNS = ("Horizontal_Distance_To_Roadways", "Horizontal_Distance_To_Fire_Points")
LABELS = ("distance to roads, km", "distance to fire points, km")
N_CLUSTERS = 6
EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
SHOWN_EPSILON = 1.0
SEEDS = 15
PLACE = Path(__file__).parents[1] / "docs" / "guide"

RULES = {"constrained": ("#0072B2", "-"), "coreset": ("#D55E00", "--"), "uniform": ("#444444", ":")}
RULE_RADIUS = 1.5

# Two colours of Okabe and Ito that differ with every common kind of colour vision. The markers differ as well.
PRIVATE, NOT_PRIVATE = "#0072B2", "#D55E00"


def rows_in_km() -> FloatArray:
    table = bundled_sample()
    assert table.names is not None
    places = [table.names.index(name) for name in COLUMNS]
    return np.asarray(table.rows, dtype=float)[:, places] / 1000.0


def private_centers(rows: FloatArray, epsilon: float, seed: int) -> FloatArray:
    """Centers of a fit with no stated facts: its private survey is part of epsilon."""
    model = pais.DPKMeans(n_clusters=N_CLUSTERS, epsilon=epsilon, delta=1e-6, random_state=seed).fit(rows)
    return np.asarray(model.cluster_centers_)


def draw_centers(axes: Axes, rows: FloatArray, plain: FloatArray, private: FloatArray) -> None:
    axes.hexbin(rows[:, 0], rows[:, 1], gridsize=44, bins="log", cmap="Greys", linewidths=0.1, vmax=2000)
    axes.scatter(
        plain[:, 0], plain[:, 1], marker="o", s=170, facecolors="none", edgecolors=NOT_PRIVATE, linewidths=2.2, zorder=3
    )
    axes.scatter(
        private[:, 0], private[:, 1], marker="X", s=75, color=PRIVATE, edgecolors="white", linewidths=0.8, zorder=4
    )
    axes.scatter(
        [], [], marker="o", s=110, facecolors="none", edgecolors=NOT_PRIVATE, label="scikit-learn, not private"
    )
    axes.scatter([], [], marker="X", s=60, color=PRIVATE, label=f"pais, epsilon {SHOWN_EPSILON:g}")
    axes.set_xlabel(LABELS[0])
    axes.set_ylabel(LABELS[1])
    axes.set_title(f"{len(rows):,} rows and {N_CLUSTERS} centers", loc="left")
    axes.legend(loc="upper right", framealpha=1.0)


def draw_costs(axes: Axes, costs: dict[float, list[float]]) -> None:
    lower, middle, upper = np.array([np.quantile(values, [0.25, 0.5, 0.75]) for values in costs.values()]).T
    axes.axhline(0.0, color=NOT_PRIVATE, linewidth=2.0)
    axes.text(EPSILONS[-1], -0.1, "scikit-learn, not private", color=NOT_PRIVATE, ha="right", va="top")
    axes.fill_between(EPSILONS, lower, upper, color=PRIVATE, alpha=0.2, linewidth=0)
    axes.plot(EPSILONS, middle, color=PRIVATE, marker="X", linewidth=2.0)
    for epsilon, cost in zip(EPSILONS, middle, strict=True):
        axes.annotate(f"{cost:.1f} %", (epsilon, cost), (4, 7), textcoords="offset points", color=PRIVATE)
    axes.set_xscale("log")
    axes.set_ylim(-0.5, None)
    axes.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
    axes.minorticks_off()
    axes.set_xlabel("epsilon (smaller is more private)")
    axes.set_ylabel("extra cost, %")
    axes.set_title(f"sum of squared distances: median of {SEEDS} runs", loc="left")


def draw_fits(rows: FloatArray) -> Figure:
    best = KMeans(N_CLUSTERS, n_init=10, random_state=0).fit(rows)
    fits = {epsilon: [private_centers(rows, epsilon, seed) for seed in range(SEEDS)] for epsilon in EPSILONS}
    costs = {
        epsilon: [100.0 * (pais.cost(rows, centers) / best.inertia_ - 1.0) for centers in runs]
        for epsilon, runs in fits.items()
    }
    # The run of median cost, so that the picture is neither the best nor the worst.
    middle = int(np.argsort(costs[SHOWN_EPSILON])[SEEDS // 2])
    figure = Figure(figsize=(10.0, 4.2), dpi=150, layout="constrained", facecolor="white")
    left, right = figure.subplots(1, 2, width_ratios=(1.15, 1.0))
    draw_centers(left, rows, best.cluster_centers_, fits[SHOWN_EPSILON][middle])
    draw_costs(right, costs)
    return figure


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=PLACE, help="directory of the pictures")
    place = parser.parse_args().out
    with (
        mpl.rc_context({"font.size": 11, "axes.spines.top": False, "axes.spines.right": False}),
        warnings.catch_warnings(),
    ):
        # Many fits of the same rows without a ledger: these rows are public.
        warnings.simplefilter("ignore", pais.PrivacyWarning)
        save(draw_rules(), place / "choose-a-rule.png")
        save(draw_fits(rows_in_km()), place / "first-run.png")


if __name__ == "__main__":
    main()
