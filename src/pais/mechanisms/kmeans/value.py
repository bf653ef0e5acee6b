"""The released value of a private k-means: centers, noisy counts, and results of its rounds at no further price."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from pais._base.numerics import FloatArray


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
