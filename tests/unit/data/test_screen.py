"""A screen changes the time of a pass and nothing else: it never rules out a row that could be kept."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from pais import Ball, ConstrainedRule, CoresetRule, FunctionRule, GaussianProfile, LinearProfile, Rule, UniformRule
from pais.data.engines.blocks import Screen

RADIUS = 3.0


def jagged(norm: np.ndarray) -> np.ndarray:
    return np.where(norm < 1.0, 0.9, np.where(norm < 2.0, 0.01, 0.3 + 0.1 * np.sin(40.0 * norm)))


RULES: dict[str, Rule] = {
    "uniform": UniformRule(rate=0.3),
    "everything": UniformRule(rate=1.0),
    "coreset": CoresetRule(sample_size=50.0, n_rows=1000.0, mean_square_norm=2.0, radius=RADIUS),
    "constrained": ConstrainedRule(profile=LinearProfile(0.01, 0.3), radius=RADIUS, epsilon=1.0),
    "by steps": ConstrainedRule(profile=GaussianProfile(20.0, 20.0), radius=RADIUS, epsilon=1.0, delta=1e-6),
    "few knots": ConstrainedRule(profile=LinearProfile(0.01, 0.3), radius=RADIUS, epsilon=1.0, n_knots=3),
    "jagged": FunctionRule(function=jagged, radius=RADIUS, n_knots=500),
}


def ruled_out_in_error(rule: Rule, ball: Ball, d: int, norms: np.ndarray) -> int:
    """Rows with the largest first bits they can be kept with, which the screen does not let pass."""
    screen = Screen(rule=rule, ball=ball, n_features=d)
    inside = np.minimum(norms, ball.radius)
    most = np.minimum(np.floor(rule.evaluate(inside) * 256.0), 255.0).astype(np.uint8)
    wrong = 0
    # A power added up in another order lies a few ulps away.
    for ulps in (-d, 0, d):
        power = norms**2 if ball.order == 2.0 else norms.copy()
        power *= 1.0 + ulps * np.finfo(float).eps
        wrong += len(norms) - screen.by_power(power, most).size
    return wrong + len(norms) - screen.by_bits(most).size


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("order", [1.0, 2.0])
def test_screen_never_rules_out_a_row_that_could_be_kept(name: str, order: float) -> None:
    rng = np.random.default_rng(0)
    knots = RULES[name].breakpoints(RADIUS)
    edges = np.sqrt((np.arange(2047 << 3, dtype=np.int64) << 49).view(np.float64))
    edges = edges[(edges > 1e-6) & (edges < 2 * RADIUS)]
    norms = np.concatenate(
        [
            rng.uniform(0.0, RADIUS, 20_000),
            RADIUS * rng.uniform(size=5_000) ** 8,
            *(np.nextafter(np.concatenate([knots, edges]), side) for side in (0.0, math.inf)),
            knots,
            edges,
            [0.0, RADIUS, 2.0 * RADIUS, 1e100],
        ]
    )
    for d in (1, 16, 1000):
        assert ruled_out_in_error(RULES[name], Ball(radius=RADIUS, order=order), d, norms) == 0


@settings(max_examples=60, deadline=None)
@given(
    radius=st.floats(1e-90, 1e90),
    values=st.lists(st.floats(1e-6, 1.0), min_size=2, max_size=12),
    shares=st.lists(st.floats(0.0, 1.0), min_size=1, max_size=50),
)
def test_any_rule_on_any_ball_is_screened_safely(radius: float, values: list[float], shares: list[float]) -> None:
    heights = np.array(values)

    def steps(norm: np.ndarray) -> np.ndarray:
        return heights[np.minimum((norm / radius * heights.size).astype(int), heights.size - 1)]

    rule = FunctionRule(function=steps, radius=radius, n_knots=64)
    assert ruled_out_in_error(rule, Ball(radius=radius), 8, radius * np.array(shares)) == 0


@pytest.mark.parametrize("name", ["coreset", "constrained", "by steps"])
def test_a_screen_rules_most_rows_out_where_the_rule_is_low(name: str) -> None:
    rng = np.random.default_rng(1)
    norms = rng.uniform(0.0, 0.3 * RADIUS, 20_000)
    screen = Screen(rule=RULES[name], ball=Ball(radius=RADIUS), n_features=4)
    first = rng.integers(0, 256, norms.size).astype(np.uint8)
    expected = float(RULES[name].evaluate(norms).mean())
    assert screen.by_power(norms**2, first).size / norms.size < 1.3 * expected + 3 / 256


def test_shifted_screen_table_fails_the_check() -> None:
    """The checks above can fail."""
    rule, ball = RULES["constrained"], Ball(radius=RADIUS)
    screen = Screen(rule=rule, ball=ball, n_features=4)
    right = screen._largest
    screen.__dict__["_largest"] = np.append(right[:4], right[:-4])
    norms = np.random.default_rng(2).uniform(0.0, RADIUS, 5_000)
    most = np.minimum(np.floor(rule.evaluate(norms) * 256.0), 255.0).astype(np.uint8)
    assert screen.by_power(norms**2, most).size < norms.size
    assert Screen(rule=rule, ball=ball, n_features=4).by_power(norms**2, most).size == norms.size
