"""Every mechanism with every noise law, and releases of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from pais import (
    Ball,
    GaussianNoise,
    Joint,
    LpNoise,
    MeanValue,
    Release,
    Rule,
    VectorSum,
    WeightedCount,
    WeightedMean,
    WeightedSum,
    laplace_noise,
    release,
    sample,
)
from pais.mechanisms.base import Mechanism
from pais.mechanisms.noise import NoiseLaw

Floats = NDArray[np.float64]
DELTA = 1e-6
RADIUS = 4.0
QUIET = 1e-9
NOISES: dict[str, Callable[[float], NoiseLaw]] = {
    "laplace": laplace_noise,
    "l2": lambda scale: LpNoise(scale=scale, p=2.0),
    "l3": lambda scale: LpNoise(scale=scale, p=3.0),
    "linf": lambda scale: LpNoise(scale=scale, p=math.inf),
    "gaussian": lambda scale: GaussianNoise(scale=scale),
}


def itself(values: Floats) -> Floats:
    """The vector of a row is the row, and the bound of its length is its norm."""
    return values


MECHANISMS: dict[str, Callable[[Callable[[float], NoiseLaw], float], Mechanism]] = {
    "count": lambda noise, scale: WeightedCount(noise=noise(scale)),
    "sum": lambda noise, scale: WeightedSum(noise=noise(scale)),
    "mean": lambda noise, scale: WeightedMean(count_noise=noise(scale), sum_noise=noise(2.0 * scale)),
    "joint": lambda noise, scale: Joint(
        parts=(WeightedCount(noise=noise(scale)), WeightedSum(noise=noise(3.0 * scale)))
    ),
    "vector sum": lambda noise, scale: VectorSum(
        vectors=itself, bound=itself, noise=noise(scale), n_features=3, order=noise(scale).order
    ),
    "joint of a mean and a count": lambda noise, scale: Joint(
        parts=(
            WeightedMean(count_noise=noise(scale), sum_noise=noise(2.0 * scale)),
            WeightedCount(noise=noise(4.0 * scale)),
        )
    ),
}
CASES = [(mechanism, noise) for mechanism in MECHANISMS for noise in NOISES]
cases = pytest.mark.parametrize(("mechanism_name", "noise_name"), CASES, ids=[f"{m}-{n}" for m, n in CASES])


def built(mechanism_name: str, noise_name: str, scale: float = QUIET) -> Mechanism:
    return MECHANISMS[mechanism_name](NOISES[noise_name], scale)


def order_of(noise_name: str) -> float:
    return NOISES[noise_name](1.0).order


def delta_of(noise_name: str) -> float:
    return DELTA if noise_name == "gaussian" else 0.0


def some_rows(n: int = 60, d: int = 3, seed: int = 0) -> Floats:
    """Rows inside the ball in every norm used here; whole multiples of 2**-12, so that shifts are exact."""
    rows = np.random.default_rng(seed).uniform(-1.0, 1.0, (n, d))
    return np.round(rows * 4096.0) / 4096.0


def numbers(value: object) -> Iterator[float]:
    """All numbers of a released value, in order."""
    if isinstance(value, MeanValue):
        yield from value.noisy_mean
        yield value.noisy_count
        yield from value.noisy_sum
    elif isinstance(value, tuple):
        for part in value:
            yield from numbers(part)
    else:
        yield from np.atleast_1d(np.asarray(value))


def flat(value: object) -> Floats:
    return np.array(list(numbers(value)))


def released(
    mechanism_name: str,
    noise_name: str,
    *,
    rule: Rule,
    scale: float,
    center: tuple[float, ...] | None = None,
    seed: int | None = None,
) -> Release:
    ball = Ball(radius=RADIUS, order=order_of(noise_name), center=center)
    kept = sample(some_rows(), ball=ball, rule=rule, random_state=seed)
    mechanism = built(mechanism_name, noise_name, scale)
    return release(mechanism, kept, delta=delta_of(noise_name), random_state=seed)
