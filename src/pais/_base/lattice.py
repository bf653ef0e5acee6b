"""Whole steps: the lattice of sums and their noise, the tape of an audit, and sums by octave of the norm.

Values and noise are rounded to whole steps of a lattice, where sums are exact. A tape records each total, its noise and
the value that leaves, for the replay of an audit. A row is clipped at the upper edge of an octave by a power of two: a
row in a higher octave is scaled down by the quotient of the two edges. Sums of whole steps by octave are therefore
enough to clip at every edge afterwards.
"""

from __future__ import annotations

import contextlib
import functools
import math
import sys
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any, NamedTuple, Protocol, TypeVar

import mpmath as mp
import numpy as np
from numpy.typing import NDArray

from pais._base.numerics import FloatArray, round_up
from pais._base.randomness import BitSource
from pais.errors import ArgumentError

IntArray = NDArray[np.int64]

#: Number of lattice steps in one noise scale; fine enough that truncation is negligible next to the noise.
STEPS_PER_SCALE = 2**22

# An error bound too large for any decision, but finite, so that products with it are not NaN.
_UNBOUNDED = 1e100

# The bits of a word that belong to a tail; the first one is its sign.
_TAIL_BITS = np.uint64(2**63 - 1)

# The contributions of one record must fit into an integer, with room for the sign.
_MOST_STEPS = 2.0**62


@dataclass(frozen=True, kw_only=True)
class Tails:
    """The first 64 bits of uniform variables: a fair sign, and a tail probability in (0, 1/2) known to 2**-64.

    A real uniform variable has infinitely many bits. More of them are drawn when a result depends on them.
    """

    raw: NDArray[np.uint64]

    @classmethod
    def draw(cls, shape: tuple[int, ...], bits: BitSource) -> Tails:
        return cls(raw=bits.words64(math.prod(shape)).reshape(shape))

    @functools.cached_property
    def signs(self) -> FloatArray:
        """1 where the first bit is 1, and else -1."""
        return np.where(self.raw > _TAIL_BITS, 1.0, -1.0)

    @functools.cached_property
    def words(self) -> NDArray[np.uint64]:
        """The other 63 bits, which are those of the tail."""
        return self.raw & _TAIL_BITS

    def values(self) -> FloatArray:
        """Midpoints of the cells that contain the tails."""
        return (self.words.astype(np.float64) + 0.5) * 2.0**-64

    def spread(self) -> FloatArray:
        """Relative half-width of those cells; unbounded for the lowest cell, which reaches down to zero."""
        width: FloatArray = 0.5 / (self.words.astype(np.float64) + 0.5)
        width[self.words == 0] = _UNBOUNDED
        return width

    def complements(self) -> tuple[FloatArray, FloatArray]:
        """1 - 2 * tail, computed without cancellation, and the relative half-width of its cell."""
        left = (_TAIL_BITS - self.words).astype(np.float64) + 0.5
        return left * 2.0**-63, 0.5 / left


class Law(Protocol):
    """A noise distribution of scale 1, as a function of uniform variables."""

    def n_uniforms(self, d: int) -> int:
        """Number of uniform variables for one noise vector of d coordinates."""

    def evaluate(self, tails: Tails) -> tuple[FloatArray, FloatArray]:
        """Return one noise vector for each row of `tails`, and a bound on their absolute error."""

    def evaluate_exactly(self, tails: list[mp.mpf], signs: list[float]) -> list[mp.mpf]:
        """Return one noise vector in the working precision of mpmath."""


def rounded_noise(
    law: Law,
    shape: tuple[int, int],
    scale_in_steps: FloatArray | float,
    bits: BitSource,
    *,
    tails: Tails | None = None,
) -> IntArray:
    """Draw noise vectors of `law` times `scale_in_steps`, rounded to whole steps; their distribution is exact.

    The scale is one number, or one for each vector. Pass `tails` if the uniform variables were drawn before.

    For almost every draw, the value in doubles and its error bound determine on which side of a rounding boundary the
    exact value lies. Otherwise the draw is computed again from more bits of the same uniform variables.
    """
    n, d = shape
    scales = np.asarray(scale_in_steps, dtype=np.float64).reshape(-1, 1)
    tails = Tails.draw((n, law.n_uniforms(d)), bits) if tails is None else tails
    unit, error = law.evaluate(tails)
    scaled = unit * scales
    size, shifted = np.abs(scaled), np.add(scaled, 0.5, out=scaled)
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


class Named(NamedTuple):
    """What a replay has to know of totals that belong to names: a word for each name, and how many people have it.

    `delta` is the chance that a name of one person alone is published, which is paid for beside the noise.
    """

    keys: NDArray[np.uint64]
    owners: IntArray
    delta: float


class Tape(Protocol):
    """What a replay sees of a call: secret totals with their noise, choices, and the samples that were used."""

    #: Whether the audit is over. A task that a call has started may outlive it, and then makes ordinary releases.
    closed: bool

    def noisy(self, total: IntArray, noisy: IntArray, *, law: str, order: float, scales: FloatArray) -> IntArray:
        """Return the totals that leave, given the secret ones and those with noise.

        A row is one vector of whole steps; `scales` holds the scale of its noise in steps, in the norm `order`.
        """

    def named(
        self, total: IntArray, noisy: IntArray, names: Named, *, law: str, order: float, scales: FloatArray
    ) -> IntArray:
        """The same for totals of names of which only some are published. The tables may have different names."""

    def chosen(self, scores: IntArray, choice: int, *, scale: float) -> int:
        """Return the candidate that leaves, given the secret scores and the candidate that was chosen."""

    def begin_sample(self, content: Any, plan: Any) -> None:
        """Note that the following draws are made from the content of a sample, drawn by the rule of a plan."""

    def end_sample(self) -> None:
        """Note that the sample is spent."""


#: The tape of this thread, or None. An audit sets it. A global variable would also record, and force, the releases of
#: other threads; the threads of `pais._base.threads` inherit the tape of the thread that gives them work.
TAPE: ContextVar[Tape | None] = ContextVar("TAPE", default=None)


def current_tape() -> Tape | None:
    """The tape of a running audit, or None."""
    tape = TAPE.get()
    return None if tape is None or tape.closed else tape


@contextlib.contextmanager
def on_sample(content: Any, plan: Any) -> Iterator[None]:
    """Tell the tape, if there is one, that the draws in this block are made from a sample."""
    tape = current_tape()
    if tape is None:
        yield
        return
    tape.begin_sample(content, plan)
    try:
        yield
    finally:
        tape.end_sample()


# Twelve bins per octave, from 2^-100 to 2^100. The edges do not depend on the data.
BINS_PER_OCTAVE = 12
OCTAVES = 100
N_BINS = 2 * OCTAVES * BINS_PER_OCTAVE

# A cell of norms: all doubles with the same exponent and the same first five bits of the fraction.
_CELL_SHIFT = 47
_CELLS_PER_OCTAVE = 32
_LOWEST_CELL = (1023 - OCTAVES) * _CELLS_PER_OCTAVE

# A cell of powers: all doubles with the same exponent and the same first ten bits of the fraction.
_POWER_SHIFT = 42
_POWER_CELLS = 1024

# Larger than every relative difference between a rough norm and the norm in the fixed order, rounded up.
_SLACK = 2.0**-20

#: Upper edge of the last bin, to which larger numbers belong too.
WIDEST = 2.0**OCTAVES


def bin_of(norm: FloatArray) -> NDArray[np.intp]:
    """Index of the bin of each norm: its lower edge is at most the norm, and its upper edge is above the norm.

    This uses only bits and comparisons, because a logarithm can round differently at different places in an array.
    """
    cell = norm.view(np.int64) >> _CELL_SHIFT
    cell -= _LOWEST_CELL
    index = _first_bins().take(cell, mode="clip")
    index += edges()[1:].take(index) <= norm  # [note: survey-6]
    return np.minimum(index, N_BINS - 1, out=index)


def bins_of_powers(
    power: FloatArray, bins_per_octave: int, *, squared: bool, norms_at: Callable[[NDArray[np.intp]], FloatArray]
) -> NDArray[np.int16]:
    """Bin of the norm of each row, from its rough power; the number of bins for rows whose norm is NaN.

    The powers are norms, or their squares. The bin of most rows is that of every norm in the cell of their power. For
    the others, `norms_at` computes the norms, and these decide.
    """
    cell = (power.view(np.uint64) >> np.uint64(_POWER_SHIFT)).view(np.int64)
    cell -= (1023 - (2 if squared else 1) * OCTAVES) * _POWER_CELLS
    bins = _sure_bins(bins_per_octave, squared).take(cell, mode="clip")
    unsure = np.flatnonzero(bins < 0)
    if unsure.size:
        norm = norms_at(unsure)
        exact = bin_of(norm) // (BINS_PER_OCTAVE // bins_per_octave)
        bins[unsure] = np.where(np.isnan(norm), 2 * OCTAVES * bins_per_octave, exact)  # [note: survey-5]
    return bins


@functools.cache
def _sure_bins(bins_per_octave: int, squared: bool) -> NDArray[np.int16]:
    """The bin of all norms whose power is in a cell, or -1 if an edge is in it or near it.

    Smaller powers belong to the first cell, and larger ones, infinities and NaN to the last one, which has no bin.
    """
    octaves = 2 if squared else 1
    starts = np.ldexp(1.0 + np.arange(_POWER_CELLS) / _POWER_CELLS, np.arange(octaves)[:, None]).ravel()
    ends = np.append(starts[1:], 2.0**octaves)
    low, high = (
        bin_of((np.sqrt(power) if squared else power) * room) // (BINS_PER_OCTAVE // bins_per_octave)
        for power, room in ((starts, 1.0 - _SLACK), (ends, 1.0 + _SLACK))
    )
    first = OCTAVES * bins_per_octave
    sure = np.where(low == high, low - first, -2 * first)
    bins = np.maximum(sure + bins_per_octave * np.arange(2 * OCTAVES)[:, None], -1).ravel()
    # The first bin begins at zero.
    bins[0] = 0
    return bins.astype(np.int16)


def octave_of(size: FloatArray) -> NDArray[np.intp]:
    """Index of the octave of each nonnegative number: that of its bin, without the bins within it."""
    octave = size.view(np.int64) >> 52
    octave -= 1023 - OCTAVES
    return np.clip(octave, 0, 2 * OCTAVES - 1, out=octave)


@functools.cache
def edges() -> FloatArray:
    """Edges of the bins, correctly rounded, so that they are the same on every machine."""
    context = Context(prec=40)
    shares = [context.divide(Decimal(k), Decimal(BINS_PER_OCTAVE)) for k in range(BINS_PER_OCTAVE)]
    ratios = [float(context.power(Decimal(2), share)) for share in shares]
    octaves = np.arange(-OCTAVES, OCTAVES)[:, None]
    points: FloatArray = np.append(np.ldexp(np.array(ratios), octaves), 2.0**OCTAVES)
    points[0] = 0.0
    points.flags.writeable = False
    return points


@functools.cache
def _first_bins() -> NDArray[np.intp]:
    """The bin in which each cell of norms begins. Bins are wider than cells, so no cell contains two edges."""
    cells = _LOWEST_CELL + np.arange(2 * OCTAVES * _CELLS_PER_OCTAVE, dtype=np.int64)
    starts = (cells << _CELL_SHIFT).view(np.float64)
    return np.searchsorted(edges(), starts, side="right") - 1


Octaves = TypeVar("Octaves", int, NDArray[Any])

N_OCTAVES = 2 * OCTAVES

#: Rows are counted in this many bins per octave.
HALVES = 2

# This many octaves, a power of two, have steps of the same size, so that one factor scales most rows of a table. The
# norms from 2**-2 to 2**6 are such a group.
_SAME_STEP = 8
_GROUP_START = 2

# A row in the lowest octave of a group has less than 2**18 steps, so one in the highest has less than 2**25.
_STEP_BITS = 18

# Octaves with a smaller share of the rows are not worth a row of the matrix product. Chosen by eye.
_RARE = 1.0 / 64.0

# A lattice with more steps in one noise scale than this would not be more accurate.
_MOST_STEPS_PER_SCALE = 2.0**40

# From this number on, vectors are multiplied with a matrix together. For 8,192 rows of 16 numbers, a vector alone takes
# 12 microseconds, and two to four together take 48.
_FEW_VECTORS = 4

# Products of matrices up to this size run in one thread of BLAS, and their factors stay in the cache. Chosen by eye.
_PRODUCT_SIZE = 1 << 18


def steps_per_unit(octave: NDArray[np.integer]) -> FloatArray:
    """Number of steps in a length of 1, a power of two, for rows in these octaves."""
    return np.asarray(np.ldexp(1.0, OCTAVES - 1 + _STEP_BITS - first_octave(octave.astype(np.int32))))


def first_octave(octave: Octaves) -> Octaves:
    """The first of the octaves with steps of the same size."""
    return ((octave - _GROUP_START) & -_SAME_STEP) + _GROUP_START


def main_octaves(masses: IntArray) -> NDArray[np.intp]:
    """Octaves that have steps of one size and most of the mass, without rare ones.

    The last octave, which also has rows beyond its edge, is never among them.
    """
    by_octave = masses.reshape(N_OCTAVES, -1).sum(axis=1)
    by_octave[-1] = 0
    first = first_octave(np.arange(N_OCTAVES))
    most = first[np.argmax(np.bincount(first - first[0], by_octave)[first - first[0]])]
    return np.flatnonzero((first == most) & (by_octave >= _RARE * by_octave.sum()))


def add_steps(sums: IntArray, steps: FloatArray, octave: NDArray[np.integer], present: NDArray[np.integer]) -> None:
    """Add whole steps, of shape (n, d), to the sums of the octaves of their rows, if these are `present`."""
    n, d = steps.shape
    size = max(1, _PRODUCT_SIZE // (d * max(1, present.size)))
    for start in range(0, n, size):
        member = (octave[start : start + size] == present[:, None]).astype(np.float64)
        part = steps[start : start + size]
        # BLAS multiplies a matrix with few vectors faster one by one than together.
        total = np.stack([row @ part for row in member]) if len(member) < _FEW_VECTORS else member @ part
        # Products with 0 and 1 and sums of integers below 2**53 are exact in every order.
        sums[present] += total.astype(np.int64)  # [note: ladder-1]


@dataclass(frozen=True, kw_only=True)
class Rung:
    """The upper edge of an octave, at which rows are clipped. Public.

    Notes
    -----
    Guarantee. A record changes `total` by a vector of norm at most `reach`: `tests/theory/test_ladder.py`.
    """

    octave: int
    order: float

    @property
    def radius(self) -> float:
        return math.ldexp(1.0, self.octave + 1 - OCTAVES)

    def lattice(self, noise_scale: float) -> Lattice:
        """The lattice of the total: the steps of the sums, or larger ones if the noise is large."""
        largest = math.floor(math.log2(noise_scale / _MOST_STEPS_PER_SCALE))
        return Lattice(step=math.ldexp(1.0, max(self.octave + 1 - OCTAVES - _STEP_BITS, largest)))

    def reach(self, lattice: Lattice, d: int) -> float:
        """Largest norm of the change that a record causes: the radius, and one step in every coordinate."""
        steps = d ** (0.0 if math.isinf(self.order) else 1.0 / self.order)
        return float(round_up(np.array(self.radius + lattice.step * steps), 16.0))  # [note: ladder-3]

    def total(self, sums: IntArray, lattice: Lattice) -> IntArray:
        """Sum of the clipped rows in whole steps of the lattice, rounded down."""
        total, at = np.zeros_like(sums[0]), -2 * OCTAVES
        # The exponent of the length of a step of each octave, after its rows are scaled down to the edge.
        exponents = [
            (first_octave(octave) + 1 - OCTAVES - _STEP_BITS - max(octave - self.octave, 0), octave)
            for octave in np.flatnonzero(sums.any(axis=1)).tolist()
        ]
        for exponent, octave in sorted(exponents):
            # From small steps to large ones. To round down each time is to round down once, at the end.
            total = (total >> min(exponent - at, 63)) + sums[octave]  # [note: ladder-2]
            at = exponent
        return np.asarray(total >> min(math.frexp(lattice.step)[1] - 1 - at, 63))
