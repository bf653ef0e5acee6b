"""Joint price of a Gaussian survey of all rows and of rounds on a sample that are planned from its outcome.

The survey reads all rows, so its shift is not multiplied by a weight and must not be added to the shift of the rounds.
Instead, the privacy loss of the survey is averaged over a curve that every plan stays below, whatever the survey
released. The theorem is JOINT in `docs/theory/map.md`.
"""

from __future__ import annotations

import functools
import math

import numpy as np
from numpy.typing import NDArray
from scipy import special

from pais._base import validate
from pais._base.numerics import ULP, FloatArray, log_gaussian_delta, round_up, secant_guess, shrink_bracket
from pais.errors import UnreachableError
from pais.privacy.amplification import epsilon_at_delta, gaussian_delta, largest_shift

# The standard normal variable behind the survey's loss is divided into cells; beyond the last edge, one cell remains.
# Nine deviations leave 1e-19 outside; the width of the cells was chosen by eye (7b01a1d).
_EDGES = np.linspace(-9.0, 9.0, 1025)

# Relative room for the rounding errors of the sum over cells.
_ROOM = 1e-9

# Width of the final bracket of `delta_after`, in the logarithm of the shift, how far it searches, and the least share
# of delta that it leaves for the rounds. Shares that are smaller leave no room for noise of any use.
_TOLERANCE, _FARTHEST, _LEAST_SHARE = 1e-9, 8.0, 1e-28


def joint_delta(epsilon: float, *, survey_shift: float, rounds_epsilon: float, rounds_delta: float) -> float:
    """Delta, at `epsilon`, of a Gaussian survey and of the sampled Gaussian rounds that follow it, together.

    Parameters
    ----------
    epsilon : float
        The epsilon of the joint guarantee, > 0.
    survey_shift : float
        Gaussian shift of a record in all stages of the survey together: the root of the sum of their squares, > 0.
    rounds_epsilon, rounds_delta : float
        A price that the rounds alone never exceed. It is fixed before the survey. The rule, the noise, the ball and
        everything else may depend on what the survey released.

    Returns
    -------
    float
        An upper bound on delta for adding and for removing a record.

    Notes
    -----
    Guarantee. Never below the delta of survey and rounds, even if the plan that is worst for the outcome is chosen
    after each outcome: `tests/theory/test_joint.py`.

    Assumes. For every outcome, the rounds are a sampled Gaussian release as in `amplified_delta`.
    """
    epsilon, pivot = validate.target_epsilon(epsilon), validate.target_epsilon(rounds_epsilon)
    shift, delta = validate.positive("survey_shift", survey_shift), gaussian_delta(rounds_delta)
    return _price(epsilon, pivot, shift, _covering_shift(pivot, delta), delta)


def _price(epsilon: float, pivot: float, shift: float, mu: float, delta: float) -> float:
    """`joint_delta` for rounds within (pivot, delta), if the divergence of `mu` at `pivot` is at least `delta`."""
    both = round_up(np.array([math.hypot(mu, shift)]), 8.0)
    value, error = log_gaussian_delta(np.array([epsilon]), both)
    # No delta is above 1. The error bound of an absurd shift is large.
    composed = float(np.exp(np.minimum(value + error, 0.0))[0])  # [note: joint-survey-2]
    apart = (epsilon - pivot) / shift
    last = apart - 0.5 * shift + 8 * ULP * (abs(apart) + shift)
    edges = np.append(_EDGES[last > _EDGES], last)
    loss = shift * (0.5 * shift + edges[:-1])
    at = epsilon - loss + 16 * ULP * (epsilon + np.abs(loss))
    value, error = log_gaussian_delta(at, np.full_like(at, mu))
    # The lower edge of a cell has the smallest divergence. Nothing is known of the cell below the first edge.
    missing = np.append(delta, np.maximum(delta - np.exp(value - error), 0.0))  # [note: joint-survey-3]
    masses = np.diff(special.ndtr(edges), prepend=0.0)
    beyond = delta * special.ndtr(0.5 * shift - (epsilon + pivot) / shift)
    total = composed + float(masses @ missing) + float(beyond)
    return min(total + _ROOM * (composed + delta), 1.0)  # [note: joint-survey-4]


def _covering_shift(epsilon: float, delta: float) -> float:
    """A shift whose divergence at epsilon, without sampling, is at least delta; above the least one by rounding."""
    mu, margin = largest_shift(epsilon, delta), 1e-12
    while True:
        raised = mu * (1.0 + margin)
        value, error = log_gaussian_delta(np.array([epsilon]), np.array([raised]))
        if value[0] - error[0] >= math.log(delta) + 4 * ULP * abs(math.log(delta)):  # [note: joint-survey-1]
            return raised
        margin *= 4.0


@functools.lru_cache(maxsize=256)
def delta_after(epsilon: float, delta: float, *, survey_shift: float) -> float:
    """Largest delta of rounds at `epsilon` that meets (epsilon, delta) together with a Gaussian survey before them.

    Notes
    -----
    Guarantee. ``joint_delta`` of the result is at most `delta`: `tests/theory/test_joint.py`.
    """
    epsilon, delta = validate.target_epsilon(epsilon), gaussian_delta(delta)
    shift = validate.positive("survey_shift", survey_shift)
    most = largest_shift(epsilon, delta)

    def rounds_delta(mu: FloatArray) -> float:
        value, error = log_gaussian_delta(np.array([epsilon]), mu)
        return float(np.exp(value - error)[0])

    def excess(log_share: FloatArray, _: NDArray[np.intp] | None = None) -> FloatArray:
        # Searching for the shift needs no inverse: the shift covers the delta that is computed from it.
        mu = most * np.exp(log_share)
        price = _price(epsilon, epsilon, shift, float(mu[0]), rounds_delta(mu))
        return np.array([math.log(price / delta) if price <= delta else max(math.log(price / delta), ULP)])

    # Where the squares of the shifts add up to that of the target, the first term of the price alone is delta.
    high, step = np.array([0.5 * math.log1p(-(min(shift / most, 1.0 - 1e-9) ** 2))]), 0.01
    value_high, value_low = excess(high), excess(high - step)
    while value_low[0] > 0.0 and step < _FARTHEST:
        step *= 2.0
        value_low = excess(high - step)
    if value_low[0] <= 0.0:
        ends = {"value_low": value_low, "value_high": value_high}
        guess = secant_guess(excess, high - step, high, **ends)
        low, _ = shrink_bracket(
            excess, high - step, high, **ends, tolerance=_TOLERANCE, guess=guess
        )  # [note: joint-survey-5]
        rounds = rounds_delta(most * np.exp(low)) * (1.0 - _ROOM)
        if rounds > _LEAST_SHARE * delta:
            return rounds
    raise UnreachableError(
        f"survey_shift={shift!r} leaves nothing of epsilon={epsilon!r}, delta={delta!r} for the rounds. "
        f"Pass a shift well below {most:.6g}.",
        reachable=most,
    )


@functools.lru_cache(maxsize=256)
def kept_limit_of_rounds(limit: float, delta: float, *, survey_shift: float, rounds_delta: float) -> float:
    """Largest epsilon of a kept record in the rounds alone, at `rounds_delta`, that meets a limit with the survey.

    Given that a record was kept, survey and rounds are two Gaussian releases without sampling. Their shifts add in
    squares, and the result must meet (limit, delta).

    Notes
    -----
    Guarantee. The shift of (result, rounds_delta) and the shift of the survey together meet (limit, delta):
    `tests/theory/test_joint.py`.
    """
    most = largest_shift(limit, delta)
    if not survey_shift < most:
        raise UnreachableError(
            f"survey_shift={survey_shift!r} leaves nothing of max_epsilon_if_kept={limit!r} for the rounds. State a "
            "larger limit.",
            reachable=most,
        )
    own = math.sqrt((most - survey_shift) * (most + survey_shift)) * (1.0 - _ROOM)
    return float(epsilon_at_delta(rounds_delta, own, 1.0)) * (1.0 - _ROOM)  # [note: joint-survey-6]
