"""What a row adds to a fold is its own: the same alone, in any company, and beside a row that overflows."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from pais import Ball, KMeans, MismatchError, NormDistribution, UniformRule, plan_kmeans, release, sample
from pais.engines.blocks import Block, ColumnBlock, RowBlock
from pais.lattice import Lattice

Floats = NDArray[np.float64]
RADIUS = 2.0
ORDERS = (1.0, 2.0, 3.0, math.inf)
# Beyond 8192 columns numpy has other ways with one row than with several.
WIDTHS = (1, 2, 8, 54, 8200)


def some_rows(d: int) -> Floats:
    """Inside the ball, at its edge, beyond it, far beyond where squares or sums overflow, and next to nothing."""
    rng = np.random.default_rng(d)
    found = rng.standard_normal((14, d)) * rng.lognormal(0.0, 1.5, (14, 1)) / d**0.5
    found[3] *= RADIUS / np.linalg.norm(found[3])
    found[4] *= RADIUS / np.abs(found[4]).sum()
    found[5], found[6] = 0.0, 5e-324
    for place, size in enumerate((1e140, 1e151, 1e160, 1e300, 1e301, 1.7e308)):
        found[8 + place] = found[8 + place] / np.max(np.abs(found[8 + place])) * size
    return found


def identity(n: int) -> NDArray[np.uint64]:
    return np.arange(n, dtype=np.uint64)


def by_columns(rows: Floats) -> Block:
    return ColumnBlock([np.ascontiguousarray(column) for column in rows.T], identity(len(rows)))


def in_rows(change: Callable[[Floats], NDArray[np.generic]]) -> Callable[[Floats], Block]:
    return lambda rows: RowBlock(change(rows), identity(len(rows)))


# How a block of the same rows can lie in memory.
LAYOUTS: dict[str, Callable[[Floats], Block]] = {
    "by columns": by_columns,
    "rows": in_rows(np.ascontiguousarray),
    "Fortran": in_rows(np.asfortranarray),
    "part of a Fortran table": in_rows(lambda rows: np.asfortranarray(np.vstack([rows, rows]))[: len(rows)]),
    "every other column": in_rows(lambda rows: np.repeat(rows, 2, axis=1)[:, ::2]),
    "big-endian": in_rows(lambda rows: rows.astype(">f8")),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("d", WIDTHS)
@pytest.mark.parametrize("centered", [False, True])
def test_a_row_has_one_norm_and_adds_one_contribution_alone_and_in_any_company(
    layout: str, order: float, d: int, centered: bool
) -> None:
    block, rows = LAYOUTS[layout], some_rows(d)
    center = tuple(np.linspace(-0.1, 0.3, d).tolist()) if centered else None
    ball, lattice = Ball(radius=RADIUS, order=order, center=center), Lattice(step=2.0**-20)
    alone = [block(rows[place : place + 1]) for place in range(len(rows))]
    norms = np.concatenate([one.norms(ball) for one in alone])
    added = np.array([one.clipped_sum(ball, lattice) for one in alone])
    rng = np.random.default_rng(1)
    for size in (2, 3, 5, 13, 14):
        for _ in range(4):
            chosen = rng.permutation(len(rows))[:size]
            together = block(rows[chosen])
            assert np.array_equal(together.norms(ball), norms[chosen])
            assert np.array_equal(together.clipped_sum(ball, lattice), added[chosen].sum(axis=0))


@pytest.mark.parametrize(("order", "huge"), [(1.0, 1e301), (2.0, 1e160)])
def test_a_row_that_overflows_leaves_a_hundred_thousand_others_as_they_are(order: float, huge: float) -> None:
    """Each could move by a step for every column, and many steps are more than the row may add."""
    rng = np.random.default_rng(5)
    ball = Ball(radius=RADIUS, order=order)
    lattice = Lattice.for_scale(RADIUS / 0.021)
    # Rows that are clipped to whole steps up to rounding, so that two ways of clipping put them on different ones.
    steps = rng.integers(1000, 20_000, (3000, 7)) * lattice.step
    edge = RADIUS * (1.0 - 48 * 2.0**-52)
    last = edge - steps.sum(axis=1) if order == 1.0 else np.sqrt(edge**2 - np.square(steps).sum(axis=1))
    tried = np.column_stack([steps, last]) * rng.uniform(1.1, 3.0, (3000, 1))
    apart = [
        int(np.abs(by_columns(one).clipped_sum(ball, lattice) - LAYOUTS["rows"](one).clipped_sum(ball, lattice)).sum())
        for one in tried[:, None]
    ]
    assert max(apart) >= 3
    others = np.tile(tried[np.argmax(apart)], (131_071, 1))
    record = np.zeros((1, 8))
    record[0, 0] = huge
    change = by_columns(np.vstack([others, record])).clipped_sum(ball, lattice) - by_columns(others).clipped_sum(
        ball, lattice
    )
    assert np.array_equal(change, by_columns(record).clipped_sum(ball, lattice))
    assert np.abs(change).sum() * lattice.step <= RADIUS


@pytest.mark.parametrize("n", [1, 2, 1 << 15, (1 << 15) + 1])
def test_how_sums_are_added_does_not_hang_on_the_number_of_rows(n: int) -> None:
    """Steps so fine that a double holds a few thousand of them exactly, and no more."""
    ball, lattice = Ball(radius=RADIUS, order=2.0), Lattice(step=2.0**-39)
    rows = np.tile([[1.1, 1.3, -0.7]], (n, 1))
    once = by_columns(rows[:1]).clipped_sum(ball, lattice)
    assert np.array_equal(by_columns(rows).clipped_sum(ball, lattice), n * once)


def test_k_means_is_run_on_the_ball_it_was_planned_for() -> None:
    """On a smaller one its scores, made for that one, would not be exact."""
    norms = NormDistribution.from_quantiles(lambda level: 1e3 * level, n_rows=100, radius=1e3)
    plan = plan_kmeans(n_clusters=2, n_features=2, epsilon=1.0, delta=1e-6, ball=Ball(radius=1e3), norms=norms)
    assert isinstance(plan.mechanism, KMeans)
    kept = sample(np.ones((50, 2)), ball=Ball(radius=1.0), rule=UniformRule(rate=1.0))
    with pytest.raises(MismatchError, match="planned for radius"):
        release(plan.mechanism, kept, delta=1e-6)
