"""Random plans: certified for at least what a dense grid finds; scaling, weights and joints behave as sums."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings, strategies as st
from numpy.typing import NDArray
from scipy import stats

from pais import (
    Ball,
    ConstrainedRule,
    CoresetRule,
    FunctionRule,
    GaussianNoise,
    LinearProfile,
    LpNoise,
    Rule,
    UniformRule,
    WeightedMean,
    sample,
)
from pais.accounting.part import certified_epsilon
from tests.support.lattice_cases import SMALLEST

Floats = NDArray[np.float64]
quick = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])


# ---------------------------------------------------------------- random plans


@st.composite
def rules(draw: st.DrawFn, radius: float, profile: Any = None, epsilon: float = 1.0, delta: float = 0.0) -> Rule:
    kind = draw(st.sampled_from(["uniform", "coreset", "function"] + (["constrained"] if profile is not None else [])))
    rate = draw(st.floats(1e-3, 1.0))
    if kind == "uniform":
        return UniformRule(rate=rate)
    if kind == "coreset":
        share, mean_square = draw(st.floats(0.05, 1.0)), draw(st.floats(0.05, 1.0)) * radius**2
        most = 1000.0 / (share + (1.0 - share) * radius**2 / mean_square)
        return CoresetRule(
            sample_size=0.999 * rate * most,
            n_rows=1000.0,
            mean_square_norm=mean_square,
            radius=radius,
            uniform_share=share,
        )
    if kind == "function":
        bend = draw(st.floats(0.2, 4.0))
        return FunctionRule(function=lambda norm: rate * (0.1 + 0.9 * (norm / radius) ** bend), radius=radius)
    return ConstrainedRule(profile=profile, radius=radius, epsilon=epsilon, delta=delta, n_knots=64)


radii = st.floats(1e-3, 1e3)
scales = st.floats(0.3, 30.0)


def grid(radius: float) -> Floats:
    """Norms of the whole ball, and closest to its ends."""
    return np.concatenate([np.linspace(0.0, radius, 3001), radius * np.exp2(-np.arange(1.0, 60.0)), [SMALLEST]])


def grid_epsilon(rule: Rule, norm: Floats, loss_at_one: Floats) -> Floats:
    """log(1 + q (e^(loss/q) - 1)) by its definition; large losses in logarithms."""
    q = rule.probability(norm)
    loss = loss_at_one / q
    return np.where(
        loss < 600.0,
        np.log1p(q * np.expm1(np.minimum(loss, 600.0))),
        loss + np.log(q),
    )


@quick
@given(data=st.data(), radius=radii, count_scale=scales, sum_share=scales)
def test_a_random_pure_plan_is_certified_for_at_least_what_a_dense_grid_finds(
    data: st.DataObject, radius: float, count_scale: float, sum_share: float
) -> None:
    mechanism = WeightedMean(
        count_noise=LpNoise(scale=count_scale, p=2.0), sum_noise=LpNoise(scale=sum_share * radius, p=2.0)
    )
    at_worst = 1.0 / count_scale + 1.0 / sum_share
    rule = data.draw(rules(radius, mechanism.profile, epsilon=2.0 * at_worst))
    certified = certified_epsilon(mechanism, rule, Ball(radius=radius))
    norm = grid(radius)
    found = grid_epsilon(rule, norm, 1.0 / count_scale + norm / (sum_share * radius))
    assert certified >= found.max() * (1.0 - 1e-13)
    # The bound is close, so that half of it would be found out.
    assert found.max() > 0.5 * certified


def swept_delta(epsilon: float, mu: Floats, q: Floats) -> Floats:
    """Hockey-stick divergences of (1-q) N(0,1) + q N(mu,1) from N(0,1) and back: the larger."""
    cut = (np.log1p(np.expm1(epsilon) / q) + mu**2 / 2.0) / mu
    remove = (1.0 - q) * stats.norm.sf(cut) + q * stats.norm.sf(cut - mu) - math.exp(epsilon) * stats.norm.sf(cut)
    inside = np.expm1(-epsilon) + q
    with np.errstate(divide="ignore", invalid="ignore"):
        low = (np.log(inside / q) + mu**2 / 2.0) / mu
        add = stats.norm.cdf(low) - math.exp(epsilon) * ((1.0 - q) * stats.norm.cdf(low) + q * stats.norm.cdf(low - mu))
    return np.maximum(remove, np.where(inside > 0.0, add, 0.0))


@settings(max_examples=10, deadline=None)
@given(
    data=st.data(),
    radius=radii,
    count_scale=st.floats(5.0, 30.0),
    sum_share=st.floats(5.0, 30.0),
    delta=st.sampled_from([1e-3, 1e-5]),
)
def test_a_random_gaussian_plan_is_certified_for_at_least_what_a_dense_grid_finds(
    data: st.DataObject, radius: float, count_scale: float, sum_share: float, delta: float
) -> None:
    mechanism = WeightedMean(
        count_noise=GaussianNoise(scale=count_scale), sum_noise=GaussianNoise(scale=sum_share * radius)
    )
    norm = grid(radius)
    rate = data.draw(st.floats(0.3, 1.0))
    rule = data.draw(
        st.sampled_from(
            [
                UniformRule(rate=rate),
                FunctionRule(function=lambda z: rate * (0.4 + 0.6 * z / radius), radius=radius, n_knots=64),
            ]
        )
    )
    certified = certified_epsilon(mechanism, rule, Ball(radius=radius), delta=delta)
    q = rule.probability(norm)
    mu = np.hypot(1.0 / count_scale, norm / (sum_share * radius)) / q
    assert swept_delta(certified, mu, q).max() <= delta * (1.0 + 1e-8)
    if certified > 1e-3:
        assert swept_delta(0.9 * certified, mu, q).max() > delta


@quick
@given(data=st.data(), radius=radii, seed=st.integers(0, 2**31))
def test_probabilities_lie_in_zero_to_one_and_weight_times_probability_never_exceeds_one(
    data: st.DataObject, radius: float, seed: int
) -> None:
    profile = LinearProfile(0.1, 0.5 / radius)
    rule = data.draw(rules(radius, profile, epsilon=2.0))
    norm = grid(radius)
    probability = rule.probability(norm)
    assert np.all(probability > 0.0)
    assert np.all(probability <= 1.0)
    rows = np.repeat(norm, 2)[:, None]
    ball = Ball(radius=radius)
    kept = sample(rows, ball=ball, rule=rule, random_state=seed).spend("a test")
    there = rule.evaluate(ball.norms(kept.rows)).tolist()
    for weight, q in zip(kept.weights.tolist()[::7], there[::7], strict=True):
        assert Fraction(weight) * Fraction(q) <= 1
        assert weight >= 1.0
    # The weight 1/q as a double rounds up for every third probability or so.
    naive = [Fraction(1.0 / q) * Fraction(q) > 1 for q in np.linspace(0.1, 0.9, 100).tolist()]
    assert any(naive)
