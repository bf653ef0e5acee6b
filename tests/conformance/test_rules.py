"""Every rule through one suite: a public function from a norm to a probability, with valid bounds."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from pais import (
    ArgumentError,
    ConstrainedRule,
    CoresetRule,
    CustomProfile,
    FunctionRule,
    GaussianProfile,
    LinearProfile,
    PowerProfile,
    Rule,
    UniformRule,
    amplified_epsilon,
    worst_case,
)

Floats = NDArray[np.float64]

RADIUS = 3.0
ULP = 2.0**-52

# What a certified worst case adds to the bounds of a rule for the roundings of its look-up.
LOOKUP_ULPS = 16


def wavy(norm: Floats) -> Floats:
    return np.asarray(0.3 + 0.25 * np.sin(4.0 * norm))


def falling(norm: Floats) -> Floats:
    return np.asarray(np.exp(-2.0 * norm))


def at_one_knot(inside: float, outside: float, knot: int = 1000, n_knots: int = 1024) -> FunctionRule:
    """A function that takes one value at one knot and another at all others: as steep as a table can be."""

    def function(norm: Floats) -> Floats:
        return np.where(np.arange(norm.size) == knot, inside, outside)

    return FunctionRule(function=function, radius=RADIUS, n_knots=n_knots)


def saturating(weight: Floats, norm: Floats) -> Floats:
    return np.asarray(0.05 * weight * (0.2 + np.square(norm)) / (1.0 + np.square(norm)))


RULES: dict[str, Callable[[], Rule]] = {
    "uniform": lambda: UniformRule(rate=0.3),
    "uniform on a ball": lambda: UniformRule(rate=1.0, radius=RADIUS),
    "coreset": lambda: CoresetRule(sample_size=50.0, n_rows=1000.0, mean_square_norm=2.0, radius=RADIUS),
    "coreset at its largest": lambda: CoresetRule(
        sample_size=1000.0 / (0.1 + 0.9 * RADIUS**2 / 2.0),
        n_rows=1000.0,
        mean_square_norm=2.0,
        radius=RADIUS,
        uniform_share=0.1,
    ),
    "constrained linear": lambda: ConstrainedRule(profile=LinearProfile(0.02, 0.1), radius=RADIUS, epsilon=1.0),
    "constrained linear, tight": lambda: ConstrainedRule(profile=LinearProfile(0.0, 0.5), radius=RADIUS, epsilon=1.5),
    "constrained linear, few knots": lambda: ConstrainedRule(
        profile=LinearProfile(1e-6, 0.3), radius=RADIUS, epsilon=1.0, n_knots=7
    ),
    "constrained power": lambda: ConstrainedRule(profile=PowerProfile(0.05, 0.1, 1.5), radius=RADIUS, epsilon=1.0),
    "constrained low power": lambda: ConstrainedRule(profile=PowerProfile(0.05, 0.2, 0.5), radius=RADIUS, epsilon=1.0),
    "constrained power, free at norm 0": lambda: ConstrainedRule(
        profile=PowerProfile(0.0, 0.2, 1.5), radius=RADIUS, epsilon=1.0
    ),
    "constrained custom": lambda: ConstrainedRule(
        profile=CustomProfile(saturating), radius=RADIUS, epsilon=1.0, n_knots=257
    ),
    "constrained gaussian": lambda: ConstrainedRule(
        profile=GaussianProfile(15.0, 18.0), radius=RADIUS, epsilon=1.0, delta=1e-6
    ),
    "constrained gaussian, no count": lambda: ConstrainedRule(
        profile=GaussianProfile(math.inf, 24.0, 2), radius=RADIUS, epsilon=1.0, delta=1e-6, n_knots=100
    ),
    "function, wavy": lambda: FunctionRule(function=wavy, radius=RADIUS),
    "function, falling": lambda: FunctionRule(function=falling, radius=RADIUS, n_knots=33),
    "function, one step": lambda: FunctionRule(function=falling, radius=RADIUS, n_knots=1),
    "function, a spike at a knot": lambda: at_one_knot(0.9, 0.1),
    "function, a dip at a knot": lambda: at_one_knot(1e-6, 0.5),
}
CONSTRAINED = [name for name in RULES if name.startswith("constrained")]
FINITE = [name for name in RULES if name != "uniform"]


@functools.cache
def rule_named(name: str) -> Rule:
    return RULES[name]()


def norms_to_try(rule: Rule, seed: int = 0, n: int = 20_000) -> Floats:
    """Norms all over the ball; the breakpoints, and their neighbours by a few ulps, where look-ups go wrong."""
    rng = np.random.default_rng(seed)
    points = rule.breakpoints(RADIUS)
    nearby = points[:, None] * (1.0 + np.arange(-8, 9) * ULP / 2.0)
    tiny = np.array([5e-324, 1e-300, 1e-12])
    return np.minimum(np.concatenate([rng.uniform(0.0, RADIUS, n), points, nearby.ravel(), tiny]), RADIUS)


@pytest.fixture(params=RULES)
def rule(request: pytest.FixtureRequest) -> Rule:
    return rule_named(request.param)


def test_probabilities_lie_above_zero_and_at_most_at_one_on_the_whole_ball(rule: Rule) -> None:
    probability = rule.probability(norms_to_try(rule))
    assert probability.dtype == np.float64
    assert np.all(probability > 0.0)
    assert np.all(probability <= 1.0)


def test_the_shape_of_the_norms_is_the_shape_of_the_probabilities(rule: Rule) -> None:
    norms = np.linspace(0.0, RADIUS, 24)
    flat = rule.probability(norms)
    assert flat.shape == (24,)
    assert np.array_equal(rule.probability(norms.reshape(2, 3, 4)), flat.reshape(2, 3, 4))
    assert np.array_equal(rule.probability(norms.tolist()), flat)
    assert np.shape(rule.probability(RADIUS)) == ()
    assert float(rule.probability(RADIUS)) == flat[-1]
    assert rule.probability([]).shape == (0,)
    # Whole norms are numbers too.
    assert np.array_equal(rule.probability([0, 1, 2]), rule.probability([0.0, 1.0, 2.0]))


@pytest.mark.parametrize("name", FINITE)
def test_norms_beyond_the_radius_are_refused_and_not_clipped(name: str) -> None:
    rule = rule_named(name)
    assert rule.radius == RADIUS
    for beyond in (math.nextafter(RADIUS, math.inf), 2.0 * RADIUS, 1e300):
        with pytest.raises(ArgumentError, match="radius") as caught:
            rule.probability([0.1, beyond])
        assert repr(beyond) not in str(caught.value)
    assert np.all(rule.probability([0.0, RADIUS]) > 0.0)


def test_bounds_bracket_the_probability_on_every_cell_between_breakpoints(rule: Rule) -> None:
    rng = np.random.default_rng(2)
    points = rule.breakpoints(RADIUS)
    assert points[0] == 0.0
    assert points[-1] == RADIUS
    assert np.all(np.diff(points) > 0.0)
    # The last, the first and random cells; and those next to the steepest places.
    steep = np.argsort(-np.abs(np.diff(rule.evaluate(points))))[:3]
    cells = np.unique(
        np.concatenate([rng.integers(0, points.size - 1, 60), steep, steep - 1, steep + 1, [0, points.size - 2]])
    )
    cells = cells[(cells >= 0) & (cells < points.size - 1)]
    for cell in cells:
        inner = np.sort(rng.uniform(points[cell], points[cell + 1], 2))
        for low, high in [(points[cell], points[cell + 1]), (inner[0], inner[1]), (inner[0], points[cell + 1])]:
            norms = low + (high - low) * (1.0 - rng.random(1000))
            edges = np.r_[high * (1.0 - np.arange(9) * ULP / 2.0), low + (high - low) * 2.0 ** -np.arange(50.0)]
            norms = np.concatenate([norms, edges])
            norms = norms[(norms > low) & (norms <= high)]
            smallest, largest = rule.bounds(np.array([low]), np.array([high]))
            probability = rule.probability(norms)
            assert np.min(probability) >= smallest[0] * (1.0 - LOOKUP_ULPS * ULP)
            assert np.max(probability) <= largest[0] * (1.0 + LOOKUP_ULPS * ULP)
            # A bracket of (0, 1] would prove nothing: both ends are attained, but for rounding.
            assert smallest[0] >= np.min(np.r_[probability, rule.evaluate(np.array([low]))]) * (1.0 - 1e-9)
            assert largest[0] <= np.max(np.r_[probability, rule.evaluate(np.array([low]))]) * (1.0 + 1e-9)


@pytest.mark.parametrize("share", [1.0, 0.61, 0.1])
def test_the_largest_probability_is_an_upper_bound_and_attained(rule: Rule, share: float) -> None:
    radius = share * RADIUS
    norms = norms_to_try(rule, seed=3)
    norms = np.r_[norms[norms <= radius], radius]
    probability = rule.probability(norms)
    largest = rule.largest_probability(radius)
    assert isinstance(largest, float)
    assert np.all(probability <= largest)
    assert np.max(probability) >= largest * (1.0 - 1e-9)


def test_breakpoints_of_a_smaller_ball_end_at_its_radius(rule: Rule) -> None:
    for radius in (RADIUS, 0.5 * RADIUS, 1e-3):
        points = rule.breakpoints(radius)
        assert points[0] == 0.0
        assert points[-1] == radius
        assert np.all(np.diff(points) > 0.0)
        assert set(points[:-1].tolist()) <= set(rule.breakpoints(RADIUS).tolist())


@pytest.mark.parametrize("name", CONSTRAINED)
def test_a_constrained_rule_never_keeps_a_larger_norm_less_often(name: str) -> None:
    rule = rule_named(name)
    norms = np.sort(norms_to_try(rule, seed=4, n=100_000))
    probability = rule.probability(norms)
    # To the last bit at the knots of a table; between them to the rounding of the interpolation.
    steps = rule.probability(rule.breakpoints(RADIUS))
    assert np.all(np.diff(steps) >= 0.0)
    assert np.all(probability[1:] >= probability[:-1] * (1.0 - 2 * ULP))
    assert probability[-1] > 1.5 * probability[0]


@pytest.mark.parametrize("n_knots", [1, 2, 3, 5, 17, 100])
def test_a_function_rule_is_the_chord_between_its_knots(n_knots: int) -> None:
    rule = FunctionRule(function=wavy, radius=RADIUS, n_knots=n_knots)
    knots = rule.breakpoints(RADIUS)
    assert knots.size == n_knots + 1
    norms = np.linspace(0.0, RADIUS, 1001)
    assert np.allclose(rule.probability(norms), np.interp(norms, knots, wavy(knots)), rtol=1e-12, atol=0.0)
    # It is not the function itself, unless the knots are dense.
    assert (np.max(np.abs(rule.probability(norms) - wavy(norms))) > 1e-3) == (n_knots < 100)


@pytest.mark.parametrize(("inside", "outside"), [(1e-12, 1.0), (1e-6, 0.5), (0.9, 0.1)], ids=["pit", "dip", "spike"])
@pytest.mark.parametrize("knot", [1, 511, 1000, 1023])
def test_no_norm_next_to_a_knot_loses_more_than_the_certified_worst_case(
    inside: float, outside: float, knot: int
) -> None:
    """The norm is rounded when a table is read; what is certified must hold for the probability really used."""
    rule = at_one_knot(inside, outside, knot=knot)
    centre = rule.breakpoints(RADIUS)[knot]
    norms = np.minimum(centre * (1.0 + np.arange(-64, 65) * ULP / 2.0), RADIUS)
    probability = rule.probability(norms)
    profile = LinearProfile(30.0 * min(inside, outside), 0.0)
    loss = amplified_epsilon(profile(1.0 / probability, norms), probability)
    certified = worst_case(rule, profile, radius=RADIUS)
    assert np.max(loss) <= certified.upper
    # And it is a bound worth having.
    assert certified.upper <= float(amplified_epsilon(30.0, min(inside, outside))) * (1.0 + 1e-9)


def test_the_coreset_rule_is_its_formula() -> None:
    rule = CoresetRule(sample_size=40.0, n_rows=1000.0, mean_square_norm=2.0, radius=RADIUS, uniform_share=0.25)
    norms = np.linspace(0.0, RADIUS, 50)
    assert np.allclose(rule.probability(norms), 0.04 * (0.25 + 0.75 * norms**2 / 2.0), rtol=1e-14, atol=0.0)
    uniform = CoresetRule(sample_size=40.0, n_rows=1000.0, mean_square_norm=2.0, radius=RADIUS, uniform_share=1.0)
    assert np.array_equal(uniform.probability(norms), UniformRule(rate=0.04).probability(norms))


def test_only_a_rate_of_one_keeps_all_rows() -> None:
    assert UniformRule(rate=1.0).keeps_all
    assert not UniformRule(rate=1.0 - 2.0**-53).keeps_all


def test_a_subclass_with_other_probabilities_is_neither_linear_nor_continuous_unless_it_says_so() -> None:
    class Stepped(UniformRule):
        def evaluate(self, norm: NDArray[np.float64]) -> NDArray[np.float64]:
            return np.where(norm < 0.5, 0.25, 0.75)

    assert not Stepped(rate=0.5).linear_between_breakpoints
    assert not Stepped(rate=0.5).continuous
