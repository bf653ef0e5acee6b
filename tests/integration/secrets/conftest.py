"""Fixtures shared by the tests of this folder."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from pais.data.engines import WeightedRows
from pais.mechanisms.kmeans.lloyd import LloydSample
from pais.sampler import WeightedSample
from tests.integration.secrets.planted import Secrets, frame

Floats = NDArray[np.float64]


@pytest.fixture
def secrets(monkeypatch: pytest.MonkeyPatch) -> Secrets:
    """Secrets, to which every sample and every round of k-means adds its true sizes."""
    known = Secrets()
    begin, assign = WeightedSample.__init__, LloydSample._assign

    def drawn(self: WeightedSample, content: WeightedRows, **rest: Any) -> None:
        known.add(sample=content.weights.size, weighted=content.weights.sum())
        known.samples.append(content.weights.size)
        begin(self, content, **rest)

    def assigned(self: LloydSample, centers: Floats) -> Any:
        label = assign(self, centers)
        known.add(counts=np.bincount(label), weighted=np.bincount(label, self._content.weights))
        return label

    monkeypatch.setattr(WeightedSample, "__init__", drawn)
    monkeypatch.setattr(LloydSample, "_assign", assigned)
    return known


@pytest.fixture(autouse=True)
def _everything_is_logged(caplog: pytest.LogCaptureFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    caplog.set_level(logging.DEBUG)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "given" / "rows.parquet"
    path.parent.mkdir()
    pq.write_table(pa.Table.from_pandas(frame(), preserve_index=False), path)
    return path
