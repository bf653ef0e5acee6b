"""Replay of calls on Spark frames, whose coins follow from the content of a row or from the id of a person."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conftest import SPARK
from tests.support.replay_cases import STORES, Case, arrow, plain

pytestmark = SPARK

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
