"""What a row can change in the sums of a logistic regression, for any row and any released matrix or coefficients."""

import math

import numpy as np
import pytest

from pais._base.randomness import bit_source
from pais.data.ball import Ball
from pais.data.engines.base import WeightedRows
from pais.logistic.mechanism import LogisticRounds, LogisticSample
from pais.mechanisms.noise import GaussianNoise

RADIUS = 3.0


class NoNoise(GaussianNoise):
    """Noise that is always zero, so that a test sees the sums themselves."""

    def draw_steps(self, shape, lattice, bits, **options):
        return np.zeros(shape, dtype=np.int64)


def mechanism(n_classes: int, scale: float = 1.0) -> LogisticRounds:
    noise = GaussianNoise(scale=scale)
    return LogisticRounds(
        n_features=1 + n_classes,
        n_classes=n_classes,
        mean_noise=noise,
        moment_noise=noise,
        curvature_noise=noise,
        rounds=(noise,) * 12,
        radius=RADIUS,
        n_rows=10.0,
        mean_square_norm=4.0,
        largest=RADIUS,
    )


def rows_of(cells: list[float], n_classes: int) -> WeightedRows:
    """Clipped rows with one feature, all of the first class."""
    rows = np.zeros((len(cells), 1 + n_classes))
    rows[:, 0], rows[:, 1] = cells, math.sqrt(2.0)
    return WeightedRows(rows=Ball(radius=RADIUS).clip(rows), weights=np.ones(len(cells)))


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("cell", [1e150, 1e305, -1e305, 1e-300, 0.0])
@pytest.mark.parametrize("size", [1.0, 1e8, 1e12, 1e100, 1e160, 1e300])
def test_any_row_changes_a_gradient_by_at_most_its_norm(n_classes, cell, size):
    point = np.zeros((2, 1 if n_classes == 2 else n_classes))
    point[0, 0], point[1, -1] = size, -size
    sums = []
    for cells in ([1.0, 1.0], [1.0, 1.0, cell]):
        sample = LogisticSample(mechanism(n_classes), rows_of(cells, n_classes))
        with np.errstate(all="ignore"):
            sample.apply(np.eye(2))
            sums.append(sample.gradient(point, NoNoise(scale=1.0), bit_source(0)))
    assert np.linalg.norm(sums[1] - sums[0]) <= RADIUS * math.sqrt(1 if n_classes == 2 else 2)


@pytest.mark.parametrize("size", [0.0, 1e-300, 1e-160, 1.0, 1e160, 1e300, math.inf, math.nan])
def test_any_matrix_leaves_a_row_no_longer_than_it_was(size):
    sums = []
    for cells in ([1.0, 1.0], [1.0, 1.0, 2.0]):
        sample = LogisticSample(mechanism(2), rows_of(cells, 2))
        with np.errstate(all="ignore"):
            sample.apply(np.full((2, 2), size))
            moment = sample.moment(NoNoise(scale=1.0), bit_source(0))
            gradient = sample.gradient(np.ones((2, 1)), NoNoise(scale=1.0), bit_source(0))
        sums.append((moment, gradient))
    assert np.linalg.norm(sums[1][0] - sums[0][0]) <= RADIUS**2
    assert np.linalg.norm(sums[1][1] - sums[0][1]) <= RADIUS


@pytest.mark.parametrize("n_rows", [0, 1])
def test_noise_without_a_positive_eigenvalue_still_gives_a_value(n_rows):
    """The second moment of few rows and much noise often has none."""
    ball = Ball(radius=RADIUS, center=(0.0, 0.0, 0.0))
    for seed in range(40):
        value = mechanism(2, scale=20.0).measure(rows_of([1.0] * n_rows, 2), ball, bit_source(seed))
        assert np.all(np.isfinite(value.coefficients))
