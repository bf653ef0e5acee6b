"""The data sets of the k-means benchmarks, preprocessed as in the paper, with their non-private floors."""

from __future__ import annotations

import argparse
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


#: Titles of the data sets by file.
TITLES = {
    "covertype": "Covertype",
    "kdd-protein": "KDD-Protein",
    "song-sample": "Song sample",
    "ijcnn1": "Ijcnn1",
}
#: A small one, for a quick look.
QUICK = ("ijcnn1",)


@dataclass(frozen=True, kw_only=True, eq=False)
class DataSet:
    """Centered rows, the mean that was taken off, and the best of five non-private runs on all rows."""

    title: str
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


def load(options: argparse.Namespace, console: Console) -> list[DataSet]:
    """The data sets, or a small one for a quick look; preprocessed rows and floors are kept in the cache."""
    options.cache.mkdir(parents=True, exist_ok=True)
    sets = []
    for file in QUICK if options.quick else TITLES:
        path = options.data / f"{file}.parquet"
        if not path.exists():
            console.print(f"[yellow]{path.name} is not in {options.data}: left out.")
            continue
        stored = options.cache / f"{file}.npz"
        if not stored.exists():
            console.print(f"{TITLES[file]}: preprocessing and {FLOOR_RUNS} non-private runs on all rows ...")
            processed = preprocess(read_parquet(path))
            np.savez(stored, rows=processed.rows, mean=processed.mean, floor=np.float64(floor_of(processed.rows)))
        sets.append(read(stored, TITLES[file]))
    return sets


def read(stored: Path, title: str) -> DataSet:
    with np.load(stored) as kept:
        return DataSet(title=title, rows=kept["rows"], mean=kept["mean"], floor=float(kept["floor"]))


def floor_of(rows: Float32Array) -> float:
    """Least cost of several non-private runs on all rows."""
    empty = DataSet(title="", rows=rows, mean=np.zeros(rows.shape[1]), floor=1.0)
    runs = (
        KMeans(N_CLUSTERS, init="k-means++", n_init=1, random_state=seed).fit(rows).cluster_centers_
        for seed in range(FLOOR_RUNS)
    )
    return min(empty.cost(centers.astype(np.float64)) for centers in runs)
