"""A weighted sample with classes, prepared for a logistic regression: sums, second moments and gradients in integers.

Rows, maps and coefficients are rounded to whole numbers that are small enough for matrix products to be exact in
doubles. So no value of a row depends on the other rows, in whatever order a product is added.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from pais._base.lattice import IntArray, Lattice
from pais._base.numerics import FloatArray
from pais._base.randomness import BitSource
from pais._base.rowwise import norms_of
from pais.data.engines import WeightedRows
from pais.mechanisms.moments import MARGIN as _MOMENT_MARGIN, add_moments, moment_step, noisy_matrix
from pais.mechanisms.noise import GaussianNoise

if TYPE_CHECKING:
    from pais.mechanisms.logistic import LogisticRounds

#: Shortened rows and prices have this margin, more than all rounding errors of norms, residuals and scales.
MARGIN = _MOMENT_MARGIN

# Bits of the features and of the rows after a map, from the origin to the radius. Maps and coefficients have so many
# bits that products of them with a row stay below 2**53.
_ROW_BITS, _MAP_BITS = 20, 31
_SHORT_BITS, _POINT_BITS = 16, 36

# Weighted residuals have at most this many binary places, fewer if sums of many rows would exceed 64-bit integers.
_MOST_PLACES, _LEAST_PLACES, _TOTAL_BITS = 22, 4, 59

# Exact sums of products stay below this power of two.
_EXACT_BITS = 52

# Entries of maps and coefficients beyond this, which only noise without any signal can give, count as zero.
_LARGEST_ENTRY, _LEAST_SIZE = 1e140, 1e-140

# A second derivative is stretched by at most this factor.
_MOST_STRETCH = 1e6


class LogisticSample:
    """The rows of a sample in the coordinates of a map. Secret; it exists only inside a mechanism.

    A row x with factor f, the share of it that clipping to the ball left, becomes (x, f) times the matrix of the map,
    shortened to the norm of the row where it is longer.
    """

    def __init__(self, plan: LogisticRounds, content: WeightedRows) -> None:
        d = plan.n_inputs
        label = content.rows[:, d:]
        length: FloatArray = label.max(axis=1)
        known = length > 0.0
        rows = content.rows if known.all() else content.rows[known]
        self._plan, self._whole = plan, rows
        self._weights: FloatArray = content.weights[known]
        self._label = label[known].argmax(axis=1)
        self._factor = np.minimum(length[known] / plan.label_length, 1.0)
        # A norm of a clipped row is at most the norm that decided about its probability.
        self._norms = norms_of(rows, 2.0) * (1.0 - MARGIN / 4.0)  # [note: logistic-2]
        self._unit = plan.radius / 2.0**_ROW_BITS
        self._grid = np.empty((len(rows), d + 1))
        np.trunc(rows[:, :d] / self._unit, out=self._grid[:, :-1])
        self._grid[:, -1] = np.trunc(self._factor * 2.0**_ROW_BITS)
        self._step = plan.radius / 2.0**_SHORT_BITS
        self._short = np.empty((0, d + 1))
        self._stretch = np.empty(0)

    def total(self, noise: GaussianNoise, bits: BitSource) -> FloatArray:
        """Noisy sum of the rows, with their labels."""
        lattice = Lattice.for_scale(noise.scale)
        steps = lattice.encode(self._whole * self._weights[:, None]).sum(axis=0)
        return _noisy(steps, noise, lattice, bits)

    def apply(self, matrix: FloatArray) -> None:
        """Map the rows (x, f) to (x, f) times a public or released matrix, and shorten them to their norms."""
        self._short, share = self._shortened(matrix)
        # What a logit of the shortened row has to be multiplied by to be that of the row before clipping.
        self._stretch = 1.0 / np.maximum(share * self._factor, 1e-300)

    def _shortened(self, matrix: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Rows after a map, shortened, in whole steps, and the share that this left of each."""
        # The last row of the matrix belongs to the factor, which is in units of 1 instead of the radius.
        matrix = np.vstack([matrix[:-1], matrix[-1:] / self._plan.radius])
        whole, unit = _whole(matrix, _MAP_BITS)
        mapped = self._grid @ whole  # [note: logistic-4]
        mapped *= self._unit * unit
        length = norms_of(mapped, 2.0)
        share = np.where(length > self._norms, self._norms / np.where(length > 0.0, length, 1.0), 1.0)
        share *= 1.0 - MARGIN / 4.0
        mapped *= share[:, None] / self._step
        return np.trunc(mapped, out=mapped), share

    def moment(self, noise: GaussianNoise, bits: BitSource) -> FloatArray:
        """Noisy second moment of the mapped rows."""
        steps, lattice = self.moment_steps(noise.scale)
        return noisy_matrix(steps, noise, lattice, bits)

    def moment_steps(self, scale: float) -> tuple[IntArray, Lattice]:
        """Second moment of the mapped rows in whole steps, for noise of a scale."""
        radius = self._plan.radius
        step = moment_step(scale, math.sqrt(self._plan.largest * radius), radius**2 * self._plan.n_rows)
        factors = np.sqrt(self._weights) * (1.0 - MARGIN / 4.0) * (self._step / step)
        return add_moments(self._short[:, :-1], factors, self._short[:, -1] * factors), Lattice(step=step * step)

    def gradient(self, point: FloatArray, noise: GaussianNoise, bits: BitSource) -> FloatArray:
        """Noisy sum of the gradients of the mapped rows at coefficients of shape (d + 1, n_logits)."""
        steps, lattice = self.gradient_steps(point)
        return _noisy(steps, noise, lattice, bits)

    def gradient_steps(self, point: FloatArray) -> tuple[IntArray, Lattice]:
        """Sum of the gradients in whole steps: residuals, truncated toward zero, times mapped rows."""
        lattice = Lattice(step=self._step * 2.0**-self._places)
        residuals = self._residuals(point) * self._weights[:, None] * 2.0**self._places
        np.trunc(residuals, out=residuals)  # [note: logistic-5]
        total = np.zeros(point.shape, dtype=np.int64)
        # Products of so many rows are exact.
        n_exact = max(1, int(2.0**_EXACT_BITS * lattice.step / self._plan.largest))
        for start in range(0, len(residuals), n_exact):
            piece = slice(start, start + n_exact)
            total += (self._short[piece].T @ residuals[piece]).astype(np.int64)
        return total, lattice

    def curvature(self, point: FloatArray, matrix: FloatArray, noise: GaussianNoise, bits: BitSource) -> FloatArray:
        """Noisy sums of the second derivatives of the mapped rows at coefficients, a matrix for each logit.

        They are those of the loss whose gradients are released, in the coordinates of another `matrix`, which is a
        multiple of the map. With longer rows there is less noise, but rows that are much shortened count too little.
        """
        totals, lattice = self.curvature_steps(point, matrix, noise.scale)
        return np.stack([noisy_matrix(total, noise, lattice, bits) for total in totals])

    def curvature_steps(self, point: FloatArray, matrix: FloatArray, scale: float) -> tuple[list[IntArray], Lattice]:
        """Second derivatives in whole steps, for noise of a scale: the moments of rows times the roots of slopes."""
        plan = self._plan
        longest, total = plan.largest * plan.radius, plan.radius**2 * plan.n_rows
        step = moment_step(scale, math.sqrt(plan.largest_slope * longest), plan.largest_slope * total)
        rows, share = self._shortened(matrix)
        stretch = 1.0 / np.maximum(share * self._factor, 1e-300)
        # A row of the gradient is shortened by one of two equal factors of the second derivative.
        slopes = self._slopes(point, np.minimum(stretch / self._stretch * stretch, _MOST_STRETCH))
        factors = np.sqrt(slopes * self._weights[:, None]) * ((1.0 - MARGIN / 4.0) * self._step / step)
        totals = [add_moments(rows[:, :-1], column, rows[:, -1] * column) for column in factors.T]
        return totals, Lattice(step=step * step)

    def _slopes(self, point: FloatArray, stretch: FloatArray) -> FloatArray:
        """Derivative p (1 - p) of each probability, times a factor for each row, at most `largest_slope` in norm."""
        chances = self._chances(point)
        slopes: FloatArray = chances * (1.0 - chances)
        squares = np.zeros(len(slopes))
        for column in slopes.T:
            squares += column * column
        length, largest = np.sqrt(squares), self._plan.largest_slope
        longer = length * stretch > largest
        slopes *= np.where(longer, largest / np.where(longer, length, 1.0), stretch)[:, None]  # [note: logistic-8]
        return slopes

    @property
    def _places(self) -> int:
        """Binary places of the weighted residuals."""
        rows = math.ceil(math.log2(max(self._plan.n_rows, self._plan.largest / self._plan.radius, 1.0)))
        return max(min(_MOST_PLACES, _TOTAL_BITS - _SHORT_BITS - rows), _LEAST_PLACES)

    def _residuals(self, point: FloatArray) -> FloatArray:
        """Probability of each class minus 1 for the class of the row, at most 1 or sqrt(2) in norm."""
        residuals = self._chances(point)
        if self._plan.n_classes == 2:
            residuals -= self._label[:, None]
        else:
            residuals[np.arange(len(residuals)), self._label] -= 1.0
        return residuals

    def _chances(self, point: FloatArray) -> FloatArray:
        """Probability of each class; of the second if there are two."""
        whole, unit = _whole(point, _POINT_BITS)
        logits = (self._short @ whole) * (self._step * unit)
        logits *= self._stretch[:, None]
        # Infinite logits have no differences, and a residual that is not a number has no bound.
        logits = np.clip(np.nan_to_num(logits), -1e4, 1e4)  # [note: logistic-7]
        if self._plan.n_classes == 2:
            # SciPy computes elements one by one, so the result does not depend on the place in the array.
            return np.asarray(special.expit(logits))
        chances: FloatArray = special.exp2((logits - logits.max(axis=1, keepdims=True)) * math.log2(math.e))
        sums = np.zeros(len(chances))
        for column in chances.T:
            sums += column
        chances /= sums[:, None]
        return chances


def _noisy(steps: IntArray, noise: GaussianNoise, lattice: Lattice, bits: BitSource) -> FloatArray:
    return lattice.decode(noise.added_to(steps.reshape(1, -1), lattice, bits).reshape(steps.shape))


def _whole(matrix: FloatArray, n_bits: int) -> tuple[FloatArray, float]:
    """A released matrix as whole numbers of so many bits, and their unit. Both are finite for every matrix."""
    finite = np.where(np.abs(matrix) <= _LARGEST_ENTRY, matrix, 0.0)
    size = max(float(np.sqrt(np.square(finite).sum(axis=0).max())), _LEAST_SIZE)
    return np.trunc(finite / size * 2.0**n_bits), size / 2.0**n_bits
