"""Settings of a private linear regression: weight of the target, constant coordinate and radius."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from pais._base import validate
from pais.data.ball import Ball
from pais.data.scales import Auto, Bounds, Scale
from pais.data.schema import Schema
from pais.data.units import most_units
from pais.errors import ArgumentError
from pais.mechanisms import Mechanism
from pais.planning.facts import Facts
from pais.planning.moments import MomentSettings, with_constant
from pais.planning.radius import RadiusChoice, clipped_facts, radius_at
from pais.planning.size_choice import SampleChoice
from pais.privacy.amplification import largest_shift
from pais.privacy.guarantee import chosen_delta
from pais.privacy.norms import NormDistribution
from pais.privacy.rules import Rule

# Share of the rows within the radius, by rows times allowed shift over features. If that is small, noise limits the
# result, and the radius is small: a row that is clipped as a whole keeps its direction. If it is large, the noise
# hardly matters, and norms differ more within a large radius, so that sampling by norm saves rows.
_QUANTILES = ((200.0, 0.9), (20.0, 0.75), (0.0, 0.1))

# If sampling without extra noise would keep more than this share of the rows, all are used, in one pass.
_MOST_SAMPLED = 0.5

# Square of the constant coordinate for each feature, by kind of column: about a tenth of the square of the feature.
_CONSTANT_PER_STATED, _CONSTANT_PER_AUTO = 0.06, 0.03

# Square of the factor of a target with stated bounds, which is then about a tenth of the square of all features.
_FACTOR, _FACTOR_PER_FEATURE = 4.0, 0.3

# A standardized target has a deviation of 1, about three times that of a target within stated bounds.
_STANDARDIZED = 0.25

# More of the shift is spent on columns whose scales must be found: a regression needs their deviations.
_MORE_FOR_COLUMNS = 1.5


@dataclass(frozen=True, kw_only=True)
class LinearSettings(MomentSettings):
    """Settings of a private linear regression that the user chooses; public.

    The last column of the rows is the target.

    Attributes
    ----------
    alpha : "noise" or float
        Penalty on the coefficients: see `pais.DPLinearRegression`.
    fit_intercept : bool
        Whether there is an intercept.
    epsilon, delta, radius, center, norms, quantile, sampling, sample_size, mechanism, max_epsilon_if_kept
        See `Settings`. Without a `sample_size`, all rows are used if the sample would have more than half of them.
    """

    what = "regression"

    alpha: float | Literal["noise"] = "noise"
    fit_intercept: bool = True

    def require(self) -> None:
        super().require()
        validate.flag("fit_intercept", self.fit_intercept)
        if isinstance(self.alpha, str):
            if self.alpha != "noise":
                raise ArgumentError("alpha is a text other than 'noise'. Pass a number >= 0, or 'noise'.")
        else:
            validate.non_negative("alpha", self.alpha)

    @property
    def survey_shift_share(self) -> float:
        return super().survey_shift_share * (_MORE_FOR_COLUMNS if self.open_columns else 1.0)

    def _with_radius(self, facts: Facts, n_features: int) -> tuple[Facts, RadiusChoice | None]:
        survey, d = facts.survey, n_features - 1
        if facts.radius_is_open:
            quantile = self._quantile_for(facts, d) if self.quantile is None else self.quantile
            facts = clipped_facts(facts, radius_at(facts.norms, quantile))
        elif self.radius is None and survey is not None and not survey.above_noise:
            # Nothing is known about the norms, so they are taken to be those of columns that fill their bounds.
            facts = clipped_facts(facts, min(facts.ball.radius, math.sqrt(0.3 * d + 0.4)))
        return with_constant(facts, math.sqrt(_square_constant(facts.schema, d))), None

    def _mechanism(
        self, ball: Ball, norms: NormDistribution, d: int, delta: float, limit: float | None
    ) -> tuple[Mechanism, Rule, SampleChoice | None]:
        mechanism, rule, _ = super()._mechanism(ball, norms, d, delta, limit)
        is_open = self.sampling == "constrained" and self.stated_size is None
        if is_open and norms.expected_size(rule) > _MOST_SAMPLED * norms.n_rows:
            return replace(self, sampling="none")._mechanism(ball, norms, d, delta, limit)
        return mechanism, rule, None

    def _quantile_for(self, facts: Facts, d: int) -> float:
        """Share of the rows within the radius, from the noisy number of rows."""
        n_units = most_units(facts.unit, facts.norms.n_rows)
        delta = chosen_delta(self.delta, gaussian=True, n_rows=n_units, surveyed=True).used
        signal = facts.norms.n_rows * largest_shift(float(self.epsilon), delta) / max(d, 1)
        return next(quantile for least, quantile in _QUANTILES if signal >= least)


def regression_schema(schema: Schema) -> Schema:
    """A schema for a regression of its last column on the others.

    "auto" columns are standardized instead of clipped, and the target gets a factor, so that its part in the norm of a
    row is small but stands out of the noise.
    """
    *features, target = [
        replace(column, standardized=True) if isinstance(column, Auto) else column for column in schema.columns
    ]
    if not isinstance(target, (Auto, Bounds, Scale)):
        raise ArgumentError(
            f"the target {target.name!r} is not a column of numbers. State (low, high) or 'auto' for it."
        )
    width = schema.width - len(target.labels)
    square = (_FACTOR + _FACTOR_PER_FEATURE * width) * (1.0 if isinstance(target, Bounds) else _STANDARDIZED)
    return Schema((*features, replace(target, factor=math.sqrt(square))))


def _square_constant(schema: Schema | None, d: int) -> float:
    """Square of the constant coordinate."""
    if schema is None:
        return _CONSTANT_PER_AUTO * d
    return sum(
        len(column.labels) * (_CONSTANT_PER_AUTO if isinstance(column, Auto) else _CONSTANT_PER_STATED)
        for column in schema.columns[:-1]
    )
