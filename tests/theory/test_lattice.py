"""LATTICE: contributions, sums, clusters and noise in whole steps, held against exact arithmetic.

Oracles share no code with the package: mpmath in hundreds of bits, rational arithmetic in Python integers, and OpenDP's
exact discrete samplers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import mpmath as mp
import numpy as np
import opendp.prelude as dp
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray
from scipy import special, stats

from pais import (
    ArgumentError,
    Ball,
    ConvergenceError,
    GaussianNoise,
    LpNoise,
    WeightedCount,
    WeightedSum,
    laplace_noise,
)
from pais._base.lattice import Lattice, Law, Tails, rounded_noise
from pais._base.randomness import BitSource, SeededBits
from pais.data.engines import WeightedRows
from pais.mechanisms import Extent, NoiseLaw, noise as noise_laws
from pais.mechanisms.kmeans.lloyd import LloydSample, Round

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

ACCEPT = 1e-6
REJECT = 1e-12

# Bits of a uniform variable at hand in the constructed draws: the first 64, and two portions of 128.
LENGTH = 320
STEPS = 3.3 * 2**22
PRECISION = 700


def seeded(seed: int) -> SeededBits:
    return SeededBits(np.random.default_rng(seed))


# ---------------------------------------------------------------- contributions


finite = st.floats(-1e12, 1e12, allow_nan=False, allow_subnormal=False)


@settings(max_examples=150, deadline=None)
@given(
    row=st.lists(finite, min_size=1, max_size=6),
    exponent=st.integers(-20, 20),
    p=st.sampled_from([1.0, 2.0, 3.0, math.inf]),
)
def test_truncation_toward_zero_never_raises_a_norm(row: list[float], exponent: int, p: float) -> None:
    lattice = Lattice(step=2.0**exponent)
    released = lattice.decode(lattice.encode(np.array([row])))[0].tolist()
    before, after = [abs(Fraction(x)) for x in row], [abs(Fraction(x)) for x in released]
    if math.isinf(p):
        assert max(after) <= max(before)
    else:
        assert sum(x ** int(p) for x in after) <= sum(x ** int(p) for x in before)
    for kept, given_, x, y in zip(after, before, released, row, strict=True):
        assert kept <= given_
        assert x * y >= 0.0


@settings(max_examples=150, deadline=None)
@given(row=st.lists(finite, min_size=1, max_size=6), exponent=st.integers(-20, 20))
def test_a_decoded_contribution_is_within_one_step_of_the_encoded_one(row: list[float], exponent: int) -> None:
    lattice = Lattice(step=2.0**exponent)
    released = lattice.decode(lattice.encode(np.array([row])))[0].tolist()
    for x, y in zip(released, row, strict=True):
        assert abs(Fraction(x) - Fraction(y)) < Fraction(lattice.step)


@pytest.mark.parametrize("scale", [1e-200, 3e-7, 0.7, 1.0, 5e9, 1e200])
def test_the_lattice_of_a_scale_has_a_power_of_two_for_a_step_and_at_least_two_to_the_22_steps(scale: float) -> None:
    lattice = Lattice.for_scale(scale)
    assert math.frexp(lattice.step)[0] == 0.5
    assert 2**22 <= scale / lattice.step < 2**23
    assert lattice.steps(scale) == scale / lattice.step


def test_contributions_that_do_not_fit_integers_are_refused_from_public_numbers() -> None:
    lattice = Lattice(step=2.0**-40)
    lattice.require(2.0**21)
    with pytest.raises(ArgumentError, match="64-bit"):
        lattice.require(2.0**22)
    with pytest.raises(ArgumentError, match="64-bit"):
        WeightedSum(noise=laplace_noise(1e-9)).require_lattice(Extent(radius=1e6, weight=1e6, contribution=1e12))


# ---------------------------------------------------------------- sums


def content(n: int, d: int, seed: int) -> WeightedRows:
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n, d)) * np.exp2(rng.integers(-30, 10, (n, 1)))
    return WeightedRows(rows=rows, weights=1.0 + rng.exponential(50.0, n))


def taken(rows: WeightedRows, index: NDArray[np.intp]) -> WeightedRows:
    return WeightedRows(rows=rows.rows[index], weights=rows.weights[index])


@pytest.mark.parametrize("noise", [GaussianNoise(scale=0.3), LpNoise(scale=0.3, p=2.0), laplace_noise(0.3)], ids=str)
def test_a_release_does_not_depend_on_the_order_of_the_rows_in_a_single_bit(noise: NoiseLaw) -> None:
    rows, ball = content(3000, 5, seed=1), Ball(radius=1e5, order=noise.order)
    total = WeightedSum(noise=noise).measure(rows, ball, seeded(7))
    count = WeightedCount(noise=noise).measure(rows, ball, seeded(7))
    naive = set()
    for seed in range(5):
        index = np.random.default_rng(seed).permutation(3000)
        shuffled = taken(rows, index)
        assert WeightedSum(noise=noise).measure(shuffled, ball, seeded(7)).tobytes() == total.tobytes()
        assert WeightedCount(noise=noise).measure(shuffled, ball, seeded(7)) == count
        naive.add(sum((shuffled.rows[:, 0] * shuffled.weights).tolist()))
    # Sums of doubles do depend on it, so the test can tell.
    assert len(naive) > 1


def test_a_release_is_the_integer_sum_of_the_parts_of_any_partition() -> None:
    noise = GaussianNoise(scale=0.3)
    rows, ball, lattice = content(1000, 4, seed=2), Ball(radius=1e5), Lattice.for_scale(0.3)
    total = WeightedSum(noise=noise).measure(rows, ball, seeded(3))
    drawn = noise.draw_steps((1, 4), lattice, seeded(3))[0]
    for cuts in ([500], [1, 2, 999], sorted(np.random.default_rng(4).choice(1000, 20, replace=False).tolist())):
        parts = [taken(rows, part) for part in np.split(np.arange(1000), cuts)]
        steps = sum((lattice.encode(part.rows * part.weights[:, None]).sum(axis=0) for part in parts), start=drawn)
        assert lattice.decode(steps).tobytes() == total.tobytes()
    brute = [
        sum(math.trunc(Fraction(value) / Fraction(lattice.step)) for value in column)
        for column in (rows.rows * rows.weights[:, None]).T.tolist()
    ]
    assert (np.array(brute) + drawn).tolist() == [int(x / lattice.step) for x in total.tolist()]


# ---------------------------------------------------------------- noise: exact rounding


class Scripted(BitSource):
    """Bits written in advance: the first words of the uniform variables, then portions of 16 bytes."""

    private = False

    def __init__(self, words: list[int], portions: list[int]) -> None:
        self._first = b"".join(word.to_bytes(8, "little") for word in words)
        self._portions = list(portions)
        self.portions_read = 0

    def raw(self, n_bytes: int) -> bytes:
        if self._first:
            served, self._first = self._first, b""
            assert len(served) == n_bytes
            return served
        assert n_bytes == 16
        self.portions_read += 1
        return self._portions.pop(0).to_bytes(16, "little")


def normal_point(tail: mp.mpf) -> mp.mpf:
    start = -float(special.ndtri(float(tail)))
    return mp.findroot(lambda z: mp.log(mp.erfc(z / mp.sqrt(2)) / 2 / tail), (start, start + 1e-8))


def gamma_point(shape: mp.mpf, tail: mp.mpf) -> mp.mpf:
    start = float(special.gammaincinv(float(shape), float(1 - tail)))
    # In the logarithm of the point and of the lower tail, where the quantile function is smooth down to zero.
    lower = 1 - tail
    found = mp.findroot(
        lambda t: mp.log(mp.gammainc(shape, 0, mp.exp(t), regularized=True) / lower),
        (math.log(start), math.log(start) + 1e-8),
    )
    return mp.exp(found)


def exact_vector(law: NoiseLaw, tails: list[mp.mpf], signs: list[int]) -> list[mp.mpf]:
    """The noise of scale 1 as the documents define it, from uniform variables taken as real numbers."""
    if isinstance(law, GaussianNoise):
        return [sign * normal_point(tail) for sign, tail in zip(signs, tails, strict=True)]
    assert isinstance(law, LpNoise)
    if law.p == 1.0:
        return [-sign * mp.log(2 * tail) for sign, tail in zip(signs, tails, strict=True)]
    d = len(tails) // (2 if law.p in (2.0, math.inf) else 3)
    radius = -mp.log(mp.fprod(2 * tail for tail in tails[d : 2 * d]))
    if math.isinf(law.p):
        size = [2 * tail for tail in tails[:d]]
        length = max(size)
    else:
        p = mp.mpf(law.p)
        size = (
            [normal_point(tail) for tail in tails[:d]]
            if p == 2
            else [
                2 * u * gamma_point(1 + 1 / p, 2 * v) ** (1 / p) for u, v in zip(tails[:d], tails[2 * d :], strict=True)
            ]
        )
        length = mp.root(mp.fsum(mp.power(value, p) for value in size), int(p))
    return [sign * radius * value / length for sign, value in zip(signs, size, strict=False)]


def middle(known: int) -> mp.mpf:
    return (2 * mp.mpf(known) + 1) / mp.mpf(2) ** (LENGTH + 1)


@dataclass(frozen=True, kw_only=True)
class Cornered:
    """A draw whose first coordinate lies at a rounding boundary, just below or just above it."""

    words: list[int]
    portions: list[int]
    rounded: list[int]

    def bits(self) -> Scripted:
        return Scripted(self.words, self.portions)


def cornered(
    law: NoiseLaw,
    d: int,
    *,
    distance: int,
    seed: int,
    sign: int = 1,
    boundary: float | None = None,
    fixed: dict[int, int] | None = None,
) -> list[Cornered]:
    """Two draws, 2**-distance of a uniform variable to either side of the boundary k + 1/2.

    All uniform variables but one are taken at random (or from `fixed`), and the last one is solved for.
    """
    rng = np.random.default_rng(seed)
    m = law.n_uniforms(d)
    known = [int(rng.integers(2**61, 2**63 - 2**61)) for _ in range(m)]
    for index, word in (fixed or {}).items():
        known[index] = word
    known = [(word << (LENGTH - 64)) | int.from_bytes(rng.bytes(32), "little") for word in known]
    signs = [sign] * m
    solved = 0 if m == d else d
    with mp.workprec(PRECISION):
        tails = [middle(value) for value in known]
        value = abs(exact_vector(law, tails, signs)[0]) * STEPS
        target = (mp.floor(value) + mp.mpf(0.5) if boundary is None else mp.mpf(boundary)) / STEPS
        if isinstance(law, GaussianNoise):
            tail = mp.erfc(target / mp.sqrt(2)) / 2
        elif m == d:
            tail = mp.exp(-target) / 2
        else:
            # The first coordinate is the radius, a sum of exponentials, times something the solved one has no part in.
            radius = -mp.log(mp.fprod(2 * tail for tail in tails[d : 2 * d]))
            tail = tails[d] * mp.exp(radius - radius * target * STEPS / value)
        nearest = int(mp.floor(tail * mp.mpf(2) ** LENGTH))
        draws = []
        for offset in (-(1 << (LENGTH - distance)), 1 << (LENGTH - distance)):
            known[solved] = nearest + offset
            vector = exact_vector(law, [middle(value) for value in known], signs)
            mask = 2**128 - 1
            top = 1 << 63 if sign > 0 else 0
            draws.append(
                Cornered(
                    words=[(value >> (LENGTH - 64)) | top for value in known],
                    portions=[(value >> 128) & mask for value in known] + [value & mask for value in known],
                    rounded=[int(mp.floor(STEPS * value + mp.mpf(0.5))) for value in vector],
                )
            )
    return draws


LAWS: list[tuple[NoiseLaw, int]] = [
    (GaussianNoise(scale=1.0), 1),
    (GaussianNoise(scale=1.0), 3),
    (laplace_noise(1.0), 1),
    (laplace_noise(1.0), 3),
    (LpNoise(scale=1.0, p=2.0), 2),
    (LpNoise(scale=1.0, p=3.0), 2),
    (LpNoise(scale=1.0, p=math.inf), 2),
]
LAW_NAMES = ["gaussian-1", "gaussian-3", "laplace-1", "laplace-3", "l2", "l3", "linf"]


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(("distance", "rounds"), [(80, 1), (170, 2)])
@pytest.mark.parametrize(("law", "d"), LAWS, ids=LAW_NAMES)
def test_a_draw_at_a_rounding_boundary_is_decided_by_its_exact_value(
    law: NoiseLaw, d: int, distance: int, rounds: int, sign: int
) -> None:
    below, above = cornered(law, d, distance=distance, seed=distance + d, sign=sign)
    # The same 64 bits, and another result: no computation on those bits alone can be right for both.
    assert below.words == above.words
    assert abs(below.rounded[0] - above.rounded[0]) == 1
    for draw in (below, above):
        bits = draw.bits()
        assert rounded_noise(law, (1, d), STEPS, bits)[0].tolist() == draw.rounded
        assert bits.portions_read == rounds * law.n_uniforms(d)


@dataclass(frozen=True, kw_only=True)
class Overconfident:
    """A law whose doubles claim to be exact."""

    law: Law

    def n_uniforms(self, d: int) -> int:
        return self.law.n_uniforms(d)

    def evaluate(self, tails: Tails) -> tuple[Floats, Floats]:
        unit, error = self.law.evaluate(tails)
        return unit, np.zeros_like(error)

    def evaluate_exactly(self, tails: list[mp.mpf], signs: list[float]) -> list[mp.mpf]:
        return self.law.evaluate_exactly(tails, signs)


@pytest.mark.parametrize("law", [GaussianNoise(scale=1.0), laplace_noise(1.0)], ids=["gaussian", "laplace"])
def test_without_an_error_bound_the_doubles_decide_wrongly(law: NoiseLaw) -> None:
    draws = cornered(law, 1, distance=80, seed=5, boundary=0.5)
    assert [draw.rounded for draw in draws] == [[1], [0]]
    assert [rounded_noise(law, (1, 1), STEPS, draw.bits())[0].tolist() for draw in draws] == [[1], [0]]
    claimed = [rounded_noise(Overconfident(law=law), (1, 1), STEPS, draw.bits())[0].tolist() for draw in draws]
    assert claimed[0] == claimed[1]


@pytest.mark.parametrize("p", [1.5, 3.0, 10.0])
def test_a_general_order_is_exact_where_the_gamma_quantile_is_near_zero(p: float) -> None:
    """A uniform variable near one makes |g| near zero, where the quantile function has an unbounded slope."""
    law = LpNoise(scale=1.0, p=p)
    rng = np.random.default_rng(11)
    for gap in (2**18, 2**26, 2**34):
        words = [int(rng.integers(2**61, 2**62)) for _ in range(6)]
        words[4] = 2**63 - gap - int(rng.integers(gap))
        unit, error = law.evaluate(Tails(signs=np.ones((1, 6)), words=np.array([words], dtype=np.uint64)))
        with mp.workprec(400):
            shape, order = 1 + 1 / mp.mpf(p), mp.mpf(p)
            for place in (mp.mpf(0.001), mp.mpf(0.999)):
                tails = [(word + place) / mp.mpf(2) ** 64 for word in words]
                size = [2 * tails[i] * gamma_point(shape, 2 * tails[4 + i]) ** (1 / order) for i in range(2)]
                length = mp.fsum(value**order for value in size) ** (1 / order)
                radius = -mp.log(4 * tails[2] * tails[3])
                for i in range(2):
                    assert abs(radius * size[i] / length - float(unit[0, i])) <= float(error[0, i])


def test_a_general_order_at_a_rounding_boundary_is_exact_near_zero_too() -> None:
    law = LpNoise(scale=1.0, p=3.0)
    for draw in cornered(law, 2, distance=80, seed=6, fixed={4: 2**63 - 2**20 - 12345}):
        assert rounded_noise(law, (1, 2), STEPS, draw.bits())[0].tolist() == draw.rounded


@pytest.mark.parametrize("p", [1.5, 3.0, 10.0])
def test_a_general_order_is_settled_even_for_the_last_word(p: float) -> None:
    law = LpNoise(scale=1.0, p=p)
    rng = np.random.default_rng(12)
    words = [int(rng.integers(2**61, 2**62)) for _ in range(6)]
    words[4] = 2**63 - 1
    portions = [int.from_bytes(rng.bytes(16), "little") for _ in range(24)]
    with mp.workprec(400):
        known = [(word << 128) | portion for word, portion in zip(words, portions, strict=False)]
        tails = [(2 * mp.mpf(value) + 1) / mp.mpf(2) ** 193 for value in known]
        shape, order = 1 + 1 / mp.mpf(p), mp.mpf(p)
        lower = 1 - 2 * tails[4]
        # So near zero the quantile is the first term of its series.
        roots = [(lower * mp.gamma(shape + 1)) ** (1 / shape), gamma_point(shape, 2 * tails[5])]
        size = [2 * tails[i] * roots[i] ** (1 / order) for i in range(2)]
        length = mp.fsum(value**order for value in size) ** (1 / order)
        expected = [
            int(mp.floor(-mp.log(4 * tails[2] * tails[3]) * value / length * STEPS + mp.mpf(0.5))) for value in size
        ]
    bits = Scripted([word | 1 << 63 for word in words], portions)
    assert rounded_noise(law, (1, 2), STEPS, bits)[0].tolist() == expected


# ---------------------------------------------------------------- noise: tails


@pytest.mark.parametrize("zeros", [0, 20, 80])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_laplace_tail_of_64_zero_bits_is_settled_by_more_bits_beyond_37_scales(zeros: int, sign: int) -> None:
    portion = int.from_bytes(np.random.default_rng(zeros).bytes(16), "little") | 1 << 127
    portion >>= zeros
    bits = Scripted([1 << 63 if sign > 0 else 0], [portion, 0, 0])
    steps = int(rounded_noise(laplace_noise(1.0), (1, 1), STEPS, bits)[0, 0])
    with mp.workprec(PRECISION):
        value = -mp.log(2 * (mp.mpf(portion) + mp.mpf(0.5)) / mp.mpf(2) ** 192)
        assert steps == int(mp.floor(sign * value * STEPS + mp.mpf(0.5)))
    assert bits.portions_read >= 1
    assert abs(steps) > (37 + zeros * math.log(2)) * STEPS


def test_a_gaussian_tail_of_64_zero_bits_is_settled_by_more_bits_beyond_9_deviations() -> None:
    portion = (3 << 126) >> 20
    bits = Scripted([1 << 63], [portion, 0, 0])
    steps = int(rounded_noise(GaussianNoise(scale=1.0), (1, 1), STEPS, bits)[0, 0])
    with mp.workprec(PRECISION):
        value = normal_point((mp.mpf(portion) + mp.mpf(0.5)) / mp.mpf(2) ** 192)
        assert steps == int(mp.floor(value * STEPS + mp.mpf(0.5)))
    assert steps > 9 * STEPS


@pytest.mark.parametrize("law", [laplace_noise(1.0), GaussianNoise(scale=1.0)], ids=["laplace", "gaussian"])
def test_no_tail_is_cut_off_after_192_zero_bits(law: NoiseLaw) -> None:
    """The bits not yet drawn matter as long as all drawn ones are zero."""
    portions = [0, 1 << 127, 0, 0, 0]
    steps = int(rounded_noise(law, (1, 1), STEPS, Scripted([1 << 63], portions))[0, 0])
    with mp.workprec(1500):
        # The portions: 64 + 128 zeros, a one, and zeros.
        tail = mp.mpf(2) ** -193
        value = -mp.log(2 * tail) if isinstance(law, LpNoise) else normal_point(tail)
        # The one is followed by bits still hidden; they may move the value, by less than 2**-100.
        assert abs(steps - value * STEPS) < 1
    further = int(rounded_noise(law, (1, 1), STEPS, Scripted([1 << 63], [0, 1 << 120, 0, 0, 0, 0]))[0, 0])
    assert further > steps


# ---------------------------------------------------------------- noise: its law


def rounded_law(law: NoiseLaw, edge: int) -> Floats:
    """P(k) for |k| < edge, and the two tails at the ends."""
    frozen = stats.norm(scale=law.scale) if isinstance(law, GaussianNoise) else stats.laplace(scale=law.scale)
    cuts = np.arange(-edge, edge) + 0.5
    return np.diff(np.r_[0.0, frozen.cdf(cuts), 1.0])


def chi_square(values: Integers, law: NoiseLaw, edge: int) -> float:
    observed = np.bincount(np.clip(values, -edge, edge) + edge, minlength=2 * edge + 1)
    expected = rounded_law(law, edge) * values.size
    assert expected.min() > 5.0
    return float(stats.chisquare(observed, expected * (observed.sum() / expected.sum())).pvalue)


@pytest.mark.parametrize(("kind", "edge"), [(GaussianNoise, 6), (laplace_noise, 12)], ids=["gaussian", "laplace"])
def test_whole_steps_follow_the_rounded_law_and_neither_a_wider_nor_a_truncated_one(
    kind: type[GaussianNoise], edge: int
) -> None:
    n, lattice = 200_000, Lattice(step=1.0)
    law, wider = kind(scale=1.7), kind(scale=1.7 * 1.1)
    assert chi_square(law.draw_steps((n, 1), lattice, seeded(1))[:, 0], law, edge) > ACCEPT
    assert chi_square(wider.draw_steps((n, 1), lattice, seeded(2))[:, 0], law, edge) < REJECT
    ideal = law.draw((n, 1), seeded(3))[:, 0]
    assert chi_square(np.rint(ideal).astype(np.int64), law, edge) > ACCEPT
    assert chi_square(np.floor(ideal).astype(np.int64), law, edge) < REJECT
    assert chi_square(np.trunc(ideal).astype(np.int64), law, edge) < REJECT


@pytest.mark.parametrize("kind", [GaussianNoise, laplace_noise], ids=["gaussian", "laplace"])
def test_whole_steps_agree_with_the_exact_discrete_samplers_of_opendp(kind: type[GaussianNoise]) -> None:
    n, scale = 40_000, 50.0
    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T=int))
    discrete = (
        dp.m.make_gaussian(domain, dp.l2_distance(T=float), scale=scale)
        if kind is GaussianNoise
        else dp.m.make_laplace(domain, dp.l1_distance(T=int), scale=scale)
    )
    theirs = np.array(discrete([0] * n))
    ours = kind(scale=scale).draw_steps((n, 1), Lattice(step=1.0), seeded(4))[:, 0]
    wider = kind(scale=1.2 * scale).draw_steps((n, 1), Lattice(step=1.0), seeded(5))[:, 0]
    assert stats.ks_2samp(ours, theirs, method="asymp").pvalue > ACCEPT
    assert stats.ks_2samp(wider, theirs, method="asymp").pvalue < REJECT


@pytest.mark.parametrize(
    ("law", "wrong"),
    [
        (LpNoise(scale=2.5, p=1.0), LpNoise(scale=2.5, p=2.0)),
        (LpNoise(scale=2.5, p=2.0), LpNoise(scale=2.5, p=3.0)),
        (LpNoise(scale=2.5, p=3.0), LpNoise(scale=2.5, p=2.0)),
        (LpNoise(scale=2.5, p=math.inf), LpNoise(scale=2.5, p=3.0)),
        (GaussianNoise(scale=2.5), laplace_noise(2.5)),
    ],
    ids=["l1", "l2", "l3", "linf", "gaussian"],
)
@pytest.mark.parametrize("d", [1, 2, 6])
def test_the_stated_deviation_is_that_of_the_steps_drawn(law: NoiseLaw, wrong: NoiseLaw, d: int) -> None:
    n, lattice = 120_000 // d, Lattice(step=2.0**-10)
    steps = law.draw_steps((n, d), lattice, seeded(6))
    sample = float(np.sqrt(np.mean(np.square(lattice.decode(steps)))))
    assert sample == pytest.approx(law.deviation(d), rel=0.02)
    if d > 1 or isinstance(law, GaussianNoise):
        assert sample != pytest.approx(wrong.deviation(d), rel=0.04)


# ---------------------------------------------------------------- accuracy of the library's functions


def tail_probabilities(n: int) -> Floats:
    """Doubles in (0, 1/2): in the bulk, down to 2**-65, and up to the last ones below 1/2."""
    rng = np.random.default_rng(8)
    return np.concatenate(
        [
            rng.uniform(0.0, 0.5, n),
            np.exp2(-rng.uniform(1.0, 65.0, n)),
            0.5 - np.exp2(-rng.uniform(2.0, 53.0, n)),
            np.exp2(-np.arange(2.0, 66.0)),
        ]
    )


def test_the_normal_quantile_is_as_accurate_as_the_error_bound_assumes() -> None:
    tails = tail_probabilities(400)
    found = -special.ndtri(tails)
    with mp.workprec(300):
        for tail, point in zip(tails.tolist(), found.tolist(), strict=True):
            exact = mp.sqrt(2) * mp.erfinv(1 - 2 * mp.mpf(tail))
            assert abs(exact - point) <= mp.mpf(2) ** -49 * (1 + abs(exact))


def test_the_logarithm_is_as_accurate_as_the_error_bound_assumes() -> None:
    tails = tail_probabilities(2000)
    found = np.log(2.0 * tails)
    with mp.workprec(120):
        for tail, point in zip(tails.tolist(), found.tolist(), strict=True):
            assert abs(mp.log(2 * mp.mpf(tail)) - point) <= mp.mpf(2) ** -49 * (1 + abs(point))


@pytest.mark.parametrize("p", [1.5, 3.0, 10.0, 1000.0])
def test_the_gamma_quantile_is_as_accurate_as_the_error_bound_assumes(p: float) -> None:
    shape, tails = 1.0 + 1.0 / p, 2.0 * tail_probabilities(25)
    found = special.gammainccinv(shape, tails)
    with mp.workprec(160):
        for tail, point in zip(tails.tolist(), found.tolist(), strict=True):
            # The two tails at the ends of the interval allowed enclose the one asked for.
            slack = 2.0**-42 * (1.0 + point)
            upper = mp.gammainc(mp.mpf(shape), mp.mpf(point) + slack, mp.inf, regularized=True)
            lower = mp.gammainc(mp.mpf(shape), max(mp.mpf(point) - slack, 0), mp.inf, regularized=True)
            assert upper <= tail <= lower


# ---------------------------------------------------------------- clusters


def lloyd(rows: Floats, weights: Floats, ball: Ball, scale: float = 1.0) -> tuple[LloydSample, Round]:
    round_ = Round(count_noise=GaussianNoise(scale=scale), sum_noise=GaussianNoise(scale=scale))
    return LloydSample(WeightedRows(rows=rows, weights=weights), ball, (round_,)), round_


def nearest(rows: Floats, centers: Floats) -> list[int]:
    """In rational arithmetic; ties go to the first."""
    exact_centers = [[Fraction(x) for x in center] for center in centers.tolist()]
    labels = []
    for row in rows.tolist():
        exact = [Fraction(x) for x in row]
        squares = [sum((x - c) ** 2 for x, c in zip(exact, center, strict=True)) for center in exact_centers]
        labels.append(squares.index(min(squares)))
    return labels


@pytest.mark.parametrize(("d", "cells"), [(1, 8), (2, 4), (3, 2**18), (7, 2), (16, 2**18)])
def test_the_cluster_of_a_row_is_that_of_rational_arithmetic_with_ties_to_the_first(d: int, cells: int) -> None:
    rng = np.random.default_rng(d)
    rows = rng.integers(-cells, cells, (200, d), endpoint=True) / (cells * 2.0 * math.sqrt(d))
    # Rows and centers on a grid the sample's own grid contains, with a power of two for a step.
    unit = 2.0 ** -math.ceil(math.log2(2.0 * cells * math.sqrt(d)))
    rows = np.rint(rows / unit) * unit
    centers = np.rint(rng.permutation(rows)[:9] / unit) * unit
    centers[4] = centers[2]
    sample, _ = lloyd(rows, np.ones(200), Ball(radius=1.0))
    assert sample._assign(centers).tolist() == nearest(rows, centers)


def test_the_cluster_of_a_row_is_exact_in_the_far_corner_of_a_cube() -> None:
    """The largest scores there are: |x.c| and |c|^2 / 2 at their bounds, and of one sign."""
    rows = np.ones((1, 4))
    sample, _ = lloyd(rows, np.ones(1), Ball(radius=1.0, order=math.inf))
    unit = 1.0 / sample._grid
    for shared in range(0, 64):
        gaps = np.array([[2.0, 1.0, 0.0, shared], [1.0, 1.0, 1.0, shared]])
        centers = -1.0 + gaps * unit
        assert sample._assign(centers).tolist() == nearest(rows, centers)


def test_the_cluster_of_a_row_depends_on_no_other_row() -> None:
    rng = np.random.default_rng(9)
    rows = rng.uniform(-1.0, 1.0, (5000, 6)) / math.sqrt(6.0)
    # Rows all but half way between two centers, where rounding decides.
    centers = rng.uniform(-1.0, 1.0, (8, 6)) / math.sqrt(6.0)
    rows[::2] = 0.5 * (centers[rng.integers(0, 8, 2500)] + centers[rng.integers(0, 8, 2500)])
    ball = Ball(radius=1.0)
    whole = lloyd(rows, np.ones(5000), ball)[0]._assign(centers)
    order = rng.permutation(5000)
    assert np.array_equal(lloyd(rows[order], np.ones(5000), ball)[0]._assign(centers), whole[order])
    for drop in (0, 1, 777, 4095, 4096, 4999):
        kept = np.delete(np.arange(5000), drop)
        assert np.array_equal(lloyd(rows[kept], np.ones(4999), ball)[0]._assign(centers), whole[kept])
    for index in range(0, 5000, 250):
        alone = lloyd(rows[index : index + 1], np.ones(1), ball)[0]._assign(centers)
        assert alone.tolist() == [whole[index]]


def test_counts_and_sums_of_clusters_are_those_of_brute_force_when_the_noise_is_negligible() -> None:
    rng = np.random.default_rng(10)
    n, d, k = 3000, 4, 5
    rows = rng.uniform(-0.5, 0.5, (n, d))
    weights = 1.0 + rng.exponential(3.0, n)
    centers = rng.uniform(-0.5, 0.5, (k, d))
    sample, round_ = lloyd(rows, weights, Ball(radius=1.0), scale=1e-6)
    summary = sample.summarise(centers, round_, seeded(11))
    label = np.argmin(np.sum(np.square(rows[:, None, :] - centers), axis=2), axis=1)
    assert np.unique(label).size == k
    for cluster in range(k):
        members = label == cluster
        assert summary.noisy_counts[cluster] == pytest.approx(weights[members].sum(), abs=1e-5)
        total = (rows[members] * weights[members, None]).sum(axis=0)
        assert summary.noisy_sums[cluster] == pytest.approx(total, abs=1e-5)


def test_a_round_releases_the_same_bits_for_any_order_of_the_rows() -> None:
    rows, weights = content(2000, 3, seed=12).rows, content(2000, 3, seed=12).weights
    ball = Ball(radius=1e5)
    centers = np.random.default_rng(13).standard_normal((4, 3))
    order = np.random.default_rng(14).permutation(2000)
    first, round_ = lloyd(rows, weights, ball)
    second, _ = lloyd(rows[order], weights[order], ball)
    here, there = first.summarise(centers, round_, seeded(15)), second.summarise(centers, round_, seeded(15))
    assert here.noisy_counts.tobytes() == there.noisy_counts.tobytes()
    assert here.noisy_sums.tobytes() == there.noisy_sums.tobytes()


def test_a_quantile_that_does_not_settle_is_never_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    # A start that is no number, as a library that fails might give it.
    monkeypatch.setattr(noise_laws.special, "gammainccinv", lambda shape, tail: math.nan)
    with pytest.raises(ConvergenceError), mp.workprec(200):
        noise_laws._gamma_tail_exactly(mp.mpf(1.5), mp.mpf(0.25))
