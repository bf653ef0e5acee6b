"""Which columns of a table are features, and what the target is called, if y is passed beside the table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import pais
from pais import DPLinearRegression, DPLogisticRegression

# These small fits say nothing about their coefficients.
pytestmark = pytest.mark.filterwarnings("ignore:all coefficients are hidden")

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
