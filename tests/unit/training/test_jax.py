"""Training with JAX and jax_privacy: the same clipping, and the page of the guide."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from pais import training
from pais.training import Bin, TrainingPlan, WeightedPoissonSampler
from pais.training.steps import bounded

jax = pytest.importorskip("jax", reason="needs pais[jax]")
batch_selection = pytest.importorskip("jax_privacy.batch_selection", reason="needs pais[jax]")
clipping = pytest.importorskip("jax_privacy.clipping", reason="needs pais[jax]")
pytestmark = pytest.mark.filterwarnings("ignore")

ROOT = Path(__file__).parents[3]
BINS = (Bin(bound=1.0, records=10, rate=0.25), Bin(bound=3.0, records=10, rate=0.6))
PLAN = TrainingPlan(n_steps=40, noise=2000.0, bins=BINS, epsilon=1.0, delta=1e-6)


def loss(w: object, x: object) -> object:
    return jax.numpy.sum(jax.numpy.tanh(x @ w) * x)


def test_batches_are_clipped_as_jax_privacy_does_bin_by_bin() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3)) * np.repeat([0.5, 2.0], 100)[:, None]
    w = rng.normal(size=(3, 3))
    gradients = jax.vmap(jax.grad(loss), in_axes=(None, 0))
    sampler = WeightedPoissonSampler(PLAN, lambda X: np.linalg.norm(X, axis=1), (X,), random_state=0)
    clipped = 0
    # JAX compiles each shape anew, so one step of many records.
    for index in itertools.islice(sampler.batch_iterator(200), 1):
        batch = sampler.batch_of(index)
        rows = np.asarray(gradients(w, X[index]), dtype=np.float64).reshape(index.size, -1)
        found = bounded(rows, batch.clip, batch.weight).sum(axis=0)
        theirs = np.zeros(9)
        for one, weight in zip(PLAN.bins, PLAN.weights, strict=True):
            part = X[index[batch.clip == one.bound]]
            step = clipping.clipped_grad(loss, l2_clip_norm=one.bound, keep_batch_dim=False)
            theirs += weight * np.asarray(step(w, part)).ravel() if len(part) else 0.0
        assert found == pytest.approx(theirs, rel=1e-4, abs=1e-4)
        clipped += int(np.sum(np.linalg.norm(rows, axis=1) > batch.clip))
    assert clipped > 3


def test_parts_of_one_shape_hold_the_batch_in_its_order() -> None:
    # What the loop of the guide relies on.
    for size in (0, 1, 7, 8, 9, 30):
        parts = batch_selection.split_and_pad_global_batch(np.arange(size), 8)
        assert {part.shape for part in parts} == {(8,)}
        assert np.array_equal(np.concatenate(parts)[:size], np.arange(size))


def test_a_sampler_takes_the_place_of_a_strategy() -> None:
    theirs = batch_selection.CyclicPoissonSampling(sampling_prob=0.25, iterations=40)
    sampler = WeightedPoissonSampler(PLAN, lambda X: np.ones(len(X)), (np.ones((60, 1)),), random_state=0)
    ours, peers = ([*one.batch_iterator(60, rng=0)] for one in (sampler, theirs))
    assert len(ours) == len(peers) == 40
    assert {batch.ndim for batch in ours} == {1}
    sizes = [np.mean([batch.size for batch in batches]) for batches in (ours, peers)]
    assert abs(sizes[0] - sizes[1]) < 5.0 * np.sqrt(2.0 * 60 * 0.25 * 0.75 / 40)
    assert np.issubdtype(ours[0].dtype, np.integer)


def test_every_block_of_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    from tests.meta.test_guides import blocks

    names: dict[str, object] = {"__name__": "__main__"}
    for _, text in blocks(ROOT / "docs" / "guide" / "training-jax.md"):
        exec(compile(text, "training-jax.md", "exec"), names)
    assert "epsilon 1, delta 1e-06 for one row" in capsys.readouterr().out
    # The model learned: its coefficients point where those of the made-up rows do.
    w = np.asarray(names["w"])
    true = np.array([1.0, -1.0, 0.5, 0.0, 0.0])
    assert w @ true / np.linalg.norm(w) / np.linalg.norm(true) > 0.8
    assert training.TrainingPlan.from_dict(names["plan"].to_dict()) == names["plan"]  # type: ignore[attr-defined]
