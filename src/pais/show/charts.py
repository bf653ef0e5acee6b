"""Charts, and tables of coloured cells and of error bars, which ``templates/parts.html`` draws."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from pais._base.cards import number

#: Number of colours for parts of a whole in ``style.css``; further parts start again with the first colour.
N_COLOURS = 6


class Bar(NamedTuple):
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


#: Number of colour steps on each side of the middle; ``style.css`` has a colour for each.
N_STEPS = 4

#: A phone shows at most this many columns of numbers at once, and paper the other number; seen in a browser.
SHOWN_ON_A_PHONE, _PRINTED_TOGETHER = 4, 10

# The farthest end of an axis: the length of an axis between two such ends is a finite double.
_FARTHEST = 1e300


class Cell(NamedTuple):
    """A value in a table.

    Attributes
    ----------
    text : str
        The value.
    small : tuple of str
        Its standard error or its interval, in pieces between which a line may be broken.
    level : float
        Between -1, blue, and 1, orange.
    weak : bool
        Whether the value is grey, because it is within the noise.
    hint : str
        What a reader sees who points at the cell.
    doubt : str
        Why the row cannot be read, in a few words.
    kind : str, optional
        Class of the cell in the style sheet; by default that of its colour.
    """

    text: str
    small: tuple[str, ...] = ()
    level: float = 0.0
    weak: bool = False
    hint: str = ""
    doubt: str = ""
    kind: str | None = None


class Head(NamedTuple):
    """Heading of a row or of a column: a name that may wrap, the index of a center, or the name of counts."""

    name: str
    kind: Literal["name", "index", "count"] = "name"
    hint: str = ""
    drowned: bool = False
    upright: bool = False


class Table(NamedTuple):
    """A table of coloured cells. It scrolls on a screen. A wide one has a copy in blocks of columns for paper.

    Attributes
    ----------
    caption, label, corner : str
        Caption of the table, its name for screen readers if that is another, and heading of its first column.
    columns : sequence of Head
    rows : sequence of (Head, sequence of Cell)
    n_leading : int
        Number of columns that stand in each block.
    """

    caption: str
    corner: str
    columns: Sequence[Head]
    rows: Sequence[tuple[Head, Sequence[Cell]]]
    label: str = ""
    n_leading: int = 0

    @property
    def blocks(self) -> list[list[int]]:
        """The columns of each table on paper; empty if the whole table has room there."""
        places = range(self.n_leading, len(self.columns))
        if len(places) <= _PRINTED_TOGETHER:
            return []
        parts = np.array_split(places, -(-len(places) // _PRINTED_TOGETHER))
        return [[*range(self.n_leading), *part.tolist()] for part in parts]


@dataclass(frozen=True, kw_only=True)
class Axis:
    """The axis of the error bars of a table.

    Attributes
    ----------
    low, high : float
        Ends of the axis.
    filled : bool
        Whether a bar from zero to the value is drawn, and not a dot.
    name : str
        Stands between the ends.
    """

    low: float
    high: float
    filled: bool = False
    name: str = ""

    #: Size of the drawing of a bar.
    width, height, _margin = 160.0, 20.0, 8.0

    @classmethod
    def over(cls, low: float, high: float, *, filled: bool = False, name: str = "") -> Axis:
        """An axis from low to high, with ends that are rounded outward. It ends where the length would overflow."""
        low, high = (min(max(end, -_FARTHEST), _FARTHEST) for end in (low, high))
        length = max(high - low, 1e-12 * max(abs(low), abs(high)), 1e-300)
        unit = 10.0 ** (math.floor(math.log10(length)) - 1)
        return cls(low=math.floor(low / unit) * unit, high=math.ceil(high / unit) * unit, filled=filled, name=name)

    @property
    def texts(self) -> tuple[str, str, str]:
        """What stands at the low end, in the middle and at the high end."""
        low, high = ("0" if end == 0.0 else number(end, 3) for end in (self.low, self.high))
        return low, self.name or ("0" if self.low < 0.0 < self.high else ""), high

    def across(self, value: float) -> float:
        share = (min(max(value, self.low), self.high) - self.low) / max(self.high - self.low, 1e-300)
        return self._margin + share * (self.width - 2.0 * self._margin)


class BarRow(NamedTuple):
    """A row with an error bar: a value and the ends of its interval, or None where nothing is drawn; and its cells."""

    head: Head
    bar: tuple[float, float, float] | None
    cells: Sequence[Cell]
    weak: bool = False
    words: str = ""


class BarTable(NamedTuple):
    """A table whose second column is drawn. `words` is the heading of a last column of text, if there is one."""

    caption: str
    corner: str
    axis: Axis
    columns: Sequence[str]
    rows: Sequence[BarRow]
    words: str = ""
