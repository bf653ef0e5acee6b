"""A bracketing root finder for arrays of independent, increasing scalar functions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from pais._base.numerics import ULP, FloatArray
from pais.errors import ConvergenceError

Objective = Callable[[FloatArray, NDArray[np.intp]], FloatArray]

# Number of steps by which the interpolation may fall behind bisection before it must keep pace with it.
_SLACK_STEPS = 3

# Distances from a guess at which the search starts, in units of the tolerance.
_SIDES = (-0.4, 0.4)


def shrink_bracket(
    objective: Objective,
    low: FloatArray,
    high: FloatArray,
    *,
    value_low: FloatArray,
    value_high: FloatArray,
    tolerance: float,
    guess: FloatArray | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Shrink each bracket [low, high] with objective(low) <= 0 < objective(high) to `tolerance`.

    Parameters
    ----------
    objective : callable
        ``objective(points, index)``: returns the values at `points` for the elements `index`.
        It is called only for elements that have not converged.
    value_low, value_high : arrays
        The objective at the ends. Infinite values are allowed; they make the search slower but not wrong.
    tolerance : float
        Largest absolute width of a returned bracket, but at least two ulps of its ends.
    guess : array, optional
        Points near the roots. The search tries both sides of each first.

    Returns
    -------
    low, high : arrays
        The final brackets. The objective was evaluated as <= 0 at every `low` and as > 0 at every `high`.

    Notes
    -----
    The method is ITP: interpolate, truncate, project (Oliveira and Takahashi, 2020). It takes at most three
    evaluations more than bisection, ceil(log2(width/tolerance)) + 3, and usually far fewer.
    """
    low, high = low.copy(), high.copy()
    value_low, value_high = value_low.copy(), value_high.copy()
    width = high - low
    target = np.maximum(tolerance, 2.0 * ULP * np.maximum(np.abs(low), np.abs(high)))
    halvings = np.ceil(np.log2(np.maximum(width / target, 1.0)))
    # Half the target, because ITP measures half-widths.
    radius = 0.5 * target * np.exp2(halvings + _SLACK_STEPS)
    damping = 0.2 / np.maximum(width, target)
    steps = int(np.max(halvings, initial=0.0)) + _SLACK_STEPS + 1
    for side in (*(_SIDES if guess is not None else ()), *(0.0,) * steps):
        active = np.flatnonzero(high - low > target)
        if active.size == 0:
            return low, high
        a, b = low[active], high[active]
        if guess is not None and side:
            points = guess[active] + side * target[active]
            points = np.where((points > a) & (points < b), points, 0.5 * (a + b))
        else:
            # Move the point past the root by at least half a target, or the far end of the bracket would never move.
            push = np.maximum(damping[active] * (b - a) ** 2, 0.5 * target[active])
            points = _itp_point(a, b, value_low[active], value_high[active], radius[active], push)
            radius[active] *= 0.5
        values = objective(points, active)
        feasible = values <= 0.0  # [note: root-1]
        low[active[feasible]] = points[feasible]
        value_low[active[feasible]] = values[feasible]
        high[active[~feasible]] = points[~feasible]
        value_high[active[~feasible]] = values[~feasible]
    if np.any(high - low > target):
        raise ConvergenceError("a root was not found within its tolerance. No value is returned.")
    return low, high


def secant_guess(
    objective: Objective, low: FloatArray, high: FloatArray, *, value_low: FloatArray, value_high: FloatArray
) -> FloatArray:
    """Points near the roots, for `shrink_bracket`: three secant steps. They are not checked, and may be NaN."""
    index = np.arange(low.size)
    with np.errstate(invalid="ignore", divide="ignore"):
        for _ in range(2):
            point = high - value_high * (high - low) / (value_high - value_low)
            low, value_low, high, value_high = high, value_high, point, objective(point, index)
        return high - value_high * (high - low) / (value_high - value_low)


def _itp_point(
    a: FloatArray, b: FloatArray, fa: FloatArray, fb: FloatArray, radius: FloatArray, push: FloatArray
) -> FloatArray:
    middle = 0.5 * (a + b)
    # Interpolation is useless between values of very different size. asinh makes them similar and keeps the root.
    fa, fb = np.arcsinh(fa), np.arcsinh(fb)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        secant = (fb * a - fa * b) / (fb - fa)
    secant = np.where(np.isfinite(secant), secant, middle)
    toward = np.sign(middle - secant)
    moved = np.where(push <= np.abs(middle - secant), secant + toward * push, middle)
    reach = np.maximum(radius - 0.5 * (b - a), 0.0)
    return np.where(np.abs(moved - middle) <= reach, moved, middle - toward * reach)
