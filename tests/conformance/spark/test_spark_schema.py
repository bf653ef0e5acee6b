"""Spark frames with a schema: the vectors, the sample and the fit of rows in memory, to the bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pais
from pais import Ball, DataError, UniformRule
from pais._base.randomness import bit_source
from pais.data.sources import source
from tests.conformance.schema_rows import CARRIED, MIDPOINTS, RESOLVED, SCALES, SCHEMA, people
from tests.conformance.spark.spark_rows import every_row, in_order, kept
from tests.conftest import SPARK

pytestmark = SPARK

BALL, RULE = Ball(radius=2.5), UniformRule(rate=0.3)


@pytest.fixture(scope="module")
def stored(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The rows as Parquet and CSV files that Spark reads, and as a frame of other types."""
    from pais.data.engines.spark import read_frame

    home = tmp_path_factory.mktemp("people")
    table = pa.Table.from_pandas(people(), preserve_index=False)
    for name, kind in {"joined": pa.timestamp("us"), "seen": pa.timestamp("us", tz="UTC")}.items():
        table = table.set_column(table.column_names.index(name), name, table.column(name).cast(kind))
    pq.write_table(table, home / "people.parquet")
    people().to_csv(home / "people.csv", index=False)
    frame, text = (read_frame(str(home / f"people.{suffix}")) for suffix in ("parquet", "csv"))
    others = frame.selectExpr(
        *(
            "id",
            "person",
            "cast(age as short) age",
            "cast(income as decimal(20,2)) income",
            "region",
            "cast(size as float) size",
        ),
        *(
            "cast(premium as int) premium",
            "cast(joined as date) joined",
            "seen",
            "cast(visits as string) visits",
            "note",
        ),
    )
    return {
        "Parquet": frame.repartition(5),
        "CSV": text.withColumn("id", text["id"].cast("long")).repartition(3),
        "other types": others.repartition(2),
    }


@pytest.mark.parametrize("kind", ["Parquet", "CSV", "other types"])
@pytest.mark.parametrize("missing", ["drop", "midpoint"])
def test_vectors_are_those_of_rows_in_memory(stored: dict[str, Any], kind: str, missing: Any) -> None:
    schema = SCHEMA if missing == "drop" else MIDPOINTS
    options: dict[str, Any] = {"columns": schema, "key": "id", "missing": missing}
    engine, expected = source(stored[kind], **options), source(people(), **options)
    assert engine.names == schema.labels
    for resolved in (schema, schema.resolved(SCALES)):
        rows, others = every_row(engine.with_schema(resolved)), every_row(expected.with_schema(resolved))
        assert np.array_equal(rows, others)


@pytest.mark.parametrize("kind", ["Parquet", "CSV", "other types"])
def test_sample_and_fit_are_those_of_rows_in_memory(stored: dict[str, Any], kind: str) -> None:
    options: dict[str, Any] = {"columns": RESOLVED, "key": "id", "carry": CARRIED}
    engine, expected = source(stored[kind], **options), source(people(), **options)
    samples = [kept(rows, bit_source(5), RULE, BALL) for rows in (engine, expected)]
    assert np.array_equal(in_order(samples[0]), in_order(samples[1]))
    notes = [sorted(sample.carried.column("note").to_pylist()) for sample in samples if sample.carried is not None]
    assert notes[0] == notes[1]
    fits = [
        pais.fit(rows, pais.KMeansSettings(n_clusters=3, epsilon=3.0), random_state=3) for rows in (engine, expected)
    ]
    assert np.array_equal(fits[0].value.centers, fits[1].value.centers)


def test_rows_that_become_equal_by_clipping_are_drawn_independently(spark: Any) -> None:
    n, rate = 4000, 0.3
    frame = spark.range(n, numPartitions=3).selectExpr("100 + id as age")
    engine = source(frame, columns={"age": (0, 10)})
    sizes = [len(kept(engine, bit_source(seed), UniformRule(rate=rate), Ball(radius=2.0)).rows) for seed in range(3)]
    assert all(abs(size - n * rate) < 5.0 * np.sqrt(n * rate * (1.0 - rate)) for size in sizes)


def test_columns_of_another_kind_are_listed_at_once(spark: Any) -> None:
    frame = spark.range(3).selectExpr("id", "array(id) as v", "date'2020-01-01' as day", "interval 3 day as span")
    with pytest.raises(DataError, match=r"'v' \(type list.*'day' \(type date32.*'span' \(type duration"):
        source(frame, columns={"id": 1, "v": (0, 1), "day": (0, 5), "span": ["a"]})
