"""Private k-means on one sample: how the rounds follow from each other, up to the released centers.

`refined_kmeans` over-clusters, splits and merges cells, merges them into k centers and polishes these. `paper_kmeans`
is the paper's DP-Lloyd. Only the samples of `pais.kmeans.rounds` see rows. Everything else is computed from what the
rounds release: singular values are shrunk by the known noise, and rounds are combined by how far centers moved beyond
it.

The constants were chosen by eye, in the commits that stand beside them or in d29872a. The tables kmeans-survey.md and
kmeans-public.md of benchmarks/results show what they reach.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from pais._base.numerics import FloatArray
from pais._base.randomness import BitSource
from pais.data.ball import Ball
from pais.data.engines.base import WeightedRows
from pais.kmeans.result import (
    BoolArray,
    CellModel,
    Elbow,
    Generator,
    KMeansValue,
    ReleasedCells,
    into_ball,
    lloyd,
    merge,
    nearest,
    search,
    settle,
)
from pais.kmeans.rounds import LloydSample, ResidualRound, ResidualSample, ResidualSummary

if TYPE_CHECKING:
    from pais.kmeans.mechanism import KMeans

# Factor on the spread of the points that give the starting cells, because the best cells are more spread out than the
# data, and the number of these points: for each cell, and at most (27ad033, for speed).
_START_SPREAD, _START_POINTS, _MOST_START_POINTS = 1.25, 30, 2000

# A clip is between these multiples of the mean distance of a cell. It grows slowly with the size of the cell, because
# the bias of clipping matters more when the noise is small (e0ae639). From a share of the radius on, whole rows are
# summed, which costs less than residuals with such a clip (c841361).
_LEAST_CLIP, _MOST_CLIP, _CLIP_FACTOR, _WHOLE_FROM = 0.8, 6.0, 0.65, 0.9

# From this share of the clip on, a mean that moved says that rows may be beyond the clip: by as much as it moved if it
# moved by the whole clip. With steps or clips that grow faster, 64 clusters in a box cost more (see the message of the
# commit that added this line).
_BEYOND_FROM = 0.4

# A cell is split only if its count exceeds this many standard deviations of its noise. Cells whose rows are `_WIDE`
# times as far from the center as in the median cell contain several clusters. The gain of a split must be this many
# times the loss of the merge that frees a cell (c841361).
_SPLIT_COUNT, _WIDE, _EXPLORING_RATIO, _POLISHING_RATIO = 4.0, 1.6, 3.0, 4.0

# Number of points that stand for the rows of a cell when cells are merged: fewer if there are many cells (27ad033, for
# speed). Number of ways to merge the cells that are compared: four cost the same (01ba547).
_MOST_CELL_POINTS, _LEAST_CELL_POINTS, _MODEL_POINTS, _CANDIDATES = 48, 8, 3000, 2

# What `denoise` removed from a row is more than noise if its energy exceeds that of noise by this many deviations.
# Between 2 and 4, the medians of eleven sets `far-` of benchmarks.regimes are the same within their noise.
_ALONE = 3.0

# If the radius is this many times the root mean square norm, some rows are far beyond the others. Then so many of the
# cells start at this share of the radius, in directions on all sides. Tuned on the sets `far-` of benchmarks.regimes.
_FAR_RADIUS, _OUTPOSTS, _OUTPOST_NORM = 3.0, 0.25, 0.5

# If some rows are far beyond the others, a distance is shrunk by at most this many deviations of its noise, so that the
# clip of a far cell does not end before its rows. And noise hides some of the counts of a small cell: its last two
# counts keep it if their mean is so many deviations of one count. Elsewhere both would cost more: up to 15 times the
# floor in 1 of 80 fits of 64 clusters in a box.
_LEAST_DISTANCE, _TOGETHER = 1.0, 1.5

# With so many rounds the noise is negligible, and what centers cost beyond the best ones is the search: then there are
# so many times as many points and ways to merge, and more steps of Lloyd's algorithm on the points. On Covertype at
# epsilon 1, the mean cost over the floor falls from 1.0122 to 1.0093.
_THOROUGH_ROUNDS, _MORE_POINTS, _MORE_CANDIDATES, _STEPS, _LAST_STEPS = 11, 2, 4, 3, 20

# Largest factor by which the steps of the polishing rounds are lengthened, and the same where the noise is negligible.
# What centers cost there is the steps that are left: Covertype at epsilon 1 falls from 1.0113 to 1.0087 (mean of 24
# fits), and 64 clusters in a box and rows with separate clusters stay within 0.0003, because cells that turn back take
# shorter steps.
_RELAXATION, _LONG_RELAXATION = 1.8, 3.0

# Spread that the centers lack, over their expected squared error, and the largest factor on distances to their mean.
# Of 1 to 20 and 1.2 or 1.35, the best on 35 cells of benchmarks.regimes: 0.7 % less cost on average, 4 % at most.
_LOST_SPREAD, _MOST_SPREAD = 4.0, 1.2

# If the number of rows that all rounds show is below this many standard deviations, the noise drowned the rows. The
# second number holds if the plan expected no rows above the noise. With 2, noise becomes centers in 2 of 60 fits of 300
# rows at epsilon 0.02. With 3 it does in none, and no median cost of eleven small sets of benchmarks.regimes is larger
# (1f84902).
_DROWNED, _UNSEEN = 1.0, 3.0


def paper_kmeans(plan: KMeans, content: WeightedRows, ball: Ball, rng: Generator, bits: BitSource) -> KMeansValue:
    """Algorithm 2 of the paper from a start that does not depend on the data; centers are clipped to the ball."""
    sample = LloydSample(content, ball, plan.plain_rounds)
    centers = _directions(plan.n_clusters, plan.n_features, plan.radius, rng)
    counts = np.zeros(plan.n_clusters)
    errors = np.full_like(centers, plan.radius)
    for round_ in plan.plain_rounds:
        summary = sample.summarise(centers, round_, bits)
        counts = summary.noisy_counts
        # Do not divide by a count that is within its noise; keep the old center instead.
        filled = counts > round_.count_noise.scale
        size = np.where(filled, counts, 1.0)[:, None]
        moved = into_ball(summary.noisy_sums / size, plan.radius)
        noise = np.hypot(round_.sum_noise.deviation(plan.n_features), moved * round_.count_noise.deviation(1)) / size
        # The rounds do not measure distances within clusters, which are at most about the norms.
        noise = np.hypot(noise, np.sqrt(plan.sampling_variance(plan.mean_square_norm, size)))
        centers = np.where(filled[:, None], moved, centers)
        errors = np.where(filled[:, None], np.minimum(noise, plan.radius), errors)
    return KMeansValue(centers=centers, noisy_counts=counts, standard_errors=errors)


def refined_kmeans(plan: KMeans, content: WeightedRows, rng: Generator, bits: BitSource) -> KMeansValue:
    """The rounds of a plan on a sample, from cells that a second moment or a first round of sectors suggests."""
    sample = ResidualSample(
        content,
        plan.residual_rounds,
        n_rows=plan.n_rows,
        largest_weight=plan.largest_weight,
        weight_bits=plan.weight_bits,
    )
    if plan.moment is None:
        clustering = Clustering(plan, sample, rng, bits, plan.n_rows)
        clustering.start_from_sectors(plan.residual_rounds[0])
        return clustering.run(plan.residual_rounds[1:])
    moment = plan.moment.measure(content, plan.largest_weight, bits)
    n_rows, noise = plan.moment.noisy_rows(moment)
    # A number below this noise, such as that of a survey of a few rows, says less than the number in the moment.
    n_rows = plan.n_rows if plan.n_rows > noise else max(n_rows, noise)
    mean, scatter = plan.moment.mean_and_scatter(moment, n_rows)
    left = max(plan.mean_square_norm - float(np.square(mean).sum()), 0.05 * plan.mean_square_norm)
    clustering = Clustering(plan, sample, rng, bits, n_rows)
    clustering.start_from_moment(mean, spread_of_moment(scatter, plan.moment.noise.scale, n_rows, left))
    return clustering.run(plan.residual_rounds)


def _directions(n: int, d: int, radius: float, rng: Generator) -> FloatArray:
    """Random directions at half the radius: a start that uses no rows. With equal norms, the cells are sectors."""
    direction = rng.standard_normal((n, d))
    return np.asarray(0.5 * radius * direction / np.linalg.norm(direction, axis=1, keepdims=True))


def on_all_sides(most: int, d: int, rng: Generator) -> FloatArray:
    """At most d + 1 unit vectors, which leave no side out if all are taken: corners of a simplex, turned at random."""
    corner = np.eye(d + 1) - 1.0 / (d + 1)
    # The corners lie in the d directions with eigenvalue 1.
    corner = corner @ np.linalg.eigh(corner)[1][:, 1:]
    turn = np.linalg.qr(rng.standard_normal((d, d)))[0]
    turned = (corner / np.linalg.norm(corner, axis=1, keepdims=True)) @ turn
    return np.asarray(turned[:most])


@dataclass(kw_only=True)
class Cells:
    """Centers of the cells, and what is known about each.

    Attributes
    ----------
    centers : array of shape (n_cells, d)
    sizes : array
        Estimated number of rows.
    distances : array
        Estimated mean distance of the rows to the center.
    errors : array
        Expected squared error of the center; of its parent's center, if it has not been measured.
    noise : array
        Variance of each coordinate of the center due to the noise of the rounds, without any shrinkage.
    measured : array of bool
        Whether a round has measured the center.
    beyond : array
        Square of how far the rows may be from the center beyond their mean distance, because they were clipped.
    """

    centers: FloatArray
    sizes: FloatArray
    distances: FloatArray
    errors: FloatArray
    noise: FloatArray
    measured: BoolArray
    beyond: FloatArray

    def copy(self) -> Cells:
        return Cells(**{name: value.copy() for name, value in vars(self).items()})


@dataclass(frozen=True, kw_only=True)
class Space:
    """Where centers can lie: the ball, and the directions in which the rows spread."""

    radius: float
    spread: FloatArray
    rng: Generator

    @cached_property
    def dimension(self) -> float:
        """Effective number of directions in which the rows spread: between 1 and d."""
        variance = np.square(self.spread).sum(axis=1)
        return max(1.0, float(variance.sum() ** 2 / max(np.square(variance).sum(), 1e-300)))

    def direction(self) -> FloatArray:
        """A random unit vector, longer on average where the rows spread more."""
        step = self.rng.standard_normal(len(self.spread)) @ self.spread
        return np.asarray(step / max(float(np.linalg.norm(step)), 1e-300))


@dataclass(kw_only=True)
class Measured:
    """What a round says about the cells: means and sizes, and which of them stand above the noise."""

    means: FloatArray
    errors: FloatArray
    noise: FloatArray
    sizes: FloatArray
    distances: FloatArray
    trusted: BoolArray
    beyond: FloatArray


@dataclass
class Clustering:
    """The rounds of one release and the cells between them.

    Attributes
    ----------
    n_rows : float
        Released or public number of rows for the start: the planned one, unless the second moment shows a better one.
    totals : list of (float, float)
        Noisy number of rows that each round counts, and the standard deviation of its noise.
    """

    plan: KMeans
    sample: ResidualSample
    rng: Generator
    bits: BitSource
    n_rows: float
    cells: Cells = field(init=False)
    space: Space = field(init=False)
    stack: list[FloatArray] = field(default_factory=list)
    strength: list[FloatArray] = field(default_factory=list)
    totals: list[tuple[float, float]] = field(default_factory=list)
    step: FloatArray | None = None

    @property
    def far(self) -> bool:
        """Whether some rows are far beyond the others, by what the survey released or the user stated."""
        return self.plan.radius > _FAR_RADIUS * math.sqrt(self.plan.mean_square_norm)

    def start_from_moment(self, mean: FloatArray, spread: FloatArray) -> None:
        """Start from cells that a mean and the directions of the rows suggest."""
        plan = self.plan
        start, distance = cells_from_spread(spread, plan.cells, plan.radius, self.rng)
        unseen = plan.mean_square_norm - float(np.square(mean).sum() + np.square(spread).sum())
        distance = math.hypot(distance, math.sqrt(max(unseen, 0.0)))
        centers = into_ball(mean + start, plan.radius)
        far: FloatArray = np.empty((0, plan.n_features))
        if self.far:
            far = _OUTPOST_NORM * plan.radius * on_all_sides(int(_OUTPOSTS * plan.cells), plan.n_features, self.rng)
        # They take the place of the cells nearest to the mean, where most cells are.
        place = np.argsort(np.square(centers - mean).sum(axis=1), kind="stable")[: len(far)]
        centers[place] = far
        # Allow for clusters that are far from all starting centers.
        self._start(spread, centers, distance, distance * plan.radius)
        self.cells.beyond[place] = (_OUTPOST_NORM * plan.radius) ** 2

    def _start(self, spread: FloatArray, centers: FloatArray, distance: float, beyond: float) -> None:
        n = len(centers)
        self.space = Space(radius=self.plan.radius, spread=spread, rng=self.rng)
        self.cells = Cells(
            centers=centers,
            sizes=np.full(n, self.n_rows / n),
            distances=np.full(n, distance),
            errors=np.zeros(n),
            noise=np.full(n, self.plan.radius**2),
            measured=np.zeros(n, dtype=bool),
            beyond=np.full(n, beyond),
        )

    def start_from_sectors(self, round_: ResidualRound) -> None:
        """Measure sectors, the cells of random directions, and start from cells that fit their means."""
        plan = self.plan
        sectors = _directions(plan.cells, plan.n_features, plan.radius, self.rng)
        self._start(np.eye(plan.n_features), sectors, plan.radius, plan.radius**2)
        measured = self._measured(self._summarise(round_), round_)
        self.stack.clear()
        self.strength.clear()
        share = np.where(measured.trusted, np.maximum(measured.sizes, 1e-9), 0.0)
        share /= share.sum()
        mean_square = plan.mean_square_norm
        if plan.order == 1.0:
            # l1 norms give only a guess of the Euclidean norms. The sector means show a large part of their size.
            mean_square = max(mean_square, 1.5 * float(share @ np.square(measured.means).sum(axis=1)))
        spread = spread_of_sectors(measured.means, share, mean_square)
        start, distance = cells_from_sectors(measured.means, share, spread, plan.cells, plan.radius, self.rng)
        self._start(spread, start, distance, 0.0)

    def run(self, rounds: tuple[ResidualRound, ...]) -> KMeansValue:
        """Run rounds from the cells of a start, and return the centers."""
        plan, last = self.plan, len(rounds) - 1
        cells: ReleasedCells | None = None
        for t, round_ in enumerate(rounds):
            summary = self._summarise(round_)
            measured = self._measured(summary, round_)
            exploring = t < plan.explore
            self._update(measured, exploring=exploring, relax=not exploring and t < last)
            if t == plan.explore - 1:
                cells = self._released(measured.trusted, round_.count_noise.deviation(1))
                k, square = plan.n_clusters, plan.mean_square_norm if plan.order == 2.0 else None
                if plan.choose:
                    k = Elbow.of(CellModel(cells, plan.n_rows, square, plan.radius), most=k).suggested
                counts = self._merge(measured.trusted, k)
            else:
                counts = summary.noisy_counts
                if t < last - 1 or exploring:
                    ratio = _EXPLORING_RATIO if exploring else _POLISHING_RATIO
                    noise = round_.count_noise.deviation(1)
                    self.cells = reallocate(self.cells, measured.trusted, self.space, count_noise=noise, ratio=ratio)
        centers, errors = self._distinct()
        return KMeansValue(centers=centers, noisy_counts=counts, standard_errors=errors, cells=cells)

    def _released(self, trusted: BoolArray, size_noise: float) -> ReleasedCells:
        """The trusted cells, as part of the released value."""
        cells = self.cells
        return ReleasedCells(
            centers=cells.centers[trusted],
            noisy_sizes=cells.sizes[trusted],
            size_noise=size_noise,
            mean_distances=cells.distances[trusted],
            standard_errors=np.sqrt(self._variance()[trusted]),
            errors=cells.errors[trusted],
            spread=self.space.spread,
        )

    def _distinct(self) -> tuple[FloatArray, FloatArray]:
        """The centers, with those that no round measured on top of the nearest one that was, and standard errors.

        If the number of rows that all rounds show is within its noise, the noise drowned the rows, and all centers are
        at their mean. If the number that was planned for is within that noise too, the rounds must show the rows more
        clearly. Otherwise nothing is known, and all centers are at the origin.
        """
        cells, plan = self.cells, self.plan
        # The counts of all rounds, each weighted by its precision, and the noise of this number.
        totals, noises = np.array(self.totals).T
        precision = np.square(noises.min() / noises)
        shown = float(precision @ totals / precision.sum())
        noise = float(noises.min() / math.sqrt(precision.sum()))
        expected = plan.n_rows > noise
        if shown <= (_DROWNED if expected else _UNSEEN) * noise:
            weights = np.maximum(cells.sizes, 1e-9)
            mean = np.average(cells.centers, axis=0, weights=weights) if expected else np.zeros(plan.n_features)
            return np.tile(mean, (len(cells.centers), 1)), np.full_like(cells.centers, plan.radius)
        centers, variance = self._spread_out(), self._variance()
        if np.any(cells.measured) and not np.all(cells.measured):
            measured = np.flatnonzero(cells.measured)
            twin = measured[nearest(centers[~cells.measured], centers[measured])]
            centers[~cells.measured], variance[~cells.measured] = centers[twin], variance[twin]
        error = np.minimum(np.sqrt(variance), plan.radius)
        return centers, np.repeat(error[:, None], centers.shape[1], axis=1)

    def _spread_out(self) -> FloatArray:
        """The centers, moved away from their mean if shrinkage by the noise left them too near to it.

        A row takes its nearest center, so centers that are spread out as the true ones cost less than the likeliest
        ones, whose spread lacks their error.
        """
        cells = self.cells
        if self.plan.moment is None:
            return cells.centers
        weights = np.maximum(cells.sizes, 1e-9)
        mean = np.average(cells.centers, axis=0, weights=weights)
        spread = float(weights @ np.square(cells.centers - mean).sum(axis=1))
        lost = _LOST_SPREAD * float(weights @ cells.errors) / max(spread, 1e-300)
        factor = min(math.sqrt(1.0 + lost), _MOST_SPREAD)
        return into_ball(mean + factor * (cells.centers - mean), self.plan.radius)

    def _variance(self) -> FloatArray:
        """Variance of a coordinate of the mean of each cell, from the noise and from the sample."""
        cells, d = self.cells, self.plan.n_features
        # The mean square exceeds the square of the mean distance: by a half for one column, and hardly for many.
        square_distance = np.square(cells.distances) * (1.0 + 0.5 / d)
        return np.asarray(cells.noise + self.plan.sampling_variance(square_distance, cells.sizes))

    def _reach(self, round_: ResidualRound) -> float:
        """Typical reach of a record, that of the root mean square norm, per unit of Euclidean distance."""
        norm = math.sqrt(min(self.plan.mean_square_norm, self.plan.radius**2))
        reach = float(round_.reach(np.array([norm]))[0])
        if round_.order == 2.0:
            return reach
        # A residual that spreads over m directions has an l1 norm of about sqrt(2 m / pi) times its Euclidean norm.
        least: float = 1.5 * self.plan.n_features**0.25
        return reach / max(math.sqrt(2.0 * self.space.dimension / math.pi), least)

    def _summarise(self, round_: ResidualRound) -> ResidualSummary:
        """Run one round, with a clip for each cell from its size, its mean distance and the error of its center."""
        cells, radius, d = self.cells, self.plan.radius, self.plan.n_features
        noise = round_.residual_noise.deviation(d)
        factor = _CLIP_FACTOR * (2.0 * np.square(cells.sizes / noise) / d) ** (1.0 / 6.0)
        factor = np.minimum(np.maximum(factor, _LEAST_CLIP), _MOST_CLIP)
        wanted = np.square(factor * cells.distances) + cells.errors + cells.beyond
        clip = np.sqrt(wanted) / self._reach(round_)
        whole = (clip >= _WHOLE_FROM * radius) | round_.whole_rows
        clip = np.where(whole, radius, np.maximum(clip, 1e-9 * radius))
        return self.sample.summarise(cells.centers, clip, whole, round_, self.bits)

    def _measured(self, summary: ResidualSummary, round_: ResidualRound) -> Measured:
        """Denoised means of the cells, their squared errors and mean distances, and which cells are trusted."""
        plan, noisy = self.plan, summary.noisy_counts
        count_noise = round_.count_noise.deviation(1)
        self.totals.append((float(noisy.sum()), count_noise * math.sqrt(len(noisy))))
        sum_noise = round_.residual_noise.deviation(plan.n_features) * summary.clip
        # A cell that was measured before and seems to be empty now has both counts together, if these are clear.
        together = 0.5 * (noisy + self.cells.sizes)
        kept = self.cells.measured & (together > _TOGETHER * count_noise) & self.far
        kept &= noisy <= plan.trust * count_noise
        noisy = np.where(kept, together, noisy)
        trusted = noisy > plan.trust * count_noise
        if not np.any(trusted):
            trusted[np.argmax(noisy)] = True
        size = np.maximum(noisy, count_noise)
        sums = summary.noisy_residuals + np.where(summary.whole, 0.0, size)[:, None] * self.cells.centers
        self.stack.append(sums / sum_noise[:, None])
        self.strength.append(size / sum_noise)
        shrunk, left = denoise(np.vstack(self.stack), np.concatenate(self.strength), len(size))
        shrunk, left = restore(self.stack[-1], shrunk, left, self.strength[-1])
        means, reach = into_ball(shrunk * (sum_noise / size)[:, None], plan.radius), self._reach(round_)
        errors = left * np.square(sum_noise / size) + 1e-12 * plan.radius**2
        shrunk_by = _LEAST_DISTANCE if self.far else math.inf
        return Measured(
            means=means,
            errors=errors,
            noise=np.square(sum_noise / size),
            sizes=np.where(trusted, noisy, count_noise),
            distances=self._distances(summary, round_, size, trusted, shrunk_by=shrunk_by) * reach,
            trusted=trusted,
            beyond=np.where(summary.whole, 0.0, self._beyond(means, errors, summary.clip * reach)),
        )

    def _beyond(self, means: FloatArray, errors: FloatArray, clip: FloatArray) -> FloatArray:
        """Square of how far the rows of a cell may still be from their measured mean, because residuals were clipped.

        If all rows are far away in one direction, their mean moves by the whole clip, and by no more. What the known
        error of the old center explains does not count.
        """
        moved = np.maximum(np.square(means - self.cells.centers).sum(axis=1) - errors, 0.0)
        share = (np.sqrt(moved) / clip - _BEYOND_FROM) / (1.0 - _BEYOND_FROM)
        return np.asarray(np.clip(share, 0.0, 1.0) * np.maximum(moved - self.cells.errors, 0.0))

    @staticmethod
    def _distances(
        summary: ResidualSummary,
        round_: ResidualRound,
        size: FloatArray,
        trusted: BoolArray,
        *,
        shrunk_by: float = math.inf,
    ) -> FloatArray:
        """Mean distance / reach of the rows of each cell, shrunk toward the mean over all cells by its noise.

        It is shrunk less if the cells differ more: cells of far clusters can be many times as wide as the others. At
        most, it is shrunk by so many deviations of its noise.
        """
        clip, noisy = summary.clip, summary.noisy_distances
        total = size[trusted].sum()
        noise = round_.distance_noise.deviation(1) * clip
        # A mean below its noise says little, and the clips of all cells would follow it.
        mean = max(float(noisy[trusted].sum()), float(np.linalg.norm(noise[trusted]))) / total
        own, error = np.maximum(noisy / size, 0.0), np.square(noise / size)
        seen = float(size[trusted] @ (np.square(own - mean) - error)[trusted] / total)
        variety = max((0.5 * mean) ** 2, seen)
        shrunk = np.maximum((variety * own + error * mean) / (variety + error), 0.05 * mean)
        least = np.minimum(own, clip) - shrunk_by * np.sqrt(error)
        return np.asarray(np.where(trusted, np.maximum(shrunk, least), mean))

    def _update(self, measured: Measured, *, exploring: bool, relax: bool) -> None:
        """Combine old centers and new means in a Kalman step.

        The old centers get less weight the further the centers moved beyond the noise of both. The steps of all
        polishing rounds but the last are lengthened in proportion to the part that is not noise, because the steps of
        Lloyd's algorithm are short. Untrusted cells keep their center, unless they will be moved anyway.
        """
        cells, trusted, error, size = self.cells, measured.trusted, measured.errors, measured.sizes
        known = trusted & cells.measured
        gain, drift = np.ones(len(size)), 0.0
        if np.any(known):
            past = np.where(known, cells.errors, 0.0)
            moved = np.square(measured.means - cells.centers).sum(axis=1) - error - past
            mass = np.maximum(size, 1e-9)
            share = np.where(known, mass, 0.0) / mass[known].sum()
            drift = max(0.0, float(share @ moved))
            gain[known] = (past[known] + drift) / (past[known] + drift + error[known])
            error = gain * error
            if relax:
                rest = float(share @ error)
                gain *= 1.0 + (self._relaxation(measured.means - cells.centers) - 1.0) * drift / (drift + rest)
        # The mean of a cell moves as its rows change: by about as much in the next round as in this one.
        moving = drift / cells.centers.shape[1]
        noise = gain**2 * measured.noise + (1.0 - gain) ** 2 * np.where(known, cells.noise + moving, 0.0) + moving
        updated = into_ball(cells.centers + gain[:, None] * (measured.means - cells.centers), self.plan.radius)
        error = np.minimum(error, self.plan.radius**2)
        self.cells = Cells(
            centers=updated if exploring else np.where(trusted[:, None], updated, cells.centers),
            sizes=size,
            distances=measured.distances,
            errors=np.where(trusted, error, cells.errors),
            noise=np.where(trusted, noise, cells.noise),
            measured=trusted if exploring else trusted | cells.measured,
            beyond=np.where(trusted, measured.beyond, cells.beyond),
        )

    def _relaxation(self, step: FloatArray) -> FloatArray | float:
        """Factors by which steps are lengthened: less for a cell that turns back, whose last step was too long."""
        last, self.step = self.step, step
        if not self._is_thorough:
            return _RELAXATION
        if last is None:
            return _LONG_RELAXATION
        length = np.linalg.norm(step, axis=1) * np.linalg.norm(last, axis=1)
        turn = np.einsum("ij,ij->i", step, last) / np.maximum(length, 1e-300)
        return np.asarray(_LONG_RELAXATION + (_LONG_RELAXATION - 1.0) * np.minimum(turn, 0.0))

    def _model(self, points: FloatArray, distances: FloatArray, mass: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Points that stand for the rows of the cells: around each center, as far away as the rows were."""
        spread = self.space.spread / math.sqrt(float(np.square(self.space.spread).sum()))
        each = min(max(_LEAST_CELL_POINTS, _MODEL_POINTS // len(points)), _MOST_CELL_POINTS)
        each *= _MORE_POINTS if self._is_thorough else 1
        offset = self.rng.standard_normal((len(points), each, len(spread))) @ spread
        model = points[:, None, :] + distances[:, None, None] * offset
        return model.reshape(-1, points.shape[1]), np.repeat(mass / each, each)

    @property
    def _is_thorough(self) -> bool:
        """Whether the plan has so little noise that a longer search pays."""
        return len(self.plan.rounds) >= _THOROUGH_ROUNDS

    def _merge(self, trusted: BoolArray, k: int) -> FloatArray:
        """Merge the trusted cells into k centers with the errors they inherit; return the counts of the centers."""
        cells = self.cells
        points, error, mass = cells.centers[trusted], cells.errors[trusted], np.maximum(cells.sizes[trusted], 1e-9)
        candidates = merge(points, mass, k, self.rng)
        model = self._model(points, cells.distances[trusted], mass)
        if self._is_thorough:
            best = search(candidates[: _CANDIDATES * _MORE_CANDIDATES], *model, steps=_STEPS, last=_LAST_STEPS)
        else:
            best = settle(candidates[:_CANDIDATES], *model)
        centers = into_ball(best, self.plan.radius)
        label = nearest(points, centers)
        total: FloatArray = np.bincount(label, mass, minlength=k).astype(np.float64)
        some = np.maximum(total, 1e-9)
        inside = np.square(cells.distances[trusted]) + np.square(points - centers[label]).sum(axis=1)
        square = np.bincount(label, mass * inside, minlength=k) / some
        typical = math.sqrt(float(np.average(square, weights=some)))
        inherited = np.bincount(label, mass**2 * error, minlength=k) / some**2
        self.cells = Cells(
            centers=centers,
            sizes=np.maximum(total, 1.0),
            distances=np.where(total > 0.0, np.sqrt(square), typical),
            errors=inherited,
            noise=np.bincount(label, mass**2 * cells.noise[trusted], minlength=k) / some**2,
            measured=total > 0.0,
            beyond=np.bincount(label, mass * cells.beyond[trusted], minlength=k) / some,
        )
        return total


def reallocate(cells: Cells, trusted: BoolArray, space: Space, *, count_noise: float, ratio: float) -> Cells:
    """Split the cells that gain most, with idle cells first, then with cells freed by the cheapest merges.

    A split must gain more than `ratio` times what the merge loses. Idle cells that are left go beside busy ones.
    """
    cells = cells.copy()
    idle = np.flatnonzero(~trusted).tolist()
    order, gains = _gains(cells, trusted, space, count_noise)
    pairs = _merges(cells, trusted)
    used: set[int] = set()
    for j, gain in zip(order, gains, strict=True):
        if j in used:
            continue
        if idle:
            i = idle.pop()
        else:
            pair = next((p for p in pairs if j not in p[:2] and not used & {*p[:2]}), None)
            if pair is None or pair[2] * ratio >= gain:
                break
            i = _merged(cells, pair[0], pair[1])
            used.add(pair[1])
        used |= {i, j}
        step = 0.5 * cells.distances[j] / math.sqrt(space.dimension) * space.direction()
        cells.centers[i], cells.centers[j] = cells.centers[j] + step, cells.centers[j] - step
        cells.sizes[i] = cells.sizes[j] = cells.sizes[j] / 2.0
        _follow(cells, i, j)
        cells.measured[j] = False
    if idle:
        # If no count is above its noise, the one cell that is trusted may have the size zero.
        share = np.where(trusted, np.maximum(cells.sizes, 1e-9), 0.0)
        for i, j in zip(idle, space.rng.choice(len(share), len(idle), p=share / share.sum()), strict=True):
            cells.centers[i] = cells.centers[j] + 0.25 * cells.distances[j] * space.direction()
            cells.sizes[i] = cells.sizes[j] / 2.0
            _follow(cells, i, j)
    cells.centers = into_ball(cells.centers, space.radius)
    return cells


def _follow(cells: Cells, i: int, j: int) -> None:
    """Let cell i, which has not been measured, start with what is known about cell j."""
    for known in (cells.distances, cells.errors, cells.noise, cells.beyond):
        known[i] = known[j]
    cells.measured[i] = False


def _gains(cells: Cells, trusted: BoolArray, space: Space, count_noise: float) -> tuple[list[int], list[float]]:
    """Cells that are large enough to split, and what a split would gain, the largest gain first."""
    square = np.square(cells.distances)
    in_order = np.sort(cells.distances[trusted])
    typical = 0.5 * float(in_order[(in_order.size - 1) // 2] + in_order[in_order.size // 2])
    eta = min(1.0, 2.0 / (math.pi * space.dimension))
    gain = np.maximum(eta * cells.sizes * square, cells.sizes * (square - (_WIDE * typical) ** 2))
    gain[~trusted | (cells.sizes < _SPLIT_COUNT * count_noise)] = 0.0
    order = np.argsort(-gain, kind="stable")
    order = order[gain[order] > 0.0]
    return order.tolist(), gain[order].tolist()


def _merges(cells: Cells, trusted: BoolArray) -> list[tuple[int, int, float]]:
    """Pairs of cells and what merging them would lose, the cheapest first."""
    alive = np.flatnonzero(trusted)
    centers, size = cells.centers[alive], np.maximum(cells.sizes[alive], 1e-9)
    square = np.einsum("ij,ij->i", centers, centers)
    error = np.where(cells.measured[alive], cells.errors[alive], 0.0)
    gap = square[:, None] + square - 2.0 * centers @ centers.T - error[:, None] - error
    loss = size[:, None] * size / (size[:, None] + size) * np.maximum(gap, 0.0)
    loss[np.tri(len(alive), dtype=bool)] = np.inf
    n_pairs = min(len(alive) * (len(alive) - 1) // 2, 4 * len(cells.sizes))
    cheapest = np.argpartition(loss, n_pairs, axis=None)[:n_pairs]
    cheapest = cheapest[np.lexsort((cheapest, loss.ravel()[cheapest]))]
    i, j = np.divmod(cheapest, len(alive))
    return list(zip(alive[i].tolist(), alive[j].tolist(), loss[i, j].tolist(), strict=True))


def _merged(cells: Cells, i: int, j: int) -> int:
    """Merge cell i into cell j and return i, which is free now."""
    size = cells.sizes[i] + cells.sizes[j]
    center = (cells.sizes[i] * cells.centers[i] + cells.sizes[j] * cells.centers[j]) / size
    square = sum(
        cells.sizes[c] * (cells.distances[c] ** 2 + np.square(cells.centers[c] - center).sum()) for c in (i, j)
    )
    cells.centers[j], cells.sizes[j], cells.distances[j] = center, size, math.sqrt(square / size)
    return i


def spread_of_moment(moment: FloatArray, noise: float, n_rows: float, mean_square_norm: float) -> FloatArray:
    """Matrix s such that s.T @ s approximates the covariance.

    It uses the eigenvalues beyond the edge of the noise spectrum, corrected for the bias that the noise adds to them,
    and made larger to compensate for rows that were clipped before the moment was taken.
    """
    d = len(moment)
    value, vector = np.linalg.eigh(moment)
    energy = noise**2 / 2.0 * d
    keep = value > 2.0 * math.sqrt(energy)
    if not np.any(keep):
        return np.eye(d) * math.sqrt(mean_square_norm / d)
    value = value[keep]
    value = 0.5 * (value + np.sqrt(value**2 - 4.0 * energy))
    clipped = max(float(np.trace(moment)), float(value.sum()))
    enlarged = min(max(n_rows * mean_square_norm / clipped, 1.0), 4.0)
    return np.asarray(np.sqrt(value * enlarged / n_rows)[:, None] * vector[:, keep].T)


def spread_of_sectors(means: FloatArray, share: FloatArray, mean_square_norm: float) -> FloatArray:
    """The same matrix from sector means, whose singular values are about proportional to the covariance eigenvalues."""
    _, value, vector = np.linalg.svd(means * np.sqrt(share)[:, None], full_matrices=False)
    if value.sum() <= 0.0:
        return np.eye(means.shape[1]) * math.sqrt(mean_square_norm / means.shape[1])
    return np.asarray(np.sqrt(mean_square_norm * value / value.sum())[:, None] * vector)


def cells_from_spread(spread: FloatArray, cells: int, radius: float, rng: Generator) -> tuple[FloatArray, float]:
    """Starting cells by Lloyd's algorithm on a Gaussian with the covariance of `spread`; and their root mean square."""
    n_points = min(_START_POINTS * cells, _MOST_START_POINTS)
    points = _START_SPREAD * rng.standard_normal((n_points, len(spread))) @ spread
    return _started(points, cells, radius, rng)


def cells_from_sectors(
    means: FloatArray, share: FloatArray, spread: FloatArray, cells: int, radius: float, rng: Generator
) -> tuple[FloatArray, float]:
    """Starting cells: Lloyd's algorithm on sector means plus a Gaussian with the variance they do not explain."""
    total = float(np.square(spread).sum())
    explained = float(share @ np.square(means).sum(axis=1)) / max(total, 1e-300)
    points = means[rng.choice(len(means), min(_START_POINTS * cells, _MOST_START_POINTS), p=share)]
    rest = math.sqrt(max(0.0, 1.0 - explained))
    points = points + rest * rng.standard_normal((len(points), len(spread))) @ spread
    return _started(into_ball(points, radius), cells, radius, rng)


def _started(points: FloatArray, cells: int, radius: float, rng: Generator) -> tuple[FloatArray, float]:
    seeds = points[rng.choice(len(points), cells, replace=len(points) < cells)]
    centers = into_ball(lloyd(points, np.ones(len(points)), seeds, 6), radius)
    distance = np.square(points - centers[nearest(points, centers)]).sum(axis=1)
    return centers, math.sqrt(float(distance.mean()))


def denoise(stack: FloatArray, strength: FloatArray, last: int) -> tuple[FloatArray, FloatArray]:
    """Shrink the last rows of a stack of signal plus unit noise, where the signals share a low-dimensional space.

    Gavish and Donoho's shrinkage factor of a singular direction is a Wiener factor g/(1+g) at mean strength. Rows of
    larger strength are shrunk less. Returns the shrunk rows and the noise variance that remains in each.
    """
    rows, d = stack.shape
    long, beta = max(rows, d), min(rows, d) / max(rows, d)
    if rows >= d:
        square, right = np.linalg.eigh(stack.T @ stack)
    else:
        square, left = np.linalg.eigh(stack @ stack.T)
    y = np.maximum(square, 0.0) / long
    keep = y > (1.0 + math.sqrt(beta)) ** 2
    y = y[keep]
    factor = np.sqrt(np.maximum((y - beta - 1.0) ** 2 - 4.0 * beta, 0.0)) / y
    right = right[:, keep] if rows >= d else stack.T @ (left[:, keep] / np.sqrt(square[keep]))
    gain = factor / np.maximum(1.0 - factor, 1e-9)
    gain = (strength[-last:] / strength.mean())[:, None] * gain
    gain = gain / (1.0 + gain)
    return (stack[-last:] @ right * gain) @ right.T, gain.sum(axis=1)


def restore(
    noisy: FloatArray, shrunk: FloatArray, left: FloatArray, strength: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Give back a part of what `denoise` removed, if its energy is more than that of noise.

    The excess energy is the signal in directions that are too weak to be recognised one by one. Rows of larger strength
    get more of it back. A row that lost clearly more than noise lies where no other row does, such as a small cluster
    far away. It gets the part back that is not noise. Returns the rows and the noise variance that remains in each.
    """
    removed, degrees = noisy - shrunk, np.maximum(noisy.shape[1] - left, 1e-9)
    energy = np.square(removed).sum(axis=1)
    excess = max(0.0, float(energy.sum() / degrees.sum()) - 1.0)
    square = np.square(strength)
    gain = excess * square / square.mean()
    gain = gain / (1.0 + gain)
    alone = energy > degrees + _ALONE * np.sqrt(2.0 * degrees)
    gain = np.where(alone, np.maximum(gain, 1.0 - degrees / np.maximum(energy, 1e-300)), gain)
    return shrunk + gain[:, None] * removed, left + gain * degrees
