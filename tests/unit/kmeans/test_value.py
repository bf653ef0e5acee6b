"""What a k-means releases beside its centers: standard errors and cells."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

import pais
from pais.accounting.certificate import digest
from pais.kmeans.lloyd import nearest
from tests.support.kmeans_cases import ROWS, stated

CASES = {
    "gaussian": stated(),
    "sectors": stated("l2", epsilon=3.0),
    "laplace": stated("laplace", epsilon=3.0),
    "paper": stated("l2", epsilon=3.0, algorithm="paper"),
}


@pytest.fixture(scope="module", params=CASES)
def fits(request: pytest.FixtureRequest) -> list[pais.KMeansFit]:
    return [pais.fit(ROWS, CASES[request.param], random_state=seed) for seed in range(3)]


def cell_means(rows: np.ndarray, centers: np.ndarray) -> np.ndarray:
    label = nearest(rows, centers)
    size = np.maximum(np.bincount(label, minlength=len(centers)), 1)
    columns = [np.bincount(label, column, minlength=len(centers)) for column in rows.T]
    return np.asarray(np.stack(columns, axis=1) / size[:, None])


def test_standard_errors_are_those_of_the_centers(fits: list[pais.KMeansFit]) -> None:
    scores = []
    for fit in fits:
        value = fit.value
        assert value.standard_errors.shape == value.centers.shape
        assert np.all(value.standard_errors > 0.0)
        scores.append(np.abs(value.centers - cell_means(ROWS, value.centers)) / value.standard_errors)
    score = np.concatenate(scores)
    # A fit in a bad local optimum has an empty cluster, which no score describes.
    assert np.mean(score < 1.0) > 0.55
    assert np.mean(score < 2.0) > 0.85
    # They are not far too large either.
    assert np.mean(score < 0.1) < 0.4


@pytest.mark.filterwarnings("ignore:epsilon=1000 is a weak guarantee")
def test_standard_errors_include_the_error_of_a_small_sample() -> None:
    """Without noise to speak of, the sample alone moves the centers."""
    rows = np.random.default_rng(0).standard_normal((100_000, 3)) + 20.0 * np.eye(4, 3)[np.arange(100_000) % 4]
    norms = pais.NormDistribution.from_private_norms(np.linalg.norm(rows, axis=1), radius=30.0)
    settings = pais.KMeansSettings(n_clusters=4, epsilon=1000.0, radius=30.0, norms=norms, sample_size=1000)
    scores = []
    for seed in range(10):
        value = pais.fit(rows, settings, random_state=seed).value
        scores.append((value.centers - cell_means(rows, value.centers)) / value.standard_errors)
    assert 0.7 < np.std(scores) < 1.2


def test_standard_errors_grow_as_epsilon_falls() -> None:
    settings = [stated(epsilon=epsilon, sampling="none") for epsilon in (0.3, 3.0)]
    errors = [pais.fit(ROWS, one, random_state=0).value for one in settings]
    assert np.median(errors[0].standard_errors) > 3.0 * np.median(errors[1].standard_errors)


def test_cells_are_in_the_coordinates_of_the_rows_and_above_the_noise() -> None:
    far = np.full(6, 40.0)
    settings = replace(stated(), center=tuple(far.tolist()))
    here, there = (
        pais.fit(rows, one, random_state=0).value for rows, one in ((ROWS, stated()), (ROWS + far, settings))
    )
    assert here.cells is not None
    assert there.cells is not None
    assert len(here.cells) >= 5
    np.testing.assert_allclose(there.cells.centers, here.cells.centers + far, atol=1e-6)
    assert here.cells.noisy_sizes.sum() == pytest.approx(len(ROWS), rel=0.05)
    for name in ("noisy_sizes", "mean_distances", "standard_errors", "errors"):
        assert getattr(here.cells, name).shape == (len(here.cells),)
        assert np.all(getattr(here.cells, name) > 0.0)


def test_paper_algorithm_has_no_cells() -> None:
    assert pais.fit(ROWS, CASES["paper"], random_state=0).value.cells is None


def test_certificate_matches_the_value_a_pickle_and_a_file_of_it(fits: list[pais.KMeansFit]) -> None:
    fit = fits[0]
    assert fit.certificate.matches(fit)
    assert fit.certificate.matches(pickle.loads(pickle.dumps(fit.value)))
    read = pais.KMeansValue(centers=fit.value.centers, noisy_counts=fit.value.noisy_counts)
    assert fit.certificate.matches(read)
    assert digest(read) == digest(fit.value)
    assert not fit.certificate.matches(replace(read, centers=read.centers + 1e-9))


def test_nothing_is_known_about_centers_that_noise_drowned() -> None:
    settings = stated(epsilon=0.01)
    value = pais.fit(ROWS[:200], settings, random_state=0).value
    assert value.effective_centers == 1
    assert np.all(value.standard_errors == settings.radius)
