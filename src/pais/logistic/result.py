"""The result of a private logistic regression: coefficients in the units of the columns, with their errors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pais.data.schema import Schema
from pais.linear.coefficients import Coefficients, RegressionFit, mean_weight, references
from pais.logistic.mechanism import LogisticRounds, LogisticValue
from pais.planning.fit import CLEAR, Fit

# Share of the rows with a listed class below which a fit is not trusted. Chosen by eye (commit 5001687).
_FEW_LISTED = 0.05

# A coefficient is hidden by noise if more than this share of its squared error is assumed and not seen: half, as in
# `pais.linear.coefficients`.
_HIDDEN = 0.5


@dataclass(frozen=True, kw_only=True, repr=False)
class LogisticFit(RegressionFit):
    """A fit of a logistic regression, with the coefficients of its logits in the units of the columns."""

    @classmethod
    def of_fit(cls, fit: Fit) -> LogisticFit:
        """Convert the released coefficients of scaled vectors."""
        assert fit.schema is not None
        return cls(
            value=fit.value, certificate=fit.certificate, plan=fit.plan, survey=fit.survey, coefficients=_in_units(fit)
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
            return super().concern
        return (
            "noise hides the relation between features and classes, so all coefficients are 0. Raise epsilon, pass "
            "more rows, or state bounds of the columns."
        )

    def in_words(self) -> str:
        d, k = self.value.coefficients.shape
        return f"{d} coefficient{'s' * (d != 1)} for each of {k} logit{'s' * (k != 1)} of {self.coefficients.target!r}"


def _in_units(fit: Fit) -> Coefficients:
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
    return Coefficients(
        target=schema.columns[-1].name,
        labels=features.labels,
        compared_with=references(features),
        values=values.T,
        standard_errors=errors.T,
        hidden=((value.hidden_variances[:-1] > _HIDDEN * variances[:-1]) & (np.abs(values) <= CLEAR * errors)).T,
        intercepts=value.intercepts - (values * origins).sum(axis=0),
        intercept_errors=np.sqrt(variances[-1] + moved),
    )
