"""`pais audit`: what it prints, and how it ends."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import pais
from pais.auditing import auditor
from pais.cli.app import app


def run(*arguments: object) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "plan.json"
    facts = ("--n-features", 2, "--n-rows", 50, "--radius", 1, "--norms", "0,0.3,0.6,1")
    made = run("plan", "--n-clusters", 2, *facts, "--epsilon", 1, "--delta", 1e-3, "--out", path)
    assert made.exit_code == 0
    return path


def test_audit_replays_a_plan_and_prints_how_much_of_the_price_was_used(plan: Path) -> None:
    found = run("audit", plan)
    assert found.exit_code == 0
    assert "epsilon 1, delta 0.001" in found.stdout
    assert "Not refuted" in found.stdout
    described = json.loads(run("audit", plan, "--json").stdout)
    assert described["epsilon"] == 1.0
    assert described["delta"] == 1e-3
    assert 0.9 < described["lower_bound"] <= 1.0
    assert described["violates"] is False


def test_options_of_runs_are_refused_for_a_replay(plan: Path) -> None:
    found = run("audit", plan, "--runs", 20)
    assert found.exit_code == 2
    assert "--runs is for --method runs" in " ".join(found.stderr.split())


def test_audit_prints_a_lower_bound_beside_the_certified_epsilon(plan: Path) -> None:
    found = run("audit", plan, "--method", "runs", "--runs", 20, "--seed", 0)
    assert found.exit_code == 0
    assert "epsilon is at least" in found.stdout
    assert "claimed: 1" in found.stdout


def test_audit_prints_json_for_programs(plan: Path) -> None:
    found = run("audit", plan, "--method", "runs", "--runs", 20, "--seed", 0, "--json")
    described = json.loads(found.stdout)
    assert described["certified"] == 1.0
    assert described["delta"] == 1e-3
    assert described["violates"] is False


def test_audit_uses_the_runs_finished_within_the_time_limit(plan: Path) -> None:
    found = run("audit", plan, "--method", "runs", "--runs", 10**7, "--seconds", 0.3, "--seed", 0, "--json")
    assert found.exit_code == 0
    described = json.loads(found.stdout)
    assert 1 <= described["runs"] < 5 * 10**6
    assert described["first_runs"] >= 1


@pytest.mark.parametrize("method", ["replay", "runs"])
def test_a_refuted_plan_ends_with_code_1(plan: Path, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run_audit = auditor.audit

    def refuted(made: pais.Plan, **options: Any) -> pais.AuditReport | pais.ReplayReport:
        if method == "replay":
            return replace(run_audit(made), used=2.0)
        return replace(run_audit(made, method="runs", runs=4, random_state=0), lower_bound=2.0)

    monkeypatch.setattr(auditor, "audit", refuted)
    found = run("audit", plan, "--method", method)
    assert found.exit_code == 1
    assert "VIOLATED" in found.stdout


def test_audit_refuses_a_file_that_is_not_a_plan(tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_text("{}")
    assert run("audit", path).exit_code == 2
