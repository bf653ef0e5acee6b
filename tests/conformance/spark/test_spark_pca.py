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
def test_seeded_components_do_not_depend_on_the_partitions(spark: Any, sampling: str, unit: str | None) -> None:
    table = pa.Table.from_pandas(FRAME, preserve_index=False)
    settings: dict[str, Any] = {"epsilon": 2.0, "columns": FEATURES, "unit": unit, "sampling": sampling}
    frames = [spark.createDataFrame(table).repartition(partitions) for partitions in (1, 4)]
    if unit is not None or sampling == "none":
        # Seeded draws of single rows depend on their position in memory, and on their content in Spark.
        frames.append(table)
    first, *others = [DPPCA(random_state=1, **settings).fit(frame) for frame in frames]
    for other in others:
        np.testing.assert_array_equal(other.components_, first.components_)
        np.testing.assert_array_equal(other.explained_variance_, first.explained_variance_)
