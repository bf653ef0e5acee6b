"""Numbers of other types than float give the same price as the float: a price never wraps around or loses digits."""

from __future__ import annotations

import numpy as np
import pytest

import pais
from pais.kmeans.mechanism import KMeans
from pais.kmeans.rounds import ResidualRound, SecondMoment
from pais.mechanisms.noise import GaussianNoise

# Their squares wrap around, vanish or lose digits.
NUMBERS = [np.uint8(20), np.int32(65_537), np.float32(3e-22), np.float16(1.1)]
SHARES = [np.float16(0.1), np.int8(1)]


def losses(profile: pais.Profile, radius: float) -> list[float]:
    norms = np.array([0.0, 0.5, 1.0]) * radius
    return profile.loss(np.full(3, 2.0), norms).tolist()


def residual_round(radius: object, flat: object) -> ResidualRound:
    noise = GaussianNoise(scale=5.0)
    return ResidualRound(count_noise=noise, distance_noise=noise, residual_noise=noise, radius=radius, flat_share=flat)  # type: ignore[arg-type]


@pytest.mark.parametrize("radius", NUMBERS, ids=lambda value: f"{type(value).__name__}-{value}")
@pytest.mark.parametrize("flat", SHARES, ids=lambda value: f"{type(value).__name__}-{value}")
def test_rounds_and_moments_of_other_number_types_cost_as_much_as_those_of_floats(radius: object, flat: object) -> None:
    real_radius, real_flat = float(radius), float(flat)  # type: ignore[arg-type]
    moments = [
        SecondMoment(noise=GaussianNoise(scale=10.0 * real_radius**2), radius=r, flat_share=f)  # type: ignore[arg-type]
        for r, f in ((radius, flat), (real_radius, real_flat))
    ]
    rounds = [residual_round(radius, flat), residual_round(real_radius, real_flat)]
    for given, real in (moments, rounds):
        assert type(given.radius) is float
        assert type(given.flat_share) is float
        assert losses(given.profile, real_radius) == losses(real.profile, real_radius)
    mechanism = KMeans(
        n_clusters=2,
        n_features=2,
        rounds=(rounds[0],) * 2,
        radius=radius,
        cells=2,
        explore=1,
        moment=moments[0],  # type: ignore[arg-type]
    )
    assert type(mechanism.radius) is float


def test_rounds_for_another_radius_than_that_of_the_ball_are_not_run() -> None:
    rounds = (residual_round(1.0, 1.0),) * 2
    moment = SecondMoment(noise=GaussianNoise(scale=9.0), radius=1.0, flat_share=1.0)
    mechanism = KMeans(n_clusters=2, n_features=2, rounds=rounds, radius=1.0, cells=2, explore=1, moment=moment)
    plan = pais.Plan(
        ball=pais.Ball(radius=1.0), rule=pais.UniformRule(rate=1.0), mechanism=mechanism, epsilon=5.0, delta=1e-6
    )
    object.__setattr__(mechanism, "rounds", (residual_round(1e-3, 1.0),) * 2)
    with pytest.raises(pais.MismatchError):
        pais.run(plan, np.zeros((5, 2)), random_state=0)
