"""The scikit-learn front door: contract, inputs, guarantees, refusals."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_estimators_pickle, estimator_checks_generator

import pais
from pais import DPKMeans

NAMES = ["first", "second", "third"]
# Multiples of 1/64, which float32 holds exactly.
ROWS = np.round(np.random.default_rng(0).normal(size=(3000, 3)) * 64) / 64
NORMS = pais.NormDistribution.from_quantiles(lambda level: 4.0 * level**0.3, n_rows=3000, radius=4.0)
STATED: dict[str, Any] = {"radius": 4.0, "norms": NORMS}
MECHANISMS = {"gaussian": 1e-6, "l2": 0.0, "laplace": 0.0}
# These tests look at the numbers; tests/unit/test_delta.py looks at the warning.
weak_epsilon = pytest.mark.filterwarnings("ignore:epsilon=.* promises hardly anything:UserWarning")
SAMPLINGS = ["constrained", "coreset", "uniform", "none"]

# Digits that no public number of these tests contains.
CANARY = 7361.94825
CANARY_DIGITS = "7361"


def _in_public_units(X: Any) -> Any:
    """A column is known to lie within [-8, 8] whatever the rows are; a scaler fitted to the rows would leak."""
    return X / 8.0


def fitted(X: Any = ROWS, **changes: Any) -> DPKMeans:
    settings: dict[str, Any] = {"n_clusters": 3, "random_state": 0, **changes}
    return DPKMeans(**settings).fit(X)


# Checks of scikit-learn that ask for what the guarantee forbids, or for an answer where there is none.
EXPECTED_FAILURES = {
    "check_dtype_object": "one cell that is no number must not decide whether fit succeeds",
    "check_estimators_empty_data_messages": "an error would tell an empty table from a table with one row",
    "check_estimators_pickle": "it predicts rows with NaN; every row needs a label, so predict refuses them",
}


def checks() -> list[Any]:
    """Every check of scikit-learn for three settings; those that its own environment switches off are skipped."""
    models = [DPKMeans(), DPKMeans(mechanism="l2", delta=0.0), DPKMeans(mechanism="laplace", delta=0.0)]
    return [
        pytest.param(
            model,
            check,
            id=f"{model.mechanism}-{getattr(check, 'func', check).__name__}-{number}",
            # scikit-learn warns where it skips a check (array API input without SCIPY_ARRAY_API); nothing else passes.
            marks=[
                pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning"),
                *(
                    pytest.mark.xfail(reason=reason, strict=True)
                    for name, reason in EXPECTED_FAILURES.items()
                    if getattr(check, "func", check).__name__ == name
                ),
            ],
        )
        for model in models
        for number, (model, check) in enumerate(estimator_checks_generator(model))
    ]


# -- the contract -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("model", "check"), checks())
def test_scikit_learn_accepts_the_estimator(model: DPKMeans, check: Callable[[DPKMeans], None]) -> None:
    check(model)


class FiniteRowsOnly(DPKMeans):
    """The estimator as scikit-learn's checks see it without the tag that makes them predict rows with NaN."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = False
        return tags


@pytest.mark.parametrize("readonly", [False, True])
def test_scikit_learn_accepts_the_pickled_estimator_on_finite_rows(readonly: bool) -> None:
    check_estimators_pickle("FiniteRowsOnly", FiniteRowsOnly(), readonly_memmap=readonly)


def test_a_clone_has_the_same_parameters_and_no_fitted_state() -> None:
    copy = clone(fitted(epsilon=2.0, **STATED))
    assert copy.epsilon == 2.0
    assert copy.radius == 4.0
    assert not hasattr(copy, "cluster_centers_")
    np.testing.assert_array_equal(copy.fit(ROWS).cluster_centers_, fitted(epsilon=2.0, **STATED).cluster_centers_)


def test_parameters_are_read_and_set_by_name() -> None:
    model = DPKMeans().set_params(n_clusters=5, mechanism="l2", delta=0.0)
    assert model.get_params()["n_clusters"] == 5
    assert model.get_params()["mechanism"] == "l2"
    with pytest.raises(ValueError, match="Invalid parameter"):
        model.set_params(eps=1.0)


def test_it_is_the_last_and_a_middle_step_of_a_pipeline() -> None:
    last = make_pipeline(FunctionTransformer(_in_public_units), DPKMeans(n_clusters=3, random_state=0)).fit(ROWS)
    assert last.predict(ROWS).shape == (3000,)
    middle = make_pipeline(DPKMeans(n_clusters=3, random_state=0), FunctionTransformer(_in_public_units))
    assert middle.fit_transform(ROWS).shape == (3000, 3)


def test_distances_come_as_a_data_frame_when_asked_for() -> None:
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
    assert public <= {"cluster_centers_", "certificate_", "plan_", "survey_", "fit_", "n_features_in_"}
    assert not hasattr(model, "labels_")
    assert not hasattr(model, "inertia_")


# -- inputs -------------------------------------------------------------------------------------------------------


def arrow() -> pa.Table:
    return pa.table({name: ROWS[:, index] for index, name in enumerate(NAMES)})


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
@pytest.mark.parametrize("stated", [{}, STATED], ids=["surveyed", "stated"])
def test_the_same_values_give_the_same_centers_in_every_container(kind: str, stated: dict[str, Any]) -> None:
    X = {**ARRAYS, **TABLES}[kind]()
    np.testing.assert_array_equal(fitted(X, **stated).cluster_centers_, fitted(**stated).cluster_centers_)


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
@pytest.mark.parametrize("as_text", [True, False])
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
def test_predict_takes_the_kind_of_table_that_was_fitted(kind: str) -> None:
    table = TABLES[kind]()
    np.testing.assert_array_equal(fitted(table).predict(table), fitted().predict(ROWS))


def test_predict_takes_the_file_that_was_fitted(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(arrow(), path)
    np.testing.assert_array_equal(fitted(path).predict(path), fitted().predict(ROWS))


@pytest.mark.parametrize("kind", TABLES)
def test_columns_in_another_order_are_refused(kind: str) -> None:
    table = TABLES[kind]()
    swapped = table.select(["second", "first", "third"]) if kind != "pandas" else table[["second", "first", "third"]]
    with pytest.raises(ValueError, match="feature"):
        fitted(table).predict(swapped)


# -- guarantees ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("facts", [{}, {"radius": 4.0}, {"center": (0.1, 0.0, 0.0)}, STATED], ids=str)
def test_the_parts_of_the_certificate_add_up_to_at_most_what_was_asked(
    mechanism: str, sampling: str, facts: dict[str, Any]
) -> None:
    delta = MECHANISMS[mechanism]
    certificate = fitted(epsilon=0.7, delta=delta, mechanism=mechanism, sampling=sampling, **facts).certificate_
    assert certificate.epsilon <= 0.7
    assert certificate.epsilon == pytest.approx(0.7, rel=1e-6)
    assert certificate.delta <= delta
    assert math.fsum(part["epsilon"] for part in certificate.parts) == certificate.epsilon
    assert math.fsum(part["delta"] for part in certificate.parts) == certificate.delta


def test_stated_facts_leave_nothing_to_pay_for_but_the_release() -> None:
    certificate = fitted(**STATED).certificate_
    assert [part["what"] for part in certificate.parts] == ["k-means"]
    assert certificate.epsilon == 1.0


@pytest.mark.parametrize(
    ("facts", "share"), [({"radius": 4.0}, 0.02), ({"center": (0.0, 0.0, 0.0)}, 0.02), ({}, 0.06)], ids=str
)
def test_a_survey_is_paid_for_by_its_share(facts: dict[str, Any], share: float) -> None:
    parts = fitted(epsilon=2.0, **facts).certificate_.parts
    assert [part["what"] for part in parts] == ["survey", "k-means"]
    assert parts[0]["epsilon"] == pytest.approx(share * 2.0, rel=1e-12)
    assert parts[0]["delta"] == 0.0


def test_without_a_seed_the_randomness_is_secure_and_two_fits_differ() -> None:
    first, second = fitted(random_state=None), fitted(random_state=None)
    assert first.certificate_.secure_randomness
    assert first.certificate_.note == "secure randomness"
    assert not np.array_equal(first.cluster_centers_, second.cluster_centers_)


@pytest.mark.parametrize("seed", [lambda: 5, lambda: np.random.default_rng(5), lambda: np.random.RandomState(5)])
@pytest.mark.parametrize("stated", [{}, STATED], ids=["surveyed", "stated"])
def test_with_a_seed_two_fits_agree_and_the_certificate_says_not_private(
    seed: Callable[[], Any], stated: dict[str, Any]
) -> None:
    first, second = fitted(random_state=seed(), **stated), fitted(random_state=seed(), **stated)
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


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("stated", [{}, STATED], ids=["surveyed", "stated"])
@pytest.mark.filterwarnings("ignore::pais.SurveyWarning")
def test_what_is_not_finite_is_left_out_by_fit_and_refused_by_predict(value: float, stated: dict[str, Any]) -> None:
    frame = pd.DataFrame(spoiled(value), columns=NAMES)
    for X in (spoiled(value), frame, pa.table(frame)):
        assert np.isfinite(fitted(X, **stated).cluster_centers_).all()
        assert_refused_without_values(lambda X=X: fitted(pais.source(X, missing="error"), **stated))
    assert_refused_without_values(lambda: fitted().predict(spoiled(value)))


def test_text_is_refused_without_being_quoted(tmp_path: Path) -> None:
    text = f"secret {CANARY}"
    frame = pd.DataFrame({"first": [text] * 5, "second": [1.0] * 5})
    path = tmp_path / "text.csv"
    frame.to_csv(path, index=False)
    for X in (np.array([[text, "1"]] * 5), frame, pl.DataFrame(frame), pa.table(frame), path):
        assert_refused_without_values(lambda X=X: fitted(X))


@pytest.mark.parametrize("value", [None, {"a": CANARY}, [CANARY], f"{CANARY}x", complex(CANARY, 1.0)])
def test_objects_that_are_no_numbers_leave_their_rows_out_and_are_not_quoted(value: Any) -> None:
    rows = np.full((50, 3), CANARY).astype(object)
    rows[7, 1] = value
    whole, holed = (fitted(X, **STATED) for X in (np.delete(rows, 7, axis=0), rows))
    assert np.isfinite(whole.cluster_centers_).all()
    assert np.isfinite(holed.cluster_centers_).all()
    assert_refused_without_values(lambda: holed.predict(rows))
    assert_refused_without_values(lambda: pais.source(rows, missing="error"))


def test_columns_that_hold_no_numbers_are_named() -> None:
    dates = pd.to_datetime(["2024-01-01"] * 5)
    frame = pd.DataFrame({"size": [CANARY] * 5, "city": [f"{CANARY} Oslo"] * 5, "when": dates, "count": [1] * 5})
    tables = {name: frame[["size", name, "count"]] for name in ("city", "when")}
    for name, X in [*tables.items(), ("city, when", frame), ("city", pl.DataFrame(tables["city"]))]:
        shown = ", ".join(rf"'{one}' \(type \w+\)" for one in name.split(", "))
        with pytest.raises(pais.DataError, match=rf"column\(s\) {shown} of the source hold no numbers") as caught:
            fitted(X)
        assert CANARY_DIGITS not in str(caught.value)
        assert caught.value.__context__ is None


def test_objects_in_a_table_are_named_by_their_column() -> None:
    with pytest.raises(pais.DataError, match=r"column\(s\) 'second' \(type string\) of the source"):
        fitted(pd.DataFrame({"first": [CANARY] * 5, "second": [{"a": CANARY}] * 5}))


def test_missing_values_are_left_out_or_an_error_on_demand_that_says_what_to_do() -> None:
    X = pd.DataFrame(ROWS, columns=NAMES)
    X.loc[7, "second"] = np.nan
    with pytest.raises(pais.DataError, match=r"column\(s\) 'second' have .* missing='drop'") as caught:
        pais.source(X, missing="error")
    # Neither which row, nor how many.
    assert not any(letter.isdigit() for letter in str(caught.value))
    for whole in (fitted(X, **STATED), fitted(pais.source(X, missing="drop"), **STATED)):
        assert list(whole.feature_names_in_) == NAMES
    # Labels come row by row: there is nothing to drop from.
    with pytest.raises(pais.DataError, match="second") as caught:
        whole.predict(X)
    assert "missing=" not in str(caught.value)


def test_columns_of_an_array_are_named_by_their_numbers() -> None:
    X = ROWS.copy()
    X[5, 1] = np.inf
    with pytest.raises(pais.DataError, match=r"column\(s\) 1 of X have values that are missing, NaN, infinite"):
        fitted().predict(X)
    largest = np.full((50, 3), 1.7e308)
    assert np.isfinite(fitted(largest, **STATED).cluster_centers_).all()


def test_complex_numbers_are_refused_without_being_quoted() -> None:
    assert_refused_without_values(lambda: fitted(spoiled(CANARY, np.complex128)))
    assert_refused_without_values(lambda: fitted().predict(spoiled(CANARY, np.complex128)))


@pytest.mark.parametrize("shape", [(), (50,), (5, 3, 2)])
def test_arrays_that_are_no_tables_are_refused_without_being_quoted(shape: tuple[int, ...]) -> None:
    assert_refused_without_values(lambda: fitted(np.full(shape, CANARY)))
    assert_refused_without_values(lambda: fitted().predict(np.full(shape, CANARY)))


def test_missing_values_of_a_table_are_an_error_by_column_on_demand() -> None:
    with pytest.raises(pais.DataError, match="'second'"):
        pais.source(pa.table({"first": [CANARY, 1.0], "second": [None, 1.0]}), missing="error")


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
            assert np.isfinite(fitted(X).cluster_centers_).all()


def test_a_file_without_a_line_of_names_is_refused_and_its_first_row_not_taken_for_names(tmp_path: Path) -> None:
    path = tmp_path / "bare.csv"
    path.write_text(f"{CANARY},2.5\n" + "1.0,2.0\n" * 50)
    assert_refused_without_values(lambda: fitted(path))


@pytest.mark.parametrize("width", [1, 2, 4])
def test_another_number_of_columns_is_refused_by_predict(width: int) -> None:
    model = fitted()
    new = np.full((4, width), CANARY)
    for act in (model.predict, model.transform, model.score):
        assert_refused_without_values(lambda act=act: act(new))


@pytest.mark.parametrize("stated", [{}, {"radius": 4.0}, STATED], ids=["surveyed", "radius", "stated"])
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
        {"sample_size": 1e9, "sampling": "uniform"},
        {"sample_size": 1e9, "sampling": "coreset"},
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
def test_a_bad_parameter_is_refused(change: dict[str, Any], stated: dict[str, Any]) -> None:
    rows = ROWS.copy()
    rows[0, 0] = CANARY
    assert_refused_without_values(lambda: fitted(rows, **{**stated, **change}))


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


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("kind", ODD_ROWS)
def test_odd_rows_give_finite_centers_of_the_right_shape(kind: str, sampling: str, mechanism: str) -> None:
    X = ODD_ROWS[kind]()
    model = fitted(X, sampling=sampling, mechanism=mechanism, delta=MECHANISMS[mechanism])
    assert model.cluster_centers_.shape == (3, X.shape[1])
    assert np.all(np.isfinite(model.cluster_centers_))
    assert model.predict(X).shape == (X.shape[0],)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("stated", [{"radius": 4.0}, STATED], ids=["radius", "stated"])
def test_rows_beyond_the_radius_are_clipped_to_it(sampling: str, mechanism: str, stated: dict[str, Any]) -> None:
    settings = {"sampling": sampling, "mechanism": mechanism, "delta": MECHANISMS[mechanism], **stated}
    for rows in (ROWS * 1e6 + 1e7, ROWS * 1e300):
        centers = fitted(rows, **settings).cluster_centers_
        assert np.all(np.linalg.norm(centers, axis=1) <= 4.0 * (1 + 1e-12))


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("stated", [{}, STATED], ids=["surveyed", "stated"])
def test_more_clusters_than_rows_give_that_many_centers(mechanism: str, stated: dict[str, Any]) -> None:
    model = fitted(ROWS[:5], n_clusters=40, mechanism=mechanism, delta=MECHANISMS[mechanism], **stated)
    assert model.cluster_centers_.shape == (40, 3)
    assert np.all(np.isfinite(model.cluster_centers_))


@pytest.mark.parametrize(
    ("mechanism", "delta"), [("gaussian", 1e-6), ("gaussian", 1e-14), ("l2", 0.0), ("laplace", 0.0)]
)
@pytest.mark.parametrize("sampling", ["constrained", "none"])
@pytest.mark.parametrize("epsilon", [1e-12, 1e-3, 1e3, 1e6])
@weak_epsilon
def test_extreme_budgets_give_finite_centers_within_them(
    epsilon: float, sampling: str, mechanism: str, delta: float
) -> None:
    model = fitted(mechanism=mechanism, delta=delta, epsilon=epsilon, sampling=sampling)
    assert np.all(np.isfinite(model.cluster_centers_))
    assert model.certificate_.epsilon <= epsilon


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_stated_norms_that_are_all_zero_are_no_crash(mechanism: str) -> None:
    nothing = pais.NormDistribution(norms=np.zeros(1), masses=np.full(1, 3000.0), radius=4.0)
    model = fitted(radius=4.0, norms=nothing, mechanism=mechanism, delta=MECHANISMS[mechanism])
    assert np.all(np.isfinite(model.cluster_centers_))
