"""Candidates for a sample, collected while a survey reads the rows, so that the sample needs no further pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pais._base.randomness import BitSource, KeyedBits, RandomState, RowBits, bit_source, row_bits
from pais._base.threads import in_threads
from pais.data.engines.base import Fold, RunningSum, Thinning, WeightedRows, join
from pais.data.engines.blocks import Block
from pais.data.schema import Schema

#: Numbers that the candidates are expected to have at most: 128 MB.
MOST_NUMBERS = 1 << 24
#: All rows are held if they are known to have at most this many numbers: 256 MB.
MOST_WHOLE = 1 << 25


class Sieve:
    """The first 8 bits of every row's draw, drawn early, and the rows whose bits are at most a ceiling. Secret.

    The ceiling falls as rows arrive, so that the rows that pass fit into memory. It depends on the number of rows alone
    and not on any bit, since otherwise the bits of the rows that pass would no longer be fair. A sample that keeps no
    row with larger bits is drawn from these rows, with the same bits, and is the sample that a pass over all rows would
    give. They are used once.

    Notes
    -----
    Guarantee. The sample has the same distribution as one from a pass, and with a seed it is the same. Whether a pass
    is needed changes time alone: `tests/unit/data/engines/test_sieve.py`.
    """

    def __init__(self, draws: RowBits) -> None:
        self._draws, self._lock = draws, Lock()
        self._schema: Schema | None = None
        self._held: list[_Candidates] = []
        self._ceiling, self._seen, self._most = -1, 0, 0

    @classmethod
    def of(cls, random_state: RandomState | BitSource, *, stream: int) -> Sieve | None:
        """Return a sieve with the bits of a sample that `random_state` gives; None for a NumPy Generator."""
        is_seed = isinstance(random_state, (int, np.integer))
        return cls(row_bits(bit_source(random_state, stream=stream))) if random_state is None or is_seed else None

    def begin(self, schema: Schema | None, n_numbers: int | None) -> None:
        """Begin a pass over rows with this schema, of so many numbers if known. The number changes time alone."""
        self._schema, self._held, self._seen = schema, [], 0
        self._most = MOST_NUMBERS if n_numbers is None or n_numbers > MOST_WHOLE else MOST_WHOLE
        self._ceiling = min(256 * self._most // (n_numbers or 1), 256) - 1

    @property
    def whole(self) -> bool:
        """Whether all finite rows are held."""
        return self._ceiling == 255

    def add(self, block: Block) -> None:
        """Draw the first bits of the rows of a block, and hold the finite rows that pass."""
        first = self._draws.first(block.identity)  # [note: keep-6]
        candidates = _Candidates(block=block, first=first).below(self._ceiling, finite=True)
        with self._lock:
            self._held.append(candidates)
            self._seen += block.n_rows * block.n_features
            ceiling = self._ceiling
            while self._seen * (ceiling + 1) > 256 * self._most:  # [note: keep-7]
                ceiling = (ceiling + 1) // 2 - 1
            if ceiling < self._ceiling:
                self._ceiling, self._held = ceiling, [held.below(ceiling) for held in self._held]

    def hold(self, block: Block, first: NDArray[np.uint8], *, ceiling: int, schema: Schema | None) -> None:
        """Hold the finite rows of a table whose first bits are at most a ceiling, collected by others."""
        self._held, self._ceiling, self._schema = [_Candidates(block=block, first=first)], ceiling, schema

    def folded(self, fold: Fold) -> RunningSum:
        """Return the sum over the rows that are held."""
        total = RunningSum(fold)
        in_threads(lambda held: total.over(held.block), self._held)
        return total

    def thinned(
        self, thinning: Thinning, draws: RowBits, n_features: int, schema: Schema | None
    ) -> WeightedRows | None:
        """Return the sample, or None if it may keep other rows than those that are held."""
        # Bits that a seed determines are the same now. Other bits are fresh, whoever draws them.
        is_seeded = isinstance(draws, KeyedBits) or isinstance(self._draws, KeyedBits)
        screen = thinning.screen(n_features)
        with self._lock:
            if screen.ceiling > self._ceiling or schema != self._schema or (is_seeded and draws != self._draws):
                return None
            known = [(held.block, _KnownBits(held.first, draws)) for held in self._held]
            self._held, self._ceiling = [], -1
        return join(in_threads(lambda item: thinning.keep(item[0], screen, item[1]), known), n_features)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Candidates:
    """Rows and the first bits of their draws."""

    block: Block
    first: NDArray[np.uint8]

    def below(self, ceiling: int, *, finite: bool = False) -> _Candidates:
        """Return the rows with bits up to a ceiling; if `finite`, without rows that are not finite."""
        passes = self.first <= ceiling
        part = self if passes.all() else self._at(passes)
        if finite and not (usable := part.block.finite()).all():
            return part._at(usable)
        return part

    def _at(self, chosen: NDArray[np.bool_]) -> _Candidates:
        index = np.flatnonzero(chosen)
        return _Candidates(block=self.block.part(index), first=self.first.take(index))


@dataclass(frozen=True, kw_only=True)
class Sifting(Fold):
    """A fold whose rows also pass through sieves. The sum is the same."""

    fold: Fold
    sieves: Sequence[Sieve]

    @property
    def uses_masses(self) -> bool:  # type: ignore[override]  # follows from the fold
        return self.fold.uses_masses

    def of(self, block: Block) -> NDArray[Any]:
        for sieve in self.sieves:
            sieve.add(block)
        return self.fold.of(block)


@dataclass(frozen=True, eq=False)
class _KnownBits(RowBits):
    """Bits of rows whose first bits were drawn before."""

    known: NDArray[np.uint8]
    draws: RowBits

    def first(self, identity: NDArray[np.uint64]) -> NDArray[np.uint8]:
        return self.known

    def more(self, identity: NDArray[np.uint64], turn: int) -> NDArray[np.uint64]:
        return self.draws.more(identity, turn)
