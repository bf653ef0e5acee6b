"""Denoising and merging of centers: functions of released numbers alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import pais
from pais._base.randomness import bit_source
from pais.data.engines.base import WeightedRows
from pais.kmeans.clustering import Clustering, cells_from_spread, denoise, on_all_sides, restore, spread_of_moment
from pais.kmeans.planning import KMeansSettings
from pais.kmeans.result import into_ball, merge, nearest
from pais.kmeans.rounds import ResidualSample, ResidualSummary


@pytest.mark.parametrize("shape", [(200, 40), (40, 200), (60, 60)])
def test_denoising_removes_pure_noise(shape: tuple[int, int]) -> None:
    noise = np.random.default_rng(0).standard_normal(shape)
    last = shape[0] // 2
    shrunk, left = denoise(noise, np.ones(shape[0]), last)
    assert shrunk.shape == (last, shape[1])
    assert np.square(shrunk).sum() < 0.02 * np.square(noise[-last:]).sum()
    assert np.all(left >= 0.0)
    assert left.mean() < 0.02 * shape[1]


@pytest.mark.parametrize("shape", [(200, 40), (40, 200), (60, 60)])
def test_denoising_keeps_a_strong_signal_and_removes_the_noise_across_it(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    signal = 50.0 * rng.standard_normal((shape[0], 3)) @ rng.standard_normal((3, shape[1]))
    last = shape[0] // 2
    shrunk, left = denoise(signal + rng.standard_normal(shape), np.ones(shape[0]), last)
    error = np.square(shrunk - signal[-last:]).sum() / last
    assert error < 0.2 * shape[1]
    # The error it states: noise along the three directions that are kept.
    np.testing.assert_allclose(left, 3.0, rtol=0.05)


@pytest.mark.parametrize("n", [1, 2, 5, 6, 40])
@pytest.mark.parametrize("k", [1, 2, 5])
def test_merging_gives_k_finite_centers_among_the_cells(n: int, k: int) -> None:
    rng = np.random.default_rng(n)
    points = rng.normal(size=(n, 3))
    merged = merge(points, rng.random(n) + 1e-9, k, rng)[0]
    assert merged.shape == (k, 3)
    assert np.all(np.isfinite(merged))
    assert np.linalg.norm(merged, axis=1).max() < np.linalg.norm(points, axis=1).max() + 0.1


def test_merging_finds_groups_of_cells_and_weighs_them() -> None:
    rng = np.random.default_rng(0)
    middles = 10.0 * rng.normal(size=(4, 3))
    points = np.repeat(middles, 6, axis=0) + 0.01 * rng.normal(size=(24, 3))
    mass = rng.random(24) + 0.1
    merged = merge(points, mass, 4, rng)[0]
    expected = [np.average(points[6 * j : 6 * j + 6], axis=0, weights=mass[6 * j : 6 * j + 6]) for j in range(4)]
    np.testing.assert_allclose(merged[nearest(np.array(expected), merged)], expected, rtol=1e-9)


@pytest.mark.parametrize("value", [0.0, 1.7])
def test_merging_equal_cells(value: float) -> None:
    merged = merge(np.full((9, 3), value), np.ones(9), 4, np.random.default_rng(0))[0]
    np.testing.assert_allclose(merged, value)


@pytest.mark.parametrize("moment", [np.zeros((4, 4)), -np.eye(4), np.diag([1e6, 1.0, 0.0, 0.0])])
def test_a_start_is_made_of_any_second_moment_and_stays_in_the_ball(moment: np.ndarray) -> None:
    spread = spread_of_moment(moment, 1.0, 1000.0, 2.0)
    start, distance = cells_from_spread(spread, 12, 3.0, np.random.default_rng(0))
    assert start.shape == (12, 4)
    assert distance >= 0.0
    assert np.all(np.linalg.norm(start, axis=1) <= 3.0 * (1 + 1e-12))


def test_the_spread_of_a_second_moment_is_its_covariance_where_noise_is_negligible() -> None:
    rng = np.random.default_rng(0)
    covariance = np.cov(rng.normal(size=(4, 100)))
    spread = spread_of_moment(1000.0 * covariance, 1e-9, 1000.0, 1.0)
    np.testing.assert_allclose(spread.T @ spread, covariance, atol=1e-9)


def test_centers_beyond_the_radius_are_brought_back_to_it_and_others_left() -> None:
    centers = np.array([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]])
    np.testing.assert_allclose(into_ball(centers, 1.0), [[0.6, 0.8], [0.3, 0.4], [0.0, 0.0]])


@pytest.mark.parametrize(("mechanism", "delta"), [("gaussian", 1e-30), ("laplace", 0.0), ("l2", 0.0)])
def test_noisy_counts_that_are_all_zero_give_centers_in_the_ball(mechanism: str, delta: float) -> None:
    # So many rows are stated that the steps of the counts are coarser than all rows that there are.
    norms = pais.NormDistribution.from_quantiles(lambda level: 6.0 * level, n_rows=1e20, radius=6.0)
    settings = KMeansSettings(
        n_clusters=2, epsilon=1.0, delta=delta, radius=6.0, norms=norms, mechanism=mechanism, sampling="none"
    )
    rows = np.random.default_rng(0).normal(size=(60, 2))
    value = pais.fit(rows, settings).value
    assert not np.any(value.noisy_counts)
    assert np.all(np.linalg.norm(value.centers, axis=1) <= 6.0)


# -- clips: how far rows may be from the center of their cell ------------------------------------------------------


def clustering_of(cells: int, radius: float = 100.0) -> Clustering:
    """A clustering in two columns whose cells are at the origin and have not been measured."""
    norms = pais.NormDistribution.from_histogram([0.0, 0.5 * radius, radius], [5_000.0, 5_000.0])
    plan = pais.plan_kmeans(n_clusters=cells, n_features=2, epsilon=1.0, ball=pais.Ball(radius=radius), norms=norms)
    mechanism = plan.mechanism
    sample = ResidualSample(
        WeightedRows(rows=np.zeros((1, 2)), weights=np.ones(1)),
        mechanism.residual_rounds,
        n_rows=10_000.0,
        largest_weight=1.0,
    )
    made = Clustering(mechanism, sample, np.random.default_rng(0), bit_source(0), 10_000.0)
    made._start(np.eye(2), np.zeros((cells, 2)), 1.0, 0.0)
    return made


def test_rows_may_be_beyond_the_clip_if_their_mean_moved_by_all_of_it() -> None:
    made = clustering_of(4)
    made.cells.errors[3] = 100.0
    means, clip = np.array([[10.0, 0.0], [3.0, 0.0], [10.0, 0.0], [10.0, 0.0]]), np.full(4, 10.0)
    beyond = made._beyond(means, np.array([0.0, 0.0, 99.0, 0.0]), clip)
    # The second mean is well within its clip. Noise explains the third move, and the error of the old center the last.
    np.testing.assert_allclose(beyond, [100.0, 0.0, 0.0, 0.0])


def test_a_clip_covers_what_may_be_beyond_it() -> None:
    made = clustering_of(2)
    made.cells.beyond[1] = 50.0**2
    summary = made._summarise(made.plan.residual_rounds[1])
    assert summary.clip[0] < 20.0
    assert summary.clip[1] > 50.0


def test_steps_are_long_where_noise_is_negligible_unless_a_cell_turns_back() -> None:
    made = clustering_of(3)
    assert made._is_thorough
    longest = made._relaxation(np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]]))
    np.testing.assert_allclose(made._relaxation(np.array([[2.0, 0.0], [0.0, 2.0], [-2.0, 0.0]])), [longest, longest, 1])
    few = replace(made.plan, rounds=made.plan.rounds[1:])
    noisy = replace(made, plan=few)
    noisy.step = np.ones((3, 2))
    assert not noisy._is_thorough
    assert 1.0 < noisy._relaxation(-np.ones((3, 2))) < longest


def test_the_distance_of_a_wide_cell_is_not_shrunk_to_that_of_the_others() -> None:
    round_ = clustering_of(2).plan.residual_rounds[-1]
    sizes, clip = np.array([2000.0, 2000.0, 2000.0, 500.0]), np.array([2.0, 2.0, 2.0, 100.0])
    summary = ResidualSummary(
        noisy_counts=sizes,
        noisy_distances=sizes * np.array([1.0, 1.0, 1.0, 80.0]),
        noisy_residuals=np.zeros((4, 2)),
        clip=clip,
        whole=np.zeros(4, dtype=bool),
    )
    distances = Clustering._distances(summary, round_, sizes, np.ones(4, dtype=bool))
    assert np.all(distances[:3] < 5.0)
    assert distances[3] > 60.0


def test_a_row_where_no_other_row_lies_gets_its_signal_back() -> None:
    rng = np.random.default_rng(0)
    noisy = rng.standard_normal((16, 5))
    noisy[3] += np.array([0.0, 0.0, 0.0, 0.0, 12.0])
    strength = np.full(16, 10.0)
    strength[3] = 0.5
    restored, left = restore(noisy, np.zeros((16, 5)), np.zeros(16), strength)
    assert restored[3, 4] > 0.9 * noisy[3, 4]
    # The noise that remains is nearly that of a row nobody shrank.
    assert 4.5 < left[3] <= 5.0
    # Of pure noise, no row is given back as if it were signal.
    restored, _ = restore(noisy[4:], np.zeros((12, 5)), np.zeros(12), strength[4:])
    assert np.square(restored).sum() < 0.5 * np.square(noisy[4:]).sum()


@pytest.mark.parametrize("d", [1, 2, 5, 40])
def test_starts_on_all_sides_are_a_simplex(d: int) -> None:
    made = on_all_sides(100, d, np.random.default_rng(0))
    products = made @ made.T
    np.testing.assert_allclose(products, np.eye(d + 1) * (1.0 + 1.0 / d) - 1.0 / d, atol=1e-9)
    assert on_all_sides(1, d, np.random.default_rng(0)).shape == (1, d)


def test_a_small_cell_with_one_low_count_is_kept_and_an_empty_one_is_not() -> None:
    made = clustering_of(4)
    # Some rows are far beyond the others.
    made.plan = replace(made.plan, mean_square_norm=0.01 * made.plan.radius**2)
    round_ = made.plan.residual_rounds[-1]
    noise = round_.count_noise.deviation(1)
    made.cells.measured[:] = np.array([True, True, True, False])
    made.cells.sizes[:] = np.array([4.0, 4.0, 2.0, 4.0]) * noise
    summary = ResidualSummary(
        noisy_counts=np.array([4.0, 0.5, 0.5, 0.5]) * noise,
        noisy_distances=np.ones(4),
        noisy_residuals=np.zeros((4, 2)),
        clip=np.full(4, 2.0),
        whole=np.zeros(4, dtype=bool),
    )
    measured = made._measured(summary, round_)
    np.testing.assert_array_equal(measured.trusted, [True, True, False, False])
    np.testing.assert_allclose(measured.sizes[:2], np.array([4.0, 2.25]) * noise)


def test_distances_within_their_noise_do_not_make_the_clips_vanish() -> None:
    round_ = clustering_of(2).plan.residual_rounds[-1]
    sizes, clip = np.full(4, 3.0 * round_.distance_noise.deviation(1)), np.full(4, 8.0)
    summary = ResidualSummary(
        noisy_counts=sizes,
        noisy_distances=np.full(4, -1e-3),
        noisy_residuals=np.zeros((4, 2)),
        clip=clip,
        whole=np.zeros(4, dtype=bool),
    )
    distances = Clustering._distances(summary, round_, sizes, np.ones(4, dtype=bool))
    # The mean of four cells has half the noise of one, which is a third of the clip.
    assert np.all(distances > 0.5 * 8.0 / 6.0)
