"""Measure every table at one commit, then write docs/benchmarks.md.

``python -m benchmarks.all --list`` prints the commands and about how long each takes. Commands that measure times come
first, one after the other, and need an otherwise idle machine; the others run two at a time, with one thread each.
``--only-timed`` and ``--only-untimed`` run one of these parts. A stopped run goes on where it was: tables that name the
current commit are not measured again, so commit the results after both parts. The table that takes about as long as all
others together is measured only if ``--only`` names its command. A command that fails does not stop the others.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from benchmarks.page import LONG_TABLES, PAGE, page, state
from benchmarks.tables import RESULTS, ROOT, commit, uncommitted

PLACE = ROOT / "out" / "bench-all"
# A command is ended after so many times its usual minutes, but not before the least number of minutes: making the
# environments of other packages and computing floors for the first time are not part of the usual minutes.
MOST_TIMES, LEAST_LIMIT = 4.0, 30.0
MOST_LOAD = 0.5


@dataclass(frozen=True)
class Command:
    """A benchmark with its options, the tables that it writes, and about how many minutes it takes on two cores."""

    name: str
    line: str
    tables: str
    minutes: float
    timed: bool = False

    @property
    def measured(self) -> bool:
        """Whether all tables name the current commit."""
        there = [name for name in self.tables.split() if (RESULTS / f"{name}.md").exists()]
        return len(there) == len(self.tables.split()) and all(state(name, "commit") == commit() for name in there)

    def run(self, **environment: str) -> bool:
        """Run the command in a separate process, whose output goes to a file; whether it ended well."""
        log, start = PLACE / f"{self.name}.log", time.perf_counter()
        words = [sys.executable, "-m", *self.line.split()]
        try:
            with log.open("w", encoding="utf-8") as file:
                limit = 60.0 * max(MOST_TIMES * self.minutes, LEAST_LIMIT)
                own = {**os.environ, **environment}
                subprocess.run(words, check=True, timeout=limit, stdout=file, stderr=file, cwd=ROOT, env=own)
        except subprocess.SubprocessError as error:
            print(f"{self.name} failed: {error}, see {log}", flush=True)
            return False
        print(f"{self.name}: {(time.perf_counter() - start) / 60.0:.1f} min", flush=True)
        return True


STREAM = "benchmarks.stream --rows 50_000_000 --repeats 5 --keep --only"
COMMANDS = (
    Command("speed", "benchmarks.speed --factor 2", "speed pca-speed regression-time", 6.0, timed=True),
    Command("stream-fits", f"{STREAM} fits", "stream-fits", 1.5, timed=True),
    Command("stream-scale", f"{STREAM} scale", "stream-memory stream-time", 3.5, timed=True),
    Command("stream-command", f"{STREAM} command", "stream-command", 1.5, timed=True),
    Command("stream-people", f"{STREAM} people", "people-scale", 1.5, timed=True),
    Command("stream-spark", f"{STREAM} spark", "stream-spark", 5.5, timed=True),
    Command("peers", "benchmarks.peers --seeds 3 --limit 60", "peers", 4.0, timed=True),
    Command("regimes", "benchmarks.regimes --seeds 5 --processes 1", "regimes regimes-areas", 20.0),
    Command("prediction", "benchmarks.prediction", "prediction kmeans-free", 7.0),
    Command("elbow", "benchmarks.elbow --seeds 4", "elbow-costs elbow-choices", 2.5),
    Command("people", "benchmarks.people --seeds 10", "people", 1.0),
    Command("pca", "benchmarks.pca --seeds 5", "pca-captured pca-intervals", 3.5),
    Command(
        "regression",
        "benchmarks.regression --seeds 2",
        "regression-small regression-large regression-drowned",
        5.5,
    ),
    Command("logistic", "benchmarks.logistic --seeds 2 --epsilon 0.1 1", "logistic-loss", 3.5),
    Command("coverage-models", "benchmarks.coverage_models --epsilon 0.5 1 5 --seeds 40", "coverage-models", 20.0),
    Command("coverage", f"benchmarks.coverage --resume {PLACE / 'coverage.jsonl'}", "coverage-statistics", 45.0),
    Command("statistics", "benchmarks.peers.statistics", "peers-statistics", 5.0),
    Command("names", "benchmarks.names --seeds 10", "names names-error", 6.0),
    Command("training", "benchmarks.training --seeds 10", "training-rates training-accuracy", 25.0),
    Command("audit", f"tests.support.replay_table --resume {PLACE / 'audit.jsonl'}", "audit", 7.0),
)


def chosen(only: list[str] | None, timed: bool | None = None) -> list[Command]:
    """The commands that are named, or all but those that take long; of these the timed ones, the others, or both."""
    return [
        command
        for command in COMMANDS
        if (command.tables not in LONG_TABLES if only is None else command.name in only)
        and timed in (None, command.timed)
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [command.name for command in COMMANDS]
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", help="these alone")
    parts = parser.add_mutually_exclusive_group()
    parts.add_argument("--only-timed", action="store_true", dest="timed", default=None, help="the timed tables alone")
    parts.add_argument("--only-untimed", action="store_false", dest="timed", default=None, help="the others alone")
    parser.add_argument("--list", action="store_true", help="print what would run, and end")
    options = parser.parse_args()
    commands = chosen(options.only, options.timed)
    if options.list:
        for command in commands:
            print(f"{command.name:16} {command.minutes:4.1f} min  {'timed' * command.timed:5}  {command.tables}")
        return 0
    if uncommitted():
        print(f"These files differ from the commit: {', '.join(uncommitted())}. Commit them first.")
        return 2
    waiting = [command for command in commands if not command.measured]
    if os.getloadavg()[0] > MOST_LOAD and any(command.timed for command in waiting):
        print("The machine is busy: do not trust the times of this run.")
    PLACE.mkdir(parents=True, exist_ok=True)
    ended = [command.run() for command in waiting if command.timed]
    others = sorted((command for command in waiting if not command.timed), key=lambda command: -command.minutes)
    with ThreadPoolExecutor(2) as pool:
        ended += pool.map(lambda command: command.run(OMP_NUM_THREADS="1"), others)
    if all(command.measured for command in COMMANDS if command.line.startswith(STREAM)):
        shutil.rmtree(Path("out/bench-stream"), ignore_errors=True)
    PAGE.write_text(page(), encoding="utf-8")
    absent = [command.name for command in commands if not command.measured]
    print(f"Not measured at {commit()}: {', '.join(absent)}." if absent else f"All tables are at {commit()}.")
    return int(not all(ended) or bool(absent))


if __name__ == "__main__":
    raise SystemExit(main())
