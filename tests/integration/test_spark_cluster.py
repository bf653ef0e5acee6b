"""A cluster that loses machines: jobs are finished all the same, and what was drawn does not change."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import pais
from tests.conftest import SPARK, require_spark

pytestmark = SPARK

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def outcome() -> dict[str, Any]:
    """What a driver of its own saw: a second one in this process would take the session of the other tests."""
    require_spark()
    if not Path("/proc/self/task").is_dir():
        pytest.skip("executors are found by /proc, which is not there")
    paths = [str(Path(pais.__file__).parents[1]), str(ROOT), os.environ.get("PYTHONPATH", "")]
    driver = subprocess.Popen(
        [sys.executable, "-m", "tests.integration.spark_cluster_job"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        start_new_session=True,
    )
    try:
        said, complaints = driver.communicate(timeout=900)
    finally:
        if driver.poll() is None:
            # The group is the driver's own: it, the master, the workers and their executors.
            os.killpg(driver.pid, signal.SIGKILL)
            driver.communicate()
    assert driver.returncode == 0, complaints[-3000:]
    found: dict[str, Any] = json.loads(said)
    return found


def test_a_fit_works_on_a_cluster(outcome: dict[str, Any]) -> None:
    assert [len(center) for center in outcome["centers"]] == [2, 2]
    assert outcome["note"] == "secure randomness"


def test_a_default_fit_on_a_cluster_has_two_jobs_without_a_shuffle(outcome: dict[str, Any]) -> None:
    assert outcome["stages_of_jobs"] == [1, 1]


def test_executors_were_killed_in_the_middle_of_the_jobs(outcome: dict[str, Any]) -> None:
    assert outcome["in_time"] == [True, True]
    assert outcome["victims_gone"] == [True, True]


def test_seeded_sample_equals_that_in_memory_after_an_executor_was_killed(outcome: dict[str, Any]) -> None:
    assert outcome["seeded_as_in_memory"]
    assert outcome["rows"] > 1000


def test_release_keeps_the_same_rows_after_an_executor_was_killed(outcome: dict[str, Any]) -> None:
    assert outcome["release_as_undisturbed"]
    assert outcome["release_is_not_the_seeded_one"]
    assert outcome["release_rows"] > 1000


def test_the_event_log_holds_plans_and_neither_secret_bits_nor_rows(outcome: dict[str, Any]) -> None:
    assert outcome["events_name_the_plan"]
    assert not outcome["events_hold_the_secret"]
    assert not outcome["events_hold_rows"]
