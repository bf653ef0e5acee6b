"""DPKMeans with `columns`: tables in, own units out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import pais
from pais import ArgumentError, DataError, DPKMeans, Schema
from tests.conformance.schema_rows import people

COLUMNS: dict[str, Any] = {
    "age": (18, 100),
    "region": ["north", "south"],
    "premium": bool,
    "joined": ("2015-01-01", "2025-12-31"),
    "visits": (0, 20),
}
SCHEMA = Schema.of(COLUMNS)


def model(**options: Any) -> DPKMeans:
    return DPKMeans(n_clusters=3, epsilon=3.0, columns=COLUMNS, random_state=1, **options)


@pytest.fixture(scope="module")
def fitted() -> DPKMeans:
    return model().fit(people())


def complete() -> pd.DataFrame:
    return people().dropna().reset_index(drop=True)


def test_centers_are_in_own_units_within_bounds(fitted: DPKMeans) -> None:
    assert fitted.cluster_centers_.shape == (3, SCHEMA.width)
    centers = dict(zip(SCHEMA.labels, fitted.cluster_centers_.T, strict=True))
    assert ((centers["age"] >= 18) & (centers["age"] <= 100)).all()
    for label in ("region=north", "premium"):
        assert ((centers[label] >= 0) & (centers[label] <= 1)).all()
    assert np.array_equal(fitted.cluster_centers_, SCHEMA.decode(fitted.fit_.value.centers))
    assert fitted.fit_.schema == SCHEMA


def test_names_are_those_of_the_columns(fitted: DPKMeans) -> None:
    assert fitted.feature_names_in_.tolist() == list(COLUMNS)
    assert fitted.n_features_in_ == len(COLUMNS)
    assert fitted.get_feature_names_out().tolist() == ["dpkmeans0", "dpkmeans1", "dpkmeans2"]


def test_predict_takes_tables_in_own_units(fitted: DPKMeans, tmp_path: Path) -> None:
    frame = complete()
    frame.to_parquet(tmp_path / "people.parquet")
    frame.to_csv(tmp_path / "people.csv", index=False)
    labels = fitted.predict(frame)
    assert labels.shape == (len(frame),)
    others = [
        frame[list(reversed(COLUMNS))],
        pa.Table.from_pandas(frame),
        pl.from_arrow(pa.Table.from_pandas(frame)),
        tmp_path / "people.parquet",
        tmp_path / "people.csv",
    ]
    for other in others:
        assert np.array_equal(fitted.predict(other), labels)
    distances = fitted.transform(frame)
    assert np.array_equal(distances.argmin(axis=1), labels)
    assert fitted.score(frame) == pytest.approx(-np.square(distances.min(axis=1)).sum())
    assert fitted.score(tmp_path / "people.csv") == pytest.approx(fitted.score(frame))
    assert fitted.score(pais.source(frame, columns=COLUMNS)) == pytest.approx(fitted.score(frame))


def test_missing_values_at_prediction(fitted: DPKMeans) -> None:
    labels = fitted.predict(people())
    # A missing category is none of those listed, and has a vector.
    missing = people()[[*COLUMNS]].drop(columns="region").isna().any(axis=1)
    assert np.array_equal(labels == -1, missing)
    filled = model(missing="midpoint").fit(people())
    assert filled.predict(people()).shape == (len(people()),)
    assert np.isfinite(filled.score(people()))


def test_arrays_have_no_names(fitted: DPKMeans) -> None:
    with pytest.raises(DataError, match="array has no names"):
        model().fit(np.zeros((10, 5)))
    with pytest.raises(DataError, match="an array does not have"):
        fitted.predict(np.zeros((10, 5)))
    with pytest.raises(DataError, match="do not exist"):
        fitted.predict(people().drop(columns="age"))


def test_files_and_sources_give_the_same_centers(fitted: DPKMeans, tmp_path: Path) -> None:
    people().to_parquet(tmp_path / "people.parquet")
    assert np.array_equal(model().fit(tmp_path / "people.parquet").cluster_centers_, fitted.cluster_centers_)
    engine = pais.source(people(), columns=COLUMNS)
    plain = DPKMeans(n_clusters=3, epsilon=3.0, random_state=1).fit(engine)
    assert np.array_equal(plain.cluster_centers_, fitted.cluster_centers_)
    assert plain.feature_names_in_.tolist() == list(COLUMNS)
    assert np.array_equal(plain.predict(complete()), fitted.predict(complete()))
    assert np.array_equal(model().fit(engine).cluster_centers_, fitted.cluster_centers_)


def test_columns_contradict_an_open_source() -> None:
    with pytest.raises(ArgumentError, match="open already"):
        model().fit(pais.source(people(), columns=["age", "visits"]))


def test_names_alone_choose_features() -> None:
    frame = complete().astype({"age": float, "visits": float})
    named = DPKMeans(n_clusters=2, epsilon=3.0, columns=["age", "visits"], random_state=1).fit(frame)
    plain = DPKMeans(n_clusters=2, epsilon=3.0, random_state=1).fit(frame[["age", "visits"]])
    assert np.array_equal(named.cluster_centers_, plain.cluster_centers_)
    assert named.feature_names_in_.tolist() == ["age", "visits"]
    assert np.array_equal(named.predict(frame), plain.predict(frame[["age", "visits"]]))
    assert named.score(frame) == pytest.approx(plain.score(frame[["age", "visits"]]))


def test_columns_of_another_kind_are_listed_at_once() -> None:
    frame = people().assign(age=pd.Timestamp("2020-01-01"), premium=pd.Timedelta("1D"), joined=5)
    with pytest.raises(DataError, match=r"'age' \(type timestamp.*'premium' \(type duration.*'joined' \(type int64"):
        model().fit(pa.Table.from_pandas(frame, preserve_index=False))
    # The types of a pandas frame depend on its cells, so they do not decide whether a fit succeeds.
    assert np.isfinite(model().fit(frame).cluster_centers_).all()


def test_a_bad_row_does_not_decide_whether_a_fit_succeeds() -> None:
    frame = people().astype(dict.fromkeys(COLUMNS, object))
    for name, cells in {
        "age": ["old", 1e308, float("inf"), -(10**400)],
        "region": [b"\xff", 3.5, [1], {}],
        "premium": ["maybe", 7, None, "\ud800"],
        "joined": ["yesterday", pd.NaT, 20_200_101, "9999-99-99"],
        "visits": ["1e999", "nan", complex(1, 2), object()],
    }.items():
        frame.loc[frame.index[: len(cells)], name] = pd.Series(cells, index=frame.index[: len(cells)], dtype=object)
    assert np.isfinite(model().fit(frame).cluster_centers_).all()


def test_report_is_in_own_units(fitted: DPKMeans, tmp_path: Path) -> None:
    text = fitted.write_report(tmp_path / "report.html").read_text()
    assert "region=north" in text


def test_missing_error_names_the_columns() -> None:
    with pytest.raises(DataError, match="'age'"):
        model(missing="error").fit(people())
    with pytest.raises(DataError, match="0"):
        DPKMeans(missing="error").fit(np.full((10, 2), np.nan))
    with pytest.raises(ArgumentError, match="needs bounds"):
        DPKMeans(missing="midpoint").fit(np.zeros((10, 2)))


@pytest.mark.parametrize("kind", ["kmeans", "pca", "linear", "logistic"])
def test_an_auto_column_whose_far_values_decide_its_variance_is_named(kind: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    table = pd.DataFrame({"age": rng.normal(50.0, 15.0, 100_000), "cost": rng.lognormal(6.0, 1.5, 100_000)})
    table["visits"] = rng.poisson(3.0, 100_000).astype(float)
    table["late"] = table["age"] + 20.0 * rng.normal(size=100_000) > 50.0
    model: Any = {
        "kmeans": pais.DPKMeans(3, columns=dict.fromkeys(["age", "cost", "visits"], "auto"), random_state=1),
        "pca": pais.DPPCA(2, columns=dict.fromkeys(["age", "cost", "visits"], "auto"), random_state=1),
        "linear": pais.DPLinearRegression(
            columns=dict.fromkeys(["age", "cost", "visits"], "auto"), target="visits", random_state=1
        ),
        "logistic": pais.DPLogisticRegression(
            columns={"age": "auto", "cost": "auto", "late": bool}, target="late", random_state=1
        ),
    }[kind]
    with pytest.warns(pais.SurveyWarning, match="far values hold much of the variance of the auto column.s. cost"):
        model.fit(table)
    assert model.fit_.survey.skewed_columns == ("cost",)
    assert pais.Survey.from_dict(model.fit_.survey.to_dict()).skewed_columns == ("cost",)
    assert "Far values hold" in model.write_report(tmp_path / "page.html").read_text(encoding="utf-8")
    assert "far values hold" in model.explain()
