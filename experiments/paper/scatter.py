"""What figure 1 shows: three samplers on the first two principal components of one data set."""

from __future__ import annotations

import numpy as np

import pais
from experiments.paper.families import Workbench
from experiments.paper.figures import Scatter
from experiments.paper.grid import PAPER_NAMES, RULES

_SHOWN_ROWS = 4000


def scatter(bench: Workbench, title: str, *, sample_size: int, epsilon: float) -> Scatter:
    """Kept rows, their weights and their losses, by each rule, at one size and one target."""
    rng = np.random.default_rng(0)
    some = bench.rows[rng.choice(len(bench.rows), min(_SHOWN_ROWS, len(bench.rows)), replace=False)]
    _, _, axes = np.linalg.svd(some - some.mean(axis=0), full_matrices=False)
    plane = axes[:2].T
    samples = {}
    for rule in RULES:
        calibration = bench.calibrated(rule, sample_size, epsilon)
        kept = bench.sample(calibration.rule, seed=1)
        norm = np.minimum(np.linalg.norm(kept.rows, axis=1), bench.ball.radius)
        loss = pais.amplified_epsilon(calibration.profile(kept.weights, norm), 1.0 / kept.weights)
        samples[PAPER_NAMES[rule]] = (kept.rows @ plane, kept.weights, loss)
    return Scatter(title=title, background=some @ plane, samples=samples, epsilon=epsilon)
