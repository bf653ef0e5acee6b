"""The gradient of a row is bounded by its norm for rows of any size and at coefficients of any size."""

from __future__ import annotations

import math

import numpy as np
import pytest

import pais
from pais._base.randomness import SeededBits
from pais.data.engines.base import WeightedRows
from pais.logistic.mechanism import LogisticRounds, LogisticSample

RADIUS = 2.0
NOISE = pais.GaussianNoise(scale=1e-3)


@pytest.mark.parametrize("n_classes", [2, 3, 5])
@pytest.mark.parametrize("size", [5e-324, 1.0, 1e3, 1e250, 1e300, 1.7e308])
def test_gradient_is_bounded_at_any_coefficients(n_classes: int, size: float) -> None:
    plan = LogisticRounds(
        n_features=1 + n_classes,
        n_classes=n_classes,
        mean_noise=NOISE,
        moment_noise=NOISE,
        curvature_noise=NOISE,
        rounds=(NOISE,),
        radius=RADIUS,
        n_rows=10.0,
        mean_square_norm=1.0,
        largest=RADIUS,
    )
    # A row that is clipped by a factor of 1e300 has a logit 1e300 times that of the clipped row.
    row = pais.Ball(radius=RADIUS).clip(np.array([[size, math.sqrt(2.0), *np.zeros(n_classes - 1)]]))
    longest = RADIUS * (1.0 if n_classes == 2 else math.sqrt(2.0))
    for coefficient in (0.0, 1.0, 1e9, 1e20, 1e200, 1.7e308):
        sample = LogisticSample(plan, WeightedRows(rows=row, weights=np.ones(1)))
        point = np.zeros((2, plan.n_logits))
        point[0] = coefficient * np.linspace(1.0, -1.0, plan.n_logits)
        with np.errstate(all="ignore"):
            sample.apply(np.eye(2))
            gradient = sample.gradient(point, NOISE, SeededBits(np.random.default_rng(0)))
            slopes = sample.curvature(point, np.eye(2) * 3.0, NOISE, SeededBits(np.random.default_rng(0)))
        assert np.linalg.norm(gradient) <= longest + 0.02
        assert np.linalg.norm(slopes) <= plan.largest_slope * RADIUS**2 + 0.02
