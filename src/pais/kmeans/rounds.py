"""What a round of k-means releases: its noise laws, its price, and exact noisy sums over the rows.

A `Round` is one of the paper's DP-Lloyd: it releases the number and the sum of the rows of each cluster. The sums of
whole rows need noise in proportion to the radius of the ball. A `ResidualRound` releases sums of residuals x - c, whose
noise is in proportion to the size of the cell, which is small after the first rounds. A `SecondMoment` gives the
starting centers of residual rounds. Only this module sees the rows, and everything is computed in exact integers.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pais._base import validate
from pais._base.files import stored, to_dict
from pais._base.lattice import IntArray, Lattice
from pais._base.numerics import FloatArray
from pais._base.randomness import BitSource
from pais._base.rowwise import norms_of
from pais._base.threads import cores, in_threads
from pais.data.ball import Ball
from pais.data.engines.base import WeightedRows
from pais.errors import ConvergenceError, MismatchError
from pais.mechanisms.moments import MARGIN, add_moments, moment_step, noisy_matrix
from pais.mechanisms.noise import GaussianNoise, LpNoise, NoiseLaw
from pais.privacy.profiles import GaussianProfile, LinearProfile, add_profiles

T = TypeVar("T")


# Clipped residuals are shortened by this share, more than all rounding errors of the clip and of the noise scales.
_MARGIN = 2.0**-40


# Constant column that `SecondMoment` adds to the rows, in units of the radius. Chosen by eye (commit 93164df): of the
# price, a longer column takes more from the directions of the rows, and a shorter one makes the mean noisier.
_COLUMN = 0.5


@stored("round", "Lloyd")
@dataclass(frozen=True, kw_only=True)
class Round:
    """Noise laws of one round, for the count and for the sum of each cluster."""

    count_noise: NoiseLaw
    sum_noise: NoiseLaw

    @property
    def order(self) -> float:
        return self.sum_noise.order

    def to_dict(self) -> dict[str, Any]:
        return to_dict(self, "round")

    def __post_init__(self) -> None:
        for name in ("count_noise", "sum_noise"):
            validate.instance(name, getattr(self, name), NoiseLaw, "Pass laplace_noise(b), LpNoise or GaussianNoise.")

    @property
    def laws(self) -> tuple[NoiseLaw, ...]:
        return self.count_noise, self.sum_noise

    @property
    def profile(self) -> LinearProfile | GaussianProfile:
        """Loss of a record in one round. It is in one cluster, so it pays for one count and one sum (LLOYD-PROFILE)."""
        return add_profiles([self.count_noise.count_profile(), self.sum_noise.sum_profile()])  # [note: lloyd-1]


@stored("round", "residual", renamed={"flat_share": "flat"})
@dataclass(frozen=True, kw_only=True)
class ResidualRound:
    """Noise laws of one round, for the count, the distance and the residual sum of each cell.

    A record with norm z is allowed residuals up to clip * reach(z), where the clip of a cell may be any released
    number. With f = `flat_share`, the reach is sqrt(f + (1 - f) (z/r)^2) for Gaussian noise, and f + (1 - f) z/r for
    pure noise.

    Parameters
    ----------
    count_noise : NoiseLaw
        Noise on the weighted count of a cell.
    distance_noise : NoiseLaw
        Noise on the sum of the distances to the center, each divided by clip * reach and at most 1.
    residual_noise : NoiseLaw
        Noise on the sum of the residuals, in units of the clip.
    radius : float
        Radius r of the ball that contains the rows.
    flat_share : float
        Share in [0, 1] of the squared reach (pure: of the reach) that does not depend on the norm. 1 treats all norms
        alike, which is best if all rows are kept. Small values let rows with small norms be sampled rarely.
    whole_rows : bool
        Whether the round sums whole rows instead of residuals, as the first round does, which knows no centers.
    """

    count_noise: NoiseLaw
    distance_noise: NoiseLaw
    residual_noise: NoiseLaw
    radius: float
    flat_share: float
    whole_rows: bool = False

    def __post_init__(self) -> None:
        for name in ("count_noise", "distance_noise", "residual_noise"):
            validate.instance(name, getattr(self, name), NoiseLaw, "Pass laplace_noise(b), LpNoise or GaussianNoise.")
        object.__setattr__(self, "radius", validate.radius(self.radius))
        object.__setattr__(self, "flat_share", validate.share("flat_share", self.flat_share))
        validate.flag("whole_rows", self.whole_rows)
        if self.order not in (1.0, 2.0):
            raise MismatchError(
                f"residual_noise has order={self.order:g}, but residuals are measured in order 1 or 2. Pass "
                "GaussianNoise, laplace_noise(b) or LpNoise(scale=b, p=2)."
            )
        kinds = {isinstance(noise, GaussianNoise) for noise in self.laws}
        if len(kinds) > 1:
            raise MismatchError("a round mixes Gaussian and pure noise. Use one kind of noise.")

    @property
    def laws(self) -> tuple[NoiseLaw, ...]:
        return self.count_noise, self.distance_noise, self.residual_noise

    @property
    def order(self) -> float:
        """Order of the norm of rows and residuals."""
        return self.residual_noise.order

    def to_dict(self) -> dict[str, Any]:
        return to_dict(self, "round")

    @property
    def profile(self) -> LinearProfile | GaussianProfile:
        """Loss of a record in one round: one count, one distance and one residual sum (RESIDUAL-PROFILE)."""
        parts = [self.count_noise.count_profile(), self.distance_noise.count_profile()]
        flat = 0.0 if self.whole_rows else self.flat_share  # [note: residual-1]
        if flat > 0.0:
            parts.append(self._residual_noise_over(flat).count_profile())
        if flat < 1.0:
            parts.append(self._residual_noise_over(1.0 - flat, unit=self.radius).sum_profile())
        return add_profiles(parts)

    def _residual_noise_over(self, share: float, unit: float = 1.0) -> NoiseLaw:
        """Noise law whose loss is this share of the loss of the residual sum, for contributions in `unit`."""
        scale = self.residual_noise.scale * unit * (1.0 - _MARGIN)
        if isinstance(self.residual_noise, GaussianNoise):
            return GaussianNoise(scale=scale / math.sqrt(share))
        assert isinstance(self.residual_noise, LpNoise)
        return LpNoise(scale=scale / share, p=self.residual_noise.p)

    def reach(self, norms: FloatArray) -> FloatArray:
        """Largest residual of a record, in units of the clip, rounded down."""
        share = np.minimum(norms / self.radius, 1.0)
        if isinstance(self.residual_noise, GaussianNoise):
            return np.sqrt(self.flat_share + (1.0 - self.flat_share) * share * share) * (1.0 - _MARGIN)
        return (self.flat_share + (1.0 - self.flat_share) * share) * (1.0 - _MARGIN)


@stored("moment", "second", renamed={"flat_share": "flat"})
@dataclass(frozen=True, kw_only=True)
class SecondMoment:
    """Noisy mean and second moment of rows clipped to a smaller radius, from which k-means takes its starting centers.

    A constant column of half the radius is added to the rows. The second moment of the longer rows contains the sum and
    the number of the rows.

    Parameters
    ----------
    noise : GaussianNoise
        Noise of the sum of w x x', isotropic in the Frobenius norm.
    radius : float
        Rows are clipped to this norm first. The noise that is needed grows with the square of the radius, and the
        directions of the rows matter more than their lengths.
    flat_share : float
        Share in [0, 1] of the price that does not depend on the norm of a record.
    """

    noise: GaussianNoise
    radius: float
    flat_share: float

    def __post_init__(self) -> None:
        validate.instance("noise", self.noise, GaussianNoise, "Pass a GaussianNoise.")
        object.__setattr__(self, "radius", validate.radius(self.radius))
        object.__setattr__(self, "flat_share", validate.share("flat_share", self.flat_share))

    def to_dict(self) -> dict[str, Any]:
        return to_dict(self, "moment")

    @staticmethod
    def price(radius: float, flat_share: float) -> tuple[float, float]:
        """Constant and factor of z in a bound c^2 + (f z)^2 on the squared contribution of a record of norm z.

        With s the radius of the clip and b the square of the constant column, the contribution is min(z, s)^2 + b. Its
        square is at most (s^2 + b)^2, and at most b^2 + (s^2 + 2 b) z^2, so it is at most any mixture of the two.
        """
        b = _COLUMN**2
        constant = flat_share * (1.0 + b) ** 2 + (1.0 - flat_share) * b * b
        return radius**2 * math.sqrt(constant), radius * math.sqrt((1.0 - flat_share) * (1.0 + 2.0 * b))

    @property
    def profile(self) -> GaussianProfile:
        """Loss of a record (SECOND-MOMENT)."""
        constant, factor = self.price(self.radius, self.flat_share)
        scale = self.noise.scale * (1.0 - MARGIN)  # [note: moment-3]
        profile = GaussianNoise(scale=scale / constant).count_profile()
        return profile if factor == 0.0 else profile + GaussianNoise(scale=scale / factor).sum_profile()

    def step(self, largest_weight: float) -> float:
        """Step of the rows times the roots of their weights: of 18 bits, or coarser where the noise is large."""
        return moment_step(self.noise.scale, self.radius * math.sqrt(largest_weight))

    def measure(self, content: WeightedRows, largest_weight: float, bits: BitSource) -> FloatArray:
        """Noisy sum of w u u' over the rows with weights w, where u is a clipped row with the constant column.

        The noise has its full scale on the diagonal and 1/sqrt(2) of it off the diagonal. Each row is multiplied by the
        square root of its weight and truncated toward zero to whole numbers y of 18 bits. Sums of y y' are then exact,
        and the contribution |y|^2 is never more than w |u|^2.
        """
        step = self.step(largest_weight)

        def contribution(rows: FloatArray, weights: FloatArray) -> IntArray:
            root = np.sqrt(weights) * (1.0 - MARGIN / 4.0) / step
            clip = self.radius / np.maximum(norms_of(rows, 2.0), self.radius)
            # The constant column is not clipped with the row.
            return add_moments(rows, clip * root, _COLUMN * self.radius * root)

        return noisy_matrix(content.total(contribution), self.noise, Lattice(step=step * step), bits)

    def noisy_rows(self, moment: FloatArray) -> tuple[float, float]:
        """Noisy number of rows that the constant column counts, and the standard deviation of its noise."""
        square = (_COLUMN * self.radius) ** 2
        return float(moment[-1, -1]) / square, self.noise.scale / square

    def mean_and_scatter(self, moment: FloatArray, n_rows: float) -> tuple[FloatArray, FloatArray]:
        """Noisy mean, shrunk by its known noise, and noisy scatter matrix about it."""
        column = _COLUMN * self.radius
        mean = moment[-1, :-1] / (column * n_rows)
        noise = self.noise.scale / math.sqrt(2.0) / (column * n_rows)
        square = float(np.square(mean).sum())
        mean = mean * max(0.0, 1.0 - len(mean) * noise**2 / max(square, 1e-300))
        return mean, moment[:-1, :-1] - n_rows * np.outer(mean, mean)


# The index of a center takes this many of the 53 bits of a score. More would leave fewer bits to the rows, and fewer
# would need more products for many centers (27ad033, for speed).
_INDEX_BITS = 7


# Numbers per block of scores: 256 kB, which fit into the cache of a core.
_BLOCK = 1 << 15


# A thread processes at least this many rows at a time, unless they have more than this many numbers, 8 MB.
_PART_ROWS, _PART_NUMBERS = 8192, 1 << 20


def most_bits(d: int) -> int:
    """Number of steps from the origin to the radius, as a power of two, for which the scores are exact."""
    # 2 |x.c| + |c|^2 + 1 <= 4 * d * 4**bits, followed by the index, must stay below 2**53.
    return (51 - _INDEX_BITS - math.ceil(math.log2(max(d, 2)))) // 2


class RowGrid:
    """Points in whole steps, truncated toward zero, so that no norm grows. Secret.

    Every score 2 x.c - |c|^2 of a point and a center is a whole number. With the index of the center in its lowest
    bits it is below 2**53, so it is exact in any order of summation. So the cluster of a row depends only on that row
    and on released centers, not on its neighbours in memory. The squared distances that follow from the scores are
    exact too.
    """

    def __init__(self, rows: FloatArray, radius: float, bits: int) -> None:
        self.most = 2.0**bits
        self.per_unit = self.most / radius  # [note: lloyd-2]
        # One column for each point, so that the scores of a center are contiguous. Its last entry multiplies -|c|^2.
        self._columns = np.ones((rows.shape[1] + 1, len(rows)))
        self.squares = np.empty(len(rows))
        # By the first row of a part: which cell its rows are in. Built once for each number of cells.
        self._members: dict[int, sparse.csc_array] = {}

        def fill(part: slice) -> None:
            points = np.trunc(rows[part] * self.per_unit)
            self._columns[:-1, part] = points.T
            self.squares[part] = np.einsum("ij,ij->i", points, points)

        self.in_parts(fill)

    @property
    def points(self) -> FloatArray:
        return self._columns[:-1].T

    def of_centers(self, centers: FloatArray) -> FloatArray:
        """Centers rounded to the grid, and to the cube around the ball, on which scores are exact."""
        return np.minimum(np.maximum(np.rint(centers * self.per_unit), -self.most), self.most)

    def in_parts(self, work: Callable[[slice], T]) -> list[T]:
        """Call `work` on parts of the rows, in threads."""
        n = self.squares.size
        step = min(max(math.ceil(n / cores()), _PART_ROWS), max(_PART_NUMBERS // len(self._columns), 1))
        return in_threads(lambda start: work(slice(start, start + step)), range(0, max(n, 1), step))

    def assign(self, centers: FloatArray, rows: slice) -> tuple[IntArray, FloatArray]:
        """Index of the nearest center on the grid for each of these rows; ties go to the first center.

        Also returns the squared distance in steps.
        """
        label, score = self._best(centers[: 1 << _INDEX_BITS], rows)
        for first in range(1 << _INDEX_BITS, len(centers), 1 << _INDEX_BITS):
            other, higher = self._best(centers[first : first + (1 << _INDEX_BITS)], rows)
            label = np.where(higher > score, first + other, label)
            score = np.maximum(score, higher)
        return label, self.squares[rows] - score

    def distances(self, centers: FloatArray, label: IntArray, rows: slice) -> FloatArray:
        """Distance of order 1 of these rows to their centers, in steps."""
        return np.asarray(np.abs(self._columns[:-1, rows] - centers.T[:, label]).sum(axis=0))

    def total(self, label: IntArray, k: int, steps: IntArray, rows: slice) -> IntArray:
        """Sum of the steps of these rows in each of k cells."""
        first, n = rows.start or 0, label.size
        member = self._members.get(first)
        if member is None or member.shape != (k, n):
            ones, cells, ends = np.ones(n, dtype=np.int64), np.zeros(n, dtype=np.int32), np.arange(n + 1)
            member = self._members[first] = sparse.csc_array((ones, cells, ends), shape=(k, n))
        member.indices[:] = label
        return np.asarray(member @ steps)

    def _best(self, centers: FloatArray, rows: slice) -> tuple[IntArray, IntArray]:
        """Index and score of the best of at most 2**_INDEX_BITS centers."""
        last = (1 << _INDEX_BITS) - 1
        # A larger index is a smaller number, so that the first of equal scores has the largest number.
        factors = np.empty((len(centers), len(self._columns)))
        np.multiply(centers, 2.0 * (last + 1), out=factors[:, :-1])
        factors[:, -1] = last - np.arange(len(centers)) - (last + 1) * np.einsum("ij,ij->i", centers, centers)
        columns = self._columns[:, rows]
        best = np.empty(columns.shape[1])
        step = _BLOCK // len(centers)
        scores = np.empty((len(centers), min(step, best.size)))
        for start in range(0, best.size, step):
            block = best[start : start + step]
            np.matmul(factors, columns[:, start : start + step], out=scores[:, : block.size])
            np.maximum.reduce(scores[:, : block.size], axis=0, out=block)  # [note: lloyd-3]
        number = best.astype(np.int64)
        return last - (number & last), number >> _INDEX_BITS


@dataclass(frozen=True, kw_only=True)
class Summary:
    """Noisy counts and sums released by one round. They are protected, so any use of them is allowed."""

    noisy_counts: FloatArray
    noisy_sums: FloatArray


class LloydSample:
    """A weighted sample prepared for the rounds of DP-Lloyd. Secret; it exists only inside a mechanism."""

    def __init__(self, content: WeightedRows, ball: Ball, rounds: tuple[Round, ...]) -> None:
        self._grid = RowGrid(content.rows, ball.radius, most_bits(content.rows.shape[1]))
        self._count_lattice = count_lattice(rounds)
        self._sum_lattice = sum_lattice(rounds)
        self._counts = self._count_lattice.encode(content.weights)
        self._sums = self._sum_lattice.encode(content.rows * content.weights[:, None])

    def summarise(self, centers: FloatArray, round_: Round, bits: BitSource) -> Summary:
        """Noisy counts and sums of the clusters of `centers`, which must be released or independent of the data."""
        k = len(centers)
        grid = self._grid.of_centers(centers)
        label = np.concatenate(self._grid.in_parts(lambda rows: self._grid.assign(grid, rows)[0]))
        counts, sums = (self._grid.total(label, k, steps, slice(None)) for steps in (self._counts[:, None], self._sums))
        counts = round_.count_noise.added_to(counts, self._count_lattice, bits)[:, 0]
        sums = round_.sum_noise.added_to(sums, self._sum_lattice, bits)
        return Summary(noisy_counts=self._count_lattice.decode(counts), noisy_sums=self._sum_lattice.decode(sums))


def count_lattice(rounds: tuple[Round, ...]) -> Lattice:
    """One lattice for the counts of all rounds, fine enough for the most precise round."""
    return Lattice.for_scale(min(round_.count_noise.scale for round_ in rounds))


def sum_lattice(rounds: tuple[Round, ...]) -> Lattice:
    """One lattice for the sums of all rounds, fine enough for the most precise round."""
    return Lattice.for_scale(min(round_.sum_noise.scale for round_ in rounds))


#: Weights are truncated to this many binary places, or fewer if totals would exceed 64-bit integers. With seven places,
#: counts were low by up to 0.4 % (commit be423ec).
WEIGHT_BITS = 10


# Before weights get fewer binary places than this, the grid of the rows becomes coarser: an error of 3 % at most.
_LEAST_WEIGHT_BITS = 4


# Noise is at most this many bits long, so that rounding it to a step rarely needs more than double precision. Vectors
# whose coordinates are not independent are computed again as a whole, so they must need it less often.
_NOISE_BITS, _JOINT_NOISE_BITS = 36, 30


# Rows have at least this many steps from the origin to the radius, as a power of two. Chosen by eye (c841361).
_LEAST_GRID_BITS = 8


# Bounds on residuals are at least this share of the radius, so that nothing is divided by zero.
_FLOOR = 2.0**-500


# Noise beyond this many standard deviations has a negligible probability.
_NOISE_ROOM = 64.0


# Totals stay below 2**_MOST_BITS steps.
_MOST_BITS = 61


@dataclass(frozen=True, kw_only=True)
class Steps:
    """Sizes of the steps of rows and weights, as powers of two. Public."""

    grid_bits: int
    weight_bits: int

    @classmethod
    def of(
        cls,
        rounds: tuple[ResidualRound, ...],
        d: int,
        n_rows: float,
        largest_weight: float,
        *,
        weight_bits: int = WEIGHT_BITS,
    ) -> Steps:
        """As fine as the noise and 64-bit integers allow."""
        noise = max(round_.residual_noise.deviation(d) for round_ in rounds)
        single = rounds[0].residual_noise.n_uniforms(d) == d
        places = (_NOISE_BITS if single else _JOINT_NOISE_BITS) - weight_bits
        grid_bits = min(most_bits(d), max(places - math.ceil(math.log2(noise)), _LEAST_GRID_BITS))
        total = math.ceil(math.log2(max(4.0 * n_rows, 2.0 * largest_weight, _NOISE_ROOM * noise)))
        room = _MOST_BITS - 1 - total  # [note: residual-7]
        if room - grid_bits < _LEAST_WEIGHT_BITS:
            grid_bits = min(grid_bits, max(room - _LEAST_WEIGHT_BITS, _LEAST_GRID_BITS))
        return cls(grid_bits=grid_bits, weight_bits=min(weight_bits, room - grid_bits))


@dataclass(frozen=True, kw_only=True)
class ResidualSummary:
    """What one round releases for each cell. It is protected, so any use of it is allowed.

    `noisy_distances` are sums of distance / reach. `noisy_residuals` are sums of x - c, or of x for cells in `whole`.
    `clip` is the largest distance / reach of a record; farther residuals were shortened to it.
    """

    noisy_counts: FloatArray
    noisy_distances: FloatArray
    noisy_residuals: FloatArray
    clip: FloatArray
    whole: NDArray[np.bool_]


class ResidualSample:
    """A weighted sample prepared for residual rounds. Secret; it exists only inside a mechanism.

    Weights are whole steps too, so that the weighted sum of residuals of a cell is the weighted sum of its points minus
    its weight times its center, exactly. Only rows whose residual is clipped are treated one by one.
    """

    def __init__(
        self,
        content: WeightedRows,
        rounds: tuple[ResidualRound, ...],
        *,
        n_rows: float,
        largest_weight: float,
        weight_bits: int = WEIGHT_BITS,
    ) -> None:
        steps = Steps.of(rounds, content.rows.shape[1], n_rows, largest_weight, weight_bits=weight_bits)
        first = rounds[0]
        self._grid = RowGrid(content.rows, first.radius, steps.grid_bits)
        self._weight_lattice = Lattice(step=2.0**-steps.weight_bits)
        self._weights = self._weight_lattice.encode(content.weights)
        # What each row adds to the totals of its cell: weight, weighted distance in this round, weighted point.
        self._steps: IntArray = np.ones((len(content.rows), content.rows.shape[1] + 2), dtype=np.int64)

        def fill(rows: slice) -> None:
            self._steps[rows, 2:] = self._grid.points[rows]
            self._steps[rows] *= self._weights[rows, None]

        self._grid.in_parts(fill)
        size = np.sqrt(self._grid.squares) if first.order == 2.0 else np.abs(self._grid.points).sum(axis=1)
        self._norms = size / self._grid.per_unit  # [note: residual-5]
        self._reaches: dict[float, FloatArray] = {}

    def summarise(
        self, centers: FloatArray, clip: FloatArray, whole: NDArray[np.bool_], round_: ResidualRound, bits: BitSource
    ) -> ResidualSummary:
        """Noisy counts, distances and residual sums of the cells of `centers`.

        Centers, clips and the choice of cells whose rows are summed whole must be released or independent of the data.
        """
        if not (np.all(np.isfinite(centers)) and np.all(np.isfinite(clip))):
            raise ConvergenceError("a center or a clip is not a finite number. No value is returned.")
        # The price of a round of whole rows covers no residuals.
        whole = whole | round_.whole_rows  # [note: residual-6]
        cells = _CellChoices(grid=self._grid.of_centers(centers), clip=clip * self._grid.per_unit, whole=whole)
        total = functools.reduce(operator.add, self._grid.in_parts(self._totals(cells, round_)))
        lattice = Lattice(step=self._weight_lattice.step / self._grid.per_unit)
        one = self._weight_lattice
        counts = round_.count_noise.added_to(total[:, :1], one, bits)[:, 0]
        distances = round_.distance_noise.added_to(total[:, 1:2], one, bits)[:, 0]
        unit = np.where(whole, round_.radius, clip)
        sums = round_.residual_noise.added_to(total[:, 2:], lattice, bits, unit=unit)  # [note: residual-4]
        return ResidualSummary(
            noisy_counts=one.decode(counts),
            noisy_distances=one.decode(distances) * clip,
            noisy_residuals=lattice.decode(sums),
            clip=clip,
            whole=whole,
        )

    def _totals(self, cells: _CellChoices, round_: ResidualRound) -> Callable[[slice], IntArray]:
        """Function that returns the totals of a part of the rows: weights, weighted distances, weighted residuals."""
        if round_.flat_share not in self._reaches:
            self._reaches[round_.flat_share] = round_.reach(self._norms)
        reach = self._reaches[round_.flat_share]

        def totals(rows: slice) -> IntArray:
            label, square = self._grid.assign(cells.grid, rows)
            # The square is exact; the root is correctly rounded.
            distance = np.sqrt(square) if round_.order == 2.0 else self._grid.distances(cells.grid, label, rows)
            # Distance over reach, in units of the clip of the cell. A bound below the floor is far below one step:
            # whatever it bounds is truncated to zero.
            bound = cells.clip[label] * reach[rows]
            ratio = distance / np.fmax(bound, _FLOOR * self._grid.most, out=bound)  # [note: residual-8]
            steps = self._steps[rows]
            steps[:, 1] = np.trunc(np.fmin(ratio, 1.0) * self._weights[rows])  # [note: residual-3]
            clipped = np.flatnonzero(ratio > 1.0)
            clipped = clipped[~cells.whole[label[clipped]]]
            change = self._change(clipped + (rows.start or 0), label[clipped], ratio[clipped], cells)
            # Whole numbers: what is added for this round is subtracted again exactly.
            steps[clipped, 2:] += change
            total = self._grid.total(label, len(cells.grid), steps, rows)
            steps[clipped, 2:] -= change
            total[:, 2:] -= total[:, :1] * cells.origin
            return total

        return totals

    def _change(self, rows: NDArray[np.intp], cell: IntArray, ratio: FloatArray, cells: _CellChoices) -> IntArray:
        """Weighted residuals of these rows, clipped to the reach, minus the same residuals without a clip."""
        weights = self._weights[rows]
        # Truncated after multiplying by the weight, so the norm is at most weight * clip * reach.
        share = weights / ratio * (1.0 - _MARGIN)  # [note: residual-2]
        gap = self._grid.points[rows] - cells.grid[cell]
        return np.trunc(gap * share[:, None]).astype(np.int64) - weights[:, None] * gap.astype(np.int64)


@dataclass(frozen=True, kw_only=True)
class _CellChoices:
    """Public choices of a round, in steps of the grid."""

    grid: FloatArray
    clip: FloatArray
    whole: NDArray[np.bool_]

    @functools.cached_property
    def origin(self) -> IntArray:
        """Subtracted from the points of each cell."""
        return np.where(self.whole[:, None], 0.0, self.grid).astype(np.int64)
