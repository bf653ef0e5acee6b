"""Weighted Poisson batches: their law, their state and what they refuse."""

from __future__ import annotations

import copy
import json
import os
import pickle
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import pais
from pais import training
from pais._base.randomness import BitSource, bit_source
from pais.errors import ArgumentError, BudgetError, MismatchError, SpentError
from pais.training import Bin, TrainingPlan, WeightedPoissonSampler
from pais.training.sampler import joined


def first(X: np.ndarray) -> np.ndarray:
    return X[:, 0]


def plan_of(*rates: float, n_steps: int = 4) -> TrainingPlan:
    """A plan with stated rates and so much noise that any rate is allowed."""
    bins = tuple(Bin(bound=k + 1.0, records=10.0, rate=rate) for k, rate in enumerate(rates))
    return TrainingPlan(n_steps=n_steps, noise=2000.0, bins=bins, epsilon=1.0, delta=1e-6)


class Halves(BitSource):
    """Bits of a list of words, and then zeros, to meet the rare case of a gap near a whole number."""

    private = False

    def __init__(self, words: list[int]) -> None:
        self.words, self.asked = words, 0

    def raw(self, n_bytes: int) -> bytes:
        self.asked += 1
        found = self.words + [2**63] * (n_bytes // 8)
        self.words = []
        return b"".join(word.to_bytes(8, "little") for word in found)[:n_bytes]


@pytest.mark.parametrize(("n", "rate"), [(7, 0.37), (7, 0.004), (7, 0.97), (3, 1.0), (1, 0.5), (0, 0.5)])
def test_each_coin_has_its_rate_and_coins_are_independent(n: int, rate: float) -> None:
    bits, draws = bit_source(5), 20_000
    seen = np.zeros((draws, n))
    for row in seen:
        row[joined(n, rate, bits)] = 1.0
    error = 5.0 * np.sqrt(rate * (1.0 - rate) / draws) + 1e-12
    assert np.all(np.abs(seen.mean(axis=0) - rate) <= error)
    pairs = seen.T @ seen / draws - np.diag(seen.mean(axis=0))
    both = rate**2 * (1.0 - np.eye(n))
    assert np.all(np.abs(pairs - both) <= 5.0 * np.sqrt(both * (1.0 - both) / draws) + 1e-4)
    # The same test rejects coins with a rate that is 5 % higher.
    assert n < 3 or rate in (0.004, 1.0) or not np.all(np.abs(seen.mean(axis=0) - 0.95 * rate) <= error)


def test_a_gap_near_a_whole_number_is_decided_by_more_bits() -> None:
    # log(1/2) / log(1 - 1/2) is exactly 1; below 1/2 the gap is 1, above it is 0.
    bits = Halves([2**63])
    assert joined(10, 0.5, bits)[0] in (0, 1)
    assert bits.asked > 1


def test_a_hundred_million_records_need_time_for_their_batch_only() -> None:
    bits = bit_source(1)
    sizes = [joined(10**8, 1e-6, bits).size for _ in range(200)]
    assert abs(np.mean(sizes) - 100.0) < 5.0 * 10.0 / np.sqrt(200)


def test_batches_have_the_weights_and_bounds_of_the_plan_and_some_are_empty() -> None:
    plan = plan_of(0.02, 0.5, n_steps=200)
    X = np.repeat([[0.5], [1.7]], [5, 3], axis=0)
    sampler = WeightedPoissonSampler(plan, first, (X,), random_state=0)
    sizes = []
    for batch in sampler:
        small = batch.index < 5
        assert np.all(batch.clip == np.where(small, 1.0, 2.0))
        assert batch.weight == pytest.approx(np.where(small, 50.0, 2.0))
        assert sampler.batch_of(batch.index.tolist()) is batch
        assert "index" not in repr(batch)
        sizes.append(batch.index.size)
    assert 0 in sizes
    assert len(sizes) == 200
    with pytest.raises(SpentError, match="all 200 steps"):
        sampler.draw()


def test_records_beyond_the_largest_bound_and_without_a_number_join_with_the_largest_bin() -> None:
    X = np.array([[1.0], [1.0001], [np.inf], [np.nan], [-1.0], [0.0]])
    batch = WeightedPoissonSampler(plan_of(1.0, 1.0), first, (X,), random_state=0).draw()
    assert batch.clip[np.argsort(batch.index)].tolist() == [1.0, 2.0, 2.0, 2.0, 2.0, 1.0]


def test_a_state_goes_on_with_the_next_step() -> None:
    plan, X = plan_of(0.5, n_steps=6), np.ones((40, 1))
    whole = [batch.index.tolist() for batch in WeightedPoissonSampler(plan, first, (X,), random_state=3)]
    begun = WeightedPoissonSampler(plan, first, (X,), random_state=3)
    head = [begun.draw().index.tolist() for _ in range(2)]
    state = json.loads(json.dumps(begun.state_dict()))
    resumed = WeightedPoissonSampler(plan, first, (X,), random_state=3)
    resumed.load_state_dict(state)
    assert head + [batch.index.tolist() for batch in resumed] == whole
    # A state from before does not turn the sampler back.
    resumed.load_state_dict(state)
    assert resumed.step == 6


def test_a_state_of_another_plan_or_run_is_refused() -> None:
    plan, X = plan_of(0.5, n_steps=6), np.ones((40, 1))
    begun = WeightedPoissonSampler(plan, first, (X,))
    begun.draw()
    state = begun.state_dict()
    # Without its journal, nobody knows which steps were drawn after the state was saved.
    with pytest.raises(MismatchError, match="Pass the journal"):
        WeightedPoissonSampler(plan, first, (X,)).load_state_dict(state)
    rehearsal = WeightedPoissonSampler(plan, first, (X,), random_state=0)
    rehearsal.draw()
    other_bounds = replace(plan, bins=(replace(plan.bins[0], bound=1.5),))
    for other in (plan_of(0.4, n_steps=6), plan_of(0.5, n_steps=7), other_bounds, replace(plan, epsilon=1.1)):
        with pytest.raises(MismatchError, match="another plan"):
            WeightedPoissonSampler(other, first, (X,), random_state=0).load_state_dict(rehearsal.state_dict())


def test_a_rehearsal_does_not_go_on_as_a_private_run(tmp_path: Path) -> None:
    plan, X, journal = plan_of(0.5, n_steps=6), np.ones((40, 1)), tmp_path / "steps.json"
    WeightedPoissonSampler(plan, first, (X,), journal=journal, random_state=0).draw()
    with pytest.raises(MismatchError, match="rehearsal"):
        WeightedPoissonSampler(plan, first, (X,), journal=journal)


def test_bins_are_those_at_the_start_of_the_run() -> None:
    # Bins that change at checkpoints would need another proof.
    scale, X = [0.5], np.ones((40, 1))
    sampler = WeightedPoissonSampler(plan_of(1.0, 1.0), lambda X: scale[0] * X[:, 0], (X,))
    before = sampler.draw().clip
    scale[0] = 2.0
    assert np.array_equal(sampler.draw().clip, before)
    with pais.Ledger(epsilon=2.0, delta=2e-6) as ledger:
        for _ in range(2):
            WeightedPoissonSampler(plan_of(0.5), lambda X: scale[0] * X[:, 0], (X,)).draw()
        assert (ledger.spent.epsilon, ledger.spent.delta) == (2.0, 2e-6)


def test_positions_that_are_not_those_of_the_last_batch_are_refused() -> None:
    sampler = WeightedPoissonSampler(plan_of(0.5), first, (np.ones((40, 1)),), random_state=0)
    with pytest.raises(MismatchError, match="drawn last"):
        sampler.batch_of([])
    early, late = sampler.draw().index, sampler.draw().index
    assert sampler.batch_of(late) is sampler.last
    for positions in (early, late[::-1], late[:-1]):
        with pytest.raises(MismatchError, match="drawn last"):
            sampler.batch_of(positions)


@pytest.mark.parametrize("records", [np.ones((40, 1)), (np.ones((2000, 1)), np.ones(1999)), ()])
def test_records_of_different_lengths_are_refused(records: object) -> None:
    with pytest.raises(ArgumentError, match="arrays of equal length"):
        WeightedPoissonSampler(plan_of(0.5), lambda X, *_: X[:, 0], records)  # type: ignore[arg-type]


def test_no_step_is_drawn_twice_after_a_crash(tmp_path: Path) -> None:
    plan, X, journal = plan_of(0.5, n_steps=6), np.ones((40, 1)), tmp_path / "steps.json"
    begun = WeightedPoissonSampler(plan, first, (X,), journal=journal)
    saved = begun.state_dict()
    for _ in range(3):
        begun.draw()
    saved["run"] = begun.state_dict()["run"]
    resumed = WeightedPoissonSampler(plan, first, (X,), journal=journal)
    resumed.load_state_dict(saved)
    assert [batch.step for batch in resumed] == [4, 5, 6]
    # The first process goes on by mistake.
    with pytest.raises(MismatchError, match="another process"):
        begun.draw()


RUN = """
import sys
import numpy as np
from tests.unit.training.test_sampler import WeightedPoissonSampler, first, plan_of
journal, log = sys.argv[1:]
sampler = WeightedPoissonSampler(plan_of(0.5, n_steps=10_000), first, (np.ones((40, 1)),), journal=journal)
print("ready", flush=True)
for batch in sampler:
    with open(log, "a") as file:
        file.write(f"{batch.step}\\n")
"""


@pytest.mark.slow
def test_no_step_is_drawn_twice_when_processes_are_killed(tmp_path: Path) -> None:
    journal, log = tmp_path / "steps.json", tmp_path / "log"
    root = Path(__file__).parents[3]
    paths = os.pathsep.join([str(root / "src"), str(root)])
    for wanted in (25, 60):
        # The second process uses the journal of the first by mistake.
        started = [
            subprocess.Popen(
                [sys.executable, "-c", RUN, str(journal), str(log)],
                env={**os.environ, "PYTHONPATH": paths},
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
            for _ in range(2)
        ]
        for process in started:
            assert process.stdout is not None
            process.stdout.readline()
        while not log.exists() or log.read_text().count("\n") < wanted:
            assert any(process.poll() is None for process in started)
            time.sleep(0.01)
        for process in started:
            process.kill()
            process.communicate()
    steps = [int(line) for line in log.read_text().split()]
    assert len(steps) >= 60
    assert len(set(steps)) == len(steps)
    assert json.loads(journal.read_text())["step"] >= max(steps)


def test_a_run_is_charged_once_before_its_first_step(tmp_path: Path) -> None:
    plan, X, journal = plan_of(0.5, n_steps=3), np.ones((40, 1)), tmp_path / "steps.json"
    with pais.Ledger(epsilon=1.5, delta=1e-6) as ledger:
        sampler = WeightedPoissonSampler(plan, first, (X,), journal=journal)
        assert ledger.spent.epsilon == 0.0
        sampler.draw()
        assert ledger.spent.epsilon == 1.0
        resumed = WeightedPoissonSampler(plan, first, (X,), journal=journal)
        assert len(list(resumed)) == 2
        assert ledger.spent.epsilon == 1.0
        certificate = resumed.release(np.ones(3)).certificate
        assert certificate.ledger_entries == [ledger.entries[0].id]
        with pytest.raises(BudgetError, match="too little"):
            WeightedPoissonSampler(plan, first, (X,))


def test_certificate_states_the_price_the_secrecy_and_a_rehearsal() -> None:
    plan, X = plan_of(0.3, 0.5), np.ones((40, 1))
    seeded = WeightedPoissonSampler(plan, first, (X,), random_state=0).release(np.ones(3)).certificate
    secure = WeightedPoissonSampler(plan, first, (X,)).release(np.ones(3)).certificate
    assert (secure.epsilon, secure.delta, secure.secure_randomness) == (1.0, 1e-6, True)
    assert "NOT PRIVATE" in seeded.explain()
    assert "Gradients are clipped to norm 2" in secure.explain()
    assert "joins with the probability of its bin, from 0.3 to 0.5" in secure.explain()
    assert pais.Certificate.from_dict(json.loads(secure.to_json())) == secure
    assert secure.matches(np.ones(3))
    assert secure.epsilon_if_kept >= secure.epsilon


def test_adapters_have_the_shapes_that_other_packages_ask_for() -> None:
    plan, X = plan_of(0.3, 0.5), np.ones((40, 1))
    lists = list(WeightedPoissonSampler(plan, first, (X,), random_state=0).torch_batches())
    arrays = list(WeightedPoissonSampler(plan, first, (X,), random_state=0).batch_iterator(40))
    assert lists == [array.tolist() for array in arrays]
    with pytest.raises(MismatchError, match="num_examples"):
        next(WeightedPoissonSampler(plan, first, (X,)).batch_iterator(41))


def test_uses_secure_bits_unless_a_seed_is_given() -> None:
    plan, X = plan_of(0.5), np.ones((200, 1))
    secure = [WeightedPoissonSampler(plan, first, (X,)).draw().index.tolist() for _ in range(2)]
    assert secure[0] != secure[1]
    assert WeightedPoissonSampler(plan, first, (X,)).secure
    assert not WeightedPoissonSampler(plan, first, (X,), random_state=1).secure


@pytest.mark.parametrize("bound", [np.ones(40), "balanced", {1: 2.0}])
def test_numbers_computed_over_the_data_set_are_refused(bound: object) -> None:
    with pytest.raises(ArgumentError, match="Allowed are functions of one record"):
        WeightedPoissonSampler(plan_of(0.5), bound, (np.ones((40, 1)),))  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="computed over the data set"):
        training.plan(10, epsilon=1.0, delta=1e-6, bounds="balanced", mean_batch=1.0)  # type: ignore[arg-type]


def test_a_copy_of_a_sampler_draws_nothing() -> None:
    plan = training.plan(5, epsilon=1.0, delta=1e-5, bounds={1.0: 100}, mean_batch=50)
    sampler = training.WeightedPoissonSampler(plan, training.StatedClasses(bounds={0: 1.0}), (np.zeros(100),))
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(SpentError, match="not copied"):
            copied(sampler)
    sampler._process -= 1
    with pytest.raises(SpentError, match="another process"):
        sampler.draw()


def test_counts_of_bounds_share_a_ledger_with_a_plan_for_clients() -> None:
    bound, clients = training.StatedClasses(bounds={0: 1.0}), (np.zeros(100),)
    with pais.Ledger(epsilon=2.0, delta=1e-4) as ledger:
        counts = training.count_bounds(bound, clients, edges=[1.0], epsilon=0.5, unit="client")
        plan = training.plan(5, epsilon=1.0, delta=1e-5, bounds={1.0: 100}, mean_batch=50, unit="client")
        training.WeightedPoissonSampler(plan, bound, clients).draw()
    assert 50 < counts[1.0] < 150
    assert ledger.spent.epsilon == pytest.approx(1.5)
