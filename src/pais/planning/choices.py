"""The radius and the sample size that a plan chose from released norms, with their predicted costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np

from pais._base import validate
from pais.errors import ArgumentError
from pais.planning.facts import Facts
from pais.privacy.norms import NormDistribution


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


def radius_at(norms: NormDistribution, quantile: float) -> float:
    """The smallest norm of the distribution within which a share `quantile` of the rows lies."""
    order = np.argsort(norms.norms, kind="stable")
    norm, mass = norms.norms[order], norms.masses[order]
    reached = (np.cumsum(mass) >= quantile * mass.sum()) & (norm > 0.0) & (mass > 0.0)
    return float(norm[np.argmax(reached)]) if np.any(reached) else norms.radius


def clipped_facts(facts: Facts, radius: float) -> Facts:
    """Facts with a smaller ball about the same center."""
    norms = NormDistribution(norms=facts.norms.norms, masses=facts.norms.masses, radius=radius)
    return replace(facts, ball=replace(facts.ball, radius=radius), norms=norms)


#: The chosen size may have a larger predicted cost than the best size by this share of the best cost. Chosen by eye
#: (commit 721a0ba); benchmarks/results/prediction.md compares predicted and measured costs.
TOLERANCE = 0.002

# At most so many sizes are shown beside the chosen one.
_SHOWN = 6


@dataclass(frozen=True, kw_only=True)
class SizeOption:
    """A sample size and the excess cost that it is predicted to have, over the cost of the best centers; public.

    Attributes
    ----------
    size : float
        Expected number of rows in the sample.
    noise, sampling : float
        Predicted excess cost of the noise on the centers, and of the rows that are not in the sample.
    flat : float
        Share of the price of the rounds that does not depend on the norm of a record.
    growth : float
        Noise over that of all rows.
    """

    size: float
    noise: float
    sampling: float
    flat: float
    growth: float

    @property
    def excess(self) -> float:
        """Predicted excess cost, without the parts that no size changes."""
        return self.noise + self.sampling


@dataclass(frozen=True, kw_only=True)
class SampleChoice:
    """The sample sizes that a plan considered, from small to large, and the one it chose; public.

    Attributes
    ----------
    options : tuple of SizeOption
        The sizes, each with the best share `flat` for it.
    chosen : int
        Index of the chosen size.
    """

    options: tuple[SizeOption, ...]
    chosen: int

    @property
    def option(self) -> SizeOption:
        """The chosen size."""
        return self.options[self.chosen]

    @property
    def is_largest(self) -> bool:
        """Whether the sample is as large as it can be without extra noise, or in memory."""
        return self.chosen == len(self.options) - 1

    def __str__(self) -> str:
        return (
            f"{self.option.size:,.0f} is the smallest of {len(self.options)} sizes from {self.options[0].size:,.0f} to "
            f"{self.options[-1].size:,.0f} with a predicted spread in segments within {100.0 * TOLERANCE:g} % of the "
            "best"
        )

    def lines(self) -> list[str]:
        """A table of some of the sizes, the chosen one marked."""
        n, last = len(self.options), len(self.options) - 1
        shown = {round(last * place / (_SHOWN - 1)) for place in range(_SHOWN)} if n > _SHOWN else range(n)
        parts = ["  " + "".join(f"{name:>14}" for name in ("rows", "noise", "sampling", "together"))]
        for place in sorted({*shown, self.chosen}):
            option = self.options[place]
            mark = "> " if place == self.chosen else "  "
            shares = "".join(f"{100.0 * part:12.3f} %" for part in (option.noise, option.sampling, option.excess))
            parts.append(f"{mark}{option.size:14,.0f}{shares}")
        return parts

    def to_dict(self) -> dict[str, Any]:
        """The choice as a dictionary, for files."""
        return {
            "rule": f"smallest size with a predicted spread in segments within {100.0 * TOLERANCE:g} % of the best",
            "chosen": self.chosen,
            "options": [asdict(option) for option in self.options],
        }

    @classmethod
    def read(cls, described: Mapping[str, Any] | None) -> SampleChoice | None:
        """Rebuild a choice from its dictionary, if there is one."""
        if described is None:
            return None
        names = [field.name for field in fields(SizeOption)]
        options = tuple(
            SizeOption(**{name: validate.non_negative(name, option[name]) for name in names})
            for option in described["options"]
        )
        chosen = described["chosen"]
        if not isinstance(chosen, int) or not 0 <= chosen < len(options):
            raise ArgumentError("the chosen sample size is not one of its options. Plan again.")
        return cls(options=options, chosen=chosen)
