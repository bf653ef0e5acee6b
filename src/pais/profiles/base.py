"""What every profile answers, and the types of its answers.

A profile says what a record pays: a loss for a weight and a norm. There are two kinds of loss:
`epsilon` of a pure guarantee, and the Gaussian shift `mu` of an (epsilon, delta) guarantee.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum

from numpy.typing import ArrayLike

from pais import _validate
from pais._numerics import FloatArray


class Verdict(Enum):
    """How far an answer reaches. A finite number of evaluations can refute a statement, never prove it."""

    PROVED = "proved"
    REFUTED = "refuted"
    NOT_REFUTED = "not refuted by the points tried"
    NOT_APPLICABLE = "not applicable"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One statement about a profile on a ball, and what is known of it.

    There is no truth value on purpose: ``if finding`` would hide the difference between proved and not refuted.
    """

    statement: str
    verdict: Verdict
    reason: str

    def __bool__(self) -> bool:
        raise TypeError("a Finding is not a yes or no; read its verdict")

    def __str__(self) -> str:
        return f"{self.statement}: {self.verdict.value} ({self.reason})"


@dataclass(frozen=True, kw_only=True)
class Assumptions:
    """The paper's assumptions and its Appendix A, asked of one profile, one ball and one target.

    Attributes
    ----------
    monotone : Finding
        The loss never falls when the weight or the norm grows.
    feasible : Finding
        Weight 1 meets the target everywhere on the ball.
    unbounded : Finding
        The loss outgrows every budget as the weight grows, so each weight is bounded.
    strongly_convex : Finding
        exp(loss) is strongly convex in the weight, with the constant Algorithm 1 needs.
    sampling_can_lower : Finding
        Some record's loss falls when its probability drops a little below 1.
    sampling_never_lowers : Finding
        No record's loss falls at any probability.
    """

    monotone: Finding
    feasible: Finding
    unbounded: Finding
    strongly_convex: Finding
    sampling_can_lower: Finding
    sampling_never_lowers: Finding

    def __str__(self) -> str:
        return "\n".join(str(getattr(self, name)) for name in self.__dataclass_fields__)


class Profile(ABC):
    """Loss of a record of a given norm at a given weight.

    Notes
    -----
    Assumes. The loss never falls when the norm grows, nor when the weight grows. Families of this package
    have that by construction; `CustomProfile` asks for it and `check` looks for a counterexample.

    Guarantee. In the families of this package a loss is never below the exact value for its weight, norm and
    parameters: it is rounded up. `with_noise` and sums of profiles round toward more loss as well:
    `tests/theory/test_exact_losses.py`.
    """

    @abstractmethod
    def loss(self, weight: FloatArray, norm: FloatArray) -> FloatArray:
        """The loss on checked arrays of one shape, rounded up."""

    @abstractmethod
    def with_noise(self, noise: float) -> Profile:
        """The profile after every noise scale was multiplied by `noise`."""

    @abstractmethod
    def check(self, *, radius: float, epsilon: float, delta: float = 0.0) -> Assumptions:
        """What is known of the paper's assumptions on the ball of this radius, for this target."""

    def __call__(self, weight: ArrayLike, norm: ArrayLike) -> FloatArray:
        """The loss at each weight and norm (broadcast)."""
        weights, norms = _validate.broadcast(_validate.weights(weight), _validate.norms(norm))
        return self.loss(weights, norms)


class PureProfile(Profile):
    """A profile whose loss is the epsilon of a pure guarantee."""

    def derivative_at_one(self, norm: FloatArray) -> FloatArray | None:
        """Derivative of the loss in the weight at weight 1, or None where it is not known."""
        return None

    def log_convexity(self, norm: FloatArray) -> FloatArray | None:
        """log of a strong-convexity constant of exp(loss) in the weight, or None where none is known."""
        return None
