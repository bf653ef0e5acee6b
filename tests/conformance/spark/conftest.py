"""Fixtures shared by the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.conformance.spark import spark_rows


@pytest.fixture(scope="module", autouse=True)
def sent_whole(spark: Any, request: pytest.FixtureRequest) -> Iterator[None]:
    """Workers do not know these modules, so what they define goes to them as it is."""
    from pyspark import cloudpickle

    for module in (spark_rows, request.module):
        cloudpickle.register_pickle_by_value(module)
    yield
    for module in (spark_rows, request.module):
        cloudpickle.unregister_pickle_by_value(module)


@pytest.fixture(scope="module")
def frame(spark: Any) -> Any:
    return spark.createDataFrame(spark_rows.table()).repartition(4)
