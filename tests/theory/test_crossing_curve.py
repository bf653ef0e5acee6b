"""The curve that guesses first crossings only makes the search fast: every weight is checked, whatever it guesses."""

from __future__ import annotations

import math
from collections.abc import Callable

import mpmath as mp
import numpy as np
import pytest

from pais.privacy import weights as crossing
from pais.privacy.amplification import largest_shift
from tests.support.oracles import remove_delta

TARGETS = [(0.01, 1e-6), (1.0, 1e-6), (1.0, 1e-3), (5.0, 1e-12), (50.0, 1e-30)]

Guess = Callable[[crossing.CrossingCurve, np.ndarray], tuple[np.ndarray, np.ndarray]]
guess = crossing.CrossingCurve.guess


def shifts(epsilon: float, delta: float, n: int = 60) -> np.ndarray:
    largest = largest_shift(epsilon, delta) * (1 - 1e-9)
    return np.append(0.0, largest * np.geomspace(1e-9, 1.0, n))


@pytest.mark.parametrize(("epsilon", "delta"), TARGETS)
def test_guesses_of_the_curve_are_close_to_the_weights(epsilon: float, delta: float) -> None:
    curve = crossing.crossing_curve(epsilon, delta)
    assert np.all(np.diff(curve.shift) > 0.0)
    at_one = np.exp(np.linspace(curve.shift[0], curve.shift[-1], 50)[1:-1])
    log_weight, _ = curve.guess(np.log(at_one))
    assert log_weight == pytest.approx(np.log(crossing.first_crossing_weight(at_one, epsilon, delta)), abs=1e-5)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda curve, x: (guess(curve, x)[0] + 0.1, guess(curve, x)[1]),
        lambda curve, x: (guess(curve, x)[0] - 0.1, guess(curve, x)[1]),
        lambda curve, x: (guess(curve, x)[0], 100 * guess(curve, x)[1]),
        lambda curve, x: (guess(curve, x)[0] + 1e-9, 0.5 * guess(curve, x)[1]),
        lambda curve, x: (np.full_like(x, np.nan), np.full_like(x, np.nan)),
    ],
    ids=["too large", "too small", "too steep", "too flat", "none"],
)
def test_wrong_guesses_change_no_weight_by_more_than_the_tolerance(
    wrong: Guess, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_one = shifts(1.0, 1e-6, 30)
    expected = crossing.first_crossing_weight(at_one, 1.0, 1e-6)
    monkeypatch.setattr(crossing.CrossingCurve, "guess", wrong)
    found = crossing.first_crossing_weight(at_one, 1.0, 1e-6)
    assert found == pytest.approx(expected, rel=2e-9)
    with mp.workdps(60):
        for shift, weight in zip(at_one[1:].tolist(), found[1:].tolist(), strict=True):
            assert remove_delta(1.0, mp.mpf(shift) * mp.mpf(weight), 1 / mp.mpf(weight)) <= mp.mpf(1e-6)


def test_rough_weights_are_close_to_the_weights_that_are_checked() -> None:
    at_one, limit = shifts(1.0, 1e-6), 16.0
    most = largest_shift(limit, 1e-6)
    with np.errstate(divide="ignore"):
        expected = np.minimum(crossing.first_crossing_weight(at_one, 1.0, 1e-6, most), most / at_one)
    assert crossing.rough_crossing_weight(at_one, 1.0, 1e-6, limit) == pytest.approx(
        np.maximum(expected, 1.0), rel=1e-5
    )


def test_a_large_delta_has_no_curve_and_still_has_weights() -> None:
    at_one = largest_shift(1.0, 0.7) * np.linspace(0.1, 0.99, 5)
    log_weight, _ = crossing.crossing_curve(1.0, 0.7).guess(np.log(at_one))
    assert np.isnan(log_weight[0])
    assert np.all(crossing.first_crossing_weight(at_one, 1.0, 0.7) >= 1.0)
    assert math.isfinite(crossing.crossing_curve(1e-9, 1e-6).guess(np.zeros(1))[1][0])
