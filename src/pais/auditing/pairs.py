"""Neighbouring tables: the same rows, with and without one record."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from pais._base.numerics import FloatArray
from pais.data.ball import Ball
from pais.errors import ArgumentError
from pais.privacy.certify import worst_case
from pais.privacy.profiles import Profile, ShiftProfile
from pais.privacy.rules import Rule

# Norm of the other rows as a share of the radius, for mechanisms that need rows elsewhere in the ball.
COMPANY_NORM = 0.5

# A record at the radius is scaled by this factor, so that clipping does not change it.
INSIDE = 1.0 - 1e-12


@dataclass(frozen=True, kw_only=True, eq=False)
class NeighbourPair:
    """Two tables that differ by one row. They are synthetic, for an audit: do not use rows of real people.

    Attributes
    ----------
    with_record, without_record : array of shape (n, d) and (n - 1, d)
        The larger table, and the same rows (in any order) without one of them. Rows may contain NaN and infinities,
        to audit how these are treated.
    name : str
        Name of the pair in the report.
    """

    with_record: FloatArray
    without_record: FloatArray
    name: str = "given pair"

    def __post_init__(self) -> None:
        larger, smaller = _table("with_record", self.with_record), _table("without_record", self.without_record)
        if larger.shape[1] != smaller.shape[1] or len(larger) != len(smaller) + 1 or not _contains(larger, smaller):
            raise ArgumentError(
                "with_record must be the rows of without_record and one more. Remove one row, and change no other."
            )
        object.__setattr__(self, "with_record", larger)
        object.__setattr__(self, "without_record", smaller)

    @classmethod
    def of(cls, record: ArrayLike, company: ArrayLike | None = None, *, name: str = "given pair") -> NeighbourPair:
        """Build a pair from a record and the other rows; with None, the smaller table is empty."""
        row = np.atleast_2d(np.asarray(record, dtype=np.float64))
        others = np.empty((0, row.shape[1])) if company is None else _table("company", company)
        return cls(with_record=np.vstack([others, row]), without_record=others, name=name)

    @property
    def record(self) -> FloatArray:
        """The row that only the larger table contains."""
        unmatched = Counter(row.tobytes() for row in self.without_record)
        for row in self.with_record[::-1]:
            if unmatched[row.tobytes()] == 0:
                return np.asarray(row)
            unmatched[row.tobytes()] -= 1
        raise AssertionError("unreachable: __post_init__ compares the tables")


def _table(name: str, rows: ArrayLike) -> FloatArray:
    table = np.array(rows, dtype=np.float64)
    if table.ndim != 2:
        raise ArgumentError(f"{name} must have two dimensions, but it has {table.ndim}. Pass an array of shape (n, d).")
    # Turn minus zero into zero, because rows are compared by their bits.
    table += 0.0
    table.setflags(write=False)
    return table


def _contains(larger: FloatArray, smaller: FloatArray) -> bool:
    missing = Counter(row.tobytes() for row in smaller) - Counter(row.tobytes() for row in larger)
    return not missing


def worst_pairs(
    ball: Ball, rule: Rule, profile: Profile, *, delta: float, n_features: int, company: int
) -> list[NeighbourPair]:
    """Propose pairs from the certificate's loss curve: a record where the loss is largest, at the radius, at norm 0.

    The record lies on the first axis. `company` is the number of rows on the opposite side, so the record is alone in
    its part of the ball.
    """
    fixed = delta if isinstance(profile, ShiftProfile) else None
    worst = worst_case(rule, profile, radius=ball.radius, delta=fixed).at_norm
    norms = {"record where the loss is largest": worst, "record at the radius": ball.radius, "record at norm 0": 0.0}
    origin = np.zeros(n_features) if ball.center is None else np.asarray(ball.center, dtype=np.float64)
    axis = np.eye(n_features)[0]
    others = np.tile(origin - COMPANY_NORM * ball.radius * axis, (company, 1))
    pairs: list[NeighbourPair] = []
    proposed: list[float] = []
    for name, norm in norms.items():
        if all(abs(norm - earlier) > 1e-6 * ball.radius for earlier in proposed):
            proposed.append(norm)
            pairs.append(NeighbourPair.of(origin + min(norm, INSIDE * ball.radius) * axis, others, name=name))
    return pairs
