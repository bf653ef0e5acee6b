"""Attacks on numbers: low bits, orders of summation, odd doubles, extreme ratios; and random plans.

Every check is also made of a naive implementation in floating point, written here, which must fail it.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from numpy.typing import NDArray
from scipy import stats

import pais
from pais import (
    ArgumentError,
    Ball,
    ConstrainedRule,
    CoresetRule,
    FunctionRule,
    GaussianNoise,
    GaussianProfile,
    Joint,
    LinearProfile,
    LpNoise,
    NormDistribution,
    Plan,
    Rule,
    UniformRule,
    WeightedCount,
    WeightedMean,
    WeightedSum,
    laplace_noise,
    plan_kmeans,
    run,
    sample,
    worst_case,
)
from pais._base.lattice import IntArray, Lattice
from pais._base.randomness import BitSource, SeededBits
from pais.accounting.certificate import certified_epsilon
from pais.data.engines import Engine, Fold, Thinning, WeightedRows, memory as memory_engine
from pais.data.engines.blocks import Block, ColumnBlock, RowBlock
from pais.data.sources import source
from pais.mechanisms import NoiseLaw
from pais.mechanisms.kmeans.lloyd import LloydSample, Round, count_lattice, sum_lattice

Floats = NDArray[np.float64]

NOISES: dict[str, Callable[[float], NoiseLaw]] = {
    "laplace": laplace_noise,
    "l2": lambda scale: LpNoise(scale=scale, p=2.0),
    "linf": lambda scale: LpNoise(scale=scale, p=math.inf),
    "gaussian": lambda scale: GaussianNoise(scale=scale),
}
noises = pytest.mark.parametrize("noise_name", NOISES)
quick = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])

SMALLEST = 5e-324
ULP = 2.0**-52


def seeded(seed: int) -> SeededBits:
    return SeededBits(np.random.default_rng(seed))


def content(rows: Any, weights: Any = None) -> WeightedRows:
    array = np.asarray(rows, dtype=np.float64)
    return WeightedRows(rows=array, weights=np.ones(len(array)) if weights is None else np.asarray(weights, float))


def on_lattice(values: Any, step: float) -> bool:
    """Whether all values are whole multiples of a power of two."""
    return all((Fraction(value) / Fraction(step)).denominator == 1 for value in np.ravel(values).tolist())


# ---------------------------------------------------------------- low bits


# Neighbours, and data whose low bits are as different as can be.
DATA = {
    "none": np.zeros((0, 2)),
    "zeros": np.zeros((3, 2)),
    "whole": np.array([[1.0, 2.0], [3.0, -1.0]]),
    "thirds": np.array([[1.0 / 3.0, -0.1], [math.pi, 2.0 / 7.0]]),
    "thirds and one more": np.array([[1.0 / 3.0, -0.1], [math.pi, 2.0 / 7.0], [0.7, 1e-9]]),
    "tiny": np.array([[SMALLEST, -SMALLEST], [1e-300, 2.0**-60]]),
    "mixed": np.array([[1e-17, 4.0], [3.9999999999999996, -1e-5]]),
}


def naive_sum(rows: Floats, scale: float, rng: np.random.Generator) -> Floats:
    """What many have written: a sum of doubles and a double of noise."""
    return np.asarray(rows.sum(axis=0) + rng.laplace(scale=scale, size=rows.shape[1]))


@noises
@pytest.mark.parametrize("scale", [1.0, 0.37, 3e5, 1e-4])
def test_whatever_the_data_released_sums_and_counts_are_whole_multiples_of_a_public_step(
    noise_name: str, scale: float
) -> None:
    noise, step = NOISES[noise_name](scale), Lattice.for_scale(scale).step
    ball = Ball(radius=10.0, order=noise.order)
    mean = WeightedMean(count_noise=noise, sum_noise=noise)
    for seed, rows in enumerate(DATA.values()):
        given_ = content(rows, 1.0 + np.arange(len(rows)) / 3.0)
        assert on_lattice(WeightedSum(noise=noise).measure(given_, ball, seeded(seed)), step)
        assert on_lattice(WeightedCount(noise=noise).measure(given_, ball, seeded(seed)), step)
        value = mean.measure(given_, ball, seeded(seed))
        assert on_lattice(value.noisy_sum, step)
        assert on_lattice(value.noisy_count, step)
    assert not on_lattice(naive_sum(DATA["thirds"], scale, np.random.default_rng(0)), step)
    # Rounding the noise and not the sum is no better.
    rounded = np.rint(np.random.default_rng(0).laplace(scale=scale, size=2) / step) * step
    assert not on_lattice(DATA["thirds"].sum(axis=0) + rounded, step)


@noises
def test_whatever_the_data_counts_sums_and_moments_of_k_means_are_whole_multiples_of_a_public_step(
    noise_name: str,
) -> None:
    noise = NOISES[noise_name]
    rounds = (Round(count_noise=noise(2.0), sum_noise=noise(5.0)), Round(count_noise=noise(1.1), sum_noise=noise(0.3)))
    ball = Ball(radius=10.0, order=rounds[0].sum_noise.order)
    centers = np.array([[1.0 / 3.0, 0.0], [-1.0, math.e]])
    moment = GaussianNoise(scale=7.0)
    # The step of the second moment follows from radius, largest weight and noise.
    side = max(10.0 * math.sqrt(5.0) / 2.0**18, math.sqrt(7.0 / 2.0**50))
    for seed, rows in enumerate(DATA.values()):
        if len(rows) == 0:
            continue
        bits = seeded(seed)
        held = LloydSample(content(rows, 1.0 + np.arange(len(rows)) / 3.0), ball, rounds)
        for round_ in rounds:
            told = held.summarise(centers, round_, bits)
            assert on_lattice(told.noisy_counts, count_lattice(rounds).step)
            assert on_lattice(told.noisy_sums, sum_lattice(rounds).step)
        released = held.second_moment(moment, 10.0, 5.0, bits)
        assert np.array_equal(np.rint(released / side**2) * side**2, released)
    naive = DATA["thirds"].T @ DATA["thirds"] + np.random.default_rng(0).normal(scale=7.0, size=(2, 2))
    assert not np.array_equal(np.rint(naive / side**2) * side**2, naive)
    assert not on_lattice(naive, sum_lattice(rounds).step)


class Spy:
    """What leaves a lattice: steps, and the doubles they become."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[tuple[float, Floats]] = []
        decode = Lattice.decode

        def told(lattice: Lattice, steps: IntArray) -> Floats:
            values = decode(lattice, steps)
            self.seen.append((lattice.step, values))
            return values

        monkeypatch.setattr(Lattice, "decode", told)


@pytest.mark.parametrize("order", [1.0, 2.0])
def test_whatever_the_data_all_that_a_survey_draws_on_is_whole_multiples_of_public_steps(
    order: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    spy = Spy(monkeypatch)
    rng = np.random.default_rng(3)
    for rows in (rng.normal(size=(2000, 2)) / 3.0, rng.normal(size=(2001, 2)) * 1e-9 + 0.1, DATA["tiny"]):
        pais.survey(rows, epsilon=2.0, order=order, random_state=5)
    # Two histograms of whole rows, and where something stood out of the noise a sum on a lattice of its own.
    assert sum(step == 1.0 for step, _ in spy.seen) == 6
    assert sum(step != 1.0 for step, _ in spy.seen) == 2
    for step, values in spy.seen:
        assert math.frexp(step)[0] == 0.5
        assert on_lattice(values, step)


def test_the_low_bits_of_a_release_have_one_histogram_for_neighbours_and_those_of_a_naive_sum_do_not() -> None:
    """Mironov's attack: near zero a double of noise is finer than the sum of it and 1."""
    rng = np.random.default_rng(11)

    def odd_shares(outputs: Floats) -> float:
        near = outputs[(outputs > 0.25) & (outputs < 0.5)]
        assert near.size > 50
        return float(np.mean((near * 2.0**54) % 2.0))

    uniform = (rng.integers(1, 2**53, 4000) * 2.0**-53, rng.choice([-1.0, 1.0], 4000))
    laplace = -np.log(uniform[0]) * uniform[1]
    assert odd_shares(0.0 + laplace) > 0.3
    assert odd_shares(1.0 + laplace) == 0.0

    noise, ball, bits = laplace_noise(1.0), Ball(radius=1.0, order=1.0), seeded(12)
    for rows in ([[0.0]], [[1.0]], [[1.0 / 3.0]]):
        mechanism = WeightedSum(noise=noise)
        outputs = np.array([mechanism.measure(content(rows), ball, bits)[0] for _ in range(1500)])
        assert odd_shares(outputs) == 0.0
        # The lowest bit that is ever set is that of the step, half of the time, whatever the data.
        lowest = (outputs / Lattice.for_scale(1.0).step) % 2.0
        assert set(lowest.tolist()) == {0.0, 1.0}
        assert abs(lowest.mean() - 0.5) < 0.1


class OneWord(BitSource):
    """One word of bits, written in advance."""

    private = False

    def __init__(self, word: int) -> None:
        self._word = word

    def raw(self, n_bytes: int) -> bytes:
        assert n_bytes == 8
        return self._word.to_bytes(8, "little")


def word_for(steps: int, scale_in_steps: float) -> int:
    """The first word of a Laplace draw of so many steps."""
    tail = int(math.exp(-abs(steps) / scale_in_steps) * 2.0**63)
    return min(tail, 2**63 - 1) | (1 << 63 if steps >= 0 else 0)


@pytest.mark.parametrize("other", [0.0, 1.0, -1.0, 0.1, SMALLEST, 1.0 / 3.0])
def test_every_double_that_one_data_set_reaches_its_neighbour_reaches_too(other: float) -> None:
    noise, ball = laplace_noise(1.0), Ball(radius=1.0, order=1.0)
    lattice, mechanism = Lattice.for_scale(1.0), WeightedSum(noise=laplace_noise(1.0))
    rng = np.random.default_rng(2)
    reached = [mechanism.measure(content([[0.7]]), ball, seeded(seed))[0] for seed in range(60)]
    for value in reached:
        steps = int(value / lattice.step) - int(lattice.encode(np.array([other]))[0])
        # The same double, from the other data and bits that are just as possible.
        again = mechanism.measure(content([[other]]), ball, OneWord(word_for(steps, noise.scale / lattice.step)))
        assert again[0] == value

    # A naive output of the row 0 that the row 1 cannot reach with any double of noise.
    def naive_reaches(value: float, row: float) -> bool:
        middle = value - row
        candidates = [middle, math.nextafter(middle, math.inf), math.nextafter(middle, -math.inf)]
        return any(row + noise == value for noise in candidates)

    out_of_reach = [value for value in rng.uniform(0.25, 0.5, 100).tolist() if (value * 2.0**54) % 2.0 == 1.0]
    out_of_reach += [0.25 + 2.0**-54]
    assert all(naive_reaches(value, 0.0) for value in out_of_reach)
    assert not any(naive_reaches(value, 1.0) for value in out_of_reach)


def test_noisy_counts_of_a_survey_take_the_same_whole_values_for_neighbouring_data(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spy = Spy(monkeypatch)
    for rows in (np.full((400, 1), 0.3), np.full((401, 1), 0.3)):
        pais.survey(rows, epsilon=2.0, center=(0.0,), random_state=9)
    # The bits are the same, so all bins differ by nothing, but for the one of the row, by one.
    gap = np.abs(spy.seen[0][1] - spy.seen[1][1])
    assert gap.sum() == gap.max() == 1.0
    assert set(spy.seen[0][1].tolist()) >= {-1.0, 0.0, 1.0}
    assert set(spy.seen[1][1].tolist()) >= {-1.0, 0.0, 1.0}
    naive = 400.0 + np.random.default_rng(0).laplace(size=5)
    assert not on_lattice(naive, 1.0)


# ---------------------------------------------------------------- orders of summation


class SumOf(Fold):
    """Sum of the rows clipped to a ball, in whole steps: what a survey folds."""

    def __init__(self, ball: Ball, lattice: Lattice) -> None:
        self.ball, self.lattice = ball, lattice

    def of(self, block: Block) -> IntArray:
        return block.clipped_sum(self.ball, self.lattice)


def awkward_rows(n: int, seed: int) -> Floats:
    """Huge and tiny rows, rows that cancel, equal rows, odd doubles; all within a radius of 2**40."""
    rng = np.random.default_rng(seed)
    spread = rng.standard_normal((n, 3)) * np.exp2(rng.integers(-60, 38, (n, 1)).astype(float))
    cancelling = np.vstack([spread[: n // 4], -spread[: n // 4]])
    odd = [[SMALLEST, -0.0, 1e-310], [-0.0, -0.0, -0.0], [2.0**38, 1.0, 2.0**-22], [0.1, 0.2, 0.3]]
    return np.vstack([spread, cancelling, odd * 5, np.full((50, 3), 0.1)])


def exact_steps(rows: Floats, step: float) -> list[int]:
    return [sum(math.trunc(Fraction(value) / Fraction(step)) for value in column) for column in rows.T.tolist()]


def naive_total(rows: Floats) -> tuple[float, ...]:
    return tuple(functools.reduce(lambda total, row: total + row, rows).tolist())


def test_permuting_blocks_threads_files_and_layouts_leave_every_bit_of_a_sum(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = awkward_rows(400, seed=1)
    fold = SumOf(Ball(radius=2.0**40), Lattice(step=2.0**-9))
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
        assert RowBlock(shuffled, identity).clipped_sum(fold.ball, fold.lattice).tolist() == exact
        columns = [np.ascontiguousarray(column) for column in shuffled.T]
        assert ColumnBlock(columns, identity).clipped_sum(fold.ball, fold.lattice).tolist() == exact
    assert len(naive) > 1


@noises
def test_rows_that_cancel_leave_a_release_as_it_was_and_a_naive_sum_not(noise_name: str) -> None:
    noise = NOISES[noise_name](0.3)
    ball, rows = Ball(radius=2.0**30, order=noise.order), np.full((10, 2), 0.1)
    more = np.vstack([rows, [[2.0**29, -0.3]], [[-(2.0**29), 0.3]]])
    first = np.vstack([more[-2:-1], rows, more[-1:]])
    mechanism = WeightedSum(noise=noise)
    plain = mechanism.measure(content(rows), ball, seeded(4)).tobytes()
    assert mechanism.measure(content(more), ball, seeded(4)).tobytes() == plain
    assert mechanism.measure(content(first), ball, seeded(4)).tobytes() == plain
    assert naive_total(first) != naive_total(rows)


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
                moved = [Fraction(int(value)) * Fraction(lattice.step) for value in block.clipped_sum(ball, lattice)]
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


@pytest.mark.parametrize("value", [0.1, 1.0 / 3.0, 0.7, math.pi / 4.0])
def test_the_thousandth_of_many_equal_rows_adds_as_much_as_the_first_and_to_a_naive_sum_more_than_is_paid_for(
    value: float,
) -> None:
    noise, ball = laplace_noise(1.0), Ball(radius=1.0, order=1.0)
    lattice, mechanism = Lattice.for_scale(1.0), WeightedSum(noise=noise)
    drawn = int(noise.draw_steps((1, 1), lattice, seeded(1))[0, 0])
    one = int(lattice.encode(np.array([value]))[0])
    paid = Fraction(float(noise.sum_profile().loss(np.ones(1), np.full(1, value))[0]))
    assert one * Fraction(lattice.step) <= paid
    for n in (1, 2, 999, 1000, 1001):
        released = mechanism.measure(content(np.full((n, 1), value)), ball, seeded(1))[0]
        assert released / lattice.step == n * one + drawn
    naive = np.cumsum(np.full(1001, value))
    grows = [Fraction(after) - Fraction(before) for before, after in itertools.pairwise(naive)]
    assert max(grows) > paid


def test_who_is_where_in_a_table_changes_a_naive_sum_by_more_than_a_row_may() -> None:
    """Casacuberta et al.: the order of summation is data too."""
    up, down, tiny = np.full((300, 1), 0.9), np.full((300, 1), -0.9), np.full((400, 1), 1e-13)
    orders = [np.vstack(parts) for parts in ([up, tiny, down], [tiny, up, down], [up, down, tiny])]
    noise, ball = laplace_noise(1e-10), Ball(radius=1.0, order=1.0)
    lattice = Lattice.for_scale(1e-10)
    mechanism = WeightedSum(noise=noise)
    released = {float(mechanism.measure(content(rows), ball, seeded(3))[0]) for rows in orders}
    drawn = int(noise.draw_steps((1, 1), lattice, seeded(3))[0, 0])
    assert released == {(exact_steps(orders[0], lattice.step)[0] + drawn) * lattice.step}
    naive = [naive_total(rows)[0] for rows in orders]
    # A row of 1e-13 is to add no more than that.
    assert max(naive) - min(naive) > 10 * 1e-13


# ---------------------------------------------------------------- odd doubles, extreme ratios


@noises
def test_minus_zero_and_what_vanishes_beside_the_step_are_zero_in_every_bit(noise_name: str) -> None:
    noise = NOISES[noise_name](1.0)
    ball = Ball(radius=1.0, order=noise.order)
    mechanism = WeightedMean(count_noise=noise, sum_noise=noise)
    rule = UniformRule(rate=1.0)

    def released(value: float) -> bytes:
        kept = sample(np.full((3, 2), value), ball=ball, rule=rule, random_state=1).spend("a test")
        found = mechanism.measure(kept, ball, seeded(6))
        return found.noisy_sum.tobytes() + found.noisy_mean.tobytes() + np.float64(found.noisy_count).tobytes()

    assert len({released(value) for value in (0.0, -0.0, SMALLEST, -SMALLEST, 1e-310, -1e-200, 1e-9)}) == 1
    assert released(1e-3) != released(0.0)
    assert len({math.copysign(1.0, naive_total(np.full((3, 1), value))[0]) for value in (0.0, -0.0)}) == 2


def test_a_noise_of_no_steps_on_minus_zero_gives_plus_zero() -> None:
    noise, ball = laplace_noise(1.0), Ball(radius=1.0, order=1.0)
    for value in (0.0, -0.0, -SMALLEST):
        for sign in (0, 1 << 63):
            released = WeightedSum(noise=noise).measure(content([[value]]), ball, OneWord(2**63 - 2 | sign))
            assert released.tobytes() == np.zeros(1).tobytes()


@pytest.mark.parametrize("order", [1.0, 2.0, 3.0, math.inf])
def test_huge_rows_come_back_to_the_radius_without_a_warning(order: float) -> None:
    ball = Ball(radius=2.0, order=order)
    huge = np.array([[1e308, -1e308], [1.7e308, 1e-300], [-1e308, 0.0], [1e160, 1e160]])
    clipped = ball.clip(ball.shift(huge))
    assert np.all(np.isfinite(clipped))
    assert np.all(np.linalg.norm(clipped, ord=order, axis=1) <= 2.0)
    assert np.all(ball.norms(ball.shift(huge)) == 2.0)
    with np.errstate(over="ignore", invalid="ignore"):
        # A naive length of the row overflows, and the row vanishes or is no number.
        naive = huge[0] * min(1.0, 2.0 / math.sqrt(float(np.square(huge[0]).sum())))
    assert not 1.9 < np.linalg.norm(naive) <= 2.0


class Unread(Engine):
    """Rows that nobody may look at."""

    names = ("a", "b")
    n_features = 2

    def __init__(self) -> None:
        self.looks = 0

    def fold(self, fold: Fold, *, seeded: bool) -> Any:
        self.looks += 1
        raise AssertionError("a row was read")

    def thin(self, thinning: Thinning, bits: BitSource) -> Any:
        self.looks += 1
        raise AssertionError("a row was read")


EXTREME: dict[str, Callable[[], Plan]] = {
    "quiet sum": lambda: Plan(
        ball=Ball(radius=1e10),
        rule=UniformRule(rate=1.0),
        mechanism=WeightedSum(noise=LpNoise(scale=1e-9, p=2.0)),
        epsilon=1e100,
    ),
    "rare rows": lambda: Plan(
        ball=Ball(radius=1.0),
        rule=UniformRule(rate=1e-12),
        mechanism=WeightedCount(noise=laplace_noise(1e-3)),
        epsilon=1e100,
    ),
    "mean": lambda: Plan(
        ball=Ball(radius=1e100),
        rule=UniformRule(rate=1.0),
        mechanism=WeightedMean(count_noise=GaussianNoise(scale=1.0), sum_noise=GaussianNoise(scale=1.0)),
        epsilon=1e100,
        delta=1e-9,
    ),
    "part of a joint": lambda: Plan(
        ball=Ball(radius=1e100),
        rule=UniformRule(rate=1.0),
        mechanism=Joint(parts=(WeightedCount(noise=laplace_noise(1.0)), WeightedSum(noise=LpNoise(scale=1.0, p=2.0)))),
        epsilon=1e101,
    ),
    "smallest noise": lambda: Plan(
        ball=Ball(radius=1.0),
        rule=UniformRule(rate=1.0),
        mechanism=WeightedSum(noise=LpNoise(scale=SMALLEST, p=2.0)),
        epsilon=1e100,
    ),
    "k-means": lambda: plan_kmeans(
        n_clusters=2,
        n_features=2,
        epsilon=1e14,
        ball=Ball(radius=1.0),
        norms=NormDistribution(norms=np.array([0.5]), masses=np.array([1e3]), radius=1.0),
        mechanism="l2",
    ),
}


@pytest.mark.parametrize("case", EXTREME)
def test_what_would_overflow_the_whole_numbers_is_refused_from_public_numbers_alone(case: str) -> None:
    with pytest.raises(ArgumentError, match=r"64-bit|too small"):
        EXTREME[case]()
    # Without the refusal the cast would go wrong in silence, and by as much as a row is large.
    with np.errstate(invalid="ignore"):
        naive = Lattice(step=2.0**-22).encode(np.array([1e18]))
    assert int(naive[0]) != math.trunc(1e18 * 2.0**22)


@pytest.mark.filterwarnings("ignore:epsilon=.* promises hardly anything:UserWarning")
def test_an_estimator_that_would_overflow_does_not_look_at_a_row() -> None:
    rows = Unread()
    norms = NormDistribution(norms=np.array([0.5]), masses=np.array([1e3]), radius=1.0)
    settings_ = pais.KMeansSettings(n_clusters=2, epsilon=1e14, radius=1.0, norms=norms, mechanism="l2")
    with pytest.raises(ArgumentError, match="64-bit"):
        pais.private_kmeans(rows, settings_)
    assert rows.looks == 0
    # The rows do raise when they are read.
    with pytest.raises(AssertionError, match="read"):
        pais.private_kmeans(rows, pais.KMeansSettings(n_clusters=2, epsilon=1.0, radius=1.0, norms=norms, delta=1e-6))


@noises
@pytest.mark.parametrize(("radius", "scale"), [(1e100, 1e99), (1e-100, 1e-100), (1e-100, 1e100), (1e-3, 1e300)])
def test_extreme_radii_and_noises_that_fit_give_finite_releases_on_the_lattice(
    noise_name: str, radius: float, scale: float
) -> None:
    noise = NOISES[noise_name](scale)
    ball = Ball(radius=radius, order=noise.order)
    rows = np.array([[1e308, -1e308], [SMALLEST, 0.0], [radius / 3.0, -radius / 7.0]])
    kept = sample(rows, ball=ball, rule=UniformRule(rate=1.0), random_state=2).spend("a test")
    value = WeightedSum(noise=noise).measure(kept, ball, seeded(1))
    assert np.all(np.isfinite(value))
    assert on_lattice(value, Lattice.for_scale(scale).step)


# ---------------------------------------------------------------- random plans


@st.composite
def rules(draw: st.DrawFn, radius: float, profile: Any = None, epsilon: float = 1.0, delta: float = 0.0) -> Rule:
    kind = draw(st.sampled_from(["uniform", "coreset", "function"] + (["constrained"] if profile is not None else [])))
    rate = draw(st.floats(1e-3, 1.0))
    if kind == "uniform":
        return UniformRule(rate=rate)
    if kind == "coreset":
        share, mean_square = draw(st.floats(0.05, 1.0)), draw(st.floats(0.05, 1.0)) * radius**2
        most = 1000.0 / (share + (1.0 - share) * radius**2 / mean_square)
        return CoresetRule(
            sample_size=0.999 * rate * most,
            n_rows=1000.0,
            mean_square_norm=mean_square,
            radius=radius,
            uniform_share=share,
        )
    if kind == "function":
        bend = draw(st.floats(0.2, 4.0))
        return FunctionRule(function=lambda norm: rate * (0.1 + 0.9 * (norm / radius) ** bend), radius=radius)
    return ConstrainedRule(profile=profile, radius=radius, epsilon=epsilon, delta=delta, n_knots=64)


radii = st.floats(1e-3, 1e3)
scales = st.floats(0.3, 30.0)


def grid(radius: float) -> Floats:
    """Norms of the whole ball, and closest to its ends."""
    return np.concatenate([np.linspace(0.0, radius, 3001), radius * np.exp2(-np.arange(1.0, 60.0)), [SMALLEST]])


def grid_epsilon(rule: Rule, norm: Floats, loss_at_one: Floats) -> Floats:
    """log(1 + q (e^(loss/q) - 1)) by its definition; large losses in logarithms."""
    q = rule.probability(norm)
    loss = loss_at_one / q
    return np.where(
        loss < 600.0,
        np.log1p(q * np.expm1(np.minimum(loss, 600.0))),
        loss + np.log(q),
    )


@quick
@given(data=st.data(), radius=radii, count_scale=scales, sum_share=scales)
def test_a_random_pure_plan_is_certified_for_at_least_what_a_dense_grid_finds(
    data: st.DataObject, radius: float, count_scale: float, sum_share: float
) -> None:
    mechanism = WeightedMean(
        count_noise=LpNoise(scale=count_scale, p=2.0), sum_noise=LpNoise(scale=sum_share * radius, p=2.0)
    )
    at_worst = 1.0 / count_scale + 1.0 / sum_share
    rule = data.draw(rules(radius, mechanism.profile, epsilon=2.0 * at_worst))
    certified = certified_epsilon(mechanism, rule, Ball(radius=radius))
    norm = grid(radius)
    found = grid_epsilon(rule, norm, 1.0 / count_scale + norm / (sum_share * radius))
    assert certified >= found.max() * (1.0 - 1e-13)
    # The bound is close, so that half of it would be found out.
    assert found.max() > 0.5 * certified


def swept_delta(epsilon: float, mu: Floats, q: Floats) -> Floats:
    """Hockey-stick divergences of (1-q) N(0,1) + q N(mu,1) from N(0,1) and back: the larger."""
    cut = (np.log1p(np.expm1(epsilon) / q) + mu**2 / 2.0) / mu
    remove = (1.0 - q) * stats.norm.sf(cut) + q * stats.norm.sf(cut - mu) - math.exp(epsilon) * stats.norm.sf(cut)
    inside = np.expm1(-epsilon) + q
    with np.errstate(divide="ignore", invalid="ignore"):
        low = (np.log(inside / q) + mu**2 / 2.0) / mu
        add = stats.norm.cdf(low) - math.exp(epsilon) * ((1.0 - q) * stats.norm.cdf(low) + q * stats.norm.cdf(low - mu))
    return np.maximum(remove, np.where(inside > 0.0, add, 0.0))


@settings(max_examples=10, deadline=None)
@given(
    data=st.data(),
    radius=radii,
    count_scale=st.floats(5.0, 30.0),
    sum_share=st.floats(5.0, 30.0),
    delta=st.sampled_from([1e-3, 1e-5]),
)
def test_a_random_gaussian_plan_is_certified_for_at_least_what_a_dense_grid_finds(
    data: st.DataObject, radius: float, count_scale: float, sum_share: float, delta: float
) -> None:
    mechanism = WeightedMean(
        count_noise=GaussianNoise(scale=count_scale), sum_noise=GaussianNoise(scale=sum_share * radius)
    )
    norm = grid(radius)
    rate = data.draw(st.floats(0.3, 1.0))
    rule = data.draw(
        st.sampled_from(
            [
                UniformRule(rate=rate),
                FunctionRule(function=lambda z: rate * (0.4 + 0.6 * z / radius), radius=radius, n_knots=64),
            ]
        )
    )
    certified = certified_epsilon(mechanism, rule, Ball(radius=radius), delta=delta)
    q = rule.probability(norm)
    mu = np.hypot(1.0 / count_scale, norm / (sum_share * radius)) / q
    assert swept_delta(certified, mu, q).max() <= delta * (1.0 + 1e-8)
    if certified > 1e-3:
        assert swept_delta(0.9 * certified, mu, q).max() > delta


@quick
@given(data=st.data(), radius=radii, seed=st.integers(0, 2**31))
def test_probabilities_lie_in_zero_to_one_and_weight_times_probability_never_exceeds_one(
    data: st.DataObject, radius: float, seed: int
) -> None:
    profile = LinearProfile(0.1, 0.5 / radius)
    rule = data.draw(rules(radius, profile, epsilon=2.0))
    norm = grid(radius)
    probability = rule.probability(norm)
    assert np.all(probability > 0.0)
    assert np.all(probability <= 1.0)
    rows = np.repeat(norm, 2)[:, None]
    ball = Ball(radius=radius)
    kept = sample(rows, ball=ball, rule=rule, random_state=seed).spend("a test")
    there = rule.evaluate(ball.norms(kept.rows)).tolist()
    for weight, q in zip(kept.weights.tolist()[::7], there[::7], strict=True):
        assert Fraction(weight) * Fraction(q) <= 1
        assert weight >= 1.0
    # The weight 1/q as a double rounds up for every third probability or so.
    naive = [Fraction(1.0 / q) * Fraction(q) > 1 for q in np.linspace(0.1, 0.9, 100).tolist()]
    assert any(naive)


@quick
@given(data=st.data(), radius=radii, scale=scales, more=st.floats(1.001, 10.0))
def test_more_noise_never_costs_more_and_a_larger_budget_never_keeps_more(
    data: st.DataObject, radius: float, scale: float, more: float
) -> None:
    rule, ball = data.draw(rules(radius)), Ball(radius=radius, order=1.0)
    quiet = certified_epsilon(WeightedSum(noise=laplace_noise(scale * radius)), rule, ball)
    loud = certified_epsilon(WeightedSum(noise=laplace_noise(scale * more * radius)), rule, ball)
    assert loud <= quiet
    profile = LinearProfile(0.2, 1.0 / (scale * radius))
    least = 1.5 * (0.2 + 1.0 / scale)
    tight = ConstrainedRule(profile=profile, radius=radius, epsilon=least, n_knots=64)
    wide = ConstrainedRule(profile=profile, radius=radius, epsilon=least * more, n_knots=64)
    norm = grid(radius)
    assert np.all(wide.probability(norm) <= tight.probability(norm))
    assert worst_case(wide, profile, radius=radius).upper <= least * more


@quick
@given(radius=radii, scale=st.floats(1.0, 30.0), more=st.floats(1.001, 10.0), rate=st.floats(0.01, 1.0))
def test_more_delta_and_more_normal_noise_never_cost_more_epsilon(
    radius: float, scale: float, more: float, rate: float
) -> None:
    rule, ball = UniformRule(rate=rate), Ball(radius=radius)

    def cost(noise: float, delta: float) -> float:
        mechanism = WeightedSum(noise=GaussianNoise(scale=noise * radius))
        return certified_epsilon(mechanism, rule, ball, delta=delta)

    known = cost(scale, 1e-6)
    assert cost(scale * more, 1e-6) <= known * (1.0 + 1e-9)
    assert cost(scale, min(1e-6 * more, 0.5)) <= known * (1.0 + 1e-9)


@quick
@given(exponent=st.integers(-40, 40), noise_name=st.sampled_from(list(NOISES)), seed=st.integers(0, 2**31))
def test_scaling_rows_radius_and_noise_scales_sums_in_every_bit(exponent: int, noise_name: str, seed: int) -> None:
    factor = 2.0**exponent
    rows = np.random.default_rng(seed).normal(size=(40, 3))

    def total(by: float) -> Floats:
        noise = NOISES[noise_name](0.2 * by)
        ball, bits = Ball(radius=2.0 * by, order=noise.order), seeded(seed)
        kept = sample(rows * by, ball=ball, rule=UniformRule(rate=0.7), random_state=bits).spend("a test")
        return WeightedSum(noise=noise).measure(kept, ball, bits)

    assert total(factor).tobytes() == (total(1.0) * factor).tobytes()


@settings(max_examples=6, deadline=None)
@given(exponent=st.integers(-20, 20), mechanism=st.sampled_from(["gaussian", "l2", "laplace"]))
def test_scaling_rows_and_radius_scales_the_centers_of_k_means(exponent: int, mechanism: Any) -> None:
    factor = 2.0**exponent
    rows = np.random.default_rng(0).normal(size=(600, 2)) + np.repeat([[3.0, 0.0], [-3.0, 0.0]], 300, axis=0)

    def centers(by: float) -> Floats:
        norms = NormDistribution(norms=np.array([1.0, 3.0]) * by, masses=np.full(2, 300.0), radius=6.0 * by)
        wanted = pais.KMeansSettings(
            n_clusters=2,
            epsilon=3.0,
            delta=1e-5 if mechanism == "gaussian" else 0.0,
            radius=6.0 * by,
            norms=norms,
            mechanism=mechanism,
        )
        return pais.private_kmeans(rows * by, wanted, random_state=3).value.centers

    np.testing.assert_allclose(centers(factor) / factor, centers(1.0), rtol=1e-6, atol=1e-6)


@quick
@given(
    rows=st.lists(st.integers(-(2**20), 2**20), min_size=1, max_size=30),
    noise_name=st.sampled_from(list(NOISES)),
    seed=st.integers(0, 2**31),
)
def test_a_row_of_weight_two_is_the_row_twice_in_every_bit(rows: list[int], noise_name: str, seed: int) -> None:
    noise = NOISES[noise_name](1e-6)
    ball = Ball(radius=10.0, order=noise.order)
    table = np.array(rows, dtype=float)[:, None] * 2.0**-18
    mechanism = WeightedMean(count_noise=noise, sum_noise=noise)
    once = mechanism.measure(content(table, np.full(len(rows), 2.0)), ball, seeded(seed))
    twice = mechanism.measure(content(np.vstack([table, table])), ball, seeded(seed))
    assert once.noisy_sum.tobytes() == twice.noisy_sum.tobytes()
    assert once.noisy_count == twice.noisy_count
    single = mechanism.measure(content(table), ball, seeded(seed))
    assert single.noisy_count != once.noisy_count


@quick
@given(radius=radii, first=scales, second=scales, third=scales)
def test_a_joint_costs_the_sum_of_its_parts_and_not_less(
    radius: float, first: float, second: float, third: float
) -> None:
    ball, everyone = Ball(radius=radius, order=1.0), UniformRule(rate=1.0)
    parts = (
        WeightedCount(noise=laplace_noise(first)),
        WeightedSum(noise=laplace_noise(second * radius)),
        WeightedMean(count_noise=laplace_noise(third), sum_noise=laplace_noise(2.0 * third * radius)),
    )
    apart = math.fsum(certified_epsilon(part, everyone, ball) for part in parts)
    together = certified_epsilon(Joint(parts=parts), everyone, ball)
    exact = 1 / Fraction(first) + 1 / Fraction(second) + 1 / Fraction(third) + 1 / Fraction(2.0 * third)
    assert Fraction(together) >= exact
    assert together == pytest.approx(apart, rel=1e-10)


@quick
@given(radius=radii, first=st.floats(1.0, 30.0), second=st.floats(1.0, 30.0))
def test_squared_shifts_of_a_gaussian_joint_add_up_and_not_to_less(radius: float, first: float, second: float) -> None:
    joint = Joint(
        parts=(
            WeightedCount(noise=GaussianNoise(scale=first)),
            WeightedSum(noise=GaussianNoise(scale=second * radius)),
        )
    )
    assert isinstance(joint.profile, GaussianProfile)
    shift = joint.profile.loss(np.ones(1), np.full(1, radius))[0]
    exact = 1 / Fraction(first) ** 2 + Fraction(radius) ** 2 / Fraction(second * radius) ** 2
    assert Fraction(float(shift)) ** 2 >= exact
    assert shift == pytest.approx(math.sqrt(float(exact)), rel=1e-12)


def test_a_plan_run_on_awkward_rows_gives_what_its_whole_numbers_say() -> None:
    rows = awkward_rows(100, seed=3)
    plan = Plan(
        ball=Ball(radius=2.0**40, order=2.0),
        rule=UniformRule(rate=1.0),
        mechanism=WeightedSum(noise=LpNoise(scale=2.0**41, p=2.0)),
        epsilon=1.0,
    )
    for shuffled in (rows, rows[::-1]):
        assert on_lattice(run(plan, shuffled).value, Lattice.for_scale(2.0**41).step)
