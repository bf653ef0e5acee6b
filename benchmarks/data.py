"""The data sets of the k-means benchmarks, preprocessed as in the paper, with their non-private floors."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from sklearn.cluster import KMeans

import pais
from experiments.paper.datasets import preprocess
from experiments.paper.formats import read_parquet

N_CLUSTERS = 25
DELTA = 1e-6
FLOOR_RUNS = 5

Float32Array = NDArray[np.float32]
FloatArray = NDArray[np.float64]

# Rows whose distances are held at once.
_CHUNK = 1 << 16


@dataclass(frozen=True, kw_only=True)
class Source:
    """A file, the expected sample size it is tried at, and the ratios to the floor it must reach, by epsilon."""

    file: str
    title: str
    sample_size: int
    targets: dict[float, float]


SOURCES = (
    Source(file="covertype", title="Covertype", sample_size=20_000, targets={0.5: 1.05, 1.0: 1.04, 3.0: 1.03}),
    Source(file="kdd-protein", title="KDD-Protein", sample_size=5_000, targets={0.5: 1.07, 1.0: 1.05, 3.0: 1.04}),
    Source(file="song-sample", title="Song sample", sample_size=5_000, targets={0.5: 1.04, 1.0: 1.03, 3.0: 1.025}),
    Source(file="ijcnn1", title="Ijcnn1", sample_size=5_000, targets={0.5: 1.12, 1.0: 1.07, 3.0: 1.03}),
)

SYNTHETIC = Source(file="synthetic", title="Synthetic mixture", sample_size=5_000, targets={})


def source_of(file: str) -> Source:
    return next(source for source in SOURCES if source.file == file)


@dataclass(frozen=True, kw_only=True, eq=False)
class DataSet:
    """Centered rows, the mean that was taken off, and the best of five non-private runs on all rows."""

    source: Source
    rows: Float32Array
    mean: FloatArray
    floor: float

    def ball(self, order: float = 2.0) -> pais.Ball:
        return pais.Ball(radius=float(self.row_norms(order).max()), order=order)

    def norms(self, order: float = 2.0) -> pais.NormDistribution:
        """The norms of the rows, taken as public: what the paper's preprocessing does too."""
        norm = self.row_norms(order)
        return pais.NormDistribution.from_private_norms(norm, radius=float(norm.max()))

    def row_norms(self, order: float) -> FloatArray:
        if order == 1.0:
            return np.asarray(np.abs(self.rows).sum(axis=1, dtype=np.float64))
        return np.asarray(np.sqrt(np.einsum("ij,ij->i", self.rows, self.rows, dtype=np.float64)))

    @cached_property
    def total_square(self) -> float:
        return float(np.sum(np.square(self.row_norms(2.0))))

    def cost(self, centers: FloatArray) -> float:
        """Sum of squared distances of all rows to their nearest centers."""
        center = centers.astype(np.float32)
        square = np.einsum("ij,ij->i", center, center)
        total = self.total_square
        for start in range(0, len(self.rows), _CHUNK):
            gap = self.rows[start : start + _CHUNK] @ (-2.0 * center.T)
            gap += square
            total += float(gap.min(axis=1).sum(dtype=np.float64))
        return total


def load(directory: Path, cache: Path, console: Console, *, names: tuple[str, ...]) -> list[DataSet]:
    """The named data sets; where a file is absent that is said, and with none at all a synthetic set stands in."""
    cache.mkdir(parents=True, exist_ok=True)
    sets = []
    for source in (source for source in SOURCES if source.file in names):
        path = directory / f"{source.file}.parquet"
        if path.exists():
            sets.append(_prepared(source, path, cache, console))
        else:
            console.print(f"[yellow]{source.file}.parquet is not in {directory}: left out.")
    if not sets:
        console.print("[yellow]No data set was found: a synthetic mixture stands in; no target applies to it.")
        sets.append(_prepared(SYNTHETIC, None, cache, console))
    return sets


def _prepared(source: Source, path: Path | None, cache: Path, console: Console) -> DataSet:
    stored = cache / f"{source.file}.npz"
    if not stored.exists():
        console.print(f"{source.title}: preprocessing and {FLOOR_RUNS} non-private runs on all rows ...")
        processed = preprocess(_mixture() if path is None else read_parquet(path))
        np.savez(stored, rows=processed.rows, mean=processed.mean, floor=np.float64(floor_of(processed.rows)))
    with np.load(stored) as kept:
        data = DataSet(source=source, rows=kept["rows"], mean=kept["mean"], floor=float(kept["floor"]))
    n, d = data.rows.shape
    console.print(f"{source.title}: {n:,} x {d}, radius {data.ball().radius:.6g}, floor {data.floor:.6g}")
    return data


def floor_of(rows: Float32Array) -> float:
    """Least cost of several non-private runs on all rows."""
    empty = DataSet(source=SYNTHETIC, rows=rows, mean=np.zeros(rows.shape[1]), floor=1.0)
    runs = (
        KMeans(N_CLUSTERS, init="k-means++", n_init=1, random_state=seed).fit(rows).cluster_centers_
        for seed in range(FLOOR_RUNS)
    )
    return min(empty.cost(centers.astype(np.float64)) for centers in runs)


def _mixture(n_rows: int = 100_000, n_features: int = 20, n_groups: int = 40) -> FloatArray:
    rng = np.random.default_rng(0)
    means = rng.normal(size=(n_groups, n_features)) * 2.0
    group = rng.choice(n_groups, size=n_rows, p=rng.dirichlet(np.full(n_groups, 2.0)))
    mixture: FloatArray = means[group] + rng.normal(size=(n_rows, n_features))
    return mixture
