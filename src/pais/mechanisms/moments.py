"""Noisy second moment of weighted rows, computed in exact integers. Regression and PCA follow from it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pais._base import validate
from pais._base.cards import number
from pais._base.files import stored
from pais._base.lattice import IntArray, Lattice
from pais._base.numerics import FloatArray
from pais._base.randomness import BitSource
from pais._base.threads import one_blas_thread
from pais.data.ball import Ball
from pais.data.engines.base import AllRows, WeightedRows
from pais.errors import MismatchError
from pais.mechanisms.base import Extent, Mechanism
from pais.mechanisms.noise import GaussianNoise
from pais.privacy.profiles import GaussianProfile

#: Bits of the whole numbers to which rows are truncated. Products of `MOMENT_ROWS` rows are then exact in doubles.
MOMENT_BITS = 18
MOMENT_ROWS = 2**16

# Noise is at most this many bits long, so that rounding it to a step rarely needs more than double precision. Without a
# limit, drawing it took half a minute for 200 columns (commit f8e5ad6).
_NOISE_BITS = 38

# The sum of all rows stays below 2**60 steps, with room for four times the stated number of rows.
_TOTAL_BITS = 60

#: Clipped rows and prices have this margin, more than all rounding errors of the clip, the roots and the squared step.
MARGIN = 2.0**-39


def moment_step(scale: float, longest: float, total: float = 0.0) -> float:
    """Step of the rows times the roots of their weights: of 18 bits, or coarser for much noise or a large total.

    `longest` is the longest such row, and `total` the sum of all their squares.
    """
    return max(longest / 2.0**MOMENT_BITS, math.sqrt(scale / 2.0**_NOISE_BITS), math.sqrt(total / 2.0**_TOTAL_BITS))


def add_moments(rows: FloatArray, factors: FloatArray, constants: FloatArray) -> IntArray:
    """Sum of y y' over the rows y = (factor * row, constant), truncated toward zero to whole numbers of 18 bits."""
    d = rows.shape[1] + 1
    total = np.zeros((d, d), dtype=np.int64)
    for start in range(0, rows.shape[0], MOMENT_ROWS):
        block = slice(start, start + MOMENT_ROWS)
        whole = np.empty((len(rows[block]), d))
        np.multiply(rows[block], factors[block, None], out=whole[:, :-1])
        whole[:, -1] = constants[block]
        np.trunc(whole, out=whole)  # [note: moment-1]
        total += (whole.T @ whole).astype(np.int64)
    return total


def noisy_matrix(total: IntArray, noise: GaussianNoise, lattice: Lattice, bits: BitSource) -> FloatArray:
    """A symmetric matrix of whole steps plus noise: at its full scale on the diagonal, at 1/sqrt(2) of it elsewhere."""
    above = np.triu_indices(total.shape[0], 1)
    off_diagonal = GaussianNoise(scale=noise.scale / math.sqrt(2.0))  # [note: moment-2]
    upper = off_diagonal.added_to(total[above][:, None], lattice, bits)[:, 0]
    diagonal = noise.added_to(np.diag(total)[:, None], lattice, bits)[:, 0]
    noisy = np.diag(lattice.decode(diagonal))
    noisy[above] = lattice.decode(upper)
    noisy.T[above] = noisy[above]
    return noisy


@dataclass(frozen=True, kw_only=True)
class MomentValue:
    """A noisy second moment. It is protected and may be published.

    Attributes
    ----------
    moment : array of shape (d, d), or (d + 1, d + 1) with a constant
        Noisy sum of w u u' over the rows x with weights w, where u is the row relative to the center of the ball,
        clipped, with the constant coordinate of the ball last. Without a constant, u has d coordinates.
    scale : float
        Standard deviation of the noise on the diagonal. Above the diagonal it is ``scale / sqrt(2)``.
    constant : float
        Length of the constant coordinate; 0 if there is none.
    """

    moment: FloatArray
    scale: float
    constant: float = 0.0

    def in_words(self) -> str:
        """The value in a few words, for cards."""
        d = len(self.moment) - (self.constant > 0.0)
        return f"a second moment of {d} column{'s' * (d != 1)}"

    @property
    def noisy_count(self) -> float:
        """Noisy sum of the weights, a count of all rows, in which clipped rows count less. Needs a constant."""
        return float(self.moment[-1, -1]) / self.constant**2


@stored("mechanism", "covariance matrix")
@dataclass(frozen=True, kw_only=True)
class MomentSum(Mechanism):
    """Weighted second moment of the rows plus Gaussian noise, with a constant coordinate if the ball has one.

    Parameters
    ----------
    noise : GaussianNoise
        Noise of the sum of w u u', isotropic in the Frobenius norm.
    largest : float
        Largest product of weight and squared norm of a row. It decides how fine the sums are.
    n_rows : float
        Number of rows, roughly; public. Sums of more than four times as many rows may overflow.

    Notes
    -----
    Guarantee. A row of norm z and weight w changes the sum by at most w z^2 in the Frobenius norm, so the profile
    is that of a second moment: `tests/unit/mechanisms/test_moments.py`.

    Examples
    --------
    >>> import numpy as np
    >>> import pais
    >>> ball, every = pais.Ball(radius=1.0), pais.UniformRule(rate=1.0)
    >>> mechanism = pais.MomentSum(noise=pais.GaussianNoise(scale=20.0), largest=1.0, n_rows=10_000)
    >>> plan = pais.Plan(ball=ball, rule=every, mechanism=mechanism, epsilon=1.0, delta=1e-6)
    >>> pais.run(plan, np.full((10_000, 2), 0.5)).value.moment.shape
    (2, 2)
    """

    noise: GaussianNoise
    largest: float
    n_rows: float
    name = "covariance matrix"
    order = 2.0
    protects_units = True
    streams = True

    def __post_init__(self) -> None:
        validate.instance("noise", self.noise, GaussianNoise, "Pass a GaussianNoise.")
        for name in ("largest", "n_rows"):
            object.__setattr__(self, name, validate.positive(name, getattr(self, name)))

    @property
    def profile(self) -> GaussianProfile:
        """Loss of a record: the shift w z^2 / scale (QUADRATIC)."""
        scale = self.noise.scale * (1.0 - MARGIN)  # [note: moment-5]
        return GaussianProfile(math.inf, math.inf, square_scale=scale)

    def require_lattice(self, extent: Extent) -> None:
        if extent.square > self.largest * (1.0 + 1e-9):  # [note: moment-7]
            raise MismatchError(
                f"the second moment was planned for weight times squared norm up to {self.largest:.6g}, but the ball "
                f"and the rule allow {extent.square:.6g}. Plan it for them."
            )

    def noise_in_words(self) -> str:
        return f", with Gaussian noise of standard deviation {number(self.noise.scale)} on its diagonal"

    def measure(self, content: WeightedRows | AllRows, ball: Ball, bits: BitSource) -> MomentValue:
        step = moment_step(self.noise.scale, math.sqrt(self.largest), ball.radius**2 * self.n_rows)
        # Threads and clusters divide the rows, so BLAS threads would only wait for each other.
        with one_blas_thread():
            total = content.total(_Moments(ball=ball, step=step))
        if ball.constant == 0.0:
            total = total[:-1, :-1]
        moment = noisy_matrix(total, self.noise, Lattice(step=step * step), bits)
        return MomentValue(moment=moment, scale=self.noise.scale, constant=ball.constant)

    def in_rows(self, value: Any, max_rows: int) -> Any:
        return replace(value, moment=value.moment * max_rows, scale=value.scale * max_rows)


@dataclass(frozen=True, kw_only=True)
class _Moments:
    """The contribution of rows to the second moment, in whole steps."""

    ball: Ball
    step: float

    def __call__(self, rows: FloatArray, weights: FloatArray) -> IntArray:
        factors = np.sqrt(weights) * (1.0 - MARGIN / 4.0) / self.step  # [note: moment-6]
        return add_moments(rows, factors, self.ball.constants(rows) * factors)
