"""The safe table: every probability it gives is feasible, and few rows are lost to its steps."""

from __future__ import annotations

import numpy as np
import pytest

import pais


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


@pytest.mark.parametrize("limit", [None, 1.5])
def test_only_the_last_of_several_equal_knots_is_a_breakpoint(limit: float | None) -> None:
    """For a loss that does not depend on the norm, and for one that changes by a few ulps over the ball."""
    guarantee = {"epsilon": 1.0, "delta": 1e-6, "max_epsilon_if_kept": limit}
    flat = pais.GaussianProfile(6.0, np.inf)
    rule = pais.ConstrainedRule(profile=flat, radius=2.0, **guarantee)
    assert rule.breakpoints(1.5).tolist() == [0.0, 1.5]
    grid = np.linspace(0.0, 2.0, 999)
    assert rule.probability(grid) == pytest.approx(1 / pais.constrained_weight(flat, 0.0, **guarantee), rel=1e-14)

    rule = pais.ConstrainedRule(profile=pais.GaussianProfile(6.0, 1e7), radius=3.0, **guarantee)
    points, knots = rule.breakpoints(3.0), np.linspace(0.0, 3.0, rule.n_knots + 1)
    assert 10 < points.size < 0.9 * knots.size
    assert np.isin(points, knots).all()
    # The probability is one number from a breakpoint on, up to and including the next.
    cell = np.searchsorted(points, knots)
    assert np.array_equal(rule.probability(knots), rule.probability(points)[cell])
