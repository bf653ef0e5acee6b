"""Totals over all rows of people: each person is one record, whose vector over groups and coordinates is bounded.

The rows of a person are added up first. A block of the vector is a few coordinates for every group. Its norm is bounded
as a whole, by scaling the block down. So a person moves the totals of a block by at most the bound, with any number of
rows in any groups, and noise in proportion to the bound protects the person. A bound that is not stated is chosen from
noisy numbers of people by their norm.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pais._base import validate
from pais._base.lattice import BINS_PER_OCTAVE, OCTAVES, IntArray, Lattice, bin_of, edges
from pais._base.numerics import FloatArray
from pais._base.randomness import BitSource
from pais.data.ball import Ball
from pais.data.engines.base import AllRows, Contributions, PeopleFold, PeopleTable
from pais.errors import ArgumentError, MismatchError
from pais.mechanisms.base import Extent, added
from pais.mechanisms.blocks import Block, Levels, VectorStatistic, grouped, stored_names
from pais.mechanisms.noise import GaussianNoise, GeometricNoise, NoiseLaw, exact_quotient
from pais.planning.facts import NoisyCounts
from pais.planning.tails import Beyond, Tail, most_unseen

#: Whole steps of a row. The steps of eight billion rows fit into 64 bits.
STEPS_PER_ROW = 1 << 30

# Doubles hold whole numbers below this exactly, and so sums of them in any order.
_EXACT = 2.0**53

# Scaled steps are multiplied by this, more than all rounding errors of a quotient and a product.
_ROOM = 1.0 - 2.0**-50

#: Names of totals about people, for certificates and ledgers.
NAMES = ("counts of people", "counts of rows", "sums of people", "histogram of rows")


@dataclass(frozen=True, kw_only=True)
class RowSteps(Contributions):
    """What a row adds to the vector of its person: the steps of each block, in the group of the row."""

    blocks: tuple[Block, ...]
    by: tuple[Levels, ...] = ()

    @property
    def width(self) -> int:
        """Number of coordinates of a group."""
        return sum(block.size for block in self.blocks)

    @property
    def n_groups(self) -> int:
        return math.prod(column.n_levels for column in self.by)

    @property
    def block_of(self) -> NDArray[np.intp]:
        """The number of the block of each coordinate of a group."""
        return np.repeat(np.arange(len(self.blocks)), [block.size for block in self.blocks])

    def entries(self, rows: FloatArray) -> list[tuple[IntArray, IntArray]]:
        group, whole = grouped(rows, np.full(len(rows), STEPS_PER_ROW, dtype=np.int64), self.by)
        first, entries = 0, []
        for block in self.blocks:
            for position, steps in block.steps(rows, whole):
                entries.append((group * self.width + first + position, steps))
            first += block.size
        return entries


@dataclass(frozen=True, kw_only=True, repr=False)
class _Vectors:
    """The vectors of all people, block by block, with their norms in steps, rounded up. Secret."""

    table: PeopleTable
    steps: IntArray
    # By entry: the number of its person and block, and how many of these there are.
    place: NDArray[np.intp]
    blocks: NDArray[np.intp]
    norms: FloatArray

    @classmethod
    def of(cls, table: PeopleTable, shape: RowSteps, *, order: float, presence: bool) -> _Vectors:
        """The vectors of a table; with `presence`, 1 for each coordinate at which a person has rows."""
        steps = np.where(table.steps > 0, STEPS_PER_ROW, 0) if presence else table.steps
        block = shape.block_of.take(table.coordinates % shape.width)
        named, place = np.unique(table.owners * len(shape.blocks) + block, return_inverse=True)
        size = np.abs(steps.astype(np.float64))
        # The powers of a person are added in the order of the coordinates, whatever other people there are.
        total = np.bincount(place, size if order == 1.0 else size * size, minlength=named.size)  # [note: totals-2]
        slack = 1.0 + (8.0 + shape.n_groups * shape.width) * 2.0**-52
        norms = np.where(total < _EXACT, total, total * slack) if order == 1.0 else np.sqrt(total) * slack
        return cls(table=table, steps=steps, place=place, blocks=named % len(shape.blocks), norms=norms)

    def bounded(self, bounds: IntArray, *, alone: NDArray[np.bool_]) -> IntArray:
        """The steps of each entry, scaled so that the norm of each block is at most its bound, in whole steps.

        A block of a single coordinate, marked in `alone`, is cut at the bound.
        """
        bound = bounds.take(self.blocks)
        with np.errstate(divide="ignore"):
            factor = np.where(self.norms > bound, bound / self.norms * _ROOM, 1.0).take(self.place)
        scaled = np.where(factor < 1.0, np.trunc(self.steps * factor), self.steps).astype(np.int64)  # [note: totals-3]
        limit = bound.take(self.place)
        cut = np.clip(self.steps, -limit, limit)  # [note: totals-4]
        return np.where(alone.take(self.blocks).take(self.place), cut, scaled)


@dataclass(frozen=True, kw_only=True)
class BoundedTotals(PeopleFold):
    """Sum over people of their bounded vectors, in whole steps of a lattice."""

    contributions: RowSteps
    order: float
    presence: bool
    bounds: tuple[int, ...]
    # Steps of a row in a step of the lattice.
    coarser: int

    def over_people(self, table: PeopleTable) -> IntArray:
        shape = self.contributions
        vectors = _Vectors.of(table, shape, order=self.order, presence=self.presence)
        alone = np.array([shape.n_groups * block.size == 1 for block in shape.blocks])
        steps = vectors.bounded(np.array(self.bounds, dtype=np.int64), alone=alone)
        total = np.zeros(shape.n_groups * shape.width, dtype=np.int64)
        # Toward zero, so that no norm grows.
        np.add.at(total, table.coordinates, np.sign(steps) * (np.abs(steps) // self.coarser))  # [note: totals-5]
        return total


# The octaves of the norms of people, in rows: from one step to all steps that 64 bits hold.
_FIRST_OCTAVE, _N_OCTAVES = 70, 64


@dataclass(frozen=True, kw_only=True)
class NormsOfPeople(PeopleFold):
    """Number of people by the norm of each block, of shape (blocks, signs, 1 + bins), in one array.

    The first bin is for people whose norm is 0. The second sign has people whose vector adds up to less than 0; it is
    left out if there are several groups or coordinates. With `by_size`, the bins are numbers of groups, from 0 on.

    Notes
    -----
    Guarantee. A person changes at most one bin of each block, by one: `tests/theory/test_people_totals.py`.
    """

    contributions: RowSteps
    order: float
    presence: bool = False
    by_size: bool = False
    bins_per_octave: int = 1

    @property
    def n_bins(self) -> int:
        return 1 + (self.contributions.n_groups if self.by_size else _N_OCTAVES * self.bins_per_octave)

    @property
    def n_signs(self) -> int:
        shape = self.contributions
        return 2 if any(block.is_signed and shape.n_groups * block.size == 1 for block in shape.blocks) else 1

    def over_people(self, table: PeopleTable) -> IntArray:
        shape = self.contributions
        vectors = _Vectors.of(table, shape, order=self.order, presence=self.presence)
        sums = np.bincount(vectors.place, vectors.steps.astype(np.float64), minlength=vectors.norms.size)
        if self.by_size:
            bins = np.rint(sums / STEPS_PER_ROW).astype(np.int64)
        else:
            number = bin_of(vectors.norms / STEPS_PER_ROW) // (BINS_PER_OCTAVE // self.bins_per_octave)
            number -= _FIRST_OCTAVE * self.bins_per_octave
            bins = np.where(vectors.norms > 0.0, 1 + np.clip(number, 0, self.n_bins - 2), 0)
        sign = (sums < 0.0) & (self.n_signs == 2)
        number = (vectors.blocks * self.n_signs + sign) * self.n_bins + bins
        n_bins = len(shape.blocks) * self.n_signs * self.n_bins
        return np.bincount(number, minlength=n_bins).astype(np.int64)  # [note: totals-6]


@stored_names(NAMES)
@dataclass(frozen=True, kw_only=True)
class PeopleTotals(VectorStatistic):
    """Noisy totals over all rows of people, for each group.

    Parameters
    ----------
    name : str
        Name of the statistic, such as "sums of people".
    blocks, by : tuples
        As in `VectorStatistic`.
    noise : LpNoise of order 1, GeometricNoise or GaussianNoise
        Noise of a total that a person changes by at most 1. A block has `factor` times its bound times this noise.
    bounds : tuple of float
        Bound on the norm of what a person adds to each block, over all groups, in rows: l1 for pure noise and l2 for
        Gaussian noise. Choose them without the rows, or from released values.
    presence : bool
        Whether a person adds 1 to each group in which they have rows, instead of the rows themselves.

    Notes
    -----
    Guarantee. A person with any rows changes the totals of a block by at most its bound, so that all blocks together
    cost what a count with this noise costs: `tests/theory/test_people_totals.py`.
    """

    bounds: tuple[float, ...]
    presence: bool = False
    protects_units = True
    streams = True
    names: ClassVar[tuple[str, ...]] = NAMES

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "bounds", tuple(validate.positive("a bound", bound) for bound in self.bounds))
        if len(self.bounds) != len(self.blocks):
            raise ArgumentError("each block needs a bound on what a person adds. Pass as many bounds as blocks.")
        if any(not 1.0 <= bound * STEPS_PER_ROW < 2.0**62 for bound in self.bounds):
            raise ArgumentError("a bound on what a person adds is in rows. Pass a number from 1e-9 to 4e9.")

    @property
    def _norm_order(self) -> float:
        return 2.0 if isinstance(self.noise, GaussianNoise) else 1.0

    @property
    def lattice(self) -> Lattice:
        """Steps of the totals: whole rows for geometric noise, and a small part of a row otherwise."""
        if isinstance(self.noise, GeometricNoise):
            return self.noise.lattice
        finest = max(min(self.block_scales), 1.0)
        return Lattice(step=min(2.0 ** math.floor(math.log2(finest)), float(STEPS_PER_ROW)) / STEPS_PER_ROW)

    @property
    def _units(self) -> list[float]:
        """What multiplies the noise of each block."""
        return [block.factor * bound for block, bound in zip(self.blocks, self.bounds, strict=True)]

    @property
    def block_scales(self) -> list[float]:
        return [self.noise.scale * unit for unit in self._units]

    def require_lattice(self, extent: Extent) -> None:
        self.lattice.require(max(self.bounds))

    def exact_epsilon(self, ball: Ball) -> Fraction | None:
        laws = [replace(self.noise, scale=scale) for scale in self.block_scales]  # type: ignore[type-var]
        pairs = zip(self.bounds, laws, strict=True)
        return added([exact_quotient(bound, law) for bound, law in pairs])  # [note: totals-7]

    def measure(self, content: Any, ball: Ball, bits: BitSource) -> FloatArray:
        """Return the noisy totals, of shape (groups, coordinates)."""
        if not isinstance(content, AllRows) or content.engine.unit is None:
            raise MismatchError("totals about people need all rows and a unit. Open the source with unit=.")
        fold = BoundedTotals(
            ball=ball,
            contributions=RowSteps(blocks=self.blocks, by=self.by),
            order=self._norm_order,
            presence=self.presence,
            bounds=tuple(math.floor(bound * STEPS_PER_ROW) for bound in self.bounds),
            coarser=int(self.lattice.step * STEPS_PER_ROW),
        )
        total = content.total_of_people(fold)
        units = np.tile(np.repeat(self._units, [block.size for block in self.blocks]), self.n_groups)
        noisy = self.noise.added_to(total[:, None], self.lattice, bits, unit=units)
        return self.lattice.decode(noisy).reshape(self.n_groups, -1)

    def add(self, rows: FloatArray, weights: FloatArray) -> IntArray:
        raise MismatchError("totals about people add up the rows of each person first. Run the plan on a source.")

    def in_rows(self, value: Any, max_rows: int) -> Any:
        return value


# -- the choice of a bound ---------------------------------------------------------------------------------------

#: Up to this many groups, people are counted by the number of their groups, and by octaves of it from there on.
MOST_SIZES = 16

# Possible bounds: this many octaves below and above the largest norm that is seen, in twelfths.
_BELOW, _ABOVE = 7, 4

# The smallest and the largest bound, in rows.
_LEAST, _MOST = 2.0**-24, 2.0**31

# Where what is cut off is shared over groups, relative error of the shares: to choose a bound, and in intervals. Chosen
# on people with a home group and geometric, lognormal and Zipf numbers of rows: docs/theory/notes/totals.md.
_SPLIT_CHOICE, SPLIT_ERROR = 0.3, 0.7

# Part of the predicted error of what is cut off that counts in the choice of a bound: it is predicted with caution.
# Chosen with the share of the histogram for error and coverage of sums and numbers of rows with geometric, gamma and
# lognormal tails and with one row each, at epsilon 0.3 to 3.
_CAUTION = 0.35

# People beyond the bound whom noise hides: in how many bins beyond the last clear one intervals allow for them, for how
# many deviations of the noise more than the released numbers, and the deviations of an interval of 95 %. Chosen with
# the share of the histogram for the coverage of numbers of rows where none or 5 to 50 of 6,000 people have 21 to 58
# rows, at epsilon 0.3 to 3: docs/theory/notes/totals.md.
_HIDDEN_BINS, _HIDDEN_NOISE, _IN_INTERVAL = 2, 1.3, 1.96

# Sizes of people are seen if as many people as this many deviations of the noise have them or larger ones.
_SEEN = 3.0

# Where the numbers of people by the number of their groups are not seen: the first of them relative to the largest that
# is seen, the factor from one to the next, and how much more weight than another continuation "nobody" has. Chosen for
# the coverage of numbers of people in 4 to 16 groups, with one group each or 1.5 to 4 on average, at epsilon 0.05 to 1.
_FIRSTS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
_FALLS = (0.05, 0.3, 0.5, 0.7, 0.85, 1.0)
_NOBODY = 20.0

# A tail that falls more slowly than this power of the norm, and of which much is not seen, makes a warning. Chosen by
# eye (b4f1a5f).
_HEAVY, _MUCH_UNSEEN = 2.5, 0.3

# The bound, in rows, if nothing stands out of the noise. Chosen by eye (b4f1a5f).
_UNSEEN_BOUND = 4.0


@dataclass(frozen=True, kw_only=True)
class Bound:
    """A bound on the norm of what a person adds to a block, and what it cuts off. Public; amounts are in rows.

    Attributes
    ----------
    size : float
        The bound.
    cut, cut_deviation : float
        Expected sum of what is cut off, with its sign, and its standard deviation; both 0 if the bound is stated.
    added_back : bool
        Whether the expected sum is added to the released totals. Otherwise it is a bias that widens the intervals.
    n_people, n_zero : float, optional
        Released number of people with a norm above 0, and with norm 0; None if they were not counted.
    hidden_below, hidden_above : float
        What people whom noise hides may lower or raise the total by, as deviations of an end of the interval.
    reach : float
        The norm up to which people are allowed for in `hidden_below` and `hidden_above`.
    most_hidden : float
        The number of people with a far larger norm, all alike, that noise hides with a probability of 5 %; 0 if no
        norm can be far larger.
    concern : str
        "unseen" if no people stand out of the noise, "heavy" if a few people may hold much of the total.
    """

    size: float
    cut: float = 0.0
    cut_deviation: float = 0.0
    added_back: bool = False
    n_people: float | None = None
    n_zero: float = 0.0
    hidden_below: float = 0.0
    hidden_above: float = 0.0
    reach: float = math.inf
    most_hidden: float = 0.0
    concern: str = ""


@dataclass(frozen=True, kw_only=True)
class Totals:
    """What is public about the totals of a block.

    Attributes
    ----------
    n_coordinates : int
        Number of totals, over all groups.
    sign : int
        1 or -1 if a person adds only amounts of this sign, 0 if both are possible.
    whole : bool
        Whether a person adds whole numbers of rows.
    noise : NoiseLaw
        The noise of a total that a person changes by at most 1.
    pure : bool
        Whether norms are l1 norms, the sum of absolute values.
    """

    n_coordinates: int
    sign: int
    whole: bool
    noise: NoiseLaw
    pure: bool

    @property
    def adds_back(self) -> bool:
        """Whether the excess of a norm over the bound is what the person's total loses."""
        return self.n_coordinates == 1 or (self.pure and self.sign != 0)  # [note: totals-8]

    @property
    def per_norm(self) -> float:
        """What a vector loses in all totals together for each unit of its norm.

        An l2 norm of 1 over k totals is a sum between 1 and the root of k, of which this is the middle.
        """
        return 1.0 if self.pure else self.n_coordinates**0.25

    def noise_of(self, bounds: FloatArray) -> FloatArray:
        """Variance of the noise of all totals together, for each bound."""
        return np.asarray(self.n_coordinates * (self.noise.deviation(1) * bounds) ** 2)


def bound_from_octaves(counts: FloatArray, law: NoiseLaw, totals: Totals) -> Bound:
    """Choose a bound from noisy numbers of people by sign and octave of their norm, of shape (signs, 1 + octaves).

    The first bin of each sign is for people whose norm is 0. With one row of bins, all people have the sign of the
    totals, or signs are not told apart.
    """
    zero, signs = float(counts[0, 0]), [totals.sign or 1] if len(counts) == 1 else [1, -1]
    noisy = [_octaves(side[1:], law) for side in counts]
    sides = [(Tail.of(side), sign) for side, sign in zip(noisy, signs, strict=True)]
    most_hidden = sum(most_unseen(side) for side in noisy)
    tails = [(tail, sign) for tail, sign in sides if tail is not None and sign * totals.sign >= 0]
    if not tails:
        return replace(_unseen(totals, law, zero), most_hidden=most_hidden)
    bounds = max(tail.top for tail, _ in tails) * np.exp2(np.arange(-12 * _BELOW, 12 * _ABOVE + 1) / 12.0)
    bounds = np.unique(np.clip(np.maximum(np.rint(bounds), 1.0) if totals.whole else bounds, _LEAST, _MOST))
    parts = [_beyond(_without_single_rows(tail) if totals.whole else tail, bounds, totals.whole) for tail, _ in tails]
    cut = np.sum([sign * part.expected for part, (_, sign) in zip(parts, tails, strict=True)], axis=0)
    variance = np.sum([part.variance for part in parts], axis=0)
    predicted = np.sum([part.predicted for part in parts], axis=0)
    if totals.adds_back:
        error = _CAUTION * (predicted + (_SPLIT_CHOICE * cut) ** 2 * (totals.n_coordinates > 1))
    else:
        error = predicted + cut**2
    best = int(np.argmin(totals.noise_of(bounds) + totals.per_norm**2 * error))
    much = _MUCH_UNSEEN * totals.noise.deviation(1) * bounds[best]
    size = float(bounds[best])
    hidden = [
        (sign, *_hidden(side, tail, size))
        for side, (tail, sign) in zip(noisy, sides, strict=True)
        if sign * totals.sign >= 0
    ]
    pairs = zip(parts, tails, strict=True)
    heavy = any(tail.exponent < _HEAVY and part.unseen[best] > much for part, (tail, _) in pairs)
    return Bound(
        size=size,
        cut=totals.per_norm * float(cut[best]),
        cut_deviation=totals.per_norm * math.sqrt(variance[best]),
        hidden_below=totals.per_norm * sum(amount for sign, amount, _ in hidden if sign < 0),
        hidden_above=totals.per_norm * sum(amount for sign, amount, _ in hidden if sign > 0),
        reach=max(reach for _, _, reach in hidden),
        added_back=totals.adds_back,
        n_people=max(sum(float(tail.counts.sum()) for tail, _ in tails), 0.0),
        n_zero=zero if zero > 3.0 * law.deviation(1) else 0.0,
        most_hidden=most_hidden,
        concern="heavy" if heavy else "",
    )


def _hidden(noisy: NoisyCounts, tail: Tail | None, bound: float) -> tuple[float, float]:
    """What people beyond a bound may add whom the tail does not expect, as a deviation, and up to which norm they are.

    The bins that are not clear have a few more people than expected: as many as were counted, at the upper edge of
    their bin, and as many in the middle of it as noise may hide.
    """
    points, more = edges()[:: BINS_PER_OCTAVE // noisy.bins_per_octave], noisy.counts.copy()
    first = int(np.searchsorted(points, bound, side="right")) - 1
    if tail is not None:
        more[tail.window] -= tail.weights @ tail.means
        first = max(first, int(tail.window[tail.clear][-1]) + 1)
    bins = np.arange(first, first + _HIDDEN_BINS)
    low, high = points[bins], points[bins + 1]
    counted = max(float((high - bound) @ more[bins]), 0.0)
    unseen = noisy.deviation * float(np.linalg.norm(np.maximum(0.5 * (low + high) - bound, 0.0)))
    return (counted + _HIDDEN_NOISE * unseen) / _IN_INTERVAL, float(high[-1])


def bound_from_sizes(counts: FloatArray, law: NoiseLaw, totals: Totals) -> Bound:
    """Choose a bound from noisy numbers of people by the number of their groups, from 0 to all of them; one row.

    The sizes of people are known, so what a bound cuts off is known up to the noise of the counts. Where sizes are not
    seen above the noise, their counts continue those that are seen in one of many ways, each of which has a weight by
    how well it fits.
    """
    (counts,) = counts
    deviation, sizes = law.deviation(1), np.arange(1.0, counts.size)
    outwards = np.cumsum(counts[:0:-1])[::-1]
    spread = deviation * np.sqrt(sizes[::-1])
    seen = int(np.flatnonzero(np.append(True, outwards[1:] > _SEEN * spread[1:]))[-1]) + 1
    norms = sizes if totals.pure else np.sqrt(sizes)
    lost = sizes * np.maximum(1.0 - norms[:, None] / norms, 0.0)
    tails = max(float(counts[1 : seen + 1].max()), deviation) * _continuations(sizes.size - seen)
    misfit = np.abs(counts[seen + 1 :] - tails) / deviation
    log_weights = -math.sqrt(2.0) * misfit.sum(axis=1) if totals.pure else -0.5 * np.square(misfit).sum(axis=1)
    log_weights[0] += math.log(_NOBODY)
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    by_tail = tails @ lost[:, seen:].T
    unseen = weights @ by_tail
    cut = np.maximum(lost[:, :seen] @ counts[1 : seen + 1], 0.0) + unseen
    noise = deviation**2 * np.square(lost[:, :seen]).sum(axis=1)
    variance = noise + weights @ np.square(by_tail - unseen)
    # Rare heavy tails enter the choice by their absolute deviation. Their variance would move every bound outwards.
    predicted = noise + np.square(weights @ np.abs(by_tail - unseen))
    best = int(np.argmin(totals.noise_of(norms) + predicted + (_SPLIT_CHOICE * cut) ** 2))
    n_people = max(float(outwards[0]), 0.0)
    return Bound(
        size=float(norms[best]),
        cut=float(cut[best]),
        cut_deviation=math.sqrt(variance[best]),
        added_back=True,
        n_people=n_people,
        concern="unseen" if n_people < 3.0 * spread[0] else "",
    )


def _continuations(n_sizes: int) -> FloatArray:
    """Possible numbers of people by size, of shape (tails, sizes), relative to the largest number that is seen."""
    falls = np.array(_FALLS)[:, None] ** np.arange(n_sizes)
    return np.concatenate([np.zeros((1, n_sizes)), *(first * falls for first in _FIRSTS)])


# Powers of the distance from the upper edge of the outermost bin for what lies beyond a bound, ordered as in `Beyond`.
# An even spread has a sum with power 2 and a variance with power 4. Chosen on sums of four values of each person:
# `test_sums_of_even_values_by_group_are_covered` had a coverage of .72 without them.
_POWERS = (2.5, 5.0, 5.0, 2.5, 2.5)


def _beyond(tail: Tail, bounds: FloatArray, whole: bool) -> Beyond:
    """What lies beyond each bound, interpolated between the edges of bins as powers of the bound.

    Most people in a wide bin are at its lower end, so that a bound within it cuts off less than an even spread would
    tell. Sums in a bin beyond which there is nobody end as a power of the distance from its upper edge; whole numbers
    of rows lie at the lower edge.
    """
    first, last = np.searchsorted(tail.points, [bounds[0], bounds[-1]])
    points = tail.points[max(first - 1, 1) : last + 1]
    places, logs = np.log(bounds), np.log(points)
    bins = np.clip(np.searchsorted(points, bounds, side="right") - 1, 0, points.size - 2)
    left = np.clip((points[bins + 1] - bounds) / (points[bins + 1] - points[bins]), 0.0, 1.0)
    parts = []
    for each, power in zip(tail.beyond(points), _POWERS, strict=True):
        between = np.exp(np.interp(places, logs, np.log(np.maximum(each, 1e-9))))
        parts.append(between if whole else np.maximum(between, each[bins] * left**power))
    return Beyond(*parts)


def _octaves(counts: FloatArray, law: NoiseLaw) -> NoisyCounts:
    """The counts of the octaves of the norms of people, among all octaves."""
    per_octave = counts.size // _N_OCTAVES
    whole = np.zeros(2 * OCTAVES * per_octave)
    whole[_FIRST_OCTAVE * per_octave : (_FIRST_OCTAVE + _N_OCTAVES) * per_octave] = counts
    return NoisyCounts(counts=whole, bins_per_octave=per_octave, noise=law)


def _without_single_rows(tail: Tail) -> Tail:
    """The tail without people who have a single row: no bound of one row or more cuts anything off them."""
    # The points of the bins begin with the edge of the first one.
    first = int(np.searchsorted(tail.points, 1.0))
    single, inner = tail.window == first, tail.inner == first
    return replace(
        tail,
        means=np.where(single, 0.0, tail.means),
        variances=np.where(single, 0.0, tail.variances),
        inner_counts=np.where(inner, 0.0, tail.inner_counts),
    )


def _unseen(totals: Totals, law: NoiseLaw, zero: float) -> Bound:
    """A public bound if no people are seen, with room for as many people as noise may hide."""
    hidden = 10.0 * law.deviation(1)
    return Bound(
        size=_UNSEEN_BOUND,
        cut_deviation=hidden * _UNSEEN_BOUND,
        n_people=0.0,
        n_zero=zero if zero > 3.0 * law.deviation(1) else 0.0,
        concern="unseen",
    )
