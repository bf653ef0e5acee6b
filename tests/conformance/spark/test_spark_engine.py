"""Spark frames: the sample and the survey of rows in memory, whatever the partitions; each verb evaluates once."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import pais
from pais import Ball, CoresetRule, DPKMeans, UniformRule
from pais._base.randomness import StreamBits, bit_source
from pais.data.sources import source
from tests.conformance.spark.spark_rows import FEATURES, RADIUS, Rows, in_memory, in_order, kept
from tests.conftest import SPARK

pytestmark = SPARK


def mixed(frame: Any, partitions: int) -> Any:
    """The same rows in other partitions and another order."""
    from pyspark.sql import functions as F  # noqa: N812

    return frame.orderBy(F.rand(partitions)).repartition(partitions)


# -- the same as in memory -----------------------------------------------------------------------------------


@pytest.mark.parametrize("partitions", [1, 8])
def test_a_seed_and_a_key_draw_the_same_sample_as_in_memory(frame: Any, partitions: int) -> None:
    engine = source(mixed(frame, partitions), columns=FEATURES, key="id")
    assert np.array_equal(in_order(kept(engine, bit_source(5))), in_order(kept(in_memory(), bit_source(5))))


def test_a_seeded_survey_is_the_same_to_the_bit_as_in_memory(frame: Any) -> None:
    engine = source(mixed(frame, 8), columns=FEATURES)
    expected, found = (pais.survey(one, epsilon=1.0, random_state=3) for one in (in_memory(), engine))
    assert found.ball == expected.ball
    assert np.array_equal(found.norms.masses, expected.norms.masses)


def test_without_a_key_a_seed_draws_the_same_sample_from_any_partitions(frame: Any, spark: Any) -> None:
    before = spark.conf.get("spark.sql.shuffle.partitions")
    samples = []
    for partitions in (1, 8):
        spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
        engine = source(mixed(frame, partitions), columns=FEATURES, carry=["label"])
        found = kept(engine, bit_source(5))
        assert found.carried is not None
        samples.append((in_order(found).tolist(), sorted(found.carried.column("label").to_pylist())))
    spark.conf.set("spark.sql.shuffle.partitions", before)
    assert samples[0] == samples[1]
    assert samples[0][0] != in_order(kept(engine, bit_source(6))).tolist()


def test_equal_rows_are_drawn_independently_of_each_other(spark: Any) -> None:
    n, rate = 4000, 0.3
    deviation = math.sqrt(n * rate * (1.0 - rate))
    zeros = spark.range(n, numPartitions=3).selectExpr("1.5d as a", "if(id % 2 = 0, 0.0d, -0.0d) as b")
    sizes = [
        len(kept(source(zeros), bit_source(seed), UniformRule(rate=rate), Ball(radius=RADIUS)).rows)
        for seed in range(4)
    ]
    assert all(abs(size - n * rate) < 5.0 * deviation for size in sizes)
    assert not any(abs(size - n * 1.25 * rate) < 5.0 * deviation for size in sizes)
    assert len(set(sizes)) > 1


# -- a release -----------------------------------------------------------------------------------------------


def test_a_release_draws_at_the_rates_of_the_rule_and_not_at_others(spark: Any) -> None:
    n = 400_000
    halves = spark.range(n, numPartitions=5).selectExpr("if(id % 2 = 0, 1.0d, 3.0d) as x", "id % 2 as half")
    rule = CoresetRule(sample_size=0.3 * n, n_rows=n, mean_square_norm=5.0, radius=RADIUS)
    engine, ball = source(halves, columns=["x"], carry=["half"]), Ball(radius=RADIUS)
    first, second = (kept(engine, bit_source(None), rule, ball) for _ in range(2))
    for sample in (first, second):
        for norm in (1.0, 3.0):
            rate = float(rule.probability(np.array([norm]))[0])
            size = int(np.count_nonzero(sample.rows[:, 0] == norm))
            deviation = math.sqrt(0.5 * n * rate * (1.0 - rate))
            assert abs(size - 0.5 * n * rate) < 5.0 * deviation
            for wrong in (0.95, 1.05):
                assert abs(size - 0.5 * n * rate * wrong) > 5.0 * deviation
    assert first.weights.shape != second.weights.shape or not np.array_equal(first.rows, second.rows)


def test_partitions_of_one_release_do_not_draw_the_same_bits(spark: Any) -> None:
    places = spark.range(4000, numPartitions=2).selectExpr("1.0d as x", "id % 2000 as place", "id div 2000 as part")
    engine = source(places, columns=["x"], carry=["place", "part"])
    found = kept(engine, bit_source(None), UniformRule(rate=0.5), Ball(radius=RADIUS)).carried
    assert found is not None
    place, part = (found.column(name).to_numpy() for name in ("place", "part"))
    both = np.intersect1d(place[part == 0], place[part == 1])
    assert 350 < len(both) < 650  # independent: a quarter of 2000; the same bits: a half


def test_repeated_task_keeps_the_same_rows(spark: Any) -> None:
    def failing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        for number, batch in enumerate(batches):
            if number == 1 and context.attemptNumber() == 0:
                raise OSError("the machine is gone")
            yield batch

    steady = spark.range(20_000, numPartitions=2).selectExpr("id / 20000 as x")
    before = spark.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch")
    samples = [
        kept(source(one), StreamBits(bytes(32)), UniformRule(rate=0.2), Ball(radius=RADIUS)).rows.ravel()
        for one in (steady, steady.mapInArrow(failing, "x double"))
    ]
    assert spark.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch") == before
    assert np.array_equal(np.sort(samples[0]), np.sort(samples[1]))
    assert 3500 < len(samples[0]) < 4500


def test_task_with_rows_in_another_order_keeps_the_same_rows(spark: Any) -> None:
    tries = spark.sparkContext.accumulator(0)

    def shuffling(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        tries.add(1)
        context = TaskContext.get()
        assert context is not None
        met = pa.Table.from_batches(list(batches))
        order = np.random.default_rng().permutation(met.num_rows)  # other bits in every attempt
        yield from met.take(pa.array(order)).to_batches(max_chunksize=700)
        if context.attemptNumber() == 0:
            raise OSError("the machine is gone")

    # Every number occurs twice in its partition, and both partitions have the same ones.
    steady = spark.range(20_000, numPartitions=2).selectExpr("(id % 5000) / 5000 as x", "-0.0d as y")
    shuffled = steady.mapInArrow(shuffling, "x double, y double")
    first, *others = (
        in_order(kept(source(one), StreamBits(bytes(32)), UniformRule(rate=0.2), Ball(radius=RADIUS)))
        for one in (steady, shuffled, shuffled)
    )
    assert 3500 < len(first) < 4500
    assert all(np.array_equal(first, other) for other in others)
    # Only attempts that ended well are counted: the others failed after they had sent everything.
    assert tries.value == 4


@pytest.mark.parametrize("verb", ["fold", "release", "keyed", "numbered"])
def test_each_action_evaluates_the_frame_once(spark: Any, verb: str) -> None:
    counted = spark.sparkContext.accumulator(0)

    def counting(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            counted.add(batch.num_rows)
            yield batch

    watched = spark.range(1000, numPartitions=3).mapInArrow(counting, "id long").selectExpr("id * 1.0d as x", "id")
    engine = source(watched, columns=["x"], key="id" if verb == "keyed" else None)
    assert counted.value == 0
    if verb == "fold":
        assert engine.fold(Rows(), seeded=False)[0] == 1000
    else:
        kept(engine, bit_source(None if verb == "release" else 1), UniformRule(rate=0.5), Ball(radius=RADIUS))
    assert counted.value == 1000


def test_a_seeded_fit_is_not_called_private_and_has_the_centers_of_rows_in_memory(frame: Any) -> None:
    engine = source(mixed(frame, 3), columns=FEATURES, key="id")
    fitted, other = (DPKMeans(n_clusters=3, epsilon=5.0, random_state=7).fit(one) for one in (engine, in_memory()))
    assert "NOT PRIVATE" in fitted.certificate_.note.upper()
    np.testing.assert_allclose(fitted.cluster_centers_, other.cluster_centers_, atol=1e-9)
    assert fitted.score(engine) == pytest.approx(other.score(in_memory()), rel=1e-9)
