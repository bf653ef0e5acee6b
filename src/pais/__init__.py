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

from importlib import import_module
from typing import TYPE_CHECKING

from pais._version import __version__

if TYPE_CHECKING:
    from pais._base.lattice import Lattice as Lattice
    from pais.accounting import (
        Budget as Budget,
        Certificate as Certificate,
        Ledger as Ledger,
        Part as Part,
        Release as Release,
        Spent as Spent,
    )
    from pais.auditing import AuditReport as AuditReport, NeighbourPair as NeighbourPair, audit as audit
    from pais.data.ball import Ball as Ball
    from pais.data.cost import cost as cost
    from pais.data.sources import source as source
    from pais.errors import (
        ArgumentError as ArgumentError,
        AssumptionError as AssumptionError,
        BudgetError as BudgetError,
        ConvergenceError as ConvergenceError,
        DataError as DataError,
        MismatchError as MismatchError,
        PaisError as PaisError,
        PrivacyWarning as PrivacyWarning,
        SpentError as SpentError,
        SurveyWarning as SurveyWarning,
        UnreachableError as UnreachableError,
    )
    from pais.estimators import DPKMeans as DPKMeans
    from pais.mechanisms import (
        Extent as Extent,
        GaussianNoise as GaussianNoise,
        Joint as Joint,
        KMeans as KMeans,
        KMeansValue as KMeansValue,
        LpNoise as LpNoise,
        MeanValue as MeanValue,
        Mechanism as Mechanism,
        NoiseLaw as NoiseLaw,
        WeightedCount as WeightedCount,
        WeightedMean as WeightedMean,
        WeightedSum as WeightedSum,
        laplace_noise as laplace_noise,
    )
    from pais.norm_survey import survey as survey
    from pais.pipeline import private_kmeans as private_kmeans, release as release, run as run
    from pais.planning import (
        Facts as Facts,
        KMeansFit as KMeansFit,
        KMeansSettings as KMeansSettings,
        Plan as Plan,
        Survey as Survey,
        plan_kmeans as plan_kmeans,
        record_losses as record_losses,
    )
    from pais.privacy.amplification import (
        amplified_delta as amplified_delta,
        amplified_epsilon as amplified_epsilon,
        epsilon_at_delta as epsilon_at_delta,
    )
    from pais.privacy.calibration import Calibration as Calibration, calibrate as calibrate
    from pais.privacy.certify import (
        WorstCase as WorstCase,
        worst_case as worst_case,
        worst_case_if_kept as worst_case_if_kept,
    )
    from pais.privacy.norms import NormDistribution as NormDistribution
    from pais.privacy.profiles import (
        Assumptions as Assumptions,
        CustomProfile as CustomProfile,
        Finding as Finding,
        GaussianProfile as GaussianProfile,
        LinearProfile as LinearProfile,
        PowerProfile as PowerProfile,
        Profile as Profile,
        PureProfile as PureProfile,
        Verdict as Verdict,
    )
    from pais.privacy.rules import (
        ConstrainedRule as ConstrainedRule,
        CoresetRule as CoresetRule,
        FunctionRule as FunctionRule,
        Rule as Rule,
        UniformRule as UniformRule,
        constrained_weight as constrained_weight,
        not_private_variance_optimal as not_private_variance_optimal,
    )
    from pais.sampler import WeightedSample as WeightedSample, sample as sample

# The public names of each module. A module is imported when one of its names is first used: `import pais` is fast.
_HOMES = {
    "accounting": "Budget Certificate Ledger Part Release Spent",
    "auditing": "AuditReport NeighbourPair audit",
    "data.ball": "Ball",
    "data.cost": "cost",
    "data.sources": "source",
    "errors": (
        "ArgumentError AssumptionError BudgetError ConvergenceError DataError MismatchError PaisError "
        "PrivacyWarning SpentError SurveyWarning UnreachableError"
    ),
    "estimators": "DPKMeans",
    "_base.lattice": "Lattice",
    "mechanisms": (
        "Extent GaussianNoise Joint KMeans KMeansValue LpNoise MeanValue Mechanism NoiseLaw WeightedCount "
        "WeightedMean WeightedSum laplace_noise"
    ),
    "norm_survey": "survey",
    "pipeline": "private_kmeans release run",
    "planning": "Facts KMeansFit KMeansSettings Plan Survey plan_kmeans record_losses",
    "privacy.amplification": "amplified_delta amplified_epsilon epsilon_at_delta",
    "privacy.calibration": "Calibration calibrate",
    "privacy.certify": "WorstCase worst_case worst_case_if_kept",
    "privacy.norms": "NormDistribution",
    "privacy.profiles": (
        "Assumptions CustomProfile Finding GaussianProfile LinearProfile PowerProfile Profile PureProfile Verdict"
    ),
    "privacy.rules": (
        "ConstrainedRule CoresetRule FunctionRule Rule UniformRule constrained_weight not_private_variance_optimal"
    ),
    "sampler": "WeightedSample sample",
}
_MODULE_OF = {name: module for module, names in _HOMES.items() for name in names.split()}

__all__ = ["__version__", *_MODULE_OF]
__all__.sort(key=lambda name: (name.islower(), name))


def __getattr__(name: str) -> object:
    """Import a public name on first use."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'pais' has no attribute {name!r}")
    value = getattr(import_module(f"pais.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
