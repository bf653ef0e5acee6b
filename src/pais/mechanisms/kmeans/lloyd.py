"""Noisy counts and sums of clusters, and a noisy second moment, for k-means. All are computed in exact integers."""

from __future__ import annotations

import functools
import math
import operator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pais._base import validate
from pais._base.files import stored, to_dict
from pais._base.lattice import IntArray, Lattice
from pais._base.numerics import FloatArray
from pais._base.randomness import BitSource
from pais._base.threads import in_threads
from pais.data.ball import Ball
from pais.data.engines import WeightedRows
from pais.mechanisms.noise import GaussianNoise, NoiseLaw
from pais.privacy.profiles import GaussianProfile, LinearProfile

# Rows per block of scores, small enough for the cache.
_BLOCK_ROWS = 2048

# Rows that a thread processes at a time.
_TASK_ROWS = 32768

# The second moment of a block of this many rows of 18 bits is exact in doubles; blocks are added as integers.
_MOMENT_BITS = 18
_MOMENT_ROWS = 2**16


@stored("round", "Lloyd")
@dataclass(frozen=True, kw_only=True)
class Round:
    """Noise laws of one round, for the count and for the sum of each cluster."""

    count_noise: NoiseLaw
    sum_noise: NoiseLaw

    def to_dict(self) -> dict[str, Any]:
        return to_dict(self, "round")

    def __post_init__(self) -> None:
        for name in ("count_noise", "sum_noise"):
            validate.instance(name, getattr(self, name), NoiseLaw, "Pass laplace_noise(b), LpNoise or GaussianNoise.")

    @property
    def profile(self) -> LinearProfile | GaussianProfile:
        """Loss of a record in one round. It is in one cluster, so it pays for one count and one sum (LLOYD-PROFILE)."""
        return add_profiles([self.count_noise.count_profile(), self.sum_noise.sum_profile()])  # [note: lloyd-1]


def add_profiles(profiles: list[LinearProfile | GaussianProfile]) -> LinearProfile | GaussianProfile:
    """Profile of several computations on one sample. All profiles must be of one kind."""
    return functools.reduce(operator.add, profiles)


@dataclass(frozen=True, kw_only=True)
class Summary:
    """Noisy counts and sums released by one round. They are protected, so any use of them is allowed."""

    noisy_counts: FloatArray
    noisy_sums: FloatArray


class LloydSample:
    """A weighted sample prepared for the rounds of k-means. Secret; it exists only inside a mechanism.

    Rows and centers are rounded to a grid on which every score is a whole number below 2**53. Scores are then exact in
    any order of summation, so the cluster of a row depends only on that row and on released centers, not on its
    neighbours in memory. Sums are whole steps of a lattice for the same reason.
    """

    def __init__(self, content: WeightedRows, ball: Ball, rounds: tuple[Round, ...]) -> None:
        d = content.rows.shape[1]
        self._content = content
        # |x.c| + |c|^2 / 2 <= 1.5 * d * 4**bits, in halves, must stay below 2**53.
        self._grid = 2.0 ** ((51 - math.ceil(math.log2(max(d, 2)))) // 2) / ball.radius  # [note: lloyd-2]
        self._points = np.rint(content.rows * self._grid)
        self._count_lattice = count_lattice(rounds)
        self._sum_lattice = sum_lattice(rounds)
        self._counts = self._count_lattice.encode(content.weights)
        self._sums = self._sum_lattice.encode(content.rows * content.weights[:, None])

    def summarise(self, centers: FloatArray, round_: Round, bits: BitSource) -> Summary:
        """Noisy counts and sums of the clusters of `centers`, which must be released or independent of the data."""
        k, d = centers.shape
        label = self._assign(centers)
        member = sparse.csr_array(
            (np.ones(label.size, dtype=np.int64), label, np.arange(label.size + 1)), shape=(label.size, k)
        ).T
        counts: IntArray = member @ self._counts
        sums: IntArray = member @ self._sums
        counts = counts + round_.count_noise.draw_steps((k, 1), self._count_lattice, bits)[:, 0]
        sums = sums + round_.sum_noise.draw_steps((k, d), self._sum_lattice, bits)
        return Summary(noisy_counts=self._count_lattice.decode(counts), noisy_sums=self._sum_lattice.decode(sums))

    def _assign(self, centers: FloatArray) -> NDArray[np.intp]:
        """Index of the nearest center of each row; ties go to the first center."""
        grid = np.rint(centers * self._grid)
        half = 0.5 * np.einsum("ij,ij->i", grid, grid)
        label = np.empty(self._points.shape[0], dtype=np.intp)

        def fill(start: int) -> None:
            for begin in range(start, min(start + _TASK_ROWS, label.size), _BLOCK_ROWS):
                scores = self._points[begin : begin + _BLOCK_ROWS] @ grid.T
                scores -= half
                label[begin : begin + _BLOCK_ROWS] = scores.argmax(axis=1)  # [note: lloyd-3]

        in_threads(fill, range(0, label.size, _TASK_ROWS))
        return label

    def second_moment(self, noise: GaussianNoise, radius: float, largest_weight: float, bits: BitSource) -> FloatArray:
        """Noisy sum of w x x' over the rows x with weights w.

        The noise is isotropic in the Frobenius norm: full scale on the diagonal, 1/sqrt(2) of it off the diagonal.
        Each row is multiplied by the square root of its weight and truncated toward zero to whole numbers y of 18 bits.
        Sums of y y' are then exact, and the contribution |y|^2 is never more than w |x|^2.
        """
        d = self._content.rows.shape[1]
        # The lower bound on the step keeps the noise, counted in steps, within the range of an integer.
        step = max(radius * math.sqrt(largest_weight) / 2.0**_MOMENT_BITS, math.sqrt(noise.scale / 2.0**50))
        total = np.zeros((d, d), dtype=np.int64)
        for start in range(0, self._content.rows.shape[0], _MOMENT_ROWS):
            block = slice(start, start + _MOMENT_ROWS)
            root = np.sqrt(self._content.weights[block]) * (1.0 - 2.0**-50)
            whole = np.trunc(self._content.rows[block] * (root / step)[:, None])  # [note: moment-1]
            total += (whole.T @ whole).astype(np.int64)
        lattice = Lattice(step=step * step)
        above = np.triu_indices(d, 1)
        off_diagonal = GaussianNoise(scale=noise.scale / math.sqrt(2.0))  # [note: moment-2]
        upper = total[above] + off_diagonal.draw_steps((above[0].size, 1), lattice, bits)[:, 0]
        diagonal = np.diag(total) + noise.draw_steps((d, 1), lattice, bits)[:, 0]
        noisy = np.diag(lattice.decode(diagonal))
        noisy[above] = lattice.decode(upper)
        noisy.T[above] = noisy[above]
        return noisy


def count_lattice(rounds: tuple[Round, ...]) -> Lattice:
    """One lattice for the counts of all rounds, fine enough for the most precise round."""
    return Lattice.for_scale(min(round_.count_noise.scale for round_ in rounds))


def sum_lattice(rounds: tuple[Round, ...]) -> Lattice:
    """One lattice for the sums of all rounds, fine enough for the most precise round."""
    return Lattice.for_scale(min(round_.sum_noise.scale for round_ in rounds))
