"""Noise laws: what is added, which norm it is made for, and what a unit of it costs."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from scipy import special

from pais import _validate
from pais._numerics import ULP, FloatArray
from pais.domain import norm_order
from pais.profiles import GaussianProfile, LinearProfile
from pais.randomness import BitSource


class NoiseLaw(ABC):
    """A law of noise for vectors, one vector for each row of the shape drawn."""

    scale: float

    @property
    @abstractmethod
    def order(self) -> float:
        """The norm in which a record's contribution is measured under this law."""

    @abstractmethod
    def draw(self, shape: tuple[int, int], bits: BitSource) -> FloatArray:
        """Independent noise vectors, one in each row."""

    @abstractmethod
    def count_profile(self) -> LinearProfile | GaussianProfile:
        """Loss of a weighted count with this noise."""

    @abstractmethod
    def sum_profile(self) -> LinearProfile | GaussianProfile:
        """Loss of a weighted sum with this noise, in the norm `order`."""

    @abstractmethod
    def describe(self) -> dict[str, object]:
        """The law in public words and numbers."""


@dataclass(frozen=True, kw_only=True)
class LpNoise(NoiseLaw):
    """Density proportional to exp(-||noise||_p / scale): pure epsilon, for any p >= 1.

    Notes
    -----
    In d dimensions the radius is Gamma(d) times the scale and the direction follows the cone measure of the l_p
    sphere. The published code of the paper drew the radius from Exponential(1) (erratum 1), and for p = 1 a
    normalised Gaussian direction (erratum 12): both put unbounded density ratios where epsilon is claimed.
    `tests/statistical/test_noise.py` accepts this law and rejects those.
    """

    scale: float
    p: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", _validate.positive("scale", self.scale))
        object.__setattr__(self, "p", norm_order(self.p))

    @property
    def order(self) -> float:
        return self.p

    def draw(self, shape: tuple[int, int], bits: BitSource) -> FloatArray:
        if self.p == 1.0 or shape[1] == 1:
            # exp(-||.||_1) is a product: independent Laplace coordinates.
            return np.asarray(self.scale * bits.signs(shape) * -np.log(bits.uniforms(shape)))
        direction = _cone_direction(self.p, shape, bits)
        # A Gamma variable of whole shape d is a sum of d exponentials.
        radius = -np.log(bits.uniforms(shape)).sum(axis=1, keepdims=True)
        return np.asarray(self.scale * radius * direction)

    def count_profile(self) -> LinearProfile:
        return LinearProfile(self._price, 0.0)

    def sum_profile(self) -> LinearProfile:
        return LinearProfile(0.0, self._price)

    @property
    def _price(self) -> float:
        # Raised past the roundings of every product it enters.
        return (1.0 + 8 * ULP) / self.scale

    def describe(self) -> dict[str, object]:
        name = "laplace" if self.p == 1.0 else "lp"
        return {"law": name, "p": "infinity" if math.isinf(self.p) else self.p, "scale": self.scale}


def _cone_direction(p: float, shape: tuple[int, int], bits: BitSource) -> FloatArray:
    """Points on the l_p unit sphere under its cone measure: coordinates of density exp(-|g|^p), normalised."""
    if math.isinf(p):
        coordinate = 2.0 * bits.uniforms(shape) - 1.0
        return np.asarray(coordinate / np.max(np.abs(coordinate), axis=1, keepdims=True))
    if p == 2.0:
        coordinate = special.ndtri(bits.uniforms(shape))
        return np.asarray(coordinate / np.sqrt(np.einsum("ij,ij->i", coordinate, coordinate))[:, None])
    # |g|^p is Gamma(1/p), that is Gamma(1 + 1/p) times a power of a uniform, which stays finite for every p.
    size = bits.uniforms(shape) * special.gammaincinv(1.0 + 1.0 / p, bits.uniforms(shape)) ** (1.0 / p)
    size /= np.max(size, axis=1, keepdims=True)
    with np.errstate(under="ignore"):
        length = np.sum(size**p, axis=1, keepdims=True) ** (1.0 / p)
    return np.asarray(bits.signs(shape) * size / length)


@dataclass(frozen=True, kw_only=True)
class GaussianNoise(NoiseLaw):
    """Independent normal coordinates of standard deviation `scale`: (epsilon, delta), l2."""

    scale: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", _validate.positive("scale", self.scale))

    @property
    def order(self) -> float:
        return 2.0

    def draw(self, shape: tuple[int, int], bits: BitSource) -> FloatArray:
        return np.asarray(self.scale * special.ndtri(bits.uniforms(shape)))

    def count_profile(self) -> GaussianProfile:
        return GaussianProfile(self._price, math.inf)

    def sum_profile(self) -> GaussianProfile:
        return GaussianProfile(math.inf, self._price)

    @property
    def _price(self) -> float:
        return self.scale * (1.0 - 8 * ULP)

    def describe(self) -> dict[str, object]:
        return {"law": "gaussian", "scale": self.scale}


def laplace_noise(scale: float) -> LpNoise:
    """Independent Laplace coordinates: `LpNoise` for p = 1."""
    return LpNoise(scale=scale, p=1.0)
