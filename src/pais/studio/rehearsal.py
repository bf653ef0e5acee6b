"""What a release would look like, on a made-up table that follows from what the user states. It reads no rows."""

from __future__ import annotations

import math
import threading
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from pais.data.kinds import Bounds, Categories, Column, Dates, Intervals, Names, Scale
from pais.data.schema import Schema
from pais.data.units import people_word
from pais.show.text import date_text, percent, value_text
from pais.studio.question import MODELS, Question

#: The made-up table has at most this many rows, so that a rehearsal takes well under a second.
MOST_ROWS = 60_000

# Epsilon at which noise is far below what the page shows: the answer of the made-up table itself.
_EXACT = 1e4

# Made-up people belong to this many groups, which differ by this share of the bounds and spread by that one, wider or
# narrower in each column by up to this factor. Bounds to be found are those of a skewed column. Categories have shares
# as 1, 1/2, 1/3 and so on, more or less by this part in each group. The gamma law of this shape makes rows each vary.
# Set on 84 questions about three tables, where errors differ from those of a release by a factor of 1.5 in the mean.
_GROUPS, _APART, _SPREAD, _WIDTH, _SKEW, _NAMES, _MIX, _SHAPE = 5, 0.2, 0.05, 2.0, 0.25, "ABCDEFGH", 0.8, 3.0

# What stands for the scale of a date, which is a number of days.
_DATE = -1.0

# Lines that the page shows.
_MOST_LINES = 16


@dataclass(frozen=True)
class Line:
    """A value of the rehearsal: the made-up answer, what a release might say, and its 95 % interval, as shares."""

    label: str
    exact: str
    text: str
    error: str
    share: float
    at: tuple[float, float, float, float]


@dataclass(frozen=True)
class Prediction:
    """The predicted error of a question at its epsilon."""

    lines: tuple[Line, ...]
    more: int
    verdict: str
    delta: float
    n_people: int
    smaller: float
    who: str


def made_up(question: Question) -> tuple[pa.Table, int]:
    """A table of people who do not exist, and their number, which may be smaller than stated."""
    rng = np.random.default_rng(0)
    each = min(question.rows_each, MOST_ROWS) if question.unit else 1
    people = min(question.n_people, MOST_ROWS // each)
    rows = 1 + rng.poisson((each - 1) * rng.gamma(_SHAPE, 1.0 / _SHAPE, size=people))
    group = np.repeat(rng.choice(_GROUPS, size=people, p=[0.3, 0.25, 0.2, 0.15, 0.1]), rows)
    facts = {**question.arguments.get("columns", {}), **question.arguments.get("by", {})}
    schema = Schema.of(facts) if facts else None
    columns = {column.name: _cells(column, group, rng) for column in (schema.columns if schema else ())}
    # A count of rows as such needs a column beside the unit.
    columns = columns or {"row": pa.array(np.ones(group.size))}
    if question.unit:
        columns[question.unit] = pa.array(np.repeat(np.arange(people), rows))
    return pa.table(columns), people


def _cells(column: Column, group: Any, rng: np.random.Generator) -> pa.Array:
    """Cells that fit what is stated about a column, and depend on the group of a person."""
    centers = rng.permutation(np.linspace(-1.0, 1.0, _GROUPS)) * _APART
    width = _WIDTH ** rng.uniform(-1.0, 1.0)
    place = np.clip(0.45 + width * (centers[group] + _SPREAD * rng.normal(size=group.size)), 0.0, 1.0)
    if isinstance(column, Intervals):
        edges = np.asarray(column.edges)
        low, high = edges[0], edges[-1]
        numbers = low + np.minimum(place, 0.999) * (high - low)
        return _dates(numbers) if hasattr(column, "period") else pa.array(numbers)
    if isinstance(column, (Names, Categories)):
        values = column.values if isinstance(column, Categories) else [f"name {letter}" for letter in _NAMES]
        shares = rng.uniform(1.0 - _MIX, 1.0 + _MIX, (_GROUPS, len(values))) / np.arange(1, len(values) + 1)
        ends = (shares / shares.sum(axis=1, keepdims=True)).cumsum(axis=1)[:, :-1]
        return pa.array(np.asarray(list(map(str, values)))[(rng.random((group.size, 1)) > ends[group]).sum(axis=1)])
    if isinstance(column, Dates):
        return _dates(column.low + place * (column.high - column.low))
    if isinstance(column, Bounds):
        return pa.array(column.low + place * (column.high - column.low))
    if isinstance(column, Scale):
        return pa.array(place * column.scale)
    # A truth value, or a column whose bounds are to be found: about 100.
    skewed = 100.0 * np.exp(_SKEW / _SPREAD / width * (place - 0.45))
    return pa.array(rng.random(group.size) < place) if column.kind == "boolean" else pa.array(skewed)


def _dates(days: Any) -> pa.Array:
    return pa.array(days.astype("int64").astype("datetime64[D]"))


class Rehearsals:
    """Rehearses questions, one at a time. A question that a newer one has overtaken is not answered."""

    def __init__(self) -> None:
        self._lock, self._latest = threading.Lock(), ""
        # Answers that were given, so that moving back and forth is immediate.
        self._kept = dict[str, Prediction]()
        self._exact = dict[str, dict[str, float]]()

    @staticmethod
    def _key(question: Question) -> str:
        return f"{question.code}\n{question.n_people} {question.rows_each}"

    def kept(self, question: Question) -> Prediction | None:
        """The predicted error, if it is known already."""
        return self._kept.get(self._key(question))

    def predict(self, question: Question) -> Prediction | None:
        """The predicted error; None if another question was asked in the meantime. Raises what the release would."""
        self._latest = key = self._key(question)
        with self._lock:
            if key not in self._kept:
                if self._latest != key:
                    return None
                self._kept[key] = self._rehearsed(question)
            return self._kept[key]

    def _rehearsed(self, question: Question) -> Prediction:
        table, people = made_up(question)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = question.call(table, random_state=0)
            values = _values(question, result)
            rest = {**question.arguments, "epsilon": 0}
            key = f"{question.function} {rest} {people} {question.rows_each}"
            if key not in self._exact and question.kind != "kmeans":
                exact = question.call(table, random_state=0, epsilon=_EXACT)
                self._exact[key] = _exact_values(question, exact, values)
            known = self._exact.get(key, {})
        # A list has no deviation, and so no line for it.
        values = [one for one in values if math.isfinite(one[1])]
        lines = [_line(label, value, error, known.get(label), scale) for label, value, error, scale in values]
        certificate = result.certificate_ if question.is_model else result.certificate
        who = people_word(question.unit)[1] if question.unit else "rows"
        delta = certificate.delta if not question.is_model else max(certificate.delta, 1e-6)
        shown = tuple(lines[:_MOST_LINES])
        verdict = _verdict(question, result, lines)
        return Prediction(shown, len(lines) - len(shown), verdict, delta, people, question.n_people / people, who)


def _values(question: Question, result: Any) -> list[tuple[str, float, float, float]]:
    """Label, value, standard error and the scale of the drawing of each released number."""
    if question.kind == "kmeans":
        frame = result.centers_frame()
        names = [
            name for name in frame.columns if f"{name}_se" in frame.columns and name not in ("noisy_count", "share")
        ]
        found = []
        for segment, row in frame.iterrows():
            for name in ("share", *names):
                is_date = hasattr(row[name], "to_datetime64")
                value = row[name].to_datetime64().astype("datetime64[D]").astype(int) if is_date else row[name]
                scale = _DATE if is_date else float(np.abs(frame[name]).max())
                found.append((f"segment {segment}: {name}", float(value), float(row[f"{name}_se"]), scale))
        return found
    if question.is_model:
        frame = getattr(result, MODELS[question.kind][3])()
        value = "coefficient" if question.kind != "pca" else "explained_variance"
        prefix = "component " if question.kind == "pca" else ""
        return [
            (f"{prefix}{_label(label)}", float(row[value]), float(row["standard_error"]), math.nan)
            for label, row in frame.iterrows()
        ]
    frame = result.to_frame()
    numbers, errors = np.ravel(result.estimates), np.ravel(result.standard_errors)
    dates = np.zeros(numbers.size, bool) if result.is_date is None else np.ravel(result.is_date)
    return [
        (_label(label), float(number), float(error), _DATE if is_date else 0.0)
        for label, number, error, is_date in zip(frame.index, numbers, errors, dates, strict=True)
    ]


def _exact_values(question: Question, result: Any, values: list[tuple[str, float, float, float]]) -> dict[str, float]:
    """The values of a rehearsal without noise. Its errors, which take most of the time, are not needed."""
    if not question.is_model and np.size(result.estimates) == len(values):
        return dict(zip((label for label, *_ in values), map(float, np.ravel(result.estimates)), strict=True))
    return {label: value for label, value, *_ in _values(question, result)}


def _label(label: Any) -> str:
    return ", ".join(map(str, label)) if isinstance(label, tuple) else str(label)


def _line(label: str, value: float, error: float, exact: float | None, scale: float) -> Line:
    """A value as text, and where a drawing from 0 to 1 has the exact value, the value and its interval."""
    half = 1.96 * error
    truth = value if exact is None else exact
    reach = 1.3 * max(abs(truth), abs(scale) if math.isfinite(scale) else 0.0, 1e-300)
    low = 0.0 if truth >= 0 else -reach

    def place(number: float) -> float:
        share = (number - low) / reach
        return min(max(share, 0.0), 1.0) if math.isfinite(share) else 0.0

    share = half / abs(truth) if truth and math.isfinite(half) else math.inf

    def text(number: float) -> str:
        if not math.isfinite(number):
            return "not known"
        return date_text(number) if scale == _DATE else value_text(number, half if half > 0 else abs(number) * 1e-3)

    return Line(
        label,
        "" if exact is None else text(exact),
        text(value),
        f"±{value_text(half, half)}{' days' * (scale == _DATE)}" if half > 0 and math.isfinite(half) else "not known",
        share,
        (place(truth), place(value), place(value - half), place(value + half)),
    )


def _verdict(question: Question, result: Any, lines: list[Line]) -> str:
    if question.is_model:
        # The second line of the explanation is the verdict of the report.
        return str(result.explain().splitlines()[1])
    clear = sum(line.share < 0.5 for line in lines)
    shares = sorted(line.share for line in lines)
    middle = shares[len(shares) // 2] if shares else math.inf
    size = f"; half of them are within {percent(float(f'{middle:.2g}'))}" if middle < 10 else ""
    number = "All values are" if clear == len(lines) else f"{clear} of {len(lines)} values are"
    return f"{number} readable above the noise{size}."
