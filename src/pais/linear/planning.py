"""Settings and plan of a private linear regression: weight of the target, constant coordinate and radius."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from pais._base import validate
from pais._base.numerics import FloatArray
from pais.accounting.certificate import Release
from pais.data.ball import Ball
from pais.data.kinds import Auto, Bounds, FoundCategories, Scale
from pais.data.schema import Schema
from pais.errors import ArgumentError
from pais.linear.coefficients import LinearFit, bounded_norms, square_mean_weight, without_other
from pais.mechanisms.base import Mechanism
from pais.mechanisms.moments import MomentSum
from pais.planning.facts import Facts
from pais.planning.plan import Plan, RadiusChoice, SampleChoice, clipped_facts, radius_at
from pais.planning.settings import SampleSettings, with_constant
from pais.privacy.amplification import largest_shift
from pais.privacy.rules import NormDistribution, Rule

# The radius has the least predicted squared error of a coefficient. The variance of the residuals over the mean square
# of a feature, for each feature: the target is scaled to about a tenth of the square of all features, and half of it is
# taken to be explained by them.
_RESIDUAL_PER_FEATURE = 0.05

# Correlation of the weight of a clipped row and its part in the normal equations: somewhat less than the errors of
# coefficients allow for, since most coefficients move less. Chosen by eye (b4f1a5f).
_CORRELATION = 0.25

# Features are correlated, which raises the variance due to the noise by about this share for each of them. With less,
# the radius for ten columns of Song and 10,000 rows is so large that R^2 falls by 8 %.
_AMPLIFIED_PER_FEATURE = 0.6

# If sampling without extra noise would keep more than this share of the rows, all are used, in one pass: a sample saves
# little then (commit 42d2ec8).
_MOST_SAMPLED = 0.5

# If a count of cells would have more noise than this number of rows, even at the whole price, the survey of "auto"
# columns gets a larger share of the shift, by this power of the number, up to this share: without scales there is
# nothing to predict. At epsilon 0.1 and delta 1e-6, 68 columns reach the number. 1 - R^2 of `sensors` with 128 columns
# (benchmarks/results/regression-drowned.md) falls from 0.77 to 0.61, and that of Song with 89 does not change. With 17
# columns of Song at epsilon 0.03 it falls from 0.80 to 0.63.
_NOISY_COUNT, _NOISY_POWER, _LARGEST_SHARE = 300.0, 1.5, 0.54

# Square of the constant coordinate for each feature, by kind of column: about a tenth of the square of the feature.
# These and the two groups below were chosen by eye (d8906f5); benchmarks/results/regression-small.md shows what they
# reach.
_CONSTANT_PER_STATED, _CONSTANT_PER_AUTO = 0.06, 0.03

# Square of the factor of a target with stated bounds, which is then about a tenth of the square of all features.
_FACTOR, _FACTOR_PER_FEATURE = 4.0, 0.3

# A standardized target has a deviation of 1, about three times that of a target within stated bounds.
_STANDARDIZED = 0.25


@dataclass(frozen=True, kw_only=True)
class LinearSettings(SampleSettings):
    """Settings of a private linear regression that the user chooses; public.

    The last column of the rows is the target.

    Attributes
    ----------
    alpha : "noise" or float
        Penalty on the coefficients: see `pais.DPLinearRegression`.
    fit_intercept : bool
        Whether there is an intercept.
    epsilon, delta, radius, center, norms, quantile, sampling, sample_size, mechanism, max_epsilon_if_kept
        See `Settings`. A `sample_size` of None means "free". All rows are used if such a sample would have more than
        half of them, or would add more to the errors of coefficients than the noise does.
    """

    what = "regression"
    gaussian_only = True
    # A regression needs the deviations of columns whose scales must be found. Chosen by eye (commit d8906f5).
    more_for_columns = 1.5

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
        share = super().survey_shift_share
        noise = math.sqrt(self.open_columns) / self._largest_shift
        more = math.pow(max(noise / _NOISY_COUNT, 1.0), _NOISY_POWER)
        return min(share * more, max(share, _LARGEST_SHARE))

    def result(self, plan: Plan, release: Release, facts: Facts) -> LinearFit:
        """The fit with the coefficients that follow from the released second moment."""
        fit = super().result(plan, release, facts)
        return LinearFit.of_fit(fit, alpha=self.alpha, fit_intercept=self.fit_intercept)

    def _with_radius(self, facts: Facts, n_features: int) -> tuple[Facts, RadiusChoice | None]:
        survey, d = facts.survey, n_features - 1
        if facts.radius_is_open:
            radius = self._best_radius(facts, d) if self.quantile is None else radius_at(facts.norms, self.quantile)
            facts = clipped_facts(facts, radius)
        elif self.radius is None and survey is not None and not survey.above_noise:
            # Nothing is known about the norms, so they are taken to be those of columns that fill their bounds.
            facts = clipped_facts(facts, min(facts.ball.radius, math.sqrt(0.3 * d + 0.4)))
        return with_constant(facts, math.sqrt(_square_constant(facts.schema, d))), None

    def _mechanism(
        self, ball: Ball, norms: NormDistribution, d: int, delta: float, limit: float | None
    ) -> tuple[Mechanism, Rule, SampleChoice | None]:
        mechanism, rule = self.moment_sum(ball, norms, d, delta, limit)
        if self.sampling == "constrained" and self.stated_size is None and _costs_much(mechanism, rule, norms, d):
            mechanism, rule = replace(self, sampling="none").moment_sum(ball, norms, d, delta, limit)
        return mechanism, rule, None

    def _best_radius(self, facts: Facts, d: int) -> float:
        """The radius with the least predicted error of coefficients, from noise and from clipped rows together.

        For r^2 over the mean square of the clipped rows, the noise of a coefficient grows in proportion. Clipped rows
        count less, which moves coefficients in proportion to the deviation of the weights. With more rows or a larger
        epsilon there is less noise, so the radius grows.
        """
        shift = largest_shift(float(self.epsilon), self._surveyed_delta(facts))
        constant = _square_constant(facts.schema, d)
        norms, masses = bounded_norms(facts.norms, facts.schema, facts.ball), facts.norms.masses
        noise = (d + 1) / max(facts.norms.n_rows * shift, 1.0)
        radii = np.unique(norms[(masses > 0.0) & (norms > 0.0)])
        if radii.size == 0:
            return facts.norms.radius
        mean, variance = _weights_at(np.square(norms) + constant, masses, np.square(radii) + constant)
        residual = _RESIDUAL_PER_FEATURE * d
        error = (
            0.5
            * (1.0 + residual)
            * (1.0 + _AMPLIFIED_PER_FEATURE * d)
            * np.square(noise * (np.square(radii) + constant) / mean)
        )
        error += _CORRELATION**2 * residual * variance
        return float(radii[np.argmin(error)])


def _costs_much(mechanism: MomentSum, rule: Rule, norms: NormDistribution, d: int) -> bool:
    """Whether a sample would hold many rows, or would add more to the errors of coefficients than the noise does."""
    if norms.expected_size(rule) > _MOST_SAMPLED * norms.n_rows:
        return True
    squares = float(norms.masses @ np.square(np.minimum(norms.norms, norms.radius)))
    if squares <= 0.0:
        return False
    residual = _RESIDUAL_PER_FEATURE * d
    noise = 0.5 * (1.0 + residual) * ((d + 1) * mechanism.noise.scale / squares) ** 2
    return residual * (square_mean_weight(norms, rule) - 1.0) / norms.n_rows > noise


def _weights_at(squares: FloatArray, masses: FloatArray, edges: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean square of rows clipped at each squared radius, and relative variance of their weights by squared norm.

    A row of squared norm s has the weight min(1, edge/s). `edges` increase.
    """
    order = np.argsort(squares, kind="stable")
    s, m = squares[order], masses[order]
    places = np.searchsorted(s, edges, side="right")
    # Sums up to each edge, and beyond it: of the squares, the masses, and the masses over squares.
    inside = np.append(0.0, np.cumsum(m * s))[places]
    beyond, inverse = (np.append(np.cumsum(each[::-1])[::-1], 0.0)[places] for each in (m, m / s))
    total = float(m @ s)
    clipped = inside + edges * beyond
    relative = total * (inside + edges**2 * inverse) / np.square(clipped) - 1.0
    return clipped / float(m.sum()), np.maximum(relative, 0.0)


def regression_schema(schema: Schema) -> Schema:
    """A schema for a regression of its last column on the others.

    "auto" columns are standardized instead of clipped, and the target gets a factor, so that its part in the norm of a
    row is small but stands out of the noise.
    """
    *features, target = [
        replace(column, standardized=True) if isinstance(column, Auto) else column for column in schema.columns
    ]
    features = without_other(features)
    if isinstance(target, FoundCategories):
        raise ArgumentError(
            f"the target {target.name!r} of a linear regression must be a column of numbers, and its type is text. "
            "Convert it, or use DPLogisticRegression with a list of classes."
        )
    if not isinstance(target, (Auto, Bounds, Scale)):
        raise ArgumentError(
            f"the target {target.name!r} is not a column of numbers. State (low, high) or 'auto' for it; for true "
            "and false, state (0, 1), or use DPLogisticRegression."
        )
    width = schema.width - len(target.labels)
    square = (_FACTOR + _FACTOR_PER_FEATURE * width) * (1.0 if isinstance(target, Bounds) else _STANDARDIZED)
    return Schema((*features, replace(target, factor=math.sqrt(square), is_target=True)))


def _square_constant(schema: Schema | None, d: int) -> float:
    """Square of the constant coordinate."""
    if schema is None:
        return _CONSTANT_PER_AUTO * d
    return sum(
        len(column.labels) * (_CONSTANT_PER_AUTO if isinstance(column, Auto) else _CONSTANT_PER_STATED)
        for column in schema.columns[:-1]
    )
