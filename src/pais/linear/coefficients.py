"""The result of a private linear regression: coefficients and errors that follow from a released second moment.

`linear_regression` works in the coordinates of the moment. `LinearFit` turns its result into the units of the columns.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pais._base import validate
from pais._base.numerics import FloatArray
from pais.data.ball import Ball
from pais.data.cells import listed
from pais.data.kinds import Categories, Column, FoundCategories
from pais.data.schema import Schema
from pais.errors import ArgumentError
from pais.mechanisms.moments import MomentValue
from pais.planning.plan import CLEAR, Fit, Plan
from pais.privacy.rules import NormDistribution, Rule

# The variance of the noise depends on the size of the coefficients, which depends on it: this many rounds settle it, by
# eye.
_ROUNDS = 3

# Penalties in units of the scale of the noise times the root of the number of coefficients. Chosen by eye (commit
# cafdf94); regression-small.md and regression-large.md of benchmarks/results show what they reach.
_FLOOR, _RIDGE = 0.45, 0.2

# Prior variances of the coefficients that are compared, as multiples of the natural one: a fine grid.
_PRIORS = np.geomspace(1e-6, 30.0, 80)

# Reweighting shrinks coefficients by at most this share, as far as it is corrected. Chosen by eye (0fa9f53).
_MOST_SHRUNK = 0.2

# Standard error of that correction, as a share of it: on the tables of docs/theory/notes/regression.md, what is right
# lies between no correction and all of it.
_CORRECTION_ERROR = 0.5

# Correlation between the weight of a clipped row and its part in the normal equations, as a standard deviation. Its
# largest value in a table was at most 0.36 on 17 of 21 tables, and 0.7 with heavy tails: see the note on regression.
_CLIPPED_CORRELATION = 0.35

# Columns are alike if the noise hides a direction of theirs (its eigenvalue is below the first number times the edge of
# the noise) in which independent columns of their variances would have more than the second number times that
# eigenvalue. On Adult, bike-like and independent columns it was at most 6, on KDD protein, Song and Covertype mostly
# 7 to 100. A column takes part if it has more than the third number of that variance.
_HIDDEN_EDGE, _ALIKE, _TAKES_PART = 1.5, 7.0, 0.1


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
        Covariance of the errors of the coefficients, and of the intercept, which is last: see `linear_regression`.
    assumed : array of shape (d + 1, d + 1)
        The part of it that rests on an assumed size of coefficients in directions that the noise hides.
    residual_variance : float
        Noisy variance of the residuals.
    noisy_count : float
        Noisy sum of the weights.
    alike : array of bool of shape (d,)
        Which columns are so similar to others that the noise hides their differences.
    """

    coefficients: FloatArray
    intercept: float
    covariance: FloatArray
    assumed: FloatArray
    residual_variance: float
    noisy_count: float
    alike: NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Reweighting:
    """How clipped rows count in a regression, from their norms before they were clipped; public.

    A row of norm z beyond the radius r has the weight (r/z)^2 in the regression.

    Attributes
    ----------
    shrinkage : float
        Sum of the weights of clipped rows over the sum of squared norms after clipping. The weight of a clipped row
        falls with its residual e: the derivative is -2 m / z^2 times the weight, with m the expected target. So in the
        normal equations, e adds -2 m var(e) / z^2 times the weight, in place of zero. In the mean over all rows, that
        is a share 2 var(e) `shrinkage` of the part of m.
    variance : float
        Variance of the weights of all rows over their squared mean, where rows count by their squared norms.
    """

    shrinkage: float = 0.0
    variance: float = 0.0

    @classmethod
    def of(cls, norms: FloatArray, masses: FloatArray, radius: float) -> Reweighting:
        """Reweighting of rows with these norms, each as often as its mass says, at a radius."""
        square, edge = np.square(norms), radius**2
        weights = np.where(square > edge, edge / np.maximum(square, edge), 1.0)
        total, whole = float(masses @ (square * weights)), float(masses @ square)
        if total <= 0.0:
            return cls()
        mean = total / whole
        return cls(
            shrinkage=float(masses @ np.where(square > edge, weights, 0.0)) / total,
            variance=max(0.0, float((masses * square) @ np.square(weights - mean)) / whole) / mean**2,
        )


def linear_regression(
    value: MomentValue,
    *,
    alpha: float | Literal["noise"] = "noise",
    spread: float = 1.0,
    reweighting: Reweighting | None = None,
    plausible: float = 1.0,
    constraints: FloatArray | None = None,
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
    reweighting : Reweighting, optional
        How clipped rows count. The coefficients are corrected for their shrinkage. None means that no row is clipped.
    plausible : float
        A standard deviation of the coefficients that is plausible for any table. It stands in for the rows in
        directions that the noise hides.
    constraints : array of shape (m, k), optional
        Combinations of the features and the constant that are zero in all rows. The coefficients have no part in them.
    n_rows : float, optional
        Number of rows, if the moment has no constant coordinate.

    Notes
    -----
    With "noise", the coefficients are a mixture of three estimates. The first raises the eigenvalues of the noisy
    moment of the features by a multiple of the noise. The second shrinks the eigenvalues of the noisy moment of
    features and target together, as is best for a matrix of low rank in symmetric Gaussian noise. The third is a ridge
    regression, whose penalty has the largest likelihood. The mixture is the mean of the first two if features and
    target are clearly correlated, and the third if their products could be noise alone.

    The errors are those against least squares on all rows, none of them clipped. They have five parts: the noise, the
    residuals of the rows and of the sample, the weights of clipped rows, what a direction that the noise hides may
    hold, and the difference between the penalised coefficients and those with the widest plausible prior.

    docs/theory/notes/regression.md derives them and says what they assume. Without noise, and with ``alpha=0``, the
    coefficients are those of weighted least squares: `tests/unit/linear/test_regression.py`.

    Examples
    --------
    >>> import numpy as np
    >>> from pais import MomentValue
    >>> from pais.linear.coefficients import linear_regression
    >>> rows = np.column_stack([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], np.ones(3)])
    >>> linear_regression(MomentValue(moment=rows.T @ rows, scale=1e-9, constant=1.0), alpha=0.0).coefficients.round(6)
    array([2.])
    """
    reweighting = Reweighting() if reweighting is None else reweighting
    equations = _normal_equations(value, spread, constraints, n_rows)
    theta = _noise_aware(equations) if alpha == "noise" else _ridge(equations, validate.non_negative("alpha", alpha))
    covariance, assumed = _errors(equations, theta, plausible**2, reweighting)
    left = equations.residual_variance(theta)
    growth = 1.0 / (1.0 - min(2.0 * reweighting.shrinkage * left, _MOST_SHRUNK))
    covariance += np.outer(theta, theta) * (_CORRECTION_ERROR * (1.0 - 1.0 / growth)) ** 2
    # Back to all coordinates; without a constant coordinate, the intercept is zero.
    basis, unit = equations.basis, growth * np.append(np.ones(equations.n_columns), value.constant)
    if value.constant == 0.0:
        basis = np.vstack([basis, np.zeros(basis.shape[1])])
    map_ = basis * unit[:, None]
    lifted = map_ @ theta
    return LinearValue(
        coefficients=lifted[:-1],
        intercept=float(lifted[-1]),
        covariance=map_ @ covariance @ map_.T,
        assumed=map_ @ assumed @ map_.T,
        residual_variance=left,
        noisy_count=equations.n_rows,
        alike=_alike(equations),
    )


def _alike(equations: _NormalEquations) -> NDArray[np.bool_]:
    """Which columns take part in a direction that the noise hides although the columns by themselves vary much."""
    d, scale = equations.n_columns, equations.scale
    values, vectors = np.linalg.eigh(equations.matrix)
    edge = scale * np.sqrt(2.0 * np.arange(1, equations.size + 1))
    whole = equations.basis @ equations.matrix @ equations.basis.T
    own = np.diag(whole)[:d].copy()
    if len(whole) > d:
        # About the mean.
        own -= np.square(whole[:d, d]) / max(float(whole[d, d]), scale)
    # Variance of each column in each direction, if the columns were independent.
    parts = np.maximum(own, 0.0)[:, None] * np.square((equations.basis @ vectors)[:d])
    largest = np.maximum(values, edge)
    apart = 0.5 * (largest + np.sqrt(np.square(largest) - np.square(edge)))
    alike = (values < _HIDDEN_EDGE * edge) & (parts.sum(axis=0) > _ALIKE * apart)
    return np.asarray((parts > _TAKES_PART * parts.sum(axis=0))[:, alike].any(axis=1))


def _errors(
    equations: _NormalEquations, theta: FloatArray, prior: float, reweighting: Reweighting
) -> tuple[FloatArray, FloatArray]:
    """Covariance of the errors of penalised coefficients, and the part of it that rests on the prior variance.

    The true coefficients t solve matrix t = vector + noise, with a noise of known variance: that of the entries, of
    their products with t, and of the rows. [note: regression-1]
    """
    scale, values, vectors = equations.scale, *np.linalg.eigh(equations.matrix)
    values = np.maximum(values, 0.0)
    # Noise on the directions of the m smallest eigenvalues alone has eigenvalues up to this edge. What the rows add to
    # a noisy eigenvalue, in its own direction and in the direction without noise. [note: regression-2]
    edge = scale * np.sqrt(2.0 * np.arange(1, equations.size + 1))
    seen = np.sqrt(np.maximum(values**2 - edge**2, 0.0))
    shrunk = 0.5 * (np.maximum(values, edge) + seen)
    # Variance of the sums over rows, and square of what the weights of clipped rows may change. [note: regression-3]
    weights = equations.spread + _CLIPPED_CORRELATION**2 * equations.n_rows * reweighting.variance
    rows = np.diag(equations.residual_variance(theta) * weights * values)
    inside = vectors.T @ theta
    size = float(theta @ theta)
    for _ in range(_ROUNDS):
        noise = 0.5 * scale**2 * ((1.0 + size) * np.eye(equations.size) + np.outer(inside, inside)) + rows
        gain = prior * seen[:, None] * np.linalg.inv(prior * np.diag(seen**2) + noise) * seen
        posterior = prior * (np.eye(equations.size) - gain)
        size = float(theta @ theta + max(0.0, np.trace(posterior)))
    off = inside - gain @ ((vectors.T @ equations.vector) / shrunk)
    variances, axes = np.linalg.eigh(posterior)
    variances = np.clip(variances, 0.0, prior)
    assumed = (axes * np.where(variances > 0.5 * prior, variances, 0.0)) @ axes.T
    covariance = (axes * variances) @ axes.T + np.outer(off, off)
    return vectors @ covariance @ vectors.T, vectors @ assumed @ vectors.T


@dataclass(frozen=True, kw_only=True)
class _NormalEquations:
    """Normal equations with noise: `matrix` theta = `vector`, and the square of the target.

    They are in an orthonormal `basis` of the combinations of features and constant that are not zero in all rows.
    """

    matrix: FloatArray
    vector: FloatArray
    square: float
    scale: float
    n_rows: float
    spread: float
    #: Number of columns, without the constant coordinate.
    n_columns: int
    #: Columns are orthonormal.
    basis: FloatArray

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


def _normal_equations(
    value: MomentValue, spread: float, constraints: FloatArray | None, n_rows: float | None
) -> _NormalEquations:
    moment = value.moment
    target = moment.shape[0] - (2 if value.constant > 0.0 else 1)
    if target < 1:
        raise ArgumentError("the moment has no feature beside the target. Pass at least two columns.")
    if value.constant == 0.0 and n_rows is None:
        raise ArgumentError("the moment has no constant coordinate, which counts the rows. Pass n_rows.")
    others = np.delete(np.arange(moment.shape[0]), target)
    basis = np.eye(others.size)
    if constraints is not None and constraints.size > 0:
        basis = np.linalg.qr(constraints.T, mode="complete")[0][:, len(constraints) :]
    return _NormalEquations(
        matrix=basis.T @ moment[np.ix_(others, others)] @ basis,
        vector=basis.T @ moment[others, target],
        square=float(moment[target, target]),
        scale=value.scale,
        n_rows=max(1.0, value.noisy_count if n_rows is None else n_rows),
        spread=spread,
        n_columns=target,
        basis=basis,
    )


def _ridge(equations: _NormalEquations, alpha: float) -> FloatArray:
    """Ridge regression with a stated penalty."""
    # As in scikit-learn, there is no penalty on the intercept.
    columns = equations.basis[: equations.n_columns]
    return np.asarray(np.linalg.pinv(equations.matrix + alpha * columns.T @ columns, hermitian=True) @ equations.vector)


def _noise_aware(equations: _NormalEquations) -> FloatArray:
    """The mixture of three estimates."""
    columns = equations.basis[: equations.n_columns]
    products = columns @ equations.vector
    squares = max(0.0, float(np.sum((columns @ equations.matrix) * columns)))
    # Expected square of the products of features and target if they are independent.
    noise = 0.5 * equations.n_columns * equations.scale**2 + equations.chance * squares
    signal = max(0.0, 1.0 - noise / max(float(products @ products), 1e-300))
    mean = 0.5 * (_by_raised_eigenvalues(equations) + _by_joint_shrinkage(equations))
    return np.asarray(signal * mean + (1.0 - signal) * _by_evidence(equations))


def _by_raised_eigenvalues(equations: _NormalEquations) -> FloatArray:
    """Least squares with eigenvalues that are at least a floor f, and raised by f^2 over themselves."""
    values, vectors = np.linalg.eigh(equations.matrix)
    floor = _FLOOR * equations.scale * math.sqrt(equations.size)
    values = np.maximum(values, floor)
    return np.asarray(vectors @ ((vectors.T @ equations.vector) / (values + floor**2 / values)))


def _by_joint_shrinkage(equations: _NormalEquations) -> FloatArray:
    """Least squares on the moment of features and target together, with shrunk eigenvalues.

    Symmetric noise of scale s on the diagonal has eigenvalues up to s sqrt(2 k). An eigenvalue w above this edge e is
    that of a true one of (w + sqrt(w^2 - e^2)) / 2. All others are replaced by their mean. Then there is a penalty,
    which is smaller for eigenvalues above the edge.
    """
    k = equations.size + 1
    joint = np.empty((k, k))
    joint[:-1, :-1], joint[:-1, -1], joint[-1, :-1] = equations.matrix, equations.vector, equations.vector
    joint[-1, -1] = equations.square
    values, vectors = np.linalg.eigh(joint)
    edge = equations.scale * math.sqrt(2.0 * k)
    clear = values > edge
    shrunk = np.where(clear, 0.5 * (values + np.sqrt(np.maximum(values**2 - edge**2, 0.0))), 0.0)
    shrunk[~clear] = max(0.0, float(values.sum() - shrunk.sum()) / max(1, int((~clear).sum())))
    denoised = (vectors * shrunk) @ vectors.T
    values, vectors = np.linalg.eigh(denoised[:-1, :-1])
    values = np.maximum(values, 0.0)
    values += _RIDGE * equations.scale * math.sqrt(k) * edge / np.maximum(values, edge)
    return np.asarray(vectors @ ((vectors.T @ denoised[:-1, -1]) / values))


def _by_evidence(equations: _NormalEquations) -> FloatArray:
    """Ridge regression with the most likely prior variance.

    In the basis of the eigenvectors, entry i of the vector has the variance t x_i^2 + v_i: t is the prior variance of
    a coefficient, x_i the eigenvalue, and v_i the variance of the noise, of its product with the coefficients and of
    the residuals.
    """
    k, scale = equations.size, equations.scale
    values, vectors = np.linalg.eigh(equations.matrix)
    values = np.maximum(values, 0.0)
    entries = vectors.T @ equations.vector
    natural = max(equations.square, scale) / max(float(values.mean()), scale) / k
    # One row for each prior variance.
    prior = (_PRIORS * natural)[:, None]
    noise = 0.5 * scale**2 * (1.0 + k * prior) + equations.chance * values
    variance = prior * values**2 + noise
    best = int(np.argmax(-0.5 * (np.log(variance) + entries**2 / variance).sum(axis=1)))
    return np.asarray(vectors @ (entries * prior[best] * values / variance[best]))


# Fewer rows than this many standard deviations of their noise do not determine a coefficient. Chosen by eye (ebaf4ae).
_UNSEEN = 6.0

# Plausible standard deviation of a coefficient: this many ranges of the target for the range of a feature. Columns that
# are almost the same have larger ones: up to 2.9 in a table of proteins, where intervals miss. Chosen
# by eye (b4f1a5f); benchmarks/results/coverage-models.md shows the coverage.
_PLAUSIBLE = 0.8

# Rows beyond the outermost norm of a survey that its noise may hide, in standard deviations of the noise of a count,
# and at most this share of all rows. They are spread over norms up to this multiple of the outermost one. A survey
# hides up to 2.5 deviations of the noise of all its bins; two of one bin are enough for simulated heavy tails.
_TAIL_ROWS, _TAIL_SHARE, _TAIL_REACH, _TAIL_ATOMS = 2.0, 0.01, 1.5, 16

# A coefficient is hidden by noise if more than this share of its squared error is assumed: half of it.
_MOST_ASSUMED = 0.5


@dataclass(frozen=True, kw_only=True)
class Coefficients:
    """Coefficients with standard errors, in the units of the columns. They may be published.

    There is one line for the target of a linear regression, or for each logit of a logistic one.

    Attributes
    ----------
    target : str
        Name of the column that is predicted.
    labels : tuple of str
        One label for each feature, such as ``region=north`` for a category.
    values, standard_errors : array of shape (lines, d)
        Change of the target or logit for one more unit of a number, or if a boolean holds; for a category, the
        difference from the average of the listed categories of its column, which add up to zero. Without an intercept,
        a category has the level of its rows. The standard errors are due to the noise, the sampling and the residuals
        or classes of the rows, the clipping and the penalty, and directions of the features that the noise hides.
    compared_with : tuple of str
        Reference of the coefficient of each category, which is a difference from it; empty for the other features.
    hidden : array of bool of shape (lines, d)
        Which coefficients are hidden by noise: more than half of their squared error is what is assumed about
        directions that the noise hides. Those of a logistic regression are also within two standard errors of zero.
        They have no interval.
    intercepts, intercept_errors : array of shape (lines,)
        Target or logits where all numbers are zero and booleans false, for the average category of each column, and
        their standard errors.
    """

    target: str
    labels: tuple[str, ...]
    compared_with: tuple[str, ...]
    values: FloatArray
    standard_errors: FloatArray
    hidden: NDArray[np.bool_]
    intercepts: FloatArray
    intercept_errors: FloatArray

    def frame(self, classes: Any = ()) -> Any:
        """A pandas frame with intervals of two standard errors to each side, by class if there are several lines."""
        try:
            import pandas as pd
        except ImportError:
            raise ArgumentError("coefficients_frame needs pandas. Install it: pip install pandas.") from None
        n_lines = len(self.values)
        values = np.column_stack([self.values, self.intercepts]).ravel()
        errors = np.column_stack([self.standard_errors, self.intercept_errors]).ravel()
        hidden = np.column_stack([self.hidden, np.zeros(n_lines, dtype=bool)]).ravel()
        index: Any = pd.Index([*self.labels, "intercept"], name="feature")
        if n_lines > 1:
            index = pd.MultiIndex.from_product([classes, index], names=["class", "feature"])
        columns = with_intervals(values, errors, hidden)
        return pd.DataFrame({**columns, "compared_with": [*self.compared_with, ""] * n_lines}, index=index)


@dataclass(frozen=True, kw_only=True, repr=False)
class RegressionFit(Fit):
    """A fit of a regression, with its coefficients in the units of the columns."""

    coefficients: Coefficients

    @property
    def concern(self) -> str | None:
        """Text of a warning if all coefficients are hidden by noise; else None."""
        if not self.coefficients.hidden.all():
            return None
        return (
            "all coefficients are hidden by noise: their errors rest on what is plausible for any table, not on the "
            "rows. Raise epsilon, pass more rows, or use fewer columns or tighter bounds."
        )


@dataclass(frozen=True, kw_only=True, repr=False)
class LinearFit(RegressionFit):
    """A fit of a linear regression: the released second moment, and the coefficients that follow from it.

    Attributes
    ----------
    vector : LinearValue
        The coefficients for scaled vectors, as they follow from the moment.
    """

    vector: LinearValue

    @classmethod
    def of_fit(cls, fit: Fit, *, alpha: float | Literal["noise"], fit_intercept: bool) -> LinearFit:
        """Compute the coefficients from the released second moment."""
        assert fit.schema is not None
        constraints = _constraints(fit.value, fit.plan, fit.schema) if fit_intercept else []
        vector = linear_regression(
            _moment(fit.value, fit.plan, fit.schema, fit_intercept),
            alpha=alpha,
            spread=mean_weight(fit.plan),
            reweighting=_reweighting(fit),
            plausible=_PLAUSIBLE * getattr(fit.schema.columns[-1], "factor", 1.0),
            constraints=np.array(constraints) if constraints else None,
            n_rows=None if fit_intercept else fit.value.noisy_count,
        )
        return fit.extended(cls, coefficients=_in_units(vector, fit, fit_intercept), vector=vector)

    @property
    def bounds(self) -> tuple[float, float]:
        """Predictions are clipped to these bounds of the target, stated or found by the survey."""
        assert self.schema is not None
        low, high = self.schema.columns[-1].decode(np.array([-np.inf, np.inf])).tolist()
        return low, high

    @property
    def concern(self) -> str | None:
        """Text of a warning if the noise hides all coefficients, or the differences of similar columns; else None."""
        alike = self.vector.alike
        if super().concern or not alike.any():
            return super().concern
        names = [label for label, like in zip(self.coefficients.labels, alike.tolist(), strict=True) if like]
        return (
            f"the columns {listed(names)} are so similar that the noise hides their differences. All intervals assume "
            "that no coefficient is much larger than the range of the target over that of its column, which similar "
            "columns can break. Leave out columns that say the same as others."
        )

    def in_words(self) -> str:
        d = len(self.coefficients.labels)
        return f"a second moment, and from it {d} coefficient{'s' * (d != 1)} for {self.coefficients.target!r}"


def _moment(value: MomentValue, plan: Plan, schema: Schema, fit_intercept: bool) -> MomentValue:
    """The second moment of the columns, or of the columns with their own zero as the origin if there is no intercept.

    A column with its own zero is a sum of the scaled column and a multiple of the constant coordinate, so its moments
    follow. The noise grows by at most the square of the largest singular value of this map.
    """
    if fit_intercept:
        return value
    origins = _origins(plan, schema) / value.constant
    map_ = np.column_stack([np.eye(origins.size), origins])
    growth = float(np.linalg.norm(map_, 2) ** 2)
    return MomentValue(moment=map_ @ value.moment @ map_.T, scale=value.scale * growth)


def _origins(plan: Plan, schema: Schema) -> FloatArray:
    """What to add to a coordinate relative to the ball, so that it is zero where the column is."""
    center = np.zeros(schema.width) if plan.ball.center is None else np.asarray(plan.ball.center)
    return np.asarray(center + schema.centers / schema.unit_scale)


def mean_weight(plan: Plan) -> float:
    """Mean weight of the sampled rows, by the square of their norms."""
    assert plan.norms is not None
    return square_mean_weight(plan.norms, plan.rule)


def square_mean_weight(norms: NormDistribution, rule: Rule) -> float:
    """Mean weight of the sampled rows, by the square of their norms."""
    squares = norms.masses * np.square(norms.norms)
    total = float(squares.sum())
    if total == 0.0:
        return 1.0
    return float((squares / np.maximum(rule.probability(norms.norms), 1e-12)).sum()) / total


def bounded_norms(norms: NormDistribution, schema: Schema | None, ball: Ball) -> FloatArray:
    """Surveyed norms within the bounds of the columns: the tail that a survey continues may go on beyond them."""
    most = math.inf if schema is None else schema.reach(ball.center)
    return np.minimum(norms.norms, most)


def _reweighting(fit: Fit) -> Reweighting:
    """How the clipped rows count, from norms that were stated or that the survey released; none if there are none."""
    survey, ball = fit.survey, fit.plan.ball
    if survey is None or not survey.above_noise:
        return Reweighting()
    norms, masses = bounded_norms(survey.norms, survey.schema, survey.ball), survey.norms.masses
    most, outermost = math.inf if survey.schema is None else survey.schema.reach(ball.center), survey.norms.radius
    if outermost < most:
        # The noise of the survey may hide rows beyond the outermost norm.
        deviation = 1.0 / survey.shift if survey.shift > 0.0 else math.sqrt(2.0) / survey.epsilon
        tail = np.linspace(outermost, min(most, _TAIL_REACH * outermost), _TAIL_ATOMS)
        rows = min(_TAIL_ROWS * deviation, _TAIL_SHARE * survey.norms.n_rows)
        norms, masses = np.append(norms, tail), np.append(masses, np.full(tail.size, rows / tail.size))
    return Reweighting.of(np.hypot(norms, ball.constant), masses, ball.radius)


def without_other(columns: Sequence[Column]) -> list[Column]:
    """Columns of features in which "other" is none of the categories that were found.

    It may have few rows or none, and what hides its coefficient would spoil the errors of the others.
    """
    return [replace(each, with_other=False) if isinstance(each, FoundCategories) else each for each in columns]


def references(features: Schema, *, centered: bool = True) -> tuple[str, ...]:
    """The reference of the coefficient of each feature, as a noun; empty for numbers and booleans.

    If coefficients are `centered`, those of a column of at least two categories add up to zero.
    """
    return tuple(reference for column in features.columns for reference in _references_of(column, centered))


def _references_of(column: Column, centered: bool) -> tuple[str, ...]:
    if not isinstance(column, Categories):
        return ("",)
    if len(column.labels) == 1 or not centered:
        reference = f"rows of no listed category of {column.name}"
    elif len(column.labels) == 2:
        reference = f"the average of {' and '.join(column.labels)}"
    else:
        known = "found" if isinstance(column, FoundCategories) else "listed"
        reference = f"the average of the {known} categories of {column.name}"
    return (reference,) * len(column.labels)


def _constraints(value: MomentValue, plan: Plan, schema: Schema) -> list[FloatArray]:
    """Combinations of the coordinates and the constant that are zero in all rows.

    The coordinates of a column of categories add up to a constant in all rows whose category is listed, unless the
    moment says that the category of many rows is none of those listed.
    """
    origins = _origins(plan, schema)
    found: list[FloatArray] = []
    for group in Schema(schema.columns[:-1]).category_places:
        places = list(group)
        combination = np.zeros(len(value.moment))
        combination[places] = schema.unit_scale[places]
        combination[-1] = -(1.0 - float(schema.unit_scale[places] @ origins[places])) / value.constant
        if combination @ value.moment @ combination <= _UNSEEN * value.scale * float(combination @ combination):
            # Without the target, which is before the constant.
            found.append(np.delete(combination, -2))
    return found


def _gauge(features: Schema) -> FloatArray:
    """A map of coefficients and intercept, in the units of the columns, that makes those of categories add up to zero.

    The mean of the coefficients of a column moves to the intercept. No prediction changes for a row whose category is
    listed, and a row of no listed category has the prediction of the average one.
    """
    gauge = np.eye(features.width + 1)
    for group in features.category_places:
        places = list(group)
        gauge[np.ix_(places, places)] -= 1.0 / len(places)
        gauge[-1, places] += 1.0 / len(places)
    return gauge


def _in_units(vector: LinearValue, fit: Fit, fit_intercept: bool) -> Coefficients:
    schema, plan = fit.schema, fit.plan
    assert schema is not None
    features = Schema(schema.columns[:-1])
    *scales, unit = schema.unit_scale.tolist()
    *origins, last = _origins(plan, schema).tolist()
    # Coefficients and intercept in the units of the columns.
    map_ = np.diag(np.append(unit / np.asarray(scales), unit * fit_intercept))
    if fit_intercept:
        map_[-1, :-1] = -unit * np.asarray(origins)
        map_ = _gauge(features) @ map_
    values = map_ @ np.append(vector.coefficients, vector.intercept)
    square, assumed = (
        np.maximum(np.einsum("ij,jk,ik->i", map_, each, map_, optimize=True), 0.0)
        for each in (vector.covariance, vector.assumed)
    )
    errors = np.sqrt(square)
    return Coefficients(
        target=schema.columns[-1].name,
        labels=features.labels,
        compared_with=references(features, centered=fit_intercept),
        values=values[None, :-1],
        standard_errors=errors[None, :-1],
        hidden=(assumed[:-1] > _MOST_ASSUMED * square[:-1])[None, :],
        intercepts=values[-1:] + unit * last * fit_intercept,
        intercept_errors=errors[-1:],
    )


def with_intervals(values: FloatArray, errors: FloatArray, hidden: NDArray[np.bool_]) -> dict[str, NDArray[Any]]:
    """Columns of a table of coefficients: those hidden by noise have no interval."""
    reach = np.where(hidden, np.nan, CLEAR * errors)
    return {
        "coefficient": values,
        "standard_error": errors,
        "low": values - reach,
        "high": values + reach,
        "hidden_by_noise": hidden,
    }
