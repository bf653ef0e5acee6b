"""`pais audit`: compute a lower bound on the epsilon of a plan and compare it with the certified epsilon."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pais.auditing import audit as run_audit
from pais.cli import options, plans, show
from pais.cli.guard import FAILED, guarded


@guarded
def audit(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="The plan to audit: from `pais plan --out plan.json`.")],
    runs: Annotated[int, typer.Option("--runs", min=2, help="Runs on each of the two tables.")] = 100_000,
    seconds: Annotated[
        float | None, typer.Option("--seconds", min=0.1, help="Time limit; the runs made until then count.")
    ] = 60.0,
    confidence: Annotated[float, typer.Option("--confidence", help="Of the lower bound.")] = 0.99,
    seed: Annotated[int | None, typer.Option("--seed", help="Repeats the audit.")] = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Run a plan on synthetic neighbouring tables and compute a lower bound on its epsilon.

    No data is read and no budget is spent. Exit code 1 means that the certified epsilon is refuted. That is a bug:
    please report it.
    """
    made = plans.read_request(plan).plan()
    with show.stages(total=1, quiet=quiet) as begin:
        begin("audit")
        found = run_audit(made, runs=runs, seconds=seconds, confidence=confidence, random_state=seed)
    if as_json:
        show.print_json(found.describe())
    elif not quiet:
        show.say(str(found))
    if found.violates:
        raise typer.Exit(FAILED)
