"""Base classes of profiles, and the types that `Profile.check` returns.

A profile gives the privacy loss of a record as a function of its weight and norm. There are two kinds of loss:
`epsilon` of a pure guarantee, and the Gaussian shift `mu` of an (epsilon, delta) guarantee.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, cast

from numpy.typing import ArrayLike

from pais._base import files, validate
from pais._base.numerics import FloatArray, multiply_up


class Verdict(Enum):
    """What is known about a statement. A finite number of evaluations can refute a statement, but never prove it."""

    PROVED = "proved"
    REFUTED = "refuted"
    NOT_REFUTED = "not refuted by the points tried"
    NOT_APPLICABLE = "not applicable"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One statement about a profile on a ball, and what is known about it.

    A `Finding` has no truth value, because ``if finding`` would hide the difference between proved and not refuted.
    """

    statement: str
    verdict: Verdict
    reason: str

    @classmethod
    def decided(cls, statement: str, true: bool, reason: str) -> Finding:
        return cls(statement=statement, verdict=Verdict.PROVED if true else Verdict.REFUTED, reason=reason)

    def __bool__(self) -> bool:
        raise TypeError("a Finding is neither true nor false. Compare its verdict.")

    def __str__(self) -> str:
        return f"{self.statement}: {self.verdict.value} ({self.reason})"


@dataclass(frozen=True, kw_only=True)
class Assumptions:
    """Findings on the assumptions of the paper and of its Appendix A, for one profile, one ball and one target.

    Attributes
    ----------
    monotone : Finding
        The loss never decreases when the weight or the norm grows.
    feasible : Finding
        Weight 1 meets the target everywhere on the ball.
    unbounded : Finding
        The loss exceeds every budget as the weight grows, so each weight is bounded.
    strongly_convex : Finding
        exp(loss) is strongly convex in the weight, with the constant that Algorithm 1 needs.
    sampling_can_lower : Finding
        The loss of some record decreases when its probability drops slightly below 1.
    sampling_never_lowers : Finding
        The loss of no record decreases at any probability.
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
    """Privacy loss of a record of a given norm at a given weight.

    Notes
    -----
    Assumes. The loss never decreases when the norm grows or when the weight grows. The profile families of this
    package satisfy this by construction. A `CustomProfile` requires it of the user's function, and `check` searches for
    a counterexample.

    Guarantee. In the families of this package a loss is rounded up, so it is never below the exact value for its
    weight, norm and parameters. `with_noise` and sums of profiles also round toward a larger loss:
    `tests/theory/test_exact_losses.py`.
    """

    @abstractmethod
    def loss(self, weight: FloatArray, norm: FloatArray) -> FloatArray:
        """The loss for validated arrays of one shape, rounded up."""

    @abstractmethod
    def with_noise(self, noise: float) -> Profile:
        """Return the profile with every noise scale multiplied by `noise`."""

    @abstractmethod
    def check(self, *, radius: float, epsilon: float, delta: float = 0.0) -> Assumptions:
        """Report what is known about the paper's assumptions on the ball of this radius, for this target."""

    def to_dict(self) -> dict[str, Any]:
        """Public description of the profile, for certificates and files."""
        return files.to_dict(self, "profile")

    @staticmethod
    def from_dict(described: Mapping[str, Any]) -> Profile:
        """Rebuild a profile of this package from its description."""
        return cast(Profile, files.from_dict(described, "profile"))

    def __call__(self, weight: ArrayLike, norm: ArrayLike) -> FloatArray:
        """Return the loss at each weight and norm (broadcast)."""
        weights, norms = validate.broadcast(validate.weights(weight), validate.norms(norm))
        return self.loss(weights, norms)


class PureProfile(Profile):
    """A profile whose loss is the epsilon of a pure guarantee."""

    def derivative_at_one(self, norm: FloatArray) -> FloatArray | None:
        """Derivative of the loss with respect to the weight at weight 1, or None if it is not known."""
        return None

    def log_convexity(self, norm: FloatArray) -> FloatArray | None:
        """Logarithm of a strong-convexity constant of exp(loss) in the weight, or None if none is known."""
        return None


class ShiftProfile(Profile):
    """A profile whose loss is the Gaussian shift mu of an (epsilon, delta) guarantee, linear in the weight.

    A subclass defines `shift`, the shift of a record of weight 1.
    """

    @abstractmethod
    def shift(self, norm: FloatArray) -> FloatArray:
        """The Gaussian shift at weight 1, rounded up; it never decreases when the norm grows."""

    def loss(self, weight: FloatArray, norm: FloatArray) -> FloatArray:
        """The Gaussian shift mu, rounded up."""
        return multiply_up(weight, self.shift(norm))
