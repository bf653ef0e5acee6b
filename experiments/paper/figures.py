"""The figures of the reproduction: how they look and are saved, figure 1, costs, times and coreset quality."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator
from numpy.typing import NDArray
from PIL import Image

import pais
from experiments.paper.claims import TIMED_SET, TIMED_SIZE
from experiments.paper.families import Workbench
from experiments.paper.grid import PAPER_NAMES, RULES, TITLES, Family, RuleName, Start
from experiments.paper.tables import TIMES, full_epsilons, in_order, paper_times, quartiles, shown_sizes, times_table

FloatArray = NDArray[np.float64]

# Okabe and Ito's colours, told apart with every common kind of colour vision; marker and dash differ as well.
RULE_STYLES: dict[RuleName, dict[str, Any]] = {
    "uniform": {"color": "#D55E00", "marker": "s", "linestyle": "-"},
    "coreset": {"color": "#009E73", "marker": "^", "linestyle": "--"},
    "constrained": {"color": "#0072B2", "marker": "o", "linestyle": "-"},
    "all rows": {"color": "#000000", "marker": "", "linestyle": "-."},
}

#: What the paper calls a sampler, beside what it does.
RULE_TITLES: dict[RuleName, str] = {rule: f"{rule} ({name})" for rule, name in PAPER_NAMES.items()}

_DPI = 110
_MOST_BACKGROUND = 6000
_LOOK: Any = {
    "font.size": 8.5,
    "axes.titlesize": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.fontsize": 8.5,
    "legend.frameon": False,
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Scatter:
    """Figure 1: all rows on two principal components, and what each sampler kept of them.

    Attributes
    ----------
    title : str
        Data set.
    background : array of shape (n, 2)
        All rows, or any even share of them.
    samples : mapping
        For each sampler, by the paper's name: coordinates of its kept rows, shape (kept, 2), their weights, and what
        each of them pays after sampling.
    epsilon : float
        The target that the costliest row meets.
    """

    title: str
    background: FloatArray
    samples: Mapping[str, tuple[FloatArray, FloatArray, FloatArray]]
    epsilon: float


@contextmanager
def look() -> Iterator[None]:
    """The settings shared by all figures; they hold for drawing and for saving."""
    with mpl.rc_context(_LOOK):
        yield


def save(figure: Figure, path: Path) -> None:
    """Write a PNG of few colours: a third of the size, and nothing that the eye would miss."""
    drawn = io.BytesIO()
    with look():
        figure.savefig(drawn, format="png", dpi=_DPI)
    with Image.open(drawn) as image:
        # Without metadata the same numbers give the same bytes.
        image.convert("RGB").quantize(200, dither=Image.Dither.NONE).save(path, format="png", optimize=True)


def plain_log(axis: Any) -> None:
    """Ticks of a logarithmic axis as plain numbers, few enough to be read.

    Over less than a decade powers of ten leave an axis bare, so a short axis has even ticks instead.
    """
    low, high = axis.get_view_interval()
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())
    if high / low > 300.0:
        axis.set_major_locator(LogLocator(base=10.0, numticks=6))
    elif high / low > 3.0:
        subs = (
            (1.0, 3.0) if high / low > 60.0 else (1.0, 2.0, 5.0) if high / low > 8.0 else (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)
        )
        axis.set_major_locator(LogLocator(base=10.0, subs=subs, numticks=15))
    else:
        axis.set_major_locator(MaxNLocator(nbins=5))
    axis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))


def panel_title(dataset: str, point: str) -> str:
    """Data set and point of a panel, on two lines where one would run into the next panel."""
    return f"{dataset},\n{point}" if len(dataset) > 24 else f"{dataset}, {point}"


def short(value: float) -> str:
    """A number for a tick: 20k, 3.5M."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


def draw_samplers(scatter: Scatter) -> Figure:
    """Figure 1: area of a marker by the weight of the row, colour by what the row pays after sampling."""
    rules = {name: rule for rule, name in PAPER_NAMES.items()}
    heaviest = max(float(weights.max(initial=1.0)) for _, weights, _ in scatter.samples.values())
    step = max(1, -(-len(scatter.background) // _MOST_BACKGROUND))
    with look():
        figure = Figure(figsize=(3.5 * len(scatter.samples) + 0.9, 3.8), layout="constrained")
        panels = figure.subplots(1, len(scatter.samples), sharex=True, sharey=True, squeeze=False)[0]
        colours = _colours(scatter)
        for axes, (name, (coordinates, weights, epsilons)) in zip(panels, scatter.samples.items(), strict=True):
            axes.scatter(*scatter.background[::step].T, s=1.5, color="#cccccc", linewidths=0, zorder=1)
            # The heaviest first and see-through, so that they hide none of the many small ones.
            order = np.argsort(-weights, kind="stable")
            areas = 45.0 * weights[order] / heaviest + 1.0
            points, colour = coordinates[order].T, epsilons[order]
            axes.scatter(*points, s=areas, c=colour, norm=colours, cmap="viridis", alpha=0.75, linewidths=0, zorder=2)
            axes.set_title(f"{RULE_TITLES[rules[name]]}\n{len(weights):,} rows, weights {_range(weights)}")
            axes.set_xlabel("first principal component")
            axes.xaxis.set_major_locator(MaxNLocator(nbins=5))
            for axis in (axes.xaxis, axes.yaxis):
                axis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
        panels[0].set_ylabel("second principal component")
        bar = figure.colorbar(ScalarMappable(norm=colours, cmap="viridis"), ax=list(panels), fraction=0.03, pad=0.02)
        bar.set_label("ε of the row after sampling")
        if isinstance(colours, LogNorm):
            plain_log(bar.ax.yaxis)
        figure.suptitle(f"{scatter.title}, target ε = {scatter.epsilon:g}", fontsize=10)
    return figure


def _range(values: FloatArray) -> str:
    if not values.size:
        return "none"
    low, high = float(values.min()), float(values.max())
    return short(low) if high <= 1.005 * low else f"{short(low)} to {short(high)}"


def _colours(scatter: Scatter) -> Normalize:
    every = np.concatenate([epsilons for _, _, epsilons in scatter.samples.values()])
    low, high = (float(every.min()), float(every.max())) if every.size else (0.0, 1.0)
    if low > 0.0 and high > 10.0 * low:
        return LogNorm(low, high)
    return Normalize(low, high if high > low else low + 1e-9)


_SHOWN_ROWS = 4000


def scatter(bench: Workbench, title: str, *, sample_size: int, epsilon: float) -> Scatter:
    """Kept rows, their weights and their losses, by each rule, at one size and one target."""
    rng = np.random.default_rng(0)
    some = bench.rows[rng.choice(len(bench.rows), min(_SHOWN_ROWS, len(bench.rows)), replace=False)]
    _, _, axes = np.linalg.svd(some - some.mean(axis=0), full_matrices=False)
    plane = axes[:2].T
    samples = {}
    for rule in RULES:
        calibration = bench.calibrated(rule, sample_size, epsilon)
        kept = bench.sample(calibration.rule, seed=1)
        norm = np.minimum(np.linalg.norm(kept.rows, axis=1), bench.ball.radius)
        loss = pais.amplified_epsilon(calibration.profile(kept.weights, norm), 1.0 / kept.weights)
        samples[PAPER_NAMES[rule]] = (kept.rows @ plane, kept.weights, loss)
    return Scatter(title=title, background=some @ plane, samples=samples, epsilon=epsilon)


# -- cost against epsilon and size: figures 3, 4, 6 and 7


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


# -- times and coresets: figure 5, and coreset quality

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
