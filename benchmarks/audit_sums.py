"""Known mistakes in second moments and in sums of vectors, each beside the right version.

NOT PRIVATE, on purpose. Nothing here is for use; it is here to be caught.
"""

from __future__ import annotations

import math
from dataclasses import fields
from functools import partial
from typing import Any

import numpy as np

import pais
from benchmarks.audit_cases import CLAIMED, Case, WeakGaussian, WeakLaplace
from pais._base.numerics import FloatArray
from pais.mechanisms import Mechanism
from pais.privacy.profiles import GaussianProfile, Profile

#: A large delta, at which few runs tell much.
SUM_DELTA = 0.1

_ALL_ROWS = pais.UniformRule(rate=1.0)
_RADIUS = 2.0
_BALL = pais.Ball(radius=_RADIUS)


def itself(values: FloatArray) -> FloatArray:
    return values


def square(norm: FloatArray) -> FloatArray:
    return np.square(norm)


def _calibrated(profile: Profile, *, delta: float = SUM_DELTA, rate: float = 1.0) -> float:
    """Noise that costs the claim on a uniform sample, for a profile at noise 1."""
    norms = pais.NormDistribution.from_histogram([0.0, _RADIUS], [100.0])
    return pais.calibrate("uniform", profile, norms, epsilon=CLAIMED, delta=delta, sample_size=rate * 100.0).noise


def _as(kind: type[Any], right: Mechanism) -> Any:
    """The same mechanism of another class."""
    return kind(**{each.name: getattr(right, each.name) for each in fields(right) if each.init})  # type: ignore[arg-type]  # all are dataclasses


# -- second moments ----------------------------------------------------------------------------------------


class WithoutSquare(pais.MomentSum):
    """The price is that of a sum: it grows with the norm, and the moment with its square."""

    @property
    def profile(self) -> GaussianProfile:
        return GaussianProfile(math.inf, self.noise.scale)


def weak_moment(rate: float, broken: bool) -> dict[str, Any]:
    at_one, rule = GaussianProfile(math.inf, math.inf, square_scale=1.0), pais.UniformRule(rate=rate)
    scale = _calibrated(at_one, rate=rate) * (1.0 + 1e-9)
    noise = (WeakGaussian if broken else pais.GaussianNoise)(scale=scale)
    mechanism = pais.MomentSum(noise=noise, largest=_largest(rule), n_rows=10.0)
    return {"target": mechanism, "rule": rule, "ball": _BALL, "delta": SUM_DELTA}


def moment_without_square(broken: bool) -> dict[str, Any]:
    """At half the scale, a sum of rows of norm 2 costs the claim, and their second moment twice as much."""
    at_one = GaussianProfile(math.inf, math.inf, square_scale=1.0)
    scale = _calibrated(at_one) * (1.0 + 1e-9) / (2.0 if broken else 1.0)
    right = pais.MomentSum(noise=pais.GaussianNoise(scale=scale), largest=_largest(_ALL_ROWS), n_rows=10.0)
    mechanism = _as(WithoutSquare, right) if broken else right
    return {"target": mechanism, "rule": _ALL_ROWS, "ball": _BALL, "delta": SUM_DELTA}


def _largest(rule: pais.Rule) -> float:
    return pais.Extent.of(rule, _RADIUS).square


# -- sums of vectors ---------------------------------------------------------------------------------------


class NotScaledBack(pais.VectorSum):
    """Vectors that are longer than their bound stay as long as they are."""

    def _bounded(self, vectors: FloatArray, bounds: FloatArray) -> FloatArray:
        return vectors


class PriceOfOneRound(pais.AdaptiveRounds):
    """Several rounds that state the price of one."""

    @property
    def profile(self) -> Profile:
        return self.step(()).profile


def weak_vectors(gaussian: bool, broken: bool) -> dict[str, Any]:
    return _vectors(1.0, "weak" if broken else "right", gaussian)


def long_vectors(broken: bool) -> dict[str, Any]:
    """Vectors of twice their bound: they are scaled back, or not."""
    arguments = _vectors(2.0, "right", True)
    return {**arguments, "target": _as(NotScaledBack, arguments["target"])} if broken else arguments


def _vectors(stretch: float, noise: str, gaussian: bool) -> dict[str, Any]:
    delta = SUM_DELTA if gaussian else 0.0
    laws = {"right": (pais.LpNoise, pais.GaussianNoise), "weak": (WeakLaplace, WeakGaussian)}
    law = partial(laws[noise][1]) if gaussian else partial(laws[noise][0], p=1.0)

    def vectors(rows: FloatArray) -> FloatArray:
        """A vector of length |x|^2 along the first of three axes."""
        squares = stretch * np.square(rows).sum(axis=1)
        return np.column_stack([squares, np.zeros_like(squares), np.zeros_like(squares)])

    at_one = pais.VectorSum(vectors=vectors, bound=square, noise=law(scale=1.0), n_features=2)
    scale = _calibrated(at_one.profile, delta=delta)
    mechanism = pais.VectorSum(vectors=vectors, bound=square, noise=law(scale=scale), n_features=2)
    return {"target": mechanism, "rule": _ALL_ROWS, "ball": _BALL, "delta": delta}


def uncharged_rounds(broken: bool) -> dict[str, Any]:
    """Three rounds on one sample."""
    kind = PriceOfOneRound if broken else pais.AdaptiveRounds

    def rounds(scale: float) -> pais.AdaptiveRounds:
        noise = pais.GaussianNoise(scale=scale)
        mechanism = pais.VectorSum(vectors=itself, bound=itself, noise=noise, n_features=2)
        return kind(step=lambda values: mechanism, n_rounds=3)

    return {
        "target": rounds(_calibrated(rounds(1.0).profile)),
        "rule": _ALL_ROWS,
        "ball": _BALL,
        "delta": SUM_DELTA,
        "statistic": {"sum of the rounds": lambda values: float(np.sum(values, axis=0)[0])},
    }


SUM_CASES = tuple(
    Case(name=name, arguments=arguments, runs=runs, right_runs=8_000, slow=True)
    for name, runs, arguments in (
        ("second moment with 0.7 of its noise", 8_000, partial(weak_moment, 1.0)),
        ("second moment of a sample with 0.7 of its noise", 32_000, partial(weak_moment, 0.7)),
        ("second moment priced without its fourth power", 4_000, moment_without_square),
        ("vector sum with 0.7 of its noise", 8_000, partial(weak_vectors, False)),
        ("vector sum with 0.7 of its noise, Gaussian", 8_000, partial(weak_vectors, True)),
        ("vectors longer than their bound", 4_000, long_vectors),
        ("rounds that state the price of one", 4_000, uncharged_rounds),
    )
)
