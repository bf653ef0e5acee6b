"""Clients of a federation as records: bounds on their updates, chances to be asked, and a certificate for a client."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy import special

import pais
from pais import training

ADULT = Path(__file__).parents[4] / "shared" / "data" / "adult.parquet"


def people() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, label and client: Adult by occupation and education if the file is there, otherwise made up."""
    if not ADULT.exists():
        rng = np.random.default_rng(0)
        X = rng.normal(size=(30_000, 3))
        return X, (X[:, 0] + rng.logistic(size=30_000) > 0.0).astype(float), rng.geometric(0.02, 30_000) % 220
    table = pq.read_table(ADULT)
    words = [table.column(name).to_numpy(zero_copy_only=False).astype(str) for name in ("occupation", "education")]
    _, client = np.unique(np.char.add(*words), return_inverse=True)
    numbers = [np.nan_to_num(table.column(name).to_numpy().astype(float)) for name in ("age", "hours_per_week")]
    X = np.column_stack([(part - part.mean()) / part.std() for part in numbers])
    return X, (table.column("income_class").to_numpy(zero_copy_only=False) == ">50K").astype(float), client


def test_a_federation_learns_and_certifies_a_client() -> None:
    X, y, client = people()
    sizes = np.bincount(client)
    asked = sizes[sizes > 0]
    rows = [np.flatnonzero(client == number) for number in np.flatnonzero(sizes)]

    def bound(sizes: np.ndarray) -> np.ndarray:
        # A client weighs by its rows, up to 500 of them; a function of this client alone.
        return np.minimum(sizes, 500) / 500.0

    def update(number: int, w: np.ndarray) -> np.ndarray:
        part = np.column_stack([X[rows[number]], np.ones(len(rows[number]))])
        mean = part.T @ (y[rows[number]] - special.expit(part @ w)) / len(part)
        return bound(asked)[number] * mean / max(np.linalg.norm(mean), 1.0)

    def loss(w: np.ndarray) -> float:
        chance = special.expit(np.column_stack([X, np.ones(len(X))]) @ w)
        return -float(np.mean(np.log(np.where(y > 0.5, chance, 1.0 - chance) + 1e-12)))

    stated = {0.1: len(asked) * 0.5, 0.4: len(asked) * 0.3, 1.0: len(asked) * 0.2}
    plan = training.plan(20, epsilon=8.0, delta=1e-5, bounds=stated, mean_batch=0.4 * len(asked), unit="client")
    assert plan.rates[0] < plan.rates[-1]
    ledger = pais.Ledger(epsilon=8.0, delta=1e-5)
    sampler = training.WeightedPoissonSampler(plan, bound, (asked,), ledger=ledger, random_state=0)
    w = np.zeros(X.shape[1] + 1)
    for batch in sampler:
        updates = np.array([update(number, w) for number in batch.index]).reshape(-1, w.size)
        w = w + 0.05 * training.noisy_sum(sampler, batch, updates)
    assert loss(w) < loss(np.zeros(w.size)) - 0.02
    certificate = sampler.release(w).certificate
    assert certificate.neighbours == "one client added or removed"
    assert pais.Certificate.from_dict(json.loads(certificate.to_json())) == certificate
    assert "one client" in certificate.explain()
    assert ledger.entries[0].what == "training in 20 steps"


def test_prices_of_clients_and_of_rows_are_told_apart() -> None:
    plan = training.plan(5, epsilon=1.0, delta=1e-5, bounds={1.0: 100}, mean_batch=20, unit="client")
    assert plan.price.unit == "client"
    assert "for one client" in plan.explain()
    assert training.TrainingPlan.from_dict(plan.to_dict()) == plan
    with pytest.raises(pais.ArgumentError, match="training plan"):
        training.TrainingPlan.from_dict({"kind": "plan"})
