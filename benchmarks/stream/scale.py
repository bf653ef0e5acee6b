"""Memory that does not grow with the rows, and time that grows in proportion."""

from __future__ import annotations

import argparse
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
from benchmarks.timing import resident_bytes

EPSILON, DELTA, N_CLUSTERS, SURVEY_SHARE = 1.0, 1e-7, 25, 0.052
SAMPLE_SIZE = 20_000
#: Of the largest size: 1, 5, 20 and 50 million of 50.
SHARES = (0.02, 0.1, 0.4, 1.0)
RUNS = 3
FLAT_TARGET = 1.1


def tables(options: argparse.Namespace, progress: Progress) -> Iterator[Table]:
    rows = mixture(options, progress)
    by_size = {}
    for n_rows in progress.track([round(share * options.rows) for share in SHARES], description="sizes"):
        # Never more than a share of the rows, so that small sizes can be tried.
        size = min(SAMPLE_SIZE, n_rows // 10)
        by_size[n_rows] = child.run("scale", files=rows.files(n_rows), sample_size=size)
    yield _memory_table(by_size)
    yield _time_table(by_size)


def _memory_table(by_size: dict[int, dict[str, Any]]) -> Table:
    table = Table(
        name="stream-memory",
        title=f"Peak memory of survey and sample by rows, {COLUMNS} float64 columns",
        shown=("rows", "raw MB", "peak MB", "over smallest", "result"),
        remarks=[
            f"Peak resident memory (VmHWM) of a fresh process that surveys and samples {RUNS} times.",
            f"{SAMPLE_SIZE:,} rows expected in every sample (a tenth of the rows where they are fewer), since the "
            "sample itself is held: at a fixed share, as a default fit has it, it grows with the rows.",
            "Sizes with files smaller than a row group of the others (below 7 million rows in all) cannot be compared.",
            f"Target: every peak within {FLAT_TARGET - 1:.0%} of the smallest size's.",
        ],
    )
    first = next(iter(by_size.values()))["peak"]
    for n_rows, one in by_size.items():
        table.rows.append(
            {
                "rows": n_rows,
                "raw MB": n_rows * COLUMNS * 8 / 1e6,
                "peak MB": one["peak"] / 1e6,
                "over smallest": one["peak"] / first,
                "result": verdict(one["peak"] / first, FLAT_TARGET),
            }
        )
    return table


def _time_table(by_size: dict[int, dict[str, Any]]) -> Table:
    rows = np.array(list(by_size), dtype=np.float64)
    seconds = np.array([one["survey"] + one["sample"] for one in by_size.values()])
    line = np.polyval(np.polyfit(rows, seconds, 1), rows)
    explained = 1.0 - float(((seconds - line) ** 2).sum() / ((seconds - seconds.mean()) ** 2).sum())
    per_row = seconds / rows
    table = Table(
        name="stream-time",
        title=f"Time of survey and sample by rows, {COLUMNS} float64 columns",
        shown=("rows", "survey s", "sample s", "both s", "CPU s", "ns/row", "plan s", "M rows/s of a pass"),
        remarks=[
            f"Wall seconds on all cores, smallest of {RUNS} runs in a fresh process for each size: two passes of the "
            "survey and one of the sample. Planning, which does not depend on the rows, is beside it.",
            f"R^2 of a straight line {explained:.5f}; time per row at {rows[-1]:,.0f} rows over that at "
            f"{rows[0]:,.0f}: {per_row[-1] / per_row[0]:.3f}.",
        ],
    )
    for (n_rows, one), both in zip(by_size.items(), seconds, strict=True):
        table.rows.append(
            {
                "rows": n_rows,
                "survey s": one["survey"],
                "sample s": one["sample"],
                "both s": float(both),
                "CPU s": one["cpu"],
                "ns/row": 1e9 * float(both) / n_rows,
                "plan s": one["plan"],
                "M rows/s of a pass": 4e-6 * n_rows / float(both),
                "R2": explained,
            }
        )
    return table


def job(files: list[str], sample_size: float) -> dict[str, float]:
    """Smallest seconds of each stage, and the peak."""
    engine = pais.source(pa_dataset.dataset(files))
    found = {"survey": float("inf"), "plan": float("inf"), "sample": float("inf"), "cpu": float("inf")}
    for _ in range(RUNS):
        used, times = time.process_time(), [time.perf_counter()]
        surveyed = pais.survey(engine, epsilon=SURVEY_SHARE * EPSILON)
        times.append(time.perf_counter())
        planning = time.process_time()
        plan = pais.plan_kmeans(
            n_clusters=N_CLUSTERS,
            n_features=COLUMNS,
            epsilon=(1.0 - SURVEY_SHARE) * EPSILON,
            delta=DELTA,
            ball=surveyed.ball,
            norms=surveyed.norms,
            sample_size=sample_size,
        )
        times.append(time.perf_counter())
        used += time.process_time() - planning
        pais.sample(engine, ball=plan.ball, rule=plan.rule)
        times.append(time.perf_counter())
        taken = [*np.diff(times).tolist(), time.process_time() - used]
        found = {stage: min(best, now) for (stage, best), now in zip(found.items(), taken, strict=True)}
    return {**found, "peak": resident_bytes("VmHWM")}
