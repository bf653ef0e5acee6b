"""The result of a private k-means: the released value, other numbers of clusters, and what stands above the noise.

It begins with k-means on released points. No function here reads a row. Everything is computed from released and public
values, at no privacy cost. Random points come from a fixed seed, so the same release always gives the same centers and
costs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import ndtri

from pais._base import validate
from pais._base.numerics import FloatArray
from pais._base.threads import one_blas_thread
from pais.data.cells import all_of
from pais.data.kinds import Categories, Intervals
from pais.errors import ArgumentError
from pais.planning.plan import CLEAR, Fit

if TYPE_CHECKING:
    from pais.kmeans.mechanism import KMeans

Generator = np.random.Generator
BoolArray = NDArray[np.bool_]

# Starts that `merge` compares. Chosen by eye, with the gates of tests/theory/test_gates.py (commit 8b07537).
RESTARTS = 40


def into_ball(centers: FloatArray, radius: float) -> FloatArray:
    """Scale centers beyond the radius back to it."""
    norm = np.sqrt(np.einsum("ij,ij->i", centers, centers))
    return np.asarray(centers * (radius / np.maximum(norm, radius))[:, None])


def _nearness(points: FloatArray, centers: FloatArray) -> FloatArray:
    """Scores x.c - |c|^2 / 2, which are largest for the nearest center."""
    return np.asarray(points @ centers.T - 0.5 * np.einsum("ij,ij->i", centers, centers))


def nearest(points: FloatArray, centers: FloatArray) -> NDArray[np.intp]:
    return np.asarray(_nearness(points, centers).argmax(axis=1))


def lloyd(points: FloatArray, mass: FloatArray, centers: FloatArray, steps: int) -> FloatArray:
    """Lloyd's algorithm on weighted points from given centers."""
    k, n = len(centers), len(points)
    # The mass of each point stands in the row of its center. `indices` are the centers of the points.
    member = sparse.csc_array((mass, np.zeros(n, dtype=np.int32), np.arange(n + 1)), shape=(k, n))
    last = None
    for _ in range(steps):
        label = nearest(points, centers)
        if last is not None and np.array_equal(label, last):
            break
        last = member.indices[:] = label
        size = np.bincount(label, mass, minlength=k)[:, None]
        centers = np.where(size > 0.0, (member @ points) / np.maximum(size, 1e-300), centers)
    return np.asarray(centers)


def settle(candidates: FloatArray, points: FloatArray, mass: FloatArray, steps: int = 10) -> FloatArray:
    """Lloyd's algorithm on weighted points from each of several sets of centers; returns the best set."""
    return np.asarray(_settled(candidates, points, mass, steps)[0])


def search(candidates: FloatArray, points: FloatArray, mass: FloatArray, *, steps: int, last: int) -> FloatArray:
    """The same for many sets: so many steps each time, after which the better half stays, and more for the last set."""
    while len(candidates) > 1:
        candidates = _settled(candidates, points, mass, steps)[: len(candidates) // 2]
    return lloyd(points, mass, candidates[0], last)


def _settled(candidates: FloatArray, points: FloatArray, mass: FloatArray, steps: int) -> FloatArray:
    """The sets of centers after Lloyd's algorithm, the best first."""
    moved = np.array([lloyd(points, mass, candidate, steps) for candidate in candidates])
    gains = [float(mass @ _nearness(points, centers).max(axis=1)) for centers in moved]
    return np.asarray(moved[np.argsort(-np.array(gains), kind="stable")])


def merge(points: FloatArray, mass: FloatArray, k: int, rng: Generator) -> FloatArray:
    """Weighted greedy k-means++ and Lloyd on few points. Runs all restarts at once and returns all, best first."""
    n, d = points.shape
    if n <= k:
        jitter = 1e-3 * math.sqrt(float(np.square(points).sum(axis=1).mean()) / d) * rng.standard_normal((k - n, d))
        return np.vstack([points, points[rng.integers(0, n, k - n)] + jitter])[None]

    def scores() -> FloatArray:
        return np.asarray(points @ centers.swapaxes(1, 2) - 0.5 * np.square(centers).sum(axis=2)[:, None, :])

    centers = points[_greedy_start(points, mass, k, rng)]
    restarts = np.arange(RESTARTS)
    for _ in range(30):
        member = np.zeros((RESTARTS, k, n))
        member[restarts[:, None], scores().argmax(axis=2), np.arange(n)] = mass
        size = member.sum(axis=2)[:, :, None]
        moved = np.where(size > 0.0, member @ points / np.maximum(size, 1e-300), centers)
        if np.array_equal(moved, centers):
            break
        centers = moved
    return np.asarray(centers[np.argsort(-(scores().max(axis=2) @ mass), kind="stable")])


def _greedy_start(points: FloatArray, mass: FloatArray, k: int, rng: Generator) -> NDArray[np.intp]:
    """Indices of starting points for each restart: the best of three draws of k-means++ each time."""
    n = len(points)
    square = np.einsum("ij,ij->i", points, points)
    distance = np.maximum(square[:, None] + square - 2.0 * points @ points.T, 0.0)
    restarts = np.arange(RESTARTS)
    seeds = np.empty((RESTARTS, k), dtype=np.intp)
    seeds[:, 0] = rng.choice(n, RESTARTS, p=mass / mass.sum())
    near = distance[seeds[:, 0]]
    for j in range(1, k):
        cumulated = np.cumsum(near * mass, axis=1)
        level = rng.random((RESTARTS, 3)) * cumulated[:, -1:]
        candidate = np.minimum((cumulated[:, None, :] < level[:, :, None]).sum(axis=2), n - 1)
        closer = np.minimum(near[:, None, :], distance[candidate])
        best = (closer @ mass).argmin(axis=1)
        seeds[:, j], near = candidate[restarts, best], closer[restarts, best]
    return seeds


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
        # Adding zero turns -0.0 into 0.0, so that equal centers have equal bytes.
        return len({center.tobytes() for center in self.centers + 0.0})

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
# Measured on real data, it is between 1.03 and 1.3, and higher in one and two dimensions (commit 7591131).
_SQUARE_OVER_MEAN, _LOW_DIMENSION = 1.12, 0.3

# Relative errors of the cost within the cells: from the distances, and from the mean square norm, of which the cost is
# a part. The two estimates are averaged by their precision. Chosen by eye (7591131); benchmarks/results/elbow-costs.md
# shows what they reach.
_DISTANCE_ERROR, _MOMENT_ERROR = 0.12, 0.015

# Number of points that stand for the rows, how many are drawn for each that is used, and the length of their offsets
# from the center of their cell, before those outside of the cell are removed. Chosen by eye (7591131).
_MODEL_POINTS, _DRAWS, _OFFSET = 3000, 6, 1.3

# Number of ways to merge the cells that are compared. Chosen by eye (e0ae639).
_CANDIDATES = 4

# Points of the reference without clusters, and how many of them start its centers. Gaps this close to the largest, in
# the logarithm of the cost, count as equally large. Chosen by eye (dac79fe); benchmarks/results/elbow-choices.md shows
# what they reach.
_REFERENCE_POINTS, _REFERENCE_STARTS, _GAP_TOLERANCE = 2000, 300, 0.02


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

    @classmethod
    def of(cls, model: CellModel, *, most: int | None = None) -> Elbow:
        """Merge the cells into every number of clusters up to `most`; None = up to the number of cells.

        Without `most`, the suggested number is at most half the number of cells.
        """
        n = len(model.cells)
        costs = np.array([model.cost(model.centers(k)) for k in range(1, min(n, most or n) + 1)])
        compared = costs if most is not None else costs[: max(2, n // 2)]
        suggested, stands_out = 1, False
        if len(compared) > 1 and compared[0] > 0.0:
            share = np.maximum(compared / compared[0], 1e-300)
            gap = np.log(_reference(model, len(compared), float(compared[0]))) - np.log(share)
            suggested = int(np.argmax(gap >= gap.max() - _GAP_TOLERANCE)) + 1
            stands_out = suggested > 1
            if not stands_out:
                suggested = int(np.argmax(np.linspace(1.0, share[-1], len(share)) - share)) + 1
        points = tuple(ElbowPoint(n_clusters=k, cost=cost) for k, cost in enumerate(costs.tolist(), 1))
        return cls(points=points, suggested=suggested, stands_out=stands_out)


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
            candidates = merge(starts, mass[: len(starts)], k, rng)[:2]
            centers = settle(candidates, points, mass, steps=15)
            gap = points - centers[nearest(points, centers)]
            costs.append(float(np.square(gap).sum()) / len(points) + rest)
    return np.asarray(np.array(costs) / costs[0])


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
        label = nearest(drawn.reshape(-1, centers.shape[1]), centers).reshape(len(cells), -1)
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
        label = nearest(points, centers)
        seen = float(mass @ np.square(points - centers[label]).sum(axis=1))
        cell = nearest(self.cells.centers, centers)
        error = self.mass * self.cells.errors
        size = np.maximum(np.bincount(cell, self.mass, minlength=len(centers)), 1e-300)
        merged = float((np.bincount(cell, self.mass * error, minlength=len(centers)) / size).sum())
        return max(seen + rest - (float(error.sum()) - merged), 0.0)

    def centers(self, k: int) -> FloatArray:
        """Merge the cells into k clusters, at most as many as there are cells, and return their centers."""
        cells, (points, mass, _) = self.cells, self._points
        with one_blas_thread():
            candidates = cells.centers[None]
            if k < len(cells):
                candidates = merge(cells.centers, self.mass, k, np.random.default_rng(k))[:_CANDIDATES]
            return into_ball(settle(candidates, points, mass), self.radius)

    def value(self, centers: FloatArray) -> KMeansValue:
        """Centers with the counts of their points, and standard errors due to the noise of the cells and to the model.

        The error of the model is the distance between a center, which is the mean of its points, and the mean of the
        cells that are nearest to it.
        """
        cells, k = self.cells, len(centers)
        points, mass, _ = self._points
        counts = np.bincount(nearest(points, centers), mass, minlength=k).astype(np.float64)
        counts *= float(cells.noisy_sizes.sum()) / self.n_rows
        label = nearest(cells.centers, centers)
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


# Predicted cost over that of k-means without noise from which a fit warns. Chosen by eye (80c6e7b).
_POOR_RATIO = 2.0


def structure_concern(n_clusters: int, effective_centers: int, *, predicted_ratio: float = 1.0) -> str | None:
    """Return a warning text if centers are fewer than asked for, or predicted to be poor, because of noise; or None."""
    if effective_centers >= n_clusters and predicted_ratio < _POOR_RATIO:
        return None
    if effective_centers >= n_clusters:
        return (
            f"the spread within segments is predicted to be {predicted_ratio:.2g} times that of k-means without noise. "
            "Raise epsilon, ask for fewer clusters, use fewer columns, or collect more rows."
        )
    centers = (
        f"all {n_clusters} centers are the same noisy mean"
        if effective_centers <= 1
        else f"only {effective_centers} of {n_clusters} centers are above the noise; the others repeat them"
    )
    return (
        f"noise hides the clusters: {centers}. Raise epsilon, ask for fewer clusters, use fewer columns, or collect "
        "more rows."
    )


# Among many comparisons of noise with noise, the largest exceeds two standard errors. The probability that any of them
# exceeds the threshold stays below this, as is usual.
_ERROR_RATE = 0.05

# Number of features that a warning names.
_MOST_NAMES = 8

# A column of categories is suspect if the listed ones have less than this share together. Chosen by eye (2ac27f4).
_FEW_CATEGORIES = 0.05


@dataclass(frozen=True, kw_only=True, repr=False)
class KMeansFit(Fit):
    """Value, certificate, plan and survey of a private k-means. All of it may be published."""

    value: KMeansValue

    @property
    def concern(self) -> str | None:
        """Text of a warning if noise hides clusters or features or costs much, from released values; else None."""
        ratio = 1.0 if self.quality is None else self.quality.ratio
        concern = structure_concern(len(self.value.centers), self.value.effective_centers, predicted_ratio=ratio)
        if concern is not None or self.readability is None:
            return concern
        # With a schema, all columns have about one size already.
        named = None if self.schema is not None else self.plan.columns
        concern = readability_concern(self.readability, named)
        if concern is not None:
            return concern
        schema, value = self.schema, self.value
        if schema is not None:
            shares = np.average(schema.decode(value.centers), axis=0, weights=np.maximum(value.noisy_counts, 1))
            for column in schema.columns:
                place = [schema.labels.index(label) for label in column.labels]
                if isinstance(column, Categories) and float(shares[place].sum()) < _FEW_CATEGORIES:
                    hint = "type of the column" if isinstance(column, Intervals) else "spelling; case counts"
                    return f"hardly any row has one of the {column.kind} stated for {column.name!r}. Check the {hint}."
        most = self.mechanism.n_clusters
        if not self.mechanism.choose or len(self._released.centers) < most:
            return None
        return (
            f"n_clusters='auto' chose the largest number allowed, max_clusters={most}. Raise max_clusters, or state a "
            "number: compare the spreads within segments in elbow_."
        )

    @property
    def verdict(self) -> str | None:
        return None if self.readability is None else self.readability.verdict

    def in_words(self) -> str:
        k, d = self.value.centers.shape
        return f"{k} center{'s' * (k != 1)} of {d} feature{'s' * (d != 1)}"

    def results(self, feature_names: Sequence[str] | None) -> Any:
        from pais.kmeans.page import Segments  # It needs this module.
        from pais.kmeans.view import view_of

        return Segments(self, view_of(self, feature_names))

    @property
    def mechanism(self) -> KMeans:
        return cast("KMeans", self.plan.mechanism)

    @cached_property
    def readability(self) -> Readability | None:
        """Which clusters and features stand above the noise, from released values; None without errors."""
        return readability_of(self.value, count_noise=self.count_noise, radius=self.plan.ball.radius)

    @property
    def count_noise(self) -> float:
        """Standard deviation of the noise of each noisy count."""
        return self.mechanism.rounds[-1].count_noise.deviation(1) * self._max_rows

    @property
    def count_errors(self) -> FloatArray:
        """Standard error of each noisy count of k-means, from noise and from the rows that are not in the sample.

        If these are not the released centers, a count has the noise of about as many cells as were merged.
        """
        value, norms = self.value, self.plan.norms
        noise = np.full(len(value.centers), self.count_noise)
        if value.released is not None and value.cells is not None:
            cells = nearest(value.cells.centers, value.centers)
            noise = value.cells.size_noise * np.sqrt(np.maximum(np.bincount(cells, minlength=len(value.centers)), 1))
        spare = 0.0 if norms is None else max(norms.mean_weight(self.plan.rule) - 1.0, 0.0)
        return np.asarray(np.sqrt(np.square(noise) + np.maximum(value.noisy_counts, 0.0) * spare * self._max_rows))

    @property
    def _max_rows(self) -> int:
        """Rows that a count of 1 stands for."""
        return 1 if self.plan.unit is None else self.plan.unit.full_rows

    @cached_property
    def elbow(self) -> Elbow | None:
        """Estimated cost for every number of clusters, from released values; None if there are no cells."""
        model = self._model
        if model is None:
            return None
        elbow = Elbow.of(model)
        # The release has chosen already, from the cells as they were then.
        return replace(elbow, suggested=len(self._released.centers)) if self.mechanism.choose else elbow

    @property
    def _released(self) -> KMeansValue:
        """The value that was released, before another number of clusters was asked for."""
        return self.value.released or self.value

    def with_clusters(self, n_clusters: int) -> KMeansFit:
        """The same fit with another number of clusters, from 1 to the number of released cells.

        The centers follow from the released cells at no further price. The certificate is the same, and it matches the
        new fit, because it was issued for the value that the new centers were computed from.
        """
        k, model = validate.count("n_clusters", n_clusters), self._model
        if model is None:
            raise ArgumentError("this release has no cells to merge. Fit again with the number of clusters you want.")
        if k > len(model.cells):
            raise ArgumentError(
                f"n_clusters={k} is more than the {len(model.cells)} released cells. Pass at most that number, or fit "
                "again."
            )
        released = self._released
        if k == len(released.centers):
            return replace(self, value=released)
        value, center = model.value(model.centers(k)), self.plan.ball.center
        centers = value.centers if center is None else value.centers + np.asarray(center)
        return replace(self, value=replace(value, centers=centers, cells=released.cells, released=released))

    @cached_property
    def _model(self) -> CellModel | None:
        """Points that stand for the rows of the released cells."""
        mechanism, plan, cells = self.mechanism, self.plan, self.value.cells
        if cells is None:
            return None
        return CellModel(
            cells=cells if plan.ball.center is None else replace(cells, centers=cells.centers - plan.ball.center),
            n_rows=mechanism.n_rows * self._max_rows,
            mean_square_norm=mechanism.mean_square_norm if mechanism.order == 2.0 else None,
            radius=plan.ball.radius,
        )


@dataclass(frozen=True, kw_only=True)
class Readability:
    """Which clusters and features of a released k-means stand above the noise. Public.

    Attributes
    ----------
    features : tuple of bool
        For each feature, whether any two centers with counts above their noise differ in it by more than the noise
        explains. A feature for which this is False is drowned: the noise is larger than all differences
        between the clusters.
    centers : tuple of bool
        For each center, whether its noisy count is above its noise and it differs from every other center in at least
        one feature by more than the noise explains.
    cells : array of bool of shape (k, d)
        Whether the coordinate of a center differs from the overall mean by more than two standard errors, and the
        count of the center is above its noise.
    """

    features: tuple[bool, ...]
    centers: tuple[bool, ...]
    cells: NDArray[np.bool_]

    @property
    def verdict(self) -> str:
        """One sentence: how many segments and features are readable."""
        parts = []
        for noun, readable in (("segment", self.centers), ("feature", self.features)):
            n, total = sum(readable), len(readable)
            if n == total:
                parts.append(f"{all_of(total)} {noun}s" if total > 1 else f"the only {noun}")
            else:
                parts.append(f"{n or 'none'} of {total} {noun}{'s' * (total != 1)}")
        return f"{' and '.join(parts)} are readable above the noise"


def readability_of(value: KMeansValue, *, count_noise: float, radius: float) -> Readability | None:
    """Compare the differences between centers with their standard errors; None if these are not known.

    Parameters
    ----------
    value : KMeansValue
    count_noise : float
        Standard deviation of the noise of each count.
    radius : float
        Radius of the ball. A coordinate with a standard error of the whole radius is unknown.

    Notes
    -----
    A difference of two centers in one feature is compared with its standard error. Its threshold is about two standard
    errors for one comparison, and more for many: the probability that noise alone exceeds it anywhere among the pairs
    of centers (for a feature) or among the features (for a pair of centers) is at most 5 %.
    """
    errors = value.standard_errors
    if errors is None:
        return None
    k, d = value.centers.shape
    # If the count of a center is within its noise, its standard errors say little too.
    counted = value.noisy_counts > CLEAR * count_noise
    known = (errors < radius) & counted[:, None]
    features, centers, largest = np.any(known, axis=0), np.any(known, axis=1), np.zeros(d)
    for center in range(k):
        # In standard errors. One center at a time, because all pairs of very many centers would not fit into memory.
        difference = np.abs(value.centers - value.centers[center])
        score = difference / np.maximum(np.hypot(errors, errors[center]), 1e-300)
        if counted[center]:
            largest = np.maximum(largest, score[counted].max(axis=0))
        centers[center] &= bool(np.delete(score.max(axis=1) > threshold(d), center).all())
    if k > 1:
        features &= largest > threshold(k * (k - 1) // 2)
    mean = np.average(value.centers, axis=0, weights=np.maximum(value.noisy_counts, 1e-9))
    cells = known & (np.abs(value.centers - mean) > CLEAR * errors)
    return Readability(features=tuple(features.tolist()), centers=tuple(centers.tolist()), cells=cells)


def threshold(comparisons: int) -> float:
    """Largest score that noise alone reaches in this many comparisons."""
    return max(CLEAR, float(-ndtri(_ERROR_RATE / (2.0 * comparisons))))


def readability_concern(readable: Readability, names: tuple[str, ...] | None) -> str | None:
    """Return a warning text if nothing is readable, or if named features are drowned and bounds would help; or None."""
    if not any(readable.features):
        nothing = (
            "no two centers differ by more than the noise" if len(readable.centers) > 1 else "the center is a guess"
        )
        return (
            f"noise hides the clusters: {nothing}. Raise epsilon, use fewer columns or tighter bounds, or collect more "
            "rows."
        )
    drowned = [] if names is None else [name for name, clear in zip(names, readable.features, strict=True) if not clear]
    if not drowned:
        return None
    shown = ", ".join(drowned[:_MOST_NAMES])
    rest = f" and {len(drowned) - _MOST_NAMES} more" if len(drowned) > _MOST_NAMES else ""
    return (
        f"noise drowns {len(drowned)} of {len(readable.features)} features: {shown}{rest}. No two centers differ in "
        "them by more than the noise, whose size is that of the largest columns. State public bounds, so that all "
        f"columns have one size, for example columns={{{drowned[0]!r}: (low, high), ...}}, or leave these columns out."
    )
