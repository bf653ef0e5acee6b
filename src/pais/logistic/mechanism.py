"""Private logistic regression on one weighted sample: a mean, a second moment, and rounds of noisy gradients."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from pais._base import validate
from pais._base.files import stored
from pais._base.lattice import IntArray, Lattice
from pais._base.numerics import FloatArray
from pais._base.randomness import BitSource
from pais._base.rowwise import norms_of
from pais._base.threads import one_blas_thread
from pais.data.ball import Ball
from pais.data.engines.base import WeightedRows
from pais.errors import ArgumentError, ConvergenceError, MismatchError
from pais.logistic.descent import Descent, Link, Scaling
from pais.mechanisms.base import Extent, Mechanism
from pais.mechanisms.moments import MARGIN, add_moments, moment_step, noisy_matrix
from pais.mechanisms.noise import GaussianNoise
from pais.privacy.profiles import GaussianProfile, add_profiles

# Shortened rows and prices have the `MARGIN` of second moments. It is more than all rounding errors of norms, residuals
# and scales.

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


def largest_slope(n_classes: int) -> float:
    """Bound on the norm of p (1 - p) over the logits: 1/4 for the one of two classes, else sqrt(4/27)."""
    return 0.25 if n_classes == 2 else math.sqrt(4.0 / 27.0)  # [note: logistic-9]


@dataclass(frozen=True, kw_only=True)
class LogisticValue:
    """Coefficients of a logistic regression on the rows. They are protected and may be published.

    Attributes
    ----------
    coefficients : array of shape (n_inputs, n_logits)
        Change of the logit of each class per unit of each feature. With two classes there is one logit, that of the
        second class against the first. With more there is one for each class, and they add up to zero.
    intercepts : array of shape (n_logits,)
        Logits where all features are zero.
    noise_variances, row_variances : array of shape (n_inputs + 1, n_logits)
        Variances of the coefficients and, last, of the intercepts at the center of the ball. The first are due to the
        noise. The second are due to the draw of the rows and their classes if all rows have the weight 1.
    hidden_variances, biases : array of shape (n_inputs + 1, n_logits)
        Variances that are due to directions of the features that the noise hides, and what the penalty and too few
        rounds may have taken from the coefficients.
    listed : float
        Noisy sum of the shares that clipping left of the rows with a listed class, over the number of rows.
    listed_error : float
        Standard deviation of its noise.
    n_rounds : int
        Number of noisy gradients.
    gradient_noise : float
        Standard deviation of the noise of all gradients together, divided by the number of rows, in units of the
        radius.
    """

    coefficients: FloatArray
    intercepts: FloatArray
    noise_variances: FloatArray
    row_variances: FloatArray
    hidden_variances: FloatArray
    biases: FloatArray
    listed: float
    listed_error: float
    n_rounds: int
    gradient_noise: float


@stored("mechanism", "logistic regression")
@dataclass(frozen=True, kw_only=True)
class LogisticRounds(Mechanism):
    """Fit a logistic regression in rounds of noisy gradients on one sample.

    The rows have the features first and then one coordinate for each class: `label_length` for the class of
    the row and 0 for the others. A row whose class is none of these contributes nothing. A row that was clipped to the
    ball has all coordinates scaled by one factor, which its label shows. It counts with this factor as its weight.

    The first release is the sum of the rows, the second the second moment of the centered rows. They give a linear map
    of the features to coordinates of about equal spread. All gradients are taken in these coordinates, in which a row
    is shortened to its norm before the map, so that their noise fits the data and few rounds suffice. After
    a quarter and after half of the rounds, the second derivatives are released. They correct the steps and give the
    errors of the coefficients.

    Parameters
    ----------
    n_features, n_classes : int
        Number of columns, those of the classes included, and number of classes, at least 2.
    mean_noise, moment_noise, curvature_noise : GaussianNoise
        Noise of the sum of the rows, of the second moment, and of each of two releases of second derivatives.
    rounds : tuple of GaussianNoise
        Noise of each sum of gradients.
    radius : float
        Radius of the ball that the noise was planned for.
    n_rows, mean_square_norm : float
        Public or noisy number of rows and mean square of their norms.
    largest : float
        Largest product of weight and norm of a row. It decides how fine the sums are.
    reach : float
        Mean square norm of the rows over the mean square length of the rows whose gradients are taken, before those
        that are longer than their norm are shortened. A larger reach shortens fewer rows and adds more noise.
    label_length : float
        Length of the coordinate of a row's class.
    groups : tuple of tuple of int
        Columns that belong together: a row has `label_length` in one of them and 0 in the others, as for its class, or
        0 in all. Their coefficients add up to zero, so that each is a difference from their mean.

    Notes
    -----
    Guarantee. The profile bounds the Gaussian shift of a record of weight w and norm z: w z for the sum, w z^2 for the
    second moment, w z^2 / 4 for each release of second derivatives and w z for each gradient. With more than two
    classes, these are w z^2 sqrt(4/27) and sqrt(2) w z: `tests/theory/test_logistic.py`.
    """

    n_features: int
    n_classes: int
    mean_noise: GaussianNoise
    moment_noise: GaussianNoise
    curvature_noise: GaussianNoise
    rounds: tuple[GaussianNoise, ...]
    radius: float
    n_rows: float
    mean_square_norm: float
    largest: float
    reach: float = 1.0
    label_length: float = math.sqrt(2.0)
    groups: tuple[tuple[int, ...], ...] = ()
    name = "logistic regression"
    protects_units = True

    def __post_init__(self) -> None:
        for name in ("n_features", "n_classes"):
            object.__setattr__(self, name, validate.count(name, getattr(self, name)))
        for name in ("radius", "n_rows", "mean_square_norm", "largest", "reach", "label_length"):
            object.__setattr__(self, name, validate.positive(name, getattr(self, name)))
        object.__setattr__(self, "rounds", tuple(self.rounds))
        object.__setattr__(self, "groups", tuple(tuple(map(int, group)) for group in self.groups))
        if self.n_classes < 2 or self.n_features <= self.n_classes or not self.rounds:
            raise ArgumentError("a logistic regression needs two classes, a feature and a round. Pass at least these.")
        if not all(0 <= place < self.n_inputs for group in self.groups for place in group):
            raise ArgumentError("groups names a column that is not a feature. Pass numbers of features.")
        for noise in (self.mean_noise, self.moment_noise, self.curvature_noise, *self.rounds):
            validate.instance("a noise", noise, GaussianNoise, "Pass a GaussianNoise.")

    @property
    def n_inputs(self) -> int:
        """Number of features, without the coordinates of the classes."""
        return self.n_features - self.n_classes

    @property
    def n_logits(self) -> int:
        """Number of logits: one for two classes, else one for each class."""
        return 1 if self.n_classes == 2 else self.n_classes

    @property
    def largest_slope(self) -> float:
        """Bound on the norm of p (1 - p) over the logits."""
        return largest_slope(self.n_classes)

    @property
    def profile(self) -> GaussianProfile:
        """Loss of a record in all releases together (LOGISTIC-PROFILE)."""
        moment = GaussianProfile(math.inf, math.inf, square_scale=self.moment_noise.scale * (1.0 - MARGIN))
        scale = self.curvature_noise.scale / self.largest_slope * (1.0 - MARGIN)
        curvature = GaussianProfile(math.inf, math.inf, square_scale=scale)
        parts = [self.mean_noise.sum_profile(), moment, *(curvature for _ in self._learning)]
        parts += [GaussianProfile(math.inf, self._price_scale(noise)) for noise in self.rounds]
        return add_profiles(parts)  # [note: logistic-3]

    @property
    def _learning(self) -> tuple[int, ...]:
        """Numbers of the rounds before which second derivatives are released."""
        return len(self.rounds) // 4, len(self.rounds) // 2

    def _price_scale(self, noise: GaussianNoise) -> float:
        """Noise of a gradient in units of the largest residual, which is 1 for two classes and sqrt(2) for more."""
        largest = 1.0 if self.n_classes == 2 else math.sqrt(2.0)
        return noise.scale / largest * (1.0 - MARGIN)  # [note: logistic-1]

    @property
    def order(self) -> float:
        return 2.0

    def require_lattice(self, extent: Extent) -> None:
        if extent.radius != self.radius or extent.contribution > self.largest * (1.0 + 1e-9):  # [note: logistic-6]
            raise MismatchError(
                f"the logistic regression was planned for radius={self.radius!r} and weight times norm up to "
                f"{self.largest:.6g}. Plan it for this ball and rule."
            )
        Lattice.for_scale(self.mean_noise.scale).require(extent.contribution)

    def measure(self, content: WeightedRows, ball: Ball, bits: BitSource) -> LogisticValue:
        if content.n_features != self.n_features or ball.radius != self.radius:
            raise MismatchError(
                f"the rows do not have {self.n_features} columns in a ball of radius {self.radius!r}. Plan the "
                "logistic regression for them."
            )
        # The matrices are small, so BLAS threads would only wait for each other.
        with one_blas_thread(), np.errstate(all="ignore"):
            return self._fitted(LogisticSample(self, content), ball, bits)

    def _fitted(self, sample: LogisticSample, ball: Ball, bits: BitSource) -> LogisticValue:
        total = sample.total(self.mean_noise, bits)
        scaling = Scaling.about_mean(
            total,
            n_features=self.n_inputs,
            n_rows=self.n_rows,
            mean_square_norm=self.mean_square_norm,
            label_length=self.label_length,
            noise=self.mean_noise.scale,
        )
        sample.apply(scaling.matrix)
        moment = sample.moment(self.moment_noise, bits)
        center = np.zeros(self.n_features) if ball.center is None else np.asarray(ball.center)
        links = [
            Link(places=group, total=self.label_length - sum(center[list(group)].tolist())) for group in self.groups
        ]
        scaling = scaling.whitened(moment / self.n_rows, self.moment_noise.scale / self.n_rows, self.reach, links)
        sample.apply(scaling.matrix)
        descent = Descent(scaling, self.n_logits, [noise.scale / self.n_rows for noise in self.rounds])
        for number, noise in enumerate(self.rounds):
            if number in self._learning:
                seen = sample.curvature(descent.point, scaling.near, self.curvature_noise, bits)
                descent.learn(seen / self.n_rows, self.curvature_noise.scale / self.n_rows)
            if not np.all(np.isfinite(descent.point)):
                raise ConvergenceError("a coefficient is not a finite number. No value is returned.")
            descent.update(sample.gradient(descent.point, noise, bits) / self.n_rows)
        values, errors = descent.estimate()
        return LogisticValue(
            coefficients=values[:-1],
            # For rows about the origin instead of the center of the ball.
            intercepts=values[-1] - center[: self.n_inputs] @ values[:-1],
            **{**errors, "row_variances": errors["row_variances"] / self.n_rows},
            listed=float(total[self.n_inputs :].sum()) / (self.label_length * self.n_rows),
            listed_error=self.mean_noise.scale * math.sqrt(self.n_classes) / (self.label_length * self.n_rows),
            n_rounds=len(self.rounds),
            gradient_noise=descent.noise / self.radius,
        )
