"""The commands of the models beside k-means: regression, classification and PCA."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from pais.cli import options
from pais.cli.guard import guarded
from pais.cli.help import Command
from pais.cli.options import grouped

Out = Annotated[Path, typer.Option("--out", help="Directory for the values, the certificate and the report.")]


@dataclass(frozen=True, kw_only=True)
class Model(options.Rows, options.Norms):
    """The table of a model, the guarantee and the sampling."""

    epsilon: Annotated[
        float, typer.Option("--epsilon", help="Guarantee for everything that is released, survey included.")
    ]
    delta: Annotated[
        float | None,
        typer.Option("--delta", help="Default: the smaller of 1e-6 and 1 / (10 * number of rows, stated or surveyed)."),
    ] = None
    sampling: options.Sampling = options.SamplingName.constrained
    sample_size: Annotated[
        str | None,
        typer.Option(
            "--sample-size",
            parser=options.number_or("free"),
            metavar="FLOAT|free",
            help="Expected rows in the sample. Default: 'free', the fewest without extra noise.",
        ),
    ] = None
    quantile: options.Quantile = None
    max_epsilon_if_kept: options.MaxEpsilonIfKept = None


@dataclass(frozen=True, kw_only=True)
class Supervised(Model):
    """A model of a target."""

    target: Annotated[
        str,
        typer.Option(
            "--target",
            help="Column to predict. The other columns of --columns are the features; what is not stated about them, "
            "or about the target, is found privately.",
        ),
    ]


@dataclass(frozen=True, kw_only=True)
class Regression(Supervised):
    """A linear regression."""

    alpha: Annotated[
        str,
        typer.Option(
            "--alpha",
            parser=options.number_or("noise"),
            metavar="FLOAT|noise",
            help="Penalty on large coefficients. 'noise' chooses it from the known scale of the noise.",
        ),
    ] = "noise"
    fit_intercept: Annotated[
        bool, typer.Option("--intercept/--no-intercept", help="Whether the model has an intercept.")
    ] = True


@dataclass(frozen=True, kw_only=True)
class Classification(Supervised):
    """A logistic regression."""

    classes: Annotated[
        str | None,
        typer.Option(
            "--classes",
            help="The classes of the target, which are public: 'yes|no'. Not needed if --columns states them, as in "
            "premium=bool or 'answer=\\[yes|no]'.",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Components(Model, options.Center):
    """A principal component analysis."""

    n_components: Annotated[
        str,
        typer.Option(
            "--n-components",
            parser=options.number_or("auto", lambda text: int(text) if text.isdecimal() else float(text)),
            metavar="INTEGER|FLOAT|auto",
            help="Number of components, or a share of the variance below 1. 'auto' keeps those above the noise.",
        ),
    ] = "auto"


#: The commands: the name of the estimator, its options, and what the command says about itself.
MODELS: dict[str, tuple[str, type[Model], str]] = {
    "regression": (
        "DPLinearRegression",
        Regression,
        "Release coefficients of a linear regression, with a certificate and a report.",
    ),
    "classification": (
        "DPLogisticRegression",
        Classification,
        "Release coefficients of a logistic regression, with a certificate and a report.",
    ),
    "pca": ("DPPCA", Components, "Release principal components, with a certificate and a report."),
}


def add_models(app: typer.Typer) -> None:
    """Add the commands to the program."""
    for name, (_, wanted, words) in MODELS.items():
        _add(app, name, wanted, words)


def _add(app: typer.Typer, name: str, kind: type[Model], words: str) -> None:
    def command(
        wanted: Any,
        run: options.Run,
        report: options.Report,
        out: Out,
        ledger: options.Ledger = None,
        overwrite: options.Overwrite = False,
    ) -> None:
        from pais.cli import released_models

        released_models.release(name, wanted, run, ledger, out, report, overwrite=overwrite)

    command.__annotations__["wanted"] = kind
    app.command(name, cls=Command, help=f"{words} Facts not stated are surveyed and paid for.")(
        grouped(guarded(command))
    )
