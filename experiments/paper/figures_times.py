"""Figure 5, where the time goes, and what a sample is worth as a coreset."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from experiments.paper.claims import TIMED_SET, TIMED_SIZE
from experiments.paper.figures import RULE_STYLES, RULE_TITLES, look, plain_log
from experiments.paper.grid import PAPER_NAMES, RULES
from experiments.paper.tables import TIMES, in_order, paper_times, quartiles, times_table

_SET_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#444444", "#999999")
_PART_COLOURS = {"t_weights": "#0072B2", "t_sampling": "#CC79A7", "t_lloyd": "#009E73"}
_PART_TITLES = {"t_weights": "weights", "t_sampling": "sampling", "t_lloyd": "DP-Lloyd"}
_PART_HATCHES = {"t_weights": "////", "t_sampling": "", "t_lloyd": ""}


def draw_times(frame: pd.DataFrame, n_rows: Mapping[str, int], titles: Mapping[str, str]) -> Figure:
    """Figure 5: left, relative total time against size; right, one cell decomposed, the paper's numbers beside."""
    table = times_table(frame, n_rows)
    with look():
        figure = Figure(figsize=(11.0, 4.4), layout="constrained")
        left, right = figure.subplots(1, 2)
        _draw_totals(left, table, titles)
        _draw_parts(right, table, titles)
    return figure


def draw_coresets(frame: pd.DataFrame, titles: Mapping[str, str]) -> Figure:
    """The epsilon of the lightweight-coreset inequality that samples reach, against their size."""
    summary = quartiles(frame, "coreset", "violation")
    datasets = in_order(summary["dataset"])
    n_columns = min(len(datasets), 4)
    n_panel_rows = -(-len(datasets) // n_columns)
    with look():
        figure = Figure(figsize=(max(3.05 * n_columns, 6.4), 2.5 * n_panel_rows + 0.6), layout="constrained")
        panels = figure.subplots(n_panel_rows, n_columns, squeeze=False).ravel()
        seen: dict[str, dict[str, Any]] = {}
        for place, axes in enumerate(panels):
            if place >= len(datasets):
                axes.set_axis_off()
                continue
            seen |= _draw_violations(axes, summary[summary["dataset"] == datasets[place]])
            axes.set_title(titles.get(datasets[place], datasets[place]))
            axes.set_xlabel("expected sample size m")
            if place % n_columns == 0:
                axes.set_ylabel("coreset ε reached")
        handles = [Line2D([], [], label=label, **style) for label, style in seen.items()]
        figure.legend(handles=handles, loc="outside lower center", ncols=4 if n_columns > 2 else 2)
    return figure


def _draw_totals(axes: Any, table: pd.DataFrame, titles: Mapping[str, str]) -> None:
    datasets = in_order(table["dataset"])
    sampled = table[table["rule"] != "all rows"]
    for place, dataset in enumerate(datasets):
        colour = _SET_COLOURS[place % len(_SET_COLOURS)]
        here = sampled[sampled["dataset"] == dataset]
        for rule in RULES:
            line = here[here["rule"] == rule].sort_values("m")
            style = RULE_STYLES[rule] | {"color": colour}
            axes.plot(line["m"], line["relative_percent"], linewidth=1.0, markersize=4, alpha=0.85, **style)
        share = here.drop_duplicates("m").sort_values("m")
        axes.plot(share["m"], share["size_percent"], color="#000000", linestyle=":", linewidth=1.2)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("expected sample size m")
    axes.set_ylabel("time relative to all rows [%]")
    axes.set_title("Total time and share of the rows")
    plain_log(axes.xaxis)
    plain_log(axes.yaxis)
    axes.grid(alpha=0.25)
    handles = [
        Line2D([], [], color=_SET_COLOURS[place % len(_SET_COLOURS)], label=titles.get(dataset, dataset), linewidth=2)
        for place, dataset in enumerate(datasets)
    ]
    handles += [
        Line2D([], [], label=RULE_TITLES[rule], linewidth=1, markersize=4, **(RULE_STYLES[rule] | {"color": "#444444"}))
        for rule in RULES
    ]
    handles.append(Line2D([], [], color="#000000", linestyle=":", label="m/n"))
    # Beside the axes: inside, no corner is free on every grid.
    axes.legend(handles=handles, loc="upper left", bbox_to_anchor=(1.01, 1.0), fontsize=8)


def _draw_parts(axes: Any, table: pd.DataFrame, titles: Mapping[str, str]) -> None:
    dataset, m = _decomposed_cell(table)
    bars = [*_bars(table, dataset, m, "measured here"), *_bars(paper_times(), dataset, m, "in the paper")]
    bars.sort(key=lambda bar: bar[0])
    for place, (_, _, parts) in enumerate(bars):
        begin = 0.0
        for part, percent in parts.items():
            style = {"color": _PART_COLOURS[part], "hatch": _PART_HATCHES[part], "edgecolor": "white", "linewidth": 0}
            axes.barh(place, percent, left=begin, height=0.7, label=_PART_TITLES[part] if place == 0 else None, **style)
            begin += percent
        axes.text(begin, place, f" {begin:.2f} %", va="center", fontsize=8)
    axes.set_yticks(range(len(bars)), [label for _, label, _ in bars])
    axes.invert_yaxis()
    axes.margins(x=0.15)
    axes.set_xlabel("time relative to all rows [%]")
    axes.set_title(f"{titles.get(dataset, dataset)}, m = {m:,}")
    if bars:
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=3)


def _decomposed_cell(table: pd.DataFrame) -> tuple[str, int]:
    """The paper's cell; where it was not timed, the largest size of the first set."""
    sampled = table[table["rule"] != "all rows"]
    if ((sampled["dataset"] == TIMED_SET) & (sampled["m"] == TIMED_SIZE)).any():
        return TIMED_SET, TIMED_SIZE
    first = in_order(sampled["dataset"])[0]
    return first, int(sampled.loc[sampled["dataset"] == first, "m"].max())


def _bars(table: pd.DataFrame, dataset: str, m: int, source: str) -> list[tuple[int, str, dict[str, float]]]:
    here = table[table["dataset"] == dataset]
    full = here.loc[here["rule"] == "all rows", "t_lloyd"]
    bars = []
    for position, rule in enumerate(RULES):
        line = here[(here["rule"] == rule) & (here["m"] == m)]
        if len(line) and len(full):
            parts = {part: 100.0 * float(line[part].iloc[0]) / float(full.iloc[0]) for part in TIMES}
            bars.append((position, f"{PAPER_NAMES[rule]}, {source}", parts))
    return bars


def _draw_violations(axes: Any, cells: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """Draw the lines of one data set; return how each that was drawn looks."""
    seen: dict[str, dict[str, Any]] = {}
    for rule in RULES:
        of_rule = cells[cells["rule"] == rule]
        for place, epsilon in enumerate(sorted(of_rule["epsilon"].unique())):
            line = of_rule[of_rule["epsilon"] == epsilon].sort_values("sample_size")
            label = RULE_TITLES[rule] + (f" for ε = {epsilon:g}" if math.isfinite(epsilon) else "")
            style = RULE_STYLES[rule] | {"linewidth": 1.3, "markersize": 4}
            if place:
                style |= {"color": "#56B4E9", "marker": "D", "linestyle": ":"}
            axes.plot(line["sample_size"], line["median"], **style)
            axes.fill_between(
                line["sample_size"], line["low"], line["high"], color=style["color"], alpha=0.15, linewidth=0
            )
            seen[label] = style
    axes.set_xscale("log")
    axes.set_yscale("log")
    plain_log(axes.xaxis)
    plain_log(axes.yaxis)
    axes.grid(alpha=0.25)
    return seen
