"""Coefficients of a private linear regression in the units of the columns, and the fit that released them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pais._base.numerics import FloatArray
from pais.data.kinds import Categories
from pais.data.schema import Schema
from pais.mechanisms import LinearValue, MomentValue, clipped_weight, linear_regression
from pais.planning.fit import Fit
from pais.planning.linear import LinearSettings
from pais.planning.plan import Plan

# Fewer rows than this many standard deviations of their noise do not determine a coefficient.
_UNSEEN = 6.0


@dataclass(frozen=True, kw_only=True)
class Coefficients:
    """Coefficients with standard errors, in the units of the columns. They may be published.

    Attributes
    ----------
    target : str
        Name of the column that is predicted.
    labels : tuple of str
        One label for each coefficient, such as ``region=north`` for a category.
    values, standard_errors : array of shape (d,)
        Change of the target for one more unit of a number, or if a category or a boolean holds. The coefficients of a
        column of categories add up to zero, unless many rows have none of the categories listed. The standard errors
        are due to the noise, the sampling and the residuals of the rows.
    intercept, intercept_error : float
        Prediction where all numbers are zero and no category holds, and its standard error.
    low, high : float
        Predictions are clipped to these bounds of the target, stated or found by the survey.
    vector : LinearValue
        The same for scaled vectors, as they follow from the moment.
    """

    target: str
    labels: tuple[str, ...]
    values: FloatArray
    standard_errors: FloatArray
    intercept: float
    intercept_error: float
    low: float
    high: float
    vector: LinearValue


@dataclass(frozen=True, kw_only=True, repr=False)
class LinearFit(Fit):
    """A fit of a linear regression: the released second moment, and the coefficients that follow from it."""

    coefficients: Coefficients

    @classmethod
    def of_fit(cls, fit: Fit, settings: LinearSettings) -> LinearFit:
        """Compute the coefficients from the released second moment."""
        assert fit.schema is not None
        vector = linear_regression(
            _moment(fit.value, fit.plan, fit.schema, settings.fit_intercept),
            alpha=settings.alpha,
            spread=mean_weight(fit.plan),
            clipped=_clipped_weight(fit),
            n_rows=None if settings.fit_intercept else fit.value.noisy_count,
        )
        coefficients = _in_units(vector, fit, settings.fit_intercept)
        return cls(
            value=fit.value, certificate=fit.certificate, plan=fit.plan, survey=fit.survey, coefficients=coefficients
        )

    def _value_in_words(self) -> str:
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
    squares = plan.norms.masses * np.square(plan.norms.norms)
    total = float(squares.sum())
    if total == 0.0:
        return 1.0
    return float((squares / np.maximum(plan.rule.probability(plan.norms.norms), 1e-12)).sum()) / total


def _clipped_weight(fit: Fit) -> float:
    """Weight of the rows that were clipped, from the norms that the survey released; 0 if it released none."""
    if fit.survey is None or not fit.survey.above_noise:
        return 0.0
    norms, ball = fit.survey.norms, fit.plan.ball
    return clipped_weight(np.hypot(norms.norms, ball.constant), norms.masses, ball.radius)


def _gauge(value: MomentValue, plan: Plan, schema: Schema) -> FloatArray:
    """A map of coefficients and intercept, in the units of the columns, that changes no prediction for the rows.

    The coordinates of a column of categories add up to a constant in all rows whose category is listed. Then only the
    differences of their coefficients and the intercept matter, and the coefficients are made to add up to zero, unless
    the moment says that the category of many rows is none of those listed.
    """
    d, origins = schema.width - len(schema.columns[-1].labels), _origins(plan, schema)
    gauge, first = np.eye(d + 1), 0
    for column in schema.columns[:-1]:
        places = np.arange(first, first + len(column.labels))
        first += places.size
        if not isinstance(column, Categories):
            continue
        combination = np.zeros(len(value.moment))
        combination[places] = schema.unit_scale[places]
        combination[-1] = -(1.0 - float(schema.unit_scale[places] @ origins[places])) / value.constant
        if combination @ value.moment @ combination <= _UNSEEN * value.scale * float(combination @ combination):
            gauge[np.ix_(places, places)] -= 1.0 / places.size
            gauge[-1, places] += 1.0 / places.size
    return gauge


def _in_units(vector: LinearValue, fit: Fit, fit_intercept: bool) -> Coefficients:
    schema, plan = fit.schema, fit.plan
    assert schema is not None
    *scales, unit = schema.unit_scale.tolist()
    *origins, last = _origins(plan, schema).tolist()
    # Coefficients and intercept in the units of the columns.
    map_ = np.diag(np.append(unit / np.asarray(scales), unit * fit_intercept))
    if fit_intercept:
        map_[-1, :-1] = -unit * np.asarray(origins)
        map_ = _gauge(fit.value, plan, schema) @ map_
    values = map_ @ np.append(vector.coefficients, vector.intercept)
    errors = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", map_, vector.covariance, map_, optimize=True), 0.0))
    target = schema.columns[-1]
    low, high = target.decode(np.array([-np.inf, np.inf])).tolist()
    return Coefficients(
        target=target.name,
        labels=schema.labels[:-1],
        values=values[:-1],
        standard_errors=errors[:-1],
        intercept=float(values[-1] + unit * last * fit_intercept),
        intercept_error=float(errors[-1]),
        low=low,
        high=high,
        vector=vector,
    )
