"""What bounds cut off, and the best bounds, against values that are known."""

from __future__ import annotations

import numpy as np
import pytest

import pais
from pais._base.lattice import BINS_PER_OCTAVE, edges
from pais.planning.facts import NoisyCounts
from pais.planning.tails import Spread
from pais.statistics.recipes import Means, Sums, Variances


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
    for seed in range(20):
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
