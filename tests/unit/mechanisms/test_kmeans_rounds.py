"""Rounds of private k-means: a record's share of counts, sums and second moments."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import pais
from pais._base.randomness import bit_source
from pais.data.engines import WeightedRows
from pais.mechanisms import GaussianNoise, LpNoise, NoiseLaw, Round, laplace_noise
from pais.mechanisms.kmeans.lloyd import LloydSample, Summary

ULP = Fraction(1, 2**52)


# -- rounds: what a record can change -----------------------------------------------------------------------------

RADIUS_SMALL = 2.0


def sample_of(rows: np.ndarray, weights: np.ndarray, rounds: tuple[Round, ...], order: float = 2.0) -> LloydSample:
    return LloydSample(WeightedRows(rows=rows, weights=weights), pais.Ball(radius=RADIUS_SMALL, order=order), rounds)


def weighted_rows(n: int = 400, d: int = 5, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, d))
    rows *= (RADIUS_SMALL * rng.random(n) ** 0.3 / np.linalg.norm(rows, axis=1))[:, None] * (1.0 - 1e-12)
    return rows, 1.0 + 30.0 * rng.random(n)


def square(values: np.ndarray) -> Fraction:
    return sum((Fraction(value) ** 2 for value in values.tolist()), Fraction(0))


LAWS: list[tuple[NoiseLaw, NoiseLaw]] = [
    (GaussianNoise(scale=3.0), GaussianNoise(scale=0.7)),
    (laplace_noise(3.0), LpNoise(scale=0.7, p=2.0)),
    (laplace_noise(3.0), laplace_noise(0.7)),
]


@pytest.mark.parametrize(("count_noise", "sum_noise"), LAWS)
@pytest.mark.parametrize("alone", [False, True])
def test_a_record_changes_one_count_by_its_weight_and_one_sum_by_its_weighted_norm(
    count_noise: NoiseLaw, sum_noise: NoiseLaw, alone: bool
) -> None:
    rounds = (Round(count_noise=count_noise, sum_noise=sum_noise),)
    rows, weights = weighted_rows()
    rng = np.random.default_rng(1)
    for trial in range(30):
        centers = rng.normal(size=(7, 5)) * 0.3
        if alone:
            centers[0] = rows[trial]  # and every other row is at another center
        others = np.arange(400) != trial
        if alone:
            others &= ((rows[:, None] - centers[None]) ** 2).sum(axis=2).argmin(axis=1) != 0
        with_it = others.copy()
        with_it[trial] = True
        there, here = (
            sample_of(rows[kept], weights[kept], rounds, sum_noise.order).summarise(
                centers, rounds[0], bit_source(trial)
            )
            for kept in (with_it, others)
        )
        counts, sums = there.noisy_counts - here.noisy_counts, there.noisy_sums - here.noisy_sums
        weight = Fraction(float(weights[trial]))
        assert np.count_nonzero(counts) == 1
        changed = int(np.flatnonzero(counts)[0])
        if alone:
            assert changed == 0
        assert np.all(np.delete(sums, changed, axis=0) == 0.0)
        assert 0 < Fraction(float(counts[changed])) <= weight
        if sum_noise.order == 1.0:
            change = sum((abs(Fraction(value)) for value in sums[changed].tolist()), Fraction(0))
            bound = weight * sum((abs(Fraction(value)) for value in rows[trial].tolist()), Fraction(0))
            assert change <= bound * (1 + ULP)
        else:
            assert square(sums[changed]) <= weight**2 * square(rows[trial]) * (1 + ULP) ** 2
        # And it does arrive: truncation to the lattice is far below the noise.
        np.testing.assert_allclose(sums[changed], weights[trial] * rows[trial], atol=1e-5)


def test_the_cluster_of_a_row_depends_on_no_other_row() -> None:
    rounds = (Round(count_noise=GaussianNoise(scale=1e-6), sum_noise=GaussianNoise(scale=1e-6)),)
    rows, weights = weighted_rows(n=5000)
    centers = np.random.default_rng(2).normal(size=(9, 5)) * 0.5
    together = sample_of(rows, weights, rounds)._assign(centers)
    alone = [int(sample_of(rows[[i]], weights[[i]], rounds)._assign(centers)[0]) for i in range(0, 5000, 50)]
    np.testing.assert_array_equal(together[::50], alone)


def test_rounds_with_negligible_noise_are_weighted_counts_and_sums() -> None:
    rounds = (Round(count_noise=GaussianNoise(scale=1e-9), sum_noise=GaussianNoise(scale=1e-9)),)
    rows, weights = weighted_rows()
    centers = np.random.default_rng(2).normal(size=(9, 5)) * 0.5
    summary: Summary = sample_of(rows, weights, rounds).summarise(centers, rounds[0], bit_source(0))
    label = ((rows[:, None] - centers[None]) ** 2).sum(axis=2).argmin(axis=1)
    for j in range(9):
        mine = label == j
        assert summary.noisy_counts[j] == pytest.approx(weights[mine].sum(), abs=1e-7)
        np.testing.assert_allclose(summary.noisy_sums[j], weights[mine] @ rows[mine], atol=1e-7)


def second_moment(rows: np.ndarray, weights: np.ndarray, scale: float, largest_weight: float) -> np.ndarray:
    rounds = (Round(count_noise=GaussianNoise(scale=1.0), sum_noise=GaussianNoise(scale=1.0)),)
    made = sample_of(rows, weights, rounds)
    return made.second_moment(GaussianNoise(scale=scale), RADIUS_SMALL, largest_weight, bit_source(5))


def test_a_second_moment_with_negligible_noise_is_that_of_the_weighted_rows() -> None:
    rows, weights = weighted_rows()
    found = second_moment(rows, weights, 1e-9, 31.0)
    expected = (rows * weights[:, None]).T @ rows
    np.testing.assert_allclose(found, expected, atol=1e-4 * np.trace(expected))
    np.testing.assert_array_equal(found, found.T)


@pytest.mark.parametrize("largest_weight", [1.0, 3.7, 31.0, 1e6])
def test_a_record_adds_no_more_than_its_weighted_square_norm_to_the_second_moment(largest_weight: float) -> None:
    rows, weights = weighted_rows()
    weights = np.minimum(weights, largest_weight)
    rng = np.random.default_rng(3)
    rows[:50] = RADIUS_SMALL * np.eye(5)[rng.integers(0, 5, 50)]
    weights[:25] = largest_weight
    base = second_moment(rows[100:], weights[100:], 5.0, largest_weight)
    step = (RADIUS_SMALL * np.sqrt(largest_weight) / 2.0**18) ** 2
    for trial in range(60):
        kept = np.append(np.arange(100, 400), trial)
        # The same bits make the same noise: what is left is the record's own matrix, in whole steps.
        steps = np.rint((second_moment(rows[kept], weights[kept], 5.0, largest_weight) - base) / step)
        frobenius = sum((Fraction(value) ** 2 for value in steps.ravel().tolist()), Fraction(0)) * Fraction(step) ** 2
        bound = Fraction(float(weights[trial])) * square(rows[trial])
        assert frobenius <= bound**2
        # A matrix y y' of whole numbers: its trace is |y|^2, and so is its Frobenius norm.
        whole = [int(value) for value in steps.ravel().tolist()]
        assert sum(whole[::6]) ** 2 == sum(value**2 for value in whole)


def test_the_noise_of_the_second_moment_is_round_in_the_frobenius_norm() -> None:
    d = 40
    rounds = (Round(count_noise=GaussianNoise(scale=1.0), sum_noise=GaussianNoise(scale=1.0)),)
    made = sample_of(np.zeros((1, d)), np.ones(1), rounds)
    drawn = np.array(
        [made.second_moment(GaussianNoise(scale=5.0), RADIUS_SMALL, 1.0, bit_source(seed)) for seed in range(50)]
    )
    upper = drawn[(slice(None), *np.triu_indices(d, 1))]
    assert drawn[:, np.arange(d), np.arange(d)].std() == pytest.approx(5.0, rel=0.06)
    assert upper.std() == pytest.approx(5.0 / np.sqrt(2.0), rel=0.02)
