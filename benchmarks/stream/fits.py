"""A whole fit of a Parquet file against decoding the file once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pais
from benchmarks.stream import child
from benchmarks.stream.bench import PREFIX, Bench
from benchmarks.stream.data import COLUMNS, Kind
from benchmarks.stream.passes import DECODE, decode
from benchmarks.tables import Table, verdict
from benchmarks.timing import Run, compared, interleaved

SHARE = 0.2
EPSILON, DELTA, N_CLUSTERS = 1.0, 1e-7, 25
STATED, SURVEYED = "fit, radius, center and norms stated", "fit, nothing stated"
TARGETS = {STATED: 1.6, SURVEYED: 2.5}
READS_TARGETS = {STATED: 1.0, SURVEYED: 3.0}
KINDS: dict[Kind, str] = {"mixture": "mixture of Gaussian groups, plain", "integers": "integers 0 to 9, dictionary"}


def tables(bench: Bench) -> Iterator[Table]:
    n_rows = round(SHARE * bench.rows)
    table = Table(
        name="fits",
        prefix=PREFIX,
        title=f"Fits of a Parquet file against decoding it once: {n_rows:,} x {COLUMNS} float64, zstd",
        shown=(
            *("data", "job", "times read", "reads target", "reads result", "ms", "its ms", "quartiles", "of minima"),
            *("ratio", "target", "result"),
        ),
        remarks=[
            f"{bench.repeats} turns in a shuffled order, in one process on all cores. Ratio: the median of the ratios "
            "to bare decoding in a turn, with their quartiles; its ms: bare decoding, as in the table of passes.",
            f"k = {N_CLUSTERS}, epsilon {EPSILON:g}, delta {DELTA:g}, the size of the sample that the plan chooses, "
            "secure randomness. Epsilon differs from turn to turn by a millionth, so that no plan is reused.",
            "times read: rows that the engine read over the rows of the file.",
        ],
    )
    for kind, title in KINDS.items():
        rows = bench.single(kind, n_rows)
        with bench.steps(f"fits of {kind}", bench.repeats) as on_step:
            lines = child.run("fits", on_step, file=rows.files()[0], n_rows=n_rows, repeats=bench.repeats)
        rows.remove()
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
    times = interleaved(jobs, _steps(repeats))
    return {
        name: {"times read": _reads(file, known) / n_rows, **compared(times[name], times[DECODE])}
        for name, known in settings.items()
    }


def _fit(file: str, settings: pais.KMeansSettings, turn: int) -> object:
    return pais.fit(file, replace(settings, epsilon=EPSILON + 1e-6 * turn))


def _reads(file: str, settings: pais.KMeansSettings) -> int:
    rows: list[int] = []
    pais.fit(pais.source(file, on_rows=rows.append), settings)
    return sum(rows)


def _steps(repeats: int) -> Iterator[int]:
    for turn in range(repeats):
        yield turn
        child.step()
