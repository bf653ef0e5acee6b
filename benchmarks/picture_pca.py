"""The picture of the guide to PCA: eigenvalues before and after shrinkage, and captured variance by epsilon.

``python -m benchmarks.picture_pca`` writes docs/guide/pca.png. It needs the `plots` extra.

NOT PRIVATE: the draws are seeded, so that the picture can be drawn again. The rows are made up.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import pais
from benchmarks.data import DELTA, FloatArray
from benchmarks.picture import PLACE, save
from pais.pca.components import PCAFit

ROWS, FEATURES, SHOWN, NUMBER = 60_000, 60, 30, 5
EPSILONS = (0.03, 0.1, 0.3, 1.0)
SEEDS = range(5)
SMALL = 0.02 * ROWS
KINDS: dict[str, dict[str, Any]] = {
    "all rows": {"sampling": "none"},
    "2 % of the rows": {"sample_size": SMALL},
    "2 %, uniform": {"sampling": "uniform", "sample_size": SMALL},
}


def rows_of() -> FloatArray:
    """Rows with a falling spectrum and norms of different sizes."""
    rng = np.random.default_rng(0)
    turn = np.linalg.qr(rng.normal(size=(FEATURES, FEATURES)))[0]
    length = rng.lognormal(sigma=0.5, size=(ROWS, 1))
    rows: FloatArray = length * (rng.normal(size=(ROWS, FEATURES)) / np.sqrt(np.arange(1.0, FEATURES + 1.0))) @ turn
    return rows


def main() -> None:
    warnings.simplefilter("ignore", UserWarning)
    rows = rows_of()
    covariance = np.cov(rows, rowvar=False)
    figure = Figure(figsize=(10.0, 4.0), dpi=130, layout="constrained", facecolor="white")
    left, right = figure.subplots(1, 2)
    draw_spectrum(left, rows, covariance)
    draw_captured(right, rows, covariance)
    save(figure, PLACE / "pca.png")


def draw_spectrum(axes: Any, rows: FloatArray, covariance: FloatArray) -> None:
    model = pais.DPPCA(epsilon=0.1, delta=DELTA, sampling="none", random_state=1).fit(rows)
    assert isinstance(model.fit_, PCAFit)
    exact = np.einsum("ki,ij,kj->k", model.components_, covariance, model.components_)
    number = np.arange(1, SHOWN + 1)
    axes.plot(number, model.fit_.spectrum.noisy_variances[:SHOWN], "o", ms=4, color="#b0b0b0", label="eigenvalues")
    axes.plot(number, model.explained_variance_[:SHOWN], "o", ms=4, color="#1f6f8b", label="explained_variance_")
    axes.plot(number, exact[:SHOWN], "-", lw=1.2, color="#222222", label="variance of the rows")
    axes.set(xlabel="component", ylabel="variance", yscale="log", title="Spectrum at epsilon 0.1")
    axes.legend(frameon=False)


def draw_captured(axes: Any, rows: FloatArray, covariance: FloatArray) -> None:
    best = np.linalg.eigvalsh(covariance)[-NUMBER:].sum()
    for (name, options), color in zip(KINDS.items(), ("#222222", "#1f6f8b", "#c0762b"), strict=True):
        medians = []
        for epsilon in EPSILONS:
            ratios = []
            for seed in SEEDS:
                model = pais.DPPCA(NUMBER, epsilon=epsilon, delta=DELTA, random_state=seed, **options).fit(rows)
                ratios.append(np.einsum("ki,ij,kj->", model.components_, covariance, model.components_) / best)
            medians.append(float(np.median(ratios)))
        axes.plot(EPSILONS, medians, "o-", ms=4, lw=1.2, color=color, label=name)
    axes.set(
        xscale="log", xlabel="epsilon", ylabel="captured variance", title=f"First {NUMBER} of {FEATURES} components"
    )
    axes.set_xticks(EPSILONS, labels=[f"{epsilon:g}" for epsilon in EPSILONS])
    axes.minorticks_off()
    axes.legend(frameon=False)


if __name__ == "__main__":
    main()
