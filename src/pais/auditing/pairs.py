"""Neighbouring tables: the same rows, with and without one record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from pais._base.numerics import FloatArray
from pais.data.ball import Ball
from pais.data.cells import times_of_days
from pais.data.kinds import Boolean, Bounds, Categories, Column, Dates, Intervals, Scale
from pais.data.schema import Schema
from pais.data.units import unit_of
from pais.errors import ArgumentError
from pais.estimator import PrivateEstimator, SupervisedEstimator
from pais.privacy.certify import worst_case
from pais.privacy.profiles import Profile, ShiftProfile
from pais.privacy.rules import Rule

# Norm of the other rows as a share of the radius, for mechanisms that need rows elsewhere in the ball.
COMPANY_NORM = 0.5

# Number of rows besides the record, enough for a survey to find them above its noise.
MANY = 200

# Number of rows of the person that is the record, where a person may own several.
_ROWS_OF_A_PERSON = 3

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
        # Rows of the smaller table that the larger one lacks.
        missing = Counter(row.tobytes() for row in smaller) - Counter(row.tobytes() for row in larger)
        if larger.shape[1] != smaller.shape[1] or len(larger) != len(smaller) + 1 or missing:
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


def worst_pairs(
    ball: Ball, rule: Rule, profile: Profile, *, delta: float, n_features: int, company: int, middle: bool = False
) -> list[NeighbourPair]:
    """Propose pairs from the certificate's loss curve: a record where the loss is largest, at the radius, at norm 0.

    The record lies on the first axis. `company` is the number of rows on the opposite side, so the record is alone in
    its part of the ball. If `middle`, a record at half the radius is proposed too.
    """
    fixed = delta if isinstance(profile, ShiftProfile) else None
    worst = worst_case(rule, profile, radius=ball.radius, delta=fixed).at_norm
    norms = {"record where the loss is largest": worst, "record at the radius": ball.radius, "record at norm 0": 0.0}
    if middle:
        norms["record at half the radius"] = 0.5 * ball.radius
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


@dataclass(frozen=True, kw_only=True, eq=False)
class TablePair:
    """Two tables of any kind that pais reads. The rows of the record are the last ones of `present`."""

    present: Any
    absent: Any
    name: str = "given pair"

    @classmethod
    def of(cls, pair: object) -> TablePair:
        """Take a `NeighbourPair`, or a table with the record and a table without it."""
        if isinstance(pair, NeighbourPair):
            present = np.vstack([pair.without_record, pair.record[None, :]])
            return cls(present=present, absent=pair.without_record, name=pair.name)
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise ArgumentError(
                "pair is no pair of tables. Pass a NeighbourPair, or a table with the record and one without it."
            )
        return cls(present=pair[0], absent=pair[1])


def replayed_pairs(ball: Ball, rule: Rule, profile: Profile, *, delta: float, n_features: int) -> list[TablePair]:
    """The worst pairs of a certificate, with the record alone and opposite many rows."""
    return [
        TablePair.of(replace(pair, name=f"{pair.name}, {label}"))
        for company, label in ((0, "alone"), (MANY, f"opposite {MANY} rows"))
        for pair in worst_pairs(ball, rule, profile, delta=delta, n_features=n_features, company=company, middle=True)
    ]


def fitted_pairs(model: PrivateEstimator, n_features: int | None) -> list[TablePair]:
    """Propose tables for a fit: a record opposite one row, and opposite many rows.

    If the model states its columns, the record is at one end of each column and the others are at the other end.
    Otherwise the record is at the radius, or at norm 1 if no radius is stated.
    """
    stated = model.columns
    if isinstance(stated, (Mapping, Schema)):
        make = _named_tables(Schema.of(stated), model)
    else:
        if stated is not None or model.unit is not None:
            raise ArgumentError(
                "the model reads columns by name, and does not state what they hold. Pass pair=(table with the record, "
                "table without it)."
            )
        make = _array_tables(model, n_features)
    return [
        TablePair(present=make(rows, True), absent=make(rows, False), name=f"record opposite {label}")
        for rows, label in ((1, "one row"), (MANY, f"{MANY} rows"))
    ]


def _array_tables(model: PrivateEstimator, n_features: int | None) -> Callable[[int, bool], FloatArray]:
    center, radius = getattr(model, "center", None), float(getattr(model, "radius", None) or 1.0)
    width = n_features or (2 if center is None else np.size(center))
    origin = np.zeros(width) if center is None else np.asarray(center, dtype=np.float64)
    axis = np.eye(width)[0]
    record, other = origin + INSIDE * radius * axis, origin - COMPANY_NORM * radius * axis
    classes = getattr(model, "classes", None)
    if isinstance(model, SupervisedEstimator) and classes is not None:
        # The last column holds the target.
        record[-1], other[-1] = classes[-1], classes[0]

    def make(rows: int, has_record: bool) -> FloatArray:
        return np.vstack([np.tile(other, (rows, 1)), *([record] if has_record else [])])

    return make


def _named_tables(schema: Schema, model: PrivateEstimator) -> Callable[[int, bool], pa.Table]:
    unit = unit_of(model.unit, model.max_rows_per_unit)
    classes, target = getattr(model, "classes", None), getattr(model, "target", None)
    if isinstance(model, SupervisedEstimator) and target not in schema.names:
        raise ArgumentError(
            "the model does not state what its target holds. Pass pair=(table with the record, table without it)."
        )

    def cells(column: Column) -> tuple[Any, Any]:
        return (classes[-1], classes[0]) if column.name == target and classes is not None else _ends(column)

    def make(rows: int, has_record: bool) -> pa.Table:
        own = 0 if not has_record else 1 if unit is None else _ROWS_OF_A_PERSON
        columns = {
            column.name: [other] * rows + [record] * own
            for column in schema.columns
            for record, other in [cells(column)]
        }
        if unit is not None:
            columns[unit.column] = [*range(rows), *[rows] * own]
        return pa.table(columns)

    return make


def _ends(column: Column) -> tuple[Any, Any]:
    """Two cells of a column that are as far apart as its facts allow."""
    if isinstance(column, Dates):
        first, last = times_of_days(np.array([column.low, column.high]))
        return last, first
    if isinstance(column, Bounds):
        return column.high, column.low
    if isinstance(column, Boolean):
        return True, False
    if isinstance(column, Intervals):
        inside = column.edges[np.isfinite(column.edges)]
        ends = inside[[-1, 0]] - [1e-9 * np.ptp(inside), 0.0]
        last, first = times_of_days(ends) if column.cells == "dates or times" else ends
        return last, first
    if isinstance(column, Categories):
        return column.values[-1], column.values[0]
    if isinstance(column, Scale):
        return column.unit_scale, -COMPANY_NORM * column.unit_scale
    return 1.0, -COMPANY_NORM
