"""Mistakes that were found while the proofs were written down, each with the case that showed it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray

import pais
from pais import (
    Ball,
    GaussianNoise,
    KMeans,
    LinearProfile,
    LpNoise,
    MismatchError,
    PowerProfile,
    Rule,
    WeightedSum,
    laplace_noise,
    worst_case,
)
from pais._base.lattice import Lattice
from pais._base.numerics import lowered, raised
from pais._base.randomness import BitSource, SecureBits
from pais.accounting.part import sum_up, what_is_left
from pais.data.engines.blocks import Screen
from pais.kmeans.rounds import Round
from pais.privacy.amplification import amplified_epsilon

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Falling(Rule):
    """Falls from a half to almost nothing, and jumps back: monotone between its breakpoints, as a rule must be."""

    radius: float = 1.0
    linear: bool = False

    @property
    def linear_between_breakpoints(self) -> bool:  # type: ignore[override]  # both kinds are tried
        return self.linear

    def evaluate(self, norm: Floats) -> Floats:
        return np.where(norm < 0.5, 0.5 - 0.98 * norm, 0.5)

    def breakpoints(self, radius: float) -> Floats:
        return np.array([0.0, 0.5, radius])

    def describe(self) -> dict[str, object]:
        return {"rule": "falling"}


@dataclass(frozen=True)
class Peak(Falling):
    """Jumps up right after a breakpoint, and falls from there."""

    def evaluate(self, norm: Floats) -> Floats:
        return np.where(norm <= 0.5, 0.01, 0.9 - 1.7 * (norm - 0.5))


def highest(rule: Rule, loss: Floats, norm: Floats) -> float:
    return float(np.max(amplified_epsilon(loss, rule.probability(norm))))


@pytest.mark.parametrize("rule", [Falling(), Falling(linear=True), Peak(), Peak(linear=True)], ids=repr)
@pytest.mark.parametrize("profile", [PowerProfile(0.1, 0.0, 2.0), LinearProfile(0.01, 0.05)], ids=repr)
def test_a_rule_that_jumps_is_certified_on_both_sides_of_its_jumps(
    rule: Rule, profile: pais.privacy.profiles.PureProfile
) -> None:
    """It was certified at 0.22 where a record next to the jump pays 995."""
    norm = np.concatenate([np.linspace(0.0, 1.0, 20_001), np.nextafter(0.5, [0.0, 1.0])])
    loss = profile.loss(1.0 / rule.probability(norm), norm)
    assert worst_case(rule, profile, radius=1.0).upper >= highest(rule, loss, norm)


@pytest.mark.parametrize("rule", [Falling(), Peak()], ids=repr)
def test_the_extremes_of_a_rule_that_jumps_bound_it_everywhere(rule: Rule) -> None:
    norm = np.concatenate([np.linspace(0.0, 1.0, 20_001), np.nextafter(0.5, [0.0, 1.0])])
    probability = rule.probability(norm)
    assert rule.smallest_probability(1.0) <= probability.min()
    assert rule.largest_probability(1.0) >= probability.max()
    assert rule.largest_contribution(1.0) >= (norm / probability).max()
    screen = Screen(rule=rule, ball=Ball(radius=1.0), n_features=3)
    most = np.minimum(np.floor(probability * 256.0), 255.0).astype(np.uint8)
    assert screen.by_power(norm**2, most).size == norm.size


def test_rounds_of_k_means_with_noise_for_different_norms_are_refused() -> None:
    """They were certified as if all had the first round's norm."""
    two = Round(count_noise=laplace_noise(10.0), sum_noise=LpNoise(scale=10.0, p=2.0))
    one = Round(count_noise=laplace_noise(10.0), sum_noise=laplace_noise(10.0))
    plain = {"n_clusters": 2, "n_features": 3, "radius": 1.0, "cells": 2, "explore": 0}
    KMeans(rounds=(two, two), **plain)  # type: ignore[arg-type]  # plain settings
    with pytest.raises(MismatchError, match="one order"):
        KMeans(rounds=(two, one), **plain)  # type: ignore[arg-type]  # plain settings
    with pytest.raises(MismatchError, match="one order"):
        KMeans(rounds=(), **plain)  # type: ignore[arg-type]  # plain settings


class LeadingZeros(BitSource):
    """Serves zeros first, then secure bits, and counts."""

    private = True

    def __init__(self) -> None:
        self.served = 0
        self._rest = SecureBits()

    def raw(self, n_bytes: int) -> bytes:
        self.served += n_bytes
        return bytes(n_bytes) if self.served <= 8 else self._rest.raw(n_bytes)


@pytest.mark.parametrize("law", [laplace_noise(0.01), GaussianNoise(scale=0.01)], ids=repr)
def test_draw_with_a_zero_first_word_uses_more_bits(law: LpNoise | GaussianNoise) -> None:
    """The tail reaches down to zero there, and the noise up to infinity, however small its scale is beside a step."""
    bits = LeadingZeros()
    law.draw_steps((1, 1), Lattice(step=1.0), bits)
    assert bits.served > 8


def test_a_sum_alone_can_be_sampled_for_free() -> None:
    """Rows at norm 0 pay nothing and weigh most; they add nothing to a sum, so no integer overflows."""
    rows = np.random.default_rng(0).uniform(-1.0, 1.0, (5000, 3))
    for noise, order in ((laplace_noise(1.0), 1.0), (LpNoise(scale=1.0, p=2.0), 2.0)):
        ball = Ball(radius=3.0, order=order)
        norms = pais.NormDistribution(norms=np.array([1.0, 2.0]), masses=np.array([2500.0, 2500.0]), radius=3.0)
        for epsilon in (0.5, 1.0, 10.0):
            found = pais.calibrate("constrained", WeightedSum(noise=noise).profile, norms, epsilon=epsilon)
            mechanism = WeightedSum(noise=_scaled(noise, found.noise))
            plan = pais.Plan(ball=ball, rule=found.rule, mechanism=mechanism, epsilon=epsilon)
            assert np.all(np.isfinite(pais.run(plan, rows).value))  # type: ignore[call-overload]  # an array


def _scaled(noise: LpNoise, factor: float) -> LpNoise:
    return LpNoise(scale=noise.scale * factor, p=noise.p)


def test_weighted_contribution_stays_within_the_planned_bound() -> None:
    rules: Sequence[Rule] = [
        pais.UniformRule(rate=0.3),
        pais.CoresetRule(sample_size=10.0, n_rows=1000.0, mean_square_norm=1.0, radius=2.0),
        pais.ConstrainedRule(profile=LinearProfile(0.0, 0.1), radius=2.0, epsilon=1.0),
        pais.ConstrainedRule(profile=pais.GaussianProfile(np.inf, 9.0), radius=2.0, epsilon=1.0, delta=1e-6),
    ]
    norm = np.linspace(0.0, 2.0, 50_001)
    for rule in rules:
        bound = rule.largest_contribution(2.0)
        assert bound * (1.0 + 1e-12) >= np.max(norm / rule.probability(norm))
        assert bound <= 2.0 / rule.smallest_probability(2.0) * (1.0 + 1e-12)


def test_centers_are_limited_so_that_finite_rows_do_not_overflow() -> None:
    with pytest.raises(pais.ArgumentError, match="center"):
        Ball(radius=1.0, center=(1e308, 0.0))
    ball = Ball(radius=1.0, center=(1e100, -1e100))
    largest = np.finfo(np.float64).max
    assert np.array_equal(ball.norms(ball.shift(np.array([[-largest, largest], [largest, largest]]))), [1.0, 1.0])


@settings(max_examples=300, deadline=None)
@given(st.floats(1e-6, 1e6), st.floats(0.001, 0.999))
def test_a_certified_sum_is_never_below_the_exact_one_and_never_above_what_was_stated(
    stated: float, share: float
) -> None:
    """A sum rounded to the nearest double can be half an ulp low."""
    spent = share * stated
    left = what_is_left(stated, spent)
    assert Fraction(spent) + Fraction(left) <= Fraction(stated)
    assert Fraction(sum_up([spent, left])) >= Fraction(spent) + Fraction(left)
    assert sum_up([spent, left]) <= stated
    assert left >= stated - spent - 1e-15 * stated


@settings(max_examples=300, deadline=None)
@given(st.floats(1e-12, 1e6), st.integers(2, 8))
def test_displayed_prices_are_rounded_up_and_budgets_down(value: float, digits: int) -> None:
    near = Decimal(f"{value:.12g}")
    assert near <= Decimal(raised(value, digits)) <= near * (1 + 10 ** Decimal(2 - digits))
    assert near * (1 - 10 ** Decimal(2 - digits)) <= Decimal(lowered(value, digits)) <= near
    assert raised(0.1 + 0.2) == lowered(0.1 + 0.2) == "0.3"
    assert (raised(1.0000004), raised(1.0049e-6, 3), lowered(1.9999999)) == ("1.00001", "1.01e-06", "1.99999")
