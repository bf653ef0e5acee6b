"""Centers in the units of the columns, from a fit with a schema of every kind."""

from __future__ import annotations

import dataclasses
import datetime
import re

import numpy as np
import pandas as pd
import pytest

import pais
from pais.accounting.words import columns_in_words
from pais.kmeans.planning import KMeansSettings
from pais.kmeans.result import KMeansFit
from pais.kmeans.view import DATE, NUMBER, SHARE, view_of
from pais.show.page import report_html

COLUMNS = {
    "age": (0, 100),
    "region": ["north", "south"],
    "premium": bool,
    "joined": (datetime.date(2020, 1, 1), datetime.date(2025, 12, 31)),
    "income": 1000.0,
}


def table(n: int = 20_000) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    old = rng.random(n) < 0.4
    return pd.DataFrame(
        {
            "age": np.where(old, 70.0, 30.0) + rng.normal(size=n),
            "region": np.where(old, "north", "south"),
            "premium": rng.random(n) < np.where(old, 0.9, 0.2),
            "joined": np.datetime64("2021-01-01") + (np.where(old, 0, 1400) * np.timedelta64(1, "D")),
            "income": np.where(old, 900.0, 2900.0) + 50.0 * rng.normal(size=n),
        }
    )


@pytest.fixture(scope="module")
def fit() -> KMeansFit:
    rows = pais.source(table(), columns=COLUMNS)
    return pais.fit(rows, KMeansSettings(n_clusters=2, epsilon=2.0, delta=1e-6))


def test_view_is_in_own_units(fit: KMeansFit) -> None:
    view = view_of(fit)
    assert view.names == ("age", "region=north", "region=south", "premium", "joined", "income")
    assert view.kinds == (NUMBER, SHARE, SHARE, SHARE, DATE, NUMBER)
    old = int(np.argmax(view.values[:, 0]))
    assert np.allclose(view.values[[old, 1 - old], 0], [70.0, 30.0], atol=2.0)
    assert np.allclose(view.values[old, 1:4], [1.0, 0.0, 0.9], atol=0.05)
    assert np.allclose(view.values[[old, 1 - old], 5], [900.0, 2900.0], atol=100.0)
    assert view.texts(4)[0][old].startswith(("2020-1", "2021-0"))
    assert view.dates == ("joined",)


def test_errors_are_scaled_like_the_columns(fit: KMeansFit) -> None:
    view = view_of(fit)
    assert view.errors is not None
    assert np.allclose(view.errors, fit.value.standard_errors * fit.schema.unit_scale)
    assert not view.has_one_error


def test_page_shows_percent_dates_and_stated_facts(fit: KMeansFit) -> None:
    page = report_html(fit)
    assert re.search(r'<td class="heat-\d"[^>]*>\d+(\.\d+)?%<small>', page)
    assert re.search(r'<td class="heat-\d"[^>]*>202\d-\d\d-\d\d<small><span>±[\d.]+ days', page)
    assert "Shares of categories and of true are in percent." in page
    assert "from 0 to 100; values beyond are clipped" in page
    assert "from 2020-01-01 to 2025-12-31; values beyond are clipped" in page
    assert "categories north, south" in page
    assert "divided by 1,000" in page


def test_names_of_arrays_are_numbered(fit: KMeansFit) -> None:
    plain = pais.fit(np.random.default_rng(0).normal(size=(5_000, 2)), KMeansSettings(n_clusters=2, epsilon=1.0))
    assert view_of(plain).names == ("feature 0", "feature 1")
    assert view_of(plain, ["a", "b"]).names == ("a", "b")
    assert "Public facts about the columns" not in report_html(plain)


def test_values_read_from_a_file_have_no_errors(fit: KMeansFit) -> None:
    value = dataclasses.replace(fit.value, standard_errors=None, cells=None)
    bare = dataclasses.replace(fit, value=value)
    view = view_of(bare)
    assert view.errors is None
    assert view.cells.all()
    assert view.centers == (True, True)
    page = report_html(bare)
    assert not re.search(r'<td class="(?:heat-\d|weak)"[^>]*>[^<]*<small>', page)
    assert "Segments at a glance" not in page
    assert "readable above the noise" not in page
    assert 'id="elbow-title"' not in page


def test_center_that_is_not_distinct_has_another_doubt_than_a_small_one(fit: KMeansFit) -> None:
    centers = np.vstack([fit.value.centers, fit.value.centers[:1]])
    errors = np.vstack([fit.value.standard_errors, fit.value.standard_errors[:1]])
    value = dataclasses.replace(
        fit.value, centers=centers, standard_errors=errors, noisy_counts=np.array([9_000.0, 9_000.0, -5.0])
    )
    assert view_of(dataclasses.replace(fit, value=value)).doubts == ("not distinct", "", "within noise")


def test_column_facts_are_part_of_the_explained_certificate(fit: KMeansFit) -> None:
    text = fit.certificate.explain()
    assert "  age: from 0 to 100; values beyond are clipped" in text
    assert "  premium: true or false" in text


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ({"name": "a", "kind": "auto", "center": None, "scale": None}, "scale not known yet"),
        (
            {"name": "a", "kind": "auto", "center": 128_456.7, "scale": 0.25},
            "center 128,457 and scale 0.25, found privately",
        ),
        (
            {"name": "a", "kind": "bounds", "low": -1.5, "high": 250_000.0},
            "from -1.5 to 250,000; values beyond are clipped",
        ),
    ],
)
def test_column_facts_in_words(column: dict[str, object], words: str) -> None:
    assert columns_in_words({"columns": [column]}) == [("a", words)]
