"""`make bench-all`: the commands that it runs, and what it does with them."""

from __future__ import annotations

import argparse
import importlib.util
import runpy
import sys
from pathlib import Path

import pytest

from benchmarks import all as every, page
from benchmarks.all import COMMANDS, Command, chosen
from benchmarks.tables import commit

NAMES = [name for command in COMMANDS for name in command.tables.split()]


def test_every_table_is_measured_by_one_command() -> None:
    assert sorted(NAMES) == page.names()
    assert len({command.name for command in COMMANDS}) == len(COMMANDS)
    assert {name.partition(":")[0] for name in page._JUDGED} <= set(NAMES)


# Modules that are imported already run once more here.
@pytest.mark.filterwarnings("ignore:.*found in sys.modules after import of package:RuntimeWarning")
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_commands_name_modules_and_options_that_exist(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parse the options as the module does, without measuring anything."""
    module, *words = command.line.split()
    spec = importlib.util.find_spec(module)
    assert spec is not None
    module = f"{module}.__main__" if spec.submodule_search_locations else module
    parsed = argparse.ArgumentParser.parse_args

    def only_parse(self: argparse.ArgumentParser) -> None:
        parsed(self)
        raise KeyboardInterrupt

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", only_parse)
    monkeypatch.setattr(sys, "argv", [module, *words])
    with pytest.raises((KeyboardInterrupt, SystemExit)) as ended:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    assert getattr(ended.value, "code", 130) == 130


def test_the_long_table_is_measured_only_if_it_is_named() -> None:
    assert [command.name for command in COMMANDS if command not in chosen(None)] == ["coverage"]
    assert [command.name for command in chosen(["coverage"])] == ["coverage"]
    assert sorted(c.name for c in (*chosen(None, True), *chosen(None, False))) == sorted(c.name for c in chosen(None))


def test_tables_of_another_commit_are_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (every, page):
        monkeypatch.setattr(module, "RESULTS", tmp_path)
    command = Command("job", "", "a b", 1.0)
    for name, at in (("a", commit()), ("b", "abc1234")):
        (tmp_path / f"{name}.md").write_text(f"## Title\n\n- Measured at {at}, sources 1, on 2030-01-02, x.\n")
    assert not command.measured
    (tmp_path / "b.md").write_text((tmp_path / "a.md").read_text())
    assert command.measured


def test_a_command_that_fails_or_hangs_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(every, "PLACE", tmp_path)
    assert Command("right", "this", "", 1.0).run()
    assert not Command("wrong", "no_such_module", "", 1.0).run()
    monkeypatch.setattr(every, "MOST_TIMES", 0.0)
    monkeypatch.setattr(every, "LEAST_LIMIT", 0.0001)
    assert not Command("slow", "this", "", 1.0).run()
    out = capsys.readouterr().out
    assert "wrong failed" in out
    assert "timed out" in out
    assert "no_such_module" in (tmp_path / "wrong.log").read_text()


def test_uncommitted_sources_are_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(every, "uncommitted", lambda: ["src/pais/errors.py"])
    monkeypatch.setattr(sys, "argv", ["all"])
    assert every.main() == 2
    assert "src/pais/errors.py" in capsys.readouterr().out
