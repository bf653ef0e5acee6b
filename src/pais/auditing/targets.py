"""What an audit by runs repeats: a function, a mechanism with a sampling rule, or a plan; and statistics of outputs.

For a known mechanism, the statistics are the numbers that best reveal the presence of the record.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import special

from pais._base.numerics import FloatArray
from pais._base.randomness import BitSource, RandomState, SecureBits, SeededBits, bit_source
from pais._base.rowwise import norms_of
from pais.auditing.pairs import NeighbourPair, worst_pairs
from pais.data.ball import Ball
from pais.data.engines.base import WeightedRows
from pais.data.engines.local import MemoryEngine
from pais.errors import ArgumentError, MismatchError
from pais.kmeans.mechanism import KMeans
from pais.kmeans.result import KMeansValue
from pais.kmeans.rounds import ResidualRound, Round
from pais.mechanisms.base import Mechanism
from pais.mechanisms.noise import GaussianNoise, LpNoise, NoiseLaw
from pais.mechanisms.sums import Joint, WeightedCount, WeightedMean, WeightedSum
from pais.pipeline import sample
from pais.privacy.rules import Rule

#: Maps the name of a statistic to its value in each run: numbers or symbols.
Observed = Mapping[str, NDArray[Any]]
Relation = Literal["at least", "at most", "equal to"]

# Number of thresholds at evenly spaced ranks; ranks that double from either end are tried too.
_EVEN_RANKS = 192

# Number of exact values tried: the most frequent ones.
_MOST_ATOMS = 64


@dataclass(frozen=True, kw_only=True)
class Event:
    """The event that a statistic of an output is at least, at most or equal to a value. NaN counts as equal to NaN."""

    statistic: str
    relation: Relation
    value: float | str

    def holds(self, observed: Observed) -> NDArray[np.bool_]:
        values = observed[self.statistic]
        if np.issubdtype(values.dtype, np.number) == isinstance(self.value, str):
            return np.zeros(len(values), dtype=bool)
        if self.relation == "at least":
            return np.asarray(values >= self.value)
        if self.relation == "at most":
            return np.asarray(values <= self.value)
        if isinstance(self.value, float) and np.isnan(self.value):
            return np.isnan(values)
        return np.asarray(values == self.value)

    def __str__(self) -> str:
        value = self.value if isinstance(self.value, str) else f"{self.value:.6g}"
        return f"{self.statistic} is {self.relation} {value}"


@dataclass(frozen=True, kw_only=True)
class Candidate:
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
    candidates = [_best_of(name, seen[name], other[name], delta=delta, risk=risk) for name in seen]
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


#: Name of the statistic that combines all others.
DISCRIMINANT = "discriminant"


@dataclass(frozen=True, kw_only=True, eq=False)
class Discriminant:
    """A weighted sum of all statistics, fitted on the first runs, for tables that no single statistic distinguishes."""

    names: tuple[str, ...]
    weights: FloatArray

    @classmethod
    def fit(cls, seen: Observed, other: Observed) -> Discriminant | None:
        """Fit Fisher's linear discriminant to the statistics; return None if fewer than two of them vary."""
        names = tuple(name for name in seen if _varies(seen[name]) and _varies(other[name]))
        if len(names) < 2:
            return None
        present, absent = (np.column_stack([side[name] for name in names]) for side in (seen, other))
        within = np.cov(present, rowvar=False) + np.cov(absent, rowvar=False)
        ridge = 1e-6 * np.diag(np.diag(within))
        weights = np.linalg.solve(within + ridge, present.mean(axis=0) - absent.mean(axis=0))
        return cls(names=names, weights=weights)

    def values(self, observed: Observed) -> FloatArray:
        return np.asarray(sum(weight * observed[name] for name, weight in zip(self.names, self.weights, strict=True)))


def _varies(values: NDArray[Any]) -> bool:
    if not np.issubdtype(values.dtype, np.number) or not np.all(np.isfinite(values)) or np.max(np.abs(values)) > 1e100:
        return False
    return len(values) > 2 and float(np.std(values)) > 1e-9 * (1e-300 + float(np.max(np.abs(values))))


# Number of values kept in memory at a time when many runs are made at once.
_BATCH_NUMBERS = 2**21

# Minimum and maximum number of rows besides the record in a proposed pair, for mechanisms that need other rows.
_COMPANY = 2
_MOST_COMPANY = 256

# Number of outputs kept in memory at a time when they are made one by one.
_BATCH_OUTPUTS = 2**12

Function = Callable[..., object]

#: A function from an output to a number or a symbol; or several such functions by name.
Statistic = Callable[[object], object]
Statistics = Statistic | Mapping[str, Statistic]

#: Maximum number of coordinates of an unknown output that are used as separate statistics.
MOST_COORDINATES = 32


@dataclass(frozen=True, kw_only=True, eq=False)
class Draws:
    """The source of random bits for the runs of an audit: a seed or the system."""

    generator: np.random.Generator
    seeded: bool

    @classmethod
    def of(cls, random_state: int | np.random.Generator | None) -> Draws:
        return cls(generator=np.random.default_rng(random_state), seeded=random_state is not None)

    def bits(self) -> BitSource:
        return SeededBits(self.generator) if self.seeded else SecureBits()


class Target(ABC):
    """A randomised procedure that computes an output from rows."""

    name: str
    certified: float | None
    delta: float
    statistic: dict[str, Statistic] | None

    @abstractmethod
    def batch(self, pair: NeighbourPair) -> int:
        """Return the maximum number of runs made at a time."""

    @abstractmethod
    def observe(self, rows: FloatArray, pair: NeighbourPair, runs: int, draws: Draws) -> Observed:
        """Make `runs` independent runs on these rows and return the observed statistics."""

    def pairs(self) -> list[NeighbourPair]:
        raise ArgumentError("pair is missing, and a function has no ball to propose one from. Pass a NeighbourPair.")


@dataclass(frozen=True, kw_only=True, eq=False)
class FunctionTarget(Target):
    """A function f(rows, generator), or f(rows, generator, runs=...) that returns many outputs at once."""

    function: Function
    certified: float | None
    delta: float
    statistic: dict[str, Statistic] | None

    @property
    def name(self) -> str:  # type: ignore[override]  # read-only here
        return getattr(self.function, "__name__", type(self.function).__name__)

    @cached_property
    def many(self) -> bool:
        return "runs" in inspect.signature(self.function).parameters

    def batch(self, pair: NeighbourPair) -> int:
        return max(1, _BATCH_NUMBERS // max(pair.with_record.size, 8)) if self.many else _BATCH_OUTPUTS

    def observe(self, rows: FloatArray, pair: NeighbourPair, runs: int, draws: Draws) -> Observed:
        if not self.many:
            outputs = [self.function(rows, draws.generator) for _ in range(runs)]
            if self.statistic is None:
                return coordinates(outputs, runs)
            return of_each(self.statistic, outputs)
        together = self.function(rows, draws.generator, runs=runs)
        if self.statistic is not None:
            return {name: column(function(together), runs) for name, function in self.statistic.items()}
        array = np.asarray(together)
        if array.ndim == 0 or len(array) != runs:
            raise ArgumentError(
                "a function with the parameter runs must return one entry for each run. Return an array of that length."
            )
        return coordinates(array, runs)


@dataclass(frozen=True, kw_only=True, eq=False)
class MechanismTarget(Target):
    """A mechanism applied to a sample drawn by a rule; also used for plans."""

    mechanism: Mechanism
    rule: Rule
    ball: Ball
    certified: float | None
    delta: float
    statistic: dict[str, Statistic] | None
    n_features: int
    planned: bool = False

    @property
    def name(self) -> str:  # type: ignore[override]  # read-only here
        return f"{'a plan of ' if self.planned else ''}{self.mechanism.name}"

    @cached_property
    def parts(self) -> tuple[Part, ...] | None:
        return linear_parts(self.mechanism) if self.statistic is None else None

    def batch(self, pair: NeighbourPair) -> int:
        width = 8 * len(self.parts or ())
        size = max(1, _BATCH_NUMBERS // max(8, width, pair.with_record.size))
        return min(size, _BATCH_OUTPUTS) if self.parts is None else size

    def pairs(self) -> list[NeighbourPair]:
        return worst_pairs(
            self.ball,
            self.rule,
            self.mechanism.profile,
            delta=self.delta,
            n_features=self.n_features,
            company=0 if self.parts is not None else n_other_rows(self.mechanism),
        )

    def observe(self, rows: FloatArray, pair: NeighbourPair, runs: int, draws: Draws) -> Observed:
        bits = draws.bits()
        frame = SumFrame.of(pair, self.ball, self.rule)
        if self.parts is not None:
            released = measure_many(self.mechanism, rows, ball=self.ball, rule=self.rule, runs=runs, random_state=bits)
            return frame.statistics(self.parts, released)
        outputs = measure_each(self.mechanism, rows, ball=self.ball, rule=self.rule, runs=runs, random_state=bits)
        if self.statistic is not None:
            return of_each(self.statistic, outputs)
        centers = [output for output in outputs if isinstance(output, KMeansValue)]
        if isinstance(self.mechanism, KMeans) and len(centers) == runs:
            return center_statistics(centers, pair.record, frame, self.mechanism.rounds[-1])
        return coordinates(outputs, runs)


def n_columns(mechanism: Mechanism, ball: Ball, stated: int | None) -> int:
    """Number of columns of a proposed pair: as stated, as planned, or two."""
    if stated is not None:
        return stated
    if ball.center is not None:
        return len(ball.center)
    return int(getattr(mechanism, "n_features", 2))


def n_other_rows(mechanism: Mechanism) -> int:
    """Number of rows besides the record.

    For k-means, it is large enough that the noisy count distinguishes their cluster from the record's.
    """
    if not isinstance(mechanism, KMeans):
        return _COMPANY
    return min(_MOST_COMPANY, max(_COMPANY, math.ceil(6.0 * mechanism.rounds[-1].count_noise.scale)))


@dataclass(frozen=True, kw_only=True)
class Part:
    """One noisy count or sum that a mechanism releases."""

    counts: bool
    noise: NoiseLaw

    @property
    def name(self) -> str:
        return "count" if self.counts else "sum"


def linear_parts(mechanism: Mechanism) -> tuple[Part, ...] | None:
    """The counts and sums that a mechanism releases, in order; None if it releases, or may release, anything else."""
    measure = type(mechanism).measure
    if isinstance(mechanism, WeightedCount) and measure is WeightedCount.measure:
        return (Part(counts=True, noise=mechanism.noise),)
    if isinstance(mechanism, WeightedSum) and measure is WeightedSum.measure:
        return (Part(counts=False, noise=mechanism.noise),)
    if isinstance(mechanism, WeightedMean) and measure is WeightedMean.measure:
        return (Part(counts=True, noise=mechanism.count_noise), Part(counts=False, noise=mechanism.sum_noise))
    if isinstance(mechanism, Joint) and measure is Joint.measure:
        inner = [linear_parts(part) for part in mechanism.parts]
        return None if None in inner else tuple(part for parts in inner if parts is not None for part in parts)
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
    parts = linear_parts(mechanism)
    if parts is None:
        raise MismatchError(
            f"{type(mechanism).__name__} cannot be measured many times at once. Call pais.run in a loop."
        )
    bits = bit_source(random_state)
    d = rows.shape[1]
    content, run_of = _samples(rows, ball, rule, runs, bits)
    released = []
    for part in parts:
        lattice = part.noise.lattice
        weights = content.weights[:, None]
        steps = lattice.encode(weights if part.counts else content.rows * weights)
        total = np.zeros((runs, 1 if part.counts else d), dtype=np.int64)
        np.add.at(total, run_of, steps)
        released.append(lattice.decode(part.noise.added_to(total, lattice, bits)))
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


def statistics_by_name(statistic: Statistics) -> dict[str, Statistic]:
    if callable(statistic):
        return {"statistic": statistic}
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


def of_each(statistics: Mapping[str, Statistic], outputs: Sequence[object]) -> Observed:
    """Evaluate each statistic on each output."""
    return {
        name: column([evaluate(output) for output in outputs], len(outputs)) for name, evaluate in statistics.items()
    }


def coordinates(outputs: Sequence[object] | NDArray[Any], runs: int) -> Observed:
    """Use each number in outputs of unknown type as a statistic; an output without numbers becomes a symbol."""
    if isinstance(outputs, np.ndarray) and outputs.dtype.kind in "fiub":
        table: NDArray[Any] = outputs.reshape(runs, -1).astype(np.float64)
    else:
        flat = [_numbers(output) for output in outputs]
        width = 0 if flat[0] is None else flat[0].size
        if any(part is None or part.size != width for part in flat):
            return {"output": column([_symbol(output) for output in outputs], runs)}
        table = np.array(flat, dtype=np.float64).reshape(runs, width)
    names = ["output"] if table.shape[1] == 1 else [f"output[{index}]" for index in range(table.shape[1])]
    return {name: table[:, index] for index, name in enumerate(names[:MOST_COORDINATES])}


def _symbol(output: object) -> str:
    return output.tobytes().hex() if isinstance(output, np.ndarray) else str(output)


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


@dataclass(frozen=True, kw_only=True, eq=False)
class SumFrame:
    """Expected position of a pair's noisy counts and sums, with the record kept at its weight and without it."""

    record: FloatArray
    weight: float
    company: FloatArray
    origin: FloatArray

    @classmethod
    def of(cls, pair: NeighbourPair, ball: Ball, rule: Rule) -> SumFrame:
        shifted = ball.shift(pair.record[None, :])
        probability = float(rule.evaluate(ball.norms(shifted))[0])
        return cls(
            record=ball.clip(shifted)[0],
            weight=1.0 / probability,
            company=ball.clip(ball.shift(pair.without_record)),
            origin=np.zeros(pair.record.size) if ball.center is None else np.asarray(ball.center),
        )

    def statistics(self, parts: tuple[Part, ...], released: list[FloatArray]) -> Observed:
        """Distances of the output to both positions, and how much nearer it is to the position with the record.

        The difference is the log likelihood ratio, provided that the sample of the smaller table is not random.
        """
        statistics: dict[str, FloatArray] = {}
        evidence = np.zeros(len(released[0]))
        for number, (part, values) in enumerate(zip(parts, released, strict=True), 1):
            name = part.name if len(parts) == 1 else f"{part.name} {number}"
            contribution = np.array([self.weight]) if part.counts else self.weight * self.record
            absent = np.array([float(len(self.company))]) if part.counts else self.company.sum(axis=0)
            from_absent = norms_of(values - absent, part.noise.order)
            from_present = norms_of(values - absent - contribution, part.noise.order)
            evidence += _evidence(part, from_absent, from_present)
            statistics[f"distance of the {name} from its place with the record"] = from_present
            statistics[f"distance of the {name} from its place without the record"] = from_absent
            size = float(np.linalg.norm(contribution))
            if size > 0.0:
                statistics[f"{name} along the record"] = values @ (contribution / size)
        return {"evidence for the record": evidence, **statistics}

    def evidence_alone(self, counts: FloatArray, centers: FloatArray, last: Round | ResidualRound) -> FloatArray:
        """Evidence in each run, from the count and the sum of a cluster that contains only the record.

        A center is the noisy sum divided by the noisy count. If the count is within its noise, the center is not
        computed from it, and only the count is informative. After one round, this is all the information in the output
        about the record, except for the length of a clipped center; after several rounds, it is the information from
        the last round. For a residual round it is a guess, because the output does not contain the clips.
        """
        count, total = last_parts(last)
        of_counts = _evidence(count, np.abs(counts), np.abs(counts - self.weight))
        sums, order = counts[:, None] * centers, total.noise.order
        of_sums = _evidence(total, norms_of(sums, order), norms_of(sums - self.weight * self.record, order))
        # With Laplace noise the evidence has a maximum, reached by many outputs; rounding makes it a single value.
        return np.round(of_counts + np.where(counts > count.noise.scale, of_sums, 0.0), 9)


def last_parts(last: Round | ResidualRound) -> tuple[Part, Part]:
    """Count and sum of a cluster in the last round; a residual round is taken as one of whole rows."""
    noise: NoiseLaw
    if isinstance(last, Round):
        noise = last.sum_noise
    elif isinstance(last.residual_noise, LpNoise):
        noise = LpNoise(scale=last.residual_noise.scale * last.radius, p=last.order)
    else:
        noise = GaussianNoise(scale=last.residual_noise.scale * last.radius)
    return Part(counts=True, noise=last.count_noise), Part(counts=False, noise=noise)


def _evidence(part: Part, from_absent: FloatArray, from_present: FloatArray) -> FloatArray:
    if isinstance(part.noise, GaussianNoise):
        return np.asarray((from_absent**2 - from_present**2) / (2.0 * part.noise.scale**2))
    return np.asarray((from_absent - from_present) / part.noise.scale)


def center_statistics(
    outputs: Sequence[KMeansValue], record: FloatArray, frame: SumFrame, last: Round | ResidualRound
) -> Observed:
    """Evidence in the record's cluster, counts and centers near the record, and whether the record is a center."""
    length = float(np.linalg.norm(frame.record))
    axis = frame.record / length if length > 0.0 else np.eye(record.size)[0]
    counts, positions = _stacked(outputs)
    centers = positions - frame.origin
    every, own = np.arange(len(counts)), _own_cluster(counts, centers @ axis)
    return {
        "evidence for the record in its cluster": frame.evidence_alone(counts[every, own], centers[every, own], last),
        **statistics_near_record(outputs, record, frame.origin, axis),
    }


def statistics_near_record(
    outputs: Sequence[KMeansValue], record: FloatArray, origin: FloatArray, axis: FloatArray
) -> dict[str, FloatArray]:
    """Counts and centers near the record; `axis` is the direction from `origin` to the record."""
    counts, positions = _stacked(outputs)
    # Do not shift by the origin, so that a published row is found by exact equality.
    distance = np.linalg.norm(positions - record, axis=2)
    along = (positions - origin) @ axis
    every, nearest = np.arange(len(counts)), distance.argmin(axis=1)
    own, farthest = _own_cluster(counts, along), along.argmax(axis=1)
    return {
        "count of the record's cluster": counts[every, own],
        "sum of the record's cluster along it": counts[every, own] * along[every, own],
        "count of the center nearest to the record": counts[every, nearest],
        "distance of the nearest center": distance[every, nearest],
        "sum of the nearest center along the record": counts[every, nearest] * along[every, nearest],
        "count of the center farthest along the record": counts[every, farthest],
        "total of the counts": counts.sum(axis=1),
        "total of the sums along the record": (counts * along).sum(axis=1),
        "largest count": counts.max(axis=1),
        "record among the centers": np.any(distance == 0.0, axis=1).astype(np.float64),
    }


def _stacked(outputs: Sequence[KMeansValue]) -> tuple[FloatArray, FloatArray]:
    """Counts and centers of all runs, with empty copies of centers in runs that chose fewer clusters than others."""
    most = max(len(value.centers) for value in outputs)
    index = [np.arange(most) % len(value.centers) for value in outputs]
    first = [np.arange(most) < len(value.centers) for value in outputs]
    counts = [
        np.where(is_first, value.noisy_counts[i], 0.0) for value, i, is_first in zip(outputs, index, first, strict=True)
    ]
    return np.stack(counts), np.stack([value.centers[i] for value, i in zip(outputs, index, strict=True)])


def _own_cluster(counts: FloatArray, along: FloatArray) -> NDArray[np.intp]:
    """Find the record's cluster in each run: without the largest cluster, the farthest in the record's direction."""
    others = np.where(counts == counts.max(axis=1, keepdims=True), -np.inf, along)
    return np.asarray(others.argmax(axis=1))
