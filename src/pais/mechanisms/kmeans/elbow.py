"""Centers and estimated costs for every number of clusters, from the cells of one release.

No function here reads a row. Everything is computed from released and public values, at no privacy cost. Random points
come from a fixed seed, so the same release always gives the same centers and costs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pais._base.numerics import FloatArray
from pais._base.threads import one_blas_thread
from pais.mechanisms.kmeans import refine
from pais.mechanisms.kmeans.value import KMeansValue, ReleasedCells

# Mean square over squared mean of the distances in a cell: this constant plus a part that falls with the dimension.
# Measured on real data, it is between 1.03 and 1.3, and higher in one and two dimensions.
_SQUARE_OVER_MEAN, _LOW_DIMENSION = 1.12, 0.3

# Relative errors of the cost within the cells: from the distances, and from the mean square norm, of which the cost is
# a part. The two estimates are averaged by their precision.
_DISTANCE_ERROR, _MOMENT_ERROR = 0.12, 0.015

# Number of points that stand for the rows, and how many are drawn for each that is used.
_MODEL_POINTS, _DRAWS = 3000, 6

# Length of the offsets of points from the center of their cell, before those outside of the cell are removed.
_OFFSET = 1.3

# Number of ways to merge the cells that are compared.
_CANDIDATES = 4


@dataclass(frozen=True, kw_only=True)
class Merged:
    """The cells of a release merged into k clusters.

    Attributes
    ----------
    value : KMeansValue
        Centers, noisy counts and standard errors; they follow from the cells.
    cost : float
        Estimated sum of squared distances of the rows to their nearest centers.
    """

    value: KMeansValue
    cost: float


@dataclass(frozen=True)
class CellModel:
    """Points that stand for the rows of the released cells.

    Parameters
    ----------
    cells : ReleasedCells
        In coordinates whose origin is the center of the ball.
    n_rows, mean_square_norm : float
        Public or released. `mean_square_norm` is None if the Euclidean norms are not known.
    radius : float
        Radius of the ball.

    Notes
    -----
    The points of a cell are spread like the rows, but only those nearest to its center are used. The rest of the
    squared distance of its rows, as far as the points do not show it, is in directions without effect on the clusters.
    The estimated cost is the cost of the points plus this rest, less the part of the differences between the cells that
    is noise.
    """

    cells: ReleasedCells
    n_rows: float
    mean_square_norm: float | None
    radius: float

    @cached_property
    def mass(self) -> FloatArray:
        """Number of rows of each cell; the total is the number of rows that was planned for."""
        size = np.maximum(self.cells.noisy_sizes, 1e-9)
        return np.asarray(size * (self.n_rows / size.sum()))

    @cached_property
    def _within(self) -> FloatArray:
        """Sum of the squared distances of the rows of each cell to its center."""
        cells, mass = self.cells, self.mass
        factor = _SQUARE_OVER_MEAN + _LOW_DIMENSION / cells.centers.shape[1]
        within: FloatArray = factor * mass * np.square(cells.mean_distances)
        total = float(within.sum())
        if self.mean_square_norm is None:
            return within
        whole = self.n_rows * self.mean_square_norm
        left = whole - float(mass @ (np.square(cells.centers).sum(axis=1) - cells.errors))
        precision = (_DISTANCE_ERROR * total) ** -2, (_MOMENT_ERROR * whole) ** -2
        mean = (precision[0] * total + precision[1] * left) / sum(precision)
        # A negative rest is noise: the distances say more.
        return np.asarray(within * max(mean / total, 0.5))

    @cached_property
    def _points(self) -> tuple[FloatArray, FloatArray, float]:
        """Points, the number of rows that each stands for, and the squared distance that they do not show."""
        cells, rng = self.cells, np.random.default_rng(0)
        centers, spread = cells.centers, cells.spread / math.sqrt(float(np.square(cells.spread).sum()))
        each = max(8, _MODEL_POINTS // len(cells))
        offset = rng.standard_normal((len(cells), _DRAWS * each, len(spread))) @ spread
        drawn = centers[:, None, :] + _OFFSET * cells.mean_distances[:, None, None] * offset
        label = refine.nearest(drawn.reshape(-1, centers.shape[1]), centers).reshape(len(cells), -1)
        points, mass, rest = [], [], 0.0
        for j, center in enumerate(centers):
            inside = drawn[j][label[j] == j][:each]
            step = inside - inside.mean(axis=0) if len(inside) else np.zeros((1, len(center)))
            shown, whole = float(np.square(step).sum(axis=1).mean()), self._within[j] / self.mass[j]
            if shown > whole:
                step, shown = step * math.sqrt(whole / shown), whole
            points.append(center + step)
            mass.append(np.full(len(step), self.mass[j] / len(step)))
            rest += self.mass[j] * (whole - shown)
        return np.vstack(points), np.concatenate(mass), rest

    def cost(self, centers: FloatArray) -> float:
        """Estimated sum of squared distances of the rows to the nearest of these centers."""
        points, mass, rest = self._points
        label = refine.nearest(points, centers)
        seen = float(mass @ np.square(points - centers[label]).sum(axis=1))
        cell = refine.nearest(self.cells.centers, centers)
        error = self.mass * self.cells.errors
        size = np.maximum(np.bincount(cell, self.mass, minlength=len(centers)), 1e-300)
        merged = float((np.bincount(cell, self.mass * error, minlength=len(centers)) / size).sum())
        return max(seen + rest - (float(error.sum()) - merged), 0.0)

    def merged(self, k: int) -> Merged:
        """Merge the cells into k clusters, at most as many as there are cells."""
        cells, n = self.cells, len(self.cells)
        if k >= n:
            centers = cells.centers
        else:
            points, mass, _ = self._points
            with one_blas_thread():
                candidates = refine.merge(cells.centers, self.mass, k, np.random.default_rng(k))[:_CANDIDATES]
                centers = refine.into_ball(refine.settle(candidates, points, mass), self.radius)
        label = refine.nearest(cells.centers, centers)
        size = np.bincount(label, cells.noisy_sizes, minlength=k)
        square = np.bincount(label, np.square(cells.noisy_sizes * cells.standard_errors), minlength=k)
        error = np.sqrt(square) / np.maximum(size, 1e-300)
        value = KMeansValue(
            centers=centers,
            noisy_counts=size.astype(np.float64),
            standard_errors=np.repeat(np.minimum(error, self.radius)[:, None], centers.shape[1], axis=1),
            cells=cells,
        )
        return Merged(value=value, cost=self.cost(centers))
