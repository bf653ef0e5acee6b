"""How the values of a column spread about a center: the bounds that suit a statistic best, and what lies beyond them.

Wide bounds need much noise, and narrow ones cut off large values. The tails that fit the released counts say how much
is cut off, and how uncertain that is. The expected part is added to a statistic afterwards, so the best bounds have
the least noise and uncertainty together. All of it is post-processing of released counts.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pais._base.numerics import FloatArray
from pais.mechanisms import GaussianNoise
from pais.planning.norm_counts import NoisyCounts
from pais.planning.tails import Beyond, Tail, most_unseen

#: Variance of a statistic times its number of values, for noise of variance one on its totals, from low, high and mean.
NoiseOfBounds = Callable[[FloatArray, FloatArray, float], FloatArray]

# Possible bounds, in twelfths of an octave about the outermost value that is seen.
_BOUNDS = np.exp2(np.arange(-96, 49) / 12.0)

# At most this share of the values is expected beyond a bound, even if noise is so large that more would do no harm.
_MOST_BEYOND = 0.005

# Counts are too weak if the number of values is below this many standard deviations of the noise of a count, or if the
# number on one side is below this share of it: a group of values that matters could be hidden in the noise there.
_WEAK_PURE, _WEAK_GAUSSIAN, _WEAK_SIDE = 250.0, 100.0, 0.4

# A tail is heavy if the number of values falls more slowly than this power of their size, and if the part of the sum
# that is not seen is larger than this share of the noise of the sum.
_HEAVY, _UNSEEN_SHARE = 2.0, 0.3

# Far values decide the variance of a column if more than this share of it is likely to lie beyond the bounds, or if the
# number of values falls more slowly than this power of their size. The share is larger by the second number for each
# standard deviation of the noise of a count per value. There is no verdict if the noise is large, or if it is Laplace
# noise, whose outliers look like far values. None of 240 surveys of normal, uniform, exponential, gamma and Poisson
# columns has this verdict. Of lognormal columns of shape 1.5, three in five have it for 20,000 rows, and nearly all for
# 100,000 (epsilon 1 and 3).
_MUCH_OF_VARIANCE, _MORE_PER_NOISE, _NO_VARIANCE, _MOST_NOISE = 0.12, 50.0, 1.6, 1.0 / 400.0

# Values in one octave are seen at the latest if their number is above this many standard deviations of its noise.
_HIDDEN = 12.0

# Values beyond zero are seen if their number is above this many standard deviations of its noise.
_SEEN_BEYOND = 5.0

# A bound is zero up to this part of the distance of the bounds.
_ROUNDING = 1e-9


class Cut(NamedTuple):
    """What clipping to bounds takes away from sums over the values of a column.

    Attributes
    ----------
    first, first_variance : float
        Expected decrease of the sum of the values, and its variance.
    size : float
        The same without signs: what is lost above and below does not cancel out.
    second, second_variance : float
        Expected decrease of the sum of squared distances from the center, and its variance.
    possible, possible_second : float
        Deviations for groups of values that noise does not exclude. Their squares are part of the variances.
    """

    first: float = 0.0
    first_variance: float = 0.0
    size: float = 0.0
    second: float = 0.0
    second_variance: float = 0.0
    possible: float = 0.0
    possible_second: float = 0.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Spread:
    """The values of a column by distance below and above a center, from released counts. Public.

    Attributes
    ----------
    center : float
        The center.
    sides : pair of NoisyCounts
        Released counts of values by distance from the center, below it and above it.
    reach : pair of float
        How far values reach on each side according to a first, rougher survey. It serves for a side without a tail.
    signs : pair of bool
        Whether the first survey saw negative and positive values.
    """

    center: float
    sides: tuple[NoisyCounts, NoisyCounts]
    reach: tuple[float, float]
    signs: tuple[bool, bool]

    @functools.cached_property
    def below(self) -> Tail | None:
        """Distances below the center; None if no values stand above the noise."""
        return Tail.of(self.sides[0])

    @functools.cached_property
    def above(self) -> Tail | None:
        """Distances above the center; None if no values stand above the noise."""
        return Tail.of(self.sides[1])

    @functools.cached_property
    def negative(self) -> bool:
        """Whether negative values are seen. If not, zero is a natural bound."""
        return self.signs[0] or self._is_seen_beyond_zero(self.below, self.center)

    @functools.cached_property
    def positive(self) -> bool:
        """Whether positive values are seen. If not, zero is a natural bound."""
        return self.signs[1] or self._is_seen_beyond_zero(self.above, -self.center)

    @staticmethod
    def _is_seen_beyond_zero(side: Tail | None, distance: float) -> bool:
        """Whether bins that lie wholly beyond zero hold clearly more than noise."""
        if side is None:
            return False
        beyond = side.counts[side.points[side.bins] >= max(distance, 0.0)]
        return float(beyond.sum()) > _SEEN_BEYOND * side.deviation * math.sqrt(beyond.size)

    @property
    def n_values(self) -> float:
        return max(sum(float(side.counts.sum()) for side in (self.below, self.above) if side is not None), 1.0)

    @property
    def is_weak(self) -> bool:
        """Whether too few values stand out of the noise to choose bounds well."""
        counts = self.sides[0]
        least = counts.deviation * (_WEAK_GAUSSIAN if isinstance(counts.noise, GaussianNoise) else _WEAK_PURE)
        sides = [
            float(side.counts.sum())
            for side, bounded in ((self.below, self.negative), (self.above, self.positive))
            if side is not None and bounded
        ]
        return self.n_values < least or min(sides, default=least) < _WEAK_SIDE * least

    @property
    def most_unseen(self) -> float:
        """The number of values far beyond the others, all alike, that noise hides with a probability of 5 %."""
        return most_unseen(self.sides[1])

    @property
    def mean(self) -> float:
        above, below = (0.0 if side is None else side.moment for side in (self.above, self.below))
        return self.center + (above - below) / self.n_values

    def best_bounds(
        self, noise_of: NoiseOfBounds, deviation: float, power: int, *, by_groups: bool
    ) -> tuple[float, float]:
        """The bounds with the least noise and uncertainty of a sum of powers.

        `deviation` is that of the noise of totals. With groups, what is cut off in each of them is not known.
        """
        ends, costs = [], []
        for sign in (-1.0, 1.0):
            bounds = self.center + sign * self._distances(sign)
            seen = self.negative if sign < 0.0 else self.positive
            natural = (not seen) & (sign * bounds > 0.0)
            cut = self._beyond(sign, np.abs(bounds - self.center), power)
            cost = cut.predicted + (cut.expected**2 if by_groups else 0.0)
            ends.append(np.where(natural, 0.0, bounds))
            costs.append(np.where(natural, 0.0, cost))
        low, high = ends[0][:, None], ends[1][None, :]
        total = deviation**2 * noise_of(low, high, self.mean) + costs[0][:, None] + costs[1][None, :]
        row, column = np.unravel_index(int(np.argmin(np.where(low < high, total, np.inf))), total.shape)
        return float(ends[0][row]), float(ends[1][column])

    def wide_bounds(self) -> tuple[float, float]:
        """Bounds that hold nearly all values."""
        # So few values can be on a side without being seen that they may be left out.
        few = _HIDDEN * self.sides[0].deviation <= 2.0 * _MOST_BEYOND * self.n_values
        low, high = (
            self.center + sign * (0.0 if side is None and few else float(self._distances(sign)[0]))
            for sign, side in ((-1.0, self.below), (1.0, self.above))
        )
        return (low if self.negative else max(low, 0.0), high if self.positive else min(high, 0.0))

    def _distances(self, sign: float) -> FloatArray:
        """Possible distances of a bound, beyond each of which there are few values, in order."""
        side, other = (self.below, self.above) if sign < 0.0 else (self.above, self.below)
        if side is None:
            # Values that are not seen on one side are hardly farther away than those on the other.
            reach = self.reach[0 if sign < 0.0 else 1]
            return np.array([reach if other is None else min(reach, other.top)])
        distances = side.top * _BOUNDS
        many = np.flatnonzero(side.number_beyond(distances) > _MOST_BEYOND * self.n_values)
        return distances[min(many[-1] + 1 if many.size else 0, distances.size - 1) :]

    def cut(self, low: float, high: float) -> Cut:
        """What clipping to these bounds takes away."""
        sides = []
        for sign, bound in ((-1.0, low), (1.0, high)):
            distance = np.array([max(sign * (bound - self.center), 0.0)])
            natural = self._is_natural(sign, bound, high - low)
            sides.append([_NOTHING if natural else self._beyond(sign, distance, power) for power in (1, 2)])
        (down, down_second), (up, up_second) = sides
        return Cut(
            first=float(up.expected[0] - down.expected[0]),
            first_variance=float(up.variance[0] + down.variance[0]),
            size=float(abs(up.expected[0]) + abs(down.expected[0])),
            second=float(up_second.expected[0] + down_second.expected[0]),
            second_variance=float(up_second.variance[0] + down_second.variance[0]),
            possible=float(up.possible[0] + down.possible[0]),
            possible_second=float(up_second.possible[0] + down_second.possible[0]),
        )

    def is_heavy(self, low: float, high: float, noise: float) -> bool:
        """Whether values too rare to be seen may decide the sum: its noise is small compared with what is not seen."""
        for sign, bound, side in ((-1.0, low, self.below), (1.0, high, self.above)):
            unseen = self._beyond(sign, np.array([max(sign * (bound - self.center), 0.0)]), 1).unseen[0]
            natural = self._is_natural(sign, bound, high - low)
            if side is not None and not natural and side.exponent < _HEAVY and unseen > _UNSEEN_SHARE * noise:
                return True
        return False

    def is_skewed(self, low: float, high: float, variance: float) -> bool:
        """Whether far values decide the variance of the values: much of it lies beyond these bounds, or may do."""
        noise = self.sides[0].deviation / self.n_values
        if noise > _MOST_NOISE or not isinstance(self.sides[0].noise, GaussianNoise):
            return False
        likely, most = 0.0, (_MUCH_OF_VARIANCE + _MORE_PER_NOISE * noise) * variance * self.n_values
        for sign, bound, side in ((-1.0, low, self.below), (1.0, high, self.above)):
            if side is None or self._is_natural(sign, bound, high - low):
                continue
            distance = max(sign * (bound - self.center), 0.0)
            if side.exponent < _NO_VARIANCE and float(side.beyond(np.array([distance]), 2).expected[0]) > most:
                return True
            likely += side.likely_beyond(distance, 2)
        return likely > most

    def _is_natural(self, sign: float, bound: float, width: float) -> bool:
        """Whether a bound is zero because no values beyond zero were seen."""
        seen = self.negative if sign < 0.0 else self.positive
        return not seen and sign * bound >= -_ROUNDING * width

    def _beyond(self, sign: float, distances: FloatArray, power: int) -> Beyond:
        side = self.below if sign < 0.0 else self.above
        return Beyond(*np.zeros((5, distances.size))) if side is None else side.beyond(distances, power)


_NOTHING = Beyond(*np.zeros((5, 1)))
