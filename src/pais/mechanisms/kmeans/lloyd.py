"""Rounds of plain DP-Lloyd, the algorithm of the paper: noisy counts and sums of whole rows, in exact integers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from pais._base import validate
from pais._base.files import stored, to_dict
from pais._base.lattice import IntArray, Lattice
from pais._base.numerics import FloatArray
from pais._base.randomness import BitSource
from pais.data.ball import Ball
from pais.data.engines import WeightedRows
from pais.mechanisms.kmeans.grid import Grid, most_bits
from pais.mechanisms.noise import NoiseLaw
from pais.privacy.profiles import GaussianProfile, LinearProfile, add_profiles


@stored("round", "Lloyd")
@dataclass(frozen=True, kw_only=True)
class Round:
    """Noise laws of one round, for the count and for the sum of each cluster."""

    count_noise: NoiseLaw
    sum_noise: NoiseLaw

    @property
    def order(self) -> float:
        return self.sum_noise.order

    def to_dict(self) -> dict[str, Any]:
        return to_dict(self, "round")

    def __post_init__(self) -> None:
        for name in ("count_noise", "sum_noise"):
            validate.instance(name, getattr(self, name), NoiseLaw, "Pass laplace_noise(b), LpNoise or GaussianNoise.")

    @property
    def laws(self) -> tuple[NoiseLaw, ...]:
        return self.count_noise, self.sum_noise

    @property
    def profile(self) -> LinearProfile | GaussianProfile:
        """Loss of a record in one round. It is in one cluster, so it pays for one count and one sum (LLOYD-PROFILE)."""
        return add_profiles([self.count_noise.count_profile(), self.sum_noise.sum_profile()])  # [note: lloyd-1]


@dataclass(frozen=True, kw_only=True)
class Summary:
    """Noisy counts and sums released by one round. They are protected, so any use of them is allowed."""

    noisy_counts: FloatArray
    noisy_sums: FloatArray


class LloydSample:
    """A weighted sample prepared for the rounds of DP-Lloyd. Secret; it exists only inside a mechanism."""

    def __init__(self, content: WeightedRows, ball: Ball, rounds: tuple[Round, ...]) -> None:
        self._grid = Grid(content.rows, ball.radius, most_bits(content.rows.shape[1]))
        self._count_lattice = count_lattice(rounds)
        self._sum_lattice = sum_lattice(rounds)
        self._counts = self._count_lattice.encode(content.weights)
        self._sums = self._sum_lattice.encode(content.rows * content.weights[:, None])

    def summarise(self, centers: FloatArray, round_: Round, bits: BitSource) -> Summary:
        """Noisy counts and sums of the clusters of `centers`, which must be released or independent of the data."""
        k = len(centers)
        grid = self._grid.of_centers(centers)
        label = np.concatenate(self._grid.in_parts(lambda rows: self._grid.assign(grid, rows)[0]))
        member = sparse.csc_array(
            (np.ones(label.size, dtype=np.int64), label, np.arange(label.size + 1)), shape=(k, label.size)
        )
        counts: IntArray = member @ self._counts
        sums: IntArray = member @ self._sums
        counts = round_.count_noise.added_to(counts[:, None], self._count_lattice, bits)[:, 0]
        sums = round_.sum_noise.added_to(sums, self._sum_lattice, bits)
        return Summary(noisy_counts=self._count_lattice.decode(counts), noisy_sums=self._sum_lattice.decode(sums))


def count_lattice(rounds: tuple[Round, ...]) -> Lattice:
    """One lattice for the counts of all rounds, fine enough for the most precise round."""
    return Lattice.for_scale(min(round_.count_noise.scale for round_ in rounds))


def sum_lattice(rounds: tuple[Round, ...]) -> Lattice:
    """One lattice for the sums of all rounds, fine enough for the most precise round."""
    return Lattice.for_scale(min(round_.sum_noise.scale for round_ in rounds))
