"""Rows for the tests of the norm survey."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def cloud(n: int = 20_000, d: int = 5, seed: int = 0) -> Floats:
    shift = np.array([3.0, 0.0, 0.0, -2.0, 1.0])[:d]
    return np.random.default_rng(seed).standard_normal((n, d)) + shift
