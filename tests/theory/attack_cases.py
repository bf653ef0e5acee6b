"""Noise laws, awkward rows and naive sums for the attacks on numbers."""

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
