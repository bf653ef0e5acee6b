"""Sampling rules in closed form: uniform and coreset; and, for studies only, probabilities that are not private."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from pais._base import validate
from pais._base.files import stored
from pais._base.numerics import FloatArray, lowered
from pais.errors import ArgumentError, UnreachableError
from pais.privacy.rules.base import SMALLEST_PROBABILITY, Rule


@stored("rule", "uniform", renamed={"rate": "probability"})
@dataclass(frozen=True, kw_only=True)
class UniformRule(Rule):
    """Every record has the same probability."""

    rate: float
    radius: float = math.inf
    linear_between_breakpoints = True
    continuous = True

    def __post_init__(self) -> None:
        rate = validate.number(
            "rate",
            self.rate,
            rule=f"a probability in [{SMALLEST_PROBABILITY}, 1]",
            low=SMALLEST_PROBABILITY,
            high=1.0,
            open_low=False,
            open_high=False,
        )
        object.__setattr__(self, "rate", rate)
        object.__setattr__(self, "radius", validate.positive_or_infinite("radius", self.radius))

    @property
    def keeps_all(self) -> bool:  # type: ignore[override]  # fixed by the rate, not per class
        return type(self) is UniformRule and self.rate == 1.0

    @classmethod
    def of_size(cls, sample_size: float, *, n_rows: float) -> UniformRule:
        """The uniform rule that keeps `sample_size` of `n_rows` rows in expectation."""
        size, rows = validate.positive("sample_size", sample_size), validate.positive("n_rows", n_rows)
        if size > rows:
            raise UnreachableError(
                f"sample_size={size!r} exceeds n_rows={rows!r}. Pass at most n_rows.", reachable=rows
            )
        return cls(rate=size / rows)

    def evaluate(self, norm: FloatArray) -> FloatArray:
        return np.full_like(norm, self.rate)

    def breakpoints(self, radius: float) -> FloatArray:
        return np.array([0.0, radius])


@stored("rule", "coreset")
@dataclass(frozen=True, kw_only=True)
class CoresetRule(Rule):
    """q(norm) = m/n (uniform_share + (1 - uniform_share) norm**2 / mean_square_norm): CORESET-BOUND.

    Parameters
    ----------
    sample_size, n_rows, mean_square_norm : float
        Expected sample size m, and the public number of rows n and mean squared norm.
    radius : float
        Radius of the ball; q must not exceed 1 on all of it.
    uniform_share : float
        In [0, 1]; 1 is the uniform rule.
    """

    sample_size: float
    n_rows: float
    mean_square_norm: float
    radius: float
    uniform_share: float = 0.5
    continuous = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "radius", validate.radius(self.radius))
        for name in ("sample_size", "n_rows", "mean_square_norm"):
            object.__setattr__(self, name, validate.positive(name, getattr(self, name)))
        object.__setattr__(self, "uniform_share", validate.share("uniform_share", self.uniform_share))
        if self.uniform_share == 0.0:
            raise ArgumentError("uniform_share=0.0 gives records of norm 0 the probability 0. Pass a number in (0, 1].")
        if not self.sample_size / self.n_rows * self.uniform_share >= SMALLEST_PROBABILITY:
            raise ArgumentError(
                f"sample_size={self.sample_size!r} of n_rows={self.n_rows!r} gives norm 0 a probability below "
                f"{SMALLEST_PROBABILITY}. Pass a larger sample_size or uniform_share."
            )
        reachable = largest_coreset_size(self.n_rows, self.mean_square_norm, self.radius, self.uniform_share)
        if self.sample_size > reachable:  # [note: coreset-1]
            raise UnreachableError(
                f"sample_size={self.sample_size!r} needs a probability above 1 at the radius. "
                f"Pass at most {lowered(reachable, 10)}, or a larger uniform_share.",
                reachable=reachable,
            )

    def evaluate(self, norm: FloatArray) -> FloatArray:
        rate = self.sample_size / self.n_rows
        tilt = rate * (1.0 - self.uniform_share) / self.mean_square_norm
        # The minimum only removes rounding error, because the constructor refuses sizes with q > 1.
        return np.minimum(rate * self.uniform_share + tilt * norm * norm, 1.0)  # [note: coreset-2]

    def breakpoints(self, radius: float) -> FloatArray:
        return np.array([0.0, radius])


def largest_coreset_size(n_rows: float, mean_square_norm: float, radius: float, uniform_share: float) -> float:
    """Largest expected size at which the coreset rule is at most 1 on the whole ball; exact, see erratum 11."""
    if mean_square_norm <= 0.0:
        raise ArgumentError(
            f"mean_square_norm={mean_square_norm!r} is not positive. Use another rule if all norms are 0."
        )
    return n_rows / (uniform_share + (1.0 - uniform_share) * radius**2 / mean_square_norm)  # [note: coreset-3]


def not_private_variance_optimal(norm: ArrayLike, *, sample_size: float) -> FloatArray:
    """Probabilities proportional to the l2 norm, capped at 1, that sum to `sample_size`. NOT PRIVATE.

    These probabilities minimise the sampling variance of a sum at a given expected size (water-filling). They depend on
    all norms at once, so they give no differential privacy guarantee of any kind. They are not a `Rule`, and no sampler
    of this package accepts them. Use them as a lower bound in a plot.
    """
    norms = validate.non_empty("norm", validate.norms(norm).ravel())
    size = validate.positive("sample_size", sample_size)
    positive = int(np.count_nonzero(norms))
    if size > positive:
        raise UnreachableError(
            f"sample_size={size!r} exceeds the number of positive norms. Pass a smaller size.",
            reachable=float("nan"),
        )
    order = np.argsort(-norms)
    ranked = norms[order]
    # If the j largest probabilities are capped at 1, the others sum to size - j in proportion to the norm.
    tail = np.cumsum(ranked[::-1])[::-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = (size - np.arange(norms.size)) / tail
    fits = (scale > 0.0) & (scale * ranked <= 1.0)
    capped = int(np.argmax(fits)) if np.any(fits) else norms.size
    result = np.ones_like(norms)
    if capped < norms.size:
        result[order[capped:]] = np.minimum(scale[capped] * ranked[capped:], 1.0)
    return result
