"""Ledger entries: the price of a release and the public numbers from which its loss can be recomputed."""

from __future__ import annotations

import math
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from pais._base import validate
from pais.accounting.amounts import Budget, amount
from pais.accounting.part import Part
from pais.errors import ArgumentError, PaisError

SECURE, SEEDED = "secure randomness", "seeded, not private"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One release that was paid for. Public.

    Attributes
    ----------
    what : str
    epsilon, delta : float
        Price charged.
    when : str
        Time of the charge, UTC.
    note : str
        "secure randomness", or "seeded, not private". A rehearsal with a seed is charged too, as its values may be
        used.
    parts : tuple of dict
        Descriptions of the mechanisms that were run. Their prices add up to the price charged.
    id : str
        A random id, the same every time the file is read.
    release : str
        Name of the release, if a later command must recognise it; otherwise empty.
    """

    what: str
    epsilon: float
    delta: float
    when: str
    note: str
    parts: tuple[dict[str, Any], ...]
    id: str
    release: str = ""

    @property
    def units(self) -> set[str]:
        """Columns of the units that the entry protects, empty text for single rows. None if it was recorded by hand."""
        return {str(part.get("unit", "")) for part in self.parts}

    def to_dict(self) -> dict[str, Any]:
        """The entry as a ledger writes it."""
        described = {name: getattr(self, name) for name in self.__dataclass_fields__}
        described["parts"] = list(self.parts)
        return described

    @classmethod
    def from_dict(cls, described: object) -> Entry:
        """Parse an entry from a file; raise if it is not in the form that a ledger writes."""
        if not isinstance(described, Mapping) or set(described) != set(cls.__dataclass_fields__):
            raise ArgumentError("an entry has missing or unknown fields. Restore the file from a copy.")
        price = amount(described["epsilon"], described["delta"])
        parts = described["parts"]
        if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
            raise ArgumentError("the parts of an entry are not a list of objects. Restore the file from a copy.")
        texts = {name: described[name] for name in ("what", "when", "note", "id")}
        are_texts = all(isinstance(text, str) and text for text in [*texts.values(), described["release"] or "-"])
        if not are_texts or not validate.is_text(texts["what"]):
            raise ArgumentError("an entry has a field that is not text. Restore the file from a copy.")
        if parts and not _adds_up([amount(part.get("epsilon"), part.get("delta")) for part in parts], price):
            raise ArgumentError("the parts of an entry do not add up to its price. Restore the file from a copy.")
        return cls(**texts, epsilon=price.epsilon, delta=price.delta, parts=tuple(parts), release=described["release"])


def new_name() -> str:
    """Return a random, unique name."""
    return uuid.uuid4().hex


def new_entry(part: Part, *, note: str, parts: tuple[Part, ...]) -> Entry:
    """Build an entry with the current time. The `parts`, if known, must add up to the price."""
    if parts and not _adds_up(parts, part):
        raise ArgumentError("the parts do not add up to the price. Pass parts with their own epsilon and delta.")
    return Entry(
        what=part.what,
        epsilon=part.epsilon,
        delta=part.delta,
        when=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        note=validate.text("note", note),
        parts=tuple(part.to_dict() for part in parts),
        id=new_name(),
        release=part.release,
    )


def parts_of(entry: Entry) -> tuple[Part, ...]:
    """Rebuild the parts of an entry from their public numbers, as far as possible.

    If the parts cannot be rebuilt, or do not add up to the entry's price, return a single part at that price. It is an
    upper bound on the loss of the release.
    """
    whole = Part(what=entry.what, epsilon=entry.epsilon, delta=entry.delta)
    try:
        parts = tuple(Part.from_dict(described) for described in entry.parts)
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError, PaisError):
        return (whole,)
    return parts if parts and _adds_up(parts, whole) else (whole,)


def _adds_up(parts: Sequence[Part | Budget], whole: Part | Budget) -> bool:
    """Whether the parts add up to the price of the whole, up to rounding."""
    return all(
        math.isclose(math.fsum(getattr(part, name) for part in parts), getattr(whole, name), rel_tol=1e-9)
        for name in ("epsilon", "delta")
    )
