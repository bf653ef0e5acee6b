"""The replay table: random calls on tables with a record and without it, and how far the record moved what they add up.

A case combines a call, its options, a store of rows and a record at random. It is run on one table, and then on the
other with the same released values. The parts are those of `tests/support/replay_cases.py`, of which `make test`
replays some hundred cases.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track

from benchmarks.tables import RESULTS, Cell, Store, Table, measured_at, sources
from tests.support.replay_cases import Case, drawn

_SHOWN = ("mechanism", "cases", "transcripts", "all rows", "samples", "failures", "result", "seconds")
# Values leave as drawn, or moved by a multiple of their noise: slightly, and far.
_PUSHES = (0.0, 0.0, 3.0, -3.0, 40.0, -40.0)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What the replay of a case found.

    Attributes
    ----------
    used : float
        Largest move of the record over the price.
    problem : str
        What differed, or what failed; empty if nothing did.
    """

    name: str
    mechanism: str
    sampled: bool
    transcripts: int
    used: float
    problem: str
    seconds: float

    @property
    def fails(self) -> bool:
        return bool(self.problem) or self.used > 1.0 + 1e-9


def outcome(seed: int, number: int) -> Outcome:
    """Draw a case from the seed and its number, and replay it."""
    rng = np.random.default_rng([seed, number])
    case, push, run_seed = drawn(rng), float(rng.choice(_PUSHES)), int(rng.integers(2**31))
    started = time.perf_counter()
    transcripts, used, problem = replayed(case, run_seed, push)
    return Outcome(
        name=f"{case.name}, seed {run_seed}, push {push:g}",
        mechanism=case.subject.family,
        sampled=case.sampling not in ("none", "l1"),
        transcripts=transcripts,
        used=used,
        problem=problem,
        seconds=time.perf_counter() - started,
    )


def replayed(case: Case, seed: int, push: float) -> tuple[int, float, str]:
    """Number of transcripts, the largest move over the price, and what differed."""
    try:
        report = case.replayed(seeds=(seed,), pushes=(push,))
    except Exception as error:  # a case that cannot be replayed is a failure of the table, and the others go on
        return 0, 0.0, f"{type(error).__name__}: {error}"
    problem = "; ".join(report.differences) or ("" if report.draws else "nothing was drawn")
    return report.transcripts, report.used, problem


def outcomes(options: argparse.Namespace, console: Console) -> Iterator[Outcome]:
    """The outcomes of all cases. With a file to resume from, those in it are not run again."""
    store = Store(options.resume, f"{sources()}, seed {options.seed}")
    known = store.read()
    for number in track(range(options.cases), "Replaying", console=console):
        if str(number) in known:
            yield Outcome(**known[str(number)])
        else:
            found = outcome(options.seed, number)
            store.add(str(number), asdict(found))
            yield found


def line(mechanism: str, found: list[Outcome]) -> dict[str, Cell]:
    def largest(*, sampled: bool) -> float | None:
        return max((each.used for each in found if each.sampled is sampled), default=None)

    failures = sum(each.fails for each in found)
    return {
        "mechanism": mechanism,
        "cases": len(found),
        "transcripts": sum(each.transcripts for each in found),
        "all rows": largest(sampled=False),
        "samples": largest(sampled=True),
        "failures": failures,
        "result": "missed" if failures else "holds",
        "seconds": round(sum(each.seconds for each in found), 1),
    }


def main() -> int:
    options = arguments()
    console = Console(highlight=False)
    found = list(outcomes(options, console))
    by_mechanism: dict[str, list[Outcome]] = {}
    for each in sorted(found, key=lambda each: each.mechanism.lower()):
        by_mechanism.setdefault(each.mechanism, []).append(each)
    table = Table(name="audit", title="Replay: the move of a record over its price", shown=_SHOWN)
    table.rows = [line(mechanism, group) for mechanism, group in by_mechanism.items()]
    table.rows.append(line("all", found))
    failed = [each for each in found if each.fails]
    table.remarks += [
        "A case is a call on a table with a record, or with all rows of a person, and on the same table without it. "
        "The second run is forced to release what the first one did. Then all that a reader sees must be equal, and "
        "the totals may move by at most the price in units of their noise: a quotient of at most 1.",
        "All rows: quotient of losses for pure noise, and of shifts for Gaussian noise. Samples: quotient of losses or "
        "of deltas, given the chance that the record is kept.",
        f"Cases are drawn with seed {options.seed}: calls, columns, groups, units, sampling rules, stores, records and "
        "places. In two of three, the values that leave are moved by 3 or 40 scales of their noise.",
        *(f"Failed: {each.name}: moved {each.used:.6g} of the price. {each.problem}" for each in failed[:20]),
        measured_at(),
    ]
    table.publish(options.out, console)
    return int(bool(failed))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=2_000, help="number of random cases")
    parser.add_argument("--seed", type=int, default=0, help="seed of the cases")
    parser.add_argument("--resume", type=Path, help="file of outcomes: those in it are not run again")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the table is written")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
