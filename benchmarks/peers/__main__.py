"""Cost and seconds of other packages beside ours, on the same rows: prints the table and writes it.

Environments are made once, in the cache. A package that cannot be installed here has a row that says so. Seeded runs
are not private; they are here to be repeated.
"""

from __future__ import annotations

import argparse

from rich.console import Console
from rich.progress import Progress

from benchmarks.data import load
from benchmarks.kmeans import ALL_SETS, QUICK_SETS, add_places
from benchmarks.peers.table import Contest
from benchmarks.state import source_state


def main() -> None:
    options = arguments()
    console = Console(highlight=False)
    names = tuple(options.sets or (QUICK_SETS if options.quick else ALL_SETS))
    sets = load(options.data, options.cache, console, names=names)
    state = source_state()
    with Progress(console=console, transient=True) as progress:
        table = Contest(
            sets=sets,
            cache=options.cache,
            progress=progress,
            seeds=min(options.seeds, 2) if options.quick else options.seeds,
            slow_seeds=options.slow_seeds,
            limit=options.limit,
            epsilons=(1.0,) if options.quick else (1.0, 10.0),
        ).table()
    table.remarks.append(f"Measured at {state}.")
    table.publish(options.out, console)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two small sets, epsilon 1, two seeds")
    parser.add_argument("--seeds", type=int, default=5, help="fits of each line")
    parser.add_argument("--slow-seeds", type=int, default=3, help="fits of diffprivlib on Covertype")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds for all fits of a line, other packages")
    add_places(parser)
    return parser.parse_args()


if __name__ == "__main__":
    main()
