"""GEOMETRIC: two-sided geometric noise has exact probabilities, its price, and less variance than rounded Laplace."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import opendp.prelude as dp
import pytest
from numpy.typing import NDArray
from scipy import stats

import pais
from pais._base.lattice import Lattice
from tests.support.lattice_cases import seeded
from tests.theory.test_exact_noise import ACCEPT, REJECT, Scripted

SCALES = [1.0, 0.3, 1 / 3, 10.0, 1.7, 0.05, 1000.0]
EDGE = 8


def probability(k: int, scale: float) -> mp.mpf:
    """P(k) as the definition has it, normalised by a sum over all whole numbers."""
    ratio = mp.exp(-1 / mp.mpf(scale))
    return ratio ** abs(k) * (1 - ratio) / (1 + ratio)


def bits_of(tail: mp.mpf, sign: int) -> Scripted:
    """A uniform variable whose first 448 bits are those of a tail probability."""
    known = int(mp.floor(tail * mp.mpf(2) ** 448))
    portions = [(known >> shift) & (2**128 - 1) for shift in (256, 128, 0)]
    return Scripted([(known >> 384) | (1 << 63 if sign > 0 else 0)], [*portions, 2**127])


def drawn(noise: pais.GeometricNoise, n: int, seed: int) -> NDArray[np.int64]:
    return noise.draw_steps((n, 1), Lattice(step=1.0), seeded(seed))[:, 0]


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("k", [1, 2, 3, 10])
def test_a_uniform_variable_at_a_cumulative_probability_is_decided_by_its_exact_value(scale: float, k: int) -> None:
    with mp.workprec(700):
        # P(noise >= k) by the sum of a geometric series, of which no line of the package makes use.
        ratio = mp.exp(-1 / mp.mpf(scale))
        upper = probability(k, scale) / (1 - ratio)
        assert mp.almosteq(probability(0, scale) + 2 * probability(1, scale) / (1 - ratio), 1)
        width = upper * mp.mpf(2) ** -80
        for sign in (1, -1):
            for tail, expected in ((upper - width, k), (upper + width, k - 1)):
                steps = pais.GeometricNoise(scale=scale).draw_steps((1, 1), Lattice(step=1.0), bits_of(tail, sign))
                assert steps.tolist() == [[sign * expected]]


def p_value(values: NDArray[np.int64], scale: float) -> float:
    observed = np.bincount(np.clip(values, -EDGE, EDGE) + EDGE, minlength=2 * EDGE + 1)
    expected = np.array([float(probability(k, scale)) for k in range(-EDGE, EDGE + 1)])
    expected[[0, -1]] += (1.0 - expected.sum()) / 2.0
    return float(stats.chisquare(observed, expected * values.size).pvalue)


def test_draws_follow_the_exact_probabilities_and_not_those_of_other_noise() -> None:
    n, scale = 200_000, 1.7
    assert p_value(drawn(pais.GeometricNoise(scale=scale), n, 1), scale) > ACCEPT
    assert p_value(drawn(pais.GeometricNoise(scale=1.1 * scale), n, 2), scale) < REJECT
    rounded = pais.laplace_noise(scale).draw_steps((n, 1), Lattice(step=1.0), seeded(3))[:, 0]
    assert p_value(rounded, scale) < REJECT


@pytest.mark.parametrize("scale", [0.7, 3.0])
def test_draws_agree_with_the_exact_discrete_sampler_of_opendp(scale: float) -> None:
    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T=int))
    theirs = np.array(dp.m.make_laplace(domain, dp.l1_distance(T=int), scale=scale)([0] * 40_000))
    ours, wider = (drawn(pais.GeometricNoise(scale=factor * scale), 40_000, 4) for factor in (1.0, 1.3))
    edge = int(4 * scale)

    def p_of(values: NDArray[np.int64]) -> float:
        rows = [np.bincount(np.clip(each, -edge, edge) + edge, minlength=2 * edge + 1) for each in (values, theirs)]
        return float(stats.chi2_contingency(np.array(rows)).pvalue)

    assert p_of(ours) > ACCEPT
    assert p_of(wider) < REJECT


@pytest.mark.parametrize("scale", SCALES)
def test_no_released_count_is_more_likely_by_more_than_the_price(scale: float) -> None:
    noise = pais.GeometricNoise(scale=scale)
    profile = noise.count_profile()
    with mp.workprec(300):
        for change in (1, 2, 5):
            ratios = [mp.log(probability(k - change, scale) / probability(k, scale)) for k in range(-20, 21)]
            assert max(ratios) <= profile.intercept * change
            assert max(ratios) >= profile.intercept * change * (1 - 1e-14)
    assert profile.slope == 0.0
    assert noise.sum_profile().slope == profile.intercept
    assert noise.order == 1.0


@pytest.mark.parametrize("scale", [0.4, 1.0, 10.0])
def test_variance_is_stated_and_below_that_of_rounded_laplace_noise(scale: float) -> None:
    noise = pais.GeometricNoise(scale=scale)
    with mp.workprec(100):
        variance = mp.nsum(lambda k: 2 * k**2 * probability(int(k), scale), [1, mp.inf])
    assert noise.deviation(1) ** 2 == pytest.approx(float(variance), rel=1e-9)
    assert np.var(drawn(noise, 100_000, 5)) == pytest.approx(float(variance), rel=0.05)
    cuts = np.arange(4000) + 0.5
    rounded = 2.0 * float(np.sum((2.0 * np.arange(4000) + 1.0) * stats.laplace(scale=scale).sf(cuts)))
    assert noise.deviation(1) ** 2 < rounded


def test_noise_far_below_one_step_is_zero() -> None:
    noise = pais.GeometricNoise(scale=1e-4)
    assert noise.deviation(1) == 0.0
    assert not drawn(noise, 1000, 6).any()


def test_a_count_at_its_textbook_price_is_a_whole_number() -> None:
    plan = pais.Plan(
        ball=pais.Ball(radius=1.0),
        rule=pais.UniformRule(rate=1.0),
        mechanism=pais.WeightedCount(noise=pais.geometric_noise(epsilon=0.5)),
        epsilon=0.5,
    )
    assert pais.Plan.from_dict(plan.to_dict()) == plan
    release = pais.run(plan, np.zeros((100, 1)), random_state=0)
    assert float(release.value).is_integer()
    assert release.certificate.epsilon == 0.5
    with pytest.raises(pais.BudgetError):
        pais.Plan(
            ball=pais.Ball(radius=1.0),
            rule=pais.UniformRule(rate=1.0),
            mechanism=pais.WeightedCount(noise=pais.GeometricNoise(scale=math.nextafter(2.0, 0.0))),
            epsilon=0.5,
        )


def test_noise_on_a_finer_lattice_has_the_same_price_there() -> None:
    fine = pais.GeometricNoise(scale=1.0, step=2.0**-20)
    assert fine.lattice.step == 2.0**-20
    steps = fine.draw_steps((100_000, 1), fine.lattice, seeded(7))
    assert np.std(fine.lattice.decode(steps)) == pytest.approx(math.sqrt(2.0), rel=0.02)
    assert fine.deviation(1) == pytest.approx(math.sqrt(2.0), rel=1e-9)
    assert pais.GeometricNoise(scale=1.0, step=4.0).draw((1000, 2), seeded(8)).max() in (0.0, 4.0, 8.0)
    assert p_value((fine.draw_steps((200_000, 1), Lattice(step=1.0), seeded(9)))[:, 0], 1.0) > ACCEPT


def test_each_vector_may_have_its_own_factor() -> None:
    noise = pais.GeometricNoise(scale=1.0)
    steps = noise.draw_steps((3, 20_000), Lattice(step=1.0), seeded(10), unit=np.array([0.01, 1.0, 30.0]))
    assert not steps[0].any()
    assert np.std(steps[1]) == pytest.approx(noise.deviation(1), rel=0.05)
    assert np.std(steps[2]) == pytest.approx(30.0 * math.sqrt(2.0), rel=0.05)
    assert noise.draw_steps((0, 4), Lattice(step=1.0), seeded(11), unit=np.empty(0)).shape == (0, 4)


@pytest.mark.parametrize("step", [3.0, 0.1, 0.0, -1.0, math.inf])
def test_a_step_that_is_no_power_of_two_is_refused(step: float) -> None:
    with pytest.raises(pais.ArgumentError, match="step"):
        pais.GeometricNoise(scale=1.0, step=step)
