"""Estimators with the interface of scikit-learn."""

from pais.estimators.kmeans import DPKMeans

__all__ = ["DPKMeans"]
