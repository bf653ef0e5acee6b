"""Commands refuse files with an invalid price, and charge nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import pais
from pais.cli.app import app


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "rows.parquet"
    rows = np.random.default_rng(3).normal(size=(4000, 2)) + 3.0
    pq.write_table(pa.table({"height": rows[:, 0], "width": rows[:, 1]}), path)
    return path


def command(*arguments: object) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def done(*arguments: object) -> None:
    result = command(*arguments)
    assert result.exit_code == 0, result.output


BAD_TEXTS = ["-0.999", "NaN", "Infinity", "-Infinity", "1e999", "-1e999", "1e7", '"0.1"', "true", "null", "[0.1]", "{}"]


@pytest.mark.parametrize("bad", [*BAD_TEXTS, "0", "-0.0", "1" + "0" * 400])
def test_survey_file_with_a_bad_price_is_refused_and_nothing_is_charged(bad: str, data: Path, tmp_path: Path) -> None:
    path, book, out = tmp_path / "survey.json", tmp_path / "book.json", tmp_path / "out"
    done("survey", data, "--epsilon", 0.25, "--out", path)
    done("ledger", book, "--epsilon", 5, "--delta", 1e-5)
    written = path.read_text()
    assert written.count('"epsilon": 0.25') == 1
    path.write_text(written.replace('"epsilon": 0.25', f'"epsilon": {bad}'))
    given = ("--survey", path, "--n-clusters", 3, "--epsilon", 1)
    missing = tmp_path / "there-is-no-such-file.parquet"
    for arguments in (("plan", *given), ("kmeans", missing, *given, "--ledger", book, "--out", out)):
        result = command(*arguments)
        assert result.exit_code == 2, (arguments, result.output)
        # The file is named, and not the data: it was refused before these were opened.
        assert str(path) in result.stderr
    assert pais.Ledger(path=book).entries == ()
    assert not out.exists()


@pytest.mark.parametrize("field", ["epsilon", "delta"])
@pytest.mark.parametrize("bad", BAD_TEXTS)
def test_plan_file_with_a_bad_price_is_refused_and_nothing_is_charged(
    field: str, bad: str, data: Path, tmp_path: Path
) -> None:
    survey, path, book, out = (tmp_path / name for name in ("survey.json", "plan.json", "book.json", "out"))
    done("survey", data, "--epsilon", 0.25, "--out", survey)
    done("plan", "--survey", survey, "--n-clusters", 3, "--epsilon", 1, "--out", path)
    done("ledger", book, "--epsilon", 5, "--delta", 1e-5)
    written = json.loads(path.read_text())
    written["spent"][0][field] = "BAD"
    path.write_text(json.dumps(written).replace('"BAD"', bad))
    missing = tmp_path / "there-is-no-such-file.parquet"
    for arguments in (("kmeans", missing, "--plan", path, "--ledger", book), ("sample", missing, "--plan", path)):
        result = command(*arguments, "--out", out)
        assert result.exit_code == 2, (arguments, result.output)
        assert str(path) in result.stderr
    assert pais.Ledger(path=book).entries == ()
    assert not out.exists()


@pytest.mark.parametrize("place", ["epsilon", "delta"])
@pytest.mark.parametrize("bad", BAD_TEXTS)
def test_plan_file_with_a_bad_target_is_refused(place: str, bad: str, data: Path, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    stated = ("--radius", 10, "--norms", "0,3,5,10", "--n-rows", 4000, "--n-features", 2)
    done("plan", "--n-clusters", 3, "--epsilon", 2, "--delta", 1e-7, *stated, "--out", path)
    written = json.loads(path.read_text())
    written[place] = "BAD"
    path.write_text(json.dumps(written).replace('"BAD"', bad))
    assert command("kmeans", data, "--plan", path, "--out", tmp_path / "out").exit_code == 2
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("change", [{"secure_randomness": "yes"}, {"secure_randomness": 1}, {"above_noise": None}])
def test_survey_file_flags_must_be_booleans(change: dict[str, Any], data: Path, tmp_path: Path) -> None:
    path = tmp_path / "survey.json"
    done("survey", data, "--epsilon", 0.25, "--out", path)
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    result = command("plan", "--survey", path, "--n-clusters", 3, "--epsilon", 1)
    assert result.exit_code == 2
    assert "must be True or False" in result.stderr


@pytest.mark.parametrize("bad", [-0.5, True, "1"], ids=repr)
def test_certificate_with_a_bad_price_is_not_explained(bad: Any, data: Path, tmp_path: Path) -> None:
    done("kmeans", data, "--n-clusters", 3, "--epsilon", 1, "--out", tmp_path / "out")
    path = tmp_path / "out" / "certificate.json"
    written = json.loads(path.read_text())
    done("explain", path)
    written["parts"].append({"what": "a refund", "epsilon": bad, "delta": 0.0})
    written["epsilon"] += float(bad)
    path.write_text(json.dumps(written))
    assert command("explain", path).exit_code == 2
