"""Rounds of private k-means: a record's share of counts, sums and second moments."""

from __future__ import annotations

from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

import pais
from pais._base.randomness import bit_source
from pais.data.engines.base import WeightedRows
from pais.kmeans.rounds import LloydSample, Round, SecondMoment, Summary
from pais.mechanisms.base import Extent
from pais.mechanisms.noise import GaussianNoise, LpNoise, NoiseLaw, laplace_noise

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


# -- second moment ------------------------------------------------------------------------------------------------


def second_moment(
    rows: np.ndarray, weights: np.ndarray, scale: float, largest_weight: float, radius: float = RADIUS_SMALL
) -> np.ndarray:
    moment = SecondMoment(noise=GaussianNoise(scale=scale), radius=radius, flat_share=0.3)
    return moment.measure(WeightedRows(rows=rows, weights=weights), largest_weight, bit_source(5))


def with_column(rows: np.ndarray, radius: float) -> np.ndarray:
    """Rows clipped to the radius, and the constant column."""
    norm = np.linalg.norm(rows, axis=1)
    return np.column_stack([rows * (radius / np.maximum(norm, radius))[:, None], np.full(len(rows), 0.5 * radius)])


@pytest.mark.parametrize("radius", [RADIUS_SMALL, 0.7])
def test_a_second_moment_with_negligible_noise_is_that_of_the_clipped_weighted_rows(radius: float) -> None:
    rows, weights = weighted_rows()
    found = second_moment(rows, weights, 1e-9, 31.0, radius)
    longer = with_column(rows, radius)
    expected = (longer * weights[:, None]).T @ longer
    np.testing.assert_allclose(found, expected, atol=1e-4 * np.trace(expected))
    np.testing.assert_array_equal(found, found.T)


@pytest.mark.parametrize("scale", [1e-3, 30.0, 4e4, 1e9])
def test_the_noise_of_the_moment_is_short_enough_for_doubles_and_rows_keep_their_places(scale: float) -> None:
    """Noise of 50 bits would have to be computed in higher precision, entry by entry: half a minute for 200 columns."""
    moment = SecondMoment(noise=GaussianNoise(scale=scale), radius=1.0, flat_share=0.3)
    step = moment.step(2.0)
    assert scale / step**2 <= 2.0**38 * (1.0 + 1e-9)
    # What truncation loses of a row of norm 1 is far below the noise of the mean of a million rows.
    assert step <= max(2.0**-17, np.sqrt(scale) * 2.0**-19)


def test_the_mean_and_the_scatter_follow_from_the_moment() -> None:
    rows, weights = weighted_rows()
    rows = rows * 0.1 + 0.3
    moment = SecondMoment(noise=GaussianNoise(scale=1e-9), radius=RADIUS_SMALL, flat_share=0.3)
    released = moment.measure(WeightedRows(rows=rows, weights=weights), 31.0, bit_source(5))
    mean, scatter = moment.mean_and_scatter(released, float(weights.sum()))
    expected = np.average(rows, axis=0, weights=weights)
    np.testing.assert_allclose(mean, expected, rtol=1e-3)
    np.testing.assert_allclose(scatter, np.cov(rows.T, aweights=weights, ddof=0) * weights.sum(), atol=2.0)


@pytest.mark.parametrize("largest_weight", [1.0, 3.7, 31.0, 1e6])
@pytest.mark.parametrize("radius", [RADIUS_SMALL, 0.7, 5.0])
def test_a_record_adds_no_more_to_the_second_moment_than_its_price(largest_weight: float, radius: float) -> None:
    rows, weights = weighted_rows()
    weights = np.minimum(weights, largest_weight)
    rng = np.random.default_rng(3)
    rows[:40] = RADIUS_SMALL * np.eye(5)[rng.integers(0, 5, 40)]
    rows[40:45], rows[45:50] = 0.0, rows[45:50] * 1e-7
    rows[50:55] *= (radius / np.linalg.norm(rows[50:55], axis=1))[:, None]
    weights[:25] = largest_weight
    base = second_moment(rows[100:], weights[100:], 5.0, largest_weight, radius)
    step = max(radius * np.sqrt(largest_weight) / 2.0**18, np.sqrt(5.0 / 2.0**38)) ** 2
    laws = {
        flat: SecondMoment(noise=GaussianNoise(scale=5.0), radius=radius, flat_share=flat) for flat in (0.0, 0.3, 1.0)
    }
    used = []
    for trial in range(60):
        kept = np.append(np.arange(100, 400), trial)
        # The same bits make the same noise: what is left is the record's own matrix, in whole steps.
        both = second_moment(rows[kept], weights[kept], 5.0, largest_weight, radius)
        whole = [int(value) for value in np.rint((both - base) / step).ravel().tolist()]
        # A matrix y y' of whole numbers: its trace is |y|^2, and so is its Frobenius norm.
        assert sum(whole[::7]) ** 2 == sum(value**2 for value in whole)
        with mp.workdps(40):
            norm = mp.sqrt(square(rows[trial]).numerator) / mp.sqrt(square(rows[trial]).denominator)
            contribution = sum(whole[::7]) * mp.mpf(step)
            weight = mp.mpf(float(weights[trial]))
            bound = weight * (min(norm, mp.mpf(radius)) ** 2 + mp.mpf(0.25) * mp.mpf(radius) ** 2)
            assert contribution <= bound
            for law in laws.values():
                price = mp.mpf(float(law.profile(float(weights[trial]), np.nextafter(float(norm), 0.0))))
                # Diagonal and off-diagonal noise make the squared shift that of the Frobenius norm.
                assert contribution / 5 <= price
                used.append(float(contribution / 5 / price))
    assert max(used) > 0.99


@pytest.mark.parametrize("flat", [0.0, 0.2, 1.0])
def test_the_price_of_the_moment_bounds_the_squared_contribution_at_every_norm(flat: float) -> None:
    radius = 0.7
    constant, factor = SecondMoment.price(radius, flat)
    norm = np.linspace(0.0, 4.0 * radius, 2000)
    contribution = np.minimum(norm, radius) ** 2 + 0.25 * radius**2
    assert np.all(contribution**2 <= (constant**2 + (factor * norm) ** 2) * (1.0 + 1e-14))
    # Nothing below would do: it is attained at the clip, and without a flat part at norm zero.
    assert np.min((constant**2 + (factor * norm) ** 2) / contribution**2) < 1.0 + 1e-2


def test_the_noise_of_the_second_moment_is_round_in_the_frobenius_norm() -> None:
    d = 40
    moment = SecondMoment(noise=GaussianNoise(scale=5.0), radius=RADIUS_SMALL, flat_share=0.3)
    content = WeightedRows(rows=np.zeros((1, d)), weights=np.ones(1))
    drawn = np.array([moment.measure(content, 1.0, bit_source(seed)) for seed in range(50)])
    drawn[:, d, d] -= (0.5 * RADIUS_SMALL) ** 2
    upper = drawn[(slice(None), *np.triu_indices(d + 1, 1))]
    assert drawn[:, np.arange(d + 1), np.arange(d + 1)].std() == pytest.approx(5.0, rel=0.06)
    assert upper.std() == pytest.approx(5.0 / np.sqrt(2.0), rel=0.02)


def test_weights_above_those_of_the_plan_are_refused() -> None:
    round_ = Round(count_noise=laplace_noise(3.0), sum_noise=LpNoise(scale=3.0, p=2.0))
    planned = pais.KMeans(
        n_clusters=2, n_features=2, rounds=(round_,), radius=2.0, cells=2, explore=0, largest_weight=3.0
    )
    planned.require_lattice(Extent(radius=2.0, weight=3.0, contribution=6.0))
    with pytest.raises(pais.MismatchError, match="weights up to 3"):
        planned.require_lattice(Extent(radius=2.0, weight=3.1, contribution=6.0))
