"""Which clusters and features of a released k-means stand above the noise, from released values only."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from pais._base.numerics import FloatArray
from pais.data.checks import all_of
from pais.mechanisms import KMeansValue

#: A single number is readable if it differs from another by more than this many standard errors.
CLEAR = 2.0

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
