"""Profiles: the privacy loss of a record by its weight and its norm.

A `PureProfile` states an epsilon, a `ShiftProfile` a Gaussian shift. There are families with exact losses
(`LinearProfile`, `PowerProfile`, `GaussianProfile`), profiles of a user's function, and the profiles of several
mechanisms on one sample. `check` reports which assumptions of the paper a profile satisfies.
"""

from __future__ import annotations

import functools
import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction
from typing import Any, ClassVar, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike

from pais._base import files, validate
from pais._base.files import stored
from pais._base.numerics import (
    ULP,
    FloatArray,
    divide_down,
    divide_up,
    log_expm1,
    log_gaussian_delta_rises,
    multiply_add_up,
    multiply_down,
    multiply_up,
    round_up,
)
from pais.errors import ArgumentError, AssumptionError
from pais.privacy.amplification import log_amplified_delta


class Verdict(Enum):
    """What is known about a statement. A finite number of evaluations can refute a statement, but never prove it."""

    PROVED = "proved"
    REFUTED = "refuted"
    NOT_REFUTED = "not refuted by the points tried"
    NOT_APPLICABLE = "not applicable"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One statement about a profile on a ball, and what is known about it.

    A `Finding` has no truth value, because ``if finding`` would hide the difference between proved and not refuted.
    """

    statement: str
    verdict: Verdict
    reason: str

    @classmethod
    def decided(cls, statement: str, true: bool, reason: str) -> Finding:
        return cls(statement=statement, verdict=Verdict.PROVED if true else Verdict.REFUTED, reason=reason)

    def __bool__(self) -> bool:
        raise TypeError("a Finding is neither true nor false. Compare its verdict.")

    def __str__(self) -> str:
        return f"{self.statement}: {self.verdict.value} ({self.reason})"


@dataclass(frozen=True, kw_only=True)
class Assumptions:
    """Findings on the assumptions of the paper and of its Appendix A, for one profile, one ball and one target.

    Attributes
    ----------
    monotone : Finding
        The loss never decreases when the weight or the norm grows.
    feasible : Finding
        Weight 1 meets the target everywhere on the ball.
    unbounded : Finding
        The loss exceeds every budget as the weight grows, so each weight is bounded.
    strongly_convex : Finding
        exp(loss) is strongly convex in the weight, with the constant that Algorithm 1 needs.
    sampling_can_lower : Finding
        The loss of some record decreases when its probability drops slightly below 1.
    sampling_never_lowers : Finding
        The loss of no record decreases at any probability.
    """

    monotone: Finding
    feasible: Finding
    unbounded: Finding
    strongly_convex: Finding
    sampling_can_lower: Finding
    sampling_never_lowers: Finding

    def __str__(self) -> str:
        return "\n".join(str(getattr(self, name)) for name in self.__dataclass_fields__)


class Profile(ABC):
    """Privacy loss of a record of a given norm at a given weight.

    Notes
    -----
    Assumes. The loss never decreases when the norm grows or when the weight grows. The profile families of this
    package satisfy this by construction. A `CustomProfile` requires it of the user's function, and `check` searches for
    a counterexample.

    Guarantee. In the families of this package a loss is rounded up, so it is never below the exact value for its
    weight, norm and parameters. `with_noise` and sums of profiles also round toward a larger loss:
    `tests/theory/test_exact_losses.py`.
    """

    @abstractmethod
    def loss(self, weight: FloatArray, norm: FloatArray) -> FloatArray:
        """The loss for validated arrays of one shape, rounded up."""

    @abstractmethod
    def with_noise(self, noise: float) -> Profile:
        """Return the profile with every noise scale multiplied by `noise`."""

    @abstractmethod
    def check(self, *, radius: float, epsilon: float, delta: float = 0.0) -> Assumptions:
        """Report what is known about the paper's assumptions on the ball of this radius, for this target."""

    def to_dict(self) -> dict[str, Any]:
        """Public description of the profile, for certificates and files."""
        return files.to_dict(self, "profile")

    @staticmethod
    def from_dict(described: Mapping[str, Any]) -> Profile:
        """Rebuild a profile of this package from its description."""
        return cast(Profile, files.from_dict(described, "profile"))

    def __call__(self, weight: ArrayLike, norm: ArrayLike) -> FloatArray:
        """Return the loss at each weight and norm (broadcast)."""
        weights, norms = validate.broadcast(validate.weights(weight), validate.norms(norm))
        return self.loss(weights, norms)


class PureProfile(Profile):
    """A profile whose loss is the epsilon of a pure guarantee."""

    def derivative_at_one(self, norm: FloatArray) -> FloatArray | None:
        """Derivative of the loss with respect to the weight at weight 1, or None if it is not known."""
        return None

    def log_convexity(self, norm: FloatArray) -> FloatArray | None:
        """Logarithm of a strong-convexity constant of exp(loss) in the weight, or None if none is known."""
        return None


class ShiftProfile(Profile):
    """A profile whose loss is the Gaussian shift mu of an (epsilon, delta) guarantee, linear in the weight.

    A subclass defines `shift`, the shift of a record of weight 1.
    """

    # Findings of `check` that are the same for every shift.
    _NO_PURE_LOSS: ClassVar[Finding] = Finding(
        statement="exp(loss) is strongly convex in the weight",
        verdict=Verdict.NOT_APPLICABLE,
        reason="Gaussian noise has no pure loss; the rule relies on a single maximum of delta in the weight",
    )
    _NEVER_LOWERS: ClassVar[Finding] = Finding.decided(
        "sampling never lowers a delta",
        False,
        "delta is at most the probability; the limit on kept records excludes such small probabilities",
    )

    @abstractmethod
    def shift(self, norm: FloatArray) -> FloatArray:
        """The Gaussian shift at weight 1, rounded up; it never decreases when the norm grows."""

    def loss(self, weight: FloatArray, norm: FloatArray) -> FloatArray:
        """The Gaussian shift mu, rounded up."""
        return multiply_up(weight, self.shift(norm))


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
        if math.isinf(min(self.count_scale, self.sum_scale, self.square_scale)):
            raise ArgumentError(
                "count_scale, sum_scale and square_scale are all infinite, so nothing is released. Make one finite."
            )

    def shift(self, norm: FloatArray) -> FloatArray:
        terms = np.full(np.shape(norm), divide_up(1.0, self.count_scale))
        if math.isfinite(self.sum_scale):
            terms = _hypot_up(terms, divide_up(norm, self.sum_scale))
        if math.isfinite(self.square_scale):
            # Divide before multiplying, so that the square of a large norm does not overflow.
            terms = _hypot_up(terms, multiply_up(norm, divide_up(norm, self.square_scale)))  # [note: profile-10]
        return terms if self.n_iterations == 1 else multiply_up(_root_up(self.n_iterations), terms)  # [note: profile-1]

    def with_noise(self, noise: float) -> GaussianProfile:
        noise = validate.positive("noise", noise)
        # Round the scales down, toward more loss. A finite scale stays finite, since infinity means "not released".
        scales = (self.count_scale, self.sum_scale, self.square_scale)
        count, total, square = (float(multiply_down(scale, noise)) for scale in scales)
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
            strongly_convex=self._NO_PURE_LOSS,
            sampling_can_lower=Finding.decided(
                "sampling lowers some delta near probability 1",
                not rises,
                "sign of the slope of delta in the weight, at the radius",
            ),
            sampling_never_lowers=self._NEVER_LOWERS,
        )


def _hypot_up(first: FloatArray, second: FloatArray) -> FloatArray:
    """Root of the sum of two squares, rounded up."""
    # NumPy's hypot is accurate to 2 ulps. If only one part is nonzero, there is no rounding.
    alone = (first == 0.0) | (second == 0.0)
    return np.where(alone, np.maximum(first, second), round_up(np.hypot(first, second), 2.0))


def _root_up(count: int) -> float:
    """Square root of an integer, rounded up; exact for squares."""
    root = math.sqrt(count)
    return math.nextafter(root, math.inf) if Fraction(root) ** 2 < count else root


LossFunction = Callable[[FloatArray, FloatArray], FloatArray]
NormFunction = Callable[[FloatArray], FloatArray]

# Assumed accuracy of a user's function, in ulps; the docstrings below say so.
_ULPS = 2.0

# Grid of `check`, chosen by eye: number of norms across the ball, and weights up to a million.
_NORMS = 65
_WEIGHTS = np.geomspace(1.0, 1e6, 181)


@dataclass(frozen=True)
class CustomProfile(PureProfile):
    """A pure loss given by a vectorised function.

    Parameters
    ----------
    function : callable
        ``function(weight, norm)``: takes two arrays of one shape and returns the loss epsilon >= 0.
    derivative : callable, optional
        ``derivative(weight, norm)``: derivative of the loss with respect to the weight.
    strong_convexity : callable, optional
        ``strong_convexity(norm)``: a constant with which exp(loss) is strongly convex in the weight.
        With it and `derivative`, Algorithm 1 has a proven bracket. Otherwise it searches for a bracket.
    noise : float
        The loss is the function divided by this number. Leave it out: `with_noise` sets it.

    Notes
    -----
    Assumes. The function never decreases as the weight or the norm grows. Above weight 1 it is accurate to two ulps (a
    relative error of 4.4e-16), and the loss is its value raised by that amount; a value of 0 is assumed to be exact. At
    weight 1 its value is used unchanged, so that a loss equal to the target is accepted. There the function must
    not return less than the exact loss. `check` searches for a counterexample. If it finds none, that proves nothing,
    and the verdict says so.
    """

    function: LossFunction
    derivative: LossFunction | None = None
    strong_convexity: NormFunction | None = None
    noise: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "noise", validate.positive("noise", self.noise))

    def loss(self, weight: FloatArray, norm: FloatArray) -> FloatArray:
        values = _checked("function", self.function(weight, norm), weight)
        return divide_up(np.where(weight == 1.0, values, round_up(values, _ULPS)), self.noise)  # [note: profile-9]

    def derivative_at_one(self, norm: FloatArray) -> FloatArray | None:
        if self.derivative is None:
            return None
        return _checked("derivative", self.derivative(np.ones_like(norm), norm), norm, signed=True) / self.noise

    def log_convexity(self, norm: FloatArray) -> FloatArray | None:
        if self.strong_convexity is None:
            return None
        constant = _checked("strong_convexity", self.strong_convexity(norm), norm)
        with np.errstate(divide="ignore"):
            return np.log(constant)

    def with_noise(self, noise: float) -> CustomProfile:
        """Return the profile with its loss divided by `noise`, without the strong-convexity constant.

        The constant does not carry over to the divided loss.
        """
        noise = validate.positive("noise", noise)
        if noise == 1.0:
            return self
        return replace(self, strong_convexity=None, noise=float(multiply_down(self.noise, noise)))

    def describe(self) -> dict[str, Any]:
        """Name of the function and the noise: a function cannot be written to a file."""
        return {"function": _name(self.function), "noise": self.noise}

    def check(self, *, radius: float, epsilon: float, delta: float = 0.0) -> Assumptions:
        """Search a grid of norms and weights for counterexamples."""
        radius, epsilon = validate.radius(radius), validate.target_epsilon(epsilon)
        validate.target_delta(delta)
        norm, weight = np.meshgrid(np.linspace(0.0, radius, _NORMS), _WEIGHTS, indexing="ij")
        loss = self.loss(weight, norm)
        budget = np.logaddexp(0.0, np.log(_WEIGHTS[-1]) + log_expm1(np.array(epsilon)))
        exceeded = bool(np.all(loss[:, -1] > budget))
        return Assumptions(
            monotone=_search_finding(
                "the loss never decreases in weight or norm",
                bool(np.any(np.diff(loss, axis=0) < 0.0) or np.any(np.diff(loss, axis=1) < 0.0)),
            ),
            feasible=_search_finding("weight 1 meets epsilon on the ball", bool(np.any(loss[:, 0] > epsilon))),
            unbounded=Finding(
                statement="the loss exceeds every budget at some weight",
                # A finite grid can neither prove nor refute unbounded growth.
                verdict=Verdict.NOT_REFUTED,
                reason=f"{'exceeded at every' if exceeded else 'not exceeded at some'} tried norm at weight "
                f"{_WEIGHTS[-1]:g}",
            ),
            strongly_convex=self._convexity_finding(weight, norm, loss),
            **self._sampling_findings(weight, norm, loss),
        )

    def _convexity_finding(self, weight: FloatArray, norm: FloatArray, loss: FloatArray) -> Finding:
        """Test f(v) >= f(u) + f'(u)(v - u) + constant/2 (v - u)^2 between neighbouring weights."""
        with np.errstate(over="ignore", invalid="ignore"):
            value = np.exp(loss - loss[:, :1])
            chord = np.diff(value, axis=1) / np.diff(weight, axis=1)
            curvature = np.diff(chord, axis=1) / (weight[:, 2:] - weight[:, :-2])
            # Allow for rounding error. A second divided difference is half a second derivative.
            noise = 1e-12 * value[:, 2:] / np.square(np.diff(weight, axis=1)[:, :-1])
            log_constant = self.log_convexity(norm[:, 0])
            floor = 0.0 if log_constant is None else 0.5 * np.exp(log_constant - loss[:, 0])[:, None]
            counterexamples = np.isfinite(curvature) & (curvature + noise < floor)
            missing = log_constant is not None and np.any(np.isneginf(log_constant))
        return _search_finding("exp(loss) is strongly convex in the weight", bool(np.any(counterexamples) or missing))

    def _sampling_findings(self, weight: FloatArray, norm: FloatArray, loss: FloatArray) -> dict[str, Finding]:
        """Findings on sampling: a decreasing loss proves that sampling can lower it, and refutes that it never does."""
        with np.errstate(over="ignore"):
            sampled = np.log1p(np.expm1(loss) / weight)
        falls = bool(np.any(sampled[:, 1:] < sampled[:, :1] * (1.0 - 1e-9)))
        slope = self.derivative_at_one(norm[:, 0])
        near_one = slope is not None and bool(np.any(slope < -np.expm1(-loss[:, 0]) - 1e-12))
        can, never = "sampling lowers some loss near probability 1", "sampling never lowers a loss"
        return {
            "sampling_can_lower": Finding(
                statement=can,
                verdict=Verdict.PROVED if near_one else Verdict.NOT_REFUTED,
                reason="the derivative is below 1 - exp(-loss) at a tried norm"
                if near_one
                else "no derivative below 1 - exp(-loss) at a tried norm",
            ),
            "sampling_never_lowers": _search_finding(never, falls or near_one),
        }


@dataclass(frozen=True)
class CustomShiftProfile(ShiftProfile):
    """A Gaussian shift given by a vectorised function of the norm: mu = weight * function(norm) / noise.

    It is the profile of a mechanism with Gaussian noise in which a record of weight w changes the released vector by
    at most w * function(norm) in the l2 norm, and the noise has the standard deviation `noise`.

    Parameters
    ----------
    function : callable
        ``function(norm)``: takes an array of norms and returns the shift >= 0 at weight 1 and noise 1.
    noise : float
        Standard deviation of the noise.

    Notes
    -----
    Assumes. The function never decreases as the norm grows, and it is accurate to two ulps (a relative error of
    4.4e-16). The shift is its value raised by that amount; a value of 0 is assumed to be exact. `check` searches for a
    counterexample. If it finds none, that proves nothing, and the verdict says so.

    Examples
    --------
    >>> import pais
    >>> profile = pais.CustomShiftProfile(lambda norm: norm**2, noise=10.0)
    >>> round(pais.constrained_weight(profile, 0.5, epsilon=1.0, delta=1e-6), 2)
    42.28
    """

    function: NormFunction
    noise: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "noise", validate.positive("noise", self.noise))

    def shift(self, norm: FloatArray) -> FloatArray:
        values = _checked("function", self.function(norm), norm)
        return divide_up(round_up(values, _ULPS), self.noise)  # [note: profile-11]

    def with_noise(self, noise: float) -> CustomShiftProfile:
        noise = validate.positive("noise", noise)
        return replace(self, noise=float(multiply_down(self.noise, noise)))

    def describe(self) -> dict[str, Any]:
        """Name of the function and the noise: a function cannot be written to a file."""
        return {"function": _name(self.function), "noise": self.noise}

    def check(self, *, radius: float, epsilon: float, delta: float = 0.0) -> Assumptions:
        """Search a grid of norms for counterexamples."""
        radius, epsilon = validate.radius(radius), validate.target_epsilon(epsilon)
        delta = validate.target_delta(delta)
        shift = self.shift(np.linspace(0.0, radius, _NORMS))
        epsilons = np.full_like(shift, epsilon)
        log_delta = log_amplified_delta(epsilons, shift, np.ones_like(shift))
        infeasible = delta == 0.0 or bool(np.any(log_delta > math.log(delta)))
        falls = bool(np.any(~log_gaussian_delta_rises(epsilons, shift) & (shift > 0.0)))
        tried = f"{_NORMS} norms"
        return Assumptions(
            monotone=_search_finding("the shift never decreases in weight or norm", np.any(np.diff(shift) < 0), tried),
            feasible=_search_finding("weight 1 meets (epsilon, delta) on the ball", infeasible, tried),
            unbounded=_search_finding("the shift exceeds every budget at some weight", np.any(shift == 0.0), tried),
            strongly_convex=self._NO_PURE_LOSS,
            sampling_can_lower=Finding(
                statement="sampling lowers some delta near probability 1",
                verdict=Verdict.PROVED if falls else Verdict.NOT_REFUTED,
                reason=f"delta falls in the weight at {'a' if falls else 'no'} tried norm",
            ),
            sampling_never_lowers=self._NEVER_LOWERS,
        )


def _name(function: object) -> str:
    return getattr(function, "__name__", type(function).__name__)


def _checked(name: str, values: object, inputs: FloatArray, *, signed: bool = False) -> FloatArray:
    try:
        array = validate.real_array(name, values)  # type: ignore[arg-type]  # whatever a user's function returned
    except ArgumentError:
        raise AssumptionError(f"{name} did not return real numbers. Make it return an array of floats.") from None
    if array.shape != inputs.shape:
        raise AssumptionError(f"{name} returned shape {array.shape} for inputs of another shape. Vectorise it.")
    if np.any(np.isnan(array)) or (not signed and np.any(array < 0.0)):
        raise AssumptionError(f"{name} returned NaN or a negative value. Make it return numbers >= 0 on the ball.")
    return array


def _search_finding(
    statement: str, counterexample: bool | np.bool_, tried: str = f"{_NORMS} norms x {_WEIGHTS.size} weights"
) -> Finding:
    return Finding(
        statement=statement,
        verdict=Verdict.REFUTED if counterexample else Verdict.NOT_REFUTED,
        reason="a counterexample was found on the grid" if counterexample else tried,
    )


P = TypeVar("P", bound="LinearProfile | GaussianProfile")


def add_profiles(profiles: Sequence[P]) -> P:
    """Profile of several computations on one sample. All profiles must be of one kind."""
    # Exact types: a subclass may define another sum.
    if all(type(profile) is GaussianProfile for profile in profiles):
        return cast(P, _total(cast(Sequence[GaussianProfile], profiles)))
    return functools.reduce(operator.add, profiles)


def _total(profiles: Sequence[GaussianProfile]) -> GaussianProfile:
    rounds = [profile.n_iterations for profile in profiles]
    count = _joint_scale(rounds, [profile.count_scale for profile in profiles])
    total = _joint_scale(rounds, [profile.sum_scale for profile in profiles])
    square = _joint_scale(rounds, [profile.square_scale for profile in profiles])
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


@dataclass(frozen=True)
class _SumOfLosses:
    """Loss of several mechanisms on one sample. Frozen, so that equal sums compare equal."""

    profiles: tuple[PureProfile, ...]

    def __call__(self, weight: FloatArray, norm: FloatArray) -> FloatArray:
        losses = [profile.loss(weight, norm) for profile in self.profiles]
        return functools.reduce(lambda total, loss: multiply_add_up(total, loss, 1.0), losses)  # [note: profile-12]


@dataclass(frozen=True)
class _RootOfSquares:
    """Shift of several mechanisms on one sample, at weight 1."""

    profiles: tuple[ShiftProfile, ...]

    def __call__(self, norm: FloatArray) -> FloatArray:
        shifts = [profile.shift(norm) for profile in self.profiles]
        # NumPy's hypot is accurate to 2 ulps.
        return functools.reduce(
            lambda total, shift: round_up(np.hypot(total, shift), 2.0), shifts
        )  # [note: profile-13]


def joint_loss(profiles: Sequence[PureProfile]) -> CustomProfile:
    """Profile of several mechanisms with pure losses that run on the same sample: their losses add."""
    return CustomProfile(_SumOfLosses(tuple(profiles)))


def joint_shift(profiles: Sequence[ShiftProfile]) -> CustomShiftProfile:
    """Profile of several mechanisms with Gaussian noise that run on the same sample: their squared shifts add."""
    return CustomShiftProfile(_RootOfSquares(tuple(profiles)))
