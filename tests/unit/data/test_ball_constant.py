"""A ball with a constant coordinate: norms, clipping, and the coordinate of a clipped row."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from pais import ArgumentError, Ball
from pais._base.rowwise import rough_slack, square_sums
from pais.data import ball as ball_module
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


@pytest.mark.parametrize("d", [6, 80])
@pytest.mark.parametrize("share", [1e-6, 0.2, 0.999])
def test_constants_do_not_depend_on_the_order_of_rough_sums(
    monkeypatch: pytest.MonkeyPatch, d: int, share: float
) -> None:
    """Rows whose rest is the square of the constant, up to a few ulps, with rough sums that err as far as they may."""
    ball, rng = Ball(radius=3.0, constant=3.0 * share), np.random.default_rng(d)
    edge, n = ball.edge(d), 4000
    square = edge**2 - ball.constant**2
    rows = rng.standard_normal((n, d))
    steps = rng.integers(-8 * (d + 8), 8 * (d + 8), n) * 2.0**-52
    rows *= np.sqrt(np.maximum(square + edge**2 * steps, 0.0) / square_sums(rows))[:, None]
    rest = np.maximum(edge * edge - square_sums(rows), 0.0)
    expected = np.minimum(np.sqrt(rest), ball.constant)
    assert 0 < np.count_nonzero(expected < ball.constant) < n
    for side in (-1.0, 0.0, 1.0):
        factor = 1.0 + side * d * 2.0**-53
        monkeypatch.setattr(ball_module, "rough_square_sums", lambda part, factor=factor: square_sums(part) * factor)
        assert np.array_equal(ball.constants(rows), expected)


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.int64])
def test_rough_powers_are_those_of_shifted_rows(kind: type[np.generic]) -> None:
    rng = np.random.default_rng(3)
    rows = (rng.normal(size=(9000, 30)) * 100).astype(kind)
    if kind is not np.int64:
        rows[[3, 5000], [0, 7]] = np.nan, np.inf
    ball = Ball(radius=2.0, center=tuple(rng.normal(size=30)), constant=0.25)
    for table in (rows, np.asfortranarray(rows), rows[:1], rows[:0]):
        powers, rough = ball.powers(ball.shift(table)), ball.rough_powers(table)
        rough[np.isinf(rough)] = np.nan
        assert np.allclose(rough, powers, rtol=rough_slack(30), atol=0.0, equal_nan=True)


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
