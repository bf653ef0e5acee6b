"""Labels of released values, and released values as labelled pandas objects. pandas is an optional extra."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pais.errors import ArgumentError


class Bin(NamedTuple):
    """A bin of a histogram: all values from `low` to below `high`. The last bin holds `high` too."""

    low: Any
    high: Any

    def __str__(self) -> str:
        return f"{short(self.low)} to {short(self.high)}"


@dataclass(frozen=True, kw_only=True)
class Axis:
    """Labels along one side of a table: a name, and one label for each place, on each level."""

    names: tuple[str | None, ...]
    levels: tuple[tuple[Any, ...], ...]

    @classmethod
    def of(cls, labels: Any, name: str | None = None) -> Axis:
        """An axis of one level."""
        return cls(names=(name,), levels=(tuple(labels),))

    def __len__(self) -> int:
        return len(self.levels[0])

    def texts(self) -> list[str]:
        """One text for each place."""
        return [", ".join(str(label) for label in labels) for labels in zip(*self.levels, strict=True)]


def combined(groups: Axis | None, inner: Axis | None) -> Axis | None:
    """Labels of the rows of a table that stacks the tables of all groups."""
    if groups is None or inner is None:
        return inner if groups is None else groups
    outer = [tuple(label for label in level for _ in range(len(inner))) for level in groups.levels]
    return Axis(names=(*groups.names, *inner.names), levels=(*outer, *(level * len(groups) for level in inner.levels)))


def labelled(numbers: NDArray[Any], rows: Axis | None, columns: Axis | None, name: str) -> Any:
    """A table of numbers as a frame, or as a series if one axis is None; as an array if pandas is not installed."""
    flat = numbers[:, 0] if columns is None else numbers[0] if rows is None else numbers
    try:
        import pandas as pd
    except ImportError:
        return flat

    def interval(ends: Bin) -> Any:
        low, high = (pd.Timestamp(end) if isinstance(end, (np.datetime64, datetime.date)) else end for end in ends)
        return pd.Interval(low, high, closed="left")

    def index(axis: Axis) -> Any:
        levels = [[interval(label) if isinstance(label, Bin) else label for label in level] for level in axis.levels]
        if len(levels) == 1:
            return pd.Index(levels[0], name=axis.names[0])
        return pd.MultiIndex.from_arrays(levels, names=axis.names)

    if rows is not None and columns is not None:
        return pd.DataFrame(flat, index=index(rows), columns=index(columns))
    axis = columns if rows is None else rows
    return pd.Series(flat, index=None if axis is None else index(axis), name=name)


def side_by_side(numbers: Mapping[str, NDArray[Any]], rows: Axis) -> Any:
    """A frame of several columns of numbers with the same labels."""
    try:
        import pandas as pd
    except ImportError:
        raise ArgumentError("to_frame needs pandas. Install it: pip install pandas.") from None
    return pd.DataFrame({name: labelled(column, rows, None, name) for name, column in numbers.items()})


def short(value: Any) -> str:
    """A number or a date in a few characters; nothing for a value that is not defined."""
    if isinstance(value, (np.datetime64, datetime.date)):
        return str(np.datetime64(value).astype("datetime64[D]"))
    if not isinstance(value, (int, float)):
        return str(value)
    # Totals are easier to read as 3,560,120,000 than as 3.56012e+09.
    return f"{float(f'{value:.6g}'):,.0f}" if 1e6 <= abs(value) < 1e15 else f"{value:,.6g}"


def with_error(value: Any, error: float) -> str:
    """A number or a date with its standard error, both to the second digit of the error; nothing if not defined."""
    # Only a value that is not defined differs from itself.
    if value != value:
        return ""
    if not isinstance(value, (int, float)):
        return f"{short(value)} ± {error:.2g} d"
    if not 0.0 < error < math.inf:
        return short(value)
    digits = 1 - math.floor(math.log10(float(f"{error:.1e}")))
    if digits > 12:
        return f"{short(value)} ± {error:.2g}"
    return " ± ".join(f"{round(number, digits):,.{max(digits, 0)}f}" for number in (value, error))


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of texts as lines, in columns of equal width."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(f"{text:<{width}}" for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]
