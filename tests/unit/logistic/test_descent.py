"""Steps of a logistic regression without noise: they settle although the model of the curvature is wrong."""

from __future__ import annotations

import numpy as np
import pytest

from pais.logistic.descent import Descent, Link, ModelCurvature, Scaling, SeenCurvature, doubt


def whitened(k: int, reach: float = 1e6) -> Scaling:
    scaling = Scaling.about_mean(
        np.array([*np.zeros(k - 1), 1000.0, 1000.0]) * 0.7,
        n_features=k - 1,
        n_rows=1000.0,
        mean_square_norm=3.0,
        label_length=1.4,
        noise=1e-9,
    )
    return scaling.whitened(np.eye(k), 1e-9, reach)


@pytest.mark.parametrize("steeper", [0.3, 1.0, 6.0, 20.0])
def test_coefficients_settle_although_the_curvature_is_not_that_of_the_model(steeper: float) -> None:
    """A loss with one constant curvature, which the second derivatives underestimate by a factor of four."""
    k, truth = 3, np.array([[2.0], [-1.0], [0.5]])
    descent = Descent(whitened(k), 1, [1e-6] * 48)
    reach = descent._scaling.reach
    true = steeper * 0.2
    for number in range(48):
        if number in (12, 24):
            descent.learn(np.eye(k)[None] * true / 4.0 / descent._scaling.near_reach**2, 1e-9)
        descent.update(true * (descent.point / reach - truth) / reach)
    assert descent.point / reach == pytest.approx(truth, abs=0.02)


def test_a_noisy_release_moves_the_curvature_only_as_far_as_it_stands_out() -> None:
    k, rng = 6, np.random.default_rng(1)
    model = ModelCurvature.at(np.zeros((k, 1)), np.ones(k), 1.0)
    true = np.diag(np.linspace(0.05, 0.5, k))
    seen = SeenCurvature.of(model, np.ones(k), true[None], 1e-9)
    assert np.sort(seen.values[0]) == pytest.approx(np.diag(true), rel=1e-3)
    for noise in (0.01, 10.0):
        drawn = rng.normal(size=(k, k)) * noise
        noisy = true + (drawn + drawn.T) / 2.0
        values = SeenCurvature.of(model, np.ones(k), noisy[None], noise).values[0]
        nearest = np.diag(true) if noise < 1.0 else np.full(k, 0.25)
        assert np.abs(np.sort(values) - nearest).max() < (0.05 if noise < 1.0 else 15.0)
    point = rng.normal(size=(k, 1))
    assert seen.solve(seen.times(point), 0.0) == pytest.approx(point)
    assert model.solve(model.times(point) + 0.3 * point, 0.3) == pytest.approx(point)


def test_the_model_and_its_matrices_agree() -> None:
    rng = np.random.default_rng(2)
    model = ModelCurvature.at(rng.normal(size=(5, 3)), rng.uniform(0.4, 1.0, 5), 0.8)
    point = rng.normal(size=(5, 3))
    assert np.einsum("lij,jl->il", model.matrices(), point) == pytest.approx(model.times(point))


def test_doubt_is_at_least_the_noise_and_grows_with_hidden_directions() -> None:
    assert doubt(np.ones(4), 0.0) == 0.0
    assert 0.01 < doubt(np.ones(4), 0.01) < 0.0103
    assert doubt(np.zeros(4), 0.01) > doubt(np.ones(4), 0.01)


def test_directions_in_which_no_row_goes_are_left_out() -> None:
    scaling = Scaling.about_mean(
        np.array([0.0, 0.0, 700.0, 700.0]),
        n_features=2,
        n_rows=1000.0,
        mean_square_norm=3.0,
        label_length=1.4,
        noise=1e-9,
    )
    rows = np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]]) @ scaling.matrix
    moment = rows.T @ rows / 2.0
    mapped = scaling.whitened(moment, 1e-9, 1.0, [Link(places=(0, 1), total=1.0)])
    assert mapped.matrix.shape == (3, 2)
    assert mapped.squares == pytest.approx(1.0, abs=1e-6)
    # Coefficients of any coordinates add up to zero over the categories.
    assert (mapped.gauge @ mapped.matrix)[:2].sum(axis=0) == pytest.approx(0.0, abs=1e-9)
