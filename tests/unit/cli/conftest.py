"""Fixtures shared by the tests of this folder."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.unit.cli.commands import blobs, pais


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "rows.parquet"
    rows = blobs()
    pq.write_table(pa.table({"height": rows[:, 0], "width": rows[:, 1]}), path)
    return path


@pytest.fixture
def surveyed(data: Path, tmp_path: Path) -> Path:
    path = tmp_path / "survey.json"
    assert pais("survey", data, "--epsilon", 0.1, "--out", path).exit_code == 0
    return path
