"""`pais audit`: what it prints, and how it ends."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import pais as package
from pais.auditing import auditor
from tests.support.commands import done, pais, refused


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "plan.json"
    facts = ("--n-features", 2, "--n-rows", 50, "--radius", 1, "--norms", "0,0.3,0.6,1")
    done("plan", "--n-clusters", 2, *facts, "--epsilon", 1, "--delta", 1e-3, "--out", path)
    return path


def test_audit_replays_a_plan_and_prints_how_much_of_the_price_was_used(plan: Path) -> None:
    found = done("audit", plan)
    assert "epsilon 1, delta 0.001" in found.stdout
    assert "Not refuted" in found.stdout
    described = json.loads(done("audit", plan, "--json").stdout)
    assert (described["epsilon"], described["delta"], described["violates"]) == (1.0, 1e-3, False)
    assert 0.9 < described["lower_bound"] <= 1.0


def test_audit_by_runs_prints_a_lower_bound_beside_the_certified_epsilon(plan: Path) -> None:
    wanted = ("audit", plan, "--method", "runs", "--runs", 20, "--seed", 0)
    shown = done(*wanted).stdout
    assert "epsilon is at least" in shown
    assert "claimed: 1" in shown
    described = json.loads(done(*wanted, "--json").stdout)
    assert (described["certified"], described["delta"], described["violates"]) == (1.0, 1e-3, False)


def test_audit_uses_the_runs_finished_within_the_time_limit(plan: Path) -> None:
    found = done("audit", plan, "--method", "runs", "--runs", 10**7, "--seconds", 0.3, "--seed", 0, "--json")
    described = json.loads(found.stdout)
    assert 1 <= described["runs"] < 5 * 10**6
    assert described["first_runs"] >= 1


@pytest.mark.parametrize("method", ["replay", "runs"])
def test_a_refuted_plan_ends_with_code_1(plan: Path, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run_audit = auditor.audit

    def refuted(made: package.Plan, **options: Any) -> package.AuditReport | package.ReplayReport:
        if method == "replay":
            return replace(run_audit(made), used=2.0)
        return replace(run_audit(made, method="runs", runs=4, random_state=0), lower_bound=2.0)

    monkeypatch.setattr(auditor, "audit", refuted)
    found = pais("audit", plan, "--method", method)
    assert found.exit_code == 1
    assert "VIOLATED" in found.stdout


def test_audit_refuses_other_files_and_options_of_runs_for_a_replay(plan: Path, tmp_path: Path) -> None:
    assert "--runs is for --method runs" in refused("audit", plan, "--runs", 20)
    path = tmp_path / "other.json"
    path.write_text("{}")
    refused("audit", path)
