"""What every rule is: a public function from a norm to an inclusion probability."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import ArrayLike

from pais import _validate
from pais._numerics import FloatArray
from pais.errors import ArgumentError

#: No rule keeps a row less often than this.
SMALLEST_PROBABILITY = 1e-12


class Rule(ABC):
    """Inclusion probability as a function of the norm, fixed before any row is seen.

    Attributes
    ----------
    radius : float
        The rule is defined for norms in [0, radius].
    linear_between_breakpoints : bool
        Whether the probability is linear in the norm between breakpoints (else only monotone).
    continuous : bool
        Whether the probability has no jumps; then the breakpoints alone tell its bounds.
    """

    radius: float
    linear_between_breakpoints: bool = False
    continuous: bool = False

    def __init_subclass__(cls, **kwargs: object) -> None:
        """Drop inherited promises about `evaluate` where a class brings an `evaluate` of its own."""
        super().__init_subclass__(**kwargs)
        if "evaluate" in cls.__dict__:
            for promise in ("linear_between_breakpoints", "continuous"):
                if promise not in cls.__dict__:
                    setattr(cls, promise, False)  # [note: worst-7]

    @abstractmethod
    def evaluate(self, norm: FloatArray) -> FloatArray:
        """Probabilities for norms already known to lie in [0, radius]: the fast path of a pass over rows."""

    @abstractmethod
    def breakpoints(self, radius: float) -> FloatArray:
        """Norms from 0 to `radius`, both among them, strictly between which the probability is monotone.

        At a breakpoint it may jump, on either side, unless the rule is `continuous`.
        """

    @abstractmethod
    def describe(self) -> dict[str, object]:
        """The rule in public words and numbers, for a certificate."""

    def probability(self, norm: ArrayLike) -> FloatArray:
        """Inclusion probability of each norm, in (0, 1].

        Norms beyond the radius are refused: clip the rows to the ball first.
        """
        norms = _validate.norms(norm)
        if np.any(norms > self.radius):
            raise ArgumentError(
                f"norm has an entry beyond radius={self.radius!r} of the rule. Clip rows to the ball first."
            )
        return self.evaluate(np.atleast_1d(norms)).reshape(norms.shape)

    def bounds(self, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Smallest and largest probability on each [low, high] with no breakpoint strictly within."""
        ends = [low, high]
        if not self.continuous:
            # Strictly between, the rule is monotone from the first double to the last.
            ends += [np.minimum(np.nextafter(low, np.inf), high), np.maximum(np.nextafter(high, 0.0), low)]
        values = [self.evaluate(end) for end in ends]
        return np.minimum.reduce(values), np.maximum.reduce(values)

    def probes(self, radius: float) -> FloatArray:
        """Norms at which the probability takes its extremes on the ball: breakpoints, and both sides of jumps."""
        points = self.breakpoints(radius)
        if self.continuous:
            return points
        beside = [np.nextafter(points, 0.0), np.minimum(np.nextafter(points, np.inf), radius)]
        return np.unique(np.concatenate([points, *beside]))

    def largest_probability(self, radius: float) -> float:
        """Largest probability on the ball; public, so that a pass may skip rows by it."""
        return float(np.max(self.evaluate(self.probes(radius))))

    def smallest_probability(self, radius: float) -> float:
        """Smallest probability on the ball; public, as it bounds every weight."""
        return float(np.min(self.evaluate(self.probes(radius))))

    def largest_contribution(self, radius: float) -> float:
        """A bound on norm / probability over the ball: what a weighted row adds to a sum at most."""
        points = self.breakpoints(radius)
        smallest, _ = self.bounds(points[:-1], points[1:])
        return float(np.max(points[1:] / smallest))
