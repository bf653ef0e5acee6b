"""Options of the commands, named as in the API. Commands that share options share a dataclass of them."""

from __future__ import annotations

import functools
import inspect
from collections import Counter
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from pais.cli.guard import spelling

# Arguments that have another name on the command line, or that `pais check` mentions for other commands.
_ELSEWHERE = {"random_state": "--seed", "missing": "--missing"}

# Options that take several parts with commas between them.
_LISTS = ("columns", "by", "carry", "classes", "q")


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
        with spelling(self.options):
            return super().invoke(ctx)


class Group(TyperGroup):
    """The program itself, shown in the same way as its commands."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types(super().get_params(ctx))


def _without_types(parameters: list[Any]) -> list[Any]:
    for parameter in parameters:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
    return parameters


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
class Checked(Place):
    """The file and the columns that `pais check` compares."""

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


@dataclass(frozen=True, kw_only=True)
class Center:
    """The center alone, for a survey."""

    center: Annotated[
        str | None,
        typer.Option(
            "--center", help="Public origin of the norms: numbers separated by commas, or a file that contains them."
        ),
    ] = None


Sampling = Annotated[SamplingName, typer.Option("--sampling", help="Sampling rule.")]
Quantile = Annotated[
    float | None,
    typer.Option("--quantile", help="Share of the rows within a surveyed radius. Default: the plan chooses it."),
]
MaxEpsilonIfKept = Annotated[
    float | None,
    typer.Option(
        "--max-epsilon-if-kept",
        help="Largest epsilon of a row, survey included, if it becomes known that the row was kept in the sample. "
        "Default: epsilon + 15.",
    ),
]


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
class Facts(Center, Norms):
    """Public facts about the rows."""

    survey: Annotated[
        Path | None,
        typer.Option("--survey", help="File with facts from `pais survey`. Its price counts within --epsilon."),
    ] = None


@dataclass(frozen=True, kw_only=True)
class KMeans(Facts):
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
    sampling: Sampling = SamplingName.constrained
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
    quantile: Quantile = None
    max_epsilon_if_kept: MaxEpsilonIfKept = None
    mechanism: Annotated[
        MechanismChoice,
        typer.Option("--mechanism", help="Noise: 'gaussian' for (epsilon, delta), the others for pure epsilon."),
    ] = MechanismChoice.gaussian
    algorithm: Annotated[
        AlgorithmChoice, typer.Option("--algorithm", help="'paper' is plain DP-Lloyd; it needs 'laplace' or 'l2'.")
    ] = AlgorithmChoice.refined


@dataclass(frozen=True, kw_only=True)
class Output:
    """What a command prints."""

    as_json: Annotated[bool, typer.Option("--json", help="Print JSON on stdout, and nothing else there.")] = False
    quiet: Annotated[bool, typer.Option("--quiet", help="Print no progress and no summary, only warnings.")] = False


@dataclass(frozen=True, kw_only=True)
class Run(Output):
    """A command that draws random bits."""

    seed: Annotated[
        int | None,
        typer.Option("--seed", min=0, help="Reproducible and NOT PRIVATE: for rehearsals. Leave it out for a release."),
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


Ledger = Annotated[
    Path | None,
    typer.Option("--ledger", help="Budget of these rows, from `pais ledger`. It is charged before noise is drawn."),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace files of an earlier run.")]


def grouped(function: Callable[..., None]) -> Callable[..., None]:
    """Turn each parameter of a command that is a dataclass into the options that its fields declare."""
    hints = get_type_hints(function, include_extras=True)
    groups = {name: kind for name, kind in hints.items() if is_dataclass(kind)}
    parameters = []
    for name, parameter in inspect.signature(function).parameters.items():
        if name in groups:
            # Options that a group defines come before those that it inherits.
            own = groups[name].__annotations__
            ordered = sorted(fields(groups[name]), key=lambda field: field.name not in own)
            parameters += [_parameter(groups[name], field) for field in ordered]
        else:
            parameters.append(parameter.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY))

    @functools.wraps(function)
    def command(**values: Any) -> None:
        for name, kind in groups.items():
            values[name] = kind(**{field.name: values.pop(field.name) for field in fields(kind)})  # type: ignore[operator]  # a class
        function(**values)

    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # read by typer
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command


def _parameter(group: Any, field: Any) -> inspect.Parameter:
    default = inspect.Parameter.empty if field.default is MISSING else field.default
    annotation = get_type_hints(group, include_extras=True)[field.name]
    return inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
