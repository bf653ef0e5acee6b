"""The k-means cost of many center sets at once, in single precision, at about the price of its matrix product."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

Float32Array = NDArray[np.float32]
FloatArray = NDArray[np.float64]

# Scores of a block (centers x rows, float32) stay in the cache of one core.
_BLOCK_SCORES = 1 << 19


def mean_costs(rows: Float32Array, center_sets: FloatArray, weights: FloatArray | None = None) -> FloatArray:
    """Mean over all rows of the squared distance to the nearest center, for each set of centers.

    Parameters
    ----------
    rows : array of shape (n, d)
        Centered, so that single precision keeps what matters.
    center_sets : array of shape (sets, k, d)
        Center sets of one size.
    weights : array of shape (n,), optional
        With weights the result is the weighted sum, not the mean: an unbiased cost of all rows for a sample.

    Notes
    -----
    |x - c|^2 = |x|^2 - 2 (x.c - |c|^2 / 2): one product of the rows with all centers, a maximum over the k of each
    set, and a sum in double precision. Centers lie k-major, so that the maximum runs over whole rows of the block.
    """
    n_sets, k, d = center_sets.shape
    major = np.ascontiguousarray(center_sets.transpose(1, 0, 2).reshape(k * n_sets, d))
    half = (0.5 * np.einsum("ij,ij->i", major, major)).astype(np.float32)[:, None]
    centers = major.astype(np.float32)
    block = max(64, _BLOCK_SCORES // (k * n_sets))
    total = np.zeros(n_sets)
    scores = np.empty((k * n_sets, block), dtype=np.float32)
    with threadpool_limits(limits=1, user_api="blas"):
        for start in range(0, len(rows), block):
            part = rows[start : start + block]
            score = scores[:, : len(part)]
            np.matmul(centers, part.T, out=score)
            score -= half
            best = score.reshape(k, n_sets, len(part)).max(axis=0)
            if weights is None:
                total += best.sum(axis=1, dtype=np.float64)
            else:
                total += best @ weights[start : start + block]
    square = np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
    if weights is None:
        costs: FloatArray = (square.sum() - 2.0 * total) / len(rows)
    else:
        costs = weights @ square - 2.0 * total
    return np.maximum(costs, 0.0)
