"""Public distribution of the norms of the rows. Planning uses it instead of the rows themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pais._base import validate
from pais._base.numerics import FloatArray
from pais.errors import ArgumentError
from pais.privacy.rules import N_KNOTS, Rule, knot_norms


@dataclass(frozen=True, kw_only=True, eq=False)
class NormDistribution:
    """Distribution of a number of rows over norms in [0, radius], as atoms and their masses.

    Build it from a public distribution or a (noisy) histogram. It determines expected sample sizes only.
    Guarantees never depend on it: they hold on the whole ball for any rows.
    """

    norms: FloatArray
    masses: FloatArray
    radius: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "radius", validate.radius(self.radius))
        norms = validate.non_empty("norms", validate.norms(self.norms).ravel())
        masses = validate.losses("masses", self.masses).ravel()
        with np.errstate(over="ignore"):
            n_rows = float(masses.sum())
        # No table has this many rows, and products with squared norms stay finite.
        if norms.shape != masses.shape or not 0.0 < n_rows <= 1e100:
            raise ArgumentError(
                "masses must have the shape of norms and a sum in (0, 1e100]. Pass one mass >= 0 for each norm."
            )
        object.__setattr__(self, "norms", np.minimum(norms, self.radius))
        object.__setattr__(self, "masses", masses)
        validate.freeze(self.norms, self.masses)

    def __repr__(self) -> str:
        return f"NormDistribution({self.norms.size} atoms, radius={self.radius!r})"

    @classmethod
    def from_histogram(cls, edges: ArrayLike, counts: ArrayLike, *, radius: float | None = None) -> NormDistribution:
        """Build from a histogram on public bins, such as a norm survey; counts may be noisy and negative.

        The mass of each bin is split evenly between its two edges. Norms beyond `radius` (default: the last edge)
        are clipped to it, because the rows will be clipped too.
        """
        edge = validate.norms(edges).ravel()
        count = validate.real_array("counts", counts).ravel()
        if edge.size != count.size + 1 or count.size == 0 or np.any(np.diff(edge) <= 0.0):
            raise ArgumentError("edges must increase and have one entry more than counts. Pass the edges of the bins.")
        if not np.all(np.isfinite(count)):
            raise ArgumentError("counts holds an entry that is not finite. Pass finite counts; they may be negative.")
        half = 0.5 * np.maximum(count, 0.0)
        masses = np.append(half, 0.0) + np.append(0.0, half)
        return cls(norms=edge, masses=masses, radius=float(edge[-1]) if radius is None else radius)

    @classmethod
    def from_quantiles(
        cls, quantile: Callable[[FloatArray], FloatArray], *, n_rows: float, radius: float
    ) -> NormDistribution:
        """Build from the quantile function of a public distribution of norms, e.g. ``scipy.stats.chi(10).ppf``."""
        rows = validate.positive("n_rows", n_rows)
        if not callable(quantile):
            raise ArgumentError("quantile is not a function. Pass a quantile function such as scipy.stats.chi(10).ppf.")
        levels = (np.arange(N_KNOTS) + 0.5) / N_KNOTS
        norms = validate.norms(quantile(levels))
        return cls(norms=norms, masses=np.full(norms.shape, rows / N_KNOTS), radius=radius)

    @classmethod
    def from_private_norms(cls, norm: ArrayLike, *, radius: float) -> NormDistribution:
        """Build from the norms of the rows themselves. NOT PRIVATE: only for the data owner's own studies.

        A noise or size solved with this distribution depends on the rows. Publishing it, or a release planned with
        it, leaks information. Each norm is split between its two neighbouring knots, so sums of a rule that is
        tabulated on these knots are exact.
        """
        radius = validate.radius(radius)
        norms = np.minimum(validate.non_empty("norm", validate.norms(norm).ravel()), radius)
        position = norms * (N_KNOTS / radius)
        cell = np.minimum(position.astype(np.int32), N_KNOTS - 1)
        position -= cell
        upper = np.bincount(cell, weights=position, minlength=N_KNOTS)
        masses = np.append(np.bincount(cell, minlength=N_KNOTS) - upper, 0.0)
        masses[1:] += upper
        return cls(norms=knot_norms(radius, N_KNOTS), masses=np.maximum(masses, 0.0), radius=radius)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NormDistribution) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash((self.radius, self.n_rows))

    def to_dict(self) -> dict[str, Any]:
        """The norms with positive mass, for files."""
        positive = self.masses > 0.0
        return {"radius": self.radius, "norms": self.norms[positive].tolist(), "masses": self.masses[positive].tolist()}

    @classmethod
    def from_dict(cls, described: Mapping[str, Any]) -> NormDistribution:
        """Rebuild a distribution from its description."""
        norms, masses = (np.asarray(described[name], dtype=np.float64) for name in ("norms", "masses"))
        return cls(norms=norms, masses=masses, radius=described["radius"])

    @property
    def n_rows(self) -> float:
        return float(self.masses.sum())

    @property
    def mean_square_norm(self) -> float:
        return float(self.masses @ np.square(self.norms) / self.masses.sum())

    def mean_weight(self, rule: Rule) -> float:
        """Mean of 1/probability over all rows."""
        return float(np.average(1.0 / rule.probability(np.minimum(self.norms, self.radius)), weights=self.masses))

    def expected_size(self, rule: Rule) -> float:
        """Expected number of rows that a rule keeps."""
        return float(self.masses @ rule.probability(self.norms))
