"""The sampling rule and the noise of a plan, for a stated sample size or the smallest sample without extra noise."""

from __future__ import annotations

from pais.errors import UnreachableError
from pais.planning.settings import Settings
from pais.privacy.calibration import Calibration, Sampling, calibrate
from pais.privacy.norms import NormDistribution
from pais.privacy.profiles import GaussianProfile, LinearProfile
from pais.privacy.rules import Rule
from pais.privacy.rules.simple import largest_coreset_size


def calibrated(
    settings: Settings,
    profile: GaussianProfile | LinearProfile,
    norms: NormDistribution,
    *,
    most_rows: float,
    delta: float,
    limit: float | None,
) -> Calibration:
    """Calibrate the noise and the rule to the price, for the sample size that is stated or the default."""
    sampling, sample_size, epsilon = settings.sampling, settings.sample_size, float(settings.epsilon)

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
