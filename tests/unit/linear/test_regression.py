"""Linear regression from a noisy second moment."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import LinearRegression, Ridge

import pais
from pais.linear.coefficients import Reweighting, linear_regression
from pais.mechanisms.moments import MomentValue

Floats = NDArray[np.float64]
CONSTANT = 0.7


def rows_of(n: int, d: int, seed: int, noise: float = 0.5) -> tuple[Floats, Floats, Floats]:
    """Features of different size, targets, and the coefficients with the intercept last."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * np.linspace(0.5, 1.5, d) + 0.3
    theta = np.append(rng.normal(size=d) / math.sqrt(d), 0.4)
    return X, X @ theta[:-1] + theta[-1] + noise * rng.normal(size=n), theta


def moment_of(X: Floats, y: Floats, scale: float = 0.0, weights: Floats | None = None, seed: int = 0) -> MomentValue:
    """The second moment with symmetric noise. A scale of 0 stands for noise that is negligible."""
    rows = np.column_stack([X, y, np.full(len(y), CONSTANT)])
    moment = rows.T @ (rows if weights is None else rows * weights[:, None])
    noise = np.random.default_rng(seed).normal(size=moment.shape) * scale
    upper = np.triu(noise, 1) / math.sqrt(2.0)
    return MomentValue(
        moment=moment + upper + upper.T + np.diag(np.diag(noise)), scale=max(scale, 1e-9), constant=CONSTANT
    )


def test_without_noise_and_penalty_it_is_weighted_least_squares() -> None:
    X, y, _ = rows_of(300, 4, 0)
    weights = np.random.default_rng(1).uniform(0.1, 5.0, size=300)
    value = linear_regression(moment_of(X, y, weights=weights), alpha=0.0)
    exact = LinearRegression().fit(X, y, sample_weight=weights)
    assert value.coefficients == pytest.approx(exact.coef_, rel=1e-8)
    assert value.intercept == pytest.approx(exact.intercept_, rel=1e-8)
    assert value.noisy_count == pytest.approx(weights.sum())


def test_a_stated_penalty_is_that_of_ridge_regression() -> None:
    X, y, _ = rows_of(300, 4, 0)
    value = linear_regression(moment_of(X, y), alpha=50.0)
    exact = Ridge(alpha=50.0).fit(X, y)
    assert value.coefficients == pytest.approx(exact.coef_, rel=1e-8)
    assert value.intercept == pytest.approx(exact.intercept_, rel=1e-8)


def test_without_a_constant_the_line_passes_through_the_origin() -> None:
    X, y, _ = rows_of(300, 4, 0)
    whole = moment_of(X, y)
    value = linear_regression(MomentValue(moment=whole.moment[:-1, :-1], scale=1e-9), alpha=0.0, n_rows=300)
    assert value.coefficients == pytest.approx(LinearRegression(fit_intercept=False).fit(X, y).coef_, rel=1e-8)
    assert value.intercept == 0.0
    assert value.covariance[-1].tolist() == [0.0] * 5


def test_the_penalty_for_the_noise_vanishes_with_it() -> None:
    X, y, _ = rows_of(20_000, 4, 0)
    exact = LinearRegression().fit(X, y)
    value = linear_regression(moment_of(X, y, scale=1.0))
    assert value.coefficients == pytest.approx(exact.coef_, abs=2e-3)
    assert value.residual_variance == pytest.approx(0.25, rel=0.05)


@pytest.mark.parametrize("scale", [100.0, 300.0, 1000.0])
def test_the_penalty_for_the_noise_is_better_than_none(scale: float) -> None:
    errors = []
    for seed in range(20):
        X, y, theta = rows_of(2000, 8, seed)
        values = [linear_regression(moment_of(X, y, scale, seed=seed), alpha=alpha) for alpha in ("noise", 0.0)]  # type: ignore[arg-type]  # both kinds
        errors.append([float(np.mean(np.square(X @ (value.coefficients - theta[:-1])))) for value in values])
    mean = np.mean(errors, axis=0)
    assert mean[0] < mean[1]
    # Never much worse than no coefficients at all.
    assert mean[0] < 1.5


@pytest.mark.statistical
@pytest.mark.parametrize(("alpha", "least"), [(0.0, 0.93), ("noise", 0.92)])
def test_standard_errors_cover(alpha: object, least: float) -> None:
    """The share of coefficients and intercepts within 1.96 standard errors, over noise and rows."""
    inside = []
    for seed in range(400):
        theta = rows_of(1, 5, seed)[2]
        X = np.random.default_rng(10_000 + seed).normal(size=(4000, 5)) + 0.3
        y = X @ theta[:-1] + theta[-1] + 0.5 * np.random.default_rng(20_000 + seed).normal(size=4000)
        value = linear_regression(moment_of(X, y, 40.0, seed=30_000 + seed), alpha=alpha)  # type: ignore[arg-type]  # both kinds
        error = np.append(value.coefficients, value.intercept) - theta
        inside.append(np.abs(error) <= 1.96 * np.sqrt(np.diag(value.covariance)))
    assert least <= np.mean(inside) <= 0.985


def test_standard_errors_grow_with_the_weights_of_a_sample() -> None:
    X, y, _ = rows_of(4000, 5, 0)
    value = moment_of(X, y, 0.01)
    one, ten = (linear_regression(value, alpha=0.0, spread=spread) for spread in (1.0, 10.0))
    assert np.diag(ten.covariance) == pytest.approx(10.0 * np.diag(one.covariance), rel=0.01)


@pytest.mark.parametrize("quantile", [0.1, 0.5, 0.9])
def test_coefficients_are_corrected_for_clipping(quantile: float) -> None:
    """A row with a large residual is clipped more, which shrinks coefficients unless they are corrected."""
    X, y, theta = rows_of(200_000, 4, 0, noise=0.8)
    norms = np.sqrt(np.square(X).sum(axis=1) + y**2 + CONSTANT**2)
    radius = float(np.quantile(norms, quantile))
    value = moment_of(X, y, weights=np.square(np.minimum(1.0, radius / norms)))
    clipped = Reweighting.of(norms, np.ones(len(norms)), radius)
    biased, corrected = (
        linear_regression(value, alpha=0.0, reweighting=weights).coefficients / theta[:-1] - 1.0
        for weights in (None, clipped)
    )
    assert np.mean(biased) < -0.01
    assert abs(np.mean(corrected)) < 0.35 * abs(np.mean(biased))


def test_no_row_is_clipped_within_the_radius() -> None:
    assert Reweighting.of(np.array([0.5, 1.0]), np.ones(2), 1.0) == Reweighting(shrinkage=0.0, variance=0.0)
    assert Reweighting.of(np.array([0.0]), np.ones(1), 1.0) == Reweighting()


def test_weights_of_clipped_rows() -> None:
    found = Reweighting.of(np.array([1.0, 2.0]), np.array([3.0, 1.0]), 1.0)
    assert found.shrinkage == pytest.approx(0.25 / 4.0)
    # Weights 1 and 1/4, by squared norms 3 and 4 in total.
    mean = (3.0 + 1.0) / 7.0
    assert found.variance == pytest.approx((3.0 * (1.0 - mean) ** 2 + 4.0 * (0.25 - mean) ** 2) / 7.0 / mean**2)


@pytest.mark.parametrize("misfit", [0.0, 0.4])
def test_errors_contain_what_the_weights_of_clipped_rows_change(misfit: float) -> None:
    """Least squares on all rows, also if the model is wrong for the rows that are clipped most. There is no noise."""
    inside, widths = [], []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X = rng.laplace(size=(20_000, 3))
        y = X @ [0.5, -0.3, 0.2] + misfit * X[:, 0] * np.abs(X[:, 0]) + rng.normal(size=20_000)
        norms = np.sqrt(np.square(X).sum(axis=1) + y**2 + CONSTANT**2)
        radius = float(np.quantile(norms, 0.9))
        value = moment_of(X, y, weights=np.square(np.minimum(1.0, radius / norms)))
        found = linear_regression(value, reweighting=Reweighting.of(norms, np.ones(len(norms)), radius))
        off = found.coefficients - LinearRegression().fit(X, y).coef_
        errors = np.sqrt(np.diag(found.covariance))[:-1]
        inside.append(np.abs(off) <= 2.0 * errors)
        widths.append(errors / np.sqrt(np.diag(linear_regression(value).covariance))[:-1])
    assert np.mean(inside, axis=0).min() >= 0.9
    assert np.median(widths) > 1.5


def test_a_direction_that_the_noise_hides_has_the_plausible_error_and_is_marked_as_assumed() -> None:
    """Two columns that hardly differ: their sum is known, and their difference is not."""
    rng = np.random.default_rng(0)
    both, alone = rng.normal(size=4000), rng.normal(size=4000)
    X = np.column_stack([both, both + 0.01 * rng.normal(size=4000), alone])
    y = X @ [0.4, 0.4, 0.5] + rng.normal(size=4000)
    value = linear_regression(moment_of(X, y, 30.0), plausible=0.7)
    errors, assumed = (np.sqrt(np.diag(each)) for each in (value.covariance, value.assumed))
    assert assumed[:2] == pytest.approx(0.7 / math.sqrt(2.0), rel=0.05)
    # The penalty has drawn the difference to some value, which adds to the error.
    assert np.all((assumed[:2] <= errors[:2]) & (errors[:2] < 0.7))
    assert errors[2] < 0.1
    assert assumed[2] < 0.5 * errors[2]
    total = np.array([1.0, 1.0, 0.0, 0.0])
    assert math.sqrt(total @ value.covariance @ total) < 0.1


def test_a_combination_that_is_zero_in_all_rows_costs_no_error() -> None:
    """Three shares that add up to zero: without the constraint, the noise hides their common part."""
    rng = np.random.default_rng(0)
    shares = np.eye(3)[rng.integers(0, 3, 4000)] - 1.0 / 3.0
    y = shares @ [1.0, 0.0, -1.0] + rng.normal(size=4000)
    value, constraints = moment_of(shares, y, 20.0), np.array([[1.0, 1.0, 1.0, 0.0]])
    free, held = linear_regression(value), linear_regression(value, constraints=constraints)
    assert abs(held.coefficients.sum()) < 1e-9
    assert np.diag(held.covariance)[:3] == pytest.approx(np.diag(held.covariance)[0], rel=0.2)
    assert np.diag(held.covariance)[0] < 0.5 * np.diag(free.covariance)[0]
    assert np.diag(held.assumed).max() < 1e-3
    assert held.coefficients == pytest.approx([1.0, 0.0, -1.0], abs=3.0 * math.sqrt(held.covariance[0, 0]))


def test_moments_that_cannot_be_regressed_are_refused() -> None:
    with pytest.raises(pais.ArgumentError, match="no feature"):
        linear_regression(MomentValue(moment=np.eye(2), scale=1.0, constant=1.0))
    with pytest.raises(pais.ArgumentError, match="n_rows"):
        linear_regression(MomentValue(moment=np.eye(2), scale=1.0))
    with pytest.raises(pais.ArgumentError, match="alpha"):
        linear_regression(MomentValue(moment=np.eye(3), scale=1.0, constant=1.0), alpha=-1.0)


@pytest.mark.parametrize("alike", [True, False])
def test_columns_that_are_nearly_the_same_are_named_if_the_noise_hides_their_difference(alike: bool) -> None:
    """Columns 0 and 1 differ by a thousandth, or the noise hides them because they are weak, and they are not alike."""
    rng = np.random.default_rng(12)
    x = rng.uniform(-1.0, 1.0, size=(10_000, 3))
    if alike:
        x[:, 1] = x[:, 0] + 1e-3 * rng.normal(size=10_000)
    else:
        x[:, :2] *= 0.02
    rows = np.column_stack([x, x[:, 2] + 0.1 * rng.normal(size=10_000), np.full(10_000, 0.5)])
    for seed in range(10):
        square = np.random.default_rng(seed).normal(size=(5, 5))
        value = MomentValue(moment=rows.T @ rows + 10.0 * (square + square.T) / 2.0, scale=10.0, constant=0.5)
        assert linear_regression(value).alike.tolist() == [alike, alike, False]
    exact = MomentValue(moment=rows.T @ rows, scale=1e-9, constant=0.5)
    assert not linear_regression(exact).alike.any()
