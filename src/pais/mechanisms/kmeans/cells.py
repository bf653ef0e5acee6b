"""The cells of k-means between two rounds, and how idle ones are moved to where they help most.

No function here reads a row. Everything is computed from released and public values, at no privacy cost.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pais._base.numerics import FloatArray
from pais.mechanisms.kmeans.refine import BoolArray, Generator, into_ball

# A cell is split only if its count exceeds this many standard deviations of its noise.
_SPLIT_COUNT = 4.0

# Cells whose rows are this many times as far from the center as in the median cell contain several clusters.
_WIDE = 1.6


@dataclass(kw_only=True)
class Cells:
    """Centers of the cells, and what is known about each.

    Attributes
    ----------
    centers : array of shape (n_cells, d)
    sizes : array
        Estimated number of rows.
    distances : array
        Estimated mean distance of the rows to the center.
    errors : array
        Expected squared error of the center; of its parent's center, if it has not been measured.
    noise : array
        Variance of each coordinate of the center due to the noise of the rounds, without any shrinkage.
    measured : array of bool
        Whether a round has measured the center.
    """

    centers: FloatArray
    sizes: FloatArray
    distances: FloatArray
    errors: FloatArray
    noise: FloatArray
    measured: BoolArray

    def copy(self) -> Cells:
        return Cells(**{name: value.copy() for name, value in vars(self).items()})


@dataclass(frozen=True, kw_only=True)
class Space:
    """Where centers can lie: the ball, and the directions in which the rows spread."""

    radius: float
    spread: FloatArray
    rng: Generator

    @cached_property
    def dimension(self) -> float:
        """Effective number of directions in which the rows spread: between 1 and d."""
        variance = np.square(self.spread).sum(axis=1)
        return max(1.0, float(variance.sum() ** 2 / max(np.square(variance).sum(), 1e-300)))

    def direction(self) -> FloatArray:
        """A random unit vector, longer on average where the rows spread more."""
        step = self.rng.standard_normal(len(self.spread)) @ self.spread
        return np.asarray(step / max(float(np.linalg.norm(step)), 1e-300))


def reallocate(cells: Cells, trusted: BoolArray, space: Space, *, count_noise: float, ratio: float) -> Cells:
    """Split the cells that gain most, with idle cells first, then with cells freed by the cheapest merges.

    A split must gain more than `ratio` times what the merge loses. Idle cells that are left go beside busy ones.
    """
    cells = cells.copy()
    idle = np.flatnonzero(~trusted).tolist()
    order, gains = _gains(cells, trusted, space, count_noise)
    pairs = _merges(cells, trusted)
    used: set[int] = set()
    for j, gain in zip(order, gains, strict=True):
        if j in used:
            continue
        if idle:
            i = idle.pop()
        else:
            pair = next((p for p in pairs if j not in p[:2] and not used & {*p[:2]}), None)
            if pair is None or pair[2] * ratio >= gain:
                break
            i = _merged(cells, pair[0], pair[1])
            used.add(pair[1])
        used |= {i, j}
        step = 0.5 * cells.distances[j] / math.sqrt(space.dimension) * space.direction()
        cells.centers[i], cells.centers[j] = cells.centers[j] + step, cells.centers[j] - step
        cells.sizes[i] = cells.sizes[j] = cells.sizes[j] / 2.0
        cells.distances[i], cells.errors[i], cells.noise[i] = cells.distances[j], cells.errors[j], cells.noise[j]
        cells.measured[[i, j]] = False
    if idle:
        share = np.where(trusted, cells.sizes, 0.0)
        for i, j in zip(idle, space.rng.choice(len(share), len(idle), p=share / share.sum()), strict=True):
            cells.centers[i] = cells.centers[j] + 0.25 * cells.distances[j] * space.direction()
            cells.sizes[i], cells.distances[i] = cells.sizes[j] / 2.0, cells.distances[j]
            cells.errors[i], cells.noise[i], cells.measured[i] = cells.errors[j], cells.noise[j], False
    cells.centers = into_ball(cells.centers, space.radius)
    return cells


def _gains(cells: Cells, trusted: BoolArray, space: Space, count_noise: float) -> tuple[list[int], list[float]]:
    """Cells that are large enough to split, and what a split would gain, the largest gain first."""
    square = np.square(cells.distances)
    typical = float(np.median(cells.distances[trusted]))
    eta = min(1.0, 2.0 / (math.pi * space.dimension))
    gain = np.maximum(eta * cells.sizes * square, cells.sizes * (square - (_WIDE * typical) ** 2))
    gain[~trusted | (cells.sizes < _SPLIT_COUNT * count_noise)] = 0.0
    order = np.argsort(-gain, kind="stable")
    order = order[gain[order] > 0.0]
    return order.tolist(), gain[order].tolist()


def _merges(cells: Cells, trusted: BoolArray) -> list[tuple[int, int, float]]:
    """Pairs of cells and what merging them would lose, the cheapest first."""
    alive = np.flatnonzero(trusted)
    centers, size = cells.centers[alive], np.maximum(cells.sizes[alive], 1e-9)
    square = np.einsum("ij,ij->i", centers, centers)
    error = np.where(cells.measured[alive], cells.errors[alive], 0.0)
    gap = square[:, None] + square - 2.0 * centers @ centers.T - error[:, None] - error
    loss = size[:, None] * size / (size[:, None] + size) * np.maximum(gap, 0.0)
    loss[np.tri(len(alive), dtype=bool)] = np.inf
    n_pairs = min(len(alive) * (len(alive) - 1) // 2, 4 * len(cells.sizes))
    cheapest = np.argpartition(loss, n_pairs, axis=None)[:n_pairs]
    cheapest = cheapest[np.lexsort((cheapest, loss.ravel()[cheapest]))]
    i, j = np.divmod(cheapest, len(alive))
    return list(zip(alive[i].tolist(), alive[j].tolist(), loss[i, j].tolist(), strict=True))


def _merged(cells: Cells, i: int, j: int) -> int:
    """Merge cell i into cell j and return i, which is free now."""
    size = cells.sizes[i] + cells.sizes[j]
    center = (cells.sizes[i] * cells.centers[i] + cells.sizes[j] * cells.centers[j]) / size
    square = sum(
        cells.sizes[c] * (cells.distances[c] ** 2 + np.square(cells.centers[c] - center).sum()) for c in (i, j)
    )
    cells.centers[j], cells.sizes[j], cells.distances[j] = center, size, math.sqrt(square / size)
    return i
