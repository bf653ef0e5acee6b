"""Distances of rows to centers, and the nearest center of each row. A row's result does not depend on other rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pais._base.numerics import FloatArray

#: Label of a row with a missing value, which has no nearest center.
NO_LABEL = -1

_PIECE_ROWS = 8192

Labels = NDArray[np.int32]


def square_distances(rows: NDArray[np.generic], centers: FloatArray) -> FloatArray:
    """Return the squared distance of each row to each center. It does not depend on the other rows."""
    distances = np.empty((rows.shape[0], centers.shape[0]))
    for start in range(0, rows.shape[0], _PIECE_ROWS):
        piece = rows[start : start + _PIECE_ROWS]
        for index, center in enumerate(centers):
            gap = piece - center
            distances[start : start + _PIECE_ROWS, index] = np.einsum("ij,ij->i", gap, gap)
    return distances


def nearest(rows: NDArray[np.generic], centers: FloatArray) -> Labels:
    """Return the number of the nearest center of each row, or -1 for a row that is not finite."""
    labels = np.full(rows.shape[0], NO_LABEL, dtype=np.int32)
    for start in range(0, rows.shape[0], _PIECE_ROWS):
        piece = rows[start : start + _PIECE_ROWS]
        with np.errstate(all="ignore"):
            best = square_distances(piece, centers).argmin(axis=1).astype(np.int32)
        labels[start : start + _PIECE_ROWS] = np.where(np.isfinite(piece).all(axis=1), best, NO_LABEL)
    return labels
