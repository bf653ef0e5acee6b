"""Tables with coloured cells and with error bars. Names are HTML text, so that long names wrap."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pais._base.cards import number
from pais.show.text import breakable, error_text, escaped

# Size of the drawing of an error bar.
_WIDTH, _HEIGHT, _MARGIN = 160.0, 20.0, 8.0

_PLUS_MINUS = "\u00b1"

#: Number of colour steps on each side of the middle.
N_STEPS = 4

# A phone shows at most this many columns of numbers at once.
_SHOWN_ON_A_PHONE = 4

#: A page of paper has room for this many columns.
PRINTED_TOGETHER = 10


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
    """

    text: str
    small: tuple[str, ...] = ()
    level: float = 0.0
    weak: bool = False
    hint: str = ""

    def html(self) -> str:
        step = int(np.clip(round(self.level * N_STEPS), -N_STEPS, N_STEPS)) + N_STEPS
        kind = "weak" if self.weak else f"heat-{step}"
        hint = f' title="{escaped(self.hint)}"' if self.hint else ""
        pieces = " ".join(f"<span>{escaped(piece)}</span>" for piece in self.small)
        small = f"<small>{pieces}</small>" if pieces else ""
        return f'<td class="{kind}"{hint}>{escaped(self.text)}{small}</td>'


@dataclass(frozen=True, kw_only=True)
class Grid:
    """A table of coloured cells.

    Attributes
    ----------
    caption, corner : str
        Caption of the table, and heading of its first column.
    rows, columns : sequence of str
        Names of the rows and of the columns.
    cells : sequence of sequences of Cell
        The cells of each row.
    drowned : sequence of bool
        Which columns are within the noise, so that their names are in italics.
    """

    caption: str
    corner: str
    rows: Sequence[str]
    columns: Sequence[str]
    cells: Sequence[Sequence[Cell]]
    drowned: Sequence[bool] = ()

    def html(self) -> str:
        """Render a table that scrolls on a screen and, if it is too wide for paper, a copy in blocks of columns."""
        places = range(len(self.columns))
        screen = (
            f'<div class="scroll" role="region" tabindex="0" aria-label="{escaped(self.caption)}">\n'
            f"{self._table(places)}\n</div>"
        )
        if len(places) <= PRINTED_TOGETHER:
            return screen
        blocks = np.array_split(places, -(-len(places) // PRINTED_TOGETHER))
        paper = "\n".join(self._table(block.tolist()) for block in blocks)
        return f'<div class="on-screen">{screen}</div>\n<div class="on-paper">{paper}</div>'

    def _table(self, places: Sequence[int]) -> str:
        head = "".join(self._head(place) for place in places)
        lines = [
            f"<tr>{row_head(name)}{''.join(cells[place].html() for place in places)}</tr>"
            for name, cells in zip(self.rows, self.cells, strict=True)
        ]
        return table_of(self.caption, f'<th scope="col">{escaped(self.corner)}</th>{head}', lines, len(places))

    def _head(self, place: int) -> str:
        kind = ' class="drowned"' if len(self.drowned) > 0 and self.drowned[place] else ""
        return f'<th scope="col"{kind}><span>{breakable(self.columns[place])}</span></th>'


def row_head(name: str) -> str:
    return f'<th scope="row"><span>{breakable(name)}</span></th>'


# The farthest end of an axis: the length of an axis between two such ends is a finite double.
_FARTHEST = 1e300


@dataclass(frozen=True, kw_only=True)
class Bars:
    """Error bars on one axis, one in each cell. An end beyond the axis has no cap.

    Attributes
    ----------
    low, high : float
        Ends of the axis.
    filled : bool
        Whether a bar from zero to the value is drawn, and not a dot.
    """

    low: float
    high: float
    filled: bool = False

    @classmethod
    def over(cls, low: float, high: float, *, filled: bool = False) -> Bars:
        """An axis from low to high, with ends that are rounded outward. It ends where the length would overflow."""
        low, high = (min(max(end, -_FARTHEST), _FARTHEST) for end in (low, high))
        length = max(high - low, 1e-12 * max(abs(low), abs(high)), 1e-300)
        unit = 10.0 ** (math.floor(math.log10(length)) - 1)
        return cls(low=math.floor(low / unit) * unit, high=math.ceil(high / unit) * unit, filled=filled)

    def cell(self, value: float, low: float, high: float, *, weak: bool = False) -> str:
        """Draw one value and the ends of its interval. The numbers are in the table, so the drawing is hidden."""
        middle = _HEIGHT / 2.0
        ends = [self._across(end) for end in (low, high)]
        zero = self._across(0.0)
        parts = []
        if self.low <= 0.0 <= self.high:
            parts.append(f'<line class="zero" x1="{zero:.1f}" x2="{zero:.1f}" y1="0" y2="{_HEIGHT:g}"/>')
        if self.filled:
            left, right = sorted((zero, self._across(value)))
            parts.append(f'<rect class="filled" x="{left:.1f}" y="4" width="{right - left:.1f}" height="12"/>')
        parts.append(f'<line class="span" x1="{ends[0]:.1f}" x2="{ends[1]:.1f}" y1="{middle:g}" y2="{middle:g}"/>')
        for end, x in zip((low, high), ends, strict=True):
            if self.low <= end <= self.high:
                parts.append(f'<line class="span" x1="{x:.1f}" x2="{x:.1f}" y1="6" y2="14"/>')
        if not self.filled and self.low <= value <= self.high:
            # A line without length and with round ends stays round in a drawing that is stretched.
            x = self._across(value)
            parts.append(f'<line class="dot" x1="{x:.1f}" x2="{x:.1f}" y1="{middle:g}" y2="{middle:g}"/>')
        kind = "bars weak-bars" if weak else "bars"
        return (
            f'<td class="drawn"><svg class="{kind}" viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}" '
            f'preserveAspectRatio="none" aria-hidden="true">'
            f"{''.join(parts)}</svg></td>"
        )

    def axis(self, name: str) -> str:
        """The ends of the axis, for the heading of the column."""
        low, high = ("0" if end == 0.0 else number(end, 3) for end in (self.low, self.high))
        middle = escaped(name) or ("0" if self.low < 0.0 < self.high else "")
        return f'<span class="ends"><span>{low}</span><span>{middle}</span><span>{high}</span></span>'

    def _across(self, value: float) -> float:
        share = (min(max(value, self.low), self.high) - self.low) / max(self.high - self.low, 1e-300)
        return _MARGIN + share * (_WIDTH - 2.0 * _MARGIN)


def bars_table(caption: str, head: Sequence[str], lines: Sequence[str], *, words: str = "") -> str:
    """A table whose second column is drawn. The head is HTML; `words` is the heading of a last column of text."""
    columns = "".join(
        f'<th scope="col"{" class=drawn" if place == 1 else ""}>{cell}</th>' for place, cell in enumerate(head)
    )
    columns += f'<th scope="col" class="words">{escaped(words)}</th>' if words else ""
    table = table_of(caption, columns, lines, len(head), " with-bars with-words" if words else " with-bars")
    return f'<div class="scroll" role="region" tabindex="0" aria-label="{escaped(caption)}">\n{table}\n</div>'


def around(error: float) -> str:
    """A standard error with its sign."""
    return f"{_PLUS_MINUS}{error_text(error)}"


def table_of(caption: str, head: str, lines: Sequence[str], n_columns: int, kind: str = "") -> str:
    """A table of coloured cells from the HTML of its heading and its lines."""
    body = "\n".join(lines)
    wide = " wide" if n_columns > _SHOWN_ON_A_PHONE else ""
    return (
        f'<table class="heat{wide}{kind}"><caption><span>{escaped(caption)}</span></caption>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table>"
    )
