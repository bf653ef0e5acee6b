"""The chance of a record in a sample, computed from the plan and the record alone: an oracle for replays."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from pais._base.lattice import IntArray
from pais._base.numerics import FloatArray
from pais.data.engines.base import AllRows
from pais.data.sources import opened


def kept_with(record: Any) -> Callable[[Any], float]:
    """Return the function of a result that says with which chance its plan keeps a record: a row, or a person's rows.

    The norm of a person is the root of the sum of the squares of the norms of the rows, each times the row's mass.
    """

    def probability(result: Any) -> float:
        plan = getattr(result, "plan_", None) or getattr(result, "plan", None)
        if plan is None or plan.rule.keeps_all:
            return 1.0
        squares: list[float] = []

        def look(rows: FloatArray, masses: FloatArray) -> IntArray:
            squares.append(float(masses @ plan.ball.norms(rows) ** 2))
            return np.zeros(1, dtype=np.int64)

        engine = opened(record, plan.schema, plan.unit)
        AllRows(engine=engine, ball=plan.ball, seeded=True).total(look)
        return float(plan.rule.probability(min(math.sqrt(math.fsum(squares)), plan.ball.radius)))

    return probability
