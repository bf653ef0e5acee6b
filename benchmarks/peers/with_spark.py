"""Centers and seconds of Spark MLlib's KMeans: Parquet file, output directory, k, seeds, cores. In its own environment.

The frame is cached and one fit is made before those that count: it pays for the compiler of the virtual machine.
"""

from __future__ import annotations

import json
import sys
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np

ROUNDS = 10


def main() -> None:
    rows_path, out, k, seeds, cores = sys.argv[1:]
    start = time.perf_counter()
    # Both live in an environment of their own.
    from pyspark.ml.clustering import KMeans
    from pyspark.ml.feature import VectorAssembler

    spark = session(out, cores)
    started = time.perf_counter() - start
    table = spark.read.parquet(rows_path)
    vectors = VectorAssembler(inputCols=table.columns, outputCol="features").transform(table).select("features")
    cached = vectors.repartition(int(cores)).cache()
    cached.count()

    def fit(seed: int) -> tuple[float, np.ndarray]:
        model = KMeans(k=int(k), maxIter=ROUNDS, seed=seed)
        start = time.perf_counter()
        fitted = model.fit(cached)
        seconds = time.perf_counter() - start
        return seconds, np.array(fitted.clusterCenters())

    first, _ = fit(0)
    record(out, event="ready", version=version("pyspark"), session=started, first_fit=first)
    for seed in range(int(seeds)):
        seconds, centers = fit(seed)
        np.save(Path(out) / f"centers-{seed}.npy", centers)
        record(out, event="fit", seed=seed, seconds=seconds)
    spark.stop()


def session(out: str, cores: str):  # type: ignore[no-untyped-def]  # a type of the environment of its own
    from pyspark.sql import SparkSession

    settings = {
        "spark.driver.memory": "4g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": out,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master(f"local[{cores}]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def record(out: str, **entry: object) -> None:
    with (Path(out) / "runs.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(entry) + "\n")


if __name__ == "__main__":
    main()
