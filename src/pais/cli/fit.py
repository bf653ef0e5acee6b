"""A private k-means: of settings, with facts stated, surveyed now or surveyed earlier; or of a plan from its file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path

import typer

from pais.accounting import Accounts, Ledger, Part, accounts
from pais.cli.facts import read_survey, require_sound, require_surveyed_columns, surveyed
from pais.cli.plans import PlanRequest, order_of, read_request, require_as_written, require_planned_columns
from pais.engines import Engine
from pais.errors import ArgumentError
from pais.kmeans import KMeansFit, KMeansSettings, private_kmeans, survey_passes
from pais.mechanisms import KMeansValue
from pais.pipeline import Plan, charged_part, uncharged_run
from pais.release import Release, sum_up
from pais.survey import Survey


@dataclass(frozen=True, kw_only=True)
class Work:
    """A k-means that is ready to be run: what it costs at least, and how often it goes over the rows."""

    epsilon: float
    delta: float
    passes: int
    run: Callable[[Engine, Ledger | None], KMeansFit]


def stated(settings: KMeansSettings, *, survey: Path | None, seed: int | None) -> Work:
    """A k-means of settings, and of a survey made earlier where there is one."""
    if survey is None:
        return Work(
            epsilon=settings.epsilon,
            delta=settings.delta,
            passes=1 + survey_passes(settings),
            run=lambda rows, ledger: private_kmeans(rows, settings, random_state=seed, ledger=ledger),
        )
    if settings.radius is not None or settings.center is not None or settings.norms is not None:
        raise ArgumentError("--survey brings radius, center and norms along. Leave out what you state beside it.")
    path, earlier = survey, read_survey(survey, rehearsal=seed is not None)

    def run(rows: Engine, ledger: Ledger | None) -> KMeansFit:
        require_surveyed_columns(path, rows.names)
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
        return fit(request.plan(), rows, earlier=earlier, seed=seed, ledger=ledger)

    # The survey may be paid for already.
    return Work(epsilon=settings.epsilon - earlier.epsilon, delta=settings.delta, passes=1, run=run)


def planned(path: Path, context: typer.Context, *, seed: int | None) -> Work:
    """The k-means that a plan file describes, and no other."""
    _refuse_beside_plan(context)
    request = read_request(path)
    plan, earlier = request.plan(), request.facts.survey()
    require_as_written(path, request, plan)
    if earlier is not None:
        require_sound(path, earlier, rehearsal=seed is not None)

    def run(rows: Engine, ledger: Ledger | None) -> KMeansFit:
        require_planned_columns(path, request, rows)
        return fit(plan, rows, earlier=earlier, seed=seed, ledger=ledger)

    return Work(epsilon=plan.epsilon, delta=plan.delta, passes=1, run=run)


def _refuse_beside_plan(context: typer.Context) -> None:
    """Refuse options that say again, or otherwise, what a plan decides."""
    decided = {*(field.name for field in fields(KMeansSettings)), "n_rows", "survey"}
    given = [name for name in context.params if getattr(context.get_parameter_source(name), "name", "") != "DEFAULT"]
    beside = [f"--{name.replace('_', '-')}" for name in given if name in decided]
    if beside:
        raise ArgumentError(f"--plan decides {', '.join(beside)}. Leave out what you state beside it, or plan again.")


def fit(plan: Plan, rows: Engine, *, earlier: Survey | None, seed: int | None, ledger: Ledger | None) -> KMeansFit:
    """Run a plan; the price of an earlier survey that it rests on is counted.

    Notes
    -----
    Guarantee. All parts of the certificate, an earlier survey among them, add up to at most the stated (epsilon,
    delta): `tests/integration/test_cli.py`. A ledger is charged before the fit is returned; for an earlier survey too,
    unless that was charged to it when it was made: `tests/integration/test_ledger_cli.py`.
    """
    unpaid = None if ledger is None or earlier is None or ledger.holds(earlier.fingerprint()) else earlier
    charged = accounts(ledger)
    charged.check(epsilon=plan.epsilon + (0.0 if unpaid is None else unpaid.epsilon), delta=plan.delta)
    release = uncharged_run(plan, rows, random_state=seed)
    _charge(charged, plan, release, unpaid)
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
