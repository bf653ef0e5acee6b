"""Arguments and options of the commands, named as in the API."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer


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
    error = "error"


class EngineName(str, Enum):
    auto = "auto"
    memory = "memory"
    arrow = "arrow"
    spark = "spark"


Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="Parquet or CSV (with a header): a file, a directory, a quoted pattern or an address. Secret; read only.",
    ),
]
_N_CLUSTERS = typer.Option("--n-clusters", help="Number of clusters.")
NClusters = Annotated[int, _N_CLUSTERS]
NClustersOrPlan = Annotated[int | None, _N_CLUSTERS]
_EPSILON = typer.Option("--epsilon", help="What all that is released may cost one row.")
Epsilon = Annotated[float, _EPSILON]
EpsilonOrPlan = Annotated[float | None, _EPSILON]
Delta = Annotated[
    float | None,
    typer.Option(
        "--delta",
        help="Default with Gaussian noise: the smaller of 1e-6 and 1 / (10 * rows), the number of rows as stated or "
        "surveyed; 0 with 'laplace' and 'l2'.",
    ),
]
Radius = Annotated[
    float | None,
    typer.Option(
        "--radius",
        help="Public bound on the norm of a row about the center; rows are clipped. Noise grows with it: a loose one "
        "costs more than the survey that finds it.",
    ),
]
Center = Annotated[
    str | None, typer.Option("--center", help="Public origin of the norms: numbers with commas, or a file of them.")
]
Norms = Annotated[
    str | None,
    typer.Option("--norms", help="Public guess of the norms: quantiles at even levels from 0 to 1, with commas."),
]
NRows = Annotated[float | None, typer.Option("--n-rows", help="Public number of rows; goes with --norms.")]
SurveyFile = Annotated[
    Path | None, typer.Option("--survey", help="Facts from `pais survey`; what it cost counts within --epsilon.")
]
PlanFile = Annotated[
    Path | None,
    typer.Option("--plan", help="From `pais plan --out plan.json`, in place of clusters, epsilon and facts."),
]
Sampling = Annotated[SamplingName, typer.Option("--sampling", help="How rows are kept.")]
SampleSize = Annotated[
    float | None, typer.Option("--sample-size", help="Expected rows. Default: as few as cost no extra noise.")
]
MaxEpsilonIfKept = Annotated[
    float | None,
    typer.Option(
        "--max-epsilon-if-kept",
        help="Largest epsilon of a row, survey included, once it is known that it was kept. Default: epsilon + 15.",
    ),
]
Mechanism = Annotated[
    MechanismChoice, typer.Option("--mechanism", help="Noise: Gaussian for (epsilon, delta), others for pure epsilon.")
]
Algorithm = Annotated[AlgorithmChoice, typer.Option("--algorithm", help="'paper' is plain DP-Lloyd, pure noise only.")]
Seed = Annotated[
    int | None, typer.Option("--seed", help="Reproducible and NOT PRIVATE: for rehearsals. Leave it out for a release.")
]
Columns = Annotated[
    str | None, typer.Option("--columns", help="Names of the columns to use, with commas. Default: all, ids included.")
]
Missing = Annotated[
    MissingChoice,
    typer.Option(
        "--missing",
        help="Rows with NaN, infinity, an empty cell or text: 'drop' leaves them out. 'error' stops and names the "
        "columns; that is outside the guarantee, since one row decides whether the command succeeds.",
    ),
]
# Dropping is the default now; the option is kept for scripts that pass it.
DropMissing = Annotated[bool, typer.Option("--drop-missing", hidden=True)]
Engine = Annotated[
    EngineName,
    typer.Option(
        "--engine", help="Where rows are gone over: streamed from files (auto, arrow), in memory, or in Spark."
    ),
]
Master = Annotated[
    str | None, typer.Option("--master", help="Address of a Spark cluster, e.g. spark://host:7077; implies Spark.")
]
Ledger = Annotated[
    Path | None,
    typer.Option("--ledger", help="The budget of these rows, from `pais ledger`; charged before anything is written."),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace files of an earlier run.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on stdout and nothing else there.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress and no summary; warnings stay.")]
