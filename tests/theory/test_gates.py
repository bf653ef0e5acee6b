"""NaN losses and unmet targets are never certified."""

from __future__ import annotations

import numpy as np
import pytest

import pais

ONE = pais.NormDistribution(norms=[1.0], masses=[1000.0], radius=1.0)


def test_tiny_shift_beside_a_large_one_is_not_certified() -> None:
    """The shift at norm 0 is so small that its delta underflows; the one at the radius decides."""
    profile = pais.GaussianProfile(1e160, 1.0)
    answer = pais.calibrate("uniform", profile, ONE, epsilon=1.0, delta=1e-6, sample_size=300.0)
    mu = float(answer.profile(1 / 0.3, 1.0))
    assert pais.epsilon_at_delta(1e-6, mu, 0.3) <= 1.0 + 1e-9
    assert (
        pais.worst_case(pais.UniformRule(rate=0.3), pais.GaussianProfile(1e160, 1e-3), radius=1.0, epsilon=1.0).upper
        >= 0.3
    )


@pytest.mark.parametrize(
    ("epsilon", "mu", "probability"), [(1.0, 1e-200, 0.5), (1e300, 1.0, 0.5), (0.0, 5e-324, 1.0), (1.0, 1e200, 0.5)]
)
def test_extreme_arguments_give_a_number_between_zero_and_one(epsilon: float, mu: float, probability: float) -> None:
    assert 0.0 < pais.amplified_delta(epsilon, mu, probability) <= 1.0


def test_extreme_shifts_have_an_epsilon_or_an_infinite_one() -> None:
    assert pais.epsilon_at_delta(1e-6, 1e200, 0.5) == float("inf")
    assert pais.epsilon_at_delta(1e-6, 1e-308, 0.5) == 0.0


def test_a_tiny_probability_does_not_lower_delta_by_overflow() -> None:
    # 2.1449e-309 in high precision; the overflowing quotient once gave 2.1105e-309.
    assert pais.amplified_delta(1.0, 37.0, 9e-309) >= 2.1449e-309


def test_losses_that_underflow_stay_above_zero() -> None:
    assert pais.amplified_epsilon(1e-291, 1e-65) > 0.0
    assert (
        pais.worst_case(
            pais.UniformRule(rate=0.5), pais.GaussianProfile(1e3, float("inf")), radius=1.0, epsilon=1.0
        ).upper
        > 0.0
    )


def test_a_profile_that_is_not_a_number_somewhere_is_refused() -> None:
    profile = pais.CustomProfile(lambda weight, norm: np.where(norm > 0.5, np.nan, weight * norm))
    with pytest.raises(pais.PaisError):
        pais.worst_case(pais.UniformRule(rate=0.5), profile, radius=1.0)


def test_power_overflow_at_a_record_without_loss() -> None:
    profile = pais.PowerProfile(0.0, 1.0, 30.0)
    assert pais.worst_case(pais.UniformRule(rate=1e-11), profile, radius=1.0).upper > 1e3
    rule = pais.ConstrainedRule(profile=pais.PowerProfile(1.2e-7, 0.92, 30.0), radius=1.0, epsilon=1.0, n_knots=7)
    assert np.all(rule.probability(np.linspace(0, 1, 50)) > 0.0)


def test_promised_target_does_not_hide_a_violation() -> None:
    """A monotone custom loss whose feasible weights are islands: what is certified is what is attained or more."""
    cuts = np.array([1.0, 1.6373215, 1.72575017, 1.73580211, 1.9542913])
    low = np.array([0.48647683, 1.36055813, 1.399927, 1.40430562, 1.49502879])
    high = np.array([0.48647683, 1.4142931, 1.4142931, 1.4142931, 1.55870005])

    def loss(weight: np.ndarray, norm: np.ndarray) -> np.ndarray:
        step = np.searchsorted(cuts, weight, "right") - 1
        return np.where(norm > 0.5, high[step], low[step])

    profile = pais.CustomProfile(loss)
    rule = pais.ConstrainedRule(profile=profile, radius=1.0, epsilon=1.0, n_knots=2)
    norms = np.linspace(0, 1, 1001)
    probability = rule.probability(norms)
    attained = pais.amplified_epsilon(profile(1 / probability, norms), probability).max()
    assert attained <= pais.worst_case(rule, profile, radius=1.0).upper


def test_a_size_with_probabilities_near_delta_gets_noise_that_protects_kept_rows() -> None:
    profile = pais.GaussianProfile(1.0, 1.0)
    answer = pais.calibrate("uniform", profile, ONE, epsilon=1.0, delta=0.5, sample_size=10.0)
    assert answer.epsilon_if_kept <= 16.0
    with pytest.raises(pais.UnreachableError, match="kept"):
        pais.calibrate("uniform", profile, ONE, noise=0.5 * answer.noise, delta=0.5, sample_size=10.0)


def test_noise_with_a_shared_seed_does_not_depend_on_kept_rows() -> None:
    ball, rule = pais.Ball(radius=1.0), pais.UniformRule(rate=0.5)
    agree = 0
    for seed in range(200):
        kept = pais.sample(np.ones((1, 1)), ball=ball, rule=rule, random_state=seed)
        count = pais.release(pais.WeightedCount(noise=pais.laplace_noise(0.1)), kept, random_state=seed).value
        kept_row = round(float(count) / 2) == 1  # type: ignore[arg-type]  # a count is a float
        negative = float(count) < (2.0 if kept_row else 0.0)  # type: ignore[arg-type]  # a count is a float
        agree += kept_row == negative
    assert 60 < agree < 140


def test_probability_between_knots_stays_below_the_screen_ceiling() -> None:
    for epsilon in (1e-3, 1.0, 50.0):
        profile = pais.LinearProfile(0.1 * epsilon, 0.9 * epsilon)
        rule = pais.ConstrainedRule(profile=profile, radius=0.7, epsilon=epsilon)
        norms = np.nextafter(rule.breakpoints(0.7)[1:], 0.0)
        assert rule.probability(norms).max() <= rule.largest_probability(0.7) * (1 + 2.0**-48)
