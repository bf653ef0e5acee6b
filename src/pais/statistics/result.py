"""The result of a one-line statistic: values in own units, their errors, and the certificate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pais._base import validate
from pais._base.cards import Card, Carded
from pais._base.numerics import FloatArray, raised
from pais.accounting.certificate import Certificate
from pais.data.cells import listed, times_of_days
from pais.data.kinds import Boolean, Categories, Names
from pais.errors import ArgumentError
from pais.planning.plan import Fit, Plan
from pais.show.page import ReportHeader, today, write_report
from pais.statistics.page import COUNTS, StatisticResults
from pais.statistics.table import Axis, Caution, aligned, combined, labelled, short, side_by_side, with_error
from pais.statistics.uncertainty import ClippedShare, percent

#: Lower and upper ends of intervals at a level.
Interval = Callable[[float], tuple[FloatArray, FloatArray]]

# A text or a card shows at most this many values.
_MOST_LINES = 24

# What a text says about a value that noise hides.
_LOST = "lost in the noise"

# What a text says about the interval of a column of which values were clipped to stated bounds.
_CLIPPED = "of clipped values"


class Texts(NamedTuple):
    """What a reader of a statistic has to know: see the attributes of `Statistic`. Written when it is first read."""

    noise: str
    clipping: str
    notes: tuple[str, ...] = ()
    clipped: tuple[ClippedShare, ...] = ()


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Statistic(Carded):
    """A released statistic. Everything in it is protected or public, and may be published.

    Attributes
    ----------
    name : str
        What was computed, such as "mean".
    about : str
        What the numbers are about: whose rows they count and how, from stated and released values.
    clipping : str
        What clipping did to the values, in one or two sentences.
    cautions : tuple of Caution
        What a reader must know before using the values. Each was issued as a warning.
    notes : tuple of str
        What the intervals do not include, and how much noise could hide.
    clipped : tuple of ClippedShare
        Noisy share of the values below and above the bounds of each column; empty if it was not released.
    certificate : Certificate
        The privacy guarantee, for all values together.
    estimates, standard_errors : array of shape (rows, columns)
        The numbers behind `value` and `standard_error`.
    bounds, errors, texts : callable
        Lower and upper ends of the intervals at a level; what gives the standard errors and the texts when needed.
    rows, columns : Axis, optional
        The labels of the numbers; None for an axis of length one that `value` leaves out.
    is_date : array of bool, optional
        Which estimates are dates, in days since 1970-01-01. Their standard errors are days too.
    noise : str
        The noise and the sampling behind the standard errors, in words.
    released : object
        The value that the mechanism released, to which the certificate belongs.
    plan : Plan, optional
        Everything decided before the rows were read; public.
    subject : str
        The only column; empty if there are several or none.
    level : float, optional
        The only level of quantiles.
    condition : str
        What the intervals take for granted about people, in words; empty if nothing.
    lost : array of bool, optional
        Which values noise hides: hardly any cells are behind them, or an interval is as wide as the bounds.
    """

    name: str
    about: str
    certificate: Certificate
    estimates: FloatArray
    errors: Callable[[], FloatArray]
    bounds: Interval
    texts: Callable[[], Texts]
    rows: Axis | None = None
    columns: Axis | None = None
    is_date: NDArray[np.bool_] | None = None
    released: Any = field(default=None)
    plan: Plan | None = None
    subject: str = ""
    level: float | None = None
    condition: str = ""
    lost: NDArray[np.bool_] | None = None
    cautions: tuple[Caution, ...] = ()

    @cached_property
    def standard_errors(self) -> FloatArray:
        return self.errors()

    @cached_property
    def _texts(self) -> Texts:
        return self.texts()

    @property
    def noise(self) -> str:
        return self._texts.noise

    @property
    def clipping(self) -> str:
        return self._texts.clipping

    @property
    def clipped(self) -> tuple[ClippedShare, ...]:
        return self._texts.clipped

    @property
    def notes(self) -> tuple[str, ...]:
        return self._texts.notes

    @property
    def value(self) -> Any:
        """The statistic in own units: a number, or a labelled series or frame (an array if pandas is missing)."""
        return self._labelled(self._in_units(self.estimates))

    @property
    def standard_error(self) -> Any:
        """Standard errors of noise and sampling, in the shape of `value`.

        Clipping to stated bounds is not part of them: see `clipped`. For means, sums, variances and descriptions of
        "auto" columns, what lies beyond the bounds is estimated, and its uncertainty is part of them.
        """
        return self._labelled(self.standard_errors)

    def interval(self, level: float = 0.95) -> tuple[Any, Any]:
        """Return the lower and upper ends of intervals for noise and sampling, each in the shape of `value`.

        With stated bounds, each interval holds the value that clipped rows would give without noise with probability
        `level`, up to rounding: the noise of whole counts is whole, so their intervals hold it a little more often. For
        means, sums, variances and descriptions of "auto" columns, it is the value of the rows as they are, with about
        this probability. The level is that of each interval alone, not of all of them together.
        """
        low, high = self._ends(level)
        return self._labelled(self._in_units(low)), self._labelled(self._in_units(high))

    def _ends(self, level: float) -> tuple[FloatArray, FloatArray]:
        rule = "a number in (0, 1)"
        return self.bounds(validate.number("level", level, rule=rule, low=0, high=1, open_low=True, open_high=True))

    def _in_units(self, numbers: FloatArray) -> NDArray[Any]:
        if self.is_date is None or not self.is_date.any():
            return numbers
        times = times_of_days(numbers[self.is_date])
        # An end of an interval that is infinite is no date.
        times[np.isinf(numbers[self.is_date])] = np.datetime64("NaT")
        if self.is_date.all():
            return times.reshape(numbers.shape)
        units: NDArray[Any] = numbers.astype(object)
        units[self.is_date] = times
        return units

    def _labelled(self, numbers: NDArray[Any]) -> Any:
        if self.rows is None and self.columns is None:
            number = numbers[0, 0]
            return float(number) if isinstance(number, float) else number
        return labelled(numbers, self.rows, self.columns, self.name)

    def __float__(self) -> float:
        """The number, if the statistic is a single number."""
        value = self.value
        if not isinstance(value, float):
            raise ArgumentError(f"this {self.name} is not a single number. Take the numbers from its value.")
        return value

    def to_frame(self, level: float = 0.95) -> Any:
        """Return a pandas frame with one row for each value: value, standard_error, and the interval from low to high.

        The column `clipped` is the noisy share of the values of its column that were clipped to bounds, if it was
        released. ``frame.attrs["about"]`` says what the numbers are about, ``frame.attrs["clipping"]`` what clipping
        did to them, ``frame.attrs["notes"]`` what the intervals do not include, and ``frame.attrs["cautions"]`` what
        the warnings said.

        Examples
        --------
        >>> import pais
        >>> people = pais.example_people(5000, random_state=0)
        >>> pais.mean(people, columns={"age": (18, 100), "premium": bool}).to_frame().columns.tolist()
        ['value', 'standard_error', 'low', 'high', 'clipped']
        """
        low, high = self._ends(level)
        columns = {
            "value": self._in_units(self.estimates),
            "standard_error": self.standard_errors,
            "low": self._in_units(low),
            "high": self._in_units(high),
        }
        if self.clipped:
            shares = {one.column: one.share for one in self.clipped}
            columns["clipped"] = np.tile([shares.get(label, np.nan) for label in self._columns], len(low))
        axis = combined(self.rows, self.columns) or Axis.of([self.subject or self.name])
        frame = side_by_side({name: numbers.reshape(-1, 1) for name, numbers in columns.items()}, axis)
        frame.attrs |= {"about": self.about, "clipping": self.clipping}
        frame.attrs |= {"notes": [*self.notes], "cautions": [one.text for one in self.cautions]}
        return frame

    def lines(self) -> list[tuple[str, str]]:
        """Label and text of each value with its 95 % interval, at most 24 of them; of a description, each column."""
        if self._is_description:
            (_, *names), *rows = self._description()
            texts = [
                (label, ", ".join(f"{name} {text}" for name, text in zip(names, values, strict=True) if text))
                for label, *values in rows
            ]
            return _first(texts, "columns")
        spans = self._spans()
        values = self._in_units(self.estimates)
        labels = [
            ", ".join(text for text in (row, column) if text)
            for row in ([""] if self.rows is None else self.rows.texts())
            for column in ([""] if self.columns is None else self.columns.texts())
        ]
        alone = self.subject or self.name
        if self.level not in (None, 0.5):
            alone = f"{alone}, {self.level:g}"
        text = self._text
        other = f", {self.condition}" if self.condition else ""
        remarks = np.where(self._is_lost, f", {_LOST}", np.where(self._is_clipped, f", {_CLIPPED}{other}", other))
        lines = [
            (label or alone, f"{text(value)}  (95 %: {span}{remark})")
            for label, value, span, remark in zip(labels, values.flat, spans, remarks.flat, strict=True)
        ]
        return _first(lines, "values")

    @property
    def _text(self) -> Callable[[Any], str]:
        return _whole if self.name in COUNTS else short

    def _spans(self) -> list[str]:
        """The 95 % intervals in words. An end that is infinite is left out."""
        low, high = self._ends(0.95)
        words = zip(low.flat, high.flat, self._in_units(low).flat, self._in_units(high).flat, strict=True)
        text, spans = self._text, []
        for start, end, least, most in words:
            if np.isinf(start) and np.isinf(end):
                spans.append("not known")
            elif np.isinf(end):
                spans.append(f"at least {text(least)}")
            else:
                spans.append(f"at most {text(most)}" if np.isinf(start) else f"{text(least)} to {text(most)}")
        return spans

    @property
    def _columns(self) -> list[str]:
        """The labels of the columns of the estimates."""
        return [self.subject] if self.columns is None else self.columns.texts()

    @property
    def _is_clipped(self) -> NDArray[np.bool_]:
        """Which intervals are of clipped values; of a covariance, those of both columns."""
        narrow = [one.column for one in self.clipped if one.narrows]
        clipped = np.tile(np.isin(self._columns, narrow), (len(self.estimates), 1))
        if self.name == "covariance" and self.rows is not None:
            clipped |= np.isin(self.rows.levels[-1], narrow)[:, None]
        return clipped

    @property
    def _is_lost(self) -> NDArray[np.bool_]:
        return np.zeros(self.estimates.shape, dtype=bool) if self.lost is None else self.lost

    @property
    def _is_description(self) -> bool:
        return self.name == "description" and self.rows is not None and self.columns is not None

    def _description(self) -> list[list[str]]:
        """A description as a table of texts: a row for each group and column, after one with names of statistics."""
        assert self.rows is not None
        assert self.columns is not None
        *groups, names = self.rows.levels
        n_names = len(dict.fromkeys(names))
        table = [["", *map(str, names[:n_names])]]
        values = self._in_units(self.estimates)
        for start in range(0, len(names), n_names):
            for place, column in enumerate(self.columns.texts()):
                cells = [
                    with_error(values[row, place], self.standard_errors[row, place])
                    for row in range(start, start + n_names)
                ]
                # The count is a result even if noise hides everything else.
                if self._is_lost[start, place]:
                    pairs = zip(names, cells, strict=False)
                    cells = [text if name == "count" else text and _LOST for name, text in pairs]
                table.append([", ".join([*(str(level[start]) for level in groups), column]), *cells])
        return table

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
                *(("caution", caution.text) for caution in self.cautions),
                ("about", self.about),
                *(("note", note) for note in self.notes),
                ("guarantee", self._guarantee),
                ("noise", self.noise),
                ("clipping", self.clipping),
            ),
            alarm="" if self.certificate.secure_randomness else "seeded, not private",
        )

    def __str__(self) -> str:
        table = "\n".join(aligned(self._description() if self._is_description else self.lines()))
        note = "\nvalue ± standard error" if self._is_description else ""
        alarm = "" if self.certificate.secure_randomness else "\nseeded, not private"
        lines = [*(f"caution: {one.text}" for one in self.cautions), self.about, *self.notes, self._guarantee]
        return "\n".join([f"{table}{note}", *lines]) + alarm

    def write_report(
        self,
        path: str | Path,
        *,
        title: str | None = None,
        data_name: str = "",
        owner: str = "",
        date: str | None = None,
    ) -> Path:
        """Write a self-contained HTML report about the statistic. It contains public values only.

        Parameters
        ----------
        path : path
            The file to write.
        title, data_name, owner : str, optional
            Heading of the page, name of the data, and who is responsible for it, as you want them to appear.
        date : str, optional
            Date of the report; None = today.
        """
        if self.plan is None:
            raise ArgumentError("this statistic has no plan. Write the report of a statistic as it was released.")
        low, high = self._ends(0.95)
        concerns = self._concerns
        results = StatisticResults(
            name=self.name,
            rows=()
            if self.rows is None
            else tuple(tuple(map(str, row)) for row in zip(*self.rows.levels, strict=True)),
            columns=() if self.columns is None else tuple(self.columns.texts()),
            subject=self.subject,
            values=self.estimates,
            lows=low,
            highs=high,
            is_date=self.is_date,
            about=self.about,
            is_share=self._is_share,
            noise_in_words=self.noise,
            clipping=self.clipping,
            notes=self.notes,
            clipped_to=self._clipped_to,
            caution=None if not concerns else concerns[0],
            more_cautions=tuple(concerns[1:]),
        )
        header = ReportHeader(title=title, data_name=data_name, owner=owner, date=today() if date is None else date)
        return write_report(
            path, Fit(value=results, certificate=self.certificate, plan=self.plan, survey=None), header=header
        )

    @property
    def _is_share(self) -> tuple[bool, ...]:
        """For each column, whether its values are shares of true or of a category."""
        if self.name != "mean" or self.plan is None or self.plan.schema is None:
            return ()
        columns = self.plan.schema.columns
        shares = {label for one in columns if isinstance(one, (Boolean, Categories)) for label in one.labels}
        shares |= {f"{one.name}={value}" for one in columns if isinstance(one, Names) for value in one.values}
        return tuple(name in shares for name in self._columns)

    @property
    def _clipped_to(self) -> str:
        """The stated bounds to which the values were clipped, in words; nothing if there are none."""
        stated = [one.bounds for one in self.clipped if not one.unseen]
        return "the stated bounds" if len(stated) > 1 else "".join(stated)

    @property
    def _concerns(self) -> list[str]:
        """What the page says first: that noise hides values, the cautions, and that values were clipped."""
        texts = [caution.text for caution in self.cautions]
        n, total = int(self._is_lost.sum()), self._is_lost.size
        if n > 0:
            which = "the value is" if total == 1 else f"{n} of {total} values {'is' if n == 1 else 'are'}"
            reason = "There are too few rows for this epsilon, or cells could not be read as stated."
            return [f"{which} {_LOST}. {reason}", *texts]
        clipped = [
            f"about {percent(one.share)} of the values of {one.column} are outside {one.bounds}"
            for one in self.clipped
            if one.is_large or one.narrows
        ]
        return [*texts, f"{listed(clipped)}. Intervals are for values clipped to the bounds."] if clipped else texts

    def explain(self) -> str:
        """Describe the statistic in words: its values, their errors, what clipping did, and the certificate."""
        return f"{self.name}\n\n{self}\n\n{self.noise} {self.clipping}\n\n{self.certificate.explain()}"


def _whole(count: float) -> str:
    """A number of rows or of people. Where a person is in several groups, its noise is no whole number."""
    return short(float(round(count)))


def _first(lines: list[tuple[str, str]], what: str) -> list[tuple[str, str]]:
    """The first lines and the last one, which may be that of "other"."""
    left = len(lines) - _MOST_LINES
    return [*lines[: _MOST_LINES - 1], ("…", f"{left} more {what}"), lines[-1]] if left > 0 else lines
