"""Settings of a private k-means, and the plan that follows from them: noise, sampling rule, cells and rounds."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

from pais._base import validate
from pais.accounting import Part
from pais.data.ball import Ball
from pais.errors import ArgumentError
from pais.mechanisms import KMeans, Mechanism
from pais.planning.facts import Facts
from pais.planning.plan import Plan
from pais.planning.radius import RadiusChoice, with_radius
from pais.planning.rounds import Problem, Schedule, Weights, plain_kmeans, plain_prediction, schedule, unit_profile
from pais.planning.sample_size import calibrated as calibrated_sample
from pais.planning.sampled import MOST_SAMPLE_NUMBERS, SampleSettings
from pais.planning.settings import MechanismName
from pais.planning.size_choice import Question, Rounds, SampleChoice, sample_choice
from pais.privacy.amplification import largest_shift
from pais.privacy.calibration import Calibration
from pais.privacy.norms import NormDistribution
from pais.privacy.profiles import GaussianProfile, LinearProfile
from pais.privacy.rules import Rule

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
            mean_square_norm=_mean_square_norm(self.mechanism, d, norms),
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


def _mean_square_norm(mechanism: MechanismName, d: int, norms: NormDistribution) -> float:
    """Mean square of the Euclidean norms; never zero."""
    # In l1 geometry the Euclidean norm is only known to lie between norm/sqrt(d) and norm.
    return max(norms.mean_square_norm / (math.sqrt(d) if mechanism == "laplace" else 1.0), 1e-12 * norms.radius**2)
