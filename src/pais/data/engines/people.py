"""Totals by person: all rows of a unit added up, before a bound applies to what the unit adds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pais._base.lattice import IntArray
from pais._base.numerics import FloatArray
from pais.data.ball import Ball
from pais.data.engines.base import Fold
from pais.data.engines.blocks import Block, Numbers


@dataclass(frozen=True, kw_only=True, repr=False)
class PeopleTable:
    """What each unit adds to the coordinates that its rows have, in whole steps. Secret.

    Entries are in the order of units and, within a unit, of coordinates, each pair once. So everything computed from
    the entries of a unit in their order depends on the rows of that unit alone.
    """

    owners: IntArray
    coordinates: IntArray
    steps: IntArray

    @classmethod
    def of(cls, owners: Numbers, coordinates: IntArray, steps: IntArray) -> PeopleTable:
        """Add up entries of the same unit and coordinate. Sums of integers have no order."""
        order = np.lexsort((coordinates, owners))
        owners, coordinates, steps = (each.take(order) for each in (owners, coordinates, steps))
        first = np.ones(order.size, dtype=bool)
        first[1:] = (owners[1:] != owners[:-1]) | (coordinates[1:] != coordinates[:-1])
        starts = np.flatnonzero(first)
        totals = np.add.reduceat(steps, starts) if starts.size else steps
        return cls(owners=owners[starts].astype(np.int64), coordinates=coordinates[starts], steps=totals)

    @classmethod
    def joined(cls, tables: Sequence[PeopleTable]) -> PeopleTable:
        """Add up tables of the same units."""
        if len(tables) == 1:
            return tables[0]
        columns = [
            np.concatenate([np.empty(0, dtype=np.int64), *(getattr(table, name) for table in tables)])
            for name in ("owners", "coordinates", "steps")
        ]
        return cls.of(*columns)


class Contributions(ABC):
    """What a row adds to the coordinates of the vector of its unit. Public; equal objects add the same."""

    @abstractmethod
    def entries(self, rows: FloatArray) -> list[tuple[IntArray, IntArray]]:
        """Coordinates and whole steps, one of each for each row; several pairs if a row adds to several coordinates."""


@dataclass(frozen=True, kw_only=True)
class PeopleFold(Fold, ABC):
    """A sum over units of a function of their vectors. Use it with `Engine.fold_people`.

    It does not use masses, so that `Engine.fold` refuses it: the rows of a unit may be in several blocks.

    Notes
    -----
    Guarantee. The vector of a unit, and so what it adds to the sum, does not depend on rows of other units:
    `tests/theory/test_people_totals.py`.
    """

    ball: Ball
    contributions: Contributions

    @abstractmethod
    def over_people(self, table: PeopleTable) -> NDArray[Any]:
        """Sum over the units of a table."""

    def table_of(self, block: Block) -> PeopleTable:
        """The vectors of the units of a block. Rows that are not usable add nothing."""
        owners = np.empty(0, dtype=np.int64) if block.owners is None else block.owners
        usable = np.flatnonzero(owners >= 0)
        rows = self.ball.clip(self.ball.shift(block.rows()[usable]))
        parts = self.contributions.entries(rows)
        coordinates = np.concatenate([coordinate for coordinate, _ in parts])
        steps = np.concatenate([step for _, step in parts])
        return PeopleTable.of(np.tile(owners[usable], len(parts)), coordinates, steps)

    def of(self, block: Block) -> NDArray[Any]:
        """The sum over the units of a block in which all rows of each unit are. [note: totals-1]"""
        return self.over_people(self.table_of(block))
