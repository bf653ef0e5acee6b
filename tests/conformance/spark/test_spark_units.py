"""Units in Spark: the same sums, samples and fits as in memory, whatever the partitions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import functions

import pais
from pais import Ball, DPKMeans, UniformRule
from pais.data.engines import spark as spark_actions
from pais.data.engines.base import Engine
from pais.data.engines.spark import read_frame
from pais.planning.norm_survey import _NormCounts
from tests.conformance.test_units import FEATURES, FRAME, N_PEOPLE, RADIUS, TEXT, csv, drawn, parquet, usable
from tests.conftest import SPARK

pytestmark = SPARK

NUMBERS = FRAME.assign(who=FRAME["who"].fillna(-1.0).astype("int64"))
NAMED = NUMBERS[NUMBERS["who"] >= 0]


def as_frame(spark: Any, frame: pd.DataFrame, *, partitions: int = 4) -> Any:
    table = pa.Table.from_pandas(frame, preserve_index=False)
    return spark.createDataFrame(table).repartition(partitions)


def opened(data: Any, **options: Any) -> Engine:
    return pais.source(data, **{"columns": FEATURES, "unit": "who", **options})


@pytest.mark.parametrize(
    "frame",
    [FRAME, TEXT, NAMED, TEXT.assign(who=[who.encode() or None for who in TEXT["who"]])],
    ids=["floats", "text", "integers", "bytes"],
)
def test_seeded_samples_are_those_of_memory(spark: Any, frame: pd.DataFrame) -> None:
    one = drawn(opened(as_frame(spark, frame, partitions=5)))
    other = drawn(opened(pa.Table.from_pandas(frame)))
    assert len(one[0]) > 100
    np.testing.assert_array_equal(one[0], other[0])
    np.testing.assert_array_equal(one[1], other[1])


def test_histograms_of_masses_are_those_of_memory(spark: Any) -> None:
    fold = _NormCounts(ball=Ball(radius=9.0))
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "37")
    try:
        counts = opened(as_frame(spark, FRAME)).fold(fold, seeded=True)
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    np.testing.assert_array_equal(counts, opened(FRAME).fold(fold, seeded=True))


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_seeded_fits_are_those_of_memory(spark: Any, kind: str, tmp_path: Path) -> None:
    home = (parquet if kind == "parquet" else csv)(tmp_path / "rows", FRAME, files=3)
    data = read_frame(f"{home}/*.{kind}")
    settings: dict[str, Any] = {"n_clusters": 3, "epsilon": 2.0, "random_state": 1}
    model, expected = DPKMeans(**settings).fit(opened(data)), DPKMeans(**settings).fit(opened(FRAME))
    np.testing.assert_array_equal(model.cluster_centers_, expected.cluster_centers_)
    assert model.certificate_.unit == {"column": "who", "max_rows": None}


@pytest.mark.parametrize("seed", [None, 3])
def test_units_are_kept_as_a_whole_with_their_carried_columns(spark: Any, seed: int | None) -> None:
    engine = opened(as_frame(spark, FRAME), carry=("note", "who"))
    kept = pais.sample(engine, ball=Ball(radius=RADIUS), rule=UniformRule(rate=0.4), random_state=seed).spend("a test")
    assert kept.carried is not None
    sample = kept.carried.to_pandas().assign(weight=kept.weights)
    rows = usable(FRAME)
    assert set(sample["note"]) == set(rows[rows["who"].isin(sample["who"])]["note"])
    assert 0 < sample["who"].nunique() < N_PEOPLE
    sizes = sample.groupby("who")["weight"].agg(["size", "max"])
    np.testing.assert_allclose(sizes["max"] * sizes["size"], 1.0 / 0.4, rtol=1e-5)


def test_text_that_names_one_unit_comes_to_one_worker(spark: Any) -> None:
    names = [" 7", "7", "7.0", "\t7 ", "7"] * 8 + ["NA", "", " ", None, "8"]
    frame = pd.DataFrame({"x": np.arange(len(names), dtype=float), "who": names})
    kept = pais.sample(
        opened(as_frame(spark, frame, partitions=6), columns=("x",)), ball=Ball(radius=1e3), rule=UniformRule(rate=1.0)
    ).spend("a test")
    assert sorted(np.round(1.0 / kept.weights).astype(int).tolist()) == [1] + [40] * 40


def test_other_types_are_refused(spark: Any) -> None:
    frame = as_frame(spark, FRAME.assign(who=FRAME["x"] > 0.0))
    with pytest.raises(pais.DataError, match="neither integers nor text"):
        opened(frame)
    with pytest.raises(pais.ArgumentError, match="is the unit and a feature"):
        opened(as_frame(spark, FRAME), columns=("x", "who"))
    with pytest.raises(pais.DataError, match="whom"):
        opened(as_frame(spark, FRAME), unit="whom")


def masses_by_person(frame: Any) -> dict[str, float]:
    engine = opened(frame, columns=("x",), carry=("person",))
    kept = pais.sample(engine, ball=Ball(radius=1.0), rule=UniformRule(rate=1.0)).spend("a test")
    assert kept.carried is not None
    sums = kept.carried.to_pandas().assign(weight=kept.weights).groupby("person")["weight"].sum()
    return {person: round(mass, 5) for person, mass in sums.items()}


def test_a_collation_does_not_join_people(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under it, "abc" and "ABC" are equal, so their rows would be mixed and counted in each batch anew."""
    monkeypatch.setattr(spark_actions, "_BATCH_ROWS", 8)
    names = ["abc", "ABC"] * 32
    frame = as_frame(spark, pd.DataFrame({"x": 0.5, "who": names, "person": names}))
    for collation in ("UTF8_BINARY", "UTF8_LCASE", "UNICODE_CI", "UTF8_BINARY_RTRIM"):
        collated = frame.withColumn("who", functions.collate("who", collation))
        assert masses_by_person(collated) == {"ABC": 1.0, "abc": 1.0}


@pytest.mark.parametrize("kind", ["bigint", "decimal(38,0)"])
def test_large_ids_stay_different(spark: Any, kind: str) -> None:
    large = 10**17
    rows = pd.DataFrame({"x": 0.5, "who": [large + 1] * 9 + [large + 2], "person": ["a"] * 9 + ["b"]})
    frame = as_frame(spark, rows)
    assert masses_by_person(frame.withColumn("who", frame["who"].cast(kind))) == {"a": 1.0, "b": 1.0}


def test_decimals_with_a_scale_are_refused(spark: Any) -> None:
    frame = as_frame(spark, NAMED)
    with pytest.raises(pais.DataError, match="neither integers nor text"):
        opened(frame.withColumn("who", frame["who"].cast("decimal(18,2)")))


def test_floats_that_have_lost_digits_are_missing_ids_and_other_floats_are_as_in_memory(spark: Any) -> None:
    numbers = [1e17, 2.0**53, -(2.0**53), 2.0**53 - 1, 2.5, 2.5, 1e-7, 3.0]
    rows = pd.DataFrame({"x": np.linspace(0.0, 1.0, 8), "who": numbers})
    as_text = rows.assign(who=list(map(str, numbers)))
    expected = drawn(opened(rows, columns=("x",)), rate=0.7)
    assert 0 < len(expected[0]) < 5
    for frame in (rows, as_text):
        for one, other in zip(drawn(opened(as_frame(spark, frame), columns=("x",)), rate=0.7), expected, strict=True):
            np.testing.assert_array_equal(one, other)


def test_a_unit_is_refused_for_a_frame_that_is_open_already(spark: Any) -> None:
    rows = pais.source(as_frame(spark, FRAME), columns=FEATURES)
    with pytest.raises(pais.ArgumentError, match="unit cannot be stated"):
        pais.source(rows, unit="who")
