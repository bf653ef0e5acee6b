"""Ranges and periods: each cell is in the one group that a plain comparison gives, or in none."""

from __future__ import annotations

import bisect
import datetime
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

import pais
from pais import Schema
from pais.data.kinds import PERIODS, Groups

FIRST, LAST = datetime.date(2019, 12, 25), datetime.date(2022, 1, 9)

# What Python's own calendar says about a date, in the words of the labels.
WORDS: dict[str, Any] = {
    "days": lambda date: date.isoformat(),
    "weeks": lambda date: "{}-W{:02d}".format(*date.isocalendar()[:2]),
    "months": lambda date: f"{date:%Y-%m}",
    "quarters": lambda date: f"{date.year}-Q{(date.month + 2) // 3}",
    "years": lambda date: f"{date.year}",
}


def groups_of(stated: Groups, cells: pa.Array) -> list[str | None]:
    """The label of each cell, or None. Fails if a cell has two."""
    schema = Schema.of({"c": stated})
    coordinates = np.array(schema.encode_column("c", cells))
    assert set(np.unique(coordinates)) <= {0.0, math.sqrt(2.0)}
    marks = coordinates > 0.0
    assert marks.sum(axis=0).max(initial=0) <= 1
    labels = [label.removeprefix("c=") for label in schema.labels]
    return [labels[mark.argmax()] if mark.any() else None for mark in marks.T]


def by_bisection(edges: list[float], cell: float) -> int | None:
    if math.isnan(cell) or not edges[0] <= cell <= edges[-1]:
        return None
    return len(edges) - 2 if cell == edges[-1] else bisect.bisect_right(edges, cell) - 1


numbers = st.floats(-1e6, 1e6) | st.integers(-5, 5).map(float)


@settings(max_examples=200, deadline=None)
@given(st.lists(numbers, min_size=2, max_size=8, unique=True), st.lists(numbers | st.just(math.nan), max_size=20))
def test_a_number_is_in_the_range_that_a_bisection_finds(edges: list[float], cells: list[float]) -> None:
    edges = sorted(edges)
    if 0.0 in edges:
        edges[edges.index(0.0)] = 0.0
    cells = [*cells, *edges, *np.nextafter(edges, -np.inf), *np.nextafter(edges, np.inf)]
    stated = pais.ranges(edges)
    expected = [by_bisection(edges, cell) for cell in cells]
    labels = stated.column.values
    assert len(set(labels)) == len(edges) - 1
    for column in (pa.array(cells), pa.array([repr(float(cell)) for cell in cells])):
        found = groups_of(stated, column)
        assert found == [None if place is None else labels[place] for place in expected]


def test_open_ends_hold_every_number() -> None:
    cells = pa.array([-1e308, -1.0, 0.0, 17.9, 18.0, 1e308, None, math.nan, math.inf])
    labels = ["below 0", "below 0", "0 to 18", "0 to 18", "18 or more", "18 or more", None, None, None]
    assert groups_of(pais.ranges(-math.inf, 0, 18, math.inf), cells) == labels
    assert groups_of(pais.ranges(-math.inf, 0), cells)[:4] == ["0 or less", "0 or less", "0 or less", None]
    assert groups_of(pais.ranges(-math.inf, math.inf), cells)[:6] == ["any number"] * 6


@pytest.mark.parametrize("period", PERIODS)
def test_a_date_is_in_the_period_that_a_calendar_says(period: str) -> None:
    dates = [FIRST + datetime.timedelta(days) for days in range(-400, (LAST - FIRST).days + 400)]
    words = [WORDS[period](date) for date in dates]
    whole = set(words[400:-399])
    expected = [word if word in whole else None for word in words]
    stated = PERIODS[period](FIRST, LAST)
    assert list(stated.column.values) == list(dict.fromkeys(words[400:-399]))
    late = [datetime.datetime.combine(date, datetime.time(23, 59, 59, 999_999)) for date in dates]
    zone = datetime.timezone(datetime.timedelta(hours=-5))
    for cells in (
        pa.array(dates),
        pa.array([date.isoformat() for date in dates]),
        pa.array(late),
        pa.array(late, pa.timestamp("us", tz="UTC")),
        # Midnight in UTC, written in another zone.
        pa.array([f"{date - datetime.timedelta(1)}T19:00:00-05:00" for date in dates]),
        pa.array([datetime.datetime.combine(date, datetime.time(1), zone) for date in dates]),
    ):
        assert groups_of(stated, cells) == expected
    assert groups_of(stated, pa.array([None, "soon", "2020-02-30"])) == [None] * 3


def test_weeks_agree_with_the_calendar_over_centuries() -> None:
    for year in range(1890, 2110):
        stated = pais.weeks(f"{year}-12-20", f"{year + 1}-01-12")
        dates = [datetime.date(year, 12, 20) + datetime.timedelta(days) for days in range(24)]
        assert groups_of(stated, pa.array(dates)) == [WORDS["weeks"](date) for date in dates]


@pytest.mark.parametrize(
    "by", [{"x": pais.ranges(0, 3, 5, 9)}, {"d": pais.months(FIRST, LAST)}, {"x": pais.ranges(0, 9), "d": bool}]
)
def test_a_row_changes_one_total_by_one(by: dict[str, Any]) -> None:
    rng = np.random.default_rng(5)
    times = np.datetime64("2019-10-01") + rng.integers(0, 1000, 40).astype("timedelta64[D]")
    days: Any = pa.array(times) if by.get("d") is not bool else pa.array(rng.random(40) < 0.5)
    table = pa.table({"x": rng.integers(-2, 12, 40).astype(float), "d": days})
    for row in range(12):
        without = pa.concat_tables([table.slice(0, row), table.slice(row + 1)])
        # The same seed draws the same noise.
        results = [pais.count(rows, by=by, random_state=1).released for rows in (table, without)]
        change = results[0] - results[1]
        assert np.abs(change).sum() in (0.0, 1.0)
