"""Quality of private k-means: prints the tables and writes them as CSV and Markdown.

``python -m benchmarks.kmeans --quick`` for a look, without ``--quick`` for the record. Seeded runs are not private;
they are here to be repeated.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from benchmarks import quality
from benchmarks.data import SOURCES, load
from benchmarks.state import source_state
from benchmarks.tables import Table

TABLES = ("public", "free", "survey", "pure", "ordering")
ALL_SETS = tuple(source.file for source in SOURCES)
QUICK_SETS = ("kdd-protein", "ijcnn1")


def main() -> None:
    options = arguments()
    console = Console(highlight=False)
    names = QUICK_SETS if options.quick else ALL_SETS
    sets = load(options.data, options.cache, console, names=tuple(options.sets or names))
    state = source_state()
    seeds = min(options.seeds, 3) if options.quick else options.seeds
    with Progress(console=console, transient=True) as progress:
        bench = quality.Bench(sets=sets, seeds=seeds, progress=progress)
        for name, make in tables(bench, options).items():
            if name in options.only:
                table = make()
                table.remarks.append(f"Medians of {seeds} seeds. Measured at {state}.")
                table.publish(options.out, console)


def tables(bench: quality.Bench, options: argparse.Namespace) -> dict[str, Callable[[], Table]]:
    """The tables in the order they are made."""
    usual: tuple[float, ...] = (1.0,) if options.quick else (0.5, 1.0, 3.0)
    wide = (1.0,) if options.quick else (0.5, 1.0, 3.0, 10.0)
    return {
        "public": lambda: quality.public_facts(bench, usual if options.quick else (0.1, *usual)),
        "free": lambda: quality.sampling_for_free(bench, usual),
        "survey": lambda: quality.private_survey(bench, usual),
        "pure": lambda: quality.pure(bench, wide),
        "ordering": lambda: quality.ordering(bench, wide),
    }


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two small sets, epsilon 1, three seeds")
    parser.add_argument("--seeds", type=int, default=10, help="runs of each cell")
    parser.add_argument("--only", nargs="+", choices=TABLES, default=TABLES, help="tables")
    add_places(parser)
    return parser.parse_args()


def add_places(parser: argparse.ArgumentParser) -> None:
    """The options of every command here: which sets, where they are read, kept and written."""
    parser.add_argument("--sets", nargs="+", choices=ALL_SETS, help="data sets; default all, or two with --quick")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="directory of the Parquet files")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"), help="where the tables are written")
    parser.add_argument(
        "--cache",
        type=Path,
        default=Path(tempfile.gettempdir()) / "pais-benchmarks",
        help="preprocessed rows, floors and the environments of other packages",
    )


if __name__ == "__main__":
    main()
