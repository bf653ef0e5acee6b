"""Coefficients of a private linear regression in the units of the columns, and the fit that released them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pais._base.numerics import FloatArray
from pais.data.checks import listed
from pais.data.kinds import Categories, Column
from pais.data.schema import Schema
from pais.mechanisms import LinearValue, MomentValue, Reweighting, linear_regression
from pais.planning.fit import Fit
from pais.planning.linear import LinearSettings, bounded_norms
from pais.planning.moments import square_mean_weight
from pais.planning.plan import Plan

# Fewer rows than this many standard deviations of their noise do not determine a coefficient.
_UNSEEN = 6.0

# Plausible standard deviation of a coefficient: this many ranges of the target for the range of a feature. Columns that
# are almost the same have larger ones: up to 2.9 in a table of proteins, where intervals miss.
_PLAUSIBLE = 0.8

# Rows beyond the outermost norm of a survey that its noise may hide, in standard deviations of the noise of a count,
# and at most this share of all rows. They are spread over norms up to this multiple of the outermost one. A survey
# hides up to 2.5 deviations of the noise of all its bins; two of one bin are enough for simulated heavy tails.
_TAIL_ROWS, _TAIL_SHARE, _TAIL_REACH, _TAIL_ATOMS = 2.0, 0.01, 1.5, 16

# A coefficient is hidden by noise if more than this share of its squared error is assumed.
_MOST_ASSUMED = 0.5


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
        Change of the target for one more unit of a number, or if a boolean holds; for a category, the difference from
        the average of the listed categories of its column, which add up to zero. Without an intercept, a category has
        the level of its rows. The standard errors are due to the noise, the sampling and the residuals of the rows, the
        clipping and the penalty.
    compared_with : tuple of str
        Reference of the coefficient of each category, which is a difference from it; empty for the other features.
    hidden : array of bool of shape (d,)
        Which coefficients are hidden by noise: more than half of their squared error is what is assumed about
        directions that the noise hides. They have no interval.
    intercept, intercept_error : float
        Prediction where all numbers are zero and booleans false, for the average category of each column, and its
        standard error.
    low, high : float
        Predictions are clipped to these bounds of the target, stated or found by the survey.
    vector : LinearValue
        The same for scaled vectors, as they follow from the moment.
    """

    target: str
    labels: tuple[str, ...]
    compared_with: tuple[str, ...]
    values: FloatArray
    standard_errors: FloatArray
    hidden: NDArray[np.bool_]
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
        constraints = _constraints(fit.value, fit.plan, fit.schema) if settings.fit_intercept else []
        vector = linear_regression(
            _moment(fit.value, fit.plan, fit.schema, settings.fit_intercept),
            alpha=settings.alpha,
            spread=mean_weight(fit.plan),
            reweighting=_reweighting(fit),
            plausible=_PLAUSIBLE * getattr(fit.schema.columns[-1], "factor", 1.0),
            constraints=np.array(constraints) if constraints else None,
            n_rows=None if settings.fit_intercept else fit.value.noisy_count,
        )
        coefficients = _in_units(vector, fit, settings.fit_intercept)
        return cls(
            value=fit.value, certificate=fit.certificate, plan=fit.plan, survey=fit.survey, coefficients=coefficients
        )

    @property
    def concern(self) -> str | None:
        """Text of a warning if all coefficients are hidden by noise, or columns are too similar; else None."""
        if not self.coefficients.hidden.all():
            return super().concern or self._alike_concern
        return (
            "all coefficients are hidden by noise: their errors rest on what is plausible for any table, not on the "
            "rows. Raise epsilon, pass more rows, or use fewer columns or tighter bounds."
        )

    @property
    def _alike_concern(self) -> str | None:
        """Text of a warning if the noise hides the differences of columns that are nearly the same."""
        alike = self.coefficients.vector.alike
        if not alike.any():
            return None
        names = [label for label, like in zip(self.coefficients.labels, alike.tolist(), strict=True) if like]
        return (
            f"the columns {listed(names)} are so similar that the noise hides their differences. All intervals assume "
            "that no coefficient is much larger than the range of the target over that of its column, which similar "
            "columns can break. Leave out columns that say the same as others."
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
    return square_mean_weight(plan.norms, plan.rule)


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
        reference = f"the average of the listed categories of {column.name}"
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
    target = schema.columns[-1]
    low, high = target.decode(np.array([-np.inf, np.inf])).tolist()
    return Coefficients(
        target=target.name,
        labels=features.labels,
        compared_with=references(features, centered=fit_intercept),
        values=values[:-1],
        standard_errors=errors[:-1],
        hidden=assumed[:-1] > _MOST_ASSUMED * square[:-1],
        intercept=float(values[-1] + unit * last * fit_intercept),
        intercept_error=float(errors[-1]),
        low=low,
        high=high,
        vector=vector,
    )
