"""Centers in the units of the columns, from a fit with a schema of every kind, and one sentence about each segment."""

from __future__ import annotations

import dataclasses
import datetime
import re

import numpy as np
import pandas as pd
import pytest

import pais
from pais.accounting.certificate import columns_in_words
from pais.kmeans.planning import KMeansSettings
from pais.kmeans.result import KMeansFit
from pais.kmeans.view import DATE, NOT_DISTINCT, NUMBER, SHARE, WITHIN_NOISE, Sizes, _from_average, sentences, view_of
from pais.show.page import report_html
from tests.unit.kmeans.views import view

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


def sizes(*counts: float) -> Sizes:
    return Sizes(counts=np.array(counts), errors=np.ones(len(counts)))


def told(values: object, error: float = 0.01, **changes: object) -> list[str]:
    array = np.asarray(values, dtype=np.float64)
    stated = {"errors": np.full(array.shape, error), "sizes": sizes(*[100.0] * len(array))}
    return sentences(view(array, **{**stated, **changes}))


def test_the_error_of_a_difference_is_that_of_simulated_noise() -> None:
    rng, weights = np.random.default_rng(0), np.array([0.5, 0.3, 0.2])
    values, errors = rng.normal(size=(3, 4)), rng.uniform(0.1, 2.0, (3, 4))
    _, expected = _from_average(values, errors, weights)
    noisy = values + errors * rng.standard_normal((40_000, 3, 4))
    simulated = (noisy - np.einsum("k,nkd->nd", weights, noisy)[:, None, :]).std(axis=0)
    assert np.allclose(simulated, expected, rtol=0.02)


def test_noise_alone_is_hardly_ever_told() -> None:
    rng, claims, counts = np.random.default_rng(1), 0, sizes(400.0, 300.0, 200.0, 100.0)
    for _ in range(400):
        claims += any("average" not in text for text in told(rng.normal(size=(4, 6)), error=1.0, sizes=counts))
    # At most 5 % of 400 fits, and three standard errors. With a threshold of two errors it is 267.
    assert claims <= 20 + 3 * 4.4


@pytest.mark.parametrize(
    ("values", "kind", "name", "words"),
    [
        ((70.0, 30.0), NUMBER, "length_of_stay", "higher length of stay"),
        ((30.0, 70.0), NUMBER, "age", "lower age"),
        ((19_000.0, 18_000.0), DATE, "admission", "later admission"),
        ((18_000.0, 19_000.0), DATE, "admission", "earlier admission"),
        ((0.97, 0.2), SHARE, "readmitted", "nearly all readmitted"),
        ((0.7, 0.2), SHARE, "readmitted", "mostly readmitted"),
        ((0.48, 0.1), SHARE, "readmitted", "more often readmitted"),
        ((0.02, 0.6), SHARE, "readmitted", "hardly any readmitted"),
        ((0.15, 0.6), SHARE, "readmitted", "few readmitted"),
        ((0.45, 0.9), SHARE, "readmitted", "less often readmitted"),
        ((0.7, 0.1), SHARE, "ward=old_age", "mostly ward old age"),
        ((0.1, 0.7), SHARE, "ward=old_age", "close to the average in every column, as far as the noise shows"),
    ],
)
def test_words_follow_from_the_level_and_the_difference(
    values: tuple[float, float], kind: str, name: str, words: str
) -> None:
    assert told([[value] for value in values], names=(name,), kinds=(kind,))[0] == words


def test_a_share_with_a_large_error_is_described_with_less() -> None:
    shown = {"names": ("readmitted",), "kinds": (SHARE,)}
    assert told([[0.93], [0.1]], error=0.01, **shown)[0] == "nearly all readmitted"
    assert told([[0.93], [0.1]], error=0.06, **shown)[0] == "mostly readmitted"
    assert "average" in told([[0.93], [0.1]], error=0.6, **shown)[0]


def test_small_differences_and_drowned_features_are_left_out() -> None:
    assert told([[50.0], [51.0]], error=1e-4)[0] == "lower c0"
    assert "average" in told([[50.0], [51.0]], error=1e-4, spread=np.array([10.0]))[0]
    assert "average" in told([[0.0], [9.0]], features=(False,))[0]


def test_columns_with_the_same_words_stand_together_and_shares_come_last() -> None:
    names, kinds = ("age", "stay", "readmitted", "income"), (NUMBER, NUMBER, SHARE, NUMBER)
    text = told([[70.0, 9.0, 0.99, 1.0], [30.0, 3.0, 0.1, 2.0]], names=names, kinds=kinds)[0]
    assert text == "higher age and stay; lower income; nearly all readmitted"


def test_a_segment_in_doubt_is_not_described_and_unknown_errors_say_nothing() -> None:
    texts = told([[0.0], [9.0]], doubts=(WITHIN_NOISE, NOT_DISTINCT))
    assert texts[0].startswith("its size is not above the noise")
    assert texts[1].startswith("no column separates it")
    assert told([[0.0], [9.0]], errors=None) == ["", ""]


def test_shares_add_up_and_their_errors_are_those_of_simulated_noise() -> None:
    rng, counts, errors = np.random.default_rng(2), np.array([500.0, 300.0, 200.0]), np.array([10.0, 20.0, 5.0])
    found = Sizes(counts=counts, errors=errors)
    noisy = counts + errors * rng.standard_normal((40_000, 3))
    simulated = (noisy / noisy.sum(axis=1, keepdims=True)).std(axis=0)
    assert found.shares.sum() == pytest.approx(1.0)
    assert np.allclose(found.share_errors, simulated, rtol=0.03)
    assert found.share_texts == [("50%", "1%"), ("30%", "1%"), ("20.0%", "0.6%")]
    assert found.count_texts == [("500", "10"), ("300", "20"), ("200", "5")]
    assert Sizes(counts=counts, errors=errors, noun="patients", split=True).count_texts == []


@pytest.mark.parametrize("error", [1.0, 1e7, 1e16])
def test_nothing_is_known_of_shares_if_no_count_is_positive(error: float) -> None:
    found = Sizes(counts=np.array([-3.0, 0.0]), errors=np.full(2, error))
    assert found.shares.tolist() == [0.0, 0.0]
    assert found.share_errors.tolist() == [1.0, 1.0]
    assert found.share_texts == [("0%", "100%")] * 2


def test_the_error_of_a_share_is_at_most_all_rows() -> None:
    assert sizes(0.01, -5.0).share_errors.tolist() == [1.0, 1.0]
    assert sizes(0.01, 0.02).share_errors.tolist() == [1.0, 1.0]


@pytest.fixture(scope="module")
def visits() -> pd.DataFrame:
    """2,000 patients; the older half stays longer and comes back."""
    rng = np.random.default_rng(0)
    patient = np.repeat(np.arange(2000), 1 + rng.poisson(3, 2000))
    old = patient % 2 == 1
    return pd.DataFrame(
        {
            "patient_id": patient,
            "age": np.where(old, 75, 30) + rng.normal(0, 5, len(patient)),
            "days_in_hospital": np.where(old, 12, 3) + rng.normal(0, 1, len(patient)),
            "readmitted": rng.random(len(patient)) < np.where(old, 0.95, 0.04),
            "weekday": rng.integers(0, 7, len(patient)),
        }
    )


VISITS = {"age": (0, 110), "days_in_hospital": (0, 30), "readmitted": bool, "weekday": (0, 6)}


def test_a_fit_describes_its_segments_of_patients(visits: pd.DataFrame) -> None:
    model = pais.DPKMeans(n_clusters=2, epsilon=3.0, columns=VISITS, unit="patient_id", random_state=0).fit(visits)
    old, young = sorted((line for line in model.explain().splitlines() if line.startswith("Segment")), key=len)[::-1]
    if "lower" in old:
        old, young = young, old
    assert "% of patients: higher" in old
    assert all(word in old for word in ("age", "days in hospital", "nearly all readmitted"))
    assert all(word in young for word in ("lower", "age", "days in hospital", "hardly any readmitted"))
    assert "weekday" not in old + young
    frame = model.centers_frame()
    assert frame["share"].sum() == pytest.approx(1.0)
    assert np.abs(frame["share"] - 0.5).max() < 5.0 * frame["share_se"].max()
    assert (frame["noisy_count_se"] > 0.0).all()


@pytest.mark.slow
def test_errors_of_counts_cover_the_true_sizes_with_and_without_a_sample() -> None:
    rows = np.concatenate([np.random.default_rng(0).normal(at, 0.05, (n, 2)) for at, n in ((-0.5, 4000), (0.5, 2000))])
    norms = pais.NormDistribution(norms=np.array([0.7]), masses=np.array([6000.0]), radius=1.0)
    for changes in ({"sampling": "none"}, {"sampling": "uniform", "sample_size": 1500}):
        scores = []
        for seed in range(12):
            model = pais.DPKMeans(n_clusters=2, radius=1.0, norms=norms, random_state=seed, **changes).fit(rows)
            true = np.where(model.cluster_centers_[:, 0] < 0.0, 4000.0, 2000.0)
            scores.append((model.noisy_counts_ - true) / model.fit_.count_errors)
        assert 0.6 < np.sqrt(np.mean(np.square(scores))) < 1.6
