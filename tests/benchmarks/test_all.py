"""`make bench-all`: what it runs, what it remembers, and what it reports as missing."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks import all as every
from benchmarks.all import ENTRIES, Entry, Finished, Runner, chosen, missing, tables
from benchmarks.published import Published
from benchmarks.stream.__main__ import PARTS
from tests.benchmarks.test_page import STATE, publish


def entry(name: str, code: str, *, timed: bool = False) -> Entry:
    class Command(Entry):
        def command(self) -> list[str]:
            return [sys.executable, "-c", code]

    return Command(name=name, module="", tables=(name,), minutes=1.0, timed=timed)


def runner(place: Path, commit: str = "abc1234") -> Runner:
    finished = Finished.read(place / "state.json", commit)
    return Runner(place=place, finished=finished, console=Console(quiet=True))


def test_entries_name_modules_that_exist_and_each_table_once() -> None:
    assert all(importlib.util.find_spec(entry.module) for entry in ENTRIES)
    names = tables(ENTRIES)
    assert len(set(names)) == len(names)
    assert len({entry.name for entry in ENTRIES}) == len(ENTRIES)


def test_every_published_table_is_measured_by_an_entry() -> None:
    assert set(Published().names()) - {"targets"} <= set(tables(ENTRIES))


def test_every_part_of_the_tables_about_files_is_measured() -> None:
    assert {f"stream-{part}" for part in PARTS} <= {entry.name for entry in ENTRIES}


def test_only_and_skip_choose_entries() -> None:
    assert [entry.name for entry in chosen(["speed", "people"], ["people"])] == ["speed"]
    usual = [entry for entry in ENTRIES if not entry.long]
    assert len(chosen(None, ["speed"])) == len(usual) - 1
    assert [entry.name for entry in chosen(["coverage-statistics"], [])] == ["coverage-statistics"]
    assert [entry.name for entry in ENTRIES if entry.long] == ["coverage-statistics"]


def test_the_timed_part_and_the_other_part_are_all_of_it() -> None:
    timed, others = chosen(None, [], True), chosen(None, [], False)
    assert all(entry.timed for entry in timed)
    assert not any(entry.timed for entry in others)
    assert sorted(tables([*timed, *others])) == sorted(tables(chosen(None, [])))


def test_all_of_it_fits_into_about_an_hour() -> None:
    usual = chosen(None, [])
    timed = sum(entry.minutes for entry in usual if entry.timed)
    others = sum(entry.minutes for entry in usual if not entry.timed) / 2.0
    assert timed + others <= 70.0


def test_a_finished_entry_is_not_run_again_at_the_same_commit(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    job = entry("job", f"open({str(mark)!r}, 'a').write('x')")
    runner(tmp_path).run([job])
    runner(tmp_path).run([job])
    assert mark.read_text() == "x"
    runner(tmp_path, "def5678").run([job])
    assert mark.read_text() == "xx"


def test_a_failed_entry_is_run_again_and_its_output_is_kept(tmp_path: Path) -> None:
    runner(tmp_path).run([entry("job", "print('why'); raise SystemExit(3)")])
    assert "job" not in runner(tmp_path).finished.seconds
    assert (tmp_path / "job.log").read_text() == "why\n"


def test_a_failed_entry_does_not_stop_the_others_and_is_listed(tmp_path: Path) -> None:
    jobs = [
        entry("timed", "raise SystemExit(3)", timed=True),
        entry("other", "raise SystemExit(4)"),
        entry("right", ""),
    ]
    run = runner(tmp_path)
    run.run(jobs)
    assert list(run.finished.seconds) == ["right"]
    assert run.failed["timed"].startswith("ended with 3")
    assert run.failed["other"].startswith("ended with 4")


def test_an_entry_that_hangs_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(every, "MOST_TIMES", 0.0)
    monkeypatch.setattr(every, "LEAST_LIMIT", 0.01)
    run = runner(tmp_path)
    run.run([entry("slow", "import time; time.sleep(60)"), entry("next", "")])
    assert list(run.finished.seconds) == ["next"]
    assert run.failed["slow"].startswith("was stopped")


def test_timed_entries_run_before_the_others(tmp_path: Path) -> None:
    order = tmp_path / "order"
    jobs = [entry(name, f"open({str(order)!r}, 'a').write({name!r})", timed=name != "c") for name in ("c", "a", "b")]
    runner(tmp_path).run(jobs)
    assert order.read_text() == "abc"


def test_tables_of_another_commit_are_missing(tmp_path: Path) -> None:
    publish(tmp_path, "costs", {"a": 1.0})
    entries = [entry("costs", ""), entry("other", "")]
    assert missing(entries, Published(directory=tmp_path), STATE.commit) == ["other"]
    assert missing(entries, Published(directory=tmp_path), "def5678") == ["costs", "other"]


def test_uncommitted_sources_are_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(every, "uncommitted", lambda: ["src/pais/errors.py"])
    monkeypatch.setattr(sys, "argv", ["all"])
    assert every.main() == 2
    assert "src/pais/errors.py" in capsys.readouterr().out
