"""Poisson importance sampling: exact draws, independent rows, right weights, and a sample that is spent once."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from pais import (
    Ball,
    ConstrainedRule,
    CoresetRule,
    FunctionRule,
    GaussianNoise,
    GaussianProfile,
    Joint,
    LinearProfile,
    LpNoise,
    Rule,
    SpentError,
    UniformRule,
    WeightedCount,
    WeightedMean,
    WeightedSample,
    WeightedSum,
    laplace_noise,
    release,
    sample,
)
from pais._base.randomness import BitSource, SeededBits, bernoulli
from pais.data.engines import WeightedRows
from pais.sampler import Strategy

Floats = NDArray[np.float64]

RADIUS = 2.0
BALL = Ball(radius=RADIUS)
TOP = 2**53 - 1

# How many bits of a draw are served first; the rest comes in words of 53.
COARSE_BITS = next(n for n in (8, 16, 32) if hasattr(BitSource, f"words{n}"))
CELLS = 2**COARSE_BITS

# Larger than any block a table is read in.
SEVERAL_BLOCKS = 40_000_000


def coreset(rate: float = 0.1, radius: float = RADIUS) -> CoresetRule:
    return CoresetRule(sample_size=1000.0 * rate, n_rows=1000.0, mean_square_norm=0.3 * radius**2, radius=radius)


def rows_in_ball(n: int, d: int = 4, seed: int = 0, radius: float = RADIUS) -> Floats:
    """Rows of every norm from 0 to the radius, no two alike."""
    rng = np.random.default_rng(seed)
    direction = rng.standard_normal((n, d))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    return np.asarray(direction * rng.uniform(0.0, 0.999 * radius, (n, 1)))


def coarse_words(bits: BitSource, n: int) -> NDArray[np.unsignedinteger]:
    words: NDArray[np.unsignedinteger] = getattr(bits, f"words{COARSE_BITS}")(n)
    return words


def as_coarse(words: Sequence[int]) -> NDArray[np.unsignedinteger]:
    return np.array(words, dtype=f"uint{COARSE_BITS}")


def opened(kept: WeightedSample) -> WeightedRows:
    return kept.spend("a test")


def positions(content: WeightedRows, rows: Floats) -> NDArray[np.intp]:
    """Which rows were kept, found by their unique first coordinate."""
    order = np.argsort(rows[:, 0])
    found = order[np.searchsorted(rows[order, 0], content.rows[:, 0])]
    assert np.array_equal(rows[found, 0], content.rows[:, 0])
    return np.asarray(found)


# -- exact draws ---------------------------------------------------------------------------------------------


class ScriptedBits(BitSource):
    """Serves chosen 53-bit words, and counts them."""

    private = False

    def __init__(self, words: Sequence[int]) -> None:
        self._words = list(words)
        self.served = 0

    def raw(self, n_bytes: int) -> bytes:
        assert n_bytes % 8 == 0
        n = n_bytes // 8
        words = self._words[self.served : self.served + n]
        assert len(words) == n, "more words were asked for than the script holds"
        self.served += n
        # The low 11 bits are thrown away by the reader; make them noisy.
        return b"".join(((word << 11) | 0x5A5).to_bytes(8, "little") for word in words)


def served(bits: BitSource) -> Callable[[NDArray[np.intp], int], NDArray[np.uint64]]:
    """Bits as they come, whichever draw goes on."""
    return lambda place, turn: bits.words53(place.size)


def digits(q: float, n_words: int) -> tuple[int, list[int]]:
    """The first bits of a probability, and its next `n_words` words of 53 bits, exactly."""
    rest = Fraction(q) * CELLS
    first = math.floor(rest)
    rest -= first
    words = []
    for _ in range(n_words):
        rest *= 2**53
        words.append(math.floor(rest))
        rest -= words[-1]
    return first, words


def decided_by(q: float, coarse: int, words: Sequence[int]) -> bool | None:
    """U < q, from the revealed bits of U alone; None while they leave it open."""
    low, width = Fraction(coarse, CELLS), Fraction(1, CELLS)
    for word in words:
        width /= 2**53
        low += word * width
    if low + width <= Fraction(q):
        return True
    return False if low >= Fraction(q) else None


LONG = [
    0.1,
    1.0 / 3.0,
    2.0**-30 * 1.3,
    1.0,
    0.5,
    2.0**-16,
    2.0**-40,
    2.0**-17,
    math.nextafter(1.0, 0.0),
    math.nextafter(0.5, 1.0),
    math.nextafter(2.0**-16, 0.0),
    math.pi * 1e-12,
    1e-300,
    5e-324,
]


@pytest.mark.parametrize("q", LONG, ids=repr)
def test_a_draw_is_the_exact_comparison_of_a_uniform_real_with_the_probability(q: float) -> None:
    """All near misses around every word of q: the decision is that of exact rationals on the bits consumed."""
    depth = 22
    first, words = digits(q, depth)
    branches: list[tuple[int, list[int]]] = [
        (coarse, []) for coarse in {0, first - 1, first, first + 1, CELLS - 1} if 0 <= coarse < CELLS
    ]
    for level in range(depth):
        nearby = {0, words[level] - 1, words[level], words[level] + 1, TOP}
        branches += [(first, [*words[:level], word]) for word in nearby if 0 <= word <= TOP and first < CELLS]
    outcomes, consumed = set(), set()
    for coarse, script in branches:
        # Bits beyond the script are all ones, then all zeros: neither may change a decision.
        for filler in (TOP, 0):
            bits = ScriptedBits([*script, *[filler] * (depth + 2)])
            got = bool(bernoulli(np.array([q]), as_coarse([coarse]), served(bits))[0])
            seen = [*script, *[filler] * (depth + 2)][: bits.served]
            assert got == decided_by(q, coarse, seen)
            outcomes.add(got)
            consumed.add(bits.served)
    assert outcomes == ({True} if q == 1.0 else {True, False})
    # A draw equal to q so far goes on for as long as q has digits left, and no longer.
    denominator_bits = Fraction(q).denominator.bit_length() - 1
    assert max(consumed) >= min(math.ceil(max(denominator_bits - COARSE_BITS, 0) / 53), depth)


def test_equality_in_the_first_word_is_not_decided_by_it() -> None:
    """q = 2**-30 * 1.3 has bits beyond the second word: a draw equal to it so far goes on, and both ends occur."""
    q = 2.0**-30 * 1.3
    first, words = digits(q, 3)
    coarse = as_coarse([first])
    assert words[1] > 0
    below = ScriptedBits([words[0], words[1] - 1])
    assert bernoulli(np.array([q]), coarse, served(below))[0]
    above = ScriptedBits([words[0], words[1] + 1])
    assert not bernoulli(np.array([q]), coarse, served(above))[0]
    assert below.served == above.served == 2


def test_many_undecided_draws_at_once_decide_as_each_would_alone() -> None:
    probabilities = np.array([0.1, 2.0**-30 * 1.3, 0.9, 1e-300, 1.0 / 3.0, 2.0**-40 * 1.7, 0.1])
    expansions = [digits(q, 2) for q in probabilities]
    coarse = as_coarse([first for first, _ in expansions])
    steps = [-1, 0, 1, 0, 0, 0, 0]
    script = [word + step for (_, (word, _)), step in zip(expansions, steps, strict=True)]
    open_ = [i for i, q in enumerate(probabilities) if decided_by(q, int(coarse[i]), [script[i]]) is None]
    assert len(open_) >= 3
    second = {i: max(expansions[i][1][1] - (i % 2), 0) for i in open_}
    third = [i for i in open_ if decided_by(probabilities[i], int(coarse[i]), [script[i], second[i]]) is None]
    bits = ScriptedBits([*script, *[second[i] for i in open_], *[TOP] * len(third)])
    got = bernoulli(probabilities, coarse, served(bits))
    for i, q in enumerate(probabilities):
        seen = [script[i]] + ([second[i]] if i in open_ else []) + ([TOP] if i in third else [])
        assert bool(got[i]) == decided_by(q, int(coarse[i]), seen)


def sigmas(kept: int, n: int, q: float) -> float:
    return (kept - n * q) / math.sqrt(n * q * (1.0 - q))


@pytest.mark.parametrize("q", [0.1, 0.25, 1.0 / 3.0, 0.7])
def test_frequencies_fit_the_probability_and_not_one_two_percent_larger(q: float) -> None:
    n = 2**22 if q < 0.2 else 2**20
    bits = SeededBits(np.random.default_rng(11))
    kept = int(np.sum(bernoulli(np.full(n, q), coarse_words(bits, n), served(bits))))
    assert abs(sigmas(kept, n, q)) < 5.0
    assert abs(sigmas(kept, n, 1.02 * q)) > 5.0


def test_a_probability_below_two_to_the_minus_sixteen_is_kept_and_a_truncated_one_never() -> None:
    """q = 2**-17: 16 bits alone cannot represent it, and a sampler that stops there never keeps such a row."""
    q, block, n_blocks = 2.0**-17, 2**20, 24
    bits = SeededBits(np.random.default_rng(12))
    kept = truncated = 0
    for _ in range(n_blocks):
        kept += int(np.sum(bernoulli(np.full(block, q), coarse_words(bits, block), served(bits))))
        short = np.frombuffer(bits.raw(2 * block), dtype=np.uint16)
        truncated += int(np.sum(short < math.floor(65536 * q)))
    assert abs(sigmas(kept, n_blocks * block, q)) < 5.0
    assert truncated == 0
    assert abs(sigmas(truncated, n_blocks * block, q)) > 10.0


def test_probability_one_is_always_kept_and_nearly_one_is_not_rounded_to_it() -> None:
    everything = as_coarse(range(CELLS))
    assert np.all(bernoulli(np.ones(CELLS), everything, served(ScriptedBits([]))))
    nearly = bernoulli(np.full(CELLS, math.nextafter(1.0, 0.0)), everything, served(ScriptedBits([TOP, TOP])))
    assert not nearly[-1]
    assert np.all(nearly[:-1])


# -- independent rows ----------------------------------------------------------------------------------------


def test_the_sample_size_varies_as_a_poisson_sample_and_not_as_one_of_fixed_size() -> None:
    rows, n_runs, rule = rows_in_ball(400), 3000, coreset(0.3)
    q = rule.probability(np.linalg.norm(rows, axis=1))
    bits = SeededBits(np.random.default_rng(13))
    sizes = np.array(
        [opened(sample(rows, ball=BALL, rule=rule, random_state=bits)).weights.size for _ in range(n_runs)]
    )

    def fits(observed: NDArray[np.int64]) -> bool:
        """Mean and variance within five sigmas of those of independent draws."""
        mean, variance = float(q.sum()), float(np.sum(q * (1.0 - q)))
        mean_ok = abs(observed.mean() - mean) < 5.0 * math.sqrt(variance / n_runs)
        return bool(mean_ok and abs(observed.var() / variance - 1.0) < 5.0 * math.sqrt(2.0 / n_runs))

    assert fits(sizes)
    fixed = np.full(n_runs, round(float(q.sum())))
    assert not fits(fixed)
    # Rows that come and go in pairs have the right mean and twice the variance.
    rng = np.random.default_rng(14)
    assert not fits(2 * rng.binomial(1, q[::2], (n_runs, 200)).sum(axis=1))


class RowwiseBits(BitSource):
    """Seeded first bits for each row, and one word for all draws they leave open: bits belong to rows."""

    private = False

    def __init__(self, seed: int) -> None:
        self._generator = np.random.default_rng(seed)

    def raw(self, n_bytes: int) -> bytes:
        return self._generator.bytes(n_bytes)

    def words53(self, n: int) -> NDArray[np.uint64]:
        return np.full(n, 2**51, dtype=np.uint64)


def test_whether_a_row_is_kept_does_not_depend_on_any_other_row() -> None:
    rows, rule, seed = rows_in_ball(300, seed=15), coreset(0.3), 16

    def kept_by_pais(table: Floats) -> set[int]:
        content = opened(sample(table, ball=BALL, rule=rule, random_state=RowwiseBits(seed)))
        return set(positions(content, table).tolist())

    def kept_by_self_normalised_weights(table: Floats) -> set[int]:
        """A wrong sampler: probabilities fitted to the rows themselves."""
        bits = RowwiseBits(seed)
        norms = np.linalg.norm(table, axis=1)
        probability = np.minimum(90.0 * norms / norms.sum(), 1.0)
        return set(np.flatnonzero(bernoulli(probability, coarse_words(bits, len(table)), served(bits))).tolist())

    fitted_changes = 0
    for changed in range(300):
        table = rows.copy()
        table[changed] *= 1.999 / np.linalg.norm(table[changed])
        assert kept_by_pais(rows) - {changed} == kept_by_pais(table) - {changed}
        table[changed] *= 100.0
        others = [kept_by_self_normalised_weights(each) - {changed} for each in (rows, table)]
        fitted_changes += others[0] != others[1]
    assert fitted_changes > 200


def test_each_row_is_kept_at_its_own_rate_and_not_at_the_average_rate() -> None:
    rows, n_runs, rule = rows_in_ball(100, seed=17), 4000, coreset(0.4)
    q = rule.probability(np.linalg.norm(rows, axis=1))
    bits = SeededBits(np.random.default_rng(18))
    hits = np.zeros(100)
    for _ in range(n_runs):
        hits[positions(opened(sample(rows, ball=BALL, rule=rule, random_state=bits)), rows)] += 1
    assert np.max(np.abs(hits - n_runs * q) / np.sqrt(n_runs * q * (1.0 - q))) < 5.5
    average = q.mean()
    assert np.max(np.abs(hits - n_runs * average) / math.sqrt(n_runs * average * (1.0 - average))) > 20.0


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


@pytest.mark.parametrize("strategy", ["pass", "thin"])
def test_every_part_of_a_blocked_table_is_sampled_at_its_rate(strategy: Strategy) -> None:
    n, q = SEVERAL_BLOCKS // 8, 0.2
    rows = np.arange(n, dtype=np.float64)[:, None] / n
    content = opened(sample(rows, ball=BALL, rule=UniformRule(rate=q), random_state=26, strategy=strategy))
    tenths = np.bincount((content.rows[:, 0] * 10.0).astype(int), minlength=10)
    assert np.all(np.abs([sigmas(int(kept), n // 10, q) for kept in tenths]) < 5.0)
    # A sampler that forgot the first block, or the last rows, would be far outside.
    seen = content.rows[(content.rows[:, 0] > 0.01) & (content.rows[:, 0] < 0.99), 0]
    forgotten = np.bincount((seen * 10.0).astype(int), minlength=10)
    assert not np.all(np.abs([sigmas(int(kept), n // 10, q) for kept in forgotten]) < 5.0)


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


def test_the_weighted_count_and_sum_are_unbiased_and_the_unweighted_are_not() -> None:
    rows, n_runs, rule = rows_in_ball(500, seed=37), 2000, coreset(0.4)
    q = rule.probability(np.linalg.norm(rows, axis=1))
    energy = np.sum(np.square(rows), axis=1)
    bits = SeededBits(np.random.default_rng(38))
    counts, energies, plain = np.zeros(n_runs), np.zeros(n_runs), np.zeros(n_runs)
    for run in range(n_runs):
        content = opened(sample(rows, ball=BALL, rule=rule, random_state=bits))
        kept = np.sum(np.square(content.rows), axis=1)
        counts[run] = content.weights.sum()
        energies[run] = content.weights @ kept
        plain[run] = kept.mean() * 500
    count_sigma = math.sqrt(float(np.sum(1.0 / q - 1.0)) / n_runs)
    energy_sigma = math.sqrt(float(np.sum((1.0 / q - 1.0) * np.square(energy))) / n_runs)
    assert abs(counts.mean() - 500.0) < 5.0 * count_sigma
    assert abs(1.02 * counts.mean() - 500.0) > 5.0 * count_sigma
    assert abs(energies.mean() - energy.sum()) < 5.0 * energy_sigma
    assert abs(plain.mean() - energy.sum()) > 5.0 * energy_sigma


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


def test_a_sample_that_kept_no_row_is_still_a_sample() -> None:
    kept = sample(np.ones((3, 2)), ball=BALL, rule=UniformRule(rate=1e-6), random_state=41)
    count, total = WeightedCount(noise=laplace_noise(10.0)), WeightedSum(noise=LpNoise(scale=10.0, p=2.0))
    got = release(Joint(parts=(count, total)), kept, random_state=42)
    assert isinstance(got.value, tuple)
    # Noise alone, where a single row would count for a million.
    assert abs(got.value[0]) < 1000.0
    assert got.value[1].shape == (2,)
    assert np.all(np.abs(got.value[1]) < 1000.0)


# -- spent once ----------------------------------------------------------------------------------------------


def fresh(seed: int = 43) -> WeightedSample:
    return sample(rows_in_ball(100), ball=Ball(radius=RADIUS, order=1.0), rule=UniformRule(rate=0.5), random_state=seed)


def test_a_sample_serves_one_release_and_refuses_the_second() -> None:
    kept = fresh()
    assert not kept.spent
    release(WeightedCount(noise=laplace_noise(1.0)), kept, random_state=1)
    assert kept.spent
    with pytest.raises(SpentError, match="pay"):
        release(WeightedSum(noise=laplace_noise(1.0)), kept, random_state=1)
    with pytest.raises(SpentError, match="pay"):
        release(WeightedCount(noise=laplace_noise(1.0)), kept, random_state=1)


def test_a_sample_cannot_be_copied_or_pickled_before_or_after_it_is_spent() -> None:
    kept = fresh()
    for _ in range(2):
        for duplicate in (
            copy.copy,
            copy.deepcopy,
            pickle.dumps,
            lambda value: pickle.dumps(value, protocol=0),
            lambda value: copy.deepcopy({"inside": [value]}),
        ):
            with pytest.raises(SpentError, match="copied"):
                duplicate(kept)
        if not kept.spent:
            # The attempts took nothing away.
            assert opened(kept).weights.size > 0


def test_a_joint_mechanism_uses_one_sample_for_all_and_pays_the_sum() -> None:
    count, total = WeightedCount(noise=laplace_noise(4.0)), WeightedSum(noise=laplace_noise(2.0))
    joint = Joint(parts=(count, total))
    norms = np.linspace(0.0, RADIUS, 9)
    assert np.allclose(joint.profile(3.0, norms), count.profile(3.0, norms) + total.profile(3.0, norms), rtol=1e-15)
    kept = fresh()
    both = release(joint, kept, random_state=2)
    assert kept.spent
    assert isinstance(both.value, tuple)
    assert len(both.value) == 2
    alone = [release(part, fresh(), random_state=2).certificate.epsilon for part in (count, total)]
    assert max(alone) < both.certificate.epsilon
    # At every probability the joint pays more than each part alone and, here at one half, more than a part's double.
    gaussian = [WeightedCount(noise=GaussianNoise(scale=3.0)), WeightedSum(noise=GaussianNoise(scale=4.0))]
    squares = sum(np.square(part.profile(2.0, norms)) for part in gaussian)
    assert np.allclose(np.square(Joint(parts=tuple(gaussian)).profile(2.0, norms)), squares, rtol=1e-12)


def test_a_refused_release_leaves_the_sample_unspent() -> None:
    kept = fresh()
    with pytest.raises(ValueError, match="norm"):
        release(WeightedMean(count_noise=laplace_noise(1.0), sum_noise=LpNoise(scale=1.0, p=2.0)), kept)
    with pytest.raises(ValueError, match="delta"):
        release(WeightedCount(noise=laplace_noise(1.0)), kept, delta=1e-6)
    with pytest.raises(ValueError, match="delta"):
        release(WeightedCount(noise=GaussianNoise(scale=1.0)), kept)
    assert not kept.spent
    release(WeightedCount(noise=laplace_noise(1.0)), kept)
    assert kept.spent


def test_the_repr_of_a_sample_shows_no_row_and_no_size() -> None:
    ball, rule = Ball(radius=5000.0), UniformRule(rate=1.0)
    few = sample(np.full((3, 2), 1234.5678), ball=ball, rule=rule, random_state=44)
    many = sample(np.full((7777, 2), 0.25), ball=ball, rule=rule, random_state=44)
    assert repr(few) == repr(many)
    assert str(few) == str(many)
    assert "1234" not in repr(few)
    assert "5678" not in repr(few)
    assert "7777" not in repr(many)
    content = opened(few)
    assert "1234" not in repr(content)
    assert "5678" not in repr(content)
    # What is public is shown: the rule, the ball, whether it was spent and whether the draws were secure.
    for public in ("UniformRule", "5000.0", "spent=True", "private=False"):
        assert public in repr(few)
