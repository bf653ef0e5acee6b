"""Commands, data and outputs for the tests of the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from typer.testing import CliRunner

from pais.cli.app import app

RELEASE = {"centers.parquet", "centers.csv", "certificate.json", "model.json", "report.html"}


def pais(*arguments: object) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def blobs(n: int = 4000) -> np.ndarray:
    rng = np.random.default_rng(3)
    places = rng.normal(size=(3, 2)) * 4.0
    return places[rng.integers(3, size=n)] + rng.normal(size=(n, 2)) * 0.3


def kmeans(data: Path, out: Path, *more: object) -> Any:
    return pais("kmeans", data, "--n-clusters", 3, "--epsilon", 1, "--out", out, *more)


def left_in(place: Path) -> set[str]:
    return {path.name for path in place.iterdir()}


def strict_json(text: str) -> Any:
    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    return json.loads(text, parse_constant=refuse)
