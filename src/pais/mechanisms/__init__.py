"""Mechanisms: computations on weighted rows that add noise."""

from pais.mechanisms.base import Extent, Mechanism
from pais.mechanisms.exact_price import exact_epsilon
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
from pais.mechanisms.moments import MomentSum, MomentValue
from pais.mechanisms.noise import GaussianNoise, LpNoise, NoiseLaw, gaussian_noise, laplace_noise
from pais.mechanisms.regression import LinearValue, linear_regression
from pais.mechanisms.sums import Joint, MeanValue, WeightedCount, WeightedMean, WeightedSum

__all__ = [
    "CellModel",
    "Elbow",
    "ElbowPoint",
    "Extent",
    "GaussianNoise",
    "Joint",
    "KMeans",
    "KMeansValue",
    "LinearValue",
    "LpNoise",
    "MeanValue",
    "Mechanism",
    "MomentSum",
    "MomentValue",
    "NoiseLaw",
    "ReleasedCells",
    "ResidualRound",
    "Round",
    "SecondMoment",
    "WeightedCount",
    "WeightedMean",
    "WeightedSum",
    "exact_epsilon",
    "gaussian_noise",
    "laplace_noise",
    "linear_regression",
]
