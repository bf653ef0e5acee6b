"""Gaussian shift of a record under repeated releases of counts, sums and second moments with Gaussian noise."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeVar, cast

import numpy as np

from pais._base import validate
from pais._base.files import stored
from pais._base.numerics import (
    ULP,
    FloatArray,
    divide_down,
    divide_up,
    log_gaussian_delta_rises,
    multiply_down,
    multiply_up,
    round_up,
)
from pais.errors import ArgumentError
from pais.privacy.amplification import log_amplified_delta
from pais.privacy.profiles.base import Assumptions, Finding, ShiftProfile, Verdict
from pais.privacy.profiles.power import LinearProfile

P = TypeVar("P", bound="LinearProfile | GaussianProfile")


@stored("profile", "gaussian")
@dataclass(frozen=True)
class GaussianProfile(ShiftProfile):
    """mu = weight * sqrt(n_iterations * (1/count_scale**2 + norm**2/sum_scale**2 + norm**4/square_scale**2)).

    Parameters
    ----------
    count_scale, sum_scale : float
        Standard deviations of the noise on counts and on sums (l2); math.inf means not released.
    n_iterations : int
        Number of adaptive rounds on the same sample. They compose exactly to one Gaussian shift (GAUSS-SAMPLED).
    square_scale : float
        Standard deviation of the noise on second moments (Frobenius norm); math.inf means not released.

    Notes
    -----
    The three terms are one class, and not a subclass for each: a sum of profiles and a change of the noise must never
    lose a term, because a loss without it would be too small.
    """

    count_scale: float
    sum_scale: float
    n_iterations: int = 1
    square_scale: float = math.inf

    def __post_init__(self) -> None:
        for name in ("count_scale", "sum_scale", "square_scale"):
            object.__setattr__(self, name, validate.positive_or_infinite(name, getattr(self, name)))
        object.__setattr__(self, "n_iterations", validate.count("n_iterations", self.n_iterations))
        if self._scales == (math.inf, math.inf, math.inf):
            raise ArgumentError(
                "count_scale, sum_scale and square_scale are all infinite, so nothing is released. Make one finite."
            )

    @property
    def _scales(self) -> tuple[float, float, float]:
        return self.count_scale, self.sum_scale, self.square_scale

    def shift(self, norm: FloatArray) -> FloatArray:
        count, total = divide_up(1.0, self.count_scale), divide_up(norm, self.sum_scale)
        terms = _hypot_up(count, total)
        if math.isfinite(self.square_scale):
            # Divide before multiplying, so that the square of a large norm does not overflow.
            terms = _hypot_up(terms, multiply_up(norm, divide_up(norm, self.square_scale)))  # [note: profile-10]
        return terms if self.n_iterations == 1 else multiply_up(_root_up(self.n_iterations), terms)  # [note: profile-1]

    def with_noise(self, noise: float) -> GaussianProfile:
        noise = validate.positive("noise", noise)
        # Round the scales down, toward more loss. A finite scale stays finite, since infinity means "not released".
        count, total, square = (float(multiply_down(scale, noise)) for scale in self._scales)
        return GaussianProfile(count, total, self.n_iterations, square)  # [note: profile-7]

    def __add__(self, other: GaussianProfile) -> GaussianProfile:
        """Profile of two mechanisms that run on the same sample: their squared shifts add."""
        if not isinstance(other, GaussianProfile):
            return NotImplemented
        return _total((self, other))

    def to_dict(self) -> dict[str, Any]:
        described = super().to_dict()
        if math.isinf(self.square_scale):
            # Only second moments release squares. Other profiles are described without this scale.
            described.pop("square_scale", None)
        return described

    def check(self, *, radius: float, epsilon: float, delta: float = 0.0) -> Assumptions:
        """Decide the (epsilon, delta) counterparts of the paper's assumptions, in closed form at the radius."""
        radius, epsilon = validate.radius(radius), validate.target_epsilon(epsilon)
        delta = validate.target_delta(delta)
        mu = self.loss(np.ones(1), np.array([radius]))
        log_at_one = float(log_amplified_delta(np.array([epsilon]), mu, np.ones(1))[0])
        feasible = delta > 0.0 and log_at_one <= math.log(delta)
        rises = bool(log_gaussian_delta_rises(np.array([epsilon]), mu)[0])
        counted = math.isfinite(self.count_scale)
        return Assumptions(
            monotone=Finding.decided("the shift never decreases in weight or norm", True, "it is linear in the weight"),
            feasible=Finding.decided(
                "weight 1 meets (epsilon, delta) on the ball",
                feasible,
                f"delta is about {math.exp(max(log_at_one, -700.0)):.3g} at the radius, and never 0",
            ),
            unbounded=Finding.decided(
                "the shift exceeds every budget at some weight",
                counted,
                "the count has noise" if counted else "no count is released, so a record of norm 0 has no loss",
            ),
            strongly_convex=Finding(
                statement="exp(loss) is strongly convex in the weight",
                verdict=Verdict.NOT_APPLICABLE,
                reason="Gaussian noise has no pure loss; the rule relies on a single maximum of delta in the weight",
            ),
            sampling_can_lower=Finding.decided(
                "sampling lowers some delta near probability 1",
                not rises,
                "sign of the slope of delta in the weight, at the radius",
            ),
            sampling_never_lowers=Finding.decided(
                "sampling never lowers a delta",
                False,
                "delta is at most the probability; the limit on kept records excludes such small probabilities",
            ),
        )


def _hypot_up(first: FloatArray, second: FloatArray) -> FloatArray:
    """Root of the sum of two squares, rounded up."""
    # NumPy's hypot is accurate to 2 ulps. If only one part is nonzero, there is no rounding.
    alone = (first == 0.0) | (second == 0.0)
    return np.where(alone, np.maximum(first, second), round_up(np.hypot(first, second), 2.0))


def add_profiles(profiles: Sequence[P]) -> P:
    """Profile of several computations on one sample. All profiles must be of one kind."""
    # Exact types: a subclass may define another sum.
    if all(type(profile) is GaussianProfile for profile in profiles):
        return cast(P, _total(cast(Sequence[GaussianProfile], profiles)))
    return functools.reduce(operator.add, profiles)


def _total(profiles: Sequence[GaussianProfile]) -> GaussianProfile:
    rounds = [profile.n_iterations for profile in profiles]
    scales = zip(*(profile._scales for profile in profiles), strict=True)
    count, total, square = (_joint_scale(rounds, parts) for parts in scales)
    return GaussianProfile(count, total, square_scale=square)


def _joint_scale(rounds: Sequence[int], scales: Sequence[float]) -> float:
    """Noise scale of one release as precise as many sets of rounds, rounded down, toward more loss."""
    released = [(n, scale) for n, scale in zip(rounds, scales, strict=True) if scale < math.inf]
    if not released:
        return math.inf
    n, least = min(released, key=operator.itemgetter(1))
    if len(released) == 1:
        return least if n == 1 else float(divide_down(least, _root_up(n)))
    # Quotients, so that squares do not overflow. A square that underflows is negligible next to 1.
    precision = math.fsum(n * (least / scale) * (least / scale) for n, scale in released)
    return math.nextafter(least / math.sqrt(precision) * (1.0 - 4 * ULP), 0.0)  # [note: profile-8]


def _root_up(count: int) -> float:
    """Square root of an integer, rounded up; exact for squares."""
    root = math.sqrt(count)
    return math.nextafter(root, math.inf) if Fraction(root) ** 2 < count else root
