"""Candidates for a sample, collected while a survey reads the rows, so that the sample needs no further pass."""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pais._base.randomness import BitSource, KeyedBits, RandomState, RowBits, bit_source, row_bits
from pais._base.threads import in_threads
from pais.data.engines.base import Fold, Thinning, WeightedRows, join
from pais.data.engines.blocks import Block
from pais.data.schema import Schema

#: Numbers that the candidates are expected to have at most: 128 MB.
MOST_NUMBERS = 1 << 24


class Sieve:
    """The first 8 bits of every row's draw, drawn early, and the rows whose bits are at most a public ceiling. Secret.

    A sample that keeps no row with larger bits is drawn from these rows, with the same bits, and is the sample that a
    pass over all rows would give. They are used once.

    Notes
    -----
    Guarantee. The sample has the same distribution as one from a pass, and with a seed it is the same:
    `tests/unit/data/engines/test_sieve.py`. Whether a pass is needed depends on public values, except that candidates
    are dropped if there are far more rows than were released, whatever their bits. This changes time alone.
    """

    def __init__(self, draws: RowBits) -> None:
        self._draws, self._lock = draws, Lock()
        self._ceiling, self._room = -1, 0
        self._schema: Schema | None = None
        self._held: list[tuple[Block, NDArray[np.uint8]]] = []

    @classmethod
    def of(cls, random_state: RandomState | BitSource) -> Sieve | None:
        """Return a sieve with the bits of a sample that `random_state` gives; None if it is a stream of its own."""
        is_seed = isinstance(random_state, (int, np.integer))
        return cls(row_bits(bit_source(random_state))) if random_state is None or is_seed else None

    def through(self, fold: Fold, *, n_rows: float, n_features: int, schema: Schema | None) -> Fold:
        """Return a fold that also collects candidates, for a released number of rows."""
        share = MOST_NUMBERS / max(n_rows * n_features, 1.0)
        self._ceiling, self._schema, self._held = int(min(256.0 * share, 256.0)) - 1, schema, []
        # The number of rows is noisy, and memory is to be bounded in any case: to twice the candidates expected. Rows
        # are counted, because draws that decide whether they are used would not be independent.
        self._room = 512 * MOST_NUMBERS // (n_features * max(self._ceiling + 1, 1))
        return fold if self._ceiling < 0 else _Sifting(fold=fold, sieve=self)

    def add(self, block: Block) -> None:
        """Draw the first bits of the rows of a block, and hold the finite rows that pass."""
        first = self._draws.first(block.identity)  # [note: keep-6]
        index = np.flatnonzero(first <= self._ceiling)
        candidates = block.part(index)
        finite = candidates.finite()
        if not finite.all():
            index = index[finite]
            candidates = block.part(index)
        with self._lock:
            self._room -= block.n_rows
            self._held.append((candidates, first.take(index)))
            if self._room < 0:  # [note: keep-7]
                self._ceiling, self._held = -1, []

    def thinned(
        self, thinning: Thinning, draws: RowBits, n_features: int, schema: Schema | None
    ) -> WeightedRows | None:
        """Return the sample, or None if it may keep other rows than those held. Drops the rows that are held."""
        screen = thinning.screen(n_features)
        with self._lock:
            held, self._held = self._held, []
            ceiling, self._ceiling = self._ceiling, -1
        # Bits that a seed determines are the same now. Other bits are fresh, whoever draws them.
        is_seeded = isinstance(draws, KeyedBits) or isinstance(self._draws, KeyedBits)
        if screen.ceiling > ceiling or schema != self._schema or (is_seeded and draws != self._draws):
            return None
        known = [(block, _KnownBits(first, draws)) for block, first in held]
        return join(in_threads(lambda item: thinning.keep(item[0], screen, item[1]), known), n_features)


@dataclass(frozen=True, kw_only=True)
class _Sifting(Fold):
    """A fold whose rows also pass through a sieve. The sum is the same."""

    fold: Fold
    sieve: Sieve

    @property
    def uses_masses(self) -> bool:  # type: ignore[override]  # follows from the fold
        return self.fold.uses_masses

    def of(self, block: Block) -> NDArray[Any]:
        self.sieve.add(block)
        return self.fold.of(block)


@dataclass(frozen=True)
class _KnownBits(RowBits):
    """Bits of rows whose first bits were drawn before."""

    known: NDArray[np.uint8]
    draws: RowBits

    def first(self, identity: NDArray[np.uint64]) -> NDArray[np.uint8]:
        return self.known

    def more(self, identity: NDArray[np.uint64], turn: int) -> NDArray[np.uint64]:
        return self.draws.more(identity, turn)
