"""The program `pais` and its commands. A command imports what it needs when it runs, so that `pais --help` is fast."""

from __future__ import annotations

import signal
from typing import Annotated, Any

import typer

from pais._version import __version__
from pais.cli import options
from pais.cli.guard import guarded

app = typer.Typer(
    name="pais",
    help="Differentially private statistics and models of a table, each with a certificate.",
    cls=options.Group,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Run the script `pais`. Termination signals are handled like Ctrl-C: partly written files are removed."""
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        # Leave a signal alone if it is set to be ignored, as nohup does.
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, signal.default_int_handler)
    app()


@app.callback(invoke_without_command=True)
def entry(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        typer.echo(f"pais {__version__}")
        raise typer.Exit


#: The options of each command, and what the command says about itself if the options belong to several commands.
COMMANDS: dict[str, tuple[type[Any], str | None]] = {
    "demo": (options.Demo, None),
    "example": (options.Example, None),
    "check": (options.Check, None),
    "survey": (options.Survey, None),
    "plan": (options.Plan, None),
    "sample": (options.Sample, None),
    "kmeans": (options.KMeans, None),
    "regression": (options.Regression, None),
    "classification": (options.Classification, None),
    "pca": (options.PCA, None),
    "label": (options.Label, None),
    "audit": (options.Audit, None),
    "explain": (options.Explain, None),
    "ledger": (options.Ledger, None),
    "studio": (options.Studio, None),
    "mean": (options.Statistic, "Release the mean of each column, and shares of true and of categories."),
    "sum": (options.Statistic, "Release the sum of each column."),
    "count": (options.Statistic, "Release the number of rows, or of cells of each column."),
    "variance": (options.Statistic, "Release the variance of each column."),
    "covariance": (options.Statistic, "Release the covariances of all pairs of columns."),
    "describe": (
        options.Description,
        "Release several statistics of each column: count, mean, deviation and quartiles, or those of --statistics.",
    ),
    "histogram": (
        options.Histogram,
        "Release the number of cells in each bin of each column, or in each category.",
    ),
    "quantile": (options.Quantile, "Release quantiles of each column: the median, or the levels of --q."),
    "top": (options.Top, None),
    "count-people": (
        options.People,
        "Release the number of people, named by --unit, in all or in each group. A person may be in several groups.",
    ),
}


def _add(name: str, kind: type[Any], words: str | None) -> None:
    @guarded
    def command(**values: Any) -> None:
        from pais.cli import commands

        commands.run(name, kind(**values))

    read_by_typer: Any = command
    read_by_typer.__signature__ = signature = options.signature(kind)
    read_by_typer.__annotations__ = {
        parameter.name: parameter.annotation for parameter in signature.parameters.values()
    }
    app.command(name, cls=options.Command, help=words or kind.__doc__)(command)


for _name, (_kind, _words) in COMMANDS.items():
    _add(_name, _kind, _words)
