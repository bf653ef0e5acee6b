"""The page of benchmarks is what the generator writes from the results; numbers and misses are read from the tables."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks import page
from benchmarks.tables import RESULTS, Table, measured_at, verdict

FILES = [page.PAGE, *sorted(RESULTS.iterdir())]


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(page, "RESULTS", tmp_path)
    return tmp_path


def publish(directory: Path, name: str, values: dict[str, float], target: float = 1.1) -> None:
    table = Table(name=name, title=f"Costs [{name}]", shown=("data", "ratio", "target", "result"))
    for data, value in values.items():
        table.rows.append({"data": data, "ratio": value, "target": target, "result": verdict(value, target)})
    table.rows.append({"data": "more", "ratio": 9.0, "target": None, "result": verdict(9.0, None)})
    table.remarks.append(measured_at())
    table.publish(directory, Console(quiet=True))


def test_the_page_is_what_the_generator_writes_from_the_results() -> None:
    assert page.PAGE.read_text(encoding="utf-8") == page.page(), "run python -m benchmarks.page"


def test_the_page_begins_with_what_a_user_gains_ends_with_missed_targets_and_links_every_table() -> None:
    text = page.PAGE.read_text(encoding="utf-8")
    titles = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert (titles[0], titles[-1]) == ("What you gain", "Targets")
    assert set(re.findall(r"benchmarks/results/([\w-]+)\.md", text)) == set(page.names())


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_results_name_no_place_and_no_host(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"(^|[\s`'\"(])/(tmp|home|root|work|usr|var|opt|mnt|Users)\b", text)
    host = socket.gethostname()
    assert len(host) < 6 or host not in text


def test_the_state_of_a_table_is_read_as_it_was_written(results: Path) -> None:
    publish(results, "costs", {"a": 1.0})
    words = measured_at()
    assert all(page.state("costs", part) in words for part in ("commit", "day", "machine"))
    assert page.states("commit") == [page.state("costs", "commit")]
    assert "/" not in words


def test_values_of_a_sentence_follow_the_table(results: Path) -> None:
    publish(results, "costs", {"a": 1.25, "b": 0.5})
    assert page.span(page.rows("costs", result="met"), "ratio") == "0.50"
    assert page.span(page.rows("costs", target="1.1"), "ratio", 1, 100.0) == "50.0 to 125.0"
    assert page.span(page.rows("costs", data="b"), "ratio", over="target") == "0.45"


def test_links_count_targets_and_have_no_brackets_in_their_words(results: Path) -> None:
    publish(results, "costs", {"a": 1.0, "b": 2.0})
    assert page.link("costs") == "[Costs (costs)](../benchmarks/results/costs.md): 1 of 2 targets met"


def test_missed_targets_are_counted_and_the_largest_is_shown(results: Path) -> None:
    publish(results, "costs", {"a": 1.0, "b": 1.21, "c": 2.2})
    publish(results, "others", {"a": 5.5})
    assert page.missed().splitlines()[2:] == [
        "| [others](../benchmarks/results/others.md) | 1 of 1 | a | 5.5 | 1.1 |",
        "| [costs](../benchmarks/results/costs.md) | 2 of 3 | c | 2.2 | 1.1 |",
    ]


def test_misses_of_groups_are_apart_and_a_miss_against_one_center_has_its_own_value(results: Path) -> None:
    table = Table(name="regimes", title="Regimes", shown=("data",))
    cell = {"epsilon": 0.1, "median": 1.0, "goal": None, "worst / one center": 4.2}
    table.rows += [
        {"group": "zoo", "data": "far", **cell, "result": "missed: one center"},
        {"group": "small", "data": "near", **cell, "goal": 0.5, "result": "missed"},
    ]
    table.publish(results, Console(quiet=True))
    lines = page.missed().splitlines()[2:]
    assert [line.split(" | ")[-2:] for line in lines] == [["4.2", "1.05 |"], ["1", "0.5 |"]]
    assert [line.split(" | ")[2] for line in lines] == ["far, epsilon 0.1", "near, epsilon 0.1"]
