"""A profile defined by a user function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pais._base import validate
from pais._base.numerics import FloatArray, divide_up, log_expm1, round_up
from pais.errors import ArgumentError, AssumptionError
from pais.privacy.profiles.base import Assumptions, Finding, PureProfile, Verdict

Function = Callable[[FloatArray, FloatArray], FloatArray]

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
    strong_convexity: Callable[[FloatArray], FloatArray] | None = None

    def loss(self, weight: FloatArray, norm: FloatArray) -> FloatArray:
        values = _checked("function", self.function(weight, norm), weight)
        return np.where(weight == 1.0, values, round_up(values, _ULPS))  # [note: profile-9]

    def derivative_at_one(self, norm: FloatArray) -> FloatArray | None:
        if self.derivative is None:
            return None
        return _checked("derivative", self.derivative(np.ones_like(norm), norm), norm, signed=True)

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
        derivative = self.derivative
        return CustomProfile(
            lambda weight, norm: divide_up(self.loss(weight, norm), noise),
            None if derivative is None else lambda weight, norm: derivative(weight, norm) / noise,
        )

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


def _search_finding(statement: str, counterexample: bool) -> Finding:
    return Finding(
        statement=statement,
        verdict=Verdict.REFUTED if counterexample else Verdict.NOT_REFUTED,
        reason="a counterexample was found on the grid"
        if counterexample
        else f"{_NORMS} norms x {_WEIGHTS.size} weights",
    )
