"""The part of a page about statistics: a table with intervals, or bars for counts and other single columns."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from pais._base.numerics import FloatArray
from pais.show.charts import Axis, BarRow, BarTable, Cell, Head, Table
from pais.show.results import Results
from pais.show.text import as_sentence, date_text, value_text

# A table with few rows and more columns than this is turned on its side, which is easier to read on a phone. Chosen by
# eye, as are the other numbers below.
_MOST_COLUMNS, _FEW_ROWS = 4, 8

# Values are rounded like the length of their interval, but no further than to whole numbers.
_COARSEST = 10.0

#: Statistics that are shown as whole numbers, with bars that start at zero.
COUNTS = ("count", "histogram", "number of people")

# Statistics whose rows are alike, such as groups, so that they are drawn on one axis; and the most columns drawn.
_DRAWN, _MOST_DRAWN = (*COUNTS, "sum", "mean", "variance", "quantile", "median"), 12

# Values with an interval that reaches further than this share of the value are grey.
_WIDE = 0.5


@dataclass(frozen=True, kw_only=True)
class StatisticResults(Results):
    """Released statistics as a reader sees them.

    Attributes
    ----------
    name : str
        What was computed, such as "mean".
    rows : tuple of tuples of str
        Labels of each row of the table, from the outer to the inner level.
    columns : tuple of str
        Labels of the columns; empty if there is one column.
    subject : str
        The name of that column; empty if it has none.
    values, lows, highs : array of shape (rows, columns)
        Values in own units and the ends of their 95 % intervals; NaN where there is none.
    is_date : array of bool, optional
        Which values are dates, as days since 1970-01-01.
    is_share : tuple of bool, optional
        For each column, whether its values are shares, which are shown in percent.
    noise_in_words, clipping : str
        What the noise, the sampling and clipping did, in sentences.
    notes : tuple of str
        What the intervals do not include.
    clipped_to : str
        The stated bounds to which values were clipped, in words; empty if there are none.
    caution : str, optional
        Text of a warning about the values, which replaces the headline.
    more_cautions : tuple of str
        Texts of other warnings.
    """

    template = "statistics/page.html"
    by_norm = False
    cautions = (
        (
            "Each interval by itself.",
            "An interval holds its value with a probability of 95 %. That all of them do is less likely.",
        ),
    )

    name: str
    rows: tuple[tuple[str, ...], ...]
    columns: tuple[str, ...]
    subject: str = ""
    values: FloatArray
    lows: FloatArray
    highs: FloatArray
    is_date: NDArray[np.bool_] | None = None
    about: str = ""
    is_share: tuple[bool, ...] = ()
    noise_in_words: str = ""
    clipping: str = ""
    notes: tuple[str, ...] = ()
    clipped_to: str = ""
    caution: str | None = None
    more_cautions: tuple[str, ...] = ()

    @property
    def title(self) -> str:  # type: ignore[override]  # depends on the statistic
        return f"Private {self._what}"

    @property
    def _what(self) -> str:
        """The statistic and its column, if there is one: "mean of age"."""
        return f"{self.name} of {self.subject}" if self.subject else self.name

    def in_words(self) -> str:
        n = int(np.isfinite(self.values).sum())
        return f"{n} value{'s' * (n != 1)} ({self.name})"

    @property
    def _dates(self) -> NDArray[np.bool_]:
        return np.zeros(self.values.shape, dtype=bool) if self.is_date is None else self.is_date

    @property
    def _precision(self) -> FloatArray:
        """Half of the length of each interval over the value; NaN for dates, and where a value or an end is missing."""
        with np.errstate(divide="ignore", invalid="ignore"):
            shares = 0.5 * (self.highs - self.lows) / np.abs(self.values)
        return np.where(self._dates | np.isinf(self.highs - self.lows), np.nan, shares)

    @property
    def verdict(self) -> str | None:
        shares = self._precision[~np.isnan(self._precision)]
        if shares.size == 0:
            return "only one end of the interval is known" if np.isinf(self.highs - self.lows).any() else None
        middle = float(np.median(shares))
        within = f"known to within {100.0 * middle:.2g}%" if middle < 10.0 else "hidden by the noise"
        start = f"with values clipped to {self.clipped_to}, " if self.clipped_to else ""
        if shares.size == 1:
            return f"{start}the value is {within}"
        return f"{start}half of the {shares.size} values are {within}{', or better' if middle < 10.0 else ''}"

    @property
    def meaning(self) -> str:
        return (
            "The interval of a value reaches this far to each side, relative to the value. Intervals are for noise and "
            "sampling, at 95 %; clipping is not part of them."
        )

    @property
    def readable(self) -> float:
        shares = self._precision[~np.isnan(self._precision)]
        return float((shares <= _WIDE).mean()) if shares.size else 1.0

    @property
    def _drawn(self) -> list[int]:
        """The columns that are drawn with error bars: those with several values of one kind that are no dates."""
        n = self.values.shape[1]
        if len(self.rows) < 2 or n > _MOST_DRAWN or self.name not in _DRAWN:
            return []
        known = np.isfinite(self.values).any(axis=0) & ~self._dates.any(axis=0)
        return np.flatnonzero(known).tolist()

    @property
    def has_grey(self) -> bool:
        return bool((self._precision > _WIDE).any())

    @property
    def single(self) -> tuple[tuple[str, str], ...]:
        """A value that is alone, with its interval; empty if there are several."""
        if self.values.size != 1:
            return ()
        cell = self._cell(0, 0)
        return (self._what, cell.text), ("95 % interval", " ".join(cell.small))

    @property
    def values_table(self) -> Table | None:
        """The values that are not drawn; None if there are none."""
        places = [column for column in range(self.values.shape[1]) if column not in self._drawn]
        if not places or self.single:
            return None
        rows = [", ".join(labels) for labels in self.rows] or [self.name]
        columns = [self.columns[place] for place in places] if self.columns else [self.name]
        cells = [[self._cell(i, j) for j in places] for i in range(len(rows))]
        corner = ""
        if len(columns) > _MOST_COLUMNS and len(rows) <= _FEW_ROWS:
            rows, columns, cells = columns, rows, [list(line) for line in zip(*cells, strict=True)]
            corner = "Column"
        return Table(
            caption=as_sentence(self._what),
            corner=corner,
            columns=[*map(Head, columns)],
            rows=[(Head(name), line) for name, line in zip(rows, cells, strict=True)],
        )

    @property
    def charts(self) -> list[list[BarTable]]:
        """For each column that is drawn, one table of bars for each outer label, all on one axis."""
        return [self._bar_tables(column) for column in self._drawn]

    def _bar_tables(self, column: int) -> list[BarTable]:
        factor = 100.0 if self._is_share(column) else 1.0
        ends = np.concatenate([array[:, column] for array in (self.values, self.lows, self.highs)])
        ends = factor * ends[np.isfinite(ends)]
        low, high = float(ends.min()), float(ends.max())
        # Counts are not negative, so their bars start at zero. Bars of other values do, unless they would look alike.
        filled = low >= 0.0 and (self.name in COUNTS or low < 0.5 * high)
        axis = Axis.over(0.0 if filled else low, high, filled=filled, name="%" * self._is_share(column))
        what = as_sentence(f"{self.name} of {self.columns[column]}" if self.columns else self._what)
        tables = []
        for outer, group in groupby(range(len(self.rows)), key=lambda row: self.rows[row][:-1]):
            caption = ", ".join((what, *outer) if self.columns or self.subject else outer) or what
            rows = []
            for row in group:
                cell, shown = self._cell(row, column), self._shown(row, column)
                bar = None if np.isnan(shown).any() else shown
                rows.append(BarRow(head=Head(self.rows[row][-1]), bar=bar, cells=[cell], weak=cell.weak))
            tables.append(BarTable(caption=caption, corner="", axis=axis, columns=[self.name], rows=rows))
        return tables

    def _cell(self, row: int, column: int) -> Cell:
        value, low, high = self._shown(row, column)
        if np.isnan(value):
            return Cell(text="\u2013", weak=True, hint="not defined for this column")
        if self._dates[row, column]:
            texts = [date_text(math.floor(number)) if np.isfinite(number) else "" for number in (value, low, high)]
        else:
            counted = self.name in COUNTS or (self.rows and self.rows[row][-1] in COUNTS)
            width = high - low if np.isfinite(high - low) else 0.0
            unit = _COARSEST if counted else min(width, _COARSEST)
            percent = "%" * self._is_share(column)
            texts = [f"{value_text(number, unit)}{percent}" for number in (value, low, high)]
        small = (f"{texts[1]} to", texts[2])
        if np.isinf(high):
            small = ("at least", texts[1])
        elif np.isinf(low):
            small = ("at most", texts[2])
        return Cell(text=texts[0], small=small, weak=bool(self._precision[row, column] > _WIDE))

    def _is_share(self, column: int) -> bool:
        return bool(self.is_share) and self.is_share[column]

    def _shown(self, row: int, column: int) -> tuple[float, float, float]:
        """A value and the ends of its interval, of shares in percent."""
        factor = 100.0 if self._is_share(column) else 1.0
        value, low, high = (factor * float(array[row, column]) for array in (self.values, self.lows, self.highs))
        return value, low, high
