"""Streaming: fits of files against decoding, memory and time by rows, the command line, people, Spark.

``python -m benchmarks.stream --rows 1_000_000`` for a look, without ``--rows`` for the record, on a quiet machine: the
largest set has 50 million rows, 6.4 GB on the disk. Linux only: it reads /proc.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
from rich.progress import Progress

from benchmarks.stream import command, fits, scale, spark
from benchmarks.tables import Table, parser, run

PARTS: dict[str, Callable[[argparse.Namespace, Progress], Iterator[Table]]] = {
    "fits": fits.tables,
    "scale": scale.tables,
    "command": command.tables,
    "people": command.people_tables,
    "spark": spark.tables,
}


def tables(options: argparse.Namespace, progress: Progress) -> Iterator[Table]:
    for name in progress.track(options.only, description="streaming"):
        for table in PARTS[name](options, progress):
            load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
            table.remarks.append(
                f"pyarrow {pa.__version__}; load average (1, 5, 15 min) when the table was written: {load}."
            )
            yield table


def main() -> None:
    made = parser(__doc__, only=tuple(PARTS))
    made.add_argument("--rows", type=int, default=50_000_000, help="rows of the largest set; others are shares")
    made.add_argument("--repeats", type=int, default=9, help="turns of fits against decoding")
    made.add_argument("--keep", action="store_true", help="keep the rows for another run")
    made.set_defaults(cache=Path("out/bench-stream"))
    options = made.parse_args()
    options.cache.mkdir(parents=True, exist_ok=True)
    run(options, tables)
    if not options.keep:
        shutil.rmtree(options.cache, ignore_errors=True)


if __name__ == "__main__":
    # As Ctrl-C: the children are ended too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        main()
    except KeyboardInterrupt:
        # Files that are complete stay for the next run.
        sys.exit(130)
