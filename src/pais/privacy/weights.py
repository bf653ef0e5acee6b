"""The largest weight that a record can have within a guarantee (CONSTRAINED).

There are three solvers: a closed form for linear losses, Algorithm 1 for any pure loss, and the first crossing
for Gaussian noise. Each returns a weight at which its constraint holds. `ConstrainedRule` builds its table from them.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from pais._base import validate
from pais._base.numerics import (
    LARGE,
    ULP,
    FloatArray,
    Objective,
    log_exprel,
    log_gaussian_delta_rises,
    round_down,
    shrink_bracket,
)
from pais.errors import AssumptionError, MismatchError, UnreachableError
from pais.privacy.amplification import (
    approximate_shift,
    density_over,
    gaussian_delta,
    kept_limit,
    largest_shift,
    log_amplified_delta,
    log_tilted_ratio,
)
from pais.privacy.profiles import LinearProfile, Profile, PureProfile, ShiftProfile

#: Smallest inclusion probability that any rule may assign.
SMALLEST_PROBABILITY = 1e-12

#: The largest weight: the inverse of the smallest probability that any rule may assign.
WEIGHT_CAP = 1.0 / SMALLEST_PROBABILITY

#: Losses of kept records stay below this fraction of their limit, to cover the rounding of look-up and certificate.
KEPT_ROOM = 1.0 - 1e-12

# Sampling gains nothing if all shifts are above this part of the largest one: it allows for the slack of calibration.
_NO_ROOM = 1.0 - 2e-11

# Number of equal shifts that are solved for instead of many. NumPy rounds the functions of single numbers differently.
_FEW = 16

# Final width of the solver brackets, in log(weight).
_LOG_TOLERANCE = 2e-14


@overload
def constrained_weight(
    profile: Profile, norm: float, *, epsilon: float, delta: float = 0.0, max_epsilon_if_kept: float | None = None
) -> float: ...


@overload
def constrained_weight(
    profile: Profile, norm: ArrayLike, *, epsilon: float, delta: float = 0.0, max_epsilon_if_kept: float | None = None
) -> FloatArray: ...


def constrained_weight(
    profile: Profile, norm: ArrayLike, *, epsilon: float, delta: float = 0.0, max_epsilon_if_kept: float | None = None
) -> float | FloatArray:
    """Largest weight w >= 1 at which a record sampled with probability 1/w stays within the guarantee.

    Parameters
    ----------
    profile : Profile
        The privacy loss of a record. Pass a pure profile for delta = 0, a `ShiftProfile` for delta > 0.
    norm : float or array
        Norm of each record, >= 0.
    epsilon : float
        Target, > 0.
    delta : float
        Target, in [0, 1).
    max_epsilon_if_kept : float, optional
        Largest epsilon allowed for a record given that it was kept; None = epsilon + 15, math.inf = no limit.

    Returns
    -------
    float or array
        Weights in [1, 1e12], in the shape of `norm`.

    Raises
    ------
    UnreachableError
        If some norm exceeds the target even at weight 1. Sampling cannot lower that loss.

    Notes
    -----
    Guarantee. Every returned weight is feasible for the exact profile: `tests/theory/test_exact_losses.py`. For
    epsilon >= 1e-3 it is within 1e-12 (relative) of the largest weight for the loss as rounded by the profile:
    `tests/theory/test_constrained_weight.py`. A change of one ulp in the loss changes the weight by up to 2/epsilon
    ulps.

    Examples
    --------
    >>> import pais
    >>> round(pais.constrained_weight(pais.LinearProfile(intercept=0.0, slope=1.0), 0.5, epsilon=1.0), 4)
    4.2212
    """
    norms = validate.norms(norm)
    epsilon, delta = validate.target_epsilon(epsilon), validate.target_delta(delta)
    limit = kept_limit(epsilon, validate.kept_limit(max_epsilon_if_kept))
    weights = solve_weights(profile, norms.ravel(), epsilon, delta, limit).reshape(norms.shape)
    return float(weights) if weights.ndim == 0 else weights


def solve_weights(
    profile: Profile, norm: FloatArray, epsilon: float, delta: float, limit: float = math.inf
) -> FloatArray:
    """`constrained_weight` for a validated flat array, with the solver of the profile; `limit` is for kept records."""
    if isinstance(profile, ShiftProfile):
        gaussian_delta(delta)
        at_one = profile.shift(norm)
        most = largest_shift(epsilon, delta)
        if np.all((at_one <= most) & (at_one >= most * _NO_ROOM)):  # [note: weight-8]
            # Weight 1 is within the target, and a larger weight would hardly be above 1.
            return np.ones_like(at_one)
        if norm.size > _FEW and np.all(at_one == at_one[0]):
            # The loss does not depend on the norm, so one weight is that of all norms.
            return np.full_like(at_one, solve_weights(profile, norm[:_FEW], epsilon, delta, limit)[0])
        most_shift = math.inf if math.isinf(limit) else largest_shift(limit, delta)
        return limited(first_crossing_weight(at_one, epsilon, delta, most_shift), at_one, most_shift)
    if not isinstance(profile, PureProfile):
        raise MismatchError(f"{type(profile).__name__} has no constrained rule. Use a PureProfile or a ShiftProfile.")
    # A pure guarantee holds at every delta, and a positive delta would not allow larger weights here.
    # Check the exact type: a subclass of LinearProfile may define another loss.
    if type(profile) is LinearProfile:
        at_one = profile.at_weight_one(norm)
        return limited(closed_form_weight(at_one, epsilon), at_one, limit)
    return algorithm_one_weight(profile, norm, epsilon, limit)


def limited(weights: FloatArray, at_one: FloatArray, limit: float) -> FloatArray:
    """Lower the weights until weight * at_one meets the limit. Weight 1 is always within the target."""
    with np.errstate(divide="ignore", over="ignore"):
        return np.clip(limit * KEPT_ROOM / at_one, 1.0, weights)  # [note: kept-2]


def _require_feasible(at_one: FloatArray, epsilon: float) -> None:
    if np.any(at_one > epsilon):
        raise UnreachableError(
            f"epsilon={epsilon!r} is below the loss at some norm, even without sampling. "
            "Raise epsilon or the noise, or clip to a smaller radius.",
            reachable=float("nan"),
        )


def closed_form_weight(at_one: FloatArray, epsilon: float) -> FloatArray:
    """Weights for losses linear in the weight: epsilon(w) = w * at_one.

    Notes
    -----
    With y = w * at_one the constraint is (e^y - 1)/y <= (e^epsilon - 1)/at_one. At equality this is
    log_exprel(y) = log_exprel(epsilon) + log(epsilon/at_one). The function on the left is increasing and
    convex with slope in [1/2, 1], and no terms of the equation cancel. So y keeps its relative accuracy from
    epsilon = 1e-6 to 1e4, while the Lambert form -W_{-1}(-s e^{-s}) - s loses digits at both ends.
    """
    _require_feasible(at_one, epsilon)
    loss = np.maximum(at_one, epsilon / WEIGHT_CAP * 1e-3)
    target = np.array(epsilon)
    goal = log_exprel(target) + np.log1p((epsilon - loss) / loss)  # [note: weight-1]
    y = _start_exprel(goal)
    for _ in range(3):
        y = _newton_exprel(y, goal)
    # y / at_one differs from the exact weight by four rounding errors of at most 8 ulps (relative) each.
    return np.clip(round_down(y / loss, 32.0), 1.0, WEIGHT_CAP)  # [note: weight-2]


def _start_exprel(goal: FloatArray) -> FloatArray:
    """Starting value y with log_exprel(y) close to goal.

    Solves z - log1p(z) = u for z = y + e^-goal - 1 by a rational approximation.
    """
    lift = -np.expm1(-goal)
    u = np.maximum(goal - lift, 0.0)
    r = np.sqrt(2.0 * u)
    guess = r + u * (2.0 / 3.0 + 0.17643 * r) / (1.0 + 0.17643 * r)
    return np.maximum(guess + lift, goal)


def _newton_exprel(y: FloatArray, goal: FloatArray) -> FloatArray:
    # The slope 1/(1 - e^-y) - 1/y tends to 1/2 at zero, but its two terms cancel there.
    safe = np.maximum(y, 1e-3)
    slope = np.where(y < 1e-3, 0.5 + y / 12.0, -1.0 / np.expm1(-safe) - 1.0 / safe)
    return y - (log_exprel(y) - goal) / slope


def algorithm_one_weight(profile: PureProfile, norm: FloatArray, epsilon: float, limit: float = math.inf) -> FloatArray:
    """Weights for any pure loss: the paper's Algorithm 1 with corrected bracket and return value.

    Notes
    -----
    The profile rounds losses up, so the constraint only needs a slack for its own rounding errors.
    Three things differ from the paper: the bracket ends at 2 (e^epsilon - v)/mu **+ 2** (erratum 3), the search leaves
    weight 1 when the derivative is below 1 - e^-loss (erratum 4), and the function returns the feasible end instead of
    the midpoint (erratum 5). The search runs in log(weight), so that brackets of e^1000 cost only ten evaluations
    more than brackets of 10. If the profile has no strong-convexity constant, the bracket is found by doubling.
    The returned weight is still feasible, because the constraint is evaluated at it. Only the claim that it is the
    largest feasible weight depends on convexity.
    """
    at_one = profile.loss(np.ones_like(norm), norm)
    _require_feasible(at_one, epsilon)

    goal = float(log_exprel(np.array(epsilon)))

    def excess(log_weight: FloatArray, index: NDArray[np.intp]) -> FloatArray:
        """Logarithm of (e^loss - 1)/w divided by e^epsilon - 1, plus its rounding error; no terms cancel."""
        weight = np.exp(log_weight)
        loss = np.minimum(profile.loss(weight, norm[index]), 1e300)
        share = loss / weight
        with np.errstate(divide="ignore"):
            ratio = -np.log1p((epsilon - share) / share)
        growth = log_exprel(loss)
        value = growth - goal + ratio + ULP * (1.0 + 4.0 * (growth + goal))  # [note: weight-3]
        # The loss never decreases as the weight grows, so the weights within the limit also form an interval from 1.
        return np.where(loss <= limit * KEPT_ROOM, value, np.maximum(value, 1.0))  # [note: kept-3]

    # At weight 1 `_require_feasible` has already compared the loss itself, so ignore the rounding of the constraint.
    value_at_one = np.minimum(excess(np.zeros_like(norm), np.arange(norm.size)), 0.0)
    end, proven = _bracket(profile, norm, at_one, epsilon)
    return climb(excess, end, value_at_one, proven)


def _bracket(
    profile: PureProfile, norm: FloatArray, at_one: FloatArray, epsilon: float
) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Logarithm of Algorithm 1's upper end: max(2(e^eps - e^loss)/mu + 1, 2(e^eps - 1 - loss' e^loss)/mu + 2).

    All terms are divided by e^loss first, so that no exponential overflows before the logarithm is taken.
    """
    slope, log_mu = profile.derivative_at_one(norm), profile.log_convexity(norm)
    if slope is None or log_mu is None:
        return np.full_like(norm, np.log(2.0)), np.zeros(norm.shape, dtype=bool)
    proven = np.isfinite(log_mu)
    scaled = np.where(proven, log_mu, 0.0) - at_one
    gap = epsilon - at_one
    near = np.minimum(gap, LARGE)
    with np.errstate(over="ignore", under="ignore", divide="ignore"):
        first = 2.0 * np.expm1(near) * np.exp(-scaled) + 1.0
        second = 2.0 * (np.exp(near) - np.exp(-at_one) - slope) * np.exp(-scaled) + 2.0
        end = np.log(np.maximum(np.maximum(first, second), 1.0 + 1e-9))  # [note: weight-4]
        far = np.logaddexp(np.log(2.0) + gap - scaled, np.log(2.0))
    end = np.where((gap > LARGE) | ~np.isfinite(end), far, end)
    # Move the end outward by more than its rounding error.
    return np.where(proven, end * (1.0 + 1e-9) + 1e-9, np.log(2.0)), proven


def climb(
    excess: Objective,
    end: FloatArray,
    value_at_one: FloatArray,
    proven: NDArray[np.bool_] | None = None,
    tolerance: float = _LOG_TOLERANCE,
) -> FloatArray:
    """Largest weights, up to the cap, of the interval from weight 1 on which `excess` of log(weight) is <= 0.

    The function doubles the end until it lies outside the interval, shrinks the bracket, and returns its feasible side.
    If an end that is `proven` to lie outside the interval lies inside, the strong-convexity constant of the profile
    is wrong and the function raises an `AssumptionError`.
    """
    cap = np.log(WEIGHT_CAP)
    low, high = np.zeros_like(end), np.minimum(end, cap)
    value_low, value_high = value_at_one.copy(), np.full_like(end, np.inf)
    climbing = np.arange(end.size)
    while climbing.size:
        value_high[climbing] = excess(high[climbing], climbing)
        climbing = climbing[(value_high[climbing] <= 0.0) & (high[climbing] < cap)]
        if proven is not None and np.any(proven[climbing]):
            raise AssumptionError(
                "the strong-convexity constant of the profile is too large. Pass a smaller constant, or none."
            )
        low[climbing], value_low[climbing] = high[climbing], value_high[climbing]
        high[climbing] = np.minimum(2.0 * high[climbing], cap)
    result = high.copy()
    bracketed = np.flatnonzero(value_high > 0.0)
    if bracketed.size:
        # [note: weight-5]
        result[bracketed], _ = shrink_bracket(
            lambda point, index: excess(point, bracketed[index]),
            low[bracketed],
            high[bracketed],
            value_low=value_low[bracketed],
            value_high=value_high[bracketed],
            tolerance=tolerance,
        )
    return rounded(result)


def rounded(log_weight: FloatArray) -> FloatArray:
    """Weights from their logarithms, rounded down."""
    return np.clip(round_down(np.exp(log_weight), 32.0), 1.0, WEIGHT_CAP)


# Relative slack in delta, larger than the rounding errors of delta(epsilon) and of its inverse.
_DELTA_SLACK = 1e-11

# Number of times that a guess of a weight is improved before a slower search takes over. Only speed depends on it.
_REFINEMENTS = 4

# Replaces a shift of zero as a divisor. Delta is zero there, so the quotient does not matter.
_TINY_SHIFT = 1e-300


def first_crossing_weight(at_one: FloatArray, epsilon: float, delta: float, most_shift: float = math.inf) -> FloatArray:
    """Weights for Gaussian noise: the weight at which delta first reaches its target (GAUSS-SAMPLED).

    The weights that `most_shift` allows are enough: beyond it, a record's shift exceeds the limit for kept records.

    Notes
    -----
    delta(w) increases to a single maximum and then decreases (`docs/theory/first-crossing.md`). So the weights at
    which delta(w) is increasing and within the target form one interval that starts at w = 1. If the maximum stays
    below delta, there is no crossing and the function returns the weight at the maximum. `solve_weights` then lowers
    this weight to the limit for kept records.
    """
    log_delta = math.log(delta)

    def at_weight_one(shift: FloatArray) -> FloatArray:
        start = log_amplified_delta(np.full_like(shift, epsilon), shift, np.ones_like(shift)) - log_delta
        # Delta grows with the shift, so the largest shift decides.
        if np.any(start > 0.0):
            raise UnreachableError(
                f"epsilon={epsilon!r} and delta={delta!r} cannot be met at some norm, even without sampling. "
                "Raise epsilon or the noise, or clip to a smaller radius.",
                reachable=float("nan"),
            )
        return start

    def excess(log_weight: FloatArray, index: NDArray[np.intp]) -> FloatArray:
        weight = np.exp(log_weight)
        mu, probability, epsilons = at_one[index] * weight, 1.0 / weight, np.full_like(weight, epsilon)
        value = log_amplified_delta(epsilons, mu, probability) - log_delta + _DELTA_SLACK
        rises = log_gaussian_delta_rises(log_tilted_ratio(epsilons, probability), np.maximum(mu, _TINY_SHIFT))
        bounded: FloatArray = np.where(rises, value, np.maximum(value, 1.0))  # [note: weight-6]
        return bounded

    at_weight_one(np.max(at_one, initial=0.0, keepdims=True))
    guess, rise, end = _guess(at_one, epsilon, delta, most_shift)
    log_weight, near = _refined(excess, np.fmin(guess, end), rise, end)
    weights = rounded(log_weight)
    far = np.flatnonzero(~near)
    if far.size:
        # A finer tolerance would be lost in the slack in delta.
        weights[far] = climb(
            lambda point, index: excess(point, far[index]),
            np.full(far.size, np.log(2.0)),
            np.minimum(at_weight_one(at_one[far]), 0.0),
            tolerance=_DELTA_SLACK,
        )
    return weights


def rough_crossing_weight(at_one: FloatArray, epsilon: float, delta: float, limit: float) -> FloatArray:
    """About the weights of Gaussian noise. They are not checked, so use them only to search for a plan."""
    most_shift = largest_shift(limit, delta)
    guess, _, end = _guess(at_one, epsilon, delta, most_shift)
    weights, unknown = np.exp(np.minimum(guess, end)), np.flatnonzero(np.isnan(guess))
    if unknown.size:
        shift = at_one[unknown]
        weights[unknown] = limited(first_crossing_weight(shift, epsilon, delta, most_shift), shift, most_shift)
    return weights


def _guess(
    at_one: FloatArray, epsilon: float, delta: float, most_shift: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Guess of log(weight), NaN where there is none; the rise of log(delta) there; and the end of log(weight)."""
    log_shift = np.log(np.maximum(at_one, _TINY_SHIFT))
    guess, rise = crossing_curve(epsilon, delta).guess(log_shift)
    return guess, rise, np.clip(math.log(most_shift) - log_shift, 0.0, math.log(WEIGHT_CAP))


def _refined(
    excess: Objective, guess: FloatArray, rise: FloatArray, end: FloatArray
) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Improve guesses of log(weight), and report which of them are feasible and either at their end or the largest.

    `rise` is about the derivative of `excess`. It decides how fast the search is, and not what it accepts.
    """
    point, near = guess.copy(), np.zeros(guess.shape, dtype=bool)
    left = np.flatnonzero(guess > -1.0)
    for _ in range(_REFINEMENTS):
        value = excess(point[left], left)
        room = -value / rise[left]
        # [note: weight-7]
        accepted = (value <= 0.0) & (
            (room <= _DELTA_SLACK) | (value >= -0.1 * _DELTA_SLACK) | (point[left] >= end[left])
        )
        near[left[accepted]] = True
        left, room = left[~accepted], room[~accepted]
        if left.size == 0:
            break
        point[left] = np.clip(point[left] + room - 0.4 * _DELTA_SLACK, 0.0, end[left])
    return point, near


# Number of points of a curve, chosen by eye (1f28e6a). More of them make the guess better, and the curve slower to
# compute; guesses are within 1e-5 of the weights (`tests/theory/test_crossing_curve.py`).
_POINTS = 256

# The curve ends where delta rises along the weight by less than this share of its rise along the shift: a
# slope so flat is no help to Newton's method.
_FLATTEST = 1e-6


@dataclass(frozen=True, kw_only=True, eq=False)
class CrossingCurve:
    """Weights at which delta first reaches its target, by the shift at weight 1. Approximate; public.

    All values are logarithms, in the order of rising shifts. `bend` is the derivative of the weight by the shift, and
    `rise` that of delta by the weight.
    """

    shift: FloatArray
    weight: FloatArray
    bend: FloatArray
    rise: FloatArray

    def guess(self, log_shift: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return log(weight) and the rise of log(delta) there; NaN for shifts below the curve."""
        if self.shift.size < 2:
            return np.full_like(log_shift, np.nan), np.ones_like(log_shift)
        cell = np.clip(np.searchsorted(self.shift, log_shift) - 1, 0, self.shift.size - 2)
        width = self.shift[cell + 1] - self.shift[cell]
        share = np.minimum((log_shift - self.shift[cell]) / width, 1.0)
        rest = 1.0 - share
        # The cubic with the values and derivatives of both ends.
        low = self.weight[cell] * (1.0 + 2.0 * share) + self.bend[cell] * width * share
        high = self.weight[cell + 1] * (1.0 + 2.0 * rest) - self.bend[cell + 1] * width * rest
        weight = np.where(share >= 0.0, rest * rest * low + share * share * high, np.nan)
        return weight, rest * self.rise[cell] + share * self.rise[cell + 1]


@functools.lru_cache(maxsize=64)
def crossing_curve(epsilon: float, delta: float) -> CrossingCurve:
    """Curve of first crossings for a target. It is empty if delta is not small."""
    log_weight = np.linspace(0.0, max(min(math.log(WEIGHT_CAP), math.log(0.5 / delta)), 1e-3), _POINTS)
    log_ratio = log_tilted_ratio(np.full(_POINTS, epsilon), np.exp(-log_weight))
    log_target = np.minimum(math.log(delta) + log_weight, -1e-3)
    mu = approximate_shift(log_ratio, log_target)
    a = log_ratio / mu - 0.5 * mu
    by_shift = mu * density_over(a, log_target)
    rise = by_shift - (special.ndtr(-a) - special.ndtr(-a - mu)) * np.exp(-log_target)
    n = int(np.argmin(np.append(rise > _FLATTEST * by_shift, False)))
    log_shift = (np.log(mu) - log_weight)[:n][::-1]
    return CrossingCurve(
        shift=log_shift, weight=log_weight[:n][::-1], bend=(-by_shift[:n] / rise[:n])[::-1], rise=rise[:n][::-1]
    )
