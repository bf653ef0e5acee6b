"""A draw is the exact comparison of a uniform real number with a probability, row by row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from pais import sample
from pais._base.randomness import BitSource, bernoulli
from tests.support.sampler_cases import (
    BALL,
    CELLS,
    COARSE_BITS,
    TOP,
    ScriptedBits,
    as_coarse,
    coarse_words,
    coreset,
    opened,
    positions,
    rows_in_ball,
    served,
)

Floats = NDArray[np.float64]


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


def test_undecided_draws_do_not_affect_each_other() -> None:
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
