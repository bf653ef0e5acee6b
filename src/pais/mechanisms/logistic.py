"""Private logistic regression on one weighted sample: a mean, a second moment, and rounds of noisy gradients."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from pais._base import validate
from pais._base.files import stored
from pais._base.lattice import Lattice
from pais._base.numerics import FloatArray
from pais._base.randomness import BitSource
from pais._base.threads import one_blas_thread
from pais.data.ball import Ball
from pais.data.engines import WeightedRows
from pais.errors import ArgumentError, ConvergenceError, MismatchError
from pais.mechanisms.base import Extent, Mechanism
from pais.mechanisms.logistic_sample import MARGIN, LogisticSample
from pais.mechanisms.logistic_steps import Descent, Link, Scaling
from pais.mechanisms.noise import GaussianNoise
from pais.privacy.profiles import GaussianProfile, add_profiles


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
            return self._moved(self._fitted(LogisticSample(self, content), ball, bits), ball)

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
        links = [self._link(group, ball) for group in self.groups]
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
        estimate = descent.coefficients()
        return LogisticValue(
            coefficients=estimate.values[:-1],
            intercepts=estimate.values[-1],
            noise_variances=estimate.noise_variances,
            row_variances=estimate.row_variances / self.n_rows,
            hidden_variances=estimate.hidden_variances,
            biases=estimate.biases,
            listed=float(total[self.n_inputs :].sum()) / (self.label_length * self.n_rows),
            listed_error=self.mean_noise.scale * math.sqrt(self.n_classes) / (self.label_length * self.n_rows),
            n_rounds=len(self.rounds),
            gradient_noise=descent.noise / self.radius,
        )

    def _link(self, group: tuple[int, ...], ball: Ball) -> Link:
        center = 0.0 if ball.center is None else sum(ball.center[place] for place in group)
        return Link(places=group, total=self.label_length - center)

    def _moved(self, value: LogisticValue, ball: Ball) -> LogisticValue:
        """Coefficients for rows about the origin instead of the center of the ball."""
        if ball.center is None:
            return value
        center = np.asarray(ball.center)[: self.n_inputs]
        return replace(value, intercepts=value.intercepts - center @ value.coefficients)
