"""Rows by unit: how many each unit owns, the norm of a unit, and which units a sample keeps.

A unit u with rows x_1 .. x_m gives each row the mass a = 1 / max(M, m). Its norm is the root of the sum of a |x_i|^2. A
unit is kept as a whole, with the probability of its norm.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pais._base.hashing import HashIndex
from pais._base.lattice import IntArray
from pais._base.numerics import ULP, FloatArray, round_down
from pais._base.randomness import RowBits, bernoulli
from pais.data.engines.base import KeptRows, Thinning, quiet
from pais.data.engines.blocks import Block, Numbers
from pais.data.units import Unit, UnitHash
from pais.errors import DataError

T = TypeVar("T", bound=np.generic)

#: Largest number of units of a source. An index of so many takes about 6 GB.
MOST_UNITS = 10**8

# Squares of norms are added in whole steps of this share of the squared radius, each rounded up.
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
        self._masses = np.zeros(self.size + 1, dtype=np.int32)  # The last entry is for rows that are not usable.
        for start in range(0, self.size, _CHUNK):
            piece = slice(start, min(start + _CHUNK, self.size))
            self._masses[piece] = self.unit.masses(self.n_rows[piece])

    @property
    def size(self) -> int:
        return self._index.size

    @property
    def n_rows(self) -> IntArray:
        """Number of usable rows of each unit."""
        return self._rows[: self.size]

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
        block.weigh(of_units(self._masses, block.owners), 2.0**-self.unit.mass_bits)
        return block


def of_units(values: NDArray[T], numbers: Numbers) -> NDArray[T]:
    """The value of the unit of each row. The last value is that of rows that are not usable, whose number is -1."""
    return values.take(numbers, mode="wrap")


@dataclass(kw_only=True, repr=False)
class UnitThinning:
    """Sampling of whole units: first `measure` every block, then `draw` once, then `keep` the rows of every block.

    `identify` returns identities of units, which key the draws. Without it, the draws take the next bits of a source.

    Notes
    -----
    Guarantee. A unit is kept as a whole, with exactly the probability of its norm. The weights of its rows add up to at
    most the inverse of that probability: `tests/conformance/test_units.py`, `tests/theory/test_units.py`.
    """

    members: Members
    thinning: Thinning
    identify: Callable[[pa.Array], NDArray[np.uint64]] | None = None

    def __post_init__(self) -> None:
        size = self.members.size
        self._squares = np.zeros(size, dtype=np.int64)
        empty = np.zeros(0, dtype=np.uint64) if self.identify is None else self.identify(pa.nulls(0, pa.int64()))
        self._identity = np.zeros((size, *empty.shape[1:]), dtype=np.uint64)
        self._weights = np.zeros(size + 1)
        self._lock = Lock()

    @quiet
    def measure(self, block: Block) -> None:
        """Add the squared norms of a block's rows to those of their units. Sums of integers have no order."""
        norm, ball = block.all_norms(self.thinning.ball), self.thinning.ball
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
                self._identity[numbers] = identity

    def norms(self, piece: slice) -> FloatArray:
        """Norms of units, rounded up, and at most the radius."""
        rows = np.maximum(self.members.n_rows[piece], self.members.unit.full_rows)
        square = self._squares[piece] * 2.0**-_SQUARE_BITS / rows
        radius = self.thinning.ball.radius
        return np.minimum(np.sqrt(square) * (1.0 + 8 * ULP) * radius, radius)

    @quiet
    def draw(self, bits: RowBits) -> None:
        """Keep each unit independently with the probability of its norm, and set the weights of its rows."""
        unit = self.members.unit
        for start in range(0, self.members.size, _CHUNK):
            piece = slice(start, min(start + _CHUNK, self.members.size))
            probability, ids = self.thinning.rule.evaluate(self.norms(piece)), self._identity[piece]
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
        ball, numbers = self.thinning.ball, self.members.numbers(block)
        weights = of_units(self._weights, numbers)
        index = np.flatnonzero(weights > 0.0)
        rows = block.taken(index, ball)
        return KeptRows(index=index, rows=ball.clip(rows), weights=weights.take(index))
