"""Known mistakes of differentially private code, each beside the right version: what an audit must tell apart.

NOT PRIVATE, on purpose. Nothing here is for use; it is here to be caught.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import mpmath as mp
import numpy as np
from scipy import special

import pais
from pais._base.lattice import IntArray, Lattice, Tails, rounded_noise
from pais._base.numerics import FloatArray
from pais._base.randomness import BitSource, SeededBits
from pais.auditing import measure_many
from pais.data.ball import Ball
from pais.data.engines import WeightedRows
from pais.mechanisms import Extent, Mechanism, ResidualRound, Round
from pais.mechanisms.kmeans.lloyd import LloydSample
from pais.mechanisms.kmeans.residual import ResidualSample
from pais.privacy.profiles import GaussianProfile, LinearProfile

CLAIMED = 1.0
DELTA = 0.01

_ALL_ROWS = pais.UniformRule(rate=1.0)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A mistake, and the arguments of `pais.audit` for it and for the right version.

    `slow` are those whose runs are made one by one.
    """

    name: str
    arguments: Callable[[bool], dict[str, Any]]
    runs: int = 100_000
    right_runs: int = 40_000
    slow: bool = False

    def audit(self, *, broken: bool, seed: int, runs: int | None = None) -> pais.AuditReport:
        arguments = self.arguments(broken)
        return pais.audit(arguments.pop("target"), **arguments, runs=runs or self.runs, random_state=seed)


# -- noise ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ExponentialRadius(pais.LpNoise):
    """The published noise on sums (erratum 1): a uniform direction times an exponential radius."""

    def evaluate(self, tails: Tails) -> tuple[FloatArray, FloatArray]:
        d = tails.words.shape[1] // 2
        tail = tails.values()
        size = -special.ndtri(tail[:, :d])
        unit = tails.signs[:, :d] * size / np.linalg.norm(size, axis=1, keepdims=True)
        noise = -np.log(2.0 * tail[:, d : d + 1]) * unit
        return noise, np.full_like(noise, 2.0**-40)

    def evaluate_exactly(self, tails: list[mp.mpf], signs: list[float]) -> list[mp.mpf]:
        d = len(tails) // 2
        size = [mp.sqrt(2) * mp.erfinv(1 - 2 * tail) for tail in tails[:d]]
        length = mp.sqrt(mp.fsum(value**2 for value in size))
        radius = -mp.log(2 * tails[d])
        return [sign * radius * value / length for sign, value in zip(signs[:d], size, strict=True)]


@dataclass(frozen=True, kw_only=True)
class WeakLaplace(pais.LpNoise):
    """Noise of 0.7 of the scale it states."""

    def draw_steps(
        self, shape: tuple[int, int], lattice: Lattice, bits: BitSource, *, unit: FloatArray | float = 1.0
    ) -> IntArray:
        return rounded_noise(self, shape, 0.7 * self.scale / lattice.step * unit, bits)


@dataclass(frozen=True, kw_only=True)
class WeakGaussian(pais.GaussianNoise):
    """The same for Gaussian noise."""

    def draw_steps(
        self, shape: tuple[int, int], lattice: Lattice, bits: BitSource, *, unit: FloatArray | float = 1.0
    ) -> IntArray:
        return rounded_noise(self, shape, 0.7 * self.scale / lattice.step * unit, bits)


def exponential_radius(broken: bool) -> dict[str, Any]:
    law = ExponentialRadius if broken else pais.LpNoise
    mechanism = pais.WeightedSum(noise=law(scale=1.0 / CLAIMED, p=2.0))
    return {"target": mechanism, "rule": _ALL_ROWS, "ball": pais.Ball(radius=1.0), "n_features": 8}


def weak_laplace(broken: bool) -> dict[str, Any]:
    law = WeakLaplace if broken else pais.LpNoise
    mechanism = pais.WeightedSum(noise=law(scale=1.0 / CLAIMED, p=1.0))
    return {"target": mechanism, "rule": _ALL_ROWS, "ball": pais.Ball(radius=1.0, order=1.0)}


def weak_gaussian(broken: bool) -> dict[str, Any]:
    law = WeakGaussian if broken else pais.GaussianNoise
    mechanism = pais.WeightedSum(noise=law(scale=_gaussian_scale(1.0)))
    return {"target": mechanism, "rule": _ALL_ROWS, "ball": pais.Ball(radius=1.0), "delta": DELTA}


def _gaussian_scale(radius: float) -> float:
    """Noise on a sum of all rows that costs just under the claim at DELTA."""
    profile = GaussianProfile(np.inf, 1.0)
    norms = pais.NormDistribution.from_histogram([0.0, radius], [100.0])
    return pais.calibrate("uniform", profile, norms, epsilon=CLAIMED, delta=DELTA, sample_size=100.0).noise


# -- weights -------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Heavier(pais.Rule):
    """Weights 1.5 times the largest feasible ones: an infeasible end of a bisection (erratum 5), exaggerated."""

    base: pais.ConstrainedRule
    radius: float

    def evaluate(self, norm: FloatArray) -> FloatArray:
        return self.base.evaluate(norm) / 1.5

    def breakpoints(self, radius: float) -> FloatArray:
        return self.base.breakpoints(radius)

    def describe(self) -> dict[str, object]:
        return {"rule": "heavier than allowed"}


def heavier_weights(gaussian: bool, broken: bool) -> dict[str, Any]:
    noise = pais.GaussianNoise(scale=2.0 * _gaussian_scale(1.0)) if gaussian else pais.laplace_noise(4.0 / CLAIMED)
    mechanism, delta = pais.WeightedSum(noise=noise), DELTA if gaussian else 0.0
    rule = pais.ConstrainedRule(profile=mechanism.profile, radius=1.0, epsilon=CLAIMED, delta=delta)
    return {
        "target": mechanism,
        "rule": Heavier(base=rule, radius=1.0) if broken else rule,
        "ball": pais.Ball(radius=1.0, order=2.0 if gaussian else 1.0),
        "epsilon": CLAIMED,
        "delta": delta,
    }


# -- a sample used twice ---------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Unaccounted(pais.Joint):
    """Two releases on one sample that state the price of one."""

    @property
    def profile(self) -> LinearProfile | GaussianProfile:
        profile = self.parts[0].profile
        assert isinstance(profile, LinearProfile | GaussianProfile)
        return profile


def second_use(gaussian: bool, broken: bool) -> dict[str, Any]:
    noise = pais.GaussianNoise(scale=2.0 * _gaussian_scale(1.0)) if gaussian else pais.laplace_noise(2.5 / CLAIMED)
    delta = DELTA if gaussian else 0.0
    parts = (pais.WeightedSum(noise=noise), pais.WeightedSum(noise=noise))
    mechanism = (Unaccounted if broken else pais.Joint)(parts=parts)
    rule = pais.ConstrainedRule(profile=mechanism.profile, radius=1.0, epsilon=CLAIMED, delta=delta)
    ball = pais.Ball(radius=1.0, order=2.0 if gaussian else 1.0)
    return {"target": mechanism, "rule": rule, "ball": ball, "delta": delta}


# -- k-means ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class RowStart(pais.KMeans):
    """Plain DP-Lloyd from rows of the sample (erratum 8)."""

    def measure(self, content: WeightedRows, ball: Ball, bits: BitSource) -> pais.KMeansValue:
        rng = np.random.default_rng(int.from_bytes(bits.raw(16), "little"))
        centers = content.rows[rng.choice(len(content.rows), self.n_clusters, replace=False)]
        rounds = tuple(round_ for round_ in self.rounds if isinstance(round_, Round))
        sample = LloydSample(content, ball, rounds)
        counts = np.zeros(self.n_clusters)
        for round_ in rounds:
            summary = sample.summarise(centers, round_, bits)
            counts = summary.noisy_counts
            filled = counts > round_.count_noise.scale
            moved = summary.noisy_sums / np.where(filled, counts, 1.0)[:, None]
            centers = np.where(filled[:, None], moved, centers)
        return pais.KMeansValue(centers=centers, noisy_counts=counts)


def rows_as_start(broken: bool) -> dict[str, Any]:
    single = Round(count_noise=pais.laplace_noise(2.0), sum_noise=pais.LpNoise(scale=2.0, p=2.0))
    plain = pais.KMeans(n_clusters=2, n_features=2, rounds=(single,), radius=1.0, cells=2, explore=0)
    fields = {name: getattr(plain, name) for name in plain.__dataclass_fields__}
    return {"target": RowStart(**fields) if broken else plain, "rule": _ALL_ROWS, "ball": pais.Ball(radius=1.0)}


def weak_rounds(broken: bool) -> dict[str, Any]:
    """The k-means of a release; what is wrong is the noise it is given."""
    noise = (WeakLaplace if broken else pais.LpNoise)(scale=2.0 / CLAIMED, p=1.0)
    single = Round(count_noise=noise, sum_noise=noise)
    plain = pais.KMeans(n_clusters=2, n_features=2, rounds=(single,), radius=1.0, cells=2, explore=0)
    return {"target": plain, "rule": _ALL_ROWS, "ball": pais.Ball(radius=1.0, order=1.0)}


_START = np.array([[0.5, 0.0], [-0.5, 0.0]])


def skipped_cluster(broken: bool) -> dict[str, Any]:
    pair = pais.NeighbourPair.of([1.0, 0.0], [[-0.5, 0.0]], name="record alone in its cluster")
    return {"target": partial(one_round, skip_empty=broken), "pair": pair, "epsilon": CLAIMED}


def one_round(rows: FloatArray, generator: np.random.Generator, runs: int, *, skip_empty: bool) -> FloatArray:
    """A round of DP-Lloyd from a fixed public start; as published, a cluster without rows keeps its center."""
    label = np.argmin(np.linalg.norm(rows[:, None] - _START, axis=2), axis=1)
    counts = np.bincount(label, minlength=len(_START))
    sums = np.array([rows[label == cluster].sum(axis=0) for cluster in range(len(_START))])
    # 1 / 2 for the count and |x| / 2 for the sum: 1 in all.
    noisy_counts = counts + generator.laplace(scale=2.0, size=(runs, len(_START)))
    way = generator.standard_normal((runs, *_START.shape))
    way /= np.linalg.norm(way, axis=2, keepdims=True)
    noisy_sums = sums + way * generator.gamma(2.0, 2.0, size=(runs, len(_START), 1))
    moved = noisy_sums / np.maximum(noisy_counts, 1.0)[:, :, None]
    return np.where((counts == 0)[:, None], _START, moved) if skip_empty else moved


# -- residual rounds ---------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ResidualRelease(Mechanism):
    """One residual round about public centers, with all that it releases."""

    round: ResidualRound
    centers: tuple[tuple[float, ...], ...]
    clip: float
    largest_weight: float = 1.0
    name = "residual round"

    @property
    def profile(self) -> LinearProfile | GaussianProfile:
        return self.round.profile

    @property
    def order(self) -> float:
        return self.round.order

    def require_lattice(self, extent: Extent) -> None:
        pass

    def clips(self, content: WeightedRows) -> FloatArray:
        return np.full(len(self.centers), self.clip)

    def measure(self, content: WeightedRows, ball: Ball, bits: BitSource) -> FloatArray:
        sample = ResidualSample(content, (self.round,), n_rows=100.0, largest_weight=self.largest_weight)
        clip, whole = self.clips(content), np.zeros(len(self.centers), dtype=bool)
        summary = sample.summarise(np.array(self.centers), clip, whole, self.round, bits)
        residuals = summary.noisy_residuals.ravel()
        return np.concatenate([summary.noisy_counts, summary.noisy_distances / clip, residuals])


class ClipOfTheRows(ResidualRelease):
    """The clip is the largest residual among the rows."""

    def clips(self, content: WeightedRows) -> FloatArray:
        gaps = np.linalg.norm(content.rows[:, None] - np.array(self.centers), axis=2).min(axis=1)
        largest = float(np.max(gaps / self.round.reach(np.linalg.norm(content.rows, axis=1)), initial=0.0))
        return np.full(len(self.centers), max(largest, 1e-3))


class UnchargedDistance(ResidualRelease):
    """The price leaves out the distances."""

    @property
    def profile(self) -> LinearProfile | GaussianProfile:
        quiet = replace(self.round, distance_noise=replace(self.round.distance_noise, scale=1e9))  # type: ignore[type-var]
        return quiet.profile


class NoFlatPart(ResidualRelease):
    """The price is that of whole rows: the share of the reach that does not depend on the norm is left out."""

    @property
    def profile(self) -> LinearProfile | GaussianProfile:
        return replace(self.round, whole_rows=True).profile


def _residual_round(count: float, distance: float, residual: float) -> ResidualRound:
    return ResidualRound(
        count_noise=pais.laplace_noise(count),
        distance_noise=pais.laplace_noise(distance),
        residual_noise=pais.LpNoise(scale=residual, p=2.0),
        radius=1.0,
        flat=0.5,
    )


def clip_of_the_rows(broken: bool) -> dict[str, Any]:
    kind = ClipOfTheRows if broken else ResidualRelease
    mechanism = kind(round=_residual_round(4.0, 4.0, 2.0), centers=((0.2, 0.0),), clip=0.05)
    pair = pais.NeighbourPair.of([-1.0, 0.0], [[0.2, 0.01]], name="record far beyond a small cell")
    return {"target": mechanism, "rule": _ALL_ROWS, "ball": pais.Ball(radius=1.0), "pair": pair}


def uncharged_distance(broken: bool) -> dict[str, Any]:
    kind = UnchargedDistance if broken else ResidualRelease
    mechanism = kind(round=_residual_round(8.0, 0.8, 8.0), centers=((0.2, 0.0),), clip=0.1)
    pair = pais.NeighbourPair.of([-1.0, 0.0], [[0.2, 0.0]], name="record beyond the clip")
    return {"target": mechanism, "rule": _ALL_ROWS, "ball": pais.Ball(radius=1.0), "pair": pair}


def no_flat_part(broken: bool) -> dict[str, Any]:
    kind = NoFlatPart if broken else ResidualRelease
    mechanism = kind(round=_residual_round(10.0, 10.0, 1.3), centers=((0.5, 0.0),), clip=0.1, largest_weight=1e3)
    rule = pais.ConstrainedRule(profile=mechanism.profile, radius=1.0, epsilon=CLAIMED)
    pair = pais.NeighbourPair.of([0.0, 0.0], [[0.5, 0.0]], name="record at norm 0, far from the center")
    return {"target": mechanism, "rule": rule, "ball": pais.Ball(radius=1.0), "pair": pair}


# -- a fact read off the rows ------------------------------------------------------------------------------

_FEW_ROWS, _SMALL = 12, 0.2


def fitted_rule(broken: bool) -> dict[str, Any]:
    """A dozen rows of small norm, and a record at the radius that moves their mean square norm."""
    pair = pais.NeighbourPair.of(
        [1.0, 0.0], np.tile([0.0, _SMALL], (_FEW_ROWS, 1)), name="record far beyond the others"
    )
    claimed = max(
        pais.worst_case(_coreset(square), _SUM.profile, radius=1.0).upper
        for square in ((_mean_square(pair.with_record), _mean_square(pair.without_record)) if broken else (_SMALL**2,))
    )
    return {"target": partial(coreset_sum, fitted=broken), "pair": pair, "epsilon": claimed}


_SUM = pais.WeightedSum(noise=pais.laplace_noise(4.0))
_BALL = pais.Ball(radius=1.0, order=1.0)


def _mean_square(rows: FloatArray) -> float:
    return float(np.mean(np.abs(rows).sum(axis=1) ** 2))


def _coreset(mean_square: float) -> pais.CoresetRule:
    return pais.CoresetRule(
        sample_size=0.022 * _FEW_ROWS, n_rows=_FEW_ROWS, mean_square_norm=mean_square, radius=1.0, uniform_share=0.1
    )


def coreset_sum(rows: FloatArray, generator: np.random.Generator, runs: int, *, fitted: bool) -> FloatArray:
    """A coreset sum whose mean square norm is public, or read off the rows (erratum 7)."""
    rule = _coreset(_mean_square(rows) if fitted else _SMALL**2)
    released = measure_many(_SUM, rows, ball=_BALL, rule=rule, runs=runs, random_state=SeededBits(generator))
    return released[0]


CASES = (
    Case(name="exponential radius of the noise", arguments=exponential_radius),
    Case(name="noise of 0.7 of its scale", arguments=weak_laplace),
    Case(name="noise of 0.7 of its scale, Gaussian", arguments=weak_gaussian),
    Case(name="weights 1.5 times the feasible ones", arguments=partial(heavier_weights, False)),
    Case(name="weights 1.5 times the feasible ones, Gaussian", arguments=partial(heavier_weights, True)),
    Case(name="second use of a sample", arguments=partial(second_use, False)),
    Case(name="second use of a sample, Gaussian", arguments=partial(second_use, True)),
    Case(name="real rows as start of k-means", arguments=rows_as_start, runs=8_000, right_runs=8_000, slow=True),
    Case(
        name="k-means with noise of 0.7 of its scale", arguments=weak_rounds, runs=40_000, right_runs=16_000, slow=True
    ),
    Case(name="clip read off the rows", arguments=clip_of_the_rows, runs=8_000, right_runs=8_000, slow=True),
    Case(name="distances not charged", arguments=uncharged_distance, runs=8_000, right_runs=8_000, slow=True),
    Case(name="flat part left out of the price", arguments=no_flat_part, runs=16_000, right_runs=8_000, slow=True),
    Case(name="skipped empty cluster", arguments=skipped_cluster),
    Case(name="mean square norm read off the rows", arguments=fitted_rule),
)
