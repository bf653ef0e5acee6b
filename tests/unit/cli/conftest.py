"""Fixtures shared by the tests of this folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.commands import done, write_blobs


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_blobs(tmp_path / "rows.parquet")


@pytest.fixture
def surveyed(data: Path, tmp_path: Path) -> Path:
    path = tmp_path / "survey.json"
    done("survey", data, "--epsilon", 0.1, "--out", path)
    return path


@pytest.fixture
def book(tmp_path: Path) -> Path:
    path = tmp_path / "budget.json"
    done("ledger", path, "--epsilon", 2, "--delta", 1e-5)
    return path
