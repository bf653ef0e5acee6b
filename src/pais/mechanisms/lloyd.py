"""One private round of Lloyd's algorithm on weighted rows: exact assignment, exact sums, noise on the lattice."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pais._numerics import FloatArray
from pais.domain import Ball
from pais.lattice import IntArray, Lattice
from pais.mechanisms.noise import NoiseLaw
from pais.profiles import GaussianProfile, LinearProfile
from pais.randomness import BitSource
from pais.sampler import WeightedRows

# Rows of a block of scores stay in the cache.
_BLOCK_ROWS = 4096


@dataclass(frozen=True, kw_only=True)
class Round:
    """Noise of one round: on the count of each cluster, and on the sum of each cluster."""

    count_noise: NoiseLaw
    sum_noise: NoiseLaw

    @property
    def profile(self) -> LinearProfile | GaussianProfile:
        """A record is in one cluster: it pays for one count and one sum."""
        return self.count_noise.count_profile() + self.sum_noise.sum_profile()  # type: ignore[operator]


@dataclass(frozen=True, kw_only=True)
class Summary:
    """What one round released: protected, for any use."""

    centers: FloatArray
    noisy_counts: FloatArray
    noisy_sums: FloatArray


class LloydSample:
    """A weighted sample made ready for rounds: secret, lives only inside a mechanism.

    Rows and centers are rounded to a grid on which every score is a whole number below 2**53. Scores are then exact in
    any order of summation, so the cluster of a row depends on that row and on released centers alone, not on its
    neighbours in memory. Sums are whole steps of a lattice for the same reason.
    """

    def __init__(self, content: WeightedRows, ball: Ball, rounds: tuple[Round, ...]) -> None:
        d = content.rows.shape[1]
        # |x.c| <= d * 4**bits must stay below 2**52.
        self._grid = 2.0 ** ((52 - int(np.ceil(np.log2(d)))) // 2) / ball.radius
        self._points = np.rint(content.rows * self._grid)
        self._count_lattice = Lattice.for_scale(min(round_.count_noise.scale for round_ in rounds))
        self._sum_lattice = Lattice.for_scale(min(round_.sum_noise.scale for round_ in rounds))
        self._counts = self._count_lattice.encode(content.weights)
        self._sums = self._sum_lattice.encode(content.rows * content.weights[:, None])

    def release(self, centers: FloatArray, round_: Round, bits: BitSource) -> Summary:
        """Noisy counts and sums of the clusters that `centers` (released or data-free) make."""
        k, d = centers.shape
        label = self._assign(centers)
        counts = np.zeros(k, dtype=np.int64)
        np.add.at(counts, label, self._counts)
        member = sparse.csr_array(
            (np.ones(label.size, dtype=np.int64), (label, np.arange(label.size))), shape=(k, label.size)
        )
        sums: IntArray = member @ self._sums
        counts += round_.count_noise.draw_steps((k, 1), self._count_lattice, bits)[:, 0]
        sums += round_.sum_noise.draw_steps((k, d), self._sum_lattice, bits)
        return Summary(
            centers=centers,
            noisy_counts=self._count_lattice.decode(counts),
            noisy_sums=self._sum_lattice.decode(sums),
        )

    def _assign(self, centers: FloatArray) -> NDArray[np.intp]:
        """Nearest center of each row; ties go to the first."""
        grid = np.rint(centers * self._grid)
        half = 0.5 * np.einsum("ij,ij->i", grid, grid)
        label = np.empty(self._points.shape[0], dtype=np.intp)
        for start in range(0, label.size, _BLOCK_ROWS):
            scores = self._points[start : start + _BLOCK_ROWS] @ grid.T
            scores -= half
            label[start : start + _BLOCK_ROWS] = scores.argmax(axis=1)
        return label
