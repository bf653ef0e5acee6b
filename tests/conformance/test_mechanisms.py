"""Every mechanism through one suite: what it computes, and what it claims to cost."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

from pais import (
    ArgumentError,
    Ball,
    CoresetRule,
    CustomProfile,
    CustomShiftProfile,
    GaussianNoise,
    GaussianProfile,
    Joint,
    LinearProfile,
    LpNoise,
    MeanValue,
    MismatchError,
    Rule,
    UniformRule,
    WeightedCount,
    WeightedMean,
    WeightedSum,
    amplified_epsilon,
    epsilon_at_delta,
    laplace_noise,
    release,
    sample,
    worst_case,
)
from pais._base.randomness import SeededBits
from pais.mechanisms.base import Mechanism
from tests.support.mechanism_cases import (
    DELTA,
    MECHANISMS,
    NOISES,
    QUIET,
    RADIUS,
    built,
    cases,
    delta_of,
    flat,
    order_of,
    released,
    some_rows,
)

Floats = NDArray[np.float64]
# Noise of scale 1e-9 in a few dimensions stays below this.
TOLERANCE = 1e-6


def measured(
    mechanism_name: str,
    noise_name: str,
    rows: ArrayLike,
    *,
    rule: Rule | None = None,
    radius: float = RADIUS,
    center: tuple[float, ...] | None = None,
    scale: float = QUIET,
    seed: int = 7,
) -> object:
    """The value alone, seeded: noise may be far too quiet for any certificate."""
    ball = Ball(radius=radius, order=order_of(noise_name), center=center)
    bits = SeededBits(np.random.default_rng(seed))
    content = sample(rows, ball=ball, rule=rule or UniformRule(rate=1.0), random_state=bits).spend("a test")
    return built(mechanism_name, noise_name, scale).measure(content, ball, bits)


def plain(mechanism_name: str, rows: Floats, center: ArrayLike = 0.0) -> Floats:
    """The value without noise and without sampling."""
    count, total = np.array([float(len(rows))]), (rows - np.asarray(center)).sum(axis=0)
    mean = np.concatenate([rows.mean(axis=0), count, total])
    return {
        "count": count,
        "sum": total,
        "vector sum": total,
        "mean": mean,
        "joint": np.concatenate([count, total]),
        "joint of a mean and a count": np.concatenate([mean, count]),
    }[mechanism_name]


# -- relations between runs, with noise that hardly is ---------------------------------------------------------


@cases
def test_with_every_row_and_no_noise_the_value_is_the_plain_one(mechanism_name: str, noise_name: str) -> None:
    rows = some_rows()
    value = flat(measured(mechanism_name, noise_name, rows))
    assert np.allclose(value, plain(mechanism_name, rows), rtol=0.0, atol=TOLERANCE)
    # One row more is seen.
    more = flat(measured(mechanism_name, noise_name, np.vstack([rows, [0.5, 0.5, 0.5]])))
    assert not np.allclose(value, more, rtol=0.0, atol=TOLERANCE)


@cases
def test_a_row_of_weight_two_counts_as_the_row_twice(mechanism_name: str, noise_name: str) -> None:
    rows, seed = some_rows(), 11
    half = UniformRule(rate=0.5)
    ball = Ball(radius=RADIUS, order=order_of(noise_name))
    bits = SeededBits(np.random.default_rng(seed))
    content = sample(rows, ball=ball, rule=half, random_state=bits).spend("a look at what the seed keeps")
    assert 0 < len(content.rows) < len(rows)
    assert np.allclose(content.weights, 2.0, rtol=1e-12, atol=0.0)
    weighted = flat(measured(mechanism_name, noise_name, rows, rule=half, seed=seed))
    twice = flat(measured(mechanism_name, noise_name, np.repeat(content.rows, 2, axis=0), seed=seed))
    once = flat(measured(mechanism_name, noise_name, content.rows, seed=seed))
    assert np.allclose(weighted, twice, rtol=0.0, atol=TOLERANCE)
    assert not np.allclose(weighted, once, rtol=0.0, atol=TOLERANCE)


@pytest.mark.parametrize("noise_name", NOISES)
def test_sums_are_relative_to_the_center_and_means_in_the_coordinates_of_the_rows(noise_name: str) -> None:
    center = (10.0, -20.0, 0.5)
    rows = some_rows() + center
    for mechanism_name in MECHANISMS:
        value = flat(measured(mechanism_name, noise_name, rows, center=center))
        assert np.allclose(value, plain(mechanism_name, rows, center), rtol=0.0, atol=TOLERANCE)
    mean = measured("mean", noise_name, rows, center=center)
    assert isinstance(mean, MeanValue)
    assert np.allclose(mean.noisy_mean, rows.mean(axis=0), rtol=0.0, atol=TOLERANCE)
    # Without the center all rows lie beyond the radius, and another mean comes out.
    clipped = measured("mean", noise_name, rows)
    assert isinstance(clipped, MeanValue)
    assert not np.allclose(clipped.noisy_mean, rows.mean(axis=0), rtol=0.0, atol=1.0)


@pytest.mark.parametrize("noise_name", NOISES)
def test_the_mean_stays_in_the_ball_whatever_the_noise(noise_name: str) -> None:
    center, order = (10.0, -20.0, 0.5), order_of(noise_name)
    rows = some_rows(n=4) + center
    beyond = turned = 0
    for seed in range(60):
        value = measured("mean", noise_name, rows, center=center, scale=30.0, seed=seed)
        assert isinstance(value, MeanValue)
        assert np.all(np.isfinite(value.noisy_mean))
        assert np.linalg.norm(value.noisy_mean - center, ord=order) <= RADIUS * (1.0 + 1e-12)
        beyond += bool(np.linalg.norm(value.noisy_sum / value.noisy_count, ord=order) > RADIUS)
        if value.noisy_count >= 1.0 and np.linalg.norm(value.noisy_sum / value.noisy_count, ord=order) < RADIUS:
            assert np.allclose(value.noisy_mean - center, value.noisy_sum / value.noisy_count, rtol=1e-9, atol=1e-9)
        # A noisy count below one row, even below zero, does not turn the mean around.
        assert (value.noisy_mean - center) @ value.noisy_sum > 0.0
        turned += value.noisy_count < 0.0
    # The noise was large enough to matter.
    assert beyond > 10
    assert turned > 10


@cases
def test_noise_is_added_to_every_released_number(mechanism_name: str, noise_name: str) -> None:
    rows = some_rows()
    first, second = (flat(measured(mechanism_name, noise_name, rows, scale=1.0, seed=seed)) for seed in (1, 2))
    exact = plain(mechanism_name, rows)
    assert first.shape == exact.shape
    assert np.all(first != exact)
    assert np.all(first != second)


@pytest.mark.parametrize("noise_name", NOISES)
def test_parts_of_a_joint_mechanism_have_noise_of_their_own(noise_name: str) -> None:
    noise = NOISES[noise_name](1.0)
    joint = Joint(parts=(WeightedSum(noise=noise), WeightedSum(noise=noise)))
    ball = Ball(radius=RADIUS, order=noise.order)
    kept = sample(some_rows(), ball=ball, rule=UniformRule(rate=1.0), random_state=3)
    value = release(joint, kept, delta=delta_of(noise_name), random_state=4).value
    assert isinstance(value, tuple)
    assert np.all(value[0] != value[1])


# -- what it claims to cost ------------------------------------------------------------------------------------


def price(mechanism_name: str, noise_name: str, scale: float, norm: Floats) -> Floats:
    """Loss of a record at weight 1, from first principles: shifts over scales, added up or in squares."""
    count, total = {
        "count": ([scale], []),
        "sum": ([], [scale]),
        "vector sum": ([], [scale]),
        "mean": ([scale], [2.0 * scale]),
        "joint": ([scale], [3.0 * scale]),
        "joint of a mean and a count": ([scale, 4.0 * scale], [2.0 * scale]),
    }[mechanism_name]
    terms = [np.full_like(norm, 1.0 / each) for each in count] + [norm / each for each in total]
    if noise_name == "gaussian":
        return np.asarray(np.sqrt(sum(np.square(term) for term in terms)))
    return np.asarray(sum(terms))


@cases
def test_the_profile_is_of_the_kind_of_the_noise_and_never_below_the_price(
    mechanism_name: str, noise_name: str
) -> None:
    mechanism = built(mechanism_name, noise_name, 5.0)
    kinds = (CustomShiftProfile, CustomProfile) if mechanism_name == "vector sum" else (GaussianProfile, LinearProfile)
    assert type(mechanism.profile) is kinds[noise_name != "gaussian"]
    assert mechanism.order == (None if mechanism_name == "count" else order_of(noise_name))
    norm = np.linspace(0.0, RADIUS, 101)
    for weight in (1.0, 1.7, 300.0):
        claimed, exact = mechanism.profile(weight, norm), weight * price(mechanism_name, noise_name, 5.0, norm)
        assert np.all(claimed >= exact)
        assert np.allclose(claimed, exact, rtol=1e-13, atol=0.0)


@cases
def test_the_certified_loss_is_that_of_the_costliest_record(mechanism_name: str, noise_name: str) -> None:
    rule = CoresetRule(sample_size=6.0, n_rows=60.0, mean_square_norm=4.0, radius=RADIUS)
    got = released(mechanism_name, noise_name, rule=rule, scale=20.0).certificate
    norm = np.linspace(0.0, RADIUS, 2001)
    probability = rule.probability(norm)
    loss = price(mechanism_name, noise_name, 20.0, norm) / probability
    if noise_name == "gaussian":
        sampled = epsilon_at_delta(DELTA, loss, probability)
    else:
        sampled = amplified_epsilon(loss, probability)
    assert np.max(sampled) <= got.epsilon * (1.0 + 1e-12)
    assert got.epsilon <= np.max(sampled) * (1.0 + 1e-4)
    assert got.delta == delta_of(noise_name)
    mechanism = built(mechanism_name, noise_name, 20.0)
    delta = DELTA if noise_name == "gaussian" else None
    assert got.epsilon == pytest.approx(worst_case(rule, mechanism.profile, radius=RADIUS, delta=delta).upper, rel=1e-5)


class CountedRule(CoresetRule):
    """Counts the norms it is asked about, and stops where no certificate should go."""

    continuous = True

    def evaluate(self, norm: Floats) -> Floats:
        asked = getattr(self, "_asked", 0) + norm.size
        assert asked < 500_000, "the certificate was refined beyond any use"
        object.__setattr__(self, "_asked", asked)
        return super().evaluate(norm)


@pytest.mark.parametrize("scale", [100.0, 1.0, 1e-2, 1e-4, 1e-6])
def test_a_large_loss_is_certified_with_as_little_effort_as_a_small_one(scale: float) -> None:
    """The gap is relative to the loss: nobody needs a loss of a million to seven digits after the point."""
    rule = CountedRule(sample_size=12.0, n_rows=60.0, mean_square_norm=4.0, radius=RADIUS)
    certified = worst_case(rule, built("joint", "l2", scale).profile, radius=RADIUS)
    assert certified.attained <= certified.upper <= certified.attained * (1.0 + 1e-5)


# -- refusals --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "mixed",
    [
        lambda: Joint(parts=(WeightedCount(noise=laplace_noise(1.0)), WeightedSum(noise=GaussianNoise(scale=1.0)))),
        lambda: Joint(parts=(WeightedCount(noise=GaussianNoise(scale=1.0)), WeightedCount(noise=laplace_noise(1.0)))),
        lambda: WeightedMean(count_noise=laplace_noise(1.0), sum_noise=GaussianNoise(scale=1.0)),
        lambda: WeightedMean(count_noise=GaussianNoise(scale=1.0), sum_noise=LpNoise(scale=1.0, p=2.0)),
    ],
    ids=["count and sum", "two counts", "mean", "mean the other way"],
)
@pytest.mark.parametrize("delta", [0.0, DELTA])
def test_pure_and_gaussian_noise_are_not_mixed(mixed: Callable[[], Mechanism], delta: float) -> None:
    kept = sample(some_rows(), ball=Ball(radius=RADIUS), rule=UniformRule(rate=0.5), random_state=5)
    with pytest.raises(MismatchError, match="Gaussian"):
        release(mixed(), kept, delta=delta)
    with pytest.raises(MismatchError, match="Gaussian"):
        _ = mixed().profile
    assert not kept.spent


@pytest.mark.parametrize("noise_name", NOISES)
@pytest.mark.parametrize("mechanism_name", [name for name in MECHANISMS if name != "count"])
@pytest.mark.parametrize("order", [1.0, 2.0, 3.0, math.inf])
def test_noise_made_for_one_norm_is_refused_on_a_ball_of_another(
    mechanism_name: str, noise_name: str, order: float
) -> None:
    kept = sample(some_rows(), ball=Ball(radius=RADIUS, order=order), rule=UniformRule(rate=0.5), random_state=5)
    mechanism = built(mechanism_name, noise_name, 1.0)
    if order == order_of(noise_name):
        assert release(mechanism, kept, delta=delta_of(noise_name)).certificate.epsilon > 0.0
        return
    with pytest.raises(MismatchError, match="norm"):
        release(mechanism, kept, delta=delta_of(noise_name))
    assert not kept.spent


def test_a_count_serves_a_ball_of_any_norm() -> None:
    for order in (1.0, 2.0, 3.0, math.inf):
        for noise_name in NOISES:
            kept = sample(some_rows(), ball=Ball(radius=RADIUS, order=order), rule=UniformRule(rate=1.0))
            got = release(built("count", noise_name, 0.1), kept, delta=delta_of(noise_name))
            assert got.value == pytest.approx(60.0, abs=10.0)


def test_parts_made_for_different_norms_do_not_join() -> None:
    with pytest.raises(MismatchError, match="different orders"):
        Joint(parts=(WeightedSum(noise=laplace_noise(1.0)), WeightedSum(noise=LpNoise(scale=1.0, p=2.0))))
    with pytest.raises(ArgumentError, match="parts"):
        Joint(parts=())
    # A count has no norm and joins either.
    Joint(parts=(WeightedCount(noise=laplace_noise(1.0)), WeightedSum(noise=LpNoise(scale=1.0, p=2.0))))
