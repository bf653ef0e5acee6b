"""Delta of many steps of Poisson-sampled Gaussian noise, as an upper bound.

In each of T steps a record joins with probability q, and then moves the noise by `shift` deviations. The privacy losses
of the steps are independent and add up. One step is replaced by a pair of distributions on a grid of losses that
dominates it, and the sum of T losses is computed with one Fourier transform of tilted masses.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import numpy as np
from scipy import fft, special

from pais._base.numerics import ULP, FloatArray
from pais.errors import ConvergenceError

# Width of a cell of losses over the deviation of one step's loss. The cells add a share of about width^2 / 6 to the
# variance of the losses, here 4e-4, so noise is about 2e-4 too large.
_WIDTH = 0.05

# Probability that any loss is beyond the ends of the grid. It is added to delta, and is far below 1e-4 of any delta in
# use.
_BEYOND = 1e-18

# A finer grid than this has no place in memory; a step with fewer cells is refined. Chosen by eye.
_MOST_CELLS, _FEWEST_CELLS = 2**19, 200

# The bound on the probability of sums beyond the window may have this logarithm, relative to the delta. Chosen by eye.
_LOG_OVER = -25.0

# Far above every epsilon in use, and far below what a double holds as an exponential.
_LARGEST_LOSS = 400.0

# Blocks of cells for Chernoff's bound on each side of the loss 0, chosen by eye: only speed and tightness depend on it.
_BLOCKS = 300

# Every mass is raised by this share, more than the rounding error of a difference of two normal tails.
_RAISED = 1.0 + 1e-12


class Losses(NamedTuple):
    """Masses of the loss of one step at the multiples `first`, `first + 1`, ... of `width`, and the mass beyond."""

    width: float
    first: int
    mass: FloatArray
    beyond: float


def step_losses(rate: float, shift: float, *, width: float, beyond: float, adding: bool) -> Losses:
    """A distribution of losses on a grid that dominates one step, for removing or for adding the record.

    Each cell of losses is replaced by its two ends. The masses at the ends are such that both distributions of the pair
    keep their mass in the cell.
    """
    # Noise z, so that the loss of removing is log(1 - q + q exp(shift z - shift^2 / 2)); adding has the negative loss.
    far = -float(special.ndtri(beyond))
    ends = _loss(np.array([-far, far + shift]), rate, shift)
    low, high = (-ends[1], -ends[0]) if adding else (ends[0], ends[1])
    # All losses are above log(1 - q) for removing and below -log(1 - q) for adding.
    # Losses above a limit count as infinite, so that no exponential overflows.
    high = min(high, _LARGEST_LOSS)
    first, last = math.floor(low / width), max(math.ceil(high / width), math.floor(low / width) + 2)
    loss = width * np.arange(first, last + 1)
    z = _noise(-loss if adding else loss, rate, shift)
    without = _masses(z, 0.0, adding)
    joined = (1.0 - rate) * without + rate * _masses(z, shift, adding)
    ours, theirs = (without, joined) if adding else (joined, without)
    mass, other = ours[1:-1] * _RAISED, theirs[1:-1]
    # Upper end: (mass - other e^loss) / (1 - e^-width), raised by more than its rounding error. [note: training-1]
    upper = (mass - other * np.exp(loss[:-1])) / -math.expm1(-width) + 64 * ULP * mass / width
    upper = np.clip(upper, 0.0, mass)
    total = np.append(mass - upper, 0.0)
    total[1:] += upper
    total[0] += ours[0] * _RAISED  # [note: training-2]
    return Losses(width=width, first=first, mass=total, beyond=float(ours[-1]) * _RAISED)


def _loss(z: FloatArray, rate: float, shift: float) -> FloatArray:
    with np.errstate(divide="ignore"):
        return np.asarray(np.logaddexp(np.log1p(-rate), math.log(rate) + shift * z - 0.5 * shift * shift))


def _noise(loss: FloatArray, rate: float, shift: float) -> FloatArray:
    """The noise at which the loss of removing a record has this value; -inf for losses that never occur."""
    inside = np.expm1(np.minimum(loss, 600.0)) / rate + 1.0
    with np.errstate(divide="ignore"):
        log_inside = np.where(loss < 600.0, np.log(np.maximum(inside, 0.0)), loss - math.log(rate))
    return np.asarray(log_inside / shift + 0.5 * shift)


def _masses(z: FloatArray, mean: float, falling: bool) -> FloatArray:
    """Normal probability below the first point, between neighbouring points, and beyond the last one."""
    below, above = special.ndtr(z - mean), special.ndtr(mean - z)
    if falling:
        below, above = above, below
    # Each difference is taken on the side where the tails are small.
    between = np.where(below[1:] < 0.5, below[1:] - below[:-1], above[:-1] - above[1:])
    return np.concatenate([[below[0]], np.maximum(between, 0.0), [above[-1]]])


def sampled_delta(
    epsilon: float, *, rate: float, shift: float, n_steps: int, adding: bool | None = None, coarse: float = 1.0
) -> float:
    """Upper bound on the delta of T steps at epsilon, for removing or adding a record; by default the larger one.

    Parameters
    ----------
    epsilon : float
        Of the guarantee; > 0.
    rate : float
        Probability of joining a step, in (0, 1].
    shift : float
        Shift of the noise in its standard deviations in a step that the record joins; > 0.
    n_steps : int
        Number of steps.
    adding : bool, optional
        False for removing the record, True for adding it, None for the larger of both.
    coarse : float
        Makes the cells of losses wider by this factor. The bound is then less tight and takes less time.

    Notes
    -----
    Guarantee. Never below the exact delta, while delta >= 1e-15; about 1e-3 (relative) above it:
    `tests/theory/test_training.py`.

    Assumes. The coins of a record are independent of those of the others, and of each other.
    """
    if adding is None:
        return max(_composed(epsilon, rate, shift, n_steps, way, coarse) for way in (False, True))
    return _composed(epsilon, rate, shift, n_steps, adding, coarse)


@functools.lru_cache(maxsize=4096)
def _composed(epsilon: float, rate: float, shift: float, n_steps: int, adding: bool, coarse: float) -> float:
    width = _cell_width(epsilon, rate, shift, coarse)
    losses = step_losses(rate, shift, width=width, beyond=_BEYOND / n_steps, adding=adding)
    return min(1.0, _beyond(epsilon * (1.0 - 1e-12), losses, n_steps))


def _cell_width(epsilon: float, rate: float, shift: float, coarse: float) -> float:
    """A small share of the deviation of one step's loss; the deviation is that of the likelihood ratio or less."""
    ratio = rate * math.sqrt(math.expm1(min(shift * shift, 50.0)))
    # A ratio of large deviation has a loss of deviation near its logarithm.
    deviation = min(ratio, math.sqrt(rate) * shift if ratio > 1.0 else ratio, shift)
    width = coarse * min(_WIDTH * deviation, epsilon / _FEWEST_CELLS)
    return max(width, shift * (9.0 + shift) * coarse * coarse / _MOST_CELLS)


def _beyond(epsilon: float, losses: Losses, n_steps: int) -> float:
    """E[(1 - exp(epsilon - loss))+] of the sum of the losses, from above."""
    width, mass = losses.width, losses.mass
    loss = width * (losses.first + np.arange(mass.size))
    infinite = -math.expm1(n_steps * math.log1p(-min(losses.beyond, 1.0 - ULP)))
    ends, block = _blocks(np.asarray(loss), mass, losses.first)
    tilt = _tilt(epsilon, ends, block, n_steps)
    exponent = tilt * loss
    largest = float(exponent.max())
    tilted = mass * np.exp(exponent - largest)
    moment = float(tilted.sum())
    tilted /= moment
    log_moment = math.log(moment) + largest
    mean = float(tilted @ loss)
    deviation = math.sqrt(max(float(tilted @ (loss - mean) ** 2), 0.0) * n_steps)
    # The window around the tilted sum. Masses above it are bounded by Chernoff; masses below it wrap to larger losses.
    high = epsilon + 9.0 * deviation
    log_over = math.inf
    while True:
        log_over = _log_chernoff(high, ends, block, n_steps, start=tilt)
        if log_over < n_steps * log_moment - tilt * epsilon + _LOG_OVER or high >= n_steps * loss[-1]:
            break
        high += 3.0 * deviation + 10.0 * width
    low = min(n_steps * mean - 9.0 * deviation, epsilon)
    size = fft.next_fast_len(max(int((high - low) / width) + 16, mass.size), real=True)
    if size > 32 * _MOST_CELLS:
        raise ConvergenceError("the losses of these steps need too fine a grid. Use fewer steps or more noise.")
    spectrum = fft.rfft(tilted, size)
    power = np.abs(spectrum)
    # Coefficients whose power is below e^-80 are left out; `rounding` is far larger than all of them together.
    kept = np.flatnonzero(power > math.exp(-80.0 / n_steps))
    raised = np.zeros_like(spectrum)
    raised[kept] = spectrum[kept] ** n_steps
    summed = fft.irfft(raised, size)
    # Sum number k stands for the losses n_steps * first + k + m * size; take the ones above the lower end.
    lowest = math.ceil(low / width)
    number = lowest + (np.arange(size) + n_steps * losses.first - lowest) % size
    value = width * number
    over = value > epsilon
    weight = np.exp(n_steps * log_moment - tilt * epsilon) * np.exp(-tilt * (value[over] - epsilon))
    tail = float(np.maximum(summed[over], 0.0) @ (weight * -np.expm1(epsilon - value[over])))
    # Rounding of the transform: each coefficient has an error of at most `unit`, and T powers multiply it by T.
    unit = 8.0 * ULP * math.log2(size)
    energy = math.sqrt(2.0 * float(np.sum(np.minimum(power, 1.0) ** (2 * n_steps - 2))) + 1.0)
    rounding = math.exp(n_steps * log_moment - tilt * epsilon) * (n_steps + 2) * unit * energy  # [note: training-3]
    over_all = math.exp(log_over) if high < n_steps * loss[-1] else 0.0  # [note: training-4]
    return (tail + rounding) * (1.0 + 1e-9) + over_all + infinite


def _blocks(loss: FloatArray, mass: FloatArray, first: int) -> tuple[FloatArray, FloatArray]:
    """Fewer losses: each block of masses is replaced by its two ends with the same mean, which raises all moments."""
    steps = np.unique(np.geomspace(1.0, loss.size + 1.0, _BLOCKS).astype(np.int64))
    starts = np.concatenate([-steps[::-1], [0], steps]) - first
    starts = np.append(0, starts[(starts > 0) & (starts < loss.size)])
    last = np.append(starts[1:], loss.size) - 1
    whole, low, high = np.add.reduceat(mass, starts), loss[starts], loss[last]
    above = np.add.reduceat(mass * loss, starts) - whole * low
    share = np.clip(above / np.where(high > low, high - low, 1.0) * (1.0 + 1e-9), 0.0, whole)
    return np.concatenate([low, high]), np.concatenate([whole - share, share])


def _log_moments(tilts: FloatArray, loss: FloatArray, mass: FloatArray) -> FloatArray:
    terms = np.log(np.maximum(mass, 1e-300)) + tilts[:, None] * loss
    largest = terms.max(axis=1)
    return np.asarray(largest + np.log(np.exp(terms - largest[:, None]).sum(axis=1)))


def _tilt(epsilon: float, loss: FloatArray, mass: FloatArray, n_steps: int) -> float:
    """A tilt under which the sum is about epsilon on average. Any tilt is valid."""
    tilts = np.concatenate([[0.0], np.geomspace(0.01, 1e4, 61)])
    exponents = n_steps * _log_moments(tilts, loss, mass) - tilts * epsilon
    return float(tilts[np.argmin(exponents)])


def _log_chernoff(point: float, loss: FloatArray, mass: FloatArray, n_steps: int, *, start: float) -> float:
    """Logarithm of a bound on the probability that the sum exceeds a point."""
    tilts = start + np.array([0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0]) * max(start, 1.0)
    return float(np.min(n_steps * _log_moments(tilts, loss, mass) - tilts * point))
