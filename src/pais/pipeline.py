"""The path of every release: facts, plan, sample, release.

`fit` starts from settings, `run` from a plan and `release` from a sample.
"""

from __future__ import annotations

from dataclasses import replace

from pais._base import validate
from pais._base.randomness import BitSource, RandomState, bit_source
from pais._base.tape import current_tape, on_sample
from pais.accounting import Accounts, Ledger, Part, Prepaid, Release, accounts
from pais.data.sources import opened
from pais.data.units import most_units
from pais.errors import MismatchError
from pais.mechanisms import Mechanism
from pais.norm_survey import surveyed_facts
from pais.planning import AT_COST, Facts, Fit, Plan, Settings
from pais.privacy.guarantee import delta_concern, epsilon_concern, ledger_concern, warn
from pais.sampler import Strategy, WeightedSample, sample_for as draw


@validate.without_sizes
def fit(
    rows: object,
    settings: Settings,
    *,
    random_state: RandomState = None,
    ledger: Ledger | Accounts | None = None,
    facts: Facts | None = None,
    counted: bool = True,
) -> Fit:
    """Survey the facts that are not stated, plan, and run. The certificate states the total cost.

    Pass the `facts` of an earlier survey to skip the survey. If `counted`, the second, fourth, eighth fit and so on
    without a ledger in this process issues a warning.

    Notes
    -----
    Guarantee. The costs of the parts add up to at most (epsilon, delta): `tests/integration/test_kmeans.py`. Survey and
    release are each charged before they draw noise: `tests/unit/accounting/test_ledger_charging.py`.
    """
    charged = accounts(ledger)
    if facts is None:
        charged.check(settings.price)
    settings.require()
    engine = opened(rows, *(None, None) if facts is None else (facts.schema, facts.unit)).sifting(random_state)
    settings = settings.for_rows(engine)
    warn(epsilon_concern(settings.epsilon))
    if counted and charged.empty and random_state is None:
        warn(ledger_concern(settings.epsilon))
    if facts is None:
        if settings.survey_shift_share > 0.0:
            # Survey and release have one price together, which is charged before the survey draws noise.
            charged = Prepaid(charged, replace(settings.price, unit=engine.unit_column))
        facts = surveyed_facts(engine, settings, charged, random_state)
    engine = opened(engine, facts.schema, facts.unit)
    facts = facts.about(engine.unit, engine.schema)
    if settings.delta is not None:
        warn(delta_concern(settings.delta, most_units(engine.unit, facts.norms.n_rows)))
    plan = settings.plan(facts, engine.n_features)
    settings.require_price(plan, facts)
    result = run(plan, engine, random_state=random_state, ledger=charged)
    return Fit(value=result.value, certificate=result.certificate, plan=plan, survey=facts.survey)


@validate.without_sizes
def run(
    plan: Plan,
    rows: object,
    *,
    random_state: RandomState = None,
    strategy: Strategy = "auto",
    ledger: Ledger | Accounts | None = None,
) -> Release:
    """Execute a plan on rows and return a protected value with its certificate.

    Parameters
    ----------
    plan : Plan
        What to run; public.
    rows : array, table, path, Spark DataFrame or source
        Any input of `pais.source`; secret.
    random_state : None, int or numpy Generator
        None draws from the cryptographic generator. Any other value is not private.
    strategy : {"auto", "pass", "thin"}
        How the sample is drawn: see `pais.sample`.
    ledger : Ledger, optional
        Charged for the release, as is every active ledger.

    Notes
    -----
    Guarantee. Ledgers are checked before a row is read and charged before noise is drawn. A run that fails before the
    charge is not charged, and one that fails after it is: `tests/unit/accounting/test_ledger_charging.py`. A survey in
    `plan.spent` is charged too, to each ledger that does not hold it yet.
    """
    validate.instance("plan", plan, Plan, "Build one with pais.Plan(...).")
    charged, plan = accounts(ledger), plan.certified()
    charged.check(*plan.due)
    bits, engine = bit_source(random_state), opened(rows, plan.schema, plan.unit)
    plan.require_columns(engine)
    plan = plan if plan.schema == engine.schema else replace(plan, schema=engine.schema)
    sample = draw(plan.mechanism, engine, ball=plan.ball, rule=plan.rule, bits=bits, strategy=strategy)
    return measure(plan, sample, charged, bits)


@validate.without_sizes
def release(
    mechanism: Mechanism,
    sample: WeightedSample,
    *,
    epsilon: float | None = None,
    delta: float = 0.0,
    spent: tuple[Part, ...] = (),
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
    spent : tuple of Part
        Earlier releases on the same rows; the certificate adds their prices.
    random_state : None, int or numpy Generator
        None draws the noise from the cryptographic generator. Any other value is not private.
    ledger : Ledger, optional
        Charged for this release, as is every active ledger.
    max_epsilon_if_kept : float, optional
        Largest epsilon of a record given that it was kept in the sample, `spent` included; None = 15 more than
        epsilon. A release that exceeds it is refused, and the sample is not spent.

    Notes
    -----
    Guarantee. The certificate states the certified worst case of the sample's rule under the mechanism's profile,
    whether or not the rule was planned for it: `tests/unit/test_pipeline.py`. Ledgers are checked before the sample is
    spent and charged before noise is drawn: `tests/unit/accounting/test_ledger_charging.py`.

    Examples
    --------
    >>> import numpy as np
    >>> import pais
    >>> ball = pais.Ball(radius=1.0, order=1)
    >>> drawn = pais.sample(np.zeros((1000, 2)), ball=ball, rule=pais.UniformRule(rate=0.1))
    >>> result = pais.release(pais.WeightedCount(noise=pais.laplace_noise(50.0)), drawn, epsilon=0.5)
    >>> result.certificate.epsilon <= 0.5
    True
    """
    validate.instance("sample", sample, WeightedSample, "Draw one with pais.sample.")
    plan = Plan(
        ball=sample.ball,
        rule=sample.rule,
        mechanism=mechanism,
        epsilon=AT_COST if epsilon is None else epsilon,
        delta=delta,
        spent=spent,
        max_epsilon_if_kept=max_epsilon_if_kept,
        unit=sample.unit,
        schema=sample.schema,
    )
    charged = accounts(ledger)
    charged.check(*plan.due)
    return measure(plan, sample, charged, bit_source(random_state, stream=1))


def measure(plan: Plan, sample: WeightedSample, charged: Accounts, bits: BitSource) -> Release:
    """Charge a plan to accounts, then run its mechanism on the sample, once."""
    if sample.rule is not plan.rule or sample.ball is not plan.ball or sample.unit != plan.unit:
        raise MismatchError("the sample was drawn by another rule, ball or unit than the plan. Draw it again.")
    secure = bits.private and sample.private and all(part.secure_randomness for part in plan.spent)
    # A run of an audit is no release: its ledgers are not charged, and its values may be forced.
    secure = secure and current_tape() is None
    content = sample.spend(plan.mechanism.name)  # [note: release-4]
    *earlier, price = plan.due
    # Pay before the mechanism sees the sample, so that every outcome is paid for, including an exception.
    own = replace(price, n_features=sample.n_features, secure_randomness=secure)
    entries = charged.spend(*earlier, own)  # [note: ledger-4]
    with on_sample(content, plan):
        value = plan.mechanism.measure(content, sample.ball, bits)
    # A process forked inside the mechanism would return a second value for one price.
    sample.require_own_process()  # [note: release-7]
    value = value if plan.unit is None else plan.mechanism.in_rows(value, plan.unit.full_rows)
    return Release(value=value, certificate=plan.certificate(value, secure=secure, entries=entries))
