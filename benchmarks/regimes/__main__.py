"""Cost of private k-means over the non-private floor in many regimes.

``python -m benchmarks.regimes --only boxes digits --seeds 3`` for a look, without options for the record. Names are
groups, sets or patterns; ``--list`` prints them. Finished runs are kept, so a stopped benchmark goes on where it was.
Seeded runs are not private; they are here to be repeated.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from benchmarks.regimes.cases import Case, all_cases
from benchmarks.regimes.peer import compared
from benchmarks.regimes.runner import Bench, Line, Log
from benchmarks.regimes.sets import tables
from benchmarks.regimes.table import areas, costs, progress_line, row_of
from benchmarks.state import source_state, sources

CACHE = Path(".cache/regimes")
PUBLISHED = Path("benchmarks/results/regimes")

# Columns of text that the table needs.
WIDTH = 190


def main() -> None:
    options = arguments()
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # progress is for files too
    console = Console(highlight=False, soft_wrap=True)
    console.width = max(console.width, WIDTH)
    cases = chosen(options, console)
    if options.list:
        for case in cases:
            console.print(f"{case.group:13} {case.key}", markup=False)
        return
    state = source_state()
    bench = Bench(
        data=options.data.resolve(),
        floors=options.floors,
        log=Log(path=options.runs, state=sources()),
        seeds=options.seeds,
        processes=options.processes,
    )
    if options.floors_only:
        for name, floor in bench.floors_of(cases):
            console.print(f"{name}: floor {floor:.6g}", markup=False)
        return
    lines: list[Line] = []
    for line in bench.lines(cases):
        lines.append(line)
        console.print(f"[{len(lines)}/{len(cases)}] {progress_line(row_of(line))}", markup=False)
    order = {id(case): place for place, case in enumerate(cases)}
    lines.sort(key=lambda line: order[id(line.case)])
    publish(options, lines, state, console)


def publish(options: argparse.Namespace, lines: list[Line], state: str, console: Console) -> None:
    whole = options.only is None and options.epsilon is None and options.seeds is None
    stem = options.out if options.out is not None else (PUBLISHED if whole else None)
    made = [(costs(lines), ""), (areas(lines), "-areas")]
    if whole or options.peers:
        made.append((compared(lines, options.data, options.peer_cache, console), "-peers"))
    for table, name in made:
        if not table.rows:
            continue
        table.remarks.append(f"Measured at {state}.")
        if stem is None:
            console.print(table.printed())
        else:
            table.name, table.prefix = f"{stem.stem}{name}", ""
            table.publish(stem.parent, console)


def chosen(options: argparse.Namespace, console: Console) -> list[Case]:
    """The cases asked for whose files are present."""
    cases = [case for case in all_cases() if options.only is None or any(map(case.matches, options.only))]
    if options.epsilon is not None:
        cases = with_epsilons(cases, options.epsilon)
    present = tables(options.data)
    absent = {case.table for case in cases if not readable(options.data, present[case.table].file)}
    if absent:
        console.print(f"[yellow]Not in {options.data}, left out: {', '.join(sorted(absent))}.")
    return [case for case in cases if case.table not in absent]


def readable(directory: Path, file: str | None) -> bool:
    return file is None or (directory / f"{file}.parquet").exists()


def with_epsilons(cases: list[Case], epsilons: list[float]) -> list[Case]:
    """The cases at other epsilons; a goal stays with its own."""
    moved = [
        case if case.epsilon == epsilon else replace(case, epsilon=epsilon, goal=None)
        for epsilon in epsilons
        for case in sorted(cases, key=lambda case: case.epsilon != epsilon)
    ]
    # Cases with a goal come first and stay.
    return list({(case.group, case.key): case for case in reversed(moved)}.values())[::-1]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="groups, sets or patterns of sets")
    parser.add_argument("--seeds", type=int, help="runs of each case; default as in the published table")
    parser.add_argument("--epsilon", nargs="+", type=float, help="these epsilons in place of the usual ones")
    parser.add_argument("--processes", type=int, default=2, help="worker processes, of one thread each")
    parser.add_argument("--peers", action="store_true", help="also diffprivlib on some of the sets, as in a whole run")
    parser.add_argument("--list", action="store_true", help="print the cases and end")
    parser.add_argument("--floors-only", action="store_true", help="compute the floors that are not known, and end")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="directory of the Parquet files")
    parser.add_argument("--out", type=Path, help="stem of CSV and Markdown; by default only a whole run writes")
    parser.add_argument("--runs", type=Path, default=CACHE / "runs.jsonl", help="finished runs, which are not repeated")
    parser.add_argument(
        "--peer-cache",
        type=Path,
        default=Path(tempfile.gettempdir()) / "pais-benchmarks",
        help="environments of other packages",
    )
    parser.add_argument(
        "--floors",
        type=Path,
        default=Path(os.environ.get("PAIS_FLOORS", CACHE / "floors.json")),
        help="non-private floors; default from the variable PAIS_FLOORS",
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
