"""Charts of curves and of bars, which ``templates/parts.html`` draws."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

#: Number of colours for parts of a whole in ``style.css``; further parts start again with the first colour.
N_COLOURS = 6


@dataclass(frozen=True, kw_only=True)
class Bar:
    """A bar from zero with an error bar, and a level at which a short line crosses it."""

    x: float
    value: float
    error: float
    mark: float | None = None
    weak: bool = False


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A curve or bars over a vertical axis that starts at zero.

    Attributes
    ----------
    name : str
        Unique name of the chart in the page.
    title, description : str
        Description of the chart for readers who cannot see it.
    x_name, x_range, x_ticks : str, pair of float, sequence of (float, str)
        Name, ends and marks of the horizontal axis.
    curve : sequence of (float, float)
        Points of a curve.
    bars : sequence of Bar
    limit : float, optional
        A level to draw as a dashed line, with its label.
    mark : float, optional
        A value of x to mark on the curve.
    line : float, optional
        A value of x at which to draw a dashed line.
    note : str
        A sentence below the chart.
    """

    name: str
    title: str
    description: str
    x_name: str
    x_range: tuple[float, float]
    x_ticks: Sequence[tuple[float, str]]
    curve: Sequence[tuple[float, float]] = ()
    bars: Sequence[Bar] = ()
    limit: float | None = None
    limit_label: str = ""
    mark: float | None = None
    line: float | None = None
    note: str = ""

    #: Size of the drawing, and where its axes are.
    width, height = 420.0, 240.0
    left, right, top, bottom = 52.0, 406.0, 16.0, 196.0

    @cached_property
    def levels(self) -> list[float]:
        """Four to six round levels, from zero to the first that reaches everything drawn."""
        drawn = [y for _, y in self.curve] + ([] if self.limit is None else [self.limit])
        drawn += [max(bar.value + bar.error, bar.mark or 0.0) for bar in self.bars]
        highest = max(drawn, default=1.0)
        highest = highest if highest > 0.0 else 1.0
        unit = 10.0 ** math.floor(math.log10(highest))
        step = next(unit * part for part in (0.2, 0.25, 0.5, 1.0, 2.0) if highest <= 5.0 * unit * part)
        return [level * step for level in range(math.ceil(highest / step * (1.0 - 1e-9)) + 1)]

    def across(self, x: float) -> float:
        start, end = self.x_range
        return self.left + ((x - start) / (end - start) if end > start else 0.5) * (self.right - self.left)

    def down(self, y: float) -> float:
        return self.bottom - y / self.levels[-1] * (self.bottom - self.top)

    def half_width(self, share: float, most: float) -> float:
        """Half of the width of a bar, as a share of the room for it, and at most `most`."""
        return min(share * (self.right - self.left) / len(self.bars), most)
