"""Calibration: given two of guarantee, noise and expected sample size, solve for the third on the safe side."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from pais._base import validate
from pais._base.numerics import ULP
from pais._base.rootfind import shrink_bracket
from pais.errors import ArgumentError, MismatchError, UnreachableError
from pais.privacy.amplification import epsilon_at_delta, kept_limit, log_amplified_delta
from pais.privacy.certify import CERTIFIED_TOLERANCE, worst_case, worst_case_if_kept
from pais.privacy.norms import NormDistribution
from pais.privacy.profiles import GaussianProfile, LinearProfile, Profile
from pais.privacy.rules import ConstrainedRule, CoresetRule, Rule, UniformRule
from pais.privacy.rules.simple import largest_coreset_size
from pais.privacy.rules.table import knot_norms
from pais.privacy.rules.weights import WEIGHT_CAP, solve_weights

Sampling = Literal["constrained", "coreset", "uniform"]

# Relative width of the final bracket of a search.
_TOLERANCE = 1e-9

# Larger than the rounding errors of epsilon(delta) and delta(epsilon), so that weight 1 is feasible at the radius.
_EPSILON_SLACK = 1e-12
_DELTA_SLACK = 2e-11

_FARTHEST = 1e30

# Quick search for the noise of a tabulated rule: number of knots, relative distance below the requested size that
# it aims for, and largest relative distance that it accepts.
_SEARCH_KNOTS = 256
_AIM = 4e-4
_NEAR = 1e-3


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """A consistent set of guarantee, noise and expected size. It is public if the norm distribution was public.

    Attributes
    ----------
    epsilon, delta : float
        The guarantee, which holds for every norm in the ball.
    noise : float
        Factor that multiplies every noise scale of the profile that was passed in.
    epsilon_if_kept : float
        Largest epsilon, at `delta`, of any record given that it was kept in the sample.
    sample_size : float
        Expected number of sampled rows under the norm distribution that was passed in.
    rule, profile :
        The sampling rule, and the profile with the noise factor applied.
    """

    epsilon: float
    delta: float
    epsilon_if_kept: float
    noise: float
    sample_size: float
    rule: Rule
    profile: Profile


def calibrate(
    sampling: Sampling | Rule,
    profile: Profile,
    norms: NormDistribution,
    *,
    epsilon: float | None = None,
    delta: float = 0.0,
    noise: float | None = None,
    sample_size: float | None = None,
    uniform_share: float = 0.5,
    max_epsilon_if_kept: float | None = None,
) -> Calibration:
    """Solve for whichever of `epsilon`, `noise` and `sample_size` is omitted.

    Parameters
    ----------
    sampling : {"constrained", "coreset", "uniform"} or Rule
        The kind of rule. With a `Rule` of your own, pass only `epsilon`; the function solves for the noise.
    profile : Profile
        The privacy loss of a record at noise factor 1.
    norms : NormDistribution
        Public information about the norms. Its radius is the radius of the ball.
    epsilon, noise, sample_size : float, optional
        Pass two of the three. If only `epsilon` is given, the noise is the amount that all rows would need for that
        guarantee, and the rule takes as few rows as it can at that noise ("sampling for free").
    delta : float
        > 0 for a `GaussianProfile`, 0 for a pure one.
    uniform_share : float
        For the coreset rule.
    max_epsilon_if_kept : float, optional
        Largest epsilon allowed for a record given that it was kept; None = epsilon + 15. Noise and probabilities are
        raised until this limit holds.

    Raises
    ------
    UnreachableError
        If no value meets the target. Its attribute `reachable` is the nearest value that can be met.

    Notes
    -----
    Guarantee. The returned rule and profile satisfy (epsilon, delta) on the whole ball, and no kept record exceeds
    the limit `max_epsilon_if_kept` (`tests/theory/test_kept_records.py`). A solved noise, epsilon or size is the safe
    end of a bracket of relative width 1e-9 (1e-7 for the coreset rule). The expected size is at most the requested
    size, and at most 0.1 % below it: `tests/theory/test_calibration.py`.
    """
    validate.instance("profile", profile, Profile, "Pass the .profile of a mechanism.")
    validate.instance(
        "norms", norms, NormDistribution, "Build one with NormDistribution.from_quantiles or from_histogram."
    )
    if not isinstance(sampling, Rule) and sampling not in ("constrained", "coreset", "uniform"):
        raise ArgumentError(f"sampling={sampling!r} is not known. Pass 'constrained', 'coreset' or 'uniform'.")
    problem = _Problem(
        profile=profile,
        norms=norms,
        delta=validate.target_delta(delta),
        sampling=sampling,
        uniform_share=validate.share("uniform_share", uniform_share),
        limit=validate.kept_limit(max_epsilon_if_kept, finite=True),
    )
    return problem.solve(
        epsilon=None if epsilon is None else validate.target_epsilon(epsilon),
        noise=None if noise is None else validate.positive("noise", noise),
        sample_size=None if sample_size is None else validate.positive("sample_size", sample_size),
    )


@dataclass(frozen=True, kw_only=True)
class _Problem:
    """The fixed inputs of one calibration."""

    profile: Profile
    norms: NormDistribution
    delta: float
    sampling: Sampling | Rule
    uniform_share: float
    limit: float | None

    @property
    def radius(self) -> float:
        return self.norms.radius

    # -- quantities without sampling ----------------------------------------------------------------------

    def epsilon_of_all_rows(self, noise: float) -> float:
        """Epsilon of the noise alone, if all rows are used without sampling."""
        profile = self.profile.with_noise(noise)
        if isinstance(profile, GaussianProfile):
            return epsilon_at_delta(self.delta, float(profile(1.0, self.radius)), 1.0)
        grid = knot_norms(self.radius, 64)
        return float(np.max(profile.loss(np.ones_like(grid), grid)))

    def noise_of_all_rows(self, epsilon: float) -> float:
        """Smallest noise that meets the guarantee if all rows are used; "sampling for free" uses this noise."""
        if not isinstance(self.profile, GaussianProfile):
            # Pure losses are inversely proportional to the noise. The factor covers the rounding of the division.
            least = self.epsilon_of_all_rows(1.0) / epsilon * (1.0 + 16 * ULP)  # [note: calibrate-1]
            return _representable(least, "noise")
        at_one = float(self.profile(1.0, self.radius))
        target = np.log(self.delta) - _DELTA_SLACK

        def excess(noise: float) -> float:
            mu = np.array(at_one / noise)
            return float(log_amplified_delta(np.array(epsilon), mu, np.array(1.0)) - target)

        return _smallest(excess, start=at_one / epsilon, name="noise")

    def free_noise(self, epsilon: float) -> float:
        """Noise for all rows, with room for the gap of the certificate if the rule is certified numerically."""
        room = 0.0 if self.sampling == "constrained" else 4 * CERTIFIED_TOLERANCE
        return self.noise_of_all_rows(epsilon) * (1.0 + room)

    # -- rules ---------------------------------------------------------------------------------------

    def fixed_rule(self, sample_size: float) -> Rule:
        """The uniform or coreset rule of the given size, or the user's rule."""
        if isinstance(self.sampling, Rule):
            return self.sampling
        if self.sampling == "uniform":
            return UniformRule.of_size(sample_size, n_rows=self.norms.n_rows)
        return CoresetRule(
            sample_size=sample_size,
            n_rows=self.norms.n_rows,
            mean_square_norm=self.norms.mean_square_norm,
            radius=self.radius,
            uniform_share=self.uniform_share,
        )

    def largest_fixed_size(self) -> float:
        if self.sampling == "uniform":
            return self.norms.n_rows
        return largest_coreset_size(self.norms.n_rows, self.norms.mean_square_norm, self.radius, self.uniform_share)

    def constrained_size(self, epsilon: float, noise: float) -> float:
        """Expected number of rows of the constrained rule, computed on the table that the sampler will use."""
        return self.norms.expected_size(self.constrained_rule(epsilon, noise))

    def interpolated_size(self, epsilon: float, noise: float) -> float:
        """Expected number of rows by interpolation between a few knots; quick enough for a search."""
        knots = knot_norms(self.radius, _SEARCH_KNOTS)
        limit = kept_limit(epsilon, self.limit)
        weights = solve_weights(self.profile.with_noise(noise), knots, epsilon, self.delta, limit)
        return float(self.norms.masses @ np.interp(self.norms.norms, knots, 1.0 / weights))

    def most_rows(self, epsilon: float, noise: float) -> float:
        """Rows of the constrained rule at the given noise: exact if that is quick, else accurate to 0.1 %."""
        if isinstance(self.profile, LinearProfile):
            return self.constrained_size(epsilon, noise)
        return self.interpolated_size(epsilon, noise)

    def constrained_rule(self, epsilon: float, noise: float) -> ConstrainedRule:
        profile = self.profile.with_noise(noise)
        # [note: calibrate-3]
        return ConstrainedRule(
            profile=profile,
            radius=self.radius,
            epsilon=epsilon,
            delta=self.delta,
            max_epsilon_if_kept=kept_limit(epsilon, self.limit),
        )

    def epsilon_if_kept(self, rule: Rule, noise: float) -> float:
        profile = self.profile.with_noise(noise)
        return worst_case_if_kept(rule, profile, radius=self.radius, delta=self.delta).upper

    def fixed_rule_excess(self, rule: Rule, epsilon: float, noise: float) -> float:
        """Amount by which a rule exceeds the guarantee or the limit for kept records; <= 0 means certified."""
        excess = self._guarantee_excess(rule, epsilon, noise)
        if excess > 0.0:
            return excess
        kept = self.epsilon_if_kept(rule, noise) / kept_limit(epsilon, self.limit) - 1.0  # [note: calibrate-2]
        return excess if kept <= 0.0 else kept

    def _guarantee_excess(self, rule: Rule, epsilon: float, noise: float) -> float:
        """Amount by which a rule exceeds the guarantee. Gaussian noise is compared by delta, which needs no inverse."""
        profile = self.profile.with_noise(noise)
        if isinstance(profile, GaussianProfile):
            worst = worst_case(
                rule,
                profile,
                radius=self.radius,
                epsilon=epsilon,
                tolerance=CERTIFIED_TOLERANCE,
                enough=0.5 * self.delta,
            )
            gap = float(np.log(worst.upper) - np.log(self.delta))
            # Logarithms can be equal for numbers that differ in the last bits, so compare the numbers themselves.
            return gap if worst.upper <= self.delta else max(gap, ULP)
        worst = worst_case(rule, profile, radius=self.radius, tolerance=CERTIFIED_TOLERANCE, enough=0.5 * epsilon)
        return worst.upper / epsilon - 1.0  # [note: calibrate-4]

    # -- solving for one quantity -----------------------------------------------------------------------

    def solve(self, *, epsilon: float | None, noise: float | None, sample_size: float | None) -> Calibration:
        """Solve for the argument that is None."""
        if isinstance(self.sampling, Rule):
            if epsilon is None or noise is not None or sample_size is not None:
                raise ArgumentError("a rule of your own has its size already. Pass epsilon alone to solve the noise.")
            return _with_room(self.solve_noise(epsilon, self.norms.expected_size(self.sampling)))
        if isinstance(self.profile, GaussianProfile) != (self.delta > 0.0):
            raise MismatchError(
                "Gaussian noise needs delta > 0; Laplace and lp noise need delta = 0. Change one of them."
            )
        if epsilon is not None and noise is None and sample_size is None:
            return _with_room(self.solve_size(epsilon, self.free_noise(epsilon)))
        if epsilon is None and noise is not None and sample_size is not None:
            return self.solve_epsilon(noise, sample_size)
        if epsilon is not None and noise is not None and sample_size is None:
            return self.solve_size(epsilon, noise)
        if epsilon is not None and noise is None and sample_size is not None:
            return _with_room(self.solve_noise(epsilon, sample_size))
        given = sum(value is not None for value in (epsilon, noise, sample_size))
        raise ArgumentError(
            f"{given} of epsilon, noise and sample_size were given. "
            "Pass two of them, or epsilon alone to sample for free."
        )

    def solve_epsilon(self, noise: float, sample_size: float) -> Calibration:
        if self.sampling != "constrained":
            rule = self.fixed_rule(sample_size)
            worst = worst_case(
                rule,
                self.profile.with_noise(noise),
                radius=self.radius,
                delta=self.delta if self.delta > 0.0 else None,
                tolerance=CERTIFIED_TOLERANCE,
            )
            self._require_limit(rule, worst.upper, noise)
            return self._answer(worst.upper, noise, rule)
        least = self.epsilon_of_all_rows(noise) * (1.0 + _EPSILON_SLACK)
        self._require_size(sample_size, self.constrained_size(least, noise))
        epsilon = _smallest(
            lambda value: self.constrained_size(value, noise) / sample_size - 1.0,
            start=least,
            name="epsilon",
            floor=least,
        )
        return self._constrained(epsilon, noise)

    def solve_noise(self, epsilon: float, sample_size: float) -> Calibration:
        least = self.noise_of_all_rows(epsilon)
        if self.sampling != "constrained":
            rule = self.fixed_rule(sample_size)
            noise = _smallest(lambda value: self.fixed_rule_excess(rule, epsilon, value), start=least, name="noise")
            return self._answer(epsilon, noise, rule)
        most_rows = self.most_rows(epsilon, least)
        self._require_size(sample_size, most_rows)
        if sample_size >= most_rows * (1.0 - _TOLERANCE):
            return self._constrained(epsilon, least)
        if not isinstance(self.profile, LinearProfile):
            # Building a table needs one search per knot, so search for the noise on few knots and aim slightly low.
            noise = _smallest(
                lambda value: self.interpolated_size(epsilon, value) / (sample_size * (1.0 - _AIM)) - 1.0,
                start=least,
                name="noise",
                floor=least,
                tolerance=0.25 * _AIM,
            )
            answer = self._constrained(epsilon, noise)
            # Few knots can be inaccurate where the loss of a profile bends sharply.
            if sample_size * (1.0 - _NEAR) <= answer.sample_size <= sample_size:
                return answer
        noise = _smallest(
            lambda value: self.constrained_size(epsilon, value) / sample_size - 1.0,
            start=least,
            name="noise",
            floor=least,
        )
        return self._constrained(epsilon, noise)

    def solve_size(self, epsilon: float, noise: float) -> Calibration:
        if self.sampling == "constrained":
            return self._constrained(epsilon, noise)
        largest = self.largest_fixed_size()
        if self.fixed_rule_excess(self.fixed_rule(largest), epsilon, noise) > 0.0:
            reachable = self.solve_epsilon(noise, largest).epsilon
            raise UnreachableError(
                f"epsilon={epsilon!r} is out of reach for the {self.sampling} rule at noise={noise:.10g}; "
                f"the smallest is {reachable:.10g}. Pass a larger noise or epsilon, pass sample_size instead of the "
                "noise, or sample by the constrained rule.",
                reachable=reachable,
            )
        # Fewer rows mean larger weights, so search downward from the largest size to the first size that fails.
        size = _smallest(
            lambda value: self.fixed_rule_excess(self.fixed_rule(value), epsilon, noise),
            start=largest,
            name="sample_size",
            floor=largest / WEIGHT_CAP,
        )
        return self._answer(epsilon, noise, self.fixed_rule(size))

    # -- results --------------------------------------------------------------------------------------

    def _require_size(self, sample_size: float, most_rows: float) -> None:
        if sample_size > most_rows:
            raise UnreachableError(
                f"sample_size={sample_size!r} is more than the constrained rule ever keeps here. "
                f"Ask for at most {most_rows:.10g}: that many already cost no extra noise.",
                reachable=most_rows,
            )

    def _require_limit(self, rule: Rule, epsilon: float, noise: float) -> None:
        """Raise an error if a kept record exceeds the limit, which small probabilities would otherwise hide."""
        kept, limit = self.epsilon_if_kept(rule, noise), kept_limit(epsilon, self.limit)
        if kept > limit:
            raise UnreachableError(
                f"a record that is kept in the sample would pay epsilon={kept:.6g}, above max_epsilon_if_kept="
                f"{limit:.6g}. Raise the noise or sample_size, or state a larger max_epsilon_if_kept.",
                reachable=kept,
            )

    def _constrained(self, epsilon: float, noise: float) -> Calibration:
        return self._answer(epsilon, noise, self.constrained_rule(epsilon, noise))

    def _answer(self, epsilon: float, noise: float, rule: Rule) -> Calibration:
        return Calibration(
            epsilon=epsilon,
            delta=self.delta,
            epsilon_if_kept=self.epsilon_if_kept(rule, noise),
            noise=noise,
            sample_size=self.norms.expected_size(rule),
            rule=rule,
            profile=self.profile.with_noise(noise),
        )


def _with_room(calibration: Calibration) -> Calibration:
    """Return the calibration with its solved noise a few ulps larger.

    A mechanism built with this noise rounds its own loss up. With the larger noise its loss is no more than the rule
    allows.
    """
    return replace(calibration, noise=calibration.noise * (1.0 + 32 * ULP))  # [note: calibrate-6]


def _smallest(
    excess: Callable[[float], float], *, start: float, name: str, floor: float = 0.0, tolerance: float = _TOLERANCE
) -> float:
    """Smallest value >= `floor` with `excess` <= 0, found by stepping from `start` to the first change of sign.

    `excess` decreases as the value grows. The function has evaluated `excess` at the returned value.
    """
    high = _representable(start, name)
    value_high = excess(high)
    low, value_low = high, value_high
    while value_high > 0.0:
        low, value_low = high, value_high
        high *= 2.0
        if high > _FARTHEST * start:
            raise UnreachableError(f"no {name} meets the target. Relax one of the other two.", reachable=float("inf"))
        value_high = excess(high)
    while value_low <= 0.0:
        high, value_high = low, value_low
        if low <= floor:
            return low
        low = _representable(max(0.5 * low, floor), name)
        value_low = excess(low)
    # Search over x with value = high * e^-x, so that x = 0 is exactly the value that is known to be feasible.
    anchor = high
    x, _ = shrink_bracket(
        lambda point, _: np.array([excess(anchor * float(np.exp(-point[0])))]),
        np.zeros(1),
        np.log(np.array([anchor / low])),
        value_low=np.array([value_high]),
        value_high=np.array([value_low]),
        tolerance=tolerance,
    )
    return anchor * float(np.exp(-x[0]))  # [note: calibrate-5]


def _representable(value: float, name: str) -> float:
    if not value >= sys.float_info.min:
        raise ArgumentError(
            f"a {name} too small for a double would meet the target. Ask for a smaller epsilon, or state rows and "
            "profile in smaller units."
        )
    return value
