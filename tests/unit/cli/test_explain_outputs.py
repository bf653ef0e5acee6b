"""`pais explain` on every file that the commands write."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.unit.cli.commands import RELEASE, kmeans, pais, strict_json


@pytest.fixture
def outputs(data: Path, surveyed: Path, tmp_path: Path) -> dict[str, Path]:
    assert kmeans(data, tmp_path / "out").exit_code == 0
    plan, ledger, sample = tmp_path / "plan.json", tmp_path / "budget.json", tmp_path / "sample.parquet"
    assert pais("plan", "--survey", surveyed, "--n-clusters", 3, "--epsilon", 1, "--out", plan).exit_code == 0
    assert pais("ledger", ledger, "--epsilon", 3).exit_code == 0
    assert pais("sample", data, "--plan", plan, "--out", sample).exit_code == 0
    labels = tmp_path / "labels.parquet"
    assert pais("label", data, "--model", tmp_path / "out", "--to", labels).exit_code == 0
    files = {name: tmp_path / "out" / name for name in RELEASE}
    return {**files, "plan": plan, "ledger": ledger, "sample": sample, "labels": labels, "survey": surveyed}


def test_every_output_is_explained(outputs: dict[str, Path]) -> None:
    expected = {
        "certificate.json": "This is the certificate",
        "centers.csv": "height, width",
        "centers.parquet": "released cluster centers",
        "report.html": "This is the report",
        "plan": "This is a plan",
        "survey": "This is a survey",
        "ledger": "Remaining: epsilon 3",
        "sample": "NOT PROTECTED",
        "labels": "NOT PROTECTED",
        "model.json": "3 centers of 2 feature(s)",
    }
    for name, words in expected.items():
        result = pais("explain", outputs[name])
        assert result.exit_code == 0, result.stderr
        assert words in result.stdout
        content = strict_json(pais("explain", outputs[name], "--json").stdout)
        assert content["explanation"] == result.stdout.rstrip("\n").split("\n")
        assert set(content) == {"kind", "epsilon", "delta", "secure_randomness", "explanation"}


def test_centers_name_the_command_that_checks_them(outputs: dict[str, Path]) -> None:
    assert "--values centers.csv" in pais("explain", outputs["centers.csv"]).stdout


def test_a_statistic_is_explained_if_no_certificate_can_have_its_name(tmp_path: Path) -> None:
    table = tmp_path / ("a" * 250 + ".csv")
    table.write_text("value,standard_error,low,high\n1,1,0,2\n")
    result = pais("explain", table)
    assert result.exit_code == 0, result.stderr
    assert "This is a released statistic" in result.stdout


def test_other_files_are_refused(data: Path, tmp_path: Path) -> None:
    page, table = tmp_path / "page.html", tmp_path / "table.csv"
    page.write_text("<!DOCTYPE html><title>Other</title>")
    table.write_text("a,b\n1,2\n")
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"PAR1 and nothing else")
    for path in (data, page, table, broken, tmp_path, tmp_path / "missing.json"):
        result = pais("explain", path)
        assert result.exit_code == 2, path
        assert result.stderr.startswith("error: ")


def test_explaining_a_table_quotes_no_cell(tmp_path: Path) -> None:
    path = tmp_path / "sample.parquet"
    pq.write_table(pa.table({"a": [123456.5], "weight": [1.0]}), path)
    assert "123456" not in pais("explain", path).output
