"""TOTALS: how far a person moves totals and histograms of people, in whole steps, against the stated bounds."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import pais
from pais._base.lattice import IntArray
from pais.data.ball import Ball
from pais.data.engines.base import PeopleTable
from pais.data.engines.local import Members
from pais.data.schema import Schema
from pais.data.sources import cells
from pais.mechanisms.base import exact_epsilon
from pais.mechanisms.blocks import Levels, Line, Rows, Split
from pais.mechanisms.noise import GaussianNoise, laplace_noise
from pais.privacy.rules import UniformRule
from pais.statistics.people_totals import (
    STEPS_PER_ROW,
    BoundedTotals,
    NormsOfPeople,
    PeopleTotals,
    RowSteps,
    Totals,
    bound_from_octaves,
    bound_from_sizes,
)

REGIONS = ["north", "south", "east"]
SCHEMA = Schema.of({"x": (-50, 100), "y": (0, 10), "region": REGIONS})
#: Coordinates: x, y, and one for each region.
BLOCKS = (Line(column=0, slope=0.75, intercept=0.25), Line(column=1, slope=0.5, intercept=0.5), Rows())
BY = (Levels(column=2, n_levels=3, others=False),)
PLAIN, GROUPED = RowSteps(blocks=BLOCKS), RowSteps(blocks=BLOCKS, by=BY)
WIDE = Ball(radius=100.0)


def frame_of(people: dict[str, list[tuple[Any, Any, Any]]]) -> pd.DataFrame:
    rows = [(who, *row) for who, several in people.items() for row in several]
    return pd.DataFrame(rows, columns=["who", "x", "y", "region"]).astype({"x": float, "y": float})


def folded(people: dict[str, list[tuple[Any, Any, Any]]], fold: Any) -> IntArray:
    rows = cells(frame_of(people), columns=SCHEMA, unit="who", max_rows_per_unit=None, missing="drop")
    return np.asarray(rows.fold_people(fold, seeded=True))


def others(n: int = 40) -> dict[str, list[tuple[Any, Any, Any]]]:
    rng = np.random.default_rng(3)
    return {
        f"p{i}": [
            (rng.uniform(-60, 120), rng.uniform(0, 10), str(rng.choice(REGIONS))) for _ in range(1 + rng.integers(6))
        ]
        for i in range(n)
    }


#: People who try to add as much as they can.
PEOPLE: dict[str, list[tuple[Any, Any, Any]]] = {
    "one row": [(100.0, 10.0, "north")],
    "fifty rows": [(100.0, 10.0, "south")] * 50,
    "all groups": [(100.0, 10.0, region) for region in REGIONS] * 20,
    "both signs": [(100.0, 0.0, "north"), (-50.0, 10.0, "south")] * 9,
    "negative": [(-50.0, 0.1, "east")] * 33,
    "huge": [(1e308, 1e300, "north"), (-1e308, math.inf, "south"), (math.inf, -math.inf, "east")] * 5,
    "missing": [(math.nan, math.nan, None), (math.nan, 3.0, "elsewhere"), (7.0, math.nan, "north")] * 4,
    "denormal": [(5e-324, 5e-324, "north"), (-5e-324, 1e-310, "south")] * 3,
    "nothing": [(0.0, 0.0, "elsewhere")],
    "uneven": [(99.999999999, 1 / 3, "north")] * 31 + [(0.1, 1e-9, "east")] * 7,
}


@pytest.mark.parametrize("person", PEOPLE)
@pytest.mark.parametrize("shape", [PLAIN, GROUPED], ids=["plain", "grouped"])
@pytest.mark.parametrize("order", [1.0, 2.0])
@pytest.mark.parametrize("presence", [False, True])
def test_a_person_moves_the_totals_of_a_block_by_at_most_its_bound(
    person: str, shape: RowSteps, order: float, presence: bool
) -> None:
    for bounds, coarser in [((1.0, 1.0, 1.0), 1), ((0.3, 7.1, 2.0), 1), ((31.0, 1e-7, 4.0), 1 << 12)]:
        steps = tuple(math.floor(bound * STEPS_PER_ROW) for bound in bounds)
        fold = BoundedTotals(
            ball=WIDE, contributions=shape, order=order, presence=presence, bounds=steps, coarser=coarser
        )
        without = others()
        change = folded(without | {person: PEOPLE[person]}, fold) - folded(without, fold)
        for number, bound in enumerate(steps):
            block = [int(step) * coarser for step in change.reshape(-1, shape.width)[:, shape.block_of == number].flat]
            size = sum(map(abs, block)) if order == 1.0 else math.isqrt(sum(step * step for step in block))
            assert size <= bound
            if person == "fifty rows" and number == 2 and not presence and coarser == 1:
                assert size >= 0.999 * bound


@pytest.mark.parametrize("order", [1.0, 2.0])
def test_vectors_of_any_whole_numbers_are_bounded_exactly(order: float) -> None:
    rng = np.random.default_rng(0)
    shape = RowSteps(blocks=(Rows(),), by=(Levels(column=0, n_levels=9, others=False),))
    for trial in range(300):
        scale = 2.0 ** rng.uniform(0, 62)
        steps = (rng.standard_normal(9) * scale).clip(-(2.0**62), 2.0**62).astype(np.int64)
        bound = int(2.0 ** rng.uniform(0, 60))
        table = PeopleTable.of(np.zeros(9, dtype=np.int64), np.arange(9), steps)
        fold = BoundedTotals(
            ball=WIDE, contributions=shape, order=order, presence=False, bounds=(bound,), coarser=1 + trial % 3
        )
        total = [abs(int(step)) * fold.coarser for step in fold.over_people(table)]
        square = sum(step * step for step in total)
        assert sum(total) <= bound if order == 1.0 else square <= bound * bound
        within = sum(abs(int(step)) for step in steps) if order == 1.0 else math.isqrt(sum(int(s) ** 2 for s in steps))
        if within < bound * (1 - 2**-40) and fold.coarser == 1:
            np.testing.assert_array_equal(fold.over_people(table), steps)


@pytest.mark.parametrize("person", PEOPLE)
@pytest.mark.parametrize("shape", [PLAIN, GROUPED], ids=["plain", "grouped"])
@pytest.mark.parametrize("by_size", [False, True])
@pytest.mark.parametrize("order", [1.0, 2.0])
def test_a_person_moves_one_bin_of_each_histogram_by_at_most_one(
    person: str, shape: RowSteps, by_size: bool, order: float
) -> None:
    for bins_per_octave in (1, 2):
        fold = NormsOfPeople(
            ball=WIDE,
            contributions=shape,
            order=order,
            presence=by_size,
            by_size=by_size,
            bins_per_octave=bins_per_octave,
        )
        without = others()
        change = folded(without | {person: PEOPLE[person]}, fold) - folded(without, fold)
        by_block = change.reshape(len(shape.blocks), -1)
        assert np.abs(by_block).sum(axis=1).max() <= 1


def test_totals_without_noise_are_those_of_pandas() -> None:
    people = others(200)
    frame = frame_of(people)
    frame["x"] = frame["x"].clip(-50, 100)
    fold = BoundedTotals(
        ball=WIDE, contributions=GROUPED, order=1.0, presence=False, bounds=(100 * STEPS_PER_ROW,) * 3, coarser=1
    )
    found = folded(people, fold).reshape(3, 3) / STEPS_PER_ROW * [100.0, 10.0, 1.0]
    by_region = frame.groupby("region")
    expected = pd.DataFrame({"x": by_region["x"].sum(), "y": by_region["y"].sum(), "n": by_region.size()})
    np.testing.assert_allclose(found, expected.loc[REGIONS].to_numpy(), rtol=1e-6)
    counts = folded(people, NormsOfPeople(ball=WIDE, contributions=GROUPED, order=1.0, presence=True, by_size=True))
    sizes = frame.groupby("who")["region"].nunique()
    np.testing.assert_array_equal(counts.reshape(3, -1)[2], np.bincount(sizes, minlength=4))


def test_the_exact_price_is_the_sum_of_bounds_over_scales() -> None:
    blocks = (Rows(factor=3.0), Split(column=0, factor=1.5))
    mechanism = PeopleTotals(name="sums of people", blocks=blocks, noise=laplace_noise(1.1), bounds=(7.3, 0.1))
    price = exact_epsilon(mechanism, UniformRule(rate=1.0), Ball(radius=1.0))
    scales = mechanism.block_scales
    assert price == Fraction(7.3) / Fraction(scales[0]) + Fraction(0.1) / Fraction(scales[1])
    assert float(price) == pytest.approx(1 / 1.1, rel=1e-12)
    with pytest.raises(pais.ArgumentError, match="too small for the price"):
        PeopleTotals(name="sums of people", blocks=(Rows(), Rows()), noise=laplace_noise(1.1), bounds=(1.0, 1.0))
    with pytest.raises(pais.ArgumentError, match="as many bounds"):
        PeopleTotals(name="sums of people", blocks=(Rows(),), noise=laplace_noise(1.1), bounds=(1.0, 1.0))
    with pytest.raises(pais.ArgumentError, match="in rows"):
        PeopleTotals(name="sums of people", blocks=(Rows(),), noise=laplace_noise(1.1), bounds=(1e12,))


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_what_is_cut_off_is_added_back_only_where_norms_tell_it(delta: float) -> None:
    noise = laplace_noise(1.0) if delta == 0.0 else GaussianNoise(scale=1.0)
    facts: dict[str, Any] = {"whole": True, "noise": noise, "pure": delta == 0.0}
    assert Totals(n_coordinates=1, sign=0, **facts).adds_back
    assert Totals(n_coordinates=5, sign=1, **facts).adds_back is (delta == 0.0)
    assert not Totals(n_coordinates=5, sign=0, **facts).adds_back


def test_what_a_bound_cuts_off_sets_is_known_from_their_sizes() -> None:
    """Brute force: people in one to four groups, each scaled down to the bound."""
    sizes = np.repeat([1, 2, 3, 4], [9000, 600, 200, 300])
    law, noise = laplace_noise(1e-6), laplace_noise(1.0)
    counts = np.bincount(sizes, minlength=5).astype(float)[None]
    for pure in (True, False):
        totals = Totals(n_coordinates=4, sign=1, whole=True, noise=noise, pure=pure)
        bound = bound_from_sizes(counts, law, totals)
        norms = sizes if pure else np.sqrt(sizes)
        lost = (sizes * (1.0 - np.minimum(1.0, bound.size / norms))).sum()
        assert bound.cut == pytest.approx(lost)
        assert bound.n_people == pytest.approx(len(sizes))


def test_counts_of_people_cover_those_in_more_groups_than_noise_shows() -> None:
    """The noise hides how many people are in three or four wards."""
    rng = np.random.default_rng(0)
    wards = [rng.choice(4, size, replace=False) for size in np.repeat([1, 2, 3, 4], [984, 1195, 869, 611])]
    frame = pd.DataFrame({"who": np.repeat(np.arange(len(wards)), [len(own) for own in wards])})
    frame["ward"] = np.array(list("abcd"))[np.concatenate(wards)]
    truth = frame["ward"].value_counts().reindex(list("abcd")).to_numpy()
    held = []
    for seed in range(100):
        result = pais.count_people(frame, unit="who", by={"ward": list("abcd")}, epsilon=0.1, random_state=seed)
        low, high = result.interval(0.95)
        held.append((low <= truth) & (truth <= high))
    assert np.mean(held) >= 0.93


def test_people_with_one_group_each_need_a_small_bound_and_little_error() -> None:
    rng, law = np.random.default_rng(0), laplace_noise(16.7)
    totals = Totals(n_coordinates=4, sign=1, whole=True, noise=laplace_noise(1.06), pure=True)
    counts = np.array([0.0, 5000.0, 0.0, 0.0, 0.0])
    bounds = [bound_from_sizes((counts + rng.laplace(0.0, law.scale, 5))[None], law, totals) for _ in range(100)]
    assert np.mean([bound.size for bound in bounds]) < 2.0
    assert np.mean([abs(bound.cut) < 2.0 * bound.cut_deviation + 1.0 for bound in bounds]) >= 0.95


def test_a_bound_from_exact_octaves_estimates_what_it_cuts_off() -> None:
    norms = np.random.default_rng(0).geometric(1 / 6, 50_000).astype(float)
    octaves = np.bincount(30 + np.log2(norms).astype(int), minlength=64)
    counts = np.append(0.0, octaves)[None]
    totals = Totals(n_coordinates=1, sign=1, whole=True, noise=laplace_noise(1.0), pure=True)
    bound = bound_from_octaves(counts, laplace_noise(10.0), totals)
    lost = np.maximum(norms - bound.size, 0.0).sum()
    assert 30 <= bound.size <= 130
    assert abs(bound.cut - lost) < 2.0 * bound.cut_deviation + 1.0
    assert bound.n_people == pytest.approx(norms.size, rel=0.01)
    empty = bound_from_octaves(np.zeros_like(counts), laplace_noise(10.0), totals)
    assert empty.concern == "unseen"
    assert empty.cut_deviation > 100.0


def test_the_rows_of_a_person_in_several_blocks_are_added_up() -> None:
    first = PeopleTable.of(np.array([0, 1, 0]), np.array([2, 0, 2]), np.array([5, 7, 1]))
    second = PeopleTable.of(np.array([1, 0]), np.array([0, 2]), np.array([10, 20]))
    joined = PeopleTable.joined([first, second])
    entries = zip(joined.owners.tolist(), joined.coordinates.tolist(), joined.steps.tolist(), strict=True)
    assert list(entries) == [(0, 2, 26), (1, 0, 17)]


def test_a_table_that_another_thread_keeps_meanwhile_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads may share a source. Each sums the table of people that it made, whatever the other one keeps."""
    ids = [f"p{place}" for place in range(300)]
    table = pa.table({"person": ids, "x": np.ones(300), "y": np.full(300, 3.0)})
    columns = {"x": (0.0, 3.0), "y": (0.0, 3.0)}

    def source() -> Any:
        return pais.source(table, columns=columns, unit="person", max_rows_per_unit=1)

    def total(engine: Any, **more: Any) -> Any:
        return pais.sum(engine, epsilon=9.0, delta=0.0, random_state=1, **more).value

    expected, other, shared = total(source()), source(), source()
    pais.count(other, epsilon=1.0, random_state=1)
    finish = Members.finish

    def meanwhile(self: Members) -> None:
        finish(self)
        shared._people = other._people

    monkeypatch.setattr(Members, "finish", meanwhile)
    assert np.array_equal(total(shared), expected)
