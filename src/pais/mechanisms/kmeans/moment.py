"""Noisy second moment of a weighted sample, computed in exact integers."""

from __future__ import annotations

import math

import numpy as np

from pais._base.lattice import Lattice
from pais._base.numerics import FloatArray
from pais._base.randomness import BitSource
from pais.data.engines import WeightedRows
from pais.mechanisms.noise import GaussianNoise

# The second moment of a block of this many rows of 18 bits is exact in doubles; blocks are added as integers.
_MOMENT_BITS = 18
_MOMENT_ROWS = 2**16


def noisy_second_moment(
    content: WeightedRows, noise: GaussianNoise, *, radius: float, largest_weight: float, bits: BitSource
) -> FloatArray:
    """Noisy sum of w x x' over the rows x with weights w.

    The noise is isotropic in the Frobenius norm: full scale on the diagonal, 1/sqrt(2) of it off the diagonal.
    Each row is multiplied by the square root of its weight and truncated toward zero to whole numbers y of 18 bits.
    Sums of y y' are then exact, and the contribution |y|^2 is never more than w |x|^2.
    """
    d = content.rows.shape[1]
    # The lower bound on the step keeps the noise, counted in steps, within the range of an integer.
    step = max(radius * math.sqrt(largest_weight) / 2.0**_MOMENT_BITS, math.sqrt(noise.scale / 2.0**50))
    total = np.zeros((d, d), dtype=np.int64)
    for start in range(0, content.rows.shape[0], _MOMENT_ROWS):
        block = slice(start, start + _MOMENT_ROWS)
        root = np.sqrt(content.weights[block]) * (1.0 - 2.0**-50)
        whole = np.trunc(content.rows[block] * (root / step)[:, None])  # [note: moment-1]
        total += (whole.T @ whole).astype(np.int64)
    lattice = Lattice(step=step * step)
    above = np.triu_indices(d, 1)
    off_diagonal = GaussianNoise(scale=noise.scale / math.sqrt(2.0))  # [note: moment-2]
    upper = total[above] + off_diagonal.draw_steps((above[0].size, 1), lattice, bits)[:, 0]
    diagonal = np.diag(total) + noise.draw_steps((d, 1), lattice, bits)[:, 0]
    noisy = np.diag(lattice.decode(diagonal))
    noisy[above] = lattice.decode(upper)
    noisy.T[above] = noisy[above]
    return noisy
