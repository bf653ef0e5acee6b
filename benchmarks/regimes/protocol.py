"""How a result is judged: cost on all rows, the non-private floor, the cost of one center, the area over epsilon."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.cluster import KMeans

from benchmarks.data import FLOOR_RUNS, FloatArray

# Distances that are held at once.
_MOST_DISTANCES = 1 << 23


def cost(rows: FloatArray, centers: FloatArray) -> float:
    """Sum of squared distances of all rows to their nearest centers."""
    origin = rows.mean(axis=0)
    moved = centers - origin
    square = np.einsum("ij,ij->i", moved, moved)
    block = max(1, _MOST_DISTANCES // len(centers))
    total = 0.0
    for start in range(0, len(rows), block):
        part = rows[start : start + block] - origin
        gap = part @ (-2.0 * moved.T)
        gap += square
        nearest = gap.min(axis=1) + np.einsum("ij,ij->i", part, part)
        total += float(np.maximum(nearest, 0.0).sum())
    return total


def one_center_cost(rows: FloatArray) -> float:
    """Cost of the mean of the rows, which is the best single center."""
    return cost(rows, rows.mean(axis=0, keepdims=True))


def floor_cost(rows: FloatArray, n_clusters: int) -> float:
    """Cost of the best of five non-private runs on all rows."""
    runs = (
        KMeans(n_clusters, init="k-means++", n_init=1, algorithm="lloyd", random_state=seed).fit(rows).cluster_centers_
        for seed in range(FLOOR_RUNS)
    )
    return min(cost(rows, centers) for centers in runs)


def area(epsilons: Sequence[float], losses: Sequence[float]) -> float:
    """Area under the loss by epsilon, by the trapezoid rule."""
    return float(np.trapezoid(losses, epsilons))


@dataclass(frozen=True, kw_only=True)
class Floors:
    """Floors that were computed before, in a file that several processes may use at once."""

    path: Path

    def get(self, name: str, digest: str) -> float | None:
        """The floor of a set, None where it is not known for exactly these rows."""
        if not self.path.exists():
            return None
        with self.path.open(encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_SH)
            known = json.loads(file.read() or "{}")
        value = known.get(f"{name} {digest}")
        return None if value is None else float(value)

    def put(self, name: str, digest: str, value: float) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a+", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            known = json.loads(file.read() or "{}")
            known[f"{name} {digest}"] = value
            file.truncate(0)
            file.write(json.dumps(known, indent=1, sort_keys=True) + "\n")
