"""AdaSSP (Wang, UAI 2018), the peer of the regression benchmark: as published, and with tightly calibrated noise."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pais.privacy.amplification import largest_shift

FloatArray = NDArray[np.float64]

_FAILURE = 0.05


def adassp(
    X: FloatArray, y: FloatArray, *, epsilon: float, delta: float, tight: bool, rng: np.random.Generator
) -> FloatArray:
    """Coefficients of AdaSSP for rows of norm at most 1 and targets within [-1, 1].

    As published, a third of the budget goes to each of the smallest eigenvalue, X'X and X'y, with the noise of the
    classical Gaussian mechanism. If `tight`, the three releases have the Gaussian shift that (epsilon, delta) allow
    together, which is the least noise for this algorithm.
    """
    d = X.shape[1]
    spread = math.log(6.0 / delta)
    scale = math.sqrt(3.0) / largest_shift(epsilon, delta) if tight else 3.0 * math.sqrt(spread) / epsilon
    moment = X.T @ X
    # A lower bound of the smallest eigenvalue, which holds with high probability.
    smallest = np.linalg.eigvalsh(moment)[0] + scale * rng.normal() - scale * math.sqrt(spread)
    ridge = max(0.0, scale * math.sqrt(d * math.log(2.0 * d * d / _FAILURE)) - max(0.0, smallest))
    noise = np.triu(rng.normal(size=(d, d)))
    noise += np.triu(noise, 1).T
    solved = np.linalg.solve(moment + scale * noise + ridge * np.eye(d), X.T @ y + scale * rng.normal(size=d))
    return np.asarray(solved)


def preprocessed(X: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Rows and targets as the authors prepare them. NOT PRIVATE: centers, deviations and bounds are those of the rows.

    Targets are centered and divided by their largest absolute value. Columns are centered and divided by their
    deviations, and every row is scaled to norm 1.
    """
    target = y - y.mean()
    deviation = X.std(axis=0)
    rows = (X - X.mean(axis=0)) / np.where(deviation > 0.0, deviation, 1.0)
    return rows / np.maximum(np.linalg.norm(rows, axis=1), 1e-12)[:, None], target / np.abs(target).max()
