"""Profiles defined by user functions: a pure loss, and a Gaussian shift."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pais._base import validate
from pais._base.numerics import (
    FloatArray,
    divide_up,
    log_expm1,
    log_gaussian_delta_rises,
    multiply_add_up,
    multiply_down,
    round_up,
)
from pais.errors import ArgumentError, AssumptionError
from pais.privacy.amplification import log_amplified_delta
from pais.privacy.profiles import Assumptions, Finding, PureProfile, ShiftProfile, Verdict

Function = Callable[[FloatArray, FloatArray], FloatArray]
NormFunction = Callable[[FloatArray], FloatArray]

# Assumed accuracy of the user function, in ulps.
_ULPS = 2.0

# Grid of `check`: number of norms across the ball, and weights up to a million.
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

    function: Function
    derivative: Function | None = None
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
        return Assumptions(
            monotone=_search_finding(
                "the loss never decreases in weight or norm",
                bool(np.any(np.diff(loss, axis=0) < 0.0) or np.any(np.diff(loss, axis=1) < 0.0)),
            ),
            feasible=_search_finding("weight 1 meets epsilon on the ball", bool(np.any(loss[:, 0] > epsilon))),
            unbounded=_unbounded(loss[:, -1], epsilon),
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
            strongly_convex=Finding(
                statement="exp(loss) is strongly convex in the weight",
                verdict=Verdict.NOT_APPLICABLE,
                reason="Gaussian noise has no pure loss; the rule relies on a single maximum of delta in the weight",
            ),
            sampling_can_lower=Finding(
                statement="sampling lowers some delta near probability 1",
                verdict=Verdict.PROVED if falls else Verdict.NOT_REFUTED,
                reason=f"delta falls in the weight at {'a' if falls else 'no'} tried norm",
            ),
            sampling_never_lowers=Finding.decided(
                "sampling never lowers a delta",
                False,
                "delta is at most the probability; the limit on kept records excludes such small probabilities",
            ),
        )


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


def _unbounded(loss: FloatArray, epsilon: float) -> Finding:
    """Finding on unbounded growth. A finite grid can neither prove nor refute it."""
    budget = np.logaddexp(0.0, np.log(_WEIGHTS[-1]) + log_expm1(np.array(epsilon)))
    exceeded = bool(np.all(loss > budget))
    reason = f"{'exceeded at every' if exceeded else 'not exceeded at some'} tried norm at weight {_WEIGHTS[-1]:g}"
    return Finding(statement="the loss exceeds every budget at some weight", verdict=Verdict.NOT_REFUTED, reason=reason)


def _search_finding(
    statement: str, counterexample: bool | np.bool_, tried: str = f"{_NORMS} norms x {_WEIGHTS.size} weights"
) -> Finding:
    return Finding(
        statement=statement,
        verdict=Verdict.REFUTED if counterexample else Verdict.NOT_REFUTED,
        reason="a counterexample was found on the grid" if counterexample else tried,
    )
