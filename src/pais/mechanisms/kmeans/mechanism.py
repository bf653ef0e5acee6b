"""Private k-means on one weighted sample: over-cluster, refine, merge, polish; and the paper's plain DP-Lloyd."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from pais._base import validate
from pais._base.files import stored
from pais._base.numerics import FloatArray
from pais._base.randomness import BitSource
from pais._base.threads import one_blas_thread
from pais.data.ball import Ball
from pais.data.engines import WeightedRows
from pais.errors import ArgumentError, MismatchError
from pais.mechanisms.base import Extent, Mechanism
from pais.mechanisms.kmeans import refine
from pais.mechanisms.kmeans.lloyd import LloydSample, Round, Summary, add_profiles, count_lattice, sum_lattice
from pais.mechanisms.noise import GaussianNoise
from pais.privacy.profiles import GaussianProfile, LinearProfile

# Largest factor by which the steps of the polishing rounds are lengthened.
_RELAXATION = 1.8


@dataclass(frozen=True, kw_only=True)
class KMeansValue:
    """Released centers, in the coordinates of the rows, and the noisy counts of their clusters in the last round."""

    centers: FloatArray
    noisy_counts: FloatArray


@stored("mechanism", "k-means", renamed={"explore": "exploring_rounds", "moment_noise": "second_moment_noise"})
@dataclass(frozen=True, kw_only=True)
class KMeans(Mechanism):
    """Compute k centers in rounds of noisy counts and sums.

    Parameters
    ----------
    n_clusters, n_features : int
        k and d.
    rounds : tuple of Round
        The noise of each round.
    radius : float
        Radius of the ball that the noise was planned for.
    cells : int
        Number of centers in the exploring rounds, at least k. In the plain algorithm, it is k and `explore` is 0.
    explore : int
        Number of rounds with `cells` centers. Then the cells are merged into k centers, which the other rounds polish.
        0 is the algorithm of the paper: k centers from a start that does not depend on the data, without refinement.
    moment_noise : GaussianNoise, optional
        Noise on the second moment that gives the starting centers. If None, the first round measures sectors instead.
    n_rows, mean_square_norm : float
        Public or noisy values that the refinement uses.
    trust : float
        A count is trusted if it exceeds this many standard deviations of its noise.
    """

    n_clusters: int
    n_features: int
    rounds: tuple[Round, ...]
    radius: float
    cells: int
    explore: int
    moment_noise: GaussianNoise | None = None
    n_rows: float = 1.0
    mean_square_norm: float = 1.0
    trust: float = 1.5
    largest_weight: float = 1.0
    name = "k-means"

    def __post_init__(self) -> None:
        self._validate()
        object.__setattr__(self, "rounds", tuple(self.rounds))
        orders = {round_.sum_noise.order for round_ in self.rounds}
        if self.moment_noise is not None:
            orders.add(self.moment_noise.order)
        if len(orders) != 1:
            raise MismatchError("k-means needs rounds with noise of one order on all sums. Use one kind of noise.")

    def _validate(self) -> None:
        """Check the numbers: they may come from a file."""
        for name in ("n_clusters", "n_features", "cells"):
            validate.count(name, getattr(self, name))
        for name in ("radius", "n_rows", "mean_square_norm", "trust", "largest_weight"):
            validate.positive(name, getattr(self, name))
        for round_ in self.rounds:
            validate.instance("an entry of rounds", round_, Round, "Pass a Round with the noise of counts and sums.")
        if self.moment_noise is not None:
            validate.instance("moment_noise", self.moment_noise, GaussianNoise, "Pass a GaussianNoise, or None.")
        if type(self.explore) is not int:
            raise ArgumentError("explore is not an integer. Pass a number of rounds, or 0.")
        if not 0 <= self.explore <= len(self.rounds) or self.cells < self.n_clusters:
            raise ArgumentError(
                f"explore={self.explore!r} and cells={self.cells!r} do not fit {len(self.rounds)} rounds and "
                f"{self.n_clusters} clusters. Pass 0 <= explore <= rounds, and cells >= n_clusters."
            )

    @property
    def profile(self) -> LinearProfile | GaussianProfile:
        profiles = [round_.profile for round_ in self.rounds]
        if self.moment_noise is not None:
            # w |x|^2 <= w |x| r, so a second moment costs at most as much as a sum with noise of scale / r.
            # [note: moment-3]
            profiles.append(GaussianNoise(scale=self.moment_noise.scale / self.radius * (1.0 - 1e-12)).sum_profile())
        return add_profiles(profiles)

    @property
    def order(self) -> float:
        return self.rounds[0].sum_noise.order

    def require_lattice(self, extent: Extent) -> None:
        # On a smaller ball the grid would be finer, and scores of centers in the larger ball would not be exact.
        if extent.radius != self.radius or extent.weight > self.largest_weight * (1.0 + 1e-9):  # [note: moment-4]
            raise MismatchError(
                f"k-means was planned for radius={self.radius!r} and weights up to {self.largest_weight:.6g}. "
                "Plan it for this ball and rule."
            )
        count_lattice(self.rounds).require(extent.weight)
        sum_lattice(self.rounds).require(extent.contribution)

    def measure(self, content: WeightedRows, ball: Ball, bits: BitSource) -> KMeansValue:
        # The matrices are small, so BLAS threads would only wait for each other. Rows are already split over threads.
        with one_blas_thread():
            return self._measure(LloydSample(content, ball, self.rounds), ball, bits)

    def _measure(self, sample: LloydSample, ball: Ball, bits: BitSource) -> KMeansValue:
        # Directions and restarts are chosen with public randomness.
        rng = np.random.default_rng(int.from_bytes(bits.raw(16), "little"))
        if self.explore == 0:
            centers, counts = self._plain(sample, rng, bits)
        else:
            centers, counts = _Refinement(self, sample, rng, bits).run()
        origin = 0.0 if ball.center is None else np.asarray(ball.center)
        return KMeansValue(centers=centers + origin, noisy_counts=counts)

    def _plain(self, sample: LloydSample, rng: refine.Generator, bits: BitSource) -> tuple[FloatArray, FloatArray]:
        """Algorithm 2 of the paper from a start that does not depend on the data; centers are clipped to the ball."""
        centers = refine.directions(self.n_clusters, self.n_features, self.radius, rng)
        counts = np.zeros(self.n_clusters)
        for round_ in self.rounds:
            summary = sample.summarise(centers, round_, bits)
            counts = summary.noisy_counts
            # Do not divide by a count that is within its noise; keep the old center instead.
            filled = counts > round_.count_noise.scale
            moved = summary.noisy_sums / np.where(filled, counts, 1.0)[:, None]
            centers = np.where(filled[:, None], refine.into_ball(moved, self.radius), centers)
        return centers, counts


@dataclass
class _Refinement:
    """The rounds of one release, with the current centers and the error of each."""

    plan: KMeans
    sample: LloydSample
    rng: refine.Generator
    bits: BitSource
    centers: FloatArray = field(init=False)
    spread: FloatArray = field(init=False)
    variance: FloatArray = field(init=False)
    stack: list[FloatArray] = field(default_factory=list)
    strength: list[FloatArray] = field(default_factory=list)

    def run(self) -> tuple[FloatArray, FloatArray]:
        plan = self.plan
        first = self._start()
        self.variance = np.full(plan.cells, np.inf)
        counts = np.zeros(plan.n_clusters)
        for t, round_ in enumerate(plan.rounds[first:]):
            summary = self.sample.summarise(self.centers, round_, self.bits)
            last_explore, last = t == plan.explore - 1, t == len(plan.rounds) - first - 1
            relax = t >= plan.explore and not last
            updated, error, trusted = self._update(summary, round_, relax=relax)
            counts = summary.noisy_counts
            if t < plan.explore - 1:
                if not np.all(trusted):
                    updated = refine.reseed(updated, counts, trusted, self.spread, plan.radius, self.rng)
                self.centers, self.variance = updated, np.where(trusted, error, np.inf)
            elif last_explore:
                counts = self._merge(updated[trusted], counts[trusted], error[trusted])
            else:
                self.centers = np.where(trusted[:, None], updated, self.centers)
                self.variance = np.where(trusted, error, self.variance)
        return self.centers, counts

    def _start(self) -> int:
        """Set the starting cells from a second moment or from sectors; return the number of rounds used for it."""
        plan = self.plan
        if plan.moment_noise is not None:
            moment = self.sample.second_moment(plan.moment_noise, plan.radius, plan.largest_weight, self.bits)
            self.spread = refine.spread_of_moment(moment, plan.moment_noise.scale, plan.n_rows, plan.mean_square_norm)
            self.centers = refine.start_from_spread(self.spread, plan.cells, plan.radius, self.rng)
            return 0
        sectors = refine.directions(plan.cells, plan.n_features, plan.radius, self.rng)
        round_ = plan.rounds[0]
        means, _, trusted, size = self._measured(self.sample.summarise(sectors, round_, self.bits), round_)
        self.stack.clear()
        self.strength.clear()
        share = np.where(trusted, size, 0.0)
        share /= share.sum()
        mean_square = plan.mean_square_norm
        if plan.order == 1.0:
            # l1 norms give only a guess of the Euclidean norms. The sector means show a large part of their size.
            mean_square = max(mean_square, 1.5 * float(share @ np.square(means).sum(axis=1)))
        self.spread = refine.spread_of_sectors(means, share, mean_square)
        self.centers = refine.start_from_sectors(means, share, self.spread, plan.cells, plan.radius, self.rng)
        return 1

    def _measured(self, summary: Summary, round_: Round) -> tuple[FloatArray, FloatArray, refine.BoolArray, FloatArray]:
        """Denoised means of the cells, their squared errors, which cells are trusted, and their sizes."""
        plan = self.plan
        count_noise, sum_noise = round_.count_noise.deviation(1), round_.sum_noise.deviation(plan.n_features)
        trusted = summary.noisy_counts > plan.trust * count_noise
        if not np.any(trusted):
            trusted[np.argmax(summary.noisy_counts)] = True
        size = np.maximum(summary.noisy_counts, count_noise)
        self.stack.append(summary.noisy_sums / sum_noise)
        self.strength.append(size / sum_noise)
        shrunk, left = refine.denoise(np.vstack(self.stack), np.concatenate(self.strength), len(size))
        means = refine.into_ball(shrunk * (sum_noise / size)[:, None], plan.radius)
        return means, left * (sum_noise / size) ** 2 + 1e-12 * plan.radius**2, trusted, size

    def _update(
        self, summary: Summary, round_: Round, *, relax: bool
    ) -> tuple[FloatArray, FloatArray, refine.BoolArray]:
        """Combine old centers and new means in a Kalman step; return centers, errors and which cells are trusted.

        The old centers get less weight the further the centers moved beyond the noise of both. The steps of all
        polishing rounds but the last are lengthened in proportion to the part that is not noise, because the steps of
        Lloyd's algorithm are short.
        """
        means, error, trusted, size = self._measured(summary, round_)
        known = trusted & np.isfinite(self.variance)
        gain = np.ones(len(size))
        if np.any(known):
            past = np.where(known, self.variance, 0.0)
            moved = np.square(means - self.centers).sum(axis=1) - error - past
            drift = max(0.0, float(np.average(moved[known], weights=size[known])))
            gain[known] = (past[known] + drift) / (past[known] + drift + error[known])
            error = gain * error
            if relax:
                rest = float(np.average(error[known], weights=size[known]))
                gain *= 1.0 + (_RELAXATION - 1.0) * drift / (drift + rest)
        updated = self.centers + gain[:, None] * (means - self.centers)
        return refine.into_ball(updated, self.plan.radius), error, trusted

    def _merge(self, points: FloatArray, counts: FloatArray, error: FloatArray) -> FloatArray:
        """Merge the trusted cells into k centers with the errors they inherit; return the counts of the centers."""
        mass = np.maximum(counts, 1e-9)
        k = self.plan.n_clusters
        self.centers = refine.into_ball(refine.merge(points, mass, k, self.rng), self.plan.radius)
        label = refine.nearest(points, self.centers)
        total: FloatArray = np.bincount(label, mass, minlength=k).astype(np.float64)
        inherited = np.bincount(label, mass**2 * error, minlength=k) / np.maximum(total, 1e-9) ** 2
        self.variance = np.where(total > 0.0, inherited, np.inf)
        return total
