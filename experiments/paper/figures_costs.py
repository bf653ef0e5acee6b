"""Figures 3, 4, 6 and 7: cost against epsilon, and cost against size."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter

from experiments.paper.figures import RULE_STYLES, RULE_TITLES, look, panel_title, plain_log, short
from experiments.paper.grid import PAPER_NAMES, TITLES, Family, RuleName, Start
from experiments.paper.tables import full_epsilons, quartiles, shown_sizes


@dataclass(frozen=True, kw_only=True)
class Line:
    """One line of the legend: which cells it shows, and how."""

    label: str
    family: Family
    start: Start
    rule: RuleName
    style: Mapping[str, Any]
    band: float = 0.15


def _valid(rule: RuleName) -> Line:
    style = RULE_STYLES[rule] | {"linewidth": 1.4, "markersize": 4}
    return Line(label=f"{TITLES['valid']}: {RULE_TITLES[rule]}", family="valid", start="rows", rule=rule, style=style)


def _published(rule: RuleName, marker: str, dashes: str) -> Line:
    style = {"color": "#777777", "marker": marker, "linestyle": dashes, "linewidth": 1.1, "markersize": 5}
    label = f"{TITLES['published']}: {PAPER_NAMES[rule]}"
    return Line(label=label, family="published", start="rows", rule=rule, style=style, band=0.08)


def _ours(family: Family, colour: str, marker: str) -> Line:
    style = {"color": colour, "marker": marker, "linestyle": "-", "linewidth": 1.8, "markersize": 4.5}
    return Line(label=TITLES[family], family=family, start="own", rule="constrained", style=style)


#: Published noise first, so that what has a guarantee is drawn over it. Its coreset line hides between the two shown.
LINES = (
    _published("uniform", "+", ":"),
    _published("constrained", "x", "--"),
    _valid("uniform"),
    _valid("coreset"),
    _valid("constrained"),
    Line(
        label=f"{TITLES['valid']}: opt, data-free start",
        family="valid",
        start="data-free",
        rule="constrained",
        style={"color": "#56B4E9", "marker": ".", "linestyle": "-", "linewidth": 0.8, "markersize": 4},
        band=0.0,
    ),
    _ours("ours-pure", "#E69F00", "v"),
    _ours("ours", "#CC79A7", "D"),
)

#: Levels without privacy, as lines across.
_LEVELS: dict[RuleName, dict[str, Any]] = {
    "uniform": {"color": "#D55E00", "linestyle": (0, (1, 3)), "linewidth": 1.2},
    "coreset": {"color": "#009E73", "linestyle": (0, (5, 4)), "linewidth": 1.0},
    "all rows": {"color": "#000000", "linestyle": "-.", "linewidth": 0.9},
}


def draw_cost_by_epsilon(frame: pd.DataFrame, datasets: Sequence[str], titles: Mapping[str, str]) -> Figure:
    """Figures 3 and 6: a column for each data set, a row for each shown size, quartiles as bands."""
    summary = quartiles(frame, "cost", "cost")
    sizes = {dataset: shown_sizes(summary, dataset) for dataset in datasets}
    n_panels = max(1, *(len(shown) for shown in sizes.values()))
    with look():
        figure, panels = _panels(n_panels, len(datasets), "ε")
        for column, dataset in enumerate(datasets):
            here = summary[summary["dataset"] == dataset]
            for row, axes in enumerate(panels[:, column]):
                if row >= len(sizes[dataset]):
                    axes.set_axis_off()
                    continue
                m = sizes[dataset][row]
                _draw_lines(axes, here[here["sample_size"] == m], "epsilon")
                _draw_levels(axes, here[here["family"] == "not-private"], m)
                axes.set_title(panel_title(titles.get(dataset, dataset), f"m = {m:,}"))
                _finish(axes, "log")
            if sizes[dataset]:
                panels[len(sizes[dataset]) - 1, column].set_xlabel("ε")
        _legend(figure, [*LINES], {f"not private: {RULE_TITLES[rule]}": style for rule, style in _LEVELS.items()})
    return figure


def draw_cost_by_size(frame: pd.DataFrame, datasets: Sequence[str], titles: Mapping[str, str]) -> Figure:
    """Figures 4 and 7: a column for each data set, a row for each epsilon at which all rows were clustered too."""
    summary = quartiles(frame, "cost", "cost")
    summary = summary[summary["dataset"].isin(datasets)]
    epsilons = full_epsilons(summary)
    with look():
        figure, panels = _panels(len(epsilons), len(datasets), "expected sample size m")
        for column, dataset in enumerate(datasets):
            for epsilon, axes in zip(epsilons, panels[:, column], strict=True):
                here = summary[(summary["dataset"] == dataset) & (summary["epsilon"] == epsilon)]
                _draw_lines(axes, here[here["sample_size"].notna()], "sample_size")
                _draw_full(axes, here)
                axes.set_title(panel_title(titles.get(dataset, dataset), f"ε = {epsilon:g}"))
                _finish(axes, "linear")
        _legend(figure, [*LINES], {f"{TITLES['valid']}: {RULE_TITLES['all rows']}": _LEVELS["all rows"]})
    return figure


def _panels(n_rows: int, n_columns: int, across: str) -> tuple[Figure, Any]:
    """Panels by row and column; those of a single data set lie beside each other, where they are easier to compare."""
    lying = n_columns == 1
    shape = (1, n_rows) if lying else (n_rows, n_columns)
    # Few columns still leave room for the legend below them.
    width = max(3.05 * shape[1] + 0.3, 7.4)
    figure = Figure(figsize=(width, 2.2 * shape[0] + (1.3 if shape[1] > 2 else 1.7)), layout="constrained")
    panels = figure.subplots(*shape, squeeze=False)
    for axes in panels[:, 0]:
        axes.set_ylabel("cost per row")
    for axes in panels[-1]:
        axes.set_xlabel(across)
    return figure, panels.reshape(-1, 1) if lying else panels


def _draw_lines(axes: Any, cells: pd.DataFrame, along: str) -> None:
    for line in LINES:
        chosen = cells[
            (cells["family"] == line.family) & (cells["start"] == line.start) & (cells["rule"] == line.rule)
        ].sort_values(along)
        if not len(chosen):
            continue
        axes.plot(chosen[along], chosen["median"], **line.style)
        if line.band:
            colour = line.style["color"]
            axes.fill_between(
                chosen[along], chosen["low"], chosen["high"], color=colour, alpha=line.band, linewidth=0, zorder=1
            )


def _draw_levels(axes: Any, cells: pd.DataFrame, m: int) -> None:
    for rule, style in _LEVELS.items():
        chosen = cells[(cells["rule"] == rule) & ((cells["sample_size"] == m) | cells["sample_size"].isna())]
        for median in chosen["median"]:
            axes.axhline(median, zorder=1, **style)


def _draw_full(axes: Any, cells: pd.DataFrame) -> None:
    full = cells[(cells["family"] == "valid") & (cells["start"] == "rows") & (cells["rule"] == "all rows")]
    for cell in full.itertuples():
        axes.axhline(cell.median, zorder=1, **_LEVELS["all rows"])
        axes.axhspan(cell.low, cell.high, color="#000000", alpha=0.08, linewidth=0, zorder=0)


def _finish(axes: Any, x_scale: str) -> None:
    axes.set_xscale(x_scale)
    low, high = axes.get_ylim()
    drawn = [float(value) for line in axes.get_lines() for value in line.get_ydata() if math.isfinite(value)]
    if drawn and min(drawn) > 0.0 and max(drawn) > 4.0 * min(drawn):
        axes.set_yscale("log")
        axes.set_ylim(max(low, 0.85 * min(drawn)) if low > 0.0 else 0.85 * min(drawn), 1.1 * high)
        plain_log(axes.yaxis)
    else:
        _short_ticks(axes.yaxis)
    _short_ticks(axes.xaxis)
    axes.grid(alpha=0.25)


def _short_ticks(axis: Any) -> None:
    axis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))


def _legend(figure: Figure, lines: Sequence[Line], levels: Mapping[str, Mapping[str, Any]]) -> None:
    handles = [Line2D([], [], label=line.label, **line.style) for line in lines]
    handles += [Line2D([], [], label=label, **style) for label, style in levels.items()]
    n_columns = 4 if figure.get_figwidth() > 11.0 else 3 if figure.get_figwidth() > 9.0 else 2
    figure.legend(handles=handles, loc="outside lower center", ncols=n_columns)
