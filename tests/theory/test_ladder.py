"""Sums by octave of norms: exact, and a record changes the sum clipped at any edge by no more than the noise covers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from pais import Ball
from pais._base.lattice import (
    BINS_PER_OCTAVE,
    HALVES,
    N_OCTAVES,
    OCTAVES,
    WIDEST,
    IntArray,
    Lattice,
    Rung,
    bin_of,
    edges,
)
from pais.data.engines.blocks import Block, ColumnBlock, RowBlock
from pais.data.units import Unit

Floats = NDArray[np.float64]
ORDERS = (1.0, 2.0, 3.0, math.inf)
MASS_BITS = Unit(column="who").mass_bits


def block_of(rows: Floats, layout: str, masses: IntArray | None = None) -> Block:
    identity = np.arange(len(rows), dtype=np.uint64)
    columns = [np.ascontiguousarray(column) for column in rows.T]
    block: Block = RowBlock(rows, identity) if layout == "rows" else ColumnBlock(columns, identity)
    if masses is not None:
        block.masses, block.mass_step = masses, 2.0**-MASS_BITS
    return block


def folded(
    rows: Floats, order: float, layout: str = "rows", masses: IntArray | None = None
) -> tuple[IntArray, IntArray]:
    with np.errstate(all="ignore"):
        packed = block_of(rows, layout, masses).octave_sums(Ball(radius=WIDEST, order=order))
    counts, sums = np.split(packed, [HALVES * N_OCTAVES])
    return counts, sums.reshape(N_OCTAVES, -1)


def wild_rows(seed: int, n: int, d: int, order: float = 2.0) -> Floats:
    """Rows of norms from far below the first edge to far above the last, at edges, zero, and not finite."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n, d))
    norm = np.exp2(rng.choice([-1e3, -100.5, -99.0, -3.0, 0.0, 0.5, 1.0, 7.0, 99.0, 100.0, 130.0, 500.0], n))
    norm[::3] = np.exp2(rng.uniform(-6.0, 6.0, norm[::3].size))
    norm[1::5] *= 1.0 - 2.0**-50
    with np.errstate(all="ignore"):
        rows *= (norm / np.linalg.norm(rows, ord=order, axis=1))[:, None]
    rows[4::11] = 0.0
    rows[5::13, 0] = np.nan
    rows[6::17, -1] = -np.inf
    rows[7::19] = 1.7e308
    return rows


def usable_rows(rows: Floats, order: float) -> list[tuple[int, list[Fraction]]]:
    """Octave and exact entries of each finite row, clipped at the last edge."""
    ball = Ball(radius=WIDEST, order=order)
    found = []
    for row in rows[np.isfinite(rows).all(axis=1)]:
        norm = ball.norms(row[None, :])
        clipped = ball.clip(row[None, :])[0] if norm[0] >= WIDEST / 2 else row
        found.append((int(bin_of(norm)[0]) // BINS_PER_OCTAVE, [Fraction(value) for value in clipped.tolist()]))
    return found


def step_of(octave: int) -> Fraction:
    """Eight octaves share a step. A row in the lowest one has less than 2**18 steps."""
    return Fraction(2) ** ((octave - 2) // 8 * 8 + 2 + 1 - OCTAVES - 18)


def norm_of(vector: Sequence[Fraction], order: float) -> float:
    """The norm, in doubles after an exact scaling by the largest entry."""
    largest = max(map(abs, vector))
    if largest == 0:
        return 0.0
    shares = [float(abs(value) / largest) for value in vector]
    return float(largest) * (1.0 if math.isinf(order) else math.fsum(share**order for share in shares) ** (1.0 / order))


@pytest.mark.parametrize("layout", ["rows", "columns"])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("n", "d"), [(0, 2), (300, 1), (300, 3), (150, 70)])
def test_counts_and_sums_by_octave_are_those_of_exact_arithmetic(n: int, d: int, order: float, layout: str) -> None:
    rows = wild_rows(d, n, d, order)
    counts, sums = folded(rows, order, layout)
    exact = [[0] * d for _ in range(N_OCTAVES)]
    halves = [0] * (HALVES * N_OCTAVES)
    for octave, entries in usable_rows(rows, order):
        for number, entry in enumerate(entries):
            exact[octave][number] += math.trunc(entry / step_of(octave))
    for row in rows[np.isfinite(rows).all(axis=1)]:
        norm = Ball(radius=WIDEST, order=order).norms(row[None, :])[0]
        halves[min(int(np.searchsorted(edges()[::6], norm, side="right")) - 1, len(halves) - 1)] += 1
    assert sums.tolist() == exact
    assert counts.tolist() == halves


@pytest.mark.parametrize("order", ORDERS)
def test_rows_and_columns_with_masses_give_the_same_sums(order: float) -> None:
    rows = wild_rows(1, 700, 5, order)
    masses = np.random.default_rng(1).integers(0, 1 << MASS_BITS, 700)
    for one, other in zip(folded(rows, order, "rows", masses), folded(rows, order, "columns", masses), strict=True):
        np.testing.assert_array_equal(one, other)
    halves = [folded(rows[part], order, "rows", masses[part]) for part in (slice(300), slice(300, None))]
    np.testing.assert_array_equal(halves[0][1] + halves[1][1], folded(rows, order, "rows", masses)[1])


@pytest.mark.parametrize("rung", [0, 3, 90, 97, 99, 100, 101, 103, 106, 150, 199])
@pytest.mark.parametrize("noise", [2.0**-10, 1.0, 2.0**30, 2.0**80])
def test_a_clipped_total_is_the_exact_sum_rounded_down_once(rung: int, noise: float) -> None:
    rng = np.random.default_rng(rung)
    sums = rng.integers(-(2**58), 2**58, (N_OCTAVES, 3))
    sums[rng.random(N_OCTAVES) < 0.5] = 0
    edge = Rung(octave=rung, order=2.0)
    lattice = edge.lattice(noise * edge.radius)
    total = edge.total(sums, lattice)
    for number in range(3):
        exact = Fraction(0)
        for octave in range(N_OCTAVES):
            clipped = Fraction(2) ** min(rung - octave, 0)
            exact += int(sums[octave, number]) * step_of(octave) * clipped
        assert int(total[number]) == math.floor(exact / Fraction(lattice.step))


def changes(order: float, *, units: bool, slack: bool = True) -> list[float]:
    """Changes by one record of totals at many edges, over the norm for which noise is calibrated."""
    shares = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        d = int(rng.integers(1, 6))
        others, record = wild_rows(seed, 40, d, order), wild_rows(seed + 100, 12 if units else 1, d, order)
        if seed % 3 == 0:
            # Rows that all point the same way, of norms just inside the edges of octaves.
            record = np.full_like(record, 1.0 - 2.0**-40) / d ** (0.0 if math.isinf(order) else 1.0 / order)
            record *= np.exp2(rng.integers(-9, 9, len(record)))[:, None]
        mass = np.full(len(record), (1 << MASS_BITS) // len(record))
        masses = np.append(np.full(len(others), (1 << MASS_BITS) // 3), mass) if units else None
        before = folded(others, order, "rows", None if masses is None else masses[: len(others)])[1]
        after = folded(np.concatenate([others, record]), order, "rows", masses)[1]
        for octave in (*range(85, 112), 0, 1, 198, 199):
            rung = Rung(octave=octave, order=order)
            for noise in (1e-3, 1.0, 1e6, 1e14):
                lattice = rung.lattice(noise * rung.radius)
                change = rung.total(after, lattice) - rung.total(before, lattice)
                bound = rung.reach(lattice, d) if slack else rung.radius
                shares.append(norm_of([Fraction(int(value)) for value in change], order) * lattice.step / bound)
    return shares


@pytest.mark.parametrize("units", [False, True])
@pytest.mark.parametrize("order", ORDERS)
def test_a_record_changes_a_clipped_total_by_at_most_the_reach(order: float, units: bool) -> None:
    shares = changes(order, units=units)
    assert max(shares) <= 1.0 + 1e-12
    assert max(shares) > 0.9


def test_the_radius_alone_does_not_bound_the_change() -> None:
    """Totals are rounded, so that a record can change them by one more step."""
    assert max(changes(2.0, units=False, slack=False)) > 1.0 + 1e-12


@pytest.mark.parametrize("order", ORDERS)
def test_clipped_rows_are_as_long_as_the_radius_and_point_as_before(order: float) -> None:
    rung = Rung(octave=OCTAVES, order=order)
    lattice = rung.lattice(rung.radius)
    rng = np.random.default_rng(5)
    for size in 2.0 ** np.arange(-8.0, 300.0, 7.3):
        row = rng.standard_normal(3)
        row *= size / np.linalg.norm(row, ord=order)
        total = lattice.decode(rung.total(folded(row[None, :], order)[1], lattice))
        length = float(np.linalg.norm(total, ord=order))
        assert length <= rung.reach(lattice, 3)
        np.testing.assert_allclose(total, row / size * length, atol=8 * lattice.step)
        if size < rung.radius:
            assert length == pytest.approx(size, abs=8 * lattice.step)
        else:
            assert length > 0.49 * rung.radius


def test_the_lattice_of_a_total_follows_the_larger_of_radius_and_noise() -> None:
    rung = Rung(octave=OCTAVES + 2, order=2.0)
    assert rung.radius == 8.0
    assert rung.lattice(8.0) == Lattice(step=2.0**-15)
    assert rung.lattice(2.0**60) == Lattice(step=2.0**20)
    assert rung.reach(Lattice(step=2.0**-15), 4) >= 8.0 + 2.0**-14
    assert replace(rung, order=1.0).reach(Lattice(step=2.0**-15), 4) >= 8.0 + 2.0**-13
    assert replace(rung, order=math.inf).reach(Lattice(step=2.0**-15), 4) >= 8.0 + 2.0**-15
