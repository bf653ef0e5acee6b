"""The largest privacy loss of any record in the ball under a sampling rule: an upper bound and an attained value.

The paper takes the maximum over grid points. That is a lower bound on the loss and guarantees nothing (erratum 6).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pais._base import validate
from pais._base.numerics import FloatArray, round_down, round_up
from pais.errors import ArgumentError, ConvergenceError, MismatchError
from pais.privacy.amplification import SUBNORMAL, amplify_epsilon, gaussian_delta, invert_delta, log_amplified_delta
from pais.privacy.profiles import CustomProfile, CustomShiftProfile, LinearProfile, Profile, PureProfile, ShiftProfile
from pais.privacy.rules import ConstrainedRule, Rule

# Called with (q_low, q_high, z): loss of a record with probability <= q_high, weight <= 1/q_low and norm <= z.
_Bound = Callable[[FloatArray, FloatArray, FloatArray], FloatArray]

# Memory is the limit: some arrays of this many doubles. Smooth rules and profiles need a few thousand cells.
_MOST_CELLS = 2**18

#: Tolerance of calibration and of certificates: the noise is at most this share larger than it must be. Both must use
#: the same value to agree to the last bit.
CERTIFIED_TOLERANCE = 1e-7

# The loss is rounded up by at most 64 ulps and the profile by 2 ulps, which sampling can magnify up to 70 times. An
# attained value must not be rounded up, so it is lowered by more than that.
_ATTAINED_ULPS = 256.0

#: Tolerance for the loss of kept records, which is only compared with a limit and needs fewer digits.
KEPT_TOLERANCE = 1e-4


@dataclass(frozen=True, kw_only=True)
class WorstCase:
    """Upper and lower bounds on the largest loss over a ball.

    Attributes
    ----------
    quantity : str
        The bounded quantity: "epsilon", "delta" or "epsilon if kept".
    upper : float
        No record of the ball exceeds this value. This is the number to certify.
    attained : float
        A record of norm `at_norm` has at least this loss, so `upper` overstates by at most ``upper - attained``.
    at_norm : float
        The norm at which `attained` is reached.
    """

    quantity: str
    upper: float
    attained: float
    at_norm: float

    @property
    def gap(self) -> float:
        return self.upper - self.attained


def worst_case(
    rule: Rule,
    profile: Profile,
    *,
    radius: float,
    epsilon: float | None = None,
    delta: float | None = None,
    tolerance: float = 1e-6,
    enough: float = 0.0,
) -> WorstCase:
    """Bound the loss of a mechanism with `profile` on a sample drawn by `rule`, over all norms in [0, radius].

    Parameters
    ----------
    rule : Rule
        Any rule; its probability must be monotone between its breakpoints.
    profile : Profile
        A pure profile gives the worst epsilon. A `ShiftProfile` gives the worst epsilon at `delta`, or
        the worst delta at `epsilon`: pass exactly one.
    radius : float
        Radius of the ball to which the rows are clipped.
    tolerance : float
        Cells are refined until the gap is at most `tolerance`: absolute for losses from 1 to 1000, else relative.
    enough : float
        Cells whose bound is below this value are not refined. Pass a value if the caller needs no tighter bound.

    Notes
    -----
    Guarantee. `upper` bounds the loss of every norm in [0, radius], rounding included:
    `tests/theory/test_worst_case.py`. On each cell, the loss is at most the loss at the cell's largest probability,
    largest weight and largest norm taken together. If the loss is linear and the probability is linear in the norm,
    the loss is convex on the cell. Then the maximum is at an end of the cell and no refinement is needed.

    If the limit on the number of cells is reached before the tolerance is met, the bound is still valid and `gap`
    exceeds the tolerance.

    Assumes. The loss of the profile does not decrease as the weight or the norm increases.
    """
    radius, tolerance = _require(rule, profile, radius), validate.positive("tolerance", tolerance)
    quantity, bound = _bound(profile, epsilon, delta)
    upper, attained, at_norm = _supremum(rule, profile, bound, radius, tolerance, enough)
    target = _promised_target(rule, profile, epsilon, delta)
    # A constrained rule guarantees its target by construction. If the bound differs only by rounding, use the target.
    if target is not None and target * (1.0 - 1e-9) <= upper <= target * (1.0 + 1e-9):  # [note: worst-5]
        upper = target
    return WorstCase(quantity=quantity, upper=upper, attained=min(attained, upper), at_norm=at_norm)


def worst_case_if_kept(
    rule: Rule,
    profile: Profile,
    *,
    radius: float,
    delta: float = 0.0,
    survey_shift: float = 0.0,
    tolerance: float = KEPT_TOLERANCE,
) -> WorstCase:
    """Bound the loss of a record given that it was kept in the sample, over all norms in [0, radius].

    This epsilon applies when it is known which records are in the sample: the pure loss at the record's weight, or the
    epsilon of the Gaussian shift without sampling at the same delta. A record kept with probability at most delta
    satisfies (epsilon, delta) even if it is published unchanged; this number reveals such cases.

    Parameters
    ----------
    rule, profile, radius, tolerance
        As in `worst_case`.
    delta : float
        The delta of the guarantee: > 0 for a `ShiftProfile`, ignored for a pure profile.
    survey_shift : float
        Gaussian shift of a survey of all rows before the sample, whose loss is included; 0 for none.

    Notes
    -----
    Guarantee. `upper` bounds the loss of every kept record of the ball, rounding included:
    `tests/theory/test_kept_records.py`.
    """
    _require(rule, profile, radius)
    gaussian = isinstance(profile, ShiftProfile)
    if gaussian:
        gaussian_delta(delta)
    upper, attained, at_norm = _supremum(
        rule, profile, lambda low, _, norm: profile.loss(1.0 / low, norm), radius, tolerance
    )
    if gaussian:
        # Epsilon increases with the shift, so the largest shift gives the largest epsilon.
        shifts = np.array([upper, attained])
        if survey_shift > 0.0:
            shifts = round_up(np.hypot(shifts, survey_shift), 4.0)  # [note: joint-survey-7]
        upper, attained = invert_delta(np.full(2, delta), shifts, np.ones(2))  # [note: kept-4]
    return WorstCase(
        quantity="epsilon if kept",
        upper=float(round_up(np.array(upper))),
        attained=min(float(round_down(np.array(attained), _ATTAINED_ULPS)), float(upper)),
        at_norm=at_norm,
    )


def _require(rule: Rule, profile: Profile, radius: float) -> float:
    """Validate the arguments of `worst_case` and return the radius as a float."""
    validate.instance("rule", rule, Rule, "Wrap a function in FunctionRule.")
    validate.instance("profile", profile, Profile, "Pass the .profile of a mechanism.")
    if not isinstance(profile, (ShiftProfile, PureProfile)):
        raise MismatchError(f"{type(profile).__name__} cannot be certified. Use a PureProfile or a ShiftProfile.")
    radius = validate.radius(radius)
    if radius > rule.radius:
        raise MismatchError(f"radius={radius!r} exceeds {rule.radius!r}, the radius of the rule. Build a rule for it.")
    return radius


def _supremum(
    rule: Rule, profile: Profile, bound: _Bound, radius: float, tolerance: float, enough: float = 0.0
) -> tuple[float, float, float]:
    """Return an upper bound on the supremum over the ball, the largest value seen, and the norm where it was seen."""
    # Check the exact type: a subclass of LinearProfile may define another loss.
    if type(profile) is LinearProfile and rule.linear_between_breakpoints:
        # The loss decreases as the probability grows, so the smallest probability gives the bound.
        points = rule.probes(radius)
        smallest, _ = _spread(rule, points, points)
        upper = float(np.max(bound(smallest, smallest, round_up(points, 16.0))))  # [note: worst-2]
        attained, at_norm = _largest(rule, bound, points)
    else:
        upper, attained, at_norm = _refine(rule, bound, rule.breakpoints(radius), tolerance, enough)
    if not upper >= 0.0:
        raise ConvergenceError("the loss of the profile is NaN somewhere on the ball. Correct the profile.")
    return float(round_up(np.array(upper))), float(round_down(np.array(attained), _ATTAINED_ULPS)), at_norm


def _bound(profile: Profile, epsilon: float | None, delta: float | None) -> tuple[str, _Bound]:
    if isinstance(profile, ShiftProfile):
        if (epsilon is None) == (delta is None):
            raise ArgumentError("a ShiftProfile needs exactly one of epsilon and delta. Pass the one that is fixed.")
        if delta is not None:
            fixed_delta = gaussian_delta(delta)
            return "epsilon", lambda low, high, norm: invert_delta(
                np.full_like(norm, fixed_delta), profile.loss(1.0 / low, norm), high
            )
        fixed_epsilon = validate.non_negative("epsilon", epsilon)
        return "delta", lambda low, high, norm: (
            # Adding the smallest subnormal keeps this an upper bound where exp underflows.
            np.exp(log_amplified_delta(np.full_like(norm, fixed_epsilon), profile.loss(1.0 / low, norm), high))
            + SUBNORMAL
        )
    if epsilon is not None:
        raise ArgumentError(
            f"epsilon={epsilon!r} was passed with a pure profile, whose epsilon is the result. Leave epsilon out."
        )
    return "epsilon", lambda low, high, norm: amplify_epsilon(profile.loss(1.0 / low, norm), high)


def _spread(rule: Rule, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Bounds on the probability over (low, high], widened to cover the rounding errors of the rule's evaluation."""
    smallest, largest = rule.bounds(low, high)
    return round_down(smallest, 16.0), np.minimum(round_up(largest, 16.0), 1.0)  # [note: worst-1]


def _refine(
    rule: Rule, bound: _Bound, points: FloatArray, tolerance: float, enough: float
) -> tuple[float, float, float]:
    """Branch and bound: split only cells whose bound is above `enough` and well above the largest loss seen."""
    # The extra cell (0, 0] stands for norm 0, which the half-open cells do not contain.
    low, high = np.append(0.0, points[:-1]), np.append(0.0, points[1:])
    closed, attained, at_norm = 0.0, 0.0, 0.0
    while True:
        upper = bound(*_spread(rule, low, high), round_up(high, 16.0))  # [note: worst-3]
        middle = 0.5 * (low + high)
        splittable = (middle > low) & (middle < high)
        # Evaluate the loss where its bound is largest, and then only in the cells that this leaves unresolved.
        cells = np.argmax(upper, keepdims=True)
        for _ in range(2):
            attained, at_norm = max((attained, at_norm), _largest(rule, bound, high[cells]))
            # Absolute for losses from 1 to 1000, else relative; losses above 1000 do not need six decimals.
            gap = tolerance * min(1.0, attained) * max(1.0, attained / 1000.0)
            unresolved = splittable & (upper > max(attained + gap, enough))
            cells = np.flatnonzero(unresolved)
            if cells.size == 0:
                break
        closed = float(np.max(upper[~unresolved], initial=closed))  # [note: worst-4]
        if cells.size == 0:
            return closed, attained, at_norm
        low, middle, high, upper = low[unresolved], middle[unresolved], high[unresolved], upper[unresolved]
        if low.size > _MOST_CELLS:
            return max(closed, float(np.max(upper))), attained, at_norm
        low, high = np.concatenate([low, middle]), np.concatenate([middle, high])


def _largest(rule: Rule, bound: _Bound, norms: FloatArray) -> tuple[float, float]:
    """Largest loss at these norms, and where it is."""
    probability = rule.evaluate(norms)
    loss = bound(probability, probability, norms)
    best = int(np.argmax(loss))
    return float(loss[best]), float(norms[best])


def _promised_target(rule: Rule, profile: Profile, epsilon: float | None, delta: float | None) -> float | None:
    """The target a constrained rule guarantees, if its parameters show that `profile` never has a larger loss."""
    if not isinstance(rule, ConstrainedRule):
        return None
    planned = rule.profile
    covered = planned == profile
    if type(planned) is LinearProfile and type(profile) is LinearProfile:
        covered = profile.intercept <= planned.intercept and profile.slope <= planned.slope  # [note: worst-6]
    for custom in (CustomProfile, CustomShiftProfile):
        if type(planned) is custom and type(profile) is custom:
            covered = planned.function == profile.function and planned.noise <= profile.noise  # [note: worst-8]
    if not covered:
        return None
    if not isinstance(profile, ShiftProfile):
        return rule.epsilon
    if epsilon is not None:
        return rule.delta if epsilon >= rule.epsilon else None
    return rule.epsilon if delta is not None and delta >= rule.delta else None
