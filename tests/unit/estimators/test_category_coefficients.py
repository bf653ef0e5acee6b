"""Coefficients of categories: differences from the average of the listed categories, whatever the noise is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

from pais import DPLinearRegression, DPLogisticRegression

pytestmark = [
    pytest.mark.filterwarnings("ignore::pais.PrivacyWarning"),
    pytest.mark.filterwarnings("ignore::pais.QualityWarning"),
]

COLUMNS = {"age": (18, 90), "sex": ["F", "M"], "region": ["north", "south", "east"]}
LABELS = ["age", "sex=F", "sex=M", "region=north", "region=south", "region=east"]
GROUPS = ([1, 2], [3, 4, 5])
SHARES = [0.0, 0.005, 0.2]


def visits(missing: float, n_rows: int = 20_000) -> pd.DataFrame:
    """Costs, readmissions and outcomes by age, sex and region. A share of the rows has no sex, and fewer no region.

    Rows without a category differ from the others, so that they would show if coefficients compared with them.
    """
    rng = np.random.default_rng(11)
    age, sex = rng.uniform(18.0, 90.0, n_rows), rng.choice(["F", "M"], n_rows).astype(object)
    region = rng.choice(["north", "south", "east"], n_rows, p=[0.5, 0.3, 0.2]).astype(object)
    sex[rng.random(n_rows) < missing] = None
    region[rng.random(n_rows) < missing / 2.0] = None
    score = 0.02 * (age - 50.0) + 0.5 * (sex == "M") + 0.6 * (region == "south") - 0.3 * (region == "east")
    score = score - 1.2 * pd.isna(sex) + 0.8 * pd.isna(region)
    cost = np.clip(5000.0 + 1500.0 * score + 1000.0 * rng.normal(size=n_rows), 0.0, 12_000.0)
    readmitted = rng.random(n_rows) < 1.0 / (1.0 + np.exp(0.5 - score))
    outcomes = np.column_stack([np.zeros(n_rows), score, -0.5 * score]) + rng.gumbel(size=(n_rows, 3))
    outcome = np.array(["home", "ward", "clinic"])[outcomes.argmax(axis=1)]
    return pd.DataFrame(
        {"age": age, "sex": sex, "region": region, "cost": cost, "readmitted": readmitted, "outcome": outcome}
    )


ROWS = {share: visits(share) for share in SHARES}


def linear(rows: pd.DataFrame, seed: int = 0, **changes: Any) -> DPLinearRegression:
    settings = {"columns": {**COLUMNS, "cost": (0, 12_000)}, "target": "cost", "random_state": seed, **changes}
    return DPLinearRegression(**settings).fit(rows)


def logistic(rows: pd.DataFrame, seed: int = 0, **changes: Any) -> DPLogisticRegression:
    settings = {"columns": {**COLUMNS, "readmitted": bool}, "target": "readmitted", "random_state": seed, **changes}
    return DPLogisticRegression(**settings).fit(rows)


def several(rows: pd.DataFrame, seed: int = 0, **changes: Any) -> DPLogisticRegression:
    classes = {"columns": {**COLUMNS, "outcome": ["clinic", "home", "ward"]}, "target": "outcome"}
    return logistic(rows, seed, **{**classes, **changes})


MODELS = {"linear": linear, "logistic": logistic, "several classes": several}


def truth(model: str, rows: pd.DataFrame) -> Any:
    """Coefficients without privacy, one line for each logit. Rows without a category have a level of their own."""
    X = np.column_stack([rows[name.split("=")[0]] == name.split("=")[1] for name in LABELS[1:]]).astype(float)
    X = np.column_stack([(rows["age"] - 54.0) / 36.0, X])
    if model == "linear":
        values = LinearRegression().fit(X, rows["cost"]).coef_[None, :].copy()
    else:
        target = "readmitted" if model == "logistic" else "outcome"
        values = LogisticRegression(C=1e6, tol=1e-10, max_iter=5000).fit(X, rows[target]).coef_.copy()
    values[:, 0] /= 36.0
    for group in GROUPS:
        values[:, group] -= values[:, group].mean(axis=1, keepdims=True)
    return values


def sums(model: Any) -> Any:
    """Sum of the coefficients of each column of categories, over their largest one."""
    values = np.atleast_2d(model.coef_)
    return [np.abs(values[:, group].sum(axis=1)).max() / np.abs(values).max() for group in GROUPS]


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("name", MODELS)
def test_coefficients_are_differences_from_the_average_category(name: str, share: float) -> None:
    model = MODELS[name](ROWS[share], epsilon=50.0)
    errors = np.atleast_2d(model.coef_) - truth(name, ROWS[share])
    assert np.abs(errors[:, 1:]).max() <= 0.06 * (1500.0 if name == "linear" else 1.0)
    assert np.max(sums(model)) < 1e-9


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("name", MODELS)
def test_no_seed_changes_what_categories_are_compared_with(name: str, share: float) -> None:
    for seed in range(6):
        model = MODELS[name](ROWS[share].iloc[:5000], seed, epsilon=0.5 if seed % 2 else 3.0)
        assert np.max(sums(model)) < 1e-9
