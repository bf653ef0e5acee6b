"""DPPCA: the contract of scikit-learn, inputs, units, columns, and the numbers of components that can be asked for."""

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
from sklearn.decomposition import PCA

import pais
from pais import DPPCA, ArgumentError, Ledger, NormDistribution, PCASettings, Schema
from pais._base.numerics import FloatArray
from pais.errors import DataError, QualityWarning
from tests.conformance.schema_rows import people
from tests.unit.kmeans.estimator_cases import weak_epsilon

NAMES = ["a", "b", "c", "d", "e"]
RNG = np.random.default_rng(0)
# Five columns of deviations 4, 2, 1, 1/2 and 1/4, turned, as multiples of 1/64, which every container holds exactly.
TURN = np.linalg.qr(RNG.normal(size=(5, 5)))[0]
ROWS = np.round((RNG.normal(size=(20_000, 5)) * [4.0, 2.0, 1.0, 0.5, 0.25] @ TURN + 3.0) * 64) / 64
STATED: dict[str, Any] = {
    "radius": 20.0,
    "norms": NormDistribution.from_quantiles(lambda level: 20.0 * level, n_rows=20_000, radius=20.0),
}


def fitted(X: Any = ROWS, **changes: Any) -> DPPCA:
    return DPPCA(**{"n_components": 2, "random_state": 0, **changes}).fit(X)


def table() -> pa.Table:
    return pa.table({name: ROWS[:, index] for index, name in enumerate(NAMES)})


# -- the result ---------------------------------------------------------------------------------------------------


@weak_epsilon
def test_a_weak_guarantee_gives_the_components_of_scikit_learn() -> None:
    model, exact = fitted(n_components=5, epsilon=300.0, sampling="none", **STATED), PCA().fit(ROWS)
    signs = np.sign(np.sum(model.components_ * exact.components_, axis=1))
    np.testing.assert_allclose(model.components_ * signs[:, None], exact.components_, atol=2e-3)
    np.testing.assert_allclose(model.explained_variance_, exact.explained_variance_, rtol=0.05)
    np.testing.assert_allclose(model.explained_variance_ratio_, exact.explained_variance_ratio_, rtol=0.05)
    np.testing.assert_allclose(model.mean_, exact.mean_, atol=2e-3)
    np.testing.assert_allclose(model.transform(ROWS[:50]) * signs, exact.transform(ROWS[:50]), atol=0.05)


def test_nothing_stated_gives_the_first_components() -> None:
    model, exact = fitted(), PCA(2).fit(ROWS)
    assert np.all(np.abs(np.sum(model.components_ * exact.components_, axis=1)) > 0.98)
    np.testing.assert_allclose(model.explained_variance_, exact.explained_variance_, rtol=0.15)
    assert np.linalg.norm(model.mean_ - exact.mean_) < 1.0
    assert model.n_above_noise_ >= 2
    assert 0.98 < model.captured_ <= 1.0
    assert model.explained_variance_se_.shape == (2,)
    assert 0.0 < model.noise_level_ < model.explained_variance_[1]


def skewed(n_rows: int) -> FloatArray:
    rng = np.random.default_rng(5)
    return np.exp(
        0.8 * (rng.normal(size=(n_rows, 2)) @ rng.normal(size=(2, 6)) * 0.6 + rng.normal(size=(n_rows, 6)) / 2)
    )


@pytest.mark.statistical
@pytest.mark.filterwarnings("ignore::pais.QualityWarning")
@pytest.mark.parametrize(
    "rows",
    [
        ROWS,
        np.random.default_rng(3).normal(size=(3_000, 8)) * np.linspace(2.0, 0.5, 8),
        np.random.default_rng(4).standard_t(4, size=(20_000, 4)) * [3.0, 2.0, 1.0, 0.5],
        skewed(20_000),
    ],
    ids=["light", "small", "heavy", "skewed"],
)
@pytest.mark.parametrize("settings", [{}, {"sample_size": "free"}], ids=["all rows", "sample"])
def test_intervals_hold_the_variances_of_the_table(rows: FloatArray, settings: dict[str, Any]) -> None:
    """Two standard errors hold the eigenvalues of all rows and their variances along the components, in 20 fits."""
    covariance = np.cov(rows, rowvar=False, bias=True)
    best = np.linalg.eigvalsh(covariance)[::-1][:3]
    held = []
    for seed in range(20):
        model = fitted(rows, n_components=3, random_state=seed, **settings)
        along = np.einsum("ki,ij,kj->k", model.components_, covariance, model.components_)
        reach = 2.0 * model.explained_variance_se_
        held.append([np.abs(model.explained_variance_ - truth) <= reach for truth in (best, along)])
    assert np.mean(held, axis=0).min() >= 0.9


@pytest.mark.statistical
def test_errors_are_small_if_bounds_keep_all_rows_in_the_ball() -> None:
    """Nothing is clipped and nothing sampled, so the errors are those of the noise: twice the deviation at most."""
    frame = pd.DataFrame(np.random.default_rng(2).uniform(size=(20_000, 4)), columns=list("abcd"))
    models = [
        fitted(frame, columns=dict.fromkeys("abcd", (0, 1)), epsilon=3.0, random_state=seed) for seed in range(20)
    ]
    deviation = np.std([model.explained_variance_ for model in models], axis=0)
    assert np.all(np.mean([model.explained_variance_se_ for model in models], axis=0) < 3.0 * deviation)
    assert all(model.plan_.rule.keeps_all for model in models)


def test_much_variance_beyond_the_radius_is_warned_about() -> None:
    with pytest.warns(QualityWarning, match=r"about \d+ % of the variance lies beyond the radius"):
        model = fitted(skewed(20_000), epsilon=3.0)
    assert "beyond the radius" in model.explain()
    with warnings.catch_warnings():
        warnings.simplefilter("error", QualityWarning)
        for seed in range(10):
            fitted(random_state=seed)


def test_all_rows_of_a_small_table_are_used_unless_a_sample_is_asked_for() -> None:
    assert fitted().plan_.rule.keeps_all
    assert not fitted(sample_size="free").plan_.rule.keeps_all
    assert not fitted(sample_size=5_000).plan_.rule.keeps_all
    norms = NormDistribution.from_quantiles(lambda level: 20.0 * level, n_rows=1e7, radius=20.0)
    facts = PCASettings(epsilon=1.0, radius=20.0, norms=norms).facts(None)
    plan = PCASettings(epsilon=1.0, radius=20.0, norms=norms).plan(facts, 5)
    assert plan.expected_rows < 0.5e7


def test_whitening_gives_coordinates_of_variance_one() -> None:
    plain, white = fitted(), fitted(whiten=True)
    np.testing.assert_array_equal(plain.components_, white.components_)
    np.testing.assert_allclose(
        white.transform(ROWS), plain.transform(ROWS) / np.sqrt(plain.explained_variance_), rtol=1e-12
    )
    assert np.allclose(white.transform(ROWS).var(axis=0), 1.0, atol=0.2)
    np.testing.assert_allclose(
        white.inverse_transform(white.transform(ROWS)), plain.inverse_transform(plain.transform(ROWS)), atol=1e-9
    )


def test_whitening_never_divides_by_less_than_the_noise() -> None:
    model = fitted(ROWS[:300], n_components=5, epsilon=0.1, whiten=True, **STATED)
    assert model.explained_variance_[-1] == 0.0
    assert np.all(np.isfinite(model.transform(ROWS[:10])))


def test_missing_values_have_no_coordinates() -> None:
    rows = ROWS[:4].copy()
    rows[1, 2] = np.nan
    rows[3, 0] = np.inf
    coordinates = fitted().transform(rows)
    np.testing.assert_array_equal(np.isnan(coordinates).all(axis=1), [False, True, False, True])


def test_frame_and_names() -> None:
    model = fitted(table())
    frame = model.components_frame()
    assert list(frame.index) == [1, 2]
    assert list(model.get_feature_names_out()) == ["dppca0", "dppca1"]
    assert list(frame.columns) == ["explained_variance", "explained_variance_ratio", "standard_error", *NAMES]
    np.testing.assert_array_equal(frame[NAMES].to_numpy(), model.components_)
    assert list(fitted().components_frame().columns[3:]) == ["x0", "x1", "x2", "x3", "x4"]
    rows = pd.DataFrame(ROWS, columns=NAMES)
    assert list(fitted(rows).set_output(transform="pandas").transform(rows)) == ["dppca0", "dppca1"]


def test_a_share_of_the_variance_chooses_the_number_of_components() -> None:
    variances = fitted(n_components=None).explained_variance_ratio_
    for share in (0.3, 0.9, 0.99):
        k = fitted(n_components=share).n_components_
        assert variances[:k].sum() > share
        assert k == 1 or variances[: k - 1].sum() <= share


# -- the number of components -------------------------------------------------------------------------------------


def test_auto_takes_the_components_above_the_noise() -> None:
    model = fitted(n_components="auto")
    assert model.n_components_ == model.n_above_noise_ == len(model.components_)
    assert fitted(ROWS[:300], n_components="auto", epsilon=0.05, **STATED).n_components_ == 1


@pytest.mark.parametrize("asked", [0, -1, 1.0, 0.0, 1.5, float("nan"), True, "all", [2], 2 + 0j])
def test_bad_numbers_of_components_are_refused_before_a_row_is_read_or_paid_for(asked: Any) -> None:
    ledger = Ledger(epsilon=1.0, delta=1e-6)
    with pytest.raises(ArgumentError, match="n_components"):
        PCASettings(epsilon=1.0, n_components=asked).require()
    with pytest.raises(ArgumentError, match="n_components"):
        fitted(n_components=asked, ledger=ledger)
    assert ledger.spent.epsilon == 0.0


def test_more_components_than_columns_are_refused_before_a_row_is_read_or_paid_for(tmp_path: Path) -> None:
    ledger, path = Ledger(epsilon=1.0, delta=1e-6), tmp_path / "rows.parquet"
    pq.write_table(table(), path)
    for X in (ROWS, table(), path):
        with pytest.raises(ArgumentError, match="n_components=6 is more than the 5 features"):
            fitted(X, n_components=6, ledger=ledger)
    assert ledger.spent.epsilon == 0.0
    assert fitted(n_components=np.int64(5)).n_components_ == 5


def test_whiten_must_be_true_or_false() -> None:
    with pytest.raises(ArgumentError, match="whiten"):
        fitted(whiten="yes")


@pytest.mark.filterwarnings("error:noise drowns")
def test_components_in_the_noise_are_warned_about() -> None:
    with pytest.warns(QualityWarning, match=r"noise drowns \d of the 5 components") as caught:
        fitted(ROWS[:500], n_components=5, epsilon=0.3, **STATED)
    assert len([one for one in caught if "noise drowns" in str(one.message)]) == 1
    fitted(n_components=2)
    fitted(n_components="auto")


def test_pure_noise_is_not_available() -> None:
    with pytest.raises(ArgumentError, match="not available for PCA"):
        PCASettings(epsilon=1.0, mechanism="l2").require()


# -- inputs -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stated", [{}, STATED, {"sampling": "none"}], ids=["surveyed", "stated", "all rows"])
def test_the_same_rows_give_the_same_components_in_every_container(stated: dict[str, Any], tmp_path: Path) -> None:
    pq.write_table(table(), tmp_path / "rows.parquet")
    expected = fitted(**stated)
    tables = (
        ROWS.astype(np.float32),
        table(),
        pd.DataFrame(ROWS, columns=NAMES),
        pl.DataFrame(ROWS, schema=NAMES),
        tmp_path / "rows.parquet",
        pais.source(tmp_path / "rows.parquet"),
    )
    for X in tables:
        model = fitted(X, **stated)
        np.testing.assert_array_equal(model.components_, expected.components_)
        np.testing.assert_array_equal(model.explained_variance_, expected.explained_variance_)
        np.testing.assert_array_equal(model.mean_, expected.mean_)


def test_transform_takes_the_kinds_of_table_that_fit_takes(tmp_path: Path) -> None:
    pq.write_table(table(), tmp_path / "rows.parquet")
    model = fitted(table())
    for X in (table(), tmp_path / "rows.parquet", pd.DataFrame(ROWS, columns=NAMES)):
        np.testing.assert_array_equal(model.transform(X), fitted().transform(ROWS))
    with pytest.raises(DataError, match="feature"):
        model.transform(table().select(["b", "a", "c", "d", "e"]))


@pytest.mark.parametrize("bad", [np.zeros((3, 4)), np.zeros(2), [["x", "y"]]])
def test_rows_that_have_no_coordinates_are_refused(bad: Any) -> None:
    with pytest.raises(ArgumentError, match="X"):
        fitted().inverse_transform(bad)


# -- units and columns --------------------------------------------------------------------------------------------


def test_a_unit_counts_once() -> None:
    """Ten copies of each row of a person change nothing, up to noise and rounding."""
    owner = np.repeat(np.arange(2_000), 10)
    frame = pd.DataFrame(np.repeat(ROWS[:2_000], 10, axis=0), columns=NAMES).assign(owner=owner)
    model = fitted(frame, epsilon=5.0, unit="owner", columns=NAMES)
    exact = PCA(2).fit(ROWS[:2_000])
    assert model.certificate_.neighbours == "one owner added or removed"
    assert np.all(np.abs(np.sum(model.components_ * exact.components_, axis=1)) > 0.9)
    assert model.plan_.norms is not None
    assert model.plan_.norms.n_rows == pytest.approx(2_000, rel=0.1)


def test_max_rows_per_unit_leaves_variances_in_rows() -> None:
    owner = np.repeat(np.arange(2_000), 10)
    frame = pd.DataFrame(ROWS, columns=NAMES).assign(owner=owner)
    model = fitted(frame, epsilon=5.0, unit="owner", columns=NAMES, max_rows_per_unit=10)
    np.testing.assert_allclose(model.explained_variance_, PCA(2).fit(ROWS).explained_variance_, rtol=0.3)


COLUMNS: dict[str, Any] = {
    "age": (18, 100),
    "region": ["north", "south"],
    "premium": bool,
    "visits": (0, 20),
}


def test_columns_give_loadings_of_scaled_vectors_and_a_mean_in_own_units() -> None:
    model, schema = fitted(people(), columns=COLUMNS, epsilon=3.0), Schema.of(COLUMNS)
    assert model.feature_names_in_.tolist() == list(COLUMNS)
    assert model.components_.shape == (2, schema.width)
    assert list(model.components_frame().columns[3:]) == list(schema.labels)
    mean = dict(zip(schema.labels, model.mean_, strict=True))
    assert 18 <= mean["age"] <= 100
    assert 0 <= mean["premium"] <= 1
    frame = people().dropna().reset_index(drop=True)
    coordinates = model.transform(frame)
    assert coordinates.shape == (len(frame), 2)
    decoded = model.inverse_transform(coordinates)
    assert decoded.shape == (len(frame), schema.width)
    assert np.all((decoded[:, 0] >= 18) & (decoded[:, 0] <= 100))
