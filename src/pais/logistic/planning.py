"""Settings and plan of a private logistic regression, and its result in the units of the columns, with errors."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from pais.accounting.certificate import Release
from pais.data.ball import Ball
from pais.data.engines.base import Engine
from pais.data.kinds import Auto, Boolean, Categories
from pais.data.schema import Schema
from pais.errors import ArgumentError
from pais.linear.coefficients import Coefficients, RegressionFit, mean_weight, references, without_other
from pais.logistic.mechanism import LogisticRounds, LogisticValue, largest_slope
from pais.mechanisms.base import Mechanism
from pais.mechanisms.noise import GaussianNoise
from pais.planning.facts import Facts
from pais.planning.plan import CLEAR, Fit, Plan, RadiusChoice, SampleChoice, clipped_facts, radius_at
from pais.planning.settings import SampleSettings
from pais.privacy.amplification import largest_shift
from pais.privacy.profiles import GaussianProfile
from pais.privacy.rules import NormDistribution, Rule

S = TypeVar("S", bound="LogisticSettings")

# Shares of the squared shift at the radius, for the sum of the rows, for the second moment and for the two
# releases of second derivatives. The gradients get the rest, the later ones more. Chosen by eye (commit b4f1a5f).
_MEAN_SHARE, _MOMENT_SHARE, _CURVATURE_SHARE = 0.03, 0.15, 0.06

# More noise per coordinate means a smaller radius and fewer rounds. Chosen by eye (451c53a, a379e13);
# benchmarks/results/logistic-loss.md shows what they reach.
_CLIPPED_PER_NOISE, _MOST_CLIPPED = 20.0, 0.75
_ROUNDS_PER_NOISE, _LEAST_ROUNDS, _MOST_ROUNDS = 3.4, 12, 48

# Less noise means a larger reach: fewer rows are shortened in the gradients, which answer another question with every
# row that is. The reach is a power of a number over the noise. Smaller ones give less loss on Adult, but intervals that
# miss on Covertype (581,012 rows) and on simulated heavy tails; larger ones give more loss on wine (1,599 rows): tables
# coverage-models.md and logistic-loss.md of benchmarks/results (b4f1a5f).
_REACH_PER_NOISE, _REACH_POWER, _LEAST_REACH, _MOST_REACH = 0.045, 0.75, 0.5, 1000.0

# Relative increase over the calibrated noise, which covers the rounding errors of a sum over rounds.
_ROOM = 1e-9


@dataclass(frozen=True, kw_only=True)
class LogisticSettings(SampleSettings):
    """Settings of a private logistic regression that the user chooses; public.

    The last columns of the rows are one coordinate for each class.

    Attributes
    ----------
    n_classes : int
        Number of classes.
    groups : tuple of tuple of int
        Coordinates of each feature with at least two categories. `for_rows` sets it.
    epsilon, delta, radius, center, norms, quantile, sampling, sample_size, mechanism, max_epsilon_if_kept
        See `Settings`. A `sample_size` of None means "free".
    """

    what = "logistic regression"
    gaussian_only = True
    # A column of a wrong scale spoils all others. By the benchmark of commit eb2d2c0.
    more_for_columns = 1.75

    n_classes: int = 2
    groups: tuple[tuple[int, ...], ...] = ()

    def require(self) -> None:
        super().require()
        if type(self.n_classes) is not int or self.n_classes < 2:
            raise ArgumentError("n_classes must be a whole number of at least 2. State two classes or more.")

    def for_rows(self: S, rows: Engine) -> S:
        """Settings in which the coordinates of the classes have the origin as their center."""
        settings = super().for_rows(rows)
        center = np.zeros(rows.n_features) if settings.center is None else np.array(settings.center)
        center[rows.n_features - self.n_classes :] = 0.0
        groups = () if rows.schema is None else Schema(rows.schema.columns[:-1]).category_places
        return replace(settings, center=tuple(center.tolist()), groups=groups)

    def result(self, plan: Plan, release: Release, facts: Facts) -> LogisticFit:
        """The fit with the released coefficients of scaled vectors in the units of the columns."""
        fit = super().result(plan, release, facts)
        return fit.extended(LogisticFit, coefficients=_in_units(fit))

    def _with_radius(self, facts: Facts, n_features: int) -> tuple[Facts, RadiusChoice | None]:
        if facts.radius_is_open:
            quantile = self.quantile
            if quantile is None:
                # From the noise of a mean of all rows.
                shift = largest_shift(float(self.epsilon), self._surveyed_delta(facts))
                noise = self._width(n_features) / (facts.norms.n_rows * shift)
                quantile = 1.0 - min(_MOST_CLIPPED, _CLIPPED_PER_NOISE * noise)
            facts = clipped_facts(facts, radius_at(facts.norms, quantile))
        return facts, None

    def _width(self, n_features: int) -> int:
        """Number of coefficients of a logit."""
        return n_features - self.n_classes + 1

    def _mechanism(
        self, ball: Ball, norms: NormDistribution, d: int, delta: float, limit: float | None
    ) -> tuple[Mechanism, Rule, SampleChoice | None]:
        if d <= self.n_classes:
            raise ArgumentError("there is no feature beside the classes. Pass at least one column.")
        radius = ball.radius
        squares = _MOMENT_SHARE + _CURVATURE_SHARE
        profile = GaussianProfile(
            math.inf, radius / math.sqrt(1.0 - squares), square_scale=radius**2 / math.sqrt(squares)
        )
        calibration = self.calibrated(profile, norms, d, delta=delta, limit=limit)
        noise, n_rows = calibration.noise * (1.0 + _ROOM), max(norms.n_rows, 1.0)
        slope = largest_slope(self.n_classes)
        relative = self._width(d) * noise / n_rows
        n_rounds = int(min(max(_ROUNDS_PER_NOISE / math.sqrt(relative), _LEAST_ROUNDS), _MOST_ROUNDS))
        mechanism = LogisticRounds(
            n_features=d,
            n_classes=self.n_classes,
            mean_noise=GaussianNoise(scale=noise * radius / math.sqrt(_MEAN_SHARE)),
            moment_noise=GaussianNoise(scale=noise * radius**2 / math.sqrt(_MOMENT_SHARE)),
            curvature_noise=GaussianNoise(scale=slope * noise * radius**2 / math.sqrt(0.5 * _CURVATURE_SHARE)),
            rounds=self._rounds(noise * radius, n_rounds),
            radius=radius,
            n_rows=n_rows,
            mean_square_norm=max(norms.mean_square_norm, 1e-12 * radius**2),
            groups=self.groups,
            largest=calibration.rule.largest_contribution(radius) * (1.0 + _ROOM),
            # How much shorter than their norms rows are on average in the gradients, as a ratio of squares.
            reach=min(max(math.pow(_REACH_PER_NOISE / relative, _REACH_POWER), _LEAST_REACH), _MOST_REACH),
        )
        return mechanism, calibration.rule, None

    def _rounds(self, noise: float, n_rounds: int) -> tuple[GaussianNoise, ...]:
        """Noise of each gradient: the information of a round grows in proportion to its number."""
        largest = 1.0 if self.n_classes == 2 else math.sqrt(2.0)
        share = (1.0 - _MEAN_SHARE - _MOMENT_SHARE - _CURVATURE_SHARE) / (0.5 * n_rounds * (n_rounds + 1))
        return tuple(
            GaussianNoise(scale=largest * noise / math.sqrt(number * share)) for number in range(1, n_rounds + 1)
        )


def classification_schema(schema: Schema) -> Schema:
    """A schema for a classification by its last column: "auto" columns are standardized instead of clipped."""
    *features, target = schema.columns
    values = (False, True) if isinstance(target, Boolean) else getattr(target, "values", ())
    if not values:
        raise ArgumentError(
            f"the classes of the target {target.name!r} are not known. List them in classes, or in columns."
        )
    standardized = [replace(each, standardized=True) if isinstance(each, Auto) else each for each in features]
    return Schema((*without_other(standardized), Categories(name=target.name, values=values)))


# Share of the rows with a listed class below which a fit is not trusted. Chosen by eye (commit 5001687).
_FEW_LISTED = 0.05

# A coefficient is hidden by noise if more than this share of its squared error is assumed and not seen: half, as in
# `pais.linear.coefficients`.
_HIDDEN = 0.5


@dataclass(frozen=True, kw_only=True, repr=False)
class LogisticFit(RegressionFit):
    """A fit of a logistic regression, with the coefficients of its logits in the units of the columns."""

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
