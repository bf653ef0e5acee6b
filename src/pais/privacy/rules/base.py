"""Base class of sampling rules. A rule is a public function from the norm of a row to its inclusion probability."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from pais._base import files, validate
from pais._base.numerics import FloatArray
from pais.errors import ArgumentError

#: Smallest inclusion probability that any rule may assign.
SMALLEST_PROBABILITY = 1e-12


class Rule(ABC):
    """Inclusion probability as a function of the norm, fixed before any row is read.

    Attributes
    ----------
    radius : float
        The rule is defined for norms in [0, radius].
    linear_between_breakpoints : bool
        Whether the probability is linear in the norm between breakpoints. If not, it is only monotone there.
    continuous : bool
        Whether the probability has no jumps. If so, its values at the breakpoints determine its bounds.
    """

    radius: float
    linear_between_breakpoints: bool = False
    continuous: bool = False

    def __init_subclass__(cls, **kwargs: object) -> None:
        """Reset the inherited flags that describe `evaluate` if the subclass overrides `evaluate`."""
        super().__init_subclass__(**kwargs)
        if "evaluate" in cls.__dict__:
            for flag in ("linear_between_breakpoints", "continuous"):
                if flag not in cls.__dict__:
                    setattr(cls, flag, False)  # [note: worst-7]

    #: Whether the rule keeps every row with probability 1, whatever its norm.
    keeps_all: bool = False

    @abstractmethod
    def evaluate(self, norm: FloatArray) -> FloatArray:
        """Probabilities for norms that are known to lie in [0, radius]; the fast path of a pass over the rows."""

    @abstractmethod
    def breakpoints(self, radius: float) -> FloatArray:
        """Norms from 0 to `radius`, both included, such that the probability is monotone strictly between two of them.

        The probability may jump at a breakpoint, on either side, unless the rule is `continuous`.
        """

    def to_dict(self) -> dict[str, Any]:
        """Public description of the rule, for certificates and files."""
        return files.to_dict(self, "rule")

    @staticmethod
    def from_dict(described: Mapping[str, Any]) -> Rule:
        """Rebuild a rule of this package from its description."""
        return cast(Rule, files.from_dict(described, "rule"))

    def probability(self, norm: ArrayLike) -> FloatArray:
        """Inclusion probability of each norm, in (0, 1].

        Norms beyond the radius raise an `ArgumentError`: clip the rows to the ball first.
        """
        norms = validate.norms(norm)
        if np.any(norms > self.radius):
            raise ArgumentError(
                f"norm holds an entry above the radius {self.radius!r} of the rule. Clip the rows to the ball first."
            )
        return self.evaluate(np.atleast_1d(norms)).reshape(norms.shape)

    def bounds(self, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Smallest and largest probability on each interval [low, high] that has no breakpoint strictly inside."""
        ends = [low, high]
        if not self.continuous:
            # The rule is monotone strictly inside the interval, so also evaluate its first and last inner doubles.
            ends += [np.minimum(np.nextafter(low, np.inf), high), np.maximum(np.nextafter(high, 0.0), low)]
        values = [self.evaluate(end) for end in ends]
        return np.minimum.reduce(values), np.maximum.reduce(values)

    def probes(self, radius: float) -> FloatArray:
        """Norms that include the extremes of the probability on the ball: breakpoints, and both sides of jumps."""
        points = self.breakpoints(radius)
        if self.continuous:
            return points
        beside = [np.nextafter(points, 0.0), np.minimum(np.nextafter(points, np.inf), radius)]
        return np.unique(np.concatenate([points, *beside]))

    def _extremes(self, radius: float) -> FloatArray:
        """Norms at which the smallest and the largest probability are reached."""
        return self.probes(radius)

    def largest_probability(self, radius: float) -> float:
        """Largest probability on the ball. It is public, so a pass over the rows may use it to skip rows."""
        return float(np.max(self.evaluate(self._extremes(radius))))

    def smallest_probability(self, radius: float) -> float:
        """Smallest probability on the ball. It is public, and its inverse bounds every weight."""
        return float(np.min(self.evaluate(self._extremes(radius))))

    def largest_contribution(self, radius: float, power: int = 1) -> float:
        """Upper bound on norm**power / probability over the ball: the most that a weighted row can add to a sum."""
        points = self.breakpoints(radius)
        smallest, _ = self.bounds(points[:-1], points[1:])
        return float(np.max(points[1:] ** power / smallest))
