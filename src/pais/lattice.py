"""Sums and noise on an integer lattice, so that floating point cannot betray a release.

Contributions are truncated toward zero to whole steps, added as integers, and whole steps of noise are added. What
leaves has the law of the ideal real-valued mechanism rounded to the lattice: see `docs/theory/lattice.md`.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import Protocol

import mpmath as mp
import numpy as np
from numpy.typing import NDArray

from pais._numerics import FloatArray
from pais.errors import ArgumentError
from pais.randomness import BitSource

IntArray = NDArray[np.int64]

#: Steps of the lattice in one noise scale: fine enough that truncation is invisible beside the noise.
STEPS_PER_SCALE = 2**22

# Larger than any error that could be decided with, and finite, so that no product of it is NaN.
_UNBOUNDED = 1e100

# Contributions of one record must fit an integer with room for the sign.
_MOST_STEPS = 2.0**62


@dataclass(frozen=True, kw_only=True)
class Tails:
    """Uniform variables revealed to 64 bits: a fair sign, and a tail probability in (0, 1/2) known to 2**-64.

    A real uniform variable U is never finished; more of its bits are drawn when a result depends on them.
    """

    signs: FloatArray
    words: NDArray[np.uint64]

    @classmethod
    def draw(cls, shape: tuple[int, ...], bits: BitSource) -> Tails:
        raw = bits.words64(int(np.prod(shape))).reshape(shape)
        signs = np.where(raw >> np.uint64(63), 1.0, -1.0)
        return cls(signs=signs, words=raw & np.uint64(2**63 - 1))

    def values(self) -> FloatArray:
        """Middles of the cells the tails are known to lie in."""
        return (self.words.astype(np.float64) + 0.5) * 2.0**-64

    def spread(self) -> FloatArray:
        """Relative half-width of those cells; of the lowest, which reaches down to zero, without bound."""
        return np.where(self.words == 0, _UNBOUNDED, 0.5 / (self.words.astype(np.float64) + 0.5))

    def complements(self) -> tuple[FloatArray, FloatArray]:
        """1 - 2 * tail, without cancellation, and the relative half-width of its cell."""
        left = (np.uint64(2**63 - 1) - self.words).astype(np.float64) + 0.5
        return left * 2.0**-63, 0.5 / left


class Law(Protocol):
    """A law of noise of scale 1, as a function of uniform variables."""

    def n_uniforms(self, d: int) -> int:
        """Uniform variables for one noise vector of d coordinates."""

    def evaluate(self, tails: Tails) -> tuple[FloatArray, FloatArray]:
        """Noise vectors, one for each row of `tails`, and a bound on their absolute error."""

    def evaluate_exactly(self, tails: list[mp.mpf], signs: list[float]) -> list[mp.mpf]:
        """One noise vector in the working precision of mpmath."""


def rounded_noise(law: Law, shape: tuple[int, int], scale_in_steps: float, bits: BitSource) -> IntArray:
    """Noise of `scale_in_steps` times `law`, rounded to whole steps; exact in law.

    Doubles decide almost every draw: the value and its error bound leave no doubt on which side of a rounding boundary
    it lies. A draw in doubt is computed anew from the same uniform variables with more of their bits.
    """
    n, d = shape
    tails = Tails.draw((n, law.n_uniforms(d)), bits)
    unit, error = law.evaluate(tails)
    scaled = unit * scale_in_steps
    slack = error * scale_in_steps + np.abs(scaled) * 2.0**-50
    noise = np.floor(scaled + 0.5)
    doubtful = np.abs(scaled + 0.5 - np.rint(scaled + 0.5)) <= slack  # [note: lattice-2]
    result: IntArray = noise.astype(np.int64)
    for row in np.flatnonzero(np.any(doubtful, axis=1)):
        result[row] = _settled(law, tails, int(row), scale_in_steps, bits)
    return result


def _settled(law: Law, tails: Tails, row: int, scale_in_steps: float, bits: BitSource) -> list[int]:
    """One noise vector, with as many more bits as its rounding needs."""
    known = [int(word) for word in tails.words[row]]
    signs = tails.signs[row].tolist()
    length = 64
    while True:
        known = [(word << 128) | int.from_bytes(bits.raw(16), "little") for word in known]
        length += 128
        with mp.workprec(length + 64):
            middle = [(mp.mpf(word) + mp.mpf(0.5)) / mp.mpf(2) ** length for word in known]
            vector = [scale_in_steps * value + mp.mpf(0.5) for value in law.evaluate_exactly(middle, signs)]
            # Leading zeros, or ones next to 1/2, leave a larger part hidden.
            sure = min(min(word, 2 ** (length - 1) - 1 - word).bit_length() for word in known)
            slack = mp.mpf(2) ** (40 - sure) * (1 + abs(mp.mpf(scale_in_steps)))
            if all(abs(value - mp.nint(value)) > slack for value in vector):  # [note: lattice-3]
                return [int(mp.floor(value)) for value in vector]


@dataclass(frozen=True, kw_only=True)
class Lattice:
    """Whole multiples of a public step."""

    step: float

    @classmethod
    def for_scale(cls, scale: float) -> Lattice:
        """The lattice for noise of a scale; the step is a power of two, so that values come back exactly."""
        finest = scale / STEPS_PER_SCALE
        if finest < sys.float_info.min:
            raise ArgumentError(f"scale={scale!r} of the noise is too small for a lattice. Raise the noise.")
        return cls(step=2.0 ** math.floor(math.log2(finest)))

    def require(self, largest: float) -> None:
        """Refuse, from public numbers, contributions that integers could not hold."""
        if largest / self.step >= _MOST_STEPS:  # [note: lattice-4]
            raise ArgumentError(
                f"a contribution of up to {largest:.3g} with a lattice step of {self.step:.3g} does not fit 64-bit "
                "integers. Raise the noise, or lower the radius or the largest weight."
            )

    def encode(self, contributions: FloatArray) -> IntArray:
        """Contributions in whole steps, truncated toward zero: no coordinate, hence no norm, ever grows."""
        return np.trunc(contributions / self.step).astype(np.int64)  # [note: lattice-1]

    def decode(self, steps: IntArray) -> FloatArray:
        """Released values as doubles; post-processing."""
        return steps.astype(np.float64) * self.step

    def steps(self, scale: float) -> float:
        return scale / self.step
