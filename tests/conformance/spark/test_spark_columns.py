"""Columns of Spark frames: numbers, vectors, carried columns, missing values."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import pais
from pais import Ball, DataError, UniformRule
from pais._base.randomness import bit_source
from pais.data.sources import source
from tests.conformance.spark.spark_rows import (
    FEATURES,
    D,
    Norms,
    every_row,
    in_memory,
    in_order,
    kept,
    rows,
    table,
)
from tests.conftest import SPARK

pytestmark = SPARK


# -- columns -------------------------------------------------------------------------------------------------


def test_carried_columns_stay_with_their_rows(frame: Any) -> None:
    engine = source(frame, columns=FEATURES, carry=["label", "id", "x.1"])
    found = kept(engine, bit_source(None), UniformRule(rate=0.2), Ball(radius=1e3))
    assert found.carried is not None
    assert found.carried.column_names == ["label", "id", "x.1"]
    places = found.carried.column("id").to_numpy()
    assert found.carried.column("label").to_pylist() == [f"r{place}" for place in places]
    assert np.array_equal(found.rows, rows()[places])
    assert np.array_equal(found.rows[:, 1], found.carried.column("x.1").to_numpy())


def test_all_kinds_of_numbers_are_taken_and_vectors_have_names(spark: Any) -> None:
    from pyspark.ml.linalg import Vectors

    data = [
        (1, 2, 3.5, 4.5, Decimal("5.25"), True, [1.0, 2.0], Vectors.dense([7.0, 8.0, 9.0])),
        (2, 3, 0.5, -4.5, Decimal("-0.25"), False, [3.0, 4.0], Vectors.sparse(3, {1: 5.0})),
    ]
    casts = {"a": "tinyint", "c": "float", "g": "array<int>"}
    kinds = spark.createDataFrame(data, list("abcdefgh"))
    kinds = kinds.selectExpr(
        *[f"cast({name} as {casts[name]}) {name}" if name in casts else name for name in "abcdefgh"]
    )
    engine = source(kinds, carry=["h"], columns=list("abcdefgh"), widths={"g": 2, "h": 3})
    assert engine.names == ("a", "b", "c", "d", "e", "f", "g[0]", "g[1]", "h[0]", "h[1]", "h[2]")
    found = kept(engine, bit_source(None), UniformRule(rate=1.0), Ball(radius=1e3))
    expected = [
        [1, 2, 3.5, 4.5, 5.25, 1, 1, 2, 7, 8, 9],
        [2, 3, 0.5, -4.5, -0.25, 0, 3, 4, 0, 5, 0],
    ]
    order = np.argsort(found.rows[:, 0])
    assert found.rows[order].tolist() == expected
    assert found.carried is not None
    assert found.carried.take(pa.array(order)).column("h").to_pylist() == [[7.0, 8.0, 9.0], [0.0, 5.0, 0.0]]


def test_a_column_of_vectors_alone_draws_the_same_sample_as_in_memory(frame: Any) -> None:
    from pyspark.ml.feature import VectorAssembler

    assembled = VectorAssembler(inputCols=[f"y{j}" for j in range(D)], outputCol="v").transform(
        frame.toDF(*[f"y{j}" for j in range(D)], "label", "id")
    )
    found = kept(source(assembled, columns=["v"], key="id"), bit_source(5))
    assert np.array_equal(in_order(found), in_order(kept(in_memory(), bit_source(5))))


@pytest.mark.parametrize("column", ["label", "day", "parts", "words"])
def test_text_column_of_a_frame_is_refused_by_name(spark: Any, column: str) -> None:
    frame = spark.sql("select 1.0d as x, 'a' as label, current_date() as day, struct(1) as parts, array('b') as words")
    with pytest.raises(DataError, match=rf"column\(s\) '{column}' \(type \w+\) of the source are not numeric"):
        source(frame.select("x", column))


def test_columns_that_do_not_exist_or_are_there_twice_are_refused(spark: Any) -> None:
    twice = spark.sql("select 1.0d as x, 2.0d as x, 3.0d as y, 4.0d as Y")
    with pytest.raises(DataError, match="z do not exist"):
        source(twice, columns=["z"])
    with pytest.raises(DataError, match="x occur more than once in the source"):
        source(twice)
    with pytest.raises(DataError, match="'y' of the source does not hold integers"):
        source(twice, columns=["Y"], key="y")
    found = kept(source(twice, columns=["Y", "y"]), bit_source(None), UniformRule(rate=1.0), Ball(radius=1e3))
    assert found.rows.tolist() == [[4.0, 3.0]]


def test_missing_values_are_dropped_or_an_error_by_column(spark: Any) -> None:
    holes = spark.range(100, numPartitions=2).selectExpr(
        "if(id % 10 = 3, null, id * 1.0d) as x",
        "if(id % 10 = 4, null, array(id * 1.0d, if(id % 10 = 5, null, 1.0d))) as v",
        "id",
    )
    vector = "'v\\[0\\]', 'v\\[1\\]'"
    for columns, names, left in ((["x"], "'x'", 90), (["v"], vector, 80), (["x", "v"], f"'x', {vector}", 70)):
        widths = {"v": 2} if "v" in columns else {}
        with pytest.raises(DataError, match=rf"column\(s\) {names} have values that are missing"):
            source(holes, columns=columns, widths=widths, missing="error")
        engine = source(holes, columns=columns, widths=widths, key="id")
        assert engine.fold(Norms(), seeded=False)[0] == left
        assert len(kept(engine, bit_source(1), UniformRule(rate=1.0), Ball(radius=1e3)).rows) == left
        unkeyed = source(holes, columns=columns, widths=widths)
        assert len(kept(unkeyed, bit_source(1), UniformRule(rate=1.0), Ball(radius=1e3)).rows) == left
    without = spark.sql("select 1.0d as x, cast(null as long) as id")
    with pytest.raises(DataError, match=r"key column 'id' .*missing values"):
        source(without, key="id", missing="error")
    assert len(kept(source(without, key="id"), bit_source(1), UniformRule(rate=1.0), Ball(radius=1e3)).rows) == 0


def test_vectors_without_a_stated_length_are_refused_before_a_row_is_read(spark: Any) -> None:
    from pyspark.ml.linalg import Vectors

    counted = spark.sparkContext.accumulator(0)

    def counting(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            counted.add(batch.num_rows)
            yield batch

    watched = spark.range(10).mapInArrow(counting, "id long").selectExpr("array(id, id) as `v.1`", "id")
    ml = spark.createDataFrame([(Vectors.dense([1.0, 2.0]),)], ["v.1"])
    for frame in (watched, ml, watched.limit(0)):
        with pytest.raises(DataError, match=r"'v\.1' of the source.* length.*widths=\{'v\.1': 3\}"):
            source(frame)
    source(watched, columns=["v.1"], widths={"v.1": 2})
    source(watched, columns=["id"])
    assert counted.value == 0
    assert every_row(source(ml, widths={"v.1": 2})).tolist() == [[1.0, 2.0]]


def test_widths_must_be_lengths_of_vector_features_that_nothing_else_contradicts(spark: Any, frame: Any) -> None:
    from pyspark.ml.feature import VectorAssembler

    plain = frame.toDF(*[f"y{j}" for j in range(D)], "label", "id")
    assembled = VectorAssembler(inputCols=["y0", "y1", "y2"], outputCol="v").transform(plain)
    assert source(assembled, columns=["v"], widths={"v": 3}).n_features == 3
    with pytest.raises(pais.ArgumentError, match=r"widths\['v'\]=4 .* states 3"):
        source(assembled, columns=["v"], widths={"v": 4})
    for name in ("y0", "other"):
        with pytest.raises(pais.ArgumentError, match=rf"'{name}', but .* no such vector feature"):
            source(assembled, columns=["y0", "v"], widths={name: 3})
    for width in (0, -1, 2.5, True, "3"):
        with pytest.raises(pais.ArgumentError, match=r"widths\['v'\]"):
            source(assembled, columns=["v"], widths={"v": width})  # type: ignore[dict-item]
    with pytest.raises(pais.ArgumentError, match="widths"):
        source(table(), columns=FEATURES, widths={"x.0": 1})
