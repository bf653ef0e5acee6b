"""Which clusters and features of a fit stand above the noise."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest

import pais
from pais.kmeans.result import readability_concern, readability_of
from tests.support.kmeans_cases import ROWS, stated

CENTERS = np.array([[0.0, 0.0, 5.0], [10.0, 0.5, 5.1], [20.0, -0.5, 4.9]])


def value(centers: np.ndarray = CENTERS, error: float = 1.0, count: float = 1000.0) -> pais.KMeansValue:
    errors = np.full(centers.shape, error)
    return pais.KMeansValue(centers=centers, noisy_counts=np.full(len(centers), count), standard_errors=errors)


def of(value: pais.KMeansValue) -> pais.Readability:
    readable = readability_of(value, count_noise=10.0, radius=100.0)
    assert readable is not None
    return readable


def test_a_feature_is_drowned_if_no_two_centers_differ_by_more_than_the_noise() -> None:
    assert of(value()).features == (True, False, False)
    assert of(value()).drowned == (1, 2)
    assert of(value(error=0.1)).features == (True, True, False)
    assert of(value(error=100.0)).features == (False, False, False)


def test_noise_alone_is_rarely_readable_however_many_centers_there_are() -> None:
    rng = np.random.default_rng(0)
    for k in (2, 5, 25):
        readable = [of(value(rng.normal(size=(k, 4)))).features for _ in range(100)]
        assert np.mean(readable) < 0.08


def test_a_center_is_readable_if_it_differs_from_all_others_and_its_count_is_above_the_noise() -> None:
    assert of(value()).centers == (True, True, True)
    twins = value(CENTERS[[0, 0, 2]])
    assert of(twins).centers == (False, False, True)
    assert of(replace(twins, centers=CENTERS, noisy_counts=np.array([15.0, 1000.0, 1000.0]))).centers[0] is False


def test_cells_differ_from_the_overall_mean_by_more_than_two_standard_errors() -> None:
    np.testing.assert_array_equal(of(value()).cells, [[True, False, False], [False] * 3, [True, False, False]])


def test_verdict_is_one_sentence() -> None:
    assert of(value()).verdict == "all 3 segments and 1 of 3 features are readable above the noise"
    assert of(value(error=100.0)).verdict == "none of 3 segments and none of 3 features are readable above the noise"
    assert of(value(CENTERS[:1, :1])).verdict == "the only segment and the only feature are readable above the noise"


def test_a_value_from_a_file_has_no_standard_errors_and_no_readability() -> None:
    assert readability_of(replace(value(), standard_errors=None), count_noise=1.0, radius=1.0) is None


def test_concern_names_drowned_features_and_what_to_state() -> None:
    readable = of(value())
    text = readability_concern(readable, ("income", "age", "visits")) or ""
    assert text.startswith("noise drowns 2 of 3 features: age, visits. ")
    assert "columns={'age': (low, high), ...}" in text
    assert readability_concern(readable, None) is None
    assert readability_concern(of(value(CENTERS[:, :1])), ("income",)) is None
    assert "no two centers differ" in (readability_concern(of(value(error=50.0)), None) or "")
    many = of(value(np.hstack([CENTERS[:, :1], np.zeros((3, 20))])))
    assert "f8 and 12 more" in (readability_concern(many, tuple(f"f{i}" for i in range(21))) or "")


def table(n: int = 20_000) -> tuple[np.ndarray, tuple[str, ...]]:
    rng = np.random.default_rng(0)
    group = rng.integers(0, 3, n)
    income = np.array([20_000.0, 50_000.0, 90_000.0])[group] + 3_000.0 * rng.normal(size=n)
    age = np.array([25.0, 45.0, 65.0])[group] + 3.0 * rng.normal(size=n)
    return np.column_stack([income, age, group == 1]), ("income", "age", "premium")


def test_fit_of_a_table_with_columns_of_very_different_size_warns_and_names_them() -> None:
    pandas = pytest.importorskip("pandas")
    rows, names = table()
    model = pais.DPKMeans(n_clusters=3, epsilon=1.0, random_state=0)
    with pytest.warns(pais.QualityWarning, match="noise drowns 2 of 3 features: age, premium") as issued:
        model.fit(pandas.DataFrame(rows, columns=names))
    assert issued[0].filename == __file__
    assert model.fit_.readability.features == (True, False, False)
    with warnings.catch_warnings():
        warnings.simplefilter("error", pais.QualityWarning)
        model.fit(pandas.DataFrame(rows / [100_000.0, 100.0, 1.0], columns=names))
        assert all(model.fit_.readability.features)
        # An array has no names to state anything about.
        model.fit(rows)


def test_a_good_fit_is_readable_and_a_hopeless_one_says_so() -> None:
    fit = pais.fit(ROWS, stated(), random_state=0)
    assert fit.readability is not None
    assert fit.readability.verdict == "all 5 segments and all 6 features are readable above the noise"
    assert fit.concern is None
    one = pais.fit(ROWS[:200], stated(epsilon=0.01, n_clusters=1), random_state=0)
    assert one.readability is not None
    assert not any(one.readability.features)
    assert "the center is a guess" in (one.concern or "")


def test_fits_of_other_mechanisms_have_no_verdict() -> None:
    mechanism = pais.WeightedSum(noise=pais.laplace_noise(4.0))
    ball, rule = pais.Ball(radius=1.0, order=1), pais.UniformRule(rate=0.5)
    plan = pais.Plan(ball=ball, rule=rule, mechanism=mechanism, epsilon=1.0)
    fit = pais.KMeansFit.of(plan, pais.run(plan, np.ones((10, 2)), random_state=0))
    assert not isinstance(fit, pais.KMeansFit)
    assert fit.verdict is None
    assert fit.concern is None
