"""Private k-means on one weighted sample: over-cluster, refine, merge, polish; and the paper's plain DP-Lloyd."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from pais._numerics import FloatArray
from pais.domain import Ball
from pais.engines import WeightedRows
from pais.engines.threads import one_blas_thread
from pais.errors import MismatchError
from pais.mechanisms import refine
from pais.mechanisms.lloyd import LloydSample, Round, Summary, add_profiles, count_lattice, sum_lattice
from pais.mechanisms.noise import GaussianNoise
from pais.mechanisms.sums import Extent, Mechanism
from pais.profiles import GaussianProfile, LinearProfile
from pais.randomness import BitSource

# Polishing steps are lengthened up to this factor.
_RELAXATION = 1.8


@dataclass(frozen=True, kw_only=True)
class KMeansValue:
    """Released centers, in the coordinates of the rows, and the noisy counts of their clusters in the last round."""

    centers: FloatArray
    noisy_counts: FloatArray


@dataclass(frozen=True, kw_only=True)
class KMeans(Mechanism):
    """k centers from rounds of noisy counts and sums.

    Parameters
    ----------
    n_clusters, n_features : int
        k and d.
    rounds : tuple of Round
        The noise of each round.
    radius : float
        Of the ball the noise was planned for.
    cells : int
        Centers in the exploring rounds, at least k; equal to k with `explore` = 0 in the plain algorithm.
    explore : int
        Rounds with that many cells before they are merged into k centers, which the other rounds polish. 0 is the
        paper's algorithm: k centers from a data-free start, no refinement.
    moment_noise : GaussianNoise, optional
        Noise on the second moment the start is made from. None starts from sectors, in the first round.
    n_rows, mean_square_norm : float
        Public or noisy facts that the refinement uses.
    trust : float
        A count is believed beyond this many deviations of its noise.
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
        orders = {round_.sum_noise.order for round_ in self.rounds}
        if self.moment_noise is not None:
            orders.add(self.moment_noise.order)
        if len(orders) != 1:
            raise MismatchError("k-means needs rounds, all with noise for one norm. Use one kind of noise on sums.")

    @property
    def profile(self) -> LinearProfile | GaussianProfile:
        profiles = [round_.profile for round_ in self.rounds]
        if self.moment_noise is not None:
            # w |x|^2 <= w |x| r: a second moment costs no more than a sum with noise of scale / r.
            # [note: moment-3]
            profiles.append(GaussianNoise(scale=self.moment_noise.scale / self.radius * (1.0 - 1e-12)).sum_profile())
        return add_profiles(profiles)

    @property
    def order(self) -> float:
        return self.rounds[0].sum_noise.order

    def require_lattice(self, extent: Extent) -> None:
        # On a smaller ball the grid would be finer than scores of centers in the larger one allow.
        if extent.radius != self.radius or extent.weight > self.largest_weight * (1.0 + 1e-9):  # [note: moment-4]
            raise MismatchError(
                f"k-means was planned for radius={self.radius!r} and weights up to {self.largest_weight:.6g}. "
                "Plan it for this ball and rule."
            )
        count_lattice(self.rounds).require(extent.weight)
        sum_lattice(self.rounds).require(extent.contribution)

    def measure(self, content: WeightedRows, ball: Ball, bits: BitSource) -> KMeansValue:
        # Small matrices: many threads of BLAS only wait for each other, and rows are shared among threads already.
        with one_blas_thread():
            return self._measure(LloydSample(content, ball, self.rounds), ball, bits)

    def _measure(self, sample: LloydSample, ball: Ball, bits: BitSource) -> KMeansValue:
        # What chooses directions and restarts is public randomness.
        rng = np.random.default_rng(int.from_bytes(bits.raw(16), "little"))
        if self.explore == 0:
            centers, counts = self._plain(sample, rng, bits)
        else:
            centers, counts = _Refinement(self, sample, rng, bits).run()
        origin = 0.0 if ball.center is None else np.asarray(ball.center)
        return KMeansValue(centers=centers + origin, noisy_counts=counts)

    def _plain(self, sample: LloydSample, rng: refine.Generator, bits: BitSource) -> tuple[FloatArray, FloatArray]:
        """The paper's Algorithm 2 from a data-free start; centers are clipped into the ball."""
        centers = refine.directions(self.n_clusters, self.n_features, self.radius, rng)
        counts = np.zeros(self.n_clusters)
        for round_ in self.rounds:
            summary = sample.summarise(centers, round_, bits)
            counts = summary.noisy_counts
            # A count within its noise says nothing; the formula would divide by it.
            filled = counts > round_.count_noise.scale
            moved = summary.noisy_sums / np.where(filled, counts, 1.0)[:, None]
            centers = np.where(filled[:, None], refine.into_ball(moved, self.radius), centers)
        return centers, counts

    def describe(self) -> dict[str, object]:
        return {
            "mechanism": self.name,
            "n_clusters": self.n_clusters,
            "cells": self.cells,
            "exploring_rounds": self.explore,
            "second_moment_noise": None if self.moment_noise is None else self.moment_noise.describe(),
            "rounds": [
                {"count_noise": round_.count_noise.describe(), "sum_noise": round_.sum_noise.describe()}
                for round_ in self.rounds
            ],
        }


@dataclass
class _Refinement:
    """The rounds of one release, and what is known after each: centers, and how far off each may be."""

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
        """Starting cells, from a released second moment or from sectors; the number of rounds that took."""
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
            # Of l1 norms only a guess of the Euclidean size follows; sectors explain a good part of it, and show it.
            mean_square = max(mean_square, 1.5 * float(share @ np.square(means).sum(axis=1)))
        self.spread = refine.spread_of_sectors(means, share, mean_square)
        self.centers = refine.start_from_sectors(means, share, self.spread, plan.cells, plan.radius, self.rng)
        return 1

    def _measured(self, summary: Summary, round_: Round) -> tuple[FloatArray, FloatArray, refine.BoolArray, FloatArray]:
        """Denoised means of the cells, their squared errors, which cells to believe, and their sizes."""
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
        """A Kalman step: how far centers moved beyond both noises says how much the past still tells.

        Polishing steps but the last are lengthened by the part of them that is not noise: Lloyd's steps are short.
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
        """k centers from the trusted cells, with the errors they inherit; the counts they would have."""
        mass = np.maximum(counts, 1e-9)
        k = self.plan.n_clusters
        self.centers = refine.into_ball(refine.merge(points, mass, k, self.rng), self.plan.radius)
        label = refine.nearest(points, self.centers)
        total: FloatArray = np.bincount(label, mass, minlength=k).astype(np.float64)
        inherited = np.bincount(label, mass**2 * error, minlength=k) / np.maximum(total, 1e-9) ** 2
        self.variance = np.where(total > 0.0, inherited, np.inf)
        return total
