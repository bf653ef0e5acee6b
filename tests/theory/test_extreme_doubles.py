"""Attacks by odd doubles and extreme ratios: refused from public numbers, or finite on the lattice."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pais
from pais import (
    ArgumentError,
    Ball,
    GaussianNoise,
    Joint,
    LpNoise,
    NormDistribution,
    Plan,
    UniformRule,
    WeightedCount,
    WeightedMean,
    WeightedSum,
    laplace_noise,
    plan_kmeans,
    sample,
)
from pais._base.lattice import Lattice
from pais._base.randomness import BitSource
from pais.data.engines.base import Engine, Fold, Sampling
from tests.support.lattice_cases import NOISES, SMALLEST, OneWord, content, naive_total, noises, on_lattice, seeded

# ---------------------------------------------------------------- odd doubles, extreme ratios


@noises
def test_minus_zero_and_values_below_the_step_become_zero(noise_name: str) -> None:
    noise = NOISES[noise_name](1.0)
    ball = Ball(radius=1.0, order=noise.order)
    mechanism = WeightedMean(count_noise=noise, sum_noise=noise)
    rule = UniformRule(rate=1.0)

    def released(value: float) -> bytes:
        kept = sample(np.full((3, 2), value), ball=ball, rule=rule, random_state=1).spend("a test")
        found = mechanism.measure(kept, ball, seeded(6))
        return found.noisy_sum.tobytes() + found.noisy_mean.tobytes() + np.float64(found.noisy_count).tobytes()

    assert len({released(value) for value in (0.0, -0.0, SMALLEST, -SMALLEST, 1e-310, -1e-200, 1e-9)}) == 1
    assert released(1e-3) != released(0.0)
    assert len({math.copysign(1.0, naive_total(np.full((3, 1), value))[0]) for value in (0.0, -0.0)}) == 2


def test_a_noise_of_no_steps_on_minus_zero_gives_plus_zero() -> None:
    noise, ball = laplace_noise(1.0), Ball(radius=1.0, order=1.0)
    for value in (0.0, -0.0, -SMALLEST):
        for sign in (0, 1 << 63):
            released = WeightedSum(noise=noise).measure(content([[value]]), ball, OneWord(2**63 - 2 | sign))
            assert released.tobytes() == np.zeros(1).tobytes()


@pytest.mark.parametrize("order", [1.0, 2.0, 3.0, math.inf])
def test_huge_rows_are_clipped_without_a_warning(order: float) -> None:
    ball = Ball(radius=2.0, order=order)
    huge = np.array([[1e308, -1e308], [1.7e308, 1e-300], [-1e308, 0.0], [1e160, 1e160]])
    clipped = ball.clip(ball.shift(huge))
    assert np.all(np.isfinite(clipped))
    assert np.all(np.linalg.norm(clipped, ord=order, axis=1) <= 2.0)
    assert np.all(ball.norms(ball.shift(huge)) == 2.0)
    with np.errstate(over="ignore", invalid="ignore"):
        # A naive length of the row overflows, and the row vanishes or is no number.
        naive = huge[0] * min(1.0, 2.0 / math.sqrt(float(np.square(huge[0]).sum())))
    assert not 1.9 < np.linalg.norm(naive) <= 2.0


class Unread(Engine):
    """Rows that nobody may look at."""

    names = ("a", "b")
    n_features = 2

    def __init__(self) -> None:
        self.looks = 0

    def fold(self, fold: Fold, *, seeded: bool) -> Any:
        self.looks += 1
        raise AssertionError("a row was read")

    def sample(self, sampling: Sampling, bits: BitSource) -> Any:
        self.looks += 1
        raise AssertionError("a row was read")

    def over_carried(self, work: Any) -> Any:
        self.looks += 1
        raise AssertionError("a row was read")


EXTREME: dict[str, Callable[[], Plan]] = {
    "quiet sum": lambda: Plan(
        ball=Ball(radius=1e10),
        rule=UniformRule(rate=1.0),
        mechanism=WeightedSum(noise=LpNoise(scale=1e-9, p=2.0)),
        epsilon=1e100,
    ),
    "rare rows": lambda: Plan(
        ball=Ball(radius=1.0),
        rule=UniformRule(rate=1e-12),
        mechanism=WeightedCount(noise=laplace_noise(1e-3)),
        epsilon=1e100,
    ),
    "mean": lambda: Plan(
        ball=Ball(radius=1e100),
        rule=UniformRule(rate=1.0),
        mechanism=WeightedMean(count_noise=GaussianNoise(scale=1.0), sum_noise=GaussianNoise(scale=1.0)),
        epsilon=1e100,
        delta=1e-9,
    ),
    "part of a joint": lambda: Plan(
        ball=Ball(radius=1e100),
        rule=UniformRule(rate=1.0),
        mechanism=Joint(parts=(WeightedCount(noise=laplace_noise(1.0)), WeightedSum(noise=LpNoise(scale=1.0, p=2.0)))),
        epsilon=1e101,
    ),
    "smallest noise": lambda: Plan(
        ball=Ball(radius=1.0),
        rule=UniformRule(rate=1.0),
        mechanism=WeightedSum(noise=LpNoise(scale=SMALLEST, p=2.0)),
        epsilon=1e100,
    ),
    "k-means": lambda: plan_kmeans(
        n_clusters=2,
        n_features=2,
        epsilon=1e14,
        ball=Ball(radius=1.0),
        norms=NormDistribution(norms=np.array([0.5]), masses=np.array([1e3]), radius=1.0),
        mechanism="l2",
        # The steps of the residual rounds follow from the largest contribution, so that it always fits.
        algorithm="paper",
    ),
}


@pytest.mark.parametrize("case", EXTREME)
def test_plan_that_would_overflow_integers_is_refused_from_public_numbers(case: str) -> None:
    with pytest.raises(ArgumentError, match=r"64-bit|too small"):
        EXTREME[case]()
    # Without the refusal the cast would go wrong in silence, and by as much as a row is large.
    with np.errstate(invalid="ignore"):
        naive = Lattice(step=2.0**-22).encode(np.array([1e18]))
    assert int(naive[0]) != math.trunc(1e18 * 2.0**22)


@pytest.mark.filterwarnings("ignore:epsilon=.* is a weak guarantee:UserWarning")
def test_estimator_with_overflow_reads_no_row() -> None:
    rows = Unread()
    norms = NormDistribution(norms=np.array([0.5]), masses=np.array([1e3]), radius=1.0)
    settings_ = pais.KMeansSettings(n_clusters=2, epsilon=1e14, radius=1.0, norms=norms, mechanism="l2")
    with pytest.raises(ArgumentError, match=r"64-bit|out of range"):
        pais.fit(rows, settings_)
    assert rows.looks == 0
    # The rows do raise when they are read.
    with pytest.raises(AssertionError, match="read"):
        pais.fit(rows, pais.KMeansSettings(n_clusters=2, epsilon=1.0, radius=1.0, norms=norms, delta=1e-6))


@noises
@pytest.mark.parametrize(("radius", "scale"), [(1e100, 1e99), (1e-100, 1e-100), (1e-100, 1e100), (1e-3, 1e300)])
def test_extreme_radii_and_noises_that_fit_give_finite_releases_on_the_lattice(
    noise_name: str, radius: float, scale: float
) -> None:
    noise = NOISES[noise_name](scale)
    ball = Ball(radius=radius, order=noise.order)
    rows = np.array([[1e308, -1e308], [SMALLEST, 0.0], [radius / 3.0, -radius / 7.0]])
    kept = sample(rows, ball=ball, rule=UniformRule(rate=1.0), random_state=2).spend("a test")
    value = WeightedSum(noise=noise).measure(kept, ball, seeded(1))
    assert np.all(np.isfinite(value))
    assert on_lattice(value, Lattice.for_scale(scale).step)


@pytest.mark.parametrize("order", [1.0, 2.0, 3.0, math.inf])
@pytest.mark.parametrize("size", [5e-324, 1e-200, 1e-160, 1e-150])
def test_norms_of_tiny_rows_are_not_below_the_exact_ones(size: float, order: float) -> None:
    rows = np.array([[size, 0.0, -size]])
    exact = size * (1.0 if math.isinf(order) else 2.0 ** (1.0 / order))
    assert Ball(radius=1.0, order=order).norms(rows)[0] >= exact
