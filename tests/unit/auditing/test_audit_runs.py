"""Runs, time limits, reports and refusals of an audit."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

import pais
from pais.auditing import runs
from pais.auditing.runs import Event, epsilon_lower_bound, measure_each, measure_many, totals_of
from tests.support.audit_cases import LAPLACE_BALL, PAIR, kmeans_plan, laplace_sum, plain_kmeans_plan

ALL_ROWS = pais.UniformRule(rate=1.0)


def test_one_sided_bounds_are_those_of_clopper_and_pearson() -> None:
    n, risk = 500, 0.01
    for k, other in ((0, 0), (1, 0), (37, 5), (500, 499), (500, 500)):
        low = 0.0 if k == 0 else stats.beta.ppf(risk / 2, k, n - k + 1)
        high = 1.0 if other == n else stats.beta.ppf(1 - risk / 2, other + 1, n - other)
        expected = max(0.0, math.log(low / high)) if low > 0 else 0.0
        assert float(epsilon_lower_bound(k, other, runs=n, risk=risk)) == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize("noise", [pais.laplace_noise(1.0), pais.geometric_noise(1.0)], ids=["laplace", "geometric"])
def test_single_run_of_measure_many_equals_a_release(noise: pais.NoiseLaw) -> None:
    rows = np.random.default_rng(0).normal(size=(6, 3)) / 4.0
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
def test_single_kmeans_run_of_an_audit_equals_a_release(plan: str) -> None:
    rows = np.random.default_rng(0).normal(size=(40, 2)) / 4.0
    made = kmeans_plan() if plan == "refined" else plain_kmeans_plan()
    for seed in range(5):
        state = np.random.default_rng(seed)
        (one,) = measure_each(made.mechanism, rows, ball=made.ball, rule=made.rule, runs=1, random_state=state)
        expected = pais.run(made, rows, random_state=np.random.default_rng(seed)).value
        assert isinstance(one, pais.KMeansValue)
        np.testing.assert_array_equal(one.centers, expected.centers)
        np.testing.assert_array_equal(one.noisy_counts, expected.noisy_counts)


def test_mechanism_with_its_own_measure_is_run_one_by_one() -> None:
    class Own(pais.WeightedSum):
        def measure(self, content: object, ball: object, bits: object) -> np.ndarray:
            return np.zeros(2)

    own = Own(noise=pais.laplace_noise(1.0))
    assert totals_of(own) is None
    found = pais.audit(own, method="runs", rule=ALL_ROWS, ball=LAPLACE_BALL, runs=200, random_state=0)
    assert found.lower_bound == 0.0


def sum_plan() -> pais.Plan:
    mechanism = pais.WeightedSum(noise=pais.laplace_noise(1.0))
    return pais.Plan(ball=LAPLACE_BALL, rule=pais.UniformRule(rate=0.5), mechanism=mechanism, epsilon=2.0)


@pytest.mark.parametrize("plan", [kmeans_plan(), sum_plan()], ids=lambda plan: plan.mechanism.name)
def test_an_audit_reads_no_data_and_spends_nothing_of_an_active_ledger(plan: pais.Plan) -> None:
    # Room for one release and not for two.
    ledger = pais.Ledger(epsilon=3.0, delta=0.01)
    before = ledger.remaining
    with ledger:
        pais.audit(plan, method="runs", runs=20, random_state=0)
        pais.audit(plan, method="replay")
    assert ledger.remaining == before


class Clock:
    """A clock that advances only when the test sets it."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize("price", [1e-5, 0.003, 0.7, 7.0])
@pytest.mark.parametrize("overhead", [0.0, 0.05])
def test_time_limit_is_kept_for_slow_and_fast_runs(
    price: float, overhead: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, limit, done = Clock(), 20.0, []
    monkeypatch.setattr(runs, "clock", clock)

    def slow(rows: np.ndarray, generator: np.random.Generator, runs: int) -> np.ndarray:
        clock.now += overhead + price * runs
        done.append(runs)
        return generator.random(runs)

    found = pais.audit(slow, pair=PAIR, epsilon=1.0, runs=10**6, seconds=limit, random_state=0)
    # One run is made on both tables to choose, and one to count, whatever they cost.
    assert found.seconds <= max(1.2 * limit, 4 * (price + overhead))
    assert found.seconds >= min(0.7 * limit, (price + overhead) * 2e6)
    assert sum(done) == 2 * (found.runs + found.first_runs)


def test_a_seed_repeats_an_audit_and_secure_runs_work() -> None:
    mechanism = pais.WeightedCount(noise=pais.laplace_noise(1.0))
    once, again, secure = (
        pais.audit(mechanism, method="runs", rule=ALL_ROWS, ball=LAPLACE_BALL, runs=5_000, random_state=state)
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


def test_event_allowed_by_delta_violates_pure_epsilon() -> None:
    def rarely(rows: np.ndarray, generator: np.random.Generator, runs: int) -> np.ndarray:
        return np.asarray((generator.random(runs) < 0.02) & (len(rows) == 2))

    assert pais.audit(rarely, pair=PAIR, epsilon=1.0, random_state=0).violates
    assert not pais.audit(rarely, pair=PAIR, epsilon=0.0, delta=0.02, random_state=0).violates


def test_audit_report_as_text_and_json() -> None:
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


@pytest.mark.parametrize("smaller", [[[2.0]], [[0.0], [1.0]], [[0.0, 0.0]]])
def test_tables_that_do_not_differ_by_one_row_are_refused(smaller: list[list[float]]) -> None:
    with pytest.raises(pais.ArgumentError, match="one more"):
        pais.NeighbourPair(with_record=[[0.0], [1.0]], without_record=smaller)


@pytest.mark.parametrize(
    ("target", "options", "message"),
    [
        (laplace_sum, {}, "pair is missing"),
        (3, {"pair": PAIR}, "function, mechanism, plan or private estimator"),
        (pais.WeightedCount(noise=pais.laplace_noise(1.0)), {"ball": LAPLACE_BALL}, "rule="),
        (laplace_sum, {"pair": PAIR, "runs": 1}, "two halves"),
        (laplace_sum, {"pair": PAIR, "statistic": lambda outputs: 1.0}, "one value for each run"),
    ],
)
def test_refusals(target: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(pais.ArgumentError, match=message):
        pais.audit(target, **options)


def test_outputs_of_different_lengths_are_compared_number_by_number() -> None:
    def some(rows: np.ndarray, generator: np.random.Generator) -> list[float]:
        return [0.0] * int(generator.integers(1, 4)) + [float(len(rows))] * int(generator.integers(0, 2))

    assert pais.audit(some, pair=PAIR, epsilon=0.1, runs=4_000, random_state=0).violates


def test_the_record_of_a_pair_is_found_wherever_it_stands() -> None:
    pair = pais.NeighbourPair(with_record=[[1.0, 2.0], [0.0, 0.0], [0.0, 0.0]], without_record=[[0.0, 0.0], [1.0, 2.0]])
    np.testing.assert_array_equal(pair.record, [0.0, 0.0])
