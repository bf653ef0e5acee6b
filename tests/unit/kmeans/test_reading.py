"""Reading the result of a fit: frames, noisy counts, other numbers of clusters, and what a model does not have."""

from __future__ import annotations

import builtins
import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import pais
from pais.errors import ArgumentError
from tests.support.kmeans_cases import ROWS

NAMES = ["a", "b", "c", "d", "e", "f"]
SIZES = ["noisy_count", "share", "noisy_count_se", "share_se"]


@pytest.fixture(scope="module")
def model() -> pais.DPKMeans:
    return pais.DPKMeans(n_clusters=5, epsilon=1.0, random_state=0).fit(pd.DataFrame(ROWS, columns=NAMES))


@pytest.fixture
def without_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    load = builtins.__import__

    def refuse(name: str, *arguments: Any, **options: Any) -> Any:
        if name == "pandas":
            raise ImportError(name)
        return load(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", refuse)


def test_centers_frame_has_features_counts_and_standard_errors(model: pais.DPKMeans) -> None:
    frame = model.centers_frame()
    assert list(frame.columns) == [*NAMES, *SIZES, *(f"{name}_se" for name in NAMES)]
    assert frame.index.name == "cluster"
    np.testing.assert_array_equal(frame[NAMES], model.cluster_centers_)
    np.testing.assert_array_equal(frame["noisy_count"], model.noisy_counts_)
    np.testing.assert_array_equal(frame[[f"{name}_se" for name in NAMES]], model.fit_.value.standard_errors)
    assert model.n_clusters_ == 5
    assert model.noisy_counts_.sum() == pytest.approx(len(ROWS), rel=0.05)


def test_centers_frame_of_an_array_and_of_a_column_called_like_the_count() -> None:
    model = pais.DPKMeans(n_clusters=2, epsilon=1.0, random_state=0).fit(ROWS[:, :2])
    assert list(model.centers_frame().columns) == ["x0", "x1", *SIZES, "x0_se", "x1_se"]
    model.fit(pd.DataFrame(ROWS[:, :2], columns=["x", "noisy_count"]))
    assert list(model.centers_frame().columns) == ["x", "noisy_count", *SIZES, "x_se", "noisy_count_se"]


def test_centers_frame_is_in_own_units_with_a_schema() -> None:
    rng = np.random.default_rng(0)
    old = rng.random(20_000) < 0.5
    table = pd.DataFrame(
        {
            "age": np.where(old, 70.0, 30.0) + rng.normal(size=old.size),
            "region": np.where(old, "north", "south"),
            "since": pd.to_datetime(np.where(old, "2010-01-01", "2020-01-01")),
        }
    )
    columns = {"age": (18, 100), "region": ["north", "south"], "since": ("2000-01-01", "2025-01-01")}
    model = pais.DPKMeans(n_clusters=2, epsilon=1.0, columns=columns, random_state=0).fit(table)
    frame = model.centers_frame().sort_values("age")
    assert frame["age"].tolist() == pytest.approx([30.0, 70.0], abs=2.0)
    assert frame["region=north"].tolist() == pytest.approx([0.0, 1.0], abs=0.05)
    late = (frame["since"] - pd.to_datetime(["2020-01-01", "2010-01-01"])).dt.days
    assert late.abs().max() < 60
    # In years, not in the unit of the scaled vectors.
    np.testing.assert_allclose(frame.sort_index()["age_se"], 41.0 * model.fit_.value.standard_errors[:, 0])


def test_elbow_is_a_frame_of_numbers_and_costs(model: pais.DPKMeans) -> None:
    frame = model.elbow_
    assert list(frame.columns) == ["n_clusters", "estimated_cost", "relative_cost"]
    assert frame["n_clusters"].tolist() == list(range(1, len(model.fit_.value.cells) + 1))
    assert frame["relative_cost"].iloc[0] == 1.0
    assert frame["estimated_cost"].iloc[4] == pytest.approx(-model.score(pd.DataFrame(ROWS, columns=NAMES)), rel=0.25)


@pytest.mark.usefixtures("without_pandas")
def test_without_pandas_the_elbow_is_an_array_and_the_frame_of_centers_is_refused(model: pais.DPKMeans) -> None:
    elbow = model.elbow_
    assert isinstance(elbow, np.ndarray)
    assert elbow.dtype.names == ("n_clusters", "estimated_cost", "relative_cost")
    assert elbow["relative_cost"][0] == 1.0
    with pytest.raises(ArgumentError, match="pandas"):
        model.centers_frame()


def test_with_clusters_returns_a_fitted_copy_with_the_same_certificate(model: pais.DPKMeans) -> None:
    other = model.with_clusters(3)
    assert other is not model
    assert (other.n_clusters, other.n_clusters_, len(other.cluster_centers_)) == (3, 3, 3)
    assert (model.n_clusters, len(model.cluster_centers_)) == (5, 5)
    assert other.certificate_ is model.certificate_
    assert other.certificate_.matches(other)
    assert set(other.predict(pd.DataFrame(ROWS[:100], columns=NAMES))) <= {0, 1, 2}
    assert len(other.centers_frame()) == 3
    np.testing.assert_array_equal(other.with_clusters(5).cluster_centers_, model.cluster_centers_)
    again = pickle.loads(pickle.dumps(other))
    assert again.certificate_.matches(again)
    np.testing.assert_array_equal(again.with_clusters(4).cluster_centers_, model.with_clusters(4).cluster_centers_)
    assert clone(other).n_clusters == 3


@pytest.mark.parametrize("name", ["labels_", "inertia_", "fit_predict"])
def test_what_would_show_training_rows_is_an_error_that_says_what_to_do(model: pais.DPKMeans, name: str) -> None:
    for one in (model, pais.DPKMeans()):
        assert not hasattr(one, name)
        with pytest.raises(pais.NotProtectedError, match=name) as caught:
            getattr(one, name)
        assert isinstance(caught.value, AttributeError)
        assert "not private" in str(caught.value)
        assert "score" in str(caught.value) if name == "inertia_" else "predict(X)" in str(caught.value)


def test_elbow_plot_marks_the_fit_and_the_suggested_number(model: pais.DPKMeans) -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    axes = model.plot_elbow()
    assert axes.get_xlabel() == "number of clusters"
    assert len(axes.lines[0].get_xdata()) == len(model.elbow_)
    assert axes.lines[1].get_xdata()[0] == 5
    pyplot.close(axes.figure)
    axes = pyplot.figure().add_subplot()
    assert model.plot_elbow(axes) is axes
    pyplot.close(axes.figure)
