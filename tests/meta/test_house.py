"""The house stays easy to take over: short path, short modules, one certification per fit, fast start."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import pais
from benchmarks.house import crossed, static, table

# Public front doors, whose arguments a user reads in one place.
STATISTICS = {"count", "covariance", "describe", "histogram", "mean", "quantile", "sum", "variance"}
FRONT_DOORS = {"audit", "calibrate", "check", "kmeans", "source", "survey", "__init__"} | STATISTICS
HEAVY = ("numpy", "scipy", "sklearn", "pyarrow", "pandas", "mpmath")


def test_a_fit_certifies_its_plan_once_and_a_run_not_again() -> None:
    rows = table(4000)
    assert crossed(lambda: pais.DPKMeans(n_clusters=3, epsilon=1.0, random_state=0).fit(rows))["worst_case"] == 1
    norms = pais.NormDistribution.from_histogram([0.0, 5.0, 20.0], [2000, 2000])
    plan = pais.plan_kmeans(n_clusters=3, n_features=5, epsilon=1.0, ball=pais.Ball(radius=20.0), norms=norms)
    assert crossed(lambda: pais.run(plan, rows, random_state=0))["worst_case"] == 0


def test_the_count_of_certifications_can_fail() -> None:
    rule, profile = pais.UniformRule(rate=0.5), pais.LinearProfile(0.1, 0.1)

    def twice() -> None:
        for _ in range(2):
            pais.worst_case(rule, profile, radius=1.0)

    assert crossed(twice)["worst_case"] == 2


def test_few_functions_take_many_arguments_and_rooms_import_one_way() -> None:
    house = static()
    assert house["two-way pairs of rooms"] == []
    crowded = {entry.split(":")[1].split(" ")[0] for entry in house["functions with more than 8 parameters"]}
    assert crowded <= FRONT_DOORS


@pytest.mark.parametrize("command", ["import pais; dir(pais)", "import sys; sys.argv = ['pais']; import pais.cli"])
def test_start_loads_nothing_heavy(command: str) -> None:
    code = f"{command}; import sys; print(*{{*sys.modules}} & {set(HEAVY)})"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (0, "\n", "")


def test_seeded_rows_are_the_same_on_every_run() -> None:
    assert np.array_equal(table(100), table(100))
