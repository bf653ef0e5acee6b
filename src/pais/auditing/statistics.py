"""Statistics of an output: for a known mechanism, the numbers that best reveal the presence of the record."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pais._base.numerics import FloatArray
from pais._base.rowwise import norms_of
from pais.auditing.events import Observed
from pais.auditing.many import Part
from pais.auditing.pairs import NeighbourPair
from pais.data.ball import Ball
from pais.errors import ArgumentError
from pais.mechanisms import GaussianNoise, KMeansValue, LpNoise, NoiseLaw, ResidualRound, Round
from pais.privacy.rules import Rule

#: A function from an output to a number or a symbol; or several such functions by name.
Statistic = Callable[[object], object]
Statistics = Statistic | Mapping[str, Statistic]

#: Maximum number of coordinates of an unknown output that are used as separate statistics.
MOST_COORDINATES = 32

DISCRIMINANT = "discriminant"


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
