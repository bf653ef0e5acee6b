"""Every claim of the reproduction, on frames small enough to compute by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
import pytest

from experiments.paper.claims import (
    Exceeding,
    approaches,
    coreset_effects,
    flatteries,
    gains,
    orderings,
    overhead,
    paces,
    start_effects,
    thousandfold,
)

Line = dict[str, Any]


def cost(family: str, rule: str, m: int | None, epsilon: float, *values: float, start: str = "rows") -> list[Line]:
    return [
        line(
            kind="cost",
            family=family,
            start=start,
            rule=rule,
            sample_size=m,
            epsilon=epsilon,
            repetition=i,
            value=value,
        )
        for i, value in enumerate(values)
    ]


def timed(rule: str, m: int | None, **seconds: float) -> list[Line]:
    return [
        line(kind="time", family="valid", rule=rule, sample_size=m, epsilon=3.0, measure=name, value=value)
        for name, value in seconds.items()
    ]


def line(**values: Any) -> Line:
    usual: Line = {
        "kind": "cost",
        "dataset": "covertype",
        "family": "valid",
        "start": "rows",
        "rule": "uniform",
        "sample_size": 100,
        "epsilon": 1.0,
        "delta": 0.0,
        "repetition": 0,
        "measure": "cost",
        "value": 1.0,
        "config": "by hand",
    }
    return usual | values


def frame(*parts: Sequence[Line]) -> pd.DataFrame:
    return pd.DataFrame([one for part in parts for one in part])


def test_the_order_is_counted_and_exceptions_are_listed_with_their_overlap() -> None:
    found = orderings(
        frame(
            cost("valid", "uniform", 100, 1.0, 9.0, 10.0, 11.0),
            cost("valid", "coreset", 100, 1.0, 10.0, 11.0, 12.0),  # 10 % above, quartiles 10.5 and 10.5 touch
            cost("valid", "constrained", 100, 1.0, 19.0, 20.0, 21.0),  # twice as much, quartiles far apart
            cost("valid", "uniform", 200, 1.0, 10.0),
            cost("valid", "coreset", 200, 1.0, 10.0),  # equal is no exception
            cost("published", "uniform", 100, 1.0, 1.0),
            cost("valid", "all rows", None, 1.0, 1.0),
        )
    )
    coreset, constrained, both = found
    assert (coreset.lower, coreset.upper, coreset.cells, coreset.holding) == ("coreset", "uniform", 2, 1)
    assert coreset.exceptions == (
        Exceeding(sample_size=100, epsilon=1.0, percent=pytest.approx(10.0), overlapping=True),
    )
    assert coreset.clear_exceptions == ()
    assert [one.percent for one in constrained.clear_exceptions] == [pytest.approx(100.0)]
    assert (both.lower, both.upper, both.holding) == ("constrained", "coreset", 0)


def test_the_approach_to_all_rows_is_a_ratio_at_the_smallest_and_the_largest_size() -> None:
    (found,) = approaches(
        frame(
            cost("valid", "all rows", None, 3.0, 2.0),
            cost("valid", "uniform", 100, 3.0, 8.0),
            cost("valid", "uniform", 200, 3.0, 5.0),
            cost("valid", "uniform", 300, 3.0, 3.0),
            cost("valid", "uniform", 300, 1.0, 7.0),
        )
    )
    assert (found.smallest_size, found.largest_size) == (100, 300)
    assert (found.ratio_at_smallest, found.ratio_at_largest) == (4.0, 1.5)
    assert found.comes_nearer


def test_time_is_compared_with_the_share_of_rows() -> None:
    (found,) = paces(
        frame(
            timed("all rows", None, t_lloyd=10.0),
            timed("uniform", 100, t_weights=0.1, t_sampling=0.1, t_lloyd=0.8),  # 10 % of the time, 10 % of the rows
            timed("uniform", 200, t_weights=0.5, t_sampling=0.5, t_lloyd=3.0),  # 40 % of the time, 20 % of the rows
        ),
        {"covertype": 1000},
    )
    assert (found.ratio.cells, found.ratio.smallest, found.ratio.largest) == (2, pytest.approx(1.0), pytest.approx(2.0))
    assert found.ratio.median == pytest.approx(1.5)


def test_pais_at_a_small_epsilon_is_compared_with_the_best_published_sampler() -> None:
    results = frame(
        cost("published", "uniform", 100, 1000.0, 5.0),
        cost("published", "constrained", 100, 1000.0, 3.0),
        cost("published", "constrained", 200, 1000.0, 4.0),
        cost("ours", "constrained", 100, 1.0, 3.5, start="own"),
        cost("ours", "constrained", 200, 1.0, 3.5, start="own"),
        cost("ours", "constrained", 200, 10.0, 2.5, start="own"),
        cost("ours", "constrained", 100, 10.0, 2.5, start="own"),
    )
    (found,) = thousandfold(results)
    assert (found.ours, found.published, found.holds) == (3.5, 3.0, False)
    assert (found.below_at_sizes, found.sizes, found.least_epsilon) == ((200,), (100, 200), 10.0)
    (ijcnn1,) = thousandfold(results.assign(dataset="ijcnn1"))
    assert (ijcnn1.epsilon, ijcnn1.ours, ijcnn1.holds) == (10.0, 2.5, True)


def test_overhead_on_covertype_is_listed_with_that_of_the_paper() -> None:
    times = frame(
        timed("all rows", None, t_lloyd=50.0),
        timed("constrained", 20_000, t_weights=0.4, t_sampling=0.1, t_lloyd=2.0),
    )
    found = overhead(times)
    assert found is not None
    assert found.measured == pytest.approx(0.01)
    assert found.in_paper == pytest.approx((0.4404 + 0.0082) / 59.91)
    assert overhead(times[times["rule"] == "all rows"]) is None


def test_unmeasured_claims_are_absent() -> None:
    nothing = frame([line()]).iloc[:0]
    for claim in (orderings, approaches, gains, thousandfold, flatteries, start_effects, coreset_effects):
        assert claim(nothing) == []
    assert paces(nothing, {}) == []
    assert overhead(nothing) is None
