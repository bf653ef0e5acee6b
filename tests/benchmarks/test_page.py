"""The page of benchmarks: states, targets and sentences are read from tables as they are written."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks import blocks, page, sentences
from benchmarks.all import ENTRIES, tables
from benchmarks.blocks import machine, table_list, target_block
from benchmarks.published import LONG_TABLES, AbsentError, Published
from benchmarks.state import State, read_state, source_state
from benchmarks.tables import Table, verdict
from benchmarks.targets import RULES, targets

STATE = State(
    commit="abc1234", sources="0123456789ab", day="2030-01-02", machine="2 cores of a CPU @ 2.5 GHz, BLAS x 0.3"
)


def publish(directory: Path, name: str, values: dict[str, float], state: State = STATE, target: float = 1.1) -> None:
    table = Table(name=name, prefix="", title=f"Costs [{name}]", shown=("data", "median", "target", "result"))
    for data, value in values.items():
        table.rows.append({"data": data, "median": value, "target": target, "result": verdict(value, target)})
    table.rows.append({"data": "more", "median": 9.0, "target": None, "result": "reported"})
    table.remarks.append(f"Measured at {state}.")
    table.publish(directory, Console(quiet=True))


def test_the_state_of_a_table_is_read_as_it_was_written(tmp_path: Path) -> None:
    publish(tmp_path, "costs", {"a": 1.0})
    published = Published(directory=tmp_path)
    assert published.state("costs") == STATE
    assert "Measured" not in published.body("costs")
    assert published.title("costs") == "Costs [costs]"


def test_the_state_of_this_process_is_read_back_and_names_no_place() -> None:
    words = source_state()
    state = read_state(f"Measured at {words}.\n")
    assert state is not None
    assert str(state) == words
    assert "/" not in words


def test_states_of_earlier_tables_have_no_day() -> None:
    assert read_state("- Measured at d0f268d, sources 47483eb05069; parts later.") == State(
        commit="d0f268d", sources="47483eb05069"
    )
    assert read_state("nothing") is None


def test_missed_targets_come_first_the_largest_miss_before_the_others(tmp_path: Path) -> None:
    publish(tmp_path, "costs", {"a": 1.0, "b": 1.21, "c": 2.2, "d": 1.1})
    found = targets(Published(directory=tmp_path))
    assert [(target.what, target.met) for target in found] == [("c", False), ("b", False), ("a", True), ("d", True)]
    assert [target.miss for target in found] == pytest.approx([1.0, 0.1, 0.0, 0.0])


def test_a_value_above_its_target_is_never_met_whatever_its_error(tmp_path: Path) -> None:
    table = Table(name="prediction", prefix="", title="Sizes", shown=("data", "chosen / free cost", "result"))
    for result, cost in (("met", 1.001), ("within error", 1.004), ("missed", 1.02)):
        table.rows.append({"data": result, "chosen / free cost": cost, "result": result})
    table.publish(tmp_path, Console(quiet=True))
    found = {target.what.split(":")[0]: target for target in targets(Published(directory=tmp_path))}
    assert [found[name].met for name in ("met", "within error", "missed")] == [True, False, False]
    assert "errors of the fits" in found["within error"].what


def test_the_block_of_targets_lists_misses_with_their_size(tmp_path: Path) -> None:
    publish(tmp_path, "costs", {"a": 1.0, "b": 1.21})
    text = target_block(Published(directory=tmp_path))
    assert "1 of 2 targets are met and 1 are missed" in text
    assert "| [costs](../benchmarks/results/costs.md): b | 1.21 | 1.1 | 10.0 % |" in text


def test_one_commit_is_named_and_several_are_counted(tmp_path: Path) -> None:
    publish(tmp_path, "costs", {"a": 1.0})
    published = Published(directory=tmp_path)
    assert "measured at commit `abc1234` on 2030-01-02" in machine(published)
    assert STATE.machine in machine(published).replace("\n", " ")
    publish(tmp_path, "others", {"a": 1.0}, State(commit="fff0000", sources="1", day="2030-01-03", machine="1 core"))
    assert "at 2 commits" in machine(published)


def test_links_have_no_brackets_in_their_words(tmp_path: Path) -> None:
    publish(tmp_path, "costs", {"a": 1.0})
    assert "[Costs (costs)](../benchmarks/results/costs.md): 1 of 1" in table_list(
        Published(directory=tmp_path), ["costs", "absent"]
    )


def test_a_page_can_be_made_without_results_and_with_one_table(tmp_path: Path) -> None:
    with pytest.raises(AbsentError):
        Published(directory=tmp_path).rows("costs")
    publish(tmp_path, "costs", {"a": 1.0})
    text = page.page(Published(directory=tmp_path))
    assert "Not measured yet" in text
    assert "<!-- block" not in text


def test_every_rule_for_targets_belongs_to_a_table() -> None:
    assert set(RULES) <= set(tables(ENTRIES))


def test_sentences_have_no_number_that_is_written_by_hand() -> None:
    for module in (sentences, blocks):
        tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
        specifications = {id(value.format_spec) for value in ast.walk(tree) if isinstance(value, ast.FormattedValue)}
        texts = [
            part.value
            for node in ast.walk(tree)
            if isinstance(node, ast.JoinedStr) and id(node) not in specifications
            for part in node.values
            if isinstance(part, ast.Constant)
        ]
        assert len(texts) > 50
        assert [text for text in texts if re.search(r"\d", str(text))] == []


def test_numbers_of_a_sentence_follow_the_table(tmp_path: Path) -> None:
    def write(*areas: float) -> str:
        table = Table(name="areas", prefix="regimes-", title="Areas", shown=("data", "area", "published"))
        for number, area in enumerate(areas):
            table.rows.append({"data": f"set-{'abc'[number]}", "area": area, "published": 0.5})
        table.publish(tmp_path, Console(quiet=True))
        return sentences.papers(Published(directory=tmp_path))

    assert "On 2 of 3 sets" in write(0.1, 0.25, 1.0)
    assert "0.20 to 0.50 times the published one, and 2.00 times on set-c." in write(0.1, 0.25, 1.0)
    assert "0.20 to 0.40 times the published one." in write(0.1, 0.2)


def test_the_page_begins_with_what_a_user_gains_and_ends_with_missed_targets() -> None:
    names = re.findall(r"<!-- block: ([\w-]+) -->", page.TEMPLATE.read_text(encoding="utf-8"))
    assert names[:4] == ["accuracy", "intervals", "times", "compared"]
    assert names[-1] == "targets"
    assert set(names) == set(blocks.BLOCKS)


def test_variances_that_an_interval_misses_need_a_warning(tmp_path: Path) -> None:
    table = Table(name="intervals", prefix="pca-", title="Intervals", shown=("data", "least coverage", "warned"))
    for name, coverage, warned in (("held", 0.95, 0.0), ("warned", 0.2, 0.96), ("silent", 0.2, 0.9)):
        table.rows.append({"data": name, "least coverage": coverage, "least coverage, along": 1.0, "warned": warned})
    table.publish(tmp_path, Console(quiet=True))
    found = {target.what.split(":")[0]: target.met for target in targets(Published(directory=tmp_path))}
    assert found == {"held": True, "warned": True, "silent": False}


def test_an_audit_with_other_columns_has_no_sentence_and_no_targets(tmp_path: Path) -> None:
    table = Table(name="audit", prefix="", title="Audit", shown=("case", "power", "goal", "result"))
    table.rows.append({"case": "sums", "power": "high", "goal": "all", "result": "met"})
    table.publish(tmp_path, Console(quiet=True))
    published = Published(directory=tmp_path)
    assert targets(published) == []
    assert "Audit" not in page.page(published).split("## Correctness")[1].split("## Measure")[0]


def test_a_long_table_may_be_of_another_commit_and_names_it(tmp_path: Path) -> None:
    publish(tmp_path, "costs", {"a": 1.0})
    publish(tmp_path, LONG_TABLES[0], {"a": 1.0}, State(commit="fff0000", sources="1", day="2030-01-01", machine="x"))
    text = machine(Published(directory=tmp_path)).replace("\n", " ")
    assert "measured at commit `abc1234` on 2030-01-02" in text
    assert "measured apart, at commit `fff0000`" in text
