"""The command line from end to end: a directory of files in, a release out."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.stream import child
from benchmarks.stream.bench import PREFIX, Bench
from benchmarks.stream.data import COLUMNS, public_radius
from benchmarks.tables import Table

SETTINGS = ("--n-clusters", "25", "--epsilon", "1", "--delta", "1e-7")


def tables(bench: Bench) -> Iterator[Table]:
    rows = bench.mixture()
    table = Table(
        name="command",
        prefix=PREFIX,
        title=f"pais kmeans from end to end: {bench.rows:,} x {COLUMNS} float64 in {rows.n_files} Parquet files",
        shown=("command", "seconds", "rows/s", "peak MB"),
        remarks=[
            f"`pais kmeans DIR {' '.join(SETTINGS)} ...`: wall time of the process from its start to its end, with "
            "imports, survey, plan, sample, rounds, certificate and report; secure randomness. One run each.",
            "Peak: resident memory (VmHWM). A stated radius is about the origin, and the norms are surveyed.",
            "The plan chooses the size of the sample. Free: as few rows as cost no extra noise, a share of all rows, "
            "which is held in memory and gone over in every round.",
        ],
    )
    ways: dict[str, tuple[str, ...]] = {
        "stated radius": ("--radius", repr(public_radius())),
        "private survey": (),
        "private survey, free sample": ("--sample-size", "free"),
    }
    with bench.steps("pais kmeans", len(ways)) as on_step:
        for name, more in ways.items():
            with tempfile.TemporaryDirectory(dir=bench.cache) as out:
                words = ["kmeans", str(rows.directory), *SETTINGS, *more, "--out", out, "--overwrite", "--quiet"]
                start = time.perf_counter()
                found = child.run("command", on_step, words=words)
                seconds = time.perf_counter() - start
            table.rows.append(
                {
                    "command": name,
                    "seconds": seconds,
                    "rows/s": round(bench.rows / seconds),
                    "peak MB": found["peak"] / 1e6,
                }
            )
    yield table


def job(words: list[str]) -> dict[str, Any]:
    """What the script `pais` does, and the peak of its process."""
    from pais.cli.app import main

    sys.argv = ["pais", *words]
    try:
        main()
    except SystemExit as end:
        if end.code:
            raise RuntimeError(f"pais ended with {end.code}") from None
    if not Path(words[words.index("--out") + 1], "certificate.json").exists():
        raise RuntimeError("pais wrote no certificate")
    child.step()
    return {"peak": child.peak_bytes()}
