"""Private k-means on one weighted sample."""

from pais.mechanisms.kmeans.lloyd import Round
from pais.mechanisms.kmeans.mechanism import KMeans, KMeansValue

__all__ = ["KMeans", "KMeansValue", "Round"]
