"""Principal components of a noisy second moment: exact without noise, and without the bias of the noise."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.decomposition import PCA

from pais import Ball, MomentValue, NormDistribution
from pais._base.numerics import FloatArray
from pais.pca.components import Clipping, SamplingError, principal_components, shrunk_spectrum

CONSTANT = 0.5


def value_of(rows: FloatArray, center: FloatArray, scale: float = 1e-9) -> MomentValue:
    """The second moment of the rows about a center, exactly."""
    longer = np.column_stack([rows - center, np.full(len(rows), CONSTANT)])
    return MomentValue(moment=longer.T @ longer, scale=scale, constant=CONSTANT)


def noise_of(rng: np.random.Generator, d: int) -> FloatArray:
    """Symmetric noise of deviation 1 on the diagonal and 1/sqrt(2) off it."""
    square = rng.normal(size=(d, d))
    return (square + square.T) / 2.0


@pytest.fixture(scope="module")
def rows() -> FloatArray:
    rng = np.random.default_rng(0)
    return rng.normal(size=(2000, 6)) @ (rng.normal(size=(6, 6)) * np.geomspace(1.0, 0.1, 6)) + 3.0


def test_exact_moments_give_the_components_of_scikit_learn(rows: FloatArray) -> None:
    center = np.arange(6.0)
    result, exact = principal_components(value_of(rows, center), center=center), PCA().fit(rows)
    np.testing.assert_allclose(result.mean, exact.mean_, rtol=1e-9)
    np.testing.assert_allclose(result.components, exact.components_, atol=1e-9)
    # scikit-learn divides by n - 1.
    np.testing.assert_allclose(result.variances, exact.explained_variance_ * 1999 / 2000, rtol=1e-9)
    assert result.above_noise == 6
    assert result.captured(2) == pytest.approx(1.0)


def test_signs_do_not_depend_on_the_solver(rows: FloatArray) -> None:
    components = principal_components(value_of(rows, np.zeros(6)), center=np.zeros(6)).components
    largest = components[np.arange(6), np.abs(components).argmax(axis=1)]
    assert np.all(largest > 0.0)


def test_the_shrunk_spectrum_falls_is_not_negative_and_keeps_the_trace() -> None:
    rng = np.random.default_rng(1)
    for d in (1, 2, 5, 40):
        noisy = np.linalg.eigvalsh(np.diag(np.geomspace(100.0, 0.01, d)) + noise_of(rng, d))[::-1]
        shrunk = shrunk_spectrum(noisy, 1.0)
        assert np.all(np.diff(shrunk) <= 0.0)
        assert np.all(shrunk >= 0.0)
        assert shrunk.sum() == pytest.approx(max(noisy.sum(), 0.0))


def test_without_noise_the_spectrum_is_that_of_the_matrix() -> None:
    np.testing.assert_array_equal(shrunk_spectrum(np.array([3.0, 3.0, 0.0]), 0.0), [3.0, 3.0, 0.0])


@pytest.mark.statistical
@pytest.mark.parametrize("spectrum", ["few large", "falling", "none"])
def test_shrinkage_removes_the_bias_of_the_noise(spectrum: str) -> None:
    """Shrunk eigenvalues estimate v'Sv without bias, noisy ones overestimate it; 30 matrices with a fixed seed."""
    d, rng = 40, np.random.default_rng(2)
    exact = {
        "few large": np.where(np.arange(d) < 3, 15.0, 0.0),
        "falling": 60.0 * np.arange(1.0, d + 1.0) ** -1.5,
        "none": np.zeros(d),
    }[spectrum]
    errors = []
    for _ in range(30):
        noisy, vectors = np.linalg.eigh(np.diag(exact) + noise_of(rng, d))
        variances = np.einsum("ji,j,ji->i", vectors, exact, vectors)[::-1]
        shrunk = shrunk_spectrum(noisy[::-1], 1.0)
        errors.append([(noisy[::-1] - variances)[:3].sum(), (shrunk - variances)[:3].sum()])
    noisy_bias, bias = np.mean(errors, axis=0)
    # The three first variances have a deviation of about 1.7 together, and their mean over 30 runs one of 0.31.
    assert noisy_bias > 4.0
    assert abs(bias) < 0.25 * noisy_bias


def test_predicted_capture_is_that_of_the_components() -> None:
    d, k, rng = 40, 5, np.random.default_rng(3)
    exact = 100.0 * np.arange(1.0, d + 1.0) ** -1.0
    longer = np.diag([*exact, 1e9])
    predicted, true = [], []
    for _ in range(40):
        value = MomentValue(moment=longer + noise_of(rng, d + 1), scale=1.0, constant=1.0)
        result = principal_components(value, center=np.zeros(d))
        predicted.append(result.captured(k))
        true.append(np.square(result.components[:k]) @ exact @ np.ones(k) / exact[:k].sum())
    assert np.mean(true) < 0.99
    assert np.mean(predicted) == pytest.approx(np.mean(true), abs=0.01)


def test_noise_alone_has_no_components_above_it() -> None:
    d, rng = 100, np.random.default_rng(4)
    longer = np.zeros((d + 1, d + 1))
    longer[-1, -1] = 1e6
    counts = [
        principal_components(
            MomentValue(moment=longer + noise_of(rng, d + 1), scale=1.0, constant=1.0), center=np.zeros(d)
        ).above_noise
        for _ in range(20)
    ]
    assert np.mean(counts) < 0.5


def test_a_component_whose_estimated_variance_is_within_the_noise_does_not_stand_above_it() -> None:
    """A noisy variance may be above the noise level although nothing of it is left without the bias of the noise."""
    result = principal_components(
        MomentValue(moment=np.diag([30.0, 4.5, 4.4, 4.3, -9.0, 100.0]), scale=1.0, constant=1.0), center=np.zeros(5)
    )
    assert np.count_nonzero(result.noisy_variances > result.noise_level) == 4
    assert result.variances[3] < 2.0 * result.noise
    assert all(result.variances[: result.above_noise] > 2.0 * result.noise)
    assert 1 <= result.above_noise <= 3


def test_a_count_lost_in_noise_gives_finite_components() -> None:
    moment = np.diag([1.0, 1.0, -5.0])
    result = principal_components(MomentValue(moment=moment, scale=2.0, constant=CONSTANT), center=np.zeros(2))
    assert np.all(np.isfinite(result.variances))
    assert np.all(np.isfinite(result.mean))


def test_number_of_components_for_a_share(rows: FloatArray) -> None:
    result, exact = principal_components(value_of(rows, np.zeros(6)), center=np.zeros(6)), PCA().fit(rows)
    for share in (0.05, 0.5, 0.9, 0.99, 1.0 - 1e-12):
        assert result.n_components_for(share) == PCA(share, svd_solver="full").fit(rows).n_components_
    assert result.n_components_for(float(np.nextafter(exact.explained_variance_ratio_[0], 0.0)) - 1e-9) == 1


def test_clipping_corrects_the_variance_of_rows_whose_directions_do_not_depend_on_their_norm() -> None:
    rng = np.random.default_rng(5)
    direction = rng.normal(size=(200_000, 3))
    direction /= np.linalg.norm(direction, axis=1)[:, None]
    norm = rng.pareto(5.0, size=len(direction)) + 0.2
    rows, ball = direction * norm[:, None], Ball(radius=1.0, constant=0.2)
    norms = NormDistribution(norms=norm, masses=np.ones(len(norm)), radius=float(norm.max()))
    clipping = Clipping.of(norms, ball)
    assert clipping.missing > 0.1 * np.square(norm).mean()
    assert clipping.bias > 0.0
    longer = np.column_stack([rows, np.full(len(rows), 0.2)])
    longer *= np.minimum(1.0, 1.0 / np.linalg.norm(longer, axis=1))[:, None]
    value = MomentValue(moment=longer.T @ longer, scale=1e-9, constant=0.2)
    result = principal_components(value, center=np.zeros(3), clipping=clipping)
    assert result.variances.sum() == pytest.approx(np.square(norm).mean(), rel=1e-3)
    assert result.beyond == pytest.approx(clipping.missing / np.square(norm).mean(), rel=0.02)


def test_rows_within_the_ball_need_no_correction() -> None:
    norms = NormDistribution.from_histogram([0.0, 1.0, 2.0], [10, 20])
    clipping = Clipping.of(norms, Ball(radius=2.5, constant=0.5))
    assert clipping.weight == pytest.approx(1.0)
    assert clipping.missing == pytest.approx(0.0)
    assert clipping.bias == pytest.approx(0.0)
    nothing = NormDistribution(norms=np.zeros(1), masses=np.ones(1), radius=1.0)
    assert Clipping.of(nothing, Ball(radius=1.0)) == Clipping()


def test_errors_are_those_of_noise_in_the_moment_the_mean_and_the_count() -> None:
    """400 draws of noise about a mean far from the center: the errors are the deviations of the variances."""
    d, rng, n = 4, np.random.default_rng(6), 1e4
    exact, mean = np.array([4.0, 1.5, 0.5, 0.1]), np.array([2.0, 1.0, 0.0, -1.0])
    longer = np.zeros((d + 1, d + 1))
    longer[:-1, :-1] = n * (np.diag(exact) + np.outer(mean, mean))
    longer[-1, :-1] = longer[:-1, -1] = n * CONSTANT * mean
    longer[-1, -1] = n * CONSTANT**2
    scale = 40.0
    results = [
        principal_components(
            MomentValue(moment=longer + scale * noise_of(rng, d + 1), scale=scale, constant=CONSTANT),
            center=np.zeros(d),
        )
        for _ in range(400)
    ]
    deviations = np.std([result.variances for result in results], axis=0)
    np.testing.assert_allclose(np.mean([result.standard_errors for result in results], axis=0), deviations, rtol=0.15)
    # The noise of the number of rows and of the mean is most of it.
    assert deviations[0] > 5.0 * results[0].noise


def test_errors_hold_the_variance_of_the_best_component() -> None:
    """The noise raises the first eigenvalues; intervals hold those of the rows and the variances along components."""
    d, rng = 40, np.random.default_rng(7)
    exact = 60.0 * np.arange(1.0, d + 1.0) ** -1.0
    held = []
    for _ in range(60):
        moment = np.diag([*exact, 1e9]) + noise_of(rng, d + 1)
        result = principal_components(MomentValue(moment=moment, scale=1.0, constant=1.0), center=np.zeros(d))
        along = np.square(result.components) @ exact
        reach = 2.0 * result.standard_errors * 1e9
        held.append([np.abs(result.variances * 1e9 - truth)[:5] <= reach[:5] for truth in (exact, along)])
    assert np.mean(held, axis=0).min() >= 0.9


def test_errors_hold_the_sample() -> None:
    """A bound on the deviation over samples, which is not far above it for the first component."""
    rng = np.random.default_rng(8)
    rows = rng.normal(size=(4_000, 4)) * [2.0, 0.7, 0.5, 0.3]
    longer = np.column_stack([rows, np.full(len(rows), CONSTANT)])
    norms = np.linalg.norm(rows, axis=1)
    kept = np.clip(0.1 * norms, 0.05, 1.0)
    sampling = SamplingError(norms=norms, masses=np.ones(len(rows)), spare=1.0 / kept - 1.0)
    variances, errors = [], []
    for _ in range(200):
        drawn = rng.random(len(rows)) < kept
        weighted = longer[drawn] / np.sqrt(kept[drawn])[:, None]
        value = MomentValue(moment=weighted.T @ weighted, scale=1e-9, constant=CONSTANT)
        result = principal_components(value, center=np.zeros(4), sampling=sampling)
        variances.append(result.variances)
        errors.append(result.standard_errors)
    ratio = np.mean(errors, axis=0) / np.std(variances, axis=0)
    assert np.all(ratio > 1.0)
    assert ratio[0] < 2.5


def test_errors_hold_what_is_not_known_about_clipped_rows() -> None:
    value = MomentValue(moment=np.diag([300.0, 100.0, 25.0]), scale=1e-9, constant=CONSTANT)
    clipping = Clipping(weight=1.0, missing=1.0, error=0.5)
    result = principal_components(value, center=np.zeros(2), clipping=clipping)
    np.testing.assert_allclose(result.variances, [3.0 + 0.75, 1.0 + 0.25])
    assert result.beyond == pytest.approx(0.2)
    share = np.array([0.75, 0.25])
    squares = np.square(share * 0.5) + 0.3**2 * (1.0 + 0.25) * share * (1.0 - share)
    np.testing.assert_allclose(result.standard_errors, np.sqrt(squares), rtol=1e-6)
