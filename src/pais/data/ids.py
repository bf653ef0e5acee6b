"""A hash table that numbers 128-bit keys in the order in which they are added."""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterable, Sequence
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pais._base.randomness import Words64, mixed64
from pais.data.cells import MISSING_WORDS, real
from pais.errors import DataError

#: Numbers held as doubles have lost digits from here on: different ids may have become the same number.
FIRST_LOSSY = 2**53

#: Characters that are removed around an id.
BLANKS = " \t\n\v\f\r"

#: Stands for a character that could not be decoded.
LOST = "\ufffd"

#: Text of a whole float.
WHOLE_FLOAT = r"^(0|-?[1-9][0-9]{0,18})\.0$"

# Larger Python integers are no ids: converting them to text takes long, or Python refuses to.
_MOST_BITS, _MOST_DIGITS = 2048, 600


def _at_least(least: int) -> str:
    """A pattern for integers without sign from `least` on."""
    digits = str(least)
    larger = [
        f"{digits[:place]}[{int(digit) + 1}-9][0-9]{{{len(digits) - place - 1}}}"
        for place, digit in enumerate(digits)
        if digit != "9"
    ]
    return "|".join([digits, *larger, f"[1-9][0-9]{{{len(digits)},}}"])


#: Text of a float that has lost digits, as Python, R and Java write it: 9007199254740992.0, 1.5e+16, 1e+17 or 1.0E17.
LOSSY_FLOAT = (
    rf"^-?(?:(?:{_at_least(FIRST_LOSSY)})\.0"
    r"|[1-9](?:(?:\.[0-9]+)?[eE]\+|\.[0-9]+[eE])(?:1[6-9]|[2-9][0-9]|[1-9][0-9]{2,}))$"
)


def kind_of_ids(kind: pa.DataType, where: str) -> str | None:
    """Return what a column of this type holds: "numbers", "text" or "bytes"; None if it has no value at all.

    Ids of one kind can be compared, whatever the type. Raises for types that cannot name units.
    """
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or (pa.types.is_decimal(kind) and kind.scale == 0):
        return "numbers"
    if any(test(kind) for test in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)):
        return "text"
    if any(test(kind) for test in (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)):
        return "bytes"
    if pa.types.is_null(kind):
        return None
    raise DataError(
        f"the unit column of {where} holds neither integers nor text. Convert it, or choose another column."
    )


def normalised(column: pa.Array, where: str) -> pa.Array:
    """Return ids as 64-bit integers, text without blanks around it, or bytes; null for a missing id.

    A number and its decimal text are the same id: columns of numbers become text if 64-bit integers cannot hold them
    all. Text such as "17.0" becomes "17", because tables with a missing id are written that way. Empty text, the words
    for missing values in CSV files, such as "NA", and text and floats that have lost characters or digits are missing
    ids.
    """
    kind = kind_of_ids(column.type, where)
    if isinstance(column.type, pa.BaseExtensionType):
        column = column.storage
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if kind == "numbers":
        return _numbers(column)
    if kind == "text":
        return _trimmed(column.cast(pa.large_string()))
    return pa.nulls(len(column), pa.int64()) if kind is None else column.cast(pa.large_binary())


def joined(ids: Sequence[pa.Array]) -> pa.Array:
    """Join normalised ids of one kind. Integers and text of integers become text."""
    if len({str(array.type) for array in ids}) > 1:
        ids = [array.cast(pa.large_string()) for array in ids]
    return pa.concat_arrays(ids) if ids else pa.nulls(0, pa.int64())


def ids_of_objects(cells: Iterable[object]) -> pa.Array:
    """Convert Python objects to ids, as columns of their types would be; null for anything that is no id."""
    ids = [_id_of(cell) for cell in cells]
    texts = pa.array([None if isinstance(cell, bytes) else cell for cell in ids], pa.large_string())
    if not any(isinstance(cell, bytes) for cell in ids):
        return texts
    # Bytes have no blanks around them, so text is trimmed here, before it becomes bytes too.
    trimmed = _trimmed(texts).cast(pa.large_binary()).to_pylist()
    pairs = zip(ids, trimmed, strict=True)
    return pa.array([cell if isinstance(cell, bytes) else text for cell, text in pairs], pa.large_binary())


def _id_of(cell: object) -> str | bytes | None:
    cell = real(cell)
    if isinstance(cell, (bool, np.bool_, np.timedelta64)):
        return None
    if isinstance(cell, (float, np.floating)):
        return _text_of_float(float(cell))
    if isinstance(cell, Decimal):
        if not cell.is_finite() or cell.adjusted() > _MOST_DIGITS or cell != int(cell):
            return None
        return str(int(cell))
    if isinstance(cell, (int, np.integer)):
        return str(int(cell)) if int(cell).bit_length() <= _MOST_BITS else None
    if isinstance(cell, bytes):
        return bytes(cell)
    if isinstance(cell, str):
        return str(cell) if cell.isascii() or _can_be_encoded(cell) else None
    return str(cell) if isinstance(cell, uuid.UUID) else None


def _can_be_encoded(text: str) -> bool:
    """Whether a text is valid. A lone surrogate is not."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _text_of_float(number: float) -> str | None:
    """The text of an integer if a float is whole, else the shortest decimal text; None if it has lost digits."""
    if not math.isfinite(number) or abs(number) >= FIRST_LOSSY:
        return None
    return str(int(number)) if number.is_integer() else repr(number)


def _numbers(column: pa.Array) -> pa.Array:
    if pa.types.is_floating(column.type):
        return _floats(column)
    if pa.types.is_decimal(column.type):
        return pc.cast(column, pa.large_string())
    if pa.types.is_uint64(column.type) and pc.any(pc.greater(column, pa.scalar(2**63 - 1, pa.uint64()))).as_py():
        return pc.cast(column, pa.large_string())
    return pc.cast(column, pa.int64())


def _floats(column: pa.Array) -> pa.Array:
    """Integers that a table holds as floats because an id is missing. Any other number is its shortest decimal text."""
    numbers = np.asarray(pc.cast(column, pa.float64()).to_numpy(zero_copy_only=False))
    with np.errstate(all="ignore"):
        exact = np.abs(numbers) < FIRST_LOSSY
        whole = exact & (np.trunc(numbers) == numbers)
    ids = pa.array(np.where(whole, numbers, 0.0).astype(np.int64), mask=~whole)
    others = exact & ~whole
    if not others.any():
        return ids
    texts = pa.array([repr(number) for number in numbers[others].tolist()], pa.large_string())
    return pc.replace_with_mask(ids.cast(pa.large_string()), pa.array(others), texts)


def _trimmed(column: pa.Array) -> pa.Array:
    trimmed = pc.ascii_trim(column, characters=BLANKS)
    missing = pc.is_in(trimmed, value_set=MISSING_WORDS.cast(trimmed.type))
    # Different ids may have become the same text where characters were lost.
    missing = pc.or_(missing, pc.fill_null(pc.match_substring(trimmed, LOST), False))
    # A substring is found faster than a pattern.
    may_be_float = pc.or_(pc.match_substring(trimmed, "."), pc.match_substring(trimmed, "+"))
    floats = pc.any(may_be_float).as_py()
    if floats:
        missing = pc.or_(missing, pc.fill_null(pc.match_substring_regex(trimmed, LOSSY_FLOAT), False))
    if pc.any(missing).as_py():
        trimmed = pc.if_else(missing, pa.scalar(None, trimmed.type), trimmed)
    return pc.replace_substring_regex(trimmed, WHOLE_FLOAT, r"\1") if floats else trimmed


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
