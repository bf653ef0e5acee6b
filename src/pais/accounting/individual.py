"""Privacy loss of each individual record: for the owner of the data only, as the numbers themselves are not private."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pais._base.numerics import FloatArray, round_up
from pais.accounting.part import Part
from pais.data.ball import Ball, table_of
from pais.data.tables import from_array, read
from pais.errors import MismatchError
from pais.privacy.amplification import amplified_epsilon, epsilon_at_delta
from pais.privacy.profiles import Profile
from pais.privacy.rules import Rule

# Number of rows processed at a time.
_BLOCK_ROWS = 1 << 16


class RecordLosses(np.ndarray[Any, np.dtype[np.float64]]):
    """An epsilon for each row. NOT PROTECTED: the values depend on the rows and must stay with their owner."""

    protected = False

    def __repr__(self) -> str:
        return f"RecordLosses(NOT PROTECTED, of {self.size} rows: they depend on the rows and stay with their owner)"

    __str__ = __repr__


def record_loss(rule: Rule, profile: Profile, norm: FloatArray, *, delta: float) -> FloatArray:
    """Epsilon at a delta of records with the given norms, for a sampling rule and a loss profile."""
    probability = rule.probability(norm)
    loss = profile(1.0 / probability, norm)
    if delta > 0.0:
        return np.asarray(epsilon_at_delta(delta, loss, probability))
    return np.asarray(amplified_epsilon(loss, probability))


def losses_of_rows(parts: Sequence[Part], rows: object) -> RecordLosses:
    """Sum of each row's loss over the parts: its own loss if that is known, otherwise the certified price.

    A row with a non-finite value contributes to no release, so its loss is 0. With a schema or units it may contribute.
    """
    table = table_of(read(rows).rows if hasattr(rows, "__arrow_c_stream__") else from_array(rows))
    paid = np.zeros(table.shape[0])
    for part in parts:
        # The loss of a unit follows from all of its rows, and that of a scaled row from a schema: neither is known.
        if part.rule is None or part.profile is None or part.ball is None or part.unit or part.scaled:
            paid += part.epsilon
            continue
        table_of(table, part.ball)
        if part.n_features not in (None, table.shape[1]):
            raise MismatchError(
                f"rows have {table.shape[1]} column(s), but a release on the ledger had {part.n_features}. Pass the "
                "same columns, in the same order and units."
            )
        for start in range(0, table.shape[0], _BLOCK_ROWS):
            block = slice(start, start + _BLOCK_ROWS)
            paid[block] += _own_losses(part, part.rule, part.profile, part.ball, table[block])
    if not any(part.scaled or part.unit for part in parts):
        paid[~np.isfinite(table).all(axis=1)] = 0.0
    return round_up(paid, 4.0 + len(parts)).view(RecordLosses)


def _own_losses(part: Part, rule: Rule, profile: Profile, ball: Ball, rows: NDArray[np.generic]) -> FloatArray:
    loss = record_loss(rule, profile, np.nan_to_num(ball.norms(ball.shift(rows))), delta=part.delta)
    # The certified price holds for every record, so a loss above it is a rounding error.
    return np.minimum(loss, part.epsilon)
