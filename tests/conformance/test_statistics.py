"""Statistics of the same rows, whatever they are stored in: the same totals, to the bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pais
from tests.conformance.schema_rows import people
from tests.conformance.test_schema_engines import SOURCES

COLUMNS: dict[str, Any] = {
    "age": (18, 100),
    "income": "auto",
    "region": ["north", "south", "east"],
    "premium": bool,
    "joined": ("2015-01-01", "2025-12-31"),
}
NUMBERS = {name: COLUMNS[name] for name in ("age", "income", "premium")}
SUMMABLE = {name: COLUMNS[name] for name in ("age", "income", "region", "premium")}
CALLS: dict[str, Any] = {
    "count": lambda rows: pais.count(rows, columns=COLUMNS, random_state=1),
    "rows": lambda rows: pais.count(rows, random_state=1),
    "sum": lambda rows: pais.sum(rows, columns=SUMMABLE, random_state=1),
    "mean": lambda rows: pais.mean(rows, columns=COLUMNS, random_state=1),
    "mean by group": lambda rows: pais.mean(rows, columns=COLUMNS, by=["region", "premium"], random_state=1),
    "variance": lambda rows: pais.variance(rows, columns=COLUMNS, random_state=1),
    "histogram": lambda rows: pais.histogram(rows, columns=COLUMNS, bins=4, random_state=1),
    "covariance": lambda rows: pais.covariance(rows, columns=NUMBERS, random_state=1),
    "description": lambda rows: pais.describe(rows, columns=COLUMNS, missing="midpoint", random_state=1),
    "people": lambda rows: pais.mean(rows, columns=COLUMNS, unit="person", max_rows_per_unit=3, random_state=1),
    "sample": lambda rows: pais.mean(rows, columns=COLUMNS, sampling="uniform", sample_size=100, random_state=1),
}


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    return {name: call(people()) for name, call in CALLS.items()}


@pytest.mark.parametrize("where", SOURCES)
@pytest.mark.parametrize("what", CALLS)
@pytest.mark.filterwarnings("ignore::pais.errors.SurveyWarning")
def test_totals_are_the_same_wherever_rows_are_stored(
    what: str, where: str, tmp_path: Path, expected: dict[str, Any]
) -> None:
    result = CALLS[what](SOURCES[where](tmp_path))
    assert np.array_equal(result.released, expected[what].released)
    assert np.array_equal(result.estimates, expected[what].estimates, equal_nan=True)


@pytest.mark.filterwarnings("ignore::pais.errors.SurveyWarning")
def test_totals_do_not_depend_on_the_order_of_the_rows(expected: dict[str, Any]) -> None:
    shuffled = people().sample(frac=1.0, random_state=3)
    for what in ("mean by group", "covariance", "people"):
        assert np.array_equal(CALLS[what](shuffled).released, expected[what].released), what


QUANTILES: dict[str, Any] = {
    "rows": {"columns": {name: COLUMNS[name] for name in ("age", "income", "joined")}, "by": {"premium": bool}},
    "people": {"columns": {"age": (18, 100)}, "unit": "person", "max_rows_per_unit": 3},
}


@pytest.mark.parametrize("where", SOURCES)
@pytest.mark.parametrize("what", QUANTILES)
@pytest.mark.filterwarnings("ignore::pais.errors.SurveyWarning")
def test_quantiles_are_the_same_wherever_rows_are_stored(what: str, where: str, tmp_path: Path) -> None:
    results = [
        pais.quantile(rows, q=[0.2, 0.5, 0.8], random_state=1, **QUANTILES[what])
        for rows in (people(), SOURCES[where](tmp_path))
    ]
    assert np.array_equal(results[0].estimates, results[1].estimates)
    assert np.array_equal(results[0].standard_errors, results[1].standard_errors)
