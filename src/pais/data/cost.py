"""Quality of centers on rows, for the owner of the data. The results are not protected."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from pais._base import validate
from pais._base.numerics import FloatArray
from pais._base.threads import one_blas_thread
from pais.data.engines import Block, Fold
from pais.data.sources import source
from pais.errors import DataError

_PIECE_ROWS = 4096


def cost(rows: object, centers: ArrayLike) -> float:
    """Not private: sum of squared distances of the rows to their nearest centers.

    The result depends on every row and is meant for the owner of the data.

    Parameters
    ----------
    rows : array, table, path, Spark DataFrame or source
        Any input of `pais.source`, read in one pass. Rows that are not finite are left out.
    centers : array of shape (k, d)
        For rows with a schema, scaled vectors such as ``model.fit_.value.centers``.
    """
    engine = source(rows)
    points = validate.real_array("centers", centers)
    if points.ndim != 2 or points.shape[0] == 0 or points.shape[1] != engine.n_features:
        raise DataError(f"centers must have shape (k, {engine.n_features}) with k >= 1. Pass one row for each center.")
    # The engine already distributes blocks over threads.
    with one_blas_thread():
        return float(engine.fold(_Cost(centers=points), seeded=False)[0])


@dataclass(frozen=True, kw_only=True, eq=False)
class _Cost(Fold):
    """Squared distances to the nearest centers, computed from differences to stay accurate far from the origin."""

    uses_masses = True
    centers: FloatArray

    def of(self, block: Block) -> FloatArray:
        origin = self.centers.mean(axis=0)
        centers = self.centers - origin
        half = 0.5 * np.einsum("ij,ij->i", centers, centers)
        rows = block.rows()
        total = 0.0
        for start in range(0, len(rows), _PIECE_ROWS):
            part = rows[start : start + _PIECE_ROWS] - origin
            finite = np.isfinite(part).all(axis=1)
            part = part[finite]
            score = (part @ centers.T - half).max(axis=1)
            gap = np.einsum("ij,ij->i", part, part) - 2.0 * score
            gap = np.maximum(gap, 0.0)
            if block.masses is not None:
                gap *= block.masses[start : start + _PIECE_ROWS][finite] * block.mass_step
            total += float(gap.sum())
        return np.array([total])
