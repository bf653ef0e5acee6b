"""Principal components of Spark frames: those of the same rows in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pais import DPPCA
from tests.conformance.test_units import FEATURES, FRAME
from tests.conftest import SPARK

pytestmark = SPARK


@pytest.mark.parametrize("sampling", ["constrained", "none"])
@pytest.mark.parametrize("unit", [None, "who"], ids=["rows", "units"])
def test_seeded_components_are_those_of_memory(spark: Any, sampling: str, unit: str | None) -> None:
    table = pa.Table.from_pandas(FRAME, preserve_index=False)
    settings: dict[str, Any] = {"epsilon": 2.0, "columns": FEATURES, "unit": unit, "sampling": sampling}
    expected = DPPCA(random_state=1, **settings).fit(table)
    for partitions in (1, 4):
        model = DPPCA(random_state=1, **settings).fit(spark.createDataFrame(table).repartition(partitions))
        np.testing.assert_array_equal(model.components_, expected.components_)
        np.testing.assert_array_equal(model.explained_variance_, expected.explained_variance_)
