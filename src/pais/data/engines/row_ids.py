"""Row ids within one partition: content hash plus occurrence number among equal rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

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

    This is a hash table with linear probing. It takes up to about 64 bytes per row of the partition.
    """

    def __init__(self, *, room: int = 1 << 16) -> None:
        self._n_rows = 0
        # By row number: the hash, and the number of equal rows that came later (only for rows in the table).
        self._upper = np.empty(room, dtype=np.uint64)
        self._lower = np.empty(room, dtype=np.uint32)
        self._later = np.zeros(room, dtype=np.uint32)
        # By slot: a row number plus 1, or 0 if the slot is free. At most half of the slots are taken.
        self._table = np.zeros(4 * room, dtype=np.uint32)

    def number(self, upper: Words64, lower: Words32) -> Words32:
        """Return the occurrence numbers of the next rows, starting at 0."""
        before, after = self._n_rows, self._n_rows + len(upper)
        if after > _MOST_ROWS:
            raise DataError(f"a partition of the source has more than {_MOST_ROWS} rows. Use more partitions.")
        self._make_room(after)
        self._upper[before:after], self._lower[before:after] = upper, lower
        self._n_rows = after
        rows = np.arange(before, after)
        owner = self._find(rows)
        number = np.zeros(len(rows), dtype=np.uint32)
        repeats = np.flatnonzero(owner != rows)
        if repeats.size:
            number[repeats] = self._number_repeats(owner.take(repeats))
        return number

    def _find(self, rows: _Numbers) -> _Numbers:
        """Return, for each row, the row in the table with the same hash. Rows with a new hash are added first."""
        owner, waiting, slot = rows.copy(), np.arange(len(rows)), self._home(rows)
        while waiting.size:
            here = rows.take(waiting)
            there = self._claim(slot, here)
            owner[waiting] = there
            same = self._upper.take(there) == self._upper.take(here)
            same &= self._lower.take(there) == self._lower.take(here)
            left = np.flatnonzero(~same)
            waiting, slot = waiting.take(left), self._next(slot.take(left))
        return owner

    def _claim(self, slot: _Numbers, rows: _Numbers) -> _Numbers:
        """Fill the free slots and return each slot's row. If several rows claim a slot, any of them may get it."""
        free = np.flatnonzero(self._table.take(slot) == 0)
        self._table[slot.take(free)] = rows.take(free) + 1
        return self._table.take(slot).astype(np.intp) - 1

    def _home(self, rows: _Numbers) -> _Numbers:
        return (self._upper.take(rows) & np.uint64(len(self._table) - 1)).astype(np.intp)

    def _next(self, slot: _Numbers) -> _Numbers:
        return (slot + 1) & (len(self._table) - 1)

    def _number_repeats(self, owner: _Numbers) -> Words32:
        """Return the occurrence numbers of repeated rows, given for each the equal row that is in the table."""
        order = np.argsort(owner, kind="stable")
        alike = owner[order]
        start = np.flatnonzero(np.concatenate([[True], alike[1:] != alike[:-1]]))
        length = np.diff(np.append(start, alike.size))
        place = np.arange(1, alike.size + 1) - np.repeat(start, length)
        number = np.empty(alike.size, dtype=np.uint32)
        number[order] = self._later[alike] + place.astype(np.uint32)
        self._later[alike[start]] += length.astype(np.uint32)
        return number

    def _make_room(self, n_rows: int) -> None:
        if n_rows > len(self._upper):
            more = max(n_rows, 2 * len(self._upper)) - len(self._upper)
            self._upper = np.concatenate([self._upper, np.empty(more, dtype=np.uint64)])
            self._lower = np.concatenate([self._lower, np.empty(more, dtype=np.uint32)])
            self._later = np.concatenate([self._later, np.zeros(more, dtype=np.uint32)])
        if 2 * n_rows > len(self._table):
            before, slots = self._table, len(self._table)
            while 2 * n_rows > slots:
                slots *= 4
            self._table = np.zeros(slots, dtype=np.uint32)
            for start in range(0, len(before), CHUNK):
                piece = before[start : start + CHUNK]
                rows = piece.take(np.flatnonzero(piece)).astype(np.intp) - 1
                slot = self._home(rows)
                # These rows have different hashes, so a row whose slot is taken moves on to the next slot.
                while rows.size:
                    left = np.flatnonzero(self._claim(slot, rows) != rows)
                    rows, slot = rows.take(left), self._next(slot.take(left))
