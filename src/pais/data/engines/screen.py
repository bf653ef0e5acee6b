"""Rule out rows before their exact norms are computed, using public bounds on the sampling rule."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pais._base.numerics import ULP, FloatArray
from pais.data.ball import Ball
from pais.privacy.rules import Rule

# A cell is given by the exponent of a power and the first three bits of its mantissa: eight cells per octave.
_SHIFT = 49

# All norms below this share of the radius fall into one cell.
_SMALL = 2.0**-24

# Factor that exceeds the rounding error of a look-up between knots.
_ROOM = 1.0 + 2.0**-48


@dataclass(frozen=True, kw_only=True, eq=False)
class Screen:
    """A table that gives, for each cell of powers, the largest first 8 bits with which a row may be kept. Public.

    The power of a row is its sum of squares for the l2 norm, and the norm itself for other norms. Rows that pass the
    screen are measured exactly afterwards. So a screen affects only the running time, provided that it never rules out
    a row that could be kept.

    Notes
    -----
    Guarantee. A rule is monotone between breakpoints. So its values on a cell are at most the largest of its values at
    the two ends of the cell and on both sides of the breakpoints inside it: `tests/unit/data/test_screen.py`.
    """

    rule: Rule
    ball: Ball
    n_features: int

    @cached_property
    def ceiling(self) -> int:
        """The largest first 8 bits with which any row in the ball may be kept."""
        return int(_first_bits(np.array(self.rule.largest_probability(self.ball.radius))))

    @property
    def share(self) -> float:
        """Share of all rows that are expected to pass `by_bits`."""
        return (self.ceiling + 1) / 256.0

    def by_bits(self, first: NDArray[np.uint8]) -> NDArray[np.intp]:
        """Return the positions of the rows that may be kept, judging by their first bits alone."""
        return np.flatnonzero(first <= self.ceiling)

    def by_power(self, power: FloatArray, first: NDArray[np.uint8]) -> NDArray[np.intp]:
        """Return the positions of the rows that may be kept, judging by their powers and first bits."""
        cell = power.view(np.int64) >> _SHIFT
        cell -= self._lowest
        return np.flatnonzero(first <= self._largest.take(cell, mode="clip"))

    @cached_property
    def _lowest(self) -> int:
        return int(_cell(self._power(self.ball.radius * _SMALL)))

    @cached_property
    def _largest(self) -> NDArray[np.uint8]:
        radius = self.ball.radius
        cells = np.arange(self._lowest, int(_cell(self._power(radius))) + 2, dtype=np.int64)
        ends = (cells << _SHIFT).view(np.float64)
        norms = np.minimum(np.sqrt(ends) if self.ball.order == 2.0 else ends, radius)
        # Sums in another order can move a power into a neighbouring cell, so each cell is widened a little.
        slack = 4 * (self.n_features + 16) * ULP
        low, high = norms[:-1] * (1.0 - slack), np.minimum(norms[1:] * (1.0 + slack) + 1e-150, radius)
        # The first cell also covers all smaller powers, and the last cell all larger ones.
        low[0], high[-1] = 0.0, radius
        largest = np.maximum(self.rule.evaluate(low), self.rule.evaluate(high))
        knots = self.rule.probes(radius)
        values = self.rule.evaluate(knots)
        cell_of_knot = np.searchsorted(high, knots)
        for offset in (-1, 0, 1):
            np.maximum.at(largest, np.clip(cell_of_knot + offset, 0, largest.size - 1), values)
        return _first_bits(largest)

    def _power(self, norm: float) -> FloatArray:
        return np.array(norm * norm if self.ball.order == 2.0 else norm)


def _cell(power: FloatArray) -> NDArray[np.int64]:
    return np.asarray(power.view(np.int64) >> _SHIFT)


def _first_bits(probability: FloatArray) -> NDArray[np.uint8]:
    return np.asarray(np.minimum(probability * _ROOM * 256.0, 255.0).astype(np.uint8))
