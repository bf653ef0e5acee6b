"""Principal components of a noisy second moment: mean, directions and a spectrum without the bias of the noise.

All of it is computed from released and public values, so it costs no further privacy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import isotonic_regression

from pais._base.numerics import FloatArray
from pais._base.threads import one_blas_thread
from pais.data.ball import Ball
from pais.mechanisms.moments import MomentValue
from pais.privacy.norms import NormDistribution


@dataclass(frozen=True, kw_only=True)
class Clipping:
    """Public estimate of what clipping does to the moments of the rows.

    Attributes
    ----------
    variance : float
        Mean square norm of the rows over that of the clipped rows, in which a row scaled by f counts f^2.
    bias : float
        Largest distance between the mean of the clipped rows, in which a row scaled by f counts f^2, and that of all.
    """

    variance: float = 1.0
    bias: float = 0.0

    @classmethod
    def of(cls, norms: NormDistribution, ball: Ball) -> Clipping:
        """Clipping of rows with these norms, which do not include the constant coordinate of the ball."""
        norm, mass = norms.norms, norms.masses / norms.masses.sum()
        weight = np.minimum(1.0, ball.radius / np.maximum(np.hypot(norm, ball.constant), 1e-300)) ** 2
        share, square = float(mass @ weight), float(mass @ (weight * norm**2))
        if square == 0.0:
            return cls()
        return cls(
            variance=float(mass @ norm**2) / (square / share),
            bias=float(mass @ (np.abs(1.0 - weight / share) * norm)),
        )


@dataclass(frozen=True, kw_only=True)
class PrincipalComponents:
    """All principal components of a noisy second moment, the largest variance first.

    Attributes
    ----------
    mean : array of shape (d,)
        Mean of the rows, shrunk toward the center of the ball by its noise and by the bias of clipping.
    components : array of shape (d, d)
        One direction in each row, with its largest entry positive.
    variances : array of shape (d,)
        Estimated variance of the rows along each component. They are the noisy variances without the bias of the noise.
    noisy_variances : array of shape (d,)
        Eigenvalues of the noisy covariance matrix. The noise spreads them: the first are too large.
    standard_error : float
        Standard deviation of the noise of the variance along a given direction.
    """

    mean: FloatArray
    components: FloatArray
    variances: FloatArray
    noisy_variances: FloatArray
    standard_error: float

    @property
    def shares(self) -> FloatArray:
        """The variances as shares of their sum."""
        return np.asarray(self.variances / max(float(self.variances.sum()), 1e-300))

    @property
    def noise_level(self) -> float:
        """Largest eigenvalue that the noise has by itself, for many columns."""
        return math.sqrt(2.0 * len(self.mean)) * self.standard_error

    @property
    def above_noise(self) -> int:
        """Number of noisy variances above the noise level. The rows vary in at least so many directions."""
        return int(np.count_nonzero(self.noisy_variances > self.noise_level))

    def captured(self, n_components: int) -> float:
        """Predicted variance along the first components over that along the best of their number; noise only.

        The noise raises the first eigenvalues of the rows by as much as it lowers the variance along the directions
        that it turns. The best variance is therefore in the middle between the noisy and the estimated ones.
        """
        first = slice(n_components)
        estimate, noisy = float(self.variances[first].sum()), float(self.noisy_variances[first].sum())
        return 0.0 if estimate <= 0.0 else min(1.0, 2.0 * estimate / (estimate + noisy))

    def n_components_for(self, share: float) -> int:
        """Smallest number of components that have more than this share of the estimated variance."""
        together = np.cumsum(self.shares)
        return min(int(np.searchsorted(together, share, side="right")) + 1, len(together))


def principal_components(
    value: MomentValue, *, center: FloatArray, clipping: Clipping | None = None
) -> PrincipalComponents:
    """Principal components of rows from their noisy second moment about a center, which has a constant coordinate."""
    clipping = Clipping() if clipping is None else clipping
    moment, d = value.moment, len(value.moment) - 1
    # Below one deviation of its noise, the number of rows is unknown.
    count = max(value.noisy_count, value.scale / value.constant**2)
    offset = moment[-1, :-1] / (value.constant * count)
    error = value.scale / (math.sqrt(2.0) * value.constant * count)
    square = float(offset @ offset)
    kept = max(0.0, 1.0 - (d * error**2 + clipping.bias**2) / square) if square > 0.0 else 0.0
    # The scatter about the mean that is released.
    scatter = moment[:-1, :-1] - (2.0 - kept) * kept * count * np.outer(offset, offset)
    # For a matrix of this size, several BLAS threads only wait for each other.
    with one_blas_thread():
        eigenvalues, vectors = np.linalg.eigh(scatter)
    noisy, components = eigenvalues[::-1], vectors.T[::-1]
    largest = components[np.arange(d), np.argmax(np.abs(components), axis=1)]
    factor = clipping.variance / count
    return PrincipalComponents(
        mean=center + kept * offset,
        components=components * np.where(largest < 0.0, -1.0, 1.0)[:, None],
        variances=shrunk_spectrum(noisy, value.scale) * factor,
        noisy_variances=noisy * factor,
        standard_error=value.scale * factor,
    )


def shrunk_spectrum(noisy: FloatArray, scale: float) -> FloatArray:
    """Estimate v'Sv for each eigenvector v of S + W, from the eigenvalues of S + W in falling order.

    W is symmetric Gaussian noise of deviation `scale` on the diagonal and scale/sqrt(2) off it. The expectation of v'Wv
    is scale^2 times that of the sum of 1/(l - m) over the other eigenvalues m, where l is the eigenvalue of v: Stein's
    identity for the eigenvectors of a Gaussian matrix. Gaps below the noise of an entry are widened. The estimates are
    then moved to the nearest ones that fall and are not negative, and the last are cut so that they have the noisy
    trace, which is unbiased.
    """
    if scale == 0.0:
        return np.maximum(noisy, 0.0)
    eigenvalues = noisy / scale
    gaps = eigenvalues[:, None] - eigenvalues
    estimates = eigenvalues - (gaps / (gaps**2 + 0.5)).sum(axis=1)
    falling = np.maximum(isotonic_regression(estimates, increasing=False).x, 0.0)
    left = max(float(eigenvalues.sum()), 0.0) - (np.cumsum(falling) - falling)
    return np.asarray(np.minimum(falling, np.maximum(left, 0.0)) * scale)
