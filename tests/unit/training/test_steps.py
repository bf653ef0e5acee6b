"""One step: contributions before noise, the noise, and what a step refuses."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from pais import training
from pais.errors import ArgumentError, SpentError
from pais.training import Bin, TrainingPlan, WeightedPoissonSampler
from pais.training.steps import bounded, lattice_of


def first(X: np.ndarray) -> np.ndarray:
    return X[:, 0]


def plan_of(noise: float = 2000.0, n_steps: int = 50) -> TrainingPlan:
    bins = (Bin(bound=1.0, records=10, rate=0.25), Bin(bound=3.0, records=10, rate=0.6))
    return TrainingPlan(n_steps=n_steps, noise=noise, bins=bins, epsilon=1.0, delta=1e-6)


@pytest.mark.parametrize("size", [0.0, 1e-300, 0.5, 1.0, 3.0, 1e9, 1e200, np.inf, np.nan])
def test_a_record_adds_at_most_its_bound_times_its_weight(size: float) -> None:
    plan, rng = plan_of(), np.random.default_rng(1)
    rows = rng.normal(size=(200, 5))
    with np.errstate(invalid="ignore"):
        rows = rows / np.linalg.norm(rows, axis=1, keepdims=True) * size
    place = np.arange(200) % 2
    clip, weight = plan.bounds[place], plan.weights[place]
    steps = lattice_of(plan).encode(bounded(rows, clip, weight))
    length = np.linalg.norm(steps * lattice_of(plan).step, axis=1)
    shift = np.array([plan.shift_of(one) for one in plan.bins])[place]
    assert np.all(length <= shift * plan.noise)
    assert np.all(length <= clip * weight * (1.0 + 1e-12))
    if 0.5 <= size < np.inf:
        assert length == pytest.approx(np.minimum(size, clip) * weight, abs=3.0 * lattice_of(plan).step)


def test_the_noisy_sum_is_unbiased_and_has_the_noise_of_the_plan() -> None:
    plan = plan_of(n_steps=2000)
    X = np.repeat([[0.5], [2.0]], [30, 20], axis=0)
    gradients = np.column_stack([X[:, 0], -X[:, 0]])
    sampler = WeightedPoissonSampler(plan, first, (X,), random_state=0)
    sums = np.array([training.noisy_sum(sampler, batch, gradients[batch.index]) for batch in sampler])
    exact = gradients.sum(axis=0)
    variance = plan.noise**2 + float((gradients[:, 0] ** 2 * (1.0 / np.repeat([0.25, 0.6], [30, 20]) - 1.0)).sum())
    assert np.all(np.abs(sums.mean(axis=0) - exact) < 4.0 * np.sqrt(variance / 2000))
    assert np.allclose(sums.var(axis=0), variance, rtol=0.15)
    assert stats.kstest((sums[:, 0] - exact[0]) / np.sqrt(variance), "norm").pvalue > 1e-3


def test_an_empty_batch_releases_noise() -> None:
    plan, X = plan_of(), np.zeros((0, 1))
    sampler = WeightedPoissonSampler(plan, first, (X,), random_state=0)
    noisy = [training.noisy_sum(sampler, batch, np.zeros((0, 3))) for batch in sampler]
    assert np.std(noisy) == pytest.approx(plan.noise, rel=0.3)


def test_a_batch_is_used_once_and_in_its_turn() -> None:
    plan, X = plan_of(), np.ones((5, 1))
    sampler = WeightedPoissonSampler(plan, first, (X,), random_state=0)
    batch = sampler.draw()
    training.noisy_sum(sampler, batch, np.ones((batch.index.size, 2)))
    with pytest.raises(SpentError, match="already released"):
        training.noisy_sum(sampler, batch, np.ones((batch.index.size, 2)))
    late = sampler.draw()
    sampler.draw()
    with pytest.raises(ArgumentError, match="not the last one"):
        training.noisy_sum(sampler, late, np.ones((late.index.size, 2)))
    # A batch of another sampler has bounds and weights that may not fit the noise of this one.
    stranger = WeightedPoissonSampler(plan_of(noise=4000.0), first, (X,), random_state=0)
    for _ in range(3):
        theirs = stranger.draw()
    assert theirs.step == sampler.step
    with pytest.raises(ArgumentError, match="this sampler"):
        training.noisy_sum(sampler, theirs, np.ones((theirs.index.size, 2)))
    with pytest.raises(ArgumentError, match="one row for each record"):
        training.noisy_sum(sampler, sampler.draw(), np.ones((99, 2)))
