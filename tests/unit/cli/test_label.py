"""`pais label`: labels of rows from a release, streamed, marked as not protected."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pais.cli.files import read_model
from tests.support.commands import blobs, kmeans, pais, refused, strict_json


@pytest.fixture
def people(tmp_path: Path) -> Path:
    rows = blobs(4000)
    rows[[3, 3999], 1] = np.nan
    names = [f"person {number}" for number in range(len(rows))]
    path = tmp_path / "people.parquet"
    pq.write_table(pa.table({"id": names, "height": rows[:, 0], "width": rows[:, 1]}), path, row_group_size=700)
    return path


@pytest.fixture
def release(people: Path, tmp_path: Path) -> Path:
    assert kmeans(people, tmp_path / "out", "--columns", "height,width").exit_code == 0
    return tmp_path / "out"


def label(data: Path, model: Path, to: Path, *more: object) -> Any:
    return pais("label", data, "--model", model, "--to", to, *more)


def expected(people: Path, release: Path) -> np.ndarray:
    table, centers = pq.read_table(people), pq.read_table(release / "centers.parquet")
    rows, points = (np.column_stack([part["height"], part["width"]]) for part in (table, centers))
    gaps = np.square(rows[:, None] - points).sum(axis=2)
    return np.where(np.isnan(rows).any(axis=1), -1, gaps.argmin(axis=1))


@pytest.mark.parametrize("engine", ["auto", "memory"])
def test_labels_are_in_the_order_of_the_rows(people: Path, release: Path, tmp_path: Path, engine: str) -> None:
    to = tmp_path / "labels.parquet"
    result = label(people, release, to, "--carry", "id", "--engine", engine)
    assert result.exit_code == 0, result.stderr
    table = pq.read_table(to)
    assert table.column_names == ["id", "label"]
    assert table["id"].to_pylist() == pq.read_table(people)["id"].to_pylist()
    assert np.array_equal(table["label"].fill_null(-1).to_numpy(), expected(people, release))
    assert table["label"].null_count == 2


def test_labels_are_marked_as_not_protected(people: Path, release: Path, tmp_path: Path) -> None:
    to = tmp_path / "labels.parquet"
    result = label(people, release, to)
    assert result.stderr.startswith("warning: NOT PROTECTED")
    assert b"not protected" in pq.read_schema(to).metadata[b"pais"]
    assert stat.S_IMODE(to.stat().st_mode) == 0o600
    assert pq.read_table(to).column_names == ["label"]
    again = label(people, release, to, "--json", "--overwrite")
    assert strict_json(again.stdout)["labels"] == str(to)
    assert "NOT PROTECTED" in label(people, release, to, "--quiet", "--overwrite").stderr


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--carry", "nobody"), "do not exist"),
        (("--carry", "label"), "column of the labels"),
        (("--to", "labels.csv"), ".parquet"),
    ],
)
def test_wrong_options_are_refused(
    people: Path, release: Path, tmp_path: Path, more: tuple[str, str], words: str
) -> None:
    assert words in refused("label", people, "--model", release, "--to", tmp_path / "labels.parquet", *more)


def test_a_directory_without_a_model_is_refused(people: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    result = label(people, tmp_path / "empty", tmp_path / "labels.parquet")
    assert result.exit_code == 2
    assert "model.json" in result.stderr
    (tmp_path / "empty" / "model.json").write_text(json.dumps({"kind": "plan"}))
    assert label(people, tmp_path / "empty", tmp_path / "labels.parquet").exit_code == 2


def test_csv_files_with_semicolons_are_labelled(people: Path, release: Path, tmp_path: Path) -> None:
    table = pq.read_table(people).to_pandas()
    table.to_csv(tmp_path / "people.csv", sep=";", decimal=",", index=False)
    to = tmp_path / "labels.parquet"
    assert label(tmp_path / "people.csv", release, to, "--decimal", ",", "--carry", "id").exit_code == 0
    labels = pq.read_table(to)
    assert labels["id"].to_pylist() == table["id"].tolist()
    assert np.array_equal(labels["label"].fill_null(-1).to_numpy(), expected(people, release))


def test_the_model_holds_released_values_only(release: Path) -> None:
    content = strict_json((release / "model.json").read_text())
    assert set(content) == {"kind", "format", "columns", "schema", "fills_missing", "centers"}
    assert content["columns"] == ["height", "width"]
    centers = pq.read_table(release / "centers.parquet")
    assert np.array_equal(content["centers"], np.column_stack([centers["height"], centers["width"]]))
    assert read_model(release).centers.shape == (3, 2)
