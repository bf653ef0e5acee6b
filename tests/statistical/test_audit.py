"""Audits by runs: the bound holds, they catch wrong noise and known mistakes, and the right versions pass."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from scipy import special, stats

import pais
from pais._base.lattice import IntArray, Lattice, Tails, rounded_noise
from pais._base.numerics import FloatArray
from pais._base.randomness import BitSource
from pais.auditing.runs import epsilon_lower_bound, measure_each, measure_many
from pais.kmeans.rounds import Round
from pais.privacy.profiles import GaussianProfile
from tests.support.audit_cases import LAPLACE_BALL, PAIR, kmeans_plan, laplace_sum, plain_kmeans_plan

SEEDS = range(10)
CLAIMED, DELTA = 1.0, 0.01
ALL_ROWS = pais.UniformRule(rate=1.0)


@dataclass(frozen=True, kw_only=True)
class ExponentialRadius(pais.LpNoise):
    """The published noise on sums (erratum 1): a uniform direction times an exponential radius."""

    def evaluate(self, tails: Tails) -> tuple[FloatArray, FloatArray]:
        d = tails.words.shape[1] // 2
        tail = tails.values()
        size = -special.ndtri(tail[:, :d])
        unit = tails.signs[:, :d] * size / np.linalg.norm(size, axis=1, keepdims=True)
        noise = -np.log(2.0 * tail[:, d : d + 1]) * unit
        return noise, np.full_like(noise, 2.0**-40)

    def evaluate_exactly(self, tails: list[mp.mpf], signs: list[float]) -> list[mp.mpf]:
        d = len(tails) // 2
        size = [mp.sqrt(2) * mp.erfinv(1 - 2 * tail) for tail in tails[:d]]
        length = mp.sqrt(mp.fsum(value**2 for value in size))
        radius = -mp.log(2 * tails[d])
        return [sign * radius * value / length for sign, value in zip(signs[:d], size, strict=True)]


@dataclass(frozen=True, kw_only=True)
class WeakLaplace(pais.LpNoise):
    """Noise of 0.7 of the scale it states."""

    def draw_steps(
        self, shape: tuple[int, int], lattice: Lattice, bits: BitSource, *, unit: FloatArray | float = 1.0
    ) -> IntArray:
        return rounded_noise(self, shape, 0.7 * self.scale / lattice.step * unit, bits)


@dataclass(frozen=True, kw_only=True)
class WeakGaussian(pais.GaussianNoise):
    """The same for Gaussian noise."""

    def draw_steps(
        self, shape: tuple[int, int], lattice: Lattice, bits: BitSource, *, unit: FloatArray | float = 1.0
    ) -> IntArray:
        return rounded_noise(self, shape, 0.7 * self.scale / lattice.step * unit, bits)


def exponential_radius(broken: bool) -> dict[str, Any]:
    law = ExponentialRadius if broken else pais.LpNoise
    mechanism = pais.WeightedSum(noise=law(scale=1.0 / CLAIMED, p=2.0))
    return {"target": mechanism, "rule": ALL_ROWS, "ball": pais.Ball(radius=1.0), "n_features": 8}


def weak_laplace(broken: bool) -> dict[str, Any]:
    law = WeakLaplace if broken else pais.LpNoise
    mechanism = pais.WeightedSum(noise=law(scale=1.0 / CLAIMED, p=1.0))
    return {"target": mechanism, "rule": ALL_ROWS, "ball": LAPLACE_BALL}


def weak_gaussian(broken: bool) -> dict[str, Any]:
    norms = pais.NormDistribution.from_histogram([0.0, 1.0], [100.0])
    profile = GaussianProfile(np.inf, 1.0)
    scale = pais.calibrate("uniform", profile, norms, epsilon=CLAIMED, delta=DELTA, sample_size=100.0).noise
    mechanism = pais.WeightedSum(noise=(WeakGaussian if broken else pais.GaussianNoise)(scale=scale))
    return {"target": mechanism, "rule": ALL_ROWS, "ball": pais.Ball(radius=1.0), "delta": DELTA}


START = np.array([[0.5, 0.0], [-0.5, 0.0]])


def skipped_cluster(broken: bool) -> dict[str, Any]:
    pair = pais.NeighbourPair.of([1.0, 0.0], [[-0.5, 0.0]], name="record alone in its cluster")
    return {"target": partial(one_round, skip_empty=broken), "pair": pair, "epsilon": CLAIMED}


def one_round(rows: FloatArray, generator: np.random.Generator, runs: int, *, skip_empty: bool) -> FloatArray:
    """A round of DP-Lloyd from a fixed public start; as published, a cluster without rows keeps its center."""
    label = np.argmin(np.linalg.norm(rows[:, None] - START, axis=2), axis=1)
    counts = np.bincount(label, minlength=len(START))
    sums = np.array([rows[label == cluster].sum(axis=0) for cluster in range(len(START))])
    # 1 / 2 for the count and |x| / 2 for the sum: 1 in all.
    noisy_counts = counts + generator.laplace(scale=2.0, size=(runs, len(START)))
    way = generator.standard_normal((runs, *START.shape))
    way /= np.linalg.norm(way, axis=2, keepdims=True)
    noisy_sums = sums + way * generator.gamma(2.0, 2.0, size=(runs, len(START), 1))
    moved = noisy_sums / np.maximum(noisy_counts, 1.0)[:, :, None]
    return np.where((counts == 0)[:, None], START, moved) if skip_empty else moved


def audited(case: Callable[[bool], dict[str, Any]], *, broken: bool, seed: int, runs: int) -> pais.AuditReport:
    arguments = case(broken)
    return pais.audit(arguments.pop("target"), **arguments, method="runs", runs=runs, random_state=seed)  # type: ignore[no-any-return]


# Mistakes, and the runs for the broken and for the right version.
CASES: dict[Callable[[bool], dict[str, Any]], tuple[int, int]] = {
    exponential_radius: (100_000, 4_000),
    weak_laplace: (100_000, 4_000),
    weak_gaussian: (100_000, 4_000),
    skipped_cluster: (100_000, 4_000),
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_audit_catches_known_mistakes_and_passes_the_correct_versions(case: Callable[[bool], dict[str, Any]]) -> None:
    broken_runs, right_runs = CASES[case]
    broken = audited(case, broken=True, seed=0, runs=broken_runs)
    assert broken.violates
    assert broken.certified is not None
    assert broken.lower_bound > 1.25 * broken.certified
    for seed in SEEDS:
        # The bound is wrong with the same probability whatever the number of runs.
        right = audited(case, broken=False, seed=seed, runs=right_runs)
        assert not right.violates, str(right)


def test_audit_catches_an_unchanged_center_by_equality() -> None:
    found = audited(skipped_cluster, broken=True, seed=2, runs=4_000)
    assert found.best.event == "output[0] is equal to 0.5"
    assert found.best.hits_with == 0
    assert found.best.direction == "absent"
    assert found.lower_bound > 5.0


def test_audit_of_a_tight_mechanism_is_near_the_true_epsilon() -> None:
    found = pais.audit(laplace_sum, pair=PAIR, epsilon=1.0, runs=1_000_000, random_state=3)
    assert 0.97 < found.lower_bound <= 1.0


def test_audit_of_a_sampled_release_is_near_and_below_its_certificate() -> None:
    mechanism = pais.WeightedSum(noise=pais.laplace_noise(1.0))
    rule = pais.UniformRule(rate=0.5)
    found = pais.audit(mechanism, method="runs", rule=rule, ball=LAPLACE_BALL, runs=200_000, random_state=4)
    assert found.certified == pytest.approx(pais.amplified_epsilon(2.0, 0.5), rel=1e-9)
    assert 0.93 * found.certified < found.lower_bound <= found.certified


@pytest.mark.parametrize(("p", "epsilon", "delta"), [(0.5, 1.0, 0.0), (0.02, 2.0, 0.0), (0.3, 0.7, 0.05)])
def test_bound_fails_at_most_at_its_risk_unlike_the_plain_ratio(p: float, epsilon: float, delta: float) -> None:
    # An event that attains epsilon exactly, so that every bound above it is wrong.
    q = (p - delta) * math.exp(-epsilon)
    rng = np.random.default_rng(5)
    runs, trials, risk = 2_000, 20_000, 0.05
    hits, others = rng.binomial(runs, p, trials), rng.binomial(runs, q, trials)
    wrong = np.mean(epsilon_lower_bound(hits, others, runs=runs, delta=delta, risk=risk) > epsilon)
    assert wrong <= risk
    with np.errstate(divide="ignore"):
        plain = np.mean(np.log((hits / runs - delta) / (others / runs)) > epsilon)
    assert plain > 0.3


def test_separate_halves_avoid_overstated_bounds() -> None:
    # No event tells anything here: every bound above 0 is wrong.
    rng = np.random.default_rng(6)
    risk, n, trials = 0.05, 200, 300
    same = halved = 0
    for _ in range(trials):
        # Twenty symbols, so that many events are tried.
        mine, theirs = rng.integers(20, size=(2, n)), rng.integers(20, size=(2, n))
        hits = [np.bincount(half, minlength=20) for half in mine]
        others = [np.bincount(half, minlength=20) for half in theirs]
        first = epsilon_lower_bound(hits[0], others[0], runs=n, risk=risk)
        ratio = hits[0] - others[0]
        same += bool(np.any(first > 0.0))
        best = int(np.argmax(ratio))
        halved += bool(epsilon_lower_bound(hits[1][best], others[1][best], runs=n, risk=risk) > 0.0)
    assert halved / trials <= risk
    assert same > 2 * halved


def test_measure_many_has_the_distribution_of_single_runs() -> None:
    rows = np.array([[0.5], [0.25], [1.0]])
    mechanism = pais.WeightedSum(noise=pais.laplace_noise(1.0))
    rule, rng = pais.UniformRule(rate=0.4), np.random.default_rng(7)
    plan = pais.Plan(ball=LAPLACE_BALL, rule=rule, mechanism=mechanism, epsilon=10.0)
    single = [float(pais.run(plan, rows, random_state=rng).value[0]) for _ in range(800)]
    many = measure_many(mechanism, rows, ball=LAPLACE_BALL, rule=rule, runs=20_000, random_state=rng)[0][:, 0]
    other = pais.WeightedSum(noise=pais.laplace_noise(0.1))
    wrong = measure_many(other, rows, ball=LAPLACE_BALL, rule=rule, runs=20_000, random_state=rng)[0][:, 0]
    assert stats.ks_2samp(single, many).pvalue > 1e-3
    assert stats.ks_2samp(single, wrong).pvalue < 1e-6


def test_measure_each_has_the_distribution_of_single_kmeans_runs() -> None:
    plan, rng = plain_kmeans_plan(), np.random.default_rng(8)
    rows = np.array([[0.5, 0.0], [0.25, 0.25], [-1.0, 0.0]])
    less = pais.laplace_noise(0.5)
    quieter = replace(plan.mechanism, rounds=(Round(count_noise=less, sum_noise=less),))

    def totals(outputs: list[object]) -> list[float]:
        return [float(value.noisy_counts.sum()) for value in outputs if isinstance(value, pais.KMeansValue)]

    single = totals([pais.run(plan, rows, random_state=rng).value for _ in range(300)])
    many, wrong = (
        totals(measure_each(mechanism, rows, ball=plan.ball, rule=plan.rule, runs=2_000, random_state=rng))
        for mechanism in (plan.mechanism, quieter)
    )
    assert stats.ks_2samp(single, many).pvalue > 1e-3
    assert stats.ks_2samp(single, wrong).pvalue < 1e-6


def test_a_plan_of_k_means_is_audited_within_its_time_and_passes() -> None:
    found = pais.audit(kmeans_plan(), method="runs", runs=10**6, seconds=3.0, random_state=0)
    assert found.certified == 2.0
    assert found.delta == 1e-3
    assert 0 < found.runs < 10**6
    assert found.seconds < 60.0
    assert not found.violates
