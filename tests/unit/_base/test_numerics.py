"""The search for roots keeps its promises whatever guess it is given."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from pais._base.numerics import secant_guess, shrink_bracket

ROOTS = np.array([0.3, 2.0, 7.5, 19.99])


class Cubic:
    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, points: NDArray[np.float64], index: NDArray[np.intp]) -> NDArray[np.float64]:
        self.calls += 1
        return (points - ROOTS[index]) ** 3 + 0.01 * (points - ROOTS[index])


@pytest.mark.parametrize("guess", [ROOTS, ROOTS + 1e-6, ROOTS - 0.2, np.full(4, 100.0), np.full(4, np.nan), None])
def test_final_bracket_contains_the_root_whatever_the_guess(guess: NDArray[np.float64] | None) -> None:
    cubic, low, high, index = Cubic(), np.zeros(4), np.full(4, 20.0), np.arange(4)
    ends = {"value_low": cubic(low, index), "value_high": cubic(high, index)}
    low, high = shrink_bracket(cubic, low, high, **ends, tolerance=1e-9, guess=guess)
    assert np.all((low <= ROOTS) & (high > ROOTS) & (high - low <= 1e-9))
    if guess is ROOTS:
        assert cubic.calls == 4


def test_secant_steps_come_close_to_the_roots_of_smooth_functions_and_may_end_on_them() -> None:
    low, high, index = ROOTS - 0.01, ROOTS + 0.01, np.arange(4)
    for function in (Cubic(), lambda points, index: points - ROOTS[index]):
        ends = {"value_low": function(low, index), "value_high": function(high, index)}
        guess = secant_guess(function, low, high, **ends)
        assert np.all((np.abs(guess - ROOTS) < 1e-7) | np.isnan(guess))
