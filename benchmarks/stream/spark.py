"""Private k-means on a Spark frame against Spark MLlib's own k-means on the same frame."""

from __future__ import annotations

import argparse
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
from rich.progress import Progress

import pais
from benchmarks.stream import child
from benchmarks.stream.data import COLUMNS, mixture
from benchmarks.tables import Table, verdict

SHARE = 0.2
N_CLUSTERS, ROUNDS, EPSILON, DELTA = 25, 10, 1.0, 1e-7
CORES, DRIVER_MEMORY = 2, "8g"
#: Runs by kind of frame; the target is about files.
RUNS = {"from files": 2, "cached": 1}
TIME_TARGET, COST_TARGET = 0.35, 1.02
GROUP = "fit"


def missing() -> str | None:
    """Why Spark cannot be tried here, or None."""
    if importlib.util.find_spec("pyspark") is None:
        return "pyspark is not installed"
    home = os.environ.get("JAVA_HOME")
    return None if home or shutil.which("java") else "there is no Java"


def tables(options: argparse.Namespace, progress: Progress) -> Iterator[Table]:
    problem = missing()
    if problem is not None:
        progress.console.print(f"Spark is left out: {problem}.")
        return
    files = mixture(options, progress).files(round(SHARE * options.rows))
    dataset = pa_dataset.dataset(files)
    table = Table(
        name="stream-spark",
        title=f"Spark: DPKMeans against MLlib's KMeans, {dataset.count_rows():,} x {COLUMNS} float64, local[{CORES}]",
        shown=(
            *("frame", "jobs", "rows kept", "pais s", "MLlib s", "pais / MLlib", "time target", "result", "spread"),
            *("cost, pais / MLlib", "cost target", "cost result"),
        ),
        remarks=[
            f"k = {N_CLUSTERS}; MLlib with maxIter = {ROUNDS}, not private; DPKMeans with epsilon {EPSILON:g}, delta "
            f"{DELTA:g}, nothing stated (private survey), the default size of the sample, secure randomness. A mixture "
            f"of Gaussian groups in {len(files)} Parquet file(s).",
            "Each fit runs alone in a fresh session, and the two take turns, "
            f"{' and '.join(f'{runs} run(s) {frame}' for frame, runs in RUNS.items())}: median seconds, the median "
            "and the smallest and largest ratio of a turn, mean costs over all rows. The start of the session is not "
            "counted; that of Spark's Python workers is.",
            "jobs: Spark jobs of the fit, each of which reads all rows once. rows kept: expected by the plan.",
            "cached: the frame is held by Spark before the clock starts, as columns for DPKMeans and as assembled "
            "vectors for MLlib, which is what each reads fastest. from files: MLlib holds the vectors by itself.",
        ],
    )
    for frame, runs in RUNS.items():
        fits: dict[bool, list[dict[str, Any]]] = {True: [], False: []}
        for seed, private in progress.track([(seed, way) for seed in range(runs) for way in fits], description=frame):
            with tempfile.TemporaryDirectory(dir=options.cache) as scratch:
                more = {"private": private, "cached": frame == "cached", "seed": seed, "scratch": scratch}
                one = child.run("spark", files=files, **more)
            one["cost"] = pais.cost(dataset, np.array(one["centers"]))
            fits[private].append(one)
        _add(table, frame, fits[True], fits[False])
    yield table


def _add(table: Table, frame: str, ours: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> None:
    seconds, other_seconds = (np.array([run["seconds"] for run in runs]) for runs in (ours, theirs))
    costs, other_costs = ([run["cost"] for run in runs] for runs in (ours, theirs))
    ratios = seconds / other_seconds
    ratio, cost = float(np.median(ratios)), float(np.mean(costs) / np.mean(other_costs))
    table.rows.append(
        {
            "frame": frame,
            "jobs": max(run["jobs"] for run in ours),
            "rows kept": f"{round(float(np.median([run['rows'] for run in ours]))):,} rows",
            "pais s": float(np.median(seconds)),
            "MLlib s": float(np.median(other_seconds)),
            "pais / MLlib": ratio,
            "time target": TIME_TARGET,
            "result": verdict(ratio, TIME_TARGET),
            "spread": f"{ratios.min():.3f} to {ratios.max():.3f}",
            "cost, pais / MLlib": cost,
            "cost target": COST_TARGET,
            "cost result": verdict(cost, COST_TARGET),
            "runs": len(ours),
            "pyspark": ours[0]["version"],
        }
    )


def job(private: bool, files: list[str], cached: bool, seed: int, scratch: str) -> dict[str, Any]:
    """One fit in a session of its own."""
    session = spark_session(scratch)
    try:
        frame = session.read.parquet(*files)
        if not private:
            from pyspark.ml.feature import VectorAssembler

            vectors = VectorAssembler(inputCols=frame.columns, outputCol="features").transform(frame)
            frame = vectors.select("features")
        if cached:
            frame = frame.cache()
            frame.count()
        session.sparkContext.setJobGroup(GROUP, "the fit")
        start = time.perf_counter()
        answer = _pais_answer(frame) if private else _mllib_answer(frame, seed)
        answer["seconds"] = time.perf_counter() - start
        answer["jobs"] = len(session.sparkContext.statusTracker().getJobIdsForGroup(GROUP))
        answer["version"] = str(session.version)
    finally:
        session.stop()
    return answer


def _pais_answer(frame: Any) -> dict[str, Any]:
    model = pais.DPKMeans(N_CLUSTERS, epsilon=EPSILON, delta=DELTA).fit(frame)
    return {"centers": model.cluster_centers_.tolist(), "rows": model.plan_.expected_rows}


def _mllib_answer(frame: Any, seed: int) -> dict[str, Any]:
    from pyspark.ml.clustering import KMeans

    fitted = KMeans(k=N_CLUSTERS, maxIter=ROUNDS, seed=seed).fit(frame)
    return {"centers": np.array(fitted.clusterCenters()).tolist()}


def spark_session(scratch: str) -> Any:
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
