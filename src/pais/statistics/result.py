"""The result of a one-line statistic: values in own units, their errors, and the certificate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pais._base import validate
from pais._base.cards import Card, Carded
from pais._base.numerics import FloatArray, raised
from pais.accounting import Certificate
from pais.data.typed import times_of_days

#: Lower and upper ends of intervals at a level.
Interval = Callable[[float], tuple[FloatArray, FloatArray]]

# A text or a card shows at most this many values.
_MOST_LINES = 24


class Bin(NamedTuple):
    """A bin of a histogram: all values from `low` to below `high`. The last bin holds `high` too."""

    low: Any
    high: Any

    def __str__(self) -> str:
        return f"{_short(self.low)} to {_short(self.high)}"


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

    def index(self) -> Any:
        """The axis as an index of pandas."""
        import pandas as pd

        levels = [
            [pd.Interval(*label, closed="left") if isinstance(label, Bin) else label for label in level]
            for level in self.levels
        ]
        if len(levels) == 1:
            return pd.Index(levels[0], name=self.names[0])
        return pd.MultiIndex.from_arrays(levels, names=self.names)


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Statistic(Carded):
    """A released statistic. Everything in it is protected or public, and may be published.

    Attributes
    ----------
    name : str
        What was computed, such as "mean".
    clipping : str
        What clipping did to the values, in one or two sentences.
    certificate : Certificate
        The privacy guarantee, for all values together.
    estimates, standard_errors : array of shape (rows, columns)
        The numbers behind `value` and `standard_error`.
    bounds : callable
        Lower and upper ends of the intervals at a level.
    rows, columns : Axis, optional
        The labels of the numbers; None for an axis of length one that `value` leaves out.
    is_date : array of bool, optional
        Which estimates are dates, in days since 1970-01-01. Their standard errors are days too.
    noise : str
        The noise and the sampling behind the standard errors, in words.
    released : object
        The value that the mechanism released, to which the certificate belongs.
    """

    name: str
    clipping: str
    certificate: Certificate
    estimates: FloatArray
    standard_errors: FloatArray
    bounds: Interval
    rows: Axis | None = None
    columns: Axis | None = None
    is_date: NDArray[np.bool_] | None = None
    noise: str = ""
    released: Any = field(default=None)

    @property
    def value(self) -> Any:
        """The statistic in own units: a number, or a labelled series or frame (an array if pandas is missing)."""
        return self._labelled(self._in_units(self.estimates))

    @property
    def standard_error(self) -> Any:
        """Standard errors of noise and sampling, in the shape of `value`. Clipping is not part of them."""
        return self._labelled(self.standard_errors)

    def interval(self, level: float = 0.95) -> tuple[Any, Any]:
        """Return the lower and upper ends of intervals for noise and sampling, each in the shape of `value`.

        Each interval holds the value that clipped rows would give without noise with probability `level`. The level
        is that of each interval alone, not of all of them together.
        """
        low, high = self._ends(level)
        return self._labelled(self._in_units(low)), self._labelled(self._in_units(high))

    def _ends(self, level: float) -> tuple[FloatArray, FloatArray]:
        rule = "a number in (0, 1)"
        return self.bounds(validate.number("level", level, rule=rule, low=0, high=1, open_low=True, open_high=True))

    def _in_units(self, numbers: FloatArray) -> NDArray[Any]:
        if self.is_date is None or not self.is_date.any():
            return numbers
        units: NDArray[Any] = numbers.astype(object)
        units[self.is_date] = times_of_days(numbers[self.is_date])
        return times_of_days(numbers) if self.is_date.all() else units

    def _labelled(self, numbers: NDArray[Any]) -> Any:
        if self.rows is None and self.columns is None:
            number = numbers[0, 0]
            return float(number) if isinstance(number, float) else number
        flat = numbers[:, 0] if self.columns is None else numbers[0] if self.rows is None else numbers
        try:
            import pandas as pd
        except ImportError:
            return flat
        if self.rows is not None and self.columns is not None:
            return pd.DataFrame(flat, index=self.rows.index(), columns=self.columns.index())
        axis = self.columns if self.rows is None else self.rows
        return pd.Series(flat, index=None if axis is None else axis.index(), name=self.name)

    def lines(self) -> list[tuple[str, str]]:
        """Label and text of each value with its 95 % interval, at most 24 of them."""
        low, high = (self._in_units(ends) for ends in self._ends(0.95))
        values = self._in_units(self.estimates)
        labels = [
            ", ".join(text for text in (row, column) if text)
            for row in ([""] if self.rows is None else self.rows.texts())
            for column in ([""] if self.columns is None else self.columns.texts())
        ]
        lines = [
            (label or self.name, f"{_short(value)}  (95 %: {_short(least)} to {_short(most)})")
            for label, value, least, most in zip(labels[:_MOST_LINES], values.flat, low.flat, high.flat, strict=False)
        ]
        left = len(labels) - _MOST_LINES
        return [*lines, ("…", f"{left} more values")] if left > 0 else lines

    def _summary(self) -> str:
        shape = self.estimates.shape
        if self.estimates.size > 1:
            return f"{self.name}, {shape[0] * shape[1]} values"
        return f"{self.name} {self.lines()[0][1]}"

    @property
    def _guarantee(self) -> str:
        certificate = self.certificate
        price = f"epsilon {raised(certificate.epsilon)}, delta {raised(certificate.delta, 3)}"
        return f"{price} for {certificate.neighbours}"

    def _card(self) -> Card:
        return Card(
            kind="Statistic",
            summary=f"{self._summary()}; {self._guarantee}",
            facts=(
                *self.lines(),
                ("guarantee", self._guarantee),
                ("noise", self.noise),
                ("clipping", self.clipping),
            ),
            alarm="" if self.certificate.secure_randomness else "seeded, not private",
        )

    def __str__(self) -> str:
        lines = self.lines()
        width = max(len(label) for label, _ in lines)
        table = "\n".join(f"{label:<{width}}  {text}" for label, text in lines)
        alarm = "" if self.certificate.secure_randomness else "\nseeded, not private"
        return f"{table}\n{self._guarantee}{alarm}"

    def explain(self) -> str:
        """Describe the statistic in words: its values, their errors, what clipping did, and the certificate."""
        return f"{self.name}\n\n{self}\n\n{self.noise} {self.clipping}\n\n{self.certificate.explain()}"


def _short(value: Any) -> str:
    """A number or a date in a few characters."""
    if isinstance(value, np.datetime64):
        return str(value.astype("datetime64[D]"))
    return f"{value:,.6g}" if isinstance(value, (int, float)) else str(value)
