"""Fixtures shared by the tests of this folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import pais


@pytest.fixture(params=["memory", "file"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., pais.Ledger]:
    def made(**budget: float) -> pais.Ledger:
        return pais.Ledger(path=None if request.param == "memory" else tmp_path / "budget.json", **budget)

    return made
