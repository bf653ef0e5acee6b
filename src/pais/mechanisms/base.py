"""Base class of mechanisms: a computation on weighted rows that adds noise, and the loss it causes for a record."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, cast

from pais._base import files
from pais._base.randomness import BitSource
from pais.data.ball import Ball
from pais.privacy.profiles import Profile
from pais.privacy.rules import NormDistribution, Rule, UniformRule


@dataclass(frozen=True, kw_only=True)
class Extent:
    """Public bounds on the size of weighted rows, for a ball and a rule.

    Attributes
    ----------
    radius : float
        Radius of the ball.
    weight : float
        Largest weight.
    contribution : float
        Largest product of weight and norm. It is less than radius times weight, because rows with a large weight have
        a small norm.
    square : float
        Largest product of weight and squared norm.
    """

    radius: float
    weight: float
    contribution: float
    square: float = math.inf


class Mechanism(ABC):
    """A computation on weighted rows that adds noise, and the privacy loss it causes for a record."""

    name: str

    #: Whether the profile also bounds a unit of several rows with masses that add up to at most 1, at the root mean
    #: square of their norms. This holds if a row adds to the value in proportion to its weight, and the size of that
    #: contribution is a concave function of the squared norm. [note: units-7]
    protects_units = False

    #: Whether `measure` uses the rows only through `content.total`. If the rule keeps all rows, a pass over the source
    #: then adds up the contributions, and no row is held.
    streams = False

    #: How often a mechanism that streams calls `content.total`.
    passes = 1

    @property
    def is_for_units(self) -> bool:
        """Whether the class itself sets `protects_units`. A subclass may change the loss, so it has to set it again."""
        return "protects_units" in vars(type(self)) and bool(self.protects_units)

    @property
    @abstractmethod
    def profile(self) -> Profile:
        """Loss of a record as a function of its weight and norm."""

    @property
    @abstractmethod
    def order(self) -> float | None:
        """Order of the norm that the profile uses; None if the loss does not depend on the norm."""

    @abstractmethod
    def require_lattice(self, extent: Extent) -> None:
        """Raise if contributions may be too large for the integers of a release. Uses public numbers only."""

    @abstractmethod
    def measure(self, content: Any, ball: Ball, bits: BitSource) -> object:
        """Compute the noised value. `pipeline.release_once` calls this once per sample, after the charge.

        The content is `WeightedRows`, or `AllRows` if the mechanism `streams` and the rule keeps all rows.
        """

    def exact_epsilon(self, ball: Ball) -> Fraction | None:
        """Epsilon on all rows as a fraction; None if it has to be computed with rounding. See `exact_epsilon`."""
        return None

    def predicted_quality(
        self, rule: Rule, norms: NormDistribution, *, ball: Ball, clipping: float | None, value: object
    ) -> Any:
        """How good the value is expected to be: an object with `ratio` and `to_dict`; None if nothing is predicted.

        `clipping` is the mean square length that the ball cuts off. `value` is the released value, or None before.
        """
        return None

    def in_words(self) -> str:
        """The mechanism in a few words."""
        return self.name

    def lines(self) -> list[str] | None:
        """What a plan says about the mechanism below its name; None to show its description."""
        return None

    def certificate_lines(self) -> list[str] | None:
        """What a certificate says about the mechanism; None to name it with its number of rounds."""
        return None

    def noise_in_words(self) -> str:
        """The noise as the end of a sentence that names the mechanism; empty if the plan says enough."""
        return ""

    @property
    def fit_class(self) -> Any:
        """The class of a fit, if it follows from the mechanism alone, as for a plan from a file; None for `Fit`."""
        return None

    def in_rows(self, value: Any, max_rows: int) -> Any:
        """Convert a value about units into one about rows: counts and sums are multiplied by `max_rows`."""
        return value

    def to_dict(self) -> dict[str, Any]:
        """Public description of the mechanism, for certificates and files.

        A user-defined mechanism is described by its name and class, and by the result of its method `describe`, if any.
        """
        return {**files.to_dict(self, "mechanism"), "mechanism": self.name}

    @staticmethod
    def from_dict(described: Mapping[str, Any]) -> Mechanism:
        """Rebuild a mechanism of this package from its description."""
        return cast(Mechanism, files.from_dict(described, "mechanism"))


def exact_epsilon(mechanism: Mechanism, rule: Rule, ball: Ball) -> Fraction | None:
    """Epsilon of a mechanism on all rows as a fraction, or None if it has to be computed with rounding.

    A profile adds a few ulps to a loss, so that no later rounding makes it too small. With Laplace noise of scale 1, a
    count of all rows would then cost a little more than 1. If all rows are kept with weight 1, nothing is rounded
    later. The price is then the bound on a row's contribution, divided by the scale of the noise.
    """
    if type(rule) is not UniformRule or rule.rate != 1.0:
        return None
    # A class of a user may change anything, so only the classes of this package that state their own price are asked.
    kind = type(mechanism)
    is_own = kind.__module__.startswith("pais.") and "exact_epsilon" in vars(kind)
    return kind.exact_epsilon(mechanism, ball) if is_own else None


def added(prices: list[Fraction | None]) -> Fraction | None:
    """Sum of exact prices; None if one of them is not known."""
    known = [price for price in prices if price is not None]
    return sum(known, Fraction(0)) if len(known) == len(prices) else None
