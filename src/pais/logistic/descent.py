"""Post-processing of a private logistic regression: coordinates from released moments, and steps from noisy gradients.

Nothing in this module reads rows. Where a constant names no other source, it was chosen by eye in commit a379e13 or
b4f1a5f; logistic-loss.md and coverage-models.md of benchmarks/results show what they reach together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from pais._base.numerics import FloatArray

# Curvature along the coefficients over that across them, at least.
_LEAST_ALONG = 0.3

# Mean square norm of the rows over the mean square length of the mapped rows of the second moment, before these are
# shortened. Below 1, most rows are shortened, which gives all rows about the same influence. That of the gradients
# follows from the noise, in `pais.logistic.planning`.
_MOMENT_REACH = 0.6

# The same for the second derivatives, at most.
_CURVATURE_REACH = 2.0

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

# A mean square is not seen if it is below this many standard deviations of its noise.
_UNSEEN = 2.0

# Curvature over that of the model, which ignores how curvature and length of a row go together: at a reach of at most
# 1, where most rows are shortened, and at a large one, where the moment of shortened rows is less than that of rows.
# Measured on Adult, Song and Covertype, where the second is between 0.2 and 3 in one direction or another.
_SHORT_CURVATURE, _LONG_CURVATURE = 1.0 / 1.5, 1.5

# Error of the curvature, relative to itself. What earlier gradients tell loses weight where the point has moved so far
# that this error is larger than their noise.
_MISFIT = 0.4

# The noise alone moves coefficients in the second half of the rounds by three times the variance of the noise that is
# left. Squares of moves below this multiple of it are taken to be noise.
_CHANCE = 6.0

# A curvature that is too small makes the point swing. It is raised if the last two gradients say that it is too small
# by more than this factor, and by more than their noise.
_TOO_STEEP = 1.5

# Root mean square of the change of the logits in a round, at most: far from its point, a quadratic model is wrong.
_LONGEST_MOVE = 0.5

# Penalty on the norm of the coefficients, over the root mean square of the norm of the noise. It is larger where the
# noise is as large as the signal, so that noise alone leaves the coefficients at zero.
_PENALTY = 1.4

# Root mean square of the logits that is expected before anything is known. It limits coefficients where the noise is
# larger than any gradient, so that no penalty in proportion to their norm would.
_USUAL_LOGIT = 2.5

# Standard deviation of the change of a logit over half the range of a feature, as far as the noise hides it.
_LARGE_EFFECT = 4.0

# Nodes and weights of Gauss-Hermite quadrature.
_NODES, _NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(41)
_NODE_WEIGHTS = _NODE_WEIGHTS / _NODE_WEIGHTS.sum()

_Curvature: TypeAlias = "ModelCurvature | SeenCurvature"


def doubt(values: FloatArray, noise: float) -> float:
    """How much less the mean square in the direction of an eigenvector may be than the eigenvalue, due to noise.

    One standard deviation of the noise in this direction, and what the other directions explain: their products with it
    are noise, so that the square of each over their own mean square is lost. `noise` is that of the diagonal.
    """
    edge = noise * math.sqrt(2.0 * len(values))
    return noise + (noise**2 / 2.0 * float((1.0 / np.maximum(values, edge)).sum()) if edge > 0.0 else 0.0)


@dataclass(frozen=True, kw_only=True)
class ModelCurvature:
    """Second derivatives diag(across * squares) - along v v' for each logit, of normal rows with these squares."""

    squares: FloatArray
    across: FloatArray
    along: FloatArray
    directions: FloatArray

    @classmethod
    def at(cls, point: FloatArray, squares: FloatArray, size: float) -> ModelCurvature:
        """Curvature at coefficients, for normal rows with these mean squares, times a factor `size`."""
        n_logits = point.shape[1]
        deviations = np.sqrt(squares @ np.square(point))
        # A logit against the others, which are at 0 on average.
        offset = 0.0 if n_logits == 1 else -math.log(n_logits - 1.0)
        chance = 0.5 * (1.0 + np.tanh(0.5 * (offset + np.outer(deviations, _NODES))))
        slope = chance * (1.0 - chance)
        across = slope @ _NODE_WEIGHTS
        along = np.maximum(slope @ (_NODE_WEIGHTS * _NODES**2), _LEAST_ALONG * across)
        directions = squares[:, None] * point / np.where(deviations > 0.0, deviations, 1.0)
        return cls(
            squares=squares,
            across=np.maximum(across, 1e-12) * size,
            along=np.maximum(across - along, 0.0) * size,
            directions=directions,
        )

    @property
    def mean(self) -> float:
        return float(self.across.mean())

    def times(self, point: FloatArray) -> FloatArray:
        inner = np.sum(self.directions * point, axis=0)
        return np.asarray(self.squares[:, None] * self.across * point - self.directions * (self.along * inner))

    def solve(self, target: FloatArray, strength: float) -> FloatArray:
        diagonal = self.across * self.squares[:, None] + strength
        plain, moved = target / diagonal, self.directions / diagonal
        rest = 1.0 - self.along * (self.directions * moved).sum(axis=0)
        return np.asarray(plain + moved * (self.along / rest * (moved * target).sum(axis=0)))

    def matrices(self) -> FloatArray:
        """The matrices themselves, of shape (n_logits, d + 1, d + 1)."""
        diagonal = np.stack([np.diag(self.squares * across) for across in self.across])
        return np.asarray(
            diagonal - self.along[:, None, None] * self.directions.T[:, :, None] * self.directions.T[:, None]
        )


@dataclass(frozen=True, kw_only=True)
class SeenCurvature:
    """Second derivatives by their eigenvalues: the model, moved toward a noisy release of them.

    Attributes
    ----------
    values : array of shape (n_logits, d + 1)
        Eigenvalues, raised to the largest one of the noise.
    least : array of shape (n_logits, d + 1)
        Lower bounds on the eigenvalues. They hold unless the noise is unusually large.
    vectors : array of shape (n_logits, d + 1, d + 1)
        Eigenvectors, in columns.
    """

    values: FloatArray
    least: FloatArray
    vectors: FloatArray

    @classmethod
    def of(cls, model: ModelCurvature, least_squares: FloatArray, seen: FloatArray, noise: float) -> SeenCurvature:
        """Combine a model, in which mean squares may be as small as `least_squares`, with noisy matrices.

        The difference is shrunk as the noise in it demands (James and Stein). Coordinates whose mean square the noise
        hides keep the model: the noise would mix them with the others. `noise` is that of the diagonal.
        """
        taper = np.clip(least_squares / model.squares, 0.0, 1.0)
        outer, square_taper = np.multiply.outer(taper, taper), np.square(taper)
        energy = noise**2 / 2.0 * float(np.square(outer).sum() + np.square(square_taper).sum())
        edge = noise * math.sqrt(2.0 * float(square_taper.sum()))
        missing = np.maximum(model.squares - least_squares, 0.0)
        values, least, vectors = [], [], []
        for across, plain, matrix in zip(model.across, model.matrices(), seen, strict=True):
            change = (matrix - plain) * outer
            square = float(np.square(change).sum())
            gain = max(0.0, 1.0 - energy / square) if square > 0.0 else 0.0
            eigenvalues, directions = np.linalg.eigh(plain + gain * change)
            squares = np.square(directions).T
            unseen = squares @ ((1.0 - gain * square_taper) * across * missing)
            unseen += (squares @ square_taper) * doubt(np.maximum(eigenvalues, 0.0), gain * noise)
            values.append(np.maximum(eigenvalues, np.maximum(gain * edge, 1e-12)))
            least.append(np.maximum(eigenvalues - unseen, 0.0))
            vectors.append(directions)
        return cls(values=np.stack(values), least=np.stack(least), vectors=np.stack(vectors))

    @property
    def mean(self) -> float:
        return float(self.values.mean())

    def times(self, point: FloatArray) -> FloatArray:
        return self._scaled(point, self.values)

    def solve(self, target: FloatArray, strength: float) -> FloatArray:
        return self._scaled(target, 1.0 / (self.values + strength))

    def _scaled(self, point: FloatArray, factors: FloatArray) -> FloatArray:
        inner = np.einsum("lji,jl->li", self.vectors, point) * factors
        return np.asarray(np.einsum("lji,li->jl", self.vectors, inner))


@dataclass(frozen=True, kw_only=True)
class Link:
    """Coordinates of a column of categories, relative to a center, and their sum if the category is listed. Public."""

    places: tuple[int, ...]
    total: float


@dataclass(frozen=True, kw_only=True)
class Scaling:
    """A linear map of rows (x, f) with d features and a factor f to k coordinates, at most d + 1. Released.

    Attributes
    ----------
    matrix : array of shape (d + 1, k)
        The map.
    squares : array of shape (k,)
        Mean square of each coordinate, over that of the unit in which the coefficients are penalized alike.
    reach : float
        Length that the map divides by, so that most rows are not longer than before.
    factor : float
        Mean share of a row that clipping left.
    shortening : float
        Factor by which shortened rows and clipping reduce the curvature.
    least_squares : array of shape (k,)
        What each of `squares` is at least, if the noise of the moment is not unusually large.
    near_reach : float
        The same length for the second derivatives, which are in the coordinates of the map `near`.
    label_length : float
        Length of the coordinate of a row's class, which is part of its norm.
    gauge : array of shape (d + 1, d + 1)
        A map of coefficients that makes those of each column of categories add up to zero. It changes no logit of a row
        whose categories are listed: see `whitened`.
    """

    matrix: FloatArray
    squares: FloatArray
    reach: float
    factor: float
    shortening: float
    least_squares: FloatArray
    near_reach: float
    label_length: float
    gauge: FloatArray

    @property
    def near(self) -> FloatArray:
        """The map for the second derivatives: a multiple of the other, with longer rows and thus less noise."""
        return self.matrix * (self.reach / self.near_reach)

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
        return cls(
            matrix=matrix / reach,
            squares=np.ones(d + 1),
            reach=reach,
            factor=factor,
            shortening=factor,
            least_squares=np.ones(d + 1),
            near_reach=reach,
            label_length=label_length,
            gauge=np.eye(d + 1),
        )

    def whitened(self, moment: FloatArray, noise: float, reach: float, links: Sequence[Link] = ()) -> Scaling:
        """The map to coordinates of about equal spread, from the noisy mean of u u' over the mapped rows u.

        The mapped rows have the mean square length of the rows before, divided by `reach`, or more if this shortens no
        row. Directions that stand out of the noise get a mean square near 1. The others get less, all by one factor.

        A column of categories has coordinates that add up to a constant in all rows whose category is listed. For these
        rows, only the differences of their coefficients and the intercept matter. So the coefficients are always made
        to add up to zero, and a row without a listed category has the mean logit of the categories. The map leaves out
        the direction of the common part, unless the moment says that many rows go in it: those whose category is none
        of those listed.
        """
        gauge, idle = np.eye(len(moment)), []
        for link in links:
            combination = np.zeros(len(moment))
            combination[list(link.places)], combination[-1] = 1.0, -link.total
            gauge[:, list(link.places)] -= combination[:, None] / len(link.places)
            mapped = np.linalg.solve(self.matrix, combination)
            if mapped @ moment @ mapped <= _UNSEEN * noise * float(mapped @ mapped):
                idle.append(mapped)
        basis = np.eye(len(moment)) if not idle else np.linalg.qr(np.stack(idle, axis=1), mode="complete")[0]
        basis = basis[:, len(idle) :]
        values, vectors = np.linalg.eigh(basis.T @ moment @ basis)
        values = np.maximum(values, 0.0)
        edge = noise * math.sqrt(2.0 * len(values))
        raised = values + _RAISE * edge
        squares = values / raised
        # If no eigenvalue is positive, the quotient has this limit.
        quotient = float(squares.sum() / values.sum()) if np.any(values) else 1.0 / float(raised[0])
        matrix = self.matrix @ basis @ (vectors / np.sqrt(raised))
        reach = min(reach, self._longest(matrix) ** 2 / quotient)
        length = math.sqrt(reach * quotient)
        ratio = _LONG_CURVATURE - (_LONG_CURVATURE - _SHORT_CURVATURE) / max(reach, 1.0)
        return Scaling(
            matrix=matrix / length,
            squares=squares,
            reach=length,
            factor=self.factor,
            shortening=min(1.0, math.sqrt(reach)) * self.factor * ratio,
            least_squares=np.maximum(values - doubt(values, noise), 0.0) / raised,
            near_reach=math.sqrt(min(reach, _CURVATURE_REACH) * quotient),
            label_length=self.label_length,
            gauge=gauge,
        )

    def _longest(self, matrix: FloatArray) -> float:
        """Largest length of a mapped row over its norm: no row is shortened if the map is divided by it."""
        scaled = np.vstack([matrix[:-1], matrix[-1:] / self.label_length])
        return float(np.linalg.norm(scaled, 2))


class Descent:
    """Coefficients that follow noisy gradients, in the coordinates of a whitening map.

    The gradients of all rounds and the points where they were taken are averaged, with weights by their information.
    With the curvature, this gives a quadratic model of the loss. The point moves to its minimum, with a penalty on the
    norm of the coefficients that follows from the norm of the noise, so that noise alone leaves them at zero.

    The curvature is at first that of normal rows with the released second moment. `learn` corrects it.
    """

    def __init__(self, scaling: Scaling, n_logits: int, noises: Sequence[float]) -> None:
        """Start at zero. `noises` are the standard deviations of the mean gradients, one for each round."""
        self._scaling = scaling
        self._squares = np.maximum(scaling.squares, _LEAST_SQUARE)
        d = len(self._squares)
        # Coefficients and gradients are in units of the map without the division by its reach.
        self._information = [(noise * scaling.reach) ** -2 for noise in noises]
        self._round = 0
        self._weight, self._square = 0.0, 0.0
        self._point = np.zeros((d, n_logits))
        self._mean_point, self._mean_gradient = self._point, self._point
        self._learned_at = self._point
        self._learned: SeenCurvature | None = None
        self._steeper = 1.0
        self._last: tuple[FloatArray, FloatArray, float] | None = None
        self._strength = 0.0

    @property
    def noise(self) -> float:
        """Standard deviation of the noise of all gradients together, in units of the rows."""
        return math.sqrt(self._variance) / self._scaling.reach

    @property
    def _variance(self) -> float:
        """Variance of the noise of the mean gradient."""
        return self._square / self._weight**2

    @property
    def point(self) -> FloatArray:
        """Coefficients of the mapped rows at which the next gradient is taken."""
        return self._point * self._scaling.reach

    @property
    def _curvature(self) -> _Curvature:
        """Curvature that decides the steps."""
        if self._learned is None:
            return ModelCurvature.at(self._point, self._squares, self._scaling.shortening * self._steeper)
        return replace(self._learned, values=self._learned.values * self._steeper)

    def learn(self, matrices: FloatArray, noise: float) -> None:
        """Correct the curvature by noisy means of second derivatives at `point`, in the coordinates of `near`."""
        square = self._scaling.near_reach**2
        least = self._scaling.least_squares
        model = ModelCurvature.at(self._point, self._squares, self._scaling.shortening)
        self._learned_at, self._steeper = self._point, 1.0
        self._learned = SeenCurvature.of(model, least, matrices * square, noise * square)

    def update(self, gradient: FloatArray) -> None:
        """Move to the next point after a noisy mean gradient of the mapped rows at `point`."""
        gradient = self._balanced(gradient * self._scaling.reach)
        information = self._information[self._round]
        self._watch(gradient, information)
        self._round += 1
        curvature = self._curvature
        n_free = self._point.size - (len(self._point) if self._point.shape[1] > 1 else 0)
        moved = float(np.linalg.norm(curvature.times(self._point - self._mean_point)))
        kept = 1.0 / (1.0 + self._weight * (_MISFIT * moved) ** 2 / n_free)
        self._weight = kept * self._weight + information
        self._square = kept**2 * self._square + information
        share = information / self._weight
        self._mean_gradient = self._mean_gradient + share * (gradient - self._mean_gradient)
        self._mean_point = self._mean_point + share * (self._point - self._mean_point)
        noise = math.sqrt(n_free * self._variance)
        target = curvature.times(self._mean_point) - self._mean_gradient
        ratio = noise / max(float(np.linalg.norm(target)), noise)
        penalty = _PENALTY * ratio * noise
        least = (noise / _USUAL_LOGIT) ** 2 / curvature.mean
        point, self._strength = _penalized(curvature, target, penalty, least)
        self._point = self._point + self._near(self._balanced(point) - self._point)

    def _watch(self, gradient: FloatArray, information: float) -> None:
        """Raise the curvature if two gradients say that it is too small, by more than their noise."""
        if self._last is not None:
            point, last, known = self._last
            move = self._point - point
            expected = float((move * self._curvature.times(move)).sum())
            seen = float((move * (gradient - last)).sum())
            # The move follows the noise of the last gradient, so its whole length counts.
            noise = (math.sqrt(move.size) + 2.0) * math.sqrt(1.0 / information + 1.0 / known)
            if expected > 0.0 and seen - noise * float(np.linalg.norm(move)) > _TOO_STEEP * expected:
                self._steeper *= seen / expected
        self._last = self._point, gradient, information

    def _near(self, move: FloatArray) -> FloatArray:
        """A move that is shortened where the quadratic model need not hold."""
        changed = math.sqrt(float((self._squares[:, None] * np.square(move)).sum()))
        return move * min(1.0, _LONGEST_MOVE / changed) if changed > 0.0 else move

    @staticmethod
    def _balanced(gradient: FloatArray) -> FloatArray:
        """Gradients and coefficients of several logits add up to zero; their noise does not."""
        return gradient if gradient.shape[1] == 1 else gradient - gradient.mean(axis=1, keepdims=True)

    def estimate(self) -> tuple[FloatArray, dict[str, FloatArray]]:
        """Coefficients of the features and, last, the intercept of unclipped rows, and the parts of their errors.

        The parts are those of `LogisticValue`, but the variances that are due to the draw of the rows are times the
        number of rows. In the model of the curvature, the covariance of the gradient of a row is the curvature times
        the factor by which rows are shortened.
        """
        assert self._learned is not None
        scaling, curvature = self._scaling, self._learned
        matrix = scaling.gauge @ scaling.matrix * scaling.reach
        inner = scaling.matrix[:-1] * scaling.reach
        noise, rows, hidden = (np.empty((len(matrix), self._point.shape[1])) for _ in range(3))
        for logit, (values, least, vectors) in enumerate(
            zip(curvature.values, curvature.least, curvature.vectors, strict=True)
        ):
            along = np.square(matrix @ vectors)
            usual = self._variance / np.square(values)
            noise[:, logit] = along @ (self._variance / np.square(values + self._strength))
            rows[:, logit] = along @ (values / np.square(values + self._strength))
            # Coefficients of a direction that the noise hides are at most those of a large effect.
            prior = _LARGE_EFFECT**2 / np.maximum(np.square(inner @ vectors).sum(axis=0), 1e-300)
            possible = prior * self._variance / (prior * np.square(least) + self._variance)
            hidden[:, logit] = along @ np.maximum(possible - usual, 0.0)
        share = 1.0 if noise.shape[1] == 1 else 1.0 - 1.0 / noise.shape[1]
        taken = matrix @ curvature.solve(self._strength * self._point, 0.0)
        # A point that has moved by more than the noise since the curvature was released may have as far to go.
        moved = np.square(matrix @ (self._point - self._learned_at))
        left = np.maximum(moved - _CHANCE * noise * share, 0.0)
        return matrix @ self._point, {
            "noise_variances": noise * share,
            "row_variances": rows * share,
            "hidden_variances": hidden * share,
            # The root of the sum of two squares: what the penalty takes, and what may be left to go.
            "biases": np.sqrt(np.square(taken) + left),
        }


def _penalized(curvature: _Curvature, target: FloatArray, penalty: float, least: float) -> tuple[FloatArray, float]:
    """Minimum of x'Hx/2 - target'x + penalty * |x|, and the ridge penalty with this minimum, at least `least`."""
    size = float(np.linalg.norm(target))
    if size <= penalty:
        return np.zeros_like(target), least
    low, high = math.log(max(least, 1e-12 * size)), math.log(1e12 * size + least)
    for _ in range(60):
        middle = 0.5 * (low + high)
        solution = curvature.solve(target, math.exp(middle))
        if math.exp(middle) * float(np.linalg.norm(solution)) > penalty:
            high = middle
        else:
            low = middle
    return curvature.solve(target, math.exp(low)), math.exp(low)
