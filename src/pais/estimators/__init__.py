"""Estimators with the interface of scikit-learn."""

from pais.estimators.kmeans import DPKMeans
from pais.estimators.linear import DPLinearRegression

__all__ = ["DPKMeans", "DPLinearRegression"]
