"""Row ids within one partition: content hash plus occurrence number among equal rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pais._base.hashing import HashIndex
from pais._base.keyed import CHUNK, ContentHash, Words32, Words64
from pais._base.randomness import StreamBits
from pais.errors import DataError

# Occurrence numbers and the row numbers in the table have 32 bits each.
_MOST_ROWS = (1 << 32) - 1

_Numbers = NDArray[np.intp]


class RowIds:
    """Ids of the rows of one partition: 96 bits of content hash and 32 bits of occurrence number.

    Notes
    -----
    Guarantee. No two rows of a partition have the same id, even if their hashes collide. As long as the hashes of no
    two different rows collide, the set of pairs of an id and its row's content does not depend on the order of the
    rows: `tests/unit/_base/test_keyed.py`, `tests/conformance/test_partition_draws.py`.
    """

    def __init__(self, key: bytes, *, partition: int, n_features: int) -> None:
        self._hash = ContentHash(StreamBits(key, context=b"content %d" % partition), n_features)
        self._occurrences = Occurrences()

    def of(self, columns: Sequence[NDArray[np.generic]]) -> Words64:
        """Return the ids of the partition's next rows, as an array of shape (n, 2). Rows are passed as columns."""
        ids = np.empty((len(columns[0]), 2), dtype=np.uint64)
        for start in range(0, len(ids), CHUNK):
            piece = slice(start, start + CHUNK)
            upper, lower = self._hash.of([column[piece] for column in columns])
            number = self._occurrences.number(upper, lower)  # [note: spark-2]
            ids[piece, 0] = upper
            ids[piece, 1] = lower.astype(np.uint64) << np.uint64(32) | number
        return ids


class Occurrences:
    """Count, for each row of a partition, the equal rows before it. Rows are equal if their hashes are equal.

    Takes up to about 64 bytes per distinct row of the partition.
    """

    def __init__(self, *, room: int = 1 << 16) -> None:
        self._n_rows = 0
        self._index = HashIndex(room=room)
        # By number of the hash: how many rows have come so far.
        self._count = np.zeros(room, dtype=np.uint32)

    def number(self, upper: Words64, lower: Words32) -> Words32:
        """Return the occurrence numbers of the next rows, starting at 0."""
        self._n_rows += len(upper)
        if self._n_rows > _MOST_ROWS:
            raise DataError(f"a partition of the source has more than {_MOST_ROWS} rows. Use more partitions.")
        before = self._index.size
        content = self._index.add(np.stack([upper, lower.astype(np.uint64)], axis=1))
        if self._index.size > len(self._count):
            more = max(self._index.size, 2 * len(self._count)) - len(self._count)
            self._count = np.concatenate([self._count, np.zeros(more, dtype=np.uint32)])
        if self._index.size == before + len(content):
            # All rows are new, which is the usual case.
            self._count[content] = 1
            return np.zeros(len(content), dtype=np.uint32)
        return self._rank(content) + self._taken(content)

    def _taken(self, content: _Numbers) -> Words32:
        """Return how many equal rows came in earlier calls, and count these rows."""
        before = self._count.take(content)
        np.add.at(self._count, content, np.uint32(1))
        return before

    @staticmethod
    def _rank(content: _Numbers) -> Words32:
        """Return, for each row, the number of equal rows before it in this call."""
        order = np.argsort(content, kind="stable")
        ordered = content.take(order)
        start = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
        length = np.diff(np.append(start, ordered.size))
        rank = np.empty(content.size, dtype=np.uint32)
        rank[order] = np.arange(ordered.size) - np.repeat(start, length)
        return rank
