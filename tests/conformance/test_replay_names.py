"""Replay of releases by names that nobody listed: the same names are published with and without a record.

A name that the record has alone is paid for by a part of delta and is held back in both runs. All others move by no
more than was paid.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import pais
from pais._base.randomness import bit_source
from pais.auditing.replay import ReplayReport, replay
from pais.data.kinds import Names
from pais.data.schema import Schema
from pais.data.sources import cells
from pais.mechanisms.names import CountLine, NameSelection
from pais.planning import names as stage
from pais.planning.facts import SurveyNoise

N_PEOPLE, DELTA = 150, 1e-3

#: The wards of the record: those of others, a new one, many new ones, and none that can be a name.
RECORDS = {
    "frequent": ["w0"] * 3,
    "rare": ["w7"],
    "alone": ["only here"],
    "many alone": [f"only here {number}" for number in range(40)],
    "both": ["w0", "w1", "w2", "w9", *(f"only here {number}" for number in range(9))],
    "blank": [None, "", "\x07", "x" * 5000],
    "other": ["other", "w0"],
}


def table(record: list[str | None]) -> pa.Table:
    """150 people with one to four wards each, and the record at the end."""
    rng = np.random.default_rng(5)
    people = np.repeat(np.arange(N_PEOPLE), rng.integers(1, 5, N_PEOPLE))
    wards = [f"w{min(int(place), 9)}" for place in rng.geometric(0.35, people.size) - 1]
    ids = [*(f"p{person}" for person in people), *("the record" for _ in record)]
    return pa.table(
        {
            "person": pa.array(ids, pa.string()),
            "ward": pa.array([*wards, *record], pa.string()),
            "sex": pa.array(["f" if place % 2 else "m" for place in range(len(ids))]),
            "age": pa.array([*rng.uniform(20.0, 90.0, people.size).tolist(), *(90.0 for _ in record)]),
        }
    )


AGE = {"age": (0.0, 90.0)}
CALLS: dict[str, Callable[..., Any]] = {
    "count": lambda rows, **more: pais.count(rows, by="ward", **more),
    "mean": lambda rows, **more: pais.mean(rows, AGE, by="ward", **more),
    "mean, auto": lambda rows, **more: pais.mean(rows, {"age": "auto"}, by="ward", **more),
    "two": lambda rows, **more: pais.sum(rows, AGE, by={"ward": pais.names(), "sex": pais.names()}, **more),
    "count, mixed": lambda rows, **more: pais.count(rows, by={"ward": pais.names(), "sex": ["f", "m"]}, **more),
    "describe": lambda rows, **more: pais.describe(rows, AGE, by="ward", **more),
}


def replayed(call: Callable[..., Any], record: list[str | None], **more: Any) -> ReplayReport:
    def run(rows: Any, seed: Any) -> Any:
        return call(rows, epsilon=2.0, delta=DELTA, random_state=seed, **more)

    return replay(run, table(record), table([]), seeds=(0,), pushes=(0.0, 3.0, -3.0))


#: Each call and each record is among the quick tests.
PAIRS = [
    pytest.param(what, record, marks=() if place % len(RECORDS) == number % len(CALLS) else pytest.mark.slow)
    for place, what in enumerate(CALLS)
    for number, record in enumerate(RECORDS)
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("what", "record"), PAIRS)
def test_a_person_moves_published_names_by_no_more_than_was_paid(what: str, record: str) -> None:
    report = replayed(CALLS[what], RECORDS[record], unit="person")
    assert not report.violates, str(report)
    assert 0.0 <= report.used <= 1.0 + 1e-9


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("record", ["frequent", "alone", "blank"])
@pytest.mark.parametrize("what", ["count", "mean, auto"])
def test_a_row_moves_published_names_by_no_more_than_was_paid(what: str, record: str) -> None:
    report = replayed(CALLS[what], RECORDS[record][:1])
    assert not report.violates, str(report)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("record", ["alone", "both"])
def test_numbers_of_people_by_unlisted_groups_are_within_their_price(record: str) -> None:
    def call(rows: Any, **more: Any) -> Any:
        return pais.count_people(rows, by="ward", **more)

    report = replayed(call, RECORDS[record], unit="person")
    assert not report.violates, str(report)


@pytest.mark.filterwarnings("ignore")
def test_a_person_uses_nearly_all_of_the_price() -> None:
    report = replayed(CALLS["count"], RECORDS["frequent"][:1])
    assert report.used >= 0.9, str(report)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("record", RECORDS)
@pytest.mark.parametrize("most", [1, 3])
def test_counts_of_people_by_name_stay_within_the_price(record: str, most: int) -> None:
    def people(rows: Any, **more: Any) -> Any:
        return pais.count_people(rows, by="ward", max_groups_per_unit=most, **more)

    report = replayed(people, RECORDS[record], unit="person")
    assert not report.violates, str(report)
    assert {move.chance for move in report.moves} == {DELTA}
    if record == "frequent":
        assert report.used >= 0.95 / most


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("record", RECORDS)
def test_means_of_people_by_name_stay_within_the_price(record: str) -> None:
    report = replayed(CALLS["mean"], RECORDS[record], unit="person", max_groups_per_unit=1)
    assert not report.violates, str(report)
    assert {move.chance for move in report.moves} == {DELTA}
    if record == "frequent":
        assert report.used >= 0.95


@pytest.mark.filterwarnings("ignore")
def test_names_with_totals_use_all_of_the_price() -> None:
    """Of a row with a name of its own all of delta, and of others nearly all of epsilon, and no more."""
    for what in ("count", "mean"):
        alone, frequent = (replayed(CALLS[what], RECORDS[record][:1]) for record in ("alone", "frequent"))
        assert {move.chance for move in (*alone.moves, *frequent.moves)} == {DELTA}
        assert max(move.loss for move in alone.moves) <= 2.0
        assert 1.9 < max(move.loss for move in frequent.moves) <= 2.0


def selected(columns: list[str], record: list[str | None], **stated: Any) -> list[Any]:
    """The moves of a stage alone, with and without the record."""
    noise = SurveyNoise(shift=0.5)

    def run(rows: Any, seed: Any) -> Any:
        schema = Schema(tuple(Names(name=column) for column in columns))
        engine = cells(rows, columns=schema, unit="person", max_rows_per_unit=None, missing="drop", by_cell=True)
        asked = stage.NameStage(columns=schema.columns, delta=DELTA, **stated)  # type: ignore[arg-type]
        bits = bit_source(seed)
        return str(asked.release(asked.read(engine, noise, bits), engine, noise, bits)[1])

    report = replay(run, table(record), table([]), epsilon=5.0, delta=0.5, seeds=(0,), pushes=(0.0, -3.0))
    assert not report.differences, str(report)
    return list(report.moves)


def test_a_person_with_names_alone_uses_the_price_of_the_stage_and_no_more() -> None:
    for record in ("many alone", "both"):
        shifts = [move.shift for move in selected(["ward"], RECORDS[record], max_names=8)]
        assert 0.49 < max(shifts) <= 0.5, record


def test_counts_that_find_names_share_the_price_with_numbers_of_names() -> None:
    """Numbers of names have a tenth of the share of epsilon, and noisy numbers of people the rest and all of delta."""

    def run(rows: Any, seed: Any) -> Any:
        schema = Schema((Names(name="ward"),))
        engine = cells(rows, columns=schema, unit="person", max_rows_per_unit=None, missing="drop", by_cell=True)
        asked, noise, bits = (
            stage.NameStage(columns=schema.unlisted, delta=DELTA),
            SurveyNoise(epsilon=0.5),
            bit_source(seed),
        )
        found = asked.release(asked.read(engine, noise, bits), engine, noise, bits)[1]
        assert isinstance(found["ward"].selection, CountLine)
        return str(found)

    rng = np.random.default_rng(2)
    others = pa.table(
        {"person": [f"p{number}" for number in range(400)], "ward": [f"w{n}" for n in rng.integers(0, 3, 400)]}
    )
    for record in (["w0"], ["w0", "w1", "w2"], ["only here", "w1"], [f"only here {number}" for number in range(9)]):
        mine = pa.table({"person": ["the record"] * len(record), "ward": record})
        both = pa.concat_tables([others, mine])
        report = replay(run, both, others, epsilon=0.5, delta=DELTA, seeds=(0,), pushes=(0.0, 3.0, -3.0))
        assert not report.violates, str(report)
        assert max(move.loss for move in report.moves) <= 0.5 * (1.0 + 1e-9)
        # Pushed numbers of names are so large that rounds find the names.
        assert {move.chance for move in report.moves} <= {DELTA, 0.5 * DELTA}
        if record == ["w0"]:
            assert 0.49 < max(move.loss for move in report.moves) <= 0.5


def test_two_columns_share_the_price_of_names() -> None:
    moves = selected(["ward", "sex"], RECORDS["both"], max_names=8)
    assert max(move.shift for move in moves) <= 0.5
    assert all(move.chance == pytest.approx(DELTA, rel=1e-12) for move in moves)


def test_the_stage_draws_noise_for_numbers_of_names_and_for_each_round() -> None:
    assert max(move.shift for move in selected(["ward"], RECORDS["both"])) <= 0.5
    report = replayed(CALLS["count"], RECORDS["both"], unit="person")
    stated = replayed(CALLS["count"], RECORDS["rare"])
    # Numbers of names, three rounds, norms of people and counts; one round and counts.
    assert (report.draws, stated.draws) == (6, 2)


def test_names_that_are_cut_away_get_no_noise() -> None:
    moves = selected(["ward"], RECORDS["many alone"], max_names=2)
    assert max(move.shift for move in moves) <= 0.5


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("n_columns", [0, 20], ids=["pure", "Gaussian"])
@pytest.mark.parametrize("by", ["ward", ["ward", "sex"]])
def test_the_chance_of_names_alone_is_paid_for(by: Any, n_columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Delta of the noise and of the names of one person alone, in all columns, add up to what is certified."""
    chances: dict[str, list[float]] = {"NameSelection": [], "CountLine": []}

    def spied(law: Any) -> Any:
        class Spied(law):  # type: ignore[misc]  # a class that is passed
            def __init__(self, **stated: Any) -> None:
                chances[law.__name__].append(stated["delta"])
                super().__init__(**stated)

        return Spied

    monkeypatch.setattr("pais.planning.names.NameSelection", spied(NameSelection))
    monkeypatch.setattr("pais.planning.names.CountLine", spied(CountLine))
    rows, columns = table([]), {f"age {number}": AGE["age"] for number in range(n_columns)}
    for name in columns:
        rows = rows.append_column(name, rows["age"])
    # Many columns have Gaussian noise, which takes what names leave of delta.
    result = pais.count(rows, columns or None, by=by, epsilon=1.0, delta=1e-5, random_state=0)
    used = chances["NameSelection" if n_columns else "CountLine"]
    assert len(used) == len([by] if isinstance(by, str) else by)
    assert result.plan is not None
    assert (result.plan.delta > 0.0) == (n_columns > 0)
    assert result.plan.delta + math.fsum(used) <= result.certificate.delta == 1e-5


@pytest.mark.filterwarnings("ignore")
def test_a_list_that_is_read_off_the_table_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def all_names(self: Any, people: Any, names: Any, bits: Any, **_: Any) -> Any:
        alive = np.unique(names)
        return alive, np.ones(alive.size)

    monkeypatch.setattr(stage.NameSelection, "scored", all_names)
    with pytest.raises(AssertionError, match="differ"):
        selected(["ward"], RECORDS["alone"], max_names=8)
    assert replayed(CALLS["two"], RECORDS["alone"]).violates is False
    monkeypatch.setattr(stage.CountLine, "line", -math.inf)
    assert replayed(CALLS["two"], RECORDS["alone"]).violates
    assert replayed(CALLS["count"], RECORDS["alone"]).violates


def test_names_that_are_small_numbers_are_no_false_alarm() -> None:
    """Keys of neighbouring numbers and of the groups of a name do not meet, so that totals are those of their name."""
    rows = table([])
    wards = pa.array([int(str(ward)[1:]) for ward in rows["ward"]], pa.int64())
    numbered = rows.set_column(1, "ward", wards)
    more = pa.concat_tables([numbered, pa.table([["new"], [1], ["m"], [90.0]], schema=numbered.schema)])

    def call(one: pa.Table, seed: int) -> Any:
        return pais.mean(
            one, AGE, by={"ward": pais.names(), "sex": ["f", "m"]}, epsilon=2.0, delta=DELTA, random_state=seed
        )

    report = replay(call, more, numbered, seeds=(0, 1))
    assert not report.violates, str(report)
