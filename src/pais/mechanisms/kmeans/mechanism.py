"""Private k-means on one weighted sample: over-cluster, refine, merge, polish; and the paper's plain DP-Lloyd."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

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
from pais.mechanisms.kmeans.lloyd import LloydSample, Round, count_lattice, sum_lattice
from pais.mechanisms.kmeans.moment import SecondMoment
from pais.mechanisms.kmeans.refinement import Refinement
from pais.mechanisms.kmeans.residual import WEIGHT_BITS, ResidualRound, ResidualSample
from pais.mechanisms.kmeans.value import KMeansValue
from pais.mechanisms.noise import GaussianNoise
from pais.privacy.profiles import GaussianProfile, LinearProfile, add_profiles


@stored("mechanism", "k-means", renamed={"explore": "exploring_rounds", "moment": "second_moment"})
@dataclass(frozen=True, kw_only=True)
class KMeans(Mechanism):
    """Compute k centers in rounds of noisy counts and sums.

    Parameters
    ----------
    n_clusters, n_features : int
        k and d.
    rounds : tuple of ResidualRound, or of Round for the algorithm of the paper
        The noise of each round.
    radius : float
        Radius of the ball that the noise was planned for.
    cells : int
        Number of centers in the exploring rounds, at least k. In the plain algorithm, it is k and `explore` is 0.
    explore : int
        Number of rounds with `cells` centers. Then the cells are merged into k centers, which the other rounds polish.
        0 is the algorithm of the paper: k centers from a start that does not depend on the data, without refinement.
    moment : SecondMoment, optional
        Gives the starting centers. If None, the first round measures sectors instead.
    n_rows, mean_square_norm : float
        Public or noisy values that the refinement uses.
    mean_weight : float
        Mean weight of the rows in the sample, as planned. The standard errors include the error of the sample.
    trust : float
        A count is trusted if it exceeds this many standard deviations of its noise.
    weight_bits : int
        Largest number of binary places of the weights. Rows of units have small weights, which need more.
    """

    n_clusters: int
    n_features: int
    rounds: tuple[ResidualRound, ...] | tuple[Round, ...]
    radius: float
    cells: int
    explore: int
    moment: SecondMoment | None = None
    n_rows: float = 1.0
    mean_square_norm: float = 1.0
    trust: float = 1.5
    largest_weight: float = 1.0
    choose: bool = False
    weight_bits: int = WEIGHT_BITS
    mean_weight: float = 1.0
    name = "k-means"
    protects_units = True

    def __post_init__(self) -> None:
        self._validate()
        object.__setattr__(self, "rounds", tuple(self.rounds))
        orders = {round_.order for round_ in self.rounds}
        if self.moment is not None:
            orders.add(self.moment.noise.order)
        if len(orders) != 1:
            raise MismatchError("k-means needs rounds with noise of one order on all sums. Use one kind of noise.")
        kinds = {isinstance(noise, GaussianNoise) for round_ in self.rounds for noise in round_.laws}
        if len(kinds) != 1 or (self.moment is not None and kinds != {True}):
            raise MismatchError("k-means mixes Gaussian and pure noise. Use one kind of noise.")

    def _validate(self) -> None:
        """Check the numbers: they may come from a file."""
        for name in ("n_clusters", "n_features", "cells", "weight_bits"):
            object.__setattr__(self, name, validate.count(name, getattr(self, name)))
        for name in ("radius", "n_rows", "mean_square_norm", "trust", "largest_weight", "mean_weight"):
            object.__setattr__(self, name, validate.positive(name, getattr(self, name)))
        kind = Round if self.explore == 0 else ResidualRound
        for round_ in self.rounds:
            validate.instance("an entry of rounds", round_, kind, "Pass Round for explore=0, else ResidualRound.")
            if isinstance(round_, ResidualRound) and round_.radius != self.radius:
                raise MismatchError(f"a round was planned for another radius than {self.radius!r}. Plan again.")
        if self.moment is not None:
            validate.instance("moment", self.moment, SecondMoment, "Pass a SecondMoment, or None.")
        validate.flag("choose", self.choose)
        if type(self.explore) is not int:
            raise ArgumentError("explore is not an integer. Pass a number of rounds, or 0.")
        if self.choose and self.explore == 0:
            raise ArgumentError("choose needs exploring rounds. Pass explore > 0, or a number of clusters.")
        # Without a second moment, the first round measures sectors and neither explores nor polishes.
        n_rounds = len(self.rounds) - (self.explore > 0 and self.moment is None)
        if not 0 <= self.explore <= n_rounds or self.cells < self.n_clusters:
            raise ArgumentError(
                f"explore={self.explore!r} and cells={self.cells!r} do not fit {n_rounds} rounds and "
                f"{self.n_clusters} clusters. Pass 0 <= explore <= rounds, and cells >= n_clusters."
            )

    @property
    def profile(self) -> LinearProfile | GaussianProfile:
        # Not kept on the object: rounds that are exchanged later must not have the old price.
        profiles = [round_.profile for round_ in self.rounds]
        if self.moment is not None:
            profiles.append(self.moment.profile)
        return add_profiles(profiles)

    @property
    def order(self) -> float:
        return self.rounds[0].order

    def require_lattice(self, extent: Extent) -> None:
        # On a smaller ball the grid would be finer, and scores of centers in the larger ball would not be exact.
        if extent.radius != self.radius or extent.weight > self.largest_weight * (1.0 + 1e-9):  # [note: moment-4]
            raise MismatchError(
                f"k-means was planned for radius={self.radius!r} and weights up to {self.largest_weight:.6g}. "
                "Plan it for this ball and rule."
            )
        if self._is_plain:
            count_lattice(self.plain_rounds).require(extent.weight)
            sum_lattice(self.plain_rounds).require(extent.contribution)

    @property
    def _is_plain(self) -> bool:
        return self.explore == 0

    @property
    def plain_rounds(self) -> tuple[Round, ...]:
        """The rounds of the algorithm of the paper."""
        return tuple(round_ for round_ in self.rounds if isinstance(round_, Round))

    @property
    def residual_rounds(self) -> tuple[ResidualRound, ...]:
        """The rounds of the refined algorithm."""
        return tuple(round_ for round_ in self.rounds if isinstance(round_, ResidualRound))

    def measure(self, content: WeightedRows, ball: Ball, bits: BitSource) -> KMeansValue:
        if any(round_.radius != ball.radius for round_ in self.residual_rounds):
            # A plan is certified for its rounds; they may have been exchanged since.
            raise MismatchError("a round was planned for another radius than that of the ball. Plan again.")
        # Directions and restarts are chosen with public randomness.
        rng = np.random.default_rng(int.from_bytes(bits.raw(16), "little"))
        # The matrices are small, so BLAS threads would only wait for each other. Rows are already split over threads.
        with one_blas_thread():
            if self._is_plain:
                value = self._plain(LloydSample(content, ball, self.plain_rounds), rng, bits)
            else:
                value = self._refined(content, rng, bits)
        return value if ball.center is None else value.moved(np.asarray(ball.center))

    def _refined(self, content: WeightedRows, rng: refine.Generator, bits: BitSource) -> KMeansValue:
        sample = ResidualSample(
            content,
            self.residual_rounds,
            n_rows=self.n_rows,
            largest_weight=self.largest_weight,
            weight_bits=self.weight_bits,
        )
        if self.moment is None:
            return Refinement(self, sample, rng, bits, self.n_rows).run_from_sectors()
        moment = self.moment.measure(content, self.largest_weight, bits)
        n_rows, noise = self.moment.noisy_rows(moment)
        # A number below this noise, such as that of a survey of a few rows, says less than the number in the moment.
        n_rows = self.n_rows if self.n_rows > noise else max(n_rows, noise)
        mean, scatter = self.moment.mean_and_scatter(moment, n_rows)
        left = max(self.mean_square_norm - float(np.square(mean).sum()), 0.05 * self.mean_square_norm)
        spread = refine.spread_of_moment(scatter, self.moment.noise.scale, n_rows, left)
        return Refinement(self, sample, rng, bits, n_rows).run(mean, spread)

    def sampling_variance(self, square_distance: FloatArray | float, n_rows: FloatArray) -> FloatArray:
        """Variance of a coordinate of the mean of some rows that is due to the sample, as planned.

        `square_distance` is the mean squared distance of these rows to their mean.
        """
        excess = max(self.mean_weight - 1.0, 0.0)
        return np.asarray(excess * square_distance / (self.n_features * np.maximum(n_rows, 1.0)))

    def in_rows(self, value: Any, max_rows: int) -> Any:
        return value.multiplied(max_rows)

    def _plain(self, sample: LloydSample, rng: refine.Generator, bits: BitSource) -> KMeansValue:
        """Algorithm 2 of the paper from a start that does not depend on the data; centers are clipped to the ball."""
        centers = refine.directions(self.n_clusters, self.n_features, self.radius, rng)
        counts = np.zeros(self.n_clusters)
        errors = np.full_like(centers, self.radius)
        for round_ in self.plain_rounds:
            summary = sample.summarise(centers, round_, bits)
            counts = summary.noisy_counts
            # Do not divide by a count that is within its noise; keep the old center instead.
            filled = counts > round_.count_noise.scale
            size = np.where(filled, counts, 1.0)[:, None]
            moved = refine.into_ball(summary.noisy_sums / size, self.radius)
            noise = (
                np.hypot(round_.sum_noise.deviation(self.n_features), moved * round_.count_noise.deviation(1)) / size
            )
            # The rounds do not measure distances within clusters, which are at most about the norms.
            noise = np.hypot(noise, np.sqrt(self.sampling_variance(self.mean_square_norm, size)))
            centers = np.where(filled[:, None], moved, centers)
            errors = np.where(filled[:, None], np.minimum(noise, self.radius), errors)
        return KMeansValue(centers=centers, noisy_counts=counts, standard_errors=errors)
