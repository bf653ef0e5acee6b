"""The measures of `python -m benchmarks.regimes` are right: costs, floors, areas, and what counts as met."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import ndtr

import pais
from benchmarks.data import FloatArray
from benchmarks.regimes.cases import ONE_CENTER_GOAL, PE_EPSILONS, PE_PUBLISHED, Case, all_cases
from benchmarks.regimes.measure import (
    Line,
    area,
    areas,
    cost,
    digest,
    measured,
    row_of,
    settings,
)
from benchmarks.regimes.sets import tables

CASE = Case(group="small", table="iris", epsilon=1.0, goal=1.2)


def line(*costs: float, case: Case = CASE) -> Line:
    one = dict.fromkeys(("seconds", "sample_sizes"), [1.0] * len(costs))
    return Line(
        case=case, n_rows=100, n_features=2, n_clusters=3, one_center=300.0, floor=100.0, costs=list(costs), **one
    )


def test_the_cost_is_the_sum_over_rows_of_the_nearest_squared_distance_also_far_from_zero() -> None:
    rng = np.random.default_rng(0)
    rows, centers = rng.normal(size=(300, 4)), rng.normal(size=(7, 4))
    exact = np.square(rows[:, None] - centers).sum(axis=2).min(axis=1).sum()
    assert cost(rows, centers) == pytest.approx(exact, rel=1e-12)
    assert cost(rows + 1e6, centers + 1e6) == pytest.approx(exact, rel=1e-8)
    assert cost(rows, rows) == pytest.approx(0.0, abs=1e-9)


def test_the_area_is_exact_for_straight_lines_and_uneven_steps() -> None:
    assert area(PE_EPSILONS, [3.0] * 5) == pytest.approx(3.0 * 3.75)
    assert area(PE_EPSILONS, list(PE_EPSILONS)) == pytest.approx((4.0**2 - 0.25**2) / 2.0)


def test_an_area_is_of_the_mean_loss_of_a_row_and_needs_every_epsilon() -> None:
    cases = [case for case in all_cases() if case.table == "pe-4-4"]
    lines = [line(100.0, 300.0, case=case) for case in cases]
    (row,) = areas(lines).rows
    assert row["area"] == pytest.approx(2.0 * 3.75)
    assert row["floor"] == pytest.approx(3.75)
    assert row["result"] == "missed"
    assert areas(lines[:-1]).rows == []


@pytest.mark.parametrize(
    ("costs", "result"),
    [((110.0, 115.0, 119.0), "met"), ((110.0, 125.0, 130.0), "missed"), ((110.0, 111.0, 150.0), "missed: mean")],
)
def test_a_goal_is_for_the_median_and_the_mean_stays_near_it(costs: tuple[float, ...], result: str) -> None:
    assert row_of(line(*costs))["result"] == result


def test_in_the_zoo_the_worst_run_is_compared_to_one_center() -> None:
    case = replace(CASE, goal=None, one_center_goal=1.05)
    assert row_of(line(100.0, 314.0, case=case))["result"] == "met"
    assert row_of(line(100.0, 316.0, case=case))["result"] == "missed: one center"
    assert row_of(line(100.0, 900.0, case=replace(CASE, goal=None)))["result"] == "reported"


def test_cases_name_sets_that_exist_and_each_is_listed_once() -> None:
    cases = all_cases()
    assert {case.table for case in cases} <= set(tables(Path()))
    assert len({(case.group, case.key) for case in cases}) == len(cases)
    assert {case.table for case in cases if case.group == "pe"} == set(PE_PUBLISHED)
    assert CASE.matches("small")
    assert CASE.matches("ir*")
    assert not CASE.matches("digits")


def noise_of_a_mean(rows: FloatArray, epsilon: float) -> float:
    """Cost that Gaussian noise adds to a mean of all rows, over the cost of one center."""
    n_rows, n_features = rows.shape
    squares = np.square(rows - rows.mean(axis=0)).sum(axis=1)
    delta = min(1e-6, 0.1 / n_rows)

    def excess(scale: float) -> float:
        # Balle and Wang 2018: the smallest delta of Gaussian noise.
        low, high = ndtr(0.5 / scale - epsilon * scale), ndtr(-0.5 / scale - epsilon * scale)
        return float(low - np.exp(epsilon) * high) - delta

    scale = brentq(excess, 0.01, 1e4)
    return n_features * scale**2 * float(np.quantile(squares, 0.99)) / n_rows / float(squares.sum())


@pytest.mark.slow
def test_cells_of_the_zoo_have_no_goal_only_where_the_noise_of_a_mean_exceeds_it() -> None:
    sets = tables(Path())
    cases = [case for case in all_cases() if case.group == "zoo" and "1000000" not in case.table]
    for case in cases:
        hopeless = noise_of_a_mean(sets[case.table].rows(), case.epsilon) > ONE_CENTER_GOAL - 1.0
        assert (case.one_center_goal is None) == hopeless, case.key


def test_a_fit_states_what_its_case_says_and_a_line_has_the_cost_of_all_rows() -> None:
    case = next(case for case in all_cases() if case.table == "pe-iris" and case.epsilon == 4.0)
    rows = tables(Path())["pe-iris"].rows()
    made = settings(case, rows, 3, 1.0)
    assert (made.radius, made.center, made.norms) == (1.0, (0.0,) * 4, None)
    assert made.delta == pytest.approx(150**-1.1)
    with warnings.catch_warnings():
        (line,), floors = measured(Path(), [case], 1, {})
        fit = pais.fit(rows, made, random_state=0, counted=False)
    assert line.costs == pytest.approx([cost(rows, fit.value.centers)])
    assert floors == {f"pe-iris {digest(rows)}": line.floor}
