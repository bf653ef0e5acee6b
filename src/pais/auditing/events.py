"""Events that distinguish two tables, and the lower bounds on epsilon that their frequencies prove."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import special

from pais._base.numerics import FloatArray

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
