"""CORESET-BOUND and other worst cases, compared with grids of a million norms."""

from __future__ import annotations

import numpy as np
import pytest

import pais

RADIUS = 2.0
LINEAR = pais.LinearProfile(0.05, 0.2)
STEEP = pais.LinearProfile(1.0, 1.0)
TINY = pais.LinearProfile(1e-6, 1e-5)
POWER = pais.PowerProfile(0.05, 0.2, 1.3)
CUSTOM = pais.CustomProfile(lambda weight, norm: weight * np.sqrt(0.01 + 0.04 * norm**2))
GAUSSIAN = pais.GaussianProfile(40.0, 25.0, 8)


def coreset(sample_size: float, uniform_share: float = 0.5) -> pais.CoresetRule:
    return pais.CoresetRule(
        sample_size=sample_size, n_rows=1000, mean_square_norm=1.0, radius=RADIUS, uniform_share=uniform_share
    )


def wavy(norm: np.ndarray) -> np.ndarray:
    return 0.05 + 0.03 * np.sin(9 * norm) ** 2


PURE = [
    (pais.UniformRule(rate=0.1), LINEAR),
    (coreset(100), LINEAR),
    (coreset(400, 0.9), LINEAR),
    (coreset(10), STEEP),
    (coreset(0.01), TINY),
    (coreset(100), POWER),
    (coreset(50), CUSTOM),
    (pais.ConstrainedRule(profile=LINEAR, radius=RADIUS, epsilon=0.5), pais.LinearProfile(0.06, 0.2)),
    (pais.ConstrainedRule(profile=POWER, radius=RADIUS, epsilon=0.6), pais.PowerProfile(0.05, 0.21, 1.3)),
    (pais.FunctionRule(function=wavy, radius=RADIUS), LINEAR),
    (pais.FunctionRule(function=wavy, radius=RADIUS), POWER),
    (pais.FunctionRule(function=lambda norm: 0.2 - 0.05 * norm, radius=RADIUS), LINEAR),
]


def grid_losses(rule: pais.Rule, profile: pais.LinearProfile, n: int) -> np.ndarray:
    norm = np.linspace(0, RADIUS, n + 1)
    probability = rule.probability(norm)
    loss = profile(1 / probability, norm)
    return np.where(loss > 700, loss + np.log(probability), np.log1p(probability * np.expm1(np.minimum(loss, 700))))


@pytest.mark.parametrize(("rule", "profile"), PURE)
def test_the_certified_worst_case_is_never_below_a_grid_of_a_million_norms_and_within_1e_6(
    rule: pais.Rule, profile: pais.LinearProfile
) -> None:
    worst = pais.worst_case(rule, profile, radius=RADIUS)
    grid = grid_losses(rule, profile, 10**6).max()
    assert worst.upper >= grid
    # A knot of a table may lie between grid points; what is attained there is attained.
    assert worst.upper <= max(grid, worst.attained) + 1e-6 * min(1.0, grid)
    assert worst.attained <= worst.upper
    assert worst.gap <= 1e-6 * min(1.0, worst.attained)


@pytest.mark.parametrize("rule", [pais.UniformRule(rate=0.1), coreset(100), coreset(30)])
def test_the_certified_delta_and_epsilon_of_gaussian_noise_bound_their_grids(rule: pais.Rule) -> None:
    norm = np.linspace(0, RADIUS, 10**6 + 1)
    probability = rule.probability(norm)
    mu = GAUSSIAN(1 / probability, norm)
    delta = pais.worst_case(rule, GAUSSIAN, radius=RADIUS, epsilon=3.0)
    grid = pais.amplified_delta(3.0, mu, probability)
    assert grid.max() <= delta.upper <= grid.max() * (1 + 1e-6)
    epsilon = pais.worst_case(rule, GAUSSIAN, radius=RADIUS, delta=1e-6)
    some = slice(None, None, 100)
    grid_epsilon = pais.epsilon_at_delta(1e-6, mu[some], probability[some]).max()
    assert grid_epsilon <= epsilon.upper <= grid_epsilon + 2e-6
    assert epsilon.gap <= 1e-6


def test_attained_loss_is_reached_at_its_norm() -> None:
    for rule, profile in PURE:
        worst = pais.worst_case(rule, profile, radius=RADIUS)
        probability = rule.probability(worst.at_norm)
        there = pais.amplified_epsilon(float(profile(1 / probability, worst.at_norm)), float(probability))
        assert there == pytest.approx(worst.attained, rel=1e-12)


def test_a_grid_of_one_hundred_points_is_below_the_supremum_that_is_certified() -> None:
    """Erratum 6: the published bound is a maximum over 100 points, an estimate from below."""
    rule, profile = coreset(10), STEEP
    published = grid_losses(rule, profile, 99).max()
    worst = pais.worst_case(rule, profile, radius=RADIUS)
    assert published < worst.attained - 1e-3
    assert worst.upper >= worst.attained


def test_a_constrained_rule_promises_its_own_target_and_no_more_for_another_profile() -> None:
    rule = pais.ConstrainedRule(profile=LINEAR, radius=RADIUS, epsilon=0.5)
    assert pais.worst_case(rule, LINEAR, radius=RADIUS).upper == 0.5
    louder = pais.worst_case(rule, pais.LinearProfile(0.0501, 0.2), radius=RADIUS)
    assert louder.upper > 0.5
    gaussian = pais.ConstrainedRule(profile=GAUSSIAN, radius=RADIUS, epsilon=2.0, delta=1e-6)
    assert pais.worst_case(gaussian, GAUSSIAN, radius=RADIUS, delta=1e-6).upper == 2.0
    assert pais.worst_case(gaussian, GAUSSIAN, radius=RADIUS, delta=1e-7).upper > 2.0


def test_bound_is_valid_when_the_cell_limit_is_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pais.privacy.certify._MOST_CELLS", 8)
    worst = pais.worst_case(coreset(10), STEEP, radius=RADIUS, tolerance=1e-12)
    assert worst.upper >= grid_losses(coreset(10), STEEP, 10**5).max()
    assert worst.gap > 1e-3


class CappedProfile(pais.LinearProfile):
    """Never falls in weight or norm, and is not linear in the norm."""

    def loss(self, weight: np.ndarray, norm: np.ndarray) -> np.ndarray:
        return weight * np.minimum(100.0 * norm, 1.0) * self.slope


class StepRule(pais.UniformRule):
    """Inherits from a constant rule, and jumps."""

    def evaluate(self, norm: np.ndarray) -> np.ndarray:
        return np.where(norm < 0.5, 0.05, 1.0)

    def breakpoints(self, radius: float) -> np.ndarray:
        return np.array([0.0, 0.5, radius])


def test_subclasses_are_certified_by_their_own_loss() -> None:
    norms = np.linspace(0.0, 1.0, 100_001)
    rule = pais.FunctionRule(function=lambda norm: 0.01 + 0.99 * norm, radius=1.0, n_knots=1)
    profile = CappedProfile(0.0, 1.0)
    loss = profile(1.0 / rule.probability(norms), norms)
    assert (
        pais.worst_case(rule, profile, radius=1.0).upper >= pais.amplified_epsilon(loss, rule.probability(norms)).max()
    )
    assert pais.worst_case_if_kept(rule, profile, radius=1.0).upper >= loss.max()
    constrained = pais.ConstrainedRule(profile=CappedProfile(0.0, 0.5), radius=1.0, epsilon=1.0)
    kept = constrained.probability(norms)
    assert pais.amplified_epsilon(CappedProfile(0.0, 0.5)(1.0 / kept, norms), kept).max() <= 1.0 + 1e-9
    step, linear = StepRule(rate=1.0), pais.LinearProfile(intercept=0.0, slope=0.01)
    kept = step.probability(norms)
    attained = pais.amplified_epsilon(linear(1.0 / kept, norms), kept).max()
    assert pais.worst_case(step, linear, radius=1.0).upper >= attained
