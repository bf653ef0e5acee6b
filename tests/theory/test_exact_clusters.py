"""LATTICE: clusters, counts and sums of k-means, held against rational arithmetic."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from pais import (
    Ball,
    GaussianNoise,
)
from pais.data.engines import WeightedRows
from pais.mechanisms.kmeans.lloyd import LloydSample, Round
from tests.theory.noise_cases import content, nearest, seeded

Floats = NDArray[np.float64]


# ---------------------------------------------------------------- clusters


def lloyd(rows: Floats, weights: Floats, ball: Ball, scale: float = 1.0) -> tuple[LloydSample, Round]:
    round_ = Round(count_noise=GaussianNoise(scale=scale), sum_noise=GaussianNoise(scale=scale))
    return LloydSample(WeightedRows(rows=rows, weights=weights), ball, (round_,)), round_


@pytest.mark.parametrize(("d", "cells"), [(1, 8), (2, 4), (3, 2**18), (7, 2), (16, 2**18)])
def test_the_cluster_of_a_row_is_that_of_rational_arithmetic_with_ties_to_the_first(d: int, cells: int) -> None:
    rng = np.random.default_rng(d)
    rows = rng.integers(-cells, cells, (200, d), endpoint=True) / (cells * 2.0 * math.sqrt(d))
    # Rows and centers on a grid the sample's own grid contains, with a power of two for a step.
    unit = 2.0 ** -math.ceil(math.log2(2.0 * cells * math.sqrt(d)))
    rows = np.rint(rows / unit) * unit
    centers = np.rint(rng.permutation(rows)[:9] / unit) * unit
    centers[4] = centers[2]
    sample, _ = lloyd(rows, np.ones(200), Ball(radius=1.0))
    assert sample._assign(centers).tolist() == nearest(rows, centers)


def test_the_cluster_of_a_row_is_exact_in_the_far_corner_of_a_cube() -> None:
    """The largest scores there are: |x.c| and |c|^2 / 2 at their bounds, and of one sign."""
    rows = np.ones((1, 4))
    sample, _ = lloyd(rows, np.ones(1), Ball(radius=1.0, order=math.inf))
    unit = 1.0 / sample._grid
    for shared in range(0, 64):
        gaps = np.array([[2.0, 1.0, 0.0, shared], [1.0, 1.0, 1.0, shared]])
        centers = -1.0 + gaps * unit
        assert sample._assign(centers).tolist() == nearest(rows, centers)


def test_the_cluster_of_a_row_depends_on_no_other_row() -> None:
    rng = np.random.default_rng(9)
    rows = rng.uniform(-1.0, 1.0, (5000, 6)) / math.sqrt(6.0)
    # Rows all but half way between two centers, where rounding decides.
    centers = rng.uniform(-1.0, 1.0, (8, 6)) / math.sqrt(6.0)
    rows[::2] = 0.5 * (centers[rng.integers(0, 8, 2500)] + centers[rng.integers(0, 8, 2500)])
    ball = Ball(radius=1.0)
    whole = lloyd(rows, np.ones(5000), ball)[0]._assign(centers)
    order = rng.permutation(5000)
    assert np.array_equal(lloyd(rows[order], np.ones(5000), ball)[0]._assign(centers), whole[order])
    for drop in (0, 1, 777, 4095, 4096, 4999):
        kept = np.delete(np.arange(5000), drop)
        assert np.array_equal(lloyd(rows[kept], np.ones(4999), ball)[0]._assign(centers), whole[kept])
    for index in range(0, 5000, 250):
        alone = lloyd(rows[index : index + 1], np.ones(1), ball)[0]._assign(centers)
        assert alone.tolist() == [whole[index]]


def test_counts_and_sums_of_clusters_are_those_of_brute_force_when_the_noise_is_negligible() -> None:
    rng = np.random.default_rng(10)
    n, d, k = 3000, 4, 5
    rows = rng.uniform(-0.5, 0.5, (n, d))
    weights = 1.0 + rng.exponential(3.0, n)
    centers = rng.uniform(-0.5, 0.5, (k, d))
    sample, round_ = lloyd(rows, weights, Ball(radius=1.0), scale=1e-6)
    summary = sample.summarise(centers, round_, seeded(11))
    label = np.argmin(np.sum(np.square(rows[:, None, :] - centers), axis=2), axis=1)
    assert np.unique(label).size == k
    for cluster in range(k):
        members = label == cluster
        assert summary.noisy_counts[cluster] == pytest.approx(weights[members].sum(), abs=1e-5)
        total = (rows[members] * weights[members, None]).sum(axis=0)
        assert summary.noisy_sums[cluster] == pytest.approx(total, abs=1e-5)


def test_a_round_releases_the_same_bits_for_any_order_of_the_rows() -> None:
    rows, weights = content(2000, 3, seed=12).rows, content(2000, 3, seed=12).weights
    ball = Ball(radius=1e5)
    centers = np.random.default_rng(13).standard_normal((4, 3))
    order = np.random.default_rng(14).permutation(2000)
    first, round_ = lloyd(rows, weights, ball)
    second, _ = lloyd(rows[order], weights[order], ball)
    here, there = first.summarise(centers, round_, seeded(15)), second.summarise(centers, round_, seeded(15))
    assert here.noisy_counts.tobytes() == there.noisy_counts.tobytes()
    assert here.noisy_sums.tobytes() == there.noisy_sums.tobytes()
