"""The noise laws are the ones the profiles price: each test accepts the true law and rejects a wrong one.

Seeds are fixed. A right implementation misses an acceptance threshold about once in a million streams, and every
rejected law misses its own by orders of magnitude.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from pais import GaussianNoise, LpNoise, laplace_noise
from pais._base.randomness import SeededBits
from pais.mechanisms.noise import NoiseLaw

Floats = NDArray[np.float64]

N = 40_000
D = 6
SCALE = 2.5
ORDERS = [1.0, 1.5, 2.0, 3.0, math.inf]

ACCEPT = 1e-6
REJECT = 1e-12


def drawn(law: NoiseLaw, n: int = N, d: int = D, seed: int = 20_240_601) -> Floats:
    return law.draw((n, d), SeededBits(np.random.default_rng(seed)))


def lp_norm(rows: Floats, p: float) -> Floats:
    return np.asarray(np.linalg.norm(rows, ord=p, axis=1))


def p_value(values: Floats, cdf: Callable[[Floats], Floats]) -> float:
    return float(stats.kstest(values, cdf).pvalue)


def normalised_gaussian(p: float, seed: int, n: int = N, d: int = D) -> Floats:
    """Directions as in the published code: a Gaussian, divided by its l_p norm (right only for p = 2)."""
    g = np.random.default_rng(seed).standard_normal((n, d))
    return np.asarray(g / lp_norm(g, p)[:, None])


def normalised_cube(p: float, seed: int, n: int = N, d: int = D) -> Floats:
    u = np.random.default_rng(seed).uniform(-1.0, 1.0, (n, d))
    return np.asarray(u / lp_norm(u, p)[:, None])


@pytest.mark.parametrize("p", ORDERS)
@pytest.mark.parametrize("d", [2, D])
def test_the_lp_radius_is_gamma_and_neither_exponential_nor_ten_percent_wider(p: float, d: int) -> None:
    noise = drawn(LpNoise(scale=SCALE, p=p), d=d)
    radius = lp_norm(noise, p)
    right = stats.gamma(d, scale=SCALE).cdf
    assert p_value(radius, right) > ACCEPT
    # (a) The radius of the published code, on the same directions (erratum 1).
    published = noise / radius[:, None] * np.random.default_rng(1).exponential(SCALE, (N, 1))
    assert p_value(lp_norm(published, p), right) < REJECT
    # (b) The same law, ten percent wider; and the other way round.
    assert p_value(1.1 * radius, right) < REJECT
    assert p_value(radius, stats.gamma(d, scale=1.1 * SCALE).cdf) < REJECT


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 3.0])
def test_directions_follow_the_cone_measure_and_not_another_normalised_law(p: float) -> None:
    direction = drawn(LpNoise(scale=SCALE, p=p))
    direction /= lp_norm(direction, p)[:, None]
    right = stats.beta(1.0 / p, (D - 1.0) / p).cdf
    wrong = normalised_cube(p, seed=2) if p == 2.0 else normalised_gaussian(p, seed=2)
    for column in range(D):
        assert p_value(np.abs(direction[:, column]) ** p, right) > ACCEPT
        assert p_value(np.abs(wrong[:, column]) ** p, right) < REJECT


def test_directions_of_the_cube_have_one_face_coordinate_and_uniform_others() -> None:
    def evidence(direction: Floats) -> tuple[float, float]:
        """p-values of: |u_j| is 1 with probability 1/d; else it is uniform on [0, 1]."""
        size = np.abs(direction)
        on_face = [stats.binomtest(int(np.sum(size[:, j] == 1.0)), N, 1.0 / D).pvalue for j in range(D)]
        inside = [p_value(size[size[:, j] < 1.0, j], stats.uniform.cdf) for j in range(D)]
        return min(on_face), min(inside)

    noise = drawn(LpNoise(scale=SCALE, p=math.inf))
    direction = noise / lp_norm(noise, math.inf)[:, None]
    assert np.all(np.max(np.abs(direction), axis=1) == 1.0)
    assert min(evidence(direction)) > ACCEPT
    _, inside = evidence(normalised_gaussian(math.inf, seed=3))
    assert inside < REJECT
    # A law that prefers one face: rotate the largest coordinate of every other row to the front.
    preferred = direction.copy()
    largest = np.argmax(np.abs(preferred[::2]), axis=1)
    rows = np.arange(preferred[::2].shape[0])
    preferred[::2][rows, 0], preferred[::2][rows, largest] = (
        preferred[::2][rows, largest],
        preferred[::2][rows, 0].copy(),
    )
    on_face, _ = evidence(preferred)
    assert on_face < REJECT


def test_l1_noise_has_independent_laplace_coordinates() -> None:
    noise = drawn(laplace_noise(SCALE))
    right = stats.laplace(scale=SCALE).cdf
    # (c) Erratum 12: the Gamma radius is right and the direction is not.
    radius = np.random.default_rng(4).gamma(D, SCALE, (N, 1))
    wrong = radius * normalised_gaussian(1.0, seed=5)
    assert p_value(lp_norm(wrong, 1.0), stats.gamma(D, scale=SCALE).cdf) > ACCEPT
    for column in range(D):
        assert p_value(noise[:, column], right) > ACCEPT
        assert p_value(wrong[:, column], right) < REJECT
    # Independent coordinates: absolute values do not go together. Those of an l2 law do.
    off_diagonal = ~np.eye(D, dtype=bool)
    ball_like = drawn(LpNoise(scale=SCALE, p=2.0))
    assert np.all(np.abs(np.corrcoef(np.abs(noise).T)[off_diagonal]) < 6.0 / math.sqrt(N))
    assert np.all(np.abs(np.corrcoef(np.abs(ball_like).T)[off_diagonal]) > 6.0 / math.sqrt(N))


@pytest.mark.parametrize("p", [1.5, 2.0, 3.0, math.inf])
def test_the_radius_does_not_depend_on_the_direction(p: float) -> None:
    def correlation(rows: Floats) -> float:
        radius = lp_norm(rows, p)
        return float(np.corrcoef(radius, np.abs(rows[:, 0] / radius))[0, 1])

    noise = drawn(LpNoise(scale=SCALE, p=p))
    assert abs(correlation(noise)) < 5.0 / math.sqrt(N)
    # A law stretched along one axis has the same directions' support and a radius that depends on them.
    stretched = noise * np.r_[1.2, np.ones(D - 1)]
    assert abs(correlation(stretched)) > 5.0 / math.sqrt(N)


@pytest.mark.parametrize("p", [64.0, 1e3, 1e6])
def test_large_finite_orders_keep_their_law_and_stay_finite(p: float) -> None:
    noise = drawn(LpNoise(scale=SCALE, p=p), d=2)
    assert np.all(np.isfinite(noise))
    size = np.abs(noise) / np.max(np.abs(noise), axis=1, keepdims=True)
    # Of two coordinates the smaller, over the larger, is all but uniform for a large order (exactly so at infinity).
    ratio = np.min(size, axis=1)
    power = np.random.default_rng(6).gamma(1.0 + 1.0 / p, size=(N, 2)) ** (1.0 / p)
    sizes = power * np.random.default_rng(7).uniform(size=(N, 2))
    reference = np.min(sizes, axis=1) / np.max(sizes, axis=1)
    assert stats.ks_2samp(ratio, reference).pvalue > ACCEPT
    assert stats.ks_2samp(ratio * 0.9, reference).pvalue < REJECT


def test_gaussian_coordinates_are_normal_and_neither_wider_nor_laplace() -> None:
    noise = drawn(GaussianNoise(scale=SCALE))
    for column in range(D):
        assert p_value(noise[:, column], stats.norm(scale=SCALE).cdf) > ACCEPT
        assert p_value(1.1 * noise[:, column], stats.norm(scale=SCALE).cdf) < REJECT
        assert p_value(noise[:, column], stats.laplace(scale=SCALE / math.sqrt(2.0)).cdf) < REJECT
    square = np.square(lp_norm(noise, 2.0) / SCALE)
    assert p_value(square, stats.chi2(D).cdf) > ACCEPT
    # One shared coordinate has normal margins and another length.
    shared = np.repeat(noise[:, :1], D, axis=1)
    assert p_value(np.square(lp_norm(shared, 2.0) / SCALE), stats.chi2(D).cdf) < REJECT


ALL_LAWS: list[NoiseLaw] = [*(LpNoise(scale=SCALE, p=p) for p in ORDERS), GaussianNoise(scale=SCALE)]
LAW_NAMES = [*(f"l{p:g}" for p in ORDERS), "gaussian"]


@pytest.mark.parametrize("law", ALL_LAWS, ids=LAW_NAMES)
def test_signs_are_fair_and_independent_of_each_other_and_of_the_size(law: NoiseLaw) -> None:
    def largest_bias(rows: Floats) -> float:
        """The largest mean of a sign, of a product of two signs, and of sign times size, in its own sigmas."""
        sign = np.sign(rows)
        singles = np.abs(sign.mean(axis=0))
        pairs = np.abs(sign.T @ sign / len(rows))[~np.eye(rows.shape[1], dtype=bool)]
        sized = np.abs(rows.mean(axis=0) / rows.std(axis=0))
        return float(np.max(np.r_[singles, pairs, sized]) * math.sqrt(len(rows)))

    noise = drawn(law)
    assert largest_bias(noise) < 6.0
    assert largest_bias(np.abs(noise)) > 6.0
    # One sign for the whole row: fair, and not independent.
    together = np.abs(noise) * np.sign(noise[:, :1])
    assert largest_bias(together) > 6.0
    # Fair signs, with sizes that differ by sign.
    assert largest_bias(np.where(noise > 0.0, 1.1 * noise, noise)) > 6.0


@pytest.mark.parametrize("law", ALL_LAWS, ids=LAW_NAMES)
def test_rows_are_drawn_independently_of_each_other(law: NoiseLaw) -> None:
    def largest_link(rows: Floats) -> float:
        """The largest correlation of anything in a row with anything in the next, in sigmas."""
        features = np.c_[rows, np.abs(rows), lp_norm(rows, 2.0)]
        features = (features - features.mean(axis=0)) / features.std(axis=0)
        return float(np.max(np.abs(features[:-1].T @ features[1:])) / math.sqrt(len(rows)))

    noise = drawn(law)
    assert largest_link(noise) < 6.0
    assert largest_link(np.repeat(noise[: N // 2], 2, axis=0)) > 6.0
    # A radius shared by two rows links their sizes and nothing else.
    length = lp_norm(noise, 2.0)[:, None]
    shared = noise / length * np.repeat(length[: N // 2], 2, axis=0)
    assert largest_link(shared) > 6.0


def test_published_radius_has_a_pole_and_gamma_radius_has_none() -> None:
    """Erratum 1: exact log densities at outputs near the true sum, d = 8, neighbouring sums one scale apart."""
    d, p = 8, 2.0
    law = LpNoise(scale=SCALE, p=p)
    record = np.zeros(d)
    record[0] = SCALE
    claimed = float(law.sum_profile()(1.0, SCALE))
    assert claimed == pytest.approx(1.0, rel=1e-12)

    def log_ratio(outputs: Floats, log_radius_density: Callable[[Floats], Floats]) -> Floats:
        """log of the density given the sum 0 over that given the sum `record`; the sphere's area cancels."""
        here, there = lp_norm(outputs, p), lp_norm(outputs - record, p)
        log_here = log_radius_density(here) - (d - 1) * np.log(here)
        return np.asarray(log_here - (log_radius_density(there) - (d - 1) * np.log(there)))

    direction = normalised_gaussian(p, seed=8, n=200, d=d)
    distances = np.geomspace(1e-6, 1e2, 81) * SCALE
    outputs = np.concatenate([distance * direction for distance in distances])
    valid, published = stats.gamma(d, scale=SCALE).logpdf, stats.expon(scale=SCALE).logpdf
    rounding = 1e-9
    assert np.max(np.abs(log_ratio(outputs, valid))) <= claimed + rounding
    nearest = log_ratio(1e-6 * SCALE * direction, published)
    assert np.all(nearest > 97.0)
    assert np.max(nearest) == pytest.approx(97.7, abs=0.05)
    # No bound exists: each factor of ten nearer adds (d - 1) log(10).
    nearer = log_ratio(1e-7 * SCALE * direction, published)
    assert np.allclose(nearer - nearest, (d - 1) * math.log(10.0), atol=1e-4)
    # The law drawn is the one with the bounded ratio.
    radius = lp_norm(drawn(law, d=d), p)
    assert p_value(radius, stats.gamma(d, scale=SCALE).cdf) > ACCEPT
    assert p_value(radius, stats.expon(scale=SCALE).cdf) < REJECT
