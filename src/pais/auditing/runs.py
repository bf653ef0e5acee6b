"""Audit by runs: find an event that tells two tables apart, and bound epsilon from below by its frequencies."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np

from pais._version import __version__
from pais.auditing.pairs import NeighbourPair
from pais.auditing.targets import (
    DISCRIMINANT,
    Candidate,
    Discriminant,
    Draws,
    Event,
    Observed,
    Target,
    best_event,
    epsilon_lower_bound,
)

#: Seconds since some fixed point in time.
clock = time.perf_counter

# A chunk is at most this many times as large as the previous one, so that small chunks measure the time per run first.
_GROWTH = 4

# Share of the time that is used to choose the pair and the events.
_FIRST_SHARE = 0.5

Direction = Literal["present", "absent"]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One event, chosen on the first half of the runs and counted in the second half.

    Attributes
    ----------
    direction : {"present", "absent"}
        Whether the event is likelier with the record or without it.
    event : str
        Description of the event.
    hits_with, hits_without : int
        How often the event happened in the second half of the runs, with and without the record.
    lower_bound : float
        The lower bound on epsilon that these counts prove, at the confidence of the report.
    """

    direction: Direction
    event: str
    hits_with: int
    hits_without: int
    lower_bound: float


@dataclass(frozen=True, kw_only=True)
class AuditReport:
    """A lower bound on epsilon, together with the claimed epsilon.

    Attributes
    ----------
    target : str
        Name of the audited function, mechanism, plan or fit.
    lower_bound : float
        With probability `confidence`, the true epsilon (at `delta`) is not below this value.
    certified : float or None
        The claimed or certified epsilon, if known.
    delta : float
        Delta of the guarantee that was tested.
    confidence : float
        Confidence of the lower bound, over all events that were tried.
    pair : str
        Name of the neighbouring tables that gave the bound.
    findings : tuple of Finding
        One for each direction.
    runs : int
        Number of runs on each of the two tables that the bound was computed from.
    first_runs : int
        Number of runs on each table of each pair that were used to choose the pair and the events.
    seconds : float
        Duration of the audit.
    """

    target: str
    lower_bound: float
    certified: float | None
    delta: float
    confidence: float
    pair: str
    findings: tuple[Finding, ...]
    runs: int
    first_runs: int
    seconds: float
    version: str = __version__

    @property
    def violates(self) -> bool:
        """Whether the audit refutes the claim at this confidence. False proves nothing."""
        return self.certified is not None and self.lower_bound > self.certified

    @property
    def best(self) -> Finding:
        return max(self.findings, key=lambda finding: finding.lower_bound)

    def to_dict(self) -> dict[str, object]:
        return {**asdict(self), "findings": [asdict(part) for part in self.findings], "violates": self.violates}

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=2)

    def __str__(self) -> str:
        best = self.best
        share_with, share_without = best.hits_with / self.runs, best.hits_without / self.runs
        claim = "no epsilon claimed" if self.certified is None else f"claimed: {self.certified:.6g}"
        if self.violates:
            verdict = "VIOLATED: the audit refutes the claimed epsilon."
        elif self.certified is None:
            verdict = "No epsilon was claimed, so the audit refutes nothing."
        else:
            verdict = "Not refuted. This is no proof: other tables or events may give a larger bound."
        return "\n".join(
            [
                f"audit of {self.target}",
                f"  epsilon is at least {self.lower_bound:.4f} ({self.confidence:.4g} confidence, "
                f"delta {self.delta:.3g}); {claim}",
                f"  pair     {self.pair}, record {best.direction}",
                f"  event    {best.event}",
                f"  happened in {share_with:.4%} of the runs with the record, in {share_without:.4%} without",
                f"  runs     {self.runs:,} on each table, after {self.first_runs:,} to choose; {self.seconds:.1f} s",
                f"  {verdict}",
            ]
        )


_DIRECTIONS: tuple[Direction, ...] = ("present", "absent")


def audit_runs(
    target: Target, pairs: list[NeighbourPair], *, runs: int, confidence: float, seconds: float | None, draws: Draws
) -> AuditReport:
    """Choose the pair and the events on the first half of the runs, and count the events in the second half."""
    started, half = clock(), runs // 2
    search = _Search(target=target, draws=draws, risk=(1.0 - confidence) / len(_DIRECTIONS))  # [note: audit-3]
    first_limit = None if seconds is None else _FIRST_SHARE * seconds
    explored = list(search.explore_all(pairs, half // len(pairs) + 1, first_limit))
    best = max(explored, key=lambda exploration: exploration.promise)
    remaining = None if seconds is None else max(seconds - (clock() - started), 0.0)
    findings, n_counted = search.confirm(best, half, remaining)  # [note: audit-2]
    return AuditReport(
        target=target.name,
        lower_bound=max(finding.lower_bound for finding in findings),
        certified=target.certified,
        delta=target.delta,
        confidence=confidence,
        pair=best.pair.name,
        findings=findings,
        runs=n_counted,
        first_runs=min(exploration.runs for exploration in explored),
        seconds=clock() - started,
    )


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
        started = clock()
        for done, pair in enumerate(pairs):
            if seconds is None:
                yield self.explore(pair, runs, None)
                continue
            remaining = seconds - (clock() - started)
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
        for size in chunk_sizes(runs, most=self.target.batch(pair), seconds=seconds):
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


def chunk_sizes(runs: int, *, most: int, seconds: float | None) -> Iterator[int]:
    """Yield chunk sizes that add up to `runs`, or to fewer if the time is over; the caller works between two sizes.

    With a time limit, the first chunk is a single run. No chunk is started that would end too late, judging by the
    time per run of the previous chunk.
    """
    started = clock()
    size = most if seconds is None else 1
    remaining = runs
    while remaining > 0:
        size = min(size, remaining)
        before = clock()
        yield size
        remaining -= size
        if seconds is not None:
            now = clock()
            spare, spent = started + seconds - now, now - before
            # Multiply instead of dividing by `spent`, which is 0 if a chunk takes less time than the clock can measure.
            if spare * size < spent or spare <= 0.0:
                return
            affordable = most if spare * size >= most * spent else int(spare * size / spent)
            size = min(affordable, _GROWTH * size)
