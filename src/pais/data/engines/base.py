"""What engines do with rows: `fold` sums the contributions of all rows, and `sample` keeps rows at random.

A sum over units adds up the rows of each unit first, before a bound applies to what the unit adds: see `PeopleFold`.
"""

from __future__ import annotations

import copy
import operator
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pais._base.lattice import IntArray
from pais._base.numerics import FloatArray, round_down
from pais._base.randomness import BitSource, RandomState, RowBits, bernoulli
from pais._base.threads import in_threads
from pais.data.ball import Ball, require_width
from pais.data.cells import listed
from pais.data.columns import Columns
from pais.data.engines.blocks import Block, Index, Numbers, Screen, empty_block
from pais.data.schema import Schema
from pais.data.units import Unit
from pais.errors import DataError, MismatchError
from pais.privacy.rules import Rule

# If at least this share of the rows may be kept, judging by their bits, measuring all rows is faster than gathering
# these. Chosen by eye.
_READ_ALL_FROM = 0.3

T = TypeVar("T")

#: Decorator: turn off all warnings about the arithmetic on rows, in the thread that calls the function.
quiet = np.errstate(all="ignore")


class Fold(ABC):
    """A sum over blocks of rows. Sums of integers do not depend on the order or the grouping of the blocks.

    A fold that is released must set `uses_masses` if it multiplies the contribution of each row by its mass. An engine
    with units refuses other folds, because a unit of many rows would change them too much.
    """

    uses_masses = False

    @abstractmethod
    def of(self, block: Block) -> NDArray[Any]:
        """Return the contribution of the rows of a block. The engine adds the contributions of all blocks."""

    @quiet
    def over(self, block: Block) -> NDArray[Any]:
        """Call `of` without NumPy warnings about rows that are not finite or overflow when squared. For engines."""
        return self.of(block)


#: Maps clipped rows and their weights to the sum of their contributions, in whole steps of a lattice.
Contribution = Callable[[FloatArray, FloatArray], NDArray[np.int64]]

# Contributions are added in pieces of this many numbers, which stay in the cache.
_PIECE_NUMBERS = 1 << 18


def total_of(fold: Fold, n_features: int, over_blocks: Callable[[Callable[[Block], None]], object]) -> NDArray[Any]:
    """Return the sum of the contributions of all blocks, which `over_blocks` passes to its argument, also in threads.

    One total is held and not those of all blocks. Sums of integers do not depend on the order. Without any block, the
    sum is that of an empty one, which is a zero of the right shape.
    """
    total: NDArray[Any] | None = None
    lock = threading.Lock()

    def add(block: Block) -> None:
        nonlocal total
        part = fold.over(block)
        with lock:
            total = part if total is None else total + part

    over_blocks(add)
    return fold.over(empty_block(n_features)) if total is None else total


@dataclass(frozen=True, kw_only=True, repr=False)
class WeightedRows:
    """The rows and weights of a sample, for the mechanism that uses it. Secret, so the repr does not show them.

    `carried` holds, for the same rows, the columns that the user asked to keep alongside the features.
    """

    rows: FloatArray
    weights: FloatArray
    carried: pa.Table | None = None

    @property
    def n_features(self) -> int:
        return int(self.rows.shape[1])

    def total(self, contribution: Contribution) -> NDArray[np.int64]:
        """Return the sum of the contributions of all rows."""
        pieces = _pieces(self.rows)
        return reduce(
            operator.add, in_threads(lambda piece: contribution(self.rows[piece], self.weights[piece]), pieces)
        )


@dataclass(frozen=True, kw_only=True, repr=False)
class KeptRows:
    """The sampled rows of a block: their positions in the block, and the rows clipped to the ball. Secret."""

    index: Index
    rows: FloatArray
    weights: FloatArray


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How rows are sampled: the probability is a public function of the norm, and the draws are independent and exact.

    The first 8 bits of every row's draw are generated before the row is measured. A row is ruled out early if its bits
    exceed the largest value that the rule allows anywhere in the ball, or near the row's approximate norm. If
    `read_all` is true, every row is measured regardless of its bits; None chooses the faster way. A row that is not
    finite is never kept.
    """

    ball: Ball
    rule: Rule
    read_all: bool | None = None

    def screen(self, n_features: int) -> Screen:
        return Screen(rule=self.rule, ball=self.ball, n_features=n_features)

    @quiet
    def keep(self, block: Block, screen: Screen, bits: RowBits) -> KeptRows:
        """Sample the rows of a block."""
        read_all = self.read_all
        if read_all is None:
            read_all = screen.share >= _READ_ALL_FROM or block.gathers_slowly
        first = bits.first(block.identity)  # [note: keep-1]
        index, rows = block.survivors(screen, first, read_all=read_all)
        norm = self.ball.norms(rows)
        bad = np.isnan(norm)
        if bad.any():
            index, rows, norm = index[~bad], rows[~bad], norm[~bad]  # [note: keep-5]
        probability = self.rule.evaluate(norm)
        identity = block.identity[index]
        # [note: keep-2]
        drawn = bernoulli(probability, first[index], lambda undecided, turn: bits.more(identity[undecided], turn))
        rows = rows.take(np.flatnonzero(drawn), axis=0)
        outside = np.flatnonzero(norm[drawn] >= self.ball.radius)
        rows[outside] = self.ball.clip(rows[outside])  # [note: keep-3]
        # Rounded down, the direction of less privacy loss: weight times probability never exceeds 1.
        weights = np.maximum(round_down(1.0 / probability[drawn], 1.0), 1.0)  # [note: keep-4]
        return KeptRows(index=index[drawn], rows=rows, weights=weights)


@dataclass(frozen=True, kw_only=True)
class _Contributions(Fold):
    """Sum of the contributions of the finite rows, clipped to the ball. Their weights are their masses."""

    uses_masses = True
    ball: Ball
    contribution: Contribution

    def of(self, block: Block) -> NDArray[Any]:
        rows, masses = block.rows(), np.ones(block.n_rows)
        total: NDArray[Any] | None = None
        if block.masses is not None:
            masses *= block.masses * block.mass_step
        for piece in _pieces(rows):
            clipped, weights = self.ball.clip(self.ball.shift(rows[piece])), masses[piece]
            # Clipping turns every value of a row that is not finite into NaN, so the first column is enough.
            bad = np.isnan(clipped[:, 0])
            if bad.any():
                clipped, weights = clipped[~bad], weights[~bad]  # [note: engines-6]
            part = self.contribution(clipped, weights)
            total = part if total is None else total + part
        return np.asarray(total)


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
        places = int(coordinates.max(initial=0)).bit_length()
        if int(owners.max(initial=0)) < 2 ** (62 - places):
            # One number for both is sorted faster.
            keys = owners.astype(np.int64) << places | coordinates
            order = np.argsort(keys)
            keys = keys.take(order)
            starts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1])[: keys.size])
            keys = keys.take(starts)
            owners, coordinates = keys >> places, keys & ((1 << places) - 1)
        else:
            order = np.lexsort((coordinates, owners))
            owners, coordinates = owners.take(order).astype(np.int64), coordinates.take(order)
            first = (owners[1:] != owners[:-1]) | (coordinates[1:] != coordinates[:-1])
            starts = np.flatnonzero(np.append(True, first)[: order.size])
            owners, coordinates = owners.take(starts), coordinates.take(starts)
        steps = steps.take(order)
        return cls(
            owners=owners, coordinates=coordinates, steps=np.add.reduceat(steps, starts) if starts.size else steps
        )

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


@dataclass(frozen=True, kw_only=True, repr=False)
class AllRows:
    """All rows of a source, for a mechanism that only adds up contributions: a pass reads them and keeps none. Secret.

    The rows are clipped to the ball, and have the weights of a sample that keeps every row.
    """

    engine: Engine
    ball: Ball
    seeded: bool

    @property
    def n_features(self) -> int:
        return self.engine.n_features

    def total(self, contribution: Contribution) -> NDArray[np.int64]:
        """Return the sum of the contributions of all rows, in one pass over the source."""
        return self.engine.fold(_Contributions(ball=self.ball, contribution=contribution), seeded=self.seeded)

    def total_of_people(self, fold: PeopleFold) -> NDArray[np.int64]:
        """Return the sum over all units of a function of their vectors."""
        return self.engine.fold_people(fold, seeded=self.seeded)


def _pieces(rows: NDArray[Any]) -> list[slice]:
    """Divide rows into pieces. Sums of integers wrap around in every order in the same way."""
    step = max(1, _PIECE_NUMBERS // rows.shape[1])
    return [slice(start, start + step) for start in range(0, max(1, len(rows)), step)]


class CarriedCells(NamedTuple):
    """Carried columns of some rows as they are in the table, and the ids of their units. Secret.

    If `counts` is not None, equal rows of cells stand here once, with their number. With units, equal pairs of a unit
    and cells may stand here once without a number.
    """

    cells: pa.Table
    ids: pa.Array | None = None
    counts: IntArray | None = None


class Engine(ABC):
    """A source of rows that can be read in one pass. Only the number and the names of its columns are public."""

    names: tuple[str, ...] | None
    n_features: int
    #: Names of the columns that the features come from, or None if they have no names. Public.
    feature_columns: tuple[str, ...] | None = None
    #: The options with which the source was opened. Public.
    stated = Columns()
    unit: Unit | None = None
    #: What is public about the columns, if stated. Rows are then scaled vectors, and `names` their labels.
    schema: Schema | None = None
    #: The column that names the units; empty if single rows are protected.
    unit_column = ""

    def __init__(
        self, columns: Columns, *, names: tuple[str, ...] | None, features: tuple[str, ...] | None, n_features: int
    ) -> None:
        self.stated, self.unit, self.schema = columns, columns.unit, columns.schema
        self.names, self.feature_columns, self.n_features = names, features, n_features
        self.unit_column = "" if columns.unit is None else columns.unit.column

    def __repr__(self) -> str:
        """Show the class and the columns, which are public, but not the number of rows, which is secret."""
        columns = f"{self.n_features} column(s)" if self.names is None else listed(self.names)
        return f"<{type(self).__name__}: {columns}>"

    @property
    def titles(self) -> tuple[str, ...]:
        """Column names, or column numbers if there are no names, for use in error messages."""
        return tuple(map(str, range(self.n_features)) if self.names is None else map(repr, self.names))

    @abstractmethod
    def fold(self, fold: Fold, *, seeded: bool) -> NDArray[Any]:
        """Return the sum of all contributions. If `seeded`, it is the same to the bit in every engine and layout."""

    @abstractmethod
    def sample(self, sampling: Sampling, bits: BitSource) -> WeightedRows:
        """Return the sampled rows. Their order carries no meaning."""

    @property
    def known_rows(self) -> int | None:
        """The number of rows if it is already known, else None. Secret; used for a progress bar."""
        return None

    @property
    def collects(self) -> bool:
        """Whether `fold_and_collect` collects candidates."""
        return False

    def collecting(self, random_state: RandomState | BitSource, *, stream: int = 0, most: int | None = None) -> Engine:
        """Return an engine whose `fold_and_collect` collects candidates for one more sample; by default, this engine.

        The sample must be drawn with the bits of `random_state` and `stream`. Pass in `most` how many numbers the
        sample may have if that is known before: fewer candidates take less time.
        """
        return self

    def fold_and_collect(self, fold: Fold, *, seeded: bool) -> NDArray[Any]:
        """Return the result of `fold`, and collect candidates for samples if that saves a pass over the rows."""
        return self.fold(fold, seeded=seeded)

    def fold_again(self, fold: Fold, *, seeded: bool) -> NDArray[Any]:
        """Return the result of `fold` after `fold_and_collect`. Rows that are not finite must add nothing to it."""
        return self.fold(fold, seeded=seeded)

    def fold_people(self, fold: PeopleFold, *, seeded: bool) -> NDArray[Any]:
        """Return the sum over all units. The rows of each unit are added up first."""
        raise NotImplementedError

    @abstractmethod
    def over_carried(self, work: Callable[[CarriedCells], T]) -> list[T]:
        """Run `work` on the carried columns of all rows, in parts, in one pass. Secret."""

    def require_passes(self, n: int) -> None:  # noqa: B027  # most sources can be read again
        """Raise, before a row is read, if the source cannot be read this many times."""

    def held(self) -> Engine:
        """Return an engine with the same rows in memory; by default, this engine itself."""
        return self

    def require_masses(self, fold: Fold) -> None:
        """Raise if rows belong to units and the fold does not use their masses."""
        if self.unit is not None and not fold.uses_masses:
            raise MismatchError(f"{type(fold).__name__} does not use the masses of rows. Leave out unit.")

    def require_width(self, ball: Ball) -> None:
        """Raise `DataError` if the center and the rows differ in the number of columns."""
        require_width(self.n_features, ball)

    def with_schema(self, schema: Schema) -> Engine:
        """Return an engine with the same rows, in which the open columns of the schema are resolved."""
        if self.schema is None or not self.schema.may_become(schema):
            raise MismatchError(
                "the rows were opened with another schema. Pass columns= of this schema to pais.source."
            )
        if self.schema == schema:
            return self
        engine = copy.copy(self)
        names = [column.name for column in self.schema.unlisted]
        # Columns whose names are published now were carried to read these names.
        carry = tuple(name for name in self.stated.carry if name not in names)
        engine.stated, engine.schema = replace(self.stated, schema=schema, carry=carry), schema
        engine.names, engine.n_features = schema.labels, schema.width
        engine._rescale(self.schema)
        return engine

    def _rescale(self, before: Schema) -> None:
        """Read the rows by the schema that is stated now, where they were read by an open one."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class _BadCells(Fold):
    """The number of cells in each column that are not finite. It is not released, so masses do not matter."""

    uses_masses = True

    def of(self, block: Block) -> NDArray[Any]:
        return np.asarray((~np.isfinite(block.rows().astype(np.float64, copy=False))).sum(axis=0))


def require_finite(engine: Engine) -> None:
    """Raise `DataError` naming the columns that have values that are not finite. Reads all rows once.

    A single row decides whether this raises, so the check is outside the privacy guarantee.
    """
    bad = np.flatnonzero(engine.fold(_BadCells(), seeded=False))
    if bad.size:
        raise DataError(
            f"column(s) {', '.join(engine.titles[column] for column in bad)} have values that are missing, NaN, "
            "infinite or not numbers. Correct them, or pass missing='drop' to leave those rows out."
        )


def join(parts: list[KeptRows], n_features: int, carried: pa.Table | None = None) -> WeightedRows:
    """Join the parts of a sample. Each part is dropped once it is copied, so memory holds the sample only once."""
    if len(parts) == 1:
        kept = parts.pop()
        return WeightedRows(rows=kept.rows, weights=kept.weights, carried=carried)
    weights = np.concatenate([np.empty(0), *(part.weights for part in parts)])
    rows, ends = np.empty((weights.size, n_features)), np.cumsum([part.weights.size for part in parts]).tolist()
    nothing = KeptRows(index=np.empty(0, dtype=np.intp), rows=rows[:0], weights=weights[:0])

    def place(number: int) -> None:
        part, parts[number] = parts[number], nothing
        rows[ends[number] - len(part.rows) : ends[number]] = part.rows

    in_threads(place, range(len(parts)))
    parts.clear()
    return WeightedRows(rows=rows, weights=weights, carried=carried)
