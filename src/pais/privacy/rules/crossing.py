"""Weights for Gaussian noise: the first crossing of delta and its target.

A record's weight depends on its norm only through its Gaussian shift at weight 1. So one curve for a target gives a
close guess of the weight at all norms, noise scales and profiles. Each weight is then checked.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from pais._base.numerics import FloatArray, log_gaussian_delta_rises
from pais._base.rootfind import Objective
from pais.errors import UnreachableError
from pais.privacy.amplification import (
    approximate_shift,
    density_over,
    largest_shift,
    log_amplified_delta,
    log_tilted_ratio,
)
from pais.privacy.rules.climb import WEIGHT_CAP, climb, limited, rounded

# Relative slack in delta, larger than the rounding errors of delta(epsilon) and of its inverse.
_DELTA_SLACK = 1e-11

# Number of times that a guess of a weight is improved before a slower search takes over.
_REFINEMENTS = 4

# Replaces a shift of zero as a divisor. Delta is zero there, so the quotient does not matter.
_TINY_SHIFT = 1e-300

# Number of points of a curve. More of them make the guess better, and the curve slower to compute.
_POINTS = 256

# The curve ends where delta rises along the weight by less than this share of its rise along the shift.
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
