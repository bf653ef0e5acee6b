"""Sums and noise on an integer lattice, so that floating-point rounding cannot leak private information.

Contributions are truncated toward zero to whole steps and added as integers. Then whole steps of noise are added. The
released value has the distribution of the ideal real-valued mechanism rounded to the lattice: see
`docs/theory/notes/lattice.md`.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import Protocol

import mpmath as mp
import numpy as np
from numpy.typing import NDArray

from pais._base.numerics import FloatArray
from pais._base.randomness import BitSource
from pais.errors import ArgumentError

IntArray = NDArray[np.int64]

#: Number of lattice steps in one noise scale; fine enough that truncation is negligible next to the noise.
STEPS_PER_SCALE = 2**22

# An error bound too large for any decision, but finite, so that products with it are not NaN.
_UNBOUNDED = 1e100

# The contributions of one record must fit into an integer, with room for the sign.
_MOST_STEPS = 2.0**62


@dataclass(frozen=True, kw_only=True)
class Tails:
    """The first 64 bits of uniform variables: a fair sign, and a tail probability in (0, 1/2) known to 2**-64.

    A real uniform variable has infinitely many bits. More of them are drawn when a result depends on them.
    """

    signs: FloatArray
    words: NDArray[np.uint64]

    @classmethod
    def draw(cls, shape: tuple[int, ...], bits: BitSource) -> Tails:
        raw = bits.words64(math.prod(shape)).reshape(shape)
        signs = np.where(raw >> np.uint64(63), 1.0, -1.0)
        return cls(signs=signs, words=raw & np.uint64(2**63 - 1))

    def values(self) -> FloatArray:
        """Midpoints of the cells that contain the tails."""
        return (self.words.astype(np.float64) + 0.5) * 2.0**-64

    def spread(self) -> FloatArray:
        """Relative half-width of those cells; unbounded for the lowest cell, which reaches down to zero."""
        return np.where(self.words == 0, _UNBOUNDED, 0.5 / (self.words.astype(np.float64) + 0.5))

    def complements(self) -> tuple[FloatArray, FloatArray]:
        """1 - 2 * tail, computed without cancellation, and the relative half-width of its cell."""
        left = (np.uint64(2**63 - 1) - self.words).astype(np.float64) + 0.5
        return left * 2.0**-63, 0.5 / left


class Law(Protocol):
    """A noise distribution of scale 1, as a function of uniform variables."""

    def n_uniforms(self, d: int) -> int:
        """Number of uniform variables for one noise vector of d coordinates."""

    def evaluate(self, tails: Tails) -> tuple[FloatArray, FloatArray]:
        """Return one noise vector for each row of `tails`, and a bound on their absolute error."""

    def evaluate_exactly(self, tails: list[mp.mpf], signs: list[float]) -> list[mp.mpf]:
        """Return one noise vector in the working precision of mpmath."""


def rounded_noise(law: Law, shape: tuple[int, int], scale_in_steps: FloatArray | float, bits: BitSource) -> IntArray:
    """Draw noise vectors of `law` times `scale_in_steps`, rounded to whole steps; their distribution is exact.

    The scale is one number, or one for each vector.

    For almost every draw, the value in doubles and its error bound determine on which side of a rounding boundary the
    exact value lies. Otherwise the draw is computed again from more bits of the same uniform variables.
    """
    n, d = shape
    scales = np.asarray(scale_in_steps, dtype=np.float64).reshape(-1, 1)
    tails = Tails.draw((n, law.n_uniforms(d)), bits)
    unit, error = law.evaluate(tails)
    scaled = unit * scales
    size, shifted = np.abs(scaled), scaled + 0.5
    slack = error * scales + size * 2.0**-50
    doubtful = np.abs(shifted - np.rint(shifted)) <= slack  # [note: lattice-2]
    beyond = size >= _MOST_STEPS
    doubtful |= beyond
    shifted[beyond] = 0.0
    result: IntArray = np.floor(shifted).astype(np.int64)
    if not doubtful.any():
        return result
    scales = np.broadcast_to(scales, (n, 1))
    if law.n_uniforms(d) == d:
        # Each coordinate depends on one uniform variable alone, so only the doubtful coordinates are computed again.
        for row, column in np.argwhere(doubtful).tolist():
            result[row, column] = _settled(law, tails, (row, slice(column, column + 1)), float(scales[row, 0]), bits)[0]
    else:
        for row in np.flatnonzero(np.any(doubtful, axis=1)).tolist():
            result[row] = _settled(law, tails, (row, slice(None)), float(scales[row, 0]), bits)
    return result


def _settled(law: Law, tails: Tails, which: tuple[int, slice], scale_in_steps: float, bits: BitSource) -> list[int]:
    """Compute one noise vector, or one coordinate of it, drawing as many more bits as its rounding needs."""
    known = [int(word) for word in tails.words[which]]
    signs = tails.signs[which].tolist()
    length = 64
    while True:
        known = [(word << 128) | int.from_bytes(bits.raw(16), "little") for word in known]
        length += 128
        with mp.workprec(length + 64):
            middle = [(mp.mpf(word) + mp.mpf(0.5)) / mp.mpf(2) ** length for word in known]
            vector = [scale_in_steps * value + mp.mpf(0.5) for value in law.evaluate_exactly(middle, signs)]
            # Leading zeros, or leading ones near 1/2, make the relative uncertainty larger.
            sure = min(min(word, 2 ** (length - 1) - 1 - word).bit_length() for word in known)
            slack = mp.mpf(2) ** (40 - sure) * (1 + abs(mp.mpf(scale_in_steps)))
            if all(abs(value - mp.nint(value)) > slack for value in vector):  # [note: lattice-3]
                return [modulo(int(mp.floor(value))) for value in vector]


def modulo(steps: int) -> int:
    """The number of 64 bits that is equal modulo 2**64, as the sum to which the noise is added."""
    return (steps + 2**63) % 2**64 - 2**63  # [note: lattice-5]


@dataclass(frozen=True, kw_only=True)
class Lattice:
    """The integer multiples of a public step."""

    step: float

    @classmethod
    def for_scale(cls, scale: float) -> Lattice:
        """Build the lattice for a noise scale. The step is a power of two, so that converting back is exact."""
        finest = scale / STEPS_PER_SCALE
        if finest < sys.float_info.min:
            raise ArgumentError(f"the noise scale {scale!r} is too small for a lattice. Increase the noise.")
        return cls(step=2.0 ** math.floor(math.log2(finest)))

    def require(self, largest: float) -> None:
        """Raise an error if contributions up to `largest` do not fit into integers. Uses public numbers only."""
        if largest / self.step >= _MOST_STEPS:  # [note: lattice-4]
            raise ArgumentError(
                f"a contribution of up to {largest:.3g} does not fit into 64-bit integers with a lattice step of "
                f"{self.step:.3g}. Increase the noise, or reduce the radius or the largest weight."
            )

    def encode(self, contributions: FloatArray) -> IntArray:
        """Convert contributions to whole steps, truncated toward zero, so that no coordinate and no norm ever grows."""
        return np.trunc(contributions / self.step).astype(np.int64)  # [note: lattice-1]

    def decode(self, steps: IntArray) -> FloatArray:
        """Convert released steps to doubles. This is post-processing."""
        return steps.astype(np.float64) * self.step
