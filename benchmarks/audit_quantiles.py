"""Known mistakes in quantiles, each beside the right version.

NOT PRIVATE, on purpose. Nothing here is for use; it is here to be caught.
"""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

import pais
from benchmarks.audit_cases import CLAIMED, Case

_GRID = pais.Grid(column=0, center=1.0, scale=1.0, step=1.0, first=0.0, n_points=3)

# Rows at 0 and 0.5. The record at 1 makes 1 the median.
_ROWS = np.array([[-1.0], [-0.5], [0.0]])
_PAIR = pais.NeighbourPair(with_record=_ROWS, without_record=_ROWS[:2])


class LessNoise(pais.GridQuantiles):
    """Seven tenths of the scale."""

    def _scale(self, level: Fraction, price: Fraction) -> float:
        return 0.7 * super()._scale(level, price)


class SmallSensitivity(pais.GridQuantiles):
    """A sensitivity of max(q, 1 - q), without the factor for scores that rise while others fall."""

    def _scale(self, level: Fraction, price: Fraction) -> float:
        return 0.5 * super()._scale(level, price)


def is_one(value: Any) -> float:
    """Whether the median is 1."""
    return float(value.values[0, 0, 0] == 1.0)


def median(kind: type[pais.GridQuantiles], broken: bool) -> dict[str, Any]:
    return {
        "target": (kind if broken else pais.GridQuantiles)(epsilon=CLAIMED, levels=(0.5,), grids=(_GRID,)),
        "rule": pais.UniformRule(rate=1.0),
        "ball": pais.Ball(radius=4.0),
        "pair": _PAIR,
        "statistic": {"median": is_one},
    }


QUANTILE_CASES = (
    Case(
        name="quantile with 0.7 of its noise",
        arguments=partial(median, LessNoise),
        runs=16_000,
        right_runs=6_000,
        slow=True,
    ),
    Case(
        name="quantile without the factor 2",
        arguments=partial(median, SmallSensitivity),
        runs=4_000,
        right_runs=6_000,
        slow=True,
    ),
)
