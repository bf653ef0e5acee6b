"""Candidates for a sample that Spark's workers collect in the second pass of a survey, which saves a third one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pais._base.keyed import SecretBits
from pais.data.engines.base import Fold
from pais.data.engines.blocks import Block
from pais.data.engines.partition import Folding, answer_with
from pais.data.engines.row_ids import RowIds

#: Numbers that the candidates, which go to the driver, are expected to have at most: 32 MB.
MOST_NUMBERS = 1 << 22


def ceiling_for(n_numbers: int) -> int:
    """The largest first 8 bits of a candidate, for a table of so many numbers; -1 if it is too large for candidates.

    It depends on no bit, so the bits of the candidates are fair.
    """
    return int(min(256 * MOST_NUMBERS // max(n_numbers, 1), 256)) - 1  # [note: spark-3]


@dataclass(frozen=True, kw_only=True)
class Counted(Fold):
    """A fold, and the number of rows after its last number."""

    fold: Fold

    @property
    def uses_masses(self) -> bool:  # type: ignore[override]  # follows from the fold
        return self.fold.uses_masses

    def of(self, block: Block) -> NDArray[Any]:
        return np.append(self.fold.of(block), block.n_rows)


@dataclass(kw_only=True, repr=False)
class Collecting(Folding):
    """Add the contributions of rows, and send back the finite rows whose first bits are at most a ceiling, with them.

    Notes
    -----
    Guarantee. As in a sample, the first bits of a row are determined by the key, the partition and the row id, so every
    attempt at a task sends the same candidates: `tests/unit/data/engines/test_candidates.py`.
    """

    ceiling: int
    n_features: int
    key: bytes
    _bits: SecretBits = field(init=False)
    _ids: RowIds = field(init=False)

    def begin(self, partition: int) -> None:
        self._bits = SecretBits(self.key, partition=partition)
        self._ids = RowIds(self.key, partition=partition, n_features=self.n_features)

    def take(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        block, _ = self.reading.block(batch)
        self.add(block)
        if block.n_rows == 0:
            return None
        first = self._bits.first(self._ids.of(block.columns()))
        index = np.flatnonzero(first <= self.ceiling)
        candidates = block.part(index)
        finite = candidates.finite()
        if not finite.any():
            return None
        rows = candidates.rows().astype(np.float64, copy=False)[finite]
        return answer_with(rows, first.take(index[finite]).astype(np.float64), {})
