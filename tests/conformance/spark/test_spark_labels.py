"""Labels from Spark: the labels of the same rows in memory, on a lazy frame and from the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pais
from tests.conftest import SPARK
from tests.support.commands import pais as command

pytestmark = SPARK


def table(n: int = 3000) -> pd.DataFrame:
    rng = np.random.default_rng(2)
    frame = pd.DataFrame(rng.normal(size=(n, 2)) * 3, columns=["a.b", "b"])
    frame.loc[[0, 17, n - 1], "b"] = np.nan
    frame["kind"] = rng.choice(["x", "y"], n)
    frame["id"] = np.arange(n)
    return frame


@pytest.mark.parametrize("columns", [["a.b", "b"], {"a.b": (-5, 5), "b": (-5, 5), "kind": ["x", "y"]}])
def test_a_frame_gets_a_column_of_labels(spark: Any, columns: Any) -> None:
    rows = table()
    model = pais.DPKMeans(n_clusters=3, epsilon=5.0, random_state=0, columns=columns).fit(rows)
    frame = spark.createDataFrame(rows).repartition(3)
    labelled = model.predict(frame)
    assert labelled.columns == [*rows.columns, "label"]
    result = labelled.toArrow().to_pandas().sort_values("id")
    assert np.array_equal(result["label"].fillna(-1).to_numpy(), model.predict(rows))
    assert result["kind"].tolist() == rows["kind"].tolist()
    assert set(np.flatnonzero(result["label"].isna())) == {0, 17, 2999}
    with pytest.raises(pais.DataError, match="already"):
        model.predict(labelled)


def test_the_command_line_writes_a_directory(spark: Any, tmp_path: Path) -> None:
    rows = table()
    data, out, to = tmp_path / "rows.parquet", tmp_path / "out", tmp_path / "labels"
    pq.write_table(pa.table(rows), data)
    fit = ("--columns", "a.b,b", "--n-clusters", 3, "--epsilon", 5, "--out", out)
    assert command("kmeans", data, *fit).exit_code == 0
    assert command("label", data, "--model", out, "--to", tmp_path / "one.parquet", "--carry", "id").exit_code == 0
    call = ("label", data, "--model", out, "--to", to, "--carry", "id", "--engine", "spark")
    result = command(*call)
    assert result.exit_code == 0, result.stderr
    assert "NOT PROTECTED" in result.stderr
    one, other = (pq.read_table(path).to_pandas().sort_values("id") for path in (tmp_path / "one.parquet", to))
    assert np.array_equal(one["label"].fillna(-1), other["label"].fillna(-1))
    assert command(*call).exit_code == 2
    assert command(*call, "--overwrite").exit_code == 0
