"""Measure every table at one commit, then write docs/benchmarks.md.

``python -m benchmarks.all --list`` prints the tables and about how long each takes. Tables with times come first, one
after the other, and need an otherwise idle machine; the others run two at a time, with one thread each.
``--only-timed`` and ``--only-untimed`` run one of these parts, so that the timed tables can wait for a quiet hour. A
stopped run goes on where it was, and a part knows what the other one has finished, as long as the commit is the same:
commit the results after both parts. A table that takes about as long as all others together is measured only if
``--only`` names it.

An entry that fails or takes far longer than expected does not stop the others. The failed ones are listed at the end,
and the exit code is 1.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from benchmarks import page
from benchmarks.published import LONG_TABLES, Published
from benchmarks.state import ROOT, commit, uncommitted

PLACE = Path("out/bench-all")
ROWS = "50_000_000"
STREAM = "benchmarks.stream"
MOST_LOAD = 0.5

# An entry is ended after so many times its usual minutes, but not before the least number of minutes: making the
# environments of other packages and computing floors for the first time are not part of the usual minutes.
MOST_TIMES, LEAST_LIMIT = 4.0, 30.0
# Seconds in which an entry that is ended can end its own children.
GRACE = 20.0


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A command, the tables that it writes, and about how many minutes it takes on two cores.

    A long one runs only if it is named.
    """

    name: str
    module: str
    tables: tuple[str, ...]
    minutes: float
    arguments: tuple[str, ...] = ()
    timed: bool = False

    @property
    def long(self) -> bool:
        return not set(LONG_TABLES).isdisjoint(self.tables)

    @property
    def limit(self) -> float:
        """Seconds after which the entry is ended."""
        return 60.0 * max(MOST_TIMES * self.minutes, LEAST_LIMIT)

    def command(self) -> list[str]:
        return [sys.executable, "-m", self.module, *self.arguments]

    def words(self) -> str:
        return f"{self.name:19} about {self.minutes:4.1f} min  {'time' if self.timed else 'other':6}"


def stream(part: str, minutes: float, *tables: str) -> Entry:
    """A part of the tables about files; the rows are kept for the next part."""
    return Entry(
        name=f"stream-{part}",
        module=STREAM,
        arguments=("--parts", part, "--rows", ROWS, "--repeats", "5", "--keep"),
        tables=tuple(f"stream-{table}" for table in tables),
        minutes=minutes,
        timed=True,
    )


ENTRIES = (
    Entry(
        name="speed",
        module="benchmarks.speed",
        arguments=("--factor", "2"),
        tables=("speed",),
        minutes=4.5,
        timed=True,
    ),
    Entry(
        name="pca-speed",
        module="benchmarks.pca",
        arguments=("--only", "speed"),
        tables=("pca-speed",),
        minutes=1.0,
        timed=True,
    ),
    Entry(
        name="regression-time",
        module="benchmarks.regression",
        arguments=("--only", "time"),
        tables=("regression-time",),
        minutes=0.5,
        timed=True,
    ),
    stream("passes", 2.0, "passes", "threads"),
    stream("fits", 1.5, "fits"),
    stream("scale", 3.5, "memory", "time"),
    stream("command", 1.5, "command"),
    stream("spark", 5.5, "spark"),
    stream("simulate", 2.0, "costs", "simulated"),
    Entry(
        name="people-scale",
        module="benchmarks.people_scale",
        arguments=("--rows", "10_000_000", "--people", "1_000_000", "--repeats", "2"),
        tables=("people-scale",),
        minutes=1.5,
        timed=True,
    ),
    Entry(
        name="peers",
        module="benchmarks.peers",
        arguments=("--seeds", "3", "--slow-seeds", "1", "--limit", "60"),
        tables=("peers",),
        minutes=5.0,
        timed=True,
    ),
    Entry(
        name="regimes",
        module="benchmarks.regimes",
        arguments=("--seeds", "5", "--processes", "1", "--peers", "--out", "benchmarks/results/regimes"),
        tables=("regimes", "regimes-areas", "regimes-peers"),
        minutes=20.0,
    ),
    Entry(
        name="kmeans",
        module="benchmarks.kmeans",
        arguments=("--seeds", "7"),
        tables=("kmeans-public", "kmeans-free", "kmeans-survey", "kmeans-pure", "kmeans-ordering"),
        minutes=5.0,
    ),
    Entry(name="prediction", module="benchmarks.prediction", tables=("prediction",), minutes=5.0),
    Entry(
        name="audit",
        module="benchmarks.audit",
        arguments=("--resume", str(PLACE / "audit.jsonl")),
        tables=("audit",),
        minutes=7.0,
    ),
    Entry(
        name="elbow",
        module="benchmarks.elbow",
        arguments=("--seeds", "4"),
        tables=("elbow-costs", "elbow-choices"),
        minutes=2.5,
    ),
    Entry(
        name="logistic",
        module="benchmarks.logistic",
        arguments=("--seeds", "2", "--epsilon", "0.1", "1"),
        tables=("logistic-loss",),
        minutes=3.5,
    ),
    Entry(
        name="regression",
        module="benchmarks.regression",
        arguments=("--only", "small", "large", "--seeds", "2"),
        tables=("regression-small", "regression-large"),
        minutes=3.5,
    ),
    Entry(
        name="coverage-models",
        module="benchmarks.coverage_models",
        arguments=("--epsilon", "0.5", "1", "5", "--fits", "40"),
        tables=("coverage-models",),
        minutes=20.0,
    ),
    Entry(
        name="coverage-statistics",
        module="benchmarks.coverage",
        arguments=("--processes", "2", "--resume", str(PLACE / "coverage.jsonl")),
        tables=("coverage-statistics",),
        minutes=45.0,
    ),
    Entry(
        name="pca",
        module="benchmarks.pca",
        arguments=("--only", "captured", "intervals", "--seeds", "5"),
        tables=("pca-captured", "pca-explained", "pca-intervals"),
        minutes=3.5,
    ),
    Entry(name="people", module="benchmarks.people", arguments=("--seeds", "10"), tables=("people",), minutes=1.0),
    Entry(
        name="statistics",
        module="benchmarks.peers.statistics",
        tables=("peers-statistics", "peers-statistics-code"),
        minutes=5.0,
    ),
    Entry(
        name="models",
        module="benchmarks.peers.models",
        arguments=("--seeds", "3"),
        tables=("peers-models",),
        minutes=2.0,
    ),
    Entry(
        name="kill-ledger",
        module="benchmarks.kill_ledger",
        arguments=("--kills", "300"),
        tables=("kill-ledger",),
        minutes=1.0,
    ),
    Entry(
        name="fuzz",
        module="benchmarks.fuzz",
        arguments=("--cases", "150_000", "--jobs", "1", "--fresh", "--out", str(PLACE / "fuzz")),
        tables=("fuzz",),
        minutes=1.5,
    ),
    Entry(
        name="sweep",
        module="benchmarks.sweep",
        arguments=("--seconds", "90", "--jobs", "1", "--fresh", "--out", str(PLACE / "sweep")),
        tables=("sweep",),
        minutes=1.5,
    ),
)


@dataclass(kw_only=True)
class Finished:
    """Entries that were finished at this commit, with their seconds; kept in a file."""

    path: Path
    commit: str
    seconds: dict[str, float] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path, commit: str) -> Finished:
        stored = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        known = stored["seconds"] if stored.get("commit") == commit else {}
        return cls(path=path, commit=commit, seconds=known)

    def put(self, name: str, seconds: float) -> None:
        self.seconds[name] = round(seconds, 1)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"commit": self.commit, "seconds": self.seconds}, indent=2) + "\n"
        partial = self.path.with_suffix(".partial")
        partial.write_text(text, encoding="utf-8")
        partial.replace(self.path)


@dataclass(frozen=True, kw_only=True)
class Runner:
    """Runs each entry in a separate process and writes its output to a file."""

    place: Path
    finished: Finished
    console: Console
    failed: dict[str, str] = field(default_factory=dict)

    def run(self, entries: Iterable[Entry]) -> None:
        """Timed entries first, alone; then the others, two at a time."""
        waiting = [entry for entry in entries if entry.name not in self.finished.seconds]
        for entry in (entry for entry in waiting if entry.timed):
            self._one(entry, {})
        others = sorted((entry for entry in waiting if not entry.timed), key=lambda entry: -entry.minutes)
        with ThreadPoolExecutor(2) as pool:
            try:
                list(pool.map(lambda entry: self._one(entry, {"OMP_NUM_THREADS": "1"}), others))
            except BaseException:
                # Entries that have not begun are dropped.
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _one(self, entry: Entry, more: dict[str, str]) -> None:
        self.place.mkdir(parents=True, exist_ok=True)
        log = self.place / f"{entry.name}.log"
        self.console.print(f"{time.strftime('%H:%M')}  {entry.words()} ...", markup=False)
        start = time.perf_counter()
        with log.open("w", encoding="utf-8") as file:
            environment = {**os.environ, **more}
            with subprocess.Popen(entry.command(), stdout=file, stderr=file, env=environment, cwd=ROOT) as process:
                problem = _problem(process, entry.limit)
        seconds = time.perf_counter() - start
        if problem is None:
            self.finished.put(entry.name, seconds)
        else:
            self.failed[entry.name] = f"{problem} after {seconds / 60.0:.1f} min, see {log}"
        end = self.failed.get(entry.name, f"{seconds / 60.0:.1f} min")
        self.console.print(f"{time.strftime('%H:%M')}  {entry.name}: {end}", markup=False)


def _problem(process: subprocess.Popen[bytes], limit: float) -> str | None:
    """Wait for a process, and end it after the limit in seconds. What went wrong, or None."""
    try:
        code = process.wait(limit)
    except subprocess.TimeoutExpired:
        process.terminate()
        try:
            process.wait(GRACE)
        except subprocess.TimeoutExpired:
            process.kill()
        return "was stopped"
    return None if code == 0 else f"ended with {code}"


def missing(entries: Iterable[Entry], published: Published, now: str) -> list[str]:
    """Tables of the entries that are not there, or were measured at another commit."""
    at = {name: published.state(name).commit for name in published.names()}
    return [name for name in tables(entries) if at.get(name) != now]


def tables(entries: Iterable[Entry]) -> list[str]:
    return [name for entry in entries for name in entry.tables]


def chosen(only: list[str] | None, skip: list[str], timed: bool | None = None) -> list[Entry]:
    """The entries that are named, or all but the long ones; of these the timed ones, the others, or both."""
    return [
        entry
        for entry in ENTRIES
        if (entry.name in only if only is not None else not entry.long)
        and entry.name not in skip
        and timed in (None, entry.timed)
    ]


def main() -> int:
    options = arguments()
    console = Console(highlight=False, soft_wrap=True)
    entries = chosen(options.only, options.skip, options.timed)
    if options.list:
        for entry in entries:
            console.print(f"{entry.words()}{', '.join(entry.tables)}", markup=False)
        console.print(
            f"About {sum(entry.minutes for entry in entries if entry.timed):.0f} minutes for times, and "
            f"{sum(entry.minutes for entry in entries if not entry.timed) / 2.0:.0f} for the others."
        )
        return 0
    changed = uncommitted()
    if changed and not options.uncommitted:
        console.print(
            f"These files differ from the commit: {', '.join(changed)}. Commit them, or pass --uncommitted: "
            "then every table says so.",
            markup=False,
        )
        return 2
    now, load = commit(), os.getloadavg()[0]
    if load > MOST_LOAD and any(entry.timed for entry in entries):
        console.print(f"The machine is busy (load average {load:.1f}): do not trust the times of this run.")
    finished = Finished.read(options.place / "state.json", now)
    runner = Runner(place=options.place, finished=finished, console=console)
    runner.run(entries)
    if all(entry.name in finished.seconds for entry in ENTRIES if entry.module == STREAM):
        shutil.rmtree(ROOT / "out" / "bench-stream", ignore_errors=True)
    page.main()
    absent = missing(ENTRIES, Published(), now)
    console.print(f"Not measured at {now}: {', '.join(absent)}." if absent else f"All tables are at {now}.")
    for name, problem in runner.failed.items():
        console.print(f"Failed: {name} {problem}", markup=False)
    return int(bool(runner.failed or set(absent) & set(tables(entries))))


def arguments() -> argparse.Namespace:
    names = [entry.name for entry in ENTRIES]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", help="these alone")
    parser.add_argument("--skip", nargs="+", choices=names, default=[], metavar="NAME", help="all but these")
    parts = parser.add_mutually_exclusive_group()
    parts.add_argument("--only-timed", action="store_true", dest="timed", default=None, help="the timed tables alone")
    parts.add_argument("--only-untimed", action="store_false", dest="timed", default=None, help="the others alone")
    parser.add_argument("--list", action="store_true", help="print what would run, and end")
    parser.add_argument("--uncommitted", action="store_true", help="measure a tree whose src differs from the commit")
    parser.add_argument("--place", type=Path, default=ROOT / PLACE, help="state and output of the commands")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
