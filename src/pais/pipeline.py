"""Plans and the functions that execute them. `run` shows the whole pipeline, from rows to a certified release."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields

import numpy as np

from pais._base import validate
from pais._base.numerics import FloatArray, raised
from pais._base.randomness import BitSource, RandomState, bit_source
from pais.accounting import Accounts, Ledger, Part, accounts, record_loss
from pais.accounting.certificate import Price, Release, Spent, certified_price, certified_release, require_spent, sum_up
from pais.data.ball import Ball
from pais.mechanisms import Mechanism
from pais.privacy.amplification import epsilon_at_delta
from pais.privacy.guarantee import PURE_NOISE, STATED, DeltaChoice
from pais.privacy.norms import NormDistribution
from pais.privacy.profiles import Finding, Verdict
from pais.privacy.rules import Rule
from pais.sampler import Strategy, WeightedSample, sample


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Everything that is decided before a row is read. Public.

    Attributes
    ----------
    ball : Ball
        Bounds the rows.
    rule : Rule
        Maps the norm of a row to its inclusion probability.
    mechanism : Mechanism
        Computes the noised value; its profile gives the loss of a record.
    epsilon, delta : float
        The guarantee required of this release; delta is 0 for pure noise. The constructor raises if the plan costs
        more.
    norms : NormDistribution, optional
        Assumed distribution of the norms, used for the expected sample size.
    spent : tuple of Spent
        Privacy costs of earlier releases on the same rows.
    max_epsilon_if_kept : float, optional
        Largest epsilon of a record given that it was kept in the sample, `spent` included; None = 15 more than
        epsilon. The constructor raises if the plan exceeds it.
    price : Price
        Certified cost of the plan, computed by the constructor: `epsilon`, and `epsilon_if_kept`.
    certified_delta : float, optional
        The delta that is certified and charged, if it is larger than `delta`. It is larger when delta was chosen from a
        surveyed number of rows; it is then the largest delta that could have been chosen. None means `delta`.
    delta_basis : str
        How delta was chosen: "stated", "pure noise", or a default for a stated or surveyed number of rows.
    """

    ball: Ball
    rule: Rule
    mechanism: Mechanism
    epsilon: float
    delta: float = 0.0
    norms: NormDistribution | None = None
    spent: tuple[Spent, ...] = ()
    max_epsilon_if_kept: float | None = None
    certified_delta: float | None = None
    delta_basis: str = STATED
    price: Price = field(init=False, repr=False, compare=False)

    @property
    def delta_choice(self) -> DeltaChoice:
        """The delta that the noise is calibrated for, and the delta that is certified."""
        certified = self.delta if self.certified_delta is None else self.certified_delta
        return DeltaChoice(used=self.delta, certified=certified, basis=self.delta_basis)

    def __post_init__(self) -> None:
        require_spent(self.spent)
        price = certified_price(
            self.mechanism,
            self.rule,
            self.ball,
            # `delta_choice` raises if the certified delta is below `delta`.
            delta=self.delta_choice.used,
            budget=validate.target_epsilon(self.epsilon),
            max_epsilon_if_kept=self.max_epsilon_if_kept,
            spent=self.spent,
        )  # [note: release-6]
        object.__setattr__(self, "price", price)

    def explain(self) -> str:
        """Describe the plan in words: what is read, public and protected, and the loss of a record."""
        return explain(self)


def explain(plan: Plan) -> str:
    """Describe the numbered stages of a plan and the loss of a record by its norm. Public values only."""
    size = "" if plan.norms is None else f", about {plan.norms.expected_size(plan.rule):,.0f} rows expected"
    center = "a stated or surveyed center" if plan.spent else "a stated center"
    origin = "the origin" if plan.ball.center is None else center
    lines = [
        f"0. earlier    {part.what}: epsilon {raised(part.epsilon)}, delta {raised(part.delta, 3)} (already released)"
        for part in plan.spent
    ]
    lines += [
        "1. rows       secret      read once by this release",
        f"2. ball       secret      clipped to norm {plan.ball.radius:.6g} (l{plan.ball.order:g}) about {origin}",
        f"3. rule       public      {_in_words(plan.rule.describe())}",
        f"4. sample     secret      each row kept with its probability, weight 1/probability{size}",
        *_noise_lines(plan.mechanism.describe()),
        f"6. release    may leave   epsilon {raised(plan.epsilon)}, delta {raised(plan.delta_choice.certified, 3)} for "
        "adding or removing one row",
        *_delta_lines(plan.delta_choice),
        *kept_lines(plan),
        *_together_lines(plan),
        "",
        "   norm / radius   kept with probability   epsilon of such a record   epsilon if it is known to be kept",
    ]
    share = np.array([0.0, 0.25, 0.5, 0.75, 1.0])
    norm = share * plan.ball.radius
    columns = share, plan.rule.probability(norm), record_losses(plan, norm), losses_if_kept(plan, norm)
    for part, kept, loss, if_kept in zip(*columns, strict=True):
        lines.append(f"   {part:13.2f}   {kept:21.5g}   {raised(loss):>24}   {raised(if_kept):>33}")
    return "\n".join([*lines, "", *assumption_lines(plan)])


def _delta_lines(delta: DeltaChoice) -> list[str]:
    """How delta was chosen, if the user did not state it."""
    if delta.basis in (STATED, PURE_NOISE):
        return []
    return [f"              noise made for delta {raised(delta.used, 3)}: the {delta.basis}"]


def record_losses(plan: Plan, norm: FloatArray) -> FloatArray:
    """Not private with norms of real rows: epsilon of records of given norms under the plan, at its delta.

    Norms that you choose yourself give public results. Norms of real rows give results that depend on those rows; do
    not publish them.
    """
    return record_loss(plan.rule, plan.mechanism.profile, norm, delta=plan.delta)


def losses_if_kept(plan: Plan, norm: FloatArray) -> FloatArray:
    """Epsilon of records of given norms, at the plan's delta, given that they are in the sample."""
    loss = plan.mechanism.profile(1.0 / plan.rule.probability(norm), norm)
    return np.asarray(epsilon_at_delta(plan.delta, loss, 1.0)) if plan.delta > 0.0 else loss


def _together_lines(plan: Plan) -> list[str]:
    """Totals that the certificate will state, if there were earlier releases."""
    if not plan.spent:
        return []
    earlier = [part.epsilon for part in plan.spent]
    total, kept = sum_up([*earlier, plan.epsilon]), sum_up([*earlier, plan.price.epsilon_if_kept])
    return [f"              together with the earlier releases: epsilon {raised(total)}, if kept {raised(kept)}"]


def kept_lines(plan: Plan) -> list[str]:
    """Describe how much of the guarantee depends on the secrecy of the sample."""
    if plan.price.epsilon_if_kept <= plan.epsilon * (1.0 + 1e-6):
        return ["              if the sample becomes known: the same, since sampling adds no protection here"]
    return [
        f"              if it becomes known that a record was kept, it pays up to epsilon "
        f"{raised(plan.price.epsilon_if_kept)}: keep the sample secret"
    ]


def _in_words(described: dict[str, object]) -> str:
    """Format a public description on one line, without the parts that other lines of `explain` show."""
    skipped = ("mechanism", "profile", "radius", "probabilities_sha256", "rounds")
    words = [str(described["mechanism"])] if "mechanism" in described else []
    for key, value in described.items():
        if key in skipped or value is None:
            continue
        if isinstance(value, dict):
            words.append(f"{key.replace('_', ' ')} {value.get('law', '')} {value.get('scale', 0.0):.6g}")
        else:
            words.append(f"{key.replace('_', ' ')} {value:.6g}" if isinstance(value, float) else f"{key} {value}")
    return ", ".join(words)


def _noise_lines(described: dict[str, object]) -> list[str]:
    lines = [f"5. mechanism  protected   {_in_words(described)}"]
    rounds = described.get("rounds")
    if isinstance(rounds, list):
        for number, noise in enumerate(rounds, 1):
            count, total = noise["count_noise"], noise["sum_noise"]
            lines.append(
                f"              round {number:<2d}    {count['law']} noise {count['scale']:.6g} on counts, "
                f"{total['law']} {total['scale']:.6g} on sums"
            )
    return lines


# Consequence for the user if a condition of the paper does not hold, where that needs an explanation.
_IF_NOT = {
    "feasible": "it is the sampling that meets it",
    "unbounded": "a record that pays nothing is kept as rarely as the rule likes",
    "strongly_convex": "weights are searched for, and each one found is checked",
    "sampling_can_lower": "keeping fewer rows spares work, not epsilon",
}


def assumption_lines(plan: Plan) -> list[str]:
    """List the assumption of the guarantee, then the paper's conditions that only concern how rows can be kept."""
    found = plan.mechanism.profile.check(radius=plan.ball.radius, epsilon=plan.epsilon, delta=plan.delta)
    lines = ["assumes", f"   {found.monotone}", ""]
    lines.append('not needed for the guarantee, and no fault where it says "no": further conditions of the paper')
    for one in fields(found):
        finding: Finding = getattr(found, one.name)
        if finding is found.monotone:
            continue
        answer = {Verdict.PROVED: "yes", Verdict.REFUTED: "no"}.get(finding.verdict, finding.verdict.value)
        so = _IF_NOT.get(one.name) if finding.verdict is Verdict.REFUTED else None
        lines.append(f"   {finding.statement}: {answer} ({finding.reason}){'' if so is None else f'; {so}'}")
    return lines


@validate.without_sizes
def run(
    plan: Plan,
    rows: object,
    *,
    random_state: RandomState = None,
    strategy: Strategy = "auto",
    ledger: Ledger | None = None,
) -> Release:
    """Execute a plan on rows and return a protected value with its certificate.

    rows (secret) -> clipped to the ball (secret) -> kept with public probabilities (secret)
    -> paid for -> computed and noised once (protected) -> released with a certificate (may leave).

    Notes
    -----
    Guarantee. The ledger, and every active one, is checked before a row is read and charged before noise is drawn. A
    run that fails before the charge is not charged; a run that fails after it is:
    `tests/unit/accounting/test_ledger_charging.py`. The
    earlier releases in `plan.spent` are not charged again.
    """
    validate.instance("plan", plan, Plan, "Build one with pais.Plan(...).")
    charged = accounts(ledger)
    charged.check(epsilon=plan.epsilon, delta=plan.delta_choice.certified)
    return charged_run(plan, rows, charged, random_state=random_state, strategy=strategy)


def charged_run(
    plan: Plan,
    rows: object,
    charged: Accounts,
    *,
    random_state: RandomState = None,
    strategy: Strategy = "auto",
    paid: Sequence[str] = (),
) -> Release:
    """Execute a plan and charge it to accounts that the caller has checked.

    `paid` contains the ids of the ledger entries of earlier releases.
    """
    bits = bit_source(random_state)
    kept = sample(rows, ball=plan.ball, rule=plan.rule, random_state=bits, strategy=strategy)
    return _charged_release(
        plan.mechanism,
        kept,
        charged,
        epsilon=plan.epsilon,
        delta=plan.delta_choice,
        spent=plan.spent,
        random_state=bits,
        max_epsilon_if_kept=plan.max_epsilon_if_kept,
        paid=paid,
    )


@validate.without_sizes
def release(
    mechanism: Mechanism,
    sample: WeightedSample,
    *,
    epsilon: float | None = None,
    delta: float = 0.0,
    spent: tuple[Spent, ...] = (),
    random_state: RandomState | BitSource = None,
    ledger: Ledger | None = None,
    max_epsilon_if_kept: float | None = None,
) -> Release:
    """Spend a sample on one mechanism, and certify the largest loss of any record in the ball.

    Parameters
    ----------
    mechanism : Mechanism
        Its noise must be calibrated for the norm of the sample's ball.
    sample : WeightedSample
        Spent by this call.
    epsilon : float, optional
        Budget: a release that would cost more is refused, and the sample is not spent.
    delta : float
        0 for pure noise; > 0 for Gaussian noise.
    spent : tuple of Spent
        Earlier releases on the same rows; the certificate adds their costs.
    random_state : None, int or numpy Generator
        None draws the noise from the cryptographic generator. Any other value is not private.
    ledger : Ledger, optional
        Charged for this release, as is every active ledger. The releases in `spent` are not charged again.
    max_epsilon_if_kept : float, optional
        Largest epsilon of a record given that it was kept in the sample, `spent` included; None = 15 more than
        epsilon. A release that exceeds it is refused, and the sample is not spent.

    Notes
    -----
    Guarantee. The certified (epsilon, delta) is the certified worst case of the sample's rule under the
    mechanism's profile, whether or not the rule was planned for it: `tests/unit/test_pipeline.py`. Ledgers are
    checked before the sample is spent and charged before noise is drawn:
    `tests/unit/accounting/test_ledger_charging.py`.
    """
    validate.instance("sample", sample, WeightedSample, "Draw one with pais.sample.")
    budget = None if epsilon is None else validate.target_epsilon(epsilon)
    price = certified_price(
        mechanism,
        sample.rule,
        sample.ball,
        delta=delta,
        budget=budget,
        max_epsilon_if_kept=max_epsilon_if_kept,
        spent=spent,
    )
    charged = accounts(ledger)
    charged.check(epsilon=price.epsilon, delta=delta)
    return _charged_release(
        mechanism,
        sample,
        charged,
        epsilon=epsilon,
        delta=DeltaChoice(used=delta, certified=delta, basis=STATED),
        spent=spent,
        random_state=random_state,
        max_epsilon_if_kept=max_epsilon_if_kept,
    )


def _charged_release(
    mechanism: Mechanism,
    kept: WeightedSample,
    charged: Accounts,
    *,
    epsilon: float | None,
    delta: DeltaChoice,
    spent: tuple[Spent, ...],
    random_state: RandomState | BitSource,
    max_epsilon_if_kept: float | None,
    paid: Sequence[str] = (),
) -> Release:
    def pay(price: float, secure: bool) -> list[str]:
        part = Part(
            what=mechanism.name,
            epsilon=price,
            delta=delta.certified,
            rule=kept.rule,
            profile=mechanism.profile,
            ball=kept.ball,
            n_features=kept.n_features,
            # True if this release was planned from an earlier one, such as a survey.
            follows=bool(spent),
        )
        own = charged.spend(what=part.what, epsilon=price, delta=delta.certified, secure=secure, parts=(part,))
        return [*paid, *own]

    return certified_release(
        mechanism,
        kept,
        pay=pay,
        epsilon=epsilon,
        delta=delta,
        spent=spent,
        random_state=random_state,
        max_epsilon_if_kept=max_epsilon_if_kept,
    )
