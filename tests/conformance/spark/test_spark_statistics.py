"""Statistics of a Spark frame: the totals of the same rows in memory, to the bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.conformance.schema_rows import people
from tests.conformance.test_statistics import CALLS
from tests.conftest import SPARK

pytestmark = [
    *SPARK,
    pytest.mark.filterwarnings("ignore::pais.errors.SurveyWarning"),
    pytest.mark.filterwarnings("ignore::pais.errors.QualityWarning"),
]


WHAT = [
    *("rows", "mean by group", "histogram", "description", "people"),
    *("totals of people", "rows of people", "number of people"),
    *("mean by ranges and quarters", "count by weeks, of people", "description by ranges"),
]


@pytest.fixture(scope="module")
def frame(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    from pais.data.engines.spark import read_frame

    path = tmp_path_factory.mktemp("people") / "people.parquet"
    table = pa.Table.from_pandas(people(), preserve_index=False)
    for name, kind in {"joined": pa.timestamp("us"), "seen": pa.timestamp("us", tz="UTC")}.items():
        table = table.set_column(table.column_names.index(name), name, table.column(name).cast(kind))
    pq.write_table(table, path)
    return read_frame(str(path)).repartition(3)


@pytest.mark.parametrize("what", WHAT)
def test_totals_of_a_spark_frame_are_those_of_rows_in_memory(what: str, frame: Any) -> None:
    assert np.array_equal(CALLS[what](frame).released, CALLS[what](people()).released)
