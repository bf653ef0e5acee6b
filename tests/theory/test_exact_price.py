"""Textbook releases have their textbook price, and noise made from a price costs at most that price."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

import pais
from pais.accounting.part import at_least, certified_epsilon
from pais.mechanisms.base import exact_epsilon
from pais.privacy.amplification import largest_shift
from pais.privacy.certify import worst_case

ALL = pais.UniformRule(rate=1.0)
PRICES = [1.0, 0.5, 0.1, 1 / 3, 0.7, 2.0, 1e-3, 7.3, *np.random.default_rng(5).uniform(0.01, 5.0, size=10)]


def plan(mechanism: pais.Mechanism, epsilon: float, *, radius: float = 1.0, order: float = 1.0, **more: float):
    return pais.Plan(ball=pais.Ball(radius=radius, order=order), rule=ALL, mechanism=mechanism, epsilon=epsilon, **more)


@pytest.mark.parametrize(("scale", "epsilon"), [(1.0, 1.0), (2.0, 0.5), (10.0, 0.1), (0.5, 2.0)])
def test_textbook_laplace_count_and_sum_are_accepted(scale: float, epsilon: float) -> None:
    noise = pais.laplace_noise(scale)
    for mechanism in (pais.WeightedCount(noise=noise), pais.WeightedSum(noise=noise)):
        release = pais.run(plan(mechanism, epsilon), np.zeros((5, 2)))
        assert release.certificate.epsilon == epsilon
    half = pais.laplace_noise(2.0 * scale)
    mean = pais.WeightedMean(count_noise=half, sum_noise=half)
    assert pais.run(plan(mean, epsilon), np.zeros((5, 2))).certificate.epsilon == epsilon


def test_less_noise_than_the_budget_allows_is_refused() -> None:
    with pytest.raises(pais.BudgetError):
        plan(pais.WeightedCount(noise=pais.laplace_noise(math.nextafter(1.0, 0.0))), 1.0).certified()
    # The double nearest to 1/3 is below 1/3.
    with pytest.raises(pais.BudgetError):
        plan(pais.WeightedCount(noise=pais.laplace_noise(3.0)), 1 / 3).certified()


@pytest.mark.parametrize("epsilon", PRICES)
def test_noise_from_a_price_costs_at_most_that_price(epsilon: float) -> None:
    noise = pais.laplace_noise(epsilon=epsilon)
    assert certified_epsilon(pais.WeightedCount(noise=noise), ALL, pais.Ball(radius=1.0, order=1.0)) <= epsilon
    assert Fraction(1) / Fraction(noise.scale) <= Fraction(float(epsilon))
    assert noise.scale <= (1.0 + 1e-15) / epsilon
    wide = pais.laplace_noise(epsilon=epsilon, sensitivity=3.7)
    assert certified_epsilon(pais.WeightedSum(noise=wide), ALL, pais.Ball(radius=3.7, order=1.0)) <= epsilon


@pytest.mark.parametrize("epsilon", PRICES[:12:3])
@pytest.mark.parametrize("delta", [1e-12, 0.01])
def test_gaussian_noise_from_a_price_costs_at_most_that_price(epsilon: float, delta: float) -> None:
    for sensitivity in (1.0, 3.7):
        noise = pais.gaussian_noise(epsilon=epsilon, delta=delta, sensitivity=sensitivity)
        ball = pais.Ball(radius=sensitivity)
        assert certified_epsilon(pais.WeightedSum(noise=noise), ALL, ball, delta=delta, budget=epsilon) <= epsilon
        # Slightly less noise does not suffice.
        less = pais.GaussianNoise(scale=noise.scale * (1.0 - 1e-6))
        with pytest.raises(pais.BudgetError):
            certified_epsilon(pais.WeightedSum(noise=less), ALL, ball, delta=delta, budget=epsilon)
    count = pais.WeightedCount(noise=pais.gaussian_noise(epsilon=epsilon, delta=delta))
    assert certified_epsilon(count, ALL, pais.Ball(radius=9.0), delta=delta, budget=epsilon) <= epsilon


def test_gaussian_noise_agrees_with_the_formula_in_many_digits() -> None:
    scale = pais.gaussian_noise(epsilon=1.0, delta=1e-6).scale
    with mp.workdps(40):
        half, ratio = 1 / (2 * mp.mpf(scale)), mp.mpf(scale)
        delta = mp.ncdf(half - ratio) - mp.e * mp.ncdf(-half - ratio)
        assert delta <= mp.mpf("1e-6")
        assert delta >= mp.mpf("0.9999999e-6")


def test_noise_needs_a_scale_or_a_price() -> None:
    for arguments in ({}, {"scale": 1.0, "epsilon": 1.0}):
        with pytest.raises(pais.ArgumentError, match="exactly one"):
            pais.laplace_noise(**arguments)
    for arguments in ({}, {"epsilon": 1.0}, {"delta": 1e-6}, {"scale": 1.0, "epsilon": 1.0, "delta": 1e-6}):
        with pytest.raises(pais.ArgumentError, match="exactly one"):
            pais.gaussian_noise(**arguments)
    with pytest.raises(pais.ArgumentError, match="laplace_noise"):
        pais.gaussian_noise(epsilon=1.0, delta=0.0)
    assert pais.gaussian_noise(2.0) == pais.GaussianNoise(scale=2.0)


def test_exact_price_is_at_least_the_largest_log_ratio_of_released_counts() -> None:
    """The released count is a discrete variable: its exact probabilities are those of rounded Laplace noise."""
    for scale in (1.0, 0.7, 3.0):
        price = exact_epsilon(pais.WeightedCount(noise=pais.laplace_noise(scale)), ALL, pais.Ball(radius=1.0))
        assert price is not None
        step = pais.Lattice.for_scale(scale).step
        moved = int(1.0 / step)
        with mp.workdps(60):
            unit = mp.mpf(step) / mp.mpf(scale)

            def below(edge: mp.mpf, unit: mp.mpf = unit) -> mp.mpf:
                return mp.exp(edge * unit) / 2 if edge < 0 else 1 - mp.exp(-edge * unit) / 2

            def probability(steps: int) -> mp.mpf:
                return below(mp.mpf(steps) + mp.mpf(0.5)) - below(mp.mpf(steps) - mp.mpf(0.5))

            places = [-5 * moved, -1, 0, 1, moved // 2, moved - 1, moved, moved + 1, 4 * moved]
            ratios = [abs(mp.log(probability(place - moved) / probability(place))) for place in places]
            assert max(ratios) <= mp.mpf(price.numerator) / price.denominator * (1 + mp.mpf(10) ** -40)
            assert max(ratios) >= mp.mpf(price.numerator) / price.denominator * mp.mpf("0.999999")


def test_exact_prices_are_for_whole_tables_and_the_classes_of_the_package() -> None:
    class Other(pais.WeightedCount):
        """A count whose author may measure anything."""

    noise, ball = pais.laplace_noise(1.0), pais.Ball(radius=2.0, order=1.0)
    assert exact_epsilon(Other(noise=noise), ALL, ball) is None
    assert exact_epsilon(pais.WeightedCount(noise=noise), pais.UniformRule(rate=0.5), ball) is None
    assert exact_epsilon(pais.WeightedCount(noise=pais.GaussianNoise(scale=1.0)), ALL, ball) is None
    joint = pais.Joint(parts=(pais.WeightedCount(noise=noise), pais.WeightedSum(noise=noise)))
    assert exact_epsilon(joint, ALL, ball) == 3


class Double(pais.WeightedCount):
    """A user's count, whose profile states twice the loss of a count, and whose exact price does not."""

    @property
    def profile(self) -> pais.LinearProfile:
        return pais.LinearProfile(2.0 / self.noise.scale, 0.0)

    def exact_epsilon(self, ball: pais.Ball) -> Fraction | None:
        return Fraction(1, 1000)


def test_an_exact_price_that_a_user_states_does_not_lower_the_certified_one() -> None:
    mechanism = Double(noise=pais.laplace_noise(1.0))
    object.__setattr__(mechanism, "exact_epsilon", lambda ball: Fraction(1, 1000))
    ball = pais.Ball(radius=1.0, order=1)
    assert exact_epsilon(mechanism, ALL, ball) is None
    assert pais.Plan(ball=ball, rule=ALL, mechanism=mechanism, epsilon=5.0).price.epsilon >= 2.0


@pytest.mark.parametrize("value", [Fraction(1, 3), Fraction(1, 10), Fraction(2, 7), Fraction(10**20 + 1, 10**20)])
def test_certified_doubles_are_at_least_the_fraction(value: Fraction) -> None:
    number = at_least(value)
    assert Fraction(number) >= value
    assert Fraction(str(number)) >= value
    assert Fraction(math.nextafter(math.nextafter(number, 0.0), 0.0)) < value


def test_gaussian_noise_that_is_slightly_too_small_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = pais.gaussian_noise(epsilon=1.0, delta=1e-6)
    shift = largest_shift(1.0, 1e-6)
    monkeypatch.setattr("pais.mechanisms.noise.largest_shift", lambda epsilon, delta: shift * (1.0 + 1e-9))
    raised = pais.gaussian_noise(epsilon=1.0, delta=1e-6)
    assert raised.scale >= exact.scale * (1.0 - 1e-12)
    certified = worst_case(pais.UniformRule(rate=1.0), raised.sum_profile(), radius=1.0, epsilon=1.0, tolerance=1e-7)
    assert certified.upper <= 1e-6


@pytest.mark.parametrize("scale", [0.1, 1.0, 1 / 3, 7.3, 1e9])
def test_the_profiles_of_noise_leave_room_for_the_rounding_of_later_products(scale: float) -> None:
    """A few units in the last place more than the exact loss, and hardly more than that."""
    one = np.ones(1)
    for law in (pais.LpNoise(scale=scale, p=2.0), pais.GeometricNoise(scale=scale)):
        excess = Fraction(float(law.sum_profile().loss(one, one)[0])) * Fraction(scale) - 1
        assert 4 * Fraction(2) ** -52 <= excess <= 32 * Fraction(2) ** -52
    shift = Fraction(float(pais.GaussianNoise(scale=scale).sum_profile().loss(one, one)[0])) * Fraction(scale) - 1
    assert 4 * Fraction(2) ** -52 <= shift <= 32 * Fraction(2) ** -52
