"""Amounts of a budget: what may be stated, and sums that never err to the unsafe side."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from pais import _validate
from pais._numerics import exact

#: Beyond this an epsilon says nothing; a number of that size in a ledger is a slip.
LARGEST_EPSILON = 1e6


@dataclass(frozen=True, kw_only=True)
class Budget:
    """An amount of privacy: (epsilon, delta). Public."""

    epsilon: float
    delta: float


def amount(epsilon: object, delta: object) -> Budget:
    """A stated amount, or an error: both finite, epsilon in [0, 1e6], delta in [0, 1)."""
    rule = f"a number in [0, {LARGEST_EPSILON:g}]"
    checked = _validate.number(
        "epsilon", epsilon, rule=rule, low=0.0, high=LARGEST_EPSILON, open_low=False, open_high=False
    )
    # The sum with zero turns -0.0 into 0.0.
    return Budget(epsilon=checked + 0.0, delta=_validate.target_delta(delta) + 0.0)


def total(values: Iterable[float]) -> Fraction:
    return sum((exact(value) for value in values), Fraction(0))


def up(value: Fraction) -> float:
    """The nearest double that is written as no less than the value."""
    nearest = float(value)
    return nearest if exact(nearest) >= value else math.nextafter(nearest, math.inf)


def down(value: Fraction) -> float:
    """The nearest double that is written as no more than the value; 0 for what is negative."""
    if value <= 0:
        return 0.0
    nearest = float(value)
    return nearest if exact(nearest) <= value else math.nextafter(nearest, 0.0)
