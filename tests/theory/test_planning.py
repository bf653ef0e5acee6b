"""Plans of private k-means, accounted for anew from their noise and rule alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import pais
from pais import Plan, plan_kmeans
from pais.kmeans.rounds import ResidualRound
from pais.privacy.rules import largest_coreset_size

DELTA = 1e-6
GRID = 2000
SAMPLINGS = ["constrained", "coreset", "uniform", "none"]
MECHANISMS = ["gaussian", "laplace", "l2"]
# The same examples in every run; a plan takes up to a second.
FIXED = settings(max_examples=25, deadline=None, derandomize=True, database=None)
# For relations between plans, and for what does not depend on how close to the target a plan comes.
FEWER = settings(FIXED, max_examples=12)


@dataclass(frozen=True)
class Facts:
    """Public facts about rows that need not exist."""

    n_clusters: int
    n_features: int
    n_rows: float
    radius: float
    concentration: float
    epsilon: float
    sampling: str
    share: float | None
    mechanism: str

    def norms(self, unit: float = 1.0) -> pais.NormDistribution:
        return pais.NormDistribution.from_quantiles(
            lambda level: self.radius * unit * level**self.concentration,
            n_rows=self.n_rows,
            radius=self.radius * unit,
        )

    def arguments(self, **changes: Any) -> dict[str, Any]:
        norms = changes.pop("norms", self.norms())
        size = None
        if self.share is not None:
            most = norms.n_rows
            if self.sampling == "coreset":
                most = largest_coreset_size(norms.n_rows, norms.mean_square_norm, norms.radius, 0.5) * (1.0 - 1e-9)
            size = self.share * most
        order = 1.0 if self.mechanism == "laplace" else 2.0
        return {
            "n_clusters": self.n_clusters,
            "n_features": self.n_features,
            "epsilon": self.epsilon,
            "delta": DELTA if self.mechanism == "gaussian" else 0.0,
            "ball": pais.Ball(radius=norms.radius, order=order),
            "norms": norms,
            "sampling": self.sampling,
            "sample_size": size,
            "mechanism": self.mechanism,
            **changes,
        }

    def plan(self, **changes: Any) -> Plan:
        return plan_kmeans(**self.arguments(**changes))


def powers_of_ten(low: float, high: float) -> st.SearchStrategy[float]:
    return st.floats(low, high).map(lambda exponent: 10.0**exponent)


def facts(samplings: list[str] = SAMPLINGS, mechanisms: list[str] = MECHANISMS) -> st.SearchStrategy[Facts]:
    return st.builds(
        Facts,
        n_clusters=st.integers(1, 40),
        n_features=st.integers(1, 80),
        n_rows=powers_of_ten(3, 8),
        radius=powers_of_ten(-3, 5),
        concentration=st.floats(0.05, 2.0),
        epsilon=powers_of_ten(math.log10(0.05), math.log10(20.0)),
        sampling=st.sampled_from(samplings),
        share=st.none() | powers_of_ten(-2, 0),
        mechanism=st.sampled_from(mechanisms),
    )


def kmeans_of(plan: Plan) -> pais.KMeans:
    assert isinstance(plan.mechanism, pais.KMeans)
    return plan.mechanism


def shift_by_hand(mechanism: pais.KMeans, norm: np.ndarray) -> np.ndarray:
    """mu at weight 1 from the noise of the rounds: counts, distances, residuals and the second moment, squares added.

    The formulas are those of the notes, in 50 digits: nothing of the package's profiles is used.
    """
    moment = mechanism.moment
    assert moment is not None
    with mp.workdps(50):
        constant, slope = mp.mpf(0), mp.mpf(0)
        for round_ in mechanism.rounds:
            assert isinstance(round_, ResidualRound)
            flat = mp.mpf(0) if round_.whole_rows else mp.mpf(round_.flat_share)
            precision = 1 / mp.mpf(round_.residual_noise.scale) ** 2
            constant += 1 / mp.mpf(round_.count_noise.scale) ** 2 + 1 / mp.mpf(round_.distance_noise.scale) ** 2
            constant += flat * precision
            slope += (1 - flat) * precision / mp.mpf(mechanism.radius) ** 2
        clip, precision = mp.mpf(moment.radius) ** 2, 1 / mp.mpf(moment.noise.scale) ** 2
        column, flat = mp.mpf(1) / 4, mp.mpf(moment.flat_share)
        constant += clip**2 * (flat * (1 + column) ** 2 + (1 - flat) * column**2) * precision
        slope += clip * (1 - flat) * (1 + 2 * column) * precision
        shifts = [float(mp.sqrt(constant + slope * mp.mpf(z) ** 2)) for z in np.ravel(norm).tolist()]
    return np.reshape(shifts, np.shape(norm))


def loss_by_hand(mechanism: pais.KMeans, norm: np.ndarray) -> np.ndarray:
    """Pure epsilon at weight 1 from the noise of the rounds."""
    constant, slope = Fraction(0), Fraction(0)
    for round_ in mechanism.rounds:
        assert isinstance(round_, ResidualRound)
        flat = Fraction(0) if round_.whole_rows else Fraction(round_.flat_share)
        constant += 1 / Fraction(round_.count_noise.scale) + 1 / Fraction(round_.distance_noise.scale)
        constant += flat / Fraction(round_.residual_noise.scale)
        slope += (1 - flat) / Fraction(round_.residual_noise.scale) / Fraction(mechanism.radius)
    losses = [float(constant + slope * Fraction(z)) for z in np.ravel(norm).tolist()]
    return np.reshape(losses, np.shape(norm))


@pytest.mark.slow
@FIXED
@given(facts())
def test_every_norm_of_the_ball_is_within_the_guarantee(fact: Facts) -> None:
    """And the budget is used up at some norm, by rounds that suffice for the cells."""
    plan = fact.plan()
    mechanism = kmeans_of(plan)
    norm = np.append(np.linspace(0.0, fact.radius, GRID), fact.radius * np.geomspace(1e-9, 1.0, 50))
    probability = plan.rule.probability(np.minimum(norm, fact.radius))
    if fact.mechanism == "gaussian":
        shift = shift_by_hand(mechanism, norm) / probability
        delta = pais.amplified_delta(fact.epsilon, shift, probability)
        assert np.max(delta) <= DELTA
        worst = np.argmax(delta)
        used = pais.epsilon_at_delta(DELTA, float(shift[worst]), float(probability[worst]))
    else:
        used = np.max(pais.amplified_epsilon(loss_by_hand(mechanism, norm) / probability, probability))
        assert used <= fact.epsilon
    assert used == pytest.approx(fact.epsilon, rel=1e-3)
    assert mechanism.cells >= mechanism.n_clusters
    # Without a moment, the first round measures the start.
    assert 1 <= mechanism.explore < len(mechanism.rounds)
    assert len(mechanism.rounds) - (mechanism.moment is None) >= 1
    assert mechanism.order == (1.0 if fact.mechanism == "laplace" else 2.0)


@FEWER
@given(facts(), st.floats(1.0, 50.0))
def test_the_noise_of_the_rounds_composes_to_the_profile(fact: Facts, weight: float) -> None:
    mechanism = kmeans_of(fact.plan())
    norm = np.linspace(0.0, fact.radius, 17)
    by_hand = shift_by_hand if fact.mechanism == "gaussian" else loss_by_hand
    stated, exact = mechanism.profile(np.full(17, weight), norm), weight * by_hand(mechanism, norm)
    np.testing.assert_allclose(stated, exact, rtol=1e-11)
    # The price covers roundings, so it is above what the noise scales say.
    assert np.all(stated >= exact * (1.0 - 1e-15 * len(mechanism.rounds)))


@FEWER
@given(facts())
def test_the_unit_of_the_data_only_scales_radii_and_the_noise_of_the_moment(fact: Facts) -> None:
    plan, scaled = fact.plan(), fact.plan(norms=fact.norms(unit=1000.0))
    here, there = kmeans_of(plan), kmeans_of(scaled)
    assert len(here.rounds) == len(there.rounds)
    assert (here.cells, here.explore) == (there.cells, there.explore)
    for one, other in zip(here.rounds, there.rounds, strict=True):
        assert other.count_noise.scale == pytest.approx(one.count_noise.scale, rel=1e-6)
        assert isinstance(one, ResidualRound)
        assert isinstance(other, ResidualRound)
        assert other.radius == pytest.approx(1000.0 * one.radius, rel=1e-12)
        assert (other.flat_share, other.whole_rows) == (one.flat_share, one.whole_rows)
        for name in ("distance_noise", "residual_noise"):
            assert getattr(other, name).scale == pytest.approx(getattr(one, name).scale, rel=1e-6)
    if here.moment is not None:
        assert there.moment is not None
        assert there.moment.radius == pytest.approx(1000.0 * here.moment.radius, rel=1e-6)
        assert there.moment.noise.scale == pytest.approx(1e6 * here.moment.noise.scale, rel=1e-6)
    assert plan.norms is not None
    assert scaled.norms is not None
    size = plan.norms.expected_size(plan.rule)
    assert scaled.norms.expected_size(scaled.rule) == pytest.approx(size, rel=1e-6)


@pytest.mark.slow
@FEWER
@given(facts(), st.floats(1.0, 10.0))
def test_more_epsilon_never_means_more_noise(fact: Facts, factor: float) -> None:
    norm = np.array([0.0, 0.5 * fact.radius, fact.radius])
    # What the rounds tell together about a row of weight 1: more of it is less noise.
    precision = fact.plan().mechanism.profile(np.ones(3), norm)
    richer = fact.plan(epsilon=fact.epsilon * factor).mechanism.profile(np.ones(3), norm)
    # A solved noise keeps up to 0.1 % fewer rows than were asked for. Where all rows are asked for, a plan may keep all
    # of them or nearly all, and the noise differs by a little more than that.
    assert np.all(richer >= precision * (1.0 - 3e-3))
