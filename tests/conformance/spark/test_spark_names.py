"""Groups that nobody listed, from Spark: the names and values of the same rows in memory."""

from __future__ import annotations

from typing import Any

import pytest

import pais
from tests.conformance.test_found_categories import MODELS, STATISTICS
from tests.conformance.test_names import CALLS, rows, same
from tests.conftest import SPARK

pytestmark = [*SPARK, pytest.mark.filterwarnings("ignore")]


@pytest.mark.parametrize("what", CALLS)
def test_names_from_spark_are_those_of_memory(what: str, spark: Any) -> None:
    frame = spark.createDataFrame(rows().to_pandas()).repartition(3)
    assert same(CALLS[what](frame), CALLS[what](rows()))


@pytest.mark.parametrize("unit", [None, "person"])
@pytest.mark.parametrize("what", ["linear", "PCA", "mean", "median"])
def test_categories_and_values_from_spark_are_those_of_memory(what: str, unit: str | None, spark: Any) -> None:
    frame = spark.createDataFrame(rows().to_pandas()).repartition(3)
    more: dict[str, Any] = {"epsilon": 2.0, "unit": unit, "random_state": 1}
    if what in MODELS:
        more["sampling"] = "none"
    columns = {"age": (0, 90), "ward": "auto" if what != "median" else pais.names()}
    call = (MODELS | STATISTICS)[what]
    found, expected = call(frame, columns, **more), call(rows(), columns, **more)
    assert found.certificate.values_sha256 == expected.certificate.values_sha256
    assert found.plan.schema == expected.plan.schema
    assert len(found.plan.schema["ward"].values) > 3
