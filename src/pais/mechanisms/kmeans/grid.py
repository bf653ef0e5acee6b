"""Rows of a sample in whole steps of a grid, on which scores, distances and weighted sums are exact."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from pais._base.lattice import IntArray
from pais._base.numerics import FloatArray
from pais._base.threads import cores, in_threads

# Numbers per block of scores, small enough for the cache.
_BLOCK = 1 << 15

# A thread processes at least this many rows at a time, unless they have more than this many numbers.
_PART_ROWS, _PART_NUMBERS = 8192, 1 << 20

# The index of a center takes this many of the 53 bits of a score.
_INDEX_BITS = 7

T = TypeVar("T")


def most_bits(d: int) -> int:
    """Number of steps from the origin to the radius, as a power of two, for which the scores are exact."""
    # 2 |x.c| + |c|^2 + 1 <= 4 * d * 4**bits, followed by the index, must stay below 2**53.
    return (51 - _INDEX_BITS - math.ceil(math.log2(max(d, 2)))) // 2


class Grid:
    """Points in whole steps, truncated toward zero, so that no norm grows. Secret.

    Every score 2 x.c - |c|^2 of a point and a center is a whole number. With the index of the center in its lowest
    bits it is below 2**53, so it is exact in any order of summation. So the cluster of a row depends only on that row
    and on released centers, not on its neighbours in memory. The squared distances that follow from the scores are
    exact too.
    """

    def __init__(self, rows: FloatArray, radius: float, bits: int) -> None:
        self.most = 2.0**bits
        self.per_unit = self.most / radius  # [note: lloyd-2]
        # One column for each point, so that the scores of a center are contiguous. Its last entry multiplies -|c|^2.
        self._columns = np.ones((rows.shape[1] + 1, len(rows)))
        self.squares = np.empty(len(rows))

        def fill(part: slice) -> None:
            points = np.trunc(rows[part] * self.per_unit)
            self._columns[:-1, part] = points.T
            self.squares[part] = np.einsum("ij,ij->i", points, points)

        self.in_parts(fill)

    @property
    def points(self) -> FloatArray:
        return self._columns[:-1].T

    def of_centers(self, centers: FloatArray) -> FloatArray:
        """Centers rounded to the grid, and to the cube around the ball, on which scores are exact."""
        return np.minimum(np.maximum(np.rint(centers * self.per_unit), -self.most), self.most)

    def in_parts(self, work: Callable[[slice], T]) -> list[T]:
        """Call `work` on parts of the rows, in threads."""
        n = self.squares.size
        step = min(max(math.ceil(n / cores()), _PART_ROWS), max(_PART_NUMBERS // len(self._columns), 1))
        return in_threads(lambda start: work(slice(start, start + step)), range(0, max(n, 1), step))

    def assign(self, centers: FloatArray, rows: slice) -> tuple[IntArray, FloatArray]:
        """Index of the nearest center on the grid for each of these rows; ties go to the first center.

        Also returns the squared distance in steps.
        """
        label, score = self._best(centers[: 1 << _INDEX_BITS], rows)
        for first in range(1 << _INDEX_BITS, len(centers), 1 << _INDEX_BITS):
            other, higher = self._best(centers[first : first + (1 << _INDEX_BITS)], rows)
            label = np.where(higher > score, first + other, label)
            score = np.maximum(score, higher)
        return label, self.squares[rows] - score

    def distances(self, centers: FloatArray, label: IntArray, rows: slice) -> FloatArray:
        """Distance of order 1 of these rows to their centers, in steps."""
        return np.asarray(np.abs(self._columns[:-1, rows] - centers.T[:, label]).sum(axis=0))

    def _best(self, centers: FloatArray, rows: slice) -> tuple[IntArray, IntArray]:
        """Index and score of the best of at most 2**_INDEX_BITS centers."""
        last = (1 << _INDEX_BITS) - 1
        # A larger index is a smaller number, so that the first of equal scores has the largest number.
        factors = np.empty((len(centers), len(self._columns)))
        np.multiply(centers, 2.0 * (last + 1), out=factors[:, :-1])
        factors[:, -1] = last - np.arange(len(centers)) - (last + 1) * np.einsum("ij,ij->i", centers, centers)
        columns = self._columns[:, rows]
        best = np.empty(columns.shape[1])
        step = _BLOCK // len(centers)
        scores = np.empty((len(centers), min(step, best.size)))
        for start in range(0, best.size, step):
            block = best[start : start + step]
            np.matmul(factors, columns[:, start : start + step], out=scores[:, : block.size])
            np.maximum.reduce(scores[:, : block.size], axis=0, out=block)  # [note: lloyd-3]
        number = best.astype(np.int64)
        return last - (number & last), number >> _INDEX_BITS
