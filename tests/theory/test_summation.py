"""Attacks on sums: orders of summation, cancellation and clipping change no bit and no bound."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from pais import Ball, UniformRule, sample
from pais._base.lattice import Lattice
from pais.data.engines import local as memory_engine
from pais.data.engines.blocks import ColumnBlock, RowBlock
from pais.data.sources import source
from tests.support.lattice_cases import NOISES, SMALLEST, awkward_rows, naive_total, noises
from tests.support.sampler_cases import clipped_sum

Floats = NDArray[np.float64]
ULP = 2.0**-52


# ---------------------------------------------------------------- orders of summation


def exact_steps(rows: Floats, step: float) -> list[int]:
    return [sum(math.trunc(Fraction(value) / Fraction(step)) for value in column) for column in rows.T.tolist()]


def test_permuting_blocks_threads_files_and_layouts_leave_every_bit_of_a_sum(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = awkward_rows(400, seed=1)
    fold = clipped_sum(Ball(radius=2.0**40), Lattice(step=2.0**-9))
    exact = exact_steps(rows, 2.0**-9)
    rng = np.random.default_rng(2)
    naive = set()
    for number in range(3):
        shuffled = rows[rng.permutation(len(rows))]
        naive.add(naive_total(shuffled))
        for block_bytes in (24, 24 * 7, 24 * 64, 1 << 24):
            monkeypatch.setattr(memory_engine, "_BLOCK_BYTES", block_bytes)
            assert source(shuffled).fold(fold, seeded=True).tolist() == exact
        assert source(np.asfortranarray(shuffled)).fold(fold, seeded=True).tolist() == exact
        path = tmp_path / f"{number}.parquet"
        pq.write_table(pa.table(dict(zip("abc", shuffled.T, strict=True))), path, row_group_size=37)
        for is_seeded in (True, False):
            assert source(path).fold(fold, seeded=is_seeded).tolist() == exact
        identity = np.arange(len(rows), dtype=np.uint64)
        assert fold.of(RowBlock(shuffled, identity)).tolist() == exact
        columns = [np.ascontiguousarray(column) for column in shuffled.T]
        assert fold.of(ColumnBlock(columns, identity)).tolist() == exact
    assert len(naive) > 1


def p_norm_at_most(values: list[Fraction], p: float, bound: Fraction) -> bool:
    """||values||_p <= bound, in rational arithmetic."""
    size = [abs(value) for value in values]
    if math.isinf(p):
        return max(size) <= bound
    return sum(value ** int(p) for value in size) <= bound ** int(p)


def odd_rows(radius: float, step: float) -> Floats:
    """Rows at which a bound on a contribution is likeliest to break."""
    near = [math.nextafter(radius, 0.0), radius, math.nextafter(radius, math.inf), radius * (1.0 + 1e-14)]
    sizes = [0.0, -0.0, SMALLEST, 2.2e-308, 1e-150, step, math.nextafter(step, 0.0), math.nextafter(step, 1.0)]
    sizes += [1.5 * step, 0.1, 1.0 / 3.0, 1e154, 1e200, 1e308, 1.7976931348623157e308, *near]
    rows = [[sign * a, b] for sign in (1.0, -1.0) for a in sizes for b in (0.0, -0.0, SMALLEST, step, a)]
    rows += [[radius * math.cos(angle), radius * math.sin(angle)] for angle in np.linspace(0.0, 6.0, 40)]
    rows += [[radius * share, radius * (1.0 - share)] for share in np.linspace(0.0, 1.0, 40)]
    return np.array(rows)


@noises
@pytest.mark.parametrize(("radius", "scale"), [(1.0, 1.0), (0.3, 1e-6), (1e-90, 1e-88), (1e90, 1e86), (7.0, 1e9)])
def test_no_row_adds_more_to_the_whole_numbers_than_its_certificate_charges_for(
    noise_name: str, radius: float, scale: float
) -> None:
    noise = NOISES[noise_name](scale)
    ball, lattice = Ball(radius=radius, order=noise.order), Lattice.for_scale(scale)
    rows = odd_rows(radius, lattice.step)
    kept = sample(rows, ball=ball, rule=UniformRule(rate=1.0), strategy="pass").spend("a test")
    assert kept.weights.size == len(rows)
    norm = ball.norms(ball.shift(kept.rows))
    for weight in (1.0, 3.0, 1.0 / 0.3, 1e6 / 7.0):
        weights = np.full(len(rows), weight)
        charged = noise.sum_profile().loss(weights, norm)
        # The loss of Laplace-like noise is size / scale; of normal noise the shift in deviations.
        steps = lattice.encode(kept.rows * weights[:, None])
        # Beside sums this small a count would be refused.
        counts = lattice.encode(weights) if weight / lattice.step < 2.0**62 else np.zeros(len(rows), dtype=np.int64)
        paid_for_count = noise.count_profile().loss(weights, norm)
        for one, count, loss, count_loss in zip(
            steps.tolist(), counts.tolist(), charged.tolist(), paid_for_count.tolist(), strict=True
        ):
            moved = [Fraction(value) * Fraction(lattice.step) for value in one]
            assert p_norm_at_most(moved, noise.order, Fraction(loss) * Fraction(scale))
            assert Fraction(count) * Fraction(lattice.step) <= Fraction(count_loss) * Fraction(scale)
            # Hence the largest contribution is that of a row of the ball, whatever was in the table.
            assert p_norm_at_most(moved, noise.order, Fraction(weight) * Fraction(radius) * (1 + Fraction(8 * ULP)))


def test_a_column_layout_adds_no_more_of_a_row_than_the_radius_either() -> None:
    radius, lattice = 0.3, Lattice(step=2.0**-45)
    for order in (1.0, 2.0):
        ball = Ball(radius=radius, order=order)
        for row in odd_rows(radius, lattice.step):
            identity = np.zeros(1, dtype=np.uint64)
            for block in (RowBlock(row[None, :], identity), ColumnBlock([row[:1].copy(), row[1:].copy()], identity)):
                moved = [
                    Fraction(int(value)) * Fraction(lattice.step) for value in clipped_sum(ball, lattice).of(block)
                ]
                assert p_norm_at_most(moved, order, Fraction(radius))


@pytest.mark.parametrize("order", [1.0, 2.0, math.inf])
def test_a_clipped_row_is_within_the_radius_as_a_real_number_and_a_naively_clipped_one_is_not(order: float) -> None:
    radius = 0.3
    rows = np.random.default_rng(8).normal(size=(400, 5)) * np.exp2(np.arange(400) / 8.0)[:, None]

    def beyond(clipped: Floats) -> int:
        exact = [[Fraction(value) for value in row] for row in clipped.tolist()]
        return sum(not p_norm_at_most(row, order, Fraction(radius)) for row in exact)

    assert beyond(Ball(radius=radius, order=order).clip(rows)) == 0
    norm = np.linalg.norm(rows, ord=order, axis=1)
    # In the largest of coordinates nothing is added up, and a product may happen to round well.
    assert beyond(rows * (radius / norm)[:, None]) > (0 if math.isinf(order) else 10)
