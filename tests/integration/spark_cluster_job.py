"""A driver of its own, run by `test_spark_cluster.py`: fits and draws on a cluster that loses executors meanwhile."""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from base64 import b64encode
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa

import pais
from pais import Ball, CoresetRule
from pais._base.randomness import BitSource, StreamBits, bit_source
from pais.data.engines.base import Engine, Sampling, WeightedRows
from pais.data.sources import source
from tests.integration.spark_cluster import Cluster, cluster, wait_for

N, PARTITIONS = 16_000, 8
BALL = Ball(radius=2.0)
RULE = CoresetRule(sample_size=3000.0, n_rows=N, mean_square_norm=1.0, radius=2.0)
KEY = bytes(range(32))


def table() -> pa.Table:
    place = np.arange(N)
    return pa.table({"x": place * 7919 % 10007 / 10007.0, "y": place * 104729 % 9973 / 9973.0, "id": place})


def slow(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Time enough for a machine to be lost."""
    for batch in batches:
        time.sleep(0.5)
        yield batch


def kept(engine: Engine, bits: BitSource) -> list[list[float]]:
    found: WeightedRows = engine.sample(Sampling(ball=BALL, rule=RULE), bits)
    return sorted(np.column_stack([found.rows, found.weights]).tolist())


def disturbed(running: Cluster, session: Any, job: Callable[[], list[list[float]]]) -> dict[str, Any]:
    """The result of a job in the middle of which an executor was killed."""
    running.await_executors(session)
    status = session.sparkContext.statusTracker()

    def done() -> list[int]:
        stages = [status.getStageInfo(stage) for stage in status.getActiveStageIds()]
        return [stage.numCompletedTasks for stage in stages if stage is not None and stage.numActiveTasks > 0]

    with ThreadPoolExecutor(1) as pool:
        result = pool.submit(job)
        wait_for(lambda: any(0 < number < PARTITIONS - 2 for number in done()) or result.done(), "middle of the job")
        in_time = not result.done()
        victim = running.kill_an_executor()
        return {"sample": result.result(), "in_time": in_time, "victim_gone": victim not in running.executors()}


def logged(running: Cluster) -> bytes:
    """All that Spark has put into its event log."""
    return b"".join(file.read_bytes() for file in sorted(running.events.rglob("*")) if file.is_file())


def main() -> dict[str, Any]:
    begun = time.monotonic()
    with cluster(workers=2) as running, running.session() as session:
        ready = time.monotonic()
        expressions = ["id * 7919 % 10007 / 10007.0d as x", "id * 104729 % 9973 / 9973.0d as y", "id"]
        steady = session.range(0, N, numPartitions=PARTITIONS).selectExpr(*expressions)
        losing = steady.mapInArrow(slow, steady.schema)
        session.sparkContext.setJobGroup("fit", "a default fit")
        model = pais.DPKMeans(n_clusters=2, epsilon=5.0).fit(steady.select("x", "y"))
        session.sparkContext.setLocalProperty("spark.jobGroup.id", None)
        status = session.sparkContext.statusTracker()
        stages = [len(status.getJobInfo(job).stageIds) for job in status.getJobIdsForGroup("fit")]
        release = kept(source(steady, columns=["x", "y"]), StreamBits(KEY))
        engine = source(losing, columns=["x", "y"], key="id")
        seeded = disturbed(running, session, lambda: kept(engine, bit_source(5)))
        again = disturbed(running, session, lambda: kept(engine, StreamBits(KEY)))
        in_memory = kept(source(table(), columns=["x", "y"], key="id"), bit_source(5))
        events = logged(running)
        jobs = time.monotonic()
    secret = StreamBits(KEY).raw(32)
    return {
        "events_name_the_plan": b"MapInArrow" in events,
        "events_hold_the_secret": any(one in events for one in (secret, secret.hex().encode(), b64encode(secret))),
        "events_hold_rows": any(
            # Short ones are numbers that a log holds by chance.
            len(str(row[0])) > 12 and str(row[0]).encode() in events
            for row in release
        ),
        "stages_of_jobs": stages,
        "centers": model.cluster_centers_.tolist(),
        "note": model.certificate_.note,
        "rows": len(in_memory),
        "in_time": [seeded["in_time"], again["in_time"]],
        "victims_gone": [seeded["victim_gone"], again["victim_gone"]],
        "seeded_as_in_memory": seeded["sample"] == in_memory,
        "release_as_undisturbed": again["sample"] == release,
        "release_rows": len(release),
        "release_is_not_the_seeded_one": release != in_memory,
        "seconds": {"start": ready - begun, "jobs": jobs - ready, "stop": time.monotonic() - jobs},
    }


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    warnings.simplefilter("ignore", FutureWarning)  # Spark on pandas 3
    json.dump(main(), sys.stdout)
