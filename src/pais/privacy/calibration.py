"""Calibration: given two of guarantee, noise and expected sample size, solve for the third on the safe side."""

from __future__ import annotations

import functools
import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import numpy as np

from pais._base import validate
from pais._base.numerics import ULP, FloatArray, lowered, raised, shrink_bracket
from pais.errors import ArgumentError, MismatchError, UnreachableError
from pais.privacy.amplification import kept_limit, largest_shift
from pais.privacy.certify import CERTIFIED_TOLERANCE, worst_case, worst_case_if_kept
from pais.privacy.profiles import LinearProfile, Profile, ShiftProfile
from pais.privacy.rules import (
    ConstrainedRule,
    CoresetRule,
    NormDistribution,
    Rule,
    UniformRule,
    epsilon_without_sampling,
    knot_norms,
    largest_coreset_size,
)
from pais.privacy.weights import WEIGHT_CAP, rough_crossing_weight, solve_weights

# Relative width of the final bracket of a search.
_TOLERANCE = 1e-9

# Larger than the rounding errors of epsilon(delta) and of a shift, so that weight 1 is feasible at the radius.
_EPSILON_SLACK = 1e-12

_SHIFT_SLACK = 1e-11

# A search gives up beyond this multiple of its starting value.
_FARTHEST = 1e30

# Quick search for the noise of a tabulated rule: number of knots, relative distance below the requested size that
# it aims for, and largest relative distance that it accepts, which the docstring of `calibrate` promises (eb7e1e6).
_SEARCH_KNOTS = 256

_AIM = 4e-4

_NEAR = 1e-3

Sampling = Literal["constrained", "coreset", "uniform", "none"]


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """A consistent set of guarantee, noise and expected size. It is public if the norm distribution was public.

    Attributes
    ----------
    epsilon, delta : float
        The guarantee, which holds for every norm in the ball.
    noise : float
        Factor that multiplies every noise scale of the profile that was passed in.
    sample_size : float
        Expected number of sampled rows under the norm distribution that was passed in.
    rule, profile :
        The sampling rule, and the profile with the noise factor applied.
    radius : float
        Radius of the ball.
    """

    epsilon: float
    delta: float
    noise: float
    sample_size: float
    rule: Rule
    profile: Profile
    radius: float

    @functools.cached_property
    def epsilon_if_kept(self) -> float:
        """Largest epsilon, at `delta`, of any record given that it was kept in the sample."""
        return worst_case_if_kept(self.rule, self.profile, radius=self.radius, delta=self.delta).upper


def calibrate(
    sampling: Sampling | Rule,
    profile: Profile,
    norms: NormDistribution,
    *,
    epsilon: float | None = None,
    delta: float = 0.0,
    noise: float | None = None,
    sample_size: float | None = None,
    max_epsilon_if_kept: float | None = None,
) -> Calibration:
    """Solve for whichever of `epsilon`, `noise` and `sample_size` is omitted.

    Parameters
    ----------
    sampling : {"constrained", "coreset", "uniform", "none"} or Rule
        The kind of rule. With a `Rule` of your own, pass only `epsilon`; the function solves for the noise. With
        "none", all rows are used: pass `epsilon` or `noise`, and the function solves for the other.
    profile : Profile
        The privacy loss of a record at noise factor 1.
    norms : NormDistribution
        Public information about the norms. Its radius is the radius of the ball.
    epsilon, noise, sample_size : float, optional
        Pass two of the three. If only `epsilon` is given, the noise is the amount that all rows would need for that
        guarantee, and the rule takes as few rows as it can at that noise ("sampling for free").
    delta : float
        > 0 for a `ShiftProfile`, 0 for a pure one.
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
    if not isinstance(sampling, Rule) and sampling not in get_args(Sampling):
        raise ArgumentError(
            f"sampling={sampling!r} is unknown. Pass 'constrained', 'coreset', 'uniform', 'none' or a Rule."
        )
    delta, limit = validate.target_delta(delta), validate.kept_limit(max_epsilon_if_kept, finite=True)
    solver: Solver
    if sampling == "constrained":
        solver = ConstrainedSolver(profile=profile, norms=norms, delta=delta, limit=limit)
    else:
        shape = UniformRule(rate=1.0) if sampling == "none" else sampling
        solver = FixedShapeSolver(profile=profile, norms=norms, delta=delta, limit=limit, sampling=shape)
    epsilon = None if epsilon is None else validate.target_epsilon(epsilon)
    noise = None if noise is None else validate.positive("noise", noise)
    sample_size = None if sample_size is None else validate.positive("sample_size", sample_size)
    mismatch = isinstance(profile, ShiftProfile) != (delta > 0.0)
    if mismatch and (delta == 0.0 or not isinstance(sampling, Rule)):
        raise MismatchError(
            f"delta={delta!r} does not fit a {type(profile).__name__}. Pass delta > 0 for Gaussian noise, and "
            "delta = 0 for Laplace or lp noise."
        )
    if isinstance(sampling, Rule):
        if epsilon is None or noise is not None or sample_size is not None:
            raise ArgumentError("sampling is a Rule, which has a fixed sample size. Pass epsilon alone.")
        sample_size = norms.expected_size(sampling)
    elif sampling == "none":
        if (epsilon is None) == (noise is None) or sample_size is not None:
            raise ArgumentError("sampling='none' uses all rows. Pass either epsilon or noise, and no sample_size.")
        sample_size = norms.n_rows
    return _solved(solver, epsilon, noise, sample_size)


def _solved(solver: Solver, epsilon: float | None, noise: float | None, sample_size: float | None) -> Calibration:
    """Solve for the missing value. At least one of the three is None."""
    solves_noise = noise is None
    if epsilon is not None and noise is None:
        if sample_size is None:
            # The noise at which sampling needs no more noise than all rows.
            noise = solver.noise_of_all_rows(epsilon) * (1.0 + solver.room)
            rule = solver.solve_rule(epsilon, noise)
        else:
            noise, rule = solver.solve_noise(epsilon, sample_size)
    elif epsilon is not None and noise is not None and sample_size is None:
        rule = solver.solve_rule(epsilon, noise)
    elif epsilon is None and noise is not None and sample_size is not None:
        epsilon, rule = solver.solve_epsilon(noise, sample_size)
    else:
        n_given = sum(value is not None for value in (epsilon, noise, sample_size))
        raise ArgumentError(
            f"{n_given} of epsilon, noise and sample_size were given. "
            "Pass two of them, or epsilon alone for the noise that all rows would need."
        )
    return Calibration(
        epsilon=epsilon,
        delta=solver.delta,
        # A mechanism rounds its own loss up. With a few ulps more noise, its loss is no more than the rule allows.
        noise=noise * (1.0 + 32 * ULP) if solves_noise else noise,  # [note: calibrate-6]
        sample_size=solver.norms.expected_size(rule),
        rule=rule,
        profile=solver.profile.with_noise(noise),
        radius=solver.norms.radius,
    )


@dataclass(frozen=True, kw_only=True)
class Solver(ABC):
    """The fixed inputs of one calibration, with one method for each quantity to solve for."""

    profile: Profile
    norms: NormDistribution
    delta: float
    limit: float | None
    #: Relative room of a noise that is not solved for, which covers the gap of a numerical certificate.
    room: ClassVar[float] = 0.0

    @abstractmethod
    def solve_epsilon(self, noise: float, sample_size: float) -> tuple[float, Rule]:
        """The smallest epsilon at this noise and expected size, and its rule."""

    @abstractmethod
    def solve_noise(self, epsilon: float, sample_size: float) -> tuple[float, Rule]:
        """The smallest noise for this epsilon and expected size, and its rule."""

    @abstractmethod
    def solve_rule(self, epsilon: float, noise: float) -> Rule:
        """The rule that keeps the fewest rows for this epsilon and noise."""

    def noise_of_all_rows(self, epsilon: float) -> float:
        """Smallest noise that meets the guarantee if all rows are used."""
        if not isinstance(self.profile, ShiftProfile):
            # Pure losses are inversely proportional to the noise. The factor covers the rounding of the division.
            least = self.epsilon_of_all_rows(1.0) / epsilon * (1.0 + 16 * ULP)  # [note: calibrate-1]
            return _representable(least, "noise")
        at_one = float(self.profile(1.0, self.norms.radius))
        return _representable(at_one / largest_shift(epsilon, self.delta) * (1.0 + _SHIFT_SLACK), "noise")

    def epsilon_of_all_rows(self, noise: float) -> float:
        return epsilon_without_sampling(self.profile.with_noise(noise), self.norms.radius, self.delta, n_knots=64)


@dataclass(frozen=True, kw_only=True)
class ConstrainedSolver(Solver):
    """Every rule it returns meets its epsilon by construction, so the searches only look at expected sizes."""

    def solve_epsilon(self, noise: float, sample_size: float) -> tuple[float, Rule]:
        least = self.epsilon_of_all_rows(noise) * (1.0 + _EPSILON_SLACK)
        _require_size(sample_size, self._size(least, noise))
        epsilon = _smallest(
            lambda value: self._size(value, noise) / sample_size - 1.0, start=least, floor=least, name="epsilon"
        )
        return epsilon, self.solve_rule(epsilon, noise)

    def solve_noise(self, epsilon: float, sample_size: float) -> tuple[float, Rule]:
        least, linear = self.noise_of_all_rows(epsilon), isinstance(self.profile, LinearProfile)
        # The table of a linear profile is quick to build. Other tables need one search per knot.
        most_rows = self._size(epsilon, least) if linear else self._interpolated_size(epsilon, least)
        _require_size(sample_size, most_rows)
        if sample_size >= most_rows * (1.0 - _TOLERANCE):
            return least, self.solve_rule(epsilon, least)
        if not linear:
            # Search on few knots and aim slightly low.
            noise = _smallest(
                lambda value: self._interpolated_size(epsilon, value) / (sample_size * (1.0 - _AIM)) - 1.0,
                start=least,
                floor=least,
                name="noise",
                tolerance=0.25 * _AIM,
            )
            rule = self.solve_rule(epsilon, noise)
            # Few knots can be inaccurate where the loss of a profile bends sharply.
            if sample_size * (1.0 - _NEAR) <= self.norms.expected_size(rule) <= sample_size:
                return noise, rule
        noise = _smallest(
            lambda value: self._size(epsilon, value) / sample_size - 1.0, start=least, floor=least, name="noise"
        )
        return noise, self.solve_rule(epsilon, noise)

    def solve_rule(self, epsilon: float, noise: float) -> Rule:
        # [note: calibrate-3]
        return ConstrainedRule(
            profile=self.profile.with_noise(noise),
            radius=self.norms.radius,
            epsilon=epsilon,
            delta=self.delta,
            max_epsilon_if_kept=kept_limit(epsilon, self.limit),
        )

    def _size(self, epsilon: float, noise: float) -> float:
        """Expected number of rows, computed on the table that the sampler will use."""
        return self.norms.expected_size(self.solve_rule(epsilon, noise))

    def _interpolated_size(self, epsilon: float, noise: float) -> float:
        """Expected number of rows by interpolation between a few knots, accurate to 0.1 % for smooth profiles."""
        knots, at_one = self._search_shifts
        limit = kept_limit(epsilon, self.limit)
        if at_one is None:
            weights = solve_weights(self.profile.with_noise(noise), knots, epsilon, self.delta, limit)
        else:
            weights = rough_crossing_weight(at_one / noise, epsilon, self.delta, limit)
        return float(self.norms.masses @ np.interp(self.norms.norms, knots, 1.0 / weights))

    @functools.cached_property
    def _search_shifts(self) -> tuple[FloatArray, FloatArray | None]:
        """A few knots, and the Gaussian shifts there at weight 1 and noise factor 1; None for pure losses."""
        knots = knot_norms(self.norms.radius, _SEARCH_KNOTS)
        return knots, self.profile.shift(knots) if isinstance(self.profile, ShiftProfile) else None


def _require_size(sample_size: float, most_rows: float) -> None:
    if sample_size > most_rows:
        raise UnreachableError(
            f"sample_size={sample_size!r} is more than the constrained rule keeps here. "
            f"Pass at most {lowered(most_rows, 10)}.",
            reachable=most_rows,
        )


@dataclass(frozen=True, kw_only=True)
class FixedShapeSolver(Solver):
    """Uniform and coreset rules, and a rule of the user: their loss is certified numerically.

    A rule of the user has a fixed size, so only `solve_noise` applies to it.
    """

    sampling: Literal["coreset", "uniform"] | Rule
    room = 4 * CERTIFIED_TOLERANCE

    def solve_epsilon(self, noise: float, sample_size: float) -> tuple[float, Rule]:
        rule, profile = self._rule_of_size(sample_size), self.profile.with_noise(noise)
        epsilon = worst_case(
            rule,
            profile,
            radius=self.norms.radius,
            delta=self.delta if self.delta > 0.0 else None,
            tolerance=CERTIFIED_TOLERANCE,
        ).upper
        # Small probabilities would otherwise hide a large loss of the records in the sample.
        kept = worst_case_if_kept(rule, profile, radius=self.norms.radius, delta=self.delta).upper
        limit = kept_limit(epsilon, self.limit)
        if kept > limit:
            raise UnreachableError(
                f"a record in the sample would have epsilon {kept:.6g}, above max_epsilon_if_kept={limit:.6g}. "
                "Raise the noise or sample_size, or pass a larger max_epsilon_if_kept.",
                reachable=kept,
            )
        return epsilon, rule

    def solve_noise(self, epsilon: float, sample_size: float) -> tuple[float, Rule]:
        least, rule = self.noise_of_all_rows(epsilon), self._rule_of_size(sample_size)
        noise = _smallest(lambda value: self._excess(rule, epsilon, value), start=least, name="noise")
        return noise, rule

    def solve_rule(self, epsilon: float, noise: float) -> Rule:
        norms = self.norms
        largest = norms.n_rows
        if self.sampling != "uniform":
            largest = largest_coreset_size(norms.n_rows, norms.mean_square_norm, norms.radius)
        if self._excess(self._rule_of_size(largest), epsilon, noise) > 0.0:
            reachable, _ = self.solve_epsilon(noise, largest)
            raise UnreachableError(
                f"epsilon={epsilon!r} is too small for the {self.sampling} rule at noise={noise:.10g}, which reaches "
                f"{raised(reachable, 10)}. Pass a larger epsilon or noise, pass sample_size instead of noise, or use "
                "sampling='constrained'.",
                reachable=reachable,
            )
        # Fewer rows mean larger weights, so search downward from the largest size to the first size that fails.
        size = _smallest(
            lambda value: self._excess(self._rule_of_size(value), epsilon, noise),
            start=largest,
            floor=largest / WEIGHT_CAP,
            name="sample_size",
        )
        return self._rule_of_size(size)

    def _rule_of_size(self, sample_size: float) -> Rule:
        if isinstance(self.sampling, Rule):
            return self.sampling
        if self.sampling == "uniform":
            return UniformRule.of_size(sample_size, n_rows=self.norms.n_rows)
        return CoresetRule(
            sample_size=sample_size,
            n_rows=self.norms.n_rows,
            mean_square_norm=self.norms.mean_square_norm,
            radius=self.norms.radius,
        )

    def _excess(self, rule: Rule, epsilon: float, noise: float) -> float:
        """Amount by which a rule exceeds the guarantee or the limit for kept records; <= 0 means certified."""
        # Gaussian noise is compared by delta, which needs no inverse.
        gaussian, profile = isinstance(self.profile, ShiftProfile), self.profile.with_noise(noise)
        worst = worst_case(
            rule,
            profile,
            radius=self.norms.radius,
            epsilon=epsilon if gaussian else None,
            tolerance=CERTIFIED_TOLERANCE,
            enough=0.5 * (self.delta if gaussian else epsilon),
        ).upper
        if gaussian:
            excess = float(np.log(worst) - np.log(self.delta))
            # Logarithms can be equal for numbers that differ in the last bits, so compare the numbers themselves.
            excess = excess if worst <= self.delta else max(excess, ULP)
        else:
            excess = worst / epsilon - 1.0  # [note: calibrate-4]
        if excess > 0.0:
            return excess
        worst = worst_case_if_kept(rule, profile, radius=self.norms.radius, delta=self.delta).upper
        kept = worst / kept_limit(epsilon, self.limit) - 1.0  # [note: calibrate-2]
        return excess if kept <= 0.0 else kept


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
            raise UnreachableError(f"no {name} fits the other two values. Relax one of them.", reachable=math.inf)
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
            f"the {name} that meets the target is too small for a double. Pass a smaller epsilon, or rescale the rows "
            "and the profile."
        )
    return value
