"""The audit: its bound holds, it catches known mistakes, and it lets the right versions pass."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import pais
from benchmarks.audit_cases import CASES, Case
from pais.auditing import Event, epsilon_lower_bound, measure_many, pacing
from pais.auditing.many import linear_parts, measure_each
from pais.mechanisms import Round

SEEDS = range(20)
LAPLACE_BALL = pais.Ball(radius=1.0, order=1.0)
ALL_ROWS = pais.UniformRule(rate=1.0)
PAIR = pais.NeighbourPair(with_record=[[0.0], [1.0]], without_record=[[0.0]])


def laplace_sum(rows: np.ndarray, generator: np.random.Generator, runs: int) -> np.ndarray:
    return np.asarray(rows.sum() + generator.laplace(scale=1.0, size=runs))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_known_mistake_is_caught_and_the_right_version_passes_for_twenty_seeds(case: Case) -> None:
    broken = case.audit(broken=True, seed=0, runs=case.runs // 2 if case.slow else case.runs)
    assert broken.violates
    assert broken.certified is not None
    assert broken.lower_bound > (1.1 if case.slow else 1.25) * broken.certified
    for seed in SEEDS:
        right = case.audit(broken=False, seed=seed, runs=case.right_runs // (10 if case.slow else 5))
        assert not right.violates, str(right)


def test_the_pole_of_the_published_noise_proves_many_times_the_claim() -> None:
    case = next(case for case in CASES if "exponential" in case.name)
    found = case.audit(broken=True, seed=1)
    assert found.lower_bound > 6.0
    assert "distance of the sum" in found.best.event


def test_a_center_published_as_it_was_is_caught_by_exact_equality() -> None:
    case = next(case for case in CASES if case.name == "skipped empty cluster")
    found = case.audit(broken=True, seed=2, runs=4_000)
    assert found.best.event == "output[0] is equal to 0.5"
    assert found.best.hits_with == 0
    assert found.best.direction == "absent"
    assert found.lower_bound > 5.0


def test_a_row_published_as_it_is_is_caught_by_exact_equality() -> None:
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


def test_the_bound_of_a_right_round_of_k_means_comes_near_its_certificate_and_never_passes_it() -> None:
    case = next(case for case in CASES if case.name == "k-means with noise of 0.7 of its scale")
    found = case.audit(broken=False, seed=1, runs=16_000)
    assert found.certified is not None
    assert 0.65 * found.certified < found.lower_bound <= found.certified
    assert found.best.direction == "present"


def test_the_bound_comes_near_the_true_epsilon_of_a_tight_mechanism() -> None:
    found = pais.audit(laplace_sum, pair=PAIR, epsilon=1.0, runs=1_000_000, random_state=3)
    assert 0.97 < found.lower_bound <= 1.0


def test_the_bound_of_a_sampled_release_comes_near_its_certificate_and_never_passes_it() -> None:
    mechanism = pais.WeightedSum(noise=pais.laplace_noise(1.0))
    rule = pais.UniformRule(rate=0.5)
    found = pais.audit(mechanism, rule=rule, ball=LAPLACE_BALL, runs=200_000, random_state=4)
    assert found.certified == pytest.approx(pais.amplified_epsilon(2.0, 0.5), rel=1e-9)
    assert 0.93 * found.certified < found.lower_bound <= found.certified


@pytest.mark.parametrize(("p", "epsilon", "delta"), [(0.5, 1.0, 0.0), (0.02, 2.0, 0.0), (0.3, 0.7, 0.05)])
def test_the_bound_is_wrong_no_more_often_than_its_risk_and_the_plain_ratio_is(
    p: float, epsilon: float, delta: float
) -> None:
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


def test_one_sided_bounds_are_those_of_clopper_and_pearson() -> None:
    n, risk = 500, 0.01
    for k, other in ((0, 0), (1, 0), (37, 5), (500, 499), (500, 500)):
        low = 0.0 if k == 0 else stats.beta.ppf(risk / 2, k, n - k + 1)
        high = 1.0 if other == n else stats.beta.ppf(1 - risk / 2, other + 1, n - other)
        expected = max(0.0, math.log(low / high)) if low > 0 else 0.0
        assert float(epsilon_lower_bound(k, other, runs=n, risk=risk)) == pytest.approx(expected, abs=1e-7)


def test_choosing_and_counting_on_the_same_runs_would_overstate_and_halving_does_not() -> None:
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


def test_a_single_one_of_many_runs_is_bit_for_bit_a_release() -> None:
    rows = np.random.default_rng(0).normal(size=(6, 3)) / 4.0
    noise = pais.laplace_noise(1.0)
    for mechanism in (
        pais.WeightedCount(noise=noise),
        pais.WeightedSum(noise=noise),
        pais.WeightedMean(count_noise=noise, sum_noise=noise),
        pais.Joint(parts=(pais.WeightedSum(noise=noise), pais.WeightedCount(noise=noise))),
    ):
        plan = pais.Plan(ball=LAPLACE_BALL, rule=pais.UniformRule(rate=0.5), mechanism=mechanism, epsilon=10.0)
        for seed in range(5):
            state = np.random.default_rng(seed)
            many = measure_many(mechanism, rows, ball=plan.ball, rule=plan.rule, runs=1, random_state=state)
            value = pais.run(plan, rows, random_state=np.random.default_rng(seed)).value
            if isinstance(value, pais.MeanValue):
                value = (value.noisy_count, value.noisy_sum)
            parts = value if isinstance(value, tuple) else (value,)
            for released, expected in zip(many, parts, strict=True):
                np.testing.assert_array_equal(released[0], np.atleast_1d(np.asarray(expected)))


@pytest.mark.parametrize("plan", ["refined", "plain"])
def test_one_run_of_k_means_in_an_audit_is_bit_for_bit_a_release(plan: str) -> None:
    rows = np.random.default_rng(0).normal(size=(40, 2)) / 4.0
    made = kmeans_plan() if plan == "refined" else plain_kmeans_plan()
    for seed in range(5):
        state = np.random.default_rng(seed)
        (one,) = measure_each(made.mechanism, rows, ball=made.ball, rule=made.rule, runs=1, random_state=state)
        expected = pais.run(made, rows, random_state=np.random.default_rng(seed)).value
        assert isinstance(one, pais.KMeansValue)
        np.testing.assert_array_equal(one.centers, expected.centers)
        np.testing.assert_array_equal(one.noisy_counts, expected.noisy_counts)


def test_many_runs_at_once_have_the_law_of_runs_one_by_one_and_not_that_of_other_noise() -> None:
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


def test_many_samples_at_once_leave_k_means_its_law_and_other_noise_does_not() -> None:
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


def test_a_mechanism_that_measures_in_its_own_way_is_run_one_by_one() -> None:
    class Own(pais.WeightedSum):
        def measure(self, content: object, ball: object, bits: object) -> np.ndarray:
            return np.zeros(2)

    own = Own(noise=pais.laplace_noise(1.0))
    assert linear_parts(own) is None
    found = pais.audit(own, rule=ALL_ROWS, ball=LAPLACE_BALL, runs=200, random_state=0)
    assert found.lower_bound == 0.0


def test_a_plan_of_k_means_is_audited_within_its_time_and_passes() -> None:
    found = pais.audit(kmeans_plan(), runs=10**6, seconds=3.0, random_state=0)
    assert found.certified == 2.0
    assert found.delta == 1e-3
    assert 0 < found.runs < 10**6
    assert found.seconds < 60.0
    assert not found.violates


def kmeans_plan() -> pais.Plan:
    norms = pais.NormDistribution.from_histogram([0.0, 0.5, 1.0], [20.0, 20.0])
    return pais.plan_kmeans(
        n_clusters=2, n_features=2, epsilon=2.0, delta=1e-3, ball=pais.Ball(radius=1.0), norms=norms
    )


def plain_kmeans_plan() -> pais.Plan:
    noise = pais.laplace_noise(2.0)
    plain = pais.KMeans(
        n_clusters=2,
        n_features=2,
        rounds=(Round(count_noise=noise, sum_noise=noise),),
        radius=1.0,
        cells=2,
        explore=0,
        largest_weight=2.0,
    )
    return pais.Plan(ball=LAPLACE_BALL, rule=pais.UniformRule(rate=0.5), mechanism=plain, epsilon=2.0)


def sum_plan() -> pais.Plan:
    mechanism = pais.WeightedSum(noise=pais.laplace_noise(1.0))
    return pais.Plan(ball=LAPLACE_BALL, rule=pais.UniformRule(rate=0.5), mechanism=mechanism, epsilon=2.0)


@pytest.mark.parametrize("plan", [kmeans_plan(), sum_plan()], ids=lambda plan: plan.mechanism.name)
def test_an_audit_reads_no_data_and_spends_nothing_of_an_active_ledger(plan: pais.Plan) -> None:
    # Room for one release and not for two.
    ledger = pais.Ledger(epsilon=3.0, delta=0.01)
    before = ledger.remaining
    with ledger:
        pais.audit(plan, runs=20, random_state=0)
    assert ledger.remaining == before


class Clock:
    """Time that passes only when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize("price", [1e-5, 0.003, 0.7, 7.0])
@pytest.mark.parametrize("overhead", [0.0, 0.05])
def test_a_time_limit_is_kept_whatever_a_run_costs(
    price: float, overhead: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, limit, done = Clock(), 20.0, []
    monkeypatch.setattr(pacing, "clock", clock)

    def slow(rows: np.ndarray, generator: np.random.Generator, runs: int) -> np.ndarray:
        clock.now += overhead + price * runs
        done.append(runs)
        return generator.random(runs)

    found = pais.audit(slow, pair=PAIR, epsilon=1.0, runs=10**6, seconds=limit, random_state=0)
    # One run is made on both tables to choose, and one to count, whatever they cost.
    assert found.seconds <= max(1.2 * limit, 4 * (price + overhead))
    assert found.seconds >= min(0.7 * limit, (price + overhead) * 2e6)
    assert sum(done) == 2 * (found.runs + found.first_runs)


def test_runs_that_get_dearer_overshoot_by_no_more_than_the_last_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(pacing, "clock", clock)
    sizes, begun = [], clock.now
    for size in pacing.chunk_sizes(10**6, most=1_000, seconds=10.0):
        sizes.append(size)
        clock.now += 0.01 * size * (1.0 if len(sizes) < 5 else 1.2)
    assert clock.now - begun <= 12.0
    assert sizes[:4] == [1, 4, 16, 64]
    assert list(pacing.chunk_sizes(2_500, most=1_000, seconds=None)) == [1_000, 1_000, 500]


def test_a_seed_repeats_an_audit_and_secure_runs_work() -> None:
    mechanism = pais.WeightedCount(noise=pais.laplace_noise(1.0))
    once, again, secure = (
        pais.audit(mechanism, rule=ALL_ROWS, ball=LAPLACE_BALL, runs=5_000, random_state=state)
        for state in (8, 8, None)
    )
    assert once.findings == again.findings
    assert not secure.violates


def test_functions_may_return_numbers_arrays_or_symbols() -> None:
    def number(rows: np.ndarray, generator: np.random.Generator) -> float:
        return float(len(rows) + generator.laplace(scale=2.0))

    def symbol(rows: np.ndarray, generator: np.random.Generator) -> str:
        return "odd" if len(rows) % 2 and generator.random() < 0.5 else "even"

    assert not pais.audit(number, pair=PAIR, epsilon=0.5, runs=4_000, random_state=0).violates
    found = pais.audit(symbol, pair=PAIR, epsilon=1.0, runs=4_000, random_state=0)
    assert found.violates
    assert found.best.event == "output is equal to odd"
    assert found.best.direction == "absent"
    looked = pais.audit(
        number, pair=PAIR, epsilon=0.5, statistic={"sign": lambda value: value > 1.5}, runs=4_000, random_state=0
    )
    assert "sign" in looked.best.event


def test_delta_excuses_what_pure_epsilon_does_not() -> None:
    def rarely(rows: np.ndarray, generator: np.random.Generator, runs: int) -> np.ndarray:
        return np.asarray((generator.random(runs) < 0.02) & (len(rows) == 2))

    assert pais.audit(rarely, pair=PAIR, epsilon=1.0, random_state=0).violates
    assert not pais.audit(rarely, pair=PAIR, epsilon=0.0, delta=0.02, random_state=0).violates


def test_a_report_says_what_it_found_in_words_and_in_json() -> None:
    found = pais.audit(laplace_sum, pair=PAIR, epsilon=0.5, runs=20_000, random_state=0)
    assert found.violates
    assert "VIOLATED" in str(found)
    described = json.loads(found.to_json())
    assert described["violates"] is True
    assert described["lower_bound"] == found.lower_bound
    assert len(described["findings"]) == 2
    quiet = pais.audit(laplace_sum, pair=PAIR, epsilon=2.0, runs=20_000, random_state=0)
    assert "no proof" in str(quiet)
    assert not pais.audit(laplace_sum, pair=PAIR, runs=2_000, random_state=0).violates


def test_nan_and_infinite_outputs_are_events_like_others() -> None:
    def fails(rows: np.ndarray, generator: np.random.Generator, runs: int) -> np.ndarray:
        return np.where(generator.random(runs) < 0.5, math.nan if len(rows) == 2 else math.inf, 0.0)

    assert pais.audit(fails, pair=PAIR, epsilon=1.0, runs=2_000, random_state=0).violates
    assert Event(statistic="x", relation="equal to", value=math.nan).holds({"x": np.array([math.nan, 1.0])}).sum() == 1


def test_tables_that_are_no_neighbours_and_targets_that_cannot_be_run_are_refused() -> None:
    for smaller in ([[2.0]], [[0.0], [1.0]], [[0.0, 0.0]]):
        with pytest.raises(pais.ArgumentError, match="one more"):
            pais.NeighbourPair(with_record=[[0.0], [1.0]], without_record=smaller)
    with pytest.raises(pais.ArgumentError, match="pair is missing"):
        pais.audit(laplace_sum)
    with pytest.raises(pais.ArgumentError, match="function, mechanism or plan"):
        pais.audit(3, pair=PAIR)  # type: ignore[arg-type]
    with pytest.raises(pais.ArgumentError, match="rule="):
        pais.audit(pais.WeightedCount(noise=pais.laplace_noise(1.0)), ball=LAPLACE_BALL)
    with pytest.raises(pais.ArgumentError, match="halved"):
        pais.audit(laplace_sum, pair=PAIR, runs=1)
    with pytest.raises(pais.ArgumentError, match="one value for each run"):
        pais.audit(laplace_sum, pair=PAIR, statistic=lambda outputs: 1.0)


def test_the_record_of_a_pair_is_found_wherever_it_stands() -> None:
    pair = pais.NeighbourPair(with_record=[[1.0, 2.0], [0.0, 0.0], [0.0, 0.0]], without_record=[[0.0, 0.0], [1.0, 2.0]])
    np.testing.assert_array_equal(pair.record, [0.0, 0.0])


def test_the_examples_of_the_guide_run() -> None:
    page = (Path(__file__).parents[2] / "docs" / "guide" / "audit.md").read_text()
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL):
        exec(compile(block, "audit.md", "exec"), names)
    assert isinstance(names["report"], pais.AuditReport)
