"""Costs of a fit from Spark on this machine: of a row in each kind of pass, a task, a job, a row of the sample."""

from __future__ import annotations

import io
import statistics
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import pais
from benchmarks.stream import child
from benchmarks.stream.data import COLUMNS
from benchmarks.stream.passes import Recorder
from benchmarks.stream.spark import CORES, DELTA, EPSILON, N_CLUSTERS, spark_session
from pais._base.randomness import BitSource
from pais.data.engines.base import Fold, Sampling, WeightedRows
from pais.privacy.norms import NormDistribution

RUNS = 3
#: Expected rows of a larger sample, to tell the driver's work by row of the sample from the rest.
LARGE_SAMPLE = 200_000
FEW_TASKS, MANY_TASKS = 16, 256
#: Fits of a run of `job`.
STEPS = 1 + 3 * RUNS


@dataclass(frozen=True, kw_only=True)
class Costs:
    """Seconds and bytes, measured. Times by row and by task are those of one core."""

    scan: float
    transfer: float
    survey: float
    sample: float
    task: float
    job: float
    start: float
    driver: float
    driver_row: float
    answer: float
    survey_passes: int
    answer_bytes: float
    file_bytes: float


class Timed(Recorder):
    """An engine that notes the seconds of each pass and its sum. It collects no candidates for the sample."""

    def __init__(self, frame: Any) -> None:
        super().__init__(pais.source(frame))
        self.survey: list[float] = []
        self.drawn: list[float] = []
        self.sums: list[NDArray[Any]] = []

    def fold(self, fold: Fold, *, seeded: bool) -> NDArray[Any]:
        start = time.perf_counter()
        self.sums.append(super().fold(fold, seeded=seeded))
        self.survey.append(time.perf_counter() - start)
        return self.sums[-1]

    def sample(self, sampling: Sampling, bits: BitSource) -> WeightedRows:
        start = time.perf_counter()
        kept = super().sample(sampling, bits)
        self.drawn.append(time.perf_counter() - start)
        return kept


@dataclass(frozen=True, kw_only=True)
class Fit:
    """Seconds of a fit and of its passes."""

    seconds: float
    engine: Timed
    rows: float
    norms: NormDistribution

    @property
    def driver(self) -> float:
        return self.seconds - sum(self.engine.survey) - sum(self.engine.drawn)


def fitted(frame: Any, sample_size: float | None = None) -> Fit:
    engine = Timed(frame)
    settings = pais.KMeansSettings(n_clusters=N_CLUSTERS, epsilon=EPSILON, delta=DELTA, sample_size=sample_size)
    start = time.perf_counter()
    fit = pais.fit(engine, settings)
    seconds = time.perf_counter() - start
    child.step()
    assert fit.survey is not None
    return Fit(seconds=seconds, engine=engine, rows=float(fit.plan.expected_rows or 0.0), norms=fit.survey.norms)


def job(few: list[str], many: list[str], n_few: int, large_sample: int, scratch: str) -> dict[str, Any]:
    """The costs, their spread, and a measured fit to check them by."""
    session = spark_session(scratch)
    try:
        frame = session.read.parquet(*few)
        first, *fits = (fitted(frame) for _ in range(1 + RUNS))
        large = [fitted(frame, min(large_sample, LARGE_SAMPLE)) for _ in range(RUNS)]
        check = [fitted(session.read.parquet(*many)) for _ in range(RUNS)]
        spread = _row_costs(frame, fits, n_few) | _task_costs(session, fits[0].engine.folds[-1])
        spread |= _driver_costs(fits, large)
    finally:
        session.stop()
    costs = {name: statistics.median(values) for name, values in spread.items()}
    job_and_tasks = costs["job"] + costs["task"]
    for name in ("transfer", "survey", "sample"):
        # The tasks of these passes are as many as the cores. A scan has no Python, which is most of their cost.
        spread[name] = [max(value - job_and_tasks * CORES / n_few, 0.0) for value in spread[name]]
        costs[name] = statistics.median(spread[name])
    costs |= {
        "start": max(first.engine.survey[0] - statistics.median(fit.engine.survey[0] for fit in fits), 0.0),
        "survey_passes": len(first.engine.survey),
        "file_bytes": sum(Path(file).stat().st_size for file in few) / n_few,
    }
    norms = first.norms
    return {
        "costs": costs,
        "spread": spread,
        # No start: the session is warm.
        "check": statistics.median(fit.seconds for fit in check) + costs["start"],
        "check_rows": statistics.median(fit.rows for fit in check),
        "norms": norms.norms.tolist(),
        "masses": norms.masses.tolist(),
        "radius": norms.radius,
    }


def _row_costs(frame: Any, fits: list[Fit], n_rows: int) -> dict[str, list[float]]:
    """Core seconds of a row in each kind of pass, with the job and its tasks."""
    from pyspark.sql import functions

    def drained(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"rows": [sum(batch.num_rows for batch in batches)]})

    sums = frame.select(*[functions.sum(name) for name in frame.columns])
    sent = frame.mapInArrow(drained, "rows long")
    seconds = {
        "scan": [_seconds(sums.collect) for _ in range(RUNS)],
        "transfer": [_seconds(sent.toArrow) for _ in range(RUNS)],
        "survey": [statistics.mean(fit.engine.survey) for fit in fits],
        "sample": [statistics.mean(fit.engine.drawn) for fit in fits],
    }
    return {name: [CORES * value / n_rows for value in values] for name, values in seconds.items()}


def _task_costs(session: Any, fold: Fold) -> dict[str, list[float]]:
    """Seconds of a job, and core seconds of a task, from passes over partitions of one row."""
    columns = ["id * 1.0d as x0", *(f"1.0d as x{number}" for number in range(1, COLUMNS))]
    engines = [
        pais.source(session.range(0, tasks, numPartitions=tasks).selectExpr(*columns))
        for tasks in (FEW_TASKS, MANY_TASKS)
    ]
    for engine in engines:
        engine.fold(fold, seeded=False)
    few, many = (
        [_seconds(lambda engine=engine: engine.fold(fold, seeded=False)) for _ in range(RUNS)]  # type: ignore[misc]
        for engine in engines
    )
    tasks = [max(CORES * (b - a) / (MANY_TASKS - FEW_TASKS), 0.0) for a, b in zip(few, many, strict=True)]
    return {"task": tasks, "job": [max(a - FEW_TASKS * t / CORES, 0.0) for a, t in zip(few, tasks, strict=True)]}


def _driver_costs(fits: list[Fit], large: list[Fit]) -> dict[str, list[float]]:
    """Seconds of the driver beside the passes: by row of the sample, for each answer of a task, and the rest."""
    small_rows, large_rows = (statistics.median(fit.rows for fit in some) for some in (fits, large))
    small_seconds, large_seconds = ([fit.driver for fit in some] for some in (fits, large))
    per_row = max(
        (statistics.median(large_seconds) - statistics.median(small_seconds)) / (large_rows - small_rows), 0.0
    )
    answers = [_answer(total) for total in fits[0].engine.sums]
    seconds = [_seconds(lambda: [_added(answer) for answer in answers]) / len(answers) for _ in range(RUNS)]
    return {
        "driver_row": [per_row],
        "driver": [max(value - per_row * small_rows, 0.0) for value in small_seconds],
        "answer": seconds,
        "answer_bytes": [statistics.mean(len(answer) for answer in answers)],
    }


def _answer(total: NDArray[Any]) -> bytes:
    """A sum as a worker sends it."""
    file = io.BytesIO()
    np.save(file, total, allow_pickle=False)
    return zlib.compress(file.getvalue(), 1)


def _added(answer: bytes) -> NDArray[Any]:
    part = np.load(io.BytesIO(zlib.decompress(answer)), allow_pickle=False)
    return np.asarray(part + part)


def _seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start
