"""Units of privacy: the people, or other owners of several rows, that a release protects.

`Unit` says who is protected and how much each row counts. Ids of units are normalised, so that a number and its text
name the same unit in every kind of table; `UnitHash` maps them to words of 128 bits, and `HashIndex` numbers these.
"""

from __future__ import annotations

import functools
import hashlib
import math
import os
import re
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pais._base import validate
from pais._base.lattice import IntArray
from pais._base.randomness import StreamBits, Words64, mixed64
from pais.data.cells import MISSING_WORDS, is_text, listed, real, value_type, whole_numbers_of_text, with_article
from pais.errors import ArgumentError, DataError

# The mass of a row has this many binary places, and more if a unit may own many rows of full mass. With the largest
# `max_rows`, masses and counts fit into 64-bit integers.
_MASS_BITS, _MOST_ROWS = 24, 1 << 20


@dataclass(frozen=True, kw_only=True)
class Unit:
    """Who is protected: all rows with the same value in a column are one unit, such as a person. Public.

    Parameters
    ----------
    column : str
        The column that names the unit of each row.
    max_rows : int, optional
        Number of rows M that count in full. Each of the m rows of a unit has mass 1 / max(M, m), so that the masses of
        a unit add up to at most 1. None states nothing: for means and models, every unit counts once, as with M = 1;
        for sums and counts of rows, a bound is found privately.
    """

    column: str
    max_rows: int | None = None
    #: Number of rows that count in full, where rows have masses: 1 if nothing is stated.
    full_rows: int = field(init=False, repr=False, compare=False)
    #: Binary places of a mass.
    mass_bits: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.column, str) or not self.column:
            raise ArgumentError("unit is not the name of a column. Pass a name, such as unit='customer_id'.")
        stated = None if self.max_rows is None else validate.count("max_rows_per_unit", self.max_rows)
        full_rows = 1 if stated is None else stated
        if full_rows > _MOST_ROWS:
            raise ArgumentError(f"max_rows_per_unit={stated} is too large. Pass at most {_MOST_ROWS}.")
        self.__dict__.update(max_rows=stated, full_rows=full_rows, mass_bits=_MASS_BITS + full_rows.bit_length())

    @property
    def neighbours(self) -> str:
        """The meaning of presence or absence in a certificate."""
        return f"one {self.column} added or removed"

    def masses(self, n_rows: IntArray) -> IntArray:
        """Mass of each row of a unit with this many rows, in steps of 2**-mass_bits, rounded down."""
        return np.asarray((1 << self.mass_bits) // np.maximum(n_rows, self.full_rows))  # [note: units-1]

    def to_dict(self) -> dict[str, Any]:
        return {"column": self.column, "max_rows": self.max_rows}

    @classmethod
    def from_dict(cls, described: Mapping[str, Any] | None) -> Unit | None:
        """Rebuild a unit from its description; None stands for single rows."""
        return None if described is None else cls(column=described["column"], max_rows=described["max_rows"])


def unit_of(unit: str | Unit | None, max_rows: int | None) -> Unit | None:
    """The unit that a user states by the name of its column; None for single rows."""
    if unit is None:
        if max_rows is not None:
            raise ArgumentError("max_rows_per_unit is stated without a unit. Pass unit='customer_id', or leave it out.")
        return None
    return unit if isinstance(unit, Unit) else Unit(column=unit, max_rows=max_rows)


def most_units(unit: Unit | None, mass: float) -> float:
    """Largest number of units whose rows have this mass together: a unit has at least 1 / M. None is for rows."""
    return mass if unit is None else mass * unit.full_rows


def about_units(unit: Unit | None) -> str:
    """Whose rows a release is about, and how they count. Public."""
    if unit is None:
        return "rows; each row counts once"
    one, many = people_word(unit.column)
    if unit.full_rows == 1:
        return f"{many}; each {one} counts once, with all rows sharing one weight"
    return f"rows of {many}; a {one} with more than {unit.full_rows} rows counts as {unit.full_rows} rows"


# Owners of rows that the name of a column may tell. Of several, the last one counts: `client_account` has accounts.
_OWNERS = re.compile(
    "account|applicant|borrower|business|buyer|card|child|citizen|client|company|customer|device|donor|driver|"
    "employee|family|firm|guest|holder|hospital|household|house|inhabitant|insured|learner|machine|member|neighbour|"
    "operator|organisation|owner|participant|passenger|patient|payer|player|pupil|reader|resident|respondent|school|"
    "seller|session|sensor|shop|staff|store|student|subject|subscriber|supplier|taxpayer|teacher|tenant|trip|user|"
    "vehicle|visitor|visit|voter|worker|writer"
)
_PLURALS = {"business": "businesses", "child": "children", "insured": "insured", "staff": "staff"}


def people_word(unit_column: str | None) -> tuple[str, str]:
    """What a text calls one unit and several of them, from the name of their column: ``patient_id`` has patients.

    A name without a known word, such as ``id``, has people.

    Examples
    --------
    >>> people_word("customer_id"), people_word("id")
    (('customer', 'customers'), ('person', 'people'))
    """
    found = _OWNERS.findall((unit_column or "").lower())
    if not found:
        return "person", "people"
    word = found[-1]
    return word, _PLURALS.get(word, word[:-1] + "ies" if word.endswith("y") else word + "s")


# Common names of columns with row identifiers; pandas writes "Unnamed: 0" for an index without a name.
_IDENTIFIER = re.compile(r"(?i:(.*[\W_])?(id|key|uuid)|index|unnamed: 0)|.*[a-z]I[dD]")

# Words for people. Alone they may name the people; other names need an ending for ids: "user", "pupil_id", "memberNo".
_PEOPLE = "patient|customer|client|user|person|employee|student"
_OTHERS = (
    "applicant|borrower|citizen|donor|driver|guest|household|insured|learner|member|participant|passenger|player|pupil|"
    "resident|respondent|subject|subscriber|taxpayer|teacher|tenant|visitor|voter|worker"
)
_PERSON = re.compile(rf"({_PEOPLE})|(.*_)?({_PEOPLE}|{_OTHERS})_?(id|key|uuid|hash|no|nr|number|code)|ssn")


def id_concern(names: Sequence[str]) -> str | None:
    """Return a warning text if some features look like ids, or None. It contains column names only."""
    ids = [name for name in names if _IDENTIFIER.fullmatch(name)]
    if not ids:
        return None
    return (
        f"column(s) {listed(ids)} look like ids and are used as features. If this is not intended, name the features "
        "with `columns`."
    )


def people_concern(names: Sequence[str], stated: Collection[str] = ()) -> str | None:
    """Return a warning text if a column looks like the id of people and is not a stated feature, or None.

    For calls that leave out `unit`. The text contains column names only, and no cell of the table decides about it.
    """
    for name in names:
        if name not in stated and is_person(name):
            one = with_article(people_word(name)[0])
            return (
                f"column {name!r} looks like the id of {one}, and unit is left out, so the guarantee is for single "
                f"rows. If {one} may have several rows, pass unit={name!r} to protect all of them together."
            )
    return None


def is_person(name: str) -> bool:
    """Whether a column has a name like those of ids of people."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])|[\W_]+", "_", name).lower()
    return _PERSON.fullmatch(words) is not None


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
    kind = value_type(kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or (pa.types.is_decimal(kind) and kind.scale == 0):
        return "numbers"
    if is_text(kind):
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
        if pa.types.is_floating(column.type):
            return _floats(column)
        largest = pa.scalar(2**63 - 1, pa.uint64())
        is_large = pa.types.is_uint64(column.type) and pc.any(pc.greater(column, largest)).as_py()
        return pc.cast(column, pa.large_string() if is_large or pa.types.is_decimal(column.type) else pa.int64())
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
    ids = [cell if type(cell) is str and cell.isascii() else _id_of(cell) for cell in cells]
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
        # A lone surrogate cannot be encoded, and is no text.
        return str(cell) if cell.isascii() or validate.attempt(cell.encode) is not None else None
    return str(cell) if isinstance(cell, uuid.UUID) else None


def _text_of_float(number: float) -> str | None:
    """The text of an integer if a float is whole, else the shortest decimal text; None if it has lost digits."""
    if not math.isfinite(number) or abs(number) >= FIRST_LOSSY:
        return None
    return str(int(number)) if number.is_integer() else repr(number)


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


# Texts longer than this are replaced by a cryptographic digest before they are hashed.
_MOST_WORDS = 16

_LANES = 4
# A decimal integer in its usual form.
_WHOLE = r"^(0|-?[1-9][0-9]{0,18})$"
_LOW, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)


class UnitHash:
    """128-bit words of ids under a key. Equal ids have equal words; different ids almost never do.

    Integers, and text that is a decimal integer in its usual form, are their own words, so ids agree between CSV and
    Parquet files. Other text is hashed by four independent members of the multilinear family of `ContentHash`, over its
    length and its bytes.

    Notes
    -----
    Guarantee. Two different ids have the same words with probability at most 2**-127 over the key, even if an adversary
    chose the ids: `tests/unit/data/test_units.py`.

    Assumes. The ids were fixed before the key was drawn, and nobody sees the words. A seeded run uses a fixed key.
    """

    def __init__(self, key: bytes | None = None) -> None:
        bits = StreamBits(os.urandom(32) if key is None else key, context=b"units")
        self._key = bits.words64(_LANES * (2 * _MOST_WORDS + 2)).reshape(-1, _LANES)

    def words(self, ids: pa.Array) -> Words64:
        """Return the words of normalised ids, none of which is missing, as an array of shape (n, 2)."""
        words = np.zeros((len(ids), 2), dtype=np.uint64)
        if pa.types.is_integer(ids.type):
            words[:, 0] = np.asarray(ids.to_numpy(zero_copy_only=False)).view(np.uint64)
            return words
        words[:] = self._hashed(ids.cast(pa.large_binary()))
        if pa.types.is_large_string(ids.type):
            digits = pc.match_substring_regex(ids, _WHOLE)
            whole = whole_numbers_of_text(ids.filter(digits))
            # Integers beyond 64 bits stay hashed.
            is_valid = np.asarray(whole.is_valid().to_numpy(zero_copy_only=False))
            positions = np.flatnonzero(np.asarray(digits.to_numpy(zero_copy_only=False)))[is_valid]
            words[positions, 0] = np.asarray(whole.drop_null().to_numpy(zero_copy_only=False)).view(np.uint64)
            words[positions, 1] = 0
        return words

    def _hashed(self, texts: pa.Array) -> Words64:
        """Hash bytes, eight at a time over all texts."""
        if len(texts) == 0:
            return np.zeros((0, 2), dtype=np.uint64)
        length = _lengths(texts)
        totals = np.repeat(self._key[0][:, np.newaxis], len(texts), axis=1)
        # The length of a long text is that of the text, not of its digest: no short text is taken for a digest.
        self._add(totals, 0, length.astype(np.uint64) & _LOW)  # [note: units-2]
        if length.max() > 8 * _MOST_WORDS:
            texts = pa.array([_shortened(text) for text in texts.to_pylist()], type=pa.large_binary())
            length = _lengths(texts)
        _, offsets, content = texts.buffers()
        bounds = np.frombuffer(offsets, dtype=np.int64)[texts.offset : texts.offset + len(texts) + 1]
        start = bounds[:-1] - bounds[0]
        # Room after the last byte, so that whole words can be read there.
        data = np.zeros(bounds[-1] - bounds[0] + 8, dtype=np.uint8)
        data[:-8] = np.frombuffer(content or b"", dtype=np.uint8)[bounds[0] : bounds[-1]]
        word_at = np.ndarray((data.size - 7,), dtype="<u8", buffer=data, strides=(1,))
        for position in range(-(-int(length.max()) // 8)):
            left = np.clip(length - 8 * position, 0, 8)
            word = word_at[np.where(left > 0, start + 8 * position, 0)]
            # Zero the bytes after the end of the text. A shift by 64 bits is not defined, so it takes two steps.
            spare = (8 * (8 - left)).astype(np.uint64)
            halfway = spare >> np.uint64(1)
            word = word << halfway << (spare - halfway) >> halfway >> (spare - halfway)
            self._add(totals, 1 + 2 * position, word & _LOW)
            self._add(totals, 2 + 2 * position, word >> _HALF)
        first, second, third, fourth = totals
        return np.stack([(first & ~_LOW) | (second >> _HALF), (third & ~_LOW) | (fourth >> _HALF)], axis=1)

    def _add(self, totals: Words64, position: int, characters: Words64) -> None:
        for total, key in zip(totals, self._key[1 + position], strict=True):
            total += characters * key


def _lengths(texts: pa.Array) -> IntArray:
    return np.asarray(pc.binary_length(texts).to_numpy(zero_copy_only=False)).astype(np.int64)


def _shortened(text: bytes) -> bytes:
    """Replace a long text by its digest. No two long texts with the same digest are known."""
    if len(text) <= 8 * _MOST_WORDS:
        return text
    return hashlib.blake2b(text, digest_size=64, person=b"pais unit").digest()


@functools.cache
def _seeded_hash() -> UnitHash:
    return UnitHash(bytes(32))


def seeded_identity(ids: pa.Array) -> NDArray[np.uint64]:
    """Identities of units for the draws of a seeded run, the same in every engine. NOT PRIVATE."""
    words = _seeded_hash().words(ids)
    return mixed64(words[:, 0] + mixed64(words[:, 1]))


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

    @property
    def keys(self) -> Words64:
        """The words of all keys, by number."""
        return self._keys[: self.size]

    def ranks(self) -> _Numbers:
        """The rank of each key among all of them, by number. It does not depend on the order in which keys came."""
        order = np.lexsort((self._keys[: self.size, 1], self._keys[: self.size, 0]))
        ranks = np.empty(self.size, dtype=np.intp)
        ranks[order] = np.arange(self.size)
        return ranks

    def _probe(self, keys: Words64, *, adding: bool) -> _Numbers:
        numbers = np.full(len(keys), -1, dtype=np.intp)
        waiting, slot = np.arange(len(keys)), self._home(keys)
        while waiting.size:
            number = self._table.take(slot).astype(np.intp) - 1
            free = np.flatnonzero(number < 0)
            if free.size:
                if adding:
                    # Fill free slots with new keys. If several keys claim a slot, any one of them gets it.
                    claimed, claims = slot.take(free), np.arange(1, free.size + 1, dtype=np.uint32)
                    self._table[claimed] = claims
                    won = np.flatnonzero(self._table.take(claimed) == claims)
                    end = self.size + won.size
                    self._keys[self.size : end] = keys.take(waiting.take(free.take(won)), axis=0)
                    self._table[claimed.take(won)] = np.arange(self.size + 1, end + 1, dtype=np.uint32)
                    self.size = end
                    number = self._table.take(slot).astype(np.intp) - 1
                else:
                    taken = np.flatnonzero(number >= 0)
                    waiting, slot, number = waiting.take(taken), slot.take(taken), number.take(taken)
            same = (self._keys.take(number, axis=0) == keys.take(waiting, axis=0)).all(axis=1)
            numbers[waiting[same]] = number[same]
            waiting, slot = waiting[~same], (slot[~same] + 1) & (len(self._table) - 1)
        return numbers

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
