"""Mistakes with tables that a fit can point out from public or released values."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

import pais
from pais.errors import QualityWarning

FRAME = pais.example_people(2000, random_state=1).to_pandas()


def fit(**options: object) -> pais.DPKMeans:
    defaults = {"n_clusters": 3, "epsilon": 3.0, "columns": {"age": (18, 100), "visits": (0, 50)}, "random_state": 0}
    return pais.DPKMeans(**{**defaults, **options}).fit(FRAME)  # type: ignore[arg-type]


def test_a_list_of_two_numbers_is_refused_because_it_could_be_bounds() -> None:
    with pytest.raises(pais.ArgumentError, match="bounds or categories"):
        pais.Schema.of({"age": [18, 100]})
    assert pais.Schema.of({"size": ["1", "2"]}).width == 2
    assert pais.Schema.of({"size": [1, 2, 3]}).width == 3


def test_categories_that_hardly_any_row_has_are_pointed_out() -> None:
    columns = {"age": (18, 100), "visits": (0, 50), "region": ["North", "South"]}
    with pytest.warns(QualityWarning, match="categories stated for 'region'"):
        fit(columns=columns)
    with warnings.catch_warnings():
        warnings.simplefilter("error", QualityWarning)
        fit(columns={**columns, "region": ["north", "south"]})


def test_decimal_commas_are_pointed_out_before_a_fit(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    FRAME[["age", "visits"]].to_csv(path, sep=";", decimal=",", index=False)
    columns = {"age": (18, 100), "visits": (0, 50)}
    with pytest.raises(pais.DataError, match="has decimal commas: pass decimal=','"):
        pais.DPKMeans(n_clusters=2, epsilon=3.0, columns=columns, random_state=0).fit(path)
    model = pais.DPKMeans(n_clusters=2, epsilon=3.0, columns=columns, random_state=0)
    model.fit(pais.CSVFile(path, decimal=","))
    assert len(model.predict(pais.CSVFile(path, decimal=","))) == len(FRAME)


def test_an_automatic_choice_at_its_limit_is_pointed_out() -> None:
    rows = np.random.default_rng(0).normal(size=(20_000, 2)) * 0.05 + 4 * np.random.default_rng(1).normal(
        size=(12, 2)
    ).repeat(np.ceil(20_000 / 12), axis=0)[:20_000].reshape(-1, 2)
    with pytest.warns(QualityWarning, match="max_clusters=4"):
        pais.DPKMeans(n_clusters="auto", max_clusters=4, epsilon=3.0, random_state=0).fit(rows)


def test_too_many_clusters_are_refused_before_anything_is_paid() -> None:
    ledger = pais.Ledger(epsilon=5.0, delta=1e-4)
    with pytest.raises(pais.ArgumentError, match="3000"):
        fit(n_clusters=10_000, ledger=ledger)
    assert ledger.entries == ()
