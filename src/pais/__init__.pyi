from . import training as training
from ._base.lattice import Lattice as Lattice
from ._version import __version__ as __version__
from .accounting.certificate import Certificate as Certificate, Release as Release
from .accounting.ledger import Ledger as Ledger
from .accounting.part import Budget as Budget, Part as Part
from .auditing.auditor import audit as audit
from .auditing.pairs import NeighbourPair as NeighbourPair
from .auditing.replay import ReplayReport as ReplayReport
from .auditing.runs import AuditReport as AuditReport
from .data.ball import Ball as Ball
from .data.checking import Check as Check, check as check
from .data.dialect import CSVFile as CSVFile
from .data.example import example_people as example_people
from .data.kinds import (
    days as days,
    months as months,
    names as names,
    quarters as quarters,
    ranges as ranges,
    weeks as weeks,
    years as years,
)
from .data.schema import Schema as Schema
from .data.sources import source as source
from .errors import (
    ArgumentError as ArgumentError,
    AssumptionError as AssumptionError,
    BudgetError as BudgetError,
    ConvergenceError as ConvergenceError,
    DataError as DataError,
    MismatchError as MismatchError,
    NotProtectedError as NotProtectedError,
    PaisError as PaisError,
    PrivacyWarning as PrivacyWarning,
    QualityWarning as QualityWarning,
    SpentError as SpentError,
    SurveyWarning as SurveyWarning,
    UnreachableError as UnreachableError,
)
from .kmeans.estimator import DPKMeans as DPKMeans
from .kmeans.labels import cost as cost
from .kmeans.mechanism import KMeans as KMeans
from .kmeans.planning import KMeansSettings as KMeansSettings, plan_kmeans as plan_kmeans
from .kmeans.result import (
    Elbow as Elbow,
    KMeansFit as KMeansFit,
    KMeansValue as KMeansValue,
    Readability as Readability,
    ReleasedCells as ReleasedCells,
)
from .linear.estimator import DPLinearRegression as DPLinearRegression
from .logistic.estimator import DPLogisticRegression as DPLogisticRegression
from .logistic.mechanism import LogisticRounds as LogisticRounds, LogisticValue as LogisticValue
from .mechanisms.base import Extent as Extent, Mechanism as Mechanism
from .mechanisms.blocks import VectorStatistic as VectorStatistic
from .mechanisms.moments import MomentSum as MomentSum, MomentValue as MomentValue
from .mechanisms.noise import (
    GaussianNoise as GaussianNoise,
    GeometricNoise as GeometricNoise,
    LpNoise as LpNoise,
    NoiseLaw as NoiseLaw,
    gaussian_noise as gaussian_noise,
    geometric_noise as geometric_noise,
    laplace_noise as laplace_noise,
)
from .mechanisms.sums import (
    Joint as Joint,
    MeanValue as MeanValue,
    WeightedCount as WeightedCount,
    WeightedMean as WeightedMean,
    WeightedSum as WeightedSum,
)
from .mechanisms.vectors import AdaptiveRounds as AdaptiveRounds, VectorSum as VectorSum
from .pca.components import PCASettings as PCASettings, PrincipalComponents as PrincipalComponents
from .pca.estimator import DPPCA as DPPCA
from .pipeline import WeightedSample as WeightedSample, fit as fit, release as release, run as run, sample as sample
from .planning.explain import record_losses as record_losses
from .planning.facts import Facts as Facts, Survey as Survey
from .planning.norm_survey import survey as survey
from .planning.plan import Plan as Plan
from .privacy.amplification import (
    amplified_delta as amplified_delta,
    amplified_epsilon as amplified_epsilon,
    epsilon_at_delta as epsilon_at_delta,
)
from .privacy.calibration import Calibration as Calibration, calibrate as calibrate
from .privacy.certify import WorstCase as WorstCase, worst_case as worst_case, worst_case_if_kept as worst_case_if_kept
from .privacy.profiles import (
    Assumptions as Assumptions,
    CustomProfile as CustomProfile,
    CustomShiftProfile as CustomShiftProfile,
    Finding as Finding,
    GaussianProfile as GaussianProfile,
    LinearProfile as LinearProfile,
    PowerProfile as PowerProfile,
    Profile as Profile,
    PureProfile as PureProfile,
    ShiftProfile as ShiftProfile,
    Verdict as Verdict,
)
from .privacy.rules import (
    ConstrainedRule as ConstrainedRule,
    CoresetRule as CoresetRule,
    FunctionRule as FunctionRule,
    NormDistribution as NormDistribution,
    Rule as Rule,
    UniformRule as UniformRule,
    not_private_variance_optimal as not_private_variance_optimal,
)
from .privacy.weights import constrained_weight as constrained_weight
from .statistics.functions import (
    count as count,
    count_people as count_people,
    covariance as covariance,
    describe as describe,
    histogram as histogram,
    mean as mean,
    sum as sum,  # noqa: A004  # the name of the statistic in pandas and NumPy
    top as top,
    variance as variance,
)
from .statistics.quantile import (
    Grid as Grid,
    GridQuantiles as GridQuantiles,
    QuantileValue as QuantileValue,
    quantile as quantile,
)
from .statistics.result import Statistic as Statistic
