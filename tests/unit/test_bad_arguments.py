"""Configured numbers and parts that cannot be used are refused by name, with an error of this package."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import pais
from pais import (
    ArgumentError,
    Ball,
    ConstrainedRule,
    CoresetRule,
    CustomProfile,
    FunctionRule,
    GaussianNoise,
    GaussianProfile,
    Joint,
    LinearProfile,
    LpNoise,
    MismatchError,
    NormDistribution,
    PaisError,
    Plan,
    PowerProfile,
    UniformRule,
    WeightedCount,
    WeightedMean,
    WeightedSum,
    calibrate,
    constrained_weight,
    laplace_noise,
    not_private_variance_optimal,
    release,
    sample,
    worst_case,
)
from tests.support.bad_values import BALL, CANARY, EVERY, GAUSSIAN, LINEAR, NORMS, each_refused, kept, refused

# -- configured numbers ----------------------------------------------------------------------------------------

NO_SCALARS: dict[str, object] = {
    "NaN": math.nan,
    "True": True,
    "False": False,
    "a string": "1",
    "None": None,
    "complex": 1 + 1j,
    "a list": [1.0],
    "an array": np.array([1.0]),
    "an object": object(),
}
# Numbers in disguise: what float() would make of them is not what was meant.
DISGUISED: dict[str, object] = {
    "numpy True": np.True_,
    "numpy complex": np.complex128(0.5 + 0.25j),
    "numpy string": np.str_("0.5"),
    "numpy bytes": np.bytes_(b"0.5"),
    "numpy date": np.datetime64(1, "D"),
    "numpy span": np.timedelta64(1, "D"),
    "beyond any float": 10**400,
    "a fraction beyond any float": Fraction(10**400, 3),
    "a decimal NaN": Decimal("nan"),
}
NOT_POSITIVE: dict[str, object] = {**NO_SCALARS, "zero": 0.0, "negative": -1.0, "infinite": math.inf}
NOT_POSITIVE_OR_INFINITE = {name: bad for name, bad in NOT_POSITIVE.items() if name != "infinite"}
NO_TARGET_DELTA: dict[str, object] = {
    **NO_SCALARS,
    "negative": -1e-300,
    "one": 1.0,
    "two": 2.0,
    "infinite": math.inf,
}
NO_SHARE: dict[str, object] = {**NO_SCALARS, "zero": 0.0, "negative": -0.1, "above one": math.nextafter(1.0, 2.0)}
NO_COUNT: dict[str, object] = {**NO_SCALARS, "zero": 0, "negative": -1, "a float": 2.0, "infinite": math.inf}
NO_ORDER: dict[str, object] = {**NO_SCALARS, "zero": 0.0, "below one": 0.999, "negative": -math.inf}
NO_RADIUS: dict[str, object] = {**NOT_POSITIVE, "1e200": 1e200, "1e-200": 1e-200}


def coreset(**changes: object) -> CoresetRule:
    facts: dict[str, object] = {"sample_size": 1.0, "n_rows": 10.0, "mean_square_norm": 1.0, "radius": 1.0}
    return CoresetRule(**(facts | changes))


CONFIGURED: dict[str, tuple[dict[str, object], Callable[[object], object]]] = {
    # epsilon
    "epsilon of constrained_weight": (NOT_POSITIVE, lambda bad: constrained_weight(LINEAR, 0.5, epsilon=bad)),
    "epsilon of ConstrainedRule": (
        NOT_POSITIVE,
        lambda bad: ConstrainedRule(profile=LINEAR, radius=1.0, epsilon=bad),
    ),
    "epsilon of calibrate": (
        {name: bad for name, bad in NOT_POSITIVE.items() if name != "None"},
        lambda bad: calibrate("uniform", LINEAR, NORMS, epsilon=bad, noise=1.0),
    ),
    "max_epsilon_if_kept of calibrate": (
        {name: bad for name, bad in NOT_POSITIVE.items() if name != "None"},
        lambda bad: calibrate("uniform", LINEAR, NORMS, epsilon=1.0, sample_size=10.0, max_epsilon_if_kept=bad),
    ),
    "epsilon of check": (NOT_POSITIVE, lambda bad: LINEAR.check(radius=1.0, epsilon=bad)),
    "epsilon of a Gaussian check": (NOT_POSITIVE, lambda bad: GAUSSIAN.check(radius=1.0, epsilon=bad, delta=1e-6)),
    "epsilon of a custom check": (
        NOT_POSITIVE,
        lambda bad: CustomProfile(lambda w, z: w * z).check(radius=1.0, epsilon=bad),
    ),
    "epsilon of Plan": (
        NOT_POSITIVE,
        lambda bad: Plan(ball=BALL, rule=EVERY, mechanism=WeightedCount(noise=laplace_noise(1.0)), epsilon=bad),
    ),
    "epsilon of release": (
        {name: bad for name, bad in NOT_POSITIVE.items() if name != "None"},
        lambda bad: release(WeightedCount(noise=laplace_noise(1.0)), kept(), epsilon=bad),
    ),
    "epsilon of worst_case": (
        {name: bad for name, bad in NOT_POSITIVE.items() if name not in ("None", "zero")},
        lambda bad: worst_case(EVERY, GAUSSIAN, radius=1.0, epsilon=bad),
    ),
    # delta
    "delta of constrained_weight": (
        NO_TARGET_DELTA,
        lambda bad: constrained_weight(GAUSSIAN, 0.5, epsilon=1.0, delta=bad),
    ),
    "delta of ConstrainedRule": (
        NO_TARGET_DELTA,
        lambda bad: ConstrainedRule(profile=GAUSSIAN, radius=1.0, epsilon=1.0, delta=bad),
    ),
    "delta of calibrate": (
        NO_TARGET_DELTA,
        lambda bad: calibrate("uniform", GAUSSIAN, NORMS, epsilon=1.0, delta=bad, noise=1.0),
    ),
    "delta of check": (NO_TARGET_DELTA, lambda bad: GAUSSIAN.check(radius=1.0, epsilon=1.0, delta=bad)),
    "delta of a pure check": (NO_TARGET_DELTA, lambda bad: LINEAR.check(radius=1.0, epsilon=1.0, delta=bad)),
    "delta of release": (
        NO_TARGET_DELTA,
        lambda bad: release(WeightedCount(noise=GaussianNoise(scale=1.0)), kept(), delta=bad),
    ),
    "delta of worst_case": (
        {name: bad for name, bad in NO_TARGET_DELTA.items() if name != "None"},
        lambda bad: worst_case(EVERY, GAUSSIAN, radius=1.0, delta=bad),
    ),
    # probabilities and shares
    "rate of UniformRule": (NO_SHARE, lambda bad: UniformRule(rate=bad)),
    "uniform_share of CoresetRule": (NO_SHARE, lambda bad: coreset(uniform_share=bad)),
    # sizes
    "sample_size of CoresetRule": (NOT_POSITIVE, lambda bad: coreset(sample_size=bad)),
    "n_rows of CoresetRule": (NOT_POSITIVE, lambda bad: coreset(n_rows=bad)),
    "mean_square_norm of CoresetRule": (NOT_POSITIVE, lambda bad: coreset(mean_square_norm=bad)),
    "sample_size of UniformRule": (NOT_POSITIVE, lambda bad: UniformRule.of_size(bad, n_rows=10.0)),
    "n_rows of UniformRule": (NOT_POSITIVE, lambda bad: UniformRule.of_size(1.0, n_rows=bad)),
    "sample_size of the oracle": (NOT_POSITIVE, lambda bad: not_private_variance_optimal([1.0], sample_size=bad)),
    "sample_size of calibrate": (
        {name: bad for name, bad in NOT_POSITIVE.items() if name != "None"},
        lambda bad: calibrate("uniform", LINEAR, NORMS, epsilon=1.0, sample_size=bad),
    ),
    "n_rows of from_quantiles": (
        NOT_POSITIVE,
        lambda bad: NormDistribution.from_quantiles(lambda u: u, n_rows=bad, radius=1.0),
    ),
    "n_knots of ConstrainedRule": (
        NO_COUNT,
        lambda bad: ConstrainedRule(profile=LINEAR, radius=1.0, epsilon=1.0, n_knots=bad),
    ),
    "n_knots of FunctionRule": (
        NO_COUNT,
        lambda bad: FunctionRule(function=lambda z: 0.5 + 0.0 * z, radius=1.0, n_knots=bad),
    ),
    "n_iterations of GaussianProfile": (NO_COUNT, lambda bad: GaussianProfile(1.0, 1.0, bad)),
    # noise
    "noise of with_noise": (NOT_POSITIVE, lambda bad: LINEAR.with_noise(bad)),
    "noise of calibrate": (
        {name: bad for name, bad in NOT_POSITIVE.items() if name != "None"},
        lambda bad: calibrate("uniform", LINEAR, NORMS, epsilon=1.0, noise=bad),
    ),
    "scale of LpNoise": (NOT_POSITIVE, lambda bad: LpNoise(scale=bad)),
    "scale of laplace_noise": (NOT_POSITIVE, laplace_noise),
    "scale of GaussianNoise": (NOT_POSITIVE, lambda bad: GaussianNoise(scale=bad)),
    "count_scale of GaussianProfile": (NOT_POSITIVE_OR_INFINITE, lambda bad: GaussianProfile(bad, 1.0)),
    "sum_scale of GaussianProfile": (NOT_POSITIVE_OR_INFINITE, lambda bad: GaussianProfile(1.0, bad)),
    "square_scale of GaussianProfile": (NOT_POSITIVE_OR_INFINITE, lambda bad: GaussianProfile(1.0, 1.0, 1, bad)),
    "intercept of LinearProfile": (
        {name: bad for name, bad in NOT_POSITIVE.items() if name != "zero"},
        lambda bad: LinearProfile(bad, 1.0),
    ),
    "slope of LinearProfile": (
        {name: bad for name, bad in NOT_POSITIVE.items() if name != "zero"},
        lambda bad: LinearProfile(1.0, bad),
    ),
    "power of PowerProfile": (
        {name: bad for name, bad in NOT_POSITIVE.items() if name != "zero"},
        lambda bad: PowerProfile(1.0, 1.0, bad),
    ),
    # balls
    "order of Ball": (NO_ORDER, lambda bad: Ball(radius=1.0, order=bad)),
    "order of LpNoise": (NO_ORDER, lambda bad: LpNoise(scale=1.0, p=bad)),
    "radius of Ball": (NO_RADIUS, lambda bad: Ball(radius=bad)),
    "radius of CoresetRule": (NOT_POSITIVE, lambda bad: coreset(radius=bad)),
    "radius of ConstrainedRule": (NOT_POSITIVE, lambda bad: ConstrainedRule(profile=LINEAR, radius=bad, epsilon=1.0)),
    "radius of FunctionRule": (
        NOT_POSITIVE,
        lambda bad: FunctionRule(function=lambda z: 0.5 + 0.0 * z, radius=bad),
    ),
    "radius of UniformRule": (NOT_POSITIVE_OR_INFINITE, lambda bad: UniformRule(rate=0.5, radius=bad)),
    "radius of NormDistribution": (
        NOT_POSITIVE,
        lambda bad: NormDistribution(norms=np.ones(1), masses=np.ones(1), radius=bad),
    ),
    "radius of from_private_norms": (NOT_POSITIVE, lambda bad: NormDistribution.from_private_norms([1.0], radius=bad)),
    "radius of worst_case": (NOT_POSITIVE, lambda bad: worst_case(EVERY, LINEAR, radius=bad)),
    "radius of check": (NOT_POSITIVE, lambda bad: LINEAR.check(radius=bad, epsilon=1.0)),
    "tolerance of worst_case": (NOT_POSITIVE, lambda bad: worst_case(EVERY, LINEAR, radius=1.0, tolerance=bad)),
}


@pytest.mark.parametrize("name", CONFIGURED)
def test_configured_number_out_of_range_is_refused_by_name(name: str) -> None:
    values, call = CONFIGURED[name]
    each_refused(ArgumentError, call, values, match=name.split(" ")[0])


@pytest.mark.parametrize(
    "call",
    [
        lambda bad: constrained_weight(LINEAR, 0.5, epsilon=bad),
        lambda bad: UniformRule(rate=bad),
        lambda bad: LpNoise(scale=bad),
        lambda bad: GAUSSIAN.check(radius=1.0, epsilon=1.0, delta=bad),
        lambda bad: Ball(radius=bad),
    ],
    ids=["epsilon", "rate", "scale", "delta", "radius"],
)
def test_booleans_text_and_complex_numbers_are_refused_and_not_converted(call: Callable[[object], object]) -> None:
    each_refused(ArgumentError, call, DISGUISED)


def test_numbers_of_other_numeric_types_are_accepted() -> None:
    for one in (1, 1.0, np.float32(1.0), np.float64(1.0), np.int8(1), np.uint64(1), Fraction(1, 1), Decimal(1)):
        assert constrained_weight(LINEAR, 0.5, epsilon=one) == constrained_weight(LINEAR, 0.5, epsilon=1.0)
        assert LpNoise(scale=one).scale == 1.0
        assert Ball(radius=one).radius == 1.0


@pytest.mark.parametrize(
    "bad",
    [
        [[0.0, 1.0]],
        [],
        5.0,
        [CANARY, math.nan],
        [CANARY, math.inf],
        ["1234.5678"],
        "1234.5678",
        [CANARY, None],
        [CANARY + 1j],
        [[CANARY], [1.0, 2.0]],
    ],
    ids=["a table", "empty", "a number", "NaN", "infinity", "strings", "a string", "None", "complex", "ragged"],
)
def test_bad_centers_are_refused(bad: object) -> None:
    refused(ArgumentError, lambda: Ball(radius=1.0, center=bad), match="center")


@pytest.mark.parametrize("radius", [1e200, 1e300, 1e-200, 1e-310])
@pytest.mark.parametrize(
    "make",
    [
        lambda radius: coreset(radius=radius),
        lambda radius: coreset(radius=radius, mean_square_norm=1e300),
        lambda radius: ConstrainedRule(profile=LINEAR, radius=radius, epsilon=1.0, n_knots=8),
        lambda radius: ConstrainedRule(profile=GAUSSIAN, radius=radius, epsilon=1.0, delta=1e-6, n_knots=8),
        lambda radius: FunctionRule(function=lambda z: 0.5 + 0.0 * z, radius=radius, n_knots=8),
        lambda radius: UniformRule(rate=0.5, radius=radius),
    ],
    ids=["coreset", "coreset of large norms", "constrained", "constrained Gaussian", "function", "uniform"],
)
def test_rule_with_an_extreme_radius_works_or_is_refused(make: Callable[[float], pais.Rule], radius: float) -> None:
    try:
        rule = make(radius)
    except PaisError:
        return
    probability = rule.probability(np.array([0.0, 0.3, 1.0]) * radius)
    assert np.all((probability > 0.0) & (probability <= 1.0))


def test_norms_of_an_absurd_radius_have_a_mean_square_or_are_refused() -> None:
    try:
        norms = NormDistribution(norms=np.array([1e200]), masses=np.ones(1), radius=1e200)
    except PaisError:
        return
    assert math.isfinite(norms.mean_square_norm)


@pytest.mark.parametrize(
    "bad",
    [-1, "seed", 1.5, True, [1, 2], np.array([1]), b"seed", math.nan, object()],
    ids=lambda bad: type(bad).__name__,
)
def test_bad_random_state_is_refused_and_not_shown(bad: object) -> None:
    refused(
        ArgumentError, lambda: sample(np.ones((3, 2)), ball=BALL, rule=EVERY, random_state=bad), match="random_state"
    )
    waiting = kept()
    mechanism = WeightedCount(noise=laplace_noise(1.0))
    refused(ArgumentError, lambda: release(mechanism, waiting, random_state=bad), match="random_state")
    assert not waiting.spent
    # A seed is a secret of the data owner, however wrong.
    error = refused(ArgumentError, lambda: sample(np.ones((3, 2)), ball=BALL, rule=EVERY, random_state=-987654321))
    assert "987654321" not in str(error)


@pytest.mark.parametrize("bad", ["Pass", "", "fast", None, 3, ("pass",), ["thin"]], ids=repr)
def test_an_unknown_strategy_is_refused(bad: object) -> None:
    table = np.full((3, 2), CANARY)
    refused(ArgumentError, lambda: sample(table, ball=BALL, rule=EVERY, strategy=bad), match="strategy")


@pytest.mark.parametrize("bad", ["Uniform", "", "all", None, 3, ("uniform",)], ids=repr)
def test_an_unknown_sampling_is_refused(bad: object) -> None:
    refused(ArgumentError, lambda: calibrate(bad, LINEAR, NORMS, epsilon=1.0), match="sampling")


def test_calibrate_needs_two_values_or_epsilon_alone() -> None:
    for given in [{}, {"noise": 1.0}, {"sample_size": 5.0}, {"epsilon": 1.0, "noise": 1.0, "sample_size": 5.0}]:
        refused(ArgumentError, lambda given=given: calibrate("uniform", LINEAR, NORMS, **given), match="given")


# -- parts in wrong places -------------------------------------------------------------------------------------

COUNT = WeightedCount(noise=laplace_noise(1.0))
MISPLACED: dict[str, Callable[[], object]] = {
    "a function for a rule": lambda: sample(np.full((3, 2), CANARY), ball=BALL, rule=lambda z: 0.5),
    "a number for a ball": lambda: sample(np.full((3, 2), CANARY), ball=1.0, rule=EVERY),
    "None for a ball": lambda: sample(np.full((3, 2), CANARY), ball=None, rule=EVERY),
    "rows for a sample": lambda: release(COUNT, np.full((3, 2), CANARY)),
    "a string for a mechanism": lambda: release("count", kept()),
    "a noise law for a mechanism": lambda: release(laplace_noise(1.0), kept()),
    "a mechanism for its parts": lambda: Joint(parts=COUNT),
    "a string among the parts": lambda: Joint(parts=(COUNT, "sum")),
    "a number for a noise law": lambda: WeightedCount(noise=1.0).profile,
    "a number for a noise law of a sum": lambda: release(WeightedSum(noise=1.0), kept()),
    "a number for a noise law of a mean": lambda: WeightedMean(count_noise=1.0, sum_noise=laplace_noise(1.0)).profile,
    "a number for a ball of a plan": lambda: Plan(ball=1.0, rule=EVERY, mechanism=COUNT, epsilon=1.0),
    "a mechanism for a rule of a plan": lambda: Plan(ball=BALL, rule=COUNT, mechanism=COUNT, epsilon=1.0),
    "an array for norms": lambda: calibrate("uniform", LINEAR, np.array([CANARY]), epsilon=1.0),
    "a mechanism for a profile": lambda: calibrate("uniform", COUNT, NORMS, epsilon=1.0),
    "a mechanism for a profile of a rule": lambda: ConstrainedRule(profile=COUNT, radius=1.0, epsilon=1.0),
    "a mechanism for a profile of a weight": lambda: constrained_weight(COUNT, CANARY, epsilon=1.0),
    "a mechanism for a profile of a worst case": lambda: worst_case(EVERY, COUNT, radius=1.0),
    "a function for a rule of a worst case": lambda: worst_case(lambda z: 0.5, LINEAR, radius=1.0),
    "a number for a function of a rule": lambda: FunctionRule(function=0.5, radius=1.0),
    "rows for a plan": lambda: pais.run(np.full((3, 2), CANARY), np.full((3, 2), CANARY)),
}


@pytest.mark.parametrize("call", MISPLACED.values(), ids=MISPLACED)
def test_argument_of_the_wrong_class_is_refused(call: Callable[[], object]) -> None:
    error = refused(PaisError, call)
    assert isinstance(error, (ArgumentError, MismatchError))


def test_parts_made_for_different_balls_or_kinds_are_refused() -> None:
    small = CoresetRule(sample_size=1.0, n_rows=10.0, mean_square_norm=1.0, radius=1.0)
    table = np.full((3, 2), CANARY)
    refused(MismatchError, lambda: sample(table, ball=Ball(radius=1.5), rule=small), match="radius")
    refused(MismatchError, lambda: worst_case(small, LINEAR, radius=1.5), match="radius")
    refused(MismatchError, lambda: worst_case(EVERY, GAUSSIAN, radius=1.0, delta=0.0), match="delta")
    refused(MismatchError, lambda: constrained_weight(GAUSSIAN, CANARY, epsilon=1.0), match="delta")
    refused(MismatchError, lambda: ConstrainedRule(profile=GAUSSIAN, radius=1.0, epsilon=1.0), match="delta")
    refused(MismatchError, lambda: calibrate("uniform", GAUSSIAN, NORMS, epsilon=1.0), match="delta")
    refused(MismatchError, lambda: calibrate("uniform", LINEAR, NORMS, epsilon=1.0, delta=1e-6), match="delta")
    refused(ArgumentError, lambda: worst_case(EVERY, GAUSSIAN, radius=1.0), match="exactly one")
    refused(
        ArgumentError, lambda: worst_case(EVERY, GAUSSIAN, radius=1.0, epsilon=1.0, delta=1e-6), match="exactly one"
    )
    refused(ArgumentError, lambda: worst_case(EVERY, LINEAR, radius=1.0, epsilon=1.0), match="epsilon")
    refused(ArgumentError, lambda: GaussianProfile(math.inf, math.inf), match="infinite")
    refused(ArgumentError, lambda: LinearProfile(0.0, 0.0), match="0")
    refused(ArgumentError, lambda: NORMS.expected_size(small), match="radius")
