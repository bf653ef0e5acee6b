"""`pais explain` on every file that the commands write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import RELEASE, done, kmeans, pais, refused, strict_json


@pytest.fixture
def outputs(data: Path, surveyed: Path, tmp_path: Path) -> dict[str, Path]:
    assert kmeans(data, tmp_path / "out", "--seed", 1).exit_code == 0
    others = {"plan": "plan.json", "ledger": "budget.json", "sample": "sample.parquet", "labels": "labels.parquet"}
    paths = {name: tmp_path / file for name, file in others.items()}
    done("plan", "--survey", surveyed, "--n-clusters", 3, "--epsilon", 1, "--out", paths["plan"])
    done("ledger", paths["ledger"], "--epsilon", 3)
    done("sample", data, "--plan", paths["plan"], "--out", paths["sample"])
    done("label", data, "--model", tmp_path / "out", "--to", paths["labels"])
    return {**{name: tmp_path / "out" / name for name in RELEASE}, **paths, "survey": surveyed}


def test_every_output_is_explained(outputs: dict[str, Path]) -> None:
    # Words, kind, epsilon, delta and whether the randomness was secure.
    expected: dict[str, tuple[str, str, Any, Any, Any]] = {
        "certificate.json": ("e^epsilon = 2.719", "certificate", 1.0, 1e-6, False),
        "plan": ("This is a plan", "plan", 0.9, 1e-6, None),
        "survey": ("This is a survey", "survey", 0.1, 0.0, True),
        "ledger": ("Remaining: epsilon 3", "ledger", 3.0, 1e-5, None),
        "centers.csv": ("height, width", "centers", None, None, None),
        "centers.parquet": ("--values centers.parquet", "centers", None, None, None),
        "report.html": ("This is the report", "report", None, None, None),
        "sample": ("NOT PROTECTED", "sample", None, None, None),
        "labels": ("NOT PROTECTED", "labels", None, None, None),
        "model.json": ("3 centers of 2 feature(s)", "model", None, None, None),
    }
    for name, (words, kind, epsilon, delta, secure) in expected.items():
        text = done("explain", outputs[name]).stdout
        assert words in text
        assert strict_json(done("explain", outputs[name], "--json").stdout) == {
            "kind": kind,
            "epsilon": epsilon if epsilon is None else pytest.approx(epsilon),
            "delta": delta,
            "secure_randomness": secure,
            "explanation": text.rstrip("\n").split("\n"),
        }
    assert "a person with k rows" in done("explain", outputs["certificate.json"].parent).stdout


@pytest.mark.parametrize("text", ["{}", "[1]", "not json", '{"parts": 3}', '{"kind": "plan"}'])
def test_other_json_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text(text)
    refused("explain", tmp_path / "bad.json")
    refused("explain", "--json", tmp_path / "bad.json")


def test_other_files_are_refused(data: Path, tmp_path: Path) -> None:
    page, table, broken = tmp_path / "page.html", tmp_path / "table.csv", tmp_path / "broken.parquet"
    page.write_text("<!DOCTYPE html><title>Other</title>")
    table.write_text("a,b\n1,2\n")
    broken.write_bytes(b"PAR1 and nothing else")
    for path in (data, page, table, broken, tmp_path, tmp_path / "missing.json"):
        refused("explain", path)


def test_a_statistic_is_explained_if_no_certificate_can_have_its_name(tmp_path: Path) -> None:
    table = tmp_path / ("a" * 250 + ".csv")
    table.write_text("value,standard_error,low,high\n1,1,0,2\n")
    result = pais("explain", table)
    assert result.exit_code == 0, result.stderr
    assert "This is a released statistic" in result.stdout
