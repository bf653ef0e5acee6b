"""Quantiles: values, levels, groups, units, point masses, dates, missing cells, prices and refusals."""

from __future__ import annotations

import json
import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pais
from pais import BudgetError
from tests.unit.statistics.test_functions import LARGE, REGIONS, TABLE, N

pytestmark = pytest.mark.filterwarnings("ignore::pais.errors.PrivacyWarning")
NOISELESS: dict[str, Any] = {"epsilon": LARGE["epsilon"], "random_state": 0}
LEVELS = [0.1, 0.25, 0.5, 0.75, 0.9]


def test_quantiles_are_right_if_there_is_hardly_any_noise() -> None:
    result = pais.quantile(TABLE, columns={"age": (18, 100), "income": (0, 200_000)}, q=LEVELS, **NOISELESS)
    expected = TABLE[["age", "income"]].clip(upper=200_000).quantile(LEVELS)
    assert result.value.index.tolist() == LEVELS
    assert np.allclose(result.value["age"], expected["age"], atol=1.0)
    assert np.allclose(result.value["income"], expected["income"], rtol=0.01)
    low, high = result.interval(0.95)
    assert (low <= expected + 10.0).all(axis=None)
    assert (high >= expected - 10.0).all(axis=None)
    assert result.certificate.epsilon == NOISELESS["epsilon"]
    assert result.certificate.delta == 0.0


def test_the_median_is_the_default_and_a_number() -> None:
    result = pais.quantile(TABLE["age"], columns=(18, 100), **NOISELESS)
    assert result.name == "median"
    assert result.value == TABLE["age"].median()
    assert result.standard_error == 0.0
    assert "at least their probability" in result.explain()


def test_levels_are_in_the_order_of_the_user_and_values_increase_with_them() -> None:
    for seed in range(20):
        result = pais.quantile(TABLE, columns={"age": (18, 100)}, q=[0.9, 0.1, 0.5], epsilon=0.05, random_state=seed)
        assert result.value.index.tolist() == [0.9, 0.1, 0.5]
        assert 18 <= result.value[0.1] <= result.value[0.5] <= result.value[0.9] <= 100


@pytest.mark.filterwarnings("ignore:a quantile of column")
def test_a_point_mass_is_the_quantile_at_all_its_levels() -> None:
    values = np.append(np.zeros(900), np.linspace(1.0, 50.0, 100))
    result = pais.quantile(values, columns=(0, 50), q=[0.2, 0.5, 0.8, 0.95], epsilon=2.0, random_state=1)
    assert result.value[:0.8].tolist() == [0.0, 0.0, 0.0]
    assert 10.0 < result.value[0.95] < 40.0
    equal = pais.quantile(np.full(500, 7.0), columns=(0, 10), q=[0.1, 0.9], epsilon=2.0, random_state=1)
    assert equal.value.tolist() == [7.0, 7.0]
    outside = pais.quantile(np.full(500, 99.0), columns=(0, 10), epsilon=2.0, random_state=1)
    assert outside.value == 10.0


def test_empty_groups_and_tables_have_values_within_the_bounds() -> None:
    result = pais.quantile(TABLE, columns={"age": (18, 100)}, by={"region": ["north", "nowhere"]}, random_state=3)
    assert result.value["north"] == pytest.approx(TABLE.loc[TABLE["region"] == "north", "age"].median(), abs=2.0)
    low, high = result.interval()
    assert 18.0 <= low["nowhere"] <= result.value["nowhere"] <= high["nowhere"] <= 100.0
    assert high["nowhere"] - low["nowhere"] > 50.0
    assert 0.0 <= pais.quantile(np.empty(0), columns=(0, 1), random_state=0).value <= 1.0


def test_groups_cost_nothing_and_hold_their_own_quantiles() -> None:
    result = pais.quantile(TABLE, columns={"income": (0, 200_000)}, q=[0.25, 0.75], by={"region": REGIONS}, **NOISELESS)
    expected = TABLE.groupby("region")["income"].quantile([0.25, 0.75])
    for region in REGIONS:
        for level in (0.25, 0.75):
            assert result.value[region, level] == pytest.approx(expected[region, level], rel=0.02)
    assert result.certificate.epsilon == NOISELESS["epsilon"]


@pytest.mark.filterwarnings("ignore:a quantile of column")
def test_a_unit_counts_once_however_many_rows_it_owns() -> None:
    table = pd.DataFrame({"x": [*range(100), *[99] * 900], "person": [*map(str, range(100)), *["heavy"] * 900]})
    result = pais.quantile(table, columns={"x": (0, 99)}, unit="person", step=1, **NOISELESS)
    assert result.value == pytest.approx(50.0, abs=1.0)
    assert result.certificate.neighbours == "one person added or removed"
    rows = pais.quantile(table, columns={"x": (0, 99)}, step=1, **NOISELESS)
    assert rows.value == 99.0
    many = pais.quantile(table, columns={"x": (0, 99)}, unit="person", max_rows_per_unit=900, step=1, **NOISELESS)
    assert many.value == 99.0


def test_dates_are_whole_days() -> None:
    result = pais.quantile(TABLE, columns={"joined": ("2019-01-01", "2025-12-31")}, **NOISELESS)
    assert abs(pd.Timestamp(result.value) - TABLE["joined"].median()) <= pd.Timedelta(days=1)
    assert pd.Timestamp(result.value) == pd.Timestamp(result.value).normalize()
    low, high = result.interval()
    assert low <= result.value <= high


def test_a_missing_cell_is_left_out_alone() -> None:
    table = TABLE[["age", "income"]].astype(float).copy()
    table.loc[table.index < N // 2, "income"] = np.nan
    result = pais.quantile(table, columns={"age": (18, 100), "income": (0, 200_000)}, **NOISELESS)
    assert result.value["age"] == pytest.approx(table["age"].median(), abs=1.0)
    assert result.value["income"] == pytest.approx(table["income"].median(), rel=0.01)


def test_values_are_multiples_of_a_stated_step() -> None:
    for seed in range(10):
        result = pais.quantile(
            TABLE, columns={"age": (18, 100), "income": (0, 200_000)}, step={"income": 500}, random_state=seed
        )
        assert result.value["income"] % 500 == 0


def test_bounds_of_auto_columns_are_found_and_paid_for() -> None:
    result = pais.quantile(TABLE, columns={"income": "auto"}, epsilon=5.0, random_state=0)
    assert result.value == pytest.approx(TABLE["income"].median(), rel=0.05)
    assert [part.what for part in result.certificate.parts] == ["survey", "quantiles"]
    assert result.certificate.epsilon <= 5.0


def test_a_ledger_is_charged_and_refuses_what_it_cannot_pay() -> None:
    ledger = pais.Ledger(epsilon=1.0)
    pais.quantile(TABLE, columns={"age": (18, 100)}, q=LEVELS, by={"region": REGIONS}, epsilon=0.75, ledger=ledger)
    assert ledger.spent.epsilon == 0.75
    with pytest.raises(BudgetError):
        pais.quantile(TABLE, columns={"age": (18, 100)}, epsilon=0.75, ledger=ledger)


def test_results_and_plans_can_be_stored() -> None:
    result = pais.quantile(TABLE, columns={"age": (18, 100)}, by={"region": REGIONS}, random_state=0)
    copy = pickle.loads(pickle.dumps(result))
    assert copy.interval()[0].equals(result.interval()[0])
    stored = json.loads(result.certificate.to_json())["mechanism"]
    mechanism = pais.Mechanism.from_dict(stored)
    assert isinstance(mechanism, pais.GridQuantiles)
    assert mechanism.to_dict() == stored


@pytest.mark.parametrize(
    ("low", "high"), [(0.0, 1.0), (-3.0, 17.0), (1e6, 3e6), (0.0, 99_999.0), (-1e-5, 2e-5), (0, 1e300)]
)
def test_grids_are_short_decimals_that_cover_the_bounds(low: float, high: float) -> None:
    grid = pais.Grid.over(0, low / 2 + high / 2, high / 2 - low / 2, most_points=2**17)
    assert grid.n_points <= 2**17
    values = grid.values(np.arange(0, grid.n_points, max(1, grid.n_points // 50)))
    assert values[0] == pytest.approx(low, abs=grid.step)
    assert values.max() <= high
    # Values at points have the cells of these points.
    inner = np.array([grid.n_points // 3])
    coordinate = (grid.values(inner) - grid.center) / grid.scale
    assert grid.cells(coordinate).tolist() == (2 * inner).tolist()
    assert grid.cells(coordinate + 0.5 * grid.step / grid.scale).tolist() == (2 * inner + 1).tolist()
