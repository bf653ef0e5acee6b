"""Targets: which columns are features beside them, and one odd target changes nothing for the other rows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import pais
from pais import DPLinearRegression, DPLogisticRegression
from pais.data.ball import Ball
from pais.data.engines.base import AllRows
from pais.estimator import Labelled

# These small fits say nothing about their coefficients.
pytestmark = pytest.mark.filterwarnings("ignore:all coefficients are hidden")

N = 40
X = np.linspace(-1.0, 1.0, 2 * N).reshape(N, 2)
CLASSES = [[0, 1], [False, True], ["a", "b"], [0.0, 1.0]]
ODD = ["other", None, 0.5, 7, 1j, b"x", [1, 2], float("nan"), 2**70, 10**400, np.datetime64("2020-01-01"), ...]


def opened_sum(model, y):
    """Sum of the rows as the engine reads them."""
    if isinstance(model, pais.DPLogisticRegression):
        model.classes_ = model._public_classes(X, y)
    rows = AllRows(engine=model._opened(Labelled(X=X, y=y)), ball=Ball(radius=1e6), seeded=True)
    return rows.total(lambda rows, weights: np.rint(rows * 2.0**20).astype(np.int64).sum(axis=0)[-2:])


def with_cell(y, cell, kind):
    cells = list(y)
    cells[3] = cell
    if kind is list:
        return cells
    array = np.empty(len(cells), dtype=object)
    for place, value in enumerate(cells):
        array[place] = value
    return array


@pytest.mark.parametrize("kind", [list, object])
@pytest.mark.parametrize("cell", ODD, ids=repr)
@pytest.mark.parametrize("classes", CLASSES, ids=str)
def test_an_odd_class_counts_as_no_class(classes, cell, kind):
    model = pais.DPLogisticRegression(classes=classes)
    y = [classes[place % 2] for place in range(N)]
    assert np.array_equal(opened_sum(model, with_cell(y, cell, kind)), opened_sum(model, with_cell(y, None, kind)))
    assert np.all(opened_sum(model, with_cell(y, cell, kind)) > 0)


@pytest.mark.parametrize("kind", [list, object])
@pytest.mark.parametrize("cell", ["other", None, 1j, b"x", [1, 2], float("nan"), ...], ids=repr)
@pytest.mark.parametrize("values", [[0.5, 2.0], [1, 2**60 + 1], [False, True]], ids=str)
def test_an_odd_number_leaves_out_its_row_alone(values, cell, kind):
    model = pais.DPLinearRegression(columns={"y": (0, 2**61)})
    y = [values[place % 2] for place in range(N)]
    assert np.array_equal(opened_sum(model, with_cell(y, cell, kind)), opened_sum(model, with_cell(y, None, kind)))


def test_a_column_of_targets_in_lists_is_read_as_its_cells():
    model = pais.DPLinearRegression(columns={"y": (0, 1)})
    y = (np.arange(N) / N).tolist()
    assert np.array_equal(opened_sum(model, [[cell] for cell in y]), opened_sum(model, y))


@pytest.mark.parametrize("kind", [np.longdouble, "m8[D]", "V8"])
def test_a_kind_of_numbers_that_cannot_be_read_is_refused_in_words(kind):
    with pytest.raises(pais.DataError, match="y"):
        pais.DPLinearRegression().fit(X, np.zeros(N).astype(kind))


@pytest.mark.parametrize(
    ("y", "weights"),
    [
        (["secret"] * N, None),
        ([0.0, "secret"] * (N // 2), None),
        ([0.0] * (N - 1), None),
        ([0.0] * N, [1.0] * 7),
        ([0.0] * N, ["secret"] * N),
        ([[0.0, 1.0]] * N, None),
        ([math.nan] * N, None),
    ],
)
@pytest.mark.parametrize("estimator", [pais.DPLinearRegression, pais.DPLogisticRegression])
@pytest.mark.filterwarnings("ignore::pais.QualityWarning")
def test_errors_of_score_show_neither_cells_nor_numbers_of_rows(estimator, y, weights):
    known = {"classes": [0.0, 1.0]} if estimator is pais.DPLogisticRegression else {}
    model = estimator(random_state=0, columns={"x0": (-1, 1), "x1": (-1, 1), "y": (0, 1)}, **known)
    model.fit(X, [0.0, 1.0] * (N // 2))
    text = ""
    try:
        model.score(X, y, sample_weight=weights)
    except pais.DataError as error:
        text = str(error).replace("1d array", "")
    assert "secret" not in text
    assert not any(character.isdigit() for character in text)


# -- which columns of a table are features, and what the target is called, if y is passed beside the table

N_ROWS = 4_000


def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    age, visits = rng.uniform(18.0, 90.0, N_ROWS), rng.uniform(0.0, 10.0, N_ROWS)
    income = 300.0 * age + 1000.0 * visits + rng.normal(scale=1000.0, size=N_ROWS)
    return pd.DataFrame(
        {"age": age, "visits": visits, "income": income, "rich": np.where(income > 22_000, "yes", "no")}
    )


FRAME = frame()
AGE = {"age": (18, 90)}
KINDS = [pd.DataFrame, pl.from_pandas, pa.Table.from_pandas]


def model(predicted: str, **changes: Any) -> Any:
    settings: dict[str, Any] = {"epsilon": 5.0, "random_state": 0, **changes}
    if predicted == "income":
        return DPLinearRegression(**settings)
    return DPLogisticRegression(**settings, classes=["no", "yes"])


@pytest.mark.parametrize("target", ["income", "rich"])
@pytest.mark.parametrize("kind", KINDS)
def test_all_columns_of_a_table_beside_y_are_features(target: str, kind: Any) -> None:
    fitted = model(target, columns=AGE).fit(kind(FRAME[["visits", "age"]]), FRAME[target])
    assert fitted.feature_names_in_.tolist() == ["age", "visits"]
    assert fitted.coef_.ravel()[1] > 0.0
    assert len(fitted.predict(kind(FRAME[["visits", "age"]]))) == N_ROWS


def test_a_table_with_its_target_has_the_features_that_are_mentioned() -> None:
    fitted = model("income", columns={**AGE, "income": (0, 40_000)}, target="income").fit(FRAME)
    assert fitted.feature_names_in_.tolist() == ["age"]


def test_columns_of_text_that_are_not_mentioned_are_listed() -> None:
    rows = FRAME[["age", "visits"]].assign(region="north", shop="a")
    with pytest.raises(pais.ArgumentError, match="region, shop of X do not hold numbers"):
        model("income", columns=AGE).fit(rows, FRAME["income"])
    fitted = model("income", columns={**AGE, "region": ["north"], "shop": ["a", "b"]}).fit(rows, FRAME["income"])
    assert fitted.feature_names_in_.tolist() == ["age", "region", "shop", "visits"]


@pytest.mark.parametrize(
    ("target", "kind", "columns"), list(zip(["income", "rich", "income"], KINDS, [None, AGE, AGE], strict=True))
)
def test_the_column_of_the_target_is_no_feature(target: str, kind: Any, columns: Any) -> None:
    rows = kind(FRAME[["age", "visits", target]])
    fitted = model(target, columns=columns).fit(rows, FRAME[target])
    assert fitted.feature_names_in_.tolist() == ["age", "visits"]
    assert np.array_equal(fitted.predict(rows), fitted.predict(kind(FRAME[["age", "visits"]])))


def test_bounds_of_the_target_may_be_called_y() -> None:
    rows, y = FRAME[["age", "visits"]], FRAME["income"]
    bounds = {**AGE, "visits": (0, 10)}
    called = model("income", columns={**bounds, "y": (0, 40_000)}).fit(rows, y)
    named = model("income", columns={**bounds, "income": (0, 40_000)}).fit(rows, y)
    assert called.coef_.tolist() == named.coef_.tolist()


def test_a_feature_may_be_called_y() -> None:
    rows = FRAME[["age", "visits"]].rename(columns={"visits": "y"})
    fitted = model("rich", columns={**AGE, "y": (0, 10)}).fit(rows, FRAME["rich"])
    assert fitted.feature_names_in_.tolist() == ["age", "y"]


def test_lengths_are_checked_before_classes() -> None:
    with pytest.raises(pais.DataError, match="inconsistent numbers of rows"):
        DPLogisticRegression().fit(FRAME[["age"]], ["yes"])
    with pytest.raises(pais.DataError, match="inconsistent numbers of rows"):
        DPLogisticRegression().fit(FRAME[["age"]].to_numpy(), ["yes"])
