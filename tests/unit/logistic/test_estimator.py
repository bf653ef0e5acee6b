"""The estimator `DPLogisticRegression`: contract, inputs, classes, units of the columns and guarantees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

import pais
from pais import DPLogisticRegression

N_ROWS = 20_000


def people(seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    age = rng.uniform(18.0, 90.0, N_ROWS)
    visits = rng.poisson(4.0, N_ROWS).astype(float)
    region = rng.choice(["north", "south"], N_ROWS)
    logit = -3.0 + 0.06 * age - 0.4 * visits + 1.5 * (region == "south")
    premium = rng.random(N_ROWS) < 1.0 / (1.0 + np.exp(-logit))
    scores = np.column_stack([0.05 * age, 0.8 * visits, 4.0 * (region == "south")]) + rng.gumbel(size=(N_ROWS, 3))
    plan = np.array(["basic", "family", "gold"])[scores.argmax(axis=1)]
    return {"age": age, "visits": visits, "region": region, "premium": premium, "plan": plan}


PEOPLE = people()
FEATURES = {"age": (18, 90), "visits": (0, 15), "region": ["north", "south"]}
NUMBERS = np.column_stack([PEOPLE["age"], PEOPLE["visits"]])
BOUNDS = {"x0": (18, 90), "x1": (0, 15)}


def table() -> pa.Table:
    return pa.table({**PEOPLE, "id": np.arange(N_ROWS) // 2})


def fitted(X: Any = None, y: Any = None, **changes: Any) -> DPLogisticRegression:
    settings: dict[str, Any] = {
        "epsilon": 1.0,
        "columns": {**FEATURES, "premium": bool},
        "target": "premium",
        "random_state": 0,
        **changes,
    }
    return DPLogisticRegression(**settings).fit(table() if X is None else X, y)


# -- coefficients ---------------------------------------------------------------------------------------------------


def test_coefficients_are_in_the_units_of_the_columns() -> None:
    model = fitted(epsilon=8.0)
    frame = model.coefficients_frame()
    assert frame.index.tolist() == ["age", "visits", "region=north", "region=south", "intercept"]
    assert frame.loc["age", "coefficient"] == pytest.approx(0.06, rel=0.15)
    assert frame.loc["visits", "coefficient"] == pytest.approx(-0.4, rel=0.15)
    between = frame.loc["region=south", "coefficient"] - frame.loc["region=north", "coefficient"]
    assert between == pytest.approx(1.5, rel=0.15)
    assert frame.loc["age", "standard_error"] < 0.01
    assert model.coef_[0].tolist() == frame["coefficient"].tolist()[:-1]
    assert model.intercept_.tolist() == [frame.loc["intercept", "coefficient"]]
    assert model.coef_standard_errors_[0].tolist() == frame["standard_error"].tolist()[:-1]


@pytest.mark.statistical
def test_intervals_of_a_sample_cover_the_coefficients_of_a_true_model() -> None:
    truth = np.array([0.06, -0.4, -0.75, 0.75, -2.25])
    covered, widths = [], []
    for seed in range(12):
        frame = fitted(pa.table(people(seed)), random_state=seed, sample_size=2_000).coefficients_frame()
        covered.append(((frame["low"] <= truth) & (truth <= frame["high"])).to_numpy())
        widths.append((frame["high"] - frame["low"]).to_numpy())
    assert np.mean(covered, axis=0).min() >= 0.75
    # The intervals are not so wide that they say nothing.
    assert np.all(np.mean(widths, axis=0)[:-1] < np.abs(truth[:-1]))


def misspecified(n_rows: int, seed: int = 5) -> tuple[pa.Table, dict[str, Any]]:
    """A table with heavy tails whose classes do not follow a logistic model, and its bounds."""
    rng = np.random.default_rng(seed)
    a, b = rng.pareto(3.0, n_rows).clip(0.0, 12.0), rng.beta(0.5, 2.0, n_rows)
    c, d = rng.laplace(size=n_rows).clip(-7.0, 7.0), rng.normal(size=n_rows).clip(-4.0, 4.0)
    logit = 1.5 * np.sin(2.0 * c) + 2.0 * np.sqrt(a) - 1.5 * b + 0.3 * c**2 - 2.0 + 0.8 * d * (b > 0.2) + 0.3 * a * c
    y = rng.random(n_rows) < 1.0 / (1.0 + np.exp(-logit))
    bounds = {"a": (0, 12), "b": (0, 1), "c": (-7, 7), "d": (-4, 4), "y": bool}
    return pa.table({"a": a, "b": b, "c": c, "d": d, "y": y}), bounds


def skewed(n_rows: int) -> tuple[pa.Table, dict[str, Any]]:
    """A table with a rare large amount that decides the class, as capital gains do for incomes, and categories."""
    rng = np.random.default_rng(8)
    amount = np.where(rng.random(n_rows) < 0.08, rng.lognormal(8.7, 0.8, n_rows), 0.0).clip(0.0, 1e5)
    age, group = rng.uniform(18.0, 90.0, n_rows), rng.choice(["a", "b", "c"], n_rows, p=[0.7, 0.25, 0.05])
    logit = -3.0 + 3e-4 * amount + 0.03 * age + 0.8 * (group == "b") - 0.6 * (group == "c")
    y = rng.random(n_rows) < 1.0 / (1.0 + np.exp(-logit))
    bounds = {"amount": (0, 100_000), "age": (18, 90), "group": ["a", "b", "c"], "y": bool}
    return pa.table({"amount": amount, "age": age, "group": group, "y": y}), bounds


def plain_coefficients(rows: pa.Table, columns: dict[str, Any]) -> Any:
    """Maximum likelihood on all rows, without a penalty. Coefficients of categories add up to zero."""
    frame = rows.to_pandas()
    parts, groups = [], []
    for name, fact in columns.items():
        if isinstance(fact, list):
            groups.append(list(range(len(parts), len(parts) + len(fact))))
            parts += [(frame[name] == each).to_numpy(float) for each in fact]
        elif name != "y":
            parts.append(frame[name].to_numpy(float))
    X = np.column_stack(parts)
    scale = X.std(axis=0)
    model = LogisticRegression(C=1e7, tol=1e-9, max_iter=5000).fit((X - X.mean(axis=0)) / scale, frame["y"])
    values = model.coef_[0] / scale
    for group in groups:
        values[group] -= values[group].mean()
    return values


@pytest.mark.statistical
@pytest.mark.parametrize("epsilon", [1.0, 5.0])
@pytest.mark.parametrize("make", [misspecified, skewed])
def test_intervals_cover_the_coefficients_of_the_table(make: Any, epsilon: float) -> None:
    """Also where the model is wrong: rows that are clipped or shortened answer another question."""
    rows, columns = make(20_000)
    truth = plain_coefficients(rows, columns)
    covered, ratios = [], []
    for seed in range(8):
        model = fitted(rows, columns=columns, target="y", epsilon=epsilon, random_state=seed)
        error = np.abs(model.coef_[0] - truth)
        hidden = model.fit_.coefficients.hidden[0]  # type: ignore[attr-defined]
        assert hidden.sum() <= 1
        covered.append(hidden | (error <= 2.0 * model.coef_standard_errors_[0]))
        ratios.append(error / model.coef_standard_errors_[0])
    assert np.mean(covered, axis=0).min() >= 0.75
    assert np.mean(covered) >= 0.9
    # The intervals are not much wider than the errors.
    assert np.sqrt(np.square(ratios).mean()) > 0.3


@pytest.mark.statistical
@pytest.mark.parametrize(("n_rows", "epsilon"), [(100, 3.0), (300, 10.0), (1000, 1.0)])
@pytest.mark.filterwarnings("ignore::pais.QualityWarning", "ignore::pais.SurveyWarning", "ignore::pais.PrivacyWarning")
def test_columns_without_an_effect_are_rarely_called_clear(n_rows: int, epsilon: float) -> None:
    columns = {"x0": (-1, 1), "x1": (-1, 1), "x2": (-1, 1), "x3": (-1, 1)}
    claims = []
    for seed in range(15):
        rng = np.random.default_rng(1000 * n_rows + seed)
        X = rng.uniform(-1.0, 1.0, size=(n_rows, 4))
        y = rng.random(n_rows) < 1.0 / (1.0 + np.exp(-2.5 * X[:, 0]))
        model = DPLogisticRegression(epsilon=epsilon, columns=columns, classes=[False, True], random_state=seed)
        claims.append(model.fit(X, y)._results().clear[0, 1:])
    assert np.mean(claims) <= 0.06


@pytest.mark.filterwarnings("ignore::pais.QualityWarning")
def test_coefficients_hidden_by_noise_have_no_interval() -> None:
    model = fitted(table().slice(0, 400), epsilon=0.5)
    hidden = model.fit_.coefficients.hidden  # type: ignore[attr-defined]
    frame = model.coefficients_frame()
    assert frame["hidden_by_noise"].tolist() == [*hidden[0].tolist(), False]
    assert frame["low"].isna().tolist() == frame["hidden_by_noise"].tolist()
    assert hidden.any()
    assert "hidden by noise" in model._results().verdict
    assert not fitted(epsilon=3.0).coefficients_frame()["hidden_by_noise"].any()


@pytest.mark.parametrize("columns", [None, BOUNDS])
def test_coefficients_of_an_array_are_those_of_a_logistic_regression(columns: Any) -> None:
    exact = LogisticRegression(C=1e6).fit(NUMBERS, PEOPLE["premium"])
    model = DPLogisticRegression(epsilon=20.0, columns=columns, classes=[False, True], random_state=0)
    with pytest.warns(pais.PrivacyWarning, match="weak"):
        model.fit(NUMBERS, PEOPLE["premium"])
    # Rows are weighted by what clipping leaves of them.
    assert model.coef_ == pytest.approx(exact.coef_, rel=0.1)
    assert model.intercept_ == pytest.approx(exact.intercept_, rel=0.1)
    proba = model.predict_proba(NUMBERS)
    assert log_loss(PEOPLE["premium"], proba) < log_loss(PEOPLE["premium"], exact.predict_proba(NUMBERS)) + 0.002


def test_three_classes_are_fitted_jointly() -> None:
    model = fitted(target="plan", columns=FEATURES, classes=["basic", "family", "gold"], epsilon=3.0)
    assert model.classes_.tolist() == ["basic", "family", "gold"]
    assert model.coef_.shape == (3, 4)
    assert np.abs(model.coef_.sum(axis=0)).max() < 1e-9
    proba = model.predict_proba(table())
    assert proba.sum(axis=1) == pytest.approx(1.0)
    X = np.column_stack([NUMBERS, PEOPLE["region"] == "south"])
    exact = LogisticRegression(C=1e6, max_iter=500).fit(X, PEOPLE["plan"])
    assert log_loss(PEOPLE["plan"], proba) < log_loss(PEOPLE["plan"], exact.predict_proba(X)) + 0.02
    frame = model.coefficients_frame()
    assert frame.loc[("family", "visits"), "coefficient"] > frame.loc[("basic", "visits"), "coefficient"] + 0.5
    # A gradient of three classes is longer by the root of two, and the rounds have as much more noise.
    noise = [rounds.scale for rounds in model.plan_.mechanism.rounds]  # type: ignore[attr-defined]
    moment = model.plan_.mechanism.moment_noise.scale / model.plan_.ball.radius  # type: ignore[attr-defined]
    both = fitted(epsilon=3.0).plan_
    other = both.mechanism.moment_noise.scale / both.ball.radius  # type: ignore[attr-defined]
    others = [rounds.scale for rounds in both.mechanism.rounds]  # type: ignore[attr-defined]
    ratio = sum(n**-2 for n in others) ** 0.5 / sum(n**-2 for n in noise) ** 0.5 * other / moment
    assert ratio == pytest.approx(2.0**0.5, rel=1e-6)


def test_coefficients_are_zero_where_noise_hides_the_relation() -> None:
    rows = table().slice(0, 300)
    norms = pais.NormDistribution.from_histogram([0.0, 1.5, 3.0], [0, 300])
    with pytest.warns(pais.QualityWarning, match="noise hides the relation"):
        model = fitted(rows, epsilon=0.1, radius=3.0, norms=norms, random_state=1)
    assert not model.coef_.any()
    assert model.predict_proba(rows) == pytest.approx(0.5)


@pytest.mark.parametrize("sampling", ["constrained", "coreset", "uniform", "none"])
def test_every_sampling_rule_predicts(sampling: str) -> None:
    model = fitted(sampling=sampling, epsilon=2.0)
    assert model.score(table()) > 0.7
    assert model.certificate_.epsilon <= 2.0


# -- classes --------------------------------------------------------------------------------------------------------


def test_classes_of_y_are_taken_with_a_warning() -> None:
    with pytest.warns(pais.PrivacyWarning, match="classes are the distinct values of y"):
        model = DPLogisticRegression(columns=BOUNDS, random_state=0).fit(NUMBERS, PEOPLE["plan"])
    assert model.classes_.tolist() == ["basic", "family", "gold"]


@pytest.mark.parametrize("classes", [["no", "yes"], [0, 1], [-1.5, 2.0], [False, True]])
def test_predicted_classes_have_the_type_of_the_stated_ones(classes: list[Any]) -> None:
    y = np.array(classes)[PEOPLE["premium"].astype(int)]
    model = DPLogisticRegression(columns=BOUNDS, classes=classes, random_state=0).fit(NUMBERS, y)
    assert model.classes_.tolist() == classes
    assert set(model.predict(NUMBERS).tolist()) == set(classes)
    assert model.score(NUMBERS, y) > 0.65


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"columns": FEATURES}, "List them in classes"),
        ({"classes": ["yes"]}, "only one class"),
        ({"classes": "yes"}, "flat list"),
        ({"columns": {**FEATURES, "premium": (0, 2)}}, "List them in classes"),
    ],
)
def test_classes_that_cannot_be_used_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(pais.ArgumentError, match=message):
        fitted(**changes)


def test_a_fit_warns_if_hardly_any_rows_have_a_listed_class() -> None:
    with pytest.warns(pais.QualityWarning, match="hardly any rows have one of the classes"):
        fitted(columns=FEATURES, target="plan", classes=["silver", "bronze"])


def test_continuous_targets_are_refused_without_showing_them() -> None:
    with pytest.raises(pais.DataError, match="Unknown label type: continuous") as raised:
        DPLogisticRegression(columns=BOUNDS).fit(NUMBERS, PEOPLE["age"] + 0.123)
    assert "123" not in str(raised.value)


# -- inputs ---------------------------------------------------------------------------------------------------------


def test_tables_files_and_arrays_give_the_same_fit(tmp_path: Path) -> None:
    names, columns = ["age", "visits"], {"age": (18, 90), "visits": (0, 15)}
    rows = table().select([*names, "plan"])
    pq.write_table(rows, tmp_path / "rows.parquet", row_group_size=3000)
    frame = rows.to_pandas()
    settings: dict[str, Any] = {"columns": columns, "classes": ["basic", "family", "gold"], "random_state": 7}
    models = [
        DPLogisticRegression(target="plan", **settings).fit(rows),
        DPLogisticRegression(target="plan", **settings).fit(tmp_path / "rows.parquet"),
        DPLogisticRegression(target="plan", **settings).fit(frame),
        DPLogisticRegression(**settings).fit(frame[names], frame["plan"]),
        DPLogisticRegression(target="plan", **settings).fit(pl.from_arrow(rows)),
        DPLogisticRegression(**{**settings, "columns": BOUNDS}).fit(NUMBERS, PEOPLE["plan"]),
    ]
    for model in models[1:]:
        assert np.array_equal(model.coef_, models[0].coef_)
        assert np.array_equal(model.intercept_, models[0].intercept_)
    for model in models[:5]:
        assert np.array_equal(model.predict(frame[names]), model.predict(rows))
        assert np.array_equal(model.predict_proba(tmp_path / "rows.parquet"), model.predict_proba(rows))
        assert model.score(tmp_path / "rows.parquet") == model.score(rows)
    assert np.array_equal(models[5].predict(NUMBERS), models[0].predict(rows))


def test_a_row_with_a_missing_number_has_no_prediction() -> None:
    model = fitted()
    frame = pd.DataFrame({"age": [None, 54.0], "visits": [3.0, 3.0], "region": ["south", None]})
    assert np.isnan(model.predict_proba(frame)).tolist() == [[True, True], [False, False]]
    predicted = model.predict(frame)
    assert predicted[0] is None
    assert isinstance(predicted[1], bool)
    assert model.predict(frame[1:]).dtype == bool
    assert model.score(frame, [True, predicted[1]]) == 1.0
    assert np.isnan(model.score(frame[:1], [True]))


@pytest.mark.parametrize(
    ("classes", "marker"), [([0, 1], np.nan), (["no", "yes"], None), ([0.0, 1.0], np.nan), ([0, 1, 2], np.nan)]
)
def test_the_marker_of_a_missing_prediction_fits_the_classes(classes: list[Any], marker: Any) -> None:
    y = np.array(classes)[PEOPLE["premium"].astype(int)]
    model = DPLogisticRegression(columns=BOUNDS, classes=classes, random_state=0).fit(NUMBERS, y)
    predicted = model.predict(np.array([[np.nan, 1.0], [80.0, 1.0]]))
    np.testing.assert_equal(predicted[0], marker)
    assert predicted[1] in classes
    assert np.isnan(model.predict_proba(np.array([[np.nan, 1.0]]))).all()


def test_missing_numbers_count_as_the_midpoint_if_stated() -> None:
    model = fitted(missing="midpoint")
    frame = pd.DataFrame({"age": [None, 54.0], "visits": [3.0, 3.0], "region": ["south", "south"]})
    logits = model.decision_function(frame)
    assert logits[0] == pytest.approx(logits[1])
    assert model.predict(frame).dtype == bool


def test_a_plan_file_gives_the_mechanism_back() -> None:
    plan = fitted(target="plan", columns=FEATURES, classes=["basic", "family", "gold"]).plan_
    again = pais.Plan.from_dict(plan.to_dict())
    assert again.mechanism == plan.mechanism
    assert again.price == plan.price
