"""The rounds of k-means in words: a plan, a certificate and a page say the same about them."""

from __future__ import annotations

import numpy as np
import pytest

import pais
from pais._base.cards import number
from pais.accounting.certificate import how_lines
from pais.kmeans.mechanism import KMeans, rows_of_page
from pais.kmeans.planning import KMeansSettings

ROWS = np.random.default_rng(0).normal(size=(4_000, 3))
VARIANTS = {
    "gaussian": {"delta": 1e-6},
    "auto": {"delta": 1e-6, "n_clusters": "auto"},
    "l2": {"mechanism": "l2"},
    "laplace": {"mechanism": "laplace"},
    "paper": {"mechanism": "l2", "algorithm": "paper"},
}


@pytest.fixture(scope="module", params=VARIANTS)
def fit(request: pytest.FixtureRequest) -> pais.Fit:
    return pais.fit(ROWS, KMeansSettings(**{"n_clusters": 2, "epsilon": 2.0, **VARIANTS[request.param]}))


def test_the_noise_of_each_round_is_in_the_plan_and_on_the_page(fit: pais.Fit) -> None:
    mechanism: KMeans = fit.plan.mechanism
    starts = mechanism.moment is not None
    lines = [line for line in fit.plan.explain().splitlines() if line.strip().startswith("round ")]
    rows = rows_of_page(mechanism)
    assert len(lines) == len(mechanism.rounds) == len(rows) - starts
    for round_, line, row in zip(mechanism.rounds, lines, rows[starts:], strict=True):
        sums, unit = round_.laws[-1], round_.radius if getattr(round_, "whole_rows", False) else 1.0
        assert f"noise {round_.count_noise.scale:.6g} on counts" in line
        assert f" {sums.scale * unit:.6g} " in line
        assert row[2].startswith(f"{number(round_.count_noise.deviation(1))} (")
        assert row[4].startswith(number(sums.deviation(3) * unit))
        assert ("clip" in line) == ("clip" in row[3]) == (mechanism.explore > 0)


def test_purposes_of_rounds_add_up_to_the_phases_of_the_plan(fit: pais.Fit) -> None:
    mechanism: KMeans = fit.plan.mechanism
    purposes = [row[1].split()[0] for row in rows_of_page(mechanism)]
    words = mechanism.in_words()
    assert words.startswith(f"k-means, {len(mechanism.rounds)} rounds")
    assert purposes.count("explore") == mechanism.explore
    assert (f"{mechanism.explore} on {mechanism.cells} cells" in words) == (mechanism.explore > 0)
    assert ("sectors" in words) == ("start" in purposes)
    assert (f"{purposes.count('polish')} on" in words) == ("polish" in purposes)


def test_a_certificate_names_the_noise_of_the_last_round(fit: pais.Fit) -> None:
    mechanism: KMeans = fit.plan.mechanism
    last = mechanism.rounds[-1]
    words = " ".join(how_lines(fit.certificate.to_dict()))
    most = "up to " if mechanism.choose else ""
    assert f"Then {most}{mechanism.n_clusters} clusters in {len(mechanism.rounds)} rounds." in words
    assert f"noise of scale {last.count_noise.scale:.6g} on counts" in words
    assert f" {last.laws[-1].scale:.6g} " in words
    assert ("second moment" in words) == (mechanism.moment is not None)


def test_a_mechanism_of_the_user_is_named_with_its_rounds(fit: pais.Fit) -> None:
    content = fit.certificate.to_dict()
    described = {"mechanism": "other", "class": "Mine", "rounds": [{}, {}]}
    assert how_lines({**content, "mechanism": described})[-1] == "  Then: other in 2 rounds, with noise."
