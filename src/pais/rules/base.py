"""What every rule is: a public function from a norm to an inclusion probability."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import ArrayLike

from pais import _validate
from pais._numerics import FloatArray
from pais.errors import ArgumentError


class Rule(ABC):
    """Inclusion probability as a function of the norm, fixed before any row is seen.

    Attributes
    ----------
    radius : float
        The rule is defined for norms in [0, radius].
    linear_between_breakpoints : bool
        Whether the probability is linear in the norm between breakpoints (else only monotone).
    """

    radius: float
    linear_between_breakpoints: bool = False

    @abstractmethod
    def evaluate(self, norm: FloatArray) -> FloatArray:
        """Probabilities for norms already known to lie in [0, radius]: the fast path of a pass over rows."""

    @abstractmethod
    def breakpoints(self, radius: float) -> FloatArray:
        """Norms from 0 to `radius` between which the probability is monotone, and continuous from the right at each."""

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
        """Smallest and largest probability on each (low, high] that spans no breakpoint."""
        at_low, at_high = self.evaluate(low), self.evaluate(high)
        return np.minimum(at_low, at_high), np.maximum(at_low, at_high)

    def largest_probability(self, radius: float) -> float:
        """Largest probability on the ball; public, so that a pass may skip rows by it."""
        return float(np.max(self.evaluate(self.breakpoints(radius))))

    def smallest_probability(self, radius: float) -> float:
        """Smallest probability on the ball; public, as it bounds every weight."""
        return float(np.min(self.evaluate(self.breakpoints(radius))))
