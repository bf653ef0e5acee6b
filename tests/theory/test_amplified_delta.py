"""GAUSS-SAMPLED: against closed forms in 60 digits, direct integration and an independent accountant."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest

import pais
from pais._base.numerics import log_gaussian_delta, log_gaussian_delta_at
from tests.support.oracles import add_delta, remove_delta

CASES = [
    (epsilon, mu, probability)
    for epsilon in (0.0, 1e-3, 0.1, 1.0, 3.0, 10.0)
    for mu in (1e-3, 0.05, 0.3, 1.0, 4.0)
    for probability in (1e-4, 0.04, 0.5, 1.0)
]


def integrated(epsilon: float, mu: float, probability: float, *, remove: bool) -> mp.mpf:
    """The divergence as an integral of the positive part, split where the integrand changes sign."""
    epsilon, mu, q = mp.mpf(epsilon), mp.mpf(mu), mp.mpf(probability)

    def gap(x: mp.mpf) -> mp.mpf:
        plain = mp.npdf(x)
        mixed = (1 - q) * plain + q * mp.npdf(x, mu)
        value = mixed - mp.exp(epsilon) * plain if remove else plain - mp.exp(epsilon) * mixed
        return max(value, mp.mpf(0))

    odds = (mp.expm1(epsilon) + q) / q if remove else (mp.expm1(-epsilon) + q) / q
    if odds <= 0:
        return mp.mpf(0)
    switch = (mp.log(odds) + mu**2 / 2) / mu
    edge = switch + 40 if remove else switch - 40
    points = sorted([switch, edge, (3 * switch + edge) / 4, (switch + edge) / 2, (switch + 3 * edge) / 4])
    if (remove and switch < mu < edge) or (not remove and edge < 0 < switch):
        points = sorted([*points, mu if remove else mp.mpf(0)])
    return mp.quad(gap, points)


@pytest.mark.parametrize(("epsilon", "mu", "probability"), CASES)
def test_amplified_delta_is_just_above_the_closed_form_of_both_directions(
    epsilon: float, mu: float, probability: float
) -> None:
    with mp.workdps(80):
        exact = max(remove_delta(epsilon, mu, probability), add_delta(epsilon, mu, probability))
        value = mp.mpf(pais.amplified_delta(epsilon, mu, probability))
        if exact < mp.mpf("1e-300"):
            assert exact <= value <= mp.mpf("1e-290")
        else:
            assert exact <= value <= exact * (1 + mp.mpf("1e-11"))


@pytest.mark.parametrize(("epsilon", "mu", "probability"), [c for c in CASES if c[0] in (0.1, 1.0) and c[1] >= 0.05])
def test_amplified_delta_agrees_with_direct_integration_in_both_directions(
    epsilon: float, mu: float, probability: float
) -> None:
    with mp.workdps(30):
        remove = integrated(epsilon, mu, probability, remove=True)
        add = integrated(epsilon, mu, probability, remove=False)
    value = pais.amplified_delta(epsilon, mu, probability)
    assert float(remove) == pytest.approx(value, rel=1e-9, abs=1e-25)
    assert float(add) <= value * (1 + 1e-9)


def test_amplified_delta_is_accurate_over_random_arguments_down_to_1e_300() -> None:
    rng = np.random.default_rng(3)
    checked = 0
    with mp.workdps(160):
        for _ in range(1500):
            epsilon, mu = 10 ** rng.uniform(-4, 3), 10 ** rng.uniform(-4, 2)
            probability = 10 ** rng.uniform(-6, 0) if rng.random() < 0.8 else 1.0
            exact = remove_delta(epsilon, mu, probability)
            if exact > mp.mpf("1e-300"):
                checked += 1
                relative = (mp.mpf(pais.amplified_delta(epsilon, mu, probability)) - exact) / exact
                assert 0 <= relative < mp.mpf("1e-11")
    assert checked > 500


def test_adding_a_record_never_costs_more_than_removing_it() -> None:
    rng = np.random.default_rng(4)
    with mp.workdps(60):
        for _ in range(400):
            probability = rng.uniform(0.01, 1.0)
            # The add direction is not void only below this epsilon.
            epsilon = rng.uniform(0.0, min(-np.log1p(-min(probability, 0.999)), 5.0))
            mu = 10 ** rng.uniform(-2, 1)
            assert add_delta(epsilon, mu, probability) <= remove_delta(epsilon, mu, probability)


def test_epsilon_at_delta_is_a_safe_inverse_over_random_arguments() -> None:
    rng = np.random.default_rng(5)
    delta, mu = 10 ** rng.uniform(-12, -1, 5000), 10 ** rng.uniform(-3, 1.6, 5000)
    probability = 10 ** rng.uniform(-4, 0, 5000)
    epsilon = pais.epsilon_at_delta(delta, mu, probability)
    back = pais.amplified_delta(epsilon, mu, probability)
    assert np.all(back <= delta)
    inner = epsilon > 0
    assert inner.sum() > 2000
    assert np.all(back[inner] >= delta[inner] * (1 - 1e-10))
    assert epsilon.max() > 900


def test_probability_below_delta_gives_epsilon_zero() -> None:
    assert pais.epsilon_at_delta(1e-3, 50.0, 1e-4) == 0.0
    assert pais.amplified_delta(1.0, 0.0, 0.5) == 0.0
    assert pais.epsilon_at_delta(1e-6, 0.0, 1.0) == 0.0


def test_delta_that_underflows_is_reported_above_zero() -> None:
    assert 0.0 < pais.amplified_delta(1000.0, 1.0, 1.0) < 1e-300
    assert pais.amplified_delta(0.0, 1e9, 1.0) == 1.0


@pytest.mark.parametrize("mu", [1e-3, 0.05, 0.49, 0.51, 1.0, 4.0, 30.0, 300.0])
@pytest.mark.parametrize("epsilon", [0.0, 1e-3, 0.1, 1.0, 10.0, 100.0])
def test_the_divergence_of_one_pair_and_of_many_is_within_its_error_of_the_exact_one(epsilon: float, mu: float) -> None:
    value, error = log_gaussian_delta_at(epsilon, mu)
    values, errors = log_gaussian_delta(np.full(3, epsilon), np.full(3, mu))
    with mp.workdps(400):
        exact = mp.log(remove_delta(epsilon, mu, 1.0))
        assert abs(mp.mpf(value) - exact) <= error
        assert abs(mp.mpf(float(values[1])) - exact) <= errors[1]
    assert 0.0 < error <= 1e-9 * max(1.0, abs(value))
    assert error == pytest.approx(errors[1], rel=1e-9)
