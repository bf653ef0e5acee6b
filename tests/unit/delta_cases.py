"""Rows, facts and certificates for the tests of delta."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

SURVEYED = "default for the surveyed number of rows; over all tables delta is at most 1e-06"


def rows(n: int = 600, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, 2))


def facts(n_rows: float) -> tuple[object, ...]:
    return "--radius", 4, "--norms", "0,1,2,4", "--n-rows", n_rows


def certificate(out: Path) -> dict[str, Any]:
    return dict(json.loads((out / "certificate.json").read_text()))
