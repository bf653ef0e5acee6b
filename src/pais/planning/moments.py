"""Settings of a release of second moments, which regression and PCA share: radius, constant coordinate and noise."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from pais.data.ball import Ball
from pais.errors import ArgumentError
from pais.mechanisms import GaussianNoise, Mechanism, MomentSum
from pais.planning.facts import Facts
from pais.planning.radius import RadiusChoice, clipped_facts, radius_at
from pais.planning.sample_size import calibrated
from pais.planning.sampled import MOST_SAMPLE_NUMBERS, SampleSettings
from pais.planning.size_choice import SampleChoice
from pais.privacy.norms import NormDistribution
from pais.privacy.profiles import GaussianProfile
from pais.privacy.rules import Rule

# Relative increase over the calibrated noise, which covers the rounding errors of the price.
_ROOM = 1e-9

# Share by which a radius exceeds the constant coordinate, at least.
_LEAST_ROOM = 1e-6


@dataclass(frozen=True, kw_only=True)
class MomentSettings(SampleSettings):
    """Settings of a noisy second moment of all rows, with their number and mean through a constant coordinate."""

    #: Length of the constant coordinate as a share of the radius; 0 for none.
    constant_share: ClassVar[float] = 0.125

    def require(self) -> None:
        super().require()
        if self.mechanism != "gaussian":
            raise ArgumentError(f"mechanism={self.mechanism!r} is not available for {self.what}. Pass 'gaussian'.")

    def radius_quantile(self, facts: Facts, n_features: int) -> float:
        """Share of the rows within the radius, if neither the radius nor a quantile is stated."""
        return 0.9

    def _with_radius(self, facts: Facts, n_features: int) -> tuple[Facts, RadiusChoice | None]:
        if facts.radius_is_open:
            quantile = self.radius_quantile(facts, n_features) if self.quantile is None else self.quantile
            facts = clipped_facts(facts, radius_at(facts.norms, quantile))
        return with_constant(facts, self.constant_share * facts.ball.radius), None

    def _mechanism(
        self, ball: Ball, norms: NormDistribution, d: int, delta: float, limit: float | None
    ) -> tuple[Mechanism, Rule, SampleChoice | None]:
        profile = GaussianProfile(math.inf, math.inf, square_scale=1.0)
        calibration = calibrated(self, profile, norms, most_rows=MOST_SAMPLE_NUMBERS / d, delta=delta, limit=limit)
        rule = calibration.rule
        mechanism = MomentSum(
            noise=GaussianNoise(scale=calibration.noise * (1.0 + _ROOM)),  # [note: plan-3]
            largest=rule.largest_contribution(ball.radius, 2) * (1.0 + _ROOM),
            n_rows=max(norms.n_rows, 1.0),
        )
        return mechanism, rule, None


def with_constant(facts: Facts, constant: float) -> Facts:
    """Facts about rows with a constant coordinate: norms and radius are those of the longer rows."""
    if constant == 0.0:
        return facts
    # A ball is longer than its constant coordinate, also if all rows are at its center.
    radius = max(math.hypot(facts.ball.radius, constant), constant * (1.0 + _LEAST_ROOM))
    norms = NormDistribution(norms=np.hypot(facts.norms.norms, constant), masses=facts.norms.masses, radius=radius)
    return replace(facts, ball=replace(facts.ball, radius=radius, constant=constant), norms=norms)


def square_mean_weight(norms: NormDistribution, rule: Rule) -> float:
    """Mean weight of the sampled rows, by the square of their norms."""
    squares = norms.masses * np.square(norms.norms)
    total = float(squares.sum())
    if total == 0.0:
        return 1.0
    return float((squares / np.maximum(rule.probability(norms.norms), 1e-12)).sum()) / total
