"""The options of each command, named as in the API. A command is a dataclass of them, and its docstring is its help."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from pais.cli.guard import spelling

# ruff: noqa: RUF009  # `option` and `argument` return fields of a dataclass


#: Names of the options that the user passed to the running command, whatever their values.
GIVEN: ContextVar[tuple[str, ...]] = ContextVar("given")

# Arguments that have another name on the command line, or that `pais check` mentions for other commands.
_ELSEWHERE = {"random_state": "--seed", "missing": "--missing"}

# Options that take several parts with commas between them.
_LISTS = ("columns", "by", "carry", "classes", "q")


class _Untyped:
    """A command or the program. Its help shows flags without a type."""

    def get_params(self, ctx: Any) -> list[Any]:
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]  # of the class beside this one
        for parameter in parameters:
            if getattr(parameter, "is_flag", False):
                parameter.metavar = ""
        return parameters


class Group(_Untyped, TyperGroup):
    """The program itself."""


class Command(_Untyped, TyperCommand):
    """A command. Messages of the package name its options."""

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


def signature(options: type[Any]) -> inspect.Signature:
    """The fields of a dataclass as the parameters of a function, which typer reads."""
    hints = get_type_hints(options)
    # Options that a class defines come before those that it inherits.
    places = {
        name: place for place, base in reversed([*enumerate(options.__mro__)]) for name in inspect.get_annotations(base)
    }
    parameters = [
        inspect.Parameter(
            each.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if each.default is MISSING else each.default,
            annotation=Annotated[hints[each.name], each.metadata["typer"]],
        )
        for each in sorted(fields(options), key=lambda each: places[each.name])
    ]
    return inspect.Signature(parameters)


Sampling = Literal["constrained", "coreset", "uniform", "none"]
Mechanism = Literal["gaussian", "laplace", "l2"]
Missing = Literal["drop", "midpoint", "error"]


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


def option(text: str, default: Any = None, *, name: str | None = None, **more: Any) -> Any:
    """A field that is an option with this help, called like the field unless another name is stated."""
    names = () if name is None else (name,)
    return field(default=default, metadata={"typer": typer.Option(*names, help=text, **more)})


def argument(text: str, *, metavar: str) -> Any:
    """A field that is an argument without a name, with this help."""
    return field(metadata={"typer": typer.Argument(help=text, metavar=metavar)})


# Options that several commands share.


@dataclass(frozen=True, kw_only=True)
class Units:
    """The protected unit."""

    unit: str | None = option(
        "Column that names the person, or other unit, of each row. The guarantee then covers all rows of a "
        "unit. Default: it covers single rows."
    )
    max_rows_per_unit: int | None = option(
        "Rows of a unit that count in full. The rows of a unit with more of them count less. Default: every "
        "unit counts once; for sum, count and histogram, a bound is found privately."
    )


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where the rows are, and the engine to read them with."""

    data: str = argument(
        "Parquet or CSV (with a header): a file, a directory, a quoted pattern or an address. Only read.",
        metavar="DATA",
    )
    separator: str | None = option(
        "Character between the cells of a CSV file, or 'tab'. Default: the comma; or semicolon, tab or bar, "
        "if the header has that and no comma."
    )
    decimal: str | None = option("Decimal mark in a CSV file: '.' or ','. Default: the point.")
    thousands: str | None = option("Mark between groups of three digits in a CSV file, such as ','.")
    encoding: str | None = option("Encoding of a CSV file, such as cp1252. Default: UTF-8.")
    date_format: str | None = option("How dates are written in a CSV file, such as %d.%m.%Y. Default: %Y-%m-%d.")
    engine: Literal["auto", "memory", "arrow", "spark"] = option(
        "How rows are read: streamed from files (auto, arrow), in memory, or by Spark.", "auto"
    )
    master: str | None = option("Address of a Spark cluster, such as spark://host:7077. Implies Spark.")


@dataclass(frozen=True, kw_only=True)
class Rows(Place, Units):
    """The rows and columns that a command reads, and who is protected."""

    columns: str | None = option(
        "Columns to use and what is public about them: age=18:100 (bounds), income=auto (scale found "
        "privately), 'region=\\[north|south]' (categories), 'ward=names()' (found privately), "
        "premium=bool, joined=2015-01-01:2025-12-31 (dates), "
        "visits=/10 (divide by 10), separated by commas; or a file columns.yaml or columns.json with the same. "
        "Names alone use the columns as they are. Default: all columns, ids included."
    )
    missing: Missing = option(
        "Rows with NaN, infinity, an empty cell or text: 'drop' leaves them out. 'midpoint' replaces the "
        "value by the middle of the stated bounds. 'error' stops and names the columns. That is outside the "
        "guarantee, because one row decides whether the command succeeds.",
        "drop",
    )


@dataclass(frozen=True, kw_only=True)
class Center:
    """The center of the norms."""

    center: str | None = option(
        "Public origin of the norms: numbers separated by commas, or a file that contains them."
    )


@dataclass(frozen=True, kw_only=True)
class Norms:
    """Public facts about the norms of the rows."""

    radius: float | None = option(
        "Public bound on the distance of a row from the center; rows beyond it are clipped. The noise grows "
        "with the radius, so a loose bound can do more harm than paying for a survey."
    )
    norms: str | None = option("Public guess of the norms: quantiles at even levels from 0 to 1, separated by commas.")
    n_rows: float | None = option("Public number of rows. Needs --norms.")


@dataclass(frozen=True, kw_only=True)
class Sampled:
    """How the rows of a model are sampled."""

    sampling: Sampling = option("Sampling rule.", "constrained")
    quantile: float | None = option("Share of the rows within a surveyed radius. Default: the plan chooses it.")
    max_epsilon_if_kept: float | None = option(
        "Largest epsilon of a row, survey included, if it becomes known that the row was kept in the sample. "
        "Default: epsilon + 15."
    )


@dataclass(frozen=True, kw_only=True)
class Clusters(Sampled, Center, Norms):
    """Settings of a private k-means; `KMeansSettings` checks them."""

    n_clusters: str | None = option(
        "Number of clusters. 'auto' chooses it from noisy values that are released anyway, at no extra price.",
        parser=number_or("auto", int, "integer"),
        metavar="INTEGER|auto",
    )
    max_clusters: int = option("Largest number of clusters that 'auto' may choose.", 20)
    epsilon: float | None = option("Guarantee for everything that is released, survey included.")
    delta: float | None = option(
        "Default: with Gaussian noise the smaller of 1e-6 and 1 / (10 * number of rows, stated or surveyed); "
        "0 with 'laplace' and 'l2'."
    )
    sample_size: str | None = option(
        "Expected rows in the sample. 'free': the fewest without extra noise. Default: the fewest whose "
        "predicted spread within segments is within 0.2 % of the best.",
        parser=number_or("free"),
        metavar="FLOAT|free",
    )
    mechanism: Mechanism = option("Noise: 'gaussian' for (epsilon, delta), the others for pure epsilon.", "gaussian")
    algorithm: Literal["refined", "paper"] = option("'paper' is plain DP-Lloyd; it needs 'laplace' or 'l2'.", "refined")
    survey: Path | None = option("File with facts from `pais survey`. Its price counts within --epsilon.")


@dataclass(frozen=True, kw_only=True)
class JSON:
    """A command that can print JSON."""

    as_json: bool = option("Print JSON on stdout, and nothing else there.", False, name="--json")


@dataclass(frozen=True, kw_only=True)
class Output(JSON):
    """What a command prints."""

    quiet: bool = option("Print no progress and no summary, only warnings.", False, name="--quiet")


@dataclass(frozen=True, kw_only=True)
class Run(Output):
    """A command that draws random bits."""

    seed: int | None = option("Reproducible and NOT PRIVATE: for rehearsals. Leave it out for a release.", min=0)


@dataclass(frozen=True, kw_only=True)
class Overwrite:
    """A command that writes files."""

    overwrite: bool = option("Replace files of an earlier run.", False, name="--overwrite")


@dataclass(frozen=True, kw_only=True)
class Release(Run, Overwrite):
    """A command that spends budget."""

    ledger: Path | None = option("Budget of these rows, from `pais ledger`. It is charged before noise is drawn.")


@dataclass(frozen=True, kw_only=True)
class Report:
    """Facts about the data for the head of the report."""

    data_name: str = option("Name of the data, for the head of the report.", "", show_default=False)
    owner: str = option("Name of the owner of the data, for the head of the report.", "", show_default=False)


# The commands.


@dataclass(frozen=True, kw_only=True)
class Demo(Run):
    """Compare four sampling methods at the same privacy guarantee, on a bundled public sample."""

    out: Path = option("Directory for the report and the centers.", Path("out"))
    repeats: int = option("Runs of each sampling method.", 9, min=1)


@dataclass(frozen=True, kw_only=True)
class Example(Overwrite):
    """Write a table about people who do not exist, to try the other commands on."""

    file: Path = argument("File to write: .csv or .parquet.", metavar="FILE")
    people: int = option("Number of people. They have six rows on average.", 10_000, min=1)
    seed: int = option("The same seed writes the same table.", 0)


@dataclass(frozen=True, kw_only=True)
class Check(Place, JSON, Overwrite):
    """Compare a file with what you state about it, for the data's owner. NOT private; no ledger is charged."""

    columns: str = option(
        "What you will state about each column, as in the other commands: age=18:100,premium=bool, or a file "
        "columns.yaml or columns.json.",
        "",
        show_default=False,
    )
    unit: str | None = option("Column that names the person, or other unit, of each row.")
    target: str | None = option("Column that a regression or classification is to predict.")
    out: Path | None = option("File to write, such as check.json. It is as secret as the data.")


@dataclass(frozen=True, kw_only=True)
class Survey(Rows, Center, Release):
    """Release noisy statistics of the norms of the rows. This spends --epsilon of the rows' budget."""

    epsilon: float = option("Price of the survey for each row.", MISSING)
    quantile: float | None = option("Share of the rows within the radius. Default: the plan chooses the radius.")
    mechanism: Mechanism = option("Noise of the later release; it decides the norm.", "gaussian")
    out: Path | None = option("File to write, such as survey.json.")


@dataclass(frozen=True, kw_only=True)
class Plan(Clusters, Units, Output, Overwrite):
    """Plan a private k-means from public facts. No data is read and no budget is spent."""

    n_features: int | None = option("Number of columns. Default: the length of the center.")
    out: Path | None = option("File to write, such as plan.json.")


@dataclass(frozen=True, kw_only=True)
class Sample(Rows, Run, Overwrite):
    """Draw the weighted sample of a plan, for the data's owner. It is NOT a private release; no ledger is charged."""

    plan: Path = option("Plan to sample for, from `pais plan --out plan.json`.", MISSING)
    out: Path = option("Parquet file to write. It is secret.", MISSING)
    carry: str | None = option("Columns to copy beside the features, separated by commas. They are secret too.")


@dataclass(frozen=True, kw_only=True)
class KMeans(Clusters, Rows, Release, Report):
    """Release cluster centers with a certificate and a report. Facts not stated are surveyed and paid for."""

    out: Path = option("Directory for centers, certificate and report.", MISSING)
    plan: Path | None = option("Plan from `pais plan --out plan.json`, instead of clusters, epsilon and facts.")


@dataclass(frozen=True, kw_only=True)
class Model(Sampled, Rows, Norms, Release, Report):
    """A model that an estimator fits."""

    epsilon: float = option("Guarantee for everything that is released, survey included.", MISSING)
    delta: float | None = option("Default: the smaller of 1e-6 and 1 / (10 * number of rows, stated or surveyed).")
    sample_size: str | None = option(
        "Expected rows in the sample. Default: 'free', the fewest without extra noise.",
        parser=number_or("free"),
        metavar="FLOAT|free",
    )
    out: Path = option("Directory for the values, the certificate and the report.", MISSING)


@dataclass(frozen=True, kw_only=True)
class Supervised(Model):
    """A model of a target."""

    target: str = option(
        "Column to predict. The other columns of --columns are the features; what is not stated about them, "
        "or about the target, is found privately.",
        MISSING,
    )


@dataclass(frozen=True, kw_only=True)
class Regression(Supervised):
    """Release coefficients of a linear regression, with a certificate and a report.

    Facts not stated are surveyed and paid for.
    """

    alpha: str = option(
        "Penalty on large coefficients. 'noise' chooses it from the known scale of the noise.",
        "noise",
        parser=number_or("noise"),
        metavar="FLOAT|noise",
    )
    fit_intercept: bool = option("Whether the model has an intercept.", True, name="--intercept/--no-intercept")


@dataclass(frozen=True, kw_only=True)
class Classification(Supervised):
    """Release coefficients of a logistic regression, with a certificate and a report.

    Facts not stated are surveyed and paid for.
    """

    classes: str | None = option(
        "The classes of the target, which are public: 'yes|no'. Not needed if --columns states them, as in "
        "premium=bool or 'answer=\\[yes|no]'."
    )


@dataclass(frozen=True, kw_only=True)
class PCA(Model, Center):
    """Release principal components, with a certificate and a report. Facts not stated are surveyed and paid for."""

    n_components: str = option(
        "Number of components, or a share of the variance below 1. 'auto' keeps those above the noise.",
        "auto",
        parser=number_or("auto", lambda text: int(text) if text.isdecimal() else float(text)),
        metavar="INTEGER|FLOAT|auto",
    )


@dataclass(frozen=True, kw_only=True)
class Table(Rows, Release):
    """A statistic of a table, its columns and its groups."""

    epsilon: float = option("Guarantee for everything that is released.", MISSING)
    by: str | None = option(
        "Columns that form groups. ward finds privately which wards enough people have, and the rest is 'other'; "
        "'ward=names(strip,casefold)' ignores blanks and case. 'region=\\[north|south]' lists public categories, and "
        "a name alone may be a column whose categories --columns states. 'age=ranges(0,18,65,110)' are ranges of "
        "numbers, and 'joined=months(2024-01-01,2024-12-31)' are months of dates; days, weeks, quarters and years are "
        "written in the same way. More groups do not raise the noise."
    )
    columns: str | None = option(
        "Columns to summarise and what is public about them: age=18:100 (bounds), income=auto (bounds found "
        "privately), 'region=\\[north|south]' (categories), 'ward=names()' (found privately), "
        "premium=bool, joined=2015-01-01:2025-12-31 (dates), "
        "separated by commas; or a file columns.yaml or columns.json with the same. `pais count` counts rows "
        "without it."
    )
    missing: Missing = option(
        "Cells with NaN, infinity, nothing or text: 'drop' leaves them out and keeps the other cells of the "
        "row; a covariance leaves out the row. 'midpoint' replaces them by the middle of the bounds. 'error' stops "
        "and names the columns. That is outside the guarantee, because one row decides whether the command "
        "succeeds.",
        "drop",
    )
    out: Path | None = option(
        "File to write: mean.json, a page such as mean.html, or a table such as mean.csv or mean.parquet. The "
        "certificate is part of it; that of a table is written beside it, to mean.certificate.json."
    )


@dataclass(frozen=True, kw_only=True)
class People(Table):
    """A statistic that allows Gaussian noise."""

    delta: float | None = option("0 for pure epsilon. Default: Gaussian noise with 1e-9 if it is smaller.")
    max_groups_per_unit: int | None = option(
        "Groups of a person that count: for groups that nobody listed and for `pais count-people`. Found privately if "
        "left out."
    )


@dataclass(frozen=True, kw_only=True)
class Top(People):
    """Release the most frequent names in the columns of --by, with the number of rows, or of people with --unit."""

    k: int = option("Number of names.", 10)


@dataclass(frozen=True, kw_only=True)
class Statistic(People):
    """A statistic that allows samples too."""

    sampling: Sampling = option("Sampling rule, with --sample-size. Default: all rows.", "none")
    sample_size: float | None = option("Expected rows in the sample. A sample adds error.")


@dataclass(frozen=True, kw_only=True)
class Description(Statistic):
    """Several statistics of each column."""

    statistics: str = option(
        "Some of count, sum, mean, variance, std, 25%, 50% or median, and 75%, with commas.",
        "count,mean,std,25%,50%,75%",
    )


@dataclass(frozen=True, kw_only=True)
class Histogram(Statistic):
    """Numbers of cells in bins."""

    bins: str = option("Number of bins between the bounds, or their edges with commas: 0,18,65,100.", "10")


@dataclass(frozen=True, kw_only=True)
class Quantile(Table):
    """Quantiles, which have pure epsilon but for groups that nobody listed."""

    q: str = option("Levels between 0 and 1, with commas: 0.25,0.5,0.75.", "0.5")
    step: float | None = option("Values are multiples of this public number. Default: a fine grid.")
    delta: float | None = option("Used only to find groups that nobody listed. Default: 1e-9.")


@dataclass(frozen=True, kw_only=True)
class Label(Place, Output, Overwrite):
    """Label rows with their nearest released center. Labels are NOT protected; no ledger is charged."""

    model: Path = option("Directory of a release, from `pais kmeans --out DIR`.", MISSING)
    to: Path = option(
        "Parquet file to write, one label per row in the order of the rows; with Spark, a directory.", MISSING
    )
    carry: str | None = option("Columns to copy beside the labels, such as an id, with commas.")


@dataclass(frozen=True, kw_only=True)
class Audit(Output):
    """Test the guarantee of a plan on synthetic neighbouring tables.

    No data is read and no budget is spent. Exit code 1 means that the guarantee is refuted. That is a bug: please
    report it.
    """

    plan: Path = argument("Plan to audit, from `pais plan --out plan.json`.", metavar="PLAN")
    method: Literal["replay", "runs"] = option(
        "replay compares all that the plan does on two tables when the same noisy values leave; runs counts "
        "outputs of many runs, and tests the noise itself.",
        "replay",
    )
    runs: int | None = option("Runs on each of the two tables. Default: 100,000.", min=2)
    seconds: float | None = option("Time limit of runs. The audit uses those finished by then. Default: 60.", min=0.1)
    confidence: float | None = option("Confidence of the lower bound of runs. Default: 0.99.")
    seed: int | None = option("Makes runs reproducible. A replay always is.")


@dataclass(frozen=True, kw_only=True)
class Explain(JSON):
    """Say what a file of pais is: a certificate, a plan or a survey in plain words, or another output."""

    file: Path = argument("Any file that pais wrote, such as certificate.json.", metavar="FILE")
    values: Path | None = option("Released centers (CSV or Parquet) to check against a certificate.")


@dataclass(frozen=True, kw_only=True)
class Ledger(JSON):
    """Create the ledger of a set of rows, or show how much was spent and how much remains."""

    file: Path = argument("Ledger file. --epsilon creates it if it is missing.", metavar="FILE")
    epsilon: float | None = option("Total budget for the rows, written to a new ledger.")
    delta: float | None = option("Total delta, written to a new ledger. Default: 1e-5, for ten default releases.")


@dataclass(frozen=True, kw_only=True)
class Studio:
    """Open a page on this computer that leads from a file to a private report. It needs the extra pais[studio]."""

    data: Path = argument("Parquet or CSV (with a header): a file or a directory. Only read.", metavar="DATA")
    ledger: Path | None = option(
        "Budget of these rows. The page creates it if it is missing. Default: DATA with the ending .ledger."
    )
    port: int = option("Port on the loopback address. Default: a free one.", 0, min=0, max=65535, show_default=False)
    browser: bool = option("Whether to open a browser.", True, name="--browser/--no-browser")
