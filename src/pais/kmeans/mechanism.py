"""The mechanism of private k-means: its rounds and their price, its words, and the quality it predicts.

`pais.kmeans.rounds` holds what a round releases, and `pais.kmeans.clustering` how the rounds follow from each other.
The words serve plans, certificates and pages.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from pais._base import validate
from pais._base.cards import TIMES, number
from pais._base.files import stored
from pais._base.numerics import FloatArray
from pais._base.randomness import BitSource
from pais._base.threads import one_blas_thread
from pais.data.ball import Ball
from pais.data.engines.base import WeightedRows
from pais.errors import ArgumentError, MismatchError
from pais.kmeans.clustering import paper_kmeans, refined_kmeans
from pais.kmeans.result import KMeansFit, KMeansValue
from pais.kmeans.rounds import WEIGHT_BITS, ResidualRound, Round, SecondMoment, count_lattice, sum_lattice
from pais.mechanisms.base import Extent, Mechanism
from pais.mechanisms.noise import GaussianNoise, NoiseLaw
from pais.planning.explain import law_in_words
from pais.privacy.profiles import GaussianProfile, LinearProfile, add_profiles
from pais.privacy.rules import NormDistribution, Rule


def phases_in_words(mechanism: KMeans) -> str:
    """The phases of k-means on one line."""
    k, cells, explore = _clusters(mechanism), mechanism.cells, mechanism.explore
    total = len(mechanism.rounds)
    if explore == 0:
        return f"k-means, {total} rounds on {k} centers"
    first = _n_sector_rounds(mechanism)
    sectors = f"1 on {cells} sectors, " if first else ""
    polish = f", {total - first - explore} on {k} centers" if total > first + explore else ""
    return f"k-means, {total} rounds: {sectors}{explore} on {cells} cells, which are then merged{polish}"


def lines_of_plan(mechanism: KMeans) -> list[str]:
    """What a plan says about the start and each round. Noise is given by its scale."""
    lines, moment = [], mechanism.moment
    if moment is not None:
        lines.append(
            f"start       mean and second moment of the rows clipped to norm {moment.radius:.6g}, "
            f"{_law_name(moment.noise)} noise {moment.noise.scale:.6g}"
        )
    last = mechanism.rounds[-1]
    if isinstance(last, ResidualRound):
        lines += [
            "each round releases for each cell, with noise: the number of rows, the sum of their distances to the "
            "center,",
            "and the sum of their residuals (row minus center). Residuals longer than the clip of the cell are "
            "shortened.",
        ]
        if last.flat_share < 1.0:
            lines.append("The clip is smaller for rows of small norm, which are sampled less often.")
        lines.append(
            "The clip follows from distances released before, so the noise on residuals shrinks with the cells."
        )
    else:
        lines.append("each round releases the number of rows and the sum of the rows of each cell, with noise")
    rounds: tuple[Round | ResidualRound, ...] = mechanism.rounds
    for place, round_ in enumerate(rounds, 1):
        counts, distances, sums = _amounts(round_, lambda law, _, unit: f"{law.scale * unit:.6g}", "x")
        law, law_of_sums = (law_in_words(law.to_dict()) for law in (round_.count_noise, round_.laws[-1]))
        if isinstance(round_, ResidualRound):
            named = "" if law == law_of_sums else f"{law_of_sums} "
            what = "sums of rows" if round_.whole_rows else "residuals"
            rest = f"{distances} on distances, {named}{sums} on {what}"
        else:
            rest = f"{law_of_sums} noise {sums} on sums"
        lines.append(f"round {place:<2d}    {law} noise {counts} on counts, {rest}")
    return lines


def lines_of_certificate(mechanism: KMeans) -> list[str]:
    """What a certificate says about the rounds. Noise is given by its scale in the last round."""
    last = mechanism.rounds[-1]
    counts = f"{_law_name(last.count_noise)} noise of scale {last.count_noise.scale:.6g} on counts"
    lines = [f"Then {_clusters(mechanism)} clusters in {len(mechanism.rounds)} rounds."]
    if mechanism.moment is not None:
        lines.append("The first centers come from a noisy mean and second moment of the rows.")
    if not isinstance(last, ResidualRound):
        sums = f"{_law_name(last.sum_noise)} {last.sum_noise.scale:.6g} on sums"
        return [*lines, f"Each round has noisy counts and sums: in the last, {counts}, {sums}."]
    residuals = f"{_law_name(last.residual_noise)} {last.residual_noise.scale:.6g} x clip on residuals"
    return [
        *lines,
        "Each round has a noisy count, a noisy sum of distances and a noisy sum of residuals (row minus center)",
        f"for each cell: in the last, {counts}, and {residuals}.",
    ]


def rows_of_page(mechanism: KMeans) -> list[tuple[str, ...]]:
    """Number, purpose and noise of the start and of each round. Noise is given by its standard deviation."""
    rows: list[tuple[str, ...]] = []
    if mechanism.moment is not None:
        deviation = f"{number(mechanism.moment.noise.deviation(1))} on the second moment"
        rows.append(("start", "mean and directions of spread", "", "", deviation))
    rounds: tuple[Round | ResidualRound, ...] = mechanism.rounds
    d = mechanism.n_features
    for place, round_ in enumerate(rounds):
        counts, distances, sums = _amounts(
            round_, lambda law, is_sum, unit: number(law.deviation(d if is_sum else 1) * unit), TIMES
        )
        laws = [
            law_in_words(law.to_dict()) + " law" * (_law_name(law) == "lp")
            for law in (round_.count_noise, round_.laws[-1])
        ]
        rows.append(
            (str(place + 1), _purpose(mechanism, place), f"{counts} ({laws[0]})", distances, f"{sums} ({laws[1]})")
        )
    return rows


def _purpose(mechanism: KMeans, place: int) -> str:
    first = _n_sector_rounds(mechanism)
    if mechanism.explore == 0:
        return f"move {mechanism.n_clusters} centers"
    if place < first:
        return f"start from {mechanism.cells} sectors"
    if place < first + mechanism.explore:
        return f"explore with {mechanism.cells} cells"
    return f"polish {_clusters(mechanism)} centers"


def _clusters(mechanism: KMeans) -> str:
    return f"{'up to ' * mechanism.choose}{mechanism.n_clusters}"


def _n_sector_rounds(mechanism: KMeans) -> int:
    """Without a second moment, the first round measures sectors."""
    return int(mechanism.moment is None)


def _law_name(law: NoiseLaw) -> str:
    return str(law.to_dict()["law"])


def _amounts(
    round_: Round | ResidualRound, amount: Callable[[NoiseLaw, bool, float], str], times: str
) -> tuple[str, str, str]:
    """Amounts of noise on counts, on distances if the round releases them, and on sums.

    `amount` takes a law, whether it is that of sums, and the unit of the noise.
    """
    counts = amount(round_.count_noise, False, 1.0)
    if not isinstance(round_, ResidualRound):
        return counts, "", amount(round_.sum_noise, True, 1.0)
    clip = f" {times} clip"
    sums = amount(round_.residual_noise, True, round_.radius if round_.whole_rows else 1.0)
    return counts, amount(round_.distance_noise, False, 1.0) + clip, sums + clip * (not round_.whole_rows)


N = TypeVar("N", float, FloatArray)


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
        # The numbers may come from a file.
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
        object.__setattr__(self, "rounds", tuple(self.rounds))
        orders = {round_.order for round_ in self.rounds}
        if self.moment is not None:
            orders.add(self.moment.noise.order)
        if len(orders) != 1:
            raise MismatchError("k-means needs rounds with noise of one order on all sums. Use one kind of noise.")
        kinds = {isinstance(noise, GaussianNoise) for round_ in self.rounds for noise in round_.laws}
        if len(kinds) != 1 or (self.moment is not None and kinds != {True}):
            raise MismatchError("k-means mixes Gaussian and pure noise. Use one kind of noise.")

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
        if self.explore == 0:
            count_lattice(self.plain_rounds).require(extent.weight)
            sum_lattice(self.plain_rounds).require(extent.contribution)

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
            if self.explore == 0:
                value = paper_kmeans(self, content, ball, rng, bits)
            else:
                value = refined_kmeans(self, content, rng, bits)
        return value if ball.center is None else value.moved(np.asarray(ball.center))

    def predicted_quality(
        self, rule: Rule, norms: NormDistribution, *, ball: Ball, clipping: float | None, value: object
    ) -> Quality | None:
        """Predict the quality of a plan, or of a fit if its released value is given; None for the paper's algorithm.

        A center of n/k rows has the noise of the polishing rounds together. Its clip is about the mean distance of its
        rows, so the noise over the cost does not depend on that distance.
        """
        rounds, d, n = self.residual_rounds, self.n_features, norms.n_rows
        if not rounds:
            return None
        k, within = self.n_clusters, _WITHIN
        square = max(norms.mean_square_norm, 1e-12 * norms.radius**2)
        if isinstance(value, KMeansValue):
            k = len(value.centers)
            # What the released centers leave of the mean square norm.
            origin = 0.0 if ball.center is None else np.asarray(ball.center)
            mass = np.maximum(value.noisy_counts, 1e-9)
            explained = float(np.average(np.square(value.centers - origin).sum(axis=1), weights=mass))
            # If noise hides clusters, the centers do not show what the best centers would leave.
            most = 1.0 if value.effective_centers == k else _WITHIN
            within = float(np.clip(1.0 - explained / square, _LEAST_WITHIN, most))
        precision = sum(
            round_.residual_noise.deviation(d) ** -2 for round_ in rounds[min(self.explore, len(rounds) - 1) :]
        )
        reach = float(rounds[-1].reach(np.array([min(norms.mean_square_norm**0.5, norms.radius)]))[0])
        noise = noise_excess(n_clusters=k, n_features=d, rows_reached=n * reach, precision=precision)
        return Quality(
            noise=min(noise, 1.0 / within - 1.0),
            sampling=sampling_excess(k, n, norms.mean_weight(rule)),
            clipping=None if clipping is None else clipping / (within * square),
        )

    def in_words(self) -> str:
        return phases_in_words(self)

    def lines(self) -> list[str]:
        return lines_of_plan(self)

    def certificate_lines(self) -> list[str]:
        return lines_of_certificate(self)

    @property
    def fit_class(self) -> type[KMeansFit]:
        return KMeansFit

    def sampling_variance(self, square_distance: FloatArray | float, n_rows: FloatArray) -> FloatArray:
        """Variance of a coordinate of the mean of some rows that is due to the sample, as planned.

        `square_distance` is the mean squared distance of these rows to their mean.
        """
        excess = max(self.mean_weight - 1.0, 0.0)
        return np.asarray(excess * square_distance / (self.n_features * np.maximum(n_rows, 1.0)))

    def in_rows(self, value: Any, max_rows: int) -> Any:
        return value.multiplied(max_rows)


# Wrong centers also attract wrong rows: a factor on the squared noise of the centers. Typical excess cost of a local
# optimum, which k-means finds with and without privacy. Both from measured costs (commit 80c6e7b), which
# benchmarks/results/prediction.md compares with predicted ones.
_ROWS_FOLLOW, _LOCAL_OPTIMUM = 4.0, 0.01

# Rows that are not in the sample cost about one row of each cluster for each mean weight beyond 1. The excess over the
# best of several runs is this many times as much, by the table of bba6f79.
_SAMPLING_FACTOR = 3.0

# Cost of the best centers over the mean square norm, as long as nothing is released, and the least that released
# centers can show: below it, the difference of two noisy numbers is too small. Chosen by eye (e0ae639).
_WITHIN, _LEAST_WITHIN = 0.25, 0.01

#: Noise cannot cost more than giving up all clusters, because every row takes its nearest center.
MOST_NOISE = 1.0 / _WITHIN - 1.0

# Decimal places of a prediction in files and texts.
_DIGITS = 5


@dataclass(frozen=True, kw_only=True)
class Quality:
    """Predicted cost of private centers over the cost of the best centers, minus 1, by cause. Public.

    Attributes
    ----------
    noise : float
        Part of the noise on the centers.
    sampling : float
        Part of the rows that are not in the sample.
    clipping : float, optional
        Part of the rows that are clipped to the ball. None if the plan did not choose the radius.
    search : float
        Part of the local optimum in which k-means ends, private or not.
    """

    noise: float
    sampling: float
    clipping: float | None
    search: float = _LOCAL_OPTIMUM

    @property
    def ratio(self) -> float:
        """Predicted cost over the cost of the best centers."""
        return 1.0 + self.noise + self.sampling + (self.clipping or 0.0) + self.search

    def to_dict(self) -> dict[str, Any]:
        """The prediction as a dictionary, for files, without digits that only rounding errors decide."""
        return {
            "predicted_cost_over_best": round(self.ratio, _DIGITS),
            "noise": round(self.noise, _DIGITS),
            "sampling": round(self.sampling, _DIGITS),
            "clipping": None if self.clipping is None else round(self.clipping, _DIGITS),
            "search": self.search,
        }

    def __str__(self) -> str:
        parts = ", ".join(f"{cause} {_percent(getattr(self, cause))}" for cause in ("noise", "sampling", "clipping"))
        start = "spread within segments" + (" about" if self.clipping is not None else " at least about")
        ratio = f"{self.ratio:.2f}" if self.ratio < 10.0 else f"{self.ratio:.3g}"
        return f"{start} {ratio} times that of k-means without noise ({parts})"


def _percent(share: float | None) -> str:
    if share is None:
        return "not predicted, since the plan did not choose the radius"
    return f"{100.0 * share:.0f} %" if share >= 0.01 else "below 1 %"


def sampling_excess(n_clusters: int, n_rows: float, mean_weight: N) -> N:
    """Predicted excess cost of the rows that are not in the sample, by the mean weight 1/probability of all rows."""
    return _SAMPLING_FACTOR * n_clusters * (mean_weight - 1.0) / n_rows


def noise_excess(*, n_clusters: int, n_features: int, rows_reached: float, precision: float) -> float:
    """Predicted excess cost of noise of this precision on each coordinate of a residual sum, in units of the clip."""
    return _ROWS_FOLLOW * n_features * (n_clusters / rows_reached) ** 2 / precision


def plain_noise_excess(*, n_clusters: int, n_features: int, n_rows: float, deviation: float) -> float:
    """The same for noisy sums of rows, where the deviation is in units of the root mean square norm."""
    return _ROWS_FOLLOW * n_features * (n_clusters / n_rows * deviation) ** 2 / _WITHIN
