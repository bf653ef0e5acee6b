"""A whole fit of a Parquet file against decoding the file once."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow.parquet as pq
from rich.progress import Progress

import pais
from benchmarks.stream import child
from benchmarks.stream.data import COLUMNS, Kind, Rows
from benchmarks.tables import Table, verdict
from benchmarks.timing import Run, compared, interleaved
from pais._base.threads import in_threads
from pais.data.engines.files import _BATCH_ROWS as BATCH_ROWS

SHARE = 0.2
EPSILON, DELTA, N_CLUSTERS = 1.0, 1e-7, 25
DECODE = "bare decode"
STATED, SURVEYED = "fit, radius, center and norms stated", "fit, nothing stated"
TARGETS = {STATED: 1.6, SURVEYED: 2.5}
READS_TARGETS = {STATED: 1.0, SURVEYED: 3.0}
KINDS: dict[Kind, str] = {"mixture": "mixture of Gaussian groups, plain", "integers": "integers 0 to 9, dictionary"}


def tables(options: argparse.Namespace, progress: Progress) -> Iterator[Table]:
    n_rows = round(SHARE * options.rows)
    table = Table(
        name="stream-fits",
        title=f"Fits of a Parquet file against decoding it once: {n_rows:,} x {COLUMNS} float64, zstd",
        shown=(
            *("data", "job", "times read", "reads target", "reads result", "ms", "its ms", "quartiles", "of minima"),
            *("ratio", "target", "result"),
        ),
        remarks=[
            f"{options.repeats} turns in a shuffled order, in one process on all cores. Ratio: the median of the "
            "ratios to bare decoding in a turn, with their quartiles; its ms: bare decoding, which is pyarrow's "
            "iter_batches, row group by row group, without a look at any number.",
            f"k = {N_CLUSTERS}, epsilon {EPSILON:g}, delta {DELTA:g}, the size of the sample that the plan chooses, "
            "secure randomness. Epsilon differs from turn to turn by a millionth, so that no plan is reused.",
            "times read: rows that the engine read over the rows of the file.",
        ],
    )
    for kind, title in KINDS.items():
        rows = Rows(kind=kind, n_rows=n_rows, n_files=1, cache=options.cache).written(progress)
        lines = child.run("fits", file=rows.files()[0], n_rows=n_rows, repeats=options.repeats)
        shutil.rmtree(rows.directory)
        for job, cells in lines.items():
            reads, ratio = cells["times read"], cells["ratio"]
            table.rows.append(
                {
                    "data": title,
                    "job": job,
                    **cells,
                    "reads target": READS_TARGETS[job],
                    "reads result": verdict(reads, READS_TARGETS[job]),
                    "target": TARGETS[job],
                    "result": verdict(ratio, TARGETS[job]),
                }
            )
    yield table


def job(file: str, n_rows: int, repeats: int) -> dict[str, Any]:
    """Ratios of both fits to decoding, and how often each reads the file."""
    surveyed = pais.KMeansSettings(n_clusters=N_CLUSTERS, epsilon=EPSILON, delta=DELTA)
    fit = pais.fit(file, surveyed)
    assert fit.survey is not None
    ball = fit.plan.ball
    stated = replace(surveyed, radius=ball.radius, center=ball.center, norms=fit.survey.norms)
    settings = {STATED: stated, SURVEYED: surveyed}
    jobs: dict[str, Run] = {DECODE: lambda _: decode(file)}
    jobs |= {name: partial(_fit, file, known) for name, known in settings.items()}
    times = interleaved(jobs, range(repeats))
    return {
        name: {"times read": _reads(file, known) / n_rows, **compared(times[name], times[DECODE])}
        for name, known in settings.items()
    }


def decode(file: str) -> None:
    """Decode a file as the engine does, and no more."""
    metadata = pq.read_metadata(file)

    def of_group(group: int) -> None:
        with pq.ParquetFile(file, metadata=metadata, pre_buffer=False) as one:
            for _ in one.iter_batches(BATCH_ROWS, row_groups=[group], use_threads=False):
                pass

    in_threads(of_group, range(metadata.num_row_groups))


def _fit(file: str, settings: pais.KMeansSettings, turn: int) -> object:
    return pais.fit(file, replace(settings, epsilon=EPSILON + 1e-6 * turn))


def _reads(file: str, settings: pais.KMeansSettings) -> int:
    rows: list[int] = []
    pais.fit(pais.source(file, on_rows=rows.append), settings)
    return sum(rows)
