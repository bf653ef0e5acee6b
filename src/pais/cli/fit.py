"""Prepare a private k-means from settings, with facts stated, surveyed now or surveyed earlier, or from a plan file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path

import typer

from pais.accounting import Ledger, accounts
from pais.accounting.certificate import sum_up
from pais.cli.facts import read_survey, require_sound, require_surveyed_columns, surveyed
from pais.cli.plans import PlanRequest, order_of, read_request, require_as_written, require_planned_columns
from pais.cli.show import warn_of, warn_of_weak
from pais.data.engines import Engine
from pais.errors import ArgumentError
from pais.mechanisms import KMeansValue
from pais.norm_survey import Survey, charge_survey
from pais.pipeline import Plan, charged_run
from pais.planning.fit import KMeansFit, KMeansSettings, asked_delta_of, fit_kmeans, survey_passes
from pais.privacy.guarantee import chosen_delta


@dataclass(frozen=True, kw_only=True)
class Work:
    """A k-means that is ready to run, with its minimum price and its number of passes over the rows."""

    epsilon: float
    delta: float
    passes: int
    run: Callable[[Engine, Ledger | None], KMeansFit]


def stated(settings: KMeansSettings, *, survey: Path | None, seed: int | None) -> Work:
    """Prepare a k-means from settings and, if given, an earlier survey."""
    if survey is None:
        return Work(
            epsilon=settings.epsilon,
            delta=asked_delta_of(settings),
            passes=1 + survey_passes(settings),
            # Not counted among fits without a ledger: a command is a separate process and makes one fit.
            run=lambda rows, ledger: fit_kmeans(
                rows, settings, random_state=seed, ledger=ledger, warn=warn_of, counted=False
            ),
        )
    if settings.radius is not None or settings.center is not None or settings.norms is not None:
        raise ArgumentError("--survey brings radius, center and norms along. Leave out what you state beside it.")
    path, earlier = survey, read_survey(survey, rehearsal=seed is not None)

    known = surveyed(earlier, epsilon=settings.epsilon, order=order_of(settings.mechanism))

    def run(rows: Engine, ledger: Ledger | None) -> KMeansFit:
        require_surveyed_columns(path, rows.names)
        request = PlanRequest(
            n_clusters=settings.n_clusters,
            n_features=rows.n_features,
            facts=known,
            delta=settings.delta,
            sampling=settings.sampling,
            sample_size=settings.sample_size,
            mechanism=settings.mechanism,
            algorithm=settings.algorithm,
            max_epsilon_if_kept=settings.max_epsilon_if_kept,
        )
        plan = request.plan()
        warn_of_weak(settings.epsilon, plan)
        return fit(plan, rows, earlier=earlier, seed=seed, ledger=ledger)

    # Leave out the survey's price, as the ledger may have been charged for it already.
    asked = chosen_delta(
        settings.delta, gaussian=settings.mechanism == "gaussian", n_rows=known.norms.n_rows, surveyed=True
    )
    return Work(epsilon=known.epsilon, delta=asked.certified, passes=1, run=run)


def planned(path: Path, context: typer.Context, *, seed: int | None) -> Work:
    """Prepare the k-means that a plan file describes."""
    _refuse_beside_plan(context)
    request = read_request(path)
    plan, earlier = request.plan(), request.facts.survey()
    if earlier is not None:
        require_sound(path, earlier, rehearsal=seed is not None)
    require_as_written(path, request, plan)

    def run(rows: Engine, ledger: Ledger | None) -> KMeansFit:
        require_planned_columns(path, request, rows)
        return fit(plan, rows, earlier=earlier, seed=seed, ledger=ledger)

    warn_of_weak(sum_up([plan.epsilon, *(part.epsilon for part in plan.spent)]), plan)
    return Work(epsilon=plan.epsilon, delta=plan.delta_choice.certified, passes=1, run=run)


def _refuse_beside_plan(context: typer.Context) -> None:
    """Raise if an option repeats or contradicts a setting of the plan."""
    decided = {*(field.name for field in fields(KMeansSettings)), "n_rows", "survey"}
    given = [name for name in context.params if getattr(context.get_parameter_source(name), "name", "") != "DEFAULT"]
    beside = [f"--{name.replace('_', '-')}" for name in given if name in decided]
    if beside:
        raise ArgumentError(f"--plan decides {', '.join(beside)}. Leave out what you state beside it, or plan again.")


def fit(plan: Plan, rows: Engine, *, earlier: Survey | None, seed: int | None, ledger: Ledger | None) -> KMeansFit:
    """Run a plan, and count the price of the earlier survey that it is based on, if any.

    Notes
    -----
    Guarantee. All parts of the certificate, including an earlier survey, add up to at most the stated (epsilon,
    delta): `tests/unit/cli/test_cli.py`. A ledger is charged before noise is drawn. It is also charged for an
    earlier survey, unless that was charged before: `tests/unit/cli/test_ledger_cli.py`.
    """
    unpaid = None if ledger is None or earlier is None or ledger.holds(earlier.name) else earlier
    charged = accounts(ledger)
    if unpaid is None:
        charged.check(epsilon=plan.epsilon, delta=plan.delta_choice.certified)
    else:
        charged.check(epsilon=sum_up([plan.epsilon, unpaid.epsilon]), delta=plan.delta_choice.certified)
        charge_survey(charged, epsilon=unpaid.epsilon, secure=unpaid.secure_randomness, name=unpaid.name)
    paid = () if ledger is None or earlier is None else ledger.entries_of(earlier.name)
    release = charged_run(plan, rows, charged, random_state=seed, paid=paid)
    assert isinstance(release.value, KMeansValue)
    return KMeansFit(value=release.value, certificate=release.certificate, plan=plan, survey=earlier)
