"""Permute-and-flip: choose one of several candidates by their secret scores, with exact probabilities."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import mpmath as mp
import numpy as np

from pais._base.lattice import IntArray, Tails, rounded_noise
from pais._base.numerics import FloatArray
from pais._base.randomness import BitSource
from pais._base.tape import current_tape
from pais.errors import ArgumentError

# An exponential variable of this scale, whatever its bits, stays below 2**62 steps but for a chance of exp(-256).
_LARGEST_SCALE = 2.0**54


@dataclass(frozen=True, kw_only=True)
class _Exponential:
    """An exponential variable minus half a step, so that rounding to the nearest step rounds the variable down."""

    scale: float

    def n_uniforms(self, d: int) -> int:
        return d

    def evaluate(self, tails: Tails) -> tuple[FloatArray, FloatArray]:
        size = -np.log(2.0 * tails.values())
        half = 0.5 / self.scale
        return size - half, 2.0 * tails.spread() + 2.0**-49 * (1.0 + size + half)

    def evaluate_exactly(self, tails: list[mp.mpf], signs: list[float]) -> list[mp.mpf]:
        half = 1 / (2 * mp.mpf(self.scale))
        return [-mp.log(2 * tail) - half for tail in tails]


def selection_scale(spread: int, epsilon: Fraction) -> float:
    """Scale at which a selection costs at most epsilon, if a record changes no two scores by more than `spread` apart.

    Raises if the scale is too large for 64-bit integers. All numbers are public.
    """
    quotient = Fraction(spread) / epsilon
    scale = float(quotient)
    if Fraction(scale) < quotient:
        scale = math.nextafter(scale, math.inf)  # [note: quantile-2]
    if scale > _LARGEST_SCALE:
        raise ArgumentError(f"epsilon={float(epsilon):.3g} is too small for 64-bit scores. Increase epsilon.")
    return scale


def permute_and_flip(scores: IntArray, scale: float, bits: BitSource) -> int:
    """Choose a candidate: each one below the best by g steps is accepted with probability exp(-g / scale).

    One of the accepted candidates is drawn at random, all with the same probability. The best are always accepted.

    Notes
    -----
    Guarantee. If the scores of two tables differ by numbers of which no two are more than s apart, the probabilities
    of any choice differ by a factor of at most exp(s / scale): `tests/theory/test_quantile.py`.
    """
    gaps = scores.max() - scores
    steps = rounded_noise(_Exponential(scale=scale), (scores.size, 1), scale, bits)[:, 0]
    accepted = np.flatnonzero(steps >= gaps)  # [note: quantile-1]
    choice = int(accepted[uniform_below(accepted.size, bits)])
    tape = current_tape()
    return choice if tape is None else tape.chosen(scores, choice, scale=scale)


def uniform_below(n: int, bits: BitSource) -> int:
    """A whole number in [0, n), each with exactly the same probability."""
    while True:
        # Words at or above the largest multiple of n are drawn again, so that no number is favoured.
        word = int(bits.words64(1)[0])
        if word < 2**64 - 2**64 % n:
            return word % n
