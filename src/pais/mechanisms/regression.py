"""Linear regression from a noisy second moment. All of it is post-processing of released values."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from pais._base import validate
from pais._base.numerics import FloatArray
from pais.errors import ArgumentError
from pais.mechanisms.moments import MomentValue

# Penalties in units of the scale of the noise times the root of the number of coefficients.
_FLOOR, _RIDGE = 0.45, 0.2

# Prior variances of the coefficients that are compared, as multiples of the natural one.
_PRIORS = np.geomspace(1e-6, 30.0, 80)

# Clipping shrinks coefficients by at most this share, as far as it is corrected.
_MOST_SHRUNK = 0.2

# The largest prior variance that the noisy moments do not contradict has a log likelihood this far below the best.
_PLAUSIBLE = 2.0


@dataclass(frozen=True, kw_only=True)
class LinearValue:
    """Coefficients of a regression of the last column on the others, in the coordinates of the released moment.

    Attributes
    ----------
    coefficients : array of shape (d,)
        One for each column but the last.
    intercept : float
        Value of the last column where all others are at the center of the ball; 0 without a constant coordinate.
    covariance : array of shape (d + 1, d + 1)
        Covariance of the errors of the coefficients, and of the intercept, which is last: from the noise, from the
        sampling and from the residuals of the rows.
    residual_variance : float
        Noisy variance of the residuals.
    noisy_count : float
        Noisy sum of the weights.
    """

    coefficients: FloatArray
    intercept: float
    covariance: FloatArray
    residual_variance: float
    noisy_count: float


def linear_regression(
    value: MomentValue,
    *,
    alpha: float | Literal["noise"] = "noise",
    spread: float = 1.0,
    clipped: float = 0.0,
    n_rows: float | None = None,
) -> LinearValue:
    """Regress the last column of a second moment on the others, with a penalty that follows from the known noise.

    Parameters
    ----------
    value : MomentValue
        The released second moment of features, target and constant.
    alpha : "noise" or float
        "noise" chooses the penalty from the scale of the noise, without tuning: see the Notes. A number is the penalty
        on the sum of squared coefficients, as in `sklearn.linear_model.Ridge`, in the coordinates of the moment.
    spread : float
        Mean weight of the rows in the sample, which multiplies the variance due to their residuals.
    clipped : float
        Sum of the weights of clipped rows over the sum of squared norms: see `clipped_weight`. A row with a large
        residual is clipped more, so clipping shrinks coefficients by about ``2 * clipped`` times the variance of the
        residuals. The result is corrected for it.
    n_rows : float, optional
        Number of rows, if the moment has no constant coordinate.

    Notes
    -----
    With "noise", the coefficients are a mixture of three estimates. The first raises the eigenvalues of the noisy
    moment of the features by a multiple of the noise. The second shrinks the eigenvalues of the noisy moment of
    features and target together, as is best for a matrix of low rank in symmetric Gaussian noise. The third is a ridge
    regression, whose penalty has the largest likelihood. The mixture is the mean of the first two if features and
    target are clearly correlated, and the third if their products could be noise alone.

    Without noise, and with ``alpha=0``, the coefficients are those of weighted least squares:
    `tests/unit/mechanisms/test_regression.py`.

    Examples
    --------
    >>> import numpy as np
    >>> from pais.mechanisms import MomentValue, linear_regression
    >>> rows = np.column_stack([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], np.ones(3)])
    >>> linear_regression(MomentValue(moment=rows.T @ rows, scale=1e-9, constant=1.0), alpha=0.0).coefficients.round(6)
    array([2.])
    """
    problem = _problem(value, spread, n_rows)
    if alpha == "noise":
        theta, covariance = _noise_aware(problem)
    else:
        theta, covariance = _ridge(problem, validate.non_negative("alpha", alpha))
    if value.constant == 0.0:
        theta, covariance = np.append(theta, 0.0), np.pad(covariance, (0, 1))
    left = problem.residual_variance(theta if value.constant > 0.0 else theta[:-1])
    growth = 1.0 / (1.0 - min(2.0 * clipped * left, _MOST_SHRUNK))
    unit = growth * np.append(np.ones(theta.size - 1), value.constant)
    return LinearValue(
        coefficients=theta[:-1] * growth,
        intercept=float(theta[-1] * unit[-1]),
        covariance=covariance * np.outer(unit, unit),
        residual_variance=left,
        noisy_count=problem.n_rows,
    )


def clipped_weight(norms: FloatArray, masses: FloatArray, radius: float) -> float:
    """Sum of the weights of clipped rows over the sum of squared norms, for norms before they were clipped.

    A row of norm z beyond the radius r has the weight (r/z)^2 in the regression, and the squared norm r^2. Its weight
    falls with its residual e: the derivative is -2 m / z^2 times the weight, with m the expected target. So in the
    normal equations, e adds -2 m var(e) / z^2 times the weight, in place of zero. In the mean over all rows, that is a
    share 2 var(e) c of the part of m, where c is the result of this function.
    """
    square, edge = np.square(norms), radius**2
    total = float(masses @ np.minimum(square, edge))
    weights = np.where(square > edge, edge / np.maximum(square, edge), 0.0)
    return float(masses @ weights) / total if total > 0.0 else 0.0


@dataclass(frozen=True, kw_only=True)
class _Problem:
    """Normal equations with noise: `matrix` theta = `vector`, and the square of the target."""

    matrix: FloatArray
    vector: FloatArray
    square: float
    scale: float
    n_rows: float
    spread: float
    #: Number of columns, without the constant coordinate.
    n_columns: int

    @property
    def size(self) -> int:
        return int(self.vector.size)

    @property
    def chance(self) -> float:
        """Variance of a target that is independent of the features, times the mean weight of the rows."""
        return self.spread * max(self.square, self.scale) / self.n_rows

    def residual_variance(self, theta: FloatArray) -> float:
        """Mean squared residual, at least what the noise can hide, and at most that of no coefficients at all."""
        total = self.square - 2.0 * self.vector @ theta + theta @ self.matrix @ theta
        return float(np.clip(total, self.scale, max(self.square, self.scale))) / self.n_rows


def _problem(value: MomentValue, spread: float, n_rows: float | None) -> _Problem:
    moment = value.moment
    target = moment.shape[0] - (2 if value.constant > 0.0 else 1)
    if target < 1:
        raise ArgumentError("the moment has no feature beside the target. Pass at least two columns.")
    if value.constant == 0.0 and n_rows is None:
        raise ArgumentError("the moment has no constant coordinate, which counts the rows. Pass n_rows.")
    others = np.delete(np.arange(moment.shape[0]), target)
    return _Problem(
        matrix=moment[np.ix_(others, others)],
        vector=moment[others, target],
        square=float(moment[target, target]),
        scale=value.scale,
        n_rows=max(1.0, value.noisy_count if n_rows is None else n_rows),
        spread=spread,
        n_columns=target,
    )


def _ridge(problem: _Problem, alpha: float) -> tuple[FloatArray, FloatArray]:
    """Ridge regression with a stated penalty, and the covariance due to noise, sampling and residuals."""
    # As in scikit-learn, there is no penalty on the intercept.
    penalty = np.where(np.arange(problem.size) < problem.n_columns, alpha, 0.0)
    inverse = np.linalg.pinv(problem.matrix + np.diag(penalty), hermitian=True)
    theta = inverse @ problem.vector
    # The noise of vector - matrix theta: half of the variance of the diagonal, since all entries are symmetric.
    noise = 0.5 * problem.scale**2 * ((1.0 + theta @ theta) * np.eye(problem.size) + np.outer(theta, theta))
    values, vectors = np.linalg.eigh(problem.matrix)
    rows = (vectors * np.maximum(values, 0.0)) @ vectors.T
    return theta, inverse @ (noise + problem.spread * problem.residual_variance(theta) * rows) @ inverse


def _noise_aware(problem: _Problem) -> tuple[FloatArray, FloatArray]:
    """The mixture of three estimates, and a covariance that includes what the penalty may hide."""
    theta, covariance = _by_evidence(problem)
    columns = slice(0, problem.n_columns)
    products, squares = problem.vector[columns], np.maximum(np.diag(problem.matrix)[columns], 0.0)
    # Expected square of the products of features and target if they are independent.
    noise = 0.5 * problem.n_columns * problem.scale**2 + problem.chance * float(squares.sum())
    signal = max(0.0, 1.0 - noise / max(float(products @ products), 1e-300))
    mean = 0.5 * (_by_raised_eigenvalues(problem) + _by_joint_shrinkage(problem))
    return signal * mean + (1.0 - signal) * theta, covariance


def _by_raised_eigenvalues(problem: _Problem) -> FloatArray:
    """Least squares with eigenvalues that are at least a floor f, and raised by f^2 over themselves."""
    values, vectors = np.linalg.eigh(problem.matrix)
    floor = _FLOOR * problem.scale * math.sqrt(problem.size)
    values = np.maximum(values, floor)
    return np.asarray(vectors @ ((vectors.T @ problem.vector) / (values + floor**2 / values)))


def _by_joint_shrinkage(problem: _Problem) -> FloatArray:
    """Least squares on the moment of features and target together, with shrunk eigenvalues.

    Symmetric noise of scale s on the diagonal has eigenvalues up to s sqrt(2 k). An eigenvalue w above this edge e is
    that of a true one of (w + sqrt(w^2 - e^2)) / 2. All others are replaced by their mean. Then there is a penalty,
    which is smaller for eigenvalues above the edge.
    """
    k = problem.size + 1
    joint = np.empty((k, k))
    joint[:-1, :-1], joint[:-1, -1], joint[-1, :-1] = problem.matrix, problem.vector, problem.vector
    joint[-1, -1] = problem.square
    values, vectors = np.linalg.eigh(joint)
    edge = problem.scale * math.sqrt(2.0 * k)
    clear = values > edge
    shrunk = np.where(clear, 0.5 * (values + np.sqrt(np.maximum(values**2 - edge**2, 0.0))), 0.0)
    shrunk[~clear] = max(0.0, float(values.sum() - shrunk.sum()) / max(1, int((~clear).sum())))
    denoised = (vectors * shrunk) @ vectors.T
    values, vectors = np.linalg.eigh(denoised[:-1, :-1])
    values = np.maximum(values, 0.0)
    values += _RIDGE * problem.scale * math.sqrt(k) * edge / np.maximum(values, edge)
    return np.asarray(vectors @ ((vectors.T @ denoised[:-1, -1]) / values))


def _by_evidence(problem: _Problem) -> tuple[FloatArray, FloatArray]:
    """Ridge regression with the most likely prior variance, and a covariance from the largest plausible one.

    In the basis of the eigenvectors, entry i of the vector has the variance t x_i^2 + v_i: t is the prior variance of
    a coefficient, x_i the eigenvalue, and v_i the variance of the noise, of its product with the coefficients and of
    the residuals.
    """
    k, scale = problem.size, problem.scale
    values, vectors = np.linalg.eigh(problem.matrix)
    values = np.maximum(values, 0.0)
    entries = vectors.T @ problem.vector
    natural = max(problem.square, scale) / max(float(values.mean()), scale) / k
    # One row for each prior variance.
    prior = (_PRIORS * natural)[:, None]
    noise = 0.5 * scale**2 * (1.0 + k * prior) + problem.chance * values
    variance = prior * values**2 + noise
    likelihood = -0.5 * (np.log(variance) + entries**2 / variance).sum(axis=1)
    best = int(np.argmax(likelihood))
    theta = vectors @ (entries * prior[best] * values / variance[best])
    widest = prior[np.flatnonzero(likelihood >= likelihood[best] - _PLAUSIBLE)[-1], 0]
    left = problem.spread * problem.residual_variance(theta)
    noise = 0.5 * scale**2 * (1.0 + theta @ theta) + left * values
    posterior = widest * noise / (widest * values**2 + noise)
    return theta, np.asarray((vectors * posterior) @ vectors.T)
