"""Where the paper or its published code must not be followed: each test fails on their version."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest

import pais
from pais._base.numerics import FloatArray
from tests.support.oracles import is_feasible, linear_weight


def paper_bracket(loss: float, slope: float, mu: float, epsilon: float) -> float:
    """Upper end of Algorithm 1 as printed: 2 (e^eps - v)/mu + 1."""
    v = min(math.exp(loss) + mu / 2, slope * math.exp(loss) + 1)
    return 2 * (math.exp(epsilon) - v) / mu + 1


def test_erratum_2_the_printed_convexity_constant_gives_a_bracket_without_the_root() -> None:
    """T = 10 rounds, slope .001 a round, epsilon = .5: the root is near 596, the printed bracket ends at 13.6."""
    rounds, slope, epsilon = 10, 0.001, 0.5
    loss = rounds * slope
    printed = rounds**2 * slope * math.exp(loss)
    right = loss**2 * math.exp(loss)
    profile = pais.LinearProfile(0.0, loss)
    weight = pais.constrained_weight(profile, 1.0, epsilon=epsilon)
    with mp.workdps(30):
        assert float(linear_weight(loss, epsilon)) == pytest.approx(596, abs=1)
    assert weight == pytest.approx(596, abs=1)
    assert paper_bracket(loss, loss, printed, epsilon) == pytest.approx(13.6, abs=0.1)
    assert paper_bracket(loss, loss, right, epsilon) > weight
    assert math.exp(float(profile.log_convexity(np.array([1.0]))[0])) == pytest.approx(right)

    def as_printed(norm: FloatArray) -> FloatArray:
        return np.full_like(norm, printed)

    wrong = pais.CustomProfile(lambda w, norm: w * norm * loss, lambda w, norm: norm * loss, as_printed)
    with pytest.raises(pais.AssumptionError):
        pais.constrained_weight(wrong, 1.0, epsilon=epsilon)


def test_erratum_3_a_bracket_that_ends_at_plus_one_can_exclude_the_root() -> None:
    """exp(loss) = an exact parabola of curvature mu, whose bound is attained: the root lies between +1 and +2."""
    mu, epsilon = 1.0, 1.0
    start, rise = 1.05, 1.0  # value and derivative of exp(loss) at weight 1

    def parabola(weight: FloatArray) -> FloatArray:
        return start + rise * (weight - 1) + 0.5 * mu * (weight - 1) ** 2

    profile = pais.CustomProfile(
        lambda weight, norm: np.log(parabola(weight)),
        lambda weight, norm: (rise + mu * (weight - 1)) / parabola(weight),
        lambda norm: np.full_like(norm, mu),
    )
    loss, slope = math.log(start), rise / start
    printed = paper_bracket(loss, slope, mu, epsilon)
    weight = pais.constrained_weight(profile, 1.0, epsilon=epsilon)
    exact = float(np.max(np.roots([mu / 2, rise - mu - math.expm1(epsilon), start - rise + mu / 2 - 1])))
    assert weight == pytest.approx(exact, rel=1e-12)
    assert printed < weight < printed + 1


def test_erratum_4_leaving_weight_one_needs_the_condition_of_the_proof() -> None:
    """A loss that rises slowly at weight 1 has slope > 0, so the printed condition keeps the weight at 1."""
    profile = pais.PowerProfile(1.0, 0.0, 0.55)
    slope = float(profile.derivative_at_one(np.array([0.0]))[0])
    assert slope > 0.0  # the printed condition, slope < 0, does not hold
    assert slope < 1 - math.exp(-1.0)  # the one of the proof does
    assert profile.check(radius=1.0, epsilon=1.0).sampling_can_lower.verdict is pais.Verdict.PROVED
    weight = pais.constrained_weight(profile, 0.0, epsilon=1.0)
    assert weight > 1.2
    assert pais.amplified_epsilon(float(profile(weight, 0.0)), 1 / weight) <= 1.0 + 1e-14


def test_erratum_5_the_midpoint_of_a_bisection_is_often_infeasible() -> None:
    rng = np.random.default_rng(0)
    infeasible = 0
    with mp.workdps(30):
        for loss in rng.uniform(0.05, 0.95, 60):
            low, high = 1.0, 200.0
            while high - low > 1e-3:  # the published tolerance
                middle = 0.5 * (low + high)
                if math.expm1(loss * middle) <= middle * math.expm1(1.0):
                    low = middle
                else:
                    high = middle
            infeasible += not is_feasible(0.5 * (low + high), loss, 1.0)
            assert is_feasible(pais.constrained_weight(pais.LinearProfile(0.0, 1.0), loss, epsilon=1.0), loss, 1.0)
    assert infeasible > 10


def test_erratum_11_the_coreset_size_is_limited_exactly_not_by_the_sufficient_condition() -> None:
    n, mean_square, radius, share = 1000.0, 1.0, 2.0, 0.5
    sufficient = n * mean_square / radius**2
    exact = n / (share + (1 - share) * radius**2 / mean_square)
    assert sufficient < exact

    def rule(size: float) -> pais.CoresetRule:
        return pais.CoresetRule(
            sample_size=size, n_rows=n, mean_square_norm=mean_square, radius=radius, uniform_share=share
        )

    assert rule(exact).probability(radius) == pytest.approx(1.0)
    assert rule(0.5 * (sufficient + exact)).probability(radius) < 1.0
    with pytest.raises(pais.UnreachableError) as caught:
        rule(exact * (1 + 1e-9))
    assert caught.value.reachable == pytest.approx(exact)
