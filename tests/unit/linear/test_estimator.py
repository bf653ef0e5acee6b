"""The estimator `DPLinearRegression`: contract, inputs, units of the columns and guarantees."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.linear_model import LinearRegression

import pais
from pais import DPLinearRegression
from pais.data.tables import read

N_ROWS = 20_000


def people(n_rows: int = N_ROWS) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    age = rng.uniform(18.0, 90.0, n_rows)
    visits = rng.poisson(4.0, n_rows).astype(float)
    premium = rng.random(n_rows) < 0.3
    region = rng.choice(["north", "south"], n_rows)
    income = 20_000 + 500 * age - 1500 * visits + 9000 * premium + 4000 * (region == "south")
    income = income + rng.normal(scale=6000.0, size=n_rows)
    return {"age": age, "visits": visits, "premium": premium, "region": region, "income": income}


PEOPLE = people()
COLUMNS = {
    "age": (18, 90),
    "visits": (0, 15),
    "premium": bool,
    "region": ["north", "south"],
    "income": (0, 100_000),
}
NUMBERS = np.column_stack([PEOPLE["age"], PEOPLE["visits"]])


def table() -> pa.Table:
    return pa.table({**PEOPLE, "id": np.arange(N_ROWS) // 2})


def fitted(X: Any = None, y: Any = None, **changes: Any) -> DPLinearRegression:
    settings: dict[str, Any] = {"epsilon": 1.0, "columns": COLUMNS, "target": "income", "random_state": 0, **changes}
    return DPLinearRegression(**settings).fit(table() if X is None else X, y)


# -- coefficients ---------------------------------------------------------------------------------------------------


def test_coefficients_are_in_the_units_of_the_columns() -> None:
    model = fitted(epsilon=8.0, sampling="none")
    frame = model.coefficients_frame()
    assert frame.index.tolist() == ["age", "visits", "premium", "region=north", "region=south", "intercept"]
    truth = {"age": 500.0, "visits": -1500.0, "premium": 9000.0}
    for name, value in truth.items():
        assert frame.loc[name, "coefficient"] == pytest.approx(value, rel=0.1)
        assert frame.loc[name, "standard_error"] < 0.1 * abs(value)
    between = frame.loc["region=south", "coefficient"] - frame.loc["region=north", "coefficient"]
    assert between == pytest.approx(4000.0, rel=0.15)
    assert model.coef_.tolist() == frame["coefficient"].tolist()[:-1]
    assert model.intercept_ == frame.loc["intercept", "coefficient"]
    assert model.coef_standard_errors_.tolist() == frame["standard_error"].tolist()[:-1]


@pytest.mark.parametrize("columns", [None, {"x0": (18, 90), "x1": (0, 15), "y": (0, 100_000)}])
def test_coefficients_of_an_array_are_those_of_least_squares(columns: Any) -> None:
    exact = LinearRegression().fit(NUMBERS, PEOPLE["income"])
    model = DPLinearRegression(epsilon=20.0, columns=columns, sampling="none", alpha=0.0, random_state=0)
    with pytest.warns(pais.PrivacyWarning, match="weak"):
        model.fit(NUMBERS, PEOPLE["income"])
    # Clipped rows count less, so the coefficients are those of other weights.
    assert model.coef_ == pytest.approx(exact.coef_, rel=0.05)
    assert model.intercept_ == pytest.approx(exact.intercept_, rel=0.05)
    assert model.fit_.coefficients.labels == ("x0", "x1")
    assert model.fit_.coefficients.target == "y"


@pytest.mark.parametrize("sampling", ["constrained", "coreset", "uniform", "none"])
def test_every_sampling_rule_predicts(sampling: str) -> None:
    model = fitted(sampling=sampling, epsilon=2.0)
    assert model.score(table()) > 0.7
    assert model.certificate_.epsilon <= 2.0


def test_a_small_sample_predicts() -> None:
    model = fitted(sample_size=2000)
    norms = model.plan_.norms
    assert norms is not None
    assert norms.expected_size(model.plan_.rule) <= 2000
    assert model.score(table()) > 0.6


def test_columns_that_are_not_stated_are_found() -> None:
    model = fitted(columns=["age", "visits"], epsilon=2.0)
    schema = model.fit_.schema
    assert schema is not None
    age, _, income = schema.columns
    assert age.center == pytest.approx(54.0, abs=6.0)
    assert age.unit_scale == pytest.approx(20.8, rel=0.3)
    low, high = np.quantile(PEOPLE["income"], [0.0, 1.0])
    assert model.fit_.bounds[0] > low - 20_000
    assert model.fit_.bounds[1] < high + 20_000
    assert income.name == "income"
    assert model.score(table()) > 0.4


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("sample_size", [None, 2000])
def test_intervals_of_coefficients_cover(sample_size: float | None) -> None:
    """The share of true coefficients within two standard errors, over rows, samples and noise."""
    truth = np.array([2.0, -1.0, 0.5])
    columns = {"x0": (-4, 4), "x1": (-7, 9), "x2": (-2, 2), "y": (-15, 20)}
    inside = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(N_ROWS, 3)) * [1.0, 2.0, 0.5] + [0.0, 1.0, 0.0]
        y = X @ truth + 4.0 + rng.normal(size=N_ROWS)
        model = DPLinearRegression(columns=columns, sample_size=sample_size, random_state=seed).fit(X, y)
        frame = model.coefficients_frame()
        true = np.append(truth, 4.0)
        inside.append((frame["low"] <= true) & (true <= frame["high"]))
    assert 0.88 <= np.mean(inside) <= 0.995


def misfit(n_rows: int, seed: int = 0) -> pd.DataFrame:
    """Working hours by age, education and sex, with bends, jumps and unequal spreads that no line has."""
    rng = np.random.default_rng(seed)
    age = np.clip(17.0 + rng.gamma(3.0, 7.5, n_rows), 17.0, 90.0)
    education = np.clip(np.round(rng.normal(10.0, 2.6, n_rows)), 1.0, 16.0)
    male = rng.random(n_rows) < 0.67
    hours = 41.0 + 5.5 * male + 0.35 * (education - 10.0) - 14.0 * (np.abs(age - 44.0) / 27.0) ** 2
    hours = np.where(rng.random(n_rows) < 0.45, 40.0, hours + (6.0 + 0.1 * age) * rng.standard_t(5, n_rows))
    sex = np.where(male, "Male", "Female")
    return pd.DataFrame({"age": age, "education": education, "sex": sex, "hours": np.clip(hours, 1.0, 99.0)})


MISFIT = {"age": (17, 90), "education": (1, 16), "sex": ["Female", "Male"], "hours": (1, 99)}


def least_squares(rows: pd.DataFrame) -> list[float]:
    """The table's own coefficients; those of the categories add up to zero."""
    male = (rows["sex"] == "Male").to_numpy(float)
    X = np.column_stack([rows["age"], rows["education"], male])
    *numbers, step = LinearRegression().fit(X, rows["hours"]).coef_.tolist()
    return [*numbers, -step / 2.0, step / 2.0]


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0, 5.0])
def test_intervals_cover_least_squares_on_the_table_if_no_line_fits(epsilon: float) -> None:
    """Clipped rows count less, so the fit answers another question unless radius and errors allow for it."""
    rows = misfit(40_000)
    truth = np.array(least_squares(rows))
    inside, clear = [], []
    for seed in range(20):
        model = DPLinearRegression(epsilon, columns=MISFIT, target="hours", random_state=seed).fit(rows)
        frame = model.coefficients_frame().iloc[:-1]
        inside.append((frame["low"] <= truth) & (truth <= frame["high"]))
        clear.append((frame["low"] > 0.0) | (frame["high"] < 0.0))
    assert np.mean(inside, axis=0).min() >= 0.9
    # The intervals are not so wide that they say nothing.
    assert np.mean(clear, axis=0)[2:].min() == 1.0


def test_the_radius_grows_with_epsilon_and_rows() -> None:
    def clipped(n_rows: int, epsilon: float) -> float:
        """Share of the rows beyond the radius."""
        rows = misfit(n_rows)
        model = DPLinearRegression(epsilon, columns=MISFIT, target="hours", random_state=0).fit(rows)
        ball, vectors = (
            model.plan_.ball,
            read(rows, columns=model.fit_.schema).rows - np.asarray(model.plan_.ball.center),
        )
        return float(np.mean(np.hypot(np.linalg.norm(vectors, axis=1), ball.constant) > ball.radius))

    few = [clipped(n_rows, 1.0) for n_rows in (500, 3000, 40_000)]
    assert few[0] > few[1] > few[2]
    assert few[2] < 0.02
    assert clipped(3000, 0.3) > clipped(3000, 3.0)


@pytest.mark.filterwarnings("ignore::pais.SurveyWarning")
def test_a_table_that_is_too_small_says_so_and_has_no_intervals(tmp_path: Path) -> None:
    with pytest.warns(pais.QualityWarning, match="hidden by noise"):
        model = fitted(table().slice(0, 60), epsilon=0.3)
    frame = model.coefficients_frame()
    assert frame["hidden_by_noise"].tolist() == [True] * 5 + [False]
    assert frame["low"].isna().tolist() == frame["high"].isna().tolist() == frame["hidden_by_noise"].tolist()
    model.write_report(tmp_path / "report.html")
    assert "All 5 coefficients are hidden by noise." in (tmp_path / "report.html").read_text()


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.filterwarnings("ignore::pais.SurveyWarning", "ignore::pais.QualityWarning")
@pytest.mark.parametrize(("n_rows", "epsilon"), [(100, 3.0), (300, 1.0), (300, 10.0), (1000, 1.0)])
def test_a_column_without_effect_is_rarely_claimed_to_have_one(n_rows: int, epsilon: float) -> None:
    claimed, found = [], []
    for seed in range(40):
        rng = np.random.default_rng(1000 * n_rows + seed)
        X = rng.uniform(-1.0, 1.0, size=(n_rows, 5))
        y = np.clip(0.5 * X[:, 0] + 0.25 * rng.normal(size=n_rows), -1.0, 1.0)
        columns = {**{f"x{place}": (-1, 1) for place in range(5)}, "y": (-1, 1)}
        model = DPLinearRegression(epsilon, columns=columns, random_state=seed).fit(X, y)
        frame = model.coefficients_frame().iloc[:-1]
        clear = ((frame["low"] > 0.0) | (frame["high"] < 0.0)).tolist()
        claimed += clear[1:]
        found.append(clear[0])
    assert np.mean(claimed) <= 0.05
    assert np.mean(found) >= 0.4


# -- inputs ----------------------------------------------------------------------------------------------------------


def test_tables_files_and_arrays_give_the_same_fit(tmp_path: Path) -> None:
    names, columns = ["age", "visits"], {"age": (18, 90), "visits": (0, 15), "income": (0, 100_000)}
    numbers = table().select([*names, "income"])
    pq.write_table(numbers, tmp_path / "rows.parquet", row_group_size=3000)
    frame = numbers.to_pandas()
    settings: dict[str, Any] = {"columns": columns, "epsilon": 1.0, "random_state": 7}
    models = [
        DPLinearRegression(target="income", **settings).fit(numbers),
        DPLinearRegression(target="income", **settings).fit(tmp_path / "rows.parquet"),
        DPLinearRegression(target="income", **settings).fit(frame),
        DPLinearRegression(**settings).fit(frame[names], frame["income"]),
        DPLinearRegression(target="income", **settings).fit(pl.from_arrow(numbers)),
        DPLinearRegression(**{**settings, "columns": {"x0": (18, 90), "x1": (0, 15), "y": (0, 100_000)}}).fit(
            NUMBERS, PEOPLE["income"]
        ),
    ]
    for model in models[1:]:
        assert np.array_equal(model.coef_, models[0].coef_)
        assert model.intercept_ == models[0].intercept_
    for model in models[:5]:
        assert model.feature_names_in_.tolist() == names
        assert np.array_equal(model.predict(frame[names]), model.predict(numbers))
        assert np.array_equal(model.predict(tmp_path / "rows.parquet"), model.predict(numbers))
    assert not hasattr(models[5], "feature_names_in_")
    assert np.array_equal(models[5].predict(NUMBERS), models[0].predict(numbers))


def test_predictions_are_in_the_units_of_the_target_and_within_its_bounds() -> None:
    model = fitted()
    predicted = model.predict(table())
    assert predicted.shape == (N_ROWS,)
    frame = model.coefficients_frame()["coefficient"]
    by_hand = (
        frame["intercept"]
        + PEOPLE["age"] * frame["age"]
        + PEOPLE["visits"].clip(0, 15) * frame["visits"]
        + PEOPLE["premium"] * frame["premium"]
        + np.where(PEOPLE["region"] == "south", frame["region=south"], frame["region=north"])
    )
    assert predicted == pytest.approx(by_hand.clip(0, 100_000), rel=1e-9)
    # A feature beyond its bounds is clipped.
    far = pa.table({"age": [1e12], "visits": [0.0], "premium": [True], "region": ["south"]})
    assert 0.0 <= model.predict(far)[0] <= 100_000


def test_rows_with_missing_values_have_no_prediction() -> None:
    model = fitted()
    rows = pa.table({"age": [30.0, None], "visits": [1.0, 2.0], "premium": [True, False], "region": ["north", "west"]})
    assert np.isnan(model.predict(rows)).tolist() == [False, True]


def test_rows_with_missing_values_change_nothing() -> None:
    y = PEOPLE["income"].copy()
    X = NUMBERS.copy()
    settings: dict[str, Any] = {"columns": {"x0": (18, 90), "x1": (0, 15), "y": (0, 100_000)}, "random_state": 3}
    X[100:200, 0] = np.nan
    y[200:300] = np.inf
    other = X.copy()
    other[200:300] = -5e300
    other[100:200, 1] = 1e9
    models = [DPLinearRegression(epsilon=1.0, **settings).fit(rows, y) for rows in (X, other)]
    assert np.array_equal(models[0].coef_, models[1].coef_)


def test_a_score_reads_the_target_of_a_table(tmp_path: Path) -> None:
    model = fitted()
    pq.write_table(table(), tmp_path / "rows.parquet")
    score = model.score(table(), PEOPLE["income"])
    assert score == model.score(table()) == model.score(tmp_path / "rows.parquet")
    weights = np.ones(N_ROWS)
    assert model.score(table(), PEOPLE["income"], sample_weight=weights) == pytest.approx(score)


# -- guarantees ------------------------------------------------------------------------------------------------------


def test_a_unit_is_protected_with_all_rows() -> None:
    model = fitted(unit="id", epsilon=2.0)
    assert model.certificate_.neighbours == "one id added or removed"
    assert model.score(table()) > 0.6
    assert "id" not in model.feature_names_in_


def test_a_unit_beside_targets() -> None:
    frame = table().to_pandas().drop(columns=["region", "premium"])
    y = frame.pop("income")
    model = fitted(frame, y, unit="id", columns=None, target=None)
    assert model.feature_names_in_.tolist() == ["age", "visits"]
    assert model.fit_.coefficients.target == "income"


# -- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("X", "y", "changes", "message"),
    [
        (NUMBERS, None, {"target": None}, "requires y"),
        (NUMBERS, None, {}, "an array does not have"),
        (NUMBERS, PEOPLE["income"][:-1], {"columns": None}, "inconsistent numbers"),
        (NUMBERS, np.ones((N_ROWS, 2)), {"columns": None}, "1d array"),
        ("rows.parquet", PEOPLE["income"], {}, "beside a file"),
        (NUMBERS, PEOPLE["income"], {}, "not a column of X"),
        (pais.source(NUMBERS), None, {}, "open source"),
        (None, None, {"target": "region"}, "not a column of numbers"),
        (None, None, {"target": 3}, "not a text"),
        (None, None, {"target": "profit", "columns": ["age"]}, "profit"),
        (None, None, {"alpha": "auto"}, "alpha"),
        (None, None, {"alpha": -1.0}, "alpha"),
        (None, None, {"fit_intercept": "yes"}, "fit_intercept"),
        (None, None, {"columns": {"income": (0, 1)}}, "no feature"),
        (pd.DataFrame(NUMBERS, columns=["age", "y"]), PEOPLE["income"], {"columns": None, "target": None}, "'y'"),
    ],
)
def test_refusals_name_the_argument(X: Any, y: Any, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(pais.PaisError, match=message):
        fitted(X, y, **changes)


@pytest.mark.filterwarnings("ignore::pais.SurveyWarning", "ignore::pais.QualityWarning")
@pytest.mark.parametrize("size", [0.0, 1e-300, 1e300])
def test_columns_of_zeros_and_of_extreme_numbers_have_a_plan(size):
    rows = np.random.default_rng(0).normal(size=(2000, 3)) * size
    model = DPLinearRegression(epsilon=10.0, random_state=0).fit(rows[:, :2], rows[:, 2])
    assert np.all(np.isfinite(model.coef_))


@pytest.mark.parametrize("stated", [(-20, 30), "auto"])
def test_a_missing_target_is_never_filled_in(stated: Any) -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(0.0, 1.0, 20_000)
    y = 10.0 * x + rng.normal(0.0, 0.5, len(x))
    y[rng.random(len(x)) < 0.5] = np.nan
    x[rng.random(len(x)) < 0.1] = np.nan
    rows = pd.DataFrame({"x": x, "y": y})
    columns = {"x": (0, 1), "y": stated}
    # With midpoints, the guess 0.5 for a missing x has no effect on the slope of the other rows.
    model = DPLinearRegression(epsilon=5, columns=columns, target="y", missing="midpoint", random_state=0).fit(rows)
    assert model.coef_[0] == pytest.approx(10.0, abs=0.3)
    assert model.intercept_ == pytest.approx(0.0, abs=0.3)
    kept = DPLinearRegression(epsilon=5, columns=columns, target="y", missing="midpoint", random_state=0)
    assert kept.fit(rows[np.isfinite(y)]).coef_.tolist() == pytest.approx(model.coef_.tolist(), abs=0.05)


def test_columns_whose_differences_the_noise_hides_are_named() -> None:
    rng = np.random.default_rng(7)
    table = pd.DataFrame({"a": rng.uniform(size=10_000), "c": rng.uniform(size=10_000)})
    table["b"] = np.clip(table["a"] + 1e-3 * rng.normal(size=10_000), 0.0, 1.0)
    table["y"] = np.clip(table["a"] - table["c"] / 2 + 0.1 * rng.normal(size=10_000), -1.0, 1.0)
    columns = {"a": (0, 1), "b": (0, 1), "c": (0, 1), "y": (-1, 1)}
    with pytest.warns(pais.QualityWarning, match="the columns a, b are so similar that the noise hides"):
        pais.DPLinearRegression(columns=columns, target="y", random_state=0).fit(table)
    with warnings.catch_warnings():
        warnings.simplefilter("error", pais.QualityWarning)
        for seed in range(10):
            stated = {name: columns[name] for name in ("a", "c", "y")}
            pais.DPLinearRegression(columns=stated, target="y", random_state=seed).fit(table)
