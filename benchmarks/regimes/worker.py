"""Work of one process: load a set, compute its floor, and run one fit. It holds one set at a time."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np
import threadpoolctl

import pais
from benchmarks.data import FloatArray
from benchmarks.regimes.cases import Case
from benchmarks.regimes.protocol import Floors, cost, floor_cost, one_center_cost
from benchmarks.regimes.sets import Table, digest, tables


@dataclass(frozen=True, kw_only=True)
class Identity:
    """Facts of a set that lines of the table need."""

    digest: str
    n_rows: int
    n_features: int
    n_clusters: int
    one_center: float


@dataclass(frozen=True, kw_only=True)
class Run:
    """Result of one fit: its cost on all rows, or the name of the error that it ended with."""

    cost: float
    seconds: float
    sample_size: float
    error: str = ""


@dataclass(eq=False)
class Loaded:
    """A set with its rows, and the facts that are stated about them in some cases."""

    table: Table
    rows: FloatArray

    @cached_property
    def center(self) -> FloatArray:
        return np.zeros(self.rows.shape[1]) if self.table.radius is not None else self.rows.mean(axis=0)

    def norms(self, order: float) -> FloatArray:
        """Distances from the stated center, in blocks so that a large table is not copied."""
        blocks = np.array_split(self.rows, max(1, len(self.rows) >> 16))
        return np.concatenate([np.linalg.norm(block - self.center, ord=order, axis=1) for block in blocks])

    def settings(self, case: Case) -> pais.KMeansSettings:
        radius, center, norms = None, None, None
        if case.stated != "nothing":
            center = tuple(self.center.tolist())
            norm = self.norms(1.0 if case.mechanism == "laplace" else 2.0)
            radius = float(norm.max()) if self.table.radius is None else self.table.radius
            if case.stated == "ball and norms":
                norms = pais.NormDistribution.from_private_norms(norm, radius=radius)
        return pais.KMeansSettings(
            n_clusters=self.table.n_clusters,
            epsilon=case.epsilon,
            delta=None if case.delta_power is None else len(self.rows) ** -case.delta_power,
            radius=radius,
            center=center,
            norms=norms,
            sample_size=case.sample_size,
            mechanism=case.mechanism,
        )


def prepare() -> None:
    """One thread for each process, so that processes do not wait for each other; no warnings of seeded fits."""
    threadpoolctl.threadpool_limits(1)
    warnings.simplefilter("ignore")


@lru_cache(maxsize=1)
def loaded(directory: Path, name: str) -> Loaded:
    table = tables(directory)[name]
    return Loaded(table, table.rows())


def identify(directory: Path, name: str) -> Identity:
    data = loaded(directory, name)
    n, d = data.rows.shape
    return Identity(
        digest=digest(data.rows),
        n_rows=n,
        n_features=d,
        n_clusters=data.table.n_clusters,
        one_center=one_center_cost(data.rows),
    )


def floor(directory: Path, name: str, rows_digest: str, path: Path) -> float:
    """The floor from the cache, computed and kept there where it is not known."""
    floors = Floors(path=path)
    value = floors.get(name, rows_digest)
    if value is None:
        data = loaded(directory, name)
        value = floor_cost(data.rows, data.table.n_clusters)
        floors.put(name, rows_digest, value)
    return value


def run(directory: Path, case: Case, seed: int) -> Run:
    data = loaded(directory, case.table)
    settings = data.settings(case)
    start = time.perf_counter()
    try:
        fit = pais.fit(data.rows, settings, random_state=seed, counted=False)
    except pais.PaisError as error:
        return Run(cost=float("inf"), seconds=time.perf_counter() - start, sample_size=0.0, error=type(error).__name__)
    seconds = time.perf_counter() - start
    norms = fit.plan.norms
    assert norms is not None
    size = float(norms.expected_size(fit.plan.rule))
    return Run(cost=cost(data.rows, fit.value.centers), seconds=seconds, sample_size=size)
