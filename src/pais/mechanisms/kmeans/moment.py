"""Noisy second moment of a weighted sample, computed in exact integers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from pais._base import validate
from pais._base.files import stored, to_dict
from pais._base.lattice import Lattice
from pais._base.numerics import FloatArray
from pais._base.randomness import BitSource
from pais._base.rowwise import norms_of
from pais.data.engines import WeightedRows
from pais.mechanisms.noise import GaussianNoise
from pais.privacy.profiles import GaussianProfile

# The second moment of a block of this many rows of 18 bits is exact in doubles; blocks are added as integers.
_MOMENT_BITS = 18
_MOMENT_ROWS = 2**16

# Clipped rows and prices have this margin, more than all rounding errors of the clip, the roots and the squared step.
_MARGIN = 2.0**-39


@stored("moment", "second")
@dataclass(frozen=True, kw_only=True)
class SecondMoment:
    """A noisy second moment of the rows, clipped to a smaller radius, from which k-means takes its starting centers.

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
        validate.radius(self.radius)
        validate.number("flat", self.flat, rule="a number in [0, 1]", low=0, high=1, open_low=False, open_high=False)

    def to_dict(self) -> dict[str, Any]:
        return to_dict(self, "moment")

    @property
    def profile(self) -> GaussianProfile:
        """Loss of a record of norm z: min(z, s)^4 <= flat s^4 + (1 - flat) s^2 z^2, with s the radius of the clip."""
        scale = self.noise.scale / self.radius * (1.0 - _MARGIN)  # [note: moment-3]
        parts = []
        if self.flat > 0.0:
            parts.append(GaussianNoise(scale=scale / self.radius / math.sqrt(self.flat)).count_profile())
        if self.flat < 1.0:
            parts.append(GaussianNoise(scale=scale / math.sqrt(1.0 - self.flat)).sum_profile())
        return sum(parts[1:], parts[0])

    def measure(self, content: WeightedRows, largest_weight: float, bits: BitSource) -> FloatArray:
        """Noisy sum of w x x' over the rows x with weights w.

        The noise has its full scale on the diagonal and 1/sqrt(2) of it off the diagonal. Each row is multiplied by the
        square root of its weight and truncated toward zero to whole numbers y of 18 bits. Sums of y y' are then exact,
        and the contribution |y|^2 is never more than w |x|^2.
        """
        d = content.rows.shape[1]
        # The lower bound on the step keeps the noise, counted in steps, within the range of an integer.
        step = max(self.radius * math.sqrt(largest_weight) / 2.0**_MOMENT_BITS, math.sqrt(self.noise.scale / 2.0**50))
        total = np.zeros((d, d), dtype=np.int64)
        for start in range(0, content.rows.shape[0], _MOMENT_ROWS):
            block = slice(start, start + _MOMENT_ROWS)
            norm = norms_of(content.rows[block], 2.0)
            clip = self.radius / np.maximum(norm, self.radius) * (1.0 - _MARGIN / 4.0)
            root = np.sqrt(content.weights[block]) * clip
            whole = np.trunc(content.rows[block] * (root / step)[:, None])  # [note: moment-1]
            total += (whole.T @ whole).astype(np.int64)
        lattice = Lattice(step=step * step)
        above = np.triu_indices(d, 1)
        off_diagonal = GaussianNoise(scale=self.noise.scale / math.sqrt(2.0))  # [note: moment-2]
        upper = total[above] + off_diagonal.draw_steps((above[0].size, 1), lattice, bits)[:, 0]
        diagonal = np.diag(total) + self.noise.draw_steps((d, 1), lattice, bits)[:, 0]
        noisy = np.diag(lattice.decode(diagonal))
        noisy[above] = lattice.decode(upper)
        noisy.T[above] = noisy[above]
        return noisy
