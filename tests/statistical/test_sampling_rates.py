"""Rows are kept at their own rates, independently, and weighted sums are unbiased; wrong rates are rejected."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from pais import UniformRule, sample
from pais._base.randomness import SeededBits, bernoulli
from pais.pipeline import Strategy
from tests.support.sampler_cases import (
    BALL,
    SEVERAL_BLOCKS,
    coarse_words,
    coreset,
    opened,
    positions,
    rows_in_ball,
    served,
    sigmas,
)


@pytest.mark.parametrize("q", [0.1, 0.25, 1.0 / 3.0, 0.7])
def test_sampling_frequencies_accept_the_probability_and_reject_two_percent_more(q: float) -> None:
    n = 2**22 if q < 0.2 else 2**20
    bits = SeededBits(np.random.default_rng(11))
    kept = int(np.sum(bernoulli(np.full(n, q), coarse_words(bits, n), served(bits))))
    assert abs(sigmas(kept, n, q)) < 5.0
    assert abs(sigmas(kept, n, 1.02 * q)) > 5.0


# -- independent rows ----------------------------------------------------------------------------------------


def test_sample_size_varies_as_in_poisson_sampling() -> None:
    rows, n_runs, rule = rows_in_ball(400), 3000, coreset(0.3)
    q = rule.probability(np.linalg.norm(rows, axis=1))
    bits = SeededBits(np.random.default_rng(13))
    sizes = np.array(
        [opened(sample(rows, ball=BALL, rule=rule, random_state=bits)).weights.size for _ in range(n_runs)]
    )

    def fits(observed: NDArray[np.int64]) -> bool:
        """Mean and variance within five sigmas of those of independent draws."""
        mean, variance = float(q.sum()), float(np.sum(q * (1.0 - q)))
        mean_ok = abs(observed.mean() - mean) < 5.0 * math.sqrt(variance / n_runs)
        return bool(mean_ok and abs(observed.var() / variance - 1.0) < 5.0 * math.sqrt(2.0 / n_runs))

    assert fits(sizes)
    fixed = np.full(n_runs, round(float(q.sum())))
    assert not fits(fixed)
    # Rows that come and go in pairs have the right mean and twice the variance.
    rng = np.random.default_rng(14)
    assert not fits(2 * rng.binomial(1, q[::2], (n_runs, 200)).sum(axis=1))


def test_each_row_is_kept_at_its_own_rate_and_not_at_the_average_rate() -> None:
    rows, n_runs, rule = rows_in_ball(100, seed=17), 4000, coreset(0.4)
    q = rule.probability(np.linalg.norm(rows, axis=1))
    bits = SeededBits(np.random.default_rng(18))
    hits = np.zeros(100)
    for _ in range(n_runs):
        hits[positions(opened(sample(rows, ball=BALL, rule=rule, random_state=bits)), rows)] += 1
    assert np.max(np.abs(hits - n_runs * q) / np.sqrt(n_runs * q * (1.0 - q))) < 5.5
    average = q.mean()
    assert np.max(np.abs(hits - n_runs * average) / math.sqrt(n_runs * average * (1.0 - average))) > 20.0


@pytest.mark.parametrize("strategy", ["pass", "thin"])
def test_every_part_of_a_blocked_table_is_sampled_at_its_rate(strategy: Strategy) -> None:
    n, q = SEVERAL_BLOCKS // 8, 0.2
    rows = np.arange(n, dtype=np.float64)[:, None] / n
    content = opened(sample(rows, ball=BALL, rule=UniformRule(rate=q), random_state=26, strategy=strategy))
    tenths = np.bincount((content.rows[:, 0] * 10.0).astype(int), minlength=10)
    assert np.all(np.abs([sigmas(int(kept), n // 10, q) for kept in tenths]) < 5.0)
    # A sampler that forgot the first block, or the last rows, would be far outside.
    seen = content.rows[(content.rows[:, 0] > 0.01) & (content.rows[:, 0] < 0.99), 0]
    forgotten = np.bincount((seen * 10.0).astype(int), minlength=10)
    assert not np.all(np.abs([sigmas(int(kept), n // 10, q) for kept in forgotten]) < 5.0)


def test_the_weighted_count_and_sum_are_unbiased_and_the_unweighted_are_not() -> None:
    rows, n_runs, rule = rows_in_ball(500, seed=37), 2000, coreset(0.4)
    q = rule.probability(np.linalg.norm(rows, axis=1))
    energy = np.sum(np.square(rows), axis=1)
    bits = SeededBits(np.random.default_rng(38))
    counts, energies, plain = np.zeros(n_runs), np.zeros(n_runs), np.zeros(n_runs)
    for run in range(n_runs):
        content = opened(sample(rows, ball=BALL, rule=rule, random_state=bits))
        kept = np.sum(np.square(content.rows), axis=1)
        counts[run] = content.weights.sum()
        energies[run] = content.weights @ kept
        plain[run] = kept.mean() * 500
    count_sigma = math.sqrt(float(np.sum(1.0 / q - 1.0)) / n_runs)
    energy_sigma = math.sqrt(float(np.sum((1.0 / q - 1.0) * np.square(energy))) / n_runs)
    assert abs(counts.mean() - 500.0) < 5.0 * count_sigma
    assert abs(1.02 * counts.mean() - 500.0) > 5.0 * count_sigma
    assert abs(energies.mean() - energy.sum()) < 5.0 * energy_sigma
    assert abs(plain.mean() - energy.sum()) > 5.0 * energy_sigma
