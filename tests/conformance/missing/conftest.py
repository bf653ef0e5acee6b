"""Fixtures shared by the tests of this folder."""

from __future__ import annotations

import pytest

from pais.data.engines import files, streams, streams as batch_engine


@pytest.fixture(autouse=True, params=[64, 1 << 17], ids=["small batches", "large batches"])
def batches(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_BATCH_ROWS", request.param)
    monkeypatch.setattr(files, "_CSV_BLOCK_BYTES", 80 * request.param)
    for module in (streams, batch_engine):
        monkeypatch.setattr(module, "BATCH_ROWS", request.param)
