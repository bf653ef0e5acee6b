"""Budget amounts: their valid range, and sums whose rounding error is always on the safe side."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from pais._base import validate
from pais._base.numerics import exact


@dataclass(frozen=True, kw_only=True)
class Budget:
    """An amount of privacy: (epsilon, delta). Public.

    Both are finite, epsilon in [0, 1e6], delta in [0, 1).
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", validate.price_epsilon(self.epsilon))
        object.__setattr__(self, "delta", validate.price_delta(self.delta))


def amount(epsilon: object, delta: object) -> Budget:
    """Validate an amount: both numbers finite, epsilon in [0, 1e6], delta in [0, 1)."""
    return Budget(epsilon=epsilon, delta=delta)  # type: ignore[arg-type]  # checked there


def total(values: Iterable[float]) -> Fraction:
    return sum((exact(value) for value in values), Fraction(0))


def up(value: Fraction) -> float:
    """Return the nearest double whose decimal form is at least the value."""
    nearest = float(value)
    return nearest if exact(nearest) >= value else math.nextafter(nearest, math.inf)


def at_least(value: Fraction) -> float:
    """Return the nearest double that is at least the value, and whose decimal form is too."""
    nearest = up(value)
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)


def down(value: Fraction) -> float:
    """Return the nearest double whose decimal form is at most the value; 0 for a negative value."""
    if value <= 0:
        return 0.0
    nearest = float(value)
    return nearest if exact(nearest) <= value else math.nextafter(nearest, 0.0)


def sum_up(prices: Iterable[float]) -> float:
    """The smallest double that is not below the exact sum."""
    parts = list(prices)
    nearest = math.fsum(parts)
    return math.nextafter(nearest, math.inf) if Fraction(nearest) < sum(map(Fraction, parts)) else nearest


def what_is_left(budget: float, spent: float) -> float:
    """The largest double that, added to `spent`, stays within the budget, both as doubles and as decimals.

    Both are needed: a ledger adds the prices as written in decimal, a certificate adds them as doubles.
    """
    room = min(Fraction(budget) - Fraction(spent), exact(budget) - exact(spent))
    left = float(room)
    while max(Fraction(left), exact(left)) > room:
        left = math.nextafter(left, -math.inf)
    return left
