"""Audit: run on two neighbouring tables, find an event that distinguishes them, and derive a lower bound on epsilon."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pais._base import validate
from pais._base.randomness import RandomState
from pais.accounting.price import certified_epsilon
from pais.auditing import pacing
from pais.auditing.events import Candidate, Event, Observed, best_event, epsilon_lower_bound
from pais.auditing.fits import FitTarget
from pais.auditing.pairs import NeighbourPair
from pais.auditing.report import AuditReport, Direction, Finding
from pais.auditing.statistics import DISCRIMINANT, Discriminant, Statistics, statistics_by_name
from pais.auditing.targets import Draws, Function, FunctionTarget, MechanismTarget, Target, n_columns
from pais.data.ball import Ball
from pais.errors import ArgumentError
from pais.estimators.base import PrivateEstimator
from pais.mechanisms import Mechanism
from pais.planning import Plan
from pais.privacy.rules import Rule

# Share of the time that is used to choose the pair and the events.
_FIRST_SHARE = 0.5

_DIRECTIONS: tuple[Direction, ...] = ("present", "absent")


def audit(
    target: Function | Mechanism | Plan | PrivateEstimator,
    *,
    pair: NeighbourPair | None = None,
    rule: Rule | None = None,
    ball: Ball | None = None,
    n_features: int | None = None,
    statistic: Statistics | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    runs: int = 200_000,
    confidence: float = 0.99,
    seconds: float | None = None,
    random_state: RandomState = None,
) -> AuditReport:
    """Compute a lower bound on epsilon by running `target` on two tables that differ by one record.

    Parameters
    ----------
    target : callable, Mechanism, Plan or estimator
        A user-defined function ``f(rows, generator)`` whose output is a number, an array or a symbol; if it has a
        parameter ``runs``, it returns an array with that many outputs, one per entry. Or a mechanism, with `rule` and
        `ball`. Or a plan. Or a private estimator such as `DPKMeans`, which is cloned and fitted in each run,
        including its survey; its own `random_state` and `ledger` are not used. The last column of the rows is the
        target of a regression or classification.
    pair : NeighbourPair, optional
        The two tables. With None, the certificate's loss curve proposes the worst pairs: a record where the loss is
        largest, one at the radius, and one at norm 0. For a fit, None proposes a record at the radius, opposite one
        row and opposite many rows. A function needs a pair.
    rule, ball : Rule and Ball
        For a mechanism only.
    n_features : int, optional
        Number of columns of a proposed pair.
    statistic : callable or mapping, optional
        Maps an output to a number or a symbol; a mapping holds several statistics by name. For a function with
        ``runs``, the statistic receives all outputs at once; for a fit, it receives the fitted model. With None, the
        audit uses the most informative statistics of the mechanism, each number of an unknown output, or everything
        that a fit releases: centers, counts, survey, plan, certificate, errors.
    epsilon, delta : float, optional
        The claimed guarantee. None means the certified values for a mechanism or a plan, and the largest values in
        the certificates of the runs for a fit.
    runs : int
        Number of runs on each of the two tables: one half to choose the pair and the event, the other half to count.
    confidence : float
        Confidence of the lower bound.
    seconds : float, optional
        Time limit; the audit uses the runs finished by then.
    random_state : None, int or numpy Generator
        A seed makes the audit reproducible. None runs a mechanism or a fit with the randomness of a real release.

    Notes
    -----
    Guarantee. The bound is wrong with probability at most ``1 - confidence``. Pair, statistic and threshold are chosen
    on the first half of the runs alone. On the second half, each of the two directions gets half of the risk, and each
    of its two frequencies gets an exact Clopper-Pearson bound for half of that: `tests/statistical/test_audit.py`. The
    same file checks that the audit detects known mistakes, and `tests/statistical/test_audit_fit.py` checks that
    it detects faults in the steps of a fit. No ledger is charged.

    Assumes. The runs are independent. A small bound proves nothing: other tables and events may give a larger one.

    Examples
    --------
    >>> import numpy as np, pais
    >>> def too_little(rows, generator, runs):
    ...     return rows.sum() + generator.laplace(scale=0.5, size=runs)
    >>> pair = pais.NeighbourPair(with_record=[[0.0], [1.0]], without_record=[[0.0]])
    >>> pais.audit(too_little, pair=pair, epsilon=1.0, random_state=0).violates
    True
    """
    started = pacing.clock()
    half = validate.count("runs", runs) // 2
    if half < 1:
        raise ArgumentError(f"runs={runs!r} cannot be split into two halves. Pass at least 2.")
    confidence = validate.number(
        "confidence", confidence, rule="a number in (0, 1)", low=0, high=1, open_low=True, open_high=True
    )
    limit = None if seconds is None else validate.positive("seconds", seconds)
    audited = _target(target, rule, ball, n_features, statistic, epsilon, delta)
    pairs = audited.pairs() if pair is None else [pair]
    validate.instance("pair", pairs[0], NeighbourPair, "Build one with NeighbourPair.of(record, company).")
    draws = Draws.of(random_state)
    audited.prepare(pairs, draws)
    search = _Search(target=audited, draws=draws, risk=(1.0 - confidence) / len(_DIRECTIONS))  # [note: audit-3]
    first_limit = None if limit is None else _FIRST_SHARE * limit
    explored = list(search.explore_all(pairs, half // len(pairs) + 1, first_limit))
    best = max(explored, key=lambda exploration: exploration.promise)
    remaining = None if limit is None else max(limit - (pacing.clock() - started), 0.0)
    findings, n_counted = search.confirm(best, half, remaining)  # [note: audit-2]
    return AuditReport(
        target=audited.name,
        lower_bound=max(finding.lower_bound for finding in findings),
        certified=audited.certified,
        delta=audited.delta,
        confidence=confidence,
        pair=best.pair.name,
        findings=findings,
        runs=n_counted,
        first_runs=min(exploration.runs for exploration in explored),
        seconds=pacing.clock() - started,
    )


def _target(
    target: Function | Mechanism | Plan | PrivateEstimator,
    rule: Rule | None,
    ball: Ball | None,
    n_features: int | None,
    statistic: Statistics | None,
    epsilon: float | None,
    delta: float | None,
) -> Target:
    statistics = None if statistic is None else statistics_by_name(statistic)
    claimed = None if epsilon is None else validate.non_negative("epsilon", epsilon)
    stated = None if delta is None else validate.target_delta(delta)
    width = None if n_features is None else validate.count("n_features", n_features)
    plan: Plan | None = target if isinstance(target, Plan) else None
    if plan is not None:
        target, rule, ball = plan.mechanism, plan.rule, plan.ball
        # The plan's epsilon holds at the plan's delta; for another delta, the certified epsilon is computed below.
        claimed = plan.epsilon if claimed is None and stated in (None, plan.delta) else claimed
        stated = plan.delta if stated is None else stated
    if isinstance(target, Mechanism):
        validate.instance("ball", ball, Ball, "Pass ball= and rule= with a mechanism.")
        validate.instance("rule", rule, Rule, "Pass ball= and rule= with a mechanism.")
        assert ball is not None
        assert rule is not None
        stated = 0.0 if stated is None else stated
        return MechanismTarget(
            mechanism=target,
            rule=rule,
            ball=ball,
            certified=certified_epsilon(target, rule, ball, delta=stated) if claimed is None else claimed,
            delta=stated,
            statistic=statistics,
            n_features=n_columns(target, ball, width),
            planned=plan is not None,
        )
    if not callable(target) and not isinstance(target, PrivateEstimator):
        raise ArgumentError(
            f"target is of type {type(target).__name__}. Pass a function, mechanism, plan or private estimator."
        )
    if rule is not None or ball is not None:
        raise ArgumentError("rule and ball are for a mechanism only. For a function or a fit, leave them out.")
    if isinstance(target, PrivateEstimator):
        return FitTarget.of(target, epsilon=claimed, delta=stated, statistic=statistics, n_features=width)
    return FunctionTarget(function=target, certified=claimed, delta=stated or 0.0, statistic=statistics)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Exploration:
    """The most promising events on a pair, one for each direction."""

    pair: NeighbourPair
    events: dict[Direction, Candidate]
    discriminant: Discriminant | None
    runs: int

    @property
    def promise(self) -> float:
        return max(candidate.promise for candidate in self.events.values())


@dataclass(frozen=True, kw_only=True, eq=False)
class _Search:
    """The two halves of an audit: choose the events, then count how often they happen."""

    target: Target
    draws: Draws
    risk: float

    def explore_all(self, pairs: list[NeighbourPair], runs: int, seconds: float | None) -> Iterator[_Exploration]:
        """Explore the pairs in order, the most promising first; the others as far as the time allows."""
        started = pacing.clock()
        for done, pair in enumerate(pairs):
            if seconds is None:
                yield self.explore(pair, runs, None)
                continue
            remaining = seconds - (pacing.clock() - started)
            if done and remaining <= 0.0:
                return
            yield self.explore(pair, runs, remaining / (len(pairs) - done))

    def explore(self, pair: NeighbourPair, runs: int, seconds: float | None) -> _Exploration:
        chunks = list(self._chunks(pair, runs, seconds))
        present, absent = (_joined([chunk[side] for chunk in chunks]) for side in (0, 1))
        discriminant = Discriminant.fit(present, absent)
        present, absent = _extended(present, discriminant), _extended(absent, discriminant)
        delta, risk = self.target.delta, self.risk
        return _Exploration(
            pair=pair,
            events={
                "present": best_event(present, absent, delta=delta, risk=risk),
                "absent": best_event(absent, present, delta=delta, risk=risk),
            },
            discriminant=discriminant,
            runs=_length(present),
        )

    def confirm(self, exploration: _Exploration, runs: int, seconds: float | None) -> tuple[tuple[Finding, ...], int]:
        events = {direction: candidate.event for direction, candidate in exploration.events.items()}
        hits = {direction: [0, 0] for direction in _DIRECTIONS}
        n_counted = 0
        for sides in self._chunks(exploration.pair, runs, seconds):
            n_counted += _length(sides[0])
            for side, observed in enumerate(sides):
                extended = _extended(observed, exploration.discriminant)
                for direction, event in events.items():
                    hits[direction][side] += int(np.count_nonzero(event.holds(extended)))
        findings = (self._finding(side, events[side], hits[side], n_counted) for side in _DIRECTIONS)
        return tuple(findings), n_counted

    def _finding(self, direction: Direction, event: Event, hits: list[int], runs: int) -> Finding:
        likelier, rarer = hits if direction == "present" else hits[::-1]
        bound = epsilon_lower_bound(likelier, rarer, runs=runs, delta=self.target.delta, risk=self.risk)
        return Finding(
            direction=direction,
            event=str(event),
            hits_with=hits[0],
            hits_without=hits[1],
            lower_bound=float(bound),
        )

    def _chunks(self, pair: NeighbourPair, runs: int, seconds: float | None) -> Iterator[tuple[Observed, Observed]]:
        """Yield equally many runs with and without the record, until `runs` are made or the time is over."""
        for size in pacing.chunk_sizes(runs, most=self.target.batch(pair), seconds=seconds):
            yield (
                self.target.observe(pair.with_record, pair, size, self.draws),
                self.target.observe(pair.without_record, pair, size, self.draws),
            )


def _joined(chunks: list[Observed]) -> Observed:
    return {name: np.concatenate([chunk[name] for chunk in chunks]) for name in chunks[0]}


def _extended(observed: Observed, discriminant: Discriminant | None) -> Observed:
    return observed if discriminant is None else {**observed, DISCRIMINANT: discriminant.values(observed)}


def _length(observed: Observed) -> int:
    return len(next(iter(observed.values())))
