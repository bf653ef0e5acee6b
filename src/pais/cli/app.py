"""The commands of the `pais` program. Each one imports its work when it is run, so that `pais --help` is fast."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from pais._version import __version__
from pais.cli import options
from pais.cli.guard import guarded
from pais.cli.options import Command, Group, grouped

ModelOut = Annotated[Path, typer.Option("--out", help="Directory for the values, the certificate and the report.")]


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
        _add_model(app, name, wanted, words)


def _add_model(app: typer.Typer, name: str, kind: type[Model], words: str) -> None:
    def command(
        wanted: Any,
        run: options.Run,
        report: options.Report,
        out: ModelOut,
        ledger: options.Ledger = None,
        overwrite: options.Overwrite = False,
    ) -> None:
        from pais.cli import commands

        commands.release(name, wanted, run, ledger, out, report, overwrite=overwrite)

    command.__annotations__["wanted"] = kind
    app.command(name, cls=Command, help=f"{words} Facts not stated are surveyed and paid for.")(
        grouped(guarded(command))
    )


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


StatisticOut = Annotated[
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
        _add_statistic(app, name, words)
    app.command(cls=Command)(grouped(guarded(histogram)))
    app.command(cls=Command)(grouped(guarded(quantile)))
    app.command(cls=Command)(grouped(guarded(count_people)))


def _add_statistic(app: typer.Typer, name: str, words: str) -> None:
    @app.command(name, cls=Command, help=words)
    @grouped
    @guarded
    def command(
        wanted: Statistic,
        run: options.Run,
        ledger: options.Ledger = None,
        out: StatisticOut = None,
        overwrite: options.Overwrite = False,
    ) -> None:
        from pais.cli import commands

        commands.statistic(name, wanted, run, ledger, out, overwrite=overwrite)


def histogram(
    wanted: Histogram,
    run: options.Run,
    ledger: options.Ledger = None,
    out: StatisticOut = None,
    overwrite: options.Overwrite = False,
) -> None:
    """Release the number of cells in each bin of each column, or in each category."""
    from pais.cli import commands

    commands.statistic("histogram", wanted, run, ledger, out, overwrite=overwrite)


def quantile(
    wanted: Quantile,
    run: options.Run,
    ledger: options.Ledger = None,
    out: StatisticOut = None,
    overwrite: options.Overwrite = False,
) -> None:
    """Release quantiles of each column: the median, or the levels of --q."""
    from pais.cli import commands

    commands.statistic("quantile", wanted, run, ledger, out, overwrite=overwrite)


def count_people(
    wanted: People,
    run: options.Run,
    ledger: options.Ledger = None,
    out: StatisticOut = None,
    overwrite: options.Overwrite = False,
) -> None:
    """Release the number of people, named by --unit, in all or in each group. A person may be in several groups."""
    from pais.cli import commands

    commands.statistic("count_people", wanted, run, ledger, out, overwrite=overwrite)


app = typer.Typer(
    name="pais",
    help="Differentially private statistics and models of a table, each with a certificate.",
    cls=Group,
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


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"pais {__version__}")
        raise typer.Exit


@app.callback()
def entry(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


@app.command(cls=Command)
@grouped
@guarded
def demo(
    run: options.Run,
    out: Annotated[Path, typer.Option("--out", help="Directory for the report and the centers.")] = Path("out"),
    repeats: Annotated[int, typer.Option("--repeats", min=1, help="Runs of each sampling method.")] = 9,
) -> None:
    """Compare four sampling methods at the same privacy guarantee, on a bundled public sample."""
    from pais.cli import demo as demonstration

    demonstration.demo(run, out, repeats)


@app.command(cls=Command)
@guarded
def example(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File to write: .csv or .parquet.")],
    people: Annotated[int, typer.Option("--people", min=1, help="Number of people. They have six rows on average.")] = (
        10_000
    ),
    seed: Annotated[int, typer.Option("--seed", help="The same seed writes the same table.")] = 0,
    overwrite: options.Overwrite = False,
) -> None:
    """Write a table about people who do not exist, to try the other commands on."""
    from pais.cli import commands

    commands.example(file, n_people=people, seed=seed, overwrite=overwrite)


@app.command(cls=Command)
@grouped
@guarded
def check(
    wanted: options.Checked,
    out: Annotated[
        Path | None, typer.Option("--out", help="File to write, such as check.json. It is as secret as the data.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON on stdout, and nothing else there.")] = False,
    overwrite: options.Overwrite = False,
) -> None:
    """Compare a file with what you state about it, for the data's owner. NOT private; no ledger is charged."""
    from pais.cli import commands

    commands.check(wanted, out, as_json=as_json, overwrite=overwrite)


@app.command(cls=Command)
@grouped
@guarded
def survey(
    rows: options.Rows,
    facts: options.Center,
    run: options.Run,
    epsilon: Annotated[float, typer.Option("--epsilon", help="Price of the survey for each row.")],
    quantile: Annotated[
        float | None,
        typer.Option("--quantile", help="Share of the rows within the radius. Default: the plan chooses the radius."),
    ] = None,
    mechanism: Annotated[
        options.MechanismChoice, typer.Option("--mechanism", help="Noise of the later release; it decides the norm.")
    ] = options.MechanismChoice.gaussian,
    ledger: options.Ledger = None,
    out: Annotated[Path | None, typer.Option("--out", help="File to write, such as survey.json.")] = None,
    overwrite: options.Overwrite = False,
) -> None:
    """Release noisy statistics of the norms of the rows. This spends --epsilon of the rows' budget."""
    from pais.cli import commands

    request = commands.SurveyRequest(
        epsilon=epsilon, center=facts.center, quantile=quantile, mechanism=mechanism.value, ledger=ledger
    )
    commands.survey(rows, request, run, out, overwrite=overwrite)


@app.command(cls=Command)
@grouped
@guarded
def plan(
    settings: options.KMeans,
    units: options.Units,
    output: options.Output,
    n_features: Annotated[
        int | None, typer.Option("--n-features", help="Number of columns. Default: the length of the center.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="File to write, such as plan.json.")] = None,
    overwrite: options.Overwrite = False,
) -> None:
    """Plan a private k-means from public facts. No data is read and no budget is spent."""
    from pais.cli import commands

    commands.plan(settings, units, output, n_features, out, overwrite=overwrite)


@app.command(cls=Command)
@grouped
@guarded
def sample(
    rows: options.Rows,
    run: options.Run,
    plan: Annotated[Path, typer.Option("--plan", help="Plan to sample for, from `pais plan --out plan.json`.")],
    out: Annotated[Path, typer.Option("--out", help="Parquet file to write. It is secret.")],
    carry: Annotated[
        str | None,
        typer.Option("--carry", help="Columns to copy beside the features, separated by commas. They are secret too."),
    ] = None,
    overwrite: options.Overwrite = False,
) -> None:
    """Draw the weighted sample of a plan, for the data's owner. It is NOT a private release; no ledger is charged."""
    from pais.cli import commands

    commands.sample(rows, run, plan, out, carry=carry, overwrite=overwrite)


@app.command(cls=Command)
@grouped
@guarded
def kmeans(
    context: typer.Context,
    settings: options.KMeans,
    rows: options.Rows,
    run: options.Run,
    report: options.Report,
    out: Annotated[Path, typer.Option("--out", help="Directory for centers, certificate and report.")],
    plan: Annotated[
        Path | None,
        typer.Option("--plan", help="Plan from `pais plan --out plan.json`, instead of clusters, epsilon and facts."),
    ] = None,
    ledger: options.Ledger = None,
    overwrite: options.Overwrite = False,
) -> None:
    """Release cluster centers with a certificate and a report. Facts not stated are surveyed and paid for."""
    from pais.cli import commands

    commands.prepare_release(out, overwrite=overwrite, seed=run.seed)
    if plan is None:
        work = commands.work_of_settings(settings, seed=run.seed)
    else:
        commands.refuse_beside_plan(context)
        work = commands.work_of_plan(plan, seed=run.seed)
    commands.kmeans(rows, work, run, ledger, out, report)


add_models(app)


@app.command(cls=Command)
@grouped
@guarded
def label(
    place: options.Place,
    output: options.Output,
    model: Annotated[Path, typer.Option("--model", help="Directory of a release, from `pais kmeans --out DIR`.")],
    to: Annotated[
        Path,
        typer.Option(
            "--to", help="Parquet file to write, one label per row in the order of the rows; with Spark, a directory."
        ),
    ],
    carry: Annotated[
        str | None, typer.Option("--carry", help="Columns to copy beside the labels, such as an id, with commas.")
    ] = None,
    overwrite: options.Overwrite = False,
) -> None:
    """Label rows with their nearest released center. Labels are NOT protected; no ledger is charged."""
    from pais.cli import commands

    commands.label(place, output, model, to, carry=carry, overwrite=overwrite)


@app.command(cls=Command)
@grouped
@guarded
def audit(
    output: options.Output,
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="Plan to audit, from `pais plan --out plan.json`.")],
    method: Annotated[
        options.AuditMethod,
        typer.Option(
            "--method",
            help="replay compares all that the plan does on two tables when the same noisy values leave; runs counts "
            "outputs of many runs, and tests the noise itself.",
        ),
    ] = options.AuditMethod.replay,
    runs: Annotated[
        int | None, typer.Option("--runs", min=2, help="Runs on each of the two tables. Default: 100,000.")
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(
            "--seconds", min=0.1, help="Time limit of runs. The audit uses those finished by then. Default: 60."
        ),
    ] = None,
    confidence: Annotated[
        float | None, typer.Option("--confidence", help="Confidence of the lower bound of runs. Default: 0.99.")
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Makes runs reproducible. A replay always is.")] = None,
) -> None:
    """Test the guarantee of a plan on synthetic neighbouring tables.

    No data is read and no budget is spent. Exit code 1 means that the guarantee is refuted. That is a bug: please
    report it.
    """
    from pais.cli import commands

    commands.audit(plan, output, method=method, runs=runs, seconds=seconds, confidence=confidence, seed=seed)


@app.command(cls=Command)
@guarded
def explain(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Any file that pais wrote, such as certificate.json.")],
    values: Annotated[
        Path | None, typer.Option("--values", help="Released centers (CSV or Parquet) to check against a certificate.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON on stdout, and nothing else there.")] = False,
) -> None:
    """Say what a file of pais is: a certificate, a plan or a survey in plain words, or another output."""
    from pais.cli import commands

    commands.explain(file, values, as_json=as_json)


@app.command(cls=Command)
@guarded
def ledger(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Ledger file. --epsilon creates it if it is missing.")],
    epsilon: Annotated[
        float | None, typer.Option("--epsilon", help="Total budget for the rows, written to a new ledger.")
    ] = None,
    delta: Annotated[
        float | None,
        typer.Option("--delta", help="Total delta, written to a new ledger. Default: 1e-5, for ten default releases."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON on stdout, and nothing else there.")] = False,
) -> None:
    """Create the ledger of a set of rows, or show how much was spent and how much remains."""
    from pais.cli import ledgers

    ledgers.ledger(file, epsilon, delta, as_json=as_json)


add_statistics(app)
