"""Differentially private analysis: a small weighted sample, a private result, a certificate.

The path of the data::

    rows ─► ball ─► profile ─► rule ─► sampler ─► mechanism ─► release
    secret  bounded  cost(w)   q(norm)  rows, 1/q  noised       value + certificate

A `Ball` bounds the rows. A profile gives the privacy loss of a record from its norm and its weight. A rule turns the
profile into an inclusion probability, and `sample` keeps each row with that probability. A mechanism computes on the
sample and adds noise. `release` returns the noised value with a `Certificate` of the worst loss of any record.
`calibrate` computes noise, sample size or guarantee from the other two. `run` executes all stages of a `Plan`.
`DPKMeans` is the main entry point: it surveys the facts that the user does not state, plans, and runs.
"""

from pais._version import __version__
from pais.accounting import Budget, Ledger
from pais.amplification import amplified_delta, amplified_epsilon, epsilon_at_delta
from pais.auditing import AuditReport, NeighbourPair, audit
from pais.calibration import Calibration, calibrate
from pais.certify import WorstCase, worst_case, worst_case_if_kept
from pais.domain import Ball
from pais.engines import source
from pais.errors import (
    ArgumentError,
    AssumptionError,
    BudgetError,
    ConvergenceError,
    DataError,
    MismatchError,
    PaisError,
    PrivacyWarning,
    SpentError,
    SurveyWarning,
    UnreachableError,
)
from pais.estimators import DPKMeans
from pais.evaluation import cost
from pais.kmeans import KMeansFit, KMeansSettings, private_kmeans
from pais.mechanisms import (
    GaussianNoise,
    Joint,
    KMeans,
    KMeansValue,
    LpNoise,
    MeanValue,
    WeightedCount,
    WeightedMean,
    WeightedSum,
    laplace_noise,
)
from pais.norms import NormDistribution
from pais.pipeline import Plan, record_losses, release, run
from pais.planning import plan_kmeans
from pais.profiles import (
    Assumptions,
    CustomProfile,
    Finding,
    GaussianProfile,
    LinearProfile,
    PowerProfile,
    Verdict,
)
from pais.release import Certificate, Release, Spent
from pais.rules import (
    ConstrainedRule,
    CoresetRule,
    FunctionRule,
    Rule,
    UniformRule,
    constrained_weight,
    not_private_variance_optimal,
)
from pais.sampler import WeightedSample, sample
from pais.survey import Survey, survey

__all__ = [
    "ArgumentError",
    "AssumptionError",
    "Assumptions",
    "AuditReport",
    "Ball",
    "Budget",
    "BudgetError",
    "Calibration",
    "Certificate",
    "ConstrainedRule",
    "ConvergenceError",
    "CoresetRule",
    "CustomProfile",
    "DPKMeans",
    "DataError",
    "Finding",
    "FunctionRule",
    "GaussianNoise",
    "GaussianProfile",
    "Joint",
    "KMeans",
    "KMeansFit",
    "KMeansSettings",
    "KMeansValue",
    "Ledger",
    "LinearProfile",
    "LpNoise",
    "MeanValue",
    "MismatchError",
    "NeighbourPair",
    "NormDistribution",
    "PaisError",
    "Plan",
    "PowerProfile",
    "PrivacyWarning",
    "Release",
    "Rule",
    "Spent",
    "SpentError",
    "Survey",
    "SurveyWarning",
    "UniformRule",
    "UnreachableError",
    "Verdict",
    "WeightedCount",
    "WeightedMean",
    "WeightedSample",
    "WeightedSum",
    "WorstCase",
    "__version__",
    "amplified_delta",
    "amplified_epsilon",
    "audit",
    "calibrate",
    "constrained_weight",
    "cost",
    "epsilon_at_delta",
    "laplace_noise",
    "not_private_variance_optimal",
    "plan_kmeans",
    "private_kmeans",
    "record_losses",
    "release",
    "run",
    "sample",
    "source",
    "survey",
    "worst_case",
    "worst_case_if_kept",
]
