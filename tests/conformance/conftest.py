"""Fixtures shared by the tests of this folder."""

from __future__ import annotations

import pytest

from pais.data.engines import files, streams


@pytest.fixture(params=[64, 1 << 17], ids=["small batches", "large batches"])
def batches(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Engines read batches of so many rows."""
    monkeypatch.setattr(files, "_BATCH_ROWS", request.param)
    monkeypatch.setattr(files, "_CSV_BLOCK_BYTES", 80 * request.param)
    monkeypatch.setattr(streams, "BATCH_ROWS", request.param)
