"""Numerics with known rounding errors: directed rounding, functions of the normal distribution, decimals, roots."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from pais.errors import ConvergenceError

FloatArray = NDArray[np.float64]

#: Spacing of doubles at 1. This package measures rounding errors in this unit.
ULP = 2.0**-52

_SQRT_HALF_PI = math.sqrt(math.pi / 2)
_LOG_SQRT_TWO_PI = 0.5 * math.log(2 * math.pi)
_NODES, _NODE_WEIGHTS = np.polynomial.legendre.leggauss(7)

# Number of integrals computed at a time, which stay in the cache. Chosen by eye.
_PIECE = 1024

# exp overflows at 709.78. Below this bound the products formed from it stay finite.
LARGE = 700.0


def round_up(value: FloatArray, ulps: float = 4.0) -> FloatArray:
    """Increase the value by `ulps` units in the last place; exact zeros stay zero."""
    bumped: FloatArray = np.nextafter(value * (1.0 + ulps * ULP), np.inf)
    return np.where(value == 0.0, value, bumped)


def round_down(value: FloatArray, ulps: float = 4.0) -> FloatArray:
    """Move the value toward zero by `ulps` units in the last place."""
    bumped: FloatArray = np.nextafter(value * (1.0 - ulps * ULP), 0.0)
    return bumped


# Above _SMALLEST_FULL a double has full precision. Above _TINY the error of a product has it too.
_SMALLEST_FULL = 2.0**-1021
_TINY = 2.0**-900

# Veltkamp's constant, which splits a double into two halves of at most 26 bits each.
_SPLITTER = 2.0**27 + 1.0


def _product_error(x: FloatArray, y: FloatArray, product: FloatArray) -> FloatArray:
    """The exact value of x * y - product, where product is the rounded product of numbers near 1 (Dekker)."""
    x_high = x * _SPLITTER - (x * _SPLITTER - x)
    y_high = y * _SPLITTER - (y * _SPLITTER - y)
    x_low, y_low = x - x_high, y - y_high
    error: FloatArray = x_high * y_high - product
    return error + x_high * y_low + x_low * y_high + x_low * y_low


def _sum_error(x: FloatArray, y: FloatArray, total: FloatArray) -> FloatArray:
    """The exact value of x + y - total, where total is the rounded sum (Knuth)."""
    part = total - x
    error: FloatArray = (x - (total - part)) + (y - part)
    return error


def _directed(x: ArrayLike, y: ArrayLike, *, up: bool, divide: bool = False) -> FloatArray:
    """The smallest double that is not below x * y, or x / y, for numbers >= 0, or the largest that is not above it.

    Near 1e-308, the result is one of the two nearest doubles. Rounding down finite numbers gives a finite number.
    """
    (a, a_exponent), (b, b_exponent) = np.frexp(x), np.frexp(y)
    with np.errstate(all="ignore"):
        if divide:
            mantissa, exponent = a / b, a_exponent - b_exponent
            product = mantissa * b
            # a - product is exact because the two differ by a few ulps, so the remainder has the exact sign.
            error = (a - product) - _product_error(mantissa, b, product)  # [note: round-1]
        else:
            mantissa, exponent = a * b, a_exponent + b_exponent
            error = _product_error(a, b, mantissa)
        # The error is below half an ulp. Neighbouring doubles >= 0 are neighbouring integers.
        step = (error > 0.0).astype(np.int64) if up else -(error < 0.0).astype(np.int64)
        value: FloatArray = np.ldexp((np.asarray(mantissa).view(np.int64) + step).view(np.float64), exponent)
        # ldexp rounds to nearest where numbers underflow, and to infinity where they overflow.
        unsure = (value < _SMALLEST_FULL) & (mantissa > 0.0)
        if not up:
            unsure |= np.isinf(value) & np.isfinite(mantissa)
        if np.any(unsure):
            return np.where(unsure, np.nextafter(value, np.inf if up else 0.0), value)
    return np.asarray(value)


multiply_up, multiply_down = partial(_directed, up=True), partial(_directed, up=False)
divide_up, divide_down = partial(_directed, up=True, divide=True), partial(_directed, up=False, divide=True)


def multiply_add_up(addend: ArrayLike, x: ArrayLike, y: ArrayLike) -> FloatArray:
    """The smallest double that is not below addend + x * y, for numbers >= 0.

    A product below 2**-900 is rounded up first. The result is then an upper bound, but it may not be the smallest.
    """
    first = np.asarray(addend, dtype=np.float64)
    (a, a_exponent), (b, b_exponent) = np.frexp(x), np.frexp(y)
    with np.errstate(all="ignore"):
        mantissa, exponent = a * b, a_exponent + b_exponent
        product = np.ldexp(mantissa, exponent)
        error = np.ldexp(_product_error(a, b, mantissa), exponent)
        tiny = (product < _TINY) & (mantissa > 0.0)
        product = np.where(tiny, np.nextafter(product, np.inf), product)
        error = np.where(tiny, 0.0, error)
        # The exact value is first + product + error = total + rest + last.
        total = first + product
        carry = _sum_error(first, product, total)
        tail = carry + error
        last = _sum_error(carry, error, tail)
        near = total + tail
        rest = _sum_error(total, tail, near)
        above = (rest > 0.0) | ((rest == 0.0) & (last > 0.0))  # [note: round-2]
        rounded: FloatArray = np.where(above, np.nextafter(near, np.inf), near)
    # The error of an infinite total cannot be computed.
    return np.where(np.isfinite(total), rounded, total)


def log_expm1(x: FloatArray) -> FloatArray:
    """log(e^x - 1) for x > 0, without overflow."""
    result: FloatArray = x + np.log(-np.expm1(-x))
    return result


def log_exprel(y: FloatArray) -> FloatArray:
    """log((e^y - 1)/y) for y >= 0, with full relative accuracy from 0 to infinity.

    Equals y/2 + log(sinh(y/2)/(y/2)). Near zero the quotient is close to 1, so the second term is computed
    from its series.
    """
    half = np.minimum(0.5 * y, 0.5)
    t = half * half
    # sinh(h)/h - 1 = t/6 + t^2/120 + ...; seven terms reach an accuracy of 1e-17 for h <= 1/2.
    tail = 1.0 + t / 156.0
    for divisor in (110.0, 72.0, 42.0, 20.0):
        tail = 1.0 + t / divisor * tail
    near = 0.5 * y + np.log1p(t / 6.0 * tail)
    far_y = np.maximum(y, 0.5)
    far = far_y + np.log(-np.expm1(-far_y) / far_y)
    return np.where(y < 1.0, near, far)


def mills(x: FloatArray) -> FloatArray:
    """Mills ratio of the normal distribution: (1 - Phi(x)) / phi(x)."""
    result: FloatArray = _SQRT_HALF_PI * special.erfcx(x / math.sqrt(2.0))
    return result


def mills_slope(x: FloatArray) -> FloatArray:
    """Negative derivative of the Mills ratio: 1 - x * mills(x), positive for every x."""
    near = 1.0 - x * mills(x)
    if np.max(x, initial=0.0) < 50.0:
        return near
    inverse = 1.0 / np.square(np.maximum(x, 50.0))
    series = 1.0 + inverse * -13.0
    for odd in (11.0, 9.0, 7.0, 5.0, 3.0):
        series = 1.0 - odd * inverse * series
    return np.where(x < 50.0, near, inverse * series)


def log_gaussian_delta(log_ratio: FloatArray, mu: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Logarithm of the hockey-stick divergence of N(mu, 1) from N(0, 1), and its rounding error.

    Returns
    -------
    value, error : arrays
        log of Phi(mu/2 - L/mu) - e^L Phi(-mu/2 - L/mu) for L = `log_ratio` >= 0, mu > 0,
        and a bound on the absolute rounding error of that logarithm.

    Notes
    -----
    With a = L/mu - mu/2 and b = a + mu, e^L phi(b) = phi(a). The difference of the two tails is therefore
    phi(a) (mills(a) - mills(b)), which can be computed without cancellation or underflow.
    """
    if np.shape(log_ratio) == np.shape(mu) in ((1,), (2,)):
        pairs = [log_gaussian_delta_at(*pair) for pair in zip(log_ratio.tolist(), mu.tolist(), strict=True)]
        return np.array([value for value, _ in pairs]), np.array([error for _, error in pairs])
    # Beyond 1e150 squares overflow, and the divergence is zero or one to any precision.
    mu = np.minimum(np.maximum(mu, 1e-150), 1e150)
    centre = np.minimum(log_ratio / mu, 1e150)
    a = np.maximum(centre - 0.5 * mu, -1e150)
    upper = np.maximum(a, -1.0)
    # mills(upper) - mills(upper + mu), by quadrature of the slope where the two are close.
    close = np.asarray(mu) < 0.5
    difference = np.empty_like(mu) if close.all() else np.asarray(mills(upper) - mills(upper + mu))
    if close.any():
        half = 0.5 * np.asarray(mu)[close]
        middle = np.asarray(upper)[close] + half
        # In pieces that fit into the cache.
        for start in range(0, half.size, _PIECE):
            piece = slice(start, start + _PIECE)
            middle[piece] = _NODE_WEIGHTS @ mills_slope(middle[piece] + _NODES[:, None] * half[piece])
        difference[close] = half * middle
    with np.errstate(under="ignore", divide="ignore"):
        value = np.log(difference) - 0.5 * upper * upper - _LOG_SQRT_TWO_PI  # [note: delta-4]
        if not (a > -1.0).all():
            # For a < -1 the first tail is above 0.84, so there is no cancellation.
            lower = np.minimum(a, -1.0)
            phi = np.exp(-0.5 * lower * lower - _LOG_SQRT_TWO_PI)
            value = np.where(a > -1.0, value, np.log1p(-(special.ndtr(lower) + phi * mills(lower + mu))))
    # The error of a is a few ulps of its two terms, and d(log phi)/da = -a. The slope of the Mills ratio
    # loses a factor of x^2 to cancellation until its asymptotic series is used from 50 on.
    spread = np.abs(centre) + mu
    error = ULP * (
        16.0 + 4.0 * np.maximum(a, 1.0) * spread + 2.0 * np.square(np.minimum(np.maximum(a, 0.0), 60.0))
    )  # [note: delta-5]
    return value, error


def log_gaussian_delta_at(log_ratio: float, mu: float) -> tuple[float, float]:
    """`log_gaussian_delta` of one pair of numbers, in a fifth of the time of an array of one pair."""
    mu = min(max(mu, 1e-150), 1e150)
    centre = min(log_ratio / mu, 1e150)
    a = max(centre - 0.5 * mu, -1e150)
    if a > -1.0:
        upper = a
        if mu < 0.5:
            half = 0.5 * mu
            slopes = mills_slope(upper + half + _NODES[:, None] * np.array([half]))
            difference = half * float((_NODE_WEIGHTS @ slopes)[0])
        else:
            difference = _mills_at(upper) - _mills_at(upper + mu)
        log_difference = float(np.log(difference)) if difference != 0.0 else -math.inf
        value = log_difference - 0.5 * upper * upper - _LOG_SQRT_TWO_PI
    else:
        phi = float(np.exp(-0.5 * a * a - _LOG_SQRT_TWO_PI))
        value = float(np.log1p(-(float(special.ndtr(a)) + phi * _mills_at(a + mu))))
    worst = min(max(a, 0.0), 60.0)
    spread = abs(centre) + mu
    return value, ULP * (16.0 + 4.0 * max(a, 1.0) * spread + 2.0 * (worst * worst))


def _mills_at(x: float) -> float:
    return _SQRT_HALF_PI * float(special.erfcx(x / math.sqrt(2.0)))


def log_gaussian_delta_rises(log_ratio: FloatArray, mu: FloatArray) -> NDArray[np.bool_]:
    """Whether delta increases with the weight at (L, mu): phi(a) mu > Phi(b) - Phi(a).

    As the weight grows, delta changes exactly once from increasing to decreasing: `docs/theory/first-crossing.md`.
    """
    a = np.minimum(log_ratio / np.maximum(mu, 1e-150), 1e150) - 0.5 * mu
    if np.all(a >= 0.0):
        return np.ones(np.shape(a), dtype=bool)
    # The condition divided by phi(a) is: mu > integral over [0, mu] of exp(-a t - t^2/2).
    a_mid = np.maximum(a, -30.0)
    area = mills(a_mid) - np.exp(-np.minimum(log_ratio, LARGE)) * mills(a_mid + mu)
    return (a >= 0.0) | ((a > -30.0) & (mu > area))


def exact(value: float) -> Fraction:
    """Convert a double to the exact fraction of its shortest decimal form: 0.1 becomes one tenth.

    A person who reads the numbers in a file would add them up in this form. A double and its shortest decimal form
    differ by up to half an ulp. The noise in this package is always raised above what its epsilon requires by more
    than that.
    """
    return Fraction(repr(float(value)))


def raised(value: float, digits: int = 6) -> str:
    """Format a privacy cost for display, rounded up to `digits` digits."""
    return _formatted(value, digits, ROUND_CEILING)


def lowered(value: float, digits: int = 6) -> str:
    """Format a value such as a remaining budget for display, rounded down to `digits` digits."""
    return _formatted(value, digits, ROUND_FLOOR)


def _formatted(value: float, digits: int, rounding: str) -> str:
    if not math.isfinite(value):
        return str(value)
    # Round to twelve digits first, so that 0.30000000000000004 is shown as 0.3.
    near = Context(prec=digits, rounding=rounding).plus(Decimal(f"{value:.12g}"))
    # A decimal of at most `digits` digits does not change when it is converted to a double and back.
    return f"{float(near):.{digits}g}"


Objective = Callable[[FloatArray, NDArray[np.intp]], FloatArray]

# Number of steps by which the interpolation may fall behind bisection before it must keep pace with it.
_SLACK_STEPS = 3

# Distances from a guess at which the search starts, in units of the tolerance: a bracket of 0.8 of it ends the search.
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
