"""Kill releases at random moments, and look at what is left: the ledger, and the outputs.

    python -m tests.support.kill_ledger --kills 1000

Each release is the command `pais kmeans ... --ledger budget.json` in a process forked from this one, ended by SIGKILL
after a random time; every other one makes a survey first, which is an entry of its own. Runs that end before their kill
are counted apart. What must hold after each: the ledger can be read; an output directory is complete or not there at
all; every complete output has all its parts in the ledger.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

import pais
from pais.accounting.part import what_is_left
from pais.cli.app import app
from pais.cli.files import CERTIFICATE, RELEASE


@dataclass(frozen=True, kw_only=True)
class Summary:
    """Counts over all runs; the last two must be 0."""

    killed_while_running: int
    ended_before_the_kill: int
    surveys_paid_without_a_release: int
    spends_found: int
    releases_found: int
    spends_without_a_release: int
    half_written_outputs: int
    releases_without_a_spend: int


def price_of(number: int) -> float:
    """Another price for each run, so that its spend is known among all."""
    return round(0.5 + 1e-5 * (number + 1), 5)


# Options of the kinds of runs: facts are stated, or surveyed for one price with the release, or surveyed for a price of
# their own.
KINDS: dict[str, list[str]] = {
    "stated": ["--radius", "8", "--norms", "0,2,4,6,8", "--n-rows", "400", "--center", "0,0"],
    "surveyed": [],
    "pure": ["--mechanism", "l2"],
}


def parts_of(price: float, kind: str) -> list[float]:
    """What such a run charges: for a pure survey, if there is one, and last for the release."""
    survey = pais.KMeansSettings(n_clusters=1, epsilon=price, mechanism="l2").survey_share * price
    return [survey, what_is_left(price, survey)] if kind == "pure" else [price]


def start(data: Path, ledger: Path, out: Path, price: float, kind: str) -> int:
    """A release in a process of its own; its number."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        command = ["kmeans", str(data), "--n-clusters", "2", "--epsilon", str(price), "--out", str(out)]
        app([*command, *KINDS[kind], "--ledger", str(ledger)], standalone_mode=False)
        code = 0
    finally:
        os._exit(code)


def wait_and_kill(child: int, seconds: float) -> float | None:
    """How long the process took, if it ended by itself; else it is killed after so many seconds."""
    started = time.monotonic()
    while (passed := time.monotonic() - started) < seconds:
        if os.waitpid(child, os.WNOHANG)[0]:
            return passed
        time.sleep(5e-4)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def complete(out: Path, price: float) -> bool | None:
    """Whether a release is there with all its files; None where it is half there."""
    if not out.exists():
        return False
    if {path.name for path in out.iterdir()} != set(RELEASE):
        return None
    return abs(float(json.loads((out / CERTIFICATE).read_text())["epsilon"]) - price) < 1e-9


def study(directory: Path, kills: int, seed: int) -> Summary:
    rng = random.Random(seed)
    data, ledger = directory / "rows.csv", directory / "budget.json"
    lines = [f"{rng.gauss(0, 2)},{rng.gauss(0, 2)}" for _ in range(400)]
    data.write_text("\n".join(["height,width", *lines]) + "\n")
    book = pais.Ledger(epsilon=1e5, delta=0.5, path=ledger)
    span = {}
    for position, kind in enumerate(KINDS):
        started = time.monotonic()
        price = price_of(10 * kills + position)
        _, status = os.waitpid(start(data, ledger, directory / f"whole-{kind}", price, kind), 0)
        assert status == 0, "an undisturbed release failed"
        span[kind] = time.monotonic() - started
    totals: Counter[str] = Counter()
    number = 0
    while totals["killed"] < kills:
        number += 1
        out, price, kind = directory / f"out{number}", price_of(number), list(KINDS)[number % 3]
        # Half of the kills in the last part of the run, where the spend and the outputs are.
        moment = rng.uniform(0.0, 1.2) if number % 4 < 2 else rng.uniform(0.6, 1.2)
        ended = wait_and_kill(start(data, ledger, out, price, kind), moment * span[kind])
        # Machines change their pace; the span follows, a little up where nothing ended.
        span[kind] = 1.02 * span[kind] if ended is None else 0.7 * span[kind] + 0.3 * ended
        whole = complete(out, price)
        prices = {entry.epsilon for entry in book.entries}
        paid = [part in prices for part in parts_of(price, kind)]
        totals["killed" if ended is None else "ended"] += 1
        totals["surveys"] += any(paid) and not paid[-1]
        totals["spends"] += paid[-1]
        totals["releases"] += whole is True
        totals["half"] += whole is None
        totals["unreleased"] += paid[-1] and whole is not True
        totals["unpaid"] += whole is not False and not all(paid)
    return Summary(
        killed_while_running=totals["killed"],
        ended_before_the_kill=totals["ended"],
        surveys_paid_without_a_release=totals["surveys"],
        spends_found=totals["spends"],
        releases_found=totals["releases"],
        spends_without_a_release=totals["unreleased"],
        half_written_outputs=totals["half"],
        releases_without_a_spend=totals["unpaid"],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        summary = study(Path(directory), options.kills, options.seed)
    print(json.dumps(asdict(summary)))
    sys.exit(1 if summary.half_written_outputs or summary.releases_without_a_spend else 0)


if __name__ == "__main__":
    main()
