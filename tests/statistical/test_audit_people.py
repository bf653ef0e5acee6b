"""A person with 50 rows, present or absent: a release with `unit` keeps its promise, one without it does not."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.audit_cases import Case
from benchmarks.audit_people import N_ROWS, PEOPLE_CASES, rows_of

pytestmark = pytest.mark.statistical
SEEDS = range(20)


@pytest.mark.parametrize("case", PEOPLE_CASES, ids=lambda case: case.name)
def test_without_a_unit_the_attack_shows_more_than_the_certified_epsilon(case: Case) -> None:
    report = case.audit(broken=True, seed=0, runs=400)
    assert report.certified is not None
    assert report.violates
    assert report.lower_bound > 2.0 * report.certified


@pytest.mark.parametrize("case", PEOPLE_CASES, ids=lambda case: case.name)
def test_with_a_unit_the_attack_never_shows_more_than_the_certified_epsilon(case: Case) -> None:
    largest = 0.0
    for seed in SEEDS:
        report = case.audit(broken=False, seed=seed, runs=800 if "fit" not in case.name else 100)
        assert not report.violates, str(report)
        largest = max(largest, report.lower_bound)
    if "fit" not in case.name:
        # The attack has power: it sees a good part of the loss.
        assert largest > 0.4


def test_the_person_at_the_radius_owns_the_rows() -> None:
    frame = rows_of(np.array([[-0.5], [1.0]]))
    assert frame["who"].value_counts().to_dict() == {1: N_ROWS, 0: 1}
