"""`pais kmeans --plan`: the plan that was written is the plan that is run, at the price it states."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from pais.cli.app import app


def pais(*arguments: object) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def done(*arguments: object) -> Any:
    result = pais(*arguments)
    assert result.exit_code == 0, (arguments, result.output, result.exception)
    return result


def refused(*arguments: object) -> str:
    result = pais(*arguments)
    assert result.exit_code == 2, (arguments, result.output, result.exception)
    assert result.stderr.startswith("error: ")
    return str(result.stderr)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "rows.parquet"
    rows = np.random.default_rng(3).normal(size=(4000, 2)) + 3.0
    pq.write_table(pa.table({"height": rows[:, 0], "width": rows[:, 1]}), path)
    return path


STATED = ("--radius", 10, "--norms", "0,3,5,10", "--n-rows", 4000, "--n-features", 2)


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "plan.json"
    sampled = ("--sampling", "uniform", "--sample-size", 1500)
    done("plan", "--n-clusters", 3, "--epsilon", 2, "--delta", 1e-7, *STATED, *sampled, "--out", path)
    return path


def certificate(out: Path) -> dict[str, Any]:
    found = json.loads((out / "certificate.json").read_text())
    assert isinstance(found, dict)
    return found


def test_the_plan_of_the_file_is_run(data: Path, plan: Path, tmp_path: Path) -> None:
    content = json.loads(done("kmeans", data, "--plan", plan, "--out", tmp_path / "out", "--json").stdout)
    assert content["expected_rows"] == pytest.approx(1500)
    found, written = certificate(tmp_path / "out"), json.loads(plan.read_text())
    for name in ("epsilon", "delta", "mechanism", "rule", "ball"):
        assert found[name] == (pytest.approx(written[name]) if name == "epsilon" else written[name]), name


def test_a_seeded_plan_releases_what_the_same_options_release(data: Path, plan: Path, tmp_path: Path) -> None:
    options = ("--n-clusters", 3, "--epsilon", 2, "--delta", 1e-7, *STATED[:-2], "--sampling", "uniform")
    done("kmeans", data, "--plan", plan, "--seed", 4, "--out", tmp_path / "a")
    done("kmeans", data, *options, "--sample-size", 1500, "--seed", 4, "--out", tmp_path / "b")
    for name in ("certificate.json", "centers.csv"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


@pytest.mark.parametrize(
    "beside",
    [
        ("--n-clusters", 3),
        ("--epsilon", 2),
        ("--delta", 1e-7),
        ("--radius", 10),
        ("--center", "0,0"),
        ("--norms", "0,3,5,10"),
        ("--n-rows", 4000),
        ("--survey", "survey.json"),
        ("--sampling", "constrained"),
        ("--sample-size", 10),
        ("--mechanism", "gaussian"),
        ("--algorithm", "refined"),
    ],
    ids=lambda beside: beside[0],
)
def test_options_that_the_plan_decides_are_refused(
    beside: tuple[str, object], data: Path, plan: Path, tmp_path: Path
) -> None:
    """Not even with the same value, or that of the default: there is one place that says it."""
    assert beside[0] in refused("kmeans", data, "--plan", plan, *beside, "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_kmeans_without_a_plan_needs_clusters_and_epsilon(data: Path, tmp_path: Path) -> None:
    for given in ((), ("--n-clusters", 3), ("--epsilon", 1)):
        assert "--plan" in refused("kmeans", data, *given, "--out", tmp_path / "out")


def test_a_plan_that_was_edited_is_not_run(data: Path, plan: Path, tmp_path: Path) -> None:
    written = json.loads(plan.read_text())
    edits: list[dict[str, Any]] = [
        {"epsilon": 0.5},
        {"spent": [{"what": "survey", "epsilon": 0.1, "delta": 0.0, "secure_randomness": True}]},
        {"mechanism": {**written["mechanism"], "n_clusters": 4}},
        {"rule": {"rule": "uniform", "probability": 1.0, "radius": "infinity"}},
    ]
    for edit in edits:
        plan.write_text(json.dumps({**written, **edit}))
        assert "cannot be used as a plan" in refused("kmeans", data, "--plan", plan, "--out", tmp_path / "out"), edit


def test_bad_price_is_not_added_up(data: Path, plan: Path, tmp_path: Path) -> None:
    written = json.loads(plan.read_text())
    spent = [{"what": "survey", "epsilon": -1.0, "delta": 0.0, "secure_randomness": True}]
    written["spent"] = spent
    plan.write_text(json.dumps(written))
    assert "epsilon=-1.0 is out of range" in refused("kmeans", data, "--plan", plan, "--out", tmp_path / "out")
    written["spent"] = [{**spent[0], "epsilon": 0.1}] * 2
    plan.write_text(json.dumps(written))
    assert "Plan again" in refused("kmeans", data, "--plan", plan, "--out", tmp_path / "out")


def test_plan_whose_survey_lost_its_name_is_not_run(data: Path, tmp_path: Path) -> None:
    survey, plan = tmp_path / "survey.json", tmp_path / "plan.json"
    done("survey", data, "--epsilon", 0.25, "--out", survey)
    done("plan", "--survey", survey, "--n-clusters", 3, "--epsilon", 1, "--out", plan)
    written = json.loads(plan.read_text())
    for part in written["spent"]:
        del part["release"], part["secure_randomness"]
    plan.write_text(json.dumps(written))
    assert "without a name" in refused("kmeans", data, "--plan", plan, "--out", tmp_path / "out")


def test_a_survey_behind_a_plan_is_counted_and_its_columns_are_kept(data: Path, tmp_path: Path) -> None:
    survey, plan, book = (tmp_path / name for name in ("survey.json", "plan.json", "book.json"))
    done("survey", data, "--epsilon", 0.25, "--out", survey)
    done("plan", "--survey", survey, "--n-clusters", 3, "--epsilon", 1, "--out", plan)
    done("ledger", book, "--epsilon", 2, "--delta", 1e-5)
    fit = ("kmeans", data, "--plan", plan)
    done(*fit, "--ledger", book, "--out", tmp_path / "a")
    parts = {part["what"]: part["epsilon"] for part in certificate(tmp_path / "a")["parts"]}
    assert parts == pytest.approx({"survey": 0.25, "k-means": 0.75})
    # The survey was not charged when it was made; once it is, it is not charged again.
    assert json.loads(done("ledger", book, "--json").stdout)["spent"]["epsilon"] == pytest.approx(1.0)
    done(*fit, "--ledger", book, "--out", tmp_path / "b")
    assert json.loads(done("ledger", book, "--json").stdout)["spent"]["epsilon"] == pytest.approx(1.75)
    assert pais(*fit, "--ledger", book, "--out", tmp_path / "c").exit_code == 3
    for command in (fit, ("sample", data, "--plan", plan)):
        assert "plan again: height, width." in refused(*command, "--columns", "width,height", "--out", tmp_path / "d")


def test_plan_from_a_seeded_survey_needs_a_seed(data: Path, tmp_path: Path) -> None:
    survey, plan = tmp_path / "survey.json", tmp_path / "plan.json"
    done("survey", data, "--epsilon", 0.25, "--seed", 1, "--out", survey)
    done("plan", "--survey", survey, "--n-clusters", 3, "--epsilon", 1, "--out", plan)
    assert "not private" in refused("kmeans", data, "--plan", plan, "--out", tmp_path / "out")
    done("kmeans", data, "--plan", plan, "--seed", 1, "--out", tmp_path / "out")
    assert certificate(tmp_path / "out")["secure_randomness"] is False


def test_a_plan_for_another_number_of_columns_is_refused(data: Path, plan: Path, tmp_path: Path) -> None:
    found = refused("kmeans", data, "--plan", plan, "--columns", "height", "--out", tmp_path / "out")
    assert "2 features" in found
