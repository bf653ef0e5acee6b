"""Targets of an audit: a function, a mechanism with a sampling rule, or a plan."""

from __future__ import annotations

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pais._base.numerics import FloatArray
from pais._base.randomness import BitSource, SecureBits, SeededBits
from pais.auditing.events import Observed
from pais.auditing.many import Part, linear_parts, measure_each, measure_many
from pais.auditing.pairs import NeighbourPair, worst_pairs
from pais.auditing.statistics import Statistic, SumFrame, center_statistics, column, coordinates, of_each
from pais.data.ball import Ball
from pais.errors import ArgumentError
from pais.mechanisms import KMeans, KMeansValue, Mechanism
from pais.privacy.rules import Rule

# Number of values kept in memory at a time when many runs are made at once.
_BATCH_NUMBERS = 2**21

# Minimum and maximum number of rows besides the record in a proposed pair, for mechanisms that need other rows.
_COMPANY = 2
_MOST_COMPANY = 256

# Number of outputs kept in memory at a time when they are made one by one.
_BATCH_OUTPUTS = 2**12

Function = Callable[..., object]


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

    def prepare(self, pairs: list[NeighbourPair], draws: Draws) -> None:  # noqa: B027  # most targets need nothing
        """Do any work that is needed before the first run."""

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
