"""Search for the largest weight of the interval from weight 1 on which a constraint holds."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pais._base.numerics import FloatArray, round_down
from pais._base.rootfind import Objective, shrink_bracket
from pais.errors import AssumptionError
from pais.privacy.rules.base import SMALLEST_PROBABILITY

#: The largest weight: the inverse of the smallest probability that any rule may assign.
WEIGHT_CAP = 1.0 / SMALLEST_PROBABILITY

# Final width of the solver brackets, in log(weight).
_LOG_TOLERANCE = 2e-14

#: Losses of kept records stay below this fraction of their limit, to cover the rounding of look-up and certificate.
KEPT_ROOM = 1.0 - 1e-12


def limited(weights: FloatArray, at_one: FloatArray, limit: float) -> FloatArray:
    """Lower the weights until weight * at_one meets the limit. Weight 1 is always within the target."""
    with np.errstate(divide="ignore", over="ignore"):
        return np.clip(limit * KEPT_ROOM / at_one, 1.0, weights)  # [note: kept-2]


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
