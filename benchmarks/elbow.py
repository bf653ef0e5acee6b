"""How far the estimated cost of a number of clusters is from the true one: one release gives all of them.

``python -m benchmarks.elbow --quick`` for a look, without ``--quick`` for the record. Seeded runs are not private; they
are here to be repeated. A second table shows which number of clusters ``n_clusters="auto"`` chooses for Gaussian
mixtures.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np
from rich.progress import Progress

import pais
from benchmarks.data import DELTA, N_CLUSTERS, DataSet, FloatArray, load
from benchmarks.tables import Cell, Table, parser, run

EPSILON = 1.0
NUMBERS = (1, 2, 3, 5, 8, 12, 16, 20, 25, 35, 50)

# Mixtures: number of clusters, features, and distance of the nearest centers in standard deviations.
CLUSTERS, FEATURES, SEPARATIONS = (3, 5, 8), (2, 5, 10), {"separate": 6.0, "overlapping": 3.5}
MIXTURE_ROWS = 40_000


def tables(options: argparse.Namespace, progress: Progress) -> Iterator[Table]:
    yield costs(load(options, progress.console), options.seeds, progress)
    yield choices(options.seeds, progress)


def costs(sets: list[DataSet], seeds: int, progress: Progress) -> Table:
    """Estimated over true cost of the merged centers, by number of clusters."""
    table = Table(
        name="elbow-costs",
        title=f"Estimated over true cost from one release for {N_CLUSTERS} clusters at epsilon {EPSILON:g}",
        shown=("data", "clusters", "median", "lower quartile", "upper quartile", "cost over one cluster", "seeds"),
    )
    for data in sets:
        ratios: dict[int, list[float]] = {}
        shares: dict[int, list[float]] = {}
        for seed in progress.track(range(seeds), description=data.title):
            for k, estimated, true in _estimates(data, seed):
                ratios.setdefault(k, []).append(estimated / true)
                shares.setdefault(k, []).append(true / data.total_square)
        table.rows += [_row(data, k, np.array(ratios[k]), float(np.median(shares[k]))) for k in ratios]
    worst = max(abs(float(str(row["median"])) - 1.0) for row in table.rows)
    table.remarks.append(
        "The survey is private; its price counts. The true cost is that of the centers of `with_clusters` on all rows. "
        f"For {N_CLUSTERS} clusters these are the released centers, which later rounds polished, while the estimate is "
        f"that of merged cells. The largest error of a median is {100.0 * worst:.1f} %."
    )
    return table


def _estimates(data: DataSet, seed: int) -> Iterator[tuple[int, float, float]]:
    """Number of clusters, estimated cost and true cost, from one fit."""
    model = pais.DPKMeans(n_clusters=N_CLUSTERS, epsilon=EPSILON, delta=DELTA, random_state=seed).fit(
        data.rows + data.mean
    )
    elbow = model.fit_.elbow
    assert elbow is not None
    for k in (k for k in NUMBERS if k <= len(elbow.points)):
        centers = model.fit_.with_clusters(k).value.centers
        yield k, elbow.points[k - 1].cost, data.cost(centers - data.mean)


def _row(data: DataSet, k: int, ratios: FloatArray, share: float) -> dict[str, Cell]:
    low, high = np.quantile(ratios, [0.25, 0.75]).tolist()
    return {
        "data": data.title,
        "clusters": k,
        "median": float(np.median(ratios)),
        "lower quartile": low,
        "upper quartile": high,
        "cost over one cluster": share,
        "seeds": len(ratios),
    }


def choices(seeds: int, progress: Progress) -> Table:
    """Number of clusters that "auto" chooses for mixtures with a known number."""
    table = Table(
        name="elbow-choices",
        title=f'Clusters that n_clusters="auto" chooses for mixtures of {MIXTURE_ROWS:,} rows at epsilon {EPSILON:g}',
        shown=("clusters", "components", "exact", "within one", "least", "most", "fits"),
    )
    for name, separation in progress.track(SEPARATIONS.items(), description="mixtures"):
        for k in CLUSTERS:
            chosen = np.array([_chosen(k, d, separation, seed) for d in FEATURES for seed in range(seeds)])
            table.rows.append(
                {
                    "clusters": name,
                    "components": k,
                    "exact": f"{100.0 * np.mean(chosen == k):.0f} %",
                    "within one": f"{100.0 * np.mean(np.abs(chosen - k) <= 1):.0f} %",
                    "least": int(chosen.min()),
                    "most": int(chosen.max()),
                    "fits": len(chosen),
                }
            )
    distances = ", ".join(f"{name}: {value:g}" for name, value in SEPARATIONS.items())
    table.remarks.append(
        f"Unit Gaussians in {', '.join(map(str, FEATURES))} features, with sizes from a Dirichlet distribution. The "
        f"nearest two means are this many standard deviations apart: {distances}."
    )
    return table


def _chosen(k: int, d: int, separation: float, seed: int) -> int:
    settings = pais.KMeansSettings(n_clusters="auto", epsilon=EPSILON, delta=DELTA)
    fit = pais.fit(mixture(k, d, separation, seed), settings, random_state=seed)
    return len(fit.value.centers)


def mixture(k: int, d: int, separation: float, seed: int) -> FloatArray:
    """Unit Gaussians whose nearest two means are `separation` apart."""
    rng = np.random.default_rng(seed)
    tries = rng.normal(size=(200, k, d))
    gaps = np.linalg.norm(tries[:, :, None] - tries[:, None], axis=3)
    gaps[:, np.arange(k), np.arange(k)] = np.inf
    nearest = gaps.min(axis=(1, 2))
    best = int(np.argmax(nearest / np.linalg.norm(tries, axis=2).mean(axis=1)))
    means = tries[best] * (separation / nearest[best])
    group = rng.choice(k, size=MIXTURE_ROWS, p=rng.dirichlet(np.full(k, 5.0)))
    rows: FloatArray = means[group] + rng.normal(size=(MIXTURE_ROWS, d))
    return rows


if __name__ == "__main__":
    run(parser(__doc__, seeds=10).parse_args(), tables)
