"""Engines that read rows in this process: what they share, and the engine for rows in memory.

`Members` counts the rows of each unit, and `UnitSampling` keeps whole units. `Candidates` holds rows of a survey's pass
that a sample may keep, so that drawing the sample does not read the rows again. `LocalEngine` is the base class.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pais._base.lattice import IntArray
from pais._base.numerics import ULP, FloatArray, round_down
from pais._base.randomness import BitSource, KeyedBits, RandomState, RowBits, bernoulli, bit_source, row_bits
from pais._base.threads import cores, in_threads
from pais._base.validate import without_sizes
from pais.data.columns import Columns, Layout, Usable
from pais.data.engines.base import (
    CarriedCells,
    Engine,
    Fold,
    KeptRows,
    PeopleFold,
    PeopleTable,
    Sampling,
    WeightedRows,
    join,
    quiet,
    total_of,
)
from pais.data.engines.blocks import Block, ColumnBlock, Numbers, RowBlock
from pais.data.schema import Schema
from pais.data.units import HashIndex, Unit, UnitHash, seeded_identity
from pais.errors import DataError

T = TypeVar("T")

#: Largest number of units of a source. An index of so many takes about 6 GB.
MOST_UNITS = 10**8

# Squares of norms are added in whole steps of 2**-30 of the squared radius, each rounded up: a sum of 2**33 rows fits.
_SQUARE_BITS = 30

# Rows whose unit is remembered between passes, in 4 bytes each. The units of further rows are looked up again.
_REMEMBERED_ROWS = 1 << 27

# Units whose probability is evaluated at a time.
_CHUNK = 1 << 18


class Members:
    """The units of a source and the number of usable rows of each. Secret.

    `add` every block first, then call `finish`; then the other methods may be called, also from several threads. A row
    that holds NaN or infinity is not usable and does not count.
    """

    #: Number of units, and of the usable rows of each.
    size: int
    n_rows: IntArray

    def __init__(self, unit: Unit) -> None:
        self.unit = unit
        self._hash, self._index = UnitHash(), HashIndex()
        self._rows = np.zeros(1 << 12, dtype=np.int64)
        self._masses = np.zeros(1, dtype=np.int32)
        self._remembered: dict[object, NDArray[np.int32]] = {}
        self._room = _REMEMBERED_ROWS
        self._lock = Lock()

    def add(self, block: Block) -> Numbers:
        """Count the usable rows of a block, and return the number of the unit of each row, as `numbers` does."""
        usable = block.finite()
        words = self._hash.words(block.units)
        whole = bool(usable.all())
        with self._lock:
            numbers = self._index.add(words if whole else words[usable])
            if self._index.size > MOST_UNITS:
                raise DataError(
                    f"the source has more than {MOST_UNITS} units, the most that an index in memory can hold. Split "
                    "it by unit, or group the rows of each unit first."
                )
            if self._index.size > len(self._rows):
                more = max(self._index.size, 2 * len(self._rows)) - len(self._rows)
                self._rows = np.concatenate([self._rows, np.zeros(more, dtype=np.int64)])
            np.add.at(self._rows, numbers, 1)
            owners = np.full(block.n_rows, -1, dtype=np.int32)
            owners[usable] = numbers
            if block.place is not None and block.n_rows <= self._room:
                self._room -= block.n_rows
                self._remembered[block.place] = owners
        return owners

    def finish(self) -> None:
        """Compute the mass of the rows of each unit, once all blocks are added."""
        self.size = self._index.size
        self.n_rows = self._rows[: self.size]
        self._masses = np.zeros(self.size + 1, dtype=np.int32)  # The last entry is for rows that are not usable.
        for start in range(0, self.size, _CHUNK):
            piece = slice(start, min(start + _CHUNK, self.size))
            self._masses[piece] = self.unit.masses(self.n_rows[piece])

    def numbers(self, block: Block) -> Numbers:
        """The number of the unit of each row of a block, or -1 for a row that is not usable.

        A row that is not usable did not count when the masses were shared out, so it must not contribute to any sum.
        """
        remembered = self._remembered.get(block.place)
        if remembered is not None:
            return remembered
        return np.where(block.finite(), self._index.find(self._hash.words(block.units)), -1)  # [note: units-8]

    def weighted(self, block: Block) -> Block:
        """Give the rows of a block their masses, and return the block. Rows that are not usable have mass 0."""
        block.owners = self.numbers(block)
        # The last mass is that of rows that are not usable, whose number is -1.
        block.masses = self._masses.take(block.owners, mode="wrap")
        block.mass_step = 2.0**-self.unit.mass_bits
        return block


class UnitSampling:
    """Sampling of whole units: first `measure` every block, then `draw` once, then `keep` the rows of every block.

    `identify` returns identities of units, which key the draws. Without it, the draws take the next bits of a source.

    Notes
    -----
    Guarantee. A unit is kept as a whole, with exactly the probability of its norm. The weights of its rows add up to at
    most the inverse of that probability: `tests/conformance/test_units.py`, `tests/theory/test_units.py`.
    """

    def __init__(
        self, *, members: Members, sampling: Sampling, identify: Callable[[pa.Array], NDArray[np.uint64]] | None = None
    ) -> None:
        self.members, self.sampling, self.identify = members, sampling, identify
        self._squares = np.zeros(members.size, dtype=np.int64)
        self._identity = np.zeros(members.size, dtype=np.uint64)
        self._weights = np.zeros(members.size + 1)
        self._lock = Lock()

    @quiet
    def measure(self, block: Block) -> None:
        """Add the squared norms of a block's rows to those of their units. Sums of integers have no order."""
        norm, ball = block.all_norms(self.sampling.ball), self.sampling.ball
        numbers = self.members.numbers(block)
        usable = np.flatnonzero(~np.isnan(norm) & (numbers >= 0))
        share = np.minimum(norm.take(usable) / ball.radius * (1.0 + 4 * ULP), 1.0)
        # At least one step, also where the square of a tiny norm underflows.
        steps = np.ceil(share * share * (1.0 + 4 * ULP) * 2.0**_SQUARE_BITS).astype(np.int64)
        steps = np.maximum(steps, 1, out=steps)  # [note: units-3]
        numbers = numbers.take(usable)
        identity = None if self.identify is None else self.identify(block.units)[usable]
        with self._lock:
            np.add.at(self._squares, numbers, steps)
            if identity is not None:
                if self._identity.shape[1:] != identity.shape[1:]:
                    self._identity = np.zeros((len(self._squares), *identity.shape[1:]), dtype=np.uint64)
                self._identity[numbers] = identity

    def norms(self, piece: slice) -> FloatArray:
        """Norms of units, rounded up, and at most the radius."""
        rows = np.maximum(self.members.n_rows[piece], self.members.unit.full_rows)
        square = self._squares[piece] * 2.0**-_SQUARE_BITS / rows
        radius = self.sampling.ball.radius
        return np.minimum(np.sqrt(square) * (1.0 + 8 * ULP) * radius, radius)

    @quiet
    def draw(self, bits: RowBits) -> None:
        """Keep each unit independently with the probability of its norm, and set the weights of its rows."""
        unit = self.members.unit
        for start in range(0, self.members.size, _CHUNK):
            piece = slice(start, min(start + _CHUNK, self.members.size))
            probability, ids = self.sampling.rule.evaluate(self.norms(piece)), self._identity[piece]
            kept = bernoulli(
                probability,
                bits.first(ids),
                lambda undecided, turn, ids=ids: bits.more(ids[undecided], turn),  # type: ignore[misc]  # bound now
            )  # [note: units-4]
            mass = unit.masses(self.members.n_rows[piece]) * 2.0**-unit.mass_bits
            weight = np.maximum(round_down(1.0 / probability, 1.0), 1.0)
            # Both factors are rounded down, and so is their product. [note: units-5]
            self._weights[piece] = np.where(kept, np.where(mass < 1.0, np.nextafter(mass * weight, 0.0), weight), 0.0)

    @quiet
    def keep(self, block: Block) -> KeptRows:
        """Return the rows of kept units, clipped to the ball."""
        ball, numbers = self.sampling.ball, self.members.numbers(block)
        weights = self._weights.take(numbers, mode="wrap")
        index = np.flatnonzero(weights > 0.0)
        rows = block.taken(index, ball)
        return KeptRows(index=index, rows=ball.clip(rows), weights=weights.take(index))


#: Numbers that the candidates are expected to have at most: 64 MB. That is enough for nearly every default fit: k-means
#: of 5 to 100 clusters in 4 to 54 columns keeps at most a fourth of a table of more than 256 MB, for epsilon from 1 on.
MOST_NUMBERS = 1 << 23
#: All rows are held if they are known to have at most this many numbers: 256 MB.
MOST_WHOLE = 1 << 25


class Candidates:
    """The first 8 bits of every row's draw, drawn early, and the rows whose bits are at most a ceiling. Secret.

    The ceiling falls as rows arrive, so that the rows that are held fit into memory. It depends on the number of rows
    alone and not on any bit, since otherwise the bits of the rows that are held would no longer be fair. A sample that
    keeps no row with larger bits is drawn from these rows, with the same bits, and is the sample that a pass over all
    rows would give. They are used once.

    Notes
    -----
    Guarantee. The sample has the same distribution as one from a pass, and with a seed it is the same. Whether a pass
    is needed changes time alone: `tests/unit/data/engines/test_candidates.py`.
    """

    def __init__(self, draws: RowBits, most: int | None = None) -> None:
        self._draws, self._lock, self._room = draws, Lock(), most
        self._schema: Schema | None = None
        self._held: list[_HeldRows] = []
        self._ceiling, self._seen, self._most = -1, 0, 0

    @classmethod
    def of(cls, random_state: RandomState | BitSource, *, stream: int, most: int | None = None) -> Candidates | None:
        """Return candidates with the bits of a sample that `random_state` gives; None for a NumPy Generator."""
        is_seed = isinstance(random_state, (int, np.integer))
        known = random_state is None or is_seed
        return cls(row_bits(bit_source(random_state, stream=stream)), most) if known else None

    def begin(self, schema: Schema | None, n_numbers: int | None) -> None:
        """Begin a pass over rows with this schema, of so many numbers if known. The number changes time alone."""
        self._schema, self._held, self._seen = schema, [], 0
        room = MOST_NUMBERS if self._room is None else min(self._room, MOST_NUMBERS)
        self._most = room if n_numbers is None or n_numbers > MOST_WHOLE else MOST_WHOLE
        self._ceiling = min(256 * self._most // (n_numbers or 1), 256) - 1

    @property
    def whole(self) -> bool:
        """Whether all finite rows are held."""
        return self._ceiling == 255

    def add(self, block: Block) -> None:
        """Draw the first bits of the rows of a block, and hold the finite rows whose bits are at most the ceiling."""
        first = self._draws.first(block.identity)  # [note: keep-6]
        held = _HeldRows(block=block, first=first).below(self._ceiling)
        finite = held.block.finite()
        held = held if finite.all() else held.at(finite)
        with self._lock:
            self._held.append(held)
            self._seen += block.n_rows * block.n_features
            ceiling = self._ceiling
            while self._seen * (ceiling + 1) > 256 * self._most:  # [note: keep-7]
                ceiling = (ceiling + 1) // 2 - 1
            if ceiling < self._ceiling:
                self._ceiling, self._held = ceiling, [held.below(ceiling) for held in self._held]

    def hold(self, block: Block, first: NDArray[np.uint8], *, ceiling: int, schema: Schema | None) -> None:
        """Hold the finite rows of a table whose first bits are at most a ceiling, collected by others."""
        self._held, self._ceiling, self._schema = [_HeldRows(block=block, first=first)], ceiling, schema

    def fold(self, fold: Fold, n_features: int) -> NDArray[Any]:
        """Return the sum over the rows that are held."""
        return total_of(fold, n_features, lambda add: in_threads(lambda held: add(held.block), self._held))

    def sample(self, sampling: Sampling, draws: RowBits, engine: Engine) -> WeightedRows | None:
        """Return the sample of an engine's rows, or None if it may keep other rows than those that are held."""
        # Bits that a seed determines are the same now. Other bits are fresh, whoever draws them.
        is_seeded = isinstance(draws, KeyedBits) or isinstance(self._draws, KeyedBits)
        screen = sampling.screen(engine.n_features)
        with self._lock:
            if screen.ceiling > self._ceiling or engine.schema != self._schema or (is_seeded and draws != self._draws):
                return None
            known = [(held.block, _KnownBits(held.first, draws)) for held in self._held]
            self._held, self._ceiling = [], -1
        return join(in_threads(lambda item: sampling.keep(item[0], screen, item[1]), known), engine.n_features)


@dataclass(frozen=True, kw_only=True, eq=False)
class _HeldRows:
    """Rows and the first bits of their draws."""

    block: Block
    first: NDArray[np.uint8]

    def below(self, ceiling: int) -> _HeldRows:
        """Return the rows with bits up to a ceiling."""
        passes = self.first <= ceiling
        return self if passes.all() else self.at(passes)

    def at(self, chosen: NDArray[np.bool_]) -> _HeldRows:
        index = np.flatnonzero(chosen)
        return _HeldRows(block=self.block.part(index), first=self.first.take(index))


@dataclass(frozen=True, eq=False)
class _KnownBits(RowBits):
    """Bits of rows whose first bits were drawn before."""

    known: NDArray[np.uint8]
    draws: RowBits

    def first(self, identity: NDArray[np.uint64]) -> NDArray[np.uint8]:
        return self.known

    def more(self, identity: NDArray[np.uint64], turn: int) -> NDArray[np.uint64]:
        return self.draws.more(identity, turn)


@dataclass(frozen=True, kw_only=True)
class _Collecting(Fold):
    """A fold whose rows are also added to candidates. The sum is the same."""

    fold: Fold
    candidates: Sequence[Candidates]

    @property
    def uses_masses(self) -> bool:  # type: ignore[override]  # follows from the fold
        return self.fold.uses_masses

    def of(self, block: Block) -> NDArray[Any]:
        for candidates in self.candidates:
            candidates.add(block)
        return self.fold.of(block)


class LocalEngine(Engine):
    """An engine that can pass over its rows several times.

    With units, the first pass counts the rows of each unit. A sample takes two more passes: one for the norms of the
    units, and one for the rows of the units that are kept.
    """

    _members: Members | None = None
    # The vectors of units that were added up last, and for what.
    _people: tuple[object, PeopleTable] | None = None
    _candidates: tuple[Candidates, ...] = ()

    @abstractmethod
    def _over_blocks(
        self, work: Callable[[Block, pa.Table], T], *, by_rows: bool = False, positions: bool = False
    ) -> list[T]:
        """Run `work` on every block and its carried columns, in threads. Return the results in the order of the rows.

        With `by_rows`, blocks hold arrays of rows. With `positions`, rows without a key are known by their positions.
        """

    @abstractmethod
    def in_order(self, work: Callable[[NDArray[np.generic], pa.Table], T]) -> Iterator[T]:
        """Yield the results of `work` on the rows and carried columns of each block, in the order of the rows.

        All rows are passed, finite or not. Few results are held at a time. For results that belong to the owner of the
        data, such as labels.
        """

    @property
    @abstractmethod
    def carried_schema(self) -> pa.Schema:
        """Names and types of the carried columns. Public."""

    @without_sizes
    def fold(self, fold: Fold, *, seeded: bool) -> NDArray[Any]:
        self.require_masses(fold)
        weighted = None if self.unit is None else self._with_members(self.unit).weighted
        return total_of(
            fold,
            self.n_features,
            lambda add: self._over_blocks(
                lambda block, _: add(block if weighted is None else weighted(block)), by_rows=seeded
            ),
        )

    @without_sizes
    def sample(self, sampling: Sampling, bits: BitSource) -> WeightedRows:
        draws = row_bits(bits)
        is_seeded = isinstance(draws, KeyedBits)
        if self.unit is None:
            for candidates in self._candidates:
                sample = candidates.sample(sampling, draws, self)
                if sample is not None:
                    return sample
            screen = sampling.screen(self.n_features)
            samples = self._over_blocks(
                lambda block, carried: _with_carried(sampling.keep(block, screen, draws), carried), positions=is_seeded
            )
        else:
            members, identify = self._with_members(self.unit), seeded_identity if is_seeded else None
            units = UnitSampling(members=members, sampling=sampling, identify=identify)
            self._over_blocks(lambda block, _: units.measure(block))
            units.draw(draws)
            samples = self._over_blocks(lambda block, carried: _with_carried(units.keep(block), carried))
        carried = self._join_carried([table for _, table in samples]) if self.stated.carry else None
        kept_rows = [kept for kept, _ in samples]
        # `join` frees the kept rows one by one, so nothing else may refer to them.
        samples.clear()
        return join(kept_rows, self.n_features, carried)

    def _join_carried(self, tables: list[pa.Table]) -> pa.Table:
        """Concatenate carried columns. A column of nulls takes its type from the others."""
        return pa.concat_tables([self.carried_schema.empty_table(), *tables], promote_options="default")

    def _with_members(self, unit: Unit) -> Members:
        """The units of the source. They are counted once."""
        if self._members is None:
            members = Members(unit)
            self._over_blocks(lambda block, _: members.add(block))
            members.finish()
            self._members = members
        return self._members

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

            def over(block: Block, _: pa.Table) -> PeopleTable:
                block.owners = members.add(block) if is_new else members.numbers(block)
                return quiet(fold.table_of)(block)

            known = (wanted, PeopleTable.joined(self._over_blocks(over, by_rows=seeded)))
            if is_new:
                members.finish()
                self._members = members
            self._people = known
        return quiet(fold.over_people)(known[1])

    @without_sizes
    def over_carried(self, work: Callable[[CarriedCells], T]) -> list[T]:
        return self._over_blocks(lambda block, carried: work(CarriedCells(carried, block.units)))

    def collecting(self, random_state: RandomState | BitSource, *, stream: int = 0, most: int | None = None) -> Engine:
        """Return the same engine with more candidates, unless units or carried columns need the rows again."""
        candidates = Candidates.of(random_state, stream=stream, most=most)
        if candidates is None or self.unit is not None or self.stated.carry:
            return self
        engine = copy.copy(self)
        # The latest are tried first: earlier ones belong to a later sample.
        engine._candidates = (candidates, *self._candidates)
        return engine

    @property
    def collects(self) -> bool:
        return bool(self._candidates)

    def fold_and_collect(self, fold: Fold, *, seeded: bool) -> NDArray[Any]:
        if not self._candidates:
            return self.fold(fold, seeded=seeded)
        n_numbers = None if self.known_rows is None else self.known_rows * self.n_features
        for candidates in self._candidates:
            candidates.begin(self.schema, n_numbers)
        return self.fold(_Collecting(fold=fold, candidates=self._candidates), seeded=seeded)

    def fold_again(self, fold: Fold, *, seeded: bool) -> NDArray[Any]:
        whole = [candidates for candidates in self._candidates if candidates.whole]
        return whole[0].fold(fold, self.n_features) if whole else self.fold(fold, seeded=seeded)


def _with_carried(kept: KeptRows, carried: pa.Table) -> tuple[KeptRows, pa.Table]:
    return kept, carried.take(pa.array(kept.index)) if carried.num_columns else carried


def block_of(layout: Layout, usable: Usable, first_row: int, *, by_rows: bool) -> Block:
    """Return the usable rows of a batch as a block. The identity of a row is its key, or else its position."""
    batch, keys, ids = usable
    identity = np.arange(first_row, first_row + batch.num_rows, dtype=np.uint64) if keys is None else keys
    block: Block = (
        RowBlock(layout.rows(batch), identity)
        if by_rows or layout.by_rows
        else ColumnBlock(layout.numbers(batch), identity)
    )
    block.units = ids
    return block


# Large enough that the overhead of the calls on a block is small compared with reading it. With half as much, a sample
# that thins the rows takes a tenth longer, and with twice as much, a fit needs nearly twice the memory.
_BLOCK_BYTES = 1 << 25


class MemoryEngine(LocalEngine):
    """Rows of a two-dimensional array. The identity of a row is its position, unless `identity` is given."""

    def __init__(
        self,
        rows: NDArray[np.generic],
        *,
        names: tuple[str, ...] | None = None,
        carried: pa.Table | None = None,
        identity: NDArray[np.uint64] | None = None,
        columns: Columns | None = None,
        ids: pa.Array | None = None,
    ) -> None:
        if columns is None:
            columns = Columns(carry=() if carried is None else tuple(carried.column_names))
        features = names if columns.features is None else columns.features
        super().__init__(columns, names=names, features=features, n_features=int(rows.shape[1]))
        self._carried = pa.table({"": pa.nulls(len(rows))}).select([]) if carried is None else carried
        self._rows, self._identity, self._ids = rows, identity, ids

    @without_sizes
    def _rescale(self, before: Schema) -> None:
        # More rows may be usable once missing values have a midpoint.
        self._members, self._people = None, None
        assert self.schema is not None
        named = {
            column.name: self.schema[column.name].encode(self.stated.carried_cells(self._carried, column))
            for column in before.unlisted
        }
        self._rows = rows = before.rescaled(self._rows, self.schema, marked=self.stated.marked, named=named)
        for position, numbers in enumerate(self.stated.filled(list(rows.T))):
            rows[:, position] = numbers

    def collecting(self, random_state: RandomState | BitSource, *, stream: int = 0, most: int | None = None) -> Engine:
        # Sampling from memory reads candidates alone.
        return self

    def _over_blocks(
        self, work: Callable[[Block, pa.Table], T], *, by_rows: bool = False, positions: bool = False
    ) -> list[T]:
        # All blocks are equal, and every thread gets as many of them.
        step, n_rows = max(1, _BLOCK_BYTES // (8 * self.n_features)), len(self._rows)
        if 2 * n_rows > step:
            turns = -(-n_rows // (step * cores()))
            step = -(-n_rows // (turns * cores()))

        def over(start: int) -> T:
            rows = self._rows[start : start + step]
            places = np.arange(start, start + rows.shape[0], dtype=np.uint64)
            block = RowBlock(rows, places if self._identity is None else self._identity[start : start + step])
            block.units = None if self._ids is None else self._ids.slice(start, step)
            block.place = (start, step)
            return work(block, self._carried.slice(start, step))

        # An empty table gives one empty block, so that a fold still returns a zero of the right shape.
        return in_threads(over, range(0, max(1, n_rows), step))

    @without_sizes
    def in_order(self, work: Callable[[NDArray[np.generic], pa.Table], T]) -> Iterator[T]:
        yield from self._over_blocks(lambda block, carried: work(block.rows(), carried))

    @property
    def carried_schema(self) -> pa.Schema:
        return self._carried.schema.remove_metadata()
