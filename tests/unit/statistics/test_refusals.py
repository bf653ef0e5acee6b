"""Every refusal of a statistic names the argument, and comes before the ledger is charged."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pais
from pais import ArgumentError, BudgetError, DataError
from pais.mechanisms.blocks import Split
from tests.unit.statistics.test_functions import COLUMNS, REGIONS, TABLE

AGE: dict[str, Any] = {"columns": {"age": (18, 100)}}
DATES = {"j": ("2020-01-01", "2020-12-31")}
HALF = pais.UniformRule(rate=0.5)
NUMBERS = pd.DataFrame({"age": np.arange(50.0)})
OPEN = pais.source(TABLE, columns=COLUMNS)

REFUSED: list[tuple[Callable[..., Any], dict[str, Any], str]] = [
    (pais.mean, {}, "needs at least one column"),
    (pais.describe, {"columns": COLUMNS, "statistics": "mode"}, "['mode'] is not a list of different statistics"),
    (pais.describe, {"columns": COLUMNS, "statistics": []}, "is not a list of different statistics"),
    (pais.describe, {"columns": COLUMNS, "statistics": ["mean", "mean"]}, "is not a list of different statistics"),
    (pais.describe, {"columns": DATES, "statistics": "sum"}, "the sum of dates is not defined"),
    (pais.describe, {"columns": COLUMNS, "statistics": "sum", "unit": "age"}, "call pais.sum"),
    (pais.mean, {"columns": {"age": 10.0}}, "needs bounds"),
    (pais.mean, {"columns": {"agee": (18, 100)}}, "agee"),
    (pais.mean, {"columns": COLUMNS, "by": "age"}, "pais.ranges(0, 20, 40"),
    (pais.mean, {"columns": DATES, "by": "j"}, "pais.months('2020-01-01', '20"),
    (pais.mean, {"columns": {"income": (0, 9)}, "by": {"age": [0, 20, 40]}}, "pais.ranges(0, 20, 40)"),
    (pais.mean, {"columns": COLUMNS, "by": "region", "delta": 0.0}, "delta=0 forbids publishing a name"),
    (pais.quantile, {"columns": {"age": (18, 100)}, "by": "region", "delta": 0.0}, "delta=0 forbids publishing a name"),
    (pais.count, {"by": {"region": pais.names()}, "delta": 0.0}, "Pass delta > 0, or list the names"),
    (pais.mean, {"columns": COLUMNS, "by": {"premium": bool}}, "State it once"),
    (pais.mean, {"columns": COLUMNS, "by": [3]}, "must name columns"),
    (pais.mean, {"columns": COLUMNS, "sampling": "some"}, "sampling='some'"),
    (pais.mean, {"columns": COLUMNS, "sample_size": 1000}, "sample_size needs"),
    (pais.mean, {"columns": COLUMNS, "epsilon": 0.0}, "epsilon"),
    (pais.mean, {"columns": COLUMNS, "delta": 2.0}, "delta"),
    (pais.mean, {"columns": COLUMNS, "missing": "zero"}, "missing='zero'"),
    (pais.mean, {"rows": TABLE.to_numpy(), "columns": COLUMNS}, "an array has no names"),
    (pais.mean, {"rows": OPEN, "columns": {"age": (0, 50)}}, "columns"),
    (pais.covariance, {"columns": {"region": REGIONS}}, "covariance of categories"),
    (pais.histogram, {**AGE, "bins": 0}, "bins"),
    (pais.histogram, {**AGE, "bins": [18, 50]}, "upper bound 100"),
    (pais.histogram, {"rows": NUMBERS, "columns": {"age": "auto"}, "bins": [0, 25, 50]}, "State its bounds"),
    (pais.count_people, {}, "needs the column that names people"),
    (pais.count_people, {"rows": OPEN}, "needs the column"),
    (pais.count_people, {"by": {"region": REGIONS}, "rows": OPEN}, "needs the column"),
    (pais.sum, {**AGE, "unit": "customer", "sampling": "uniform", "sample_size": 100}, "use all people"),
    (pais.count, {"unit": "customer", "sampling": HALF}, "use all people"),
    (pais.count, {"max_rows_per_unit": 3}, "without a unit"),
    (pais.quantile, {**AGE, "step": {"height": 1}}, "'height'"),
    (pais.quantile, {**AGE, "step": 1e-9}, "larger step"),
    *((pais.quantile, {**AGE, "q": q}, "q") for q in (0.0, 1.0, -0.1, 1.5, [], [0.5, 0.5], [0.5, 2.0], np.nan)),
    *((pais.quantile, {"columns": stated}, "quantile") for stated in ({"premium": bool}, {"age": 10}, None)),
    (pais.quantile, {"columns": {"region": REGIONS}}, "quantile"),
]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("function", "stated", "message"), REFUSED)
def test_refusals_name_the_argument_and_cost_nothing(function: Any, stated: dict[str, Any], message: str) -> None:
    with pais.Ledger(epsilon=5.0) as ledger, pytest.raises((ArgumentError, DataError), match=re.escape(message)):
        function(**{"rows": TABLE, **stated})
    assert ledger.entries == ()


@pytest.mark.parametrize("function", [pais.mean, pais.sum, pais.quantile, pais.describe])
def test_a_ledger_that_cannot_pay_refuses_before_the_table_is_opened(
    function: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pais.statistics.settings.cells", lambda *_, **__: pytest.fail("the table was opened"))
    with pytest.raises(BudgetError):
        function(TABLE, **AGE, epsilon=1.0, ledger=pais.Ledger(epsilon=0.5))


def test_a_mechanism_refuses_levels_and_grids_that_it_cannot_use() -> None:
    grid = pais.Grid.over(0, 0.0, 1.0, most_points=100)
    for levels in ((), (0.5, 0.2), (0.0,), (0.5, 0.5)):
        with pytest.raises(ArgumentError, match="levels"):
            pais.GridQuantiles(epsilon=1.0, levels=levels, grids=(grid,))
    with pytest.raises(ArgumentError, match="grids"):
        pais.GridQuantiles(epsilon=1.0, levels=(0.5,), grids=())


@pytest.mark.parametrize("column", [None, True, (0,), -1, 0.0, "0"])
def test_a_column_that_is_no_number_is_refused_in_blocks_and_grids(column: Any) -> None:
    """NumPy would take None or True as an index of all rows, so that a row adds many times its share."""
    with pytest.raises(pais.ArgumentError, match="whole number"):
        Split(column=column)
    with pytest.raises(pais.ArgumentError, match="whole number"):
        pais.Grid(column=column, center=0.0, scale=1.0, step=0.1, first=-10.0, n_points=21)
    with pytest.raises(pais.ArgumentError, match="finite number"):
        pais.Grid(column=0, center=0.0, scale=1.0, step=0.1, first=float("nan"), n_points=21)
