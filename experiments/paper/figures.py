"""How the figures of the reproduction look, how they are saved, and figure 1: what three samplers keep."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator
from numpy.typing import NDArray
from PIL import Image

from experiments.paper.grid import PAPER_NAMES, RuleName

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
