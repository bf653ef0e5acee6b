"""RESULTS.md of the reproduction, with its figures and tables; every number and every verdict is computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from experiments.paper import claims, report_text
from experiments.paper.figures import Scatter, draw_samplers, save
from experiments.paper.figures_costs import draw_cost_by_epsilon, draw_cost_by_size
from experiments.paper.figures_times import draw_coresets, draw_times
from experiments.paper.grid import Family, Start
from experiments.paper.tables import (
    coreset_table,
    costs_table,
    full_epsilons,
    groups,
    times_table,
)

#: All figures there may be.
FIGURES = (*(f"figure-{number}.png" for number in (1, 3, 4, 5, 6, 7)), "coreset-quality.png")


@dataclass(frozen=True, kw_only=True)
class DatasetFacts:
    """What a data set is called, and its rows after the cut."""

    title: str
    n_rows: int


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What the results themselves do not say.

    Attributes
    ----------
    repetitions, full_repetitions, time_repetitions : int
        Of a cell, of a cell on all rows, of a timed cell.
    center_sets : int
        Center sets behind every coreset epsilon.
    minutes : float
        How long the run took.
    batched_cost_ratio : float, optional
        Time of the batched costs over the time of their matrix product alone.
    datasets : mapping
        By key; every set of the results must be here.
    """

    grid_name: str
    repetitions: int
    full_repetitions: int
    time_repetitions: int
    center_sets: int
    minutes: float
    batched_cost_ratio: float | None
    datasets: Mapping[str, DatasetFacts]


@dataclass(frozen=True, kw_only=True)
class _Picture:
    """A figure that was written, and what it shows for those who do not see it."""

    file: str
    heading: str
    shows: str

    def markdown(self) -> str:
        return f"![{self.shows}](figures/{self.file})\n\n*{self.heading}. {self.shows}*"


def write_results(
    frame: pd.DataFrame, *, directory: Path, table_one_markdown: str, scatter: Scatter | None, facts: Facts
) -> None:
    """Write RESULTS.md into `directory`, its figures and tables into subdirectories.

    Parameters
    ----------
    frame : DataFrame
        What `Results.frame` gives. Sets and cells may be absent; what needs them is then left out.
    table_one_markdown : str
        Table 1 as another module writes it.
    scatter : Scatter, optional
        What figure 1 shows.
    """
    unknown = sorted(set(frame["dataset"]) - set(facts.datasets))
    if unknown:
        raise ValueError(f"the results hold {', '.join(unknown)}, the facts do not. Add their titles and rows.")
    titles = {name: one.title for name, one in facts.datasets.items()}
    n_rows = {name: one.n_rows for name, one in facts.datasets.items()}
    directory.mkdir(parents=True, exist_ok=True)
    pictures = _write_figures(frame, directory / "figures", scatter, titles, n_rows)
    _write_tables(frame, directory / "tables", n_rows)
    parts = [
        "# The paper's experiments, run again",
        *_run(frame, facts, pictures),
        "## Table 1: the data sets",
        table_one_markdown.strip(),
        *_paper_claims(frame, titles, n_rows, pictures),
        "## What the wrong noise hid",
        *report_text.wrong_noise(claims.flatteries(frame), claims.start_effects(frame), titles),
        *_better(frame, titles),
        "## Coreset quality",
        *report_text.coresets(claims.coreset_effects(frame), facts.center_sets, titles),
        *_shown(pictures, "coreset-quality.png"),
        "## Times (the paper's Tables 2 and 3)",
        *report_text.overhead(claims.overhead(frame)),
        "Every number is in [tables/](tables): `costs.csv`, `times.csv`, `coreset.csv`, and one file for each claim.",
    ]
    (directory / "RESULTS.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def _run(frame: pd.DataFrame, facts: Facts, pictures: Mapping[str, _Picture]) -> list[str]:
    names = [facts.datasets[name].title for names in groups(frame["dataset"]) for name in names]
    cells = len(frame.drop_duplicates(["kind", "dataset", "family", "start", "rule", "sample_size", "epsilon"]))
    text = [
        "## What was run",
        f"Grid `{facts.grid_name}` on {report_text.listed(names)}: {cells:,} cells, {facts.repetitions} repetitions of "
        f"each, {facts.full_repetitions} on all rows, {facts.time_repetitions} of each timed cell, in "
        f"{facts.minutes:.0f} minutes. Costs are mean squared distances per row, over all rows; the text compares "
        "medians, the figures show quartiles as bands.",
    ]
    if facts.grid_name != "full":
        text.append("This is not the full grid: too few repetitions for conclusions.")
    if facts.batched_cost_ratio is not None:
        text.append(
            f"Costs of many center sets are computed at once, in {facts.batched_cost_ratio:.2f} times the time of "
            "their matrix product."
        )
    return [*text, *report_text.families(), *report_text.warnings(frame["dataset"]), *_shown(pictures, "figure-1.png")]


def _paper_claims(
    frame: pd.DataFrame, titles: Mapping[str, str], n_rows: Mapping[str, int], pictures: Mapping[str, _Picture]
) -> list[str]:
    valid, published = claims.orderings(frame), claims.orderings(frame, "published")
    return [
        "## Which claims of the paper hold with valid noise",
        "### Order of the samplers",
        *report_text.order(valid, published, titles),
        *_shown(pictures, "figure-3.png", "figure-6.png"),
        "### Near all rows as the sample grows",
        *report_text.approach(claims.approaches(frame), titles),
        *_shown(pictures, "figure-4.png", "figure-7.png"),
        "### Time in proportion to size",
        *report_text.pace(claims.paces(frame, n_rows), titles),
        *_shown(pictures, "figure-5.png"),
    ]


def _better(frame: pd.DataFrame, titles: Mapping[str, str]) -> list[str]:
    small = [*claims.thousandfold(frame, "ours"), *claims.thousandfold(frame, "ours-pure")]
    return [
        "## How much better pais is at the same epsilon",
        *report_text.gain(_gains(frame), titles),
        "### A small epsilon beside the published noise at 1000",
        *report_text.thousandfold(small, titles),
    ]


def _gains(frame: pd.DataFrame) -> list[claims.Gain]:
    families: tuple[Family, ...] = ("ours", "ours-pure")
    starts: tuple[Start, ...] = ("rows", "data-free")
    return [one for family in families for start in starts for one in claims.gains(frame, family, start)]


def _shown(pictures: Mapping[str, _Picture], *files: str) -> list[str]:
    return [pictures[file].markdown() for file in files if file in pictures]


def _write_figures(
    frame: pd.DataFrame, folder: Path, scatter: Scatter | None, titles: Mapping[str, str], n_rows: Mapping[str, int]
) -> dict[str, _Picture]:
    folder.mkdir(exist_ok=True)
    drawn: dict[str, tuple[str, str, Figure]] = {}
    if scatter is not None:
        shows = "Rows kept by three samplers on two principal components: area by weight, colour by the row's epsilon"
        drawn["figure-1.png"] = ("Figure 1", shows, draw_samplers(scatter))
    costs = frame[frame["kind"] == "cost"]
    for (by_epsilon, by_size), datasets in zip(((3, 4), (6, 7)), groups(costs["dataset"]), strict=True):
        names = report_text.listed([titles[name] for name in datasets])
        if datasets:
            shows = f"Cost against epsilon at the shown sizes on {names}, with quartiles"
            figure = draw_cost_by_epsilon(frame, datasets, titles)
            drawn[f"figure-{by_epsilon}.png"] = (f"Figure {by_epsilon}", shows, figure)
        if full_epsilons(costs[costs["dataset"].isin(datasets)]):
            shows = f"Cost against expected sample size at fixed epsilon on {names}, with quartiles"
            figure = draw_cost_by_size(frame, datasets, titles)
            drawn[f"figure-{by_size}.png"] = (f"Figure {by_size}", shows, figure)
    if claims.paces(frame, n_rows):
        shows = "Time relative to all rows against sample size, and one cell decomposed beside the paper's numbers"
        drawn["figure-5.png"] = ("Figure 5", shows, draw_times(frame, n_rows, titles))
    if (frame["kind"] == "coreset").any():
        shows = "Epsilon of the lightweight-coreset inequality that samples reach, against their size"
        drawn["coreset-quality.png"] = ("Coreset quality", shows, draw_coresets(frame, titles))
    for old in (folder / file for file in FIGURES):
        # A figure of an earlier run, of sets that this one has not, would be mistaken for one of its own.
        old.unlink(missing_ok=True)
    for file, (_, _, figure) in drawn.items():
        save(figure, folder / file)
    return {file: _Picture(file=file, heading=name, shows=shows) for file, (name, shows, _) in drawn.items()}


def _write_tables(frame: pd.DataFrame, folder: Path, n_rows: Mapping[str, int]) -> None:
    folder.mkdir(exist_ok=True)
    orderings = [*claims.orderings(frame), *claims.orderings(frame, "published")]
    of_claims: dict[str, Sequence[object]] = {
        "claim-order": orderings,
        "claim-approach": claims.approaches(frame),
        "claim-pace": claims.paces(frame, n_rows),
        "claim-gain": _gains(frame),
        "claim-thousandfold": [*claims.thousandfold(frame, "ours"), *claims.thousandfold(frame, "ours-pure")],
        "claim-valid-over-published-no-valid-guarantee": claims.flatteries(frame),
        "claim-start": claims.start_effects(frame),
        "claim-coreset": claims.coreset_effects(frame),
    }
    tables = {
        "costs": costs_table(frame),
        "times": times_table(frame, n_rows),
        "coreset": coreset_table(frame),
        "claim-order-exceptions": claims.exceptions_table(orderings),
        **{name: claims.as_table(found) for name, found in of_claims.items()},
    }
    for name, table in tables.items():
        table.to_csv(folder / f"{name}.csv", index=False, lineterminator="\n")
