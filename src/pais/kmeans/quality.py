"""The sample size of a plan: the smallest whose predicted cost is close to the least over all sizes considered.

The prediction is rough and needs no exact weights: one curve gives the largest weight by the loss at weight 1. The plan
then solves for the rule exactly and certifies it, so a wrong prediction costs quality or time, and never privacy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np

from pais._base.numerics import FloatArray
from pais.data.ball import Ball
from pais.kmeans.value import KMeansValue
from pais.planning.sample_choice import TOLERANCE, SampleChoice, SizeOption
from pais.privacy.amplification import kept_limit, largest_shift
from pais.privacy.norms import NormDistribution
from pais.privacy.rules import Rule
from pais.privacy.weights import WEIGHT_CAP, crossing_curve

if TYPE_CHECKING:
    from pais.kmeans.mechanism import KMeans

N = TypeVar("N", float, FloatArray)

# Wrong centers also attract wrong rows: a factor on the squared noise of the centers, from measurements.
_ROWS_FOLLOW = 4.0

# Typical excess cost of a local optimum, which k-means finds with and without privacy.
_LOCAL_OPTIMUM = 0.01

# Rows that are not in the sample cost about one row of each cluster for each mean weight beyond 1. The excess over the
# best of several runs is this many times as much.
_SAMPLING_FACTOR = 3.0

# Cost of the best centers over the mean square norm, as long as nothing is released.
_WITHIN = 0.25

#: Noise cannot cost more than giving up all clusters, because every row takes its nearest center.
MOST_NOISE = 1.0 / _WITHIN - 1.0

# Decimal places of a prediction in files and texts.
_DIGITS = 5

# The least share that released centers can show: below it, the difference of two noisy numbers is too small.
_LEAST_WITHIN = 0.01


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


def predicted_quality(
    mechanism: KMeans,
    rule: Rule,
    norms: NormDistribution,
    *,
    clipping: float | None,
    value: KMeansValue | None,
    ball: Ball,
) -> Quality | None:
    """Predict the quality of a plan, or of a fit if its released value is given; None for the algorithm of the paper.

    A center of n/k rows has the noise of the polishing rounds together. Its clip is about the mean distance of its
    rows, so the noise over the cost does not depend on that distance. `clipping` is the mean square length cut off.
    """
    rounds = mechanism.residual_rounds
    if not rounds:
        return None
    k = mechanism.n_clusters if value is None else len(value.centers)
    d, n = mechanism.n_features, norms.n_rows
    polishing = rounds[min(mechanism.explore, len(rounds) - 1) :]
    precision = sum(round_.residual_noise.deviation(d) ** -2 for round_ in polishing)
    reach = float(rounds[-1].reach(np.array([min(norms.mean_square_norm**0.5, norms.radius)]))[0])
    noise = noise_excess(n_clusters=k, n_features=d, rows_reached=n * reach, precision=precision)
    within = _WITHIN if value is None else _share_within(value, norms, ball)
    return Quality(
        noise=min(noise, 1.0 / within - 1.0),
        sampling=sampling_excess(k, n, norms.mean_weight(rule)),
        clipping=None if clipping is None else clipping / (within * _mean_square_norm(norms)),
    )


def sampling_excess(n_clusters: int, n_rows: float, mean_weight: N) -> N:
    """Predicted excess cost of the rows that are not in the sample, by the mean weight 1/probability of all rows."""
    return _SAMPLING_FACTOR * n_clusters * (mean_weight - 1.0) / n_rows


def noise_excess(*, n_clusters: int, n_features: int, rows_reached: float, precision: float) -> float:
    """Predicted excess cost of noise of this precision on each coordinate of a residual sum, in units of the clip."""
    return _ROWS_FOLLOW * n_features * (n_clusters / rows_reached) ** 2 / precision


def plain_noise_excess(*, n_clusters: int, n_features: int, n_rows: float, deviation: float) -> float:
    """The same for noisy sums of rows, where the deviation is in units of the root mean square norm."""
    return _ROWS_FOLLOW * n_features * (n_clusters / n_rows * deviation) ** 2 / _WITHIN


def _share_within(value: KMeansValue, norms: NormDistribution, ball: Ball) -> float:
    """Cost of the released centers per row over the mean square norm: what the centers leave of it."""
    origin = 0.0 if ball.center is None else np.asarray(ball.center)
    mass = np.maximum(value.noisy_counts, 1e-9)
    explained = float(np.average(np.square(value.centers - origin).sum(axis=1), weights=mass))
    # If noise hides clusters, the centers do not show what the best centers would leave.
    most = 1.0 if value.effective_centers == len(value.centers) else _WITHIN
    return float(np.clip(1.0 - explained / _mean_square_norm(norms), _LEAST_WITHIN, most))


def _mean_square_norm(norms: NormDistribution) -> float:
    """Mean square of the norms; never zero."""
    return max(norms.mean_square_norm, 1e-12 * norms.radius**2)


#: Samples of so few rows take no time worth saving, so smaller ones are not considered.
LEAST_ROWS = 20_000.0

# above it, the sample is the one without extra noise.
_HIDDEN_SHARE = 3.5e-4

# Sizes considered: each is larger than the one before it by this factor.
_STEP = 2.0**0.125

# Logarithms of the noise considered, over that of all rows: dense where it begins, because the size falls fast there.
_GROWTH = np.linspace(0.0, math.sqrt(math.log(1e7)), 64) ** 2

# Cells into which norms are grouped.
_CELLS = 128

# Number of points of the curve of a pure loss.
_POINTS = 256

# Significant digits of a size and decimal places of its costs.
_SIZE_DIGITS = 6


@dataclass(frozen=True, kw_only=True)
class Rounds:
    """What the prediction needs of the rounds for one share `flat` of the price; public.

    At noise 1, a record of norm z and weight 1 has the loss ``sqrt(base + rest (z/r)^2)`` for Gaussian noise and
    ``base + rest z/r`` for pure noise. The excess cost of the noise is `excess` times the squared noise. `counts` is
    the noise of a count in the last exploring round, at noise 1.
    """

    flat: float
    base: float
    rest: float
    excess: float
    counts: float


@dataclass(frozen=True, kw_only=True)
class Question:
    """Public numbers that decide the sample size."""

    norms: NormDistribution
    n_clusters: int
    epsilon: float
    delta: float
    limit: float | None
    most_rows: float
    sampling: Literal["constrained", "coreset", "uniform"]
    rounds: tuple[Rounds, ...]


def sample_choice(question: Question) -> SampleChoice | None:
    """The smallest size whose predicted cost is within the tolerance of the best; None for the one without extra noise.

    Notes
    -----
    The choice depends on public numbers only and decides no price. It is at most `most_rows`.
    """
    curve = _LossCurve.of(question)
    if curve is None:
        return None
    share, mass = _grouped(question.norms)
    ladders = [_ladder(question, rounds, curve, share, mass) for rounds in question.rounds]
    largest = min(max(float(np.exp(ladder[0].max(initial=0.0))) for ladder in ladders), question.most_rows)
    if largest <= LEAST_ROWS:
        return None
    n_steps = math.floor(math.log(largest / LEAST_ROWS) / math.log(_STEP))
    # The largest size is that of sampling without extra noise, or what memory allows.
    sizes = np.append(largest * (1.0 - 1e-3), largest * _STEP ** -np.arange(1.0, n_steps + 1.0))[::-1]
    options = _options(question, ladders, sizes)
    if not options:
        return None
    enough = TOLERANCE + min(option.excess for option in options)
    return SampleChoice(
        options=options, chosen=next(place for place, option in enumerate(options) if option.excess <= enough)
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class _LossCurve:
    """Largest weight by the loss of a record at weight 1, for a target; logarithms, by rising loss."""

    loss: FloatArray
    weight: FloatArray
    most: float

    @classmethod
    def of(cls, question: Question) -> _LossCurve | None:
        epsilon, delta = question.epsilon, question.delta
        limit = kept_limit(epsilon, question.limit)
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


# Logarithms of sizes, of noise factors and of mean weights, by rising size.
_Ladder = tuple[FloatArray, FloatArray, FloatArray]


def _ladder(question: Question, rounds: Rounds, curve: _LossCurve, share: FloatArray, mass: FloatArray) -> _Ladder:
    """Sizes, and the noise and the mean weight that go with them."""
    if question.delta > 0.0:
        loss = 0.5 * np.log(rounds.base + rounds.rest * share**2)
        at_radius = 0.5 * math.log(rounds.base + rounds.rest)
    else:
        loss, at_radius = np.log(rounds.base + rounds.rest * share), math.log(rounds.base + rounds.rest)
    if question.sampling == "constrained":
        noise = at_radius - curve.loss[-1] + _GROWTH[:, None]
        weight = curve.weights(loss - noise)
        deciding = weight[:, -1]
    else:
        # The rule fixes the weights up to a factor, and the norm with the largest loss decides the noise.
        square = max(float(np.average(share**2, weights=mass)), 1e-12)
        uniform, by_norm = (1.0, 0.0) if question.sampling == "uniform" else (0.5, 0.5 / square)
        factor = np.linspace(0.0, max(math.log(mass.sum() / LEAST_ROWS), 1.0), len(_GROWTH))[:, None]
        weight = factor + np.log((uniform + by_norm) / (uniform + by_norm * share**2))
        needed = loss - curve.losses(weight)
        noise = np.max(needed, axis=1, keepdims=True)
        deciding = np.take_along_axis(weight, np.argmax(needed, axis=1)[:, None], axis=1)[:, 0]
    # Beyond this weight the limit on kept records decides the noise, and the price would be below the target.
    within = deciding < curve.last
    size = np.log(np.exp(-weight[within]) @ mass)
    mean = np.log(np.exp(weight[within]) @ mass / mass.sum())
    return size[::-1], noise[within, 0][::-1], mean[::-1]


def _options(question: Question, ladders: list[_Ladder], sizes: FloatArray) -> tuple[SizeOption, ...]:
    """The option of each size with the least predicted excess over the shares `flat`, where some noise reaches it.

    Counts with too much noise would hide small clusters, which the predicted excess does not know.
    """
    n_clusters, n_rows = question.n_clusters, question.norms.n_rows
    growths, noises, samplings = np.full((3, len(ladders), len(sizes)), np.inf)
    for place, (rounds, (reached, noise, mean)) in enumerate(zip(question.rounds, ladders, strict=True)):
        if reached.size == 0:
            continue
        target = np.log(sizes)
        within = (reached[0] <= target) & (target <= reached[-1])
        within &= rounds.counts * np.exp(np.interp(target, reached, noise)) <= _HIDDEN_SHARE * n_rows
        log_noise = np.interp(target[within], reached, noise)
        growths[place, within] = np.exp(log_noise - noise[-1])
        noises[place, within] = np.minimum(rounds.excess * np.exp(2.0 * log_noise), MOST_NOISE)
        samplings[place, within] = sampling_excess(n_clusters, n_rows, np.exp(np.interp(target[within], reached, mean)))
    best = np.argmin(noises + samplings, axis=0)
    return tuple(
        SizeOption(
            size=float(f"{size:.{_SIZE_DIGITS}g}"),
            noise=round(float(noises[flat, place]), _SIZE_DIGITS),
            sampling=round(float(samplings[flat, place]), _SIZE_DIGITS),
            flat=question.rounds[flat].flat,
            growth=float(f"{growths[flat, place]:.{_SIZE_DIGITS}g}"),
        )
        for place, (size, flat) in enumerate(zip(sizes.tolist(), best.tolist(), strict=True))
        if np.isfinite(growths[flat, place])
    )


def _grouped(norms: NormDistribution) -> tuple[FloatArray, FloatArray]:
    """Norms in units of the radius, in few groups, and the rows of each."""
    share = np.minimum(norms.norms / norms.radius, 1.0)
    cell = np.minimum((share * _CELLS).astype(np.intp), _CELLS - 1)
    mass = np.asarray(np.bincount(cell, weights=norms.masses, minlength=_CELLS), dtype=np.float64)
    mean = np.bincount(cell, weights=norms.masses * share, minlength=_CELLS)
    full = mass > 0.0
    return mean[full] / mass[full], mass[full]
