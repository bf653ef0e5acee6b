"""Names that nobody listed: which of the values of a column enough people have, so that they may be published.

Each person spreads one unit of weight, in the Euclidean norm, over the names they have. Noise is added to the weight of
each name that somebody has, and the names above a line are published. There are three rounds: a published name leaves
all people's sets, so that later rounds give the weight it no longer needs to rarer names. The score of a name is the
mean of its noisy weights of all rounds, weighted by the share of each round, so that splitting into rounds costs
nothing: the last score has the noise of a single round.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from pais._base import validate
from pais._base.lattice import IntArray, Lattice, Named
from pais._base.numerics import FloatArray, log_gaussian_delta
from pais._base.randomness import BitSource, Words64
from pais.errors import ArgumentError
from pais.mechanisms.noise import GaussianNoise, GeometricNoise, NoiseLaw
from pais.privacy.amplification import largest_shift

#: Shares of the squared Gaussian shift of the rounds, and of the chance that a name of one person alone is seen. From
#: THEORY's table: five rounds find up to 6 % more names on one of eight tables, two rounds fewer on five of them.
_SHARES, _CHANCES = (0.1, 0.3, 0.6), (0.05, 0.05, 0.9)

# Parts of delta that a selection alone may spend on the names that others have too, if it has rounds.
_PARTS = (0.6, 0.7, 0.8, 0.85, 0.9, 0.93, 0.95, 0.97, 0.98, 0.99, 0.995, 0.999)

# The noise is larger than that of the shift by 1e-9, so that the divergence is below delta by far more than this.
_LEAST = 1e-300

# Weights are whole steps of 2**-20. The weight of t names is rounded down, so that the norm of a person is at most 1.
_STEP_BITS = 20

# Lines are raised by this factor for the rounding of the quantile and of the scores, which is below 1e-12.
_ROOM = 1.0 + 1e-9

# With at most this many names a person, weights and the line are tables of that length.
MOST_NAMES = 1 << 16


class _Cut:
    """A rule by which at most `max_names` names of a person count."""

    max_names: int

    def cut(
        self, people: IntArray, names: IntArray, bits: BitSource, *, turns: Words64 | None = None
    ) -> tuple[IntArray, IntArray]:
        """At most `max_names` of the names of each person, by a secret random order. Each pair occurs once in both.

        `turns` are random words of the pairs, for a run that is not private.
        """
        # Only people with more names than count need the order.
        heavy = np.bincount(people) > self.max_names if people.size else np.zeros(1, dtype=bool)
        if not heavy.any():
            return people, names
        many = np.flatnonzero(heavy.take(people))
        turns = bits.words64(many.size) if turns is None else turns.take(many)
        # One number for a person and a turn is sorted faster. Half of the bits of a turn tell names apart.
        order = np.argsort(people.take(many).astype(np.uint64) << np.uint64(32) | turns >> np.uint64(32))
        owners = people.take(many.take(order))
        first = np.flatnonzero(np.r_[True, owners[1:] != owners[:-1]])
        rank = np.arange(many.size) - np.repeat(first, np.diff(np.r_[first, many.size]))
        kept = np.ones(people.size, dtype=bool)
        kept[many[order]] = rank < self.max_names  # [note: names-1]
        return people[kept], names[kept]


@dataclass(frozen=True, kw_only=True)
class NameSelection(_Cut):
    """Rounds of noisy weights that publish names. Public.

    Attributes
    ----------
    shift : float
        Gaussian shift of a person in all rounds together.
    delta : float
        Largest probability that a name is published which one person alone has. With an epsilon, delta of the names.
    max_names : int
        Names of a person that count; a secret random choice if a person has more.
    epsilon : float, optional
        Epsilon of the names, if nothing else is released. Lines are lower, because the weight of a person lies either
        on names of this person alone or on others: delta need not be split between them. `whole` chooses the shift.

    Notes
    -----
    Guarantee. Let d(epsilon) be the divergence of the shift, or of the shift and whatever follows from the published
    names. Then the published names, and what follows, are (epsilon, d(epsilon) + delta)-indistinguishable with and
    without a person. If `epsilon` is stated, the published names are (epsilon, delta)-indistinguishable:
    `tests/theory/test_names.py`.
    """

    shift: float
    delta: float
    max_names: int = 1
    epsilon: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "shift", validate.positive("shift", self.shift))
        rule = "a number in (0, 0.5)"
        delta = validate.number("delta", self.delta, rule=rule, low=0.0, high=0.5, open_low=True, open_high=True)
        object.__setattr__(self, "delta", delta)
        if validate.count("max_names", self.max_names) > MOST_NAMES:
            raise ArgumentError(f"max_names={self.max_names} is out of range. Pass a number up to {MOST_NAMES:,}.")
        if self.epsilon is not None:
            object.__setattr__(self, "epsilon", validate.positive("epsilon", self.epsilon))
            if self.shift > largest_shift(self.epsilon, self.delta):
                raise ArgumentError("shift exceeds what epsilon and delta allow. Pass a smaller one, or use `whole`.")

    @classmethod
    def whole(cls, *, epsilon: float, delta: float, max_names: int = 1) -> NameSelection:
        """The selection that spends epsilon and delta on names alone, with the lowest last line."""
        parts = _PARTS if max_names > 1 else (1.0,)
        shifts = (largest_shift(epsilon, part * delta) for part in parts)
        every = [cls(shift=shift, delta=delta, max_names=max_names, epsilon=epsilon) for shift in shifts]
        return min(every, key=lambda selection: selection.lines[-1])

    @property
    def shares(self) -> tuple[float, ...]:
        """Shares of the rounds in the squared shift. A person with one name has nothing to give to rarer ones."""
        return _SHARES if self.max_names > 1 else (1.0,)

    @property
    def noises(self) -> tuple[GaussianNoise, ...]:
        """Noise of the weights in each round."""
        return tuple(GaussianNoise(scale=_ROOM / (self.shift * math.sqrt(share))) for share in self.shares)

    @functools.cached_property
    def lines(self) -> tuple[float, ...]:
        """The score above which a name is published, for each round.

        A person who alone has m names gives each at most 1/sqrt(m) in every round, because none of them has left the
        set. All scores stay below the line with a probability of at least 1 - delta, for every m.
        """
        chances = _CHANCES if len(self.shares) > 1 else (1.0,)
        m, lines, done = np.arange(1, self.max_names + 1), [], 0.0
        # Without the person, the loss grows by -log(1 - p) for a chance p, which is delta.
        total = -np.expm1(-self._unseen(m))
        for share, chance in zip(self.shares, chances, strict=True):
            done += share
            deviation = _ROOM / (self.shift * math.sqrt(done))
            each = -np.expm1(np.log1p(-chance * total) / m)  # [note: names-2]
            line = np.max(1.0 / np.sqrt(m) - deviation * special.ndtri(each))  # [note: names-3]
            # The noise of each round is rounded to a step.
            lines.append(float(line) * _ROOM + 2.0**-_STEP_BITS)
        return tuple(lines)

    def _unseen(self, m: IntArray) -> FloatArray:
        """The part of delta for m names of one person alone. The weight of these names is no shift of others."""
        if self.epsilon is None:
            return np.full(m.size, self.delta)
        others = self.shift * np.sqrt(1.0 - m / self.max_names)
        value, error = log_gaussian_delta(np.full(m.size, self.epsilon), others)
        return np.maximum(self.delta - np.exp(value + error), _LEAST)  # [note: names-11]

    @property
    def half_found(self) -> float:
        """Number of people with one name each from which a name is published with a probability of one half."""
        return self.lines[-1]

    def published(self, people: IntArray, names: IntArray, bits: BitSource) -> IntArray:
        """The numbers of the names that are published, in ascending order.

        `people` and `names` are numbers from 0, one of each for every name that a person has, each pair once.
        """
        return self.scored(people, names, bits)[0]

    def scored(
        self,
        people: IntArray,
        names: IntArray,
        bits: BitSource,
        *,
        turns: Words64 | None = None,
        keys: Words64 | None = None,
    ) -> tuple[IntArray, FloatArray]:
        """The published names, and their noisy weights when they were published.

        A run that is not private has `turns` of the pairs and `keys` of the names, which depend on nobody else's.
        """
        people, names = self.cut(people, names, bits, turns=turns)
        # A name that nobody has left gets no noise: with it, names that are cut away would leak by their number.
        alive = np.flatnonzero(np.bincount(names))  # [note: names-4]
        place = np.zeros(int(alive.max(initial=-1)) + 1, dtype=np.int64)
        place[alive] = np.arange(alive.size)
        names = place.take(names)
        named = None if keys is None else Named(keys[alive], np.bincount(names, minlength=alive.size), self.delta)
        found, scores = self._found(lambda found: self.weights(people, names, found), alive.size, bits, named)
        return alive[found], scores[found]

    def scored_of_rows(
        self, counts: IntArray, bits: BitSource, *, keys: Words64 | None = None
    ) -> tuple[IntArray, FloatArray]:
        """The same for names of which each person has one, given the number of people of each name."""
        alive = np.flatnonzero(counts)
        weights = counts[alive] << _STEP_BITS
        named = None if keys is None else Named(keys[alive], counts[alive], self.delta)
        found, scores = self._found(lambda _: weights, alive.size, bits, named)
        return alive[found], scores[found]

    def _found(
        self, weights: Callable[[NDArray[np.bool_]], IntArray], n_names: int, bits: BitSource, names: Named | None
    ) -> tuple[NDArray[np.bool_], FloatArray]:
        """Which names are found and with what score, given their weights in steps after those found before."""
        found, scores, done = np.zeros(n_names, dtype=bool), np.zeros(n_names), 0.0
        when_found, lattice = np.zeros(n_names), Lattice(step=2.0**-_STEP_BITS)
        for share, noise, line in zip(self.shares, self.noises, self.lines, strict=True):
            done += share
            noisy = noise.added_to(weights(found)[None, :], lattice, bits, names=names)[0]
            scores += share * noisy * 2.0**-_STEP_BITS
            above = ~found & (scores > done * line)
            when_found[above] = scores[above] / done
            found |= above
        return found, when_found

    def weights(self, people: IntArray, names: IntArray, found: NDArray[np.bool_]) -> IntArray:
        """The weight of each name in steps: 1/sqrt(t) from each person with t names that are not yet found."""
        if found.any():
            left = np.flatnonzero(~found.take(names))
            people, names = people.take(left), names.take(left)
        weights = _weights_by_number(self.max_names).take(np.bincount(people)).take(people) if people.size else people
        # Sums of whole steps below 2**53 are exact as doubles.
        return np.bincount(names, weights=weights, minlength=found.size).astype(np.int64)


@functools.lru_cache(maxsize=8)
def _weights_by_number(max_names: int) -> NDArray[np.float64]:
    """The largest whole number of steps whose square, t times, is at most 1, for each t. [note: names-5]"""
    one = 1 << 2 * _STEP_BITS
    return np.array([0, *(math.isqrt(one // t) for t in range(1, max_names + 1))], dtype=np.float64)


@dataclass(frozen=True, kw_only=True)
class CountLine(_Cut):
    """The line for names that are published with their totals: if the noisy count of a name is above it. Public.

    Attributes
    ----------
    noise : LpNoise of order 1, GeometricNoise or GaussianNoise
        Noise of each coordinate of the count.
    n : int
        Number of coordinates that add up to the count. A person changes the count of a name by at most one.
    delta : float
        Largest probability that a name is published which one person alone has.
    step : float
        Step of the lattice to which the noise of a coordinate is rounded.
    max_names : int
        Names of a person that count. Noise has to cover as many counts.

    Notes
    -----
    Guarantee. The count of a name of one person alone is above the line with a probability of at most `delta`, for all
    names of the person together: `tests/theory/test_names.py`.
    """

    noise: NoiseLaw
    n: int = 1
    delta: float
    step: float = 1.0
    max_names: int = 1

    @functools.cached_property
    def line(self) -> float:
        """The count above which a name is published."""
        low, high = 0.0, self.noise.deviation(1)
        # Noise of several names of one person is independent.
        each = -math.expm1(math.log1p(-self.delta) / self.max_names) / _ROOM  # [note: names-15]
        while self._tail(high) > each:
            low, high = high, 2.0 * high
        for _ in range(60):
            middle = 0.5 * (low + high)
            low, high = (low, middle) if self._tail(middle) <= each else (middle, high)
        return float(1.0 + high * _ROOM)  # [note: names-12]

    @property
    def half_found(self) -> float:
        """Number of people with one name each from which a name is published with a probability of one half."""
        return self.line

    def _tail(self, above: float) -> float:
        return float(self.tail(np.array([above]))[0])

    def tail(self, above: FloatArray) -> FloatArray:
        """An upper bound on the probability that the noise of the count exceeds these numbers."""
        if isinstance(self.noise, GaussianNoise):
            return np.asarray(special.ndtr((self.n * self.step - above) / (self.noise.scale * math.sqrt(self.n))))
        if isinstance(self.noise, GeometricNoise) and self.n == 1:
            steps = np.floor(above / self.noise.step)
            far = self._geometric_tail(np.maximum(steps + 1.0, 0.0))
            return np.where(above >= 0.0, far, 1.0 - self._geometric_tail(np.maximum(-steps, 0.0)))
        # A geometric variable exceeds a Laplace variable by at most a step, and rounding adds at most half a step.
        places = (above - self.n * self.step) / self.noise.scale  # [note: names-13]
        far = _laplace_tail(np.abs(places), self.n)
        return np.where(places >= 0.0, far, 1.0 - far)

    def _geometric_tail(self, steps: FloatArray) -> FloatArray:
        """The probability of at least this many steps, which are not negative."""
        low = self.noise.step if isinstance(self.noise, GeometricNoise) else self.step
        ratio = low / self.noise.scale
        return np.exp(-steps * ratio) / (1.0 + math.exp(-ratio))

    def least_counts(self, noisy: FloatArray, chance: float) -> FloatArray:
        """Lower ends for the counts of published names, given that these were published.

        With a smaller count, a published name has so high a noisy count with a probability below `chance`.
        """
        low, high = np.ones_like(noisy), np.maximum(noisy, 1.0)
        for _ in range(40):
            middle = 0.5 * (low + high)
            likely = self.tail(noisy - middle - self.step) >= chance * self.tail(self.line - middle)
            low, high = np.where(likely, low, middle), np.where(likely, middle, high)
        if isinstance(self.noise, GeometricNoise) and self.n == 1:
            # The next whole number is the least that is likely.
            low = np.where(low > 1.0, np.floor(low + 1e-6) + 1.0, 1.0)
        return low


def _laplace_tail(above: FloatArray, n: int) -> FloatArray:
    """The probability that the sum of n Laplace variables of scale 1 exceeds numbers that are not negative.

    The sum is the difference of two Gamma variables, so that the tail is a polynomial times exp(-x).
    """
    power = np.arange(n)
    # The l-th moment of the second Gamma variable, weighted by exp(-g), over l!.
    log_moments = special.gammaln(n + power) - special.gammaln(n) - special.gammaln(power + 1.0)
    moments = np.cumsum(np.exp(log_moments - (n + power) * math.log(2.0)))
    # The coefficient of x**k / k! is the sum of the moments up to n - 1 - k.
    logs = special.xlogy(power, above[:, None]) - special.gammaln(power + 1.0) - above[:, None]
    return np.asarray((np.exp(logs) * moments[::-1]).sum(axis=1) * (1.0 + 1e-12 * n))


def max_names_of(noisy: Sequence[float], deviation: float, *, beyond: float = 0.05) -> int:
    """The power of two that about 95 % of the people do not exceed, from noisy numbers of people by octave."""
    tail = np.cumsum(np.asarray(noisy)[::-1])[::-1]
    for octave in range(len(tail) - 1):
        noise = 2.0 * deviation * math.sqrt(len(tail) - 1 - octave)
        if tail[octave + 1] <= max(beyond * tail[0], noise):
            return int(2**octave)
    return int(2 ** (len(tail) - 1))
