"""Post-processing of a private logistic regression: coordinates from released moments, and steps from noisy gradients.

Nothing in this module reads rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pais._base.numerics import FloatArray

# Mean square length of the mapped rows before they are shortened, over that of the shortened rows: for the second
# moment and for the gradients. Below 1, most rows are shortened, which gives all rows about the same influence.
_MOMENT_REACH, _GRADIENT_REACH = 0.6, 0.5

# Length of the constant coordinate over the root mean square of the centered features.
_CONSTANT = 0.5

# Eigenvalues of the second moment are raised by this multiple of the largest eigenvalue of its noise.
_RAISE = 0.8

# The centered features have at least this share of the mean square norm.
_LEAST_SPREAD = 0.05

# Clipping to the ball leaves the rows at least this share of their length on average.
_LEAST_FACTOR = 0.3

# A direction of the mapped rows has at least this mean square in the model of the curvature.
_LEAST_SQUARE = 0.4

# Curvature along the coefficients over that across them, at least.
_LEAST_ALONG = 0.3

# A mean square is not seen if it is below this many standard deviations of its noise.
_UNSEEN = 2.0

# Steps are longer than those of the curvature in the model by this factor, which corrects that the model ignores how
# curvature and length of a row go together.
_STEP = 1.5

# Share of what earlier gradients tell that is left after a round.
_MEMORY = 0.97

# Penalty on the norm of the coefficients, over the root mean square of the norm of the noise. It is larger where the
# noise is as large as the signal, so that noise alone leaves the coefficients at zero.
_PENALTY, _PENALTY_IN_NOISE = 0.7, 0.7

# Root mean square of the logits that is expected before anything is known. It limits coefficients where the noise is
# larger than any gradient, so that no penalty in proportion to their norm would.
_USUAL_LOGIT = 2.5

_NODES, _NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(41)
_NODE_WEIGHTS = _NODE_WEIGHTS / _NODE_WEIGHTS.sum()


@dataclass(frozen=True, kw_only=True)
class Link:
    """Coordinates of a column of categories, relative to a center, and their sum if the category is listed. Public."""

    places: tuple[int, ...]
    total: float


@dataclass(frozen=True, kw_only=True)
class Scaling:
    """A linear map of rows (x, f) with d features and a factor f to d + 1 coordinates. Released.

    Attributes
    ----------
    matrix : array of shape (d + 1, d + 1)
        The map.
    squares : array of shape (d + 1,)
        Mean square of each coordinate, over that of the unit in which the coefficients are penalized alike.
    reach : float
        Length that the map divides by, so that most rows are not longer than before.
    factor : float
        Mean share of a row that clipping left.
    gauge : array of shape (d + 1, d + 1)
        A map of coefficients that changes no logit of the rows: see `whitened`.
    """

    matrix: FloatArray
    squares: FloatArray
    reach: float
    factor: float
    gauge: FloatArray

    @classmethod
    def about_mean(
        cls,
        total: FloatArray,
        *,
        n_features: int,
        n_rows: float,
        mean_square_norm: float,
        label_length: float,
        noise: float,
    ) -> Scaling:
        """The map that centers the features, from the noisy sum of the rows."""
        d = n_features
        factor = float(np.clip(total[d:].sum() / (label_length * n_rows), _LEAST_FACTOR, 1.0))
        mean = total[:d] / (n_rows * factor)
        # A mean that the noise hides is taken to be zero.
        square, error = float(mean @ mean), d * (noise / (n_rows * factor)) ** 2
        mean *= max(0.0, 1.0 - error / square) if square > 0.0 else 0.0
        spread = mean_square_norm - (label_length**2 + float(mean @ mean)) * factor**2
        spread = max(spread, _LEAST_SPREAD * mean_square_norm)
        constant = _CONSTANT * math.sqrt(spread)
        reach = math.sqrt(_MOMENT_REACH * (spread + constant**2) / mean_square_norm)
        matrix = np.eye(d + 1)
        matrix[-1, :-1], matrix[-1, -1] = -mean, constant
        return cls(matrix=matrix / reach, squares=np.ones(d + 1), reach=reach, factor=factor, gauge=np.eye(d + 1))

    def whitened(self, moment: FloatArray, noise: float, links: Sequence[Link] = ()) -> Scaling:
        """The map to coordinates of about equal spread, from the noisy mean of u u' over the mapped rows u.

        Directions that stand out of the noise get a mean square near 1. The others get less, all by one factor.

        A column of categories has coordinates that add up to a constant in all rows whose category is listed. Then only
        the differences of their coefficients and the intercept matter, and the coefficients are made to add up to zero,
        unless the moment says that the category of many rows is none of those listed.
        """
        gauge = np.eye(len(moment))
        for link in links:
            combination = np.zeros(len(moment))
            combination[list(link.places)], combination[-1] = 1.0, -link.total
            mapped = np.linalg.solve(self.matrix, combination)
            if mapped @ moment @ mapped <= _UNSEEN * noise * float(mapped @ mapped):
                gauge[:, list(link.places)] -= combination[:, None] / len(link.places)
        values, vectors = np.linalg.eigh(moment)
        values = np.maximum(values, 0.0)
        raised = values + _RAISE * noise * math.sqrt(2.0 * len(values))
        squares = values / raised
        # If no eigenvalue is positive, the quotient has this limit.
        quotient = float(squares.sum() / values.sum()) if np.any(values) else 1.0 / float(raised[0])
        reach = math.sqrt(_GRADIENT_REACH * quotient)
        return Scaling(
            matrix=self.matrix @ (vectors / np.sqrt(raised)) / reach,
            squares=squares,
            reach=reach,
            factor=self.factor,
            gauge=gauge,
        )


class Descent:
    """Coefficients that follow noisy gradients, in the coordinates of a whitening map.

    Each round updates an estimate of the gradient at the present point. It combines the new noisy gradient with the
    estimate of the last round, moved by a model of the curvature, with weights by their information. Then the point
    moves to the minimum of the quadratic model with a penalty on the norm of the coefficients in proportion to the norm
    of the noise, so that noise alone leaves them at zero.

    The model of the curvature is that of normal rows with the released second moment.
    """

    def __init__(self, scaling: Scaling, n_logits: int, noises: Sequence[float]) -> None:
        """Start at zero. `noises` are the standard deviations of the mean gradients, one for each round."""
        self._scaling = scaling
        self._squares = np.maximum(scaling.squares, _LEAST_SQUARE)
        d = len(self._squares)
        # Coefficients and gradients are in units of the map without the division by its reach.
        self._information = [(noise * scaling.reach) ** -2 for noise in noises]
        self._round = 0
        self._seen = 0.0
        self._point = np.zeros((d, n_logits))
        self._last = self._point
        self._gradient = np.zeros_like(self._point)
        self._strength = 0.0

    @property
    def noise(self) -> float:
        """Standard deviation of the noise of all gradients together, in units of the rows."""
        return 1.0 / (math.sqrt(sum(self._information)) * self._scaling.reach)

    @property
    def point(self) -> FloatArray:
        """Coefficients of the mapped rows at which the next gradient is taken."""
        return self._point * self._scaling.reach

    def update(self, gradient: FloatArray) -> None:
        """Move to the next point after a noisy mean gradient of the mapped rows at `point`."""
        gradient = self._balanced(gradient * self._scaling.reach)
        information = self._information[self._round]
        self._round += 1
        self._seen = _MEMORY * self._seen + information
        curvature = _Curvature.at(self._point, self._squares, self._scaling.factor)
        expected = self._gradient + curvature.times(self._point - self._last)
        self._gradient = expected + information / self._seen * (gradient - expected)
        self._last = self._point
        n_free = self._point.size - (len(self._point) if self._point.shape[1] > 1 else 0)
        noise = math.sqrt(n_free / min(self._seen, sum(self._information)))
        target = curvature.times(self._point) - self._gradient
        ratio = noise / max(float(np.linalg.norm(target)), noise)
        penalty = (_PENALTY + _PENALTY_IN_NOISE * ratio**2) * noise
        least = (noise / _USUAL_LOGIT) ** 2 / float(curvature.across.mean())
        point, self._strength = _penalized(curvature, target, penalty, least)
        self._point = self._balanced(point)

    @staticmethod
    def _balanced(gradient: FloatArray) -> FloatArray:
        """Gradients and coefficients of several logits add up to zero; their noise does not."""
        return gradient if gradient.shape[1] == 1 else gradient - gradient.mean(axis=1, keepdims=True)

    def coefficients(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Coefficients of the features and the intercept of unclipped rows, and their variances.

        The first variances are due to the noise. The second are due to the draw of the rows and their classes, times
        the number of rows, if all rows have the weight 1. In the model of the curvature, the covariance of the gradient
        of a row is the curvature times the factor by which rows are shortened.
        """
        matrix = self._scaling.gauge @ self._scaling.matrix * self._scaling.reach
        curvature = _Curvature.at(self._point, self._squares, self._scaling.factor)
        noise, rows = np.empty_like(self._point), np.empty_like(self._point)
        for logit in range(noise.shape[1]):
            response = curvature.solve(np.asarray(matrix.T), self._strength, logit)
            noise[:, logit] = np.square(response).sum(axis=0)
            # The curvature times the response is what the penalty leaves of the matrix.
            rows[:, logit] = (response * (matrix.T - self._strength * response)).sum(axis=0)
        share = 1.0 if noise.shape[1] == 1 else 1.0 - 1.0 / noise.shape[1]
        size = _shortening(self._scaling.factor)
        return matrix @ self._point, noise * share / sum(self._information), np.maximum(rows, 0.0) * share * size


@dataclass(frozen=True, kw_only=True)
class _Curvature:
    """Second derivatives diag(across * squares) - along v v' for each logit, of normal rows with these squares."""

    squares: FloatArray
    across: FloatArray
    along: FloatArray
    directions: FloatArray

    @classmethod
    def at(cls, point: FloatArray, squares: FloatArray, factor: float) -> _Curvature:
        n_logits = point.shape[1]
        deviations = np.sqrt(squares @ np.square(point))
        # A logit against the others, which are at 0 on average.
        offset = 0.0 if n_logits == 1 else -math.log(n_logits - 1.0)
        chance = 0.5 * (1.0 + np.tanh(0.5 * (offset + np.outer(deviations, _NODES))))
        slope = chance * (1.0 - chance)
        across = slope @ _NODE_WEIGHTS
        along = np.maximum(slope @ (_NODE_WEIGHTS * _NODES**2), _LEAST_ALONG * across)
        size = _shortening(factor)
        directions = squares[:, None] * point / np.where(deviations > 0.0, deviations, 1.0)
        return cls(
            squares=squares,
            across=np.maximum(across, 1e-12) * size,
            along=np.maximum(across - along, 0.0) * size,
            directions=directions,
        )

    def times(self, point: FloatArray) -> FloatArray:
        inner = np.sum(self.directions * point, axis=0)
        return np.asarray(self.squares[:, None] * self.across * point - self.directions * (self.along * inner))

    def solve(self, target: FloatArray, strength: float, logit: int) -> FloatArray:
        """Solve (curvature + strength) x = target for one logit and one or more targets, the columns of `target`."""
        diagonal = self.across[logit] * self.squares + strength
        direction = self.directions[:, logit]
        plain, moved = (target.T / diagonal).T, direction / diagonal
        rest = 1.0 - self.along[logit] * float(direction @ moved)
        return np.asarray(plain + np.multiply.outer(moved, self.along[logit] / rest * (moved @ target)))

    def solve_all(self, target: FloatArray, strength: float) -> FloatArray:
        columns = [self.solve(target[:, logit], strength, logit) for logit in range(target.shape[1])]
        return np.stack(columns, axis=1)


def _shortening(factor: float) -> float:
    """Factor by which shortened rows reduce the curvature."""
    return math.sqrt(_GRADIENT_REACH) * factor / _STEP


def _penalized(curvature: _Curvature, target: FloatArray, penalty: float, least: float) -> tuple[FloatArray, float]:
    """Minimum of x'Hx/2 - target'x + penalty * |x|, and the ridge penalty with this minimum, at least `least`."""
    size = float(np.linalg.norm(target))
    if size <= penalty:
        return np.zeros_like(target), least
    low, high = math.log(max(least, 1e-12 * size)), math.log(1e12 * size + least)
    for _ in range(60):
        middle = 0.5 * (low + high)
        solution = curvature.solve_all(target, math.exp(middle))
        if math.exp(middle) * float(np.linalg.norm(solution)) > penalty:
            high = middle
        else:
            low = middle
    return curvature.solve_all(target, math.exp(low)), math.exp(low)
