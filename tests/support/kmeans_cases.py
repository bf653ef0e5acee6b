"""Rows of a mixture, and settings of private k-means on them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from pais import KMeansSettings, NormDistribution

DELTAS = {"gaussian": 1e-6, "l2": 0.0, "laplace": 0.0}


def mixture(n: int = 30_000, d: int = 6, k: int = 5, seed: int = 3) -> np.ndarray:
    rng = np.random.default_rng(seed)
    middle = rng.normal(size=(k, d)) * 2.0
    return middle[rng.integers(0, k, n)] + 0.3 * rng.normal(size=(n, d))


ROWS = mixture()
RADIUS = 10.0


def norms_of(rows: np.ndarray, radius: float, order: float = 2.0) -> NormDistribution:
    """Norms that stand for public facts here."""
    return NormDistribution.from_private_norms(
        np.minimum(np.linalg.norm(rows, ord=order, axis=1), radius), radius=radius
    )


def settings_of(mechanism: str = "gaussian", **changes: Any) -> KMeansSettings:
    made = KMeansSettings(n_clusters=5, epsilon=1.0, delta=DELTAS[mechanism], mechanism=mechanism)  # type: ignore[arg-type]
    return replace(made, **changes)


def stated(mechanism: str = "gaussian", **changes: Any) -> KMeansSettings:
    order, radius = (1.0, 20.0) if mechanism == "laplace" else (2.0, RADIUS)
    facts = {"radius": radius, "center": (0.0,) * 6, "norms": norms_of(ROWS, radius, order)}
    return settings_of(mechanism, **{**facts, **changes})
