"""Losses of individual records, for the data owner."""

from __future__ import annotations

import numpy as np
import pytest

import pais


@pytest.mark.parametrize(("mechanism", "delta"), [("gaussian", 1e-6), ("l2", 0.0)])
def test_record_losses_stay_within_the_plan(mechanism: str, delta: float) -> None:
    rows = np.random.default_rng(0).normal(size=(5000, 3))
    norms = pais.NormDistribution.from_quantiles(lambda level: 4.0 * level**0.5, n_rows=5000, radius=4.0)
    settings = {"n_clusters": 3, "n_features": 3, "epsilon": 1.0, "delta": delta, "mechanism": mechanism}
    sizes = np.minimum(np.linalg.norm(rows, axis=1), 4.0)
    for sampling in ("constrained", "uniform"):
        plan = pais.plan_kmeans(ball=pais.Ball(radius=4.0), norms=norms, sampling=sampling, sample_size=500, **settings)
        losses = pais.record_losses(plan, sizes)
        assert losses.shape == (5000,)
        assert losses.max() <= 1.0 + 1e-9
        # With uniform sampling, the rounds charge all records alike, because that needs the least noise.
        assert np.median(losses) > 0.9
        assert "losses" not in repr(plan)
