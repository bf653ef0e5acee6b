"""The scikit-learn estimator `DPLinearRegression`."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted

from pais._base.numerics import FloatArray
from pais._base.validate import without_sizes
from pais.data.kinds import Auto, Bounds, Scale
from pais.data.schema import Schema
from pais.data.tables import read
from pais.estimator import Labelled, SupervisedEstimator, cells_of, targets_of, weights_of
from pais.linear.coefficients import LinearFit
from pais.linear.page import RegressionResults, Step, penalty_in_words
from pais.linear.planning import LinearSettings, regression_schema
from pais.planning.plan import Fit


class DPLinearRegression(RegressorMixin, SupervisedEstimator):  # type: ignore[misc]  # untyped base
    """Differentially private linear regression from one noisy second moment of a weighted sample.

    Parameters
    ----------
    epsilon : float
        Privacy guarantee for everything that `fit` releases, with respect to adding or removing one row, or one person
        with all rows if `unit` is stated.
    delta : float, optional
        Additive term of the guarantee: see `DPKMeans`. None means 1e-6, or less for many rows.
    columns : mapping of str to facts, sequence of str or Schema, optional
        What is public about the columns: bounds, "auto", a list of categories, bool, dates, or a number by which to
        divide; see `Schema`. The target may be among them. Bounds cost nothing, and are best for small tables. If `y`
        is passed, all columns of X are features, and those that are not mentioned are "auto": a private survey finds
        their means and deviations. If `target` names a column of the table, the features are the columns mentioned
        here, or all other columns if this is None. A sequence only names the features. Columns of an array are called
        ``x0``, ``x1`` and so on.
    target : str, optional
        Name of the column to predict, if it is part of the table. If `y` is passed, the target has the name of `y`, or
        is called ``y``. A column of X with the name of the target is then no feature.
    alpha : "noise" or float
        Penalty on large coefficients. "noise" chooses it from the known scale of the noise and the released moments,
        without tuning. A number is the penalty of `sklearn.linear_model.Ridge` on scaled columns; 0 means none.
    fit_intercept : bool
        Whether the model has an intercept.
    radius : float, optional
        Public bound on the norm of the scaled vector of a row. If None, the survey finds the norms and the plan chooses
        a radius by the predicted errors from noise and from clipping, so it grows with epsilon and the number of rows.
        A row beyond it is scaled down as a whole, which gives it less weight in the regression. With a stated radius,
        standard errors know nothing of clipped rows.
    norms : NormDistribution, optional
        Public distribution of the norms, with `radius`: then there is no survey.
    quantile : float, optional
        Share of the rows within the surveyed radius. If None, the plan chooses it.
    sampling : {"constrained", "coreset", "uniform", "none"} or Rule
        Sampling rule, which decides the probability with which each row is kept. "none" uses all rows in one pass,
        without holding them.
    sample_size : float or "free", optional
        Expected number of rows in the sample. None and "free" keep as few rows as possible without extra noise, or all
        rows if those would be more than half of them or if the sample would add more error than the noise does. A size
        above the number of rows keeps all of them.
    random_state : None, int or numpy Generator
        None draws from the cryptographic generator. Any other value makes the fit reproducible and NOT private.
    ledger, max_epsilon_if_kept, missing, unit, max_rows_per_unit
        See `DPKMeans`.

    Attributes
    ----------
    coef_ : array of shape (d,)
        Change of the target for one more unit of each feature, in the units of the columns. Categories have one
        coefficient each: the difference from the average of the listed categories of the column, so that those of a
        column add up to zero. Without an intercept, they compare with rows of no listed category, and so does that of a
        single category.
    intercept_ : float
        Prediction where all numbers are zero and booleans false, for the average category of each column. A row of no
        listed category is predicted like the average category.
    coef_standard_errors_ : array of shape (d,)
        Standard errors of the coefficients against least squares on all rows, with columns clipped to their bounds: due
        to the noise, the sampling and residuals of the rows, the clipping of rows, and the penalty. Where the noise
        hides a coefficient, they rest on what is plausible for any table: see `coefficients_frame`.
    certificate_ : Certificate
        States what was released and the guarantee that it has; public.
    plan_ : Plan
        Everything decided before the rows were sampled; public.
    fit_ : LinearFit
        Second moment, coefficients, certificate, plan and survey together.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    `predict` clips features to stated bounds, and predictions to the bounds of the target, stated or surveyed. The
    results of `predict` and `score` on the training rows are not private.

    As with every estimator of this package, the guarantee does not cover preprocessing that was fitted to the same
    rows, such as a `StandardScaler`.

    Examples
    --------
    >>> from pais import DPLinearRegression, example_people
    >>> columns = {"age": (18, 100), "premium": bool, "visits": (0, 100), "income": (0, 200_000)}
    >>> model = DPLinearRegression(epsilon=1.0, columns=columns, target="income", unit="customer_id")
    >>> model.fit(example_people(20_000)).coef_.shape
    (3,)
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float | None = None,
        columns: Any = None,
        target: str | None = None,
        alpha: Any = "noise",
        fit_intercept: bool = True,
        radius: float | None = None,
        norms: Any = None,
        quantile: float | None = None,
        sampling: Any = "constrained",
        sample_size: float | Literal["free"] | None = None,
        random_state: Any = None,
        ledger: Any = None,
        max_epsilon_if_kept: float | None = None,
        missing: str = "drop",
        unit: str | None = None,
        max_rows_per_unit: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.columns = columns
        self.target = target
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.radius = radius
        self.norms = norms
        self.quantile = quantile
        self.sampling = sampling
        self.sample_size = sample_size
        self.random_state = random_state
        self.ledger = ledger
        self.max_epsilon_if_kept = max_epsilon_if_kept
        self.missing = missing
        self.unit = unit
        self.max_rows_per_unit = max_rows_per_unit

    @without_sizes
    def fit(self, X: Any, y: Any = None) -> DPLinearRegression:
        """Release a private second moment, and compute coefficients from it.

        Parameters
        ----------
        X : array, table, path or Spark DataFrame
            The features, or a table with the features and the column `target`. Files and Spark DataFrames are streamed.
            A row in which a feature or the target is missing contributes nothing. ``missing="midpoint"`` fills in
            missing features, and never a missing target.
        y : array, optional
            The target of each row, if it is not a column of X.
        """
        self._fit(Labelled(X=X, y=y))
        return self

    def _settings(self) -> LinearSettings:
        return self._settings_of(LinearSettings)

    def _adapted(self, schema: Schema) -> Schema:
        return regression_schema(schema)

    def _keep(self, fitted: Fit) -> None:
        assert isinstance(fitted, LinearFit)
        self.coef_ = fitted.coefficients.values[0]
        self.intercept_ = float(fitted.coefficients.intercepts[0])
        self.coef_standard_errors_ = fitted.coefficients.standard_errors[0]
        super()._keep(fitted)

    @property
    def _linear_fit(self) -> LinearFit:
        assert isinstance(self.fit_, LinearFit)
        return self.fit_

    def _results(self) -> RegressionResults:
        coefficients, features = self._linear_fit.coefficients, self._features
        has_intercept = bool(self.fit_intercept)
        plain = LinearFit.of_fit(self.fit_, alpha=0.0, fit_intercept=has_intercept).vector
        steps = tuple(step for column in features.columns for step in Step.of(column, centered=has_intercept))
        return RegressionResults(
            target=coefficients.target,
            names=coefficients.labels,
            values=coefficients.values,
            standard_errors=coefficients.standard_errors,
            intercepts=coefficients.intercepts if has_intercept else None,
            intercept_errors=coefficients.intercept_errors if has_intercept else None,
            hidden=coefficients.hidden,
            steps=steps,
            compared_with=coefficients.compared_with,
            sources="noise, sampling, the residuals of the rows, clipped rows and the penalty",
            penalty=penalty_in_words(self.alpha, self._linear_fit.vector.coefficients, plain.coefficients),
            counted=self._linear_fit.vector.noisy_count,
            caution=self.fit_.concern,
        )

    def coefficients_frame(self) -> Any:
        """Coefficients as a pandas frame, in the units of the columns.

        One row for each feature and one for the intercept, with the columns `coefficient`, `standard_error`, `low` and
        `high`, the ends of an interval of two standard errors to each side, `hidden_by_noise` and `compared_with`. A
        coefficient that is hidden by noise has no interval: `low` and `high` are NaN. `compared_with` says what the
        coefficient of a category is a difference from, and is empty for other features. Needs pandas.
        """
        check_is_fitted(self)
        return self._linear_fit.coefficients.frame()

    @without_sizes
    def predict(self, X: Any) -> FloatArray:
        """Not private: the predicted target of each row, or NaN if a feature is missing.

        Parameters
        ----------
        X : array, table or path
            The features in the columns' own units. Files are streamed. Other columns of a table are ignored if
            `columns`, `target` or `unit` was stated.
        """
        check_is_fitted(self)
        features = self._features
        # Coefficients for scaled vectors, whose cells are clipped to the bounds of their columns.
        slopes = self.coef_ * features.unit_scale
        origin = self.intercept_ + float(self.coef_ @ features.centers)
        parts = [np.empty(0), *(rows @ slopes + origin for rows in self._vectors_of(X))]
        return np.asarray(np.clip(np.concatenate(parts), *self._linear_fit.bounds))

    @without_sizes
    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Not private: the coefficient of determination R^2 of the predictions. Rows with missing values are left out.

        Parameters
        ----------
        X : array, table or path
            As in `predict`.
        y : array, optional
            The target of each row; None reads the column `target` of X.
        """
        predicted = self.predict(X)
        truth = self._target_cells(X) if y is None else targets_of(y, len(predicted))
        if truth.dtype.kind not in "biuf":
            assert isinstance(self._target_column, (Auto, Bounds, Scale))
            truth = self._target_column.numbers(cells_of(truth, self._target_column))
        weights = weights_of(sample_weight, len(predicted))
        whole = np.isfinite(predicted) & np.isfinite(truth)
        if not whole.any():
            return math.nan
        return float(
            r2_score(truth[whole], predicted[whole], sample_weight=None if weights is None else weights[whole])
        )

    def _target_cells(self, X: Any) -> FloatArray:
        """The target of each row of a table or file, as a number."""
        column = self._target_column
        if isinstance(column, Bounds) and column.has_truths:
            return column.decode(np.asarray(read(self._table(X), columns=Schema((column,))).rows)[:, 0])
        return np.asarray(read(self._table(X), columns=[column.name]).rows, dtype=np.float64)[:, 0]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # The noise hides the relations in the small tables of scikit-learn's checks.
        tags.regressor_tags.poor_score = True
        return tags
