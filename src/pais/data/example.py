"""A made-up table about people, for examples, tests and benchmarks. No row is about a real person."""

from __future__ import annotations

from datetime import date
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pais._base import validate

#: Regions that an analyst knows of. A few rows have a region that is not in this list.
REGIONS = ("north", "south", "east", "west", "centre")

_ELSEWHERE = "abroad"

#: Public bounds that an analyst would state without looking at the rows.
BOUNDS: dict[str, tuple[float, float] | tuple[date, date]] = {
    "age": (18.0, 100.0),
    "income": (0.0, 250_000.0),
    "balance": (0.0, 100_000.0),
    "visits": (0.0, 50.0),
    "joined": (date(2010, 1, 1), date(2025, 12, 31)),
}

#: Share of the cells that are missing in each column but the id.
MISSING = 0.03

_UNKNOWN_REGION = 0.01


class _Segment(NamedTuple):
    """People of one kind: their share, typical values, and probabilities of the regions in the order of `REGIONS`."""

    share: float
    age: float
    income: float
    balance: float
    visits: float
    premium: float
    years: float
    regions: tuple[float, ...]


_SEGMENTS = (
    _Segment(0.22, 24, 19_000, 900, 14, 0.05, 2, (0.1, 0.1, 0.6, 0.1, 0.1)),
    _Segment(0.20, 37, 52_000, 6_000, 6, 0.1, 6, (0.7, 0.1, 0.1, 0.05, 0.05)),
    _Segment(0.18, 48, 88_000, 12_000, 9, 0.9, 9, (0.1, 0.6, 0.1, 0.1, 0.1)),
    _Segment(0.16, 71, 31_000, 20_000, 3, 0.15, 13, (0.1, 0.1, 0.1, 0.6, 0.1)),
    _Segment(0.14, 33, 64_000, 4_000, 26, 0.8, 3, (0.1, 0.1, 0.1, 0.1, 0.6)),
    _Segment(0.10, 58, 140_000, 32_000, 4, 0.95, 11, (0.5, 0.3, 0.1, 0.0, 0.1)),
)


def example_people(n_people: int = 10_000, rows_per_person: float = 6.0, random_state: int = 0) -> pa.Table:
    """Make a table about customers who do not exist: several rows per person, six kinds of people, missing cells.

    Parameters
    ----------
    n_people : int
        Number of people. Some have one row and some have dozens: the numbers are nearly geometric.
    rows_per_person : float
        Average number of rows per person, at least 1. The table has ``round(n_people * rows_per_person)`` rows.
    random_state : int
        Seed. The same seed gives the same table.

    Returns
    -------
    pyarrow.Table
        The columns customer_id, age, income, balance, visits, region, premium and joined, in random order of the rows.
        Use ``.to_pandas()`` for a pandas frame. `pais.data.example.BOUNDS` and `REGIONS` hold the facts about the
        columns that an analyst would state.

    Examples
    --------
    >>> import pais
    >>> table = pais.example_people(100)
    >>> table.num_rows, table.column_names[:3]
    (600, ['customer_id', 'age', 'income'])
    """
    people = validate.count("n_people", n_people)
    average = validate.number("rows_per_person", rows_per_person, rule="a number of at least 1", low=1.0, high=1e6)
    rng = np.random.default_rng(random_state)
    kind = rng.choice(len(_SEGMENTS), size=people, p=[segment.share for segment in _SEGMENTS])
    owner = rng.permutation(np.repeat(np.arange(people), _rows_of_people(people, round(people * average), rng)))
    columns = _cells(kind, owner, rng)
    ids = pa.array([f"C{number:07d}" for number in rng.permutation(10 * people)[:people]])
    table = {"customer_id": ids.take(pa.array(owner))}
    for name, values in columns.items():
        table[name] = pa.array(values, mask=rng.random(owner.size) < MISSING)
    return pa.table(table)


def _rows_of_people(people: int, rows: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Number of rows of each person, at least 1: geometric numbers, given their sum."""
    cuts = np.sort(rng.choice(rows - 1, size=people - 1, replace=False)) + 1
    return np.diff(cuts, prepend=0, append=rows)


def _cells(
    kind: NDArray[np.int64], owner: NDArray[np.int64], rng: np.random.Generator
) -> dict[str, NDArray[np.generic]]:
    """All columns but the id. A person keeps region, premium and the day of joining; the others change by row."""

    def of(name: str) -> NDArray[np.float64]:
        return np.array([getattr(segment, name) for segment in _SEGMENTS], dtype=np.float64)[kind]

    people, rows = kind.size, owner.size
    age = np.clip(of("age") + 6.0 * rng.standard_normal(people), 18.0, 97.0)
    income = of("income") * np.exp(0.35 * rng.standard_normal(people))
    balance = of("balance") * np.exp(0.7 * rng.standard_normal(people))
    premium = rng.random(people) < of("premium")
    years = np.clip(of("years") + 1.5 * rng.standard_normal(people), 0.1, 15.5)
    likely = np.array([segment.regions for segment in _SEGMENTS])[kind].cumsum(axis=1)
    region = np.minimum((rng.random(people)[:, None] > likely).sum(axis=1), len(REGIONS) - 1)
    region[rng.random(people) < _UNKNOWN_REGION] = len(REGIONS)
    last = np.datetime64("2025-12-31")
    return {
        "age": np.floor(age[owner] + rng.random(rows) * 2.0).astype(np.int64),
        "income": np.round(income[owner] * np.exp(0.08 * rng.standard_normal(rows)), 2),
        "balance": np.round(balance[owner] * np.exp(0.8 * rng.standard_normal(rows)), 2),
        "visits": rng.poisson(of("visits")[owner] * rng.gamma(4.0, 0.25, rows)),
        "region": np.array([*REGIONS, _ELSEWHERE], dtype=object)[region[owner]],
        "premium": premium[owner],
        "joined": (last - np.round(365.25 * years).astype("timedelta64[D]"))[owner],
    }
