"""Every profile through one suite: what a record pays, what noise does to it, and how sure an answer about it is."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray

from pais import (
    Assumptions,
    CustomProfile,
    CustomShiftProfile,
    Finding,
    GaussianProfile,
    LinearProfile,
    PowerProfile,
    ShiftProfile,
    Verdict,
    amplified_delta,
    amplified_epsilon,
    constrained_weight,
)
from pais.privacy.profiles import Profile, PureProfile, joint_loss, joint_shift

Floats = NDArray[np.float64]

RADIUS = 2.0
EPSILON = 3.0
DELTA = 1e-5


def bent(weight: Floats, norm: Floats) -> Floats:
    """A loss of no family: it grows in weight and norm, faster and slower than a line."""
    return np.asarray(0.2 * np.log1p(weight) * (1.0 + norm) + 0.01 * weight)


def bent_shift(norm: Floats) -> Floats:
    return np.asarray(0.1 * np.log1p(norm) + 0.01)


def bent_derivative(weight: Floats, norm: Floats) -> Floats:
    return np.asarray(0.2 / (1.0 + weight) * (1.0 + norm) + 0.01)


PROFILES: dict[str, Callable[[], Profile]] = {
    "linear": lambda: LinearProfile(0.1, 0.5),
    "linear, no intercept": lambda: LinearProfile(0.0, 0.5),
    "linear, no slope": lambda: LinearProfile(0.3, 0.0),
    "power 0": lambda: PowerProfile(0.3, 0.2, 0.0),
    "power 0.5": lambda: PowerProfile(0.3, 0.2, 0.5),
    "power 1": lambda: PowerProfile(0.3, 0.2, 1.0),
    "power 1.5": lambda: PowerProfile(0.3, 0.2, 1.5),
    "power 2": lambda: PowerProfile(0.0, 0.2, 2.0),
    "gaussian": lambda: GaussianProfile(5.0, 7.0, 3),
    "gaussian count": lambda: GaussianProfile(5.0, math.inf),
    "gaussian sum": lambda: GaussianProfile(math.inf, 7.0),
    "gaussian square": lambda: GaussianProfile(math.inf, math.inf, square_scale=9.0),
    "gaussian count, sum and square": lambda: GaussianProfile(5.0, 7.0, 2, 9.0),
    "shift": lambda: CustomShiftProfile(bent_shift),
    "shift with noise": lambda: CustomShiftProfile(np.square, 9.0),
    "shift of two mechanisms": lambda: joint_shift([GaussianProfile(5.0, 7.0, 3), CustomShiftProfile(np.sqrt, 9.0)]),
    "custom": lambda: CustomProfile(bent),
    "custom loss of two mechanisms": lambda: joint_loss([LinearProfile(0.1, 0.5), CustomProfile(bent)]),
    "custom with a derivative": lambda: CustomProfile(bent, bent_derivative),
}
EXACT = [name for name in PROFILES if not name.startswith(("custom", "shift"))]
PURE = [name for name in PROFILES if not name.startswith(("gaussian", "shift"))]


@functools.cache
def profile_named(name: str) -> Profile:
    return PROFILES[name]()


@pytest.fixture(params=PROFILES)
def profile(request: pytest.FixtureRequest) -> Profile:
    return profile_named(request.param)


def grid() -> tuple[Floats, Floats]:
    weight, norm = np.meshgrid(np.geomspace(1.0, 1e4, 60), np.linspace(0.0, RADIUS, 41), indexing="ij")
    return weight, norm


def findings(assumptions: Assumptions) -> dict[str, Finding]:
    return {field.name: getattr(assumptions, field.name) for field in dataclasses.fields(assumptions)}


def check(profile: Profile, *, radius: float = RADIUS, epsilon: float = EPSILON) -> dict[str, Finding]:
    delta = DELTA if isinstance(profile, ShiftProfile) else 0.0
    return findings(profile.check(radius=radius, epsilon=epsilon, delta=delta))


# -- losses --------------------------------------------------------------------------------------------------


def test_loss_never_decreases_in_weight_or_norm(profile: Profile) -> None:
    weight, norm = grid()
    loss = profile(weight, norm)
    assert loss.shape == weight.shape
    assert np.all(np.isfinite(loss))
    assert np.all(loss >= 0.0)
    assert np.all(np.diff(loss, axis=0) >= 0.0)
    assert np.all(np.diff(loss, axis=1) >= 0.0)
    # And it is no constant: some record pays something.
    assert np.max(loss) > 0.0
    assert np.max(loss) > np.min(loss)


def test_scalars_arrays_and_broadcasts_give_one_and_the_same_loss(profile: Profile) -> None:
    weight, norm = np.array([1.0, 2.5, 40.0]), np.array([0.0, 0.5, 1.0, 2.0])
    table = profile(weight[:, None], norm)
    assert table.shape == (3, 4)
    for i, w in enumerate(weight):
        for j, z in enumerate(norm):
            assert float(profile(w, z)) == table[i, j]
            assert np.shape(profile(w, z)) == ()
    assert np.array_equal(profile(2, [0, 1]), profile(2.0, [0.0, 1.0]))


def test_twice_the_noise_is_half_the_loss(profile: Profile) -> None:
    weight, norm = grid()
    loss = profile(weight, norm)
    assert np.allclose(profile.with_noise(2.0)(weight, norm), 0.5 * loss, rtol=1e-14, atol=0.0)
    assert np.allclose(profile.with_noise(0.25)(weight, norm), 4.0 * loss, rtol=1e-14, atol=0.0)
    assert np.allclose(profile.with_noise(3.0).with_noise(5.0)(weight, norm), loss / 15.0, rtol=1e-14, atol=0.0)
    assert not np.allclose(profile.with_noise(2.0)(weight, norm), loss)


def test_squared_gaussian_shifts_add_with_their_rounds() -> None:
    weight, norm = grid()
    one, two = GaussianProfile(5.0, 7.0, 3), GaussianProfile(math.inf, 2.0, 5, 11.0)
    total = one + two
    assert isinstance(total, GaussianProfile)
    squares = np.square(one(weight, norm)) + np.square(two(weight, norm))
    assert np.allclose(np.square(total(weight, norm)), squares, rtol=1e-13, atol=0.0)
    # Shifts themselves do not add: that would overstate.
    assert np.all((total(weight, norm) < one(weight, norm) + two(weight, norm))[:, 1:])
    count_only = GaussianProfile(5.0, math.inf) + GaussianProfile(3.0, math.inf)
    assert math.isinf(count_only.sum_scale)


def test_gaussian_rounds_compose_to_the_root_of_their_number() -> None:
    weight, norm = grid()
    once, often = GaussianProfile(5.0, 7.0), GaussianProfile(5.0, 7.0, 9)
    assert np.allclose(often(weight, norm), 3.0 * once(weight, norm), rtol=1e-14, atol=0.0)
    assert np.allclose(
        np.square(once(weight, norm)), np.square(weight) * (1.0 / 25.0 + np.square(norm) / 49.0), rtol=1e-13, atol=0.0
    )


def test_losses_of_different_kinds_do_not_add() -> None:
    for one, other in [
        (LinearProfile(0.1, 0.5), GaussianProfile(5.0, 7.0)),
        (GaussianProfile(5.0, 7.0), LinearProfile(0.1, 0.5)),
        (LinearProfile(0.1, 0.5), PowerProfile(0.1, 0.5, 2.0)),
        (LinearProfile(0.1, 0.5), 1.0),
    ]:
        with pytest.raises(TypeError):
            one + other  # type: ignore[operator]  # the point of the test


# -- findings ------------------------------------------------------------------------------------------------


def test_findings_have_words_and_no_truth_value() -> None:
    assumptions = LinearProfile(0.1, 0.5).check(radius=RADIUS, epsilon=EPSILON)
    for finding in findings(assumptions).values():
        with pytest.raises(TypeError, match="verdict"):
            bool(finding)
        assert finding.statement in str(finding)
        assert finding.verdict.value in str(finding)
        assert finding.reason
    assert str(assumptions).count("\n") == 5


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("epsilon", [0.5, 50.0])
def test_closed_form_profiles_decide_every_finding(name: str, epsilon: float) -> None:
    verdicts = {key: finding.verdict for key, finding in check(profile_named(name), epsilon=epsilon).items()}
    assert Verdict.NOT_REFUTED not in verdicts.values()
    not_applicable = {key for key, verdict in verdicts.items() if verdict is Verdict.NOT_APPLICABLE}
    assert not_applicable == ({"strongly_convex"} if name.startswith("gaussian") else set())
    assert verdicts["monotone"] is Verdict.PROVED


@pytest.mark.parametrize(
    "custom",
    [
        CustomProfile(bent),
        CustomProfile(bent, bent_derivative),
        CustomProfile(lambda w, z: w * (0.1 + z), lambda w, z: 0.1 + z, lambda z: np.square(0.1 + z)),
        CustomProfile(lambda w, z: np.full_like(w, 0.4), lambda w, z: np.zeros_like(w)),
        CustomProfile(lambda w, z: 3.0 - 2.0 / w),
    ],
    ids=["plain", "with a derivative", "with everything", "constant", "saturating"],
)
def test_a_custom_profile_is_never_proved_except_that_sampling_can_lower_it(custom: CustomProfile) -> None:
    for key, finding in check(custom).items():
        if key == "sampling_can_lower":
            assert finding.verdict in (Verdict.PROVED, Verdict.NOT_REFUTED)
        else:
            assert finding.verdict in (Verdict.REFUTED, Verdict.NOT_REFUTED)


@pytest.mark.parametrize("name", PURE)
def test_feasibility_is_decided_at_the_radius_and_at_equality(name: str) -> None:
    profile = profile_named(name)
    at_radius = float(profile(1.0, RADIUS))
    at = check(profile, epsilon=at_radius)["feasible"].verdict
    below = check(profile, epsilon=math.nextafter(at_radius, 0.0))["feasible"].verdict
    assert at in (Verdict.PROVED, Verdict.NOT_REFUTED)
    assert below is Verdict.REFUTED
    # What is feasible has a weight, what is not is refused.
    assert constrained_weight(profile, RADIUS, epsilon=at_radius) >= 1.0
    with pytest.raises(ValueError, match="epsilon"):
        constrained_weight(profile, RADIUS, epsilon=math.nextafter(at_radius, 0.0))


def test_gaussian_feasibility_is_that_of_the_exact_delta() -> None:
    profile = GaussianProfile(5.0, 7.0)
    delta = amplified_delta(EPSILON, float(profile(1.0, RADIUS)), 1.0)
    above = profile.check(radius=RADIUS, epsilon=EPSILON, delta=1.001 * delta)
    below = profile.check(radius=RADIUS, epsilon=EPSILON, delta=0.999 * delta)
    assert above.feasible.verdict is Verdict.PROVED
    assert below.feasible.verdict is Verdict.REFUTED


@pytest.mark.parametrize("scale", [1.0, 1e6])
def test_gaussian_noise_is_never_proved_feasible_at_delta_zero(scale: float) -> None:
    """Its exact delta is positive at every epsilon, also where a double cannot tell it from 0."""
    assert GaussianProfile(scale, scale).check(radius=1.0, epsilon=10.0).feasible.verdict is Verdict.REFUTED
    assert GaussianProfile(scale, scale).check(radius=1.0, epsilon=1e3).feasible.verdict is Verdict.REFUTED


def test_zero_loss_at_norm_zero_refutes_unbounded() -> None:
    assert check(LinearProfile(0.0, 0.5))["unbounded"].verdict is Verdict.REFUTED
    assert check(LinearProfile(0.1, 0.5))["unbounded"].verdict is Verdict.PROVED
    assert check(PowerProfile(0.1, 0.5, 0.0))["unbounded"].verdict is Verdict.REFUTED
    assert check(GaussianProfile(math.inf, 7.0))["unbounded"].verdict is Verdict.REFUTED
    assert check(GaussianProfile(5.0, 7.0))["unbounded"].verdict is Verdict.PROVED


def test_strong_convexity_of_the_power_family_is_that_of_the_second_derivative() -> None:
    """Against second differences of exp(loss) at norm 0, for powers below, at and above 1."""
    for power in (0.1, 0.3, 0.5, 0.8, 1.0, 1.5, 2.0):
        for loss in (0.05, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0):
            profile = PowerProfile(loss, 0.1, power)
            weight = 1.0 + np.array([0.0, 1e-3, 2e-3])
            value = np.exp(profile(weight, 0.0) - loss)
            curvature = float(value[0] - 2.0 * value[1] + value[2]) * 1e6
            # Positive at weight 1 is positive beyond: p t + p - 1 rises with t = loss w**p.
            if abs(power * loss + power - 1.0) > 0.02:
                expected = Verdict.PROVED if curvature > 0.0 else Verdict.REFUTED
                assert check(profile, epsilon=10.0)["strongly_convex"].verdict is expected


# -- custom profiles: refutations ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "function",
    [
        lambda w, z: 1.0 / w,
        lambda w, z: w * (RADIUS - z),
        lambda w, z: 1.0 + np.where(w > 1e5, -0.5, 0.0),
        lambda w, z: w * np.where(z > 0.9 * RADIUS, 0.1, 0.2),
    ],
    ids=["falls in the weight", "falls in the norm", "falls at a large weight", "falls near the radius"],
)
def test_decreasing_loss_refutes_monotone(function: Callable[[Floats, Floats], Floats]) -> None:
    assert check(CustomProfile(function))["monotone"].verdict is Verdict.REFUTED
    assert check(CustomProfile(bent))["monotone"].verdict is Verdict.NOT_REFUTED


# -- two profiles of one loss --------------------------------------------------------------------------------


def as_custom(profile: PureProfile, *, informed: bool) -> CustomProfile:
    """The same loss as a function, with or without what the family knows of itself."""
    if not informed:
        return CustomProfile(profile.loss)

    def derivative(weight: Floats, norm: Floats) -> Floats:
        slope = profile.derivative_at_one(norm)
        assert slope is not None
        return slope

    def constant(norm: Floats) -> Floats:
        log_constant = profile.log_convexity(norm)
        assert log_constant is not None
        return np.exp(log_constant)

    return CustomProfile(profile.loss, derivative, constant)


def contradictions(one: dict[str, Finding], other: dict[str, Finding]) -> list[str]:
    opposite = {Verdict.PROVED, Verdict.REFUTED}
    return [key for key in one if {one[key].verdict, other[key].verdict} == opposite]


@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(
    intercept=st.one_of(st.just(0.0), st.floats(1e-6, 20.0)),
    slope=st.one_of(st.just(0.0), st.floats(1e-6, 5.0)),
    power=st.sampled_from([1.0, 1.0, 0.0, 0.1, 0.3, 0.5, 0.9, 1.5, 2.0]),
    radius=st.floats(1e-3, 1e3),
    epsilon=st.floats(1e-3, 100.0),
    informed=st.booleans(),
)
def test_a_profile_and_the_same_loss_as_a_function_never_contradict_each_other(
    intercept: float, slope: float, power: float, radius: float, epsilon: float, informed: bool
) -> None:
    if intercept == slope == 0.0:
        slope = 1.0
    family = LinearProfile(intercept, slope) if power == 1.0 else PowerProfile(intercept, slope, power)
    # A constant that the family does not have cannot be handed over.
    constants = family.log_convexity(np.linspace(0.0, radius, 65))
    informed = informed and bool(np.all(np.isfinite(constants)) and np.max(constants) < 700.0)
    exact = findings(family.check(radius=radius, epsilon=epsilon))
    tried = findings(as_custom(family, informed=informed).check(radius=radius, epsilon=epsilon))
    assert contradictions(exact, tried) == []


def test_contradiction_check_can_fail() -> None:
    steep, flat = LinearProfile(0.1, 2.0), CustomProfile(lambda w, z: 0.5 / w)
    exact, tried = check(steep), check(flat)
    assert set(contradictions(exact, tried)) >= {"monotone", "sampling_never_lowers"}


# -- Appendix A, both directions -----------------------------------------------------------------------------


def sampled_loss(profile: Profile, probability: float, norm: float) -> float:
    return amplified_epsilon(float(profile(1.0 / probability, norm)), probability)


@pytest.mark.parametrize("intercept", [0.01, 0.1, 0.5])
def test_a_low_power_proves_that_sampling_lowers_the_loss_and_it_does(intercept: float) -> None:
    profile = PowerProfile(intercept, 0.05, 0.3)
    found = check(profile)
    assert found["sampling_can_lower"].verdict is Verdict.PROVED
    assert found["sampling_never_lowers"].verdict is Verdict.REFUTED
    assert sampled_loss(profile, 0.95, 0.0) < sampled_loss(profile, 1.0, 0.0) * (1.0 - 1e-3)
    as_function = check(as_custom(profile, informed=False))
    assert as_function["sampling_never_lowers"].verdict is Verdict.REFUTED
    told = CustomProfile(profile.loss, lambda w, z: 0.3 * w**-0.7 * profile(1.0, z))
    assert check(told)["sampling_can_lower"].verdict is Verdict.PROVED


@pytest.mark.parametrize("power", [1.0, 1.2, 3.0])
@pytest.mark.parametrize("intercept", [0.0, 0.1, 5.0])
def test_a_power_of_one_or_more_proves_that_sampling_never_lowers_the_loss_and_it_never_does(
    power: float, intercept: float
) -> None:
    profile = PowerProfile(intercept, 0.3, power)
    found = check(profile, epsilon=10.0)
    assert found["sampling_never_lowers"].verdict is Verdict.PROVED
    assert found["sampling_can_lower"].verdict is Verdict.REFUTED
    probability = np.geomspace(1e-3, 1.0, 300)
    for norm in (0.0, 0.1, 1.0, RADIUS):
        loss = amplified_epsilon(profile(1.0 / probability, norm), probability)
        assert np.all(loss >= loss[-1] * (1.0 - 1e-12))


@pytest.mark.parametrize("power", [0.05, 0.3, 0.5, 0.7, 0.9, 0.99])
def test_slope_at_one_decides_for_intermediate_powers(power: float) -> None:
    """Powers below 1: sampling lowers the loss near probability 1 iff p c < 1 - exp(-c), and then somewhere at all."""
    probability = np.r_[np.geomspace(1e-4, 0.9, 400), 1.0 - np.geomspace(1e-1, 1e-4, 400)]
    for loss in np.geomspace(0.01, 40.0, 60):
        slope = power * loss + math.expm1(-loss)
        if abs(slope) < 1e-2:
            continue
        profile = PowerProfile(float(loss), 0.0, power)
        found = check(profile, epsilon=100.0)
        falls = bool(np.any(amplified_epsilon(profile(1.0 / probability, 0.0), probability) < loss * (1.0 - 1e-9)))
        assert falls == (slope < 0.0)
        assert (found["sampling_can_lower"].verdict is Verdict.PROVED) == falls
        assert (found["sampling_never_lowers"].verdict is Verdict.PROVED) == (not falls)


@pytest.mark.parametrize("mu", [0.3, 3.0, 10.0])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_the_gaussian_answer_is_the_sign_of_the_change_of_delta(mu: float, epsilon: float) -> None:
    profile = GaussianProfile(math.inf, 1.0 / mu)
    here = amplified_delta(epsilon, mu, 1.0)
    step = 1.0 + 1e-4
    nearby = amplified_delta(epsilon, mu * step, 1.0 / step)
    verdict = profile.check(radius=1.0, epsilon=epsilon, delta=DELTA).sampling_can_lower.verdict
    assert abs(nearby / here - 1.0) > 1e-7
    assert verdict is (Verdict.PROVED if nearby < here else Verdict.REFUTED)
