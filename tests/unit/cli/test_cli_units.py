"""`--unit` and `--max-rows-per-unit` on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from tests.unit.cli.commands import pais


@pytest.fixture
def people(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    who = rng.integers(0, 400, 2400)
    frame = pd.DataFrame(rng.normal(size=(2400, 2)), columns=["x", "y"]).assign(who=[f"p{number}" for number in who])
    frame.to_csv(tmp_path / "people.csv", index=False)
    frame.to_parquet(tmp_path / "people.parquet")
    return tmp_path / "people.parquet"


def done(*arguments: object) -> Any:
    result = pais(*arguments)
    assert result.exit_code == 0, (result.output, result.stderr)
    return result


def test_kmeans_protects_the_unit_and_says_so(people: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = done("kmeans", people, "--n-clusters", 2, "--epsilon", 1, "--unit", "who", "--out", out)
    assert "one who added or removed" in result.stdout
    assert "people kept" in result.stdout
    content = json.loads((out / "certificate.json").read_text())
    assert content["unit"] == {"column": "who", "max_rows": None}
    assert "one who" in done("explain", out / "certificate.json").stdout
    assert "who" not in pq.read_table(out / "centers.parquet").column_names


def test_csv_and_parquet_give_the_same_seeded_centers(people: Path, tmp_path: Path) -> None:
    centers = []
    for data in (people, tmp_path / "people.csv"):
        out = tmp_path / data.suffix
        done("kmeans", data, "--n-clusters", 2, "--epsilon", 1, "--unit", "who", "--seed", 1, "--out", out)
        centers.append((out / "centers.csv").read_text())
    assert centers[0] == centers[1]


def test_survey_plan_kmeans_and_sample_go_together(people: Path, tmp_path: Path) -> None:
    survey, plan = tmp_path / "survey.json", tmp_path / "plan.json"
    unit = ("--unit", "who", "--max-rows-per-unit", 3)
    result = done("survey", people, "--epsilon", 0.5, *unit, "--out", survey)
    assert "one who added or removed" in result.stdout
    assert "counting at most 3 of each who" in result.stdout
    assert "every person's budget" in result.stdout
    assert "one who" in done("explain", survey).stdout
    done("plan", "--survey", survey, "--n-clusters", 2, "--epsilon", 1, "--out", plan)
    assert json.loads(plan.read_text())["unit"] == {"column": "who", "max_rows": 3}
    text = done("explain", plan).stdout
    assert "people are expected to be kept" in text
    done("kmeans", people, "--plan", plan, *unit, "--out", tmp_path / "out")
    sample = tmp_path / "sample.parquet"
    result = done("sample", people, "--plan", plan, *unit, "--carry", "who", "--out", sample)
    assert "people expected" in result.stdout
    kept, rows = pq.read_table(sample).to_pandas(), pd.read_parquet(people)
    assert kept.groupby("who").size().equals(rows[rows["who"].isin(kept["who"])].groupby("who").size())


@pytest.mark.parametrize("command", ["kmeans", "sample"])
def test_rows_with_another_unit_than_the_plan_are_refused(command: str, people: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    facts = ("--radius", 4, "--norms", "0,1,4", "--n-rows", 400, "--n-features", 2)
    done("plan", *facts, "--n-clusters", 2, "--epsilon", 1, "--unit", "who", "--out", plan)
    assert json.loads(plan.read_text())["neighbours"] == "one who added or removed"
    result = pais(command, people, "--columns", "x,y", "--plan", plan, "--out", tmp_path / "out")
    assert result.exit_code != 0
    assert "Open the source with the unit of the plan" in result.stderr
    done(command, people, "--columns", "x,y", "--unit", "who", "--plan", plan, "--out", tmp_path / "again")


def test_ledger_of_people_refuses_rows(people: Path, tmp_path: Path) -> None:
    book = tmp_path / "book.json"
    done("ledger", book, "--epsilon", 5)
    done("survey", people, "--epsilon", 0.5, "--unit", "who", "--ledger", book)
    result = pais("survey", people, "--columns", "x,y", "--epsilon", 0.5, "--ledger", book)
    assert result.exit_code != 0
    assert "do not add up" in result.stderr
    assert len(json.loads(book.read_text())["entries"]) == 1


def test_limit_without_a_unit_is_refused(people: Path, tmp_path: Path) -> None:
    result = pais("survey", people, "--columns", "x,y", "--epsilon", 1, "--max-rows-per-unit", 3)
    assert result.exit_code != 0
    assert "without a unit" in result.stderr
