"""The sampling rule and the noise of a plan, for a stated sample size or the smallest sample without extra noise."""

from __future__ import annotations

import functools
from collections.abc import Callable

from pais.errors import UnreachableError
from pais.planning.settings import Settings
from pais.planning.size_choice import SizeOption
from pais.privacy.amplification import largest_shift
from pais.privacy.calibration import Calibration, calibrate
from pais.privacy.norms import NormDistribution
from pais.privacy.profiles import GaussianProfile, LinearProfile
from pais.privacy.rules import Rule
from pais.privacy.rules.simple import largest_coreset_size

# Up to this growth of the noise, an option counts as one without extra noise.
_NO_GROWTH = 1.001


def noise_of_all_rows(profile: GaussianProfile | LinearProfile, radius: float, epsilon: float, delta: float) -> float:
    """About the noise that all rows need."""
    return float(profile(1.0, radius)) / (largest_shift(epsilon, delta) if delta > 0.0 else epsilon)


def calibrated(
    settings: Settings,
    profile: GaussianProfile | LinearProfile,
    norms: NormDistribution,
    *,
    most_rows: float,
    delta: float,
    limit: float | None,
    option: SizeOption | None = None,
) -> Calibration:
    """Calibrate the noise and the rule to the price, for the sample size that is stated or chosen, or the default."""
    sampling, epsilon = settings.sampling, float(settings.epsilon)
    sample_size = settings.stated_size if option is None else option.size
    solve = functools.partial(
        calibrate, profile=profile, norms=norms, epsilon=epsilon, delta=delta, max_epsilon_if_kept=limit
    )
    if isinstance(sampling, Rule):
        return solve(sampling)
    if sampling == "none" or (sample_size is not None and sample_size >= norms.n_rows):
        # The number of rows may be noisy, so a stated size can turn out to be larger. It then means all rows.
        return solve("uniform", sample_size=norms.n_rows)
    if sampling == "constrained":
        if option is not None and option.growth > _NO_GROWTH:
            # One rule for a known noise is quicker than a search for the noise of a size.
            noise = option.growth * noise_of_all_rows(profile, norms.radius, epsilon, delta)
            calibration = solve(sampling, noise=noise)
            if calibration.sample_size <= most_rows:
                return calibration
        return _constrained(solve, sample_size, most_rows)
    if sample_size is None:
        sample_size = min(solve("constrained").sample_size, most_rows)
    if sampling == "coreset":
        largest = largest_coreset_size(norms.n_rows, norms.mean_square_norm, norms.radius, 0.5)
        sample_size = min(sample_size, largest * (1.0 - 1e-9))
    return solve(sampling, sample_size=sample_size)


def _constrained(solve: Callable[..., Calibration], sample_size: float | None, most_rows: float) -> Calibration:
    """The constrained rule for a size, or without extra noise if no size is stated or a larger one cannot be met."""
    if sample_size is not None:
        try:
            return solve("constrained", sample_size=sample_size)
        except UnreachableError:
            # More rows than the rule keeps without extra noise would not improve the result.
            pass
    free = solve("constrained")
    if sample_size is not None or free.sample_size <= most_rows:
        return free
    return solve("constrained", sample_size=most_rows)
