"""A person with 50 rows, present or absent: a release with `unit` keeps its promise, one without it does not."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.audit_cases import Case
from benchmarks.audit_people import N_ROWS, PEOPLE_CASES, rows_of

pytestmark = pytest.mark.statistical
SEEDS = range(20)


# Runs on each table, with a unit and without it. K-means takes longer, and a whole fit plans anew in every run.
RUNS = {"sum of rows, 50 of one person": (600, 400), "k-means of rows, 50 of one person": (60, 200)}
FEW = (6, 100)


@pytest.mark.parametrize("case", PEOPLE_CASES, ids=lambda case: case.name)
def test_without_a_unit_the_attack_shows_more_than_the_certified_epsilon(case: Case) -> None:
    report = case.audit(broken=True, seed=0, runs=RUNS.get(case.name, FEW)[1])
    assert report.certified is not None
    assert report.violates
    assert report.lower_bound > 1.5 * report.certified


@pytest.mark.parametrize("case", PEOPLE_CASES, ids=lambda case: case.name)
def test_with_a_unit_the_attack_never_shows_more_than_the_certified_epsilon(case: Case) -> None:
    largest = 0.0
    for seed in SEEDS:
        report = case.audit(broken=False, seed=seed, runs=RUNS.get(case.name, FEW)[0])
        assert not report.violates, str(report)
        largest = max(largest, report.lower_bound)
    if case.name.startswith("sum"):
        # The attack has power: it sees a part of the loss.
        assert largest > 0.3


def test_the_person_at_the_radius_owns_the_rows() -> None:
    frame = rows_of(np.array([[-0.5], [1.0]]))
    assert frame["who"].value_counts().to_dict() == {1: N_ROWS, 0: 1}
