"""Common mistakes of newcomers: each one gets an error or a warning that says what to do."""

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

import pais


def model(**more: Any) -> pais.DPKMeans:
    return pais.DPKMeans(n_clusters=2, epsilon=1.0, random_state=0, **more)


@pytest.fixture(scope="module")
def people() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {"customer_id": np.arange(2000), "age": rng.normal(40, 9, 2000), "visits": rng.poisson(3, 2000)}
    )


@pytest.mark.parametrize("rows", [pd.Series([1.0, 2.0], name="age"), pl.Series([1.0, 2.0]), pa.chunked_array([[1.0]])])
@pytest.mark.parametrize("call", [lambda rows: model().fit(rows), lambda rows: pais.source(rows)])
def test_one_column_alone_is_refused_with_the_way_to_pass_it(rows: object, call: Any) -> None:
    with pytest.raises(pais.DataError, match=r"single column.*two pairs of brackets"):
        call(rows)


@pytest.mark.parametrize("call", [lambda rows: model().fit(rows), lambda rows: pais.survey(rows, epsilon=1.0)])
def test_none_is_refused_by_name(call: Any) -> None:
    with pytest.raises(pais.DataError, match="None"):
        call(None)


def test_a_path_in_place_of_a_ledger_is_refused_with_the_way_to_open_it(people: pd.DataFrame) -> None:
    with pytest.raises(pais.ArgumentError, match=r"pais\.Ledger\(path=\.\.\.\)"):
        model(ledger="budget.json").fit(people)


def test_a_report_in_a_missing_directory_is_refused(people: pd.DataFrame, tmp_path: Path) -> None:
    fitted = model().fit(people[["age"]])
    with pytest.raises(pais.ArgumentError, match="cannot be written"):
        fitted.write_report(tmp_path / "missing" / "report.html")


def test_other_columns_than_planned_are_refused_without_an_option_of_the_command_line(people: pd.DataFrame) -> None:
    plan = model().fit(people[["age", "visits"]]).plan_
    with pytest.raises(pais.MismatchError, match="age, visits") as caught:
        pais.run(plan, people[["visits", "age"]])
    assert "--" not in str(caught.value)


def test_ids_among_the_features_are_warned_about_by_name(people: pd.DataFrame, tmp_path: Path) -> None:
    people = people.rename(columns={"customer_id": "row_id"})
    pq.write_table(pa.table(people), tmp_path / "people.parquet")
    for rows in (people, pl.from_pandas(people), pa.table(people), tmp_path / "people.parquet"):
        with pytest.warns(pais.QualityWarning, match=r"column\(s\) row_id look like ids") as caught:
            model().fit(rows)
        assert len([one for one in caught if "look like ids" in str(one.message)]) == 1
        assert caught[0].filename == __file__


def hints(call: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    texts = [str(one.message) for one in caught if issubclass(one.category, pais.PrivacyWarning)]
    return [text for text in texts if "looks like the id of" in text]


def test_a_unit_that_is_left_out_is_hinted_at_by_the_name_of_a_column(people: pd.DataFrame, tmp_path: Path) -> None:
    people.to_csv(tmp_path / "people.csv", index=False)
    facts = {"age": (18, 100)}
    for rows in (people, pl.from_pandas(people), pa.table(people), tmp_path / "people.csv"):
        for call in (
            lambda rows=rows: model(columns=facts).fit(rows),
            lambda rows=rows: pais.DPLinearRegression(columns=["age"], target="visits", random_state=0).fit(rows),
            lambda rows=rows: pais.mean(rows, columns=facts, random_state=0),
            lambda rows=rows: pais.quantile(rows, columns=facts, random_state=0),
            lambda rows=rows: pais.count(rows, random_state=0),
        ):
            (text,) = hints(call)
            assert text.startswith("column 'customer_id' looks like the id of a customer, and unit is left out")
            assert "pass unit='customer_id'" in text
    assert len(hints(lambda: model().fit(people))) == 1


def test_there_is_no_hint_at_a_unit_that_is_stated_or_a_column_that_is_a_feature(people: pd.DataFrame) -> None:
    facts, users = {"age": (18, 100)}, people.rename(columns={"customer_id": "user"})
    assert hints(lambda: model(columns=facts, unit="customer_id").fit(people)) == []
    assert hints(lambda: model(columns={"user": (0, 9), **facts}).fit(users)) == []
    assert hints(lambda: pais.count(users, by={"user": ["a", "b"]}, random_state=0)) == []
    assert hints(lambda: pais.mean(people, columns=facts, unit="customer_id", random_state=0)) == []
    assert hints(lambda: model(columns=facts).fit(people[["age", "visits"]])) == []
    assert hints(lambda: model().fit(np.asarray(people[["age", "visits"]]))) == []


@pytest.mark.parametrize(
    ("name", "found"),
    [
        *((name, True) for name in ("patient_id", "PatientID", "customerNo", "user", "person-id", "hashed_user_key")),
        *((name, False) for name in ("id", "row_id", "user_agent", "customer_segment", "visits_per_user", "member")),
    ],
)
def test_the_name_alone_decides_about_the_hint(name: str, found: bool) -> None:
    people = pd.DataFrame({name: [1.0, 2.0], "age": [30.0, 40.0]})
    assert len(hints(lambda: pais.mean(people, columns={"age": (18, 100)}, random_state=0))) == found


def test_no_id_warning_for_chosen_columns_or_arrays(people: pd.DataFrame) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.filterwarnings("error", ".*look like ids")
        model().fit(people[["age", "visits"]])
        model().fit(np.asarray(people[["age", "visits"]]))
        model().fit(pais.source(people[["age"]], columns=["age"]))


def test_an_id_warning_that_is_an_error_spends_nothing(people: pd.DataFrame) -> None:
    ledger = pais.Ledger(epsilon=1.0, delta=1e-5)
    with warnings.catch_warnings():
        warnings.simplefilter("error", pais.PrivacyWarning)
        with pytest.raises(pais.PrivacyWarning):
            model(ledger=ledger).fit(people)
        with pytest.raises(pais.PrivacyWarning):
            pais.mean(people, columns={"age": (18, 100)}, ledger=ledger)
    with warnings.catch_warnings():
        warnings.simplefilter("error", pais.QualityWarning)
        with pytest.raises(pais.QualityWarning):
            model(ledger=ledger).fit(people.rename(columns={"customer_id": "id"}))
    assert ledger.spent.epsilon == 0.0


def test_an_empty_survey_is_reported_before_its_consequences() -> None:
    with pytest.warns() as caught:  # the order of two warnings
        model().fit(np.zeros((3, 2)))
    assert [one.category for one in caught][:2] == [pais.SurveyWarning, pais.QualityWarning]


# -- what a fit points out from public or released values -----------------------------------------------------------

FRAME = pais.example_people(2000, random_state=1).to_pandas()


def fit(**options: object) -> pais.DPKMeans:
    defaults = {"n_clusters": 3, "epsilon": 3.0, "columns": {"age": (18, 100), "visits": (0, 50)}, "random_state": 0}
    return pais.DPKMeans(**{**defaults, **options}).fit(FRAME)  # type: ignore[arg-type]


def test_categories_that_hardly_any_row_has_are_pointed_out() -> None:
    columns = {"age": (18, 100), "visits": (0, 50), "region": ["North", "South"]}
    with pytest.warns(pais.QualityWarning, match="categories stated for 'region'"):
        fit(columns=columns)
    with warnings.catch_warnings():
        warnings.simplefilter("error", pais.QualityWarning)
        fit(columns={**columns, "region": ["north", "south"]})


def test_an_automatic_choice_at_its_limit_is_pointed_out() -> None:
    rows = np.random.default_rng(0).normal(size=(20_000, 2)) * 0.05 + 4 * np.random.default_rng(1).normal(
        size=(12, 2)
    ).repeat(np.ceil(20_000 / 12), axis=0)[:20_000].reshape(-1, 2)
    with pytest.warns(pais.QualityWarning, match="max_clusters=4"):
        pais.DPKMeans(n_clusters="auto", max_clusters=4, epsilon=3.0, random_state=0).fit(rows)


def test_too_many_clusters_are_refused_before_anything_is_paid() -> None:
    ledger = pais.Ledger(epsilon=5.0, delta=1e-4)
    with pytest.raises(pais.ArgumentError, match="3000"):
        fit(n_clusters=10_000, ledger=ledger)
    assert ledger.entries == ()
