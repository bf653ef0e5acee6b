"""Privacy amplification by sampling, and the joint price of a survey and a release.

The first part has the loss of a record that is kept with some probability. The second part prices a Gaussian survey of
all rows together with rounds on a sample that are planned from its outcome. The survey reads all rows, so its shift is
not multiplied by a weight and must not be added to the shift of the rounds. Instead, the privacy loss of the survey is
averaged over a curve that every plan stays below, whatever the survey released. The theorem is JOINT in
`docs/theory/map.md`.
"""

from __future__ import annotations

import functools
import math
from typing import overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from pais._base import validate
from pais._base.numerics import (
    LARGE,
    ULP,
    FloatArray,
    log_expm1,
    log_gaussian_delta,
    log_gaussian_delta_at,
    mills,
    round_up,
    secant_guess,
    shrink_bracket,
)
from pais.errors import ArgumentError, MismatchError, UnreachableError

#: The smallest positive double.
SUBNORMAL = 2.0**-1074

# A bracket on log(kappa) this narrow changes epsilon by less than the rounding error of epsilon.
_INVERSE_TOLERANCE = 1e-13

# Newton's method for a first guess: largest number of steps, of which few numbers need more than six; the step after
# which it stops; and the step from which on rounding errors are its cause. Only speed depends on them.
_NEWTON_STEPS, _SMALL_STEP, _LONGEST_STEP = 12, 1e-9, 10.0

#: Default limit on the epsilon of a record that is known to be in the sample: the target epsilon plus this margin. It
#: allows weights of about e^15, three million; chosen by eye (cab958b).
KEPT_MARGIN = 15.0


@overload
def amplified_epsilon(epsilon: float, probability: float) -> float: ...
@overload
def amplified_epsilon(epsilon: ArrayLike, probability: ArrayLike) -> FloatArray: ...
def amplified_epsilon(epsilon: ArrayLike, probability: ArrayLike) -> float | FloatArray:
    """Privacy loss of a record that is sampled with a given probability (AMPLIFY).

    Parameters
    ----------
    epsilon : float or array
        Loss of the record when it is in the sample, at its weight; >= 0.
    probability : float or array
        Probability q of being in the sample, in (0, 1].

    Returns
    -------
    float or array
        log(1 + q (e^epsilon - 1)), rounded up.

    Notes
    -----
    Guarantee. Never below the exact value and at most 1e-12 (relative) above it, for epsilon from
    0 to 1000 and beyond: `tests/theory/test_amplified_epsilon.py`.

    Assumes. Sampling is independent (Poisson), the probability is a public function of the record
    alone, and neighbouring data sets differ by adding or removing one record.

    Examples
    --------
    >>> import pais
    >>> round(pais.amplified_epsilon(1.0, 0.1), 6)
    0.158565
    """
    return _scalar_or_array(
        amplify_epsilon(*validate.broadcast(validate.losses("epsilon", epsilon), validate.probabilities(probability)))
    )


@overload
def amplified_delta(epsilon: float, mu: float, probability: float) -> float: ...
@overload
def amplified_delta(epsilon: ArrayLike, mu: ArrayLike, probability: ArrayLike) -> FloatArray: ...
def amplified_delta(epsilon: ArrayLike, mu: ArrayLike, probability: ArrayLike) -> float | FloatArray:
    """Delta of a sampled Gaussian release at a given epsilon (GAUSS-SAMPLED).

    Parameters
    ----------
    epsilon : float or array
        The epsilon of the guarantee, >= 0.
    mu : float or array
        Gaussian shift of the record when it is in the sample, at its weight; >= 0.
    probability : float or array
        Probability q of being in the sample, in (0, 1].

    Returns
    -------
    float or array
        The larger of the deltas for adding and for removing a record, rounded up.

    Notes
    -----
    The two output distributions are (1-q) N(0,1) + q N(mu,1) and N(0,1). Removing a record gives
    q * G(log(1 + (e^epsilon - 1)/q), mu), where G is the divergence of the Gaussian pair without sampling.
    Adding a record never gives a larger delta for epsilon >= 0 (`docs/theory/notes/gauss.md`), so the
    function computes only the first direction.

    Guarantee. Never below the exact value and at most 1e-11 (relative) above it while delta >= 1e-300:
    `tests/theory/test_amplified_delta.py`.

    Examples
    --------
    >>> import pais
    >>> f"{pais.amplified_delta(0.08808844, 1/3, 0.04):.3e}"
    '1.000e-06'
    """
    arrays = validate.broadcast(
        validate.losses("epsilon", epsilon), validate.losses("mu", mu), validate.probabilities(probability)
    )
    # Adding the smallest subnormal keeps the result above the exact value where exp underflows.
    delta = np.exp(log_amplified_delta(*arrays)) * (1 + 4 * ULP) + SUBNORMAL
    return _scalar_or_array(np.where(arrays[1] > 0.0, np.minimum(delta, 1.0), 0.0))


@overload
def epsilon_at_delta(delta: float, mu: float, probability: float) -> float: ...
@overload
def epsilon_at_delta(delta: ArrayLike, mu: ArrayLike, probability: ArrayLike) -> FloatArray: ...
def epsilon_at_delta(delta: ArrayLike, mu: ArrayLike, probability: ArrayLike) -> float | FloatArray:
    """Smallest epsilon of a sampled Gaussian release at a given delta: the inverse of `amplified_delta`.

    Parameters
    ----------
    delta : float or array
        In (0, 1); Gaussian noise has no guarantee at delta = 0.
    mu, probability : float or array
        As in `amplified_delta`.

    Notes
    -----
    Guarantee. ``amplified_delta(epsilon_at_delta(delta, mu, q), mu, q) <= delta``:
    `tests/theory/test_amplified_delta.py`.
    """
    delta = validate.real_array("delta", delta)
    if not np.all((delta > 0.0) & (delta < 1.0)):
        raise ArgumentError("delta holds an entry outside (0, 1). Pass small positive numbers such as 1e-6.")
    arrays = validate.broadcast(delta, validate.losses("mu", mu), validate.probabilities(probability))
    flat = invert_delta(*(array.ravel() for array in arrays))
    return _scalar_or_array(flat.reshape(arrays[0].shape))


def gaussian_delta(delta: float) -> float:
    """Validate a delta for Gaussian noise, which must be positive."""
    if validate.target_delta(delta) == 0.0:
        raise MismatchError("delta=0.0 gives no guarantee with Gaussian noise. Pass delta > 0.")
    return float(delta)


def kept_limit(epsilon: float, limit: float | None) -> float:
    """Limit on the epsilon of a record given that it was sampled: the stated limit, or epsilon + 15."""
    return epsilon + KEPT_MARGIN if limit is None else limit


@functools.lru_cache(maxsize=256)
def largest_shift(epsilon: float, delta: float) -> float:
    """Largest Gaussian shift that satisfies (epsilon, delta) without sampling, rounded down.

    Notes
    -----
    Guarantee. The divergence of the returned shift at epsilon is at most delta, and a shift larger by 1e-9 exceeds it:
    `tests/theory/test_kept_records.py`.
    """
    log_delta, ratio = math.log(delta), np.array([epsilon])

    def excess_at(log_shift: float) -> float:
        value, error = log_gaussian_delta_at(epsilon, float(np.exp(log_shift)))
        return value + error - log_delta

    guess, tolerance = np.log(approximate_shift(ratio, np.array([log_delta]))), 1e-12
    # Both sides of the guess, a bracket as narrow as that of the search below, whose low end is returned too.
    at, side = float(guess[0]), 0.4 * max(tolerance, 2.0 * ULP * (abs(float(guess[0])) + 1e-3))
    if excess_at(at - side) <= 0.0 < excess_at(at + side):
        return float(np.exp(at - side)) * (1.0 - 1e-13)

    def excess(log_shift: FloatArray, _: NDArray[np.intp] | None = None) -> FloatArray:
        return np.array([excess_at(value) for value in log_shift.tolist()])

    width = 1e-3
    values = excess(guess + np.array([-width, width]))
    # For a large shift the divergence is at least Phi(mu/2 - epsilon/mu) - 1/2, so the search for the ends is short.
    while not values[0] <= 0.0 < values[1]:
        width *= 8.0
        values = excess(guess + np.array([-width, width]))
    low, _ = shrink_bracket(
        excess,
        guess - width,
        guess + width,
        value_low=values[:1],
        value_high=values[1:],
        tolerance=tolerance,
        guess=guess,
    )  # [note: kept-1]
    return float(np.exp(low[0])) * (1.0 - 1e-13)


def approximate_shift(log_ratio: FloatArray, log_target: FloatArray) -> FloatArray:
    """About the Gaussian shifts whose divergences at L are the targets, which must be well below 1. Not checked."""
    log_target = np.minimum(log_target, -1e-3)
    # The divergence is below Phi(mu/2 - L/mu) and below mu / sqrt(2 pi), so these first shifts are too small. The
    # logarithm of the divergence is concave in log(mu), so Newton's steps approach the root from below.
    quantile = np.minimum(special.ndtri_exp(log_target), 0.0)
    mu: FloatArray = 2.0 * log_ratio / (np.sqrt(quantile * quantile + 2.0 * log_ratio) - quantile)
    mu = np.maximum(mu, 2.5 * np.exp(log_target))
    step, left = np.ones_like(mu), _NEWTON_STEPS
    # Newton's method doubles the number of digits, so the error after a small step is negligible.
    while left and np.max(np.abs(step)) > _SMALL_STEP:
        value, _ = log_gaussian_delta(log_ratio, mu)
        with np.errstate(all="ignore"):
            step = (log_target - value) / (mu * density_over(log_ratio / mu - 0.5 * mu, value))
        step = np.where(np.abs(step) < _LONGEST_STEP, step, 0.0)
        mu, left = mu * np.exp(step), left - 1
    return mu


def density_over(a: FloatArray, log_divisor: FloatArray) -> FloatArray:
    """Normal density at `a`, divided by a number that is given as its logarithm."""
    return np.asarray(np.exp(-0.5 * a * a - 0.5 * math.log(2 * math.pi) - log_divisor))


def amplify_epsilon(epsilon: FloatArray, probability: FloatArray) -> FloatArray:
    """`amplified_epsilon` for validated float arrays; an infinite epsilon stays infinite."""
    small = np.log1p(probability * np.expm1(np.minimum(epsilon, LARGE)))  # [note: amplify-1]
    # Beyond LARGE the -1 is negligible next to q e^epsilon, even for the smallest q that occurs.
    large = np.logaddexp(np.log1p(-np.minimum(probability, 0.5)), epsilon + np.log(probability))
    raised = round_up(np.where(epsilon <= LARGE, small, np.maximum(large, small)), 8.0)  # [note: amplify-2]
    # The rounding error of epsilon + log(q) is proportional to epsilon, not to the result.
    raised = np.where(epsilon <= LARGE, raised, raised + 4 * ULP * np.minimum(epsilon, 1e300) * -np.expm1(-raised))
    # If the product underflows to zero, return the smallest positive double, which is still an upper bound.
    raised = np.where((raised == 0.0) & (epsilon > 0.0), SUBNORMAL, raised)
    return np.where(probability >= 1.0, epsilon, np.minimum(raised, epsilon))  # [note: amplify-3]


def log_amplified_delta(epsilon: FloatArray, mu: FloatArray, probability: FloatArray) -> FloatArray:
    """Logarithm of `amplified_delta` for validated arrays, plus its error bound; -inf where mu is 0."""
    log_ratio = log_tilted_ratio(epsilon, probability)  # [note: delta-1]
    safe_mu = np.where(mu > 0.0, mu, 1.0)
    value, error = log_gaussian_delta(log_ratio, safe_mu)
    log_delta = np.log(probability) + value  # [note: delta-2]
    finite = np.maximum(log_delta, -1e300)
    log_delta = np.where(log_delta > -1e300, finite + error + 4 * ULP * np.abs(finite), log_delta)  # [note: delta-3]
    return np.where(mu > 0.0, np.minimum(log_delta, 0.0), -np.inf)


def log_tilted_ratio(epsilon: FloatArray, probability: FloatArray) -> FloatArray:
    """log(1 + (e^epsilon - 1)/q): the threshold on the log likelihood ratio after sampling."""
    with np.errstate(over="ignore"):
        small: FloatArray = np.log1p(np.expm1(np.minimum(epsilon, LARGE)) / probability)
    if np.all(epsilon <= LARGE) and np.all(small < np.inf):
        return small
    # Where the quotient overflows, the 1 is negligible.
    large = log_expm1(np.maximum(epsilon, 1e-300)) - np.log(probability)
    return np.where((epsilon <= LARGE) & np.isfinite(small), small, large)


def invert_delta(delta: FloatArray, mu: FloatArray, probability: FloatArray) -> FloatArray:
    """`epsilon_at_delta` for validated flat arrays; an infinite mu gives an infinite epsilon."""
    epsilon = np.zeros_like(mu)
    # Treat a shift above 1e100 as infinite, and raise a positive shift below 1e-100 to 1e-100.
    mu = np.where(mu > 1e100, np.inf, np.where(mu > 0.0, np.maximum(mu, 1e-100), mu))
    log_delta, log_probability = np.log(delta), np.log(probability)
    # `log_amplified_delta` adds a rounding margin to its result; subtract the same margin from the target.
    slack = 8 * ULP * (8.0 - log_delta - log_probability)
    log_target = np.minimum(log_delta - log_probability, 0.0) - slack  # [note: inverse-1]
    # A record sampled with probability <= delta satisfies (0, delta), so its epsilon is 0.
    positive = (mu > 0.0) & (probability > delta)  # [note: inverse-2]
    solvable = np.flatnonzero(positive & np.isfinite(mu))
    if solvable.size:
        epsilon[solvable] = amplify_epsilon(_solve_log_ratio(log_target[solvable], mu[solvable]), probability[solvable])
    epsilon[positive & np.isinf(mu)] = np.inf
    return round_up(epsilon, 64.0)


def _solve_log_ratio(log_target: FloatArray, mu: FloatArray) -> FloatArray:
    """Smallest L >= 0 at which the Gaussian divergence for mu is at most exp(log_target), rounded up."""

    def excess(point: FloatArray, index: NDArray[np.intp]) -> FloatArray:
        value, error = log_gaussian_delta(point, mu[index])
        return np.asarray(log_target[index] - value - error)

    every_index = np.arange(mu.size)
    low = np.zeros_like(mu)
    # The divergence is below Phi(mu/2 - L/mu), which equals the target at this L.
    high = mu * (0.5 * mu + np.maximum(-special.ndtri_exp(log_target), 0.0)) * (1 + 1e-9) + 1e-300  # [note: inverse-3]
    guess = _approximate_log_ratio(log_target, mu, high)
    # Most guesses are so good that the root is between both sides of them.
    side = 0.4 * np.maximum(_INVERSE_TOLERANCE * np.min(high), 2.0 * ULP * high)
    answer = guess + side
    near = (guess > side) & (answer < high) & (excess(guess - side, every_index) <= 0.0)
    near &= excess(answer, every_index) > 0.0
    if np.all(near):
        return np.asarray(answer)
    value_low = excess(low, every_index)
    value_high = excess(high, every_index)
    # Elements that meet the target at L = 0 need no search. If rounding error hides the root at the
    # upper end of the bracket, keep the upper end, which is the safe side.
    done = (value_low >= 0.0) | (value_high <= 0.0)
    answer = np.where(near, answer, np.where(value_low >= 0.0, low, high))
    unsolved = np.flatnonzero(~done & ~near)
    if unsolved.size:
        # [note: inverse-4]
        _, answer[unsolved] = shrink_bracket(
            lambda point, index: excess(point, unsolved[index]),
            low[unsolved],
            high[unsolved],
            value_low=value_low[unsolved],
            value_high=value_high[unsolved],
            tolerance=_INVERSE_TOLERANCE * float(np.min(high[unsolved])),
            guess=guess[unsolved],
        )
    return answer


def _approximate_log_ratio(log_target: FloatArray, mu: FloatArray, high: FloatArray) -> FloatArray:
    """About the L at which the divergence reaches the target, by Newton's method from above. Not checked."""
    point, step, left = high, high, _NEWTON_STEPS
    while left and np.any(np.abs(step) > _SMALL_STEP * point):
        value, _ = log_gaussian_delta(point, mu)
        with np.errstate(all="ignore"):
            a = point / mu - 0.5 * mu
            # The logarithm of the divergence is concave in L, so the steps approach the root from above.
            step = (value - log_target) / (density_over(a, value) * mills(a + mu))
        point, left = np.where(np.isfinite(step), np.clip(point + step, 0.0, high), point), left - 1
    return point


def _scalar_or_array(values: FloatArray) -> float | FloatArray:
    return float(values) if values.ndim == 0 else values


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
    both = float(round_up(np.array(math.hypot(mu, shift)), 8.0))
    value, error = log_gaussian_delta_at(epsilon, both)
    # No delta is above 1. The error bound of an absurd shift is large.
    composed = float(np.exp(min(value + error, 0.0)))  # [note: joint-survey-2]
    at, masses, beyond = _cells_of_loss(epsilon, pivot, shift)
    values, errors = log_gaussian_delta(at, np.full_like(at, mu))
    # The lower edge of a cell has the smallest divergence. Nothing is known of the cell below the first edge.
    missing = np.append(delta, np.maximum(delta - np.exp(values - errors), 0.0))  # [note: joint-survey-3]
    total = composed + float(masses @ missing) + delta * beyond
    return min(total + _ROOM * (composed + delta), 1.0)  # [note: joint-survey-4]


@functools.lru_cache(maxsize=4)
def _cells_of_loss(epsilon: float, pivot: float, shift: float) -> tuple[FloatArray, FloatArray, float]:
    """Epsilon minus the loss of the survey at the lower edges of its cells, their masses, and that beyond the last."""
    apart = (epsilon - pivot) / shift
    last = apart - 0.5 * shift + 8 * ULP * (abs(apart) + shift)
    edges = np.append(_EDGES[last > _EDGES], last)
    loss = shift * (0.5 * shift + edges[:-1])
    at = epsilon - loss + 16 * ULP * (epsilon + np.abs(loss))
    masses = np.diff(special.ndtr(edges), prepend=0.0)
    return at, masses, float(special.ndtr(0.5 * shift - (epsilon + pivot) / shift))


def _covering_shift(epsilon: float, delta: float) -> float:
    """A shift whose divergence at epsilon, without sampling, is at least delta; above the least one by rounding."""
    mu, margin = largest_shift(epsilon, delta), 1e-12
    while True:
        raised = mu * (1.0 + margin)
        value, error = log_gaussian_delta_at(epsilon, raised)
        if value - error >= math.log(delta) + 4 * ULP * abs(math.log(delta)):  # [note: joint-survey-1]
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

    def rounds_delta(mu: float) -> float:
        value, error = log_gaussian_delta_at(epsilon, mu)
        return float(np.exp(value - error))

    def excess(log_share: FloatArray, _: NDArray[np.intp] | None = None) -> FloatArray:
        # Searching for the shift needs no inverse: the shift covers the delta that is computed from it.
        mu = most * float(np.exp(log_share[0]))
        price = _price(epsilon, epsilon, shift, mu, rounds_delta(mu))
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
        rounds = rounds_delta(most * float(np.exp(low[0]))) * (1.0 - _ROOM)
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
