"""The sample size of a plan: the smallest whose predicted cost is close to the least over all sizes considered.

The prediction is rough and needs no exact weights: one curve gives the largest weight by the loss at weight 1. The plan
then solves for the rule exactly and certifies it, so a wrong prediction costs quality or time, and never privacy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

import numpy as np

from pais._base import validate
from pais._base.numerics import FloatArray
from pais.errors import ArgumentError
from pais.planning.quality import MOST_NOISE, sampling_excess
from pais.privacy.amplification import kept_limit, largest_shift
from pais.privacy.norms import NormDistribution
from pais.privacy.rules.climb import WEIGHT_CAP
from pais.privacy.rules.crossing import crossing_curve

#: The chosen size may have a larger predicted cost than the best size by this share of the best cost.
TOLERANCE = 0.002

#: Samples of so few rows take no time worth saving, so smaller ones are not considered.
LEAST_ROWS = 20_000.0

# The noise of a count stays below this share of all rows, because noise hides small clusters. If that of all rows is
# above it, the sample is the one without extra noise.
_HIDDEN_SHARE = 3.5e-4

# Sizes considered: each is larger than the one before it by this factor.
_STEP = 2.0**0.125

# Logarithms of the noise considered, over that of all rows: dense where it begins, because the size falls fast there.
_GROWTH = np.linspace(0.0, math.sqrt(math.log(1e7)), 64) ** 2

# Cells into which norms are grouped.
_CELLS = 128

# At most so many sizes are shown beside the chosen one.
_SHOWN = 6

# Number of points of the curve of a pure loss.
_POINTS = 256

# Decimal places of a prediction, and significant digits of a size, in files and texts.
_DIGITS = 6


@dataclass(frozen=True, kw_only=True)
class SizeOption:
    """A sample size and the excess cost that it is predicted to have, over the cost of the best centers; public.

    Attributes
    ----------
    size : float
        Expected number of rows in the sample.
    noise, sampling : float
        Predicted excess cost of the noise on the centers, and of the rows that are not in the sample.
    flat : float
        Share of the price of the rounds that does not depend on the norm of a record.
    growth : float
        Noise over that of all rows.
    """

    size: float
    noise: float
    sampling: float
    flat: float
    growth: float

    @property
    def excess(self) -> float:
        """Predicted excess cost, without the parts that no size changes."""
        return self.noise + self.sampling


@dataclass(frozen=True, kw_only=True)
class SampleChoice:
    """The sample sizes that a plan considered, from small to large, and the one it chose; public.

    Attributes
    ----------
    options : tuple of SizeOption
        The sizes, each with the best share `flat` for it.
    chosen : int
        Index of the chosen size.
    """

    options: tuple[SizeOption, ...]
    chosen: int

    @property
    def option(self) -> SizeOption:
        """The chosen size."""
        return self.options[self.chosen]

    @property
    def is_largest(self) -> bool:
        """Whether the sample is as large as it can be without extra noise, or in memory."""
        return self.chosen == len(self.options) - 1

    def __str__(self) -> str:
        return (
            f"{self.option.size:,.0f} is the smallest of {len(self.options)} sizes from {self.options[0].size:,.0f} to "
            f"{self.options[-1].size:,.0f} with a predicted spread in segments within {100.0 * TOLERANCE:g} % of the "
            "best"
        )

    def lines(self) -> list[str]:
        """A table of some of the sizes, the chosen one marked."""
        n, last = len(self.options), len(self.options) - 1
        shown = {round(last * place / (_SHOWN - 1)) for place in range(_SHOWN)} if n > _SHOWN else range(n)
        parts = ["  " + "".join(f"{name:>14}" for name in ("rows", "noise", "sampling", "together"))]
        for place in sorted({*shown, self.chosen}):
            option = self.options[place]
            mark = "> " if place == self.chosen else "  "
            shares = "".join(f"{100.0 * part:12.3f} %" for part in (option.noise, option.sampling, option.excess))
            parts.append(f"{mark}{option.size:14,.0f}{shares}")
        return parts

    def to_dict(self) -> dict[str, Any]:
        """The choice as a dictionary, for files."""
        return {
            "rule": f"smallest size with a predicted spread in segments within {100.0 * TOLERANCE:g} % of the best",
            "chosen": self.chosen,
            "options": [asdict(option) for option in self.options],
        }

    @classmethod
    def read(cls, described: Mapping[str, Any] | None) -> SampleChoice | None:
        """Rebuild a choice from its dictionary, if there is one."""
        if described is None:
            return None
        names = [field.name for field in fields(SizeOption)]
        options = tuple(
            SizeOption(**{name: validate.non_negative(name, option[name]) for name in names})
            for option in described["options"]
        )
        chosen = described["chosen"]
        if not isinstance(chosen, int) or not 0 <= chosen < len(options):
            raise ArgumentError("the chosen sample size is not one of its options. Plan again.")
        return cls(options=options, chosen=chosen)


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
            size=float(f"{size:.{_DIGITS}g}"),
            noise=round(float(noises[flat, place]), _DIGITS),
            sampling=round(float(samplings[flat, place]), _DIGITS),
            flat=question.rounds[flat].flat,
            growth=float(f"{growths[flat, place]:.{_DIGITS}g}"),
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
