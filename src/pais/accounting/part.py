"""The price of one release on the rows."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pais._base import files, validate
from pais._base.numerics import ULP
from pais.data.ball import Ball
from pais.errors import ArgumentError, MismatchError, PaisError
from pais.privacy.profiles import Profile
from pais.privacy.rules import Rule

_UNREADABLE = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError, PaisError)


@dataclass(frozen=True, kw_only=True)
class Part:
    """The price of one release for each record: of a survey, or of a mechanism on a sample. Public.

    With rule, profile and ball, the loss is known for every norm. Without them, only the price is known.

    Attributes
    ----------
    what : str
        Short description of the release.
    epsilon, delta : float
        Certified price: epsilon in [0, 1e6], delta in [0, 1).
    secure_randomness : bool
        False if the randomness came from a seed.
    release : str
        Random name of the release, by which a ledger recognises that it was charged before; empty if it has none.
    epsilon_if_kept : float, optional
        Certified loss of a record given that it was kept in the sample. None if all rows were used.
    rule, profile, ball : optional
        The sampling rule, the privacy loss of a record, and the ball that contains the rows. Give all three or none.
    n_features : int, optional
        Number of columns.
    follows : bool
        Whether the rule or the noise was chosen using the result of an earlier release on these rows.
    shift : float
        Gaussian shift of a survey that is not priced alone. It counts in the price of each release that is planned
        from the survey: see `Plan.survey_shift`. 0 for all other releases.
    scaled : bool
        Whether rule, profile and ball refer to vectors that a schema makes of the rows, not to the rows themselves.
    unit : str
        Column that names the units that the price protects; empty if it protects single rows.
    """

    what: str
    epsilon: float
    delta: float = 0.0
    secure_randomness: bool = True
    release: str = ""
    epsilon_if_kept: float | None = None
    rule: Rule | None = None
    profile: Profile | None = None
    ball: Ball | None = None
    n_features: int | None = None
    follows: bool = False
    shift: float = 0.0
    unit: str = ""
    scaled: bool = False

    def __post_init__(self) -> None:
        validate.text("what", self.what)
        object.__setattr__(self, "epsilon", validate.price_epsilon(self.epsilon))  # [note: release-8]
        object.__setattr__(self, "delta", validate.price_delta(self.delta))
        validate.flag("secure_randomness", self.secure_randomness)
        validate.flag("follows", self.follows)
        object.__setattr__(self, "shift", validate.non_negative("shift", self.shift))
        if self.shift > 0.0 and (self.epsilon > 0.0 or self.delta > 0.0):
            raise ArgumentError("a part states a shift or a price, not both. Leave out one of them.")
        if not isinstance(self.release, str) or not self.release.isprintable():
            raise ArgumentError("release is not printable text. Leave it out.")
        validate.instance("unit", self.unit, str, "Pass the name of a column, or leave it out.")

    @property
    def is_complete(self) -> bool:
        """Whether equal descriptions mean equal releases: all classes in it are defined by this package."""
        return files.is_complete(self.to_dict())

    def price(self) -> Part:
        """The same price without the numbers from which it was computed."""
        return Part(what=self.what, epsilon=self.epsilon, delta=self.delta, unit=self.unit)

    def to_dict(self) -> dict[str, Any]:
        """Public description, for certificates and ledgers."""
        described: dict[str, Any] = {"what": self.what, "epsilon": self.epsilon, "delta": self.delta}
        if self.rule is not None and self.profile is not None and self.ball is not None:
            described["rule"] = self.rule.to_dict()
            described["profile"] = self.profile.to_dict()
            described["ball"] = self.ball.to_dict()
            described["n_features"] = self.n_features
            described["follows"] = self.follows
            if self.scaled:
                described["scaled"] = True
        if self.shift > 0.0:
            described["shift"] = self.shift
        if self.unit:
            described["unit"] = self.unit
        if self.release or not self.secure_randomness:
            described["secure_randomness"], described["release"] = self.secure_randomness, self.release
        return described

    @classmethod
    def from_dict(cls, described: Mapping[str, Any]) -> Part:
        """Rebuild a part. If its rule or profile cannot be rebuilt, its price remains, which is an upper bound."""
        known = {name: described[name] for name in ("what", "epsilon", "delta")}
        known |= {
            name: described[name] for name in ("secure_randomness", "release", "shift", "unit") if name in described
        }
        if "rule" not in described:
            return cls(**known)
        columns = described["n_features"]
        with contextlib.suppress(*_UNREADABLE):
            known |= {
                "rule": Rule.from_dict(described["rule"]),
                "profile": Profile.from_dict(described["profile"]),
                "ball": Ball.from_dict(described["ball"]),
                "n_features": None if columns is None else validate.count("n_features", columns),
                "follows": described["follows"] is not False,
                "scaled": described.get("scaled", False) is not False,
            }
        return cls(**known)


def require_parts(spent: object) -> None:
    """Raise unless `spent` is a tuple of `Part`, whose constructor has checked the prices."""
    validate.instance("spent", spent, tuple, "Pass a tuple of pais.Part.")
    for part in spent:  # type: ignore[attr-defined]  # a tuple
        validate.instance("an entry of spent", part, Part, "Pass pais.Part(what=..., epsilon=...).")


def require_prices(parts: Iterable[Part]) -> None:
    """Raise if a part states a shift and no price. A ledger records prices only."""
    if any(part.shift > 0.0 for part in parts):
        raise MismatchError("a survey with a shift has no price of its own. Charge the plan that was made from it.")


def require_one_unit(units: Iterable[str]) -> None:
    """Raise if prices protect different units. They do not add up: a person may own several rows."""
    names = sorted({f"a {unit!r}" if unit else "a single row" for unit in units})
    if len(names) > 1:
        raise MismatchError(
            f"one release protects {names[0]} and another {names[1]}, so their prices do not add up. Use one "
            "ledger for each unit, and survey, plan and run with the same unit."
        )


def survey_shift(spent: tuple[Part, ...]) -> float:
    """Gaussian shift of all surveys in `spent` that have no price of their own; 0 if there are none."""
    shifts = [part.shift for part in spent if part.shift > 0.0]
    # Several shifts add in squares. The sum is rounded up.
    return shifts[0] if len(shifts) == 1 else math.hypot(*shifts) * (1.0 + 8 * ULP)
