"""Estimates from noisy counts of norms: thresholds, falling tails and their continuation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from pais import GaussianNoise, LpNoise, laplace_noise
from pais.planning.facts import NoisyCounts, NormCounts, combined, falling_counts, sum_bound

Floats = NDArray[np.float64]
BINS = 12


def histogram(norms: Floats, bins: int = BINS) -> Floats:
    edges = np.exp2(np.arange(-100 * bins, 100 * bins + 1) / bins)
    return np.histogram(np.clip(norms, edges[0], edges[-1]), edges)[0].astype(np.float64)


def noisy(norms: Floats, epsilon: float, seed: int, bins: int = BINS) -> NoisyCounts:
    counts = histogram(norms, bins)
    noise = np.random.default_rng(seed).laplace(scale=1.0 / epsilon, size=counts.size)
    return NoisyCounts(counts=counts + noise, bins_per_octave=bins, noise=laplace_noise(1.0 / epsilon))


def nearest_falling(values: Floats) -> Floats:
    """The least-squares fit of falling values, by its formula with minima and maxima of means."""
    n = values.size
    return np.array(
        [max(min(values[a : b + 1].mean() for a in range(i + 1)) for b in range(i, n)) for i in range(n)],
    )


@pytest.mark.parametrize("seed", range(4))
def test_falling_counts_have_the_nearest_falling_tails(seed: int) -> None:
    rng = np.random.default_rng(seed)
    counts = rng.poisson(20.0 * np.exp(-np.arange(30) / 8)) + rng.laplace(scale=8.0, size=30)
    estimate = falling_counts(counts)
    assert np.all(estimate >= 0.0)
    assert estimate.sum() == pytest.approx(max(counts.sum(), 1.0))
    tails = np.maximum(nearest_falling(np.cumsum(counts[::-1])[::-1]), 0.0)
    expected = tails - np.append(tails[1:], 0.0)
    np.testing.assert_allclose(estimate, expected * (estimate.sum() / expected.sum()), atol=1e-9)


def test_falling_counts_of_pure_noise_are_one_row() -> None:
    np.testing.assert_allclose(falling_counts(np.array([-3.0, -1.0, -2.0])), [0.0, 0.0, 1.0])


@pytest.mark.parametrize("n_terms", [1, 2, 4, 12])
@pytest.mark.parametrize("gaussian", [True, False])
def test_sums_of_noise_exceed_their_bound_with_the_stated_probability_at_most(n_terms: int, gaussian: bool) -> None:
    rng = np.random.default_rng(n_terms)
    law: GaussianNoise | LpNoise = GaussianNoise(scale=3.0) if gaussian else laplace_noise(3.0)
    draw = rng.normal if gaussian else rng.laplace
    sums = draw(scale=3.0, size=(400_000, n_terms)).sum(axis=1)
    for chance in (0.1, 0.01, 1e-3):
        bound = float(sum_bound(law, n_terms, np.array([-math.log(chance)]))[0])
        share = float(np.mean(sums > bound))
        assert share <= chance + 4.0 * math.sqrt(chance / sums.size)
        # Not so loose that it is of no use.
        assert share > 0.01 * chance
    if not gaussian:
        exact = stats.laplace(scale=3.0).isf(1e-3)
        assert float(sum_bound(law, 1, np.array([-math.log(1e-3)]))[0]) >= exact


@pytest.mark.parametrize("bins", [1, 2, 4, 12])
def test_an_empty_table_rarely_stands_out(bins: int) -> None:
    seen = sum(noisy(np.empty(0), 0.1, seed, bins).estimate() is not None for seen, seed in enumerate(range(500)))
    assert seen <= 25


@pytest.mark.parametrize("seed", range(2))
def test_an_estimate_has_the_rows_and_their_square_norms(seed: int) -> None:
    norms = stats.chi(10).rvs(20_000, random_state=seed)
    estimate = noisy(norms, 0.05, seed).estimate()
    assert estimate is not None
    assert abs(estimate.n_rows - 20_000) < 5.0 * math.sqrt(estimate.variance)
    upper = np.exp2(np.arange(-100 * BINS + 1, 100 * BINS + 1) / BINS)
    assert estimate.counts @ upper**2 / estimate.n_rows == pytest.approx(np.mean(norms**2), rel=0.15)
    # Light tails are hardly continued.
    assert upper[np.flatnonzero(estimate.counts)[-1]] < 1.7 * norms.max()


UPPER = np.exp2(np.arange(-100 * BINS + 1, 100 * BINS + 1) / BINS)


def test_a_heavy_tail_is_continued(monkeypatch: pytest.MonkeyPatch) -> None:
    norms = (1.0 - np.random.default_rng(1).uniform(size=100_000)) ** (-1.0 / 3.0)
    radius = 6.0
    clipped = np.square(np.maximum(norms - radius, 0.0)).sum()

    def predicted() -> float:
        """Clipped squares by the estimate over the true ones; median of ten."""
        estimates = [noisy(norms, 0.03, seed).estimate() for seed in range(10)]
        tails = [np.square(np.maximum(UPPER - radius, 0.0)) @ one.counts for one in estimates if one is not None]
        return float(np.median(tails) / clipped)

    continued = predicted()
    monkeypatch.setattr("pais.planning.facts._MANY_ROWS", math.inf)
    assert 2.0 * predicted() < continued < 2.0


def test_a_tail_that_ends_at_once_is_not_continued() -> None:
    for seed in range(10):
        estimate = noisy(np.full(5000, 10.0), 0.3, seed).estimate()
        assert estimate is not None
        nearly_all = np.argmax(np.cumsum(estimate.counts) >= 0.99 * estimate.n_rows)
        assert UPPER[nearly_all] < 1.1 * 10.0


def test_the_number_of_rows_of_two_histograms_has_the_least_variance() -> None:
    one = NormCounts(counts=np.array([50.0, 50.0]), variance=100.0)
    two = NormCounts(counts=np.array([0.0, 130.0]), variance=50.0)
    both = combined(one, two)
    np.testing.assert_allclose(both.counts, [0.0, 120.0])
    assert both.variance == pytest.approx(100.0 / 3.0)
