"""Commands, data and outputs for the tests of the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from typer.testing import CliRunner

import pais as package
from pais.cli.app import app

RELEASE = {"centers.parquet", "centers.csv", "certificate.json", "model.json", "report.html"}

#: Public facts about the rows of `blobs`, from which a k-means can be planned.
STATED = ("--radius", 10, "--norms", "0,3,5,10", "--n-rows", 4000)


#: Facts about the columns of people, as an option and in Python.
FACTS = "age=18:100,region=[north|south],premium=bool,joined=2015-01-01:2025-12-31,visits=0:20"
SCHEMA = package.Schema.of(
    {
        "age": (18, 100),
        "region": ["north", "south"],
        "premium": bool,
        "joined": ("2015-01-01", "2025-12-31"),
        "visits": (0, 20),
    }
)


def pais(*arguments: object) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def done(*arguments: object) -> Any:
    """The result of a command that succeeds."""
    result = pais(*arguments)
    assert result.exit_code == 0, (arguments, result.output, result.exception)
    return result


def refused(*arguments: object, code: int = 2) -> str:
    """What a command that fails says: one line, and nothing on stdout."""
    result = pais(*arguments)
    assert result.exit_code == code, (arguments, result.output, result.exception)
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    return " ".join(result.stderr.split())


def kmeans(data: Path, out: Path, *more: object) -> Any:
    return pais("kmeans", data, "--n-clusters", 3, "--epsilon", 1, "--out", out, *more)


def blobs(n: int = 4000) -> np.ndarray:
    rng = np.random.default_rng(3)
    places = rng.normal(size=(3, 2)) * 4.0
    return places[rng.integers(3, size=n)] + rng.normal(size=(n, 2)) * 0.3


def write_blobs(path: Path, n: int = 4000) -> Path:
    rows = blobs(n)
    pq.write_table(pa.table({"height": rows[:, 0], "width": rows[:, 1]}), path)
    return path


def left_in(place: Path) -> set[str]:
    return {path.name for path in place.iterdir()}


def strict_json(text: str) -> Any:
    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    return json.loads(text, parse_constant=refuse)


def certificate(out: Path) -> dict[str, Any]:
    return dict(strict_json((out / "certificate.json").read_text()))


def spent(book: Path) -> float:
    return package.Ledger(path=book).spent.epsilon
