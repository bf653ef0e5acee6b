"""A ball with a constant coordinate: norms, clipping, and the coordinate of a clipped row."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from pais import ArgumentError, Ball
from pais.data.engines.blocks import ColumnBlock, RowBlock

BALL = Ball(radius=2.0, center=(1.0, -1.0), constant=0.25)
rows_of_two = st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6)), min_size=1, max_size=8)


@settings(max_examples=200, deadline=None)
@given(rows_of_two)
def test_norm_is_that_of_the_longer_row(rows: list[tuple[float, float]]) -> None:
    shifted = BALL.shift(np.array(rows))
    for row, norm in zip(shifted, BALL.norms(shifted).tolist(), strict=True):
        square = sum(Fraction(float(entry)) ** 2 for entry in row) + Fraction(BALL.constant) ** 2
        exact = min(square, Fraction(BALL.radius) ** 2)
        assert exact <= Fraction(norm) ** 2 <= exact * (1 + Fraction(1, 10**12))


@settings(max_examples=200, deadline=None)
@given(rows_of_two)
def test_a_clipped_row_and_its_constant_are_scaled_by_one_factor_and_lie_inside(
    rows: list[tuple[float, float]],
) -> None:
    shifted = BALL.shift(np.array(rows))
    clipped = BALL.clip(shifted)
    constants, norms = BALL.constants(clipped), BALL.norms(shifted)
    for before, after, constant, norm in zip(shifted, clipped, constants.tolist(), norms.tolist(), strict=True):
        square = sum(Fraction(float(entry)) ** 2 for entry in after) + Fraction(constant) ** 2
        assert square <= Fraction(norm) ** 2
        factor = min(1.0, BALL.radius / np.hypot(np.linalg.norm(before), BALL.constant))
        assert np.allclose(after, before * factor, rtol=1e-9)
        assert constant == pytest.approx(BALL.constant * factor, rel=1e-3, abs=1e-7)


def test_rows_and_columns_have_the_same_norms_and_sums() -> None:
    rng = np.random.default_rng(1)
    rows: Any = np.vstack([rng.normal(size=(50, 2)) * 3, [[np.nan, 0.0], [1e200, 0.0]]])
    identity = np.arange(len(rows), dtype=np.uint64)
    by_rows, by_columns = RowBlock(rows, identity), ColumnBlock(list(rows.T), identity)
    assert np.array_equal(by_rows.all_norms(BALL), by_columns.all_norms(BALL), equal_nan=True)


def test_description_round_trip_and_older_descriptions() -> None:
    assert Ball.from_dict(BALL.to_dict()) == BALL
    assert "constant" not in Ball(radius=1.0).to_dict()
    assert Ball.from_dict({"radius": 1.0, "order": 2.0, "center": None}) == Ball(radius=1.0)


@pytest.mark.parametrize(
    "arguments", [{"constant": 0.5, "order": 1}, {"constant": 1.0}, {"constant": -0.1}, {"constant": float("nan")}]
)
def test_a_constant_that_does_not_fit_is_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError, match="constant"):
        Ball(radius=1.0, **arguments)
