"""The data sets of the benchmark by name: how to make the rows, k, and what may be stated about them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine

from benchmarks.data import N_CLUSTERS, FloatArray
from benchmarks.regimes import recipes
from experiments.paper.datasets import preprocess
from experiments.paper.formats import read_parquet

FILES = {"covertype": "covertype", "kdd-protein": "kdd-protein", "song": "song-sample", "ijcnn1": "ijcnn1"}
PE_BLOBS = tuple((k, d) for d in (4, 16, 64, 128) for k in (4, 16, 64))

Recipe = Callable[[], FloatArray]


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows to cluster.

    Attributes
    ----------
    make : callable
        Returns the rows, the same on every call.
    radius : float, optional
        Public bound on the norms where the set has one; the center is then 0. Where it has none, a case that states a
        ball takes the mean and the largest distance from it as public.
    file : Path, optional
        The Parquet file that the rows are read from.
    """

    name: str
    n_clusters: int
    make: Recipe
    radius: float | None = None
    file: Path | None = None

    def rows(self) -> FloatArray:
        return np.ascontiguousarray(self.make(), dtype=np.float64)


@cache
def tables(directory: Path) -> dict[str, Table]:
    """All sets by name; those read from files expect them in the directory."""
    every = (
        *_from_files(directory),
        *_heavy(),
        *_balls(),
        *_clusters(),
        *_small(),
        *_tiny(),
        *_zoo(),
        *_aside(),
        *_held_out(),
    )
    by_name = {table.name: table for table in every}
    assert len(by_name) == len(every)
    return by_name


def names_of(group: str) -> list[str]:
    """Sets whose name begins with that of the group."""
    return [name for name in tables(Path()) if name.startswith(f"{group}-")]


def _from_files(directory: Path) -> list[Table]:
    listed = []
    for name, stem in FILES.items():
        path = directory / f"{stem}.parquet"
        listed.append(Table(name=name, n_clusters=N_CLUSTERS, make=partial(_preprocessed, path), file=path))
        listed.append(Table(name=f"{name}-uncut", n_clusters=N_CLUSTERS, make=partial(read_parquet, path), file=path))
    return listed


def _preprocessed(path: Path) -> FloatArray:
    """Rows as in the paper, moved back to their raw place."""
    processed = preprocess(read_parquet(path))
    return processed.rows + processed.mean


def _heavy() -> list[Table]:
    return [
        _made("lognormal-8", 25, recipes.lognormal, 331_152, 8),
        _made("lognormal-8-units", 25, partial(recipes.lognormal, units=2.5), 331_152, 8),
        _made("lognormal-8-heavier", 25, partial(recipes.lognormal, sigma=1.5), 331_152, 8),
        _made("lognormal-20", 20, recipes.lognormal, 50_000, 20),
        _made("t3-8", 25, recipes.t_mixture, 331_152, 8, 15),
        _made("t3-20", 20, recipes.t_mixture, 50_000, 20, 12),
        _made("pareto-5", 15, recipes.pareto, 100_000, 5),
    ]


def _balls() -> list[Table]:
    """Sets with a public ball around 0."""
    blobs = [
        Table(name=f"pe-{k}-{d}", n_clusters=k, make=partial(recipes.blobs_in_ball, k, d), radius=1.0)
        for k, d in PE_BLOBS
    ]
    iris = Table(name="pe-iris", n_clusters=3, make=lambda: recipes.unit_ball(load_iris().data), radius=1.0)
    plane = [
        Table(name=f"planar-{k}", n_clusters=k, make=partial(recipes.planar, n, k), radius=2.0**0.5)
        for n, k in ((5_000, 15), (100_000, 100))
    ]
    return [*blobs, iris, *plane]


def _clusters() -> list[Table]:
    return [
        _made("box-10", 64, recipes.boxed, 10),
        _made("box-100", 64, recipes.boxed, 100),
        _made("satellites-10", 20, recipes.satellites, 10, 100.0),
        _made("satellites-2", 20, recipes.satellites, 2, 100.0),
        _made("far-2", 8, recipes.small_far_clusters, 2),
        _made("far-2-one-side", 8, partial(recipes.small_far_clusters, one_side=True, seed=2), 2),
        _made("far-3", 11, partial(recipes.small_far_clusters, n_far=200, far=8, seed=3), 3),
        _made("far-3-few", 6, partial(recipes.small_far_clusters, far=3, seed=9), 3),
        _made("far-5", 8, partial(recipes.small_far_clusters, seed=4), 5),
        _made("far-5-all-sides", 8, partial(recipes.small_far_clusters, seed=5), 5),
        _made("far-5-one-side", 8, partial(recipes.small_far_clusters, one_side=True, seed=6), 5),
        _made("far-8", 8, partial(recipes.small_far_clusters, n_far=150, seed=8), 8),
    ]


def _small() -> list[Table]:
    return [
        Table(name="digits", n_clusters=10, make=lambda: load_digits().data),
        Table(name="wine", n_clusters=3, make=lambda: load_wine().data),
        Table(name="wine-standardized", n_clusters=3, make=lambda: _standardized(load_wine().data)),
        Table(name="breast-cancer", n_clusters=2, make=lambda: load_breast_cancer().data),
        Table(name="breast-cancer-standardized", n_clusters=2, make=lambda: _standardized(load_breast_cancer().data)),
        Table(name="iris", n_clusters=3, make=lambda: load_iris().data),
    ]


def _tiny() -> list[Table]:
    """A few hundred rows in clusters that overlap, and one cloud."""
    sizes = ((150, 2, 3), (150, 10, 5), (300, 4, 3), (400, 2, 3), (1_000, 10, 5), (2_000, 4, 3))
    return [
        *(
            _made(f"tiny-{n}-{d}-{k}", k, partial(recipes.mixture, spread=2.0, seed=n + d), n, d, k)
            for n, d, k in sizes
        ),
        _made("tiny-no-clusters", 3, recipes.gaussian, 300, 4),
    ]


def _standardized(rows: FloatArray) -> FloatArray:
    scaled: FloatArray = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    return scaled


def _zoo() -> list[Table]:
    sizes = (
        (500, 2, 2),
        (500, 10, 10),
        (500, 50, 10),
        (500, 200, 2),
        (2_000, 2, 50),
        (2_000, 10, 10),
        (2_000, 200, 50),
        (20_000, 2, 200),
        (20_000, 10, 10),
        (20_000, 50, 50),
        (20_000, 200, 2),
        (20_000, 200, 200),
        (1_000_000, 8, 10),
        (1_000_000, 8, 50),
    )
    return [
        *(_made(f"zoo-{n}-{d}-{k}", k, recipes.mixture, n, d, k) for n, d, k in sizes),
        _made("zoo-one-hot-2000", 10, recipes.one_hot, 2_000, 4, 5),
        _made("zoo-one-hot-20000", 10, recipes.one_hot, 20_000, 5, 10),
        _made("zoo-column-x1000", 10, recipes.one_column_scaled, 20_000, 10),
        _made("zoo-far-from-zero", 10, recipes.far_from_zero, 20_000, 10),
        _made("zoo-far-from-zero-2000", 10, recipes.far_from_zero, 2_000, 50),
        _made("zoo-t2.1", 10, partial(recipes.t_mixture, degrees=2.1), 20_000, 10, 10),
        _made("zoo-lognormal", 10, partial(recipes.lognormal, sigma=1.5), 2_000, 10),
        _made("zoo-few-distinct", 10, recipes.few_distinct, 2_000, 10),
        _made("zoo-outlier", 10, recipes.with_outlier, 20_000, 10),
        _made("zoo-no-clusters", 10, recipes.gaussian, 20_000, 50),
    ]


def _aside() -> list[Table]:
    return [
        _made("aside-covariances", 12, recipes.unequal_covariances, 40_000, 6, 12),
        _made("aside-rings-moons", 12, recipes.rings_and_moons, 12_000),
        _made("aside-gamma", 16, recipes.gamma_columns, 60_000, 10),
        _made("aside-correlated", 20, recipes.correlated, 80_000, 15),
        _made("aside-cube", 16, recipes.uniform_cube, 30_000, 4),
        _made("aside-binary-numbers", 10, recipes.binary_and_numbers, 30_000),
        _made("aside-counts", 15, recipes.counts, 25_000, 60, 15),
        _made("aside-zipf", 40, recipes.zipf_sizes, 120_000, 5, 40),
        _made("aside-low-rank", 12, recipes.low_rank, 25_000, 120, 3),
        _made("aside-far-2", 10, partial(recipes.small_far_clusters, far=7, seed=25), 2),
        _made("aside-far-4", 8, partial(recipes.small_far_clusters, seed=21), 4),
        _made("aside-far-5", 8, partial(recipes.small_far_clusters, seed=22), 5),
        _made("aside-far-6", 8, partial(recipes.small_far_clusters, n_far=150, one_side=True, seed=23), 6),
        _made("aside-far-10", 7, partial(recipes.small_far_clusters, n_far=200, far=4, seed=24), 10),
        _made("aside-too-many-centers", 60, partial(recipes.mixture, seed=112), 50_000, 8, 6),
    ]


def _held_out() -> list[Table]:
    return [
        _made("held-out-answers", 6, recipes.answers, 800, 20, 6),
        _made("held-out-rolled-sheet", 12, recipes.rolled_sheet, 5_000),
        _made("held-out-waits-visits", 4, recipes.waits_and_visits, 1_500),
        _made("held-out-towns", 20, recipes.towns, 12_000, 20),
        _made("held-out-spectra", 8, recipes.spectra, 1_200, 40, 8),
        _made("held-out-dense-in-sparse", 10, recipes.dense_in_sparse, 10_000, 3),
        _made("held-out-cauchy", 8, recipes.cauchy, 8_000, 4, 8),
        _made("held-out-nested", 25, recipes.nested, 4_000, 6, 5, 5),
        _made("held-out-patients", 4, recipes.patients, 300),
        _made("held-out-income-shares", 6, recipes.income_and_shares, 2_500, 8),
    ]


def _made(name: str, n_clusters: int, recipe: Callable[..., FloatArray], *sizes: float) -> Table:
    return Table(name=name, n_clusters=n_clusters, make=partial(recipe, *sizes))
