"""Tables of coloured cells and of error bars, which ``templates/parts.html`` draws."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from pais._base.cards import number

#: Number of colour steps on each side of the middle; ``style.css`` has a colour for each.
N_STEPS = 4

# A phone shows at most this many columns of numbers at once, and paper this many; seen in a browser.
_SHOWN_ON_A_PHONE, _PRINTED_TOGETHER = 4, 10

# The farthest end of an axis: the length of an axis between two such ends is a finite double.
_FARTHEST = 1e300


@dataclass(frozen=True, kw_only=True)
class Cell:
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

    @property
    def style(self) -> str:
        if self.kind is not None:
            return self.kind
        step = int(np.clip(round(self.level * N_STEPS), -N_STEPS, N_STEPS)) + N_STEPS
        return "weak" if self.weak else f"heat-{step}"


@dataclass(frozen=True)
class Head:
    """Heading of a row or of a column: a name that may wrap, the index of a center, or the name of counts."""

    name: str
    kind: Literal["name", "index", "count"] = "name"
    hint: str = ""
    drowned: bool = False
    upright: bool = False


@dataclass(frozen=True, kw_only=True)
class Table:
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
    def whole(self) -> range:
        return range(len(self.columns))

    @property
    def blocks(self) -> list[list[int]]:
        """The columns of each table on paper; empty if the whole table has room there."""
        places = self.whole[self.n_leading :]
        if len(places) <= _PRINTED_TOGETHER:
            return []
        parts = np.array_split(places, -(-len(places) // _PRINTED_TOGETHER))
        return [[*range(self.n_leading), *part.tolist()] for part in parts]

    @staticmethod
    def is_wide(n_columns: int) -> bool:
        return n_columns > _SHOWN_ON_A_PHONE


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

    def holds(self, value: float) -> bool:
        return self.low <= value <= self.high

    def across(self, value: float) -> float:
        share = (min(max(value, self.low), self.high) - self.low) / max(self.high - self.low, 1e-300)
        return self._margin + share * (self.width - 2.0 * self._margin)


@dataclass(frozen=True, kw_only=True)
class BarRow:
    """A row with an error bar: a value and the ends of its interval, or None where nothing is drawn; and its cells."""

    head: Head
    bar: tuple[float, float, float] | None
    cells: Sequence[Cell]
    weak: bool = False
    words: str = ""


@dataclass(frozen=True, kw_only=True)
class BarTable:
    """A table whose second column is drawn. `words` is the heading of a last column of text, if there is one."""

    caption: str
    corner: str
    axis: Axis
    columns: Sequence[str]
    rows: Sequence[BarRow]
    words: str = ""

    @property
    def is_wide(self) -> bool:
        return Table.is_wide(2 + len(self.columns))
