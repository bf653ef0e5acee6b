"""Rows, a model and a plan that ledgers are charged for."""

from __future__ import annotations

from typing import Any

import numpy as np

import pais

RADIUS = 4.0


def rows(n: int = 600, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, 2))


def norms() -> pais.NormDistribution:
    return pais.NormDistribution.from_quantiles(lambda level: RADIUS * level**0.5, n_rows=600, radius=RADIUS)


def model(**more: Any) -> pais.DPKMeans:
    return pais.DPKMeans(n_clusters=2, epsilon=1.0, delta=1e-6, radius=RADIUS, norms=norms(), **more)


def plan(epsilon: float = 1.0, delta: float = 1e-6, **more: Any) -> pais.Plan:
    more = {"mechanism": "gaussian" if delta else "l2", **more}
    return pais.plan_kmeans(
        n_clusters=2, n_features=2, epsilon=epsilon, delta=delta, ball=pais.Ball(radius=RADIUS), norms=norms(), **more
    )
