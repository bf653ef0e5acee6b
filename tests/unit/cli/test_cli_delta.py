"""Commands choose and certify a default delta, and warn of weak guarantees."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import pais
from pais.cli.app import app
from tests.unit.delta_cases import SURVEYED, certificate, facts, rows

# -- the command line ------------------------------------------------------------------------------------------------


def command(*arguments: object) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def done(*arguments: object) -> Any:
    result = command(*arguments)
    assert result.exit_code == 0, (result.output, result.exception)
    return result


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"a": rows(4000)[:, 0], "b": rows(4000)[:, 1]}), path)
    return path


def test_commands_choose_delta_for_stated_rows(data: Path, tmp_path: Path) -> None:
    book, plan = tmp_path / "book.json", tmp_path / "plan.json"
    done("ledger", book, "--epsilon", 3, "--delta", 2.1e-10)
    wanted = ("--n-clusters", 2, "--epsilon", 1, *facts(1e9))
    done("kmeans", data, *wanted, "--ledger", book, "--out", tmp_path / "a")
    done("plan", *wanted, "--n-features", 2, "--out", plan)
    done("kmeans", data, "--plan", plan, "--ledger", book, "--out", tmp_path / "b")
    for out in ("a", "b"):
        found = certificate(tmp_path / out)
        assert found["delta"] == found["delta_used"] == pytest.approx(1e-10, rel=1e-9)
        assert found["delta_basis"] == "default for the stated number of rows"
    assert pais.Ledger(path=book).spent.delta == pytest.approx(2e-10, rel=1e-9)
    # A third does not fit, and the data are not opened for it.
    assert command("kmeans", "missing", *wanted, "--ledger", book, "--out", tmp_path / "c").exit_code == 3


def test_commands_certify_the_largest_default_for_surveyed_rows(data: Path, tmp_path: Path) -> None:
    book, plan, survey = tmp_path / "book.json", tmp_path / "plan.json", tmp_path / "survey.json"
    done("ledger", book, "--epsilon", 20, "--delta", 3e-6)
    done("survey", data, "--epsilon", 1, "--ledger", book, "--out", survey)
    content = json.loads(survey.read_text())
    # As if very many rows had been surveyed.
    content["norms"]["masses"] = [1e6 * mass for mass in content["norms"]["masses"]]
    survey.write_text(json.dumps(content))
    wanted = ("--n-clusters", 2, "--epsilon", 3)
    done("plan", *wanted, "--survey", survey, "--out", plan)
    for name, options in {"a": (*wanted, "--survey", survey), "b": ("--plan", plan), "c": wanted}.items():
        done("kmeans", data, *options, "--ledger", book, "--out", tmp_path / name)
        found = certificate(tmp_path / name)
        assert found["delta"] == 1e-6
        assert found["delta_basis"] == SURVEYED
        assert (found["delta_used"] < 1e-8) is (name != "c")
        assert "over all tables delta is at most 1e-06" in done("explain", tmp_path / name / "certificate.json").stdout
    assert pais.Ledger(path=book).spent.delta == 3e-6
    assert "over all tables delta is at most 1e-06" in done("explain", plan).stdout
    shown = json.loads(plan.read_text())
    assert shown["delta"] == 1e-6
    assert shown["delta_used"] < 1e-8


def test_commands_warn_about_weak_guarantees_on_stderr(data: Path, tmp_path: Path) -> None:
    survey, plan = tmp_path / "survey.json", tmp_path / "plan.json"
    done("survey", data, "--epsilon", 1, "--out", survey)
    weak = ("--n-clusters", 2, "--epsilon", 20, "--delta", 1e-3)
    done("plan", *weak, *facts(4000), "--n-features", 2, "--out", plan)
    for number, options in enumerate([("--plan", plan), (*weak, *facts(4000)), weak, (*weak, "--survey", survey)]):
        said = done("kmeans", data, *options, "--out", tmp_path / str(number)).stderr
        assert "epsilon=20 is a weak guarantee" in said, options
        assert "delta=0.001 is too large for about" in said, options
    # Each process makes one fit, so there is no warning about a second fit.
    said = done("kmeans", data, "--n-clusters", 2, "--epsilon", 1, "--out", tmp_path / "fine").stderr
    # The two centers may differ in one feature alone, which is another warning.
    assert [line for line in said.splitlines() if "noise drowns" not in line] == []
