"""Spark's jobs: a fit has few of them, each of one stage without a shuffle, and asks Spark for the named columns."""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pais import Ball, CoresetRule, DPKMeans
from pais._base.randomness import bit_source
from pais.data.engines.base import WeightedRows
from pais.data.engines.partition import Reading
from pais.data.sources import source
from tests.conformance.spark.spark_rows import FEATURES, RADIUS, D, N, Rows, in_memory, kept
from tests.conftest import SPARK

pytestmark = SPARK

#: Jobs of a fit to which nothing is stated: two of the survey, the second of which collects candidates for the sample.
JOBS = 2


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
def test_a_fit_has_two_jobs_and_none_of_them_shuffles(spark: Any, frame: Any, sample_size: float | None) -> None:
    rows = source(frame.localCheckpoint(), columns=FEATURES)
    model = DPKMeans(n_clusters=3, epsilon=2.0, sample_size=sample_size)
    assert stages_of_jobs(spark, lambda: model.fit(rows)) == [1] * JOBS


def test_a_table_too_large_for_candidates_has_one_job_more(
    spark: Any, frame: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pais.data.engines.partition.MOST_NUMBERS", N * D // 256 - 1)
    rows = source(frame.localCheckpoint(), columns=FEATURES)
    model = DPKMeans(n_clusters=3, epsilon=2.0, sample_size=500.0)
    assert stages_of_jobs(spark, lambda: model.fit(rows)) == [1] * (JOBS + 1)


def test_a_seeded_fit_collects_no_candidates_and_has_the_sample_of_rows_in_memory(spark: Any, frame: Any) -> None:
    rows = source(frame.localCheckpoint(), columns=FEATURES, key="id")
    model = DPKMeans(n_clusters=3, epsilon=5.0, random_state=7)
    assert stages_of_jobs(spark, lambda: model.fit(rows)) == [1] * (JOBS + 1)
    other = DPKMeans(n_clusters=3, epsilon=5.0, random_state=7).fit(in_memory())
    np.testing.assert_allclose(model.cluster_centers_, other.cluster_centers_, atol=1e-9)


def test_candidates_give_a_sample_at_the_rates_of_the_rule(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    n = 200_000
    monkeypatch.setattr("pais.data.engines.partition.MOST_NUMBERS", n // 4)
    halves = spark.range(n, numPartitions=5).selectExpr("if(id % 2 = 0, 1.0d, 3.0d) as x")
    rule = CoresetRule(sample_size=0.1 * n, n_rows=n, mean_square_norm=5.0, radius=RADIUS)
    ball = Ball(radius=RADIUS)
    engine = source(halves).collecting(None)
    assert engine.fold_and_collect(Rows(), seeded=False).tolist() == [n]
    assert engine.fold_again(Rows(), seeded=False).tolist() == [n]
    samples: list[WeightedRows] = []
    assert stages_of_jobs(spark, lambda: samples.append(kept(engine, bit_source(None), rule, ball))) == []
    # Candidates are used once: the next sample reads the rows.
    assert stages_of_jobs(spark, lambda: samples.append(kept(engine, bit_source(None), rule, ball))) == [1]
    for sample in samples:
        for norm in (1.0, 3.0):
            rate = float(rule.probability(np.array([norm]))[0])
            size = int(np.count_nonzero(sample.rows[:, 0] == norm))
            assert abs(size - 0.5 * n * rate) < 5.0 * math.sqrt(0.5 * n * rate * (1.0 - rate))
    assert samples[0].weights.shape != samples[1].weights.shape


def test_a_unit_column_shuffles_once_in_each_job(spark: Any, frame: Any) -> None:
    rows = source(frame.localCheckpoint(), columns=FEATURES, unit="label")
    stages = stages_of_jobs(spark, lambda: DPKMeans(n_clusters=3, epsilon=2.0, sample_size=500.0).fit(rows))
    # Spark runs the stage before a shuffle as a separate job, and skips it in the job that follows.
    assert stages.count(2) == JOBS + 1
    assert stages.count(1) == stages.count(2)


def test_the_plan_of_a_pass_reads_the_features_alone_and_has_no_exchange(spark: Any, tmp_path: Any) -> None:
    path = str(tmp_path / "rows")
    spark.range(100).selectExpr("id * 1.0d as x", "id * 2.0d as y", "cast(id as string) as note").write.parquet(path)
    engine = source(spark.read.parquet(path), columns=["x", "y"])
    pass_frame = engine._selected(Reading(layout=engine._layout))  # type: ignore[attr-defined]
    plan = pass_frame._jdf.queryExecution().executedPlan().toString()
    assert "Exchange" not in plan
    assert "ReadSchema: struct<x:double,y:double>" in plan
