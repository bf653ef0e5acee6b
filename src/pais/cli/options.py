"""The options of each command, named as in the API. A command is a dataclass of them, and its docstring is its help."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import MISSING, dataclass, fields
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from pais.cli.guard import spelling

#: Names of the options that the user passed to the running command, whatever their values.
GIVEN: ContextVar[tuple[str, ...]] = ContextVar("given")

# Arguments that have another name on the command line, or that `pais check` mentions for other commands.
_ELSEWHERE = {"random_state": "--seed", "missing": "--missing"}

# Options that take several parts with commas between them.
_LISTS = ("columns", "by", "carry", "classes", "q")


class Group(TyperGroup):
    """The program itself. Its help shows flags without a type."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types(super().get_params(ctx))


class Command(TyperCommand):
    """A command whose help shows flags without a type. Messages of the package name its options."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types(super().get_params(ctx))

    @property
    def options(self) -> dict[str, str]:
        """The options by the names of their arguments."""
        own = {str(parameter.name): parameter.opts[0] for parameter in self.params if parameter.opts[0][:2] == "--"}
        return _ELSEWHERE | own

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments. A list that is passed in two options is refused, since only the second would count."""
        if not ctx.resilient_parsing:
            _, _, passed = self.make_parser(ctx).parse_args(args=list(args))
            for parameter, number in Counter(passed).items():
                if number > 1 and parameter.name in _LISTS:
                    raise typer.BadParameter(
                        f"{parameter.opts[0]} is passed {number} times. Pass it once, with commas between its parts."
                    )
        parsed: list[str] = super().parse_args(ctx, args)
        return parsed

    def invoke(self, ctx: Any) -> Any:
        given = [name for name in ctx.params if getattr(ctx.get_parameter_source(name), "name", "") != "DEFAULT"]
        GIVEN.set(tuple(given))
        with spelling(self.options):
            return super().invoke(ctx)


def _without_types(parameters: list[Any]) -> list[Any]:
    for parameter in parameters:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
    return parameters


def taking(options: type[Any], run: Callable[[Any], None]) -> Callable[..., None]:
    """A function with the fields of a dataclass as its parameters, which typer reads. It runs a command with them."""
    hints = get_type_hints(options, include_extras=True)
    # Options that a class defines come before those that it inherits.
    places = {name: place for place, base in reversed([*enumerate(options.__mro__)]) for name in _own(base)}
    parameters = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in sorted(fields(options), key=lambda field: places[field.name])
    ]

    def command(**values: Any) -> None:
        run(options(**values))

    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # read by typer
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command


def _own(kind: type[Any]) -> list[str]:
    return list(vars(kind).get("__annotations__", ()))


class SamplingName(str, Enum):
    constrained = "constrained"
    coreset = "coreset"
    uniform = "uniform"
    none = "none"


class MechanismChoice(str, Enum):
    gaussian = "gaussian"
    laplace = "laplace"
    l2 = "l2"


class AlgorithmChoice(str, Enum):
    refined = "refined"
    paper = "paper"


class MissingChoice(str, Enum):
    drop = "drop"
    midpoint = "midpoint"
    error = "error"


class AuditMethod(str, Enum):
    replay = "replay"
    runs = "runs"


class EngineName(str, Enum):
    auto = "auto"
    memory = "memory"
    arrow = "arrow"
    spark = "spark"


def number_or(word: str, kind: Callable[[str], float] = float, noun: str = "number") -> Callable[[str], float | str]:
    """A parser of an option that is a number or a word."""

    def parsed(text: str) -> float | str:
        if text == word:
            return text
        try:
            return kind(text)
        except ValueError:
            raise typer.BadParameter(f"{text!r} is not a valid {noun}, nor {word!r}.") from None

    return parsed


# Options that several commands share.


@dataclass(frozen=True, kw_only=True)
class Units:
    """The protected unit."""

    unit: Annotated[
        str | None,
        typer.Option(
            "--unit",
            help="Column that names the person, or other unit, of each row. The guarantee then covers all rows of a "
            "unit. Default: it covers single rows.",
        ),
    ] = None
    max_rows_per_unit: Annotated[
        int | None,
        typer.Option(
            "--max-rows-per-unit",
            help="Rows of a unit that count in full. The rows of a unit with more of them count less. Default: every "
            "unit counts once; for sum, count and histogram, a bound is found privately.",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where the rows are, and the engine to read them with."""

    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="Parquet or CSV (with a header): a file, a directory, a quoted pattern or an address. Only read.",
        ),
    ]
    separator: Annotated[
        str | None,
        typer.Option(
            "--separator",
            help="Character between the cells of a CSV file, or 'tab'. Default: the comma; or semicolon, tab or bar, "
            "if the header has that and no comma.",
        ),
    ] = None
    decimal: Annotated[
        str | None, typer.Option("--decimal", help="Decimal mark in a CSV file: '.' or ','. Default: the point.")
    ] = None
    thousands: Annotated[
        str | None, typer.Option("--thousands", help="Mark between groups of three digits in a CSV file, such as ','.")
    ] = None
    encoding: Annotated[
        str | None, typer.Option("--encoding", help="Encoding of a CSV file, such as cp1252. Default: UTF-8.")
    ] = None
    date_format: Annotated[
        str | None,
        typer.Option("--date-format", help="How dates are written in a CSV file, such as %d.%m.%Y. Default: %Y-%m-%d."),
    ] = None
    engine: Annotated[
        EngineName,
        typer.Option("--engine", help="How rows are read: streamed from files (auto, arrow), in memory, or by Spark."),
    ] = EngineName.auto
    master: Annotated[
        str | None,
        typer.Option("--master", help="Address of a Spark cluster, such as spark://host:7077. Implies Spark."),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Rows(Place, Units):
    """The rows and columns that a command reads, and who is protected."""

    columns: Annotated[
        str | None,
        typer.Option(
            "--columns",
            help="Columns to use and what is public about them: age=18:100 (bounds), income=auto (scale found "
            "privately), 'region=\\[north|south]' (categories), premium=bool, joined=2015-01-01:2025-12-31 (dates), "
            "visits=/10 (divide by 10), separated by commas; or a file columns.yaml or columns.json with the same. "
            "Names alone use the columns as they are. Default: all columns, ids included.",
        ),
    ] = None
    missing: Annotated[
        MissingChoice,
        typer.Option(
            "--missing",
            help="Rows with NaN, infinity, an empty cell or text: 'drop' leaves them out. 'midpoint' replaces the "
            "value by the middle of the stated bounds. 'error' stops and names the columns. That is outside the "
            "guarantee, because one row decides whether the command succeeds.",
        ),
    ] = MissingChoice.drop


@dataclass(frozen=True, kw_only=True)
class Center:
    """The center of the norms."""

    center: Annotated[
        str | None,
        typer.Option(
            "--center", help="Public origin of the norms: numbers separated by commas, or a file that contains them."
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Norms:
    """Public facts about the norms of the rows."""

    radius: Annotated[
        float | None,
        typer.Option(
            "--radius",
            help="Public bound on the distance of a row from the center; rows beyond it are clipped. The noise grows "
            "with the radius, so a loose bound can do more harm than paying for a survey.",
        ),
    ] = None
    norms: Annotated[
        str | None,
        typer.Option(
            "--norms", help="Public guess of the norms: quantiles at even levels from 0 to 1, separated by commas."
        ),
    ] = None
    n_rows: Annotated[float | None, typer.Option("--n-rows", help="Public number of rows. Needs --norms.")] = None


@dataclass(frozen=True, kw_only=True)
class Sampled:
    """How the rows of a model are sampled."""

    sampling: Annotated[SamplingName, typer.Option("--sampling", help="Sampling rule.")] = SamplingName.constrained
    quantile: Annotated[
        float | None,
        typer.Option("--quantile", help="Share of the rows within a surveyed radius. Default: the plan chooses it."),
    ] = None
    max_epsilon_if_kept: Annotated[
        float | None,
        typer.Option(
            "--max-epsilon-if-kept",
            help="Largest epsilon of a row, survey included, if it becomes known that the row was kept in the sample. "
            "Default: epsilon + 15.",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Clusters(Sampled, Center, Norms):
    """Settings of a private k-means; `KMeansSettings` checks them."""

    n_clusters: Annotated[
        str | None,
        typer.Option(
            "--n-clusters",
            parser=number_or("auto", int, "integer"),
            metavar="INTEGER|auto",
            help="Number of clusters. 'auto' chooses it from noisy values that are released anyway, at no extra price.",
        ),
    ] = None
    max_clusters: Annotated[
        int, typer.Option("--max-clusters", help="Largest number of clusters that 'auto' may choose.")
    ] = 20
    epsilon: Annotated[
        float | None, typer.Option("--epsilon", help="Guarantee for everything that is released, survey included.")
    ] = None
    delta: Annotated[
        float | None,
        typer.Option(
            "--delta",
            help="Default: with Gaussian noise the smaller of 1e-6 and 1 / (10 * number of rows, stated or surveyed); "
            "0 with 'laplace' and 'l2'.",
        ),
    ] = None
    sample_size: Annotated[
        str | None,
        typer.Option(
            "--sample-size",
            parser=number_or("free"),
            metavar="FLOAT|free",
            help="Expected rows in the sample. 'free': the fewest without extra noise. Default: the fewest whose "
            "predicted spread within segments is within 0.2 % of the best.",
        ),
    ] = None
    mechanism: Annotated[
        MechanismChoice,
        typer.Option("--mechanism", help="Noise: 'gaussian' for (epsilon, delta), the others for pure epsilon."),
    ] = MechanismChoice.gaussian
    algorithm: Annotated[
        AlgorithmChoice, typer.Option("--algorithm", help="'paper' is plain DP-Lloyd; it needs 'laplace' or 'l2'.")
    ] = AlgorithmChoice.refined
    survey: Annotated[
        Path | None,
        typer.Option("--survey", help="File with facts from `pais survey`. Its price counts within --epsilon."),
    ] = None


@dataclass(frozen=True, kw_only=True)
class JSON:
    """A command that can print JSON."""

    as_json: Annotated[bool, typer.Option("--json", help="Print JSON on stdout, and nothing else there.")] = False


@dataclass(frozen=True, kw_only=True)
class Output(JSON):
    """What a command prints."""

    quiet: Annotated[bool, typer.Option("--quiet", help="Print no progress and no summary, only warnings.")] = False


@dataclass(frozen=True, kw_only=True)
class Run(Output):
    """A command that draws random bits."""

    seed: Annotated[
        int | None,
        typer.Option("--seed", min=0, help="Reproducible and NOT PRIVATE: for rehearsals. Leave it out for a release."),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Overwrite:
    """A command that writes files."""

    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace files of an earlier run.")] = False


@dataclass(frozen=True, kw_only=True)
class Release(Run, Overwrite):
    """A command that spends budget."""

    ledger: Annotated[
        Path | None,
        typer.Option("--ledger", help="Budget of these rows, from `pais ledger`. It is charged before noise is drawn."),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Report:
    """Facts about the data for the head of the report."""

    data_name: Annotated[
        str, typer.Option("--data-name", help="Name of the data, for the head of the report.", show_default=False)
    ] = ""
    owner: Annotated[
        str,
        typer.Option("--owner", help="Name of the owner of the data, for the head of the report.", show_default=False),
    ] = ""


# The commands.


@dataclass(frozen=True, kw_only=True)
class Demo(Run):
    """Compare four sampling methods at the same privacy guarantee, on a bundled public sample."""

    out: Annotated[Path, typer.Option("--out", help="Directory for the report and the centers.")] = Path("out")
    repeats: Annotated[int, typer.Option("--repeats", min=1, help="Runs of each sampling method.")] = 9


@dataclass(frozen=True, kw_only=True)
class Example(Overwrite):
    """Write a table about people who do not exist, to try the other commands on."""

    file: Annotated[Path, typer.Argument(metavar="FILE", help="File to write: .csv or .parquet.")]
    people: Annotated[int, typer.Option("--people", min=1, help="Number of people. They have six rows on average.")] = (
        10_000
    )
    seed: Annotated[int, typer.Option("--seed", help="The same seed writes the same table.")] = 0


@dataclass(frozen=True, kw_only=True)
class Check(Place, JSON, Overwrite):
    """Compare a file with what you state about it, for the data's owner. NOT private; no ledger is charged."""

    columns: Annotated[
        str,
        typer.Option(
            "--columns",
            help="What you will state about each column, as in the other commands: age=18:100,premium=bool, or a file "
            "columns.yaml or columns.json.",
            show_default=False,
        ),
    ] = ""
    unit: Annotated[
        str | None, typer.Option("--unit", help="Column that names the person, or other unit, of each row.")
    ] = None
    target: Annotated[
        str | None, typer.Option("--target", help="Column that a regression or classification is to predict.")
    ] = None
    out: Annotated[
        Path | None, typer.Option("--out", help="File to write, such as check.json. It is as secret as the data.")
    ] = None


@dataclass(frozen=True, kw_only=True)
class Survey(Rows, Center, Release):
    """Release noisy statistics of the norms of the rows. This spends --epsilon of the rows' budget."""

    epsilon: Annotated[float, typer.Option("--epsilon", help="Price of the survey for each row.")]
    quantile: Annotated[
        float | None,
        typer.Option("--quantile", help="Share of the rows within the radius. Default: the plan chooses the radius."),
    ] = None
    mechanism: Annotated[
        MechanismChoice, typer.Option("--mechanism", help="Noise of the later release; it decides the norm.")
    ] = MechanismChoice.gaussian
    out: Annotated[Path | None, typer.Option("--out", help="File to write, such as survey.json.")] = None


@dataclass(frozen=True, kw_only=True)
class Plan(Clusters, Units, Output, Overwrite):
    """Plan a private k-means from public facts. No data is read and no budget is spent."""

    n_features: Annotated[
        int | None, typer.Option("--n-features", help="Number of columns. Default: the length of the center.")
    ] = None
    out: Annotated[Path | None, typer.Option("--out", help="File to write, such as plan.json.")] = None


@dataclass(frozen=True, kw_only=True)
class Sample(Rows, Run, Overwrite):
    """Draw the weighted sample of a plan, for the data's owner. It is NOT a private release; no ledger is charged."""

    plan: Annotated[Path, typer.Option("--plan", help="Plan to sample for, from `pais plan --out plan.json`.")]
    out: Annotated[Path, typer.Option("--out", help="Parquet file to write. It is secret.")]
    carry: Annotated[
        str | None,
        typer.Option("--carry", help="Columns to copy beside the features, separated by commas. They are secret too."),
    ] = None


@dataclass(frozen=True, kw_only=True)
class KMeans(Clusters, Rows, Release, Report):
    """Release cluster centers with a certificate and a report. Facts not stated are surveyed and paid for."""

    out: Annotated[Path, typer.Option("--out", help="Directory for centers, certificate and report.")]
    plan: Annotated[
        Path | None,
        typer.Option("--plan", help="Plan from `pais plan --out plan.json`, instead of clusters, epsilon and facts."),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Model(Sampled, Rows, Norms, Release, Report):
    """A model that an estimator fits."""

    epsilon: Annotated[
        float, typer.Option("--epsilon", help="Guarantee for everything that is released, survey included.")
    ]
    delta: Annotated[
        float | None,
        typer.Option("--delta", help="Default: the smaller of 1e-6 and 1 / (10 * number of rows, stated or surveyed)."),
    ] = None
    sample_size: Annotated[
        str | None,
        typer.Option(
            "--sample-size",
            parser=number_or("free"),
            metavar="FLOAT|free",
            help="Expected rows in the sample. Default: 'free', the fewest without extra noise.",
        ),
    ] = None
    out: Annotated[Path, typer.Option("--out", help="Directory for the values, the certificate and the report.")]


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
    """Release coefficients of a linear regression, with a certificate and a report.

    Facts not stated are surveyed and paid for.
    """

    alpha: Annotated[
        str,
        typer.Option(
            "--alpha",
            parser=number_or("noise"),
            metavar="FLOAT|noise",
            help="Penalty on large coefficients. 'noise' chooses it from the known scale of the noise.",
        ),
    ] = "noise"
    fit_intercept: Annotated[
        bool, typer.Option("--intercept/--no-intercept", help="Whether the model has an intercept.")
    ] = True


@dataclass(frozen=True, kw_only=True)
class Classification(Supervised):
    """Release coefficients of a logistic regression, with a certificate and a report.

    Facts not stated are surveyed and paid for.
    """

    classes: Annotated[
        str | None,
        typer.Option(
            "--classes",
            help="The classes of the target, which are public: 'yes|no'. Not needed if --columns states them, as in "
            "premium=bool or 'answer=\\[yes|no]'.",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class PCA(Model, Center):
    """Release principal components, with a certificate and a report. Facts not stated are surveyed and paid for."""

    n_components: Annotated[
        str,
        typer.Option(
            "--n-components",
            parser=number_or("auto", lambda text: int(text) if text.isdecimal() else float(text)),
            metavar="INTEGER|FLOAT|auto",
            help="Number of components, or a share of the variance below 1. 'auto' keeps those above the noise.",
        ),
    ] = "auto"


@dataclass(frozen=True, kw_only=True)
class Table(Rows, Release):
    """A statistic of a table, its columns and its groups."""

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
        MissingChoice,
        typer.Option(
            "--missing",
            help="Cells with NaN, infinity, nothing or text: 'drop' leaves them out and keeps the other cells of the "
            "row; a covariance leaves out the row. 'midpoint' replaces them by the middle of the bounds. 'error' stops "
            "and names the columns. That is outside the guarantee, because one row decides whether the command "
            "succeeds.",
        ),
    ] = MissingChoice.drop
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="File to write: mean.json, a page such as mean.html, or a table such as mean.csv or mean.parquet. The "
            "certificate is part of it; that of a table is written beside it, to mean.certificate.json.",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class People(Table):
    """A statistic that allows Gaussian noise."""

    delta: Annotated[
        float | None,
        typer.Option("--delta", help="0 for pure epsilon. Default: Gaussian noise with 1e-9 if it is smaller."),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Statistic(People):
    """A statistic that allows samples too."""

    sampling: Annotated[
        SamplingName, typer.Option("--sampling", help="Sampling rule, with --sample-size. Default: all rows.")
    ] = SamplingName.none
    sample_size: Annotated[
        float | None, typer.Option("--sample-size", help="Expected rows in the sample. A sample adds error.")
    ] = None


@dataclass(frozen=True, kw_only=True)
class Histogram(Statistic):
    """Numbers of cells in bins."""

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
class Label(Place, Output, Overwrite):
    """Label rows with their nearest released center. Labels are NOT protected; no ledger is charged."""

    model: Annotated[Path, typer.Option("--model", help="Directory of a release, from `pais kmeans --out DIR`.")]
    to: Annotated[
        Path,
        typer.Option(
            "--to", help="Parquet file to write, one label per row in the order of the rows; with Spark, a directory."
        ),
    ]
    carry: Annotated[
        str | None, typer.Option("--carry", help="Columns to copy beside the labels, such as an id, with commas.")
    ] = None


@dataclass(frozen=True, kw_only=True)
class Audit(Output):
    """Test the guarantee of a plan on synthetic neighbouring tables.

    No data is read and no budget is spent. Exit code 1 means that the guarantee is refuted. That is a bug: please
    report it.
    """

    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="Plan to audit, from `pais plan --out plan.json`.")]
    method: Annotated[
        AuditMethod,
        typer.Option(
            "--method",
            help="replay compares all that the plan does on two tables when the same noisy values leave; runs counts "
            "outputs of many runs, and tests the noise itself.",
        ),
    ] = AuditMethod.replay
    runs: Annotated[
        int | None, typer.Option("--runs", min=2, help="Runs on each of the two tables. Default: 100,000.")
    ] = None
    seconds: Annotated[
        float | None,
        typer.Option(
            "--seconds", min=0.1, help="Time limit of runs. The audit uses those finished by then. Default: 60."
        ),
    ] = None
    confidence: Annotated[
        float | None, typer.Option("--confidence", help="Confidence of the lower bound of runs. Default: 0.99.")
    ] = None
    seed: Annotated[int | None, typer.Option("--seed", help="Makes runs reproducible. A replay always is.")] = None


@dataclass(frozen=True, kw_only=True)
class Explain(JSON):
    """Say what a file of pais is: a certificate, a plan or a survey in plain words, or another output."""

    file: Annotated[Path, typer.Argument(metavar="FILE", help="Any file that pais wrote, such as certificate.json.")]
    values: Annotated[
        Path | None, typer.Option("--values", help="Released centers (CSV or Parquet) to check against a certificate.")
    ] = None


@dataclass(frozen=True, kw_only=True)
class Ledger(JSON):
    """Create the ledger of a set of rows, or show how much was spent and how much remains."""

    file: Annotated[Path, typer.Argument(metavar="FILE", help="Ledger file. --epsilon creates it if it is missing.")]
    epsilon: Annotated[
        float | None, typer.Option("--epsilon", help="Total budget for the rows, written to a new ledger.")
    ] = None
    delta: Annotated[
        float | None,
        typer.Option("--delta", help="Total delta, written to a new ledger. Default: 1e-5, for ten default releases."),
    ] = None
