"""GAUSS-SAMPLED, constrained: delta has a single maximum in the weight, and the rule stops at its first crossing."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest

import pais
from pais._base.numerics import log_gaussian_delta_rises
from pais.privacy.amplification import largest_shift, log_tilted_ratio
from tests.support.oracles import remove_delta

CASES = [(epsilon, at_one) for epsilon in (0.05, 0.5, 1.0, 5.0, 50.0) for at_one in (1e-4, 1e-3, 0.01)]


def deltas(epsilon: float, at_one: float, weight: np.ndarray) -> np.ndarray:
    return pais.amplified_delta(epsilon, at_one * weight, 1 / weight)


@pytest.mark.parametrize(("epsilon", "at_one"), CASES)
def test_delta_has_a_single_maximum_in_the_weight(epsilon: float, at_one: float) -> None:
    weight = np.geomspace(1, 1e9, 20001)
    log_delta = np.log(deltas(epsilon, at_one, weight))
    visible = log_delta > np.log(1e-290)
    direction = np.sign(np.diff(log_delta[visible]))
    turns = np.flatnonzero(np.diff(direction[direction != 0]))
    assert turns.size == 1
    rises = log_gaussian_delta_rises(log_tilted_ratio(np.full_like(weight, epsilon), 1 / weight), at_one * weight)
    peak = weight[np.argmax(log_delta)]
    assert np.all(rises[weight < 0.99 * peak])
    assert not np.any(rises[weight > 1.01 * peak])


@pytest.mark.parametrize(("epsilon", "at_one"), CASES)
def test_the_weight_is_the_first_crossing_found_by_brute_force(epsilon: float, at_one: float) -> None:
    delta = 1e-6
    profile = pais.GaussianProfile(1 / at_one, 1.0)
    weight = pais.constrained_weight(profile, 0.0, epsilon=epsilon, delta=delta, max_epsilon_if_kept=math.inf)
    grid = np.geomspace(1, 1e12, 400001)
    above = np.flatnonzero(deltas(epsilon, at_one, grid) > delta)
    assert grid[above[0] - 1] <= weight * (1 + 1e-9)
    assert weight <= grid[above[0]]
    with mp.workdps(60):
        q = 1 / mp.mpf(weight)
        assert remove_delta(epsilon, mp.mpf(float(profile(1.0, 0.0))) * weight, q) <= delta
        longer = mp.mpf(weight) * (1 + mp.mpf("1e-10"))
        assert remove_delta(epsilon, mp.mpf(float(profile(1.0, 0.0))) * longer, 1 / longer) > delta


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 5.0])
@pytest.mark.parametrize("room", [1e-12, 1.5e-11, 1e-9, 1e-6])
def test_a_shift_that_no_sampling_would_help_has_weight_one(epsilon: float, room: float) -> None:
    delta = 1e-6
    profile = pais.GaussianProfile(1.0 / (largest_shift(epsilon, delta) * (1.0 - room)), 1.0)
    weight = pais.constrained_weight(profile, 0.0, epsilon=epsilon, delta=delta)
    assert (weight == 1.0) is (room < 2e-11)
    with mp.workdps(60):
        at_one = mp.mpf(float(profile(1.0, 0.0)))
        assert remove_delta(epsilon, at_one * weight, 1 / mp.mpf(weight)) <= delta
        longer = mp.mpf(weight) * (1 + mp.mpf("1e-9"))
        assert remove_delta(epsilon, at_one * longer, 1 / longer) > delta


def test_second_crossing_would_publish_records_with_probability_delta() -> None:
    """The far branch exists, is formally within the target, and is not what is returned."""
    epsilon, delta, at_one = 1.0, 1e-6, 0.01
    far = 2 / delta
    assert deltas(epsilon, at_one, np.array([far]))[0] <= delta
    assert pais.constrained_weight(pais.GaussianProfile(100.0, 1.0), 0.0, epsilon=epsilon, delta=delta) < 1e4


def test_weight_stops_at_a_maximum_below_the_target() -> None:
    at_one, delta = 1e-7, 1e-3
    profile = pais.GaussianProfile(1 / at_one, 1.0)
    weight = pais.constrained_weight(profile, 0.0, epsilon=1.0, delta=delta, max_epsilon_if_kept=math.inf)
    grid = np.geomspace(1, 1e12, 200001)
    peak = grid[np.argmax(deltas(1.0, at_one, grid))]
    assert deltas(1.0, at_one, grid).max() < delta
    assert weight == pytest.approx(peak, rel=1e-3)


def test_lemma_of_the_single_maximum() -> None:
    """integral over [0,1] of exp(-L s^2 + E s(1-s)) <= 1 with E = 1 - e^-L: docs/theory/first-crossing.md."""
    for log_ratio in [mp.mpf(10) ** k for k in (-6, -3, -1, 0, 0.5, 1, 2, 3)]:
        lift = 1 - mp.exp(-log_ratio)
        area = mp.quad(lambda s, a=log_ratio, e=lift: mp.exp(-a * s**2 + e * s * (1 - s)), [0, 0.1, 0.5, 1])
        assert area <= 1
