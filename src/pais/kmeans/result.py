"""The result of a private k-means: what its centers show, and the same fit with another number of clusters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from pais._base import validate
from pais._base.numerics import FloatArray
from pais.data.checks import all_of
from pais.data.kinds import Categories, Intervals
from pais.errors import ArgumentError
from pais.kmeans.labels import nearest
from pais.kmeans.mechanism import KMeans
from pais.kmeans.value import CellModel, Elbow, KMeansValue
from pais.planning.fit import CLEAR, Fit
from pais.privacy.guarantee import structure_concern

# Among many comparisons of noise with noise, the largest exceeds two standard errors. The probability that any of them
# exceeds the threshold stays below this.
_ERROR_RATE = 0.05


# Number of features that a warning names.
_MOST_NAMES = 8


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
    def drowned(self) -> tuple[int, ...]:
        """Indices of the features that the noise has drowned."""
        return tuple(index for index, readable in enumerate(self.features) if not readable)

    @property
    def verdict(self) -> str:
        """One sentence: how many segments and features are readable."""
        segments, features = _share(self.centers, "segment"), _share(self.features, "feature")
        return f"{segments} and {features} are readable above the noise"


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
        # One center at a time, because all pairs of very many centers would not fit into memory.
        score = _scores(value.centers, errors, center)
        if counted[center]:
            largest = np.maximum(largest, score[counted].max(axis=0))
        centers[center] &= bool(np.delete(score.max(axis=1) > threshold(d), center).all())
    if k > 1:
        features &= largest > threshold(k * (k - 1) // 2)
    mean = np.average(value.centers, axis=0, weights=np.maximum(value.noisy_counts, 1e-9))
    cells = known & (np.abs(value.centers - mean) > CLEAR * errors)
    return Readability(features=tuple(features.tolist()), centers=tuple(centers.tolist()), cells=cells)


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
    drowned = [] if names is None else [names[index] for index in readable.drowned]
    if not drowned:
        return None
    shown = ", ".join(drowned[:_MOST_NAMES])
    rest = f" and {len(drowned) - _MOST_NAMES} more" if len(drowned) > _MOST_NAMES else ""
    return (
        f"noise drowns {len(drowned)} of {len(readable.features)} features: {shown}{rest}. No two centers differ in "
        "them by more than the noise, whose size is that of the largest columns. State public bounds, so that all "
        f"columns have one size, for example columns={{{drowned[0]!r}: (low, high), ...}}, or leave these columns out."
    )


def _scores(centers: FloatArray, errors: FloatArray, center: int) -> FloatArray:
    """Difference of one center and each center in each feature, in standard errors, of shape (k, d)."""
    return np.asarray(np.abs(centers - centers[center]) / np.maximum(np.hypot(errors, errors[center]), 1e-300))


def threshold(comparisons: int) -> float:
    """Largest score that noise alone reaches in this many comparisons."""
    return max(CLEAR, float(-ndtri(_ERROR_RATE / (2.0 * comparisons))))


def _share(readable: tuple[bool, ...], noun: str) -> str:
    n, total = sum(readable), len(readable)
    nouns = noun if total == 1 else f"{noun}s"
    if n == total:
        return f"{all_of(total)} {nouns}" if total > 1 else f"the only {noun}"
    return f"{n} of {total} {nouns}" if n else f"none of {total} {nouns}"


# A column of categories is suspect if the listed ones have less than this share together.
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
        return readability_concern(self.readability, named) or self._category_concern or self._choice_concern

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
        assert isinstance(self.plan.mechanism, KMeans)
        return self.plan.mechanism

    @property
    def _category_concern(self) -> str | None:
        """Text of a warning if the centers say that hardly any row has one of the listed categories of a column."""
        if self.schema is None:
            return None
        shares = np.average(
            self.schema.decode(self.value.centers), axis=0, weights=np.maximum(self.value.noisy_counts, 1)
        )
        for column in self.schema.columns:
            place = [self.schema.labels.index(label) for label in column.labels]
            if isinstance(column, Categories) and float(shares[place].sum()) < _FEW_CATEGORIES:
                hint = "type of the column" if isinstance(column, Intervals) else "spelling; case counts"
                return f"hardly any row has one of the {column.kind} stated for {column.name!r}. Check the {hint}."
        return None

    @property
    def _choice_concern(self) -> str | None:
        """Text of a warning if the release chose the largest number of clusters that it was allowed."""
        most = self.mechanism.n_clusters
        if not self._chooses or len(self._released.centers) < most:
            return None
        return (
            f"n_clusters='auto' chose the largest number allowed, max_clusters={most}. Raise max_clusters, or state a "
            "number: compare the spreads within segments in elbow_."
        )

    @cached_property
    def readability(self) -> Readability | None:
        """Which clusters and features stand above the noise, from released values; None without errors."""
        return readability_of(self.value, count_noise=self.count_noise, radius=self.plan.ball.radius)

    @property
    def count_noise(self) -> float:
        """Standard deviation of the noise of each noisy count ."""
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
    def column_spread(self) -> FloatArray | None:
        """Standard deviation of each feature over all rows, as the release shows it; None if it does not.

        It is that of the vectors, before they are decoded to own units.
        """
        cells = self.value.cells
        return None if cells is None else np.sqrt(np.square(cells.spread).sum(axis=0))

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
        return replace(elbow, suggested=len(self._released.centers)) if self._chooses else elbow

    @property
    def _released(self) -> KMeansValue:
        """The value that was released, before another number of clusters was asked for."""
        return self.value.released or self.value

    @property
    def _chooses(self) -> bool:
        """Whether the release chose the number of clusters."""
        return self.mechanism.choose

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
        value = replace(model.merged(k).value.moved(self._origin), cells=released.cells, released=released)
        return replace(self, value=value)

    @property
    def _origin(self) -> FloatArray:
        center = self.plan.ball.center
        return np.zeros(self.value.centers.shape[1]) if center is None else np.asarray(center)

    @cached_property
    def _model(self) -> CellModel | None:
        """Points that stand for the rows of the released cells."""
        mechanism, plan = self.mechanism, self.plan
        if self.value.cells is None:
            return None
        cells = self.value.moved(-self._origin).cells
        assert cells is not None
        return CellModel(
            cells=cells,
            n_rows=mechanism.n_rows * self._max_rows,
            mean_square_norm=mechanism.mean_square_norm if mechanism.order == 2.0 else None,
            radius=plan.ball.radius,
        )
