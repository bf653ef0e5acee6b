"""Mechanisms: computations on weighted rows that add noise."""

from pais.mechanisms.base import Extent, Mechanism
from pais.mechanisms.exact_price import exact_epsilon
from pais.mechanisms.integer_noise import GeometricNoise, geometric_noise
from pais.mechanisms.kmeans import (
    CellModel,
    Elbow,
    ElbowPoint,
    KMeans,
    KMeansValue,
    ReleasedCells,
    ResidualRound,
    Round,
    SecondMoment,
)
from pais.mechanisms.logistic import LogisticRounds, LogisticValue
from pais.mechanisms.moments import MomentSum, MomentValue
from pais.mechanisms.noise import GaussianNoise, LpNoise, NoiseLaw, gaussian_noise, laplace_noise
from pais.mechanisms.pca import Clipping, PrincipalComponents, Sampling, principal_components
from pais.mechanisms.quantiles import Grid, GridQuantiles, QuantileValue
from pais.mechanisms.regression import LinearValue, Reweighting, linear_regression
from pais.mechanisms.sums import Joint, MeanValue, WeightedCount, WeightedMean, WeightedSum
from pais.mechanisms.vector_statistic import VectorStatistic
from pais.mechanisms.vectors import AdaptiveRounds, VectorSum

__all__ = [
    "AdaptiveRounds",
    "CellModel",
    "Clipping",
    "Elbow",
    "ElbowPoint",
    "Extent",
    "GaussianNoise",
    "GeometricNoise",
    "Grid",
    "GridQuantiles",
    "Joint",
    "KMeans",
    "KMeansValue",
    "LinearValue",
    "LogisticRounds",
    "LogisticValue",
    "LpNoise",
    "MeanValue",
    "Mechanism",
    "MomentSum",
    "MomentValue",
    "NoiseLaw",
    "PrincipalComponents",
    "QuantileValue",
    "ReleasedCells",
    "ResidualRound",
    "Reweighting",
    "Round",
    "Sampling",
    "SecondMoment",
    "VectorStatistic",
    "VectorSum",
    "WeightedCount",
    "WeightedMean",
    "WeightedSum",
    "exact_epsilon",
    "gaussian_noise",
    "geometric_noise",
    "laplace_noise",
    "linear_regression",
    "principal_components",
]
