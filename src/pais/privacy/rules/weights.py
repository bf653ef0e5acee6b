"""The largest weight that a record can have within a guarantee (CONSTRAINED).

There are three solvers: a closed form for linear losses, Algorithm 1 for any pure loss, and the first crossing
for Gaussian noise. Each returns a weight at which its constraint holds. `ConstrainedRule` builds its table from them.
"""

from __future__ import annotations

import math
from typing import overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pais._base import validate
from pais._base.numerics import (
    LARGE,
    ULP,
    FloatArray,
    log_exprel,
    round_down,
)
from pais.errors import MismatchError, UnreachableError
from pais.privacy.amplification import kept_limit, largest_shift
from pais.privacy.profiles import LinearProfile, Profile, PureProfile, ShiftProfile
from pais.privacy.rules.climb import KEPT_ROOM, WEIGHT_CAP, climb, limited
from pais.privacy.rules.crossing import first_crossing_weight


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
        if delta == 0.0:
            raise MismatchError("delta=0.0 gives no guarantee with Gaussian noise. Pass delta > 0.")
        at_one = profile.shift(norm)
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


def _require_feasible(at_one: FloatArray, epsilon: float) -> None:
    if np.any(at_one > epsilon):
        raise UnreachableError(
            f"epsilon={epsilon!r} is below the loss at some norm, even without sampling. "
            "Raise epsilon or the noise, or clip to a smaller radius.",
            reachable=float("nan"),
        )
