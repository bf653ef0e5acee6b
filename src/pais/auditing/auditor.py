"""Audit: test a privacy claim on two tables that differ by one record, by replay or by many runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, overload

import numpy as np
from sklearn.base import clone

from pais._base import validate
from pais._base.randomness import RandomState
from pais.accounting.ledger import Accounts
from pais.accounting.part import certified_epsilon
from pais.auditing.pairs import NeighbourPair, TablePair, fitted_pairs, replayed_pairs, worst_pairs
from pais.auditing.replay import Call, ReplayReport, replay
from pais.auditing.runs import (
    AuditReport,
    Function,
    Statistics,
    Target,
    audit_runs,
    function_target,
    mechanism_target,
    totals_of,
)
from pais.data.ball import Ball
from pais.errors import ArgumentError
from pais.estimator import PrivateEstimator, SupervisedEstimator
from pais.mechanisms.base import Mechanism
from pais.pipeline import run
from pais.planning.plan import AT_COST, Plan
from pais.privacy.rules import Rule

#: How a claim is tested.
Method = Literal["replay", "runs"]

#: A pair of tables: for a replay, any two tables that pais reads, the one with the record first.
Pair = NeighbourPair | tuple[Any, Any]

_RUNS, _CONFIDENCE = 200_000, 0.99

# Number of rows besides the record in a proposed pair of runs, for mechanisms that need other rows.
_COMPANY = 2

# A replay tests the price of a record, not the limit on records that are kept in the sample.
_ANY_EPSILON_IF_KEPT = 1e6


@overload
def audit(
    target: Mechanism | Plan | PrivateEstimator,
    *,
    method: Literal["replay"] | None = None,
    pair: Pair | None = None,
    rule: Rule | None = None,
    ball: Ball | None = None,
    n_features: int | None = None,
    statistic: None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    runs: None = None,
    confidence: None = None,
    seconds: None = None,
    random_state: RandomState = None,
) -> ReplayReport: ...
@overload
def audit(
    target: Call,
    *,
    method: Literal["replay"],
    pair: Pair,
    epsilon: float | None = None,
    delta: float | None = None,
    random_state: RandomState = None,
) -> ReplayReport: ...
@overload
def audit(
    target: Mechanism | Plan,
    *,
    method: Literal["runs"],
    pair: NeighbourPair | None = None,
    rule: Rule | None = None,
    ball: Ball | None = None,
    n_features: int | None = None,
    statistic: Statistics | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    runs: int | None = None,
    confidence: float | None = None,
    seconds: float | None = None,
    random_state: RandomState = None,
) -> AuditReport: ...
@overload
def audit(
    target: Function,
    *,
    method: Literal["runs"] | None = None,
    pair: NeighbourPair,
    statistic: Statistics | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    runs: int | None = None,
    confidence: float | None = None,
    seconds: float | None = None,
    random_state: RandomState = None,
) -> AuditReport: ...
def audit(
    target: Function | Mechanism | Plan | PrivateEstimator,
    *,
    method: Method | None = None,
    pair: Pair | None = None,
    rule: Rule | None = None,
    ball: Ball | None = None,
    n_features: int | None = None,
    statistic: Statistics | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    runs: int | None = None,
    confidence: float | None = None,
    seconds: float | None = None,
    random_state: RandomState = None,
) -> AuditReport | ReplayReport:
    """Test a privacy claim on two tables that differ by one record.

    A *replay* runs the target on one table, records its noisy totals, and runs it on the other table with the same
    noisy totals forced upon it. Everything that a reader sees must then be equal, and the secret totals may move only
    by as much as the certificate pays for. *Runs* repeat the target many times on both tables, and compute a lower
    bound on epsilon from the frequency of an event.

    Parameters
    ----------
    target : Mechanism, Plan, estimator or callable
        A mechanism with `rule` and `ball`, such as a `VectorSum`, an `AdaptiveRounds` or a class of your own. Or a
        plan. Or an unfitted private estimator such as `DPKMeans`, which is cloned and fitted with its survey; its own
        `random_state` and `ledger` are not used, and with an array the last column is the target of a regression or
        classification. Or a function. A replay calls it as ``f(table, random_state)``; it returns any result of pais,
        or any other value if you pass `epsilon`. Runs call it as ``f(rows, generator)``; it returns a number, an array
        or a symbol. If it has a parameter ``runs``, it returns an array with that many outputs, one per entry.
    method : {"replay", "runs"}, optional
        None replays a mechanism, a plan or an estimator, because their noise is drawn where a replay sees it: a few
        runs then test the whole price at any epsilon and delta. Runs would need millions to see as much. None makes
        runs of a function, because its noise may come from anywhere. Choose "runs" for a mechanism to test its noise
        itself, which a replay takes as stated. Estimators can be replayed only.
    pair : NeighbourPair or tuple, optional
        The two tables. A replay takes two tables of any kind that pais reads, such as frames or paths, as ``(with the
        record, without it)``; the rows of the record are the last ones. Without a pair, the certificate's loss curve
        proposes a record where the loss is largest, one at the radius and one at norm 0; a replay tries each of them
        and one at half the radius, alone and opposite other rows, and reports the worst. For an estimator, a record is
        proposed opposite one row and opposite many rows. A function needs a pair.
    rule, ball : Rule and Ball
        For a mechanism only.
    n_features : int, optional
        Number of columns of a proposed pair.
    statistic : callable or mapping, optional
        For runs. Maps an output to a number or a symbol; a mapping holds several statistics by name. For a function
        with ``runs``, the statistic receives all outputs at once. With None, the audit compares noisy counts and sums
        with their places on both tables, and uses each number of any other output.
    epsilon, delta : float, optional
        The claimed guarantee. None means the certified values.
    runs : int, optional
        For runs. Number of runs on each of the two tables: one half to choose the pair and the event, the other half to
        count. Default: 200,000.
    confidence : float, optional
        For runs. Confidence of the lower bound. Default: 0.99.
    seconds : float, optional
        For runs. Time limit; the audit uses the runs finished by then.
    random_state : None, int or numpy Generator
        A seed makes the audit reproducible. Runs without a seed use the randomness of a real release. A replay needs
        the same seed on both tables: it takes an int, or 0 for None, as the first of its seeds.

    Returns
    -------
    ReplayReport or AuditReport
        Both have `violates`, `lower_bound`, `to_dict` and `to_json`.

    Notes
    -----
    Guarantee. The bound of runs is wrong with probability at most ``1 - confidence``. Pair, statistic and threshold are
    chosen on the first half of the runs alone. On the second half, each of the two directions gets half of the risk,
    and each of its two frequencies gets an exact Clopper-Pearson bound for half of that:
    `tests/statistical/test_audit.py`. The same file checks that runs detect known mistakes, and
    `tests/unit/auditing/test_replay_audit.py` that a replay does. No active ledger is charged.

    Assumes. Runs are independent. No audit proves a guarantee: other tables, events and values may show more. A replay
    does not see the law of the noise, the random bits and the coins of a sample. It sees noise that is added by
    `NoiseLaw.added_to`, as all mechanisms of pais do; of a mechanism that adds noise in another way, it reports that
    the values differ.

    Examples
    --------
    >>> import numpy as np, pais
    >>> class Centered(pais.WeightedSum):
    ...     '''Forgets that the mean of the rows is secret too.'''
    ...     def measure(self, content, ball, bits):
    ...         rows = content.rows
    ...         return super().measure(content, ball, bits) - rows.mean(axis=0)
    >>> mechanism = Centered(noise=pais.laplace_noise(1.0))
    >>> ball, rule = pais.Ball(radius=1.0, order=1), pais.UniformRule(rate=0.5)
    >>> pais.audit(mechanism, rule=rule, ball=ball).violates
    True
    """
    if method not in (None, "replay", "runs"):
        raise ArgumentError(f"method={method!r} is not known. Pass 'replay' or 'runs'.")
    is_known = isinstance(target, (Mechanism, Plan, PrivateEstimator))
    if not is_known and not callable(target):
        raise ArgumentError(
            f"target is of type {type(target).__name__}. Pass a function, mechanism, plan or private estimator."
        )
    if isinstance(target, Mechanism):
        validate.instance("ball", ball, Ball, "Pass ball= and rule= with a mechanism.")
        validate.instance("rule", rule, Rule, "Pass ball= and rule= with a mechanism.")
    elif rule is not None or ball is not None:
        raise ArgumentError("rule and ball are for a mechanism only. For a function, plan or fit, leave them out.")
    claimed = None if epsilon is None else validate.non_negative("epsilon", epsilon)
    stated = None if delta is None else validate.target_delta(delta)
    width = None if n_features is None else validate.count("n_features", n_features)
    if method == "replay" or (method is None and is_known):
        for name, value in {"statistic": statistic, "runs": runs, "confidence": confidence, "seconds": seconds}.items():
            if value is not None:
                raise ArgumentError(f"{name} is for method='runs'. Leave it out, or pass that method.")
        return _replayed(target, rule, ball, width, claimed, stated, pair, random_state)
    if isinstance(target, PrivateEstimator):
        raise ArgumentError("method='runs' does not take an estimator. Leave method out, or pass a function that fits.")
    n_runs = validate.count("runs", _RUNS if runs is None else runs)
    if n_runs < 2:
        raise ArgumentError(f"runs={runs!r} cannot be split into two halves. Pass at least 2.")
    between: Any = {"rule": "a number in (0, 1)", "low": 0, "high": 1, "open_low": True, "open_high": True}
    sure = validate.number("confidence", _CONFIDENCE if confidence is None else confidence, **between)
    limit = None if seconds is None else validate.positive("seconds", seconds)
    if pair is not None:
        validate.instance("pair", pair, NeighbourPair, "Build one with NeighbourPair.of(record, company).")
    repeated, pairs = _repeated(target, rule, ball, width, claimed, stated, pair, statistic, random_state)
    return audit_runs(repeated, pairs, runs=n_runs, confidence=sure, seconds=limit)


def _replayed(
    target: Any,
    rule: Rule | None,
    ball: Ball | None,
    width: int | None,
    epsilon: float | None,
    delta: float | None,
    pair: Pair | None,
    random_state: RandomState,
) -> ReplayReport:
    """Replay the target on each pair of tables, and report the worst."""
    pairs = [] if pair is None else [TablePair.of(pair)]
    if isinstance(target, PrivateEstimator):
        name, call = f"a fit of {type(target).__name__}", _fit_of(target)
        pairs = pairs or fitted_pairs(target, width)
    elif isinstance(target, (Mechanism, Plan)):
        mechanism = target.mechanism if isinstance(target, Plan) else target
        name = f"a plan of {mechanism.name}" if isinstance(target, Plan) else mechanism.name
        if isinstance(target, Plan):
            rule, ball = target.rule, target.ball
            if epsilon is None and delta in (None, target.delta):
                # The plan pays for a survey too. The release meets a part of delta at the same epsilon.
                epsilon, delta = target.price.epsilon, target.release_delta
            delta = target.release_delta if delta is None else delta
        assert rule is not None
        assert ball is not None
        # The release alone: without a survey and columns, for rows that are vectors.
        plan = Plan(
            ball=ball,
            rule=rule,
            mechanism=mechanism,
            epsilon=AT_COST,
            delta=delta or 0.0,
            max_epsilon_if_kept=_ANY_EPSILON_IF_KEPT,
        )
        n_features = _n_features(mechanism, ball, width)
        pairs = pairs or replayed_pairs(ball, rule, mechanism.profile, delta=plan.delta, n_features=n_features)

        def call(table: Any, seed: Any) -> Any:
            return run(plan, table, random_state=seed, ledger=_NoLedger(()))
    else:
        name, call = getattr(target, "__name__", type(target).__name__), target
    if isinstance(random_state, np.random.Generator):
        raise ArgumentError("a replay needs the same seed on both tables. Pass an int as random_state.")
    if not pairs:
        raise ArgumentError("pair is missing, and a function has no ball to propose one from. Pass two tables.")
    seed = 0 if random_state is None else int(random_state)
    reports = [
        replace(
            replay(call, each.present, each.absent, epsilon=epsilon, delta=delta, seeds=seed),
            target=name,
            pair=each.name,
        )
        for each in pairs
    ]
    return ReplayReport.worst_of(reports)


class _NoLedger(Accounts):
    """Accounts without any ledger, not even an active one. The fit causes no warning about a missing ledger."""

    @property
    def empty(self) -> bool:
        return False


def _fit_of(model: PrivateEstimator) -> Call:
    """A call that fits a copy of the model. The last column of an array is the target of a supervised model."""

    def call(table: Any, seed: Any) -> Any:
        fresh: PrivateEstimator = clone(model)
        fresh.set_params(random_state=seed, ledger=_NoLedger(()))
        if not isinstance(fresh, SupervisedEstimator) or not (fresh.target is None or isinstance(table, np.ndarray)):
            return fresh.fit(table)
        if isinstance(table, np.ndarray):
            return fresh.fit(table[:, :-1], table[:, -1])
        if not hasattr(table, "iloc"):
            raise ArgumentError(
                "the last column of this table cannot be taken as the target. State target in the model."
            )
        return fresh.fit(table.iloc[:, :-1], table.iloc[:, -1])

    return call


def _n_features(mechanism: Mechanism, ball: Ball, stated: int | None) -> int:
    """Number of columns of a proposed pair: as stated, as planned, or two."""
    if stated is not None:
        return stated
    return len(ball.center) if ball.center is not None else int(getattr(mechanism, "n_features", 2))


def _repeated(
    target: Any,
    rule: Rule | None,
    ball: Ball | None,
    width: int | None,
    epsilon: float | None,
    delta: float | None,
    pair: Any,
    statistic: Statistics | None,
    random_state: RandomState,
) -> tuple[Target, list[NeighbourPair]]:
    """What runs repeat, and on which pairs of tables."""
    drawn: Any = {"statistic": statistic, "random_state": random_state}
    name = getattr(target, "name", "")
    if isinstance(target, Plan):
        # The plan's epsilon holds at the plan's delta; for another delta, the certified epsilon is computed below.
        epsilon = target.epsilon if epsilon is None and delta in (None, target.delta) else epsilon
        delta = target.delta if delta is None else delta
        name = f"a plan of {target.mechanism.name}"
        target, rule, ball = target.mechanism, target.rule, target.ball
    delta = delta or 0.0
    if not isinstance(target, Mechanism):
        if pair is None:
            raise ArgumentError(
                "pair is missing, and a function has no ball to propose one from. Pass a NeighbourPair."
            )
        return function_target(target, pair.with_record.size, certified=epsilon, delta=delta, **drawn), [pair]
    assert rule is not None
    assert ball is not None
    pairs = [] if pair is None else [pair]
    if pair is None:
        # Counts and sums of the record alone tell most. Other mechanisms may need rows beside the record.
        company = 0 if statistic is None and totals_of(target) is not None else _COMPANY
        n_features = _n_features(target, ball, width)
        pairs = worst_pairs(ball, rule, target.profile, delta=delta, n_features=n_features, company=company)
    repeated = mechanism_target(
        target,
        rule,
        ball,
        pairs[0].with_record.size,
        name=name,
        certified=certified_epsilon(target, rule, ball, delta=delta) if epsilon is None else epsilon,
        delta=delta,
        **drawn,
    )
    return repeated, pairs
