"""``python -m experiments.paper``: measure what is missing, then figures, tables and RESULTS.md."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from experiments.paper.grid import FULL, MINIATURE, QUICK
from experiments.paper.study import measured

GRIDS = {grid.name: grid for grid in (FULL, QUICK, MINIATURE)}


def main(
    grid: Annotated[str, typer.Option(help="full, quick or miniature.")] = "full",
    data: Annotated[list[Path] | None, typer.Option(help="Directory with data sets; may be repeated.")] = None,
    dataset: Annotated[list[str] | None, typer.Option(help="Only this set; may be repeated.")] = None,
    work: Annotated[Path, typer.Option(help="Prepared rows and results.parquet.")] = Path("out/paper"),
    out: Annotated[Path, typer.Option(help="RESULTS.md, figures and tables.")] = Path("out/paper/report"),
    fresh: Annotated[bool, typer.Option(help="Throw earlier results away.")] = False,
) -> None:
    """The paper's study on the data sets that are present."""
    console = Console()
    directories = data or [Path("../shared/data"), Path("data")]
    study = measured(
        GRIDS[grid], directories=directories, work=work, keys=dataset or None, fresh=fresh, console=console
    )


if __name__ == "__main__":
    typer.run(main)
