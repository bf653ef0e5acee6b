"""The audit table: known mistakes and the bounds they are caught at, beside the right versions; and a peer.

Bounds have a confidence of 99 %. Seeds repeat the table; a peer is run in an environment of its own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console

import pais
from benchmarks.audit_cases import CASES, DELTA, Case
from benchmarks.audit_fits import FIT_CASES
from benchmarks.audit_logistic import LOGISTIC_CASES
from benchmarks.audit_people import PEOPLE_CASES
from benchmarks.audit_quantiles import QUANTILE_CASES
from benchmarks.audit_statistics import STATISTIC_CASES
from benchmarks.audit_sums import SUM_CASES, SUM_DELTA
from benchmarks.peers.outside import DIFFPRIVLIB, environment
from benchmarks.state import source_state
from benchmarks.tables import Table
from pais._base.numerics import FloatArray

_SCRIPT = Path(__file__).parent / "peers" / "audit_diffprivlib.py"
_SHOWN = ("what", "version", "claimed", "lower bound", "result", "seeds", "runs", "seconds", "event")
_DECLARED = 1.0


def main() -> None:
    options = arguments()
    console = Console(highlight=False)
    table = Table(
        name="audit", title="Audit: lower bounds on epsilon, 99 % confidence", shown=_SHOWN, prefix="", remarks=[]
    )
    cases = (*CASES, *SUM_CASES, *STATISTIC_CASES, *QUANTILE_CASES, *LOGISTIC_CASES, *FIT_CASES, *PEOPLE_CASES)
    for case in (case for case in cases if options.only in case.name):
        console.print(f"{case.name} ...", markup=False)
        for broken, runs, seeds in (
            (True, min(case.runs, options.runs), options.broken_seeds),
            (False, min(case.right_runs, options.right_runs), options.seeds),
        ):
            table.rows.append(line(case, broken=broken, runs=runs, seeds=seeds))
        # What was measured is on disk, should the rest be stopped.
        table.publish(options.out, Console(quiet=True))
    if not options.only:
        peer_lines(table, options, console)
    table.remarks += [
        "A broken version is caught when the lower bound is above the claim with every seed; a right one must not be "
        "above it with any. Shown is the smallest bound of a broken version and the largest of a right one.",
        "Runs are on each of two tables, half of them to choose pair and event, the other half to count. Gaussian "
        f"cases have delta {DELTA}; second moments, vectors, statistics and gradients {SUM_DELTA}.",
        "A whole fit is `DPKMeans.fit`, survey included; the broken version replaces one step of the real code. The "
        "claim is the epsilon of its certificate, and delta is 0.",
        "The claim of a mean square norm read off the rows is the larger of what the two tables would certify.",
        f"Measured at {source_state()}.",
    ]
    table.publish(options.out, console)


def line(case: Case, *, broken: bool, runs: int, seeds: int) -> dict[str, str | int | float | None]:
    """One version over several seeds, by the seed that speaks most against the audit: see the remarks."""
    started = time.perf_counter()
    reports = [case.audit(broken=broken, seed=seed, runs=runs) for seed in range(seeds)]
    shown = (min if broken else max)(reports, key=lambda report: report.lower_bound)
    right = all(report.violates == broken for report in reports)
    return {
        "what": case.name,
        "version": "broken" if broken else "right",
        "claimed": shown.certified,
        "lower bound": shown.lower_bound,
        "result": ("caught" if broken else "passes") if right else "missed",
        "seeds": seeds,
        "runs": runs,
        "seconds": round(time.perf_counter() - started, 1),
        "event": f"{shown.best.event}, record {shown.best.direction}",
    }


@dataclass
class Replay:
    """Outputs that were made elsewhere, handed out in order; each once."""

    outputs: dict[int, FloatArray]

    def __call__(self, rows: FloatArray, generator: np.random.Generator, runs: int) -> FloatArray:
        served, self.outputs[len(rows)] = self.outputs[len(rows)][:runs], self.outputs[len(rows)][runs:]
        return served


def peer_lines(table: Table, options: argparse.Namespace, console: Console) -> None:
    """diffprivlib's KMeans at epsilon 1: what its centers and its number of rounds show."""
    peer = environment(DIFFPRIVLIB, options.cache, console)
    if peer.problem is not None:
        table.remarks.append(f"diffprivlib {peer.problem}.")
        return
    # Its fits take long: they are made once.
    out = options.cache / f"audit-diffprivlib-{options.peer_runs}"
    if not (out / "facts.json").exists():
        out.mkdir(parents=True, exist_ok=True)
        command = [str(peer.python), "-I", str(_SCRIPT.resolve()), str(out), str(options.peer_runs), str(_DECLARED)]
        if subprocess.run(command, capture_output=True, text=True).returncode != 0:
            table.remarks.append("diffprivlib did not finish.")
            return
    facts = json.loads((out / "facts.json").read_text(encoding="utf-8"))
    for name, label in (
        ("alone", "centers; record alone in its cluster"),
        ("beside", "centers; record beside thirty others"),
        ("rounds", "number of rounds; one row at the edge"),
    ):
        sides = [np.load(out / f"{name}-{side}.npy") for side in ("without", "with")]
        columns = slice(2, 3) if name == "rounds" else slice(0, 2)
        table.rows.append(peer_line(label, [side[:, columns] for side in sides]))
    edge, spent = facts["rows_at_the_edge"], facts["spent_where_1_is_declared"]
    table.remarks.append(
        f"diffprivlib {facts['version']}, KMeans, epsilon {_DECLARED:g} declared, bounds stated. A cluster without "
        "rows is skipped and keeps its first center, which lies away from the bounds. The number of rounds follows "
        f"from the exact number of rows: {edge} make one more than {edge - 1}. Its two shares of epsilon change "
        f"places: {spent:.2f} are spent for each 1 declared at 54 columns, by its own numbers; that was computed, not "
        "seen in outputs."
    )


def peer_line(label: str, sides: list[FloatArray]) -> dict[str, str | int | float | None]:
    smaller, larger = sides
    replay = Replay(outputs={1: smaller, 2: larger})
    # The rows themselves were given to the peer; here they only tell the sides apart.
    pair = pais.NeighbourPair.of([1.0], [[0.0]], name=label)
    # Exploring takes one run more than half.
    runs = 2 * ((len(smaller) - 1) // 2)
    report = pais.audit(replay, pair=pair, epsilon=_DECLARED, runs=runs, random_state=0)
    return {
        "what": f"diffprivlib KMeans: {label}",
        "version": "as it is",
        "claimed": _DECLARED,
        "lower bound": report.lower_bound,
        "result": "refuted" if report.violates else "nothing shown",
        "seeds": 1,
        "runs": runs,
        "seconds": None,
        "event": f"{report.best.event}, record {report.best.direction}",
    }


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--runs", type=int, default=100_000, help="runs of an audit of a broken version, at most, for each seed"
    )
    parser.add_argument("--right-runs", type=int, default=40_000, help="the same for a right version, for each seed")
    parser.add_argument("--seeds", type=int, default=20, help="audits of each right version")
    parser.add_argument("--broken-seeds", type=int, default=5, help="audits of each broken version")
    parser.add_argument("--only", default="", help="only cases whose name contains this; no peer then")
    parser.add_argument("--peer-runs", type=int, default=2_000, help="fits of the other package on each table")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"), help="where the table is written")
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "pais-benchmarks")
    return parser.parse_args()


if __name__ == "__main__":
    main()
