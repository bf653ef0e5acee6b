"""Seeded bits, weighted rows and exact nearest centers."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from pais._base.randomness import SeededBits
from pais.data.engines.base import WeightedRows

Floats = NDArray[np.float64]


def seeded(seed: int) -> SeededBits:
    return SeededBits(np.random.default_rng(seed))


def content(n: int, d: int, seed: int) -> WeightedRows:
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n, d)) * np.exp2(rng.integers(-30, 10, (n, 1)))
    return WeightedRows(rows=rows, weights=1.0 + rng.exponential(50.0, n))


def nearest(rows: Floats, centers: Floats) -> list[int]:
    """In rational arithmetic; ties go to the first."""
    exact_centers = [[Fraction(x) for x in center] for center in centers.tolist()]
    labels = []
    for row in rows.tolist():
        exact = [Fraction(x) for x in row]
        squares = [sum((x - c) ** 2 for x, c in zip(exact, center, strict=True)) for center in exact_centers]
        labels.append(squares.index(min(squares)))
    return labels
