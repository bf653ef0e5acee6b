"""Statistics of the same rows, whatever they are stored in: the same totals, to the bit."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pais
from tests.conformance.schema_rows import people
from tests.conformance.test_schema_engines import SOURCES

# Many values of some columns lie beyond these bounds.
pytestmark = pytest.mark.filterwarnings("ignore::pais.errors.QualityWarning")

COLUMNS: dict[str, Any] = {
    "age": (18, 100),
    "income": "auto",
    "region": ["north", "south", "east"],
    "premium": bool,
    "joined": ("2015-01-01", "2025-12-31"),
}
QUARTERS = pais.quarters("2020-01-01", "2021-12-31")
NUMBERS = {name: COLUMNS[name] for name in ("age", "income", "premium")}
SUMMABLE = {name: COLUMNS[name] for name in ("age", "income", "region", "premium")}
CALLS: dict[str, Any] = {
    "count": lambda rows: pais.count(rows, columns=COLUMNS, random_state=1),
    "mean": lambda rows: pais.mean(rows, columns=COLUMNS, random_state=1),
    "mean by group": lambda rows: pais.mean(rows, columns=COLUMNS, by=["region", "premium"], random_state=1),
    "mean by ranges and quarters": lambda rows: pais.mean(
        rows, columns={"income": "auto"}, by={"age": pais.ranges(0, 30, 60, 100), "seen": QUARTERS}, random_state=1
    ),
    "count by weeks, of people": lambda rows: pais.count(
        rows, by={"joined": pais.weeks("2016-01-01", "2016-06-30")}, unit="person", random_state=1
    ),
    "histogram": lambda rows: pais.histogram(rows, columns=COLUMNS, bins=4, random_state=1),
    "covariance": lambda rows: pais.covariance(rows, columns=NUMBERS, random_state=1),
    "description": lambda rows: pais.describe(rows, columns=COLUMNS, missing="midpoint", random_state=1),
    "several statistics": lambda rows: pais.describe(
        rows, columns=SUMMABLE, statistics=["sum", "count", "median", "variance"], by="region", random_state=1
    ),
    "people": lambda rows: pais.mean(rows, columns=COLUMNS, unit="person", max_rows_per_unit=3, random_state=1),
    "totals of people": lambda rows: pais.sum(rows, columns=SUMMABLE, unit="person", epsilon=10.0, random_state=1),
    "number of people": lambda rows: pais.count_people(
        rows, by={"region": COLUMNS["region"]}, unit="person", epsilon=10.0, random_state=1
    ),
    "sample": lambda rows: pais.mean(rows, columns=COLUMNS, sampling="uniform", sample_size=100, random_state=1),
}


def spread_over(calls: dict[str, Any]) -> list[tuple[str, str]]:
    """Each call on every third source. Encoding does not know the call, and `test_schema_engines` tests all sources."""
    return [(what, where) for i, what in enumerate(calls) for j, where in enumerate(SOURCES) if (i + j) % 3 == 0]


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    with warnings.catch_warnings():
        # The table is small for a histogram of people.
        warnings.simplefilter("ignore", pais.SurveyWarning)
        return {name: call(people()) for name, call in CALLS.items()}


@pytest.mark.parametrize(("what", "where"), spread_over(CALLS))
@pytest.mark.filterwarnings("ignore::pais.errors.SurveyWarning")
def test_totals_are_the_same_wherever_rows_are_stored(
    what: str, where: str, tmp_path: Path, expected: dict[str, Any]
) -> None:
    result = CALLS[what](SOURCES[where](tmp_path))
    assert np.array_equal(result.released, expected[what].released)
    assert np.array_equal(result.estimates, expected[what].estimates, equal_nan=True)
    assert np.array_equal(result.standard_errors, expected[what].standard_errors, equal_nan=True)
    assert result.clipping == expected[what].clipping


@pytest.mark.filterwarnings("ignore::pais.errors.SurveyWarning")
def test_totals_do_not_depend_on_the_order_of_the_rows(expected: dict[str, Any]) -> None:
    shuffled = people().sample(frac=1.0, random_state=3)
    for what in ("mean by group", "covariance", "people", "totals of people", "number of people"):
        assert np.array_equal(CALLS[what](shuffled).released, expected[what].released), what


QUANTILES: dict[str, Any] = {
    "rows": {"columns": {name: COLUMNS[name] for name in ("age", "income", "joined")}, "by": {"premium": bool}},
    "ranges": {"columns": {"income": (0, 200_000)}, "by": {"age": pais.ranges(18, 50, 100), "seen": QUARTERS}},
    "people": {"columns": {"age": (18, 100)}, "unit": "person", "max_rows_per_unit": 3},
}


@pytest.mark.parametrize(("what", "where"), spread_over(QUANTILES))
@pytest.mark.filterwarnings("ignore::pais.errors.SurveyWarning")
def test_quantiles_are_the_same_wherever_rows_are_stored(what: str, where: str, tmp_path: Path) -> None:
    results = [
        pais.quantile(rows, q=[0.2, 0.5, 0.8], random_state=1, **QUANTILES[what])
        for rows in (people(), SOURCES[where](tmp_path))
    ]
    assert np.array_equal(results[0].estimates, results[1].estimates)
    assert np.array_equal(results[0].standard_errors, results[1].standard_errors)
