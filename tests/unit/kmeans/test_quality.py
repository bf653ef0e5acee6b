"""A fit says when noise hides the clusters."""

from __future__ import annotations

import dataclasses
import warnings

import numpy as np
import pytest

import pais
from pais._base.cards import number
from pais.accounting.certificate import digest
from pais.kmeans.result import KMeansFit
from pais.privacy.guarantee import structure_concern
from pais.show.page import report_html
from tests.support.kmeans_cases import ROWS, stated

CONCERN = "noise hides the clusters: only 2 of 5 centers are above the noise"


def repeated(value: pais.KMeansValue, distinct: int) -> pais.KMeansValue:
    """The same value with fewer distinct centers."""
    index = np.minimum(np.arange(len(value.centers)), distinct - 1)
    return dataclasses.replace(value, centers=value.centers[index])


@pytest.fixture(scope="module")
def fit() -> KMeansFit:
    return pais.fit(ROWS, stated(), random_state=0)


def test_concern_says_how_many_centers_are_above_the_noise_and_what_to_do() -> None:
    assert structure_concern(5, 5) is None
    assert "all 5 centers are the same noisy mean" in (structure_concern(5, 1) or "")
    text = structure_concern(5, 2) or ""
    assert text.startswith(CONCERN)
    for advice in ("Raise epsilon", "fewer clusters", "fewer columns", "more rows"):
        assert advice in text


def test_a_clear_fit_has_all_its_centers_and_no_concern(fit: KMeansFit) -> None:
    assert fit.value.effective_centers == 5
    assert fit.concern is None
    assert "noise hides" not in report_html(fit)


def test_a_drowned_fit_has_a_concern_and_its_report_shows_it(fit: KMeansFit) -> None:
    drowned = dataclasses.replace(fit, value=repeated(fit.value, 2))
    assert drowned.value.effective_centers == 2
    assert (drowned.concern or "").startswith(CONCERN)
    assert "Noise hides the clusters: only 2 of 5 centers" in report_html(drowned)


def test_a_fit_of_too_few_rows_is_one_repeated_center_and_no_good_quality() -> None:
    model = pais.DPKMeans(n_clusters=5, epsilon=0.05, random_state=0)
    with pytest.warns(pais.QualityWarning, match="all 5 centers are the same noisy mean"):
        model.fit(ROWS[:300])
    assert model.effective_centers_ == 1
    assert model.quality_.ratio > 2.0


def test_plan_fit_report_and_model_show_the_predicted_quality(fit: KMeansFit) -> None:
    quality = fit.quality
    assert quality is not None
    assert 1.0 < quality.ratio < 1.2
    assert f"7. quality    public      predicted: {fit.plan.quality}" in fit.plan.explain()
    assert fit.plan.to_dict()["predicted_quality"] == fit.plan.quality.to_dict()  # type: ignore[union-attr]
    page = report_html(fit)
    assert "Predicted quality" in page
    assert f"{number(quality.ratio, 3)} \u00d7" in page
    model = pais.DPKMeans(n_clusters=5, epsilon=1.0, random_state=0).fit(ROWS)
    assert model.quality_ == model.fit_.quality
    # The paper's algorithm has no prediction.
    paper = pais.fit(ROWS, stated("l2", algorithm="paper"), random_state=0)
    assert paper.quality is None
    assert "Predicted quality" not in report_html(paper)
    assert "7. quality" not in paper.plan.explain()


def test_the_estimator_keeps_its_result_and_warns(monkeypatch: pytest.MonkeyPatch) -> None:
    measure = pais.KMeans.measure
    monkeypatch.setattr(pais.KMeans, "measure", lambda *arguments: repeated(measure(*arguments), 2))
    model = pais.DPKMeans(n_clusters=5, epsilon=1.0, random_state=0)
    with pytest.warns(pais.QualityWarning, match=CONCERN) as issued:
        model.fit(ROWS)
    assert issued[0].filename == __file__
    assert model.effective_centers_ == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error", pais.QualityWarning)
        again = pais.DPKMeans(n_clusters=5, epsilon=1.0, random_state=0)
        with pytest.raises(pais.QualityWarning):
            again.fit(ROWS)
    assert np.array_equal(again.cluster_centers_, model.cluster_centers_)


def test_effective_centers_can_be_read_from_the_released_centers(fit: KMeansFit) -> None:
    value = repeated(fit.value, 3)
    copy = pais.KMeansValue(centers=value.centers.copy(), noisy_counts=value.noisy_counts)
    assert copy.effective_centers == 3
    assert digest(copy) == digest(value)
