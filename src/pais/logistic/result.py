"""The result of a private logistic regression: coefficients in the units of the columns, with their errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pais._base.numerics import FloatArray
from pais.data.schema import Schema
from pais.errors import ArgumentError
from pais.linear.coefficients import mean_weight, references, with_intervals
from pais.logistic.mechanism import LogisticRounds, LogisticValue
from pais.planning.fit import CLEAR, Fit

# Share of the rows with a listed class below which a fit is not trusted. Chosen by eye (commit 5001687).
_FEW_LISTED = 0.05

# A coefficient is hidden by noise if more than this share of its squared error is assumed and not seen: half, as in
# `pais.linear.coefficients`.
_HIDDEN = 0.5

_ALL_HIDDEN = (
    "all coefficients are hidden by noise: their errors rest on what is plausible for any table, not on the rows. "
    "Raise epsilon, pass more rows, or use fewer columns or tighter bounds."
)


@dataclass(frozen=True, kw_only=True)
class Logits:
    """Coefficients of the logits with standard errors, in the units of the columns. They may be published.

    Attributes
    ----------
    target : str
        Name of the column that holds the classes.
    labels : tuple of str
        One label for each feature, such as ``region=north`` for a category.
    values, standard_errors : array of shape (n_logits, d)
        Change of each logit for one more unit of a number, or if a boolean holds; for a category, the difference from
        the average of the listed categories of its column, which add up to zero. The standard errors are due to the
        noise, the sampling and the classes of the rows, the penalty, and directions of the features that the noise
        hides.
    compared_with : tuple of str
        Reference of the coefficient of each category, which is a difference from it; empty for the other features.
    hidden : array of shape (n_logits, d)
        Which coefficients are hidden by noise: they are within two standard errors of zero, and more than half of the
        squared error is what was assumed about effects that the noise hides. They have no interval.
    intercepts, intercept_errors : array of shape (n_logits,)
        Logits where all numbers are zero and booleans false, for the average category of each column, and their
        standard errors.
    """

    target: str
    labels: tuple[str, ...]
    compared_with: tuple[str, ...]
    values: FloatArray
    standard_errors: FloatArray
    hidden: NDArray[np.bool_]
    intercepts: FloatArray
    intercept_errors: FloatArray


@dataclass(frozen=True, kw_only=True, repr=False)
class LogisticFit(Fit):
    """A fit of a logistic regression, with its coefficients in the units of the columns."""

    logits: Logits

    @classmethod
    def of_fit(cls, fit: Fit) -> LogisticFit:
        """Convert the released coefficients of scaled vectors."""
        assert fit.schema is not None
        return cls(
            value=fit.value, certificate=fit.certificate, plan=fit.plan, survey=fit.survey, logits=_in_units(fit)
        )

    @property
    def concern(self) -> str | None:
        """Text of a warning if few rows have a listed class, or noise hides all relations to the classes; else None."""
        assert isinstance(self.plan.mechanism, LogisticRounds)
        # Clipping leaves rows at most this share of their length.
        least = _FEW_LISTED * min(1.0, self.plan.ball.radius / self.plan.mechanism.label_length)
        if self.value.listed < least and self.value.listed_error < least:
            return (
                "hardly any rows have one of the classes, so the coefficients say little. Check classes, their "
                "spelling and their type."
            )
        if np.any(self.value.coefficients):
            return _ALL_HIDDEN if self.logits.hidden.all() else None
        return (
            "noise hides the relation between features and classes, so all coefficients are 0. Raise epsilon, pass "
            "more rows, or state bounds of the columns."
        )

    def in_words(self) -> str:
        d, k = self.value.coefficients.shape
        return f"{d} coefficient{'s' * (d != 1)} for each of {k} logit{'s' * (k != 1)} of {self.logits.target!r}"


def _in_units(fit: Fit) -> Logits:
    value: LogisticValue = fit.value
    schema = fit.schema
    assert schema is not None
    d, features = len(value.coefficients), Schema(schema.columns[:-1])
    scales, origins = schema.unit_scale[:d, None], schema.centers[:d, None]
    variances = value.noise_variances + mean_weight(fit.plan) * value.row_variances
    variances = variances + value.hidden_variances + np.square(value.biases)
    values, errors = value.coefficients / scales, np.sqrt(variances[:-1]) / scales
    center = np.zeros(d) if fit.plan.ball.center is None else np.asarray(fit.plan.ball.center)[:d]
    move = center[:, None] + origins / scales
    for places in features.category_places:
        # Coefficients that add up to zero give nothing to a move by the same amount in all of them.
        move[list(places)] -= move[list(places)].mean()
    # The error of the intercept is that at the center of the ball, moved to the origin as if it were independent.
    moved = (np.square(move) * variances[:-1]).sum(axis=0)
    return Logits(
        target=schema.columns[-1].name,
        labels=features.labels,
        compared_with=references(features),
        values=values.T,
        standard_errors=errors.T,
        hidden=((value.hidden_variances[:-1] > _HIDDEN * variances[:-1]) & (np.abs(values) <= CLEAR * errors)).T,
        intercepts=value.intercepts - (values * origins).sum(axis=0),
        intercept_errors=np.sqrt(variances[-1] + moved),
    )


def logits_frame(logits: Logits, classes: Any) -> Any:
    """Coefficients of the logits with standard errors and intervals, by class if there are several logits."""
    try:
        import pandas as pd
    except ImportError:
        raise ArgumentError("coefficients_frame needs pandas. Install it: pip install pandas.") from None
    values = np.column_stack([logits.values, logits.intercepts]).ravel()
    errors = np.column_stack([logits.standard_errors, logits.intercept_errors]).ravel()
    index: Any = pd.Index([*logits.labels, "intercept"], name="feature")
    if len(logits.values) > 1:
        index = pd.MultiIndex.from_product([classes, index], names=["class", "feature"])
    hidden = np.column_stack([logits.hidden, np.zeros(len(logits.values), dtype=bool)]).ravel()
    columns, compared_with = with_intervals(values, errors, hidden), [*logits.compared_with, ""] * len(logits.values)
    return pd.DataFrame({**columns, "compared_with": compared_with}, index=index)
