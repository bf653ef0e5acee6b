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


def test_a_frame_without_columns_is_refused() -> None:
    with pytest.raises(pais.DataError, match="at least one column"):
        model().fit(pd.DataFrame())


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


def test_columns_that_are_not_numeric_are_listed_together_with_the_way_to_choose() -> None:
    texts = {f"text {number}": ["a"] * 5 for number in range(12)}
    with pytest.raises(pais.DataError, match="not numeric") as caught:
        model().fit(pd.DataFrame({"age": [1.0] * 5, **texts}))
    assert all(name in str(caught.value) for name in texts)
    assert "`columns`" in str(caught.value)
    assert "'age'" not in str(caught.value)


def test_ids_among_the_features_are_warned_about_by_name(people: pd.DataFrame, tmp_path: Path) -> None:
    pq.write_table(pa.table(people), tmp_path / "people.parquet")
    for rows in (people, pl.from_pandas(people), pa.table(people), tmp_path / "people.parquet"):
        with pytest.warns(pais.QualityWarning, match=r"column\(s\) customer_id look like ids") as caught:
            model().fit(rows)
        assert len([one for one in caught if "look like ids" in str(one.message)]) == 1
        assert caught[0].filename == __file__


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
        warnings.simplefilter("error", pais.QualityWarning)
        with pytest.raises(pais.QualityWarning):
            model(ledger=ledger).fit(people)
    assert ledger.spent.epsilon == 0.0


def test_an_empty_survey_is_reported_before_its_consequences() -> None:
    with pytest.warns() as caught:  # the order of two warnings
        model().fit(np.zeros((3, 2)))
    assert [one.category for one in caught][:2] == [pais.SurveyWarning, pais.QualityWarning]
