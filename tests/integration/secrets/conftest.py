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

from pais.data.engines.base import WeightedRows
from pais.kmeans import rounds as residual
from pais.kmeans.rounds import ResidualSample, RowGrid
from pais.pipeline import WeightedSample
from tests.integration.secrets.planted import Secrets, frame

Floats = NDArray[np.float64]


@pytest.fixture
def secrets(monkeypatch: pytest.MonkeyPatch) -> Secrets:
    """Secrets, to which every sample and every round of k-means adds its true sizes, distances and sums."""
    known = Secrets()
    begin, assign, prepare = WeightedSample.__init__, RowGrid.assign, ResidualSample.__init__
    total = RowGrid.total
    unit: dict[str, float] = {}

    def drawn(self: WeightedSample, content: WeightedRows, **rest: Any) -> None:
        known.add(sample=content.weights.size, weighted=content.weights.sum())
        known.samples.append(content.weights.size)
        begin(self, content, **rest)

    def assigned(self: RowGrid, centers: Floats, rows: slice) -> Any:
        label, square = assign(self, centers, rows)
        known.add(counts=np.bincount(label))
        known.rounds += 1
        return label, square

    def prepared(self: ResidualSample, *arguments: Any, **rest: Any) -> None:
        prepare(self, *arguments, **rest)
        unit["weight"] = self._weight_lattice.step
        unit["row"] = self._weight_lattice.step / self._grid.per_unit

    def added(*arguments: Any) -> Any:
        """Totals without noise: weights and distances in steps of a weight, sums in steps of a weighted row."""
        steps = total(*arguments)
        known.add(weighted=steps)
        known.add(weighted=steps * unit["weight"])
        known.add(weighted=steps * unit["row"])
        return steps

    monkeypatch.setattr(WeightedSample, "__init__", drawn)
    monkeypatch.setattr(RowGrid, "assign", assigned)
    monkeypatch.setattr(ResidualSample, "__init__", prepared)
    monkeypatch.setattr(RowGrid, "total", added)
    # Noisy counts in steps of 2**-10 would now and then equal one of the many true counts by chance.
    steps_of = residual.Steps.of
    monkeypatch.setattr(
        residual.Steps, "of", lambda *sizes, **stated: steps_of(*sizes, **{**stated, "weight_bits": 24})
    )
    monkeypatch.setattr(residual, "_NOISE_BITS", 44)
    monkeypatch.setattr(residual, "_JOINT_NOISE_BITS", 44)
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
