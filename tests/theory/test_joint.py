"""Joint price of a Gaussian survey and of the sampled rounds planned from its outcome."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
from scipy.stats import norm

import pais
from pais.privacy import amplification
from pais.privacy.amplification import delta_after, joint_delta, largest_shift

DELTA = 1e-6

# (epsilon, delta, survey shift over the shift allowed without a survey)
CASES = [(0.1, 1e-6, 0.1), (0.3, 1e-6, 0.3), (1.0, 1e-6, 0.2), (3.0, 1e-6, 0.5), (1.0, 1e-10, 0.2), (2.0, 1e-3, 0.4)]


def curve(epsilon: mp.mpf, mu: mp.mpf, q: mp.mpf, *, remove: bool) -> mp.mpf:
    """Divergence at any real epsilon of (1-q) N(0,1) + q N(mu,1) from N(0,1), or in the other order."""
    factor = mp.exp(epsilon)
    level = (factor if remove else 1 / factor) - (1 - q)
    if level <= 0:
        return 1 - factor if remove else mp.mpf(0)
    t = mp.log(level / q) / mu + mu / 2
    if remove:
        return (1 - q) * mp.ncdf(-t) + q * mp.ncdf(mu - t) - factor * mp.ncdf(-t)
    return mp.ncdf(t) - factor * ((1 - q) * mp.ncdf(t) + q * mp.ncdf(t - mu))


def joint_by_quadrature(epsilon: float, shift: float, mu: float, q: float, *, remove: bool) -> mp.mpf:
    """Joint delta of a survey and of one fixed plan, to 25 digits, from the definition."""
    with mp.workdps(25):
        s = mp.mpf(shift)
        points = [mp.mpf(u) for u in range(-12, 16, 3)]
        return mp.quad(
            lambda u: mp.npdf(u) * curve(epsilon - s * u - s * s / 2, mp.mpf(mu), mp.mpf(q), remove=remove), points
        )


def largest_sampled_shifts(epsilon: float, delta: float, q: np.ndarray) -> np.ndarray:
    """Largest shift that meets (epsilon, delta) at each probability."""
    low, high = np.full_like(q, math.log(1e-6)), np.full_like(q, math.log(100.0))
    for _ in range(60):
        middle = 0.5 * (low + high)
        within = pais.amplified_delta(epsilon, np.exp(middle), q) <= delta
        low, high = np.where(within, middle, low), np.where(within, high, middle)
    return np.exp(low)


def largest_sampled_shift(epsilon: float, delta: float, q: float) -> float:
    return float(largest_sampled_shifts(epsilon, delta, np.array([q]))[0])


def outcomes_times_plans(epsilon: float, shift: float, mu: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Probability of each outcome of the survey times the divergence of each plan there."""
    u = np.linspace(-9.0, 12.0, 4201)[:, None]
    left = epsilon - shift * u - 0.5 * shift**2
    divergence = pais.amplified_delta(np.abs(left), mu, q)
    # Below zero, adding a record is the worse direction. Its divergence follows from that of removing one.
    divergence = np.where(left >= 0.0, divergence, 1.0 - np.exp(np.minimum(left, 0.0)) * (1.0 - divergence))
    return norm.pdf(u) * (u[1] - u[0]) * divergence


def worst_plans(epsilon: float, shift: float, mu: np.ndarray, q: np.ndarray) -> float:
    """Joint delta if, after each outcome of the survey, the worst of the plans is chosen."""
    return float(outcomes_times_plans(epsilon, shift, mu, q).max(axis=1).sum())


@pytest.mark.parametrize(("epsilon", "delta", "share"), CASES)
@pytest.mark.parametrize("q", [1.0, 0.02])
def test_joint_delta_bounds_every_fixed_plan_in_high_precision_and_both_directions(
    epsilon: float, delta: float, share: float, q: float
) -> None:
    shift = share * largest_shift(epsilon, delta)
    mu = largest_sampled_shift(epsilon, delta, q)
    price = pais.amplified_delta(epsilon, mu, q)
    bound = joint_delta(epsilon, survey_shift=shift, rounds_epsilon=epsilon, rounds_delta=price)
    for remove in (True, False):
        assert joint_by_quadrature(epsilon, shift, mu, q, remove=remove) <= mp.mpf(bound)


# The last case has a survey that costs more than the rounds.
@pytest.mark.parametrize(("epsilon", "delta", "share"), [*CASES, (0.2, 1e-2, 3.0)])
@pytest.mark.parametrize("factor", [1.0, 0.9])
def test_joint_delta_bounds_plans_chosen_after_the_outcome_and_is_close_to_the_worst_of_them(
    epsilon: float, delta: float, share: float, factor: float
) -> None:
    shift = share * largest_shift(epsilon, delta)
    pivot = factor * epsilon
    q = np.geomspace(delta * (1 + 1e-9), 1.0, 60)
    bound = joint_delta(epsilon, survey_shift=shift, rounds_epsilon=pivot, rounds_delta=delta)
    worst = worst_plans(epsilon, shift, largest_sampled_shifts(pivot, delta, q), q)
    assert worst <= bound <= worst * 1.02


def test_among_plans_of_one_price_keeping_all_rows_costs_most_at_every_smaller_epsilon() -> None:
    random = np.random.default_rng(5)
    for _ in range(100):
        epsilon, delta = 10 ** random.uniform(-2, 1), 10 ** random.uniform(-12, -2)
        q = 10 ** random.uniform(math.log10(delta) + 0.1, 0)
        mu, sampled = largest_shift(epsilon, delta), largest_sampled_shift(epsilon, delta, q)
        below, above = np.linspace(0.0, epsilon, 101), np.linspace(epsilon, 3 * epsilon, 101)
        assert np.all(pais.amplified_delta(below, sampled, q) <= pais.amplified_delta(below, mu, 1.0) * (1 + 1e-9))
        assert np.all(pais.amplified_delta(above, sampled, q) >= pais.amplified_delta(above, mu, 1.0) * (1 - 1e-6))


def test_a_survey_put_into_the_shift_of_the_rounds_is_caught() -> None:
    # The survey reads all rows. Counted as one more round on the sample, it appears to cost almost nothing.
    epsilon, q = 1.0, 0.05
    shift = 0.2 * largest_shift(epsilon, DELTA)
    mu = math.sqrt(largest_sampled_shift(epsilon, DELTA, q) ** 2 - shift**2)
    exact = joint_by_quadrature(epsilon, shift, mu, q, remove=True)
    assert float(exact) == pytest.approx(1.0411e-6, rel=1e-4)
    price = pais.amplified_delta(epsilon, mu, q)
    assert joint_delta(epsilon, survey_shift=shift, rounds_epsilon=epsilon, rounds_delta=price) > DELTA
    assert delta_after(epsilon, DELTA, survey_shift=shift) < price


def test_plans_that_are_each_within_the_target_are_not_within_it_when_the_outcome_chooses_among_them() -> None:
    epsilon = 1.0
    shift = 0.3 * largest_shift(epsilon, DELTA)
    q = np.geomspace(1e-4, 1.0, 20)
    most = largest_sampled_shifts(epsilon, DELTA, q)
    mu = 0.9 * most
    for scale in np.linspace(0.9, 1.0, 41):
        alone = outcomes_times_plans(epsilon, shift, scale * most, q).sum(axis=0)
        mu = np.where(alone <= DELTA, scale * most, mu)
    assert np.all(outcomes_times_plans(epsilon, shift, mu, q).sum(axis=0) <= DELTA)
    assert worst_plans(epsilon, shift, mu, q) > 1.1 * DELTA


# In the last cases the survey costs almost everything or almost nothing, or delta is large.
@pytest.mark.parametrize(
    ("epsilon", "delta", "share"),
    [*CASES, (1.0, 1e-6, 0.9), (1.0, 1e-6, 1e-6), (0.01, 0.1, 0.3), (5.0, 0.3, 0.5), (30.0, 1e-12, 0.2)],
)
def test_delta_after_is_within_the_target_and_nearly_the_largest(epsilon: float, delta: float, share: float) -> None:
    shift = share * largest_shift(epsilon, delta)
    rounds = delta_after(epsilon, delta, survey_shift=shift)
    price = {"survey_shift": shift, "rounds_epsilon": epsilon}
    assert joint_delta(epsilon, **price, rounds_delta=rounds) <= delta
    assert joint_delta(epsilon, **price, rounds_delta=rounds * (1 + 1e-6)) > delta


def test_a_survey_that_costs_everything_is_refused() -> None:
    most = largest_shift(1.0, DELTA)
    for share in (2.0, 1.0, 0.999, 0.99):
        with pytest.raises(pais.UnreachableError, match="leaves nothing"):
            delta_after(1.0, DELTA, survey_shift=share * most)
    with pytest.raises(pais.MismatchError, match="no guarantee"):
        delta_after(1.0, 0.0, survey_shift=0.1)
    assert joint_delta(1.0, survey_shift=40.0, rounds_epsilon=1.0, rounds_delta=DELTA) == pytest.approx(1.0)
    tiny = joint_delta(1.0, survey_shift=1e-300, rounds_epsilon=1.0, rounds_delta=DELTA)
    assert DELTA <= tiny <= DELTA * (1 + 1e-8)


@pytest.mark.parametrize("shift", [1e3, 1e12, 1e200])
def test_an_absurd_shift_costs_everything_without_a_warning(shift: float) -> None:
    """A damaged certificate may state one. Its price is 1, and no number overflows on the way."""
    assert joint_delta(1.0, survey_shift=shift, rounds_epsilon=1.0, rounds_delta=1e-6) == 1.0


@pytest.mark.parametrize("missed", [0.0, 1e-11, 1e-6])
def test_the_covering_shift_has_at_least_its_delta_even_if_the_search_ends_early(
    missed: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(amplification, "largest_shift", lambda *target: largest_shift(*target) * (1.0 - missed))
    found = mp.mpf(amplification._covering_shift(1.0, 1e-6))
    with mp.workdps(40):
        first, second = mp.ncdf(found / 2 - 1 / found), mp.ncdf(-found / 2 - 1 / found)
        assert first - mp.e * second >= mp.mpf("1e-6")
    assert found <= largest_shift(1.0, 1e-6) * (1.0 + 1e-5)
