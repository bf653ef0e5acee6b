"""Private k-means from end to end: survey the facts that are not stated, plan, run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from pais._base import validate
from pais._base.randomness import RandomState
from pais.accounting import Accounts, Ledger, accounts
from pais.accounting.certificate import Certificate, Spent, what_is_left
from pais.data.ball import Ball
from pais.data.engines import Engine
from pais.data.sources import source
from pais.mechanisms import KMeansValue
from pais.norm_survey import Survey, charged_survey
from pais.pipeline import Plan, charged_run
from pais.planning.kmeans import Algorithm, MechanismName, plan_kmeans, require_wishes
from pais.privacy.calibration import Sampling
from pais.privacy.guarantee import asked_delta, delta_concern, epsilon_concern, ledger_concern, warn
from pais.privacy.norms import NormDistribution
from pais.privacy.rules import Rule

#: Shares of epsilon spent on a survey of center, radius and norms, and on a survey of the norms alone.
FULL_SURVEY_SHARE = 0.06
NORMS_SURVEY_SHARE = 0.02


@dataclass(frozen=True, kw_only=True)
class KMeansSettings:
    """Settings of a private k-means that the user chooses; public.

    If `delta` is None, it is 0 for the pure mechanisms, and for Gaussian noise the smaller of 1e-6 and
    1 / (10 * number of rows). The number of rows is taken from `norms` if radius and norms are both stated. Otherwise
    it comes from the survey, and 1e-6 is certified and charged.
    """

    n_clusters: int
    epsilon: float
    delta: float | None = None
    radius: float | None = None
    center: tuple[float, ...] | None = None
    norms: NormDistribution | None = None
    sampling: Sampling | Literal["none"] | Rule = "constrained"
    sample_size: float | None = None
    mechanism: MechanismName = "gaussian"
    algorithm: Algorithm = "refined"
    max_epsilon_if_kept: float | None = None


@dataclass(frozen=True, kw_only=True)
class KMeansFit:
    """Result of a private k-means: centers, certificate, plan and survey. All of it may be published."""

    value: KMeansValue
    certificate: Certificate
    plan: Plan
    survey: Survey | None


def survey_share(settings: KMeansSettings) -> float:
    """Share of epsilon that the survey will use: zero if all facts are stated."""
    if settings.radius is None:
        return FULL_SURVEY_SHARE if settings.center is None else NORMS_SURVEY_SHARE
    return NORMS_SURVEY_SHARE if settings.norms is None else 0.0


def asked_delta_of(settings: KMeansSettings) -> float:
    """The delta to check with the ledgers before a row is read: the one that will be certified."""
    stated = settings.norms if settings.radius is not None else None
    # `norms` is not validated yet; any other type is refused later.
    n_rows = stated.n_rows if isinstance(stated, NormDistribution) else None
    return asked_delta(settings.delta, gaussian=settings.mechanism == "gaussian", n_rows=n_rows)


def survey_passes(settings: KMeansSettings) -> int:
    """Number of passes over the rows that the survey will need: three if neither center nor radius is stated."""
    if settings.radius is None:
        return 3 if settings.center is None else 1
    return 1 if settings.norms is None else 0


def surveyed_facts(
    rows: Engine, settings: KMeansSettings, charged: Accounts, random_state: RandomState
) -> tuple[Ball, NormDistribution, Survey | None]:
    """Ball and norms, as stated by the user or as released by a survey.

    With a stated radius and no center, the ball is centered at the origin. Norms are surveyed unless they are stated
    together with a radius, because the expected sample size and the number of rounds follow from them.
    """
    order = 1.0 if settings.mechanism == "laplace" else 2.0
    share = survey_share(settings)
    if settings.radius is not None and settings.norms is not None:
        return Ball(radius=settings.radius, order=order, center=settings.center), settings.norms, None
    price = share * validate.target_epsilon(settings.epsilon)
    center = settings.center
    if settings.radius is not None and center is None:
        center = (0.0,) * rows.n_features
    # A surveyed radius leaves the farthest rows out; a stated one is taken to include all rows of interest.
    quantile = 0.975 if settings.radius is None else 1.0 - 1e-9
    found = charged_survey(
        rows, charged, epsilon=price, center=center, quantile=quantile, order=order, random_state=random_state
    )
    if settings.radius is None:
        return found.ball, found.norms, found
    ball = Ball(radius=settings.radius, order=order, center=settings.center)
    norms = NormDistribution(norms=found.norms.norms, masses=found.norms.masses, radius=settings.radius)
    return ball, norms, found


def _told(found: Survey) -> str:
    return "survey" if found.above_noise else "survey (too few rows for its price)"


@validate.without_sizes
def private_kmeans(
    rows: object, settings: KMeansSettings, *, random_state: RandomState = None, ledger: Ledger | Accounts | None = None
) -> KMeansFit:
    """Survey the facts that are not stated, plan, and run. The certificate states the total cost.

    The ledger, and every active one, is checked before a row is read. Survey and release are charged separately, each
    before its noise is drawn. If planning fails on the surveyed facts, the survey has still been charged.

    Notes
    -----
    Guarantee. The costs of the parts add up to at most (epsilon, delta): `tests/integration/test_kmeans.py`. Anything
    that an exception or a value reveals about the rows was charged before:
    `tests/unit/accounting/test_ledger_charging.py`.

    It issues a `PrivacyWarning` for an epsilon above 10, for a delta above 0.1 / number of rows, and once per process
    for a second fit that is not charged to a ledger. Fits with a seed do not count.
    """
    return fit_kmeans(rows, settings, random_state=random_state, ledger=ledger, warn=warn)


def fit_kmeans(
    rows: object,
    settings: KMeansSettings,
    *,
    random_state: RandomState,
    ledger: Ledger | Accounts | None,
    warn: Callable[[str | None], None],
    counted: bool = True,
) -> KMeansFit:
    """`private_kmeans` with a function `warn` that is called with each warning, or None, as soon as it is known.

    `counted` says whether this fit counts for the warning about a second fit without a ledger.
    """
    epsilon = validate.target_epsilon(settings.epsilon)
    charged = accounts(ledger)
    charged.check(epsilon=epsilon, delta=asked_delta_of(settings))
    # Validate everything that does not depend on the data before paying for a survey.
    wishes = settings.sampling, settings.sample_size, settings.mechanism, settings.algorithm
    require_wishes(settings.n_clusters, epsilon, settings.delta, *wishes)
    validate.kept_limit(settings.max_epsilon_if_kept, finite=True)
    stated = Ball(radius=1.0 if settings.radius is None else settings.radius, center=settings.center)
    engine = source(rows)
    engine.require_width(stated)
    warn(epsilon_concern(epsilon))
    if counted and charged.empty and random_state is None:
        warn(ledger_concern())
    ball, norms, found = surveyed_facts(engine, settings, charged, random_state)
    spent = (
        ()
        if found is None
        else (Spent(what=_told(found), epsilon=found.epsilon, secure_randomness=found.secure_randomness),)
    )
    if settings.delta is not None:
        warn(delta_concern(settings.delta, norms.n_rows))
    plan = plan_kmeans(
        n_clusters=settings.n_clusters,
        n_features=engine.n_features,
        epsilon=epsilon if found is None else what_is_left(epsilon, found.epsilon),
        delta=settings.delta,
        ball=ball,
        norms=norms,
        sampling=settings.sampling,
        sample_size=settings.sample_size,
        mechanism=settings.mechanism,
        algorithm=settings.algorithm,
        spent=spent,
        max_epsilon_if_kept=settings.max_epsilon_if_kept,
    )
    paid = () if found is None else found.ledger_entries
    release = charged_run(plan, engine, charged, random_state=random_state, paid=paid)
    assert isinstance(release.value, KMeansValue)
    return KMeansFit(value=release.value, certificate=release.certificate, plan=plan, survey=found)
