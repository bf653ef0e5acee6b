"""Rows of a sample in whole steps of a grid, on which scores, distances and weighted sums are exact."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pais._base.numerics import FloatArray
from pais._base.threads import in_threads

# Rows per block of scores, small enough for the cache.
_BLOCK_ROWS = 2048

# Rows that a thread processes at a time.
_TASK_ROWS = 32768


def most_bits(d: int) -> int:
    """Number of steps from the origin to the radius, as a power of two, for which the scores are exact."""
    # |x.c| + |c|^2 / 2 <= 1.5 * d * 4**bits, in halves, must stay below 2**53.
    return (51 - math.ceil(math.log2(max(d, 2)))) // 2


class Grid:
    """Points in whole steps, truncated toward zero, so that no norm grows. Secret.

    Every score x.c - |c|^2 / 2 of a point and a center is a whole number of halves below 2**53. It is exact in any
    order of summation. So the cluster of a row depends only on that row and on released centers, not on its neighbours
    in memory. The squared distances that follow from the scores are exact too.
    """

    def __init__(self, rows: FloatArray, radius: float, bits: int) -> None:
        self._most = 2.0**bits
        self.per_unit = self._most / radius  # [note: lloyd-2]
        self.points = np.trunc(rows * self.per_unit)

    def of_centers(self, centers: FloatArray) -> FloatArray:
        """Centers rounded to the grid, and to the cube around the ball, on which scores are exact."""
        return np.clip(np.rint(centers * self.per_unit), -self._most, self._most)

    def assign(self, centers: FloatArray) -> tuple[NDArray[np.intp], FloatArray]:
        """Index of the nearest center on the grid for each row, and its score; ties go to the first center."""
        half = 0.5 * np.einsum("ij,ij->i", centers, centers)
        label = np.empty(self.points.shape[0], dtype=np.intp)
        best = np.empty(label.size)

        def fill(start: int) -> None:
            for begin in range(start, min(start + _TASK_ROWS, label.size), _BLOCK_ROWS):
                block = slice(begin, begin + _BLOCK_ROWS)
                scores = self.points[block] @ centers.T
                scores -= half
                nearest = scores.argmax(axis=1)  # [note: lloyd-3]
                label[block] = nearest
                best[block] = np.take_along_axis(scores, nearest[:, None], axis=1)[:, 0]

        in_threads(fill, range(0, label.size, _TASK_ROWS))
        return label, best
