"""`predict` on files and Spark frames: the labels of the same rows in memory, in their order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as pa_dataset
import pyarrow.parquet as pq
import pytest

import pais
from pais.data.engines import files
from pais.kmeans.labels import CenterModel


def table(n: int = 5000) -> pd.DataFrame:
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(4, 3))[rng.integers(4, size=n)] * 5 + rng.normal(size=(n, 3))
    frame = pd.DataFrame(rows, columns=["a", "b", "c"])
    frame.loc[[0, 17, n - 1], "b"] = np.nan
    frame.loc[5, "c"] = np.inf
    frame["name"] = [f"row {i}" for i in range(n)]
    return frame


FRAME = table()
FEATURES = ["a", "b", "c"]
BAD = [0, 5, 17, len(FRAME) - 1]


@pytest.fixture(scope="module")
def model() -> pais.DPKMeans:
    return pais.DPKMeans(n_clusters=4, epsilon=2.0, random_state=0).fit(FRAME[FEATURES])


def in_files(home: Path, kind: str) -> Path:
    for number, start in enumerate(range(0, len(FRAME), 1700)):
        part = FRAME.iloc[start : start + 1700]
        if kind == "csv":
            part.to_csv(home / f"part-{number}.csv", index=False)
        else:
            pq.write_table(pa.table(part), home / f"part-{number}.parquet", row_group_size=300)
    return home


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_files_have_the_labels_of_rows_in_memory(
    model: pais.DPKMeans, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_CSV_BLOCK_BYTES", 1 << 14)
    expected = model.predict(FRAME[FEATURES])
    assert np.flatnonzero(expected == -1).tolist() == BAD
    home = in_files(tmp_path, kind)
    # Other columns, here a name, are not read.
    labels = model.predict(home)
    assert labels.dtype == np.intp
    assert np.array_equal(labels, expected)
    assert np.array_equal(model.predict(pais.source(home, columns=FEATURES)), expected)
    if kind == "parquet":
        assert np.array_equal(model.predict(pa_dataset.dataset(home)), expected)


def test_a_model_of_an_array_labels_files_with_as_many_columns(tmp_path: Path) -> None:
    model = pais.DPKMeans(n_clusters=4, epsilon=2.0, random_state=0).fit(FRAME[FEATURES].to_numpy())
    pq.write_table(pa.table(FRAME[FEATURES]), tmp_path / "rows.parquet")
    labels = model.predict(tmp_path / "rows.parquet")
    assert np.array_equal(labels, model.predict(FRAME[FEATURES].to_numpy()))
    pq.write_table(pa.table(FRAME[["a", "b"]]), tmp_path / "narrow.parquet")
    with pytest.raises(pais.DataError, match="2 feature"):
        model.predict(tmp_path / "narrow.parquet")


def test_files_without_a_column_of_the_model_are_refused(model: pais.DPKMeans, tmp_path: Path) -> None:
    pq.write_table(pa.table(FRAME[["a", "b"]]), tmp_path / "narrow.parquet")
    with pytest.raises(pais.DataError, match="c do not exist"):
        model.predict(tmp_path / "narrow.parquet")


def test_no_rows_have_no_labels(model: pais.DPKMeans, tmp_path: Path) -> None:
    pq.write_table(pa.table(FRAME).slice(0, 0), tmp_path / "empty.parquet")
    assert model.predict(tmp_path / "empty.parquet").shape == (0,)
    assert model.predict(pais.source(np.empty((0, 3)))).shape == (0,)


def test_columns_of_vectors_are_found_again(tmp_path: Path) -> None:
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(FRAME[FEATURES].to_numpy().ravel()), 3)
    pq.write_table(pa.table({"v": vectors, "name": FRAME["name"]}), tmp_path / "rows.parquet")
    rows = pais.source(tmp_path / "rows.parquet", columns=["v"])
    model = pais.DPKMeans(n_clusters=4, epsilon=2.0, random_state=0).fit(rows)
    assert model.feature_names_in_.tolist() == ["v[0]", "v[1]", "v[2]"]
    labels = model.predict(tmp_path / "rows.parquet")
    assert np.array_equal(labels, model.predict(rows))
    assert np.flatnonzero(labels == -1).tolist() == BAD


@pytest.mark.parametrize("schema", [None, pais.Schema.of({"a": (-9, 9), "b": (-9, 9), "c": (-9, 9)})])
def test_a_model_in_a_file_gives_the_same_labels(schema: Any, tmp_path: Path) -> None:
    path = in_files(tmp_path, "parquet")
    centers = np.array([[-0.5, 0.1, 0.2], [0.3, 0.3, -0.3]])
    one = CenterModel(centers=centers, columns=("a", "b", "c"), schema=schema)
    other = CenterModel.from_dict(one.to_dict())
    labels = one.labels(path)
    assert np.array_equal(labels, other.labels(FRAME))
    rows = FRAME[FEATURES].to_numpy()
    rows = rows if schema is None else rows.clip(-9, 9) / 9
    gaps = np.square(rows[:, None] - centers)
    good = np.isfinite(FRAME[FEATURES].to_numpy()).all(axis=1)
    assert np.array_equal(labels[good], gaps.sum(axis=2).argmin(axis=1)[good])
    assert (labels[~good] == -1).all()
