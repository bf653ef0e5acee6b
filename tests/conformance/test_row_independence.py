"""No value computed for a row depends on the other rows: norm, clipped row, probability, lattice steps, bin, cluster.

The rows of every test include some next to a rounding boundary, where a sum in another order gives another last bit.
"""

from __future__ import annotations

import ast
import inspect
import math
from collections.abc import Callable

import mpmath as mp
import numpy as np
import pytest
from numpy.typing import NDArray

from pais import (
    Ball,
    CoresetRule,
    GaussianNoise,
    KMeans,
    MismatchError,
    NormDistribution,
    UniformRule,
    plan_kmeans,
    release,
    sample,
    survey,
)
from pais._base import rowwise
from pais._base.lattice import Lattice, bin_of, edges
from pais.data import ball as ball_module
from pais.data.engines.base import WeightedRows
from pais.data.engines.blocks import Block, ColumnBlock, RowBlock
from pais.kmeans.rounds import LloydSample, ResidualRound, ResidualSample, Round
from pais.mechanisms.noise import laplace_noise
from tests.support.sampler_cases import clipped_sum

Floats = NDArray[np.float64]
RADIUS = 2.0
ORDERS = (1.0, 2.0, 2.7, math.inf)
# One lane of columns, several, several pieces of columns; beyond 8192 NumPy's sums treat one row as a special case.
# With a center or without: it is subtracted before any sum, in the same way for every width.
WIDTHS = [(1, False), (8, True), (65, False), (300, True), (8200, False)]


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
@pytest.mark.parametrize(("d", "centered"), WIDTHS)
def test_norm_and_contribution_of_a_row_are_the_same_alone_and_among_others(
    layout: str, order: float, d: int, centered: bool
) -> None:
    block, rows = LAYOUTS[layout], some_rows(d)
    center = tuple(np.linspace(-0.1, 0.3, d).tolist()) if centered else None
    ball = Ball(radius=RADIUS, order=order, center=center)
    alone = [block(rows[place : place + 1]) for place in range(len(rows))]
    norms = np.concatenate([one.all_norms(ball) for one in alone])
    added = np.array([one.octave_sums(ball) for one in alone])
    rng = np.random.default_rng(1)
    for size in (2, 3, 5, 13, 14):
        chosen = rng.permutation(len(rows))[:size]
        together = block(rows[chosen])
        assert np.array_equal(together.all_norms(ball), norms[chosen], equal_nan=True)
        assert np.array_equal(together.octave_sums(ball), added[chosen].sum(axis=0))


@pytest.mark.parametrize(("order", "huge"), [(1.0, 1e301), (2.0, 1e160)])
def test_a_row_that_overflows_does_not_change_the_others(order: float, huge: float) -> None:
    """Each could move by a step for every column, and many steps are more than the row may add."""
    rng = np.random.default_rng(5)
    ball = Ball(radius=RADIUS, order=order)
    lattice = Lattice.for_scale(RADIUS / 0.021)
    # Rows that are clipped to whole steps up to rounding, so that two ways of clipping put them on different ones.
    steps = rng.integers(1000, 20_000, (3000, 7)) * lattice.step
    edge = RADIUS * (1.0 - 48 * 2.0**-52)
    last = edge - steps.sum(axis=1) if order == 1.0 else np.sqrt(edge**2 - np.square(steps).sum(axis=1))
    tried = np.column_stack([steps, last]) * rng.uniform(1.1, 3.0, (3000, 1))
    part = tried / np.abs(tried).max(axis=1, keepdims=True)
    in_two_steps = lattice.encode(part * (edge / rowwise.norms_of(part, order))[:, None])
    apart = np.abs(lattice.encode(ball.clip(tried)) - in_two_steps).sum(axis=1)
    assert max(apart) >= 3
    others = np.tile(tried[np.argmax(apart)], (131_071, 1))
    record = np.zeros((1, 8))
    record[0, 0] = huge
    change = by_columns(np.vstack([others, record])).octave_sums(ball) - by_columns(others).octave_sums(ball)
    assert np.array_equal(change, by_columns(record).octave_sums(ball))
    total = clipped_sum(ball, lattice)
    change = total.of(by_columns(np.vstack([others, record]))) - total.of(by_columns(others))
    assert np.array_equal(change, total.of(by_columns(record)))
    assert np.abs(change).sum() * lattice.step <= RADIUS


@pytest.mark.parametrize("n", [1, 2, 1 << 15, (1 << 15) + 1])
def test_sums_of_equal_rows_are_multiples_of_one_row(n: int) -> None:
    ball = Ball(radius=RADIUS, order=2.0)
    rows = np.tile([[1.1, 1.3, -0.7]], (n, 1))
    once = by_columns(rows[:1]).octave_sums(ball)
    assert np.array_equal(by_columns(rows).octave_sums(ball), n * once)


def test_k_means_refuses_another_ball_than_the_planned_one() -> None:
    """On a smaller one its scores, made for that one, would not be exact."""
    norms = NormDistribution.from_quantiles(lambda level: 1e3 * level, n_rows=100, radius=1e3)
    plan = plan_kmeans(n_clusters=2, n_features=2, epsilon=1.0, delta=1e-6, ball=Ball(radius=1e3), norms=norms)
    assert isinstance(plan.mechanism, KMeans)
    kept = sample(np.ones((50, 2)), ball=Ball(radius=1.0), rule=UniformRule(rate=1.0))
    with pytest.raises(MismatchError, match="planned for radius"):
        release(plan.mechanism, kept, delta=1e-6)


# -- bit for bit ---------------------------------------------------------------------------------------------


LATTICE = Lattice(step=2.0**-20)
RULE = CoresetRule(sample_size=50.0, n_rows=1000.0, mean_square_norm=2.0, radius=RADIUS)
CENTERS = np.random.default_rng(8).uniform(-1.0, 1.0, (6, 300))


def residuals_of(
    content: WeightedRows,
    ball: Ball,
    centers: NDArray[np.float64],
) -> dict[str, NDArray[np.generic]]:
    """What a residual round computes for each row, in the Euclidean and in the l1 norm."""
    found: dict[str, NDArray[np.generic]] = {}
    for law in (GaussianNoise(scale=1.0), laplace_noise(1.0)):
        round_ = ResidualRound(
            count_noise=law, distance_noise=law, residual_noise=law, radius=ball.radius, flat_share=0.3
        )
        sample = ResidualSample(content, (round_,), n_rows=1000.0, largest_weight=1e3)
        grid = sample._grid.of_centers(centers)
        label, square = sample._grid.assign(grid, slice(None))
        distance = np.sqrt(square) if law.order == 2.0 else sample._grid.distances(grid, label, slice(None))
        found |= {
            f"point {law.order}": sample._grid.points,
            f"norm of the point {law.order}": sample._norms,
            f"weight steps {law.order}": sample._weights,
            f"residual distance {law.order}": distance,
            f"reach {law.order}": round_.reach(sample._norms),
        }
    return found


def values_of(rows: NDArray[np.generic], ball: Ball) -> dict[str, NDArray[np.generic]]:
    """Everything that is computed for each row of a block before noise."""
    shifted = ball.shift(rows)
    norm, clipped = ball.norms(shifted), ball.clip(shifted)
    probability = RULE.evaluate(norm)
    round_ = Round(count_noise=GaussianNoise(scale=1.0), sum_noise=GaussianNoise(scale=1.0))
    content = WeightedRows(rows=clipped, weights=1.0 / probability)
    lloyd = LloydSample(content, ball, (round_,))
    centers = CENTERS[:, : rows.shape[1]] / rows.shape[1]
    label, square = lloyd._grid.assign(lloyd._grid.of_centers(centers), slice(None))
    wide = Ball(radius=2.0**100, order=ball.order, center=ball.center)
    return {
        "norm": norm,
        "clipped row": clipped,
        "probability": probability,
        "lattice steps": LATTICE.encode(clipped),
        "weighted steps": lloyd._sums,
        "bin": RowBlock(rows, identity(len(rows))).norm_bins(wide),
        "cluster": label,
        "squared distance": square,
        **residuals_of(content, ball, centers),
    }


def assert_equal_bits(one: dict[str, NDArray[np.generic]], other: dict[str, NDArray[np.generic]]) -> None:
    for name, value in one.items():
        assert value.tobytes() == other[name].tobytes(), name


def table_at(rows: NDArray[np.generic], offset: int, order: str) -> NDArray[np.generic]:
    """A copy of the rows that begins so many numbers after the start of an allocation."""
    memory = np.empty(rows.size + offset, dtype=rows.dtype)[offset:]
    placed = memory.reshape(rows.shape) if order == "C" else memory.reshape(rows.shape[::-1]).T
    placed[:] = rows
    return placed


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("order", [1.0, 2.0, 2.5, math.inf])
@pytest.mark.parametrize("d", [1, 7, 130])
def test_every_value_of_a_row_is_the_same_at_every_place_of_a_block(d: int, order: float, dtype: type) -> None:
    rng = np.random.default_rng(d)
    drawn = rng.standard_normal((70, d)) * rng.lognormal(0.0, 1.0, (70, 1)) / d**0.5
    drawn[::9] *= 1e37 if dtype is np.float32 else 1e300
    drawn[5::9] *= 1e-40
    rows = drawn.astype(dtype)
    ball = Ball(radius=RADIUS, order=order)
    alone = [values_of(rows[place : place + 1].copy(), ball) for place in range(len(rows))]
    expected = {name: np.concatenate([one[name] for one in alone]) for name in alone[0]}
    for length in range(1, 71, 2):
        start, offset = (length * 13) % (71 - length), length % 9
        placed = table_at(rows[start : start + length], offset, "CF"[length % 2])
        found = values_of(placed, ball)
        assert_equal_bits({name: value[start : start + length] for name, value in expected.items()}, found)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("d", "centered"), [(2, False), (64, True), (65, False), (300, True)])
def test_rows_and_columns_give_the_same_bits(d: int, order: float, centered: bool) -> None:
    rng = np.random.default_rng(d)
    rows = np.vstack([some_rows(d), rng.standard_normal((9000, d)) * rng.lognormal(0.0, 1.0, (9000, 1)) / d**0.5])
    center = tuple(np.linspace(-0.1, 0.3, d).tolist()) if centered else None
    wide = Ball(radius=2.0**100, order=order, center=center)
    one, other = RowBlock(rows, identity(len(rows))), by_columns(rows)
    assert one.all_norms(wide).tobytes() == other.all_norms(wide).tobytes()
    assert np.array_equal(one.norm_bins(wide), other.norm_bins(wide))
    assert np.array_equal(one.octave_sums(wide), other.octave_sums(wide))


@pytest.mark.parametrize("order", [1.0, 2.0])
@pytest.mark.parametrize("d", [1, 5, 64, 65, 200, 700])
def test_norms_are_those_of_additions_in_the_documented_order(d: int, order: float) -> None:
    """Python's own floats, one operation at a time."""
    rows = np.random.default_rng(d).standard_normal((20, d)) * 10.0 ** np.arange(-10, 10)[:, None]
    for row, norm in zip(rows, rowwise.norms_of(rows, order), strict=True):
        terms = [value * value if order == 2.0 else abs(value) for value in row.tolist()]
        total = 0.0
        for lane in range(min(64, d)):
            part = 0.0
            for term in terms[lane::64]:
                part += term
            total += part
        assert norm == (math.sqrt(total) if order == 2.0 else total)


@pytest.mark.parametrize("order", [1.05, 1.5, 2.5, 3.0, 7.3, 64.0, 1e4])
@pytest.mark.parametrize("d", [2, 100])
def test_general_norms_err_by_less_than_the_stated_bound(d: int, order: float) -> None:
    rows = np.random.default_rng(3).lognormal(0.0, 2.0, (20, d))
    for row, norm in zip(rows, rowwise.norms_of(rows, order), strict=True):
        with mp.workprec(200):
            exact = mp.fsum(mp.mpf(value) ** mp.mpf(order) for value in row.tolist()) ** (1 / mp.mpf(order))
            assert abs(mp.mpf(float(norm)) / exact - 1) <= (d + 8) * 2.0**-52


# -- rough sums ----------------------------------------------------------------------------------------------


def adversary(exact: Callable[..., Floats]) -> Callable[..., Floats]:
    """Sums with the largest error any order of addition allows, which depends on the place of a row in its block."""

    def wrong(rows: Floats, *order: float) -> Floats:
        found = exact(rows, *order)
        side = np.random.default_rng(len(rows)).choice([-1.0, 0.0, 1.0], len(rows))
        return found * (1.0 + side * rows.shape[1] * 2.0**-53)

    return wrong


@pytest.mark.parametrize("order", [1.0, 2.0])
@pytest.mark.parametrize("d", [6, 80])
def test_an_adversarial_order_of_rough_sums_changes_no_result(
    monkeypatch: pytest.MonkeyPatch, d: int, order: float
) -> None:
    rng = np.random.default_rng(4)
    rows = rng.standard_normal((3000, d))
    # Raised norms at the edges of bins, and norms at the radius, up to a few ulps.
    targets = np.concatenate([edges()[1190:1210], [RADIUS * (1.0 - 2 * (d + 16) * 2.0**-52)]])
    rows *= (rng.choice(targets, 3000) / rowwise.norms_of(rows, order) / (1.0 + (d + 16) * 2.0**-52))[:, None]
    rows[::2] *= 1.0 + (d + 16) * 2.0**-52
    ball, wide = Ball(radius=RADIUS, order=order), Ball(radius=2.0**100, order=order)
    block = RowBlock(rows, identity(3000))

    def results() -> list[bytes]:
        kept = [
            sample(rows, ball=ball, rule=RULE, random_state=3, strategy=way).spend("a test") for way in ("pass", "thin")
        ]
        found = [ball.clip(rows), block.octave_sums(wide), block.norm_bins(wide)]
        found += [array for one in kept for array in (one.rows, one.weights)]
        return [array.tobytes() for array in [*found, ball.norms(rows)]]

    expected = results()
    low, high = (wide.norms(rows) * (1.0 + side * rowwise.rough_slack(d)) for side in (-1.0, 1.0))
    assert np.count_nonzero(bin_of(low) != bin_of(high)) > 100
    monkeypatch.setattr(ball_module, "rough_square_sums", adversary(rowwise.square_sums))
    monkeypatch.setattr(ball_module, "rough_norms_of", adversary(rowwise.norms_of))
    assert results() == expected


def test_norms_use_only_operations_that_ieee_754_determines() -> None:
    allowed = {"abs", "copyto", "divide", "empty", "max", "multiply", "ones_like", "sqrt", "where", "zeros"}
    tree = ast.parse(inspect.getsource(rowwise))
    called: dict[str, set[str]] = {}
    for function in (node for node in tree.body if isinstance(node, ast.FunctionDef)):
        calls = [node.func for node in ast.walk(function) if isinstance(node, ast.Call)]
        called[function.name] = {call.attr for call in calls if isinstance(call, ast.Attribute)}
        powers = [node for node in ast.walk(function) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow)]
        assert all(isinstance(node.left, ast.Constant) for node in powers), function.name
    fixed = set().union(*(names for name, names in called.items() if not name.startswith("rough_")))
    assert fixed - allowed <= {"isinf", "bit_length"}
    # The check sees the sums that the rough functions leave to NumPy.
    assert {"einsum"} <= called["rough_square_sums"]
    assert {"sum"} <= called["rough_norms_of"]


# -- bins ----------------------------------------------------------------------------------------------------


def test_the_bin_of_a_norm_is_found_by_comparison_with_the_edges() -> None:
    points = edges()
    inner = points[1:-1]
    rng = np.random.default_rng(6)
    norms = np.concatenate(
        [inner, np.nextafter(inner, 0.0), np.nextafter(inner, np.inf), [0.0, 5e-324, 1e-150, 2.0**100, 1e300]]
    )
    norms = np.concatenate([norms, 2.0 ** rng.uniform(-101.0, 101.0, 100_000)])
    expected = np.clip(np.searchsorted(points, norms, side="right") - 1, 0, points.size - 2)
    assert np.array_equal(bin_of(norms), expected)
    for place in range(0, norms.size, 997):
        assert bin_of(norms[place : place + 1])[0] == expected[place]


def test_edges_of_bins_are_correctly_rounded() -> None:
    with mp.workprec(200):
        for number, edge in list(enumerate(edges().tolist()))[1::7]:
            assert edge == float(mp.mpf(2) ** (mp.mpf(number) / 12 - 100))


def test_a_survey_takes_no_logarithm_of_a_norm(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("rounded differently from place to place")

    rows = some_rows(3)
    expected = survey(rows, epsilon=1.0, random_state=0)
    monkeypatch.setattr(np, "log2", refuse)
    monkeypatch.setattr(np, "power", refuse)
    found = survey(rows, epsilon=1.0, random_state=0)
    assert found.ball == expected.ball
    assert np.array_equal(found.norms.masses, expected.norms.masses)
