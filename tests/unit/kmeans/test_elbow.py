"""Centers and estimated costs for every number of clusters, from the cells of one release."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import pais
from pais.errors import ArgumentError
from tests.support.kmeans_cases import ROWS, mixture, stated


@pytest.fixture(scope="module")
def fit() -> pais.KMeansFit:
    return pais.fit(ROWS, stated(n_clusters=8), random_state=0)


def blobs(k: int, separation: float, d: int = 4, n: int = 30_000, seed: int = 0) -> np.ndarray:
    """Gaussian clusters whose nearest centers are `separation` standard deviations apart."""
    rng = np.random.default_rng(seed)
    tries = rng.normal(size=(100, k, d))
    gaps = np.linalg.norm(tries[:, :, None] - tries[:, None], axis=3) + 1e9 * np.eye(k)
    nearest = gaps.min(axis=(1, 2))
    best = int(np.argmax(nearest / np.linalg.norm(tries, axis=2).mean(axis=1)))
    centers = tries[best] * (separation / nearest[best])
    return centers[rng.integers(0, k, n)] + rng.normal(size=(n, d))


@pytest.mark.parametrize(("mechanism", "most"), [("gaussian", 0.25), ("l2", 0.4), ("laplace", 0.4)])
def test_estimated_costs_are_near_the_true_costs(mechanism: str, most: float) -> None:
    fit = pais.fit(ROWS, stated(mechanism, epsilon=3.0, n_clusters=8), random_state=0)
    assert fit.elbow is not None
    costs = {point.n_clusters: point.cost for point in fit.elbow}
    assert list(costs) == list(range(1, len(fit.value.cells) + 1))
    for k in (1, 2, 3, 4, 6):
        true = pais.cost(ROWS, fit.with_clusters(k).value.centers)
        assert costs[k] == pytest.approx(true, rel=most)


def test_costs_fall_as_clusters_are_added(fit: pais.KMeansFit) -> None:
    assert fit.elbow is not None
    costs = np.array([point.cost for point in fit.elbow])
    assert np.all(np.diff(costs) < 0.02 * costs[0])
    assert costs[4] < 0.1 * costs[0]


def test_other_numbers_of_clusters_keep_the_certificate(fit: pais.KMeansFit) -> None:
    for k in (1, 3, len(fit.value.cells)):
        other = fit.with_clusters(k)
        assert other.value.centers.shape == (k, 6)
        assert other.value.noisy_counts.sum() == pytest.approx(len(ROWS), rel=0.05)
        assert np.all(other.value.standard_errors > 0.0)
        assert other.certificate is fit.certificate
        assert fit.certificate.matches(other)
        assert other.value.released is fit.value
        np.testing.assert_array_equal(other.with_clusters(8).value.centers, fit.value.centers)
    assert fit.with_clusters(8).value is fit.value
    # A changed center matches only as long as the released value is beside it.
    changed = dataclasses.replace(fit.with_clusters(3).value, released=None)
    assert not fit.certificate.matches(changed)


def test_merged_centers_are_the_same_each_time_and_move_with_the_data(fit: pais.KMeansFit) -> None:
    np.testing.assert_array_equal(fit.with_clusters(3).value.centers, fit.with_clusters(3).value.centers)
    far = np.full(6, 30.0)
    there = pais.fit(ROWS + far, stated(n_clusters=8, center=tuple(far.tolist())), random_state=0)
    # The last bits of the moved rows differ, which may change the order of the centers.
    moved, here = (np.array(sorted(each.with_clusters(5).value.centers.tolist())) for each in (there, fit))
    np.testing.assert_allclose(moved, here + far, atol=1e-4)


def test_impossible_numbers_of_clusters_are_refused(fit: pais.KMeansFit) -> None:
    for k in (0, -1, 2.5, "3"):
        with pytest.raises(ArgumentError, match="n_clusters"):
            fit.with_clusters(k)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="released cells"):
        fit.with_clusters(len(fit.value.cells) + 1)
    paper = pais.fit(ROWS, stated("l2", epsilon=3.0, algorithm="paper"), random_state=0)
    assert paper.elbow is None
    with pytest.raises(ArgumentError, match="no cells"):
        paper.with_clusters(2)


@pytest.mark.parametrize("k", [3, 5, 8])
def test_suggested_number_is_that_of_separated_clusters(k: int) -> None:
    settings = pais.KMeansSettings(n_clusters=12, epsilon=1.0)
    fit = pais.fit(blobs(k, separation=6.0), settings, random_state=0)
    assert fit.elbow is not None
    assert fit.elbow.suggested == k
    assert fit.elbow.stands_out


def test_rows_without_clusters_do_not_stand_out() -> None:
    rows = np.random.default_rng(0).normal(size=(30_000, 3))
    fit = pais.fit(rows, pais.KMeansSettings(n_clusters=12, epsilon=1.0), random_state=0)
    assert fit.elbow is not None
    assert not fit.elbow.stands_out
    assert 1 < fit.elbow.suggested <= 12


@pytest.mark.parametrize("mechanism", ["gaussian", "l2"])
def test_auto_chooses_the_number_within_the_price(mechanism: str) -> None:
    settings = stated(mechanism, epsilon=3.0, n_clusters="auto", max_clusters=10)
    fit = pais.fit(ROWS, settings, random_state=0)
    assert fit.value.centers.shape == (5, 6)
    assert fit.certificate.epsilon <= 3.0
    assert fit.plan.mechanism.n_clusters == 10
    assert "up to 10 centers" in fit.plan.explain()
    assert fit.certificate.matches(fit)
    assert fit.quality is not None
    assert pais.Plan.from_dict(fit.plan.to_dict()) == fit.plan


def test_auto_of_overlapping_clusters_is_near_their_number() -> None:
    for k in (3, 5):
        rows = blobs(k, separation=3.5, seed=k)
        fit = pais.fit(rows, pais.KMeansSettings(n_clusters="auto", epsilon=1.0), random_state=0)
        assert abs(len(fit.value.centers) - k) <= 1


def test_auto_of_too_few_rows_says_that_nothing_is_seen() -> None:
    settings = stated(epsilon=0.01, n_clusters="auto")
    fit = pais.fit(ROWS[:200], settings, random_state=0)
    assert fit.concern is not None
    assert "noise hides the clusters" in fit.concern


def test_auto_is_refused_where_it_cannot_work() -> None:
    with pytest.raises(ArgumentError, match="n_clusters"):
        stated(n_clusters="many").require()
    with pytest.raises(ArgumentError, match="max_clusters"):
        stated(n_clusters="auto", max_clusters=0).require()
    with pytest.raises(ArgumentError, match="'paper'"):
        stated("l2", n_clusters="auto", algorithm="paper").require()


def test_auto_can_be_audited() -> None:
    norms = pais.NormDistribution.from_histogram([0.0, 1.0], [500.0])
    plan = pais.plan_kmeans(
        n_clusters="auto", max_clusters=4, n_features=2, epsilon=1.0, ball=pais.Ball(radius=1.0), norms=norms
    )
    report = pais.audit(plan)
    assert report.lower_bound <= plan.price.epsilon


def test_one_sample_gives_one_number_however_rows_are_ordered() -> None:
    rows = mixture(n=5_000)
    settings = stated(n_clusters="auto")
    first = pais.fit(rows, settings, random_state=0)
    again = pais.fit(rows, settings, random_state=0)
    np.testing.assert_array_equal(first.value.centers, again.value.centers)
