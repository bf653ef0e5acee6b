"""Second moments: the contribution of a row, the value without noise, all rows without holding them, units, files."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings, strategies as st

import pais
import pais.pipeline
from pais import Ball, GaussianNoise, GaussianProfile, MismatchError, MomentSum, Plan, UniformRule
from pais._base.randomness import bit_source
from pais.data.engines.base import AllRows, WeightedRows
from pais.mechanisms.moments import MARGIN, _Moments, moment_step
from pais.pca.components import PCASettings
from pais.pipeline import sample_for
from pais.planning.plan import AT_COST

EVERY = UniformRule(rate=1.0)


def exact_square(steps: Any, step: float) -> Fraction:
    """Squared Frobenius norm of a contribution in exact arithmetic."""
    return sum((Fraction(int(entry)) ** 2 for entry in steps.ravel()), Fraction(0)) * Fraction(step) ** 4


@settings(max_examples=200, deadline=None)
@given(
    row=st.lists(st.floats(-30.0, 30.0), min_size=1, max_size=6),
    weight=st.floats(1.0, 1e6),
    constant=st.sampled_from([0.0, 1e-6, 0.125, 0.999]),
    scale=st.floats(1e-3, 1e6),
)
def test_a_row_adds_no_more_than_weight_times_squared_norm(
    row: list[float], weight: float, constant: float, scale: float
) -> None:
    ball = Ball(radius=1.0, constant=constant)
    shifted = ball.shift(np.array([row]))
    norm, clipped = ball.norms(shifted)[0], ball.clip(shifted)
    step = moment_step(scale, math.sqrt(weight))
    steps = _Moments(ball=ball, step=step)(clipped, np.array([weight]))
    most = (Fraction(weight) * Fraction(float(norm)) ** 2) ** 2
    assert exact_square(steps, step) <= most
    # The profile counts at least this much, in units of the noise.
    shift = MomentSum(noise=GaussianNoise(scale=scale), largest=weight, n_rows=1.0).profile(weight, norm)
    assert exact_square(steps, step) <= (Fraction(float(shift)) * Fraction(scale)) ** 2


def test_profile_is_the_quadratic_one() -> None:
    profile = MomentSum(noise=GaussianNoise(scale=3.0), largest=1.0, n_rows=1.0).profile
    assert profile == GaussianProfile(math.inf, math.inf, square_scale=3.0 * (1.0 - MARGIN))
    assert float(profile(2.0, 5.0)) == pytest.approx(2.0 * 25.0 / 3.0, rel=1e-9)


def table(n: int = 4000) -> Any:
    rng = np.random.default_rng(3)
    return rng.normal(size=(n, 3)) @ np.array([[1.0, 0.5, 0.0], [0.0, 1.0, 0.3], [0.0, 0.0, 0.2]]) + 0.5


def longer(rows: Any, ball: Ball) -> Any:
    """Rows with the constant coordinate, clipped as a whole."""
    u = np.column_stack([rows - np.asarray(ball.center), np.full(len(rows), ball.constant)])
    return u * np.minimum(1.0, ball.radius / np.linalg.norm(u, axis=1))[:, None]


def plan(ball: Ball, rule: pais.Rule, scale: float, rows: int = 4000) -> Plan:
    largest = rule.largest_contribution(ball.radius, 2)
    mechanism = MomentSum(noise=GaussianNoise(scale=scale), largest=largest, n_rows=rows)
    return Plan(ball=ball, rule=rule, mechanism=mechanism, epsilon=AT_COST, delta=1e-6)


BALL = Ball(radius=2.0, center=(0.5, 0.5, 0.5), constant=0.25)


def test_value_is_the_second_moment_of_the_clipped_longer_rows() -> None:
    value = pais.run(plan(BALL, EVERY, 2.0), table(), random_state=1).value
    u = longer(table(), BALL)
    assert value.moment.shape == (4, 4)
    assert np.allclose(value.moment, value.moment.T)
    assert np.abs(value.moment - u.T @ u).max() < 6 * value.scale
    assert value.noisy_count == pytest.approx((u[:, -1] ** 2).sum() / BALL.constant**2, abs=6 * 2.0 / BALL.constant**2)


def test_noise_is_isotropic_in_the_frobenius_norm() -> None:
    rows, ball = np.zeros((1, 12)), Ball(radius=1.0)
    moments = np.array([pais.run(plan(ball, EVERY, 5.0), rows, random_state=seed).value.moment for seed in range(60)])
    rows_above, columns_above = np.triu_indices(12, 1)
    off = moments[:, rows_above, columns_above]
    diagonal = moments[:, np.arange(12), np.arange(12)]
    assert off.std() == pytest.approx(5.0 / math.sqrt(2.0), rel=0.06)
    assert diagonal.std() == pytest.approx(5.0, rel=0.1)


def test_all_rows_are_streamed_and_give_the_value_of_a_sample_that_keeps_all(tmp_path: Path) -> None:
    rows = table()
    streamed = pais.run(plan(BALL, EVERY, 2.0), rows, random_state=1).value.moment
    pq.write_table(pa.table({name: rows[:, place] for place, name in enumerate("abc")}), tmp_path / "rows.parquet")
    from_file = pais.run(plan(BALL, EVERY, 2.0), tmp_path / "rows.parquet", random_state=1).value.moment
    assert np.array_equal(streamed, from_file)

    step, bits = 2.0**-10, bit_source(1)
    contents = [
        sample_for(mechanism, pais.source(rows), ball=BALL, rule=EVERY, bits=bits, strategy="auto").spend("a test")
        for mechanism in (plan(BALL, EVERY, 2.0).mechanism, pais.WeightedCount(noise=GaussianNoise(scale=2.0)))
    ]
    assert [type(content) for content in contents] == [AllRows, WeightedRows]
    totals = [content.total(_Moments(ball=BALL, step=step)) for content in contents]
    assert np.array_equal(*totals)


def test_sampled_moment_is_unbiased() -> None:
    settings_ = PCASettings(epsilon=1.0, sample_size=800.0, quantile=0.95)
    ratios = []
    for seed in range(20):
        fit = pais.pipeline.fit(table(), settings_, random_state=seed)
        u = longer(table(), fit.plan.ball)
        ratios.append(np.trace(fit.value.moment) / np.trace(u.T @ u))
    assert np.mean(ratios) == pytest.approx(1.0, abs=4 * np.std(ratios) / math.sqrt(20))


def test_a_person_with_many_rows_adds_no_more_than_one_row() -> None:
    """The masses of a unit add up to one, so fifty copies of a row count as one."""
    rows = np.tile([[0.3, 0.1, -0.2]], (50, 1))
    frame = pa.table({"a": rows[:, 0], "b": rows[:, 1], "c": rows[:, 2], "who": ["x"] * 50})
    ball = Ball(radius=1.0)
    mechanism = MomentSum(noise=GaussianNoise(scale=1e-3), largest=1.0, n_rows=1)
    people = pais.source(frame, unit="who")
    person = Plan(ball=ball, rule=EVERY, mechanism=mechanism, epsilon=AT_COST, delta=1e-6, unit=people.unit)
    value = pais.run(person, people, random_state=1).value.moment
    assert np.allclose(value, np.outer(rows[0], rows[0]), atol=0.01)


def test_another_rule_than_the_planned_one_is_refused() -> None:
    mechanism = MomentSum(noise=GaussianNoise(scale=5.0), largest=4.0, n_rows=10)
    with pytest.raises(MismatchError, match="weight times squared norm"):
        Plan(ball=BALL, rule=UniformRule(rate=0.5), mechanism=mechanism, epsilon=AT_COST, delta=1e-6)


def test_a_plan_of_second_moments_is_rebuilt_from_its_file(tmp_path: Path) -> None:
    fit = pais.pipeline.fit(table(), PCASettings(epsilon=1.0), random_state=1)
    fit.plan.save(tmp_path / "plan.json")
    assert Plan.load(tmp_path / "plan.json") == fit.plan
