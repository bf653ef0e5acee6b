"""Replay of every call: a record moves secret totals by no more than was paid, and nothing else depends on it."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import pais
from pais.auditing.replay import replay
from tests.support.replay_cases import (
    ARRAYS,
    BY,
    COLUMNS,
    COMPANIES,
    ONCE,
    PEOPLE,
    RECORDS,
    RULES,
    SAMPLINGS,
    STORES,
    SUBJECTS,
    TEETH,
    UNITS,
    UNREADABLE,
    Case,
    company,
    plain,
    spread,
)

CASES = spread(7)
#: Values leave as drawn, or moved by so many scales of their noise.
PUSHES = (0.0, 3.0, -3.0)


#: One case in five is also among the quick tests.
MARKED = [
    pytest.param(case, push, id=case.name, marks=() if number % 5 == 0 else pytest.mark.slow)
    for number, (case, push) in enumerate(zip(CASES, itertools.cycle(PUSHES), strict=False))
]


@pytest.mark.parametrize(("case", "push"), MARKED)
def test_a_record_moves_totals_by_no_more_than_was_paid(case: Case, push: float) -> None:
    report = case.replayed(seeds=(0,), pushes=(push,))
    assert not report.differences, str(report)
    assert report.used <= 1.0 + 1e-9
    assert report.draws > 0


def test_the_cases_hold_every_part() -> None:
    assert {case.what for case in CASES} == set(SUBJECTS)
    assert {case.columns for case in CASES} == set(COLUMNS)
    assert {case.by for case in CASES} == set(BY)
    assert {case.unit for case in CASES} == set(UNITS)
    assert {case.missing for case in CASES} == {"drop", "midpoint", "error"}
    assert {case.sampling for case in CASES} >= {*SAMPLINGS, *RULES}
    assert {case.store for case in CASES} == {*STORES, *ONCE, *ARRAYS}
    assert {case.company for case in CASES} == set(COMPANIES)
    assert {case.record for case in CASES} == {*RECORDS, *UNREADABLE, *PEOPLE}


@pytest.mark.parametrize(("case", "push"), TEETH, ids=[case.name for case, _ in TEETH])
def test_a_record_uses_nearly_all_that_was_paid_for(case: Case, push: float) -> None:
    report = case.replayed(seeds=(0,), pushes=(push,))
    assert not report.violates, str(report)
    assert report.used >= 0.95


def test_every_mechanism_has_a_case_that_uses_its_price() -> None:
    assert {case.subject.family for case, _ in TEETH} == {subject.family for subject in SUBJECTS.values()}


@pytest.mark.parametrize(("rule", "least"), [("uniform", 0.99), ("coreset", 0.99), ("constrained", 0.99), ("own", 0.8)])
def test_a_sample_without_the_record_does_not_move_and_one_with_it_uses_the_price(rule: str, least: float) -> None:
    report = plain("run sum gaussian", "far", sampling=rule).replayed(seeds=range(8), pushes=(0.0,))
    assert not report.violates, str(report)
    moves = {move.shift_of_sample > 0.0 for move in report.moves}
    assert moves == {True, False}
    assert least <= report.used


@pytest.mark.parametrize("mechanism", ["gaussian", "l2", "laplace"])
@pytest.mark.parametrize("cell", [0, 1, 2])
def test_a_record_exactly_at_a_released_center_is_protected(mechanism: str, cell: int) -> None:
    rows = np.array([[row["x"], row["y"]] for row in company()])

    def fit(table: Any, seed: Any) -> Any:
        delta = 1e-6 if mechanism == "gaussian" else 0.0
        model = pais.DPKMeans(n_clusters=3, epsilon=10.0, delta=delta, mechanism=mechanism, random_state=seed)
        return model.fit(table)

    at_a_center = fit(rows, 0).cluster_centers_[[cell]]
    present = np.concatenate([rows, at_a_center])
    report = replay(fit, present, rows, seeds=(0,), pushes=(0.0,))
    assert not report.violates, str(report)
    assert report.used > 0.0


PERSON_AT_A_CORNER: dict[str, dict[str, Any]] = {
    "sum": {"call": pais.sum, "columns": {"x": (-3.0, 3.0), "y": (-3.0, 3.0)}},
    "sum by group": {"call": pais.sum, "columns": {"x": (-3.0, 3.0), "y": (-3.0, 3.0)}, "by": {"group": ["a", "b"]}},
    "sum, one found bound": {"call": pais.sum, "columns": {"x": (-3.0, 3.0), "spent": "auto"}},
    "sum of five rows": {"call": pais.sum, "columns": {"x": (-3.0, 3.0)}, "max_rows_per_unit": 5},
    "count": {"call": pais.count},
}


@pytest.mark.parametrize("delta", [0.0, 1e-3])
@pytest.mark.parametrize("corner", [3.0, -3.0])
@pytest.mark.parametrize("what", PERSON_AT_A_CORNER)
def test_totals_about_people_use_all_of_their_price(what: str, corner: float, delta: float) -> None:
    """Fifty rows of a person at a corner: any part of the noise that is too small shows."""
    rng, size = np.random.default_rng(0), 120
    cells = {
        "person": [f"p{place % 60}" for place in range(size)],
        "x": rng.normal(size=size),
        "y": rng.normal(size=size),
        "spent": rng.lognormal(3.0, 1.0, size),
        "group": rng.choice(["a", "b"], size),
    }
    new = {"person": ["new"] * 50, "x": [corner] * 50, "y": [corner] * 50, "spent": [1e5] * 50, "group": ["a"] * 50}
    others, record = pa.table(cells), pa.table(new)
    options = {name: value for name, value in PERSON_AT_A_CORNER[what].items() if name != "call"}

    def call(table: Any, seed: Any) -> Any:
        run: Any = PERSON_AT_A_CORNER[what]["call"]
        return run(table, unit="person", delta=delta, random_state=seed, **options)

    report = replay(call, pa.concat_tables([others, record]), others, seeds=(0,), pushes=(0.0,))
    assert not report.violates, str(report)
    assert report.used >= 0.999
