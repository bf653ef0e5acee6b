"""Estimators with the interface of scikit-learn."""

from pais.estimators.kmeans import DPKMeans
from pais.estimators.linear import DPLinearRegression
from pais.estimators.logistic import DPLogisticRegression
from pais.estimators.pca import DPPCA

__all__ = ["DPPCA", "DPKMeans", "DPLinearRegression", "DPLogisticRegression"]
