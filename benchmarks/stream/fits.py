"""A fit from Parquet against decoding the file once: with all facts stated, and with a survey."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pais
from benchmarks.stream import child
from benchmarks.stream.bench import PREFIX, Bench
from benchmarks.stream.data import COLUMNS
from benchmarks.stream.passes import DECODE, DELTA, EPSILON, N_CLUSTERS, decode
from benchmarks.tables import Table, verdict
from benchmarks.timing import compared, interleaved

#: Rows of the files.
SIZES = (2_000_000, 10_000_000)
STATED, SURVEYED = "fit, facts stated", "fit with a survey"
TARGETS = {STATED: 1.6, SURVEYED: 2.5}


def tables(bench: Bench) -> Iterator[Table]:
    table = Table(
        name="fits",
        prefix=PREFIX,
        title=f"Fits from a Parquet file against decoding it once: {COLUMNS} float64 columns, zstd",
        shown=("rows", "job", "reads", "ms", "ms, quartiles", "ratio", "quartiles", "of work", "target", "result"),
        remarks=[
            f"A default fit, k = {N_CLUSTERS}, epsilon {EPSILON:g}, delta {DELTA:g}, secure randomness; the plan "
            "chooses the size of the sample. Facts: radius, center and norms. All cores.",
            "Medians and quartiles of jobs that take turns in one process. Ratio: to bare decoding in the same turn. "
            "Of work: ratio of CPU seconds. Reads: rows read over rows of the file.",
        ],
    )
    for n_rows in (size for size in SIZES if size <= max(bench.rows, SIZES[0])):
        rows = bench.single("mixture", min(n_rows, bench.rows))
        with bench.steps(f"fits of {n_rows:,} rows", bench.repeats) as on_step:
            answer = child.run("fits", on_step, file=rows.files()[0], n_rows=rows.n_rows, repeats=bench.repeats)
        for job, cells in answer.items():
            target = TARGETS.get(job)
            table.rows.append(
                {
                    "rows": rows.n_rows,
                    "job": job,
                    **cells,
                    "target": target,
                    "result": verdict(cells["ratio"], target),
                }
            )
    yield table


def job(file: str, n_rows: int, repeats: int) -> dict[str, Any]:
    """Times of the jobs, ratios to decoding, and how often each reads the rows."""
    settings = pais.KMeansSettings(n_clusters=N_CLUSTERS, epsilon=EPSILON, delta=DELTA)
    fit = pais.private_kmeans(file, settings)
    assert fit.survey is not None
    ball = fit.plan.ball
    stated = replace(settings, radius=ball.radius, center=ball.center, norms=fit.survey.norms)
    read: dict[str, int] = {DECODE: n_rows}

    def run(name: str, chosen: pais.KMeansSettings, turn: int) -> None:
        read[name] = 0

        def count(batch: int) -> None:
            read[name] += batch

        # Another epsilon in every turn: no plan is remembered.
        pais.private_kmeans(pais.source(file, on_rows=count), replace(chosen, epsilon=EPSILON * (1.0 + 1e-6 * turn)))
        child.step()

    jobs = {
        DECODE: lambda _: decode(file),
        STATED: lambda turn: run(STATED, stated, turn),
        SURVEYED: lambda turn: run(SURVEYED, settings, turn),
    }
    times = interleaved(jobs, range(1, repeats + 1))
    return {name: {"reads": read[name] / n_rows, **compared(times[name], times[DECODE])} for name in jobs}
