"""The scikit-learn estimator `DPLogisticRegression`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import special
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted

from pais._base.numerics import FloatArray
from pais._base.validate import as_array, without_sizes
from pais.data.kinds import Boolean, Bounds, Categories, Intervals, Names
from pais.data.schema import Schema
from pais.data.tables import read
from pais.errors import ArgumentError, DataError
from pais.estimator import (
    Labelled,
    SupervisedEstimator,
    cells_of,
    column_names,
    require_lengths,
    targets_of,
    weights_of,
)
from pais.linear.page import RegressionResults, Step
from pais.logistic.planning import LogisticFit, LogisticSettings, classification_schema
from pais.planning.plan import Fit
from pais.privacy.guarantee import warn


class DPLogisticRegression(ClassifierMixin, SupervisedEstimator):  # type: ignore[misc]  # untyped base
    """Differentially private logistic regression from noisy gradients on one weighted sample.

    Parameters
    ----------
    epsilon : float
        Privacy guarantee for everything that `fit` releases, with respect to adding or removing one row, or one person
        with all rows if `unit` is stated.
    delta : float, optional
        Additive term of the guarantee: see `DPKMeans`. None means 1e-6, or less for many rows.
    columns : mapping of str to facts, sequence of str or Schema, optional
        What is public about the columns: bounds, "auto", a list of categories, bool, dates, or a number by which to
        divide; see `Schema`. The target may be among them, as a list of classes or bool. Bounds cost nothing, and are
        best for small tables. If `y` is passed, all columns of X are features, and those that are not mentioned are
        "auto": a private survey finds their means and deviations. If `target` names a column of the table, the features
        are the columns mentioned here, or all other columns if this is None. A sequence only names the features.
        Columns of an array are called ``x0``, ``x1`` and so on.
    target : str, optional
        Name of the column with the classes, if it is part of the table. If `y` is passed, the target has the name of
        `y`, or is called ``y``. A column of X with the name of the target is then no feature.
    classes : sequence, optional
        The classes, which are public: texts, numbers or booleans. A row of another class contributes nothing. If None,
        they are those that `columns` states for the target. If it states none either, they are the distinct values of
        `y`, and `fit` issues a `PrivacyWarning`: the guarantee then holds only if this set is public.
    radius : float, optional
        Public bound on the norm of the scaled vector of a row, which has one more coordinate of length sqrt(2) for its
        class. If None, the survey finds the norms and the plan chooses a radius. A row beyond it counts with less
        weight.
    norms : NormDistribution, optional
        Public distribution of the norms, with `radius`: then there is no survey.
    quantile : float, optional
        Share of the rows within the surveyed radius. If None, the plan chooses it.
    sampling : {"constrained", "coreset", "uniform", "none"} or Rule
        Sampling rule, which decides the probability with which each row is kept.
    sample_size : float or "free", optional
        Expected number of rows in the sample. None and "free" keep as few rows as possible without extra noise. A
        size above the (noisy) number of rows keeps all of them.
    random_state : None, int or numpy Generator
        None draws from the cryptographic generator. Any other value makes the fit reproducible and NOT private.
    ledger, max_epsilon_if_kept, missing, unit, max_rows_per_unit
        See `DPKMeans`.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        The classes, in ascending order.
    coef_ : array of shape (1, d) for two classes, else (n_classes, d)
        Change of the logit for one more unit of each feature, in the units of the columns. Categories have one
        coefficient each: the difference from the average of the listed categories of the column, so that those of a
        column add up to zero. A single category is compared with rows of no listed category. The logit of two classes
        is that of the second against the first.
    intercept_ : array of shape (1,) or (n_classes,)
        Logits where all numbers are zero and booleans false, for the average category of each column. A row of no
        listed category is predicted like the average category.
    coef_standard_errors_ : array
        Standard errors of the coefficients against a logistic regression on all rows without a penalty, with columns
        clipped to their bounds: due to the noise, the sampling and the classes of the rows, and the penalty. They are
        rather too large than too small. Where the noise hides a coefficient, they rest on what is plausible for any
        table: see `coefficients_frame`.
    certificate_ : Certificate
        States what was released and the guarantee that it has; public.
    plan_ : Plan
        Everything decided before the rows were sampled; public.
    fit_ : LogisticFit
        Coefficients, certificate, plan and survey together.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    There is nothing to tune: the number of rounds, the steps, the coordinates in which the noise is added and the
    penalty on the coefficients follow from the known scale of the noise and from released values.

    The results of `predict`, `predict_proba` and `score` on the training rows are not private. The guarantee does not
    cover preprocessing that was fitted to the same rows, such as a `StandardScaler`.

    Examples
    --------
    >>> from pais import DPLogisticRegression, example_people
    >>> columns = {"age": (18, 100), "income": (0, 200_000), "visits": (0, 100), "premium": bool}
    >>> model = DPLogisticRegression(epsilon=1.0, columns=columns, target="premium", unit="customer_id")
    >>> people = example_people(5_000)
    >>> model.fit(people).coef_.shape
    (1, 3)
    >>> model.predict_proba(people).shape
    (30000, 2)
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float | None = None,
        columns: Any = None,
        target: str | None = None,
        classes: Any = None,
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
        self.classes = classes
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
    def fit(self, X: Any, y: Any = None) -> DPLogisticRegression:
        """Compute and release private coefficients.

        Parameters
        ----------
        X : array, table, path or Spark DataFrame
            The features, or a table with the features and the column `target`. Files and Spark DataFrames are streamed.
            A row in which a feature is missing, or whose class is missing or not listed, contributes nothing.
        y : array, optional
            The class of each row, if it is not a column of X.
        """
        self._fit(Labelled(X=X, y=y))
        return self

    def _before_fit(self, X: Any) -> None:
        self.classes_ = self._public_classes(X.X, X.y)

    def _settings(self) -> LogisticSettings:
        return self._settings_of(LogisticSettings, n_classes=len(self.classes_))

    def _public_classes(self, X: Any, y: Any) -> NDArray[Any]:
        """The classes that are stated, or those of y with a warning, in ascending order."""
        classes = self._stated_classes(X, y)
        if classes is None:
            if y is None and self.target is None:
                raise ArgumentError(
                    f"{type(self).__name__} requires y to be passed, but the target y is None. Pass y, or name the "
                    "column of the target in target."
                )
            if y is None:
                raise ArgumentError(
                    "the classes of the target are not known. List them in classes, or state the target in columns, "
                    "as bool or as a list such as ['no', 'yes']."
                )
            require_lengths(X, y)
            classes = _classes_of(y)
            warn(
                "the classes are the distinct values of y. The guarantee holds only if this set is public: state it in "
                "classes."
            )
        if len(classes) < 2:
            raise ArgumentError("there is only one class. State at least two classes.")
        return classes

    def _stated_classes(self, X: Any, y: Any) -> NDArray[Any] | None:
        """The classes that the user states in `classes` or in `columns`."""
        if self.classes is not None:
            classes = as_array(self.classes)
            if classes is None or classes.ndim != 1 or classes.dtype.kind not in "OUSbiuf":
                raise ArgumentError("classes must be a flat list of texts, numbers or booleans. List each class once.")
            return _in_order(classes)
        name = self._target_name(y, column_names(X))
        if not isinstance(self.columns, (Mapping, Schema)) or name not in Schema.of(self.columns).names:
            return None
        column = Schema.of(self.columns)[name]
        if isinstance(column, Names):
            raise ArgumentError(
                f"the classes of the target {name!r} are not found privately, because a model for other classes than "
                f"those you mean answers another question. List them: classes=['a', 'b'], or columns={{{name!r}: "
                "['a', 'b']}."
            )
        if isinstance(column, Intervals):
            raise ArgumentError(f"the target {name!r} is stated as {column.kind}, which are no classes. List classes.")
        if isinstance(column, Boolean):
            return np.array([False, True])
        if isinstance(column, Bounds) and column.has_truths:
            return np.array([0, 1])
        return _in_order(np.array(column.values)) if isinstance(column, Categories) else None

    def _adapted(self, schema: Schema) -> Schema:
        *features, target = schema.columns
        classes = Categories(name=target.name, values=tuple(self.classes_.tolist()))
        return classification_schema(Schema((*features, classes)))

    def _keep(self, fitted: Fit) -> None:
        assert isinstance(fitted, LogisticFit)
        self.coef_ = fitted.coefficients.values
        self.intercept_ = fitted.coefficients.intercepts
        self.coef_standard_errors_ = fitted.coefficients.standard_errors
        super()._keep(fitted)

    def _results(self) -> RegressionResults:
        assert isinstance(self.fit_, LogisticFit)
        logits, classes = self.fit_.coefficients, tuple(map(str, self.classes_.tolist()))
        return RegressionResults(
            target=logits.target,
            names=logits.labels,
            values=logits.values,
            standard_errors=logits.standard_errors,
            intercepts=logits.intercepts,
            intercept_errors=logits.intercept_errors,
            hidden=logits.hidden,
            classes=classes if len(classes) > 2 else classes[1:],
            steps=tuple(step for column in self._features.columns for step in Step.of(column)),
            compared_with=logits.compared_with,
            sources="noise, sampling, the classes of the rows and the penalty",
            caution=self.fit_.concern,
        )

    def coefficients_frame(self) -> Any:
        """Coefficients as a pandas frame, in the units of the columns.

        One row for each feature and one for the intercept, with the columns `coefficient`, `standard_error`, `low` and
        `high`, the ends of an interval of two standard errors to each side, `hidden_by_noise` and `compared_with`. A
        coefficient that is hidden by noise has no interval: `low` and `high` are NaN. `compared_with` says what the
        coefficient of a category is a difference from, and is empty for other features. With more than two classes,
        there are such rows for each class. Needs pandas.
        """
        check_is_fitted(self)
        assert isinstance(self.fit_, LogisticFit)
        return self.fit_.coefficients.frame(self.classes_)

    @without_sizes
    def decision_function(self, X: Any) -> FloatArray:
        """Not private: the logits of each row, of shape (n,) for two classes and (n, n_classes) for more.

        Parameters
        ----------
        X : array, table or path
            The features in the columns' own units. Files are streamed. The logits of a row in which a number is missing
            are NaN, unless `missing` is "midpoint". A row of no listed category counts as the average category.
        """
        check_is_fitted(self)
        value = self.fit_.value
        empty = np.empty((0, len(value.intercepts)))
        parts = (rows @ value.coefficients + value.intercepts for rows in self._vectors_of(X))
        logits = np.concatenate([empty, *parts])
        return logits[:, 0] if logits.shape[1] == 1 else logits

    def predict_proba(self, X: Any) -> FloatArray:
        """Not private: the probability of each class for each row, in the order of `classes_`.

        They are NaN for a row in which a number is missing.
        """
        logits = self.decision_function(X)
        if logits.ndim == 2:
            return np.asarray(special.softmax(logits, axis=1))
        return np.column_stack([special.expit(-logits), special.expit(logits)])

    def predict(self, X: Any) -> NDArray[Any]:
        """Not private: the most probable class of each row.

        A row in which a number is missing has no class: NaN in an array of floats if the classes are numbers, else None
        in an array of objects. Without such rows, the array has the type of `classes_`.
        """
        logits = self.decision_function(X)
        index = logits.argmax(axis=1) if logits.ndim == 2 else (logits > 0.0).astype(np.intp)
        classes, unknown = np.asarray(self.classes_[index]), np.isnan(logits.reshape(len(index), -1)).any(axis=1)
        if unknown.any():
            classes = classes.astype(np.float64 if classes.dtype.kind in "iuf" else object)
            classes[unknown] = None
        return classes

    @without_sizes
    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Not private: the share of the rows whose predicted class is right. Rows without a prediction are left out.

        Parameters
        ----------
        X : array, table or path
            As in `predict`.
        y : array, optional
            The class of each row; None reads the column `target` of X.
        """
        predicted = self.predict(X)
        right = predicted == (self._classes_in(X) if y is None else self._classes_of(targets_of(y, len(predicted))))
        weights = weights_of(sample_weight, len(predicted))
        whole = np.array([cell is not None and cell == cell for cell in predicted.tolist()], dtype=bool)
        if not whole.any():
            return math.nan
        return float(np.average(right[whole], weights=None if weights is None else weights[whole]))

    def _classes_in(self, X: Any) -> NDArray[Any]:
        """The class of each row of a table or file, or None."""
        return self._named(np.asarray(read(self._table(X), columns=Schema((self._target_column,))).rows))

    def _classes_of(self, y: NDArray[Any]) -> NDArray[Any]:
        """The class that each target stands for, as in a fit, or None."""
        return self._named(np.column_stack(self._target_column.encode(cells_of(y, self._target_column))))

    def _named(self, rows: FloatArray) -> NDArray[Any]:
        classes = self.classes_.astype(object)[rows.argmax(axis=1)]
        return np.where(rows.max(axis=1) > 0.0, classes, np.array(None))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # The noise hides the classes in the small tables of scikit-learn's checks.
        tags.classifier_tags.poor_score = True
        return tags


def _classes_of(y: Any) -> NDArray[Any]:
    """The distinct values of y. Errors show none of them."""
    cells = as_array(y)
    if cells is None or cells.ndim == 0 or cells.ndim > 2 or (cells.ndim == 2 and cells.shape[1] != 1):
        raise DataError("y should be a 1d array. Pass one class for each row.")
    if cells.dtype.kind == "f" and not np.isfinite(cells).all():
        raise DataError("y holds NaN or infinity, so its classes cannot be listed. State them in classes.")
    if cells.dtype.kind == "c":
        raise DataError("Complex data not supported. Pass classes.")
    kind = type_of_target(cells.ravel())
    if kind not in ("binary", "multiclass"):
        raise DataError(f"Unknown label type: {kind}. Pass classes instead of continuous numbers.")
    return _in_order(cells.ravel())


def _in_order(classes: NDArray[Any]) -> NDArray[Any]:
    try:
        return np.asarray(np.unique(classes))
    except TypeError:
        raise ArgumentError("the classes are of different types. Pass texts only, or numbers only.") from None
