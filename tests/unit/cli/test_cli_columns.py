"""The option --columns: names, facts about columns, and files with such facts."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

import pais as package
from pais import ArgumentError, Plan, Schema, Survey
from pais.accounting.certificate import Certificate
from pais.cli.rows import columns_of
from tests.conformance.schema_rows import people
from tests.unit.cli.commands import pais

FACTS = "age=18:100,region=[north|south],premium=bool,joined=2015-01-01:2025-12-31,visits=0:20"
SCHEMA = Schema.of(
    {
        "age": (18, 100),
        "region": ["north", "south"],
        "premium": bool,
        "joined": ("2015-01-01", "2025-12-31"),
        "visits": (0, 20),
    }
)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    people().to_csv(tmp_path / "people.csv", index=False)
    return tmp_path / "people.csv"


def test_facts_on_the_command_line() -> None:
    assert columns_of(FACTS) == SCHEMA
    assert columns_of(" age = 18 : 100 , visits = /10 ") == Schema.of({"age": (18, 100), "visits": 10})
    assert columns_of("a=-5:5.5,b=1e-3:1e3,c=10,d=auto") == Schema.of(
        {"a": (-5, 5.5), "b": (1e-3, 1e3), "c": 10, "d": "auto"}
    )
    assert columns_of("size=[1|2|3],town=[Bath, Somerset|York]") == Schema.of(
        {"size": [1, 2, 3], "town": ["Bath, Somerset", "York"]}
    )


def test_ranges_and_periods_on_the_command_line(tmp_path: Path) -> None:
    stated = {
        "age": package.ranges(0, 18, 65.5, math.inf),
        "joined": package.months("2024-01-01", "2024-12-31"),
        "seen": package.weeks("2024-01-01", "2024-02-01"),
        "codes": ["10", "20", "30"],
    }
    text = "age=ranges(0, 18,65.5,inf),joined=months(2024-01-01,2024-12-31),seen=weeks( 2024-01-01 , 2024-02-01 )"
    assert columns_of(text + ",codes=['10'|'20'|'30']", "--by") == Schema.of(stated)
    lines = text.replace("=", ": ").replace("),", ")\n") + "\ncodes: {values: [10, 20, 30]}"
    (tmp_path / "columns.yaml").write_text(lines)
    assert columns_of(str(tmp_path / "columns.yaml")) == Schema.of(stated)


def test_names_alone() -> None:
    assert columns_of("age, income") == ("age", "income")
    assert columns_of(None) is None


YAML = """
# public facts
age: 18:45
region: [north, south]
answer: [yes, no]
premium: bool
joined: 2015-01-01:2025-12-31
seen: {low: 2020-01-01T10:30:00, high: 2024-01-01}
size: {values: [1, 2]}
visits: 10
income: auto
"""


def test_facts_in_a_file(tmp_path: Path) -> None:
    stated: dict[str, Any] = {
        "age": (18, 45),
        "region": ["north", "south"],
        "answer": ["yes", "no"],
        "premium": bool,
        "joined": ("2015-01-01", "2025-12-31"),
        "seen": ("2020-01-01T10:30:00", "2024-01-01"),
        "size": [1, 2],
        "visits": 10,
        "income": "auto",
    }
    (tmp_path / "columns.yaml").write_text(YAML)
    assert columns_of(str(tmp_path / "columns.yaml")) == Schema.of(stated)
    content = {
        **stated,
        "age": "18:45",
        "premium": "bool",
        "joined": "2015-01-01:2025-12-31",
        "seen": {"low": "2020-01-01T10:30:00", "high": "2024-01-01"},
        "size": {"values": [1, 2]},
    }
    (tmp_path / "columns.json").write_text(json.dumps(content))
    assert columns_of(str(tmp_path / "columns.json")) == Schema.of(stated)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("age=18:100,income", "states nothing about 'income'"),
        ("age=18:100:200", "not understood"),
        ("age=old", "not understood"),
        ("age=", "not understood"),
        ("age=100:18", "low < high"),
        ("age=1:2,age=3:4", "twice"),
        ("=1:2", "named by text"),
        ("region=[]", "cannot be used"),
        ("missing.yaml", "cannot be read"),
        ("age=[0|20|40]", r"Write age=ranges\(0,20,40\) for ranges, or age=\['0'\|'20'\|'40'\] for exact values"),
        ("age=ranges(0,old)", "not understood"),
        ("age=ranges()", "not understood"),
        ("age=ranges(20,0)", "ascending order"),
        ("age=months(2024-01-01)", "Write the first and the last date"),
        ("age=months(2024-01-01,soon)", "not a date"),
        ("age=decades(1,2)", "not understood"),
        (",", "names no column"),
    ],
)
def test_facts_that_are_refused(text: str, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        columns_of(text)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("c.yaml", "- age", "not a YAML mapping"),
        ("c.yaml", "age: [1", "not a YAML mapping"),
        ("c.yaml", "age: [18, 100]", "could be bounds or categories"),
        ("c.yaml", "age: {least: 1}", "keys that are not understood"),
        ("c.yaml", "age: [0, 20, 40]", r"Write ranges\(0, 20, 40\) for ranges, or {values"),
        ("c.json", '{"age": [0, 20.5, 40]}', r"Write ranges\(0, 20.5, 40\) for ranges"),
        ("c.json", "[1]", "not a JSON object"),
        ("c.json", '{"age": [18, 100]}', "could be bounds or categories"),
        ("c.json", '{"age": null}', "not understood"),
    ],
)
def test_files_that_are_refused(name: str, text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ArgumentError, match=message):
        columns_of(str(tmp_path / name))


def run(table: Path, out: Path, *more: object) -> None:
    result = pais("kmeans", table, "--n-clusters", 3, "--epsilon", 3, "--out", out, "--seed", 1, *more)
    assert result.exit_code == 0, result.output


def test_kmeans_writes_centers_in_own_units(table: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(table, out, "--columns", FACTS)
    centers = pq.read_table(out / "centers.parquet")
    assert centers.column_names == [*SCHEMA.labels, "noisy_count"]
    assert all(18 <= age <= 100 for age in centers.column("age").to_pylist())
    assert pa.types.is_timestamp(centers.schema.field("joined").type)
    assert pa_csv.read_csv(out / "centers.csv").column_names == centers.column_names
    assert Certificate.load(out / "certificate.json").schema == SCHEMA.to_dict()
    model = json.loads((out / "model.json").read_text())
    assert Schema.from_dict(model["schema"]) == SCHEMA
    for name in ("centers.csv", "centers.parquet"):
        assert pais("explain", out / "certificate.json", "--values", out / name).exit_code == 0
    assert "model" in pais("explain", out / "model.json").output
    text = (out / "centers.csv").read_text()
    (out / "centers.csv").write_text(text.replace("1", "2", 1))
    assert "different centers" in pais("explain", out / "certificate.json", "--values", out / "centers.csv").output


def test_columns_in_a_file_give_the_same_release(table: Path, tmp_path: Path) -> None:
    lines = ["age: 18:100", "region: [north, south]", "premium: bool", "joined: 2015-01-01:2025-12-31", "visits: 0:20"]
    (tmp_path / "columns.yaml").write_text("\n".join(lines))
    run(table, tmp_path / "one", "--columns", FACTS, "--missing", "midpoint")
    run(table, tmp_path / "two", "--columns", tmp_path / "columns.yaml", "--missing", "midpoint")
    assert (tmp_path / "one" / "centers.csv").read_bytes() == (tmp_path / "two" / "centers.csv").read_bytes()


def test_survey_plan_sample_and_release_share_the_schema(table: Path, tmp_path: Path) -> None:
    survey, plan, sample = (tmp_path / name for name in ("survey.json", "plan.json", "sample.parquet"))
    result = pais("survey", table, "--epsilon", 1, "--columns", FACTS, "--seed", 1, "--out", survey)
    assert result.exit_code == 0, result.output
    assert Survey.load(survey).schema == SCHEMA
    settings = ("--n-clusters", 3, "--epsilon", 3, "--survey", survey)
    result = pais("plan", *settings, "--out", plan)
    assert result.exit_code == 0, result.output
    assert Plan.load(plan).schema == SCHEMA
    result = pais("sample", table, "--plan", plan, "--seed", 2, "--out", sample, "--carry", "note")
    assert result.exit_code == 0, result.output
    rows = pq.read_table(sample)
    assert rows.column_names == [*SCHEMA.labels, "weight", "note"]
    assert max(rows.column("age").to_pylist()) > 30
    for number, options in enumerate([("--plan", plan), ("--plan", plan, "--columns", FACTS), settings]):
        result = pais("kmeans", table, *options, "--seed", 2, "--out", tmp_path / f"out{number}")
        assert result.exit_code == 0, result.output
    result = pais("kmeans", table, "--plan", plan, "--columns", "age=0:100", "--seed", 2, "--out", tmp_path / "other")
    assert "another schema" in result.output


def test_facts_and_ids_do_not_warn(table: Path, tmp_path: Path) -> None:
    result = pais("kmeans", table, "--n-clusters", 3, "--epsilon", 3, "--out", tmp_path / "o", "--columns", FACTS)
    assert "look like ids" not in result.output
