"""The replay table: cases repeat from their seed, a stopped run goes on, and a failure is counted and named."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from tests.support import replay_table

QUIET = Console(quiet=True)


def options(tmp_path: Path, cases: int) -> argparse.Namespace:
    return argparse.Namespace(cases=cases, seed=5, resume=tmp_path / "audit.jsonl", out=tmp_path)


def test_a_stopped_run_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[int] = []

    def outcome(seed: int, number: int) -> replay_table.Outcome:
        runs.append(number)
        return replace(FOUND, name=f"case {number}")

    monkeypatch.setattr(replay_table, "outcome", outcome)
    assert len(list(replay_table.outcomes(options(tmp_path, 2), QUIET))) == 2
    found = replay_table.outcomes(options(tmp_path, 4), QUIET)
    assert [each.name for each in found] == [f"case {number}" for number in range(4)]
    assert runs == [0, 1, 2, 3]


def test_a_failure_is_counted() -> None:
    failing = replace(FOUND, problem="differs")
    moved = replace(FOUND, used=1.01)
    line = replay_table.line("mean", [FOUND, failing, moved, replace(FOUND, sampled=True, used=0.2)])
    assert (line["cases"], line["failures"], line["result"]) == (4, 2, "missed")
    assert (line["all rows"], line["samples"]) == (1.01, 0.2)


FOUND = replay_table.Outcome(
    name="mean of a table",
    mechanism="mean",
    sampled=False,
    transcripts=2,
    used=1.0,
    problem="",
    seconds=0.1,
)
