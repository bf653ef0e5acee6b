"""Ledger entries: the price of a release and the public numbers from which its loss can be recomputed."""

from __future__ import annotations

import math
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from pais._base import validate
from pais.accounting.amounts import amount
from pais.data.ball import Ball
from pais.errors import ArgumentError, PaisError
from pais.privacy.profiles import GaussianProfile, LinearProfile, Profile
from pais.privacy.rules import ConstrainedRule, CoresetRule, Rule, UniformRule

SECURE, SEEDED = "secure randomness", "seeded, not private"

# Stands for a rule or profile class defined by the user.
_OTHER = "other"


@dataclass(frozen=True, kw_only=True)
class Part:
    """One mechanism of a release.

    With rule, profile and ball, its loss is known for every norm; without them, only its price is known.

    Attributes
    ----------
    what : str
    epsilon, delta : float
        Certified price of the mechanism.
    rule, profile, ball : optional
        The sampling rule, the privacy loss of a record, and the ball that contains the rows. All public; give all
        three or none.
    n_features : int, optional
        Number of columns.
    follows : bool
        Whether its rule or noise was chosen using the result of an earlier release on these rows.
    """

    what: str
    epsilon: float
    delta: float = 0.0
    rule: Rule | None = None
    profile: Profile | None = None
    ball: Ball | None = None
    n_features: int | None = None
    follows: bool = False

    def __post_init__(self) -> None:
        validate.text("what", self.what)
        object.__setattr__(self, "epsilon", validate.price_epsilon(self.epsilon))
        object.__setattr__(self, "delta", validate.price_delta(self.delta))
        validate.flag("follows", self.follows)

    @property
    def told(self) -> bool:
        """Whether the description is complete, so that equal descriptions mean equal releases."""
        described = self.describe()
        return "rule" not in described or _OTHER not in (
            described["rule"]["rule"],
            described["profile"]["profile"],
            described["rule"].get("profile", described["profile"])["profile"],
        )

    def describe(self) -> dict[str, Any]:
        described: dict[str, Any] = {"what": self.what, "epsilon": self.epsilon, "delta": self.delta}
        if self.rule is not None and self.profile is not None and self.ball is not None:
            described["rule"] = _rule_description(self.rule)
            described["profile"] = _profile_description(self.profile)
            described["ball"] = self.ball.describe()
            described["n_features"] = self.n_features
            described["follows"] = self.follows
        return described


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

    def describe(self) -> dict[str, Any]:
        described = {name: getattr(self, name) for name in self.__dataclass_fields__}
        described["parts"] = list(self.parts)
        return described


def new_name() -> str:
    """Return a random, unique name."""
    return uuid.uuid4().hex


def new_entry(
    what: str, epsilon: float, delta: float, *, note: str, parts: tuple[Part, ...], release: str = ""
) -> Entry:
    """Build an entry with the current time, from validated amounts."""
    return Entry(
        what=validate.text("what", what),
        epsilon=epsilon,
        delta=delta,
        when=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        note=validate.text("note", note),
        parts=tuple(part.describe() for part in parts),
        id=new_name(),
        release=release,
    )


def entry_from(described: object) -> Entry:
    """Parse an entry from a file; raise if it is not in the form that a ledger writes."""
    if not isinstance(described, Mapping) or set(described) != set(Entry.__dataclass_fields__):
        raise ArgumentError("an entry has other fields than a ledger writes. Restore the file from a copy.")
    price = amount(described["epsilon"], described["delta"])
    parts = described["parts"]
    if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
        raise ArgumentError("the parts of an entry are not as a ledger writes them. Restore the file from a copy.")
    words = {name: described[name] for name in ("what", "when", "note", "id")}
    texts = all(isinstance(word, str) and word for word in [*words.values(), described["release"] or "-"])
    if not texts or not validate.is_text(words["what"]):
        raise ArgumentError("an entry holds no text where a ledger writes one. Restore the file from a copy.")
    if parts and not _adds_up(parts, price.epsilon, price.delta):
        raise ArgumentError("the parts of an entry do not add up to its price. Restore the file from a copy.")
    return Entry(**words, epsilon=price.epsilon, delta=price.delta, parts=tuple(parts), release=described["release"])


def parts_of(entry: Entry) -> tuple[Part, ...]:
    """Rebuild the parts of an entry from their public numbers, as far as possible.

    If the parts cannot be rebuilt, or do not add up to the entry's price, return a single part at that price. It is an
    upper bound on the loss of the release.
    """
    whole = (Part(what=entry.what, epsilon=entry.epsilon, delta=entry.delta),)
    try:
        parts = tuple(_part_from(described) for described in entry.parts)
    except (KeyError, TypeError, ValueError, AttributeError, PaisError):
        return whole
    return parts if parts and priced_as(parts, entry.epsilon, entry.delta) else whole


def _adds_up(parts: list[dict[str, Any]], epsilon: float, delta: float) -> bool:
    prices = [amount(part.get("epsilon"), part.get("delta")) for part in parts]
    return priced_as(tuple(Part(what="-", epsilon=one.epsilon, delta=one.delta) for one in prices), epsilon, delta)


def priced_as(parts: tuple[Part, ...], epsilon: float, delta: float) -> bool:
    """Whether the parts add up to a price, up to rounding."""
    added = math.fsum(part.epsilon for part in parts), math.fsum(part.delta for part in parts)
    return all(math.isclose(one, other, rel_tol=1e-9) for one, other in zip(added, (epsilon, delta), strict=True))


def _part_from(described: Mapping[str, Any]) -> Part:
    price = amount(described["epsilon"], described["delta"])
    plain = Part(what=described["what"], epsilon=price.epsilon, delta=price.delta)
    if "rule" not in described:
        return plain
    rule, profile = _rule_from(described["rule"]), _profile_from(described["profile"])
    if rule is None or profile is None:
        return plain
    return Part(
        what=plain.what,
        epsilon=plain.epsilon,
        delta=plain.delta,
        rule=rule,
        profile=profile,
        ball=_ball_from(described["ball"]),
        n_features=None if described["n_features"] is None else validate.count("n_features", described["n_features"]),
        follows=described["follows"] is not False,
    )


def _profile_description(profile: Profile) -> dict[str, Any]:
    # JSON has no infinity, so None represents it.
    # The checks compare the exact type, because a subclass may define a different loss.
    if type(profile) is GaussianProfile:
        return {
            "profile": "gaussian",
            "count_scale": _finite(profile.count_scale),
            "sum_scale": _finite(profile.sum_scale),
            "n_iterations": profile.n_iterations,
        }
    if type(profile) is LinearProfile:
        return {"profile": "linear", "intercept": profile.intercept, "slope": profile.slope}
    return {"profile": _OTHER}


def _profile_from(described: Mapping[str, Any]) -> Profile | None:
    if described["profile"] == "gaussian":
        count, total = (_maybe_infinite(described[name]) for name in ("count_scale", "sum_scale"))
        return GaussianProfile(count, total, described["n_iterations"])
    if described["profile"] == "linear":
        return LinearProfile(described["intercept"], described["slope"])
    return None


def _rule_description(rule: Rule) -> dict[str, Any]:
    if type(rule) not in (UniformRule, CoresetRule, ConstrainedRule):
        # A user-defined rule, whatever its own `describe` returns.
        return {"rule": _OTHER}
    described = dict(rule.describe())
    if isinstance(rule, UniformRule):
        described["radius"] = _finite(rule.radius)
    if isinstance(rule, ConstrainedRule):
        described.update(profile=_profile_description(rule.profile), n_knots=rule.n_knots)
    return described


def _rule_from(described: Mapping[str, Any]) -> Rule | None:
    kind = described["rule"]
    if kind == "uniform":
        return UniformRule(rate=described["probability"], radius=_maybe_infinite(described["radius"]))
    if kind == "coreset":
        return CoresetRule(**{name: value for name, value in described.items() if name != "rule"})
    if kind == "constrained":
        profile = _profile_from(described["profile"])
        numbers = {name: described[name] for name in ("radius", "epsilon", "delta", "n_knots")}
        # Earlier versions had no limit for kept records and wrote none.
        limit = _maybe_infinite(described.get("max_epsilon_if_kept"))
        return None if profile is None else ConstrainedRule(profile=profile, max_epsilon_if_kept=limit, **numbers)
    return None


def _ball_from(described: Mapping[str, Any]) -> Ball:
    order = math.inf if described["order"] == "infinity" else validate.positive("order", described["order"])
    center = described["center"]
    return Ball(radius=described["radius"], order=order, center=None if center is None else tuple(center))


def _finite(value: float) -> float | None:
    return None if math.isinf(value) else value


def _maybe_infinite(value: float | None) -> float:
    return math.inf if value is None else value
