"""The audit: its bound holds, it catches known mistakes, and it lets the right versions pass."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import pais
from benchmarks.audit_cases import CASES, Case
from benchmarks.audit_logistic import LOGISTIC_CASES
from benchmarks.audit_statistics import STATISTIC_CASES
from benchmarks.audit_sums import SUM_CASES
from pais.auditing import epsilon_lower_bound, measure_many
from pais.auditing.many import measure_each
from pais.mechanisms import Round
from tests.audit_cases import LAPLACE_BALL, PAIR, kmeans_plan, laplace_sum, plain_kmeans_plan

SEEDS = range(20)


@pytest.mark.parametrize("case", [*CASES, *SUM_CASES, *STATISTIC_CASES, *LOGISTIC_CASES], ids=lambda case: case.name)
def test_audit_catches_known_mistakes_and_passes_the_correct_versions(case: Case) -> None:
    broken = case.audit(broken=True, seed=0, runs=case.runs // 2 if case.slow else case.runs)
    assert broken.violates
    assert broken.certified is not None
    assert broken.lower_bound > (1.1 if case.slow else 1.25) * broken.certified
    for seed in SEEDS:
        # The bound is wrong with the same probability whatever the number of runs.
        right = case.audit(broken=False, seed=seed, runs=case.right_runs // (40 if case.slow else 10))
        assert not right.violates, str(right)


def test_audit_of_published_noise_exceeds_the_claim_many_times() -> None:
    case = next(case for case in CASES if "exponential" in case.name)
    found = case.audit(broken=True, seed=1)
    assert found.lower_bound > 6.0
    assert "distance of the sum" in found.best.event


def test_audit_catches_an_unchanged_center_by_equality() -> None:
    case = next(case for case in CASES if case.name == "skipped empty cluster")
    found = case.audit(broken=True, seed=2, runs=4_000)
    assert found.best.event == "output[0] is equal to 0.5"
    assert found.best.hits_with == 0
    assert found.best.direction == "absent"
    assert found.lower_bound > 5.0


def test_audit_catches_an_unchanged_row_by_equality() -> None:
    case = next(case for case in CASES if case.name == "real rows as start of k-means")
    arguments, record = case.arguments(True), np.array([0.75, 0.0])
    pair = pais.NeighbourPair.of(record, [[-0.5, 0.0], [-0.5, 0.0]])
    found = pais.audit(
        arguments.pop("target"),
        **arguments,
        pair=pair,
        statistic={"row among the centers": lambda value: bool(np.any(np.all(value.centers == record, axis=1)))},
        runs=400,
        random_state=2,
    )
    assert found.best.event == "row among the centers is equal to 1"
    assert found.best.hits_without == 0
    assert found.lower_bound > 2.0


def test_audit_of_one_kmeans_round_is_near_and_below_its_certificate() -> None:
    case = next(case for case in CASES if case.name == "k-means with noise of 0.7 of its scale")
    found = case.audit(broken=False, seed=1, runs=16_000)
    assert found.certified is not None
    assert 0.65 * found.certified < found.lower_bound <= found.certified
    assert found.best.direction == "present"


def test_audit_of_a_tight_mechanism_is_near_the_true_epsilon() -> None:
    found = pais.audit(laplace_sum, pair=PAIR, epsilon=1.0, runs=1_000_000, random_state=3)
    assert 0.97 < found.lower_bound <= 1.0


def test_audit_of_a_sampled_release_is_near_and_below_its_certificate() -> None:
    mechanism = pais.WeightedSum(noise=pais.laplace_noise(1.0))
    rule = pais.UniformRule(rate=0.5)
    found = pais.audit(mechanism, rule=rule, ball=LAPLACE_BALL, runs=200_000, random_state=4)
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

    single = totals([pais.run(plan, rows, random_state=rng).value for _ in range(600)])
    many, wrong = (
        totals(measure_each(mechanism, rows, ball=plan.ball, rule=plan.rule, runs=4_000, random_state=rng))
        for mechanism in (plan.mechanism, quieter)
    )
    assert stats.ks_2samp(single, many).pvalue > 1e-3
    assert stats.ks_2samp(single, wrong).pvalue < 1e-6


def test_a_plan_of_k_means_is_audited_within_its_time_and_passes() -> None:
    found = pais.audit(kmeans_plan(), runs=10**6, seconds=3.0, random_state=0)
    assert found.certified == 2.0
    assert found.delta == 1e-3
    assert 0 < found.runs < 10**6
    assert found.seconds < 60.0
    assert not found.violates
