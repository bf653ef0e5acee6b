"""Time and memory of `pais kmeans` with `--unit` and without it, on rows of people that are scattered over files.

``python -m benchmarks.people_scale`` writes 20 million rows of 2 million people (1.1 GB) to a scratch directory, runs
the command line in a new process for each line of the table, and removes the rows. ``--index 100_000_000``
measures an index of so many people alone, which takes about 6 GB.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console

from benchmarks.state import source_state
from benchmarks.stream.bench import surroundings
from benchmarks.stream.child import peak_bytes
from benchmarks.tables import Cell, Table
from pais.data.engines.blocks import RowBlock
from pais.data.engines.local import Members
from pais.data.units import Unit

_FEATURES = tuple(f"x{column}" for column in range(6))
_FILES, _GROUP = 10, 1 << 19
_WAYS: dict[str, list[str]] = {"rows": [], "people": ["--unit", "customer_id"]}
_GIB = 2.0**30


def main() -> None:
    options = arguments()
    console = Console(highlight=False)
    if options.index:
        console.print(index_line(options.index))
        return
    shown = ("protects", "seconds", "range", "CPU seconds", "peak GiB", "times the seconds", "times the CPU seconds")
    table = Table(name="people-scale", title="k-means of rows and of people", shown=shown, prefix="")
    with tempfile.TemporaryDirectory(dir=options.scratch) as place:
        write_rows(Path(place) / "rows", options.rows, options.people)
        table.rows = measured(Path(place), options.repeats)
    table.remarks += [
        f"{options.rows:,} rows of {options.people:,} people in {_FILES} Parquet files, {len(_FEATURES)} columns; the "
        "rows of a person are scattered over all files. `pais kmeans --n-clusters 8 --epsilon 1`, with a survey.",
        f"Medians of {options.repeats} runs, and their range, each in a new process; the two commands alternate.",
        surroundings(),
        f"Measured at {source_state()}.",
    ]
    table.publish(options.out, console)


def write_rows(place: Path, n_rows: int, n_people: int) -> None:
    """Eight groups of people, whose rows are near each other. Any row may be in any file."""
    place.mkdir()
    rng = np.random.default_rng(0)
    home = 3.0 * rng.normal(size=(8, len(_FEATURES)))[rng.integers(0, 8, n_people)]
    for number in range(_FILES):
        who = rng.integers(0, n_people, n_rows // _FILES)
        rows = home[who] + rng.normal(size=(who.size, len(_FEATURES)))
        columns = {"customer_id": who + 10**9, **dict(zip(_FEATURES, rows.T, strict=True))}
        pq.write_table(pa.table(columns), place / f"part-{number}.parquet", row_group_size=_GROUP)


def measured(place: Path, repeats: int) -> list[dict[str, Cell]]:
    runs: dict[str, list[tuple[float, float, float]]] = {who: [] for who in _WAYS}
    for _ in range(repeats):
        for who, results in runs.items():
            results.append(command(place, _WAYS[who]))
    medians = {who: np.median(results, axis=0) for who, results in runs.items()}
    seconds, processor, _ = medians["rows"]
    return [
        {
            "protects": who,
            "seconds": float(wall),
            "range": f"{min(runs[who])[0]:.3g} to {max(runs[who])[0]:.3g}",
            "CPU seconds": float(cpu),
            "peak GiB": float(peak) / _GIB,
            "times the seconds": float(wall / seconds),
            "times the CPU seconds": float(cpu / processor),
        }
        for who, (wall, cpu, peak) in medians.items()
    ]


def command(place: Path, options: list[str]) -> tuple[float, float, float]:
    """Seconds, seconds of all processors, and the most memory of one run of the command line."""
    line = [sys.executable, "-m", "pais", "kmeans", str(place / "rows"), "--columns", ",".join(_FEATURES)]
    line += ["--n-clusters", "8", "--epsilon", "1", "--out", str(place / "out"), "--overwrite", "--quiet", *options]
    start = time.perf_counter()
    process = subprocess.Popen(line)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"pais kmeans ended with exit code {process.returncode}")
    return time.perf_counter() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024.0


def index_line(n_people: int) -> str:
    """Memory of an index of so many people, and the time to add and to find them."""
    before, start, members = peak_bytes(), time.perf_counter(), Members(Unit(column="customer_id"))
    step = 1 << 20
    blocks = range(0, n_people, step)
    for first in blocks:
        block = RowBlock(np.zeros((min(step, n_people - first), 1)), np.zeros(min(step, n_people - first), np.uint64))
        # A person's number is spread over 64 bits, so that the index sees no order.
        who = np.arange(first, first + block.n_rows, dtype=np.int64) * 0x9E3779B97F4A7C1 % (1 << 62)
        block.units = pa.array(who)
        members.add(block)
    members.finish()
    added, peak = time.perf_counter() - start, peak_bytes() - before
    return (
        f"{members.size:,} people: {peak / _GIB:.2f} GiB, {peak / members.size:.0f} bytes each; "
        f"{1e9 * added / n_people:.0f} ns to add one"
    )


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--people", type=int, default=2_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--index", type=int, default=0, help="measure an index of so many people instead")
    parser.add_argument("--scratch", type=Path, default=None, help="where the rows are written")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    return parser.parse_args()


if __name__ == "__main__":
    main()
