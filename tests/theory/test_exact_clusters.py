"""LATTICE: clusters, counts and sums of k-means, held against rational arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction
from unittest.mock import patch

import numpy as np
import pytest
from numpy.typing import NDArray

from pais import Ball, GaussianNoise
from pais.data.engines.base import WeightedRows
from pais.kmeans.rounds import LloydSample, ResidualRound, ResidualSample, Round, RowGrid, most_bits
from tests.support.lattice_cases import nearest, seeded

Floats = NDArray[np.float64]


# ---------------------------------------------------------------- clusters


def lloyd(rows: Floats, weights: Floats, ball: Ball, scale: float = 1.0) -> tuple[LloydSample, Round]:
    round_ = Round(count_noise=GaussianNoise(scale=scale), sum_noise=GaussianNoise(scale=scale))
    return LloydSample(WeightedRows(rows=rows, weights=weights), ball, (round_,)), round_


def clusters(sample: LloydSample, centers: Floats) -> list[int]:
    grid = sample._grid
    return grid.assign(grid.of_centers(centers), slice(None))[0].tolist()


@pytest.mark.parametrize(("d", "cells"), [(1, 8), (2, 4), (3, 2**18), (7, 2), (16, 2**17)])
def test_the_cluster_of_a_row_is_that_of_rational_arithmetic_with_ties_to_the_first(d: int, cells: int) -> None:
    rng = np.random.default_rng(d)
    rows = rng.integers(-cells, cells, (200, d), endpoint=True) / (cells * 2.0 * math.sqrt(d))
    # Rows and centers on a grid the sample's own grid contains, with a power of two for a step.
    unit = 2.0 ** -math.ceil(math.log2(2.0 * cells * math.sqrt(d)))
    rows = np.rint(rows / unit) * unit
    centers = np.rint(rng.permutation(rows)[:9] / unit) * unit
    centers[4] = centers[2]
    sample, _ = lloyd(rows, np.ones(200), Ball(radius=1.0))
    assert clusters(sample, centers) == nearest(rows, centers)


@pytest.mark.parametrize("k", [127, 128, 129, 300])
def test_many_centers_have_ties_to_the_first(k: int) -> None:
    """The index of a center has seven bits, so that more centers are compared in groups."""
    rng = np.random.default_rng(k)
    rows = rng.integers(-3, 4, (400, 2)) / 8.0
    centers = rng.permutation(rows)[:k]
    sample, _ = lloyd(rows, np.ones(400), Ball(radius=1.0))
    expected = nearest(rows, centers)
    assert clusters(sample, centers) == expected
    # Equal centers are in several groups.
    assert len(np.unique(centers, axis=0)) < 50


def test_the_cluster_of_a_row_is_exact_in_the_far_corner_of_a_cube() -> None:
    """The largest scores there are: |x.c| and |c|^2 / 2 at their bounds, and of one sign."""
    rows = np.ones((1, 4))
    sample, _ = lloyd(rows, np.ones(1), Ball(radius=1.0, order=math.inf))
    unit = 1.0 / sample._grid.per_unit
    for shared in range(0, 64):
        gaps = np.array([[2.0, 1.0, 0.0, shared], [1.0, 1.0, 1.0, shared]])
        centers = -1.0 + gaps * unit
        assert clusters(sample, centers) == nearest(rows, centers)


def test_the_cluster_of_a_row_depends_on_no_other_row() -> None:
    rng = np.random.default_rng(9)
    rows = rng.uniform(-1.0, 1.0, (5000, 6)) / math.sqrt(6.0)
    # Rows all but half way between two centers, where rounding decides.
    centers = rng.uniform(-1.0, 1.0, (8, 6)) / math.sqrt(6.0)
    rows[::2] = 0.5 * (centers[rng.integers(0, 8, 2500)] + centers[rng.integers(0, 8, 2500)])
    ball = Ball(radius=1.0)
    whole = np.array(clusters(lloyd(rows, np.ones(5000), ball)[0], centers))
    order = rng.permutation(5000)
    assert clusters(lloyd(rows[order], np.ones(5000), ball)[0], centers) == whole[order].tolist()
    for drop in (0, 1, 777, 4095, 4096, 4999):
        kept = np.delete(np.arange(5000), drop)
        assert clusters(lloyd(rows[kept], np.ones(4999), ball)[0], centers) == whole[kept].tolist()
    for index in range(0, 5000, 250):
        alone = clusters(lloyd(rows[index : index + 1], np.ones(1), ball)[0], centers)
        assert alone == [whole[index]]


@pytest.mark.parametrize("cores", [1, 2, 3, 7])
def test_a_round_releases_the_same_bits_for_any_number_of_threads(cores: int) -> None:
    rng = np.random.default_rng(16)
    rows, weights = rng.uniform(-0.5, 0.5, (40_000, 3)), 1.0 + rng.exponential(3.0, 40_000)
    centers = rng.uniform(-0.5, 0.5, (9, 3))
    residual = ResidualRound(
        count_noise=GaussianNoise(scale=1.0),
        distance_noise=GaussianNoise(scale=1.0),
        residual_noise=GaussianNoise(scale=1.0),
        radius=1.0,
        flat_share=0.2,
    )

    def released() -> tuple[bytes, ...]:
        plain, round_ = lloyd(rows, weights, Ball(radius=1.0))
        one = plain.summarise(centers, round_, seeded(18))
        sample = ResidualSample(
            WeightedRows(rows=rows, weights=weights), (residual,), n_rows=4e4, largest_weight=float(weights.max())
        )
        two = sample.summarise(centers, np.full(9, 0.1), np.zeros(9, dtype=bool), residual, seeded(19))
        arrays = (one.noisy_counts, one.noisy_sums, two.noisy_counts, two.noisy_distances, two.noisy_residuals)
        return tuple(array.tobytes() for array in arrays)

    with patch("pais.kmeans.rounds.cores", lambda: cores):
        parts = released()
    with patch("pais.kmeans.rounds._PART_ROWS", 50_000):
        assert parts == released()


@pytest.mark.parametrize("d", [1, 2, 9, 130])
def test_squared_distances_that_follow_from_scores_are_exact(d: int) -> None:
    rng = np.random.default_rng(d)
    rows = rng.uniform(-1.0, 1.0, (300, d))
    rows[:5] = np.sign(rows[:5])
    centers = -rows[:7].copy()
    grid = RowGrid(rows, 1.0, most_bits(d))
    steps = grid.of_centers(centers)
    label, square = grid.assign(steps, slice(None))
    for i in range(300):
        gaps = [int(x) - int(c) for x, c in zip(grid.points[i], steps[label[i]], strict=True)]
        assert int(square[i]) == square[i] == sum(gap * gap for gap in gaps)


@pytest.mark.parametrize("radius", [1.0, 3.3, 1e-7, 0.1])
def test_points_of_the_grid_are_no_longer_than_their_rows(radius: float) -> None:
    rng = np.random.default_rng(4)
    rows = rng.uniform(-1.0, 1.0, (500, 3)) * radius
    rows[:3] = radius * np.eye(3)
    for bits in (8, 17, most_bits(3)):
        grid = RowGrid(rows, radius, bits)
        assert np.max(np.abs(grid.points)) <= 2.0**bits
        for point, row in zip(grid.points.ravel().tolist(), rows.ravel().tolist(), strict=True):
            assert abs(Fraction(point)) <= abs(Fraction(row)) * Fraction(grid.per_unit) * (1 + Fraction(1, 2**52))
