"""The scikit-learn estimator: refused tables and parameters, odd rows and extreme budgets."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import pais
from tests.unit.kmeans.estimator_cases import (
    EACH_ONCE,
    MECHANISMS,
    NAMES,
    NORMS,
    ROWS,
    SAMPLINGS,
    STATED,
    arrow,
    fitted,
    weak_epsilon,
)

# Digits that no public number of these tests contains.
CANARY = 7361.94825
CANARY_DIGITS = "7361"


# -- bad input ----------------------------------------------------------------------------------------------------


def assert_refused_without_values(act: Callable[[], object], *also: type[Exception]) -> None:
    """A clear refusal: this package's error or a ValueError, whose text and causes show no value of a row."""
    with pytest.raises((ValueError, *also)) as caught:
        act()
    error: BaseException | None = caught.value
    while error is not None:
        assert CANARY_DIGITS not in str(error), "the text of the error shows a value of a row"
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def spoiled(value: Any, dtype: Any = np.float64) -> Any:
    rows = np.full((50, 3), CANARY).astype(dtype)
    rows[7, 1] = value
    return rows


@pytest.mark.parametrize("value", [np.nan, -np.inf])
@pytest.mark.filterwarnings("ignore::pais.SurveyWarning")
def test_rows_that_are_not_finite_are_left_out_by_fit_and_have_no_label(value: float) -> None:
    frame = pd.DataFrame(spoiled(value), columns=NAMES)
    for X in (spoiled(value), frame, pa.table(frame)):
        assert np.isfinite(fitted(X).cluster_centers_).all()
        assert_refused_without_values(lambda X=X: fitted(pais.source(X, missing="error")))
    labels = fitted().predict(spoiled(value))
    assert labels[7] == -1
    assert (np.delete(labels, 7) >= 0).all()


def test_text_is_refused_without_being_quoted(tmp_path: Path) -> None:
    text = f"secret {CANARY}"
    frame = pd.DataFrame({"first": [text] * 5, "second": [1.0] * 5})
    path = tmp_path / "text.csv"
    frame.to_csv(path, index=False)
    for X in (np.array([[text, "1"]] * 5), frame, pl.DataFrame(frame), pa.table(frame), path):
        assert_refused_without_values(lambda X=X: fitted(X))


@pytest.mark.parametrize("value", [None, {"a": CANARY}, [CANARY], f"{CANARY}x", complex(CANARY, 1.0)])
def test_rows_with_non_numeric_objects_are_dropped_and_not_quoted(value: Any) -> None:
    rows = np.full((50, 3), CANARY).astype(object)
    rows[7, 1] = value
    whole, holed = (fitted(X, **STATED) for X in (np.delete(rows, 7, axis=0), rows))
    assert np.isfinite(whole.cluster_centers_).all()
    assert np.isfinite(holed.cluster_centers_).all()
    assert np.flatnonzero(holed.predict(rows) == -1).tolist() == [7]
    assert_refused_without_values(lambda: pais.source(rows, missing="error"))


def test_columns_that_hold_no_numbers_are_named() -> None:
    dates = pd.to_datetime(["2024-01-01"] * 5)
    frame = pd.DataFrame({"size": [CANARY] * 5, "city": [f"{CANARY} Oslo"] * 5, "when": dates, "count": [1] * 5})
    tables = {name: frame[["size", name, "count"]] for name in ("city", "when")}
    for name, X in [*tables.items(), ("city, when", frame), ("city", pl.DataFrame(tables["city"]))]:
        shown = ", ".join(rf"'{one}' \(type \w+\)" for one in name.split(", "))
        with pytest.raises(pais.DataError, match=rf"column\(s\) {shown} of the source are not numeric") as caught:
            fitted(X)
        assert CANARY_DIGITS not in str(caught.value)
        assert caught.value.__context__ is None


def test_missing_values_are_left_out_or_an_error_on_demand_that_says_what_to_do() -> None:
    X = pd.DataFrame(ROWS, columns=NAMES)
    X.loc[7, "second"] = np.nan
    with pytest.raises(pais.DataError, match=r"column\(s\) 'second' have .* missing='drop'") as caught:
        pais.source(X, missing="error")
    # Neither which row, nor how many.
    assert not any(letter.isdigit() for letter in str(caught.value))
    for whole in (fitted(X, **STATED), fitted(pais.source(X, missing="drop"), **STATED)):
        assert list(whole.feature_names_in_) == NAMES
    # Labels come row by row: no position shifts.
    assert np.flatnonzero(whole.predict(X) == -1).tolist() == [7]


def test_the_largest_doubles_are_fitted() -> None:
    largest = np.full((50, 3), 1.7e308)
    assert np.isfinite(fitted(largest, **STATED).cluster_centers_).all()


def test_complex_numbers_are_refused_without_being_quoted() -> None:
    assert_refused_without_values(lambda: fitted(spoiled(CANARY, np.complex128)))
    assert_refused_without_values(lambda: fitted().predict(spoiled(CANARY, np.complex128)))


@pytest.mark.parametrize("shape", [(), (50,), (5, 3, 2)])
def test_arrays_of_other_dimensions_are_refused_without_quoting(shape: tuple[int, ...]) -> None:
    assert_refused_without_values(lambda: fitted(np.full(shape, CANARY)))
    assert_refused_without_values(lambda: fitted().predict(np.full(shape, CANARY)))


def test_files_and_tables_without_columns_are_refused_and_empty_ones_are_fitted(tmp_path: Path) -> None:
    empty, header = tmp_path / "empty.csv", tmp_path / "header.csv"
    empty.write_text("")
    header.write_text("first,second\n")
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"no parquet")
    for X in (ROWS[:, :0], ROWS[:0, :0], empty, broken, tmp_path / "absent.csv"):
        assert_refused_without_values(lambda X=X: fitted(X))
    for X in (ROWS[:0], arrow().slice(0, 0), header):
        with pytest.warns(pais.SurveyWarning):
            assert np.isfinite(fitted(X, random_state=1).cluster_centers_).all()


def test_csv_file_without_a_header_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bare.csv"
    path.write_text(f"{CANARY},2.5\n" + "1.0,2.0\n" * 50)
    assert_refused_without_values(lambda: fitted(path))


@pytest.mark.parametrize("width", [1, 2, 4])
def test_another_number_of_columns_is_refused_by_predict(width: int) -> None:
    model = fitted()
    new = np.full((4, width), CANARY)
    for act in (model.predict, model.transform, model.score):
        assert_refused_without_values(lambda act=act: act(new))


@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": 0.0},
        {"epsilon": -1.0},
        {"epsilon": math.nan},
        {"epsilon": math.inf},
        {"epsilon": "1"},
        {"epsilon": None},
        {"delta": -1e-6},
        {"delta": 1.0},
        {"delta": 0.0},
        {"delta": "small"},
        {"mechanism": "l2", "delta": 1e-6},
        {"mechanism": "laplace", "delta": 1e-6},
        {"mechanism": "exponential"},
        {"sampling": "importance"},
        {"sampling": 5},
        {"sample_size": -1.0},
        {"sample_size": 0},
        {"n_clusters": 0},
        {"n_clusters": 2.5},
        {"n_clusters": "3"},
        {"random_state": "seed"},
        {"random_state": -1},
        {"center": 1.0},
        {"center": (0.0, 0.0)},
        {"center": (0.0, 0.0, math.nan)},
        {"center": "origin"},
    ],
    ids=str,
)
def test_a_bad_parameter_is_refused(change: dict[str, Any]) -> None:
    rows = ROWS.copy()
    rows[0, 0] = CANARY
    assert_refused_without_values(lambda: fitted(rows, **change))


@pytest.mark.parametrize("radius", [0.0, -1.0, math.nan, math.inf, "wide"])
def test_a_bad_radius_is_refused(radius: Any) -> None:
    assert_refused_without_values(lambda: fitted(radius=radius))
    assert_refused_without_values(lambda: fitted(radius=radius, norms=NORMS))


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_norms_stated_for_another_radius_are_refused_by_name_or_covered(sampling: str) -> None:
    with pytest.raises(pais.PaisError, match="norms"):
        fitted(radius=5.0, norms=NORMS, sampling=sampling)
    assert fitted(radius=3.0, norms=NORMS, sampling=sampling).certificate_.epsilon <= 1.0


ODD_ROWS: dict[str, Callable[[], Any]] = {
    "one row": lambda: ROWS[:1],
    "two rows": lambda: ROWS[:2],
    "zeros": lambda: np.zeros((500, 3)),
    "one value": lambda: np.full((500, 3), 7.0),
    "one column varies": lambda: ROWS * [1.0, 0.0, 0.0],
    "huge": lambda: ROWS * 1e300,
    "huge in one row": lambda: np.vstack([ROWS, [[1e308, -1e308, 1e308]]]),
    "tiny": lambda: ROWS * 1e-300,
    "float32 at its limit": lambda: (ROWS * 5e37).astype(np.float32),
    "one column": lambda: ROWS[:, :1],
}


@pytest.mark.parametrize(
    ("kind", "mechanism", "sampling"),
    [
        *((kind, "gaussian", "constrained") for kind in ODD_ROWS),
        *((kind, *how) for kind in ("one row", "zeros", "huge") for how in EACH_ONCE[1:]),
    ],
)
def test_odd_rows_give_finite_centers_of_the_right_shape(kind: str, sampling: str, mechanism: str) -> None:
    X = ODD_ROWS[kind]()
    model = fitted(X, sampling=sampling, mechanism=mechanism, delta=MECHANISMS[mechanism])
    assert model.cluster_centers_.shape == (3, X.shape[1])
    assert np.all(np.isfinite(model.cluster_centers_))
    assert model.predict(X).shape == (X.shape[0],)


@pytest.mark.parametrize(("mechanism", "sampling"), EACH_ONCE)
def test_rows_beyond_the_radius_are_clipped_to_it(mechanism: str, sampling: str) -> None:
    settings = {"sampling": sampling, "mechanism": mechanism, "delta": MECHANISMS[mechanism], "radius": 4.0}
    for rows in (ROWS * 1e6 + 1e7, ROWS * 1e300):
        centers = fitted(rows, **settings).cluster_centers_
        assert np.all(np.linalg.norm(centers, axis=1) <= 4.0 * (1 + 1e-12))


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_more_clusters_than_rows_give_that_many_centers(mechanism: str) -> None:
    model = fitted(ROWS[:5], n_clusters=40, mechanism=mechanism, delta=MECHANISMS[mechanism])
    assert model.cluster_centers_.shape == (40, 3)
    assert np.all(np.isfinite(model.cluster_centers_))


@pytest.mark.parametrize(
    ("mechanism", "delta"), [("gaussian", 1e-6), ("gaussian", 1e-14), ("l2", 0.0), ("laplace", 0.0)]
)
@pytest.mark.parametrize("epsilon", [1e-12, 1e6])
@weak_epsilon
def test_extreme_budgets_give_finite_centers_within_them(epsilon: float, mechanism: str, delta: float) -> None:
    model = fitted(mechanism=mechanism, delta=delta, epsilon=epsilon)
    assert np.all(np.isfinite(model.cluster_centers_))
    assert model.certificate_.epsilon <= epsilon


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_stated_norms_that_are_all_zero(mechanism: str) -> None:
    nothing = pais.NormDistribution(norms=np.zeros(1), masses=np.full(1, 3000.0), radius=4.0)
    model = fitted(radius=4.0, norms=nothing, mechanism=mechanism, delta=MECHANISMS[mechanism])
    assert np.all(np.isfinite(model.cluster_centers_))


def test_a_warning_raised_as_an_error_leaves_centers_and_certificate_of_one_fit() -> None:
    model = pais.DPKMeans(n_clusters=2, epsilon=1.0, random_state=1).fit(
        np.random.default_rng(0).normal(size=(3000, 2))
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error", pais.SurveyWarning)
        with pytest.raises(pais.SurveyWarning):
            model.fit(np.zeros((3, 2)))
    centers = model.cluster_centers_
    assert model.certificate_.matches(dataclasses.replace(model.fit_.value, centers=centers))


@pytest.mark.parametrize("norms", ["junk", [1, 2], pais.NormDistribution.from_histogram([0.0, 1.0], [9])])
def test_norms_without_a_radius_are_refused_before_a_survey_is_paid_for(norms: object) -> None:
    ledger = pais.Ledger(epsilon=1.0, delta=1e-5)
    with pytest.raises(pais.ArgumentError, match="norms"):
        pais.DPKMeans(n_clusters=2, epsilon=1.0, norms=norms, ledger=ledger).fit(ROWS)
    assert ledger.entries == ()
