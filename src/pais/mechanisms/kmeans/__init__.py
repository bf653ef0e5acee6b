"""Private k-means on one weighted sample."""

from pais.mechanisms.kmeans.lloyd import Round
from pais.mechanisms.kmeans.mechanism import KMeans, KMeansValue
from pais.mechanisms.kmeans.moment import SecondMoment
from pais.mechanisms.kmeans.residual import ResidualRound

__all__ = ["KMeans", "KMeansValue", "ResidualRound", "Round", "SecondMoment"]
