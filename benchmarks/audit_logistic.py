"""Known mistakes in the rounds of a logistic regression, each beside the right version.

NOT PRIVATE, on purpose. Nothing here is for use; it is here to be caught.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import pais
from benchmarks.audit_cases import CLAIMED, Case, WeakGaussian
from benchmarks.audit_sums import SUM_DELTA
from pais._base.randomness import BitSource
from pais.data.ball import Ball
from pais.data.engines import WeightedRows
from pais.mechanisms.logistic import LogisticRounds
from pais.mechanisms.logistic_sample import LogisticSample
from pais.privacy.amplification import largest_shift
from pais.privacy.profiles import GaussianProfile

_ALL_ROWS = pais.UniformRule(rate=1.0)
_RADIUS = 2.0

# Noise that hardly costs anything, in units of the noise that is audited.
_QUIET = 1e4


@dataclass(frozen=True, kw_only=True)
class LogisticReleases(LogisticRounds):
    """The second moment and a gradient of the rows, as they are released inside a fit.

    A public map, which makes rows longer than they were, and coefficients that are sure of the wrong class give a
    record the largest gradient that its norm allows.
    """

    def measure(self, content: WeightedRows, ball: Ball, bits: BitSource) -> Any:
        sample = LogisticSample(self, content)
        # The rows have one feature; the constant coordinate is left out.
        sample.apply(np.diag([10.0, 0.0]))
        point = np.zeros((2, self.n_logits))
        # With two classes, the logit is that of the second class.
        point[0, 0] = -1e3 if self.n_classes == 2 else 1e3
        moment = sample.moment(self.moment_noise, bits)
        gradient = sample.gradient(point, self.rounds[0], bits)
        return np.concatenate([moment[:1, 0], gradient[0]])


class WithoutRoot(LogisticReleases):
    """The price takes the residuals of several classes to be no longer than 1."""

    def _price_scale(self, noise: pais.GaussianNoise) -> float:
        return noise.scale


class WithoutMoment(LogisticReleases):
    """The price leaves out the fourth power of the norm."""

    @property
    def profile(self) -> GaussianProfile:
        return GaussianProfile(math.inf, self._price_scale(self.rounds[0]))


def weak_gradient(n_classes: int, broken: bool) -> dict[str, Any]:
    law = WeakGaussian if broken else pais.GaussianNoise
    return _arguments(LogisticReleases, n_classes, law, gradient=_scale(n_classes), moment=_QUIET)


def without_root(broken: bool) -> dict[str, Any]:
    kind, scale = (WithoutRoot, _scale(2)) if broken else (LogisticReleases, _scale(3))
    return _arguments(kind, 3, pais.GaussianNoise, gradient=scale, moment=_QUIET)


def without_moment(broken: bool) -> dict[str, Any]:
    """Gradient and moment with equal shifts: without the moment, the price is that of the gradient."""
    share = 1.0 if broken else math.sqrt(2.0)
    kind = WithoutMoment if broken else LogisticReleases
    return _arguments(kind, 2, pais.GaussianNoise, gradient=share * _scale(2), moment=share * _scale(2) * _RADIUS)


def _scale(n_classes: int) -> float:
    """Noise of a gradient at which a record at the radius pays the claim."""
    longest = _RADIUS * (1.0 if n_classes == 2 else math.sqrt(2.0))
    return longest / largest_shift(CLAIMED, SUM_DELTA) * (1.0 + 1e-6)


def _arguments(
    kind: type[LogisticReleases], n_classes: int, law: type[pais.GaussianNoise], *, gradient: float, moment: float
) -> dict[str, Any]:
    mechanism = kind(
        n_features=1 + n_classes,
        n_classes=n_classes,
        mean_noise=pais.GaussianNoise(scale=_QUIET),
        moment_noise=law(scale=moment),
        curvature_noise=pais.GaussianNoise(scale=_QUIET),
        rounds=(law(scale=gradient),),
        radius=_RADIUS,
        n_rows=10.0,
        mean_square_norm=1.0,
        largest=_RADIUS,
        label_length=1.0,
    )
    labels = np.eye(n_classes)[-1]
    feature = math.sqrt(_RADIUS**2 - 1.0) * (1.0 - 1e-9)
    # The record is in the last class, and the coefficients expect the first.
    pair = pais.NeighbourPair.of([feature, *labels], [[-feature, *labels]], name="record at the radius")

    def evidence(value: Any) -> float:
        """Log likelihood ratio, up to a constant, of the moment and of the gradient along the record."""
        along = value[1] if n_classes == 2 else (value[1] - value[-1]) / math.sqrt(2.0)
        longest = _RADIUS * (-1.0 if n_classes == 2 else math.sqrt(2.0))
        return float(along * longest / gradient**2 + value[0] * _RADIUS**2 / moment**2)

    return {
        "target": mechanism,
        "rule": _ALL_ROWS,
        "ball": pais.Ball(radius=_RADIUS),
        "pair": pair,
        "delta": SUM_DELTA,
        "statistic": {"evidence for the record": evidence},
    }


LOGISTIC_CASES = tuple(
    Case(name=name, arguments=arguments, runs=runs, right_runs=8_000, slow=True)
    for name, runs, arguments in (
        ("logistic gradient with 0.7 of its noise", 8_000, partial(weak_gradient, 2)),
        ("logistic gradient of three classes with 0.7 of its noise", 8_000, partial(weak_gradient, 3)),
        ("logistic gradient of three classes priced as one of two", 8_000, without_root),
        ("logistic regression priced without its second moment", 8_000, without_moment),
    )
)
