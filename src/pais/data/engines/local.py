"""Base class of the engines that read rows in this process. It handles rows that belong to units."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pais._base.randomness import BitSource, KeyedBits, RandomState, RowBits, row_bits
from pais._base.validate import without_sizes
from pais.data.engines.base import Engine, Fold, KeptRows, RunningSum, Thinning, WeightedRows, join, quiet
from pais.data.engines.blocks import Block, Index
from pais.data.engines.members import Members, UnitThinning
from pais.data.engines.people import PeopleFold, PeopleTable
from pais.data.engines.sieve import Sieve, Sifting
from pais.data.units import seeded_identity

T = TypeVar("T")
CarriedAt = Callable[[Index], pa.Table]


class LocalEngine(Engine):
    """An engine that can pass over its rows several times.

    With units, the first pass counts the rows of each unit. A sample takes two more passes: one for the norms of the
    units, and one for the rows of the units that are kept.
    """

    _members: Members | None = None
    # The vectors of units that were added up last, and for what.
    _people: tuple[object, PeopleTable] | None = None
    _sieves: tuple[Sieve, ...] = ()

    @abstractmethod
    def _over_blocks(self, work: Callable[[Block, CarriedAt], T], *, by_rows: bool = False) -> list[T]:
        """Run `work` on every block, in threads. The second argument returns the carried columns of some rows."""

    @abstractmethod
    def in_order(self, work: Callable[[NDArray[np.generic], pa.Table], T]) -> Iterator[T]:
        """Yield the results of `work` on the rows and carried columns of each block, in the order of the rows.

        All rows are passed, finite or not. Parts are read in threads, as many at a time as there are threads. For
        results that belong to the owner of the data, such as labels.
        """

    @property
    @abstractmethod
    def carried_schema(self) -> pa.Schema:
        """Names and types of the carried columns. Public."""

    @abstractmethod
    def _join_carried(self, tables: list[pa.Table]) -> pa.Table | None:
        """Concatenate the carried columns of a sample; None if there are none."""

    def sifting(self, random_state: RandomState | BitSource, *, stream: int = 0) -> Engine:
        """Return the same engine with one more sieve, unless units or carried columns need the rows again."""
        sieve = Sieve.of(random_state, stream=stream)
        if sieve is None or self.unit is not None or self._columns.carry:
            return self
        engine = copy.copy(self)
        # The latest is tried first: an earlier one belongs to a later sample.
        engine._sieves = (sieve, *self._sieves)
        return engine

    @property
    def sifts(self) -> bool:
        return bool(self._sieves)

    def sift(self, fold: Fold, *, seeded: bool) -> NDArray[Any]:
        n_numbers = None if self.known_rows is None else self.known_rows * self.n_features
        for sieve in self._sieves:
            sieve.begin(self.schema, n_numbers)
        return self.fold(Sifting(fold=fold, sieves=self._sieves), seeded=seeded)

    def fold_again(self, fold: Fold, *, seeded: bool) -> NDArray[Any]:
        whole = [sieve for sieve in self._sieves if sieve.whole]
        return whole[0].folded(fold).result(self) if whole else self.fold(fold, seeded=seeded)

    def _sifted(self, thinning: Thinning, draws: RowBits) -> WeightedRows | None:
        """Return the sample from candidates, or None if the rows have to be read."""
        samples = (sieve.thinned(thinning, draws, self.n_features, self.schema) for sieve in self._sieves)
        return next((sample for sample in samples if sample is not None), None)

    def _with_members(self) -> Members:
        """The units of the source. They are counted once."""
        if self._members is None:
            assert self.unit is not None
            members = Members(self.unit)
            self._over_blocks(lambda block, _: members.add(block))
            members.finish()
            self._members = members
        return self._members

    def _fold_units(self, fold: Fold, *, seeded: bool) -> NDArray[Any]:
        self.require_masses(fold)
        members, total = self._with_members(), RunningSum(fold)
        self._over_blocks(lambda block, _: total.over(members.weighted(block)), by_rows=seeded)
        return total.result(self)

    @without_sizes
    def fold_people(self, fold: PeopleFold, *, seeded: bool) -> NDArray[Any]:
        """Return the sum over all units, from a table of their vectors, which is made once, in one pass."""
        assert self.unit is not None
        wanted = (fold.ball, fold.contributions)
        # Other threads may replace the table that is kept, so this one is held here.
        known = self._people
        if known is None or known[0] != wanted:
            members = Members(self.unit) if self._members is None else self._members
            is_new = self._members is None

            def over(block: Block, _: CarriedAt) -> PeopleTable:
                block.owners = members.add(block) if is_new else members.numbers(block)
                return quiet(fold.table_of)(block)

            known = (wanted, PeopleTable.joined(self._over_blocks(over, by_rows=seeded)))
            if is_new:
                members.finish()
                self._members = members
            self._people = known
        return quiet(fold.over_people)(known[1])

    def _thin_units(self, thinning: Thinning, bits: BitSource) -> WeightedRows:
        draws = row_bits(bits)
        identify = seeded_identity if isinstance(draws, KeyedBits) else None
        sample = UnitThinning(members=self._with_members(), thinning=thinning, identify=identify)
        self._over_blocks(lambda block, _: sample.measure(block))
        sample.draw(draws)

        def keep(block: Block, carried_at: CarriedAt) -> tuple[KeptRows, pa.Table]:
            kept = sample.keep(block)
            return kept, carried_at(kept.index)

        return self._joined(self._over_blocks(keep))

    def _joined(self, samples: list[tuple[KeptRows, pa.Table]]) -> WeightedRows:
        """Join the parts of a sample and their carried columns. Empties the list."""
        carried = self._join_carried([table for _, table in samples])
        kept_rows = [kept for kept, _ in samples]
        # `join` frees the kept rows one by one, so nothing else may refer to them.
        samples.clear()
        return join(kept_rows, self.n_features, carried)
