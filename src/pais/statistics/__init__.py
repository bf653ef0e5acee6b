"""One-line statistics with a certificate: counts, sums, means, variances, histograms, quantiles and covariances."""

from pais.statistics.functions import (
    count,
    count_people,
    covariance,
    describe,
    histogram,
    mean,
    sum,  # noqa: A004  # the name of the statistic in pandas and NumPy
    variance,
)
from pais.statistics.quantile import quantile
from pais.statistics.result import Statistic

__all__ = [
    "Statistic",
    "count",
    "count_people",
    "covariance",
    "describe",
    "histogram",
    "mean",
    "quantile",
    "sum",
    "variance",
]
