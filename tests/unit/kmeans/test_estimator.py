"""The scikit-learn estimator: contract, inputs and guarantees."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from pais import DPKMeans, KMeansSettings
from pais.privacy.amplification import largest_shift
from tests.unit.kmeans.estimator_cases import (
    EACH_ONCE,
    MECHANISMS,
    NAMES,
    ROWS,
    STATED,
    arrow,
    fitted,
    weak_epsilon,
)


def _in_public_units(X: Any) -> Any:
    """A column is known to lie within [-8, 8] whatever the rows are; a scaler fitted to the rows would leak."""
    return X / 8.0


# -- the contract -------------------------------------------------------------------------------------------------


def test_estimator_as_a_pipeline_step() -> None:
    last = make_pipeline(FunctionTransformer(_in_public_units), DPKMeans(n_clusters=3, random_state=0)).fit(ROWS)
    assert last.predict(ROWS).shape == (3000,)
    middle = make_pipeline(DPKMeans(n_clusters=3, random_state=0), FunctionTransformer(_in_public_units))
    assert middle.fit_transform(ROWS).shape == (3000, 3)


def test_set_output_gives_a_data_frame() -> None:
    model = DPKMeans(n_clusters=3, random_state=0).set_output(transform="pandas")
    frame = pd.DataFrame(ROWS, columns=NAMES, index=np.arange(3000) + 10)
    distances = model.fit(frame).transform(frame)
    assert list(distances.columns) == ["dpkmeans0", "dpkmeans1", "dpkmeans2"]
    assert list(distances.columns) == list(model.get_feature_names_out())
    assert distances.index.equals(frame.index)


def test_predict_transform_and_score_agree_with_brute_force() -> None:
    model = fitted()
    new = np.random.default_rng(1).normal(size=(9000, 3))
    distance = np.sqrt(((new[:, None, :] - model.cluster_centers_[None]) ** 2).sum(axis=2))
    np.testing.assert_allclose(model.transform(new), distance, rtol=1e-12)
    np.testing.assert_array_equal(model.predict(new), distance.argmin(axis=1))
    assert model.score(new) == pytest.approx(-(distance.min(axis=1) ** 2).sum(), rel=1e-12)


def test_the_training_rows_leave_no_labels_and_no_inertia() -> None:
    model = fitted()
    public = {name for name in vars(model) if name.endswith("_")}
    # Each of these is public; whoever adds one decides that it is, here.
    # The noisy counts are released and in the fingerprint, and the number of centers can be seen from the centers.
    results = {"cluster_centers_", "effective_centers_", "quality_", "noisy_counts_", "n_clusters_"}
    assert public <= results | {"certificate_", "plan_", "survey_", "fit_", "n_features_in_"}
    assert not hasattr(model, "labels_")
    assert not hasattr(model, "inertia_")


ARRAYS: dict[str, Callable[[], Any]] = {
    "float32": lambda: ROWS.astype(np.float32),
    "fortran": lambda: np.asfortranarray(ROWS),
    "every second row": lambda: np.repeat(ROWS, 2, axis=0)[::2],
    "list": ROWS.tolist,
}
TABLES: dict[str, Callable[[], Any]] = {
    "pandas": lambda: pd.DataFrame(ROWS, columns=NAMES),
    "polars": lambda: pl.DataFrame(ROWS, schema=NAMES),
    "arrow": arrow,
}


@pytest.mark.parametrize("kind", [*ARRAYS, *TABLES])
def test_the_same_values_give_the_same_centers_in_every_container(kind: str) -> None:
    X = {**ARRAYS, **TABLES}[kind]()
    np.testing.assert_array_equal(fitted(X).cluster_centers_, fitted().cluster_centers_)


@pytest.mark.parametrize(("suffix", "as_text"), [(".parquet", True), (".csv", False)])
def test_a_file_gives_the_centers_of_its_rows(suffix: str, as_text: bool, tmp_path: Path) -> None:
    path = tmp_path / f"rows{suffix}"
    if suffix == ".csv":
        pa_csv.write_csv(arrow(), path)
    else:
        pq.write_table(arrow(), path)
    model = fitted(str(path) if as_text else path)
    np.testing.assert_array_equal(model.cluster_centers_, fitted().cluster_centers_)
    assert list(model.feature_names_in_) == NAMES


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8])
def test_whole_numbers_give_the_centers_of_the_same_floats(dtype: type) -> None:
    whole = np.random.default_rng(2).integers(0, 200, size=(3000, 3))
    np.testing.assert_array_equal(
        fitted(whole.astype(dtype)).cluster_centers_, fitted(whole.astype(np.float64)).cluster_centers_
    )


@pytest.mark.parametrize("kind", TABLES)
def test_names_of_columns_are_kept_and_forgotten_with_the_table(kind: str) -> None:
    model = fitted(TABLES[kind]())
    assert list(model.feature_names_in_) == NAMES
    assert model.n_features_in_ == 3
    assert not hasattr(model.fit(ROWS), "feature_names_in_")


@pytest.mark.parametrize("kind", TABLES)
def test_columns_in_another_order_are_refused(kind: str) -> None:
    table = TABLES[kind]()
    swapped = table.select(["second", "first", "third"]) if kind != "pandas" else table[["second", "first", "third"]]
    with pytest.raises(ValueError, match="feature"):
        fitted(table).predict(swapped)


# -- guarantees ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("mechanism", "sampling"), EACH_ONCE)
@pytest.mark.parametrize("facts", [{}, {"radius": 4.0}, {"center": (0.1, 0.0, 0.0)}, STATED], ids=str)
def test_certificate_parts_add_up_to_at_most_the_target(mechanism: str, sampling: str, facts: dict[str, Any]) -> None:
    delta = MECHANISMS[mechanism]
    certificate = fitted(epsilon=0.7, delta=delta, mechanism=mechanism, sampling=sampling, **facts).certificate_
    assert certificate.epsilon <= 0.7
    assert certificate.epsilon == pytest.approx(0.7, rel=1e-6)
    assert certificate.delta <= delta
    assert math.fsum(part.epsilon for part in certificate.parts) == pytest.approx(certificate.epsilon, rel=1e-15)
    assert math.fsum(part.delta for part in certificate.parts) == certificate.delta


def test_stated_facts_need_no_survey() -> None:
    certificate = fitted(**STATED).certificate_
    assert [part.what for part in certificate.parts] == ["k-means"]
    assert certificate.epsilon == 1.0


@pytest.mark.parametrize(
    ("facts", "share"), [({"radius": 4.0}, 0.022), ({"center": (0.0, 0.0, 0.0)}, 0.03), ({}, 0.052)], ids=str
)
def test_a_pure_survey_is_paid_for_by_its_share(facts: dict[str, Any], share: float) -> None:
    parts = fitted(epsilon=1.0, delta=0.0, mechanism="l2", **facts).certificate_.parts
    assert [part.what for part in parts] == ["survey", "k-means"]
    assert parts[0].epsilon == share
    assert parts[0].delta == 0.0


@pytest.mark.parametrize("facts", [{"radius": 4.0}, {"center": (0.0, 0.0, 0.0)}, {}], ids=str)
def test_a_gaussian_survey_is_in_the_price_of_the_release(facts: dict[str, Any]) -> None:
    share = KMeansSettings(n_clusters=3, epsilon=2.0, delta=1e-7, **facts).survey_shift_share
    certificate = fitted(epsilon=2.0, delta=1e-7, **facts).certificate_
    assert [(part.what, part.epsilon, part.delta) for part in certificate.parts] == [("survey and k-means", 2.0, 1e-7)]
    assert certificate.survey_shift == pytest.approx(share * largest_shift(2.0, 1e-7), rel=1e-12)
    assert 0.2e-7 < certificate.release_delta < 1e-7


def test_without_a_seed_the_randomness_is_secure_and_two_fits_differ() -> None:
    first, second = fitted(random_state=None), fitted(random_state=None)
    assert first.certificate_.secure_randomness
    assert first.certificate_.note == "secure randomness"
    assert not np.array_equal(first.cluster_centers_, second.cluster_centers_)


@pytest.mark.parametrize("seed", [lambda: 5, lambda: np.random.default_rng(5), lambda: np.random.RandomState(5)])
def test_with_a_seed_two_fits_agree_and_the_certificate_says_not_private(seed: Callable[[], Any]) -> None:
    first, second = fitted(random_state=seed()), fitted(random_state=seed())
    np.testing.assert_array_equal(first.cluster_centers_, second.cluster_centers_)
    assert first.certificate_.to_json() == second.certificate_.to_json()
    assert not first.certificate_.secure_randomness
    assert first.certificate_.note == "seeded, not private"


@weak_epsilon
def test_surveyed_norms_keep_the_rows_between_their_quantile_and_a_stated_radius() -> None:
    direction = ROWS[np.abs(ROWS).sum(axis=1) > 0.0]
    direction = direction / np.linalg.norm(direction, axis=1, keepdims=True)
    direction[:60] *= 100.0  # two of a hundred rows, which hold nearly all of the square norm
    norms = fitted(direction, radius=100.0, epsilon=100.0).plan_.norms
    assert norms.mean_square_norm == pytest.approx(np.square(direction).sum(axis=1).mean(), rel=0.3)
