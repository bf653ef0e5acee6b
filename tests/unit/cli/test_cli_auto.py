"""`--n-clusters auto`: the number of clusters is chosen from released values."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.unit.cli.commands import blobs, pais


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path, rows = tmp_path / "rows.parquet", blobs(20_000)
    pq.write_table(pa.table({"height": rows[:, 0], "width": rows[:, 1]}), path)
    return path


def test_auto_chooses_the_number_of_clusters(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    auto = ("--n-clusters", "auto", "--max-clusters", 8, "--epsilon", 1, "--seed", 1)
    result = pais("kmeans", data, *auto, "--out", out)
    assert result.exit_code == 0, result.output
    assert pq.read_table(out / "centers.parquet").num_rows == 3
    explained = pais("explain", out / "certificate.json", "--values", out / "centers.csv")
    assert explained.exit_code == 0, explained.output
    assert "up to 8 clusters" in explained.output


def test_a_plan_leaves_the_number_open(data: Path, tmp_path: Path) -> None:
    plan, out = tmp_path / "plan.json", tmp_path / "out"
    facts = ("--radius", 20, "--norms", "0,5,10,20", "--n-rows", 20_000, "--n-features", 2)
    result = pais("plan", "--n-clusters", "auto", "--epsilon", 1, *facts, "--out", plan)
    assert result.exit_code == 0, result.output
    assert "up to 20 centers" in result.output
    result = pais("kmeans", data, "--plan", plan, "--seed", 1, "--out", out)
    assert result.exit_code == 0, result.output
    assert np.isfinite(pq.read_table(out / "centers.parquet")["height"].to_numpy()).all()


def test_other_words_are_refused(data: Path, tmp_path: Path) -> None:
    result = pais("kmeans", data, "--n-clusters", "some", "--epsilon", 1, "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert "auto" in result.stderr
    assert "integer" in result.stderr
