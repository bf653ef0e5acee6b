from ._base.lattice import Lattice as Lattice
from ._version import __version__ as __version__
from .accounting import (
    Budget as Budget,
    Certificate as Certificate,
    Ledger as Ledger,
    Part as Part,
    Release as Release,
)
from .auditing import (
    AuditReport as AuditReport,
    NeighbourPair as NeighbourPair,
    ReplayReport as ReplayReport,
    audit as audit,
)
from .data.ball import Ball as Ball
from .data.checking import Check as Check, check as check
from .data.cost import cost as cost
from .data.dialect import CSVFile as CSVFile
from .data.example import example_people as example_people
from .data.intervals import (
    days as days,
    months as months,
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
from .estimators import (
    DPPCA as DPPCA,
    DPKMeans as DPKMeans,
    DPLinearRegression as DPLinearRegression,
    DPLogisticRegression as DPLogisticRegression,
)
from .mechanisms import (
    AdaptiveRounds as AdaptiveRounds,
    Elbow as Elbow,
    Extent as Extent,
    GaussianNoise as GaussianNoise,
    GeometricNoise as GeometricNoise,
    Grid as Grid,
    GridQuantiles as GridQuantiles,
    Joint as Joint,
    KMeans as KMeans,
    KMeansValue as KMeansValue,
    LogisticRounds as LogisticRounds,
    LogisticValue as LogisticValue,
    LpNoise as LpNoise,
    MeanValue as MeanValue,
    Mechanism as Mechanism,
    MomentSum as MomentSum,
    MomentValue as MomentValue,
    NoiseLaw as NoiseLaw,
    PrincipalComponents as PrincipalComponents,
    QuantileValue as QuantileValue,
    ReleasedCells as ReleasedCells,
    VectorStatistic as VectorStatistic,
    VectorSum as VectorSum,
    WeightedCount as WeightedCount,
    WeightedMean as WeightedMean,
    WeightedSum as WeightedSum,
    gaussian_noise as gaussian_noise,
    geometric_noise as geometric_noise,
    laplace_noise as laplace_noise,
)
from .norm_survey import survey as survey
from .pipeline import fit as fit, release as release, run as run
from .planning import (
    Facts as Facts,
    KMeansFit as KMeansFit,
    KMeansSettings as KMeansSettings,
    PCASettings as PCASettings,
    Plan as Plan,
    Readability as Readability,
    Survey as Survey,
    plan_kmeans as plan_kmeans,
    record_losses as record_losses,
)
from .privacy.amplification import (
    amplified_delta as amplified_delta,
    amplified_epsilon as amplified_epsilon,
    epsilon_at_delta as epsilon_at_delta,
)
from .privacy.calibration import Calibration as Calibration, calibrate as calibrate
from .privacy.certify import WorstCase as WorstCase, worst_case as worst_case, worst_case_if_kept as worst_case_if_kept
from .privacy.norms import NormDistribution as NormDistribution
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
    Rule as Rule,
    UniformRule as UniformRule,
    constrained_weight as constrained_weight,
    not_private_variance_optimal as not_private_variance_optimal,
)
from .sampler import WeightedSample as WeightedSample, sample as sample
from .statistics import (
    Statistic as Statistic,
    count as count,
    count_people as count_people,
    covariance as covariance,
    describe as describe,
    histogram as histogram,
    mean as mean,
    quantile as quantile,
    sum as sum,  # noqa: A004  # the name of the statistic in pandas and NumPy
    variance as variance,
)
