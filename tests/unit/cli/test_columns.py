"""The option --columns: names, facts about columns, and files with such facts."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

import pais as package
from pais import ArgumentError, Schema
from pais.cli.rows import columns_of
from tests.support.commands import FACTS, SCHEMA


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
