"""Each pass of a fit against bare decoding of the same columns, on one core and on two."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow.parquet as pq
from numpy.typing import NDArray

import pais
from benchmarks.stream import child
from benchmarks.stream.bench import PREFIX, Bench, at_least
from benchmarks.stream.data import COLUMNS, GROUP_ROWS, Kind
from benchmarks.tables import Table, verdict
from pais._base.randomness import BitSource, bit_source
from pais._base.threads import in_threads
from pais.data.engines.base import Engine, Fold, Sampling, WeightedRows
from pais.data.engines.files import _BATCH_ROWS as BATCH_ROWS

LARGEST = 1 << 21
EPSILON, DELTA, N_CLUSTERS = 1.0, 1e-6, 25
CORESET_SHARE = 0.02
TARGETS: dict[Kind, float] = {"normals": 1.2, "integers": 1.6}
TITLES: dict[Kind, str] = {"normals": "random normals, plain", "integers": "integers 0 to 9, dictionary"}
TWO_CORES_TARGET = 1.6

DECODE = "bare decode"
SURVEY_PASSES = ("octaves and sums about the origin", "histogram about the center")
CHOSEN, FREE, CORESET = "thin, size that the plan chooses", "thin, free size", "thin, coreset 2 %"
PASSES = (*SURVEY_PASSES, CHOSEN, FREE, CORESET)
#: Means over the passes of a fit: with the size of a default fit, and with the free one.
MEANS = {
    "mean of survey and chosen thin": (*SURVEY_PASSES, CHOSEN),
    "mean of survey and free thin": (*SURVEY_PASSES, FREE),
}


def tables(bench: Bench) -> Iterator[Table]:
    n_rows = min(bench.rows, LARGEST)
    ratios, threads = _ratios_table(n_rows, bench.repeats), _threads_table(n_rows, bench.repeats)
    for kind in TARGETS:
        rows = bench.single(kind, n_rows)
        with bench.steps(f"passes over {kind}", bench.repeats) as on_step:
            found = child.run("passes", on_step, file=rows.files()[0], n_rows=n_rows, repeats=bench.repeats)
        ratios.remarks.append(
            f"{TITLES[kind]}: the plan chooses {found['chosen_share']:.2%} of the rows, and {found['free_share']:.2%} "
            f"are free; share that the first 8 bits of a draw leave {found['screened_share']:.3g} (free "
            f"{found['free_screened_share']:.3g}, coreset {found['coreset_screened_share']:.3g})."
        )
        _add_ratios(ratios, kind, found["cpu"], found["wall"], n_rows)
        _add_threads(threads, kind, found["wall"], n_rows)
    yield ratios
    if threads.rows:
        yield threads


def _ratios_table(n_rows: int, repeats: int) -> Table:
    return Table(
        name="passes",
        prefix=PREFIX,
        title=f"Passes over Parquet against bare decoding: {n_rows:,} x {COLUMNS} float64, zstd, one core",
        shown=("data", "pass", "CPU ns/row", "wall ns/row", "CPU ratio", "wall ratio", "target", "result"),
        remarks=[
            f"Smallest of {repeats} runs, all jobs taking turns in one process pinned to one core. Results are by CPU "
            "time, which other work on the machine disturbs less.",
            f"Row groups of {GROUP_ROWS:,} rows. Bare decoding is pyarrow's iter_batches, row group by row group, "
            f"{BATCH_ROWS:,} rows a batch, pre_buffer=False, use_threads=False; no number is looked at.",
            f"Folds and rules are those that a default fit (k = {N_CLUSTERS}, epsilon {EPSILON:g}, delta {DELTA:g}, "
            "private survey) asked its engine for; secure draws.",
            "The free size has no target: it keeps about half of the rows, and a whole secure draw for every row and a "
            "copy of half of them take more time than a target near bare decoding leaves. Fits of files have targets.",
        ],
    )


def _threads_table(n_rows: int, repeats: int) -> Table:
    return Table(
        name="threads",
        prefix=PREFIX,
        title=f"Two cores against one: {n_rows:,} x {COLUMNS} float64, zstd",
        shown=("data", "pass", "one core, wall ns/row", "two cores, wall ns/row", "one / two", "target", "result"),
        remarks=[
            f"Smallest of {repeats} runs each, taking turns in one process that is pinned to one core, then to two.",
            "Bare decoding on two threads, in which no Python runs, is what the machine gives.",
        ],
    )


def _add_ratios(
    table: Table, kind: Kind, cpu: dict[str, list[float]], wall: dict[str, list[float]], n_rows: int
) -> None:
    for name, used in _lines():
        seconds = sum(cpu[one][0] for one in used) / len(used)
        clock = sum(wall[one][0] for one in used) / len(used)
        ratio, target = seconds / cpu[DECODE][0], None if DECODE in used or FREE in used else TARGETS[kind]
        table.rows.append(
            {
                "data": TITLES[kind],
                "pass": name,
                "CPU ns/row": 1e9 * seconds / n_rows,
                "wall ns/row": 1e9 * clock / n_rows,
                "CPU ratio": ratio,
                "wall ratio": clock / wall[DECODE][0],
                "target": target,
                "result": verdict(ratio, target),
            }
        )


def _add_threads(table: Table, kind: Kind, wall: dict[str, list[float]], n_rows: int) -> None:
    if len(wall[DECODE]) < 2:
        return
    for name, used in _lines():
        one, two = (sum(wall[part][place] for part in used) / len(used) for place in (0, 1))
        reference = name == DECODE
        table.rows.append(
            {
                "data": TITLES[kind],
                "pass": name,
                "one core, wall ns/row": 1e9 * one / n_rows,
                "two cores, wall ns/row": 1e9 * two / n_rows,
                "one / two": one / two,
                "target": None if reference else TWO_CORES_TARGET,
                "result": "reported" if reference else at_least(one / two, TWO_CORES_TARGET),
            }
        )


def _lines() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Lines of a table, and the jobs each is the mean of."""
    yield from ((name, (name,)) for name in (DECODE, *PASSES))
    yield from MEANS.items()


class Recorder(Engine):
    """An engine that notes what is asked of it, so that each pass can be repeated alone."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.names, self.n_features = engine.names, engine.n_features
        self.folds: list[Fold] = []
        self.samplings: list[Sampling] = []

    def fold(self, fold: Fold, *, seeded: bool) -> NDArray[Any]:
        self.folds.append(fold)
        return self.engine.fold(fold, seeded=seeded)

    def sample(self, sampling: Sampling, bits: BitSource) -> WeightedRows:
        self.samplings.append(sampling)
        return self.engine.sample(sampling, bits)


def job(file: str, n_rows: int, repeats: int) -> dict[str, Any]:
    """Smallest CPU and wall seconds of every pass: on one core, and on two where there are two."""
    engine = pais.source(file)
    recorder = Recorder(engine)
    settings = pais.KMeansSettings(n_clusters=N_CLUSTERS, epsilon=EPSILON, delta=DELTA)
    chosen = pais.fit(recorder, settings)
    folds = tuple(recorder.folds)
    free = pais.fit(recorder, replace(settings, sample_size="free"))
    assert chosen.survey is not None
    known, ball = chosen.survey.norms, chosen.plan.ball
    coreset = pais.CoresetRule(
        sample_size=CORESET_SHARE * n_rows,
        n_rows=known.n_rows,
        mean_square_norm=known.mean_square_norm,
        radius=ball.radius,
    )
    pais.sample(recorder, ball=ball, rule=coreset)
    samplings = dict(zip((CHOSEN, FREE, CORESET), recorder.samplings, strict=True))
    jobs: dict[str, Callable[[], object]] = {
        DECODE: lambda: decode(file),
        **{name: partial(engine.fold, fold, seeded=False) for name, fold in zip(SURVEY_PASSES, folds, strict=True)},
        **{name: partial(_thinned, engine, sampling) for name, sampling in samplings.items()},
    }
    cpu, wall = interleaved(jobs, repeats)
    return {
        "cpu": cpu,
        "wall": wall,
        "chosen_share": (chosen.plan.expected_rows or 0.0) / n_rows,
        "free_share": (free.plan.expected_rows or 0.0) / n_rows,
        "screened_share": samplings[CHOSEN].screen(COLUMNS).share,
        "free_screened_share": samplings[FREE].screen(COLUMNS).share,
        "coreset_screened_share": samplings[CORESET].screen(COLUMNS).share,
    }


def _thinned(engine: Engine, sampling: Sampling) -> WeightedRows:
    return engine.sample(sampling, bit_source(None))


def decode(file: str) -> None:
    """Decode a file as the engine does, and no more."""
    metadata = pq.read_metadata(file)

    def of_group(group: int) -> None:
        with pq.ParquetFile(file, metadata=metadata, pre_buffer=False) as one:
            for _ in one.iter_batches(BATCH_ROWS, row_groups=[group], use_threads=False):
                pass

    in_threads(of_group, range(metadata.num_row_groups))


def interleaved(
    jobs: dict[str, Callable[[], object]], repeats: int
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Smallest CPU and wall seconds of the jobs, on one core and, where there are two, on two."""
    allowed = sorted(os.sched_getaffinity(0))
    counts = range(1, min(2, len(allowed)) + 1)
    cpu = {name: [float("inf")] * len(counts) for name in jobs}
    wall = {name: [float("inf")] * len(counts) for name in jobs}
    for _ in range(repeats):
        for place, count in enumerate(counts):
            with pinned(allowed[-count:]):
                for name, run in jobs.items():
                    used, start = time.process_time(), time.perf_counter()
                    run()
                    wall[name][place] = min(wall[name][place], time.perf_counter() - start)
                    cpu[name][place] = min(cpu[name][place], time.process_time() - used)
        child.step()
    return cpu, wall


@contextmanager
def pinned(cores: Sequence[int]) -> Iterator[None]:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
