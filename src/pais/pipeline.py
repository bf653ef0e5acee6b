"""The path of every release: facts, plan, sample, release.

`fit` starts from settings, `run` from a plan and `release` from a sample.
"""

from __future__ import annotations

from dataclasses import replace
from threading import Lock
from typing import Any, Literal, NoReturn, Protocol, TypeVar

from pais._base import threads, validate
from pais._base.lattice import current_tape, on_sample
from pais._base.randomness import BitSource, RandomState, bit_source
from pais.accounting.certificate import Release
from pais.accounting.ledger import Accounts, Ledger, Prepaid, accounts
from pais.accounting.part import Part, sum_up
from pais.data.ball import Ball
from pais.data.engines.base import AllRows, Engine, Sampling, WeightedRows
from pais.data.schema import Schema
from pais.data.sources import opened, source
from pais.data.units import Unit
from pais.errors import ArgumentError, MismatchError, SpentError
from pais.mechanisms.base import Mechanism
from pais.planning.facts import Facts, Findings, Stages
from pais.planning.plan import AT_COST, Plan
from pais.privacy.guarantee import epsilon_concern, ledger_concern, warn
from pais.privacy.rules import Rule

Strategy = Literal["auto", "pass", "thin"]


class WeightedSample:
    """Rows kept by a rule, with weight 1/probability each. Secret; it can be spent once.

    The guarantee of the rule holds for *one* mechanism run on the sample. A second mechanism on the same sample would
    cost the records again and is refused. Run both as one `Joint` mechanism, whose profile is the sum, and plan the
    rule for that profile.

    Notes
    -----
    Guarantee. Only one call of `spend` succeeds, even if several threads call it at the same time, and none succeeds in
    a process forked from the one that drew the sample: `tests/unit/test_spent_once.py`.
    """

    __slots__ = (
        "_ball",
        "_content",
        "_lock",
        "_private",
        "_process",
        "_rule",
        "_schema",
        "_spent_by",
        "_unit",
        "_width",
    )

    def __init__(
        self,
        content: WeightedRows | AllRows,
        *,
        rule: Rule,
        ball: Ball,
        private: bool,
        unit: Unit | None = None,
        schema: Schema | None = None,
    ) -> None:
        if hasattr(self, "_lock"):
            self._no_copy()
        self._rule, self._ball, self._private, self._unit = rule, ball, private, unit
        self._schema = schema
        self._width = content.n_features
        self._content: WeightedRows | AllRows | None = content
        self._spent_by: str | None = None
        self._lock = Lock()
        self._process = threads.identity()

    @property
    def rule(self) -> Rule:
        """The rule that decided which rows were kept."""
        return self._rule

    @property
    def ball(self) -> Ball:
        """The ball the rows were clipped to."""
        return self._ball

    @property
    def unit(self) -> Unit | None:
        """The units that were kept as a whole; None if single rows were kept."""
        return self._unit

    @property
    def schema(self) -> Schema | None:
        """The public facts about the columns, if the rows are scaled vectors; else None."""
        return self._schema

    @property
    def n_features(self) -> int:
        """Number of columns of the rows."""
        return self._width

    @property
    def private(self) -> bool:
        """Whether the draws came from the cryptographic generator."""
        return self._private

    def spend(self, purpose: str) -> Any:
        """Return the rows for one mechanism. Every later call raises, and so does every call in another process.

        They are `WeightedRows`, or `AllRows` for a mechanism that streams.
        """
        # Check before taking the lock: in a forked process, a thread that does not exist there may hold it.
        self.require_own_process()  # [note: sample-2]
        with self._lock:
            content, self._content = self._content, None  # [note: sample-1]
            if content is not None:
                self._spent_by = purpose
        if content is None:
            raise SpentError(
                f"this sample was already spent on {self._spent_by!r}, so {purpose!r} cannot use it. Draw a new sample "
                "and account for it, or run both as one Joint mechanism."
            )
        return content

    def require_own_process(self) -> None:
        """Raise `SpentError` in a process other than the one that drew the sample: both copies could be spent."""
        if threads.identity() != self._process:
            raise SpentError(
                "this sample was drawn in another process and can only be spent there. Draw a sample in this process "
                "and account for it."
            )

    @property
    def spent(self) -> bool:
        return self._content is None

    def __repr__(self) -> str:
        return f"WeightedSample(rule={self.rule!r}, ball={self.ball!r}, spent={self.spent}, private={self.private})"

    def _no_copy(self, *_: object) -> NoReturn:
        raise SpentError("a sample cannot be copied or pickled, since a copy could be spent again. Draw a new sample.")

    __copy__ = __deepcopy__ = __reduce_ex__ = __getstate__ = _no_copy


@validate.without_sizes
def sample(
    rows: object,
    *,
    ball: Ball,
    rule: Rule,
    random_state: RandomState | BitSource = None,
    strategy: Strategy = "auto",
) -> WeightedSample:
    """Keep each row independently with its probability under `rule`; the kept rows are clipped to the ball.

    Parameters
    ----------
    rows : array, table, path, Spark DataFrame or source
        Any input of `pais.source`: an array of shape (n, d) in any memory order, a file of any size, ...
    ball : Ball
        Public bounds. Norms are taken relative to its center and clipped at its radius.
    rule : Rule
        A public function of the norm.
    random_state : None, int or numpy Generator
        None draws from the operating system's cryptographic generator. Any other value is not private.
    strategy : {"auto", "pass", "thin"}
        "pass" reads every row; "thin" first selects candidates with the rule's largest probability and reads only
        those. Both use the same draws and give the same sample for the same bits.

    Notes
    -----
    Guarantee. The draws are independent, and each row is kept with exactly the probability that the rule returns as a
    double: `tests/unit/test_exact_draws.py`. This probability depends only on that row and on public values.

    A row that holds NaN or infinity is never kept and changes nothing for other rows:
    `tests/conformance/missing/test_missing_rows.py`.
    """
    validate.instance("ball", ball, Ball, "Build one with pais.Ball(radius=...).")
    validate.instance("rule", rule, Rule, "Wrap a function in FunctionRule.")
    return sample_for(None, source(rows), ball=ball, rule=rule, bits=bit_source(random_state), strategy=strategy)


def sample_for(
    mechanism: Mechanism | None, engine: Engine, *, ball: Ball, rule: Rule, bits: BitSource, strategy: Strategy = "auto"
) -> WeightedSample:
    """Draw a sample, of a mechanism if it is known. If the rule keeps all rows and it streams, no row is held."""
    engine.require_width(ball)
    if ball.radius > rule.radius:
        raise MismatchError(
            f"the ball has radius={ball.radius!r}, but the rule has {rule.radius!r}. Build the rule for this ball."
        )
    if strategy not in ("auto", "pass", "thin"):
        raise ArgumentError(f"strategy={strategy!r} is not known. Pass 'auto', 'pass' or 'thin'.")
    kept: WeightedRows | AllRows
    if mechanism is not None and mechanism.streams and rule.keeps_all:
        engine.require_passes(mechanism.passes)
        kept = AllRows(engine=engine, ball=ball, seeded=not bits.private)
    else:
        read_all = None if strategy == "auto" else strategy == "pass"
        kept = engine.sample(Sampling(ball=ball, rule=rule, read_all=read_all), bits)
    return WeightedSample(kept, rule=rule, ball=ball, private=bits.private, unit=engine.unit, schema=engine.schema)


R = TypeVar("R", covariant=True)


class ReleaseSettings(Protocol[R]):
    """What `fit` asks of settings: those of a model or of a statistic."""

    @property
    def what(self) -> str:
        """What is released, for the ledger entry of a Gaussian survey and its release together."""

    @property
    def epsilon(self) -> float: ...

    @property
    def price(self) -> Part:
        """Price of the whole call, to check with the ledgers before a row is read."""

    def require(self) -> None:
        """Raise if a setting is not valid, before a row is read."""

    def opened(self, rows: object, facts: Any, random_state: RandomState) -> Engine:
        """Open the rows. Facts of an earlier survey state their columns and unit."""

    def for_rows(self, rows: Engine) -> ReleaseSettings[R]:
        """Return the settings for a source, before a row is read and after a survey.

        Before the survey, this raises if they do not fit its columns.
        """

    def stages(self, rows: Engine, random_state: RandomState) -> Stages:
        """The stages of a survey of what is not stated; `fit` runs them."""

    def surveyed(self, findings: Findings) -> Any:
        """The facts behind a plan: what is stated and what the survey found."""

    def planned(self, facts: Any, rows: Engine) -> Plan:
        """Choose noise and rule. The survey behind the facts and the plan together cost at most epsilon."""

    def result(self, plan: Plan, release: Release, facts: Any) -> R:
        """What the caller gets, with the released value."""


@validate.without_sizes
def fit(
    rows: object,
    settings: ReleaseSettings[R],
    *,
    random_state: RandomState = None,
    ledger: Ledger | Accounts | None = None,
    facts: Facts | None = None,
    counted: bool = True,
) -> R:
    """Survey the facts that are not stated, plan, and run. The certificate states the total cost.

    Every estimator, statistic and command comes through here. Pass the `facts` of an earlier survey to skip the survey.
    If `counted`, the second, fourth, eighth fit and so on without a ledger in this process issues a warning.

    Notes
    -----
    Guarantee. The costs of the parts add up to at most (epsilon, delta): `tests/integration/test_kmeans.py`. Survey and
    release are each charged before they draw noise: `tests/unit/accounting/test_ledger_charging.py`.
    """
    payers = accounts(ledger)
    settings.require()
    if facts is None:
        payers.check(settings.price)
    engine = settings.opened(rows, facts, random_state)
    settings = settings.for_rows(engine)
    warn(epsilon_concern(settings.epsilon))
    if counted and payers.empty and random_state is None:
        warn(ledger_concern(settings.epsilon))
    if facts is None:
        stages = settings.stages(engine, random_state)
        if stages.noise is not None and stages.noise.gaussian:
            # Survey and release have one price together, which is charged before the survey draws noise.
            whole = replace(settings.price, what=f"survey and {settings.what}", unit=engine.unit_column)
            payers = Prepaid(payers, whole)
        findings = stages.run(engine, payers, random_state)
        # The survey may have found the categories of columns.
        settings = settings.for_rows(findings.engine)
        engine, found = findings.engine, settings.surveyed(findings)
    else:
        found = facts.about(engine.unit, engine.schema)
    plan = settings.planned(found, engine)
    _require_price(plan, found.spent, settings)
    released = _run(plan, engine, payers, random_state)
    return settings.result(plan, released, found)


def _require_price(plan: Plan, spent: tuple[Part, ...], settings: ReleaseSettings[R]) -> None:
    """Raise if a plan leaves out the survey behind it, or costs more together with it than epsilon."""
    counted = all(part in plan.spent for part in spent)
    cost = sum_up(part.epsilon for part in (*spent, plan.price))
    if not counted or cost > validate.target_epsilon(settings.epsilon):
        raise MismatchError(
            f"the plan of {type(settings).__name__} leaves out the survey, or costs more together with it than "
            f"epsilon={settings.epsilon!r}. Pass spent=facts.spent, and plan for epsilon_after(facts.survey)."
        )


@validate.without_sizes
def run(
    plan: Plan,
    rows: object,
    *,
    random_state: RandomState = None,
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
    ledger : Ledger, optional
        Charged for the release, as is every active ledger.

    Notes
    -----
    Guarantee. Ledgers are checked before a row is read and charged before noise is drawn. A run that fails before the
    charge is not charged, and one that fails after it is: `tests/unit/accounting/test_ledger_charging.py`. A survey in
    `plan.spent` is charged too, to each ledger that does not hold it yet.
    """
    validate.instance("plan", plan, Plan, "Build one with pais.Plan(...).")
    payers, plan = accounts(ledger), plan.certified()
    return _run(plan, rows, payers, random_state)


def _run(plan: Plan, rows: object, payers: Accounts, random_state: RandomState) -> Release:
    """Execute a plan that was certified in this call."""
    payers.check(*plan.due)
    bits, engine = bit_source(random_state), opened(rows, plan.schema, plan.unit)
    plan.require_columns(engine)
    plan = plan if plan.schema == engine.schema else replace(plan, schema=engine.schema)
    drawn = sample_for(plan.mechanism, engine, ball=plan.ball, rule=plan.rule, bits=bits)
    return release_once(plan, drawn, payers, bits)


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
    payers = accounts(ledger)
    payers.check(*plan.due)
    return release_once(plan, sample, payers, bit_source(random_state, stream=1))


def release_once(plan: Plan, sample: WeightedSample, payers: Accounts, bits: BitSource) -> Release:
    """Charge a plan to accounts, then run its mechanism on the sample, once."""
    if sample._rule is not plan.rule or sample._ball is not plan.ball or sample._unit != plan.unit:
        raise MismatchError("the sample was drawn by another rule, ball or unit than the plan. Draw it again.")
    secure = bits.private and sample._private and all(part.secure_randomness for part in plan.spent)
    # A run of an audit is no release: its ledgers are not charged, and its values may be forced.
    secure = secure and current_tape() is None
    content = sample.spend(plan.mechanism.name)  # [note: release-4]
    *earlier, price = plan.due
    # Pay before the mechanism sees the sample, so that every outcome is paid for, including an exception.
    own = replace(price, n_features=sample._width, secure_randomness=secure)
    entries = payers.spend(*earlier, own)  # [note: ledger-4]
    with on_sample(content, plan):
        value = plan.mechanism.measure(content, plan.ball, bits)
    # A process forked inside the mechanism would return a second value for one price.
    sample.require_own_process()  # [note: release-7]
    value = value if plan.unit is None else plan.mechanism.in_rows(value, plan.unit.full_rows)
    return Release(value=value, certificate=plan.certificate(value, secure=secure, entries=entries))
