"""Plans: everything that is decided before a row is read."""

from pais.planning.facts import Facts, Survey
from pais.planning.fit import Fit
from pais.planning.kmeans import KMeansSettings, plan_kmeans
from pais.planning.losses import record_losses
from pais.planning.pca import PCASettings
from pais.planning.plan import AT_COST, Plan
from pais.planning.readability import Readability
from pais.planning.settings import Settings

#: The name of a fit of k-means.
KMeansFit = Fit

__all__ = [
    "AT_COST",
    "Facts",
    "Fit",
    "KMeansFit",
    "KMeansSettings",
    "PCASettings",
    "Plan",
    "Readability",
    "Settings",
    "Survey",
    "plan_kmeans",
    "record_losses",
]
