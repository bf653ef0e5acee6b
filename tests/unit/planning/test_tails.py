"""What lies beyond bounds, and the best bounds, from noisy counts, against values that are known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import pais
from pais._base.lattice import BINS_PER_OCTAVE, edges
from pais.planning.facts import NoisyCounts
from pais.planning.tails import Spread, Tail, most_unseen
from pais.statistics.recipes import Means, Sums, Variances


def noisy_counts(values: np.ndarray, per_octave: int, scale: float, seed: int) -> NoisyCounts:
    points = edges()[:: BINS_PER_OCTAVE // per_octave]
    noise = np.random.default_rng(seed).normal(0.0, scale, points.size - 1)
    counts = np.histogram(values, points)[0] + noise
    return NoisyCounts(counts=counts, bins_per_octave=per_octave, noise=pais.GaussianNoise(scale=scale), risk=0.002)


@pytest.mark.parametrize(("per_octave", "scale"), [(4, 30.0), (2, 150.0), (1, 300.0)])  # fewer bins for more noise
@pytest.mark.parametrize("kind", ["lognormal", "exponential", "normal"])
def test_a_clipped_sum_and_the_expected_excess_are_within_their_error(kind: str, per_octave: int, scale: float) -> None:
    generator = np.random.default_rng(1)
    values = {
        "lognormal": generator.lognormal(2.0, 1.0, 40_000),
        "exponential": generator.exponential(30.0, 40_000),
        "normal": np.abs(generator.normal(0.0, 30.0, 40_000)),
    }[kind]
    bounds = np.quantile(values, [0.8, 0.95, 0.99, 0.999])
    truth = np.array([np.maximum(values - bound, 0.0).sum() for bound in bounds])
    gaps = []
    for seed in range(20):
        tail = Tail.of(noisy_counts(values, per_octave, scale, seed))
        assert tail is not None
        found = tail.beyond(bounds)
        # The sum clipped at a bound has noise in proportion to the bound, with the same deviation as a count.
        noise = scale * bounds * np.random.default_rng(100 + seed).normal(size=4)
        gaps.append((found.expected - truth + noise) / np.sqrt(found.variance + (scale * bounds) ** 2))
    assert np.mean(np.abs(gaps) < 1.96, axis=0).min() >= 0.9


def test_number_and_moment_follow_from_fine_counts_without_noise() -> None:
    values = np.random.default_rng(0).exponential(10.0, 100_000)
    tail = Tail.of(noisy_counts(values, 12, 1e-3, 0))
    assert tail is not None
    bounds = np.array([1.0, 10.0, 40.0])
    assert tail.number_beyond(bounds) == pytest.approx([(values > bound).sum() for bound in bounds], rel=0.01)
    assert tail.moment == pytest.approx(values.sum(), rel=0.01)
    squares = [np.maximum(values**2 - bound**2, 0.0).sum() for bound in bounds]
    assert tail.beyond(bounds, power=2).expected == pytest.approx(squares, rel=0.03)


def test_a_far_group_is_seen_and_not_taken_for_a_tail() -> None:
    values = np.concatenate([np.full(20_000, 3.0), np.full(2_000, 5_000.0)])
    tail = Tail.of(noisy_counts(values, 1, 10.0, 0))
    assert tail is not None
    assert tail.top == 8192.0
    assert tail.beyond(np.array([8192.0])).expected[0] < 0.05 * values.sum()


def test_nothing_is_seen_in_noise_alone() -> None:
    found = [Tail.of(noisy_counts(np.empty(0), 2, 10.0, seed)) for seed in range(200)]
    assert sum(tail is not None for tail in found) <= 3


def laplace_counts(values: np.ndarray, per_octave: int, scale: float, seed: int) -> NoisyCounts:
    points = edges()[:: BINS_PER_OCTAVE // per_octave]
    noise = np.random.default_rng(seed).laplace(0.0, scale, points.size - 1)
    counts = np.histogram(values, points)[0] + noise
    return NoisyCounts(counts=counts, bins_per_octave=per_octave, noise=pais.LpNoise(scale=scale), risk=0.0005)


MANY = np.random.default_rng(2).lognormal(3.0, 0.6, 40_000)


@pytest.mark.parametrize("far", [8.0, 500.0])
@pytest.mark.parametrize("counts_of", [laplace_counts, noisy_counts], ids=["laplace", "gaussian"])
def test_a_group_is_seen_or_possible_unless_it_is_so_small_that_a_result_calls_it_unseen(
    counts_of: Any, far: float
) -> None:
    scale, top = 10.0, float(MANY.max())
    size = round(most_unseen(counts_of(MANY, 4, scale, 0)))
    values = np.concatenate([MANY, np.full(size, far * top)])
    truth, found, held = size * (far - 1.0) * top, 0, 0
    for seed in range(100):
        tail = Tail.of(counts_of(values, 4, scale, seed))
        assert tail is not None
        seen, beyond = tail.top > far * top, tail.beyond(np.array([top]))
        found += seen or tail.possible.size > 0
        held += seen or abs(truth - beyond.expected[0]) < 1.96 * beyond.variance[0] ** 0.5
    assert found >= 93
    assert held >= 93


@pytest.mark.parametrize("counts_of", [laplace_counts, noisy_counts], ids=["laplace", "gaussian"])
def test_noise_seldom_makes_a_group_possible_and_hardly_ever_shows_one(counts_of: Any) -> None:
    tails = [Tail.of(counts_of(MANY, 4, 10.0, seed)) for seed in range(400)]
    possible = [tail is not None and tail.possible.size > 0 for tail in tails]
    # Two percent are expected.
    assert np.mean(possible) <= 0.04
    assert sum(tail is not None and tail.top > 4.0 * MANY.max() for tail in tails) <= 2


def test_a_possible_group_is_not_expected() -> None:
    """It widens intervals, and moves neither the value nor the best bound."""
    counts = noisy_counts(MANY, 4, 10.0, 0)
    place = int(np.searchsorted(edges()[::3], 8.0 * MANY.max()))
    more = counts.counts.copy()
    more[place] = 40.0
    before, after = Tail.of(counts), Tail.of(replace(counts, counts=more))
    assert before is not None
    assert after is not None
    assert after.possible.tolist() == [place]
    bounds = np.array([MANY.max()])
    first, second = before.beyond(bounds), after.beyond(bounds)
    assert second.expected == pytest.approx(first.expected, rel=0.05)
    assert second.predicted == pytest.approx(first.predicted, rel=0.05)
    assert 1.96 * second.possible[0] >= 40.0 * 7.0 * MANY.max()
    assert second.variance[0] >= second.possible[0] ** 2


def test_what_is_clearly_beyond_a_bound_is_below_the_truth_in_nearly_all_runs_and_above_half_of_it() -> None:
    sizes = np.abs(np.random.default_rng(4).standard_t(4, size=50_000))
    truth = float(np.maximum(sizes**2 - 4.0, 0.0).sum())
    tails = [Tail.of(noisy_counts(sizes, 4, 5.0, seed)) for seed in range(50)]
    found = [tail.clearly_beyond(2.0, 2) for tail in tails if tail is not None]
    assert len(found) == 50
    assert np.mean(np.array(found) < truth) >= 0.98
    assert np.median(found) > 0.5 * truth


# -- what bounds cut off, and the best bounds, against values that are known


def spread_of(
    values: np.ndarray, center: float, scale: float = 1e-3, *, signs: tuple[bool, bool] = (True, True), seed: int = 0
) -> Spread:
    """The spread of values about a center, with a little noise."""
    points, rng = edges()[:: BINS_PER_OCTAVE // 4], np.random.default_rng(seed)
    law = pais.GaussianNoise(scale=scale)
    below, above = (
        NoisyCounts(
            counts=np.histogram(sizes, points)[0] + rng.normal(0.0, scale, points.size - 1),
            bins_per_octave=4,
            noise=law,
            risk=0.002,
        )
        for sizes in (center - values[values < center], values[values >= center] - center)
    )
    return Spread(center=center, sides=(below, above), reach=(0.0, 0.0), signs=signs)


VALUES = np.random.default_rng(1).lognormal(3.0, 0.8, 50_000)


@pytest.mark.parametrize("bounds", [(5.0, 100.0), (0.0, 60.0), (10.0, 200.0)])
def test_what_is_cut_off_is_what_clipping_takes_away(bounds: tuple[float, float]) -> None:
    center = 27.0
    cut, clipped = spread_of(VALUES, center).cut(*bounds), np.clip(VALUES, *bounds)
    lost = VALUES.sum() - clipped.sum()
    assert cut.first == pytest.approx(lost, abs=0.02 * np.abs(VALUES - clipped).sum() + 3.0 * cut.first_variance**0.5)
    second = ((VALUES - center) ** 2).sum() - ((clipped - center) ** 2).sum()
    assert cut.second == pytest.approx(second, rel=0.05, abs=3.0 * cut.second_variance**0.5)
    assert cut.size >= abs(cut.first)


def test_zero_is_a_natural_bound_unless_values_beyond_it_are_seen() -> None:
    spread = spread_of(VALUES, 27.0, signs=(False, True))
    assert not spread.negative
    assert spread.wide_bounds()[0] >= 0.0
    assert spread.cut(0.0, 1e6).first_variance < 1.0
    both = np.concatenate([VALUES, -VALUES])
    # The first survey missed them, the second one did not.
    assert spread_of(both, 0.5, signs=(False, True)).negative


@pytest.mark.parametrize("n_values", [20_000, 200_000])
@pytest.mark.parametrize("kind", ["normal", "uniform", "exponential", "gamma", "lognormal", "student"])
def test_far_values_decide_the_variance_of_skewed_columns_alone(kind: str, n_values: int) -> None:
    """Noise as that of a survey at epsilon 1. Light tails are never called skewed; heavy ones of large tables are."""
    called = []
    for seed in range(10):
        rng = np.random.default_rng([seed, n_values])
        values = {
            "normal": rng.normal(10.0, 3.0, n_values),
            "uniform": rng.uniform(0.0, 1.0, n_values),
            "exponential": rng.exponential(30.0, n_values),
            "gamma": rng.gamma(2.0, 5.0, n_values),
            "lognormal": rng.lognormal(3.0, 1.5, n_values),
            "student": rng.standard_t(2.0, n_values),
        }[kind]
        spread = spread_of(values, float(values.mean()), 30.0, signs=(bool((values < 0.0).any()), True), seed=seed)
        called.append(spread.is_skewed(*spread.wide_bounds(), float(np.clip(values, *spread.wide_bounds()).var())))
    if kind in ("lognormal", "student"):
        assert np.mean(called) >= (0.2 if n_values < 100_000 else 0.9)
    else:
        assert not any(called)


@pytest.mark.parametrize(("recipe", "power"), [(Means(), 1), (Sums(), 1), (Variances(), 2)])
def test_more_noise_means_narrower_bounds_but_few_values_beyond(recipe: Means | Sums | Variances, power: int) -> None:
    spread = spread_of(VALUES, 27.0, scale=10.0, signs=(False, True))
    widths = []
    for noise in (1.0, 100.0, 10_000.0):
        low, high = spread.best_bounds(recipe.noise_of_bounds, noise, power, by_groups=False)
        assert np.mean((low > VALUES) | (high < VALUES)) < 0.012
        widths.append(high - low)
    assert widths[0] > widths[1] >= widths[2]


def test_the_noise_of_bounds_is_that_of_the_totals() -> None:
    """The errors of a mean and of a variance, by first-order changes of the totals of a split."""
    low, high, x = 2.0, 12.0, np.random.default_rng(0).uniform(3.0, 9.0, 1000)
    place = (x - low) / (high - low)
    fields = pais.statistics.table.Fields.of(pais.Schema.of({"x": (low, high)}), ["x"], (), pooled=False)
    for recipe, totals in (
        (Means(), np.array([(1.0 - place).sum(), place.sum()])),
        (Variances(), np.array([((1.0 - place) ** 2).sum(), (2.0 * place * (1.0 - place)).sum(), (place**2).sum()])),
    ):
        values = [recipe.estimate([totals + change], fields).item() for change in np.eye(totals.size)]
        slopes = np.array(values) - recipe.estimate([totals], fields).item()
        expected = recipe.noise_of_bounds(np.array(low), np.array(high), x.mean())
        # A variance also changes with the number of cells, which the formula leaves out.
        size = 1000.0**2 * (slopes**2).sum()
        assert size == pytest.approx(expected, rel=0.35 if isinstance(recipe, Variances) else 0.01)
