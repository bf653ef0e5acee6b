"""Groups that nobody listed: how rare a name may be that is shown, and the coverage of intervals of those that are."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import pais

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.statistical]

PRICE: dict[str, Any] = {"by": "ward", "epsilon": 1.0, "delta": 1e-6}
AGE = {"columns": {"age": (0, 100)}}

#: Each statistic of wards, of rows and of people with one row each, and its true value.
CALLS: dict[str, tuple[Any, dict[str, Any], str]] = {
    "count": (pais.count, {}, "size"),
    "mean": (pais.mean, AGE, "mean"),
    "sum": (pais.sum, AGE, "sum"),
    "people, one ward each": (pais.count_people, {"unit": "person", "max_groups_per_unit": 1}, "size"),
    "people": (pais.count_people, {"unit": "person"}, "size"),
    "rows of people": (pais.count, {"unit": "person"}, "size"),
    "mean of people": (pais.mean, {**AGE, "unit": "person"}, "mean"),
}


def table(sizes: list[int]) -> pa.Table:
    wards = np.repeat([f"w{number}" for number in range(len(sizes))], sizes)
    ages = np.random.default_rng(1).uniform(0.0, 100.0, wards.size)
    return pa.table({"ward": wards, "age": ages, "person": np.arange(wards.size)})


def line(what: str) -> int:
    """How many rows or people a name needs, by the notes of the result."""
    function, stated, _ = CALLS[what]
    notes = " ".join(function(table([3000] * 3), random_state=0, **PRICE, **stated).notes)
    found = re.search(r"fewer than about ([\d,]+) (?:rows|people) have", notes)
    assert found is not None
    return int(found[1].replace(",", ""))


@pytest.mark.parametrize("what", CALLS)
def test_the_notes_say_how_small_a_group_is_probably_not_shown(what: str) -> None:
    (function, stated, _), number = CALLS[what], line(what)
    small, near, large = (int(number * share) for share in (0.6, 1.0, 1.5))
    rows = table([3000] * 3 + [small] * 40 + [near] * 40 + [large] * 40)
    shown = np.zeros(3)
    for seed in range(4):
        names = set(function(rows, random_state=seed, **PRICE, **stated).value.index)
        shown += [sum(f"w{3 + 40 * place + i}" in names for i in range(40)) / 160 for place in range(3)]
    # Half of the names with as many rows are shown; counts are whole, so that it can be more.
    assert shown[0] < 0.2
    assert 0.35 < shown[1] < 0.9
    assert shown[2] > 0.9


@pytest.mark.parametrize("what", CALLS)
def test_intervals_of_names_near_the_line_and_of_other_hold(what: str) -> None:
    (function, stated, name), number = CALLS[what], line(what)
    rows = table([3000, 700] + [int(number * share) for share in (0.5, 0.8, 0.9, 1.0, 1.1, 1.2, 1.4, 1.7, 2.0)] * 12)
    ages = pd.DataFrame(rows.to_pandas()).groupby("ward")["age"]
    held, other = [], []
    for seed in range(60):
        result = function(rows, random_state=seed, **PRICE, **stated)
        (low, high), shown = result.interval(), [ward for ward in result.value.index if ward != "other"]
        true = ages.agg(name)[shown]
        held.append(((low[shown] <= true) & (true <= high[shown])).mean())
        rest = rows.to_pandas().query("ward not in @shown")["age"].agg(name)
        other.append(low["other"] <= rest <= high["other"])
    assert np.mean(held) >= 0.93
    # Of 60 intervals of 95 %, fewer than 52 hold with a probability below 1 %.
    assert np.mean(other) >= 52 / 60
