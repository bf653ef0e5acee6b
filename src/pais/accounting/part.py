"""Prices: amounts of privacy and their exact sums, the parts of a release, and the certified price of a mechanism.

A certified price is an upper bound on the loss of any record in the ball. Nothing here reads a row.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from pais._base import files, validate
from pais._base.numerics import ULP, exact
from pais.data.ball import Ball
from pais.errors import ArgumentError, BudgetError, MismatchError, PaisError
from pais.mechanisms.base import Extent, Mechanism, exact_epsilon
from pais.privacy.amplification import delta_after, kept_limit
from pais.privacy.certify import CERTIFIED_TOLERANCE, worst_case, worst_case_if_kept
from pais.privacy.profiles import Profile, ShiftProfile
from pais.privacy.rules import Rule
from pais.privacy.weights import SMALLEST_PROBABILITY


@dataclass(frozen=True, kw_only=True)
class Budget:
    """An amount of privacy: (epsilon, delta). Public.

    Both are finite, epsilon in [0, 1e6], delta in [0, 1).
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", validate.price_epsilon(self.epsilon))
        object.__setattr__(self, "delta", validate.price_delta(self.delta))


def total(values: Iterable[float]) -> Fraction:
    return sum((exact(value) for value in values), Fraction(0))


def up(value: Fraction) -> float:
    """Return the nearest double whose decimal form is at least the value."""
    nearest = float(value)
    return nearest if exact(nearest) >= value else math.nextafter(nearest, math.inf)


def at_least(value: Fraction) -> float:
    """Return the nearest double that is at least the value, and whose decimal form is too."""
    nearest = up(value)
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)


def down(value: Fraction) -> float:
    """Return the nearest double whose decimal form is at most the value; 0 for a negative value."""
    if value <= 0:
        return 0.0
    nearest = float(value)
    return nearest if exact(nearest) <= value else math.nextafter(nearest, 0.0)


def sum_up(prices: Iterable[float]) -> float:
    """The smallest double that is not below the exact sum."""
    parts = list(prices)
    nearest = math.fsum(parts)
    if len(parts) < 2:
        return nearest
    return math.nextafter(nearest, math.inf) if Fraction(nearest) < sum(map(Fraction, parts)) else nearest


def what_is_left(budget: float, spent: float) -> float:
    """The largest double that, added to `spent`, stays within the budget, both as doubles and as decimals.

    Both are needed: a ledger adds the prices as written in decimal, a certificate adds them as doubles.
    """
    room = min(Fraction(budget) - Fraction(spent), exact(budget) - exact(spent))
    left = float(room)
    while max(Fraction(left), exact(left)) > room:
        left = math.nextafter(left, -math.inf)
    return left


#: Errors that rebuilding an object from a damaged description can raise.
UNREADABLE = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError, PaisError)


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
        from the survey: see `Plan.survey_shift`. 0 for all other releases. `delta` is then that of names which the
        survey published. Each of these releases pays it beside the delta of noise.
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
        if self.shift > 0.0 and self.epsilon > 0.0:
            raise ArgumentError("a part states a shift or an epsilon, not both. Leave out one of them.")
        if not isinstance(self.release, str) or not self.release.isprintable():
            raise ArgumentError("release is not printable text. Leave it out.")
        validate.instance("unit", self.unit, str, "Pass the name of a column, or leave it out.")

    @property
    def is_complete(self) -> bool:
        """Whether equal descriptions mean equal releases: all classes in it are defined by this package."""
        return files.is_complete(self.to_dict())

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
        with contextlib.suppress(*UNREADABLE):
            known |= {
                "rule": Rule.from_dict(described["rule"]),
                "profile": Profile.from_dict(described["profile"]),
                "ball": Ball.from_dict(described["ball"]),
                "n_features": None if columns is None else validate.count("n_features", columns),
                "follows": described["follows"] is not False,
                "scaled": described.get("scaled", False) is not False,
            }
        return cls(**known)


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


def delta_of_names(spent: tuple[Part, ...]) -> float:
    """The delta of names that surveys with a shift published. Each release planned from them pays it too."""
    return sum_up(part.delta for part in spent if part.shift > 0.0)


def own_limit(max_epsilon_if_kept: float | None, spent: tuple[Part, ...]) -> float | None:
    """The part of a stated limit on kept records that earlier releases leave for this one; None for the default."""
    limit = validate.kept_limit(max_epsilon_if_kept, finite=True)
    if limit is None or not spent:
        return limit
    left = what_is_left(limit, sum_up(part.epsilon for part in spent))
    if left <= 0.0:
        raise ArgumentError(
            f"max_epsilon_if_kept={limit!r} is used up by earlier releases on the same rows. State a larger limit."
        )
    return left


def certified_price(
    mechanism: Mechanism,
    rule: Rule,
    ball: Ball,
    *,
    delta: float,
    release_delta: float,
    survey_shift: float,
    budget: float | None,
    limit: float | None,
    follows: bool,
) -> tuple[Part, Profile]:
    """Price of running a mechanism on a sample drawn by a rule, and the profile that it was computed from.

    Raises if the price is above the budget or the limit. All arguments are public and no row is needed, so callers can
    check the price before they read a row. After a survey with a shift, the price is that of survey and mechanism
    together, and the mechanism alone meets `release_delta`.
    """
    validate.instance("mechanism", mechanism, Mechanism, "Pass a mechanism such as WeightedSum, then the sample.")
    epsilon, profile = _certified(mechanism, rule, ball, delta=release_delta, budget=budget)
    shift = survey_shift
    if shift > 0.0 and budget is not None:
        # The joint price holds at the epsilon that was fixed before the survey, not at a smaller one.
        epsilon = budget  # [note: joint-survey-8]
    kept = worst_case_if_kept(rule, profile, radius=ball.radius, delta=delta, survey_shift=shift).upper
    allowed = kept_limit(epsilon, limit)
    if not kept <= allowed:  # [note: kept-5]
        raise BudgetError(
            f"a record that is kept in the sample would pay epsilon={kept:.6g}, above max_epsilon_if_kept="
            f"{allowed:.6g}. Raise the noise or the rule's probabilities, or state a larger max_epsilon_if_kept.",
            cost=kept,
        )
    if shift > 0.0:
        # Without rule and profile: these describe the rounds alone, and the price is that of survey and rounds.
        what = f"survey and {mechanism.name}"
        part = Part(what=what, epsilon=epsilon, delta=delta, epsilon_if_kept=max(kept, epsilon), follows=True)
        return part, profile
    part = Part(
        what=mechanism.name,
        epsilon=epsilon,
        delta=delta,
        epsilon_if_kept=max(kept, epsilon),
        rule=rule,
        profile=profile,
        ball=ball,
        follows=follows,
    )
    return part, profile


def delta_of_release(epsilon: float | None, delta: float, spent: tuple[Part, ...]) -> float:
    """The delta that a release must meet by itself at `epsilon`: smaller than `delta` after a survey with a shift."""
    shift = survey_shift(spent)
    if shift == 0.0:
        return delta
    if epsilon is None:
        raise MismatchError("a survey with a shift has a price only together with an epsilon. Pass epsilon.")
    if validate.target_delta(delta) == 0.0:
        raise MismatchError("a survey with Gaussian noise needs a release with Gaussian noise. Pass delta > 0.")
    return delta_after(epsilon, delta, survey_shift=shift)


def certified_epsilon(
    mechanism: Mechanism, rule: Rule, ball: Ball, *, delta: float = 0.0, budget: float | None = None
) -> float:
    """Epsilon of running a mechanism on a sample drawn by a rule. Raises if it is above the budget.

    All arguments are public and no row is needed, so callers can check the cost before they read a row.
    """
    return _certified(mechanism, rule, ball, delta=delta, budget=budget)[0]


def _certified(
    mechanism: Mechanism, rule: Rule, ball: Ball, *, delta: float, budget: float | None
) -> tuple[float, Profile]:
    """The same, with the profile that it was computed from."""
    delta = validate.target_delta(delta)
    validate.instance("ball", ball, Ball, "Build one with pais.Ball(radius=...).")
    validate.instance("rule", rule, Rule, "Wrap a function in FunctionRule.")
    if mechanism.order is not None and mechanism.order != ball.order:  # [note: release-1]
        raise MismatchError(
            f"the noise is for the l{mechanism.order:g} norm, but the ball has order={ball.order:g}. "
            "Build the ball and the rule with the order of the noise."
        )
    radius = ball.radius
    smallest = rule.smallest_probability(radius)
    if smallest < SMALLEST_PROBABILITY * (1.0 - 1e-9):
        raise ArgumentError(
            f"the rule keeps some rows with a probability below {SMALLEST_PROBABILITY}. Raise its smallest probability."
        )
    extent = Extent(
        radius=radius,
        weight=1.0 / smallest,
        contribution=rule.largest_contribution(radius) * (1.0 + 1e-12),
        square=rule.largest_contribution(radius, 2) * (1.0 + 1e-12),
    )
    mechanism.require_lattice(extent)
    profile = mechanism.profile
    gaussian = isinstance(profile, ShiftProfile)
    if gaussian != (delta > 0.0):
        raise MismatchError(f"delta={delta!r} does not fit the noise. Gaussian noise needs delta > 0, other noise 0.")
    if gaussian and budget is not None:
        # Compare deltas at the budget's epsilon, as calibration does; this avoids an inversion from delta to epsilon.
        at_budget = worst_case(
            rule, profile, radius=radius, epsilon=budget, tolerance=CERTIFIED_TOLERANCE, enough=0.5 * delta
        )
        if at_budget.upper <= delta:  # [note: release-2]
            return budget, profile
    fraction = exact_epsilon(mechanism, rule, ball)
    if fraction is None:
        fixed = delta if gaussian else None
        cost = worst_case(rule, profile, radius=radius, delta=fixed, tolerance=CERTIFIED_TOLERANCE).upper
    else:
        cost = at_least(fraction)
    if budget is not None and budget * (1.0 - 1e-6) <= cost <= budget:
        # The plan was calibrated to the budget and differs by rounding only, so certify the budget itself.
        return budget, profile
    if budget is not None and not cost <= budget:  # [note: release-3]
        raise BudgetError(
            f"the release needs epsilon={cost!r}, but its budget is {budget!r}. Raise the noise, or calibrate the rule "
            "for this mechanism.",
            cost=cost,
        )
    return cost, profile
