"""Predicted quality of a private k-means: its cost over that of k-means without noise, from public and released values.

The prediction is rough. Where the noise limits the result, it is within a factor of a few of the measured excess. It is
far too low if a few extreme rows carry much of the cost, because neither the survey nor the rounds see them, and if
noise hides small separated clusters. So a prediction near 1 does not prove that the result is good.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from pais._base.numerics import FloatArray
from pais.data.ball import Ball
from pais.mechanisms import KMeans, KMeansValue
from pais.privacy.norms import NormDistribution
from pais.privacy.rules import Rule

N = TypeVar("N", float, FloatArray)

# Wrong centers also attract wrong rows: a factor on the squared noise of the centers, from measurements.
_ROWS_FOLLOW = 4.0

# Typical excess cost of a local optimum, which k-means finds with and without privacy.
_LOCAL_OPTIMUM = 0.01

# Rows that are not in the sample cost about one row of each cluster for each mean weight beyond 1. The excess over the
# best of several runs is this many times as much.
_SAMPLING_FACTOR = 3.0

# Cost of the best centers over the mean square norm, as long as nothing is released.
_WITHIN = 0.25

#: Noise cannot cost more than giving up all clusters, because every row takes its nearest center.
MOST_NOISE = 1.0 / _WITHIN - 1.0

# Decimal places of a prediction in files and texts.
_DIGITS = 5

# The least share that released centers can show: below it, the difference of two noisy numbers is too small.
_LEAST_WITHIN = 0.01


@dataclass(frozen=True, kw_only=True)
class Quality:
    """Predicted cost of private centers over the cost of the best centers, minus 1, by cause. Public.

    Attributes
    ----------
    noise : float
        Part of the noise on the centers.
    sampling : float
        Part of the rows that are not in the sample.
    clipping : float, optional
        Part of the rows that are clipped to the ball. None if the plan did not choose the radius.
    search : float
        Part of the local optimum in which k-means ends, private or not.
    """

    noise: float
    sampling: float
    clipping: float | None
    search: float = _LOCAL_OPTIMUM

    @property
    def ratio(self) -> float:
        """Predicted cost over the cost of the best centers."""
        return 1.0 + self.noise + self.sampling + (self.clipping or 0.0) + self.search

    def to_dict(self) -> dict[str, Any]:
        """The prediction as a dictionary, for files, without digits that only rounding errors decide."""
        return {
            "predicted_cost_over_best": round(self.ratio, _DIGITS),
            "noise": round(self.noise, _DIGITS),
            "sampling": round(self.sampling, _DIGITS),
            "clipping": None if self.clipping is None else round(self.clipping, _DIGITS),
            "search": self.search,
        }

    def __str__(self) -> str:
        parts = ", ".join(f"{cause} {_percent(getattr(self, cause))}" for cause in ("noise", "sampling", "clipping"))
        start = "spread within segments" + (" about" if self.clipping is not None else " at least about")
        ratio = f"{self.ratio:.2f}" if self.ratio < 10.0 else f"{self.ratio:.3g}"
        return f"{start} {ratio} times that of k-means without noise ({parts})"


def _percent(share: float | None) -> str:
    if share is None:
        return "not predicted, since the plan did not choose the radius"
    return f"{100.0 * share:.0f} %" if share >= 0.01 else "below 1 %"


def predicted_quality(
    mechanism: KMeans,
    rule: Rule,
    norms: NormDistribution,
    *,
    clipping: float | None,
    value: KMeansValue | None,
    ball: Ball,
) -> Quality | None:
    """Predict the quality of a plan, or of a fit if its released value is given; None for the algorithm of the paper.

    A center of n/k rows has the noise of the polishing rounds together. Its clip is about the mean distance of its
    rows, so the noise over the cost does not depend on that distance. `clipping` is the mean square length cut off.
    """
    rounds = mechanism.residual_rounds
    if not rounds:
        return None
    k = mechanism.n_clusters if value is None else len(value.centers)
    d, n = mechanism.n_features, norms.n_rows
    polishing = rounds[min(mechanism.explore, len(rounds) - 1) :]
    precision = sum(round_.residual_noise.deviation(d) ** -2 for round_ in polishing)
    reach = float(rounds[-1].reach(np.array([min(norms.mean_square_norm**0.5, norms.radius)]))[0])
    noise = noise_excess(n_clusters=k, n_features=d, rows_reached=n * reach, precision=precision)
    within = _WITHIN if value is None else _share_within(value, norms, ball)
    return Quality(
        noise=min(noise, 1.0 / within - 1.0),
        sampling=sampling_excess(k, n, norms.mean_weight(rule)),
        clipping=None if clipping is None else clipping / (within * _mean_square_norm(norms)),
    )


def sampling_excess(n_clusters: int, n_rows: float, mean_weight: N) -> N:
    """Predicted excess cost of the rows that are not in the sample, by the mean weight 1/probability of all rows."""
    return _SAMPLING_FACTOR * n_clusters * (mean_weight - 1.0) / n_rows


def noise_excess(*, n_clusters: int, n_features: int, rows_reached: float, precision: float) -> float:
    """Predicted excess cost of noise of this precision on each coordinate of a residual sum, in units of the clip."""
    return _ROWS_FOLLOW * n_features * (n_clusters / rows_reached) ** 2 / precision


def plain_noise_excess(*, n_clusters: int, n_features: int, n_rows: float, deviation: float) -> float:
    """The same for noisy sums of rows, where the deviation is in units of the root mean square norm."""
    return _ROWS_FOLLOW * n_features * (n_clusters / n_rows * deviation) ** 2 / _WITHIN


def _share_within(value: KMeansValue, norms: NormDistribution, ball: Ball) -> float:
    """Cost of the released centers per row over the mean square norm: what the centers leave of it."""
    origin = 0.0 if ball.center is None else np.asarray(ball.center)
    mass = np.maximum(value.noisy_counts, 1e-9)
    explained = float(np.average(np.square(value.centers - origin).sum(axis=1), weights=mass))
    # If noise hides clusters, the centers do not show what the best centers would leave.
    most = 1.0 if value.effective_centers == len(value.centers) else _WITHIN
    return float(np.clip(1.0 - explained / _mean_square_norm(norms), _LEAST_WITHIN, most))


def _mean_square_norm(norms: NormDistribution) -> float:
    """Mean square of the norms; never zero."""
    return max(norms.mean_square_norm, 1e-12 * norms.radius**2)
