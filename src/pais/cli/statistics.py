"""The commands of the one-line statistics: mean, sum, count, histogram, quantile and others."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from pais.cli import options
from pais.cli.guard import guarded
from pais.cli.help import Command
from pais.cli.options import grouped

#: The statistics whose commands have the same options, and what they say about themselves.
PLAIN = {
    "mean": "Release the mean of each column, and shares of true and of categories.",
    "sum": "Release the sum of each column.",
    "count": "Release the number of rows, or of cells of each column.",
    "variance": "Release the variance of each column.",
    "covariance": "Release the covariances of all pairs of columns.",
    "describe": "Release count, mean, standard deviation and quartiles of each column.",
}


@dataclass(frozen=True, kw_only=True)
class Table(options.Rows):
    """A table, its columns and its groups, and the guarantee."""

    epsilon: Annotated[float, typer.Option("--epsilon", help="Guarantee for everything that is released.")]
    by: Annotated[
        str | None,
        typer.Option(
            "--by",
            help="Columns with public categories, which form groups: 'region=\\[north|south]', or names of columns "
            "whose categories --columns states. 'age=ranges(0,18,65,110)' are ranges of numbers, and "
            "'joined=months(2024-01-01,2024-12-31)' are months of dates; days, weeks, quarters and years are written "
            "in the same way. More groups do not raise the noise.",
        ),
    ] = None
    columns: Annotated[
        str | None,
        typer.Option(
            "--columns",
            help="Columns to summarise and what is public about them: age=18:100 (bounds), income=auto (bounds found "
            "privately), 'region=\\[north|south]' (categories), premium=bool, joined=2015-01-01:2025-12-31 (dates), "
            "separated by commas; or a file columns.yaml or columns.json with the same. `pais count` counts rows "
            "without it.",
        ),
    ] = None
    missing: Annotated[
        options.MissingChoice,
        typer.Option(
            "--missing",
            help="Cells with NaN, infinity, nothing or text: 'drop' leaves them out and keeps the other cells of the "
            "row; a covariance leaves out the row. 'midpoint' replaces them by the middle of the bounds. 'error' stops "
            "and names the columns. That is outside the guarantee, because one row decides whether the command "
            "succeeds.",
        ),
    ] = options.MissingChoice.drop


@dataclass(frozen=True, kw_only=True)
class Statistic(Table):
    """A statistic that allows Gaussian noise and samples."""

    delta: Annotated[
        float | None,
        typer.Option("--delta", help="0 for pure epsilon. Default: Gaussian noise with 1e-9 if it is smaller."),
    ] = None
    sampling: Annotated[
        options.SamplingName, typer.Option("--sampling", help="Sampling rule, with --sample-size. Default: all rows.")
    ] = options.SamplingName.none
    sample_size: Annotated[
        float | None, typer.Option("--sample-size", help="Expected rows in the sample. A sample adds error.")
    ] = None


@dataclass(frozen=True, kw_only=True)
class Histogram(Statistic):
    """A histogram."""

    bins: Annotated[
        str, typer.Option("--bins", help="Number of bins between the bounds, or their edges with commas: 0,18,65,100.")
    ] = "10"


@dataclass(frozen=True, kw_only=True)
class Quantile(Table):
    """Quantiles, which have pure epsilon."""

    q: Annotated[str, typer.Option("--q", help="Levels between 0 and 1, with commas: 0.25,0.5,0.75.")] = "0.5"
    step: Annotated[
        float | None, typer.Option("--step", help="Values are multiples of this public number. Default: a fine grid.")
    ] = None


@dataclass(frozen=True, kw_only=True)
class People(Table):
    """A number of people."""

    delta: Annotated[
        float | None,
        typer.Option("--delta", help="0 for pure epsilon. Default: Gaussian noise with 1e-9 if it is smaller."),
    ] = None


Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        help="File to write: mean.json, a page such as mean.html, or a table such as mean.csv or mean.parquet. The "
        "certificate is part of it; that of a table is written beside it, to mean.certificate.json.",
    ),
]


def add_statistics(app: typer.Typer) -> None:
    """Add the commands to the program."""
    for name, words in PLAIN.items():
        _add(app, name, words)
    app.command(cls=Command)(grouped(guarded(histogram)))
    app.command(cls=Command)(grouped(guarded(quantile)))
    app.command(cls=Command)(grouped(guarded(count_people)))


def _add(app: typer.Typer, name: str, words: str) -> None:
    @app.command(name, cls=Command, help=words)
    @grouped
    @guarded
    def command(
        wanted: Statistic,
        run: options.Run,
        ledger: options.Ledger = None,
        out: Out = None,
        overwrite: options.Overwrite = False,
    ) -> None:
        from pais.cli import released_statistics

        released_statistics.statistic(name, wanted, run, ledger, out, overwrite=overwrite)


def histogram(
    wanted: Histogram,
    run: options.Run,
    ledger: options.Ledger = None,
    out: Out = None,
    overwrite: options.Overwrite = False,
) -> None:
    """Release the number of cells in each bin of each column, or in each category."""
    from pais.cli import released_statistics

    released_statistics.statistic("histogram", wanted, run, ledger, out, overwrite=overwrite)


def quantile(
    wanted: Quantile,
    run: options.Run,
    ledger: options.Ledger = None,
    out: Out = None,
    overwrite: options.Overwrite = False,
) -> None:
    """Release quantiles of each column: the median, or the levels of --q."""
    from pais.cli import released_statistics

    released_statistics.statistic("quantile", wanted, run, ledger, out, overwrite=overwrite)


def count_people(
    wanted: People,
    run: options.Run,
    ledger: options.Ledger = None,
    out: Out = None,
    overwrite: options.Overwrite = False,
) -> None:
    """Release the number of people, named by --unit, in all or in each group. A person may be in several groups."""
    from pais.cli import released_statistics

    released_statistics.statistic("count_people", wanted, run, ledger, out, overwrite=overwrite)
