"""The rounds of a private k-means: how many, how many cells, and the noise of each."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pais.mechanisms import GaussianNoise, KMeans, LpNoise, NoiseLaw, Round, laplace_noise
from pais.planning.settings import MechanismName
from pais.privacy.calibration import Calibration
from pais.privacy.profiles import GaussianProfile, LinearProfile

#: A typical |center| / radius, which determines the split of the noise between counts and sums.
RHO = 0.225

# Share of the precision of the sums that is spent on the second moment, which gives the starting centers.
_MOMENT_SHARE = 0.08
_GROWTH = 1.5

# Relative increase over the calibrated noise, which covers the rounding errors of a sum over rounds.
_ROOM = 1e-9


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Public numbers that determine the rounds of k-means.

    `unit` is the loss of all rounds together at noise 1, and `sample_size` the expected number of rows.
    """

    n_clusters: int
    n_features: int
    n_rows: float
    radius: float
    mean_square_norm: float
    sample_size: float
    epsilon: float
    unit: GaussianProfile | LinearProfile
    mechanism: MechanismName


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


def kmeans_mechanism(problem: Problem, calibration: Calibration, *, plain_rounds: int | None) -> KMeans:
    """The rounds of k-means and their noise; `plain_rounds` rounds of equal noise for the algorithm of the paper."""
    largest_weight = 1.0 / calibration.rule.smallest_probability(problem.radius)
    noise = calibration.noise * (1.0 + _ROOM)  # [note: plan-1]
    if problem.mechanism == "gaussian":
        return _gaussian(problem, noise, largest_weight)
    return _pure(problem, noise, largest_weight, plain_rounds)


def _gaussian(problem: Problem, noise: float, largest_weight: float) -> KMeans:
    """Schedule for Gaussian noise: up to two cells per cluster, and a start from a noisy second moment.

    The number of rounds depends on the noise. The gain of a round falls geometrically with the number of rounds, and
    the cost of its share falls as the square of the signal-to-noise ratio, so the number of rounds grows with the
    logarithm of that ratio. The signal is the Frobenius norm of the matrix of sums. The noise is the spectral
    norm of the noise matrix if one round had the whole budget.
    """
    unit = problem.unit
    assert isinstance(unit, GaussianProfile)
    count, total = unit.count_scale * noise, unit.sum_scale * noise
    k, d, n = problem.n_clusters, problem.n_features, problem.n_rows
    cells = int(min(2 * k, max(k, n / (1.5 * count))))
    signal = n * math.sqrt(problem.mean_square_norm / cells)
    ratio = signal / (total * (math.sqrt(cells) + math.sqrt(d)))
    n_rounds = round(float(np.clip(3.5 + 1.5 * math.log2(max(ratio, 1e-9) / 12.0), 3, 10)))
    shares = _GROWTH ** np.arange(n_rounds)
    shares = shares / shares.sum()
    rounds = tuple(
        Round(
            count_noise=GaussianNoise(scale=count / math.sqrt(share)),
            sum_noise=GaussianNoise(scale=total / math.sqrt(share * (1.0 - _MOMENT_SHARE))),
        )
        for share in shares.tolist()
    )
    return KMeans(
        n_clusters=k,
        n_features=d,
        rounds=rounds,
        radius=problem.radius,
        cells=cells,
        explore=min(n_rounds - 1, max(4, (n_rounds + 1) // 2)),
        moment_noise=GaussianNoise(scale=problem.radius * total / math.sqrt(_MOMENT_SHARE)),
        n_rows=n,
        mean_square_norm=problem.mean_square_norm,
        trust=1.5,
        largest_weight=largest_weight,
    )


def _pure(problem: Problem, noise: float, largest_weight: float, plain_rounds: int | None) -> KMeans:
    """Schedule for pure noise: one round of sectors, which gives the starting centers, and few further rounds.

    The rounds are few because in pure DP the noise of a round grows with the number of rounds. The noise level is the
    noise of the center of n/(2k) rows if one round had the whole budget, divided by the root mean square norm. Each
    round reduces the distance to a good solution by about a constant factor.
    """
    unit = problem.unit
    assert isinstance(unit, LinearProfile)
    k, d = problem.n_clusters, problem.n_features
    kept = min(1.0, problem.sample_size / problem.n_rows)
    log_budget = problem.epsilon + math.log(-math.expm1(-problem.epsilon)) - math.log(kept)
    budget = kept * float(np.logaddexp(0.0, log_budget))
    center_noise = (
        2 * k * math.sqrt(d) * _sum_noise(problem.mechanism, problem.radius).deviation(d) / (budget * problem.n_rows)
    )
    level = center_noise / math.sqrt(problem.mean_square_norm)
    if plain_rounds is None:
        n_rounds = int(np.clip(round(2.0 + 1.5 * math.log2(0.1 / level)), 2, 10))
        later = 1.2 ** np.arange(n_rounds - 1)
        first = 0.3 if n_rounds == 2 else 0.6 / n_rounds
        shares = [first, *((1.0 - first) * later / later.sum()).tolist()]
        cells = (2 if level > 0.2 else 3) * k
        explore = (n_rounds + 1) // 3 if n_rounds > 2 else 1
    else:
        shares = [1.0 / plain_rounds] * plain_rounds
        cells, explore = k, 0
    rounds = tuple(
        Round(
            count_noise=laplace_noise(noise / (share * unit.intercept)),
            sum_noise=_sum_noise(problem.mechanism, noise / (share * unit.slope)),
        )
        for share in shares
    )
    return KMeans(
        n_clusters=k,
        n_features=d,
        rounds=rounds,
        radius=problem.radius,
        cells=cells,
        explore=explore,
        n_rows=problem.n_rows,
        mean_square_norm=problem.mean_square_norm,
        # Three scales of Laplace noise, expressed in standard deviations.
        trust=3.0 / math.sqrt(2.0),
        largest_weight=largest_weight,
    )


def _sum_noise(mechanism: MechanismName, scale: float) -> NoiseLaw:
    return laplace_noise(scale) if mechanism == "laplace" else LpNoise(scale=scale, p=2.0)
