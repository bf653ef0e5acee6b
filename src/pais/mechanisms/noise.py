"""Noise laws: their exact draws on a lattice, and the loss of a count or a sum with this noise.

`LpNoise` and `GeometricNoise` cost pure epsilon, `GaussianNoise` (epsilon, delta). The functions `laplace_noise`,
`gaussian_noise` and `geometric_noise` give the noise for a price.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, cast

import mpmath as mp
import numpy as np
from scipy import special

from pais._base import files, validate
from pais._base.files import stored
from pais._base.lattice import IntArray, Lattice, Named, Tails, current_tape, rounded_noise
from pais._base.numerics import ULP, FloatArray, divide_up, exact, multiply_up
from pais._base.randomness import BitSource
from pais._base.rowwise import norms_of
from pais.data.ball import norm_order
from pais.errors import ArgumentError, ConvergenceError
from pais.privacy.amplification import largest_shift
from pais.privacy.certify import worst_case
from pais.privacy.profiles import GaussianProfile, LinearProfile
from pais.privacy.rules import UniformRule


class NoiseLaw(ABC):
    """Distribution of noise vectors. Drawing a shape (n, d) gives n vectors of d coordinates."""

    scale: float

    @property
    @abstractmethod
    def order(self) -> float:
        """Order of the norm that measures a record's contribution under this law."""

    @abstractmethod
    def n_uniforms(self, d: int) -> int:
        """Number of uniform variables that one vector of d coordinates needs."""

    @abstractmethod
    def evaluate(self, tails: Tails) -> tuple[FloatArray, FloatArray]:
        """Vectors of scale 1 in doubles, and a bound on their absolute error."""

    @abstractmethod
    def evaluate_exactly(self, tails: list[mp.mpf], signs: list[float]) -> list[mp.mpf]:
        """One vector of scale 1, in the working precision of mpmath."""

    @abstractmethod
    def count_profile(self) -> LinearProfile | GaussianProfile:
        """Loss of a weighted count with this noise."""

    @abstractmethod
    def sum_profile(self) -> LinearProfile | GaussianProfile:
        """Loss of a weighted sum with this noise, in the norm `order`."""

    @abstractmethod
    def deviation(self, d: int) -> float:
        """Standard deviation of one coordinate of a vector of d."""

    @property
    def lattice(self) -> Lattice:
        """Lattice on which a count or a sum with this noise is released."""
        return Lattice.for_scale(self.scale)

    def to_dict(self) -> dict[str, Any]:
        """Public description of the law, for certificates and files."""
        return {**files.to_dict(self, "law"), "scale": self.scale}

    @staticmethod
    def from_dict(described: Mapping[str, Any]) -> NoiseLaw:
        """Rebuild a noise law of this package from its description."""
        return cast(NoiseLaw, files.from_dict(described, "law"))

    def draw(self, shape: tuple[int, int], bits: BitSource) -> FloatArray:
        """Noise vectors as doubles, one in each row. For studies only: releases use `draw_steps`."""
        unit, _ = self.evaluate(Tails.draw((shape[0], self.n_uniforms(shape[1])), bits))
        return self.scale * unit

    def draw_steps(
        self, shape: tuple[int, int], lattice: Lattice, bits: BitSource, *, unit: FloatArray | float = 1.0
    ) -> IntArray:
        """Noise vectors rounded to whole steps of a lattice, with exactly the right distribution.

        `unit` multiplies the scale; an array has one number for each vector.
        """
        return rounded_noise(self, shape, self.scale / lattice.step * unit, bits)

    def added_to(
        self,
        total: IntArray,
        lattice: Lattice,
        bits: BitSource,
        *,
        unit: FloatArray | float = 1.0,
        names: Named | None = None,
    ) -> IntArray:
        """Secret totals in whole steps plus noise, one vector in each row. Every release adds its noise here.

        `unit` is that of `draw_steps`. A `Tape` that is in place sees the totals and may force what is returned. It
        tells the totals of two tables apart by their `names`, if the totals belong to names that nobody listed.
        """
        options: dict[str, Any] = {} if isinstance(unit, float) and unit == 1.0 else {"unit": unit}
        noisy = total + self.draw_steps((total.shape[0], total.shape[1]), lattice, bits, **options)
        tape = current_tape()
        if tape is None:
            return noisy
        scales = np.broadcast_to(self.scale / lattice.step * np.asarray(unit, dtype=np.float64), total.shape[:1])
        law = type(self).__name__
        if names is not None:
            return tape.named(total, noisy, names, law=law, order=self.order, scales=scales)
        return tape.noisy(total, noisy, law=law, order=self.order, scales=scales)


class _PureNoise(NoiseLaw):
    """A law whose loss is the size of a contribution over its scale."""

    def count_profile(self) -> LinearProfile:
        return LinearProfile(self._price, 0.0)

    def sum_profile(self) -> LinearProfile:
        return LinearProfile(0.0, self._price)

    @property
    def _price(self) -> float:
        # Increased so that the rounding errors of later products cannot make the loss too small.
        return float(divide_up(1.0 + 8 * ULP, self.scale))  # [note: noise-4] [note: geometric-2]


@stored("law", "lp")
@stored("law", "laplace")
@dataclass(frozen=True, kw_only=True)
class LpNoise(_PureNoise):
    """Density proportional to exp(-||noise||_p / scale): pure epsilon, for any p >= 1.

    Notes
    -----
    In d dimensions the radius is Gamma(d) times the scale and the direction follows the cone measure of the l_p
    sphere. The published code of the paper drew the radius from Exponential(1) (erratum 1), and for p = 1 used a
    normalised Gaussian direction (erratum 12). Both errors lead to unbounded density ratios, although the code claims
    epsilon. `tests/statistical/test_noise.py` accepts this law and rejects those.
    """

    scale: float
    p: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", validate.positive("scale", self.scale))
        object.__setattr__(self, "p", norm_order(self.p))

    @property
    def order(self) -> float:
        return self.p

    def _is_product(self, d: int) -> bool:
        # exp(-||.||_1) is a product over coordinates, so the coordinates are independent Laplace variables.
        return self.p == 1.0 or d == 1

    def n_uniforms(self, d: int) -> int:
        # d uniforms for the direction, d for the radius, and for a general p another d for the direction.
        return d if self._is_product(d) else 2 * d if self.p in (2.0, math.inf) else 3 * d

    def _width(self, n_uniforms: int) -> int:
        """Number of coordinates that this many uniform variables give."""
        return n_uniforms if self.p == 1.0 or n_uniforms == 1 else n_uniforms // (2 if self.p in (2.0, math.inf) else 3)

    def evaluate(self, tails: Tails) -> tuple[FloatArray, FloatArray]:
        d = self._width(tails.words.shape[1])
        tail, spread = tails.values(), tails.spread()
        if self._is_product(d):
            size = -np.log(2.0 * tail)  # [note: noise-3]
            return tails.signs * size, _symmetric_error(spread, size)
        # A Gamma variable with integer shape d is a sum of d exponential variables.
        exponentials = -np.log(2.0 * tail[:, d : 2 * d])
        radius = exponentials.sum(axis=1, keepdims=True)  # [note: noise-1]
        radius_error = (
            _symmetric_error(spread[:, d : 2 * d], exponentials).sum(axis=1, keepdims=True) + 2.0**-49 * radius
        )
        size, error = self._direction(tails, tail, spread, d)
        length = norms_of(size, self.p)[:, None]
        unit = size / length  # [note: noise-2]
        unit_error = (error + unit * norms_of(error, self.p)[:, None]) / length + 2.0**-49 * unit
        return tails.signs[:, :d] * radius * unit, radius_error * unit + radius * unit_error

    def _direction(self, tails: Tails, tail: FloatArray, spread: FloatArray, d: int) -> tuple[FloatArray, FloatArray]:
        """Absolute values with density proportional to exp(-|g|^p), up to a factor that the normalisation removes."""
        first, first_spread = tail[:, :d], spread[:, :d]
        if math.isinf(self.p):
            return 2.0 * first, first_spread + 2.0**-50
        if self.p == 2.0:
            size = -special.ndtri(first)
            return size, _symmetric_error(first_spread, size)
        # |g|^p is Gamma(1/p). Draw it as Gamma(1 + 1/p) times a power of a uniform, which stays finite for every p.
        shape, second = 1.0 + 1.0 / self.p, tail[:, 2 * d :]
        lower, lower_spread = (part[:, 2 * d :] for part in tails.complements())
        near = lower < 0.5
        root = np.where(near, special.gammaincinv(shape, lower), special.gammainccinv(shape, 2.0 * second))
        power = root ** (1.0 / self.p)
        size = 2.0 * first * power
        hidden = np.where(near, lower_spread, spread[:, 2 * d :])
        return size, (first_spread + 4.0 * hidden + 2.0**-42) * (1.0 + power)

    def evaluate_exactly(self, tails: list[mp.mpf], signs: list[float]) -> list[mp.mpf]:
        d = self._width(len(tails))
        if self._is_product(d):
            return [sign * -mp.log(2 * tail) for tail, sign in zip(tails, signs, strict=True)]
        radius = -mp.fsum(mp.log(2 * tail) for tail in tails[d : 2 * d])
        size = self._direction_exactly(tails, d)
        length = max(size) if math.isinf(self.p) else mp.fsum(value**self.p for value in size) ** (1 / mp.mpf(self.p))
        return [sign * radius * value / length for sign, value in zip(signs[:d], size, strict=True)]

    def _direction_exactly(self, tails: list[mp.mpf], d: int) -> list[mp.mpf]:
        if math.isinf(self.p):
            return [2 * tail for tail in tails[:d]]
        if self.p == 2.0:
            return [_normal_exactly(tail) for tail in tails[:d]]
        inverse = 1 / mp.mpf(self.p)
        roots = [_gamma_tail_exactly(1 + inverse, 2 * tail) for tail in tails[2 * d :]]
        return [2 * tail * root**inverse for tail, root in zip(tails[:d], roots, strict=True)]

    def deviation(self, d: int) -> float:
        if self._is_product(d):
            return math.sqrt(2.0) * self.scale
        if math.isinf(self.p):
            # A coordinate is the largest one with probability 1/d; otherwise it is uniform up to the largest.
            return self.scale * math.sqrt(d * (d + 1) * (1 / d + (1 - 1 / d) / 3))
        a = 1.0 / self.p
        log_share = special.gammaln(3 * a) - special.gammaln(a) + special.gammaln(d * a) - special.gammaln((d + 2) * a)
        return self.scale * math.sqrt(d * (d + 1) * math.exp(log_share))

    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), "law": "laplace" if self.p == 1.0 else "lp"}


@stored("law", "gaussian")
@dataclass(frozen=True, kw_only=True)
class GaussianNoise(NoiseLaw):
    """Independent normal coordinates with standard deviation `scale`, for (epsilon, delta) and the l2 norm."""

    scale: float
    order = 2.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", validate.positive("scale", self.scale))

    def n_uniforms(self, d: int) -> int:
        return d

    def evaluate(self, tails: Tails) -> tuple[FloatArray, FloatArray]:
        size = -special.ndtri(tails.values())
        return tails.signs * size, _symmetric_error(tails.spread(), size)

    def evaluate_exactly(self, tails: list[mp.mpf], signs: list[float]) -> list[mp.mpf]:
        return [sign * _normal_exactly(tail) for tail, sign in zip(tails, signs, strict=True)]

    def deviation(self, d: int) -> float:
        return self.scale

    def count_profile(self) -> GaussianProfile:
        return GaussianProfile(self._price, math.inf)

    def sum_profile(self) -> GaussianProfile:
        return GaussianProfile(math.inf, self._price)

    @property
    def _price(self) -> float:
        return math.nextafter(self.scale * (1.0 - 8 * ULP), 0.0)  # [note: noise-5]


@stored("law", "geometric")
@dataclass(frozen=True, kw_only=True)
class GeometricNoise(_PureNoise):
    """Whole multiples k of `step` with probability proportional to exp(-|k| step / scale): pure epsilon.

    Parameters
    ----------
    scale : float
        A count of all rows costs epsilon = 1 / scale, as with Laplace noise of this scale.
    step : float
        A power of two. The noise and the released values are multiples of it. Contributions are truncated toward zero
        to multiples of it, so use 1 for counts of whole rows, and the step of the masses for units.

    Notes
    -----
    Guarantee. The probabilities are exact, and a contribution c of a record changes them by a factor of at most
    exp(c / scale): `tests/theory/test_integer_noise.py`.

    Rounded Laplace noise of the same price has a larger variance: 2.08 instead of 1.84 for a count at epsilon = 1.

    Examples
    --------
    >>> import pais
    >>> round(pais.GeometricNoise(scale=1.0).deviation(1) ** 2, 2)
    1.84
    """

    scale: float
    step: float = 1.0
    order = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", validate.positive("scale", self.scale))
        object.__setattr__(self, "step", validate.positive("step", self.step))
        if math.frexp(self.step)[0] != 0.5:
            raise ArgumentError(f"step={self.step!r} must be a power of two. Use 1 for counts of whole rows.")

    @property
    def lattice(self) -> Lattice:
        return Lattice(step=self.step)

    def n_uniforms(self, d: int) -> int:
        return d

    def draw_steps(
        self, shape: tuple[int, int], lattice: Lattice, bits: BitSource, *, unit: FloatArray | float = 1.0
    ) -> IntArray:
        """Noise vectors in whole steps of any lattice, with exactly the right distribution on that lattice."""
        factors = np.broadcast_to(np.asarray(unit, dtype=np.float64), shape[:1])
        noise = np.empty(shape, dtype=np.int64)
        for factor in np.unique(factors):
            # Rounded up, the direction of less privacy loss. Steps and a factor of 1 are exact.
            scale = float(multiply_up(self.scale / lattice.step, factor))
            places = np.flatnonzero(factors == factor)
            law = replace(self, scale=scale, step=1.0)
            noise[places] = rounded_noise(law, (places.size, shape[1]), scale, bits)
        return noise

    # A tail t of the noise on the whole numbers holds all k with exp(-k / scale) > t (1 + exp(-1 / scale)). The largest
    # such k is the Laplace value of that tail, moved toward 0 by scale * log cosh(1 / (2 scale)), and rounded.

    def evaluate(self, tails: Tails) -> tuple[FloatArray, FloatArray]:
        size = -np.log(2.0 * tails.values())
        half = 0.5 * self.step / self.scale
        offset = float(np.logaddexp(half, -half)) - math.log(2.0)  # [note: geometric-1]
        error = 2.0 * tails.spread() + 2.0**-48 * (1.0 + size + half)
        return tails.signs * (size - offset), error

    def evaluate_exactly(self, tails: list[mp.mpf], signs: list[float]) -> list[mp.mpf]:
        offset = mp.log(mp.cosh(mp.mpf(self.step) / (2 * mp.mpf(self.scale))))
        return [sign * (-mp.log(2 * tail) - offset) for tail, sign in zip(tails, signs, strict=True)]

    def draw(self, shape: tuple[int, int], bits: BitSource) -> FloatArray:
        return self.lattice.decode(self.draw_steps(shape, self.lattice, bits))

    def deviation(self, d: int) -> float:
        # Far below one step, sinh overflows and the noise is 0 with a probability that rounds to 1.
        half = 0.5 * self.step / self.scale
        return self.step / (math.sqrt(2.0) * math.sinh(half)) if half < 700.0 else 0.0


def _symmetric_error(spread: FloatArray, size: FloatArray) -> FloatArray:
    """Error bound for a quantile of an exponential-like tail: bits not yet known, plus the rounding of doubles."""
    return 2.0 * spread + 2.0**-49 * (1.0 + size)


def _gamma_tail_exactly(shape: mp.mpf, tail: mp.mpf) -> mp.mpf:
    """Point with upper-tail probability `tail` under Gamma(`shape`), by Newton's method from the value in doubles."""
    lower = 1 - tail
    near = lower < mp.mpf(0.5)
    # Below the median use the lower tail, because the upper tail is close to 1 there and has little precision.
    start = special.gammaincinv(float(shape), float(lower)) if near else special.gammainccinv(float(shape), float(tail))
    point = mp.mpf(float(start))
    for _ in range(60):
        if near:
            below = mp.gammainc(shape, 0, point, regularized=True)
            step = -mp.log(below / lower) * below * mp.gamma(shape) * mp.exp(point) / point ** (shape - 1)
        else:
            beyond = mp.gammainc(shape, point, mp.inf, regularized=True)
            step = mp.log(beyond / tail) * beyond * mp.gamma(shape) * mp.exp(point) / point ** (shape - 1)
        point = mp.mpf(max(point + step, point / 2))
        if abs(step) <= point * mp.eps * 2**10:
            return point
    raise ConvergenceError("a quantile of the Gamma distribution did not converge. No value is returned.")


def _normal_exactly(tail: mp.mpf) -> mp.mpf:
    """Point with upper-tail probability `tail` <= 1/2 under the normal distribution, by Halley's method.

    A step cubes the error, so it is negligible after a step of a third of the digits.
    """
    point = mp.mpf(-special.ndtri_exp(float(mp.log(tail))))
    for _ in range(20):
        excess = (mp.erfc(point / mp.sqrt(2)) / 2 - tail) * mp.sqrt(2 * mp.pi) * mp.exp(point * point / 2)
        step = excess / (1 - point * excess / 2)
        point += step
        if abs(step) ** 3 <= mp.eps * (1 + point) * 2**-20:
            return point
    raise ConvergenceError("a quantile of the normal distribution did not converge. No value is returned.")


def laplace_noise(scale: float | None = None, *, epsilon: float | None = None, sensitivity: float = 1.0) -> LpNoise:
    """Independent Laplace coordinates: `LpNoise` for p = 1, of a given scale or for a given price.

    Parameters
    ----------
    scale : float, optional
        Scale of the noise. Pass either the scale or epsilon.
    epsilon : float, optional
        Price of a count or a sum of all rows with this noise.
    sensitivity : float
        Largest contribution of a row: 1 for a count, the radius of the ball (order 1) for a sum.

    Examples
    --------
    >>> import pais
    >>> pais.laplace_noise(epsilon=0.5).scale
    2.0
    """
    if (scale is None) == (epsilon is None):
        raise ArgumentError("pass either scale or epsilon to laplace_noise. Pass exactly one of the two.")
    if epsilon is None:
        return LpNoise(scale=cast(float, scale), p=1.0)
    epsilon, bound = validate.target_epsilon(epsilon), validate.positive("sensitivity", sensitivity)
    # The price must be within epsilon in binary and in the decimal form that is printed.
    quotient = Fraction(bound) / min(Fraction(epsilon), exact(epsilon))
    nearest = float(quotient)
    return LpNoise(scale=nearest if Fraction(nearest) >= quotient else math.nextafter(nearest, math.inf), p=1.0)


def geometric_noise(
    scale: float | None = None, *, epsilon: float | None = None, sensitivity: float = 1.0, step: float = 1.0
) -> GeometricNoise:
    """Two-sided geometric noise of a given scale, or for a given price, as `laplace_noise`.

    Parameters
    ----------
    scale : float, optional
        Scale of the noise. Pass either the scale or epsilon.
    epsilon : float, optional
        Price of a count of all rows with this noise.
    sensitivity : float
        Largest contribution of a row: 1 for a count.
    step : float
        The noise is a multiple of this power of two.

    Examples
    --------
    >>> import pais
    >>> pais.geometric_noise(epsilon=0.5).scale
    2.0
    """
    return GeometricNoise(scale=laplace_noise(scale, epsilon=epsilon, sensitivity=sensitivity).scale, step=step)


def gaussian_noise(
    scale: float | None = None, *, epsilon: float | None = None, delta: float | None = None, sensitivity: float = 1.0
) -> GaussianNoise:
    """Gaussian noise of a given scale, or the least that has a given price.

    Parameters
    ----------
    scale : float, optional
        Standard deviation. Pass either the scale, or epsilon and delta.
    epsilon, delta : float, optional
        Price of a count or a sum of all rows with this noise.
    sensitivity : float
        Largest contribution of a row: 1 for a count, the radius of the ball (order 2) for a sum.

    Examples
    --------
    >>> import pais
    >>> round(pais.gaussian_noise(epsilon=1.0, delta=1e-6).scale, 3)
    4.225
    """
    if (scale is None) != (epsilon is not None and delta is not None) or (epsilon is None) != (delta is None):
        raise ArgumentError("pass either scale, or epsilon and delta, to gaussian_noise. Pass exactly one of the two.")
    if epsilon is None or delta is None:
        return GaussianNoise(scale=cast(float, scale))
    epsilon, bound = validate.target_epsilon(epsilon), validate.positive("sensitivity", sensitivity)
    delta = validate.target_delta(delta)
    if delta == 0.0:
        raise ArgumentError("delta=0 cannot be met with Gaussian noise. Pass delta > 0, or use laplace_noise.")
    noise = GaussianNoise(scale=bound / largest_shift(epsilon, delta))
    rule, factor = UniformRule(rate=1.0), 1e-12
    while worst_case(rule, noise.sum_profile(), radius=bound, epsilon=epsilon, tolerance=1e-7).upper > delta:
        # The certified price is rounded up, so it needs slightly more noise than the exact one.
        noise, factor = GaussianNoise(scale=noise.scale * (1.0 + factor)), 2.0 * factor
    return noise


def exact_quotient(bound: float, noise: NoiseLaw) -> Fraction | None:
    """The exact price of a contribution of at most `bound`; None if the noise has no pure price."""
    return (
        Fraction(bound) / Fraction(noise.scale) if type(noise) in (LpNoise, GeometricNoise) else None
    )  # [note: noise-6]
