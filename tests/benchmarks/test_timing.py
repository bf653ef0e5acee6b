"""Jobs take turns, and their ratios are those of single turns."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.timing import Times, compared, interleaved, resident_peak


def test_every_job_runs_once_in_a_turn_and_in_a_changing_order() -> None:
    calls: list[tuple[str, int]] = []
    jobs = {name: (lambda turn, name=name: calls.append((name, turn))) for name in "abc"}
    times = interleaved(jobs, range(6))
    assert [turn for _, turn in calls] == [turn for turn in range(6) for _ in jobs]
    orders = {tuple(name for name, _ in calls[3 * turn : 3 * turn + 3]) for turn in range(6)}
    assert all(set(order) == set(jobs) for order in orders)
    assert len(orders) > 1
    assert all(len(times[name].seconds) == 6 for name in jobs)


def test_the_ratio_is_the_median_of_the_ratios_of_turns() -> None:
    # The second turn was slow for both.
    fast, slow = Times(seconds=[1.0, 9.0, 2.0], work=[1.0] * 3), Times(seconds=[2.0, 18.0, 2.0], work=[2.0] * 3)
    cells = compared(fast, slow)
    assert cells["ratio"] == pytest.approx(0.5)
    assert cells["of minima"] == pytest.approx(0.5)
    assert cells["ms"] == pytest.approx(2000.0)
    assert cells["quartiles"] == "0.5 to 0.75"


def test_the_peak_is_that_of_the_run_and_not_of_what_was_there() -> None:
    kept = np.ones(1 << 21)
    resident = resident_peak(lambda: np.ones(1 << 23))
    assert resident is None or 56 << 20 < resident < 80 << 20
    assert kept[0] == 1.0
