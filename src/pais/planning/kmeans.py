"""Planning of a private k-means: all decisions made before a row is sampled, from public quantities only."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from pais._base import validate
from pais.accounting.certificate import Spent, own_limit
from pais.data.ball import Ball
from pais.errors import ArgumentError, MismatchError, UnreachableError
from pais.mechanisms import GaussianNoise, KMeans, LpNoise, NoiseLaw, Round, laplace_noise
from pais.pipeline import Plan
from pais.privacy.calibration import Calibration, Sampling, calibrate
from pais.privacy.guarantee import chosen_delta
from pais.privacy.norms import NormDistribution
from pais.privacy.profiles import GaussianProfile, LinearProfile
from pais.privacy.rules import Rule
from pais.privacy.rules.simple import largest_coreset_size

MechanismName = Literal["gaussian", "laplace", "l2"]
Algorithm = Literal["refined", "paper"]

#: A typical |center| / radius, which determines the split of the noise between counts and sums.
RHO = 0.225

#: Largest sample, in numbers, if the user does not state a size: half a gigabyte, of which k-means holds some copies.
#: Sampling without extra noise keeps a share of the rows, and a share of a billion rows is still a large sample. With
#: so many rows, the extra noise of a smaller sample is negligible.
MOST_SAMPLE_NUMBERS = 2.0**26

# Share of the precision of the sums that is spent on the second moment, which gives the starting centers.
_MOMENT_SHARE = 0.08
_GROWTH = 1.5

# Relative increase over the calibrated noise, which covers the rounding errors of a sum over rounds.
_ROOM = 1e-9


@dataclass(frozen=True, kw_only=True)
class _Facts:
    """Public numbers that determine the schedule of rounds."""

    n_clusters: int
    n_features: int
    n_rows: float
    radius: float
    mean_square_norm: float
    sample_size: float
    epsilon: float


def plan_kmeans(
    *,
    n_clusters: int,
    n_features: int,
    epsilon: float,
    delta: float | None = None,
    ball: Ball,
    norms: NormDistribution,
    sampling: Sampling | Literal["none"] | Rule = "constrained",
    sample_size: float | None = None,
    mechanism: MechanismName = "gaussian",
    algorithm: Algorithm = "refined",
    n_iterations: int = 10,
    spent: tuple[Spent, ...] = (),
    max_epsilon_if_kept: float | None = None,
) -> Plan:
    """Choose the noise, sampling rule, cells and rounds of a private k-means.

    Parameters
    ----------
    n_clusters, n_features : int
        k and d.
    epsilon, delta : float
        The guarantee of this release alone; the cost of a survey is added through `spent`. If delta is None, it is 0
        for the pure mechanisms, and for Gaussian noise the smaller of 1e-6 and one tenth of 1 / number of rows in
        `norms`. If `spent` contains earlier releases, that number counts as surveyed, and 1e-6 is certified.
    ball : Ball
        Public bounds; order 2, or 1 for the Laplace mechanism.
    norms : NormDistribution
        Public or surveyed norms about the ball's center.
    sampling : {"constrained", "coreset", "uniform", "none"} or Rule
        Sampling rule, which decides the probability with which each row is kept.
    sample_size : float, optional
        Expected number of rows in the sample. None keeps as few rows as possible without extra noise, and at most
        `MOST_SAMPLE_NUMBERS` / d. The constrained rule never keeps more rows than are needed to avoid extra noise.
    mechanism : {"gaussian", "laplace", "l2"}
        Gaussian noise for (epsilon, delta); Laplace (l1) or the l2 noise of the paper for pure epsilon.
    algorithm : {"refined", "paper"}
        "paper" is plain DP-Lloyd, `n_iterations` rounds of equal noise on k centers; pure mechanisms only.
    spent : tuple of Spent
        Earlier releases on the same rows; the certificate adds their costs.
    max_epsilon_if_kept : float, optional
        Largest epsilon of a record given that it was kept in the sample, `spent` included; None = 15 more than
        epsilon. With this limit, a small sample of a large table has more noise.

    Notes
    -----
    Guarantee. The plan costs at most (epsilon, delta) on the whole ball; the constructor of `Plan` checks this:
    `tests/theory/test_planning.py`. No argument depends on the rows except through released values.
    """
    require_wishes(n_clusters, epsilon, delta, sampling, sample_size, mechanism, algorithm)
    d = validate.count("n_features", n_features)
    norms = _norms_on(ball, norms, mechanism)
    delta_choice = chosen_delta(delta, gaussian=mechanism == "gaussian", n_rows=norms.n_rows, surveyed=bool(spent))
    epsilon, used = float(epsilon), float(delta_choice.used)
    plain_rounds = None if algorithm == "refined" else validate.count("n_iterations", n_iterations)
    unit = _unit_profile(mechanism, d, ball.radius)
    most_rows, limit = MOST_SAMPLE_NUMBERS / d, own_limit(max_epsilon_if_kept, spent)
    chosen = _calibrated(unit, norms, sampling, sample_size, most_rows, epsilon, used, limit)
    facts = _Facts(
        n_clusters=int(n_clusters),
        n_features=d,
        n_rows=norms.n_rows,
        radius=ball.radius,
        mean_square_norm=_mean_square_norm(mechanism, d, norms),
        sample_size=chosen.sample_size,
        epsilon=epsilon,
    )
    # [note: plan-2]
    return Plan(
        ball=ball,
        rule=chosen.rule,
        mechanism=_mechanism(facts, unit, chosen, mechanism, plain_rounds),
        epsilon=epsilon,
        delta=used,
        norms=norms,
        spent=spent,
        max_epsilon_if_kept=max_epsilon_if_kept,
        certified_delta=None if delta_choice.certified == used else delta_choice.certified,
        delta_basis=delta_choice.basis,
    )


def _mean_square_norm(mechanism: MechanismName, d: int, norms: NormDistribution) -> float:
    """Mean square of the Euclidean norms; never zero."""
    # In l1 geometry the Euclidean norm is only known to lie between norm/sqrt(d) and norm.
    return max(norms.mean_square_norm / (math.sqrt(d) if mechanism == "laplace" else 1.0), 1e-12 * norms.radius**2)


def _norms_on(ball: Ball, norms: NormDistribution, mechanism: MechanismName) -> NormDistribution:
    """Norms clipped to a ball. Raises if ball, norms and mechanism do not match."""
    validate.instance("ball", ball, Ball, "Build one with pais.Ball(radius=...).")
    validate.instance("norms", norms, NormDistribution, "Survey the rows, or state a distribution.")
    _require_order(mechanism, ball)
    return _clipped(norms, ball.radius)


def _clipped(norms: NormDistribution, radius: float) -> NormDistribution:
    """Norms clipped to the ball. Raises if they were already clipped at a smaller radius."""
    if norms.radius < radius:
        raise MismatchError(
            f"norms are clipped at {norms.radius!r}, within radius={radius!r} of the ball. Use one radius."
        )
    if norms.radius == radius:
        return norms
    return NormDistribution(norms=norms.norms, masses=norms.masses, radius=radius)


def require_wishes(
    n_clusters: int,
    epsilon: float,
    delta: float | None,
    sampling: object,
    sample_size: float | None,
    mechanism: str,
    algorithm: str,
) -> None:
    """Validate the arguments that do not depend on the data, before paying for a survey."""
    validate.count("n_clusters", n_clusters)
    validate.target_epsilon(epsilon)
    if delta is not None:
        delta = validate.target_delta(delta)
    if sample_size is not None:
        validate.positive("sample_size", sample_size)
    if not isinstance(sampling, Rule) and sampling not in ("constrained", "coreset", "uniform", "none"):
        raise ArgumentError(f"sampling={sampling!r} is not known. Pass 'constrained', 'coreset', 'uniform' or 'none'.")
    if mechanism not in ("gaussian", "laplace", "l2"):
        raise ArgumentError(f"mechanism={mechanism!r} is not known. Pass 'gaussian', 'laplace' or 'l2'.")
    if algorithm not in ("refined", "paper") or (algorithm == "paper" and mechanism == "gaussian"):
        raise ArgumentError(f"algorithm={algorithm!r} is not available for {mechanism!r}. Pass 'refined'.")
    if delta is not None and (mechanism == "gaussian") != (delta > 0.0):
        raise MismatchError(
            f"mechanism={mechanism!r} does not go with delta={delta!r}. Gaussian noise needs delta > 0, "
            "'laplace' and 'l2' need delta = 0; leave delta out for a default."
        )


def _require_order(mechanism: str, ball: Ball) -> None:
    if ball.order != (1.0 if mechanism == "laplace" else 2.0):
        raise MismatchError(
            f"mechanism={mechanism!r} does not go with a ball of order {ball.order:g}. Use order 1 for "
            "'laplace' and 2 for the others."
        )


def _unit_profile(mechanism: MechanismName, d: int, radius: float) -> GaussianProfile | LinearProfile:
    """Loss of all rounds together at noise 1, with the best split between counts and sums for the centers.

    The split minimises the error of sum/count at fixed loss, in units of the radius, so that it does not depend on
    the unit of the data (erratum 9).
    """
    if mechanism == "gaussian":
        return GaussianProfile((RHO / math.sqrt(d)) ** -0.5, radius)
    if mechanism == "l2":
        return LinearProfile((2.0 * RHO**2 / (d * (d + 1.0))) ** (1.0 / 3.0), 1.0 / radius)
    return LinearProfile((RHO**2 / d**1.5) ** (1.0 / 3.0), 1.0 / radius)


def _calibrated(
    profile: GaussianProfile | LinearProfile,
    norms: NormDistribution,
    sampling: Sampling | Literal["none"] | Rule,
    sample_size: float | None,
    most_rows: float,
    epsilon: float,
    delta: float,
    limit: float | None,
) -> Calibration:
    def solve(kind: Sampling | Rule, size: float | None) -> Calibration:
        return calibrate(
            kind, profile, norms, epsilon=epsilon, delta=delta, sample_size=size, max_epsilon_if_kept=limit
        )

    if isinstance(sampling, Rule):
        return solve(sampling, None)
    if sampling == "none":
        return solve("uniform", norms.n_rows)
    if sampling == "constrained":
        if sample_size is not None:
            try:
                return solve(sampling, sample_size)
            except UnreachableError:
                # More rows than the rule keeps without extra noise would not improve the result.
                pass
        free = solve(sampling, None)
        if sample_size is not None or free.sample_size <= most_rows:
            return free
        return solve(sampling, most_rows)
    if sample_size is None:
        sample_size = min(solve("constrained", None).sample_size, most_rows)
        if sampling == "coreset":
            largest = largest_coreset_size(norms.n_rows, norms.mean_square_norm, norms.radius, 0.5)
            sample_size = min(sample_size, largest * (1.0 - 1e-9))
    return solve(sampling, sample_size)


def _mechanism(
    facts: _Facts,
    unit: GaussianProfile | LinearProfile,
    calibration: Calibration,
    mechanism: MechanismName,
    plain_rounds: int | None,
) -> KMeans:
    largest_weight = 1.0 / calibration.rule.smallest_probability(facts.radius)
    noise = calibration.noise * (1.0 + _ROOM)  # [note: plan-1]
    if mechanism == "gaussian":
        return _gaussian(facts, unit, noise, largest_weight)
    return _pure(facts, unit, noise, largest_weight, mechanism, plain_rounds)


def _gaussian(facts: _Facts, unit: object, noise: float, largest_weight: float) -> KMeans:
    """Schedule for Gaussian noise: up to two cells per cluster, and a start from a noisy second moment.

    The number of rounds depends on the noise. The gain of a round falls geometrically with the number of rounds, and
    the cost of its share falls as the square of the signal-to-noise ratio, so the number of rounds grows with the
    logarithm of that ratio. The signal is the Frobenius norm of the matrix of sums. The noise is its spectral norm if
    one round had the whole budget.
    """
    assert isinstance(unit, GaussianProfile)
    count, total = unit.count_scale * noise, unit.sum_scale * noise
    k, d, n = facts.n_clusters, facts.n_features, facts.n_rows
    cells = int(min(2 * k, max(k, n / (1.5 * count))))
    signal = n * math.sqrt(facts.mean_square_norm / cells)
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
        radius=facts.radius,
        cells=cells,
        explore=min(n_rounds - 1, max(4, (n_rounds + 1) // 2)),
        moment_noise=GaussianNoise(scale=facts.radius * total / math.sqrt(_MOMENT_SHARE)),
        n_rows=n,
        mean_square_norm=facts.mean_square_norm,
        trust=1.5,
        largest_weight=largest_weight,
    )


def _pure(
    facts: _Facts, unit: object, noise: float, largest_weight: float, mechanism: MechanismName, plain_rounds: int | None
) -> KMeans:
    """Schedule for pure noise: one round of sectors, which gives the starting centers, and few further rounds.

    The rounds are few because in pure DP the noise of a round grows with the number of rounds. The noise level is the
    noise of the center of n/(2k) rows if one round had the whole budget, divided by the root mean square norm. Each
    round reduces the distance to a good solution by about a constant factor.
    """
    assert isinstance(unit, LinearProfile)
    k, d = facts.n_clusters, facts.n_features
    kept = min(1.0, facts.sample_size / facts.n_rows)
    log_budget = facts.epsilon + math.log(-math.expm1(-facts.epsilon)) - math.log(kept)
    budget = kept * float(np.logaddexp(0.0, log_budget))
    center_noise = 2 * k * math.sqrt(d) * _sum_noise(mechanism, facts.radius).deviation(d) / (budget * facts.n_rows)
    level = center_noise / math.sqrt(facts.mean_square_norm)
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
            sum_noise=_sum_noise(mechanism, noise / (share * unit.slope)),
        )
        for share in shares
    )
    return KMeans(
        n_clusters=k,
        n_features=d,
        rounds=rounds,
        radius=facts.radius,
        cells=cells,
        explore=explore,
        n_rows=facts.n_rows,
        mean_square_norm=facts.mean_square_norm,
        # Three scales of Laplace noise, expressed in standard deviations.
        trust=3.0 / math.sqrt(2.0),
        largest_weight=largest_weight,
    )


def _sum_noise(mechanism: MechanismName, scale: float) -> NoiseLaw:
    return laplace_noise(scale) if mechanism == "laplace" else LpNoise(scale=scale, p=2.0)
