"""A plan of private k-means explains its stages."""

from __future__ import annotations

import re

import pytest

import pais
from tests.support.kmeans_cases import DELTAS, ROWS, settings_of, stated


@pytest.mark.parametrize("mechanism", DELTAS)
def test_a_plan_explains_its_stages_and_shows_no_row(mechanism: str) -> None:
    canary = 7.36194825172
    rows = ROWS.copy()
    rows[:, 2] = canary
    for case in (stated(mechanism), settings_of(mechanism)):
        fit = pais.fit(rows, case, random_state=0)
        text = fit.plan.explain()
        for stage, word in [
            ("rows", "secret"),
            ("ball", "secret"),
            ("rule", "public"),
            ("sample", "secret"),
            ("mechanism", "protected"),
            ("release", "may leave"),
        ]:
            assert re.search(rf"^\d\. {stage} +{word} ", text, re.MULTILINE), stage
        assert len(re.findall(r"^ +round \d+", text, re.MULTILINE)) == len(fit.plan.mechanism.rounds)  # type: ignore[attr-defined]
        assert ("survey" in text) == (fit.survey is not None)
        for shown in (text, fit.certificate.to_json(), repr(fit.plan), repr(fit.certificate), repr(fit)):
            assert "7.36194" not in shown
            assert "30000" not in shown.replace(",", "") or fit.survey is None


def test_a_plan_says_what_each_round_releases() -> None:
    plan = pais.fit(ROWS, stated(sample_size=3000.0), random_state=0).plan
    text, rounds = plan.explain(), plan.mechanism.rounds  # type: ignore[attr-defined]
    assert "the sum of their residuals (row minus center)" in text
    assert "mean and second moment of the rows clipped to norm" in text
    assert "The clip is smaller for rows of small norm" in text
    for noise in (rounds[-1].count_noise, rounds[-1].distance_noise, rounds[-1].residual_noise):
        assert f"{noise.scale:.6g}" in text.split(f"round {len(rounds)}")[1]
    whole = pais.fit(ROWS, stated(sampling="none"), random_state=0).plan.explain()
    assert "The clip is smaller" not in whole
    paper = pais.fit(ROWS, stated("l2", algorithm="paper"), random_state=0).plan.explain()
    assert "the sum of the rows of each cell" in paper
    assert "residuals" not in paper
    pure = pais.fit(ROWS, stated("laplace"), random_state=0).plan.explain()
    assert "second moment" not in pure
    assert " sectors, " in pure
