"""The house stays easy to take over: one certification per fit, a fast start, calls that can be traced."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pais
from benchmarks.house import calls, traced
from pais.accounting import part

HEAVY = ("numpy", "scipy", "sklearn", "pyarrow", "pandas", "mpmath")


def test_a_fit_certifies_its_plan_once_and_a_run_not_again(monkeypatch: pytest.MonkeyPatch) -> None:
    certified = []
    worst_case = part.worst_case
    monkeypatch.setattr(part, "worst_case", lambda *a, **b: certified.append(1) or worst_case(*a, **b))
    rows = np.random.default_rng(7).normal(size=(4000, 5))
    pais.DPKMeans(n_clusters=3, epsilon=1.0, random_state=0).fit(rows)
    assert len(certified) == 1
    norms = pais.NormDistribution.from_histogram([0.0, 5.0, 20.0], [2000, 2000])
    plan = pais.plan_kmeans(n_clusters=3, n_features=5, epsilon=1.0, ball=pais.Ball(radius=20.0), norms=norms)
    assert len(certified) == 2
    pais.run(plan, rows, random_state=0)
    assert len(certified) == 2


def test_a_call_is_traced_through_its_modules_and_functions(tmp_path: Path) -> None:
    modules = traced(calls(tmp_path)["pais.mean"])
    assert modules["pais.statistics.functions"] >= 1
    assert "pais.kmeans.mechanism" not in modules


@pytest.mark.parametrize("command", ["import pais; dir(pais)", "import sys; sys.argv = ['pais']; import pais.cli"])
def test_start_loads_nothing_heavy(command: str) -> None:
    code = f"{command}; import sys; print(*{{*sys.modules}} & {set(HEAVY)})"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (0, "\n", "")
