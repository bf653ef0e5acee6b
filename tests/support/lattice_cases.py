"""Noise laws, seeded bits, awkward rows, naive sums and exact nearest centers for the tests of numbers on a lattice."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pais import GaussianNoise, LpNoise, laplace_noise
from pais._base.randomness import BitSource, SeededBits
from pais.data.engines.base import WeightedRows
from pais.mechanisms.noise import NoiseLaw

Floats = NDArray[np.float64]
NOISES: dict[str, Callable[[float], NoiseLaw]] = {
    "laplace": laplace_noise,
    "l2": lambda scale: LpNoise(scale=scale, p=2.0),
    "linf": lambda scale: LpNoise(scale=scale, p=math.inf),
    "gaussian": lambda scale: GaussianNoise(scale=scale),
}
noises = pytest.mark.parametrize("noise_name", NOISES)
SMALLEST = 5e-324


def seeded(seed: int) -> SeededBits:
    return SeededBits(np.random.default_rng(seed))


def content(rows: Any, weights: Any = None) -> WeightedRows:
    array = np.asarray(rows, dtype=np.float64)
    return WeightedRows(rows=array, weights=np.ones(len(array)) if weights is None else np.asarray(weights, float))


def on_lattice(values: Any, step: float) -> bool:
    """Whether all values are whole multiples of a power of two."""
    return all((Fraction(value) / Fraction(step)).denominator == 1 for value in np.ravel(values).tolist())


class OneWord(BitSource):
    """One word of bits, written in advance."""

    private = False

    def __init__(self, word: int) -> None:
        self._word = word

    def raw(self, n_bytes: int) -> bytes:
        assert n_bytes == 8
        return self._word.to_bytes(8, "little")


def awkward_rows(n: int, seed: int) -> Floats:
    """Huge and tiny rows, rows that cancel, equal rows, odd doubles; all within a radius of 2**40."""
    rng = np.random.default_rng(seed)
    spread = rng.standard_normal((n, 3)) * np.exp2(rng.integers(-60, 38, (n, 1)).astype(float))
    cancelling = np.vstack([spread[: n // 4], -spread[: n // 4]])
    odd = [[SMALLEST, -0.0, 1e-310], [-0.0, -0.0, -0.0], [2.0**38, 1.0, 2.0**-22], [0.1, 0.2, 0.3]]
    return np.vstack([spread, cancelling, odd * 5, np.full((50, 3), 0.1)])


def naive_total(rows: Floats) -> tuple[float, ...]:
    return tuple(functools.reduce(lambda total, row: total + row, rows).tolist())


def random_content(n: int, d: int, seed: int) -> WeightedRows:
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n, d)) * np.exp2(rng.integers(-30, 10, (n, 1)))
    return WeightedRows(rows=rows, weights=1.0 + rng.exponential(50.0, n))


def nearest(rows: Floats, centers: Floats) -> list[int]:
    """The nearest center of each row in rational arithmetic; ties go to the first."""
    exact_centers = [[Fraction(x) for x in center] for center in centers.tolist()]
    labels = []
    for row in rows.tolist():
        exact = [Fraction(x) for x in row]
        squares = [sum((x - c) ** 2 for x, c in zip(exact, center, strict=True)) for center in exact_centers]
        labels.append(squares.index(min(squares)))
    return labels
