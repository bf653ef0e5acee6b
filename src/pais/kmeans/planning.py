"""Settings of a private k-means, and the plan that follows from them: noise, sampling rule, cells and rounds."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from pais._base import validate
from pais.accounting.part import Part
from pais.data.ball import Ball
from pais.errors import ArgumentError
from pais.kmeans.mechanism import KMeans, Round
from pais.kmeans.quality import Question, Rounds, noise_excess, plain_noise_excess, sample_choice
from pais.kmeans.sums import ResidualRound, SecondMoment
from pais.mechanisms.base import Mechanism
from pais.mechanisms.noise import GaussianNoise, LpNoise, NoiseLaw, laplace_noise
from pais.planning.facts import Facts
from pais.planning.plan import Plan
from pais.planning.radius import RadiusChoice, with_radius
from pais.planning.sample_choice import SampleChoice
from pais.planning.settings import MOST_SAMPLE_NUMBERS, MechanismName, SampleSettings, calibrated as calibrated_sample
from pais.privacy.amplification import largest_shift
from pais.privacy.calibration import Calibration
from pais.privacy.norms import NormDistribution
from pais.privacy.profiles import GaussianProfile, LinearProfile
from pais.privacy.rules import Rule

#: A typical |center| / radius, which determines the split of the noise between counts and sums.
RHO = 0.225


# Precision of a round over that of the round before it: early rounds need less.
_GROWTH, _PURE_GROWTH = 1.25, 1.2

# Norm to which rows are clipped for the second moment, in units of the root mean square norm.
_MOMENT_CLIP = 1.2

# Share of the precision for the second moment: so much that directions with 1/6 of the variance stand out, within
# these bounds.
_MOMENT_TARGET, _LEAST_MOMENT, _MOST_MOMENT = 6.0, 0.03, 0.12

# If the number of clusters is left open, the rows of a cluster of mean size are at least this many standard deviations
# of the noise that a count would have at the whole budget.
_LEAST_CLUSTER = 10.0

# Below this share that does not depend on the norm, whole rows are cheaper than residuals in the first round.
_LEAST_FLAT_FIRST = 0.3


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Public numbers that determine the rounds of k-means.

    `kept` is the expected share of the rows in the sample. If `choose`, `n_clusters` is the largest number of clusters,
    and the exploring rounds suggest how many there are.
    """

    mechanism: MechanismName
    n_clusters: int
    n_features: int
    n_rows: float
    radius: float
    mean_square_norm: float
    kept: float
    epsilon: float
    flat: float
    choose: bool = False


@dataclass(frozen=True, kw_only=True)
class Weights:
    """Largest and mean weight of the rows under a sampling rule."""

    largest: float = 1.0
    mean: float = 1.0


def unit_profile(mechanism: MechanismName, d: int, radius: float) -> GaussianProfile | LinearProfile:
    """Loss of all rounds together at noise 1, with the best split between counts and sums for the centers.

    The split minimises the error of sum/count at fixed loss, in units of the radius, so that it does not depend on
    the unit of the data (erratum 9).
    """
    if mechanism == "gaussian":
        return GaussianProfile((RHO / math.sqrt(d)) ** -0.5, radius)
    if mechanism == "l2":
        return LinearProfile((2.0 * RHO**2 / (d * (d + 1.0))) ** (1.0 / 3.0), 1.0 / radius)
    return LinearProfile((RHO**2 / d**1.5) ** (1.0 / 3.0), 1.0 / radius)


def plain_kmeans(problem: Problem, unit: LinearProfile, noise: float, weights: Weights, n_rounds: int) -> KMeans:
    """The algorithm of the paper: rounds of equal noise on k centers."""
    share = 1.0 / n_rounds
    round_ = Round(
        count_noise=laplace_noise(noise / (share * unit.intercept)),
        sum_noise=_sum_noise(problem.mechanism, noise / (share * unit.slope)),
    )
    return KMeans(
        n_clusters=problem.n_clusters,
        n_features=problem.n_features,
        rounds=(round_,) * n_rounds,
        radius=problem.radius,
        cells=problem.n_clusters,
        explore=0,
        n_rows=problem.n_rows,
        mean_square_norm=problem.mean_square_norm,
        trust=3.0 / math.sqrt(2.0),
        largest_weight=weights.largest,
        mean_weight=weights.mean,
    )


def plain_prediction(problem: Problem, unit: LinearProfile, n_rounds: int) -> Rounds:
    """What the choice of a sample size needs of the algorithm of the paper."""
    scale = n_rounds / unit.slope / math.sqrt(problem.mean_square_norm)
    excess = plain_noise_excess(
        n_clusters=problem.n_clusters,
        n_features=problem.n_features,
        n_rows=problem.n_rows,
        deviation=_sum_noise(problem.mechanism, scale).deviation(problem.n_features),
    )
    counts = laplace_noise(n_rounds / unit.intercept).deviation(1)
    return Rounds(flat=1.0, base=unit.intercept, rest=unit.slope * problem.radius, excess=excess, counts=counts)


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Cells and rounds, and the share of the whole precision that each release gets; fixed before a row is read.

    For Gaussian noise, shares are of the squared shift at the radius; for pure noise, of the loss.
    """

    problem: Problem
    cells: int
    explore: int
    shares: tuple[float, ...]
    first_count: float
    count: float
    distance: float
    whole: int
    moment: float = 0.0

    def mechanism(self, noise: float, weights: Weights | None = None) -> KMeans:
        """The rounds at a noise factor. At factor 1, the loss of a record at the radius with weight 1 is 1."""
        problem, weights = self.problem, Weights() if weights is None else weights
        return KMeans(
            n_clusters=problem.n_clusters,
            n_features=problem.n_features,
            rounds=tuple(self._round(t, share, noise) for t, share in enumerate(self.shares)),
            radius=problem.radius,
            cells=self.cells,
            explore=self.explore,
            moment=self._moment(noise) if self.moment else None,
            n_rows=problem.n_rows,
            mean_square_norm=problem.mean_square_norm,
            # For pure noise: three scales of Laplace noise, expressed in standard deviations.
            trust=0.7 if problem.mechanism == "gaussian" else 3.0 / math.sqrt(2.0),
            largest_weight=weights.largest,
            mean_weight=weights.mean,
            choose=problem.choose,
        )

    @property
    def base(self) -> float:
        """Part of the loss 1 at the radius that does not depend on the norm; of its square for Gaussian noise."""
        flats = [0.0 if t < self.whole else self.problem.flat for t in range(len(self.shares))]
        counts = [self.first_count, *[self.count] * (len(self.shares) - 1)]
        base = sum(
            share * (1.0 - (1.0 - flat) * (1.0 - count - self.distance))
            for share, flat, count in zip(self.shares, flats, counts, strict=True)
        )
        if self.moment:
            _, constant, price = self._moment_price
            base += self.moment * (constant / price) ** 2
        return base

    def predicted(self) -> Rounds:
        """What the choice of a sample size needs of these rounds."""
        problem = self.problem
        share, flat = math.sqrt(problem.mean_square_norm) / problem.radius, problem.flat
        gaussian = problem.mechanism == "gaussian"
        reach = math.sqrt(flat + (1.0 - flat) * share**2) if gaussian else flat + (1.0 - flat) * share
        excess = noise_excess(
            n_clusters=problem.n_clusters,
            n_features=problem.n_features,
            rows_reached=problem.n_rows * reach,
            precision=self._precision,
        )
        counts = self._round(self.explore - 1, self.shares[self.explore - 1], 1.0).count_noise.deviation(1)
        return Rounds(flat=flat, base=self.base, rest=1.0 - self.base, excess=excess, counts=counts)

    @property
    def _precision(self) -> float:
        """Precision of a residual sum after the polishing rounds, at noise 1 and per coordinate."""
        shares = np.array(self.shares[min(self.explore, len(self.shares) - 1) :]) * (1.0 - self.count - self.distance)
        if self.problem.mechanism == "gaussian":
            return float(shares.sum())
        return (
            float(np.sum(shares**2)) / _sum_noise(self.problem.mechanism, 1.0).deviation(self.problem.n_features) ** 2
        )

    @property
    def _moment_price(self) -> tuple[float, float, float]:
        """Clip of the second moment, and its price for norm 0 and for the radius."""
        problem = self.problem
        clip = min(problem.radius, _MOMENT_CLIP * math.sqrt(problem.mean_square_norm))
        constant, factor = SecondMoment.price(clip, problem.flat)
        return clip, constant, math.hypot(constant, factor * problem.radius)

    def _moment(self, noise: float) -> SecondMoment:
        """Second moment of rows clipped to the root mean square norm, which keeps their directions."""
        clip, _, price = self._moment_price
        return SecondMoment(
            noise=GaussianNoise(scale=price * noise / math.sqrt(self.moment)), radius=clip, flat=self.problem.flat
        )

    def _round(self, t: int, share: float, noise: float) -> ResidualRound:
        problem = self.problem
        count = self.first_count if t == 0 else self.count
        gaussian = problem.mechanism == "gaussian"

        def scale(part: float) -> float:
            return noise / (math.sqrt(share * part) if gaussian else share * part)

        rest = 1.0 - count - self.distance
        small = GaussianNoise if gaussian else LpNoise
        return ResidualRound(
            count_noise=small(scale=scale(count)),
            distance_noise=small(scale=scale(self.distance)),
            residual_noise=_sum_noise(problem.mechanism, scale(rest)),
            radius=problem.radius,
            flat=problem.flat,
            whole_rows=t < self.whole,
        )


def schedule(problem: Problem, noise: float) -> Schedule:
    """Choose cells and rounds for noise of about this factor."""
    return _gaussian(problem, noise) if problem.mechanism == "gaussian" else _pure(problem)


def _gaussian(problem: Problem, noise: float) -> Schedule:
    """Schedule for Gaussian noise: up to 2.5 cells per cluster, and a start from a noisy second moment.

    The number of rounds depends on the noise. The gain of a round falls geometrically with the number of rounds, and
    the cost of its share falls as the square of the signal-to-noise ratio, so the number of rounds grows with the
    logarithm of that ratio. The signal is the Frobenius norm of the matrix of sums. The noise is the spectral
    norm of the noise matrix if one round had the whole budget.
    """
    k, d, n = problem.n_clusters, problem.n_features, problem.n_rows
    first_count = RHO / math.sqrt(d) / (1.0 + RHO / math.sqrt(d))
    count, total = noise / math.sqrt(first_count), noise * problem.radius / math.sqrt(1.0 - first_count)
    if problem.choose:
        k = max(min(k, int(n / (_LEAST_CLUSTER * count))), 1)
        problem = replace(problem, n_clusters=k)
    room = n / (15.0 * k * count)
    per_cluster = max(1.0, min(1.5 * room**0.2, 2.5))
    cells = max(k, int(min(per_cluster * k + 4, n / (5.0 * count))))
    signal = n * math.sqrt(problem.mean_square_norm / cells)
    ratio = signal / (total * (math.sqrt(cells) + math.sqrt(d)))
    n_rounds = round(float(np.clip(6.5 + 1.5 * math.log2(max(ratio, 1e-9) / 12.0), 3, 11)))
    distance = min(0.2, 0.1 / math.sqrt(d))
    # Edge of the spectrum of its noise at the whole precision, over the trace of the second moment.
    edge = noise * math.sqrt(2.0 * d) * SecondMoment.price(_MOMENT_CLIP, 1.0)[0] / n
    moment = float(np.clip((_MOMENT_TARGET * edge) ** 2, _LEAST_MOMENT, _MOST_MOMENT))
    shares = _GROWTH ** np.arange(n_rounds)
    shares *= (1.0 - moment) / shares.sum()
    return Schedule(
        problem=problem,
        cells=cells,
        explore=min(n_rounds - 1, max(4, n_rounds // 2)),
        shares=tuple(shares.tolist()),
        first_count=first_count * (1.0 - distance),
        count=min(0.3, 0.3 / math.sqrt(d)),
        distance=distance,
        whole=1 if problem.flat < _LEAST_FLAT_FIRST else 0,
        moment=moment,
    )


def _pure(problem: Problem) -> Schedule:
    """Schedule for pure noise: one round of sectors, which gives the starting centers, and few further rounds.

    The rounds are few because in pure DP the noise of a round grows with the number of rounds. The noise level is the
    noise of the center of n/(2k) rows if one round had the whole budget, divided by the root mean square norm. Each
    round reduces the distance to a good solution by about a constant factor.
    """
    k, d = problem.n_clusters, problem.n_features
    log_budget = problem.epsilon + math.log(-math.expm1(-problem.epsilon)) - math.log(problem.kept)
    budget = problem.kept * float(np.logaddexp(0.0, log_budget))
    center_noise = (
        2 * k * math.sqrt(d) * _sum_noise(problem.mechanism, problem.radius).deviation(d) / (budget * problem.n_rows)
    )
    level = center_noise / math.sqrt(problem.mean_square_norm)
    n_rounds = int(np.clip(round(5.0 + 1.5 * math.log2(0.1 / level)), 2, 10))
    later = _PURE_GROWTH ** np.arange(n_rounds - 1)
    first = 0.3 if n_rounds == 2 else 0.6 / n_rounds
    unit = unit_profile(problem.mechanism, d, 1.0)
    assert isinstance(unit, LinearProfile)
    count = unit.intercept / (1.0 + unit.intercept)
    # With two rounds only, nothing can be gained from distances, and residuals would be larger than their clip.
    few = n_rounds == 2
    distance = (0.05 if few else 0.3) * count
    return Schedule(
        problem=problem,
        cells=(2 if level > 0.2 else 3) * k,
        explore=(n_rounds + 1) // 3 if n_rounds > 2 else 1,
        shares=(first, *((1.0 - first) * later / later.sum()).tolist()),
        first_count=count,
        count=count,
        distance=distance,
        whole=2 if few else 1,
    )


def _sum_noise(mechanism: MechanismName, scale: float) -> NoiseLaw:
    if mechanism == "gaussian":
        return GaussianNoise(scale=scale)
    return laplace_noise(scale) if mechanism == "laplace" else LpNoise(scale=scale, p=2.0)


Algorithm = Literal["refined", "paper"]

# Merging the cells of so many clusters takes about 2 GB, and the memory grows with the square of their number.
_MOST_CLUSTERS = 3000

# Binary places of the weights of rows that belong to units.
_UNIT_WEIGHT_BITS = 16

# Share of the rows within a surveyed radius for the algorithm of the paper, if the user does not state one.
_PAPER_QUANTILE = 0.975


# Relative increase over the calibrated noise, which covers the rounding errors of a sum over rounds.
_ROOM = 1e-9

# From this number of planned rounds on, the noise no longer limits the result. Then less of the price is independent of
# the norm, so that fewer rows are kept.
_MANY_ROUNDS, _FLAT_FOR_SPEED = 11, 0.3

# Shares of the price independent of the norm that are considered with each sample size.
_FLATS = (1.0, 0.6, 0.3)


@dataclass(frozen=True, kw_only=True)
class KMeansSettings(SampleSettings):
    """Settings of a private k-means that the user chooses; public.

    Attributes
    ----------
    n_clusters : int or "auto"
        Number of clusters k. "auto" chooses it from what the exploring rounds release, by the rule of `pais.Elbow`, at
        no further price.
    max_clusters : int
        Largest number of clusters that "auto" may choose. The plan is made for this number.
    algorithm : {"refined", "paper"}
        "paper" is plain DP-Lloyd, `n_iterations` rounds of equal noise on k centers; pure mechanisms only.
    n_iterations : int
        Number of rounds of the algorithm "paper".
    epsilon, delta, radius, center, norms, quantile, sampling, sample_size, mechanism, max_epsilon_if_kept
        See `Settings`. A `sample_size` of None keeps the fewest rows whose predicted cost is within 0.2 % of the best.
        Without a number, the sample has at most half a gigabyte of numbers.
    """

    what = "k-means"

    n_clusters: int | Literal["auto"]
    algorithm: Algorithm = "refined"
    n_iterations: int = 10
    max_clusters: int = 20

    @property
    def most_clusters(self) -> int:
        """The number of clusters that the plan is made for."""
        return int(self.max_clusters if self.n_clusters == "auto" else self.n_clusters)

    def require(self) -> None:
        if isinstance(self.n_clusters, str) and self.n_clusters != "auto":
            raise ArgumentError("n_clusters is a text other than 'auto'. Pass a whole number, or 'auto'.")
        if self.n_clusters != "auto":
            validate.count("n_clusters", self.n_clusters)
        validate.count("max_clusters", self.max_clusters)
        if self.most_clusters > _MOST_CLUSTERS:
            raise ArgumentError(
                f"{self.most_clusters} clusters are more than the {_MOST_CLUSTERS} that memory allows. Ask for fewer."
            )
        super().require()
        if self.n_clusters == "auto" and self.algorithm == "paper":
            raise ArgumentError("n_clusters='auto' is not available with algorithm='paper'. Pass a whole number.")
        if self.algorithm not in ("refined", "paper") or (self.algorithm == "paper" and self.mechanism == "gaussian"):
            raise ArgumentError(
                f"algorithm={self.algorithm!r} is not available with mechanism={self.mechanism!r}. Pass 'refined'."
            )
        validate.count("n_iterations", self.n_iterations)

    def _with_radius(self, facts: Facts, n_features: int) -> tuple[Facts, RadiusChoice | None]:
        """The facts with the radius of the plan, if the survey leaves that choice open."""
        plain = self.algorithm == "paper" and self.quantile is None and facts.radius_is_open
        return with_radius(
            facts,
            mechanism=self.mechanism,
            n_clusters=self.most_clusters,
            n_features=n_features,
            epsilon=float(self.epsilon),
            delta=self.delta,
            quantile=_PAPER_QUANTILE if plain else self.quantile,
        )

    def _for_units(self, mechanism: Mechanism) -> Mechanism:
        # Masses below 1 need finer steps.
        return replace(mechanism, weight_bits=_UNIT_WEIGHT_BITS) if isinstance(mechanism, KMeans) else mechanism

    def _mechanism(
        self, ball: Ball, norms: NormDistribution, d: int, delta: float, limit: float | None
    ) -> tuple[KMeans, Rule, SampleChoice | None]:
        """The rounds of k-means, the sampling rule, and the sample sizes considered."""
        problem = self._problem(ball, norms, d)
        choice = self._sample_choice(problem, norms, delta, limit)
        # The largest sample is that of sampling without extra noise, which the solver finds by itself.
        is_free = choice is None or (choice.is_largest and self.sampling == "constrained")
        option = None if choice is None or is_free else choice.option

        def calibrated(profile: GaussianProfile | LinearProfile) -> Calibration:
            return calibrated_sample(
                self, profile, norms, most_rows=MOST_SAMPLE_NUMBERS / d, delta=delta, limit=limit, option=option
            )

        if self.algorithm == "paper":
            unit = self._unit(problem)
            calibration = calibrated(unit)
            noise, weights = _with_room(calibration, norms)
            return plain_kmeans(problem, unit, noise, weights, self.n_iterations), calibration.rule, choice
        if option is not None:
            problem = replace(problem, flat=option.flat, kept=min(1.0, option.size / norms.n_rows))
            rounds = schedule(problem, option.growth * self._least_noise(delta))
            calibration = calibrated(rounds.mechanism(1.0).profile)
        else:
            rounds = self._guessed(problem, delta)
            calibration = calibrated(rounds.mechanism(1.0).profile)
            problem = replace(rounds.problem, kept=min(1.0, calibration.sample_size / norms.n_rows))
            better = schedule(problem, calibration.noise)
            # One round or a few cells more or less hardly matter, and a second calibration takes as long as a small
            # fit.
            if abs(len(better.shares) - len(rounds.shares)) > 1 or not 0.8 <= better.cells / rounds.cells <= 1.25:
                rounds, calibration = better, calibrated(better.mechanism(1.0).profile)
        noise, weights = _with_room(calibration, norms)
        return rounds.mechanism(noise, weights), calibration.rule, choice

    def _problem(self, ball: Ball, norms: NormDistribution, d: int) -> Problem:
        return Problem(
            mechanism=self.mechanism,
            n_clusters=self.most_clusters,
            n_features=d,
            n_rows=norms.n_rows,
            radius=ball.radius,
            mean_square_norm=_euclidean_mean_square(self.mechanism, d, norms),
            kept=1.0,
            epsilon=float(self.epsilon),
            flat=self._flat(norms.n_rows),
            choose=self.n_clusters == "auto",
        )

    def _unit(self, problem: Problem) -> LinearProfile:
        """Loss of the algorithm of the paper at noise 1; its noise is pure."""
        unit = unit_profile(self.mechanism, problem.n_features, problem.radius)
        assert isinstance(unit, LinearProfile)
        return unit

    def _least_noise(self, delta: float) -> float:
        """About the noise of all rows, for rounds with a loss of 1 at the radius."""
        return 1.0 / (largest_shift(float(self.epsilon), delta) if self.mechanism == "gaussian" else self.epsilon)

    def _sample_choice(
        self, problem: Problem, norms: NormDistribution, delta: float, limit: float | None
    ) -> SampleChoice | None:
        """The sample sizes considered and the best of them, if the size is left open."""
        if self.sample_size is not None or isinstance(self.sampling, Rule) or self.sampling == "none":
            return None
        if self.algorithm == "paper":
            rounds: tuple[Rounds, ...] = (plain_prediction(problem, self._unit(problem), self.n_iterations),)
        else:
            noise, flats = self._least_noise(delta), (1.0,) if self.sampling == "uniform" else _FLATS
            rounds = tuple(schedule(replace(problem, flat=flat), noise).predicted() for flat in flats)
        return sample_choice(
            Question(
                norms=norms,
                n_clusters=problem.n_clusters,
                epsilon=problem.epsilon,
                delta=delta,
                limit=limit,
                most_rows=MOST_SAMPLE_NUMBERS / problem.n_features,
                sampling=self.sampling,
                rounds=rounds,
            )
        )

    def _guessed(self, problem: Problem, delta: float) -> Schedule:
        """The rounds for the noise that this problem will need, roughly: more if a small sample is stated."""
        if self.mechanism != "gaussian":
            return schedule(problem, 1.0)
        kept = 1.0 if self.stated_size is None else min(1.0, self.stated_size / problem.n_rows)
        growth = max(0.0, 0.4 + 0.3 * math.log10(problem.epsilon))
        noise = kept**-growth / largest_shift(problem.epsilon, delta)
        rounds = schedule(problem, noise)
        sampled = self.stated_size is None and self.sampling not in ("uniform", "none")
        if sampled and len(rounds.shares) >= _MANY_ROUNDS:
            # The noise is negligible, so a smaller sample saves time at no loss.
            rounds = schedule(replace(problem, flat=_FLAT_FOR_SPEED), noise)
        return rounds

    def _flat(self, n_rows: float) -> float:
        """Share of the price of the rounds that does not depend on the norm of a record.

        The noise is smallest if it is 1, but then few rows can be left out. If the user states a small sample, the
        share is small, so that rows with small norms can be sampled rarely.
        """
        if self.stated_size is None or self.sampling in ("uniform", "none"):
            return 1.0
        least = 0.1 if self.mechanism == "gaussian" else 0.2
        return float(min(1.0, max(least, self.stated_size / n_rows)))


def _with_room(calibration: Calibration, norms: NormDistribution) -> tuple[float, Weights]:
    """Noise with room for the rounding errors of a sum over rounds, and the weights of the rule."""
    rule = calibration.rule
    weights = Weights(largest=1.0 / rule.smallest_probability(norms.radius), mean=norms.mean_weight(rule))
    return calibration.noise * (1.0 + _ROOM), weights  # [note: plan-1]


def plan_kmeans(
    *, n_features: int, ball: Ball, norms: NormDistribution, spent: tuple[Part, ...] = (), **settings: Any
) -> Plan:
    """Choose the noise, sampling rule, cells and rounds of a private k-means.

    Parameters
    ----------
    n_features : int
        Number of columns d.
    ball : Ball
        Public bounds; order 2, or 1 for the Laplace mechanism.
    norms : NormDistribution
        Public or surveyed norms about the ball's center.
    spent : tuple of Part
        Earlier releases on the same rows; the certificate adds their prices. If there are any, the number of rows
        counts as surveyed, and a default delta is certified as 1e-6.
    **settings
        Arguments of `KMeansSettings`: n_clusters, max_clusters, epsilon, delta, sampling, sample_size, mechanism,
        algorithm, n_iterations, max_epsilon_if_kept. Here epsilon is the guarantee of this release alone, without
        `spent`.

    Notes
    -----
    Guarantee. The plan costs at most (epsilon, delta) on the whole ball; the constructor of `Plan` checks this:
    `tests/theory/test_planning.py`. No argument depends on the rows except through released values.

    Examples
    --------
    >>> import pais
    >>> norms = pais.NormDistribution.from_histogram([0.0, 1.0, 2.0], [50_000, 50_000])
    >>> plan = pais.plan_kmeans(n_clusters=5, n_features=3, epsilon=1.0, ball=pais.Ball(radius=2.0), norms=norms)
    >>> plan.price.epsilon <= 1.0
    True
    """
    stated_twice = [name for name in ("radius", "center") if name in settings]
    if stated_twice:
        raise ArgumentError(f"{stated_twice[0]} is part of the ball. Pass ball=pais.Ball(radius=..., center=...).")
    return KMeansSettings(**settings).release_plan(ball=ball, norms=norms, n_features=n_features, spent=spent)


def _euclidean_mean_square(mechanism: MechanismName, d: int, norms: NormDistribution) -> float:
    """Mean square of the Euclidean norms; never zero."""
    # In l1 geometry the Euclidean norm is only known to lie between norm/sqrt(d) and norm.
    return max(norms.mean_square_norm / (math.sqrt(d) if mechanism == "laplace" else 1.0), 1e-12 * norms.radius**2)
