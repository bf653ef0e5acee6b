"""Statistics as texts and frames: labels, tables, and values that noise hides."""

from __future__ import annotations

import json
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest

import pais
from pais import ArgumentError
from pais.cli.commands import described
from pais.errors import QualityWarning
from pais.statistics.table import with_error
from tests.unit.statistics.test_functions import COLUMNS, LARGE, REGIONS, TABLE

pytestmark = pytest.mark.filterwarnings("ignore:epsilon=:pais.errors.PrivacyWarning")
FUNCTIONS = [pais.mean, pais.variance, pais.describe, pais.quantile]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
@pytest.mark.parametrize("name", ["region", "joined"])
def test_a_column_that_cannot_be_read_warns_and_is_marked(function: Any, name: str) -> None:
    with pytest.warns(QualityWarning, match=f"hardly any cell of '{name}' could be read as a number between 0 and 1"):
        result = function(TABLE, columns={"age": (18, 100), name: (0, 1)}, random_state=0)
    assert "lost in the noise" in str(result)
    rows = [line for line in str(result).splitlines() if "lost" in line]
    assert all(name in row for row in rows)


@pytest.mark.parametrize(
    ("stated", "kind"),
    [(bool, "true or false"), (["up", "down"], "one of its categories"), (("2020-01-01", "2021-01-01"), "2021-01-01")],
)
def test_the_warning_says_what_was_expected(stated: Any, kind: str) -> None:
    with pytest.warns(QualityWarning, match=kind):
        pais.mean(TABLE, columns={"region": stated}, random_state=0)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_a_group_without_rows_is_marked_and_named(function: Any) -> None:
    with pytest.warns(QualityWarning, match="1 of 2 groups are lost in the noise: North"):
        result = function(TABLE, columns={"age": (18, 100)}, by={"region": ["North", "south"]}, random_state=0)
    assert "caution: values of 1 of 2 groups are lost in the noise: North. " in str(result)
    assert "not spelled as in column 'region'" in str(result)
    lost = [line for line in str(result).splitlines() if "lost" in line and not line.startswith("caution: ")]
    assert len(lost) == 1
    assert lost[0].startswith("North")
    with pytest.warns(QualityWarning, match="2 of 2 groups"):
        function(TABLE, columns={"age": (18, 100)}, by={"region": ["North", "South"]}, random_state=0)


def test_values_above_the_noise_do_not_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", QualityWarning)
        for function in FUNCTIONS:
            result = function(TABLE, columns={"age": (18, 100)}, by={"region": REGIONS}, random_state=0)
            assert "lost" not in str(result)
        pais.covariance(TABLE, columns=COLUMNS, random_state=0)
        pais.mean(TABLE, columns=COLUMNS, sampling="uniform", sample_size=2000, random_state=0)
        pais.count(TABLE, by={"region": ["North", "South"]}, random_state=0)
    with pytest.warns(QualityWarning, match="hardly any cell"):
        pais.covariance(TABLE, columns={"age": (18, 100), "region": (0, 1)}, random_state=0)


def test_noise_hides_groups_with_few_rows_at_the_stated_rate() -> None:
    """Of 2000 empty groups, nearly all are lost; of 200 groups with 50 rows each, none is."""
    empty = pd.DataFrame({"x": [0.5], "g": ["a"]})
    result = pais.mean(empty, columns={"x": (0, 1)}, by={"g": [f"g{i}" for i in range(2000)]}, random_state=0)
    assert result.lost is not None
    assert result.lost.mean() > 0.97
    full = pd.DataFrame({"x": 0.5, "g": [f"g{i}" for i in range(200) for _ in range(50)]})
    result = pais.mean(full, columns={"x": (0, 1)}, by={"g": [f"g{i}" for i in range(200)]}, random_state=0)
    assert result.lost is not None
    assert not result.lost.any()


def test_a_single_column_keeps_its_name() -> None:
    mean = pais.mean(TABLE, columns={"age": (18, 100)}, **LARGE)
    assert str(mean).startswith("age  ")
    assert [value["column"] for value in described(mean)["values"]] == ["age"]
    high = pais.quantile(TABLE, 0.9, columns={"age": (18, 100)}, random_state=0)
    assert str(high).startswith("age, 0.9  ")
    assert described(high)["values"][0].items() >= {"column": "age", "quantile": "0.9"}.items()
    assert str(pais.quantile(TABLE, columns={"age": (18, 100)}, random_state=0)).startswith("age  ")
    assert str(pais.count(TABLE, random_state=0)).startswith("count  ")
    json.dumps(described(high))


def test_a_description_is_printed_as_a_table() -> None:
    columns = {**COLUMNS, "joined": ("2019-01-01", "2025-01-01")}
    lines = str(pais.describe(TABLE, columns=columns, random_state=0)).splitlines()
    assert lines[0].split() == ["count", "mean", "std", "25%", "50%", "75%"]
    assert [line.split()[0] for line in lines[1:5]] == list(columns)
    assert lines[1].count("±") == 6
    assert lines[3].count("±") == 3
    assert ":" not in lines[4]
    many = pd.DataFrame(np.random.default_rng(0).random((500, 30)), columns=[f"x{j}" for j in range(30)])
    result = pais.describe(many, columns=dict.fromkeys(many, (0, 1)), epsilon=10.0, random_state=0)
    assert "x29" in str(result)
    by_region = pais.describe(TABLE, columns=COLUMNS, by={"region": REGIONS}, random_state=0)
    assert "south, premium" in str(by_region)
    assert "mean" in by_region._repr_html_()


def test_intervals_of_descriptions_stay_within_the_bounds() -> None:
    table = pd.DataFrame({"x": np.tile([0.0, 10.0], 20), "flag": True, "kind": "a"})
    columns: dict[str, Any] = {"x": (0, 10), "flag": bool, "kind": ["a", "b"]}
    low, high = pais.describe(table, columns=columns, epsilon=0.5, random_state=0).interval(0.99)
    names = ["mean", "25%", "50%", "75%"]
    assert (low.loc[names, "x"] >= 0.0).all()
    assert (high.loc[names, "x"] <= 10.0).all()
    assert high.loc["mean", "flag"] <= 1.0
    assert (low.loc[["count", "std"]] >= 0.0).all(axis=None)


def test_values_and_errors_side_by_side() -> None:
    result = pais.mean(TABLE, columns=COLUMNS, by={"region": REGIONS}, random_state=0)
    frame = result.to_frame()
    assert frame.columns.tolist() == ["value", "standard_error", "low", "high", "clipped"]
    assert frame.loc[("south", "age"), "value"] == result.value.loc["south", "age"]
    assert frame.loc[("south", "age"), "low"] == result.interval()[0].loc["south", "age"]
    assert (result.to_frame(0.5)["high"] <= frame["high"]).all()
    one = pais.mean(TABLE, columns={"age": (18, 100)}, random_state=0)
    assert one.to_frame().loc["age", "value"] == one.value == float(one)
    dates = pais.mean(TABLE, columns={"joined": ("2019-01-01", "2025-01-01")}, random_state=0)
    assert dates.to_frame().loc["joined", "value"] == pd.Timestamp(dates.value)
    assert len(pais.histogram(TABLE, columns={"age": (18, 98)}, bins=4, random_state=0).to_frame()) == 4
    for several in (result, dates):
        with pytest.raises(ArgumentError, match="not a single number"):
            float(several)


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (53.6458, 0.0719, "53.646 ± 0.072"),
        (5002.4, 12.7, "5,002 ± 13"),
        (5002.4, 9.96, "5,002 ± 10"),
        (5002.4, 1270.0, "5,000 ± 1,300"),
        (3.0, 0.0, "3"),
        (3.0, 1e-20, "3 ± 1e-20"),
        (float("nan"), 1.0, ""),
    ],
)
def test_numbers_are_as_long_as_their_errors_allow(value: float, error: float, text: str) -> None:
    assert with_error(value, error) == text
