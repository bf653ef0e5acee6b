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


@pytest.mark.parametrize("name", MODELS)
def test_no_seed_changes_what_categories_are_compared_with(name: str) -> None:
    for seed, epsilon, share in ((0, 3.0, 0.005), (1, 0.5, 0.2), (2, 0.5, 0.0)):
        model = MODELS[name](ROWS[share].iloc[:5000], seed, epsilon=epsilon)
        assert np.max(sums(model)) < 1e-9


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("name", MODELS)
def test_intervals_of_categories_cover_their_differences(name: str) -> None:
    rows = visits(0.005, 5000)
    true, covered = truth(name, rows), []
    for seed in range(24):
        model = MODELS[name](rows, seed, epsilon=1.0)
        error = np.abs(np.atleast_2d(model.coef_) - true)
        covered.append(error <= 2.0 * np.atleast_2d(model.coef_standard_errors_))
    assert np.mean(covered, axis=0)[:, 1:].min() >= 0.9


@pytest.mark.parametrize("name", MODELS)
def test_few_rows_without_a_category_hide_no_difference(name: str) -> None:
    """Their common level against the intercept is known badly, and the differences of the categories are not."""

    def errors(share: float) -> Any:
        models = [MODELS[name](visits(share, 5000), seed, epsilon=1.0) for seed in range(4)]
        assert not any(model.coefficients_frame()["hidden_by_noise"].any() for model in models)
        return np.median([np.atleast_2d(model.coef_standard_errors_)[:, 1:] for model in models], axis=0)

    assert np.max(errors(0.005) / errors(0.0)) < 1.35


@pytest.mark.parametrize("name", MODELS)
def test_a_row_without_a_category_is_predicted_like_the_average_one(name: str) -> None:
    model = MODELS[name](ROWS[0.2], epsilon=3.0)
    rows = pd.DataFrame({"age": [40.0] * 4, "sex": ["F", "M", None, "X"], "region": ["north"] * 4})
    female, male, none, other = answers(model, rows)
    assert none == pytest.approx((female + male) / 2.0)
    assert other == pytest.approx(none)


def answers(model: Any, rows: pd.DataFrame) -> Any:
    return model.predict(rows) if isinstance(model, DPLinearRegression) else model.decision_function(rows)


def test_a_single_category_compares_with_the_other_rows() -> None:
    columns = {"age": (18, 90), "sex": ["M"]}
    models = [
        linear(ROWS[0.0], columns={**columns, "cost": (0, 12_000)}, epsilon=3.0),
        logistic(ROWS[0.0], columns={**columns, "readmitted": bool}, epsilon=3.0),
    ]
    for model, true in zip(models, (750.0, 0.5), strict=True):
        assert np.ravel(model.coef_)[1] == pytest.approx(true, rel=0.25)
        assert model.coefficients_frame()["compared_with"]["sex=M"] == "rows of no listed category of sex"
        assert "Categories: the coefficient of sex=M compares with rows of no listed category." in model.explain()


def test_without_an_intercept_categories_have_the_level_of_their_rows() -> None:
    model = linear(ROWS[0.0], epsilon=10.0, columns={"sex": ["F", "M"], "cost": (0, 12_000)}, fit_intercept=False)
    means = ROWS[0.0].groupby("sex")["cost"].mean()
    assert model.coef_ == pytest.approx(means.to_numpy(), rel=0.02)
    assert set(model.coefficients_frame()["compared_with"][:-1]) == {"rows of no listed category of sex"}
    assert "the coefficients of sex=F, sex=M compare with rows of no listed category." in model.explain()


@pytest.mark.parametrize("name", MODELS)
def test_the_frame_says_what_a_category_is_compared_with(name: str) -> None:
    frame = MODELS[name](ROWS[0.005]).coefficients_frame()
    average = "the average of the listed categories of region"
    expected = ["", *["the average of sex=F and sex=M"] * 2, *[average] * 3, ""]
    assert frame["compared_with"].tolist() == expected * (3 if name == "several classes" else 1)
