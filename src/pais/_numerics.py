"""Elementary functions where the textbook form loses digits, and rounding to the safe side."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy import special

FloatArray = NDArray[np.float64]

#: Spacing of doubles at 1: the unit in which this package counts rounding errors.
ULP = 2.0**-52

_SQRT_HALF_PI = math.sqrt(math.pi / 2)
_LOG_SQRT_TWO_PI = 0.5 * math.log(2 * math.pi)
_NODES, _NODE_WEIGHTS = np.polynomial.legendre.leggauss(7)

# exp overflows at 709.78; below this bound every product we form stays finite.
LARGE = 700.0


def round_up(value: FloatArray, ulps: float = 4.0) -> FloatArray:
    """The value pushed up by `ulps` units in the last place; exact zeros stay zero."""
    bumped: FloatArray = np.nextafter(value * (1.0 + ulps * ULP), np.inf)
    return np.where(value == 0.0, value, bumped)


def round_down(value: FloatArray, ulps: float = 4.0) -> FloatArray:
    """The value pushed toward zero by `ulps` units in the last place."""
    bumped: FloatArray = np.nextafter(value * (1.0 - ulps * ULP), 0.0)
    return bumped


def log_expm1(x: FloatArray) -> FloatArray:
    """log(e^x - 1) for x > 0, without overflow."""
    result: FloatArray = x + np.log(-np.expm1(-x))
    return result


def log_exprel(y: FloatArray) -> FloatArray:
    """log((e^y - 1)/y) for y >= 0, with full relative accuracy from 0 to infinity.

    Equals y/2 + log(sinh(y/2)/(y/2)); the second term needs its series near zero,
    where the quotient is 1 plus something tiny.
    """
    half = np.minimum(0.5 * y, 0.5)
    t = half * half
    # sinh(h)/h - 1 = t/6 + t^2/120 + ...: seven terms reach 1e-17 for h <= 1/2.
    tail = 1.0 + t / 156.0
    for divisor in (110.0, 72.0, 42.0, 20.0):
        tail = 1.0 + t / divisor * tail
    near = 0.5 * y + np.log1p(t / 6.0 * tail)
    far_y = np.maximum(y, 0.5)
    far = far_y + np.log(-np.expm1(-far_y) / far_y)
    return np.where(y < 1.0, near, far)


def mills(x: FloatArray) -> FloatArray:
    """Mills ratio of the normal law: (1 - Phi(x)) / phi(x)."""
    result: FloatArray = _SQRT_HALF_PI * special.erfcx(x / math.sqrt(2.0))
    return result


def mills_slope(x: FloatArray) -> FloatArray:
    """Minus the derivative of the Mills ratio: 1 - x * mills(x), positive for every x."""
    near = 1.0 - x * mills(x)
    if np.max(x, initial=0.0) < 50.0:
        return near
    inverse = 1.0 / np.square(np.maximum(x, 50.0))
    series = 1.0 + inverse * -13.0
    for odd in (11.0, 9.0, 7.0, 5.0, 3.0):
        series = 1.0 - odd * inverse * series
    return np.where(x < 50.0, near, inverse * series)


def _mills_difference(low: FloatArray, width: FloatArray) -> FloatArray:
    """mills(low) - mills(low + width); by quadrature of the slope where the two are close."""
    half = 0.5 * np.minimum(width, 0.5)
    middle = low + half
    by_quadrature = np.zeros_like(middle)
    for node, weight in zip(_NODES, _NODE_WEIGHTS, strict=True):
        by_quadrature += weight * mills_slope(middle + node * half)
    return np.where(width < 0.5, half * by_quadrature, mills(low) - mills(low + width))


def log_gaussian_delta(log_ratio: FloatArray, mu: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Hockey-stick divergence of N(mu, 1) from N(0, 1), in logs, with its rounding error.

    Returns
    -------
    value, error : arrays
        log of Phi(mu/2 - L/mu) - e^L Phi(-mu/2 - L/mu) for L = `log_ratio` >= 0, mu > 0,
        and a bound on the absolute rounding error of that logarithm.

    Notes
    -----
    With a = L/mu - mu/2 and b = a + mu, e^L phi(b) = phi(a); the difference of two tails
    becomes phi(a) (mills(a) - mills(b)), which neither cancels nor underflows.
    """
    # Beyond 1e150 squares overflow, and the divergence is zero or one to any precision.
    mu = np.clip(mu, 1e-150, 1e150)
    centre = np.minimum(log_ratio / mu, 1e150)
    a = np.maximum(centre - 0.5 * mu, -1e150)
    upper = np.maximum(a, -1.0)
    log_phi = -0.5 * upper * upper - _LOG_SQRT_TWO_PI
    with np.errstate(under="ignore", divide="ignore"):
        tail = log_phi + np.log(_mills_difference(upper, mu))  # [note: delta-4]
    # For a < -1 the first tail is above 0.84 and nothing cancels.
    lower = np.minimum(a, -1.0)
    with np.errstate(under="ignore"):
        phi = np.exp(-0.5 * lower * lower - _LOG_SQRT_TWO_PI)
        bulk = np.log1p(-(special.ndtr(lower) + phi * mills(lower + mu)))
    value = np.where(a > -1.0, tail, bulk)
    # a carries an error of a few ulps of its two terms; d(log phi)/da = -a, and the slope of
    # the Mills ratio cancels to 1/x^2 before its asymptotic series takes over at 50.
    spread = np.abs(centre) + mu
    error = ULP * (16.0 + 4.0 * np.maximum(a, 1.0) * spread + 2.0 * np.square(np.clip(a, 0.0, 60.0)))  # [note: delta-5]
    return value, error


def log_gaussian_delta_rises(log_ratio: FloatArray, mu: FloatArray) -> NDArray[np.bool_]:
    """Whether delta still rises with the weight at (L, mu): phi(a) mu > Phi(b) - Phi(a).

    See `docs/theory/first-crossing.md`: along w the sign changes exactly once, from rising to falling.
    """
    a = np.minimum(log_ratio / np.maximum(mu, 1e-150), 1e150) - 0.5 * mu
    # Divided by phi(a): mu > integral over [0, mu] of exp(-a t - t^2/2).
    a_mid = np.maximum(a, -30.0)
    area = mills(a_mid) - np.exp(-np.minimum(log_ratio, LARGE)) * mills(a_mid + mu)
    return (a >= 0.0) | ((a > -30.0) & (mu > area))


def exact(value: float) -> Fraction:
    """A double as the decimal it is written as: 0.1 is one tenth.

    This is how whoever reads the file would add it up. Doubles and their shortest decimals differ by half an ulp;
    every noise of this package is raised by more than that over what its epsilon asks for.
    """
    return Fraction(repr(float(value)))


def raised(value: float, digits: int = 6) -> str:
    """A price for reading: rounded up to so many digits."""
    return _shown(value, digits, ROUND_CEILING)


def lowered(value: float, digits: int = 6) -> str:
    """What is left, for reading: rounded down to so many digits."""
    return _shown(value, digits, ROUND_FLOOR)


def _shown(value: float, digits: int, way: str) -> str:
    if not math.isfinite(value):
        return str(value)
    # Twelve digits first, so that 0.30000000000000004 is read as 0.3.
    near = Context(prec=digits, rounding=way).plus(Decimal(f"{value:.12g}"))
    # A short decimal of at most `digits` digits passes through a double unchanged.
    return f"{float(near):.{digits}g}"
