"""The command line from end to end: a directory of files in, a release out; also with people that have many rows."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.progress import Progress

from benchmarks.stream.data import COLUMNS, mixture, public_radius
from benchmarks.tables import Table

SETTINGS = ("--n-clusters", "25", "--epsilon", "1", "--delta", "1e-7")

# People: the share of the rows that are written, rows of a person, runs, files, and rows of a row group.
PEOPLE_SHARE, ROWS_OF_PERSON, PEOPLE_RUNS, FILES, GROUP_ROWS = 0.2, 10, 2, 10, 1 << 19
FEATURES = tuple(f"x{column}" for column in range(6))


def command(rows: Path, *options: str) -> tuple[float, float, float]:
    """Seconds, seconds of all processors, and the most memory of one run of `pais kmeans`."""
    with tempfile.TemporaryDirectory(dir=rows.parent) as out:
        line = [sys.executable, "-m", "pais", "kmeans", str(rows), "--out", out, "--overwrite", "--quiet", *options]
        start = time.perf_counter()
        process = subprocess.Popen(line)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode or not Path(out, "certificate.json").exists():
            raise SystemExit(f"pais kmeans ended with exit code {process.returncode}")
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024.0


def tables(options: argparse.Namespace, progress: Progress) -> Iterator[Table]:
    rows = mixture(options, progress)
    table = Table(
        name="stream-command",
        title=f"pais kmeans from end to end: {options.rows:,} x {COLUMNS} float64 in {rows.n_files} Parquet files",
        shown=("command", "seconds", "rows/s", "peak MB"),
        remarks=[
            f"`pais kmeans DIR {' '.join(SETTINGS)} ...`: wall time of the process from its start to its end, with "
            "imports, survey, plan, sample, rounds, certificate and report; secure randomness. One run each.",
            "Peak: resident memory. A stated radius is about the origin, and the norms are surveyed.",
            "The plan chooses the size of the sample. Free: as few rows as cost no extra noise, a share of all rows, "
            "which is held in memory and gone over in every round.",
        ],
    )
    ways: dict[str, tuple[str, ...]] = {
        "stated radius": ("--radius", repr(public_radius())),
        "private survey": (),
        "private survey, free sample": ("--sample-size", "free"),
    }
    for name, more in ways.items():
        seconds, _, peak = command(rows.directory, *SETTINGS, *more)
        speed = round(options.rows / seconds)
        table.rows.append({"command": name, "seconds": seconds, "rows/s": speed, "peak MB": peak / 1e6})
    yield table


def people_tables(options: argparse.Namespace, progress: Progress) -> Iterator[Table]:
    """The same command with `--unit` and without it, on rows of people that are scattered over files."""
    n_rows = round(PEOPLE_SHARE * options.rows)
    n_people = n_rows // ROWS_OF_PERSON
    table = Table(
        name="people-scale",
        title="k-means of rows and of people",
        shown=(
            *("protects", "seconds", "range", "CPU seconds", "peak GiB", "times the seconds"),
            "times the CPU seconds",
        ),
        remarks=[
            f"{n_rows:,} rows of {n_people:,} people in {FILES} Parquet files, {len(FEATURES)} columns; the rows of a "
            "person are scattered over all files. `pais kmeans --n-clusters 8 --epsilon 1`, with a survey.",
            f"Medians of {PEOPLE_RUNS} runs, and their range, each in a new process; the two commands alternate.",
        ],
    )
    settings = ("--n-clusters", "8", "--epsilon", "1", "--columns", ",".join(FEATURES))
    ways: dict[str, tuple[str, ...]] = {"rows": (), "people": ("--unit", "customer_id")}
    runs: dict[str, list[tuple[float, float, float]]] = {who: [] for who in ways}
    with tempfile.TemporaryDirectory(dir=options.cache) as place:
        rows = Path(place) / "rows"
        write_people(rows, n_rows, n_people)
        for _ in range(PEOPLE_RUNS):
            for who, more in ways.items():
                runs[who].append(command(rows, *settings, *more))
    base = np.median(runs["rows"], axis=0)
    for who, found in runs.items():
        wall, cpu, peak = np.median(found, axis=0).tolist()
        table.rows.append(
            {
                "protects": who,
                "seconds": wall,
                "range": f"{min(found)[0]:.3g} to {max(found)[0]:.3g}",
                "CPU seconds": cpu,
                "peak GiB": peak / 2.0**30,
                "times the seconds": wall / float(base[0]),
                "times the CPU seconds": cpu / float(base[1]),
            }
        )
    yield table


def write_people(place: Path, n_rows: int, n_people: int) -> None:
    """Eight groups of people, whose rows are near each other. Any row may be in any file."""
    place.mkdir()
    rng = np.random.default_rng(0)
    home = 3.0 * rng.normal(size=(8, len(FEATURES)))[rng.integers(0, 8, n_people)]
    for number in range(FILES):
        who = rng.integers(0, n_people, n_rows // FILES)
        rows = home[who] + rng.normal(size=(who.size, len(FEATURES)))
        columns = {"customer_id": who + 10**9, **dict(zip(FEATURES, rows.T, strict=True))}
        pq.write_table(pa.table(columns), place / f"part-{number}.parquet", row_group_size=GROUP_ROWS)
