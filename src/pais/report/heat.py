"""Table of the centers, with each cell coloured by how its value compares with the other centers in that feature."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pais._base.numerics import FloatArray
from pais.report.text import breakable, escaped
from pais.report.view import WITHIN_NOISE, Sizes, View, error_text

#: Number of colour steps on each side of the middle; the last step stands for _WIDEST standard deviations.
N_STEPS = 4
_WIDEST = 1.75

# With more features than this, and at least as many features as centers, features are the rows of the table.
_MOST_COLUMNS = 8

# From this number of columns, or of letters in a name, the names are written vertically.
_UPRIGHT_FROM = 9
_LONG_NAME = 16

# A phone shows at most this many columns of numbers at once.
_SHOWN_ON_A_PHONE = 4

#: A page of paper has room for this many columns.
PRINTED_TOGETHER = 10


@dataclass(frozen=True, kw_only=True)
class HeatMap:
    """The centers as a table.

    Attributes
    ----------
    view : View
        Values in own units.
    sizes : Sizes
        Noisy counts, or shares of people.
    levels : array of shape (k, d)
        Standardised values, which decide the colours.
    """

    view: View
    sizes: Sizes
    levels: FloatArray

    def html(self) -> str:
        """Render a table that scrolls on a screen and, if it is too wide for paper, a copy in blocks of columns."""
        k, d = self.view.values.shape
        by_feature = d > _MOST_COLUMNS and d >= k
        table = self._by_feature if by_feature else self._by_center
        columns = self._order() if by_feature else list(range(d))
        whole, legend = table(columns), _legend() if k > 1 else ""
        screen = f'<div class="scroll" role="region" tabindex="0" aria-label="Segments by feature">\n{whole}\n</div>'
        if len(columns) <= PRINTED_TOGETHER:
            return legend + screen
        n_blocks = -(-len(columns) // PRINTED_TOGETHER)
        blocks = "\n".join(table(block.tolist()) for block in np.array_split(columns, n_blocks))
        return f'{legend}<div class="on-screen">{screen}</div>\n<div class="on-paper">{blocks}</div>'

    def _order(self) -> list[int]:
        """Centers from the largest to the smallest."""
        order: list[int] = np.argsort(-self.sizes.counts, kind="stable").tolist()
        return order

    def _by_center(self, features: Sequence[int]) -> str:
        """One row for each center."""
        names = self.view.names
        upright = len(names) >= _UPRIGHT_FROM or any(len(names[j]) > _LONG_NAME for j in features)
        head = "".join(self._feature_head(j, upright=upright) for j in features)
        cells, noise, sizes = [self._cells(j) for j in features], _noise_cells(self.view), self._sizes()
        lines = []
        for index in self._order():
            around = noise[index] if noise else ""
            line = "".join(column[index] for column in cells)
            counts = "".join(column[index] for _, column in sizes)
            lines.append(f"<tr>{self._center_head(index, 'row')}{counts}{around}{line}</tr>")
        extra = '<th scope="col" class="count">Noise</th>' if noise else ""
        counted = "".join(f'<th scope="col" class="count">{escaped(name)}</th>' for name, _ in sizes)
        return table_of(
            "Segments, the largest first",
            f'<th scope="col">Segment</th>{counted}{extra}{head}',
            lines,
            n_columns=len(sizes) + bool(noise) + len(features),
        )

    def _by_feature(self, centers: Sequence[int]) -> str:
        """One row for each feature: for tables with many features and few centers."""
        noise = _noise_cells(self.view)
        head = "".join(self._center_head(index, "col") for index in centers)
        lines = [self._counts_line(escaped(name), centers, column.__getitem__) for name, column in self._sizes()]
        if noise:
            lines.append(self._counts_line("Noise", centers, lambda index: noise[index]))
        # Readable features come first, each group in the order of the columns.
        for j in sorted(range(len(self.view.names)), key=lambda j: not self.view.features[j]):
            cells = self._cells(j)
            lines.append(f"<tr>{self._feature_head(j, scope='row')}{''.join(cells[index] for index in centers)}</tr>")
        return table_of(
            "Features by segment; the largest segment comes first",
            f'<th scope="col">Feature</th>{head}',
            lines,
            n_columns=len(centers),
        )

    @staticmethod
    def _counts_line(name: str, centers: Sequence[int], cell: Callable[[int], str]) -> str:
        return f'<tr class="counts"><th scope="row">{name}</th>{"".join(cell(index) for index in centers)}</tr>'

    def _feature_head(self, feature: int, *, scope: str = "col", upright: bool = False) -> str:
        name = self.view.names[feature]
        kinds = ["upright"] * upright + ["drowned"] * (not self.view.features[feature])
        classes = f' class="{" ".join(kinds)}"' if kinds else ""
        hint = name if self.view.features[feature] else f"{name}: no two segments differ by more than the noise"
        return f'<th scope="{scope}"{classes} title="{escaped(hint)}"><span>{breakable(name)}</span></th>'

    def _center_head(self, index: int, scope: str) -> str:
        return f'<th scope="{scope}"><b>{index}</b></th>'

    def _sizes(self) -> list[tuple[str, list[str]]]:
        """Name and cells of the share of each center, and of its noisy count if that is a number of rows."""
        shares = [_size(*pair, doubt) for pair, doubt in zip(self.sizes.share_texts(), self.view.doubts, strict=True)]
        counts = [_size(*pair) for pair in self.sizes.count_texts()]
        return [(name, cells) for name, cells in ((self.sizes.share_name, shares), ("Noisy count", counts)) if cells]

    def _cells(self, feature: int) -> list[str]:
        """The cells of one feature, for each center."""
        values, errors = self.view.texts(feature)
        return [self._cell(feature, index, text, errors[index] if errors else "") for index, text in enumerate(values)]

    def _cell(self, feature: int, index: int, text: str, error: str) -> str:
        level = float(self.levels[index, feature])
        step = int(np.clip(round(level / _WIDEST * N_STEPS), -N_STEPS, N_STEPS))
        side = "above" if level >= 0.0 else "below"
        around = f" \u00b1 {error}" if error else ""
        hint = f"{self.view.names[feature]}, segment {index}: {text}{around}, "
        small = f"<small>\u00b1{escaped(error)}</small>" if error and not self.view.has_one_error else ""
        if not self.view.cells[index, feature]:
            hint += self._why_grey(feature, index)
            return f'<td class="weak" title="{escaped(hint)}">{escaped(text)}{small}</td>'
        hint += f"{abs(level):.2f} deviations {side} the average of the segments"
        return f'<td class="heat-{step + N_STEPS}" title="{escaped(hint)}">{escaped(text)}{small}</td>'

    def _why_grey(self, feature: int, index: int) -> str:
        if not self.view.features[feature]:
            return "and no two segments differ by more than the noise"
        if self.view.doubts[index] == WITHIN_NOISE:
            return "and the size of the segment is within noise"
        return "within two standard errors of the average of the segments"


def _size(text: str, error: str, doubt: str = "") -> str:
    """A cell with the share or the count of a center, and the reason if the center is not readable."""
    mark = f' <span class="doubt">{doubt}</span>' if doubt else ""
    return f'<td class="count">{text}<small>\u00b1{error}</small>{mark}</td>'


def _noise_cells(view: View) -> list[str]:
    """The cells of the column with the noise of each center, if all values of a center have one standard error."""
    if view.errors is None or not view.has_one_error:
        return []
    return [f'<td class="count">\u00b1{error_text(error)}</td>' for error in view.errors[:, 0].tolist()]


def heat_map(view: View, sizes: Sizes) -> str:
    """Render the centers as a table in their own units."""
    levels = standardised(view.values, weights=sizes.counts, cells=view.cells)
    return HeatMap(view=view, sizes=sizes, levels=levels).html()


def standardised(
    centers: FloatArray, *, weights: FloatArray | None = None, cells: NDArray[np.bool_] | None = None
) -> FloatArray:
    """Distance of each center from the mean of all centers in each feature, in units of the spread of the centers.

    The mean is weighted by the (noisy) sizes of the clusters. The spread is that of the readable cells, if a feature
    has any. It is zero where all centers agree.
    """
    sizes = np.ones(len(centers)) if weights is None else np.maximum(weights, 1e-9)
    away = centers - np.average(centers, axis=0, weights=sizes)
    counted = np.ones(centers.shape) if cells is None else np.where(cells.any(axis=0), cells, True).astype(np.float64)
    spread = np.sqrt(np.average(np.square(away), axis=0, weights=counted))
    flat = spread <= 1e-12 * np.maximum(np.abs(centers).max(axis=0), 1e-300)
    return np.where(flat, 0.0, away / np.where(flat, 1.0, spread))


def table_of(caption: str, head: str, lines: Sequence[str], n_columns: int, kind: str = "") -> str:
    """A table of coloured cells from the HTML of its heading and its lines."""
    body = "\n".join(lines)
    wide = " wide" if n_columns > _SHOWN_ON_A_PHONE else ""
    return (
        f'<table class="heat{wide}{kind}"><caption><span>{escaped(caption)}</span></caption>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table>"
    )


def _legend() -> str:
    boxes = "".join(f'<span class="heat-{step}"></span>' for step in range(2 * N_STEPS + 1))
    return (
        f'<p class="legend"><span class="entry"><span>below average</span><span class="scale" aria-hidden="true">'
        f'{boxes}</span><span>above</span></span> <span class="entry"><span class="scale" aria-hidden="true">'
        '<span class="weak"></span></span><span>grey: close to the average, within two standard errors</span></span>'
        "</p>\n"
    )
