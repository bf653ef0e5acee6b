"""Replay of whole training runs: forced noisy sums, and a neighbour with one more record."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import special

from pais import training
from pais._base.lattice import TAPE
from pais.training import WeightedPoissonSampler

STEPS = 60
PLAN = training.plan(STEPS, epsilon=1.0, delta=1e-5, bounds={1.5: 100, 3.0: 60, 6.0: 40}, mean_batch=40.0)


class ForcedTape:
    """Records the totals of each step, and returns the noisy totals of an earlier run."""

    closed = False

    def __init__(self, forced: list[np.ndarray] | None = None) -> None:
        self.forced, self.totals, self.noisy_totals, self.scales = forced, [], [], []

    def noisy(self, total: np.ndarray, noisy: np.ndarray, *, law: str, order: float, scales: np.ndarray) -> np.ndarray:
        assert (law, order) == ("GaussianNoise", 2.0)
        noisy = noisy if self.forced is None else self.forced[len(self.totals)]
        self.totals.append(total.copy())
        self.noisy_totals.append(noisy.copy())
        self.scales.append(float(scales[0]))
        return noisy


def train(X: np.ndarray, y: np.ndarray, tape: ForcedTape, seed: int, journal: Path | None = None) -> np.ndarray:
    """Logistic regression by noisy gradient steps; returns how often the last record joined."""
    token = TAPE.set(tape)  # type: ignore[arg-type]  # the parts of a tape that a step calls
    try:
        sampler = WeightedPoissonSampler(PLAN, training.FeatureNorm(), (X, y), random_state=seed, journal=journal)
        w, joined = np.zeros(X.shape[1] + 1), []
        for batch in sampler:
            Z = np.column_stack([X[batch.index], np.ones(batch.index.size)])
            gradients = (special.expit(Z @ w) - y[batch.index])[:, None] * Z
            w = w - 0.5 * training.noisy_sum(sampler, batch, gradients) / 200.0
            joined.append(len(y) - 1 in batch.index)
        return np.array(joined)
    finally:
        TAPE.reset(token)


def pair(length: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """A table, and its neighbour with a record of a given length, which comes last and has the largest gradient."""
    rng = np.random.default_rng(7)
    X, y = rng.normal(size=(199, 3)), rng.integers(0, 2, 199).astype(float)
    extra = np.array([[1.0, 1.0, 1.0]]) * length / np.sqrt(3.0)
    return X, y, np.vstack([X, extra]), np.append(y, 0.0)


@pytest.mark.parametrize("length", [0.1, 1.4, 2.8, 5.9, 50.0])
@pytest.mark.parametrize("forced_from_neighbour", [False, True])
def test_a_neighbour_moves_each_step_by_at_most_the_plan(length: float, forced_from_neighbour: bool) -> None:
    X, y, X1, y1 = pair(length)
    bin_ = PLAN.bins[int(PLAN.bin_of(np.array([np.hypot(length, 1.0)]))[0])]
    moves, times = [], []
    for seed in range(6):
        first, second = ((X1, y1), (X, y)) if forced_from_neighbour else ((X, y), (X1, y1))
        recorded = ForcedTape()
        joined_first = train(*first, recorded, seed)
        replayed = ForcedTape(recorded.noisy_totals)
        joined_second = train(*second, replayed, seed)
        joined = joined_first if forced_from_neighbour else joined_second
        assert len(recorded.totals) == len(replayed.totals) == STEPS
        assert recorded.scales == replayed.scales
        move = np.array(
            [
                np.linalg.norm((a - b).astype(float)) / scale
                for a, b, scale in zip(recorded.totals, replayed.totals, recorded.scales, strict=True)
            ]
        )
        # A step that the record did not join is the same to the bit.
        assert np.all(move[~joined] == 0.0)
        assert np.all(move[joined] <= PLAN.shift_of(bin_))
        moves.extend(move[joined])
        times.append(joined.sum())
    # The audit is not idle: a large gradient uses most of what the plan allows.
    assert length < 5.0 or max(moves) > 0.5 * PLAN.shift_of(bin_)
    expected = STEPS * bin_.rate
    assert abs(np.mean(times) - expected) < 5.0 * np.sqrt(expected / 6.0) + 1.0


def test_steps_after_a_crash_are_new_steps(tmp_path: Path) -> None:
    X, y, *_ = pair(1.0)
    journal = tmp_path / "steps.json"
    sampler = WeightedPoissonSampler(PLAN, training.FeatureNorm(), (X, y), journal=journal)
    early = sampler.state_dict()
    drawn = [sampler.draw().step for _ in range(STEPS // 2)]
    resumed = WeightedPoissonSampler(PLAN, training.FeatureNorm(), (X, y), journal=journal)
    resumed.load_state_dict({**early, "run": resumed.state_dict()["run"]})
    drawn += [batch.step for batch in resumed]
    assert drawn == list(range(1, STEPS + 1))
