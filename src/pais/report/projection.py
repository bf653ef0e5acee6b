"""Released centers in two dimensions: principal directions, the noise along them, and what the directions mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pais._base.numerics import FloatArray

# A column is named for a direction if it has at least this share of the largest weight.
_NAMED_FROM = 0.35


@dataclass(frozen=True, kw_only=True)
class Projection:
    """Centers on two principal directions. It is computed from released values only.

    Attributes
    ----------
    points : array of shape (k, 2)
        Centers relative to their mean, along the two directions.
    covariances : array of shape (k, 2, 2)
        Covariance of each point due to noise; zero if the standard errors are not known.
    directions : array of shape (2, d)
        Orthogonal unit vectors, or zero where the centers have no second direction.
    shares : array of shape (2,)
        Share of the spread between the centers that each direction shows.
    """

    points: FloatArray
    covariances: FloatArray
    directions: FloatArray
    shares: FloatArray

    def ellipse(self, index: int, deviations: float = 2.0) -> tuple[float, float, float]:
        """Half axes of the error ellipse of a center and the angle of the first one, in radians."""
        squares, axes = np.linalg.eigh(self.covariances[index])
        long, short = deviations * np.sqrt(np.maximum(squares[::-1], 0.0))
        return float(long), float(short), float(np.arctan2(axes[1, 1], axes[0, 1]))

    def words(self, axis: int, names: Sequence[str], *, dates: Sequence[str] = (), most: int = 3) -> str:
        """The columns that dominate a direction, and whether they rise or fall along it; `dates` get later."""
        return direction_in_words(self.directions[axis], names, dates=dates, most=most)


def direction_in_words(weights: FloatArray, names: Sequence[str], *, dates: Sequence[str] = (), most: int = 3) -> str:
    """The columns with the largest weights of a direction, and whether they rise or fall along it."""
    size = np.abs(weights)
    if size.max(initial=0.0) == 0.0:
        return ""
    order = [j for j in np.argsort(-size, kind="stable")[:most].tolist() if size[j] >= _NAMED_FROM * size.max()]
    pairs = dict.fromkeys(dates, ("later", "earlier"))
    return ", ".join(f"{pairs.get(names[j], ('more', 'less'))[int(weights[j] < 0.0)]} {names[j]}" for j in order)


def project(centers: FloatArray, noisy_counts: FloatArray, errors: FloatArray | None = None) -> Projection:
    """Project centers on the two directions in which they spread most, weighted by their noisy counts.

    Parameters
    ----------
    centers : array of shape (k, d)
    noisy_counts : array of shape (k,)
    errors : array of shape (k, d) or (k,), optional
        Standard errors of the coordinates.
    """
    k, d = centers.shape
    weights = np.maximum(noisy_counts, 0.0)
    weights = weights / weights.sum() if weights.sum() > 0.0 else np.full(k, 1.0 / k)
    away = centers - weights @ centers
    _, lengths, rows = np.linalg.svd(np.sqrt(weights)[:, None] * away, full_matrices=False)
    directions, squares = np.zeros((2, d)), np.zeros(2)
    for axis in range(min(2, len(lengths))):
        if lengths[axis] > 1e-12 * max(lengths[0], 1e-300):
            # The sign of a principal direction is arbitrary: the largest weight is positive.
            directions[axis] = rows[axis] * np.sign(rows[axis][np.argmax(np.abs(rows[axis]))])
            squares[axis] = lengths[axis] ** 2
    variances = np.zeros((k, d)) if errors is None else np.square(np.broadcast_to(errors.reshape(k, -1), (k, d)))
    return Projection(
        points=away @ directions.T,
        covariances=np.einsum("ai,ki,bi->kab", directions, variances, directions),
        directions=directions,
        shares=squares / max(float(np.square(lengths).sum()), 1e-300),
    )
