"""UNITS: what a unit changes in every mechanism, in whole steps, against its price at its norm.

Whole fits about people, with their surveys, are replayed in `tests/theory/test_replayed_calls.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import mpmath as mp
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import norm

import pais
from pais import Ball, ConstrainedRule, CoresetRule, GaussianNoise, Rule
from pais._base.lattice import WIDEST
from pais._base.randomness import bit_source
from pais.data.engines.local import UnitSampling
from pais.data.units import Unit
from pais.kmeans.rounds import ResidualSample, SecondMoment
from pais.mechanisms.base import Mechanism
from pais.planning.norm_survey import _NormCounts
from tests.support.mechanism_cases import MECHANISMS, NOISES, order_of
from tests.support.residual_cases import round_of
from tests.support.unit_cases import FEATURES, PERSON, Replay, all_kept, loss_of_unit, norm_of_unit, opened

Floats = NDArray[np.float64]
D = len(FEATURES)
RADIUS = 2.0
ROOM = 1e-9  # The harness computes losses in doubles.


def others(n: int = 12) -> Floats:
    rng = np.random.default_rng(1)
    return np.asarray(rng.normal(size=(n, D)) * 0.4)


def along(norms: list[float] | Floats, order: float, seed: int | None = None) -> Floats:
    """Rows of these norms: all in one direction, or each in its own."""
    size = np.asarray(norms, dtype=np.float64)
    way = np.ones((size.size, D)) if seed is None else np.random.default_rng(seed).normal(size=(size.size, D))
    return np.asarray(way * (size / np.linalg.norm(way, ord=order, axis=1))[:, None])


#: One row at the radius and nine at the center: the unit for which a mean of norms is too small.
LOPSIDED = [RADIUS] + [0.0] * 9


def units(order: float) -> Iterator[Floats]:
    yield along(LOPSIDED, order)
    yield along([RADIUS], order)
    yield along([RADIUS] * 3, order)
    yield along([5.0 * RADIUS] * 7, order)
    yield along([0.0], order)
    yield along([1e-9, 3.0 * RADIUS], order)
    for seed, m in enumerate((5, 98)):
        yield along(np.random.default_rng(seed).uniform(0.0, 1.2 * RADIUS, m), order, seed)
        yield along(np.random.default_rng(seed).uniform(0.0, 1.2 * RADIUS, m), order)


def rule_of(mechanism: Mechanism, kind: str) -> Rule:
    if kind == "coreset":
        return CoresetRule(sample_size=30.0, n_rows=1000.0, mean_square_norm=1.0, radius=RADIUS, uniform_share=0.1)
    gaussian = type(mechanism.profile).__name__ == "GaussianProfile"
    delta = 1e-3 if gaussian else 0.0
    return ConstrainedRule(profile=mechanism.profile, radius=RADIUS, epsilon=2.0, delta=delta)


def share_of_price(
    mechanism: Mechanism, unit: Floats, rule: Rule, order: float, *, max_rows: int = 1, seed: int = 0
) -> float:
    """Loss of a kept unit over its price at its norm and weight."""
    ball = Ball(radius=RADIUS, order=order)
    loss = loss_of_unit(mechanism, unit, others(), ball=ball, rule=rule, max_rows=max_rows, seed=seed)
    norm = norm_of_unit(unit, ball, max_rows)
    weight = 1.0 / float(rule.probability(norm))
    return loss / float(mechanism.profile(weight, norm))


# -- the norm of a unit ------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [1.0, 2.0, 3.0, math.inf])
@pytest.mark.parametrize("max_rows", [1, 4, 1000])
def test_norm_of_a_unit_is_the_root_of_the_mean_square_rounded_up(order: float, max_rows: int) -> None:
    ball = Ball(radius=RADIUS, order=order)
    for rows in units(order):
        with mp.workdps(50):
            norms = [
                max(abs(mp.mpf(x)) for x in row)
                if math.isinf(order)
                else mp.root(mp.fsum(abs(mp.mpf(x)) ** int(order) for x in row), int(order))
                for row in rows.tolist()
            ]
            square = mp.fsum(min(norm, mp.mpf(RADIUS)) ** 2 for norm in norms) / max(len(rows), max_rows)
            exact = float(mp.sqrt(square))
        norm = norm_of_unit(rows, ball, max_rows)
        assert min(exact, RADIUS * (1.0 - 1e-15)) <= norm <= RADIUS
        # At most one step of 2**-30 of the squared radius for each row above it.
        assert norm**2 <= exact**2 + RADIUS**2 * 2.0**-29


def test_norm_of_tiny_rows_is_not_zero() -> None:
    ball = Ball(radius=1e100)
    assert norm_of_unit(np.full((1, D), 1e-90), ball) > 1e-90


# -- mechanisms --------------------------------------------------------------------------------------------


# A vector sum claims nothing about units, unless the user proves it: tests/unit/mechanisms/test_vectors.py.
SUMS = [(mechanism, noise) for mechanism in MECHANISMS for noise in NOISES if mechanism != "vector sum"]


@pytest.mark.parametrize(("mechanism_name", "noise_name"), SUMS, ids=[f"{m}-{n}" for m, n in SUMS])
@pytest.mark.parametrize("kind", ["coreset", "constrained"])
def test_counts_sums_and_means_change_by_no_more_than_the_price(
    mechanism_name: str, noise_name: str, kind: str
) -> None:
    mechanism = MECHANISMS[mechanism_name](NOISES[noise_name], 6.0)
    order, rule = order_of(noise_name), rule_of(mechanism, kind)
    shares = [
        share_of_price(mechanism, unit, rule, order, max_rows=max_rows) for unit in units(order) for max_rows in (1, 50)
    ]
    assert max(shares) <= 1.0 + ROOM
    # The price is not far above the loss of the unit with one row at the radius.
    assert max(shares) > 0.99


@pytest.mark.parametrize("noise_name", ["laplace", "gaussian"])
def test_units_of_any_number_of_rows_count_at_most_once(noise_name: str) -> None:
    mechanism = MECHANISMS["mean"](NOISES[noise_name], 6.0)
    order, rule = order_of(noise_name), rule_of(mechanism, "constrained")
    for m in [*range(1, 50), 98, 103, 197, 199]:
        share = share_of_price(mechanism, along([2.0 * RADIUS] * m, order), rule, order)
        assert 0.999 < share <= 1.0 + ROOM


# -- rounds of k-means -------------------------------------------------------------------------------------


def round_share(mechanism: str, flat: float, unit: Floats, *, center: float = 0.0, **changes: Any) -> float:
    """Loss of a unit in one residual round with a small clip, over its price."""
    round_ = round_of(mechanism, radius=RADIUS, flat=flat, **changes)
    ball = Ball(radius=RADIUS, order=round_.order)
    rule = CoresetRule(sample_size=30.0, n_rows=1000.0, mean_square_norm=1.0, radius=RADIUS, uniform_share=0.1)
    centers = np.stack([np.full(D, center), np.full(D, -10.0)])
    clip, whole = np.full(2, 0.01), np.zeros(2, dtype=bool)

    def measure(content: Any) -> None:
        sample = ResidualSample(content, (round_,), n_rows=1000.0, largest_weight=1e4, weight_bits=16)
        sample.summarise(centers, clip, whole, round_, bit_source(0))

    names = [f"other {number}" for number in range(12)]
    without = all_kept(opened(others(), names), ball, rule)
    both = all_kept(opened(np.concatenate([others(), unit]), names + [PERSON] * len(unit)), ball, rule)
    loss = Replay().loss(measure, without, both, order=round_.order, gaussian=mechanism == "gaussian")
    norm = norm_of_unit(unit, ball)
    return loss / float(round_.profile(1.0 / float(rule.probability(norm)), norm))


def moment_share(unit: Floats, flat: float) -> float:
    """Loss of a unit in the second moment, over its price."""
    moment = SecondMoment(noise=GaussianNoise(scale=3.0), radius=RADIUS, flat_share=flat)
    ball = Ball(radius=RADIUS)
    rule = CoresetRule(sample_size=30.0, n_rows=1000.0, mean_square_norm=1.0, radius=RADIUS, uniform_share=0.1)
    names = [f"other {number}" for number in range(12)]
    without = all_kept(opened(others(), names), ball, rule)
    both = all_kept(opened(np.concatenate([others(), unit]), names + [PERSON] * len(unit)), ball, rule)
    loss = Replay().loss(
        lambda content: moment.measure(content, 1e4, bit_source(0)), without, both, order=2.0, gaussian=True
    )
    norm = norm_of_unit(unit, ball)
    return loss / float(moment.profile(1.0 / float(rule.probability(norm)), norm))


@pytest.mark.parametrize("mechanism", ["gaussian", "l2", "laplace"])
@pytest.mark.parametrize("flat", [0.0, 0.05, 0.3, 1.0])
def test_a_residual_round_changes_by_no_more_than_the_price(mechanism: str, flat: float) -> None:
    order = 1.0 if mechanism == "laplace" else 2.0
    shares = [round_share(mechanism, flat, unit, center=center) for unit in units(order) for center in (0.0, -0.4)]
    assert max(shares) <= 1.0 + ROOM
    assert max(shares) > 0.95


@pytest.mark.parametrize("flat", [0.0, 0.2, 1.0])
def test_a_second_moment_changes_by_no_more_than_the_price(flat: float) -> None:
    shares = [moment_share(unit, flat) for unit in units(2.0)]
    assert max(shares) <= 1.0 + ROOM
    assert max(shares) > 0.6


# -- a norm that is too small ------------------------------------------------------------------------------


@contextmanager
def mean_of_norms() -> Iterator[None]:
    """The sum of a |x| instead of the root of the sum of a |x|^2. It is enough for counts and sums alone."""

    def measured(self: UnitSampling, block: Any) -> None:
        norm = block.all_norms(self.sampling.ball)
        numbers = self.members.numbers(block)
        if not hasattr(self, "totals"):
            self.totals = np.zeros(self.members.size)  # type: ignore[attr-defined]
        np.add.at(self.totals, numbers, norm)  # type: ignore[attr-defined]

    def norms(self: UnitSampling, piece: slice) -> Floats:
        rows = np.maximum(self.members.n_rows[piece], self.members.unit.max_rows)
        return np.asarray(self.totals[piece] / rows)  # type: ignore[attr-defined]

    with patch.object(UnitSampling, "measure", measured), patch.object(UnitSampling, "norms", norms):
        yield


def test_mean_of_norms_is_enough_for_counts_and_sums_and_not_for_residuals() -> None:
    unit = along(LOPSIDED, 2.0)
    mechanism = pais.WeightedSum(noise=GaussianNoise(scale=6.0))
    residuals = {"center": -0.4, "residual_noise": GaussianNoise(scale=0.3)}
    with mean_of_norms():
        assert share_of_price(mechanism, unit, rule_of(mechanism, "coreset"), 2.0) <= 1.0 + ROOM
        assert round_share("gaussian", 0.02, unit, **residuals) > 1.2
    assert round_share("gaussian", 0.02, unit, **residuals) <= 1.0 + ROOM


def test_mean_of_norms_breaks_the_guarantee_if_the_contribution_grows_with_the_square() -> None:
    """A sum of w x x', charged c + f z^4 in the squared shift: nine rows at 0 hide one at the radius."""
    sigma, epsilon, delta = 1.0, 1.0, 1e-6

    def shift(weight: float, z: float) -> float:
        return weight * (z / RADIUS) ** 2 * 0.05 / sigma

    norms = np.sort(np.abs(LOPSIDED))
    mean, root = float(norms.mean()), float(np.sqrt(np.square(norms).mean()))
    for z, holds in ((mean, False), (root, True)):
        weight = 1.0
        while pais.amplified_delta(epsilon, shift(weight * 1.1, z), 1.0 / (weight * 1.1)) <= delta:
            weight *= 1.1
        change = weight * float(np.square(norms / RADIUS).mean()) * 0.05 / sigma
        assert (pais.amplified_delta(epsilon, change, 1.0 / weight) <= delta * (1.0 + 1e-9)) is holds


# -- the survey --------------------------------------------------------------------------------------------


def test_a_unit_changes_the_histogram_of_norms_by_at_most_one_in_l1_and_l2() -> None:
    unit = Unit(column="who")
    ball = Ball(radius=WIDEST)
    company = others(50)
    for m in (1, 2, 3, 7, 49, 98, 103, 199):
        rows = along(10.0 ** np.random.default_rng(m).uniform(-2.0, 2.0, m), 2.0)
        names = [str(number) for number in range(50)]
        with_unit = opened(np.concatenate([company, rows]), names + [PERSON] * m)
        fold = _NormCounts(ball=ball)
        change = with_unit.fold(fold, seeded=True) - opened(company, names).fold(fold, seeded=True)
        assert change.min() >= 0
        assert change.sum() == m * ((1 << unit.mass_bits) // m) <= 1 << unit.mass_bits
        assert np.linalg.norm(change.astype(float)) <= 1 << unit.mass_bits


# -- rows without a unit -----------------------------------------------------------------------------------


def test_a_person_with_several_rows_has_more_than_k_times_delta_without_a_unit() -> None:
    """For (epsilon, delta) per row, k rows have (k epsilon, k e^((k - 1) epsilon) delta), and a Gaussian comes near."""

    def delta_at(shift: float, epsilon: float) -> float:
        return float(norm.cdf(shift / 2 - epsilon / shift) - math.exp(epsilon) * norm.cdf(-shift / 2 - epsilon / shift))

    epsilon, shift = 1.0, 0.25
    delta = delta_at(shift, epsilon)
    for k in (2, 5, 10):
        true = delta_at(k * shift, k * epsilon)
        assert true <= k * math.exp((k - 1) * epsilon) * delta
    # Two rows: already more than twice the delta.
    assert delta_at(2 * shift, 2 * epsilon) > 2 * delta
