"""Audit by runs: repeat a function or a mechanism on two tables, and bound epsilon from below by an event's frequency.

The pair of tables and the event are chosen on the first half of the runs, and the event is counted in the second half.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import special

from pais._base.numerics import FloatArray
from pais._base.randomness import BitSource, RandomState, SecureBits, SeededBits, bit_source
from pais._base.rowwise import norms_of
from pais._version import __version__
from pais.auditing.pairs import NeighbourPair
from pais.data.ball import Ball
from pais.data.engines.base import WeightedRows
from pais.data.engines.local import MemoryEngine
from pais.errors import ArgumentError, MismatchError
from pais.mechanisms.base import Mechanism
from pais.mechanisms.noise import GaussianNoise, NoiseLaw
from pais.mechanisms.sums import Joint, WeightedCount, WeightedMean, WeightedSum
from pais.pipeline import sample
from pais.privacy.rules import Rule

#: Seconds since some fixed point in time.
clock = time.perf_counter

# A chunk is at most this many times as large as the previous one, so that small chunks measure the time per run first.
_GROWTH = 4

# Share of the time that is used to choose the pair and the events.
_FIRST_SHARE = 0.5

# Number of thresholds at evenly spaced ranks; ranks that double from either end are tried too. Chosen by eye.
_EVEN_RANKS = 192

# Number of exact values tried: the most frequent ones. Chosen by eye.
_MOST_ATOMS = 64

# Numbers kept in memory at a time if many runs are made at once (16 MB), and outputs if they are made one by one.
_BATCH_NUMBERS, _BATCH_OUTPUTS = 2**21, 2**12

#: Maximum number of coordinates of an unknown output that are used as separate statistics.
MOST_COORDINATES = 32

#: Name of the statistic that combines all others.
DISCRIMINANT = "discriminant"

#: Maps the name of a statistic to its value in each run: numbers or symbols.
Observed = Mapping[str, NDArray[Any]]
Relation = Literal["at least", "at most", "equal to"]

Function = Callable[..., object]

#: A function from an output to a number or a symbol; or several such functions by name.
Statistic = Callable[[object], object]
Statistics = Statistic | Mapping[str, Statistic]

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


@dataclass(frozen=True, kw_only=True)
class Event:
    """The event that a statistic of an output is at least, at most or equal to a value. NaN counts as equal to NaN."""

    statistic: str
    relation: Relation
    value: float | str

    def holds(self, observed: Observed) -> NDArray[np.bool_]:
        values = _values(observed, self.statistic)
        if np.issubdtype(values.dtype, np.number) == isinstance(self.value, str):
            return np.zeros(len(values), dtype=bool)
        if self.relation == "at least":
            return np.asarray(values >= self.value)
        if self.relation == "at most":
            return np.asarray(values <= self.value)
        if isinstance(self.value, float) and np.isnan(self.value):
            return np.asarray(np.isnan(values))
        return np.asarray(values == self.value)

    def __str__(self) -> str:
        value = self.value if isinstance(self.value, str) else f"{self.value:.6g}"
        return f"{self.statistic} is {self.relation} {value}"


class Candidate(NamedTuple):
    """An event, and the bound it would give if it had not been chosen on the same runs."""

    event: Event
    promise: float


def epsilon_lower_bound(
    hits: NDArray[np.int64] | int,
    hits_other: NDArray[np.int64] | int,
    *,
    runs: int,
    delta: float = 0.0,
    risk: float = 0.01,
) -> FloatArray:
    """Lower bound on epsilon from two frequencies of one event, wrong with probability at most `risk`; at least 0.

    Parameters
    ----------
    hits, hits_other : int or array
        How often the event happened in `runs` independent runs on each of the two tables.
    delta : float
        Delta of the guarantee that is tested.
    risk : float
        Probability of a wrong bound; each of the two frequencies gets half of it.

    Notes
    -----
    Guarantee. The result is log((p - delta) / q), where p is the exact one-sided lower Clopper-Pearson bound and q the
    upper one. For every distribution of the event, it exceeds the true value with probability at most `risk`:
    `tests/statistical/test_audit.py`.

    Assumes. The runs are independent, and the event was chosen without looking at them.
    """
    k, other = np.asarray(hits, dtype=np.float64), np.asarray(hits_other, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        low = np.where(k > 0, special.betaincinv(np.maximum(k, 1.0), runs - k + 1.0, risk / 2.0), 0.0)
        high = np.where(other < runs, special.betainccinv(other + 1.0, np.maximum(runs - other, 1.0), risk / 2.0), 1.0)
        # The factors cover the rounding errors of the inverse functions.
        bound = np.log(np.maximum(low * (1.0 - 1e-9) - delta, 0.0)) - np.log(np.minimum(high * (1.0 + 1e-9), 1.0))
    return np.asarray(np.maximum(bound, 0.0))  # [note: audit-1]


def best_event(seen: Observed, other: Observed, *, delta: float, risk: float) -> Candidate:
    """Find the event with the largest bound, over all statistics and thresholds, that is likelier in `seen`."""
    names = dict.fromkeys([*seen, *other])
    candidates = [_best_of(name, _values(seen, name), _values(other, name), delta=delta, risk=risk) for name in names]
    return max(candidates, key=lambda candidate: candidate.promise)


def _best_of(name: str, seen: NDArray[Any], other: NDArray[Any], *, delta: float, risk: float) -> Candidate:
    runs = len(seen)
    candidates: list[Candidate] = []

    def offer(relation: Relation, values: NDArray[Any], hits: NDArray[Any], others: NDArray[Any]) -> None:
        if values.size:
            promise = epsilon_lower_bound(hits, others, runs=runs, delta=delta, risk=risk)
            best = int(np.argmax(promise))
            value = float(values[best]) if np.issubdtype(values.dtype, np.number) else str(values[best])
            candidates.append(
                Candidate(event=Event(statistic=name, relation=relation, value=value), promise=float(promise[best]))
            )

    offer("equal to", *_atoms(seen, other))
    if np.issubdtype(seen.dtype, np.number):
        mine, theirs = np.sort(seen[~np.isnan(seen)]), np.sort(other[~np.isnan(other)])
        thresholds = _thresholds(mine, theirs)
        below = np.searchsorted(mine, thresholds, side="right"), np.searchsorted(theirs, thresholds, side="right")
        offer("at most", thresholds, *below)
        above = mine.size - np.searchsorted(mine, thresholds), theirs.size - np.searchsorted(theirs, thresholds)
        offer("at least", thresholds, *above)
    return max(candidates, key=lambda candidate: candidate.promise)


def _atoms(seen: NDArray[Any], other: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[np.int64]]:
    """Return the most frequent values, which may include NaN, and their counts in `seen` and in `other`."""
    values, index = np.unique(np.concatenate([seen, other]), return_inverse=True)
    index = index.ravel()
    hits = np.bincount(index[: len(seen)], minlength=len(values))
    others = np.bincount(index[len(seen) :], minlength=len(values))
    frequent = np.argsort(-np.maximum(hits, others), kind="stable")[:_MOST_ATOMS]
    return values[frequent], hits[frequent], others[frequent]


def _thresholds(mine: FloatArray, theirs: FloatArray) -> FloatArray:
    """Return values at ranks that reach far into both tails of each of the two sets of values."""
    thresholds = []
    for values in (mine, theirs):
        if values.size:
            ends = np.unique(np.geomspace(1, values.size, 8 * int(np.log2(values.size) + 1)).astype(np.int64)) - 1
            even = np.linspace(0, values.size - 1, _EVEN_RANKS).astype(np.int64)
            thresholds.append(values[np.unique(np.concatenate([ends, values.size - 1 - ends, even]))])
    return np.unique(np.concatenate(thresholds)) if thresholds else np.empty(0)


@dataclass(frozen=True, kw_only=True, eq=False)
class Discriminant:
    """A weighted sum of all statistics, fitted on the first runs, for tables that no single statistic distinguishes."""

    names: tuple[str, ...]
    weights: FloatArray

    @classmethod
    def fit(cls, seen: Observed, other: Observed) -> Discriminant | None:
        """Fit Fisher's linear discriminant to the statistics; return None if fewer than two of them vary."""
        names = tuple(name for name in seen if name in other and _varies(seen[name]) and _varies(other[name]))
        if len(names) < 2:
            return None
        present, absent = (np.column_stack([side[name] for name in names]) for side in (seen, other))
        within = np.cov(present, rowvar=False) + np.cov(absent, rowvar=False)
        ridge = 1e-6 * np.diag(np.diag(within))
        weights = np.linalg.solve(within + ridge, present.mean(axis=0) - absent.mean(axis=0))
        return cls(names=names, weights=weights)

    def values(self, observed: Observed) -> FloatArray:
        pairs = zip(self.names, self.weights, strict=True)
        return np.asarray(sum(weight * _values(observed, name) for name, weight in pairs))


def _varies(values: NDArray[Any]) -> bool:
    if not np.issubdtype(values.dtype, np.number) or not np.all(np.isfinite(values)) or np.max(np.abs(values)) > 1e100:
        return False
    return len(values) > 2 and float(np.std(values)) > 1e-9 * (1e-300 + float(np.max(np.abs(values))))


@dataclass(frozen=True, kw_only=True, eq=False)
class Target:
    """What is repeated, and the guarantee that it claims.

    Attributes
    ----------
    name : str
        Name in the report.
    certified : float or None
        The claimed or certified epsilon, if known.
    delta : float
        Delta of the guarantee that is tested.
    observe : callable
        ``observe(rows, pair, runs)`` makes independent runs on these rows and returns their statistics.
    batch : int
        Largest number of runs that are made at a time.
    """

    name: str
    certified: float | None
    delta: float
    observe: Callable[[FloatArray, NeighbourPair, int], Observed]
    batch: int


def function_target(
    function: Function,
    n_cells: int,
    *,
    certified: float | None,
    delta: float,
    statistic: Statistics | None,
    random_state: int | np.random.Generator | None,
) -> Target:
    """A function f(rows, generator), or f(rows, generator, runs=...) that returns many outputs at once."""
    makes_many = "runs" in inspect.signature(function).parameters
    generator, statistics = np.random.default_rng(random_state), _by_name(statistic)

    def observe(rows: FloatArray, pair: NeighbourPair, runs: int) -> Observed:
        if not makes_many:
            return _observed([function(rows, generator) for _ in range(runs)], statistics)
        together = function(rows, generator, runs=runs)
        if statistics is not None:
            return {name: column(evaluate(together), runs) for name, evaluate in statistics.items()}
        array = np.asarray(together)
        if array.ndim == 0 or len(array) != runs:
            raise ArgumentError(
                "a function with the parameter runs must return one entry for each run. Return an array of that length."
            )
        return coordinates(array, runs)

    return Target(
        name=getattr(function, "__name__", type(function).__name__),
        certified=certified,
        delta=delta,
        observe=observe,
        batch=max(1, _BATCH_NUMBERS // max(n_cells, 8)) if makes_many else _BATCH_OUTPUTS,
    )


def mechanism_target(
    mechanism: Mechanism,
    rule: Rule,
    ball: Ball,
    n_cells: int,
    *,
    name: str,
    certified: float | None,
    delta: float,
    statistic: Statistics | None,
    random_state: int | np.random.Generator | None,
) -> Target:
    """A mechanism applied to samples drawn by a rule. Counts and sums are measured in many runs at once."""
    totals = totals_of(mechanism) if statistic is None else None
    seeded, generator, statistics = random_state is not None, np.random.default_rng(random_state), _by_name(statistic)

    def observe(rows: FloatArray, pair: NeighbourPair, runs: int) -> Observed:
        bits: BitSource = SeededBits(generator) if seeded else SecureBits()
        options: Any = {"ball": ball, "rule": rule, "runs": runs, "random_state": bits}
        if totals is None:
            return _observed(measure_each(mechanism, rows, **options), statistics)
        return _evidence(pair, ball, rule, totals, measure_many(mechanism, rows, **options))

    size = max(1, _BATCH_NUMBERS // max(8, 8 * len(totals or ()), n_cells))
    batch = size if totals is not None else min(size, _BATCH_OUTPUTS)
    return Target(name=name, certified=certified, delta=delta, observe=observe, batch=batch)


@dataclass(frozen=True, kw_only=True)
class Total:
    """One noisy count or sum that a mechanism releases."""

    counts: bool
    noise: NoiseLaw

    @property
    def name(self) -> str:
        return "count" if self.counts else "sum"


def totals_of(mechanism: Mechanism) -> tuple[Total, ...] | None:
    """The counts and sums that a mechanism releases, in order; None if it releases, or may release, anything else."""
    measure = type(mechanism).measure
    if isinstance(mechanism, WeightedCount) and measure is WeightedCount.measure:
        return (Total(counts=True, noise=mechanism.noise),)
    if isinstance(mechanism, WeightedSum) and measure is WeightedSum.measure:
        return (Total(counts=False, noise=mechanism.noise),)
    if isinstance(mechanism, WeightedMean) and measure is WeightedMean.measure:
        return (Total(counts=True, noise=mechanism.count_noise), Total(counts=False, noise=mechanism.sum_noise))
    if isinstance(mechanism, Joint) and measure is Joint.measure:
        inner = [totals_of(part) for part in mechanism.parts]
        return None if None in inner else tuple(total for totals in inner if totals is not None for total in totals)
    return None


def measure_many(
    mechanism: Mechanism,
    rows: FloatArray,
    *,
    ball: Ball,
    rule: Rule,
    runs: int,
    random_state: RandomState | BitSource = None,
) -> list[FloatArray]:
    """Draw independent releases of counts and sums, all at once.

    Returns
    -------
    list of arrays of shape (runs, width)
        One array for each count or sum of the mechanism, in order; a mean is a count and a sum.

    Notes
    -----
    Guarantee. Every run has the distribution of `pais.run`, and a single run gives the same numbers from the same
    random bits: `tests/unit/auditing/test_audit_runs.py`. The sampler draws from all copies of the table at once, each
    row independently. These draws are for a study of synthetic rows: nothing is certified, and no ledger is charged.
    """
    totals = totals_of(mechanism)
    if totals is None:
        raise MismatchError(
            f"{type(mechanism).__name__} cannot be measured many times at once. Call pais.run in a loop."
        )
    bits = bit_source(random_state)
    d = rows.shape[1]
    content, run_of = _samples(rows, ball, rule, runs, bits)
    released = []
    for total in totals:
        lattice = total.noise.lattice
        weights = content.weights[:, None]
        steps = lattice.encode(weights if total.counts else content.rows * weights)
        sums = np.zeros((runs, 1 if total.counts else d), dtype=np.int64)
        np.add.at(sums, run_of, steps)
        released.append(lattice.decode(total.noise.added_to(sums, lattice, bits)))
    return released


def measure_each(
    mechanism: Mechanism,
    rows: FloatArray,
    *,
    ball: Ball,
    rule: Rule,
    runs: int,
    random_state: RandomState | BitSource = None,
) -> list[object]:
    """Draw independent outputs of any mechanism: the samples are drawn all at once, and each is measured separately.

    Notes
    -----
    Guarantee. Every run has the distribution of `pais.run`, and a single run gives the same numbers from the same
    random bits: `tests/unit/auditing/test_audit_runs.py`. As in `measure_many`, nothing is certified or charged.
    """
    bits = bit_source(random_state)
    content, run_of = _samples(rows, ball, rule, runs, bits)
    # The sampler preserves the order of rows, so the rows of a run are contiguous.
    ends = np.searchsorted(run_of, np.arange(runs + 1))
    return [
        mechanism.measure(WeightedRows(rows=content.rows[start:end], weights=content.weights[start:end]), ball, bits)
        for start, end in pairwise(ends)
    ]


def _samples(
    rows: FloatArray, ball: Ball, rule: Rule, runs: int, bits: BitSource
) -> tuple[WeightedRows, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """Draw one sample of each copy of the table; return the kept rows and the run of each row."""
    n, d = rows.shape
    if n == 0:
        return WeightedRows(rows=np.empty((0, d)), weights=np.empty(0)), np.empty(0, dtype=np.int64)
    run = pa.table({"run": pa.array(np.repeat(np.arange(runs), n))})
    copies = MemoryEngine(np.tile(rows, (runs, 1)), carried=run)
    content = sample(copies, ball=ball, rule=rule, random_state=bits).spend("an audit")
    assert content.carried is not None
    return content, content.carried["run"].to_numpy()


def _evidence(
    pair: NeighbourPair, ball: Ball, rule: Rule, totals: tuple[Total, ...], released: list[FloatArray]
) -> Observed:
    """Distances of noisy totals to their places with the record and without it, and how much nearer the first one is.

    The difference is the log likelihood ratio, provided that the sample of the smaller table is not random.
    """
    shifted = ball.shift(pair.record[None, :])
    record, weight = ball.clip(shifted)[0], 1.0 / float(rule.evaluate(ball.norms(shifted))[0])
    company = ball.clip(ball.shift(pair.without_record))
    statistics: dict[str, FloatArray] = {}
    evidence = np.zeros(len(released[0]))
    for number, (total, values) in enumerate(zip(totals, released, strict=True), 1):
        name = total.name if len(totals) == 1 else f"{total.name} {number}"
        contribution = np.array([weight]) if total.counts else weight * record
        absent = np.array([float(len(company))]) if total.counts else company.sum(axis=0)
        from_absent = norms_of(values - absent, total.noise.order)
        from_present = norms_of(values - absent - contribution, total.noise.order)
        if isinstance(total.noise, GaussianNoise):
            evidence += (from_absent**2 - from_present**2) / (2.0 * total.noise.scale**2)
        else:
            evidence += (from_absent - from_present) / total.noise.scale
        statistics[f"distance of the {name} from its place with the record"] = from_present
        statistics[f"distance of the {name} from its place without the record"] = from_absent
        size = float(np.linalg.norm(contribution))
        if size > 0.0:
            statistics[f"{name} along the record"] = values @ (contribution / size)
    return {"evidence for the record": evidence, **statistics}


def _by_name(statistic: Statistics | None) -> dict[str, Statistic] | None:
    if statistic is None or callable(statistic):
        return None if statistic is None else {"statistic": statistic}
    if not isinstance(statistic, Mapping) or not statistic or not all(map(callable, statistic.values())):
        raise ArgumentError("statistic must be a function, or a mapping of functions. Pass one, or leave it out.")
    return dict(statistic)


def column(values: object, runs: int) -> NDArray[Any]:
    """Return one number or symbol for each run; values that are not numbers are represented by their text."""
    array = values if isinstance(values, np.ndarray) else np.array(values, dtype=object)
    if array.shape != (runs,):
        raise ArgumentError(
            f"a statistic returned shape {array.shape}, not one value for each run. Return one number or text per run."
        )
    try:
        return np.asarray(array.astype(np.float64))
    except (TypeError, ValueError):
        return np.array([str(value) for value in array])


def _observed(outputs: Sequence[object], statistics: Mapping[str, Statistic] | None) -> Observed:
    """The statistics of outputs that were made one by one."""
    if statistics is None:
        return coordinates(outputs, len(outputs))
    return {
        name: column([statistic(output) for output in outputs], len(outputs)) for name, statistic in statistics.items()
    }


def coordinates(outputs: Sequence[object] | NDArray[Any], runs: int) -> Observed:
    """Use each number in outputs of unknown type as a statistic; an output without numbers becomes a symbol.

    Of outputs with different numbers of numbers, the shorter ones end with NaN.
    """
    if isinstance(outputs, np.ndarray) and outputs.dtype.kind in "fiub":
        table: NDArray[Any] = outputs.reshape(runs, -1).astype(np.float64)
    else:
        found = [_numbers(output) for output in outputs]
        rows = [row for row in found if row is not None]
        if len(rows) < len(found):
            symbols = [output.tobytes().hex() if isinstance(output, np.ndarray) else str(output) for output in outputs]
            return {"output": column(symbols, runs)}
        table = np.full((runs, max(row.size for row in rows)), np.nan)
        for place, row in enumerate(rows):
            table[place, : row.size] = row
    names = ["output"] if table.shape[1] == 1 else [f"output[{index}]" for index in range(table.shape[1])]
    return {name: table[:, index] for index, name in enumerate(names[:MOST_COORDINATES])}


def _numbers(output: object) -> FloatArray | None:
    if dataclasses.is_dataclass(output) and not isinstance(output, type):
        output = [getattr(output, field.name) for field in dataclasses.fields(output)]
    if isinstance(output, (list, tuple)):
        parts = [_numbers(part) for part in output]
        numeric = [part for part in parts if part is not None]
        return np.concatenate(numeric) if numeric and len(numeric) == len(parts) else None
    try:
        return np.asarray(output, dtype=np.float64).ravel()
    except (TypeError, ValueError):
        return None


_DIRECTIONS: tuple[Direction, ...] = ("present", "absent")


def audit_runs(
    target: Target, pairs: list[NeighbourPair], *, runs: int, confidence: float, seconds: float | None
) -> AuditReport:
    """Choose the pair and the events on the first half of the runs, and count the events in the second half."""
    started, half = clock(), runs // 2
    risk = (1.0 - confidence) / len(_DIRECTIONS)  # [note: audit-3]
    explored: list[_Exploration] = []
    for done, pair in enumerate(pairs):
        # The most promising pair comes first; the others are explored as far as the time allows.
        left = None if seconds is None else _FIRST_SHARE * seconds - (clock() - started)
        if explored and left is not None and left <= 0.0:
            break
        limit = None if left is None else left / (len(pairs) - done)
        explored.append(_explored(target, pair, half // len(pairs) + 1, limit, risk))
    best = max(explored, key=lambda one: max(candidate.promise for candidate in one.events.values()))
    remaining = None if seconds is None else max(seconds - (clock() - started), 0.0)
    findings, n_counted = _counted(target, best, half, remaining, risk)  # [note: audit-2]
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


class _Exploration(NamedTuple):
    """The most promising events on a pair, one for each direction."""

    pair: NeighbourPair
    events: dict[Direction, Candidate]
    discriminant: Discriminant | None
    runs: int


def _explored(target: Target, pair: NeighbourPair, runs: int, seconds: float | None, risk: float) -> _Exploration:
    chunks = list(_chunks(target, pair, runs, seconds))
    present, absent = (_joined([chunk[side] for chunk in chunks]) for side in (0, 1))
    discriminant = Discriminant.fit(present, absent)
    present, absent = _extended(present, discriminant), _extended(absent, discriminant)
    events: dict[Direction, Candidate] = {
        "present": best_event(present, absent, delta=target.delta, risk=risk),
        "absent": best_event(absent, present, delta=target.delta, risk=risk),
    }
    return _Exploration(pair=pair, events=events, discriminant=discriminant, runs=_length(present))


def _counted(
    target: Target, chosen: _Exploration, runs: int, seconds: float | None, risk: float
) -> tuple[tuple[Finding, ...], int]:
    """How often the chosen events happen in further runs, and the number of these runs."""
    hits = {direction: [0, 0] for direction in _DIRECTIONS}
    n_counted = 0
    for sides in _chunks(target, chosen.pair, runs, seconds):
        n_counted += _length(sides[0])
        for side, observed in enumerate(sides):
            extended = _extended(observed, chosen.discriminant)
            for direction, candidate in chosen.events.items():
                hits[direction][side] += int(np.count_nonzero(candidate.event.holds(extended)))
    findings = []
    for direction, (present, absent) in hits.items():
        likelier, rarer = (present, absent) if direction == "present" else (absent, present)
        bound = epsilon_lower_bound(likelier, rarer, runs=n_counted, delta=target.delta, risk=risk)
        findings.append(
            Finding(
                direction=direction,
                event=str(chosen.events[direction].event),
                hits_with=present,
                hits_without=absent,
                lower_bound=float(bound),
            )
        )
    return tuple(findings), n_counted


def _chunks(
    target: Target, pair: NeighbourPair, runs: int, seconds: float | None
) -> Iterator[tuple[Observed, Observed]]:
    """Yield equally many runs with and without the record, until `runs` are made or the time is over."""
    for size in chunk_sizes(runs, most=target.batch, seconds=seconds):
        yield target.observe(pair.with_record, pair, size), target.observe(pair.without_record, pair, size)


def _joined(chunks: list[Observed]) -> Observed:
    names = dict.fromkeys(name for chunk in chunks for name in chunk)
    return {name: np.concatenate([_values(chunk, name) for chunk in chunks]) for name in names}


def _values(observed: Observed, name: str) -> NDArray[Any]:
    """The values of a statistic: NaN if no output of these runs has it."""
    return observed[name] if name in observed else np.full(_length(observed), np.nan)


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
