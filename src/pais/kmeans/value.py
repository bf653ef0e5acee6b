"""Centers and estimated costs for every number of clusters, from the cells of one release, and which number to choose.

No function here reads a row. Everything is computed from released and public values, at no privacy cost. Random points
come from a fixed seed, so the same release always gives the same centers and costs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from pais._base.numerics import FloatArray
from pais._base.threads import one_blas_thread
from pais.kmeans import geometry


@dataclass(frozen=True, kw_only=True)
class ReleasedCells:
    """The cells of the exploring rounds that stand above the noise, before they are merged into clusters.

    Attributes
    ----------
    centers : array of shape (n_cells, d)
        In the coordinates of the rows.
    noisy_sizes : array of shape (n_cells,)
        Noisy number of rows.
    size_noise : float
        Standard deviation of the noise of each size.
    mean_distances : array of shape (n_cells,)
        Noisy mean distance of the rows to the center.
    standard_errors : array of shape (n_cells,)
        Standard error of each coordinate of the center that is due to noise.
    errors : array of shape (n_cells,)
        Expected squared distance of the center to the mean of its rows that is due to noise.
    spread : array of shape (m, d)
        Directions in which the rows spread, each as long as the root mean square of the rows along it.
    """

    centers: FloatArray
    noisy_sizes: FloatArray
    size_noise: float
    mean_distances: FloatArray
    standard_errors: FloatArray
    errors: FloatArray
    spread: FloatArray

    def __len__(self) -> int:
        return len(self.centers)


# Fields that follow from the rounds, not part of the fingerprint: a file of centers and counts keeps its certificate.
_BESIDE = {"fingerprint": False}


@dataclass(frozen=True, kw_only=True)
class KMeansValue:
    """Released centers, in the coordinates of the rows, and what is known about them.

    Everything is computed from noisy values that the certificate covers. The fingerprint in the certificate is that of
    the centers and the noisy counts.

    Attributes
    ----------
    centers : array of shape (k, d)
    noisy_counts : array of shape (k,)
        Noisy number of rows of each cluster in the last round.
    standard_errors : array of shape (k, d), optional
        Standard error of each coordinate of each center, from the noise and from the sample: the true mean of the rows
        that are nearest to the center is within one of it in about two of three cases, and within two in about 19 of
        20. None if the value was read from a file.
    cells : ReleasedCells, optional
        The cells that were merged into the centers. None for the algorithm of the paper, which has none.
    released : KMeansValue, optional
        The released value that these centers were computed from, if they are for another number of clusters. The
        certificate is that of this value. None if these are the released centers.
    """

    centers: FloatArray
    noisy_counts: FloatArray
    standard_errors: FloatArray | None = field(default=None, metadata=_BESIDE)
    cells: ReleasedCells | None = field(default=None, metadata=_BESIDE)
    released: KMeansValue | None = field(default=None, metadata=_BESIDE, repr=False)

    @property
    def effective_centers(self) -> int:
        """Number of distinct centers. It is below k if noise drowned clusters, and 1 if it drowned all rows.

        The other centers are copies, so that there are always k rows.
        """
        return len(np.unique(self.centers, axis=0))

    def moved(self, origin: FloatArray) -> KMeansValue:
        """The same value in coordinates with another origin."""
        cells = self.cells if self.cells is None else replace(self.cells, centers=self.cells.centers + origin)
        return replace(self, centers=self.centers + origin, cells=cells)

    def multiplied(self, factor: int) -> KMeansValue:
        """The same value with all counts multiplied, to count rows where a unit may have several."""
        cells = self.cells
        if cells is not None:
            cells = replace(cells, noisy_sizes=cells.noisy_sizes * factor, size_noise=cells.size_noise * factor)
        return replace(self, noisy_counts=self.noisy_counts * factor, cells=cells)


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


# Points of the reference without clusters, and how many of them start its centers.
_REFERENCE_POINTS, _REFERENCE_STARTS = 2000, 300

# Gaps this close to the largest, in the logarithm of the cost, count as equally large.
_GAP_TOLERANCE = 0.02


@dataclass(frozen=True, kw_only=True)
class ElbowPoint:
    """Estimated cost of a number of clusters."""

    n_clusters: int
    cost: float


@dataclass(frozen=True, kw_only=True)
class Elbow:
    """Estimated cost for every number of clusters from 1 to the number of cells, and the suggested number.

    Attributes
    ----------
    points : tuple of ElbowPoint
    suggested : int
        The number of clusters that ``n_clusters="auto"`` chooses.
    stands_out : bool
        Whether the clusters stand out from rows without clusters. If not, `suggested` is where the curve bends.

    Notes
    -----
    The rule is the gap statistic of Tibshirani, Walther and Hastie on released values. It compares the logarithm of the
    estimated cost with that of points that are uniform in a box, as long in each released principal direction as the
    rows. It takes the smallest number of clusters whose gap is within 0.02 of the largest. If that number is 1, the
    rows show no separate clusters. Then it takes the point of the cost curve farthest below the straight line between
    its ends, among the numbers that were compared.
    """

    points: tuple[ElbowPoint, ...]
    suggested: int
    stands_out: bool

    def __len__(self) -> int:
        return len(self.points)

    def __iter__(self) -> Iterator[ElbowPoint]:
        return iter(self.points)

    @classmethod
    def of(cls, model: CellModel, *, most: int | None = None) -> Elbow:
        """Merge the cells into every number of clusters up to `most`; None = up to the number of cells.

        Without `most`, the suggested number is at most half the number of cells.
        """
        n = len(model.cells)
        costs = np.array([model.merged(k).cost for k in range(1, min(n, most or n) + 1)])
        compared = costs if most is not None else costs[: max(2, n // 2)]
        suggested, stands_out = _suggested(compared, model)
        points = tuple(ElbowPoint(n_clusters=k, cost=cost) for k, cost in enumerate(costs.tolist(), 1))
        return cls(points=points, suggested=suggested, stands_out=stands_out)


def _suggested(costs: FloatArray, model: CellModel) -> tuple[int, bool]:
    """The number of clusters by the rule of `Elbow`, and whether clusters stand out."""
    if len(costs) == 1 or costs[0] <= 0.0:
        return 1, False
    share = np.maximum(costs / costs[0], 1e-300)
    gap = np.log(_reference(model, len(costs), float(costs[0]))) - np.log(share)
    number = int(np.argmax(gap >= gap.max() - _GAP_TOLERANCE)) + 1
    if number > 1:
        return number, True
    line = np.linspace(1.0, share[-1], len(share))
    return int(np.argmax(line - share)) + 1, False


def _reference(model: CellModel, most: int, cost: float) -> FloatArray:
    """Cost for each number of clusters of points without clusters, over their cost for one cluster."""
    rng = np.random.default_rng(0)
    length = np.linalg.svd(model.cells.spread, compute_uv=False)
    points = rng.uniform(-math.sqrt(3.0), math.sqrt(3.0), (_REFERENCE_POINTS, len(length))) * length
    # Directions that the spread does not show change the costs of all numbers of clusters alike.
    rest = max(cost / model.n_rows - float(np.square(length).sum()), 0.0)
    mass, starts = np.ones(len(points)), points[:_REFERENCE_STARTS]
    costs = []
    with one_blas_thread():
        for k in range(1, most + 1):
            candidates = geometry.merge(starts, mass[: len(starts)], k, rng)[:2]
            centers = geometry.settle(candidates, points, mass, steps=15)
            gap = points - centers[geometry.nearest(points, centers)]
            costs.append(float(np.square(gap).sum()) / len(points) + rest)
    return np.asarray(np.array(costs) / costs[0])


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
            return np.asarray(within)
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
        label = geometry.nearest(drawn.reshape(-1, centers.shape[1]), centers).reshape(len(cells), -1)
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
        label = geometry.nearest(points, centers)
        seen = float(mass @ np.square(points - centers[label]).sum(axis=1))
        cell = geometry.nearest(self.cells.centers, centers)
        error = self.mass * self.cells.errors
        size = np.maximum(np.bincount(cell, self.mass, minlength=len(centers)), 1e-300)
        merged = float((np.bincount(cell, self.mass * error, minlength=len(centers)) / size).sum())
        return max(seen + rest - (float(error.sum()) - merged), 0.0)

    def merged(self, k: int) -> Merged:
        """Merge the cells into k clusters, at most as many as there are cells."""
        cells, (points, mass, _) = self.cells, self._points
        with one_blas_thread():
            candidates = cells.centers[None]
            if k < len(cells):
                candidates = geometry.merge(cells.centers, self.mass, k, np.random.default_rng(k))[:_CANDIDATES]
            centers = geometry.into_ball(geometry.settle(candidates, points, mass), self.radius)
        return Merged(value=self._value(centers), cost=self.cost(centers))

    def _value(self, centers: FloatArray) -> KMeansValue:
        """Centers with the counts of their points, and standard errors due to the noise of the cells and to the model.

        The error of the model is the distance between a center, which is the mean of its points, and the mean of the
        cells that are nearest to it.
        """
        cells, k = self.cells, len(centers)
        points, mass, _ = self._points
        counts = np.bincount(geometry.nearest(points, centers), mass, minlength=k).astype(np.float64)
        counts *= float(cells.noisy_sizes.sum()) / self.n_rows
        label = geometry.nearest(cells.centers, centers)
        member = np.zeros((k, len(cells)))
        member[label, np.arange(len(cells))] = 1.0
        # Noisy sizes can be close to zero or negative; a cluster counts as at least one row here.
        size = np.maximum(member @ cells.noisy_sizes, 1.0)[:, None]
        mean = (member * cells.noisy_sizes) @ cells.centers / size
        noise = member @ np.square(cells.noisy_sizes * cells.standard_errors)
        weight = cells.size_noise**2 * (member @ np.square(cells.centers - mean[label]))
        error = np.sqrt(noise[:, None] + weight) / size
        known = (member.sum(axis=1) > 0.0)[:, None]
        error = np.where(known, np.hypot(error, centers - mean), self.radius)
        return KMeansValue(
            centers=centers, noisy_counts=counts, standard_errors=np.minimum(error, self.radius), cells=cells
        )
