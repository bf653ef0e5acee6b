"""Groups that nobody listed, from Spark: the names and values of the same rows in memory."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.test_names import CALLS, rows, same
from tests.conftest import SPARK

pytestmark = [*SPARK, pytest.mark.filterwarnings("ignore")]


@pytest.mark.parametrize("what", CALLS)
def test_names_from_spark_are_those_of_memory(what: str, spark: Any) -> None:
    frame = spark.createDataFrame(rows().to_pandas()).repartition(3)
    assert same(CALLS[what](frame), CALLS[what](rows()))
