"""Calibration: given two of guarantee, noise and expected sample size, solve for the third on the safe side."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Literal, get_args

from pais._base import validate
from pais._base.numerics import ULP
from pais.errors import ArgumentError, MismatchError
from pais.privacy.certify import worst_case_if_kept
from pais.privacy.norms import NormDistribution
from pais.privacy.profiles import Profile, ShiftProfile
from pais.privacy.rules import Rule, UniformRule
from pais.privacy.solvers import ConstrainedSolver, FixedShapeSolver, Solver

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
    uniform_share: float = 0.5,
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
    if not isinstance(sampling, Rule) and sampling not in get_args(Sampling):
        raise ArgumentError(
            f"sampling={sampling!r} is unknown. Pass 'constrained', 'coreset', 'uniform', 'none' or a Rule."
        )
    delta, share = validate.target_delta(delta), validate.share("uniform_share", uniform_share)
    limit = validate.kept_limit(max_epsilon_if_kept, finite=True)
    solver: Solver
    if sampling == "constrained":
        solver = ConstrainedSolver(profile=profile, norms=norms, delta=delta, limit=limit)
    else:
        shape = UniformRule(rate=1.0) if sampling == "none" else sampling
        solver = FixedShapeSolver(
            profile=profile, norms=norms, delta=delta, limit=limit, sampling=shape, uniform_share=share
        )
    epsilon = None if epsilon is None else validate.target_epsilon(epsilon)
    noise = None if noise is None else validate.positive("noise", noise)
    sample_size = None if sample_size is None else validate.positive("sample_size", sample_size)
    mismatch = isinstance(profile, ShiftProfile) != (delta > 0.0)
    if mismatch and (delta == 0.0 or not isinstance(sampling, Rule)):
        raise MismatchError(
            f"delta={delta!r} does not fit a {type(profile).__name__}. Pass delta > 0 for Gaussian noise, and "
            "delta = 0 for Laplace or lp noise."
        )
    if isinstance(sampling, Rule) or sampling == "none":
        sample_size = _fixed_size(sampling, norms, epsilon, noise, sample_size)
    return _solved(solver, epsilon, noise, sample_size)


def _fixed_size(
    sampling: Rule | Sampling,
    norms: NormDistribution,
    epsilon: float | None,
    noise: float | None,
    sample_size: float | None,
) -> float:
    """The sample size of a rule that is given, or of all rows. Raises if more is stated than can be solved for."""
    if isinstance(sampling, Rule):
        if epsilon is None or noise is not None or sample_size is not None:
            raise ArgumentError("sampling is a Rule, which has a fixed sample size. Pass epsilon alone.")
        return norms.expected_size(sampling)
    if (epsilon is None) == (noise is None) or sample_size is not None:
        raise ArgumentError("sampling='none' uses all rows. Pass either epsilon or noise, and no sample_size.")
    return norms.n_rows


def _solved(solver: Solver, epsilon: float | None, noise: float | None, sample_size: float | None) -> Calibration:
    """Solve for the missing value. At least one of the three is None."""
    solves_noise = noise is None
    if epsilon is not None and noise is None:
        if sample_size is None:
            noise = solver.free_noise(epsilon)
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
        radius=solver.radius,
    )
