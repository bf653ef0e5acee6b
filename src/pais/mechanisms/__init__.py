"""Room 6: weighted, noised computations."""

from pais.mechanisms.noise import GaussianNoise, LpNoise, NoiseLaw, laplace_noise
from pais.mechanisms.sums import Joint, MeanValue, Mechanism, WeightedCount, WeightedMean, WeightedSum

__all__ = [
    "GaussianNoise",
    "Joint",
    "LpNoise",
    "MeanValue",
    "Mechanism",
    "NoiseLaw",
    "WeightedCount",
    "WeightedMean",
    "WeightedSum",
    "laplace_noise",
]
