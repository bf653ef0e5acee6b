"""Ruling rows out before they are measured exactly, by public bounds on the rule."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pais._numerics import ULP, FloatArray
from pais.domain import Ball
from pais.rules import Rule

# A power is known by its exponent and the first three bits after the point: eight cells to an octave.
_SHIFT = 49
_CELLS = 2047 << 3

# Past the rounding of a look-up between knots.
_ROOM = 1.0 + 2.0**-48


@dataclass(frozen=True, kw_only=True)
class Screen:
    """For each cell of powers, the largest first 8 bits with which a row in it may be kept. Public.

    A power is the sum of squares of a row in the l2 norm, and the norm itself in others. Whoever passes is measured
    exactly afterwards, so a screen changes nothing but the time: it must only never rule out who could be kept.

    Notes
    -----
    Guarantee. Between breakpoints a rule is monotone, so on a cell it is at most the largest of its values at the ends
    and on both sides of the breakpoints within: `tests/unit/test_screen.py`.
    """

    rule: Rule
    ball: Ball
    n_features: int
    ceiling: int = field(init=False)
    _largest: NDArray[np.uint8] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        low = (np.arange(_CELLS, dtype=np.int64) << _SHIFT).view(np.float64)
        ends = self._norms(np.append(low, np.finfo(np.float64).max))
        # Sums in another order may put a power into a neighbouring cell: a little wider on both sides.
        slack = 4 * (self.n_features + 16) * ULP
        ends = np.minimum(ends, self.ball.radius)
        first = ends[:-1] * (1.0 - slack)
        last = np.minimum(ends[1:] * (1.0 + slack) + 1e-150, self.ball.radius)
        largest = np.maximum(self.rule.evaluate(first), self.rule.evaluate(last))
        knots = self.rule.breakpoints(self.ball.radius)
        values = np.maximum(self.rule.evaluate(knots), self.rule.evaluate(np.nextafter(knots, 0.0)))
        cell = np.searchsorted(last, knots)
        for beside in (-1, 0, 1):
            np.maximum.at(largest, np.clip(cell + beside, 0, _CELLS - 1), values)
        object.__setattr__(self, "_largest", _first_bits(largest))
        object.__setattr__(self, "ceiling", int(_first_bits(np.array(self.rule.largest_probability(self.ball.radius)))))

    @property
    def share(self) -> float:
        """Share of all rows that the first bits alone leave."""
        return (self.ceiling + 1) / 256.0

    def by_power(self, power: FloatArray, first: NDArray[np.uint8]) -> NDArray[np.intp]:
        """Places of the rows that may be kept, from their powers and first bits."""
        cell = power.view(np.int64) >> _SHIFT
        return np.flatnonzero(first <= self._largest.take(cell, mode="clip"))

    def by_bits(self, first: NDArray[np.uint8]) -> NDArray[np.intp]:
        """Places of the rows that may be kept, from their first bits alone."""
        return np.flatnonzero(first <= self.ceiling)

    def _norms(self, power: FloatArray) -> FloatArray:
        return np.sqrt(power) if self.ball.order == 2.0 else power


def _first_bits(probability: FloatArray) -> NDArray[np.uint8]:
    return np.asarray(np.minimum(probability * _ROOM * 256.0, 255.0).astype(np.uint8))
