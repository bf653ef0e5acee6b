"""The safe table: every probability it gives is feasible, and few rows are lost to its steps."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest

import pais
from tests.support.oracles import remove_delta


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 20.0, 1000.0])
@pytest.mark.parametrize("n_knots", [1, 7, 4096])
def test_chords_are_exactly_feasible_between_knots(epsilon: float, n_knots: int) -> None:
    profile = pais.LinearProfile(0.02 * epsilon, 0.98 * epsilon)
    # The exact loss at the radius can be an ulp above the product it was made from.
    epsilon = float(profile(1.0, 1.0))
    rule = pais.ConstrainedRule(profile=profile, radius=1.0, epsilon=epsilon, n_knots=n_knots)
    norms = np.concatenate([np.random.default_rng(0).uniform(0, 1, 150), np.arange(8) / 7])
    probability = rule.probability(norms)
    with mp.workdps(60):
        budget = mp.expm1(mp.mpf(epsilon))
        for norm, q in zip(norms.tolist(), probability.tolist(), strict=True):
            loss = mp.mpf(float(profile.at_weight_one(np.array(norm))))
            assert q == 1.0 or mp.mpf(q) * mp.expm1(loss / mp.mpf(q)) <= budget


@pytest.mark.parametrize(("epsilon", "most"), [(0.01, 1e-4), (1.0, 1e-6), (10.0, 1e-6)])
def test_chords_cost_few_extra_rows(epsilon: float, most: float) -> None:
    profile = pais.LinearProfile(0.02 * epsilon, 0.98 * epsilon)
    # The exact loss at the radius can be an ulp above the product it was made from.
    epsilon = float(profile(1.0, 1.0))
    rule = pais.ConstrainedRule(profile=profile, radius=1.0, epsilon=epsilon)
    norms = np.random.default_rng(1).uniform(0, 1, 20000)
    exact = 1 / pais.constrained_weight(profile, norms, epsilon=epsilon)
    excess = rule.probability(norms).sum() / exact.sum() - 1
    assert -1e-13 <= excess <= most


@pytest.mark.parametrize("n_knots", [3, 256])
@pytest.mark.parametrize(
    "profile", [pais.GaussianProfile(60.0, 40.0, 4), pais.GaussianProfile(math.inf, math.inf, square_scale=60.0)]
)
def test_steps_are_feasible_between_knots_for_gaussian_noise(n_knots: int, profile: pais.GaussianProfile) -> None:
    rule = pais.ConstrainedRule(profile=profile, radius=3.0, epsilon=1.0, delta=1e-6, n_knots=n_knots)
    norms = np.random.default_rng(2).uniform(0, 3, 100)
    with mp.workdps(60):
        for norm, q in zip(norms.tolist(), rule.probability(norms).tolist(), strict=True):
            mu = float(profile(1.0, norm)) / mp.mpf(q)
            assert remove_delta(1.0, mu, q) <= mp.mpf("1e-6")


def test_steps_are_feasible_between_knots_for_a_power_profile() -> None:
    profile = pais.PowerProfile(0.05, 0.3, 1.5)
    rule = pais.ConstrainedRule(profile=profile, radius=2.0, epsilon=1.0, n_knots=64)
    norms = np.random.default_rng(3).uniform(0, 2, 200)
    with mp.workdps(50):
        for norm, q in zip(norms.tolist(), rule.probability(norms).tolist(), strict=True):
            c = mp.mpf(0.05) + mp.mpf(0.3) * mp.mpf(norm)
            assert mp.mpf(q) * mp.expm1(c * mp.mpf(q) ** mp.mpf(-1.5)) <= mp.expm1(1)


def test_a_step_table_looks_up_the_first_knot_at_or_above_a_norm() -> None:
    profile = pais.PowerProfile(0.05, 0.3, 1.5)
    rule = pais.ConstrainedRule(profile=profile, radius=0.7, epsilon=1.0, n_knots=100)
    knots = rule.breakpoints(0.7)
    at_knots = 1 / pais.constrained_weight(profile, knots, epsilon=1.0)
    assert rule.probability(knots) == pytest.approx(at_knots, rel=1e-14)
    just_above = np.nextafter(knots[:-1], 1.0)
    assert np.array_equal(rule.probability(just_above), rule.probability(knots[1:]))
    assert np.array_equal(rule.probability(np.nextafter(knots[1:], 0.0)), rule.probability(knots[1:]))


def test_the_linear_look_up_would_be_infeasible_if_it_rounded_the_norm_down() -> None:
    """The test above can fail: a step table that looks at the knot below breaks the guarantee."""
    profile = pais.LinearProfile(0.02, 0.98)
    norm = np.array([0.505])
    below = pais.constrained_weight(profile, np.array([0.5]), epsilon=1.0)
    loss = float(profile(below, norm)[0])
    assert pais.amplified_epsilon(loss, float(1 / below[0])) > 1.0


def test_unreachable_target_names_a_reachable_one() -> None:
    profile = pais.LinearProfile(0.5, 1.0)
    with pytest.raises(pais.UnreachableError) as caught:
        pais.ConstrainedRule(profile=profile, radius=1.0, epsilon=1.0)
    assert caught.value.reachable == 1.5
    assert pais.ConstrainedRule(profile=profile, radius=1.0, epsilon=1.5).probability(1.0) == 1.0
    gaussian = pais.GaussianProfile(1.0, 1.0)
    with pytest.raises(pais.UnreachableError) as caught:
        pais.ConstrainedRule(profile=gaussian, radius=1.0, epsilon=1.0, delta=1e-6)
    reachable = caught.value.reachable * (1 + 1e-9)
    assert pais.ConstrainedRule(profile=gaussian, radius=1.0, epsilon=reachable, delta=1e-6).probability(1.0) <= 1.0


@pytest.mark.parametrize(
    ("profile", "delta"),
    [
        (pais.LinearProfile(0.02, 0.3), 0.0),
        (pais.PowerProfile(0.05, 0.3, 1.5), 0.0),
        (pais.GaussianProfile(60, 40), 1e-6),
    ],
)
def test_extremes_of_a_table_are_those_of_all_its_knots(profile: pais.Profile, delta: float) -> None:
    class Falling(pais.ConstrainedRule):
        def evaluate(self, norm: np.ndarray) -> np.ndarray:
            return np.minimum(1.0, super().evaluate(self.radius - norm))

    for radius in (0.7, 3.0):
        for kind in (pais.ConstrainedRule, Falling):
            rule = kind(profile=profile, radius=3.0, epsilon=1.0, delta=delta, n_knots=500)
            points = rule.breakpoints(radius)
            points = np.concatenate([points, np.nextafter(points, 0.0), np.nextafter(points, radius)])
            assert rule.smallest_probability(radius) == rule.evaluate(points).min()
            assert rule.largest_probability(radius) == rule.evaluate(points).max()
