"""A private k-means, with facts stated, surveyed now, or surveyed earlier."""

from __future__ import annotations

from pais.accounting import Accounts, Ledger, Part, accounts
from pais.cli.facts import surveyed
from pais.cli.plans import PlanRequest, order_of
from pais.engines import Engine
from pais.errors import ArgumentError
from pais.kmeans import KMeansFit, KMeansSettings, private_kmeans
from pais.mechanisms import KMeansValue
from pais.pipeline import Plan, charged_part, uncharged_run
from pais.release import Release, sum_up
from pais.survey import Survey


def fit(
    rows: Engine, settings: KMeansSettings, *, earlier: Survey | None, seed: int | None, ledger: Ledger | None = None
) -> KMeansFit:
    """Survey what is not stated, plan, run; an earlier survey is used and its price counted.

    Notes
    -----
    Guarantee. All parts of the certificate, an earlier survey among them, add up to at most the stated (epsilon,
    delta): `tests/integration/test_cli.py`. A ledger is charged before the fit is returned; for an earlier survey too,
    unless that was charged to it when it was made: `tests/integration/test_ledger_cli.py`.
    """
    if earlier is None:
        return private_kmeans(rows, settings, random_state=seed, ledger=ledger)
    if settings.radius is not None or settings.center is not None or settings.norms is not None:
        raise ArgumentError("--survey brings radius, center and norms along. Leave out what you state beside it.")
    request = PlanRequest(
        n_clusters=settings.n_clusters,
        n_features=rows.n_features,
        facts=surveyed(earlier, epsilon=settings.epsilon, order=order_of(settings.mechanism)),
        delta=settings.delta,
        sampling=settings.sampling,
        sample_size=settings.sample_size,
        mechanism=settings.mechanism,
        algorithm=settings.algorithm,
    )
    plan = request.plan()
    unpaid = ledger is not None and not ledger.holds(earlier.fingerprint())
    charged = accounts(ledger)
    charged.check(epsilon=settings.epsilon if unpaid else plan.epsilon, delta=plan.delta)
    release = uncharged_run(plan, rows, random_state=seed)
    _charge(charged, plan, release, earlier if unpaid else None)
    assert isinstance(release.value, KMeansValue)
    return KMeansFit(value=release.value, certificate=release.certificate, plan=plan, survey=earlier)


def _charge(charged: Accounts, plan: Plan, release: Release, unpaid: Survey | None) -> None:
    """Spend the price of the release, and of the survey it rests on where nobody has."""
    parts = [charged_part(plan.mechanism, plan.rule, plan.ball, release)]
    fingerprint = ""
    if unpaid is not None:
        parts.insert(0, Part(what="survey", epsilon=unpaid.epsilon))
        fingerprint = unpaid.fingerprint()
    charged.spend(
        what=parts[-1].what,
        epsilon=sum_up(part.epsilon for part in parts),
        delta=plan.delta,
        secure=release.certificate.secure_randomness,
        parts=parts,
        release=fingerprint,
    )
