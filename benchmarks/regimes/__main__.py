"""Cost of private k-means over the non-private floor in many regimes.

``python -m benchmarks.regimes --only boxes digits --seeds 3`` for a look, without options for the record, in about 20
minutes. Names are groups, sets or patterns; ``--list`` prints them. Sets that are finished are kept, so a stopped
benchmark goes on where it was. Seeded runs are not private; they are here to be repeated.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from pathlib import Path

from rich.progress import Progress

from benchmarks.regimes.cases import Case, all_cases
from benchmarks.regimes.measure import Line, areas, costs, measured, row_of
from benchmarks.regimes.sets import tables
from benchmarks.tables import RESULTS, Store, Table, parser, run, sources


def regimes(options: argparse.Namespace, progress: Progress) -> Iterator[Table]:
    """Measure the sets that are not known from an earlier run, and keep each one when it is finished."""
    cases = chosen(options)
    own = b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))
    store = Store(options.cache / "runs.jsonl", f"{sources()} {hashlib.sha256(own).hexdigest()[:12]} {options.seeds}")
    known = {key: Line(**{**line, "case": Case(**line["case"])}) for key, line in store.read().items()}
    kept = options.cache / "floors.json"
    floors = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}
    waiting: dict[str, list[Case]] = {}
    for case in cases:
        if repr(case) not in known:
            waiting.setdefault(case.table, []).append(case)
    options.cache.mkdir(parents=True, exist_ok=True)
    task = progress.add_task("regimes", total=len(waiting))
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.processes, mp_context=context, max_tasks_per_child=8) as pool:
        jobs = [pool.submit(measured, options.data, members, options.seeds, floors) for members in waiting.values()]
        for job in as_completed(jobs):
            lines, found = job.result()
            if found.keys() - floors.keys():
                floors |= found
                kept.write_text(json.dumps(floors, indent=1, sort_keys=True) + "\n", encoding="utf-8")
            for line in lines:
                known[repr(line.case)] = line
                store.add(repr(line.case), asdict(line))
                cells = row_of(line)
                progress.console.print(f"{line.case.group}: {line.case.key}: {cells['median']:.4f} {cells['result']}")
            progress.advance(task)
    lines = [known[repr(case)] for case in cases]
    yield costs(lines)
    if areas(lines).rows:
        yield areas(lines)


def chosen(options: argparse.Namespace) -> list[Case]:
    """The cases asked for whose files are present."""
    cases = [case for case in all_cases() if options.only is None or any(map(case.matches, options.only))]
    sets = tables(options.data)
    absent = {name for name, table in sets.items() if table.file and not table.file.exists()}
    if absent & {case.table for case in cases}:
        print(f"Not in {options.data}, left out: {', '.join(sorted(absent))}.")
    return [case for case in cases if case.table not in absent]


def main() -> None:
    made = parser(__doc__)
    made.add_argument("--only", nargs="+", metavar="NAME", help="groups, sets or patterns of sets")
    made.add_argument("--seeds", type=int, help="runs of each case; default as the case says")
    made.add_argument("--processes", type=int, default=2, help="worker processes, of one thread each")
    made.add_argument("--list", action="store_true", help="print the cases and end")
    made.set_defaults(cache=Path(".cache/regimes"))
    options = made.parse_args()
    if options.list:
        for case in chosen(options):
            print(f"{case.group:13} {case.key}")
        return
    if options.only is not None and options.out == RESULTS:
        options.out = Path("out/regimes")
    run(options, regimes)


if __name__ == "__main__":
    main()
