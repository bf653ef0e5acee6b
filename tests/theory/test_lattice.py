"""LATTICE: contributions and sums in whole steps, held against exact arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray

from pais import ArgumentError, Ball, GaussianNoise, LpNoise, WeightedCount, WeightedSum, laplace_noise
from pais._base.lattice import Lattice
from pais.data.engines.base import WeightedRows
from pais.mechanisms.base import Extent
from pais.mechanisms.noise import NoiseLaw
from tests.support.lattice_cases import random_content, seeded

# ---------------------------------------------------------------- contributions


finite = st.floats(-1e12, 1e12, allow_nan=False, allow_subnormal=False)


@settings(max_examples=150, deadline=None)
@given(
    row=st.lists(finite, min_size=1, max_size=6),
    exponent=st.integers(-20, 20),
    p=st.sampled_from([1.0, 2.0, 3.0, math.inf]),
)
def test_truncation_toward_zero_never_raises_a_norm(row: list[float], exponent: int, p: float) -> None:
    lattice = Lattice(step=2.0**exponent)
    released = lattice.decode(lattice.encode(np.array([row])))[0].tolist()
    before, after = [abs(Fraction(x)) for x in row], [abs(Fraction(x)) for x in released]
    if math.isinf(p):
        assert max(after) <= max(before)
    else:
        assert sum(x ** int(p) for x in after) <= sum(x ** int(p) for x in before)
    for kept, given_, x, y in zip(after, before, released, row, strict=True):
        assert kept <= given_
        assert x * y >= 0.0


@pytest.mark.parametrize("scale", [1e-200, 3e-7, 0.7, 1.0, 5e9, 1e200])
def test_the_lattice_of_a_scale_has_a_power_of_two_for_a_step_and_at_least_two_to_the_22_steps(scale: float) -> None:
    lattice = Lattice.for_scale(scale)
    assert math.frexp(lattice.step)[0] == 0.5
    assert 2**22 <= scale / lattice.step < 2**23


def test_contributions_that_do_not_fit_integers_are_refused_from_public_numbers() -> None:
    lattice = Lattice(step=2.0**-40)
    lattice.require(2.0**21)
    with pytest.raises(ArgumentError, match="64-bit"):
        lattice.require(2.0**22)
    with pytest.raises(ArgumentError, match="64-bit"):
        WeightedSum(noise=laplace_noise(1e-9)).require_lattice(Extent(radius=1e6, weight=1e6, contribution=1e12))


def taken(rows: WeightedRows, index: NDArray[np.intp]) -> WeightedRows:
    return WeightedRows(rows=rows.rows[index], weights=rows.weights[index])


@pytest.mark.parametrize("noise", [GaussianNoise(scale=0.3), LpNoise(scale=0.3, p=2.0), laplace_noise(0.3)], ids=str)
def test_a_release_does_not_depend_on_the_order_of_the_rows_in_a_single_bit(noise: NoiseLaw) -> None:
    rows, ball = random_content(3000, 5, seed=1), Ball(radius=1e5, order=noise.order)
    total = WeightedSum(noise=noise).measure(rows, ball, seeded(7))
    count = WeightedCount(noise=noise).measure(rows, ball, seeded(7))
    naive = set()
    for seed in range(5):
        index = np.random.default_rng(seed).permutation(3000)
        shuffled = taken(rows, index)
        assert WeightedSum(noise=noise).measure(shuffled, ball, seeded(7)).tobytes() == total.tobytes()
        assert WeightedCount(noise=noise).measure(shuffled, ball, seeded(7)) == count
        naive.add(sum((shuffled.rows[:, 0] * shuffled.weights).tolist()))
    # Sums of doubles do depend on it, so the test can tell.
    assert len(naive) > 1
