"""Gaussian shift of a record under repeated releases of counts and sums with Gaussian noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

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
from pais.privacy.profiles.base import Assumptions, Finding, Profile, Verdict


@stored("profile", "gaussian", null_is_infinite=("count_scale", "sum_scale"))
@dataclass(frozen=True)
class GaussianProfile(Profile):
    """mu = weight * sqrt(n_iterations * (1/count_scale**2 + norm**2/sum_scale**2)).

    Parameters
    ----------
    count_scale, sum_scale : float
        Standard deviations of the noise on counts and on sums (l2); math.inf means not released.
    n_iterations : int
        Number of adaptive rounds on the same sample. They compose exactly to one Gaussian shift (GAUSS-SAMPLED).
    """

    count_scale: float
    sum_scale: float
    n_iterations: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "count_scale", validate.positive_or_infinite("count_scale", self.count_scale))
        object.__setattr__(self, "sum_scale", validate.positive_or_infinite("sum_scale", self.sum_scale))
        object.__setattr__(self, "n_iterations", validate.count("n_iterations", self.n_iterations))
        if math.isinf(self.count_scale) and math.isinf(self.sum_scale):
            raise ArgumentError("count_scale and sum_scale are both infinite, so nothing is released. Make one finite.")

    def loss(self, weight: FloatArray, norm: FloatArray) -> FloatArray:
        """The Gaussian shift mu, rounded up."""
        count, total = divide_up(1.0, self.count_scale), divide_up(norm, self.sum_scale)
        # NumPy's hypot is accurate to 2 ulps. If only one part is nonzero, there is no rounding.
        alone = (count == 0.0) | (total == 0.0)
        shift = np.where(alone, np.maximum(count, total), round_up(np.hypot(count, total), 2.0))
        return multiply_up(weight, multiply_up(_root_up(self.n_iterations), shift))  # [note: profile-1]

    def with_noise(self, noise: float) -> GaussianProfile:
        noise = validate.positive("noise", noise)
        # Round the scales down, toward more loss. A finite scale stays finite, since infinity means "not released".
        count_scale, sum_scale = (float(multiply_down(scale, noise)) for scale in (self.count_scale, self.sum_scale))
        return GaussianProfile(count_scale, sum_scale, self.n_iterations)  # [note: profile-7]

    def __add__(self, other: GaussianProfile) -> GaussianProfile:
        """Profile of two mechanisms that run on the same sample: their squared shifts add."""
        if not isinstance(other, GaussianProfile):
            return NotImplemented
        return GaussianProfile(
            _joint_scale(self.n_iterations, self.count_scale, other.n_iterations, other.count_scale),
            _joint_scale(self.n_iterations, self.sum_scale, other.n_iterations, other.sum_scale),
        )

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


def _joint_scale(rounds: int, scale: float, other_rounds: int, other_scale: float) -> float:
    """Noise scale of one release as precise as two sets of rounds; quotients avoid over- and underflow of squares."""
    alone = [float(divide_down(scale, _root_up(rounds))), float(divide_down(other_scale, _root_up(other_rounds)))]
    smaller, larger = min(alone), max(alone)
    # Round toward more loss, so that a sum of many profiles is still an upper bound.
    # [note: profile-8]
    return smaller if math.isinf(larger) else smaller / math.hypot(1.0, smaller / larger) * (1.0 - 4 * ULP)


def _root_up(count: int) -> float:
    """Square root of an integer, rounded up; exact for squares."""
    root = math.sqrt(count)
    return math.nextafter(root, math.inf) if Fraction(root) ** 2 < count else root
