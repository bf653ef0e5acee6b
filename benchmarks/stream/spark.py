"""Private k-means on a Spark frame against Spark MLlib's own k-means on the same frame."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow.dataset as pa_dataset

import pais
from benchmarks.stream import child
from benchmarks.stream.bench import PREFIX, Bench
from benchmarks.stream.data import COLUMNS
from benchmarks.tables import Table, verdict

SHARE = 0.2
N_CLUSTERS, ROUNDS, EPSILON, DELTA = 25, 10, 1.0, 1e-7
RUNS, CORES, DRIVER_MEMORY = 2, 2, "8g"
TIME_TARGET, COST_TARGET = 0.5, 1.10
MLLIB, FREE, SMALL = "MLlib", "free sample", "small sample"
WAYS = (FREE, SMALL, MLLIB)


def missing() -> str | None:
    """Why Spark cannot be tried here, or None."""
    if importlib.util.find_spec("pyspark") is None:
        return "pyspark is not installed"
    home = os.environ.get("JAVA_HOME")
    return None if home or shutil.which("java") else "there is no Java"


def tables(bench: Bench) -> Iterator[Table]:
    problem = missing()
    if problem is not None:
        bench.console.print(f"Spark is left out: {problem}.")
        return
    files = bench.mixture().files(round(SHARE * bench.rows))
    dataset = pa_dataset.dataset(files)
    n_rows = dataset.count_rows()
    table = _table(n_rows, len(files), bench.small_sample)
    with bench.steps("Spark", 2 * RUNS * len(WAYS)) as on_step:
        for cached in (False, True):
            fits: dict[str, list[dict[str, Any]]] = {way: [] for way in WAYS}
            for seed in range(RUNS):
                for way in WAYS:
                    size = bench.small_sample if way == SMALL else None
                    with tempfile.TemporaryDirectory(dir=bench.cache) as scratch:
                        one = child.run(
                            "spark",
                            on_step,
                            private=way != MLLIB,
                            sample_size=size,
                            files=files,
                            cached=cached,
                            seed=seed,
                            scratch=scratch,
                        )
                    one["cost"] = pais.cost(dataset, np.array(one["centers"]))
                    fits[way].append(one)
            for way in (FREE, SMALL):
                _add(table, fits[way], fits[MLLIB], way, "cached" if cached else "from files")
    yield table


def _table(n_rows: int, n_files: int, small: int) -> Table:
    return Table(
        name="spark",
        prefix=PREFIX,
        title=f"Spark: DPKMeans against MLlib's KMeans, {n_rows:,} x {COLUMNS} float64, local[{CORES}]",
        shown=(
            "frame",
            "rows kept",
            "pais s",
            "MLlib s",
            "pais / MLlib",
            "time target",
            "result",
            "cost, pais / MLlib",
            "cost target",
            "cost result",
        ),
        remarks=[
            f"k = {N_CLUSTERS}; MLlib with maxIter = {ROUNDS}, not private; DPKMeans with epsilon {EPSILON:g}, delta "
            f"{DELTA:g}, nothing stated (private survey), secure randomness. A mixture of Gaussian groups in {n_files} "
            "Parquet file(s).",
            f"Each fit alone in a fresh session of its own, the two taking turns; the smaller time of {RUNS} runs, "
            "mean costs over all rows. The start of the session is not counted.",
            f"Rows kept: free, as few as cost no extra noise, the default; small, {small:,} expected.",
            "cached: the frame is held by Spark before the clock starts, as columns for DPKMeans and as assembled "
            "vectors for MLlib, which is what each reads fastest. from files: MLlib holds the vectors by itself.",
        ],
    )


def _add(table: Table, ours: list[dict[str, Any]], theirs: list[dict[str, Any]], way: str, frame: str) -> None:
    seconds, other_seconds = (min(run["seconds"] for run in runs) for runs in (ours, theirs))
    costs, other_costs = ([run["cost"] for run in runs] for runs in (ours, theirs))
    ratio, cost = seconds / other_seconds, float(np.mean(costs) / np.mean(other_costs))
    table.rows.append(
        {
            "frame": frame,
            "rows kept": way,
            "pais s": seconds,
            "MLlib s": other_seconds,
            "pais / MLlib": ratio,
            "time target": TIME_TARGET,
            "result": verdict(ratio, TIME_TARGET),
            "cost, pais / MLlib": cost,
            "cost target": COST_TARGET,
            "cost result": verdict(cost, COST_TARGET),
            "largest pais cost / smallest MLlib cost": max(costs) / min(other_costs),
            "pais largest s": max(run["seconds"] for run in ours),
            "MLlib largest s": max(run["seconds"] for run in theirs),
            "pyspark": ours[0]["version"],
        }
    )


def job(
    private: bool, sample_size: float | None, files: list[str], cached: bool, seed: int, scratch: str
) -> dict[str, Any]:
    """One fit in a session of its own."""
    session = _session(scratch)
    try:
        frame = session.read.parquet(*files)
        if not private:
            from pyspark.ml.feature import VectorAssembler

            vectors = VectorAssembler(inputCols=frame.columns, outputCol="features").transform(frame)
            frame = vectors.select("features")
        if cached:
            frame = frame.cache()
            frame.count()
        start = time.perf_counter()
        centers = _pais_centers(frame, sample_size) if private else _mllib_centers(frame, seed)
        seconds = time.perf_counter() - start
        version = str(session.version)
    finally:
        session.stop()
    child.step()
    return {"seconds": seconds, "centers": centers, "version": version}


def _pais_centers(frame: Any, sample_size: float | None) -> Any:
    model = pais.DPKMeans(N_CLUSTERS, epsilon=EPSILON, delta=DELTA, sample_size=sample_size)
    return model.fit(frame).cluster_centers_.tolist()


def _mllib_centers(frame: Any, seed: int) -> Any:
    from pyspark.ml.clustering import KMeans

    fitted = KMeans(k=N_CLUSTERS, maxIter=ROUNDS, seed=seed).fit(frame)
    return np.array(fitted.clusterCenters()).tolist()


def _session(scratch: str) -> Any:
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = {
        "spark.driver.memory": DRIVER_MEMORY,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": scratch,
        "spark.sql.warehouse.dir": scratch,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master(f"local[{CORES}]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
