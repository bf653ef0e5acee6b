"""Privacy losses that grow as a power of the weight. The linear profile is the main case in this package."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pais._base import validate
from pais._base.files import stored
from pais._base.numerics import FloatArray, divide_up, multiply_add_up, multiply_up, round_up
from pais.errors import ArgumentError
from pais.privacy.profiles.base import Assumptions, Finding, PureProfile


@stored("profile", "power")
@dataclass(frozen=True)
class PowerProfile(PureProfile):
    """epsilon = weight**power * (intercept + slope * norm).

    Parameters
    ----------
    intercept : float
        Loss of a record of norm 0 at weight 1; >= 0.
    slope : float
        Loss per unit of norm at weight 1; >= 0.
    power : float
        >= 0. At 1, a record of weight w has the loss of w records. At 0, the mechanism ignores weights.
    """

    intercept: float
    slope: float
    power: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "intercept", validate.non_negative("intercept", self.intercept))
        object.__setattr__(self, "slope", validate.non_negative("slope", self.slope))
        object.__setattr__(self, "power", validate.non_negative("power", self.power))
        if self.intercept == 0.0 and self.slope == 0.0:
            raise ArgumentError("intercept and slope are both 0, so no record has a loss. Make one positive.")

    def at_weight_one(self, norm: FloatArray) -> FloatArray:
        """Loss at weight 1, as the smallest double that is not below the exact loss.

        A double epsilon is therefore below the returned number only if it is below the exact loss.
        """
        return multiply_add_up(self.intercept, self.slope, norm)  # [note: profile-3]

    def loss(self, weight: FloatArray, norm: FloatArray) -> FloatArray:
        at_one = self.at_weight_one(norm)
        scaled = multiply_up(self._factor(weight), at_one)
        # A record with loss 0 at weight 1 has loss 0 at every weight, also where the power overflows to infinity.
        return np.where(at_one > 0.0, scaled, 0.0)

    def _factor(self, weight: FloatArray) -> FloatArray:
        """weight**power, rounded up; exact at weight 1, and for the powers 0 and 1."""
        if self.power == 0.0:
            return np.ones_like(weight)
        if self.power == 1.0:
            return weight
        with np.errstate(over="ignore"):
            # NumPy's power function is accurate to 4 ulps.
            return np.where(weight == 1.0, 1.0, round_up(weight**self.power, 4.0))  # [note: profile-4]

    def derivative_at_one(self, norm: FloatArray) -> FloatArray:
        return self.power * self.at_weight_one(norm)

    def log_convexity(self, norm: FloatArray) -> FloatArray:
        """Logarithm of the smallest second derivative of exp(c w**p) over w >= 1; -inf where it is not positive.

        With t = c w**p the second derivative is p c**(2/p) t**(1-2/p) e**t (p t + p - 1). For p >= 1
        the bound (p c)**2 e**c holds (erratum 2: the paper omits the square). For p < 1 the only
        interior minimum in t is at the larger root of a quadratic, which is real only for p <= 1/5.
        """
        p, c = self.power, self.at_weight_one(norm)
        with np.errstate(divide="ignore", invalid="ignore"):
            if p >= 1.0:
                return 2.0 * np.log(p * c) + c
            if p == 0.0:
                return np.full_like(c, -np.inf)
            inner = (1.0 - p) * (1.0 - 5.0 * p)
            root = (3.0 * (1.0 - p) + math.sqrt(inner)) / (2.0 * p) if inner >= 0.0 else 0.0
            smallest = np.full_like(c, np.inf)
            for t in (c, np.maximum(c, root)):
                value = math.log(p) + 2 / p * np.log(c) + (1 - 2 / p) * np.log(t) + t + np.log(p * t + p - 1)
                smallest = np.minimum(smallest, np.where(p * t + p - 1 > 0.0, value, -np.inf))
        return smallest

    def with_noise(self, noise: float) -> PowerProfile:
        noise = validate.positive("noise", noise)
        return PowerProfile(*self._divided(noise), self.power)

    def _divided(self, noise: float) -> tuple[float, float]:
        """Intercept and slope divided by the noise, rounded up."""
        return float(divide_up(self.intercept, noise)), float(divide_up(self.slope, noise))  # [note: profile-5]

    def check(self, *, radius: float, epsilon: float, delta: float = 0.0) -> Assumptions:
        """Decide every statement exactly. In this family the losses at norm 0 and at the radius suffice for this.

        A pure loss needs no delta, so `delta` does not change the result.
        """
        radius, epsilon = validate.radius(radius), validate.target_epsilon(epsilon)
        validate.target_delta(delta)
        smallest, largest, p = self.intercept, float(self.at_weight_one(np.array(radius))), self.power
        grows = p > 0.0 and smallest > 0.0
        convex = grows and p * smallest > 1.0 - p
        # If p c < 1 - e^-c holds for any loss c, it holds for the smallest. As c tends to 0 it becomes p < 1.
        lowers = p * smallest < -math.expm1(-smallest) if smallest > 0.0 else p < 1.0
        return Assumptions(
            monotone=Finding.decided(
                "the loss never decreases in weight or norm", True, "intercept, slope and power are >= 0"
            ),
            feasible=Finding.decided(
                "weight 1 meets epsilon on the ball", largest <= epsilon, f"largest loss {largest:.6g}, at the radius"
            ),
            unbounded=Finding.decided(
                "the loss exceeds every budget at some weight",
                grows,
                f"power {p:.6g}, loss at norm 0 is {smallest:.6g}",
            ),
            strongly_convex=Finding.decided(
                "exp(loss) is strongly convex in the weight",
                convex,
                f"decided at norm 0, where the loss is {smallest:.6g}",
            ),
            sampling_can_lower=Finding.decided(
                "sampling lowers some loss near probability 1",
                lowers,
                "compares the derivative with 1 - exp(-loss) at the smallest loss",
            ),
            sampling_never_lowers=Finding.decided(
                "sampling never lowers a loss",
                not lowers,
                "the loss after sampling changes direction at most once as the weight grows",
            ),
        )


@stored("profile", "linear", implied=("power",))
class LinearProfile(PowerProfile):
    """epsilon = weight * (intercept + slope * norm): a record of weight w has the loss of w records.

    This is the profile of every mechanism that treats a record of weight w as w copies of the record. The paper's
    DP-Lloyd has this profile with intercept T/beta_count and slope T/beta_sum (LLOYD-PROFILE).

    Examples
    --------
    >>> from pais import LinearProfile
    >>> float(LinearProfile(intercept=0.25, slope=0.5)(2.0, 1.0))
    1.5
    """

    def __init__(self, intercept: float, slope: float) -> None:
        super().__init__(intercept, slope, 1.0)

    def loss(self, weight: FloatArray, norm: FloatArray) -> FloatArray:
        return multiply_up(weight, self.at_weight_one(norm))  # [note: profile-2]

    def with_noise(self, noise: float) -> LinearProfile:
        noise = validate.positive("noise", noise)
        return LinearProfile(*self._divided(noise))

    def __add__(self, other: LinearProfile) -> LinearProfile:
        """Profile of two mechanisms that run on the same sample: their losses add."""
        if not isinstance(other, LinearProfile):
            return NotImplemented
        return LinearProfile(_sum_up(self.intercept, other.intercept), _sum_up(self.slope, other.slope))

    def __repr__(self) -> str:
        return f"LinearProfile(intercept={self.intercept!r}, slope={self.slope!r})"


def _sum_up(first: float, second: float) -> float:
    """The smallest double that is not below the sum."""
    return float(multiply_add_up(first, second, 1.0))  # [note: profile-6]
