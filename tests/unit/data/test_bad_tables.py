"""Invalid tables are refused, and no error shows a value of a row."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

import pais
from pais import Ball, DataError, Plan, WeightedCount, laplace_noise, sample
from tests.support.bad_values import BALL, CANARY, EVERY, NO_NUMBERS, each_refused, refused

# -- rows ----------------------------------------------------------------------------------------------------

NO_TABLES: dict[str, object] = {
    # A string is the path of a file.
    **{name: bad for name, bad in NO_NUMBERS.items() if name not in ("bools", "a string")},
    "flat": [CANARY, CANARY],
    "a scalar": CANARY,
    "three-dimensional": np.full((2, 2, 2), CANARY),
    "a table of strings": [["1234.5678 m", "1"]] * 3,
    "a table of objects": np.array([[CANARY, object()]] * 3, dtype=object),
    "a complex table": [[CANARY + 1j, CANARY]] * 3,
    "a ragged table": [[CANARY], [CANARY, CANARY]],
    "a table of dates": np.array([["2024-01-01"]], dtype="datetime64[D]"),
    "no columns": np.empty((3, 0)),
    "an empty list": [],
    "empty lists": [[], []],
    "numbers beyond any float": [[10**400, 1.5]] * 3,
}


@pytest.mark.parametrize("strategy", ["auto", "pass", "thin"])
def test_bad_tables_are_refused_by_sample(strategy: str) -> None:
    each_refused(DataError, lambda bad: sample(bad, ball=BALL, rule=EVERY, strategy=strategy), NO_TABLES)


def test_bad_tables_are_refused_by_run() -> None:
    plan = Plan(ball=BALL, rule=EVERY, mechanism=WeightedCount(noise=laplace_noise(1.0)), epsilon=2.0)
    each_refused(DataError, lambda bad: pais.run(plan, bad), NO_TABLES)


def test_rows_of_another_width_than_the_center_are_refused() -> None:
    ball = Ball(radius=1.0, center=(0.0, 1.0, 2.0))
    for width in (1, 2, 4):
        table = np.full((5, width), CANARY)
        error = refused(DataError, lambda t=table: sample(t, ball=ball, rule=EVERY))
        assert f"{width} column" in str(error)
        assert "3" in str(error)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
@pytest.mark.parametrize("strategy", ["auto", "pass", "thin"])
@pytest.mark.parametrize("order", [1.0, 2.0, 3.0, math.inf])
def test_row_with_a_value_that_is_not_finite_is_left_out(order: float, strategy: str, dtype: type) -> None:
    center = tuple(float(column) for column in range(9))
    for bad in (math.nan, math.inf, -math.inf):
        table = np.full((57, 9), CANARY, dtype=dtype)
        table[41, 6] = bad
        for ball in (Ball(radius=10.0, order=order), Ball(radius=10.0, order=order, center=center)):
            kept = sample(table, ball=ball, rule=EVERY, strategy=strategy).spend("a test")
            assert kept.rows.shape == (56, 9), bad
            assert np.all(np.isfinite(kept.rows)), bad


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf], ids=str)
def test_columns_that_are_not_finite_are_named_on_demand_and_values_are_not(bad: float, dtype: type) -> None:
    table = np.full((57, 9), CANARY, dtype=dtype)
    table[41, 6] = bad
    error = refused(DataError, lambda: pais.source(table, missing="error"), match=r"column\(s\) 6 have")
    # Neither which row, nor how many there are.
    for secret in ("41", "42", "57"):
        assert secret not in str(error)
    table[3, [0, 8]] = bad
    error = refused(DataError, lambda: pais.source(table, missing="error"))
    assert all(str(column) in str(error) for column in (0, 6, 8))
    assert not any(str(column) in str(error) for column in (1, 2, 3, 4, 5, 7))


def test_all_bad_columns_are_named() -> None:
    table = np.full((3, 400), math.nan)
    error = refused(DataError, lambda: pais.source(table, missing="error"), match="column")
    assert all(str(column) in str(error) for column in range(400))


@pytest.mark.parametrize("bad", ["text", None, 1j, b"\xff", 10**400, {}, object()], ids=lambda bad: type(bad).__name__)
def test_one_cell_of_a_list_does_not_change_how_the_others_are_read(bad: object) -> None:
    rows = [[CANARY, True], [np.float32(0.1), 2], [3, 0.25]]
    kept = [
        sample(one, ball=BALL, rule=EVERY, random_state=0).spend("a test").rows for one in (rows, [*rows, [1, bad]])
    ]
    assert np.array_equal(kept[0], kept[1])


def test_a_source_shows_its_kind_and_its_columns_and_no_number_of_rows() -> None:
    table = pa.table({f"c{column}": [CANARY] * 57 for column in range(12)})
    assert repr(pais.source(table)) == "<MemoryEngine: c0, c1, c2, c3, c4, c5, c6, c7 and 4 more>"
    assert str(pais.source(table, columns=["c3", "c1"])) == "<MemoryEngine: c3, c1>"
    assert repr(pais.source(np.full((57, 3), CANARY))) == "<MemoryEngine: 3 column(s)>"


def test_unknown_column_name_is_answered_with_the_nearest_and_all_names() -> None:
    table = pa.table({"height": [CANARY], "width": [CANARY]})
    for chosen in ({"columns": ["hieght"]}, {"columns": ["width"], "carry": ["Height"]}, {"key": "heigh"}):
        error = refused(DataError, lambda chosen=chosen: pais.source(table, **chosen), match="do not exist")
        assert "Did you mean height? Pass names of its columns: height, width." in str(error)


def test_huge_rows_are_clipped_without_an_error() -> None:
    table = np.array([[1e308, -1e308], [CANARY, 0.0], [5e-324, 0.0], [0.0, 0.0]])
    for order in (1.0, 2.0, 3.0, math.inf):
        content = sample(table, ball=Ball(radius=1.0, order=order), rule=EVERY).spend("a test")
        assert content.rows.shape == (4, 2)
        assert np.all(np.isfinite(content.rows))
