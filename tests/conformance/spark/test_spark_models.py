"""Models and statistics of Spark frames: those of the same rows in memory, and within their price."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pais
from tests.conformance.schema_rows import people
from tests.conformance.test_statistics import CALLS
from tests.conformance.test_units import FEATURES, FRAME
from tests.conftest import SPARK
from tests.support.replay_cases import STORES, Case, arrow, plain

pytestmark = SPARK


@pytest.mark.parametrize("sampling", ["constrained", "none"])
@pytest.mark.parametrize("unit", [None, "who"], ids=["rows", "units"])
def test_seeded_components_do_not_depend_on_the_partitions(spark: Any, sampling: str, unit: str | None) -> None:
    table = pa.Table.from_pandas(FRAME, preserve_index=False)
    settings: dict[str, Any] = {"epsilon": 2.0, "columns": FEATURES, "unit": unit, "sampling": sampling}
    frames = [spark.createDataFrame(table).repartition(partitions) for partitions in (1, 4)]
    if unit is not None or sampling == "none":
        # Seeded draws of single rows depend on their position in memory, and on their content in Spark.
        frames.append(table)
    first, *others = [pais.DPPCA(random_state=1, **settings).fit(frame) for frame in frames]
    for other in others:
        np.testing.assert_array_equal(other.components_, first.components_)
        np.testing.assert_array_equal(other.explained_variance_, first.explained_variance_)


WHAT = [
    *("count", "mean by group", "histogram", "description", "people", "totals of people", "number of people"),
    *("mean by ranges and quarters", "count by weeks, of people"),
]


@pytest.fixture(scope="module")
def people_frame(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    from pais.data.engines.spark import read_frame

    path = tmp_path_factory.mktemp("people") / "people.parquet"
    table = pa.Table.from_pandas(people(), preserve_index=False)
    for name, kind in {"joined": pa.timestamp("us"), "seen": pa.timestamp("us", tz="UTC")}.items():
        table = table.set_column(table.column_names.index(name), name, table.column(name).cast(kind))
    pq.write_table(table, path)
    return read_frame(str(path)).repartition(3)


@pytest.mark.filterwarnings("ignore::pais.errors.SurveyWarning", "ignore::pais.errors.QualityWarning")
@pytest.mark.parametrize("what", WHAT)
def test_totals_of_a_spark_frame_are_those_of_rows_in_memory(what: str, people_frame: Any) -> None:
    assert np.array_equal(CALLS[what](people_frame).released, CALLS[what](people()).released)


CASES = [
    plain("mean", "NaN", by="categories", store="Spark", place="start"),
    plain("count people", "all groups", by="months", store="Spark", place="middle"),
    plain("sum", "fifty rows of any kind", columns="auto", unit="person", store="Spark", place="start"),
    plain("kmeans gaussian", "far", sampling="uniform", store="Spark", place="middle"),
    plain("linear", "huge", epsilon=10.0, unit="person", sampling="coreset", store="Spark", place="start"),
    plain("run sum gaussian", "far", sampling="constrained", store="Spark", place="start"),
    plain("run keyed mean", "duplicate", sampling="uniform", store="Spark", place="middle"),
]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_record_of_a_spark_frame_moves_totals_by_no_more_than_was_paid(
    case: Case, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    frames: dict[int, Any] = {}

    def frame(rows: Any, home: Any) -> Any:
        if len(rows) not in frames:
            frames[len(rows)] = spark.createDataFrame(arrow(rows, home)).repartition(3)
        return frames[len(rows)]

    monkeypatch.setitem(STORES, "Spark", frame)
    report = case.replayed(seeds=(0,), pushes=(3.0,))
    assert not report.differences, str(report)
    assert report.used <= 1.0 + 1e-9
    assert report.draws > 0
