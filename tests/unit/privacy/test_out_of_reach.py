"""Sizes and targets out of reach are refused by name, and the nearest reachable ones are reached."""

from __future__ import annotations

import math

import numpy as np
import pytest

import pais
from pais import (
    ConstrainedRule,
    CoresetRule,
    LinearProfile,
    PaisError,
    PowerProfile,
    UniformRule,
    UnreachableError,
    calibrate,
    constrained_weight,
    not_private_variance_optimal,
)
from tests.support.bad_values import CANARY, GAUSSIAN, LINEAR, NORMS, refused

# -- targets out of reach: refused, never clipped ----------------------------------------------------------------


def test_a_coreset_so_small_that_its_probability_vanishes_is_refused() -> None:
    """A probability must be above 0; one that underflows is none."""
    refused(PaisError, lambda: CoresetRule(sample_size=1e-200, n_rows=1e200, mean_square_norm=1.0, radius=1.0))


def test_a_uniform_sample_larger_than_the_rows_is_refused_and_all_rows_are_reachable() -> None:
    error = refused(
        UnreachableError, lambda: UniformRule.of_size(10.5, n_rows=10.0), match="sample_size", planted=False
    )
    assert isinstance(error, UnreachableError)
    assert error.reachable == 10.0
    assert float(UniformRule.of_size(error.reachable, n_rows=10.0).probability(1.0)) == 1.0


CALIBRATIONS: list[tuple[str, pais.privacy.profiles.Profile, float]] = [
    (sampling, profile, delta)
    for sampling in ("constrained", "coreset", "uniform")
    for profile, delta in ((LINEAR, 0.0), (GAUSSIAN, 1e-6))
]
CALIBRATION_NAMES = [f"{sampling}-{'gaussian' if delta else 'linear'}" for sampling, _, delta in CALIBRATIONS]


@pytest.mark.parametrize(("sampling", "profile", "delta"), CALIBRATIONS, ids=CALIBRATION_NAMES)
@pytest.mark.parametrize("fixed", [{"epsilon": 1.3}, {"noise": 1.0}], ids=["epsilon", "noise"])
def test_unreachable_calibrated_size_names_a_reachable_one(
    sampling: str, profile: pais.privacy.profiles.Profile, delta: float, fixed: dict[str, float]
) -> None:
    def solved(size: float) -> pais.Calibration:
        return calibrate(sampling, profile, NORMS, sample_size=size, delta=delta, **fixed)

    error = refused(UnreachableError, lambda: solved(NORMS.n_rows * 1.01), match="sample_size", planted=False)
    assert isinstance(error, UnreachableError)
    assert 0.0 < error.reachable <= NORMS.n_rows
    found = solved(error.reachable)
    assert found.sample_size == pytest.approx(error.reachable, rel=1e-6)
    assert np.all(found.rule.probability(np.linspace(0.0, NORMS.radius, 1000)) <= 1.0)
    refused(UnreachableError, lambda: solved(error.reachable * (1.0 + 1e-6)), match="sample_size", planted=False)


@pytest.mark.parametrize(("sampling", "profile", "delta"), CALIBRATIONS, ids=CALIBRATION_NAMES)
def test_unreachable_calibrated_epsilon_names_a_reachable_one(
    sampling: str, profile: pais.privacy.profiles.Profile, delta: float
) -> None:
    def solved(epsilon: float) -> pais.Calibration:
        return calibrate(sampling, profile, NORMS, epsilon=epsilon, noise=1.0, delta=delta)

    error = refused(UnreachableError, lambda: solved(0.05), match="epsilon", planted=False)
    assert isinstance(error, UnreachableError)
    assert math.isfinite(error.reachable)
    found = solved(error.reachable)
    assert found.epsilon == error.reachable
    assert found.noise == 1.0
    refused(UnreachableError, lambda: solved(error.reachable * (1.0 - 1e-5)), match="epsilon", planted=False)


@pytest.mark.parametrize(("profile", "delta"), [(LINEAR, 0.0), (PowerProfile(0.1, 0.5, 2.0), 0.0), (GAUSSIAN, 1e-6)])
def test_unreachable_constrained_rule_names_a_reachable_epsilon(
    profile: pais.privacy.profiles.Profile, delta: float
) -> None:
    def made(epsilon: float) -> ConstrainedRule:
        return ConstrainedRule(profile=profile, radius=2.0, epsilon=epsilon, delta=delta, n_knots=64)

    error = refused(UnreachableError, lambda: made(0.05), match="epsilon", planted=False)
    assert isinstance(error, UnreachableError)
    rule = made(error.reachable)
    assert float(rule.probability(2.0)) == pytest.approx(1.0, rel=1e-6)
    refused(UnreachableError, lambda: made(error.reachable * (1.0 - 1e-6)), match="epsilon", planted=False)


def test_a_norm_that_cannot_meet_the_target_is_refused_without_being_shown() -> None:
    for profile, delta in [(LINEAR, 0.0), (PowerProfile(0.1, 0.5, 2.0), 0.0), (GAUSSIAN, 1e-6)]:
        for norm in (CANARY, [0.1, CANARY]):
            refused(
                UnreachableError,
                lambda p=profile, z=norm, d=delta: constrained_weight(p, z, epsilon=1.0, delta=d),
                match="epsilon",
            )
    refused(UnreachableError, lambda: not_private_variance_optimal([CANARY, 0.0, 0.0], sample_size=2.0))


class _Deaf(LinearProfile):
    """A profile that no noise improves."""

    def with_noise(self, noise: float) -> LinearProfile:
        return self


def test_a_loss_that_no_noise_lowers_is_refused() -> None:
    with pytest.raises(UnreachableError, match="no noise fits the other two values"):
        calibrate("uniform", _Deaf(3.0, 1.0), NORMS, epsilon=0.1, sample_size=NORMS.n_rows)
