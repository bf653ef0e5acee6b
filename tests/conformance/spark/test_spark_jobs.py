"""Spark's jobs: a fit has few of them, each of one stage without a shuffle, and asks Spark for the named columns."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from pais import DPKMeans
from pais.data.engines.partition import Reading
from pais.data.sources import source
from tests.conformance.spark.spark_rows import FEATURES
from tests.conftest import SPARK

pytestmark = SPARK

#: Jobs of a fit to which nothing is stated: two of the survey, one of the sample.
MOST_JOBS = 3


def stages_of_jobs(spark: Any, action: Callable[[], object]) -> list[int]:
    """The number of stages of each job of an action. A job without a shuffle has one."""
    context, name = spark.sparkContext, f"test {uuid.uuid4()}"
    context.setJobGroup(name, "jobs are counted")
    try:
        action()
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)
    status = context.statusTracker()
    return [len(status.getJobInfo(job).stageIds) for job in status.getJobIdsForGroup(name)]


@pytest.mark.parametrize("sample_size", [None, 500.0])
def test_a_fit_has_few_jobs_and_none_of_them_shuffles(spark: Any, frame: Any, sample_size: float | None) -> None:
    rows = source(frame.localCheckpoint(), columns=FEATURES)
    model = DPKMeans(n_clusters=3, epsilon=2.0, sample_size=sample_size)
    stages = stages_of_jobs(spark, lambda: model.fit(rows))
    assert 1 <= len(stages) <= MOST_JOBS
    assert set(stages) == {1}


def test_a_fit_with_stated_facts_has_two_jobs(spark: Any, frame: Any) -> None:
    rows = source(frame.localCheckpoint(), columns=FEATURES)
    model = DPKMeans(n_clusters=3, epsilon=2.0, radius=4.0, sample_size=500.0)
    assert stages_of_jobs(spark, lambda: model.fit(rows)) == [1, 1]


def test_a_unit_column_shuffles_once_in_each_job(spark: Any, frame: Any) -> None:
    rows = source(frame.localCheckpoint(), columns=FEATURES, unit="label")
    stages = stages_of_jobs(spark, lambda: DPKMeans(n_clusters=3, epsilon=2.0, sample_size=500.0).fit(rows))
    # Spark runs the stage before a shuffle as a job of its own, and skips it in the job that follows.
    assert 1 <= stages.count(2) <= MOST_JOBS
    assert stages.count(1) == stages.count(2)


def test_the_plan_of_a_pass_reads_the_features_alone_and_has_no_exchange(spark: Any, tmp_path: Any) -> None:
    path = str(tmp_path / "rows")
    spark.range(100).selectExpr("id * 1.0d as x", "id * 2.0d as y", "cast(id as string) as note").write.parquet(path)
    engine = source(spark.read.parquet(path), columns=["x", "y"])
    pass_frame = engine._selected(Reading(layout=engine._layout))  # type: ignore[attr-defined]
    plan = pass_frame._jdf.queryExecution().executedPlan().toString()
    assert "Exchange" not in plan
    assert "ReadSchema: struct<x:double,y:double>" in plan
