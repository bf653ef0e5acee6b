"""The exact price of textbook releases: counts and sums of all rows, with Laplace, geometric or lp noise."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from pais.data.ball import Ball
from pais.mechanisms.base import Mechanism
from pais.mechanisms.integer_noise import GeometricNoise
from pais.mechanisms.noise import LpNoise, NoiseLaw
from pais.mechanisms.people_totals import PeopleTotals
from pais.mechanisms.quantiles import GridQuantiles
from pais.mechanisms.sums import Joint, WeightedCount, WeightedMean, WeightedSum
from pais.mechanisms.vector_statistic import VectorStatistic
from pais.mechanisms.vectors import VectorSum
from pais.privacy.rules import Rule, UniformRule


def exact_epsilon(mechanism: Mechanism, rule: Rule, ball: Ball) -> Fraction | None:
    """Epsilon of a mechanism on all rows as a fraction, or None if it has to be computed with rounding.

    A profile adds a few ulps to a loss, so that no later rounding makes it too small. With Laplace noise of scale 1, a
    count of all rows would then cost a little more than 1. If all rows are kept with weight 1, nothing is rounded
    later. The price is then the bound on a row's contribution, divided by the scale of the noise.
    """
    # A subclass may override anything, so only the classes themselves are accepted.
    if type(rule) is not UniformRule or rule.rate != 1.0:
        return None
    if type(mechanism) is WeightedCount:
        return _quotient(1.0, mechanism.noise)
    if type(mechanism) is WeightedSum:
        return _quotient(ball.radius, mechanism.noise)
    if type(mechanism) is WeightedMean:
        return _added([_quotient(1.0, mechanism.count_noise), _quotient(ball.radius, mechanism.sum_noise)])
    if type(mechanism) is VectorSum and not callable(mechanism.bound):
        return _quotient(mechanism.bound, mechanism.noise)
    if type(mechanism) is VectorStatistic:
        # The noise of a block has the scale of the noise times its factor, rounded to a double.
        laws = [replace(mechanism.noise, scale=scale) for scale in mechanism.block_scales]  # type: ignore[type-var]
        return _added([_quotient(1.0, law) for law in laws])  # [note: statistics-6]
    if type(mechanism) is PeopleTotals:
        laws = [replace(mechanism.noise, scale=scale) for scale in mechanism.block_scales]  # type: ignore[type-var]
        pairs = zip(mechanism.bounds, laws, strict=True)
        return _added([_quotient(bound, law) for bound, law in pairs])  # [note: totals-7]
    if type(mechanism) is GridQuantiles:
        return mechanism.exact_price
    if type(mechanism) is Joint:
        return _added([exact_epsilon(part, rule, ball) for part in mechanism.parts])
    return None


def _quotient(bound: float, noise: NoiseLaw) -> Fraction | None:
    return (
        Fraction(bound) / Fraction(noise.scale) if type(noise) in (LpNoise, GeometricNoise) else None
    )  # [note: noise-6]


def _added(prices: list[Fraction | None]) -> Fraction | None:
    known = [price for price in prices if price is not None]
    return sum(known, Fraction(0)) if len(known) == len(prices) else None
