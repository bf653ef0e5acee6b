"""Noisy second moment of a weighted sample, computed in exact integers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from pais._base import validate
from pais._base.files import stored, to_dict
from pais._base.lattice import IntArray, Lattice
from pais._base.numerics import FloatArray
from pais._base.randomness import BitSource
from pais._base.rowwise import norms_of
from pais.data.engines import WeightedRows
from pais.mechanisms.moments import MARGIN, add_moments, moment_step, noisy_matrix
from pais.mechanisms.noise import GaussianNoise
from pais.privacy.profiles import GaussianProfile

# Constant column that is added to the rows, in units of the radius.
_COLUMN = 0.5


@stored("moment", "second")
@dataclass(frozen=True, kw_only=True)
class SecondMoment:
    """Noisy mean and second moment of rows clipped to a smaller radius, from which k-means takes its starting centers.

    A constant column of half the radius is added to the rows. The second moment of the longer rows contains the sum and
    the number of the rows.

    Parameters
    ----------
    noise : GaussianNoise
        Noise of the sum of w x x', isotropic in the Frobenius norm.
    radius : float
        Rows are clipped to this norm first. The noise that is needed grows with the square of the radius, and the
        directions of the rows matter more than their lengths.
    flat : float
        Share in [0, 1] of the price that does not depend on the norm of a record.
    """

    noise: GaussianNoise
    radius: float
    flat: float

    def __post_init__(self) -> None:
        validate.instance("noise", self.noise, GaussianNoise, "Pass a GaussianNoise.")
        object.__setattr__(self, "radius", validate.radius(self.radius))
        object.__setattr__(self, "flat", validate.share("flat", self.flat))

    def to_dict(self) -> dict[str, Any]:
        return to_dict(self, "moment")

    @staticmethod
    def price(radius: float, flat: float) -> tuple[float, float]:
        """Constant and factor of z in a bound c^2 + (f z)^2 on the squared contribution of a record of norm z.

        With s the radius of the clip and b the square of the constant column, the contribution is min(z, s)^2 + b. Its
        square is at most (s^2 + b)^2, and at most b^2 + (s^2 + 2 b) z^2, so it is at most any mixture of the two.
        """
        b = _COLUMN**2
        constant = flat * (1.0 + b) ** 2 + (1.0 - flat) * b * b
        return radius**2 * math.sqrt(constant), radius * math.sqrt((1.0 - flat) * (1.0 + 2.0 * b))

    @property
    def profile(self) -> GaussianProfile:
        """Loss of a record (SECOND-MOMENT)."""
        constant, factor = self.price(self.radius, self.flat)
        scale = self.noise.scale * (1.0 - MARGIN)  # [note: moment-3]
        profile = GaussianNoise(scale=scale / constant).count_profile()
        return profile if factor == 0.0 else profile + GaussianNoise(scale=scale / factor).sum_profile()

    def step(self, largest_weight: float) -> float:
        """Step of the rows times the roots of their weights: of 18 bits, or coarser where the noise is large."""
        return moment_step(self.noise.scale, self.radius * math.sqrt(largest_weight))

    def measure(self, content: WeightedRows, largest_weight: float, bits: BitSource) -> FloatArray:
        """Noisy sum of w u u' over the rows with weights w, where u is a clipped row with the constant column.

        The noise has its full scale on the diagonal and 1/sqrt(2) of it off the diagonal. Each row is multiplied by the
        square root of its weight and truncated toward zero to whole numbers y of 18 bits. Sums of y y' are then exact,
        and the contribution |y|^2 is never more than w |u|^2.
        """
        step = self.step(largest_weight)

        def contribution(rows: FloatArray, weights: FloatArray) -> IntArray:
            root = np.sqrt(weights) * (1.0 - MARGIN / 4.0) / step
            clip = self.radius / np.maximum(norms_of(rows, 2.0), self.radius)
            # The constant column is not clipped with the row.
            return add_moments(rows, clip * root, _COLUMN * self.radius * root)

        return noisy_matrix(content.total(contribution), self.noise, Lattice(step=step * step), bits)

    def noisy_rows(self, moment: FloatArray) -> tuple[float, float]:
        """Noisy number of rows that the constant column counts, and the standard deviation of its noise."""
        square = (_COLUMN * self.radius) ** 2
        return float(moment[-1, -1]) / square, self.noise.scale / square

    def mean_and_scatter(self, moment: FloatArray, n_rows: float) -> tuple[FloatArray, FloatArray]:
        """Noisy mean, shrunk by its known noise, and noisy scatter matrix about it."""
        column = _COLUMN * self.radius
        mean = moment[-1, :-1] / (column * n_rows)
        noise = self.noise.scale / math.sqrt(2.0) / (column * n_rows)
        square = float(np.square(mean).sum())
        mean = mean * max(0.0, 1.0 - len(mean) * noise**2 / max(square, 1e-300))
        return mean, moment[:-1, :-1] - n_rows * np.outer(mean, mean)
