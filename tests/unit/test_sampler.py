"""Poisson importance sampling: blocks, strategies, clipping and weights."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from pais import (
    Ball,
    ConstrainedRule,
    FunctionRule,
    GaussianProfile,
    Joint,
    LinearProfile,
    LpNoise,
    MismatchError,
    Rule,
    UniformRule,
    WeightedCount,
    WeightedSum,
    laplace_noise,
    release,
    sample,
)
from pais._base.randomness import BitSource
from pais.data.engines.base import WeightedRows
from pais.pipeline import Strategy
from tests.support.sampler_cases import (
    BALL,
    CELLS,
    COARSE_BITS,
    RADIUS,
    SEVERAL_BLOCKS,
    as_coarse,
    coreset,
    opened,
    positions,
    rows_in_ball,
    sigmas,
)

Floats = NDArray[np.float64]


# -- one sample whatever the way to it -----------------------------------------------------------------------


class BoundaryBits(BitSource):
    """Seeded bits whose first words crowd around one value and whose later words are of every size.

    So draws that the first bits leave open are common, and even tiny probabilities are kept now and then.
    """

    private = False

    def __init__(self, around: int, seed: int) -> None:
        self._around = around
        self._generator = np.random.default_rng(seed)

    def raw(self, n_bytes: int) -> bytes:
        """The first call asks for the first bits of every row; all later ones for words of 53 bits."""
        if self._around < 0:
            words = self._generator.integers(0, 2**63, n_bytes // 8, dtype=np.uint64) * np.uint64(2)
            return (words >> self._generator.integers(0, 53, words.size, dtype=np.uint64)).tobytes()
        near = self._around + self._generator.integers(-3, 4, n_bytes * 8 // COARSE_BITS)
        self._around = -1
        return as_coarse(np.clip(near, 0, CELLS - 1).tolist()).tobytes()


def dipping(norm: Floats) -> Floats:
    return np.asarray(0.05 + 0.2 * np.square(np.sin(5.0 * norm)))


RULES: dict[str, Rule] = {
    "uniform": UniformRule(rate=0.07),
    "on the 16-bit grid": UniformRule(rate=321 / 65536),
    "below the 16-bit grid": UniformRule(rate=2.0**-17),
    "everything": UniformRule(rate=1.0),
    "coreset": coreset(0.1),
    "function": FunctionRule(function=dipping, radius=RADIUS),
    "constrained": ConstrainedRule(profile=LinearProfile(0.01, 0.05), radius=RADIUS, epsilon=1.0),
    "gaussian": ConstrainedRule(profile=GaussianProfile(20.0, 20.0), radius=RADIUS, epsilon=1.0, delta=1e-6),
}


@pytest.mark.parametrize("name", RULES)
def test_passing_and_thinning_give_the_same_sample_for_the_same_bits(name: str) -> None:
    rule = RULES[name]
    rows = rows_in_ball(SEVERAL_BLOCKS // 128, d=16, seed=19)
    ways = [
        opened(sample(rows, ball=BALL, rule=rule, random_state=20, strategy=way)) for way in ("pass", "thin", "auto")
    ]
    for other in ways[1:]:
        assert np.array_equal(ways[0].rows, other.rows)
        assert np.array_equal(ways[0].weights, other.weights)
    different = opened(sample(rows, ball=BALL, rule=rule, random_state=21, strategy="pass"))
    assert name in ("everything", "below the 16-bit grid") or not np.array_equal(ways[0].weights, different.weights)


@pytest.mark.parametrize("name", RULES)
def test_passing_and_thinning_agree_when_draws_crowd_around_the_largest_probability(name: str) -> None:
    rule = RULES[name]
    rows = rows_in_ball(5000, d=3, seed=22)
    # Half of the rows lie where the rule is largest, or within an ulp of it.
    grid = np.linspace(0.0, RADIUS, 20_001)
    best = grid[np.argmax(rule.probability(grid))]
    rows[::2] *= best / np.linalg.norm(rows[::2], axis=1, keepdims=True)
    around = int(rule.largest_probability(RADIUS) * CELLS)
    passed, thinned = (
        opened(sample(rows, ball=BALL, rule=rule, random_state=BoundaryBits(around, 23), strategy=way))
        for way in ("pass", "thin")
    )
    assert np.array_equal(passed.rows, thinned.rows)
    assert np.array_equal(passed.weights, thinned.weights)
    assert passed.weights.size > 0


@pytest.mark.parametrize("strategy", ["pass", "thin"])
@pytest.mark.parametrize("d", [1, 64, 500_000])
def test_tables_larger_than_a_block_are_read_to_their_last_row(d: int, strategy: Strategy) -> None:
    n = SEVERAL_BLOCKS // (8 * d) + 1
    rows = np.random.default_rng(24).uniform(-1e-3, 1e-3, (n, d))
    content = opened(sample(rows, ball=BALL, rule=UniformRule(rate=1.0), random_state=25, strategy=strategy))
    assert np.array_equal(content.rows, rows)
    assert np.array_equal(content.weights, np.ones(n))


@pytest.mark.parametrize("strategy", ["auto", "pass", "thin"])
@pytest.mark.parametrize("order", [1.0, 2.0, 3.0, math.inf])
def test_dtype_and_memory_order_do_not_change_the_sample(order: float, strategy: Strategy) -> None:
    whole = np.random.default_rng(27).integers(-100, 101, (4000, 6))
    rows = whole.astype(np.float64)
    ball = Ball(radius=400.0, order=order, center=(1.0, 0.0, -2.0, 0.5, 0.0, 3.0))
    wide = np.zeros((8000, 12))
    wide[::2, ::2] = rows
    tables: dict[str, NDArray[np.generic]] = {
        "float32": rows.astype(np.float32),
        "int8": whole.astype(np.int8),
        "int64": whole,
        "fortran": np.asfortranarray(rows),
        "fortran float32": np.asfortranarray(rows.astype(np.float32)),
        "strided": wide[::2, ::2],
        "reversed": rows[::-1, ::-1].copy()[::-1, ::-1],
        "big-endian": rows.astype(">f8"),
        "read-only": np.frombuffer(rows.tobytes()).reshape(rows.shape),
    }
    rule = coreset(0.1, radius=400.0)

    def drawn(table: NDArray[np.generic]) -> WeightedRows:
        return opened(sample(table, ball=ball, rule=rule, random_state=28, strategy=strategy))

    expected = drawn(rows)
    assert expected.weights.size > 100
    for name, table in tables.items():
        got = drawn(table)
        assert np.array_equal(got.rows, expected.rows), name
        assert np.allclose(got.weights, expected.weights, rtol=1e-13, atol=0.0), name
    # Other values give another sample.
    assert not np.array_equal(drawn(rows + 1.0).rows, expected.rows)


def test_a_list_of_lists_is_read_as_its_array() -> None:
    rows = rows_in_ball(50, seed=29)
    as_list = opened(sample(rows.tolist(), ball=BALL, rule=coreset(0.4), random_state=30))
    as_array = opened(sample(rows, ball=BALL, rule=coreset(0.4), random_state=30))
    assert np.array_equal(as_list.rows, as_array.rows)
    assert 0 < as_array.weights.size < 50


# -- clipping, weights, center -------------------------------------------------------------------------------


def norm_is_at_most(row: Floats, order: float, radius: float) -> bool:
    """Exact, for whole orders and infinity."""
    sizes = [abs(Fraction(value)) for value in row.tolist()]
    if math.isinf(order):
        return max(sizes) <= Fraction(radius)
    return sum(size ** int(order) for size in sizes) <= Fraction(radius) ** int(order)


@pytest.mark.parametrize("strategy", ["pass", "thin"])
@pytest.mark.parametrize("order", [1.0, 2.0, 3.0, 4.0, math.inf])
def test_rows_beyond_the_radius_are_scaled_back_into_the_ball_and_never_dropped(
    order: float, strategy: Strategy
) -> None:
    rng = np.random.default_rng(31)
    radius = 0.7
    rows = rng.standard_normal((200, 7)) * np.geomspace(1e-3, 1e3, 200)[:, None]
    rows = np.vstack([rows, rows[-3:] * 1e150, rows[-3:] / np.max(np.abs(rows[-3:])) * 1e307, np.zeros((1, 7))])
    ball = Ball(radius=radius, order=order)
    content = opened(sample(rows, ball=ball, rule=UniformRule(rate=1.0), random_state=32, strategy=strategy))
    assert content.rows.shape == rows.shape
    assert all(norm_is_at_most(row, order, radius) for row in content.rows)
    inside = [norm_is_at_most(row, order, radius * (1.0 - 1e-13)) for row in rows]
    assert np.array_equal(content.rows[inside], rows[inside])
    outside = ~np.array([norm_is_at_most(row, order, radius) for row in rows])
    assert np.sum(outside) > 50
    for got, row in zip(content.rows[outside], rows[outside], strict=True):
        assert not norm_is_at_most(got, order, radius * (1.0 - 1e-13))
        unit = row / np.max(np.abs(row))
        assert np.allclose(got / np.max(np.abs(got)), unit, rtol=1e-12, atol=0.0)


def test_rows_beyond_the_radius_have_the_probability_of_the_radius() -> None:
    """Kept at q(radius), with weight 1/q(radius): not dropped, not at the probability their own norm would give."""
    rule = coreset(0.2)
    edge = float(rule.probability(RADIUS))
    rows = np.full((20_000, 1), 50.0) + np.arange(20_000)[:, None]
    content = opened(sample(rows, ball=BALL, rule=rule, random_state=33))
    assert abs(sigmas(content.weights.size, len(rows), edge)) < 5.0
    assert abs(sigmas(content.weights.size, len(rows), float(rule.probability(0.0)))) > 5.0
    assert np.allclose(content.weights, 1.0 / edge, rtol=1e-12, atol=0.0)


@pytest.mark.parametrize("name", [name for name in RULES if name != "below the 16-bit grid"])
def test_a_weight_is_the_inverse_probability_and_never_above_it(name: str) -> None:
    rule = RULES[name]
    rows = rows_in_ball(3000, seed=34)
    q = rule.probability(BALL.norms(rows.copy()))
    content = opened(sample(rows, ball=BALL, rule=rule, random_state=35, strategy="pass"))
    kept = q[positions(content, rows)]
    assert kept.size > 5
    for weight, probability in zip(content.weights.tolist(), kept.tolist(), strict=True):
        product = Fraction(weight) * Fraction(probability)
        assert product <= 1
        assert product >= 1 - Fraction(1, 10**12)
        assert weight >= 1.0


def test_the_probability_used_is_not_below_that_of_the_exact_norm() -> None:
    """The norm is rounded up, so a rule that rises with it never gives a record less than its exact norm has."""
    rng = np.random.default_rng(36)
    for order in (1.0, 2.0, 3.0, math.inf):
        rows = rng.standard_normal((300, 5)) * rng.uniform(1e-3, 0.3, (300, 1))
        ball = Ball(radius=10.0, order=order)
        norms = ball.norms(rows.copy())
        assert all(norm_is_at_most(row, order, norm) for row, norm in zip(rows, norms.tolist(), strict=True))
        assert not any(
            norm_is_at_most(row, order, norm * (1.0 - 1e-13)) for row, norm in zip(rows, norms.tolist(), strict=True)
        )


@pytest.mark.parametrize("strategy", ["pass", "thin"])
def test_the_center_is_subtracted_before_anything_is_measured(strategy: Strategy) -> None:
    rows = rows_in_ball(4000, seed=39)
    # Whole multiples of 2**-20, so that shifting there and back is exact.
    rows = np.round(rows * 2**20) / 2**20
    center = (64.0, -32.0, 0.0, 8.0)
    rule = coreset(0.1)

    def drawn(table: Floats, ball: Ball) -> WeightedRows:
        return opened(sample(table, ball=ball, rule=rule, random_state=40, strategy=strategy))

    about_zero = drawn(rows, BALL)
    about_center = drawn(rows + center, Ball(radius=RADIUS, center=center))
    assert 100 < about_zero.weights.size < 1000
    assert np.array_equal(about_center.rows, about_zero.rows)
    assert np.array_equal(about_center.weights, about_zero.weights)
    # Without the center all rows lie beyond the radius: another sample altogether.
    assert drawn(rows + center, BALL).weights.size > 1.5 * about_zero.weights.size


def test_a_rule_for_a_smaller_ball_is_refused() -> None:
    with pytest.raises(MismatchError, match="Build the rule for this ball"):
        sample(np.zeros((1, 2)), ball=Ball(radius=2.0), rule=UniformRule(rate=0.5, radius=1.0))


def test_an_empty_sample_is_not_drawn_again() -> None:
    rule = UniformRule(rate=0.05)
    kept = [sample(np.zeros((1, 2)), ball=BALL, rule=rule, random_state=seed).spend("a look") for seed in range(200)]
    # Ten samples hold the row, up to four deviations of their number.
    assert sum(len(each.rows) for each in kept) <= 10 + 4 * 3


def test_a_sample_that_kept_no_row_is_still_a_sample() -> None:
    kept = sample(np.ones((3, 2)), ball=BALL, rule=UniformRule(rate=1e-6), random_state=41)
    count, total = WeightedCount(noise=laplace_noise(10.0)), WeightedSum(noise=LpNoise(scale=10.0, p=2.0))
    got = release(Joint(parts=(count, total)), kept, random_state=42)
    assert isinstance(got.value, tuple)
    # Noise alone, where a single row would count for a million.
    assert abs(got.value[0]) < 1000.0
    assert got.value[1].shape == (2,)
    assert np.all(np.abs(got.value[1]) < 1000.0)
