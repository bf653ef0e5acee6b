"""Private k-means on one weighted sample: over-cluster, refine, merge, polish; and the paper's plain DP-Lloyd."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from pais._base import validate
from pais._base.files import stored, to_dict
from pais._base.lattice import IntArray, Lattice
from pais._base.numerics import FloatArray
from pais._base.randomness import BitSource
from pais._base.threads import one_blas_thread
from pais.data.ball import Ball
from pais.data.engines.base import WeightedRows
from pais.errors import ArgumentError, MismatchError
from pais.kmeans import geometry, words
from pais.kmeans.quality import Quality, predicted_quality
from pais.kmeans.rounds import Refinement
from pais.kmeans.sums import WEIGHT_BITS, Grid, ResidualRound, ResidualSample, SecondMoment, most_bits
from pais.kmeans.value import KMeansValue
from pais.mechanisms.base import Extent, Mechanism
from pais.mechanisms.noise import GaussianNoise, NoiseLaw
from pais.privacy.norms import NormDistribution
from pais.privacy.profiles import GaussianProfile, LinearProfile, add_profiles
from pais.privacy.rules import Rule

if TYPE_CHECKING:
    from pais.kmeans.result import KMeansFit


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


@dataclass(frozen=True, kw_only=True)
class Summary:
    """Noisy counts and sums released by one round. They are protected, so any use of them is allowed."""

    noisy_counts: FloatArray
    noisy_sums: FloatArray


class LloydSample:
    """A weighted sample prepared for the rounds of DP-Lloyd. Secret; it exists only inside a mechanism."""

    def __init__(self, content: WeightedRows, ball: Ball, rounds: tuple[Round, ...]) -> None:
        self._grid = Grid(content.rows, ball.radius, most_bits(content.rows.shape[1]))
        self._count_lattice = count_lattice(rounds)
        self._sum_lattice = sum_lattice(rounds)
        self._counts = self._count_lattice.encode(content.weights)
        self._sums = self._sum_lattice.encode(content.rows * content.weights[:, None])

    def summarise(self, centers: FloatArray, round_: Round, bits: BitSource) -> Summary:
        """Noisy counts and sums of the clusters of `centers`, which must be released or independent of the data."""
        k = len(centers)
        grid = self._grid.of_centers(centers)
        label = np.concatenate(self._grid.in_parts(lambda rows: self._grid.assign(grid, rows)[0]))
        member = sparse.csc_array(
            (np.ones(label.size, dtype=np.int64), label, np.arange(label.size + 1)), shape=(k, label.size)
        )
        counts: IntArray = member @ self._counts
        sums: IntArray = member @ self._sums
        counts = round_.count_noise.added_to(counts[:, None], self._count_lattice, bits)[:, 0]
        sums = round_.sum_noise.added_to(sums, self._sum_lattice, bits)
        return Summary(noisy_counts=self._count_lattice.decode(counts), noisy_sums=self._sum_lattice.decode(sums))


def count_lattice(rounds: tuple[Round, ...]) -> Lattice:
    """One lattice for the counts of all rounds, fine enough for the most precise round."""
    return Lattice.for_scale(min(round_.count_noise.scale for round_ in rounds))


def sum_lattice(rounds: tuple[Round, ...]) -> Lattice:
    """One lattice for the sums of all rounds, fine enough for the most precise round."""
    return Lattice.for_scale(min(round_.sum_noise.scale for round_ in rounds))


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

    def _refined(self, content: WeightedRows, rng: geometry.Generator, bits: BitSource) -> KMeansValue:
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
        spread = geometry.spread_of_moment(scatter, self.moment.noise.scale, n_rows, left)
        return Refinement(self, sample, rng, bits, n_rows).run(mean, spread)

    def predicted_quality(
        self, rule: Rule, norms: NormDistribution, *, ball: Ball, clipping: float | None, value: object
    ) -> Quality | None:
        released = value if isinstance(value, KMeansValue) else None
        return predicted_quality(self, rule, norms, clipping=clipping, value=released, ball=ball)

    def in_words(self) -> str:
        return words.phases_in_words(self)

    def lines(self) -> list[str]:
        return words.lines_of_plan(self)

    def certificate_lines(self) -> list[str]:
        return words.lines_of_certificate(self)

    @property
    def fit_class(self) -> type[KMeansFit]:
        from pais.kmeans.result import KMeansFit  # It needs this module.

        return KMeansFit

    def sampling_variance(self, square_distance: FloatArray | float, n_rows: FloatArray) -> FloatArray:
        """Variance of a coordinate of the mean of some rows that is due to the sample, as planned.

        `square_distance` is the mean squared distance of these rows to their mean.
        """
        excess = max(self.mean_weight - 1.0, 0.0)
        return np.asarray(excess * square_distance / (self.n_features * np.maximum(n_rows, 1.0)))

    def in_rows(self, value: Any, max_rows: int) -> Any:
        return value.multiplied(max_rows)

    def _plain(self, sample: LloydSample, rng: geometry.Generator, bits: BitSource) -> KMeansValue:
        """Algorithm 2 of the paper from a start that does not depend on the data; centers are clipped to the ball."""
        centers = geometry.directions(self.n_clusters, self.n_features, self.radius, rng)
        counts = np.zeros(self.n_clusters)
        errors = np.full_like(centers, self.radius)
        for round_ in self.plain_rounds:
            summary = sample.summarise(centers, round_, bits)
            counts = summary.noisy_counts
            # Do not divide by a count that is within its noise; keep the old center instead.
            filled = counts > round_.count_noise.scale
            size = np.where(filled, counts, 1.0)[:, None]
            moved = geometry.into_ball(summary.noisy_sums / size, self.radius)
            noise = (
                np.hypot(round_.sum_noise.deviation(self.n_features), moved * round_.count_noise.deviation(1)) / size
            )
            # The rounds do not measure distances within clusters, which are at most about the norms.
            noise = np.hypot(noise, np.sqrt(self.sampling_variance(self.mean_square_norm, size)))
            centers = np.where(filled[:, None], moved, centers)
            errors = np.where(filled[:, None], np.minimum(noise, self.radius), errors)
        return KMeansValue(centers=centers, noisy_counts=counts, standard_errors=errors)
