"""One-line statistics: private counts, sums, means, variances, histograms and covariances with a certificate."""

from pais.statistics.frames import Axis, Bin
from pais.statistics.functions import (
    count,
    covariance,
    describe,
    histogram,
    mean,
    sum,  # noqa: A004  # the name of the statistic in pandas and NumPy
    variance,
)
from pais.statistics.result import Statistic

__all__ = [
    "Axis",
    "Bin",
    "Statistic",
    "count",
    "covariance",
    "describe",
    "histogram",
    "mean",
    "sum",
    "variance",
]
