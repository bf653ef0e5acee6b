"""Streaming: passes and fits against decoding, threads, memory and time by rows, the command line, Spark, a simulation.

``python -m benchmarks.stream --rows 1_000_000`` for a look, without ``--rows`` for the record, on a quiet machine: the
largest set has 50 million rows, 6.4 GB on the disk. Linux only: it pins cores and reads /proc.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from benchmarks.state import source_state
from benchmarks.stream import command, fits, passes, scale, simulate, spark
from benchmarks.stream.bench import Bench, surroundings
from benchmarks.stream.child import ChildError
from benchmarks.stream.data import DiskError
from benchmarks.tables import Table

PARTS: dict[str, Callable[[Bench], Iterator[Table]]] = {
    "passes": passes.tables,
    "fits": fits.tables,
    "scale": scale.tables,
    "command": command.tables,
    "spark": spark.tables,
    "simulate": simulate.tables,
}
SMALLEST = 100_000


def main() -> int:
    options = arguments()
    console = Console(highlight=False)
    cache = options.cache / "rows"
    cache.mkdir(parents=True, exist_ok=True)
    state, failed = source_state(), 0
    # Drawn rarely: the bar shares the cores with what is measured.
    with progress_bar(console) as progress:
        bench = Bench(rows=options.rows, repeats=options.repeats, cache=cache, console=console, progress=progress)
        for name in options.parts:
            try:
                for table in PARTS[name](bench):
                    table.remarks += [surroundings(), f"Measured at {state}."]
                    table.publish(options.out, console)
            except (ChildError, DiskError) as error:
                failed = 1
                console.print(f"{name} did not finish: {error}", markup=False)
    if options.keep:
        console.print(f"The rows are kept in {cache}; another run uses them again.", markup=False)
    else:
        shutil.rmtree(cache, ignore_errors=True)
    return failed


def progress_bar(console: Console) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    return Progress(
        *columns, TimeElapsedColumn(), TimeRemainingColumn(), console=console, transient=True, refresh_per_second=1
    )


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=row_count, default=50_000_000, help="rows of the largest set; others are shares")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), help="what is measured; default all")
    parser.add_argument("--repeats", type=int, default=9, help="runs of each pass")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"), help="where the tables are written")
    parser.add_argument("--cache", type=Path, default=Path("out/bench-stream"), help="where the rows are written")
    parser.add_argument("--keep", action="store_true", help="keep the rows for another run")
    return parser.parse_args()


def row_count(text: str) -> int:
    rows = int(text)
    if rows < SMALLEST:
        raise argparse.ArgumentTypeError(f"{rows} is below {SMALLEST:,}")
    return rows


if __name__ == "__main__":
    # As Ctrl-C: the children are ended too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        # Files that are complete stay for the next run.
        sys.exit(130)
