"""The radius of a plan, chosen from released norms: less noise against more clipped rows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pais._base import validate
from pais.data.units import most_units
from pais.errors import MismatchError
from pais.planning.facts import Facts
from pais.privacy.amplification import largest_shift
from pais.privacy.guarantee import chosen_delta
from pais.privacy.norms import NormDistribution

# Noise of the final centers over that of one release of all sums at the whole budget: rounds share the budget, and
# their noise shrinks with the cells.
_ROUNDS_FACTOR = {"gaussian": 0.7, "l2": 2.0, "laplace": 2.0}


@dataclass(frozen=True, kw_only=True)
class RadiusChoice:
    """Predicted excess cost per row at the radius of a plan, in squared units of the data; public.

    Attributes
    ----------
    noise : float
        Mean square noise of the centers, which grows with the square of the radius.
    clipping : float
        Mean squared distance by which rows are clipped, according to the released norms.
    largest : float
        Radius of the outermost norms that the survey released.
    """

    noise: float
    clipping: float
    largest: float

    @property
    def excess(self) -> float:
        """Predicted excess cost per row."""
        return self.noise + self.clipping

    def to_dict(self) -> dict[str, Any]:
        """The choice as a dictionary, for files."""
        return {
            "rule": "least predicted noise plus clipping",
            "largest_radius": self.largest,
            "noise_per_row": self.noise,
            "clipping_per_row": self.clipping,
        }

    @classmethod
    def from_dict(cls, described: Mapping[str, Any]) -> RadiusChoice:
        """Rebuild a choice from its dictionary."""
        return cls(
            noise=validate.non_negative("noise_per_row", described["noise_per_row"]),
            clipping=validate.non_negative("clipping_per_row", described["clipping_per_row"]),
            largest=validate.radius(described["largest_radius"]),
        )


def square_noise(mechanism: str, *, n_clusters: int, n_features: int, epsilon: float, delta: float) -> float:
    """Predicted excess cost of the noise for a ball of radius 1, times the number of rows.

    One release of the sums of k cells at the whole budget has a mean square noise of s per cell. A center of n/k rows
    then has the mean square noise s k^2/n^2. Weighted with the rows, the excess cost of all of them is s k^2/n.
    """
    d = float(n_features)
    if mechanism == "gaussian":
        per_cell = d / largest_shift(epsilon, delta) ** 2
    elif mechanism == "l2":
        # The norm of this noise has a Gamma distribution of shape d.
        per_cell = d * (d + 1.0) / epsilon**2
    else:
        per_cell = 2.0 * d / epsilon**2
    return _ROUNDS_FACTOR[mechanism] * per_cell * float(n_clusters) ** 2


def best_radius(norms: NormDistribution, square_noise: float, *, clipping: float = 1.0) -> tuple[float, RadiusChoice]:
    """The norm of the distribution that minimises predicted noise plus clipping, as the radius of the ball.

    The noise costs ``square_noise * radius**2 / n_rows``. A row of norm z beyond the radius costs
    ``clipping * (z - radius)**2``.
    """
    n_rows = norms.n_rows
    order = np.argsort(norms.norms, kind="stable")
    norm, mass = norms.norms[order], norms.masses[order]
    # Sums over the norms beyond each one, by powers of the norm.
    beyond = [np.append(np.cumsum((mass * norm**power)[::-1])[::-1][1:], 0.0) for power in range(3)]
    clipped = clipping * np.maximum(beyond[2] - 2.0 * norm * beyond[1] + norm**2 * beyond[0], 0.0)
    noise = square_noise / n_rows * norm**2
    candidates = np.flatnonzero((mass > 0.0) & (norm > 0.0))
    if candidates.size == 0:
        return norms.radius, RadiusChoice(noise=square_noise * norms.radius**2, clipping=0.0, largest=norms.radius)
    best = candidates[np.argmin((noise + clipped)[candidates])]
    choice = RadiusChoice(
        noise=float(noise[best] / n_rows), clipping=float(clipped[best] / n_rows), largest=norms.radius
    )
    return float(norm[best]), choice


def radius_at(norms: NormDistribution, quantile: float) -> float:
    """The smallest norm of the distribution within which a share `quantile` of the rows lies."""
    order = np.argsort(norms.norms, kind="stable")
    norm, mass = norms.norms[order], norms.masses[order]
    reached = (np.cumsum(mass) >= quantile * mass.sum()) & (norm > 0.0) & (mass > 0.0)
    return float(norm[np.argmax(reached)]) if np.any(reached) else norms.radius


def with_radius(
    facts: Facts,
    *,
    mechanism: str,
    n_clusters: int,
    n_features: int,
    epsilon: float,
    delta: float | None,
    quantile: float | None,
) -> tuple[Facts, RadiusChoice | None]:
    """The facts, in a smaller ball if a survey leaves the radius open: at a quantile, or as predicted to be best."""
    if not facts.radius_is_open:
        if quantile is not None and facts.survey is not None and facts.survey.quantile_asked:
            raise MismatchError(
                f"quantile={quantile!r} is stated, but the survey has a radius at a quantile. Leave out one of them."
            )
        return facts, None
    if quantile is not None:
        return clipped_facts(facts, radius_at(facts.norms, quantile)), None
    n_units = most_units(facts.unit, facts.norms.n_rows)
    used = chosen_delta(delta, gaussian=mechanism == "gaussian", n_rows=n_units, surveyed=True).used
    noise = square_noise(mechanism, n_clusters=n_clusters, n_features=n_features, epsilon=epsilon, delta=used)
    radius, choice = best_radius(facts.norms, noise, clipping=_square_length(mechanism, n_features))
    return clipped_facts(facts, radius), choice


def clipped_facts(facts: Facts, radius: float) -> Facts:
    """Facts with a smaller ball about the same center."""
    norms = NormDistribution(norms=facts.norms.norms, masses=facts.norms.masses, radius=radius)
    return replace(facts, ball=replace(facts.ball, radius=radius), norms=norms)


def _square_length(mechanism: str, n_features: int) -> float:
    """Squared Euclidean length of a vector of norm 1 in the norm of the mechanism, as planning assumes it."""
    # In l1 geometry the Euclidean norm is only known to lie between norm/sqrt(d) and norm.
    return 1.0 / math.sqrt(n_features) if mechanism == "laplace" else 1.0
