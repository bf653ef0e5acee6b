"""LATTICE: contributions, sums, clusters and noise in whole steps, held against exact arithmetic.

Oracles share no code with the package: mpmath in hundreds of bits, rational arithmetic in Python integers, and OpenDP's
exact discrete samplers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import mpmath as mp
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import special, stats

from pais import ConvergenceError, GaussianNoise, LpNoise, laplace_noise
from pais._base.lattice import Lattice, rounded_noise
from pais._base.randomness import BitSource
from pais.mechanisms import noise as noise_laws
from pais.mechanisms.noise import NoiseLaw
from tests.support.lattice_cases import seeded

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
ACCEPT = 1e-6
REJECT = 1e-12
# Bits of a uniform variable at hand in the constructed draws: the first 64, and two portions of 128.
LENGTH = 320
STEPS = 3.3 * 2**22
PRECISION = 700


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
    # If each coordinate has a uniform variable of its own, only the first one, which is at a boundary, needs bits.
    alone = law.n_uniforms(d) == d
    for draw in (below, above):
        bits = Scripted(draw.words, draw.portions[::d]) if alone else draw.bits()
        assert rounded_noise(law, (1, d), STEPS, bits)[0].tolist() == draw.rounded
        assert bits.portions_read == rounds * (1 if alone else law.n_uniforms(d))


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
@pytest.mark.parametrize("d", [1, 6])
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


@pytest.mark.slow
def test_the_normal_quantile_is_as_accurate_as_the_error_bound_assumes() -> None:
    tails = tail_probabilities(150)
    found = -special.ndtri(tails)
    with mp.workprec(300):
        for tail, point in zip(tails.tolist(), found.tolist(), strict=True):
            exact = mp.sqrt(2) * mp.erfinv(1 - 2 * mp.mpf(tail))
            assert abs(exact - point) <= mp.mpf(2) ** -49 * (1 + abs(exact))


@pytest.mark.slow
@pytest.mark.parametrize("bits", [256, 512])
def test_a_normal_quantile_has_all_digits_of_the_working_precision(bits: int) -> None:
    tails = [mp.mpf(tail) for tail in tail_probabilities(25).tolist()]
    tails += [mp.mpf(2) ** -power for power in (192, 700, 1030, 1500)]
    with mp.workprec(bits):
        points = [noise_laws._normal_exactly(tail) for tail in tails]
    with mp.workprec(2 * bits + 3000):
        for tail, point in zip(tails, points, strict=True):
            density = mp.exp(-point * point / 2) / mp.sqrt(2 * mp.pi)
            error = (mp.erfc(point / mp.sqrt(2)) / 2 - tail) / density
            assert abs(error) <= mp.mpf(2) ** (20 - bits) * (1 + point)


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


def test_quantile_without_convergence_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    # A start that is no number, as a library that fails might give it.
    monkeypatch.setattr(noise_laws.special, "gammainccinv", lambda shape, tail: math.nan)
    with pytest.raises(ConvergenceError), mp.workprec(200):
        noise_laws._gamma_tail_exactly(mp.mpf(1.5), mp.mpf(0.25))
    monkeypatch.setattr(noise_laws.special, "ndtri_exp", lambda tail: math.nan)
    with pytest.raises(ConvergenceError), mp.workprec(200):
        noise_laws._normal_exactly(mp.mpf(0.25))
