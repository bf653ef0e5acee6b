"""Mechanisms: computations on weighted rows that add noise."""

from pais.mechanisms.kmeans import KMeans, KMeansValue
from pais.mechanisms.lloyd import Round
from pais.mechanisms.noise import GaussianNoise, LpNoise, NoiseLaw, laplace_noise
from pais.mechanisms.sums import Extent, Joint, MeanValue, Mechanism, WeightedCount, WeightedMean, WeightedSum

__all__ = [
    "Extent",
    "GaussianNoise",
    "Joint",
    "KMeans",
    "KMeansValue",
    "LpNoise",
    "MeanValue",
    "Mechanism",
    "NoiseLaw",
    "Round",
    "WeightedCount",
    "WeightedMean",
    "WeightedSum",
    "laplace_noise",
]
