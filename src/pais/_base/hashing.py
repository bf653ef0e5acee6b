"""A hash table that numbers 128-bit keys in the order in which they are added."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pais._base.keyed import Words64
from pais._base.randomness import mixed64

_Numbers = NDArray[np.intp]

# Keys that are looked up at a time: few enough to fit into the cache.
_CHUNK = 1 << 15


class HashIndex:
    """Numbers from 0 for distinct keys of two 64-bit words. Takes about 30 to 60 bytes for each key.

    It probes linearly for many keys at a time. Adding needs a lock if several threads add; finding does not.
    """

    def __init__(self, *, room: int = 1 << 12) -> None:
        self.size = 0
        self._keys = np.empty((room, 2), dtype=np.uint64)
        # By slot: a key's number plus 1, or 0 if the slot is free. At most half of the slots are taken.
        self._table = np.zeros(4 * room, dtype=np.uint32)

    def add(self, keys: Words64) -> _Numbers:
        """Return the numbers of the keys. New keys get the next numbers."""
        numbers = np.empty(len(keys), dtype=np.intp)
        for start in range(0, len(keys), _CHUNK):
            piece = keys[start : start + _CHUNK]
            self._make_room(self.size + len(piece))
            numbers[start : start + _CHUNK] = self._probe(piece, adding=True)
        return numbers

    def find(self, keys: Words64) -> _Numbers:
        """Return the numbers of the keys, and -1 for a key that was never added."""
        numbers = np.empty(len(keys), dtype=np.intp)
        for start in range(0, len(keys), _CHUNK):
            numbers[start : start + _CHUNK] = self._probe(keys[start : start + _CHUNK], adding=False)
        return numbers

    def _probe(self, keys: Words64, *, adding: bool) -> _Numbers:
        numbers = np.full(len(keys), -1, dtype=np.intp)
        waiting, slot = np.arange(len(keys)), self._home(keys)
        while waiting.size:
            number = self._table.take(slot).astype(np.intp) - 1
            free = np.flatnonzero(number < 0)
            if free.size:
                if adding:
                    self._claim(slot.take(free), keys.take(waiting.take(free), axis=0))
                    number = self._table.take(slot).astype(np.intp) - 1
                else:
                    taken = np.flatnonzero(number >= 0)
                    waiting, slot, number = waiting.take(taken), slot.take(taken), number.take(taken)
            same = (self._keys.take(number, axis=0) == keys.take(waiting, axis=0)).all(axis=1)
            numbers[waiting[same]] = number[same]
            waiting, slot = waiting[~same], (slot[~same] + 1) & (len(self._table) - 1)
        return numbers

    def _claim(self, slot: _Numbers, keys: Words64) -> None:
        """Fill free slots with new keys. If several keys claim a slot, any one of them gets it."""
        claims = np.arange(1, len(slot) + 1, dtype=np.uint32)
        self._table[slot] = claims
        won = np.flatnonzero(self._table.take(slot) == claims)
        end = self.size + won.size
        self._keys[self.size : end] = keys.take(won, axis=0)
        self._table[slot.take(won)] = np.arange(self.size + 1, end + 1, dtype=np.uint32)
        self.size = end

    def _home(self, keys: Words64) -> _Numbers:
        mixed = mixed64(keys[:, 0] + mixed64(keys[:, 1]))
        return (mixed & np.uint64(len(self._table) - 1)).astype(np.intp)

    def _make_room(self, size: int) -> None:
        if size > len(self._keys):
            larger = np.empty((max(size, 2 * len(self._keys)), 2), dtype=np.uint64)
            larger[: self.size] = self._keys[: self.size]
            self._keys = larger
        if 2 * size > len(self._table):
            slots = len(self._table)
            while 2 * size > slots:
                slots *= 4
            self._table = np.zeros(slots, dtype=np.uint32)
            for start in range(0, self.size, _CHUNK):
                self._replace(np.arange(start, min(start + _CHUNK, self.size)))

    def _replace(self, numbers: _Numbers) -> None:
        """Put keys that are all different back into a new table."""
        slot = self._home(self._keys.take(numbers, axis=0))
        while numbers.size:
            free = np.flatnonzero(self._table.take(slot) == 0)
            self._table[slot.take(free)] = numbers.take(free) + 1
            unplaced = np.flatnonzero(self._table.take(slot) != numbers + 1)
            numbers, slot = numbers.take(unplaced), (slot.take(unplaced) + 1) & (len(self._table) - 1)
