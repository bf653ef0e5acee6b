"""Released values and their certificates, which state the privacy cost."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction

from pais._base import validate
from pais._base.numerics import exact
from pais._base.randomness import BitSource, RandomState, bit_source
from pais._version import __version__
from pais.accounting.digest import digest
from pais.data.ball import Ball
from pais.errors import ArgumentError, BudgetError, MismatchError
from pais.mechanisms import Extent, Mechanism
from pais.privacy.amplification import kept_limit
from pais.privacy.certify import CERTIFIED_TOLERANCE, worst_case, worst_case_if_kept
from pais.privacy.guarantee import DeltaChoice
from pais.privacy.profiles import GaussianProfile
from pais.privacy.rules import Rule
from pais.privacy.rules.base import SMALLEST_PROBABILITY
from pais.sampler import WeightedSample

#: Function that charges an epsilon (the flag says if the randomness was secure) and returns ids of ledger entries.
Pay = Callable[[float, bool], Sequence[str]]


@dataclass(frozen=True, kw_only=True)
class Spent:
    """Privacy cost of an earlier release on the same rows, such as a survey.

    Attributes
    ----------
    what : str
        Short description of the release.
    epsilon, delta : float
        Its cost: epsilon in [0, 1e6], delta in [0, 1).
    secure_randomness : bool
        False if its randomness came from a seed.
    """

    what: str
    epsilon: float
    delta: float = 0.0
    secure_randomness: bool = True

    def __post_init__(self) -> None:
        validate.text("what", self.what)
        object.__setattr__(self, "epsilon", validate.price_epsilon(self.epsilon))  # [note: release-8]
        object.__setattr__(self, "delta", validate.price_delta(self.delta))
        validate.flag("secure_randomness", self.secure_randomness)


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """The privacy guarantee of one release. All values are public, and each one is an upper bound.

    Attributes
    ----------
    epsilon, delta : float
        The presence or absence of any one record changes the distribution of all released values by at most this.
    epsilon_if_kept : float
        Largest loss of any record, at `delta_used`, given that the record was kept in the sample, under the plan that
        was run. If the plan depends on a survey, another table could have led to another plan; `max_epsilon_if_kept`
        is the bound for all of them. Only the secrecy of the sample protects the difference to `epsilon`.
    max_epsilon_if_kept : float
        The limit on `epsilon_if_kept` that holds for every table.
    delta_used : float
        The delta that the noise of this release was calibrated for. It is below `delta` if it was chosen from a
        surveyed number of rows, because a neighbouring table could have led to another value, up to `delta`.
    delta_basis : str
        How it was chosen: "stated", "pure noise", or a default for a stated or surveyed number of rows.
    parts : list
        The releases on these rows, each with its own epsilon and delta; `epsilon` and `delta` are their sums.
    neighbours : str
        The meaning of "presence or absence": one row added or removed.
    secure_randomness : bool
        False if any draw came from a seed: then the numbers describe a rehearsal, not a guarantee.
    note : str
        `secure_randomness` in words: "secure randomness", or "seeded, not private".
    mechanism, rule, ball : dict
        Public descriptions of the mechanism, of the sampling rule, and of the bounds on the rows.
    values_sha256 : str or None
        Fingerprint of the released values; `matches` compares it. None if a user-defined mechanism returns a type of
        value that has no fingerprint.
    ledger_entries : list of str
        Ids of the ledger entries charged for this release and for the survey before it; empty if there was no ledger.
    version : str
        Version of the package that issued the certificate.
    """

    epsilon: float
    delta: float
    epsilon_if_kept: float
    max_epsilon_if_kept: float
    delta_used: float
    delta_basis: str
    parts: list[dict[str, object]]
    neighbours: str
    note: str
    secure_randomness: bool
    mechanism: dict[str, object]
    rule: dict[str, object]
    ball: dict[str, object]
    values_sha256: str | None
    ledger_entries: list[str]
    version: str

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=2)

    def matches(self, value: object) -> bool:
        """Whether the certificate was issued for this value.

        Parameters
        ----------
        value : object
            The released value, or an object that holds it: a `Release`, or a fitted model.
        """
        # A fitted model holds its value in `fit_.value`, a fit or a release in `value`.
        value = getattr(getattr(value, "fit_", value), "value", value)
        return self.values_sha256 is not None and digest(value) == self.values_sha256


@dataclass(frozen=True, kw_only=True)
class Release:
    """A protected value and its certificate."""

    value: object
    certificate: Certificate


def require_spent(spent: object) -> None:
    """Raise unless `spent` is a tuple of `Spent`, whose constructor has checked the prices."""
    validate.instance("spent", spent, tuple, "Pass a tuple of pais.Spent.")
    for part in spent:  # type: ignore[attr-defined]  # a tuple
        validate.instance("an entry of spent", part, Spent, "Pass pais.Spent(what=..., epsilon=...).")


def sum_up(prices: Iterable[float]) -> float:
    """The smallest double that is not below the exact sum."""
    parts = list(prices)
    total = math.fsum(parts)
    return math.nextafter(total, math.inf) if Fraction(total) < sum(map(Fraction, parts)) else total


def what_is_left(budget: float, spent: float) -> float:
    """The largest double that, added to `spent`, stays within the budget, both as doubles and as decimals.

    Both are needed: a ledger adds the prices as written in decimal, a certificate adds them as doubles.
    """
    room = min(Fraction(budget) - Fraction(spent), exact(budget) - exact(spent))
    left = float(room)
    while max(Fraction(left), exact(left)) > room:
        left = math.nextafter(left, -math.inf)
    return left


@dataclass(frozen=True, kw_only=True)
class Price:
    """Certified upper bounds on the largest loss of any record through one release.

    Attributes
    ----------
    epsilon : float
        Loss while the sample is secret.
    epsilon_if_kept : float
        Loss given that the record was kept in the sample.
    max_epsilon_if_kept : float
        The limit on `epsilon_if_kept`.
    """

    epsilon: float
    epsilon_if_kept: float
    max_epsilon_if_kept: float


def own_limit(max_epsilon_if_kept: float | None, spent: tuple[Spent, ...]) -> float | None:
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
    delta: float = 0.0,
    budget: float | None = None,
    max_epsilon_if_kept: float | None = None,
    spent: tuple[Spent, ...] = (),
) -> Price:
    """Price of running a mechanism on a sample drawn by a rule. Raises if it is above the budget or the limit.

    All arguments are public and no row is needed, so callers can check the price before they read a row.
    """
    limit = own_limit(max_epsilon_if_kept, spent)
    epsilon = certified_epsilon(mechanism, rule, ball, delta=delta, budget=budget)
    kept = worst_case_if_kept(rule, mechanism.profile, radius=ball.radius, delta=delta).upper
    allowed = kept_limit(epsilon, limit)
    if not kept <= allowed:  # [note: kept-5]
        raise BudgetError(
            f"a record that is kept in the sample would pay epsilon={kept:.6g}, above max_epsilon_if_kept="
            f"{allowed:.6g}. Raise the noise or the rule's probabilities, or state a larger max_epsilon_if_kept.",
            cost=kept,
        )
    return Price(epsilon=epsilon, epsilon_if_kept=max(kept, epsilon), max_epsilon_if_kept=allowed)


def certified_epsilon(
    mechanism: Mechanism, rule: Rule, ball: Ball, *, delta: float = 0.0, budget: float | None = None
) -> float:
    """Epsilon of running a mechanism on a sample drawn by a rule. Raises if it is above the budget.

    All arguments are public and no row is needed, so callers can check the cost before they read a row.
    """
    delta = validate.target_delta(delta)
    validate.instance(
        "mechanism", mechanism, Mechanism, "Pass a WeightedSum or another one; it comes before the sample."
    )
    validate.instance("ball", ball, Ball, "Build one with pais.Ball(radius=...).")
    validate.instance("rule", rule, Rule, "Wrap a function in FunctionRule.")
    if mechanism.order is not None and mechanism.order != ball.order:  # [note: release-1]
        raise MismatchError(
            f"the noise is made for the l{mechanism.order:g} norm and the ball for l{ball.order:g}. "
            "Build the ball, and the rule on it, with the order of the noise."
        )
    if rule.smallest_probability(ball.radius) < SMALLEST_PROBABILITY * (1.0 - 1e-9):
        raise ArgumentError(
            f"the rule keeps some rows with a probability below {SMALLEST_PROBABILITY}. Raise its smallest probability."
        )
    mechanism.require_lattice(Extent.of(rule, ball.radius))
    profile = mechanism.profile
    gaussian = isinstance(profile, GaussianProfile)
    if gaussian != (delta > 0.0):
        raise MismatchError("Gaussian noise needs delta > 0; Laplace and lp noise need delta = 0. Change one of them.")
    if gaussian and budget is not None:
        # Compare deltas at the budget's epsilon, as calibration does; this avoids an inversion from delta to epsilon.
        there = worst_case(
            rule, profile, radius=ball.radius, epsilon=budget, tolerance=CERTIFIED_TOLERANCE, enough=0.5 * delta
        )
        if there.upper <= delta:  # [note: release-2]
            return budget
    fixed = delta if gaussian else None
    cost = worst_case(rule, profile, radius=ball.radius, delta=fixed, tolerance=CERTIFIED_TOLERANCE).upper
    if budget is not None and budget * (1.0 - 1e-6) <= cost <= budget:
        # The plan was calibrated to the budget and differs by rounding only, so certify the budget itself.
        return budget
    if budget is not None and not cost <= budget:  # [note: release-3]
        raise BudgetError(
            f"this would cost epsilon={cost:.10g}, above the epsilon={budget!r} allowed. Set the mechanism's noise to "
            "what calibrate found, or calibrate the rule for this very mechanism.",
            cost=cost,
        )
    return cost


def certified_release(
    mechanism: Mechanism,
    sample: WeightedSample,
    *,
    pay: Pay,
    epsilon: float | None,
    delta: DeltaChoice,
    spent: tuple[Spent, ...],
    random_state: RandomState | BitSource,
    max_epsilon_if_kept: float | None = None,
) -> Release:
    """Spend a sample on one mechanism, and certify the cost: see `pais.release`.

    `pay` is called before the mechanism runs, with the price and whether the randomness is secure. It raises to refuse
    the release.

    Notes
    -----
    Guarantee. The certified (epsilon, delta) is the certified worst case of the sample's rule under the
    mechanism's profile, whether or not the rule was planned for it: `tests/unit/test_pipeline.py`.
    """
    validate.instance("sample", sample, WeightedSample, "Draw one with pais.sample.")
    budget = None if epsilon is None else validate.target_epsilon(epsilon)
    require_spent(spent)
    limit = max_epsilon_if_kept
    price = certified_price(
        mechanism, sample.rule, sample.ball, delta=delta.used, budget=budget, max_epsilon_if_kept=limit, spent=spent
    )
    parts = (*spent, Spent(what=mechanism.name, epsilon=price.epsilon, delta=delta.certified))
    bits = bit_source(random_state, stream=1)
    secure = bits.private and sample.private and all(part.secure_randomness for part in spent)
    content = sample.spend(mechanism.name)  # [note: release-4]
    # Pay before the mechanism sees the sample, so that every outcome is paid for, including an exception.
    entries = pay(price.epsilon, secure)  # [note: ledger-4]
    value = mechanism.measure(content, sample.ball, bits)
    # A process forked inside the mechanism would return a second value for one price.
    sample.require_own_process()  # [note: release-7]
    certificate = Certificate(
        epsilon=sum_up(part.epsilon for part in parts),  # [note: release-5]
        delta=sum_up(part.delta for part in parts),
        # Earlier releases used all rows, so their cost does not depend on which rows are kept.
        epsilon_if_kept=sum_up([*(part.epsilon for part in spent), price.epsilon_if_kept]),
        max_epsilon_if_kept=sum_up([*(part.epsilon for part in spent), price.max_epsilon_if_kept])
        if limit is None
        else limit,
        delta_used=delta.used,
        delta_basis=delta.basis,
        parts=[{"what": part.what, "epsilon": part.epsilon, "delta": part.delta} for part in parts],
        neighbours="one row added or removed",
        note="secure randomness" if secure else "seeded, not private",
        secure_randomness=secure,
        mechanism=mechanism.describe(),
        rule=sample.rule.describe(),
        ball=sample.ball.describe(),
        values_sha256=digest(value),
        ledger_entries=list(entries),
        version=__version__,
    )
    return Release(value=value, certificate=certificate)
