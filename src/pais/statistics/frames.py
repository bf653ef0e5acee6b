"""Labels of released values, and released values as labelled pandas objects. pandas is an optional extra."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


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


def labelled(numbers: NDArray[Any], rows: Axis | None, columns: Axis | None, name: str) -> Any:
    """A table of numbers as a frame, or as a series if one axis is None; as an array if pandas is not installed."""
    flat = numbers[:, 0] if columns is None else numbers[0] if rows is None else numbers
    try:
        import pandas as pd
    except ImportError:
        return flat

    def index(axis: Axis) -> Any:
        levels = [
            [pd.Interval(*label, closed="left") if isinstance(label, Bin) else label for label in level]
            for level in axis.levels
        ]
        if len(levels) == 1:
            return pd.Index(levels[0], name=axis.names[0])
        return pd.MultiIndex.from_arrays(levels, names=axis.names)

    if rows is not None and columns is not None:
        return pd.DataFrame(flat, index=index(rows), columns=index(columns))
    axis = columns if rows is None else rows
    return pd.Series(flat, index=None if axis is None else index(axis), name=name)


def short(value: Any) -> str:
    """A number or a date in a few characters."""
    if isinstance(value, np.datetime64):
        return str(value.astype("datetime64[D]"))
    return f"{value:,.6g}" if isinstance(value, (int, float)) else str(value)
