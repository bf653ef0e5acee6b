"""What each record paid by itself: for the data's owner, and protected by nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pais._numerics import FloatArray, round_up
from pais.accounting.entries import Part
from pais.amplification import amplified_epsilon, epsilon_at_delta
from pais.domain import Ball, table_of
from pais.errors import MismatchError
from pais.profiles import Profile
from pais.rules import Rule
from pais.sources import from_array, read

# Rows measured at a time.
_BLOCK_ROWS = 1 << 16


class RecordLosses(np.ndarray[Any, np.dtype[np.float64]]):
    """An epsilon for each row. NOT PROTECTED: it depends on the rows and stays with their owner."""

    protected = False

    def __repr__(self) -> str:
        return f"RecordLosses(NOT PROTECTED, of {self.size} rows: they depend on the rows and stay with their owner)"

    __str__ = __repr__


def record_loss(rule: Rule, profile: Profile, norm: FloatArray, *, delta: float) -> FloatArray:
    """Epsilon of records of given norms, kept by a rule and paying by a profile, at a delta."""
    probability = rule.probability(norm)
    loss = profile(1.0 / probability, norm)
    if delta > 0.0:
        return np.asarray(epsilon_at_delta(delta, loss, probability))
    return np.asarray(amplified_epsilon(loss, probability))


def losses_of_rows(parts: Sequence[Part], rows: object) -> RecordLosses:
    """Sum over the parts of what each row pays: its own loss where that is known, the certified price elsewhere.

    A row that is not finite contributes nothing to any release, so it pays nothing.
    """
    table = table_of(read(rows).rows if hasattr(rows, "__arrow_c_stream__") else from_array(rows))
    paid = np.zeros(table.shape[0])
    for part in parts:
        if part.rule is None or part.profile is None or part.ball is None:
            paid += part.epsilon
            continue
        table_of(table, part.ball)
        if part.n_features not in (None, table.shape[1]):
            raise MismatchError(
                f"rows have {table.shape[1]} column(s) where a release on the ledger had {part.n_features}. Pass the "
                "same columns, in the same order and units."
            )
        for start in range(0, table.shape[0], _BLOCK_ROWS):
            block = slice(start, start + _BLOCK_ROWS)
            paid[block] += _own_losses(part, part.rule, part.profile, part.ball, table[block])
    paid[~np.isfinite(table).all(axis=1)] = 0.0
    return round_up(paid, 4.0 + len(parts)).view(RecordLosses)


def _own_losses(part: Part, rule: Rule, profile: Profile, ball: Ball, rows: NDArray[np.generic]) -> FloatArray:
    loss = record_loss(rule, profile, np.nan_to_num(ball.norms(ball.shift(rows))), delta=part.delta)
    # The certificate holds for every record, so a loss above it is rounding.
    return np.minimum(loss, part.epsilon)
