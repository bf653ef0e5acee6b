"""Units of privacy: the people, or other owners of several rows, that a release protects."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pais._base import validate
from pais._base.lattice import IntArray
from pais._base.randomness import StreamBits, Words64, mixed64
from pais.data.cells import whole_numbers_of_text
from pais.data.checks import listed, with_article
from pais.data.ids import kind_of_ids
from pais.errors import ArgumentError

# The mass of a row has this many binary places, and more if a unit may own many rows of full mass.
_MASS_BITS = 24

# Largest `max_rows`. Masses and counts then fit into 64-bit integers.
_MOST_ROWS = 1 << 20

# Texts longer than this are replaced by a cryptographic digest before they are hashed.
_MOST_WORDS = 16

_LANES = 4
# A decimal integer in its usual form.
_WHOLE = r"^(0|-?[1-9][0-9]{0,18})$"
# Owners of rows that the name of a column may tell. Of several, the last one counts: `client_account` has accounts.
_OWNERS = re.compile(
    "account|applicant|borrower|business|buyer|card|child|citizen|client|company|customer|device|donor|driver|"
    "employee|family|firm|guest|holder|hospital|household|house|inhabitant|insured|learner|machine|member|neighbour|"
    "operator|organisation|owner|participant|passenger|patient|payer|player|pupil|reader|resident|respondent|school|"
    "seller|session|sensor|shop|staff|store|student|subject|subscriber|supplier|taxpayer|teacher|tenant|trip|user|"
    "vehicle|visitor|visit|voter|worker|writer"
)
_PLURALS = {"business": "businesses", "child": "children", "insured": "insured", "staff": "staff"}
_LOW, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)


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

    def __post_init__(self) -> None:
        if not isinstance(self.column, str) or not self.column:
            raise ArgumentError("unit is not the name of a column. Pass a name, such as unit='customer_id'.")
        if self.max_rows is not None:
            object.__setattr__(self, "max_rows", validate.count("max_rows_per_unit", self.max_rows))
        if self.full_rows > _MOST_ROWS:
            raise ArgumentError(f"max_rows_per_unit={self.max_rows} is too large. Pass at most {_MOST_ROWS}.")

    @property
    def full_rows(self) -> int:
        """Number of rows that count in full, where rows have masses: 1 if nothing is stated."""
        return 1 if self.max_rows is None else self.max_rows

    @property
    def neighbours(self) -> str:
        """The meaning of presence or absence in a certificate."""
        return f"one {self.column} added or removed"

    @property
    def mass_bits(self) -> int:
        """Binary places of a mass."""
        return _MASS_BITS + self.full_rows.bit_length()

    def masses(self, n_rows: IntArray) -> IntArray:
        """Mass of each row of a unit with this many rows, in steps of 2**-mass_bits, rounded down."""
        return np.asarray((1 << self.mass_bits) // np.maximum(n_rows, self.full_rows))  # [note: units-1]

    def to_dict(self) -> dict[str, Any]:
        return {"column": self.column, "max_rows": self.max_rows}

    @classmethod
    def from_dict(cls, described: Mapping[str, Any] | None) -> Unit | None:
        """Rebuild a unit from its description; None stands for single rows."""
        return None if described is None else cls(column=described["column"], max_rows=described["max_rows"])


def about_units(unit: Unit | None) -> str:
    """Whose rows a release is about, and how they count. Public."""
    if unit is None:
        return "rows; each row counts once"
    one, many = people_word(unit.column)
    if unit.full_rows == 1:
        return f"{many}; each {one} counts once, with all rows sharing one weight"
    return f"rows of {many}; a {one} with more than {unit.full_rows} rows counts as {unit.full_rows} rows"


def unit_of(unit: str | Unit | None, max_rows: int | None) -> Unit | None:
    """The unit that a user states by the name of its column; None for single rows."""
    if unit is None:
        if max_rows is not None:
            raise ArgumentError("max_rows_per_unit is stated without a unit. Pass unit='customer_id', or leave it out.")
        return None
    return unit if isinstance(unit, Unit) else Unit(column=unit, max_rows=max_rows)


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


def most_units(unit: Unit | None, mass: float) -> float:
    """Largest number of units whose rows have this mass together: a unit has at least 1 / M. None is for rows."""
    return mass if unit is None else mass * unit.full_rows


def require_ids(kind: pa.DataType, unit: Unit, features: Sequence[str], where: str) -> None:
    """Raise if the column of a unit is also a feature, or has a type that cannot name units."""
    if unit.column in features:
        raise ArgumentError(
            f"column {unit.column!r} is the unit and a feature. Leave it out of the columns: an id says "
            "nothing about a person."
        )
    kind_of_ids(kind, where)


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
            positions = np.flatnonzero(np.asarray(digits.to_numpy(zero_copy_only=False)))[_is_valid(whole)]
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


def _is_valid(column: pa.Array) -> NDArray[np.bool_]:
    return np.asarray(column.is_valid().to_numpy(zero_copy_only=False))


def _shortened(text: bytes) -> bytes:
    """Replace a long text by its digest. No two long texts with the same digest are known."""
    if len(text) <= 8 * _MOST_WORDS:
        return text
    return hashlib.blake2b(text, digest_size=64, person=b"pais unit").digest()


def seeded_identity(ids: pa.Array) -> NDArray[np.uint64]:
    """Identities of units for the draws of a seeded run, the same in every engine. NOT PRIVATE."""
    words = UnitHash(bytes(32)).words(ids)
    return mixed64(words[:, 0] + mixed64(words[:, 1]))


# Common names of columns with row identifiers; pandas writes "Unnamed: 0" for an index without a name.
_IDENTIFIER = re.compile(r"(?i:(.*[\W_])?(id|key|uuid)|index|unnamed: 0)|.*[a-z]I[dD]")

# Words for people. Alone they may name the people; other names need an ending for ids: "user", "pupil_id", "memberNo".
_PEOPLE = "patient|customer|client|user|person|employee|student"
_OTHERS = (
    "applicant|borrower|citizen|donor|driver|guest|household|insured|learner|member|participant|passenger|player|pupil|"
    "resident|respondent|subject|subscriber|taxpayer|teacher|tenant|visitor|voter|worker"
)
_PERSON = re.compile(rf"({_PEOPLE})|(.*_)?({_PEOPLE}|{_OTHERS})_?(id|key|uuid|hash|no|nr|number|code)|ssn")


def identifiers(names: Sequence[str]) -> list[str]:
    """Return the columns that look like row identifiers."""
    return [name for name in names if _IDENTIFIER.fullmatch(name)]


def id_concern(names: Sequence[str]) -> str | None:
    """Return a warning text if some features look like ids, or None. It contains column names only."""
    ids = identifiers(names)
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
