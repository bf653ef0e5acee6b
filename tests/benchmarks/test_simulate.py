"""The arithmetic of simulated clusters."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.stream.costs import Costs
from benchmarks.stream.data import COLUMNS
from benchmarks.stream.simulate import COPIES, PARTITION_BYTES, ROW_EXTRA, SCHEDULING, Simulated

COSTS = Costs(
    scan=4e-7,
    transfer=7e-7,
    survey=1e-6,
    sample=2e-6,
    task=0.02,
    job=0.1,
    start=2.0,
    driver=0.5,
    driver_row=1e-5,
    answer=1e-4,
    survey_passes=2,
    answer_bytes=500.0,
    file_bytes=128.0,
)


def test_seconds_of_one_wave_are_the_sum_of_their_parts() -> None:
    n_rows, cores = 8 * PARTITION_BYTES / 128, 8
    one = Simulated(costs=COSTS, n_rows=n_rows, cores=cores, sample_rows=1000.0)
    assert one.tasks == cores
    survey, sample = (0.1 + n_rows / cores * per_row + 0.02 for per_row in (1e-6, 2e-6))
    driver = 0.5 + 1e-5 * 1000 + 2 * cores * 1e-4
    assert one.seconds == pytest.approx(2.0 + 2 * survey + sample + driver)
    assert one.network_bytes == 2 * cores * 500 + 1000 * (8 * COLUMNS + ROW_EXTRA)
    assert one.driver_bytes == COPIES * 1000 * (8 * COLUMNS + ROW_EXTRA)


def test_a_small_table_has_a_task_for_each_core_and_a_tiny_one_has_fewer() -> None:
    small = Simulated(costs=COSTS, n_rows=1e6, cores=2, sample_rows=1.0)
    assert small.tasks == 2
    assert replace(small, n_rows=1e4, cores=64).tasks == 1


def test_more_cores_take_less_time_until_the_driver_cannot_start_tasks_faster() -> None:
    times = [Simulated(costs=COSTS, n_rows=1e11, cores=cores, sample_rows=1e5).seconds for cores in (100, 1000, 10_000)]
    assert times[0] > times[1] > times[2]
    many = Simulated(costs=COSTS, n_rows=1e11, cores=10**6, sample_rows=1e5)
    assert many.pass_seconds(COSTS.survey) == pytest.approx(COSTS.job + SCHEDULING * many.tasks)
