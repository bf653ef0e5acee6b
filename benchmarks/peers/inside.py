"""The packages of our own environment: scikit-learn, the floor, and this one."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from functools import partial

import sklearn
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

import pais
from benchmarks.data import DELTA, FLOOR_RUNS, N_CLUSTERS, DataSet, FloatArray
from benchmarks.peers.outcome import Outcome
from benchmarks.quality import Mechanism


def floor(rows: FloatArray, seeds: int) -> Outcome:
    """The non-private floor: 1 by definition; the seconds of one of its fits."""
    KMeans(N_CLUSTERS, n_init=1, random_state=0).fit(rows[:1000])  # threads are started before the clock
    fits = [KMeans(N_CLUSTERS, init="k-means++", n_init=1, random_state=seed) for seed in range(seeds)]
    seconds = tuple(_seconds(partial(fit.fit, rows)) for fit in fits)
    note = f"cost of the best of {FLOOR_RUNS} fits, seconds of one"
    return Outcome(ratios=(1.0,), seconds=seconds, version=sklearn.__version__, rows_used=len(rows), notes=(note,))


def ten_rounds(data: DataSet, rows: FloatArray, seeds: int) -> Outcome:
    ratios, seconds = [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for seed in range(seeds):
            model = KMeans(N_CLUSTERS, n_init=1, max_iter=10, random_state=seed)
            seconds.append(_seconds(partial(model.fit, rows)))
            ratios.append(data.cost(model.cluster_centers_) / data.floor)
    return Outcome(ratios=tuple(ratios), seconds=tuple(seconds), version=sklearn.__version__, rows_used=len(rows))


def private(data: DataSet, rows: FloatArray, seeds: int, *, epsilon: float, mechanism: Mechanism) -> Outcome:
    """Costs of seeded fits, seconds of fits with secure randomness."""
    order = 1.0 if mechanism == "laplace" else 2.0
    model = pais.DPKMeans(
        N_CLUSTERS,
        epsilon=epsilon,
        delta=DELTA if mechanism == "gaussian" else 0.0,
        radius=data.ball(order).radius,
        center=(0.0,) * rows.shape[1],
        norms=data.norms(order),
        mechanism=mechanism,
    )
    ratios, seconds = [], []
    for seed in range(seeds):
        model.set_params(random_state=seed).fit(rows)
        ratios.append(data.cost(model.cluster_centers_) / data.floor)
        seconds.append(_seconds(lambda: model.set_params(random_state=None).fit(rows)))
    assert model.plan_.norms is not None
    kept = round(model.plan_.norms.expected_size(model.plan_.rule))
    return Outcome(ratios=tuple(ratios), seconds=tuple(seconds), rows_used=kept)


def _seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start
