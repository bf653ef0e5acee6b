"""Plans and a mechanism to audit."""

from __future__ import annotations

import numpy as np

import pais
from pais.kmeans.rounds import Round

LAPLACE_BALL = pais.Ball(radius=1.0, order=1.0)
PAIR = pais.NeighbourPair(with_record=[[0.0], [1.0]], without_record=[[0.0]])


def laplace_sum(rows: np.ndarray, generator: np.random.Generator, runs: int) -> np.ndarray:
    return np.asarray(rows.sum() + generator.laplace(scale=1.0, size=runs))


def kmeans_plan() -> pais.Plan:
    norms = pais.NormDistribution.from_histogram([0.0, 0.5, 1.0], [20.0, 20.0])
    return pais.plan_kmeans(
        n_clusters=2, n_features=2, epsilon=2.0, delta=1e-3, ball=pais.Ball(radius=1.0), norms=norms
    )


def plain_kmeans_plan() -> pais.Plan:
    noise = pais.laplace_noise(2.0)
    plain = pais.KMeans(
        n_clusters=2,
        n_features=2,
        rounds=(Round(count_noise=noise, sum_noise=noise),),
        radius=1.0,
        cells=2,
        explore=0,
        largest_weight=2.0,
    )
    return pais.Plan(ball=LAPLACE_BALL, rule=pais.UniformRule(rate=0.5), mechanism=plain, epsilon=2.0)
