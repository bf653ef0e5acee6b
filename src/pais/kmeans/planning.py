"""Settings of a private k-means, and the plan that follows from them: radius, sample size, cells, rounds and noise.

The choices need no exact weights. The plan then solves for the sampling rule exactly and certifies it, so a wrong
prediction costs quality or time, and never privacy.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from pais._base import validate
from pais._base.numerics import FloatArray
from pais._base.randomness import RandomState
from pais.accounting.part import Part
from pais.data.ball import Ball
from pais.data.engines.base import Engine
from pais.errors import ArgumentError, MismatchError
from pais.kmeans.mechanism import MOST_NOISE, KMeans, noise_excess, plain_noise_excess, sampling_excess
from pais.kmeans.rounds import ResidualRound, Round, SecondMoment
from pais.mechanisms.base import Mechanism
from pais.mechanisms.noise import GaussianNoise, LpNoise, NoiseLaw, laplace_noise
from pais.planning.facts import Facts, Stages
from pais.planning.norm_survey import NormStage
from pais.planning.plan import TOLERANCE, Plan, RadiusChoice, SampleChoice, SizeOption, clipped_facts, radius_at
from pais.planning.settings import MechanismName, SampleSettings
from pais.privacy.amplification import kept_limit, largest_shift
from pais.privacy.calibration import Calibration
from pais.privacy.profiles import LinearProfile
from pais.privacy.rules import NormDistribution, Rule
from pais.privacy.weights import WEIGHT_CAP, crossing_curve

Algorithm = Literal["refined", "paper"]

# Merging the cells of so many clusters takes about 2 GB, and the memory grows with the square of their number.
_MOST_CLUSTERS = 3000

# Binary places of the weights of rows that belong to units: masses are multiples of 2**-16 (`pais.data.units`).
_UNIT_WEIGHT_BITS = 16

# Share of the rows within a surveyed radius for the algorithm of the paper, as in its experiments
# (`experiments/paper/datasets.py`).
_PAPER_QUANTILE = 0.975

# Relative increase over the calibrated noise, which covers the rounding errors of a sum over rounds.
_ROOM = 1e-9

# At the largest number of rounds with Gaussian noise, the noise no longer limits the result. Then less of the price is
# independent of the norm, so that fewer rows are kept (commit 5dc59a3, for speed).
_MANY_ROUNDS, _FLAT_FOR_SPEED = 11, 0.3

# Shares of the price independent of the norm that are considered with each sample size. Chosen by eye (721a0ba).
_FLAT_SHARES = (1.0, 0.6, 0.3)

# The same share for a stated sample, at least. In l2 geometry, 0.05 instead of 0.2 takes KDD-Protein at epsilon 1 from
# 1.115 to 1.093 (mean of 12 fits), and Covertype stays the same. In l1 geometry, Covertype would rise by 0.007.
_LEAST_FLAT = {"gaussian": 0.1, "l2": 0.05, "laplace": 0.2}


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

    def stages(self, rows: Engine, random_state: RandomState) -> Stages:
        # A few rows far beyond the others may be clusters, whose cost would be larger than that of all others.
        stages = super().stages(rows, random_state)
        joined = (replace(stage, joined=True) if isinstance(stage, NormStage) else stage for stage in stages.stages)
        return replace(stages, stages=tuple(joined))

    def _with_radius(self, facts: Facts, n_features: int) -> tuple[Facts, RadiusChoice | None]:
        """The facts, in a smaller ball if the survey leaves it open: at a quantile, or as predicted to be best."""
        quantile = self.quantile
        if not facts.radius_is_open:
            if quantile is not None and facts.survey is not None and facts.survey.quantile_asked:
                raise MismatchError(
                    f"quantile={quantile!r} is stated, but the survey has a radius at a quantile. Leave out one of "
                    "them."
                )
            return facts, None
        if quantile is None and self.algorithm == "paper":
            quantile = _PAPER_QUANTILE
        if quantile is not None:
            return clipped_facts(facts, radius_at(facts.norms, quantile)), None
        noise = square_noise(
            self.mechanism,
            n_clusters=self.most_clusters,
            n_features=n_features,
            epsilon=float(self.epsilon),
            delta=self._surveyed_delta(facts),
        )
        # A clipped row moves by a Euclidean length, which in l1 geometry lies between its norm / sqrt(d) and its norm.
        square_length = 1.0 / math.sqrt(n_features) if self.mechanism == "laplace" else 1.0
        radius, choice = best_radius(facts.norms, noise, n_clusters=self.most_clusters, clipping=square_length)
        return clipped_facts(facts, radius), choice

    def _for_units(self, mechanism: Mechanism) -> Mechanism:
        # Masses below 1 need finer steps.
        return replace(mechanism, weight_bits=_UNIT_WEIGHT_BITS) if isinstance(mechanism, KMeans) else mechanism

    def _mechanism(
        self, ball: Ball, norms: NormDistribution, d: int, delta: float, limit: float | None
    ) -> tuple[KMeans, Rule, SampleChoice | None]:
        """The rounds of k-means, the sampling rule, and the sample sizes considered."""
        inputs = self._inputs(ball, norms, d)
        choice = self._sample_choice(inputs, norms, delta, limit)
        # The largest sample is that of sampling without extra noise, which the solver finds by itself.
        is_free = choice is None or (choice.is_largest and self.sampling == "constrained")
        option = None if choice is None or is_free else choice.option
        calibrated = functools.partial(self.calibrated, norms=norms, d=d, delta=delta, limit=limit, option=option)
        if self.algorithm == "paper":
            calibration = calibrated(unit_profile(self.mechanism, d, ball.radius))
            noise, weights = _with_room(calibration, norms)
            return plain_kmeans(inputs, noise, weights, self.n_iterations), calibration.rule, choice
        if option is not None:
            inputs = replace(inputs, flat_share=option.flat, kept=min(1.0, option.size / norms.n_rows))
            rounds = schedule(inputs, option.growth * self._least_noise(delta))
            calibration = calibrated(rounds.mechanism(1.0).profile)
        else:
            rounds = self._guessed(inputs, delta)
            calibration = calibrated(rounds.mechanism(1.0).profile)
            inputs = replace(rounds.inputs, kept=min(1.0, calibration.sample_size / norms.n_rows))
            better = schedule(inputs, calibration.noise)
            # One round or a few cells more or less hardly matter, and a second calibration takes as long as a small
            # fit.
            if abs(len(better.shares) - len(rounds.shares)) > 1 or not 0.8 <= better.cells / rounds.cells <= 1.25:
                rounds, calibration = better, calibrated(better.mechanism(1.0).profile)
        noise, weights = _with_room(calibration, norms)
        return rounds.mechanism(noise, weights), calibration.rule, choice

    def _inputs(self, ball: Ball, norms: NormDistribution, d: int) -> ScheduleInputs:
        # The noise is smallest if no part of the price depends on the norm, but then few rows can be left out. If the
        # user states a small sample, the share is small, so that rows with small norms can be sampled rarely.
        flat_share = 1.0
        if self.stated_size is not None and self.sampling not in ("uniform", "none"):
            flat_share = float(min(1.0, max(_LEAST_FLAT[self.mechanism], self.stated_size / norms.n_rows)))
        return ScheduleInputs(
            mechanism=self.mechanism,
            n_clusters=self.most_clusters,
            n_features=d,
            n_rows=norms.n_rows,
            radius=ball.radius,
            # Of Euclidean norms; never zero.
            mean_square_norm=max(
                norms.mean_square_norm / (math.sqrt(d) if self.mechanism == "laplace" else 1.0),
                1e-12 * norms.radius**2,
            ),
            kept=1.0,
            epsilon=float(self.epsilon),
            flat_share=flat_share,
            choose=self.n_clusters == "auto",
        )

    def _least_noise(self, delta: float) -> float:
        """About the noise of all rows, for rounds with a loss of 1 at the radius."""
        return 1.0 / (largest_shift(float(self.epsilon), delta) if self.mechanism == "gaussian" else self.epsilon)

    def _sample_choice(
        self, inputs: ScheduleInputs, norms: NormDistribution, delta: float, limit: float | None
    ) -> SampleChoice | None:
        """The sample sizes considered and the best of them, if the size is left open."""
        if self.sample_size is not None or isinstance(self.sampling, Rule) or self.sampling == "none":
            return None
        if norms.n_rows <= LEAST_ROWS:
            # No smaller sample is considered.
            return None
        if self.algorithm == "paper":
            rounds: tuple[RoundCosts, ...] = (plain_prediction(inputs, self.n_iterations),)
        else:
            noise, shares = self._least_noise(delta), (1.0,) if self.sampling == "uniform" else _FLAT_SHARES
            rounds = tuple(schedule(replace(inputs, flat_share=share), noise).predicted() for share in shares)
        return SizeSearch(
            norms=norms,
            n_clusters=inputs.n_clusters,
            epsilon=inputs.epsilon,
            delta=delta,
            limit=limit,
            most_rows=self.most_rows(inputs.n_features),
            sampling=self.sampling,
            rounds=rounds,
        ).choice()

    def _guessed(self, inputs: ScheduleInputs, delta: float) -> Schedule:
        """The rounds for the noise that these inputs will need, roughly: more if a small sample is stated."""
        if self.mechanism != "gaussian":
            return schedule(inputs, 1.0)
        kept = 1.0 if self.stated_size is None else min(1.0, self.stated_size / inputs.n_rows)
        # The noise grows as about this power of the share of the rows that is left out, by eye (commit 5dc59a3). A
        # wrong guess costs a second calibration.
        growth = max(0.0, 0.4 + 0.3 * math.log10(inputs.epsilon))
        noise = kept**-growth / largest_shift(inputs.epsilon, delta)
        rounds = schedule(inputs, noise)
        sampled = self.stated_size is None and self.sampling not in ("uniform", "none")
        if sampled and len(rounds.shares) >= _MANY_ROUNDS:
            # The noise is negligible, so a smaller sample saves time at no loss.
            rounds = schedule(replace(inputs, flat_share=_FLAT_FOR_SPEED), noise)
        return rounds


def _with_room(calibration: Calibration, norms: NormDistribution) -> tuple[float, Weights]:
    """Noise with room for the rounding errors of a sum over rounds, and the weights of the rule."""
    rule = calibration.rule
    weights = Weights(largest=1.0 / rule.smallest_probability(norms.radius), mean=norms.mean_weight(rule))
    return calibration.noise * (1.0 + _ROOM), weights  # [note: plan-1]


# Noise of the final centers over that of one release of all sums at the whole budget: rounds share the budget, and
# their noise shrinks with the cells. Chosen by eye (commit c3a40f0).
_ROUNDS_FACTOR = {"gaussian": 0.7, "l2": 2.0, "laplace": 2.0}


# Share of the mean square norm that all clusters together explain, as far as a radius should count on them. Between 0.1
# and 0.25, by the medians of 16 sets at epsilon 0.1 to 1: a small share helps where noise hides the clusters, and costs
# 1 % on wide tables where it does not.
_CLUSTERED = 0.15


def square_noise(mechanism: str, *, n_clusters: int, n_features: int, epsilon: float, delta: float) -> float:
    """Predicted excess cost of the noise for a ball of radius 1, times the number of rows.

    One release of the sums of k cells at the whole budget has a mean square noise of s per cell. A center of n/k rows
    then has the mean square noise s k^2/n^2. Weighted with the rows, the excess cost of all of them is s k^2/n.
    """
    d = float(n_features)
    if mechanism == "gaussian":
        per_cell = d / largest_shift(epsilon, delta) ** 2
    elif mechanism == "l2":
        # The norm of this noise has a Gamma distribution of shape d.
        per_cell = d * (d + 1.0) / epsilon**2
    else:
        per_cell = 2.0 * d / epsilon**2
    return _ROUNDS_FACTOR[mechanism] * per_cell * float(n_clusters) ** 2


def best_radius(
    norms: NormDistribution, square_noise: float, *, n_clusters: int = 1, clipping: float = 1.0
) -> tuple[float, RadiusChoice]:
    """The norm of the distribution that minimises predicted noise plus clipping, as the radius of the ball.

    The noise costs ``square_noise * radius**2 / n_rows``, and at most what giving up clusters would cost: fewer centers
    have less noise, in proportion to the square of their number. A row of norm z beyond the radius costs
    ``clipping * (z - radius)**2``.
    """
    n_rows = norms.n_rows
    order = np.argsort(norms.norms, kind="stable")
    norm, mass = norms.norms[order], norms.masses[order]
    # Sums over the norms beyond each one, by powers of the norm.
    beyond = [np.append(np.cumsum((mass * norm**power)[::-1])[::-1][1:], 0.0) for power in range(3)]
    clipped = clipping * np.maximum(beyond[2] - 2.0 * norm * beyond[1] + norm**2 * beyond[0], 0.0)
    noise, given_up = square_noise / n_rows * norm**2, clipping * _CLUSTERED * float(mass @ norm**2)
    # The share of the centers that makes share**2 * noise + (1 - share) * given_up least.
    share = np.maximum(given_up / np.maximum(2.0 * noise, max(given_up, 1e-300)), 1.0 / n_clusters)
    noise = share**2 * noise + (1.0 - share) * given_up
    candidates = np.flatnonzero((mass > 0.0) & (norm > 0.0))
    if candidates.size == 0:
        return norms.radius, RadiusChoice(noise=square_noise * norms.radius**2, clipping=0.0, largest=norms.radius)
    best = candidates[np.argmin((noise + clipped)[candidates])]
    choice = RadiusChoice(
        noise=float(noise[best] / n_rows), clipping=float(clipped[best] / n_rows), largest=norms.radius
    )
    return float(norm[best]), choice


#: Samples of so few rows take no time worth saving, so smaller ones are not considered. Chosen by eye (commit fcb1d80).
LEAST_ROWS = 20_000.0

# Largest noise of a count, as a share of the rows: more would hide small clusters, which the predicted cost does not
# know. Above it, the sample is the one without extra noise. Chosen by eye (88354f4).
_HIDDEN_SHARE = 3.5e-4

# Resolution of the search, which changes the predicted cost by less than its tolerance (721a0ba, bba6f79): the factor
# between two sizes, logarithms of the noise over that of all rows (dense where it begins, because the size falls fast
# there), cells into which norms are grouped, and points of the curve of a pure loss.
_SIZE_STEP, _CELLS, _POINTS = 2.0**0.125, 128, 256
_NOISE_GROWTH = np.linspace(0.0, math.sqrt(math.log(1e7)), 64) ** 2

# Significant digits of a size and decimal places of its costs.
_SIZE_DIGITS = 6


@dataclass(frozen=True, kw_only=True)
class RoundCosts:
    """Loss and excess cost of the rounds for one share `flat_share` of the price, as the prediction needs them; public.

    At noise 1, a record of norm z and weight 1 has the loss ``sqrt(base + rest (z/r)^2)`` for Gaussian noise and
    ``base + rest z/r`` for pure noise. The excess cost of the noise is `excess` times the squared noise. `counts` is
    the noise of a count in the last exploring round, at noise 1.
    """

    flat_share: float
    base: float
    rest: float
    excess: float
    counts: float


# Logarithms of sizes, of noise factors and of mean weights, by rising size.
_Ladder = tuple[FloatArray, FloatArray, FloatArray]


@dataclass(frozen=True, kw_only=True)
class SizeSearch:
    """Search for the smallest sample size whose predicted cost is close to the least over all sizes considered.

    It depends on public numbers only and decides no price. One curve gives the largest weight by the loss at weight 1.
    """

    norms: NormDistribution
    n_clusters: int
    epsilon: float
    delta: float
    limit: float | None
    most_rows: float
    sampling: Literal["constrained", "coreset", "uniform"]
    rounds: tuple[RoundCosts, ...]

    def choice(self) -> SampleChoice | None:
        """The smallest size within the tolerance of the best, at most `most_rows`; None for no extra noise."""
        curve = _LossCurve.of(self.epsilon, self.delta, kept_limit(self.epsilon, self.limit))
        if curve is None:
            return None
        share, mass = _grouped(self.norms)
        ladders = [self._ladder(costs, curve, share, mass) for costs in self.rounds]
        largest = min(max(float(np.exp(ladder[0].max(initial=0.0))) for ladder in ladders), self.most_rows)
        if largest <= LEAST_ROWS:
            return None
        n_steps = math.floor(math.log(largest / LEAST_ROWS) / math.log(_SIZE_STEP))
        # The largest size is that of sampling without extra noise, or what memory allows.
        sizes = np.append(largest * (1.0 - 1e-3), largest * _SIZE_STEP ** -np.arange(1.0, n_steps + 1.0))[::-1]
        options = self._options(ladders, sizes)
        if not options:
            return None
        enough = TOLERANCE + min(option.excess for option in options)
        return SampleChoice(
            options=options, chosen=next(place for place, option in enumerate(options) if option.excess <= enough)
        )

    def _ladder(self, costs: RoundCosts, curve: _LossCurve, share: FloatArray, mass: FloatArray) -> _Ladder:
        """Sizes, and the noise and the mean weight that go with them."""
        if self.delta > 0.0:
            loss = 0.5 * np.log(costs.base + costs.rest * share**2)
            at_radius = 0.5 * math.log(costs.base + costs.rest)
        else:
            loss, at_radius = np.log(costs.base + costs.rest * share), math.log(costs.base + costs.rest)
        if self.sampling == "constrained":
            noise = at_radius - curve.loss[-1] + _NOISE_GROWTH[:, None]
            weight = curve.weights(loss - noise)
            deciding = weight[:, -1]
        else:
            # The rule fixes the weights up to a factor, and the norm with the largest loss decides the noise.
            square = max(float(np.average(share**2, weights=mass)), 1e-12)
            uniform, by_norm = (1.0, 0.0) if self.sampling == "uniform" else (0.5, 0.5 / square)
            factor = np.linspace(0.0, max(math.log(mass.sum() / LEAST_ROWS), 1.0), len(_NOISE_GROWTH))[:, None]
            weight = factor + np.log((uniform + by_norm) / (uniform + by_norm * share**2))
            needed = loss - curve.losses(weight)
            noise = np.max(needed, axis=1, keepdims=True)
            deciding = np.take_along_axis(weight, np.argmax(needed, axis=1)[:, None], axis=1)[:, 0]
        # Beyond this weight the limit on kept records decides the noise, and the price would be below the target.
        within = deciding < curve.last
        size = np.log(np.exp(-weight[within]) @ mass)
        mean = np.log(np.exp(weight[within]) @ mass / mass.sum())
        return size[::-1], noise[within, 0][::-1], mean[::-1]

    def _options(self, ladders: list[_Ladder], sizes: FloatArray) -> tuple[SizeOption, ...]:
        """The option of each size with the least predicted excess over the flat shares, where some noise reaches it.

        Counts with too much noise would hide small clusters, which the predicted excess does not know.
        """
        n_rows = self.norms.n_rows
        growths, noises, samplings = np.full((3, len(ladders), len(sizes)), np.inf)
        for place, (costs, (reached, noise, mean)) in enumerate(zip(self.rounds, ladders, strict=True)):
            if reached.size == 0:
                continue
            target = np.log(sizes)
            within = (reached[0] <= target) & (target <= reached[-1])
            within &= costs.counts * np.exp(np.interp(target, reached, noise)) <= _HIDDEN_SHARE * n_rows
            log_noise = np.interp(target[within], reached, noise)
            growths[place, within] = np.exp(log_noise - noise[-1])
            noises[place, within] = np.minimum(costs.excess * np.exp(2.0 * log_noise), MOST_NOISE)
            mean_weight = np.exp(np.interp(target[within], reached, mean))
            samplings[place, within] = sampling_excess(self.n_clusters, n_rows, mean_weight)
        best = np.argmin(noises + samplings, axis=0)
        return tuple(
            SizeOption(
                size=float(f"{size:.{_SIZE_DIGITS}g}"),
                noise=round(float(noises[row, place]), _SIZE_DIGITS),
                sampling=round(float(samplings[row, place]), _SIZE_DIGITS),
                flat=self.rounds[row].flat_share,
                growth=float(f"{growths[row, place]:.{_SIZE_DIGITS}g}"),
            )
            for place, (size, row) in enumerate(zip(sizes.tolist(), best.tolist(), strict=True))
            if np.isfinite(growths[row, place])
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class _LossCurve:
    """Largest weight by the loss of a record at weight 1, for a target; logarithms, by rising loss."""

    loss: FloatArray
    weight: FloatArray
    most: float

    @classmethod
    def of(cls, epsilon: float, delta: float, limit: float) -> _LossCurve | None:
        if delta > 0.0:
            crossing = crossing_curve(epsilon, delta)
            if crossing.shift.size < 2:
                return None
            return cls(loss=crossing.shift, weight=crossing.weight, most=math.log(largest_shift(limit, delta)))
        weight = np.linspace(math.log(WEIGHT_CAP), 0.0, _POINTS)
        # A record of loss l at probability 1/w has log(1 + (e^l - 1)/w), which is epsilon at this loss.
        whole = np.logaddexp(0.0, weight + epsilon + math.log(-math.expm1(-epsilon)))
        return cls(loss=np.log(whole) - weight, weight=weight, most=math.log(limit))

    @property
    def last(self) -> float:
        """Largest weight at which the target decides, and not the limit on kept records."""
        within = self.loss + self.weight < self.most
        return float(self.weight[np.argmax(within)]) if np.any(within) else 0.0

    def weights(self, log_loss: FloatArray) -> FloatArray:
        """Logarithms of the largest weights."""
        free = np.interp(log_loss, self.loss, self.weight)
        return np.clip(np.minimum(free, self.most - log_loss), 0.0, None)

    def losses(self, log_weight: FloatArray) -> FloatArray:
        """Logarithms of the largest losses at weight 1."""
        free = np.interp(log_weight, self.weight[::-1], self.loss[::-1])
        return np.minimum(free, self.most - log_weight)


def _grouped(norms: NormDistribution) -> tuple[FloatArray, FloatArray]:
    """Norms in units of the radius, in few groups, and the rows of each."""
    share = np.minimum(norms.norms / norms.radius, 1.0)
    cell = np.minimum((share * _CELLS).astype(np.intp), _CELLS - 1)
    mass = np.asarray(np.bincount(cell, weights=norms.masses, minlength=_CELLS), dtype=np.float64)
    mean = np.bincount(cell, weights=norms.masses * share, minlength=_CELLS)
    full = mass > 0.0
    return mean[full] / mass[full], mass[full]


#: A typical |center| / radius, which determines the split of the noise between counts and sums: that of Su et al.,
#: "Differentially private k-means clustering" (2016).
RHO = 0.225

# The numbers below, and those of `_gaussian` and `_pure`, were tuned together, by eye, in commits d29872a to e0ae639.
# The tables kmeans-survey.md, kmeans-public.md and kmeans-pure.md of benchmarks/results show what they reach.

# Precision of a round over that of the round before it: early rounds need less.
_GROWTH, _PURE_GROWTH = 1.25, 1.2

# For l2 noise, the start decides the cost where rounds are few, so that the first of at most four rounds has a share of
# 1/n, and below this noise level there are at least three rounds: KDD-Protein falls from 1.128 to 1.083 at epsilon 1
# and from 1.24 to 1.16 at 0.3 (means), and digits, with levels of 1 to 3, would rise by a half.
_FEW_ROUNDS, _DROWNED_LEVEL = 4, 1.0

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
class ScheduleInputs:
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
    flat_share: float
    choose: bool = False

    def kmeans(self, weights: Weights, **chosen: Any) -> KMeans:
        """The mechanism with these rounds and cells."""
        return KMeans(
            n_clusters=self.n_clusters,
            n_features=self.n_features,
            radius=self.radius,
            n_rows=self.n_rows,
            mean_square_norm=self.mean_square_norm,
            # For pure noise: three scales of Laplace noise, expressed in standard deviations.
            trust=0.7 if self.mechanism == "gaussian" else 3.0 / math.sqrt(2.0),
            largest_weight=weights.largest,
            mean_weight=weights.mean,
            choose=self.choose,
            **chosen,
        )


@dataclass(frozen=True, kw_only=True)
class Weights:
    """Largest and mean weight of the rows under a sampling rule."""

    largest: float = 1.0
    mean: float = 1.0


def unit_profile(mechanism: MechanismName, d: int, radius: float) -> LinearProfile:
    """Loss of all rounds together at pure noise 1, with the best split between counts and sums for the centers.

    The split minimises the error of sum/count at fixed loss, in units of the radius, so that it does not depend on
    the unit of the data (erratum 9).
    """
    if mechanism == "l2":
        return LinearProfile((2.0 * RHO**2 / (d * (d + 1.0))) ** (1.0 / 3.0), 1.0 / radius)
    return LinearProfile((RHO**2 / d**1.5) ** (1.0 / 3.0), 1.0 / radius)


def plain_kmeans(inputs: ScheduleInputs, noise: float, weights: Weights, n_rounds: int) -> KMeans:
    """The algorithm of the paper: rounds of equal noise on k centers."""
    unit, share = unit_profile(inputs.mechanism, inputs.n_features, inputs.radius), 1.0 / n_rounds
    round_ = Round(
        count_noise=laplace_noise(noise / (share * unit.intercept)),
        sum_noise=_sum_noise(inputs.mechanism, noise / (share * unit.slope)),
    )
    return inputs.kmeans(weights, rounds=(round_,) * n_rounds, cells=inputs.n_clusters, explore=0)


def plain_prediction(inputs: ScheduleInputs, n_rounds: int) -> RoundCosts:
    """What the choice of a sample size needs of the algorithm of the paper."""
    unit = unit_profile(inputs.mechanism, inputs.n_features, inputs.radius)
    scale = n_rounds / unit.slope / math.sqrt(inputs.mean_square_norm)
    excess = plain_noise_excess(
        n_clusters=inputs.n_clusters,
        n_features=inputs.n_features,
        n_rows=inputs.n_rows,
        deviation=_sum_noise(inputs.mechanism, scale).deviation(inputs.n_features),
    )
    counts = laplace_noise(n_rounds / unit.intercept).deviation(1)
    return RoundCosts(
        flat_share=1.0, base=unit.intercept, rest=unit.slope * inputs.radius, excess=excess, counts=counts
    )


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Cells and rounds, and the share of the whole precision that each release gets; fixed before a row is read.

    For Gaussian noise, shares are of the squared shift at the radius; for pure noise, of the loss.
    """

    inputs: ScheduleInputs
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
        return self.inputs.kmeans(
            weights or Weights(),
            rounds=tuple(self._round(t, share, noise) for t, share in enumerate(self.shares)),
            cells=self.cells,
            explore=self.explore,
            moment=self._moment(noise) if self.moment else None,
        )

    @property
    def base(self) -> float:
        """Part of the loss 1 at the radius that does not depend on the norm; of its square for Gaussian noise."""
        flats = [0.0 if t < self.whole else self.inputs.flat_share for t in range(len(self.shares))]
        counts = [self.first_count, *[self.count] * (len(self.shares) - 1)]
        base = sum(
            share * (1.0 - (1.0 - flat) * (1.0 - count - self.distance))
            for share, flat, count in zip(self.shares, flats, counts, strict=True)
        )
        if self.moment:
            _, constant, price = self._moment_price
            base += self.moment * (constant / price) ** 2
        return base

    def predicted(self) -> RoundCosts:
        """What the choice of a sample size needs of these rounds."""
        inputs = self.inputs
        share, flat = math.sqrt(inputs.mean_square_norm) / inputs.radius, inputs.flat_share
        gaussian = inputs.mechanism == "gaussian"
        reach = math.sqrt(flat + (1.0 - flat) * share**2) if gaussian else flat + (1.0 - flat) * share
        # Precision of a residual sum after the polishing rounds, at noise 1 and per coordinate.
        shares = np.array(self.shares[min(self.explore, len(self.shares) - 1) :]) * (1.0 - self.count - self.distance)
        precision = float(shares.sum())
        if not gaussian:
            deviation = _sum_noise(inputs.mechanism, 1.0).deviation(inputs.n_features)
            precision = float(np.sum(shares**2)) / deviation**2
        excess = noise_excess(
            n_clusters=inputs.n_clusters,
            n_features=inputs.n_features,
            rows_reached=inputs.n_rows * reach,
            precision=precision,
        )
        counts = self._round(self.explore - 1, self.shares[self.explore - 1], 1.0).count_noise.deviation(1)
        return RoundCosts(flat_share=flat, base=self.base, rest=1.0 - self.base, excess=excess, counts=counts)

    @property
    def _moment_price(self) -> tuple[float, float, float]:
        """Clip of the second moment, and its price for norm 0 and for the radius."""
        inputs = self.inputs
        clip = min(inputs.radius, _MOMENT_CLIP * math.sqrt(inputs.mean_square_norm))
        constant, factor = SecondMoment.price(clip, inputs.flat_share)
        return clip, constant, math.hypot(constant, factor * inputs.radius)

    def _moment(self, noise: float) -> SecondMoment:
        """Second moment of rows clipped to the root mean square norm, which keeps their directions."""
        clip, _, price = self._moment_price
        return SecondMoment(
            noise=GaussianNoise(scale=price * noise / math.sqrt(self.moment)),
            radius=clip,
            flat_share=self.inputs.flat_share,
        )

    def _round(self, t: int, share: float, noise: float) -> ResidualRound:
        inputs = self.inputs
        count = self.first_count if t == 0 else self.count
        gaussian = inputs.mechanism == "gaussian"

        def scale(part: float) -> float:
            return noise / (math.sqrt(share * part) if gaussian else share * part)

        rest = 1.0 - count - self.distance
        small = GaussianNoise if gaussian else LpNoise
        return ResidualRound(
            count_noise=small(scale=scale(count)),
            distance_noise=small(scale=scale(self.distance)),
            residual_noise=_sum_noise(inputs.mechanism, scale(rest)),
            radius=inputs.radius,
            flat_share=inputs.flat_share,
            whole_rows=t < self.whole,
        )


def schedule(inputs: ScheduleInputs, noise: float) -> Schedule:
    """Choose cells and rounds for noise of about this factor."""
    return _gaussian(inputs, noise) if inputs.mechanism == "gaussian" else _pure(inputs)


def _gaussian(inputs: ScheduleInputs, noise: float) -> Schedule:
    """Schedule for Gaussian noise: up to 2.5 cells per cluster, and a start from a noisy second moment.

    The number of rounds depends on the noise. The gain of a round falls geometrically with the number of rounds, and
    the cost of its share falls as the square of the signal-to-noise ratio, so the number of rounds grows with the
    logarithm of that ratio. The signal is the Frobenius norm of the matrix of sums. The noise is the spectral
    norm of the noise matrix if one round had the whole budget.
    """
    k, d, n = inputs.n_clusters, inputs.n_features, inputs.n_rows
    first_count = RHO / math.sqrt(d) / (1.0 + RHO / math.sqrt(d))
    count, total = noise / math.sqrt(first_count), noise * inputs.radius / math.sqrt(1.0 - first_count)
    if inputs.choose:
        k = max(min(k, int(n / (_LEAST_CLUSTER * count))), 1)
        inputs = replace(inputs, n_clusters=k)
    # 1.5 cells per cluster if a cluster of mean size has 15 deviations of the noise of a count, and more above that. A
    # cell of mean size has at least 5 deviations.
    room = n / (15.0 * k * count)
    per_cluster = max(1.0, min(1.5 * room**0.2, 2.5))
    cells = max(k, int(min(per_cluster * k + 4, n / (5.0 * count))))
    signal = n * math.sqrt(inputs.mean_square_norm / cells)
    ratio = signal / (total * (math.sqrt(cells) + math.sqrt(d)))
    # 6.5 rounds at a ratio of 12, and 1.5 more each time it doubles.
    n_rounds = round(float(np.clip(6.5 + 1.5 * math.log2(max(ratio, 1e-9) / 12.0), 3, _MANY_ROUNDS)))
    # A sum has d coordinates, and distance and count have one each.
    distance = min(0.2, 0.1 / math.sqrt(d))
    # Edge of the spectrum of its noise at the whole precision, over the trace of the second moment.
    edge = noise * math.sqrt(2.0 * d) * SecondMoment.price(_MOMENT_CLIP, 1.0)[0] / n
    moment = float(np.clip((_MOMENT_TARGET * edge) ** 2, _LEAST_MOMENT, _MOST_MOMENT))
    shares = _GROWTH ** np.arange(n_rounds)
    shares *= (1.0 - moment) / shares.sum()
    return Schedule(
        inputs=inputs,
        cells=cells,
        explore=min(n_rounds - 1, max(4, n_rounds // 2)),
        shares=tuple(shares.tolist()),
        first_count=first_count * (1.0 - distance),
        count=min(0.3, 0.3 / math.sqrt(d)),
        distance=distance,
        whole=1 if inputs.flat_share < _LEAST_FLAT_FIRST else 0,
        moment=moment,
    )


def _pure(inputs: ScheduleInputs) -> Schedule:
    """Schedule for pure noise: one round of sectors, which gives the starting centers, and few further rounds.

    The rounds are few because in pure DP the noise of a round grows with the number of rounds. The noise level is the
    noise of the center of n/(2k) rows if one round had the whole budget, divided by the root mean square norm. Each
    round reduces the distance to a good solution by about a constant factor.
    """
    k, d = inputs.n_clusters, inputs.n_features
    log_budget = inputs.epsilon + math.log(-math.expm1(-inputs.epsilon)) - math.log(inputs.kept)
    budget = inputs.kept * float(np.logaddexp(0.0, log_budget))
    center_noise = (
        2 * k * math.sqrt(d) * _sum_noise(inputs.mechanism, inputs.radius).deviation(d) / (budget * inputs.n_rows)
    )
    level = center_noise / math.sqrt(inputs.mean_square_norm)
    # 5 rounds at a level of 0.1, and 1.5 more each time it halves.
    joint = inputs.mechanism == "l2"
    least = 3 if joint and level < _DROWNED_LEVEL else 2
    n_rounds = int(np.clip(round(5.0 + 1.5 * math.log2(0.1 / level)), least, 10))
    later = _PURE_GROWTH ** np.arange(n_rounds - 1)
    first = 0.3 if n_rounds == 2 else (1.0 if joint and n_rounds <= _FEW_ROUNDS else 0.6) / n_rounds
    unit = unit_profile(inputs.mechanism, d, 1.0)
    count = unit.intercept / (1.0 + unit.intercept)
    # With two rounds only, nothing can be gained from distances, and residuals would be larger than their clip.
    few = n_rounds == 2
    distance = (0.05 if few else 0.3) * count
    return Schedule(
        inputs=inputs,
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
