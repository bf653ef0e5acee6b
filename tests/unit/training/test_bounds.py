"""Bounds of records and their private counts."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

import pais
from pais import training
from pais.errors import ArgumentError
from pais.training.bounds import bounds_of


def test_norms_of_features_bound_the_gradients_of_the_logistic_loss() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 4)) * np.exp(rng.normal(size=(300, 1))), rng.integers(0, 2, 300)
    bound = bounds_of(training.FeatureNorm(), (X, y))
    Z = np.column_stack([X, np.ones(300)])
    for _ in range(20):
        gradients = (special.expit(Z @ rng.normal(scale=50.0, size=5)) - y)[:, None] * Z
        assert np.all(np.linalg.norm(gradients, axis=1) <= bound)
    assert bounds_of(training.FeatureNorm(slope=2.0, intercept=False), (X,)) == pytest.approx(
        2.0 * np.linalg.norm(X, axis=1)
    )


def test_norms_of_gradients_at_a_public_start() -> None:
    X, y = np.arange(12.0).reshape(6, 2), np.ones(6)
    bound = training.GradientNorm(gradients=lambda X, y: -y[:, None] * X, factor=1.5)
    assert bounds_of(bound, (X, y)) == pytest.approx(1.5 * np.linalg.norm(X, axis=1))


def test_classes_have_stated_bounds_and_others_the_largest() -> None:
    bound = training.StatedClasses(bounds={0: 0.2, 1: 1.0})
    assert bounds_of(bound, (np.ones((4, 2)), np.array([0, 1, 0, 7]))).tolist() == [0.2, 1.0, 0.2, 1.0]


@pytest.mark.parametrize(
    "bound",
    [
        lambda X: X[:, 0] / X[:, 0].sum(),
        lambda X: np.argsort(np.argsort(X[:, 0])) + 1.0,
        lambda X: np.abs(X[:, 0] - X[:, 0].mean()),
        lambda X: 1.0 / np.unique(X[:, 0], return_counts=True)[1][np.unique(X[:, 0], return_inverse=True)[1]],
    ],
    ids=["share", "rank", "mean", "frequency"],
)
def test_a_function_of_the_other_records_is_refused(bound: training.bounds.Bound) -> None:
    X = np.random.default_rng(0).integers(1, 9, (3000, 1)).astype(float)
    with pytest.raises(ArgumentError, match="depends on other records"):
        bounds_of(bound, (X,))


def test_a_bound_is_the_same_in_any_company() -> None:
    rng = np.random.default_rng(0)
    X, W = rng.normal(size=(2500, 7)), rng.normal(size=(7, 9))
    bound = training.GradientNorm(gradients=lambda X: X @ W)
    whole = bounds_of(bound, (X,))
    assert np.array_equal(whole[2040:2060], bounds_of(bound, (X,))[2040:2060])
    assert np.allclose(bounds_of(bound, (X[2040:2060],)), whole[2040:2060], rtol=1e-14)


@pytest.mark.parametrize("bounds", ["balanced", [1.0, 2.0], {0: -1.0}])
def test_frequencies_of_classes_are_refused(bounds: object) -> None:
    with pytest.raises(ArgumentError, match=r"not allowed|bound of a class"):
        training.StatedClasses(bounds=bounds)  # type: ignore[arg-type]


def test_counts_of_bounds_are_charged_and_noisy() -> None:
    X = np.repeat([[0.5], [1.5], [9.0]], [400, 300, 200], axis=0)
    ledger = pais.Ledger(epsilon=1.0)
    counts = training.count_bounds(
        lambda X: X[:, 0], (X,), edges=[1.0, 2.0, 4.0], epsilon=0.5, ledger=ledger, random_state=0
    )
    assert list(counts) == [1.0, 2.0, 4.0]
    assert np.all(np.abs(np.array([*counts.values()]) - [400, 300, 200]) < 40)
    assert ledger.spent.epsilon == 0.5
    draws = np.array(
        [
            [*training.count_bounds(lambda X: X[:, 0], (X,), edges=[1.0, 9.0], epsilon=0.5, random_state=k).values()]
            for k in range(400)
        ]
    )
    # The variance of two-sided geometric noise of scale 2.
    assert np.allclose(draws.var(axis=0), 0.5 / np.sinh(0.25) ** 2, rtol=0.4)


def test_a_record_changes_the_counts_by_one_in_one_place() -> None:
    edges = [1.0, 2.0, 4.0]

    def counts(X: np.ndarray) -> np.ndarray:
        found = training.count_bounds(lambda X: X[:, 0], (X,), edges=edges, epsilon=0.5, random_state=0)
        return np.array([*found.values()])

    X = np.repeat([[0.5], [1.5], [3.0]], 100, axis=0)
    for value in (0.0, 1.7, 50.0, np.nan):
        move = counts(np.vstack([X, [[value]]])) - counts(X)
        assert np.abs(move).sum() == 1.0
