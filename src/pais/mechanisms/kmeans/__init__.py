"""Private k-means on one weighted sample."""

from pais.mechanisms.kmeans.elbow import CellModel, Elbow, ElbowPoint
from pais.mechanisms.kmeans.lloyd import Round
from pais.mechanisms.kmeans.mechanism import KMeans
from pais.mechanisms.kmeans.moment import SecondMoment
from pais.mechanisms.kmeans.residual import ResidualRound
from pais.mechanisms.kmeans.value import KMeansValue, ReleasedCells

__all__ = [
    "CellModel",
    "Elbow",
    "ElbowPoint",
    "KMeans",
    "KMeansValue",
    "ReleasedCells",
    "ResidualRound",
    "Round",
    "SecondMoment",
]
