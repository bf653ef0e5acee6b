"""``python -m experiments.paper``: measure what is missing, then figures, tables and RESULTS.md."""

from __future__ import annotations

import signal
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from experiments.paper import table_one
from experiments.paper.families import Workbench
from experiments.paper.figures import scatter
from experiments.paper.grid import FULL, MINIATURE, QUICK, Grid
from experiments.paper.report import DatasetFacts, Facts, write_results
from experiments.paper.study import Study, measured
from pais.errors import PaisError

_FIGURE_1 = "covertype"


class GridName(str, Enum):
    full = "full"
    quick = "quick"
    miniature = "miniature"


_GRIDS = {GridName.full: FULL, GridName.quick: QUICK, GridName.miniature: MINIATURE}


def main(
    grid: Annotated[GridName, typer.Option(help="How much is measured.")] = GridName.full,
    data: Annotated[list[Path] | None, typer.Option(help="Directory with data sets; may be repeated.")] = None,
    dataset: Annotated[list[str] | None, typer.Option(help="Only this set; may be repeated.")] = None,
    work: Annotated[Path, typer.Option(help="Prepared rows and results.parquet.")] = Path("out/paper"),
    out: Annotated[Path, typer.Option(help="RESULTS.md, figures and tables.")] = Path("out/paper/report"),
    fresh: Annotated[bool, typer.Option(help="Throw earlier results away.")] = False,
) -> None:
    """The paper's study on the data sets that are present; what was interrupted goes on where it was."""
    console = Console()
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    directories = data or [Path("../shared/data"), Path("data")]
    chosen = _GRIDS[grid]
    try:
        study = measured(chosen, directories=directories, work=work, keys=dataset or None, fresh=fresh, console=console)
        rows = table_one.table_rows(study.sets)
        # Wide enough for all its columns, also where no terminal says how wide it is.
        Console(width=max(console.width, 130)).print(table_one.rich_table(rows))
        _report(study, chosen, table_one.markdown(rows), out)
    except PaisError as error:
        console.print(f"error: {error}", style="red", markup=False)
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        console.print(f"stopped; what is done is in {work}, and the same command goes on from there")
        raise typer.Exit(130) from None
    console.print(f"{out / 'RESULTS.md'} written; measuring took {study.results.minutes:.0f} minutes in all")


def _report(study: Study, grid: Grid, first_table: str, out: Path) -> None:
    shown = next((one for one in study.sets if one.source.key == _FIGURE_1), study.sets[0])
    bench = Workbench(rows=shown.rows, center_sets=grid.center_sets)
    write_results(
        study.results.frame(),
        directory=out,
        table_one_markdown=first_table,
        scatter=scatter(bench, shown.source.title, sample_size=shown.source.shown_sizes[0] // 5, epsilon=3.0),
        facts=Facts(
            grid_name=grid.name,
            repetitions=grid.repetitions,
            full_repetitions=grid.full_repetitions,
            time_repetitions=grid.time_repetitions,
            center_sets=grid.center_sets,
            minutes=study.results.minutes,
            datasets={one.source.key: DatasetFacts(title=one.source.title, n_rows=one.n) for one in study.sets},
        ),
    )


if __name__ == "__main__":
    typer.run(main)
