"""First crossings of Gaussian noise as a curve: a close guess of each weight, which the caller then checks.

A record's weight depends on its norm only through its Gaussian shift at weight 1. So one curve serves all norms, all
noise scales and all profiles of a target.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from pais._base.numerics import FloatArray, log_gaussian_delta
from pais.privacy.amplification import log_tilted_ratio

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
def crossing_curve(epsilon: float, delta: float, largest_weight: float) -> CrossingCurve:
    """Curve of first crossings for a target. It is empty if delta is not small."""
    log_weight = np.linspace(0.0, max(min(math.log(largest_weight), math.log(0.5 / delta)), 1e-3), _POINTS)
    log_ratio = log_tilted_ratio(np.full(_POINTS, epsilon), np.exp(-log_weight))
    log_target = np.minimum(math.log(delta) + log_weight, -1e-3)
    # The divergence is below Phi(mu/2 - L/mu), so these first shifts are too small. The logarithm of the divergence is
    # concave in log(mu), so Newton's steps approach the root from below.
    quantile = special.ndtri_exp(log_target)
    mu = 2.0 * log_ratio / (np.sqrt(quantile * quantile + 2.0 * log_ratio) - quantile)
    for _ in range(40):
        value, _ = log_gaussian_delta(log_ratio, mu)
        by_shift = mu * _density(log_ratio / mu - 0.5 * mu, value)
        step = (log_target - value) / by_shift
        mu *= np.exp(np.clip(step, -1.0, 1.0))
        if np.max(np.abs(step)) < 1e-13:
            break
    a = log_ratio / mu - 0.5 * mu
    by_shift = mu * _density(a, log_target)
    rise = by_shift - (special.ndtr(-a) - special.ndtr(-a - mu)) * np.exp(-log_target)
    n = int(np.argmin(np.append(rise > _FLATTEST * by_shift, False)))
    log_shift = (np.log(mu) - log_weight)[:n][::-1]
    return CrossingCurve(
        shift=log_shift, weight=log_weight[:n][::-1], bend=(-by_shift[:n] / rise[:n])[::-1], rise=rise[:n][::-1]
    )


def _density(a: FloatArray, log_divisor: FloatArray) -> FloatArray:
    """Normal density at `a`, divided by a number that is given as its logarithm."""
    return np.asarray(np.exp(-0.5 * a * a - 0.5 * math.log(2 * math.pi) - log_divisor))
