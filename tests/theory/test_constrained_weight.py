"""CONSTRAINED: three solvers give the same weight, and it is always feasible."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest

import pais
from pais._base.numerics import FloatArray
from pais.privacy.profiles import PureProfile
from pais.privacy.weights import algorithm_one_weight, closed_form_weight
from tests.support.oracles import is_feasible, linear_weight

EPSILONS = [1e-3, 1e-2, 0.1, 0.5, 1.0, 3.0, 10.0, 50.0, 100.0, 300.0, 700.0, 710.0, 1000.0]


class Counting(PureProfile):
    """A linear loss that counts, for each norm, how often it was evaluated."""

    def __init__(self, norms: FloatArray) -> None:
        self.counts = dict.fromkeys(norms.tolist(), 0)

    def loss(self, weight: FloatArray, norm: FloatArray) -> FloatArray:
        for value in norm.tolist():
            self.counts[value] += 1
        return weight * norm

    def derivative_at_one(self, norm: FloatArray) -> FloatArray:
        return norm

    def log_convexity(self, norm: FloatArray) -> FloatArray:
        return 2 * np.log(norm) + norm

    def with_noise(self, noise: float) -> PureProfile:
        raise NotImplementedError

    def check(self, *, radius: float, epsilon: float, delta: float = 0.0) -> pais.Assumptions:
        raise NotImplementedError


def losses_below(epsilon: float, n: int, seed: int) -> FloatArray:
    """Losses at weight 1 in (0, epsilon]: over six decades, crowded just below epsilon, and epsilon itself."""
    rng = np.random.default_rng(seed)
    wide = 10 ** rng.uniform(-6, 0, n)
    close = 1 - 10 ** rng.uniform(-14, -1, n // 2)
    return np.minimum(epsilon * np.concatenate([wide, close, [1.0]]), epsilon)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_closed_form_and_algorithm_one_are_within_1e_12_of_fifty_digits_and_feasible(epsilon: float) -> None:
    losses = losses_below(epsilon, 60, seed=1)
    closed = closed_form_weight(losses, epsilon)
    searched = algorithm_one_weight(pais.PowerProfile(0.0, 1.0, 1.0), losses, epsilon)
    with mp.workdps(50):
        for loss, one, two in zip(losses.tolist(), closed.tolist(), searched.tolist(), strict=True):
            exact = linear_weight(loss, epsilon)
            for weight in (one, two):
                assert abs(mp.mpf(weight) - exact) <= mp.mpf("1e-12") * exact
                assert weight == 1.0 or is_feasible(weight, loss, epsilon)


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 10.0, 200.0])
def test_algorithm_one_respects_the_bound_of_its_proposition(epsilon: float) -> None:
    """At most log2 ceil((e^eps - v)/(alpha mu)) evaluations, alpha = 1e-13 of the weight; the proposition's bound
    says nothing where its own argument is below one bracket, that is for weights next to 1.
    """
    losses = np.unique(epsilon * 10 ** np.random.default_rng(7).uniform(-5, 0, 80))
    profile = Counting(losses)
    weights = algorithm_one_weight(profile, losses, epsilon)
    compared = 0
    with mp.workdps(600):
        for loss, weight in zip(losses.tolist(), weights.tolist(), strict=True):
            c = mp.mpf(loss)
            mu = c**2 * mp.exp(c)
            v = min(mp.exp(c) + mu / 2, c * mp.exp(c) + 1)
            width = (mp.exp(mp.mpf(epsilon)) - v) / mu
            if width > 1:
                compared += 1
                bound = mp.log(mp.ceil(width / (mp.mpf("1e-13") * weight)), 2)
                assert profile.counts[loss] <= bound
            # Two evaluations at the ends, and never more than bisection of log(weight) plus one.
            end = mp.log(2 * width + 2)
            assert profile.counts[loss] <= 4 + mp.ceil(mp.log(max(end, 1) / mp.mpf("2e-14"), 2))
    assert compared > 30


def test_a_nonlinear_profile_gets_the_largest_root_in_fifty_digits() -> None:
    profile = pais.PowerProfile(0.05, 0.3, 1.7)
    norms = np.linspace(0, 2, 30)
    weights = pais.constrained_weight(profile, norms, epsilon=1.0)
    with mp.workdps(50):
        for norm, weight in zip(norms.tolist(), weights.tolist(), strict=True):
            c = mp.mpf(float(profile(1.0, norm)))

            def excess(w: mp.mpf, c: mp.mpf = c) -> mp.mpf:
                return mp.expm1(c * w ** mp.mpf(1.7)) - w * mp.expm1(1)

            exact = mp.findroot(excess, (weight * 0.99, weight * 1.01), solver="anderson")
            assert excess(mp.mpf(weight)) <= 0
            assert abs(weight - exact) <= mp.mpf("1e-12") * exact


def test_a_custom_profile_with_constants_agrees_and_with_a_wrong_constant_is_refused() -> None:
    def loss(weight: FloatArray, norm: FloatArray) -> FloatArray:
        return weight * (0.1 + 0.5 * norm)

    def slope(weight: FloatArray, norm: FloatArray) -> FloatArray:
        return 0.1 + 0.5 * norm

    norms = np.linspace(0, 1.5, 40)
    right = pais.CustomProfile(loss, slope, lambda norm: slope(norm, norm) ** 2 * np.exp(slope(norm, norm)))
    expected = pais.constrained_weight(pais.LinearProfile(0.1, 0.5), norms, epsilon=1.0)
    assert pais.constrained_weight(right, norms, epsilon=1.0) == pytest.approx(expected, rel=1e-12)
    wrong = pais.CustomProfile(loss, slope, lambda norm: np.full_like(norm, 50.0))
    with pytest.raises(pais.AssumptionError, match="strong-convexity constant"):
        pais.constrained_weight(wrong, norms, epsilon=1.0)


def test_record_without_loss_gets_the_largest_weight() -> None:
    assert pais.constrained_weight(pais.LinearProfile(0.0, 1.0), 0.0, epsilon=1.0) == 1e12
    weight = pais.constrained_weight(pais.GaussianProfile(math.inf, 1.0), 0.0, epsilon=1.0, delta=1e-6)
    assert weight == pytest.approx(1e12)


def test_a_profile_that_ignores_weights_goes_to_the_cap() -> None:
    assert pais.constrained_weight(pais.PowerProfile(0.5, 0.0, 0.0), 0.3, epsilon=1.0) == pytest.approx(1e12)
