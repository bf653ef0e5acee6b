"""From a request for a statistic to its release: open, survey what is not stated, plan, run, and estimate."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pais.accounting.certificate import Release
from pais.accounting.ledger import Prepaid, accounts
from pais.accounting.part import Part
from pais.data.engines.base import Engine
from pais.data.sources import cells, names_of, source
from pais.data.units import most_units, people_concern
from pais.errors import ArgumentError
from pais.mechanisms.blocks import Ends, VectorStatistic
from pais.mechanisms.noise import GaussianNoise, GeometricNoise
from pais.pipeline import run
from pais.planning.plan import Plan
from pais.privacy.guarantee import delta_concern, epsilon_concern, ledger_concern, warn
from pais.statistics.clipping import (
    BeyondBounds,
    EndCounts,
    clipped_cautions,
    clipping_in_words,
    empty_note,
    lost_cautions,
    notes_of,
)
from pais.statistics.people import released_totals
from pais.statistics.planning import Aim, Found, Price, Request, Survey, planned
from pais.statistics.recipes import Recipe
from pais.statistics.result import Statistic
from pais.statistics.table import Fields, Selection, about_rows, combined, only_label, weights_note
from pais.statistics.uncertainty import Uncertainty


def released(rows: object, recipe: Recipe, request: Request) -> Statistic:
    """Release a statistic, and issue its cautions as warnings."""
    return _released(rows, recipe, request).warned()


def _released(rows: object, recipe: Recipe, request: Request) -> Statistic:
    charged = accounts(request.ledger)
    request.require()
    selection = Selection.of(rows, request.columns, request.by, request.unit)
    if isinstance(rows, Engine) and request.columns is None and not recipe.needs_columns:
        selection = replace(selection, columns=())
    pooled = request.missing != "drop"
    fields = selection.fields(selection.schema, pooled=pooled)
    recipe.require(fields)
    price = Price.of(request, recipe.blocks(fields))
    charged.check(Part(what=recipe.name, epsilon=price.epsilon, delta=price.delta))
    warn(epsilon_concern(price.epsilon))
    unit = selection.rows.unit if isinstance(selection.rows, Engine) else request.unit
    if recipe.presence and unit is None:
        raise ArgumentError("count_people needs the column that names people. Pass it, such as unit='customer_id'.")
    engine = opened_table(selection, request, by_cell=recipe.by_cell)
    if charged.empty and request.random_state is None:
        # A table that cannot be opened is no release.
        warn(ledger_concern(price.epsilon))
    if engine.unit is not None and recipe.name_for_people:
        return released_totals(engine, selection, recipe, request, price, charged)
    survey = Survey.of(engine, request, price, n_exact=len(fields.columns) if recipe.power else 0)
    if survey.noise is not None and price.gaussian:
        paid = Part(what=f"survey and {recipe.name}", epsilon=price.epsilon, delta=price.delta, unit=engine.unit_column)
        charged = Prepaid(charged, paid)
    aim = Aim.of(recipe, fields, price, survey)
    found = survey.run(engine, charged, request.random_state, aim)
    fields = selection.fields(found.engine.schema, pooled=pooled)
    plan = planned(found.engine, recipe, fields, request, price, survey, found.n_rows)
    result = run(plan, found.engine, random_state=request.random_state, ledger=charged)
    return _statistic(recipe, fields, plan, result, found)


def opened_table(selection: Selection, request: Request, *, by_cell: bool) -> Engine:
    """Open the table of a statistic. If `by_cell`, a missing value leaves out its cell alone."""
    if request.unit is None and not isinstance(selection.rows, Engine):
        warn(people_concern(names_of(selection.rows), (*selection.columns, *selection.by)))
    if selection.schema is None:
        return source(
            selection.rows, unit=request.unit, max_rows_per_unit=request.max_rows_per_unit, missing=request.missing
        )
    return cells(
        selection.rows,
        columns=selection.schema,
        unit=request.unit,
        max_rows_per_unit=request.max_rows_per_unit,
        missing=request.missing,
        by_cell=by_cell,
    )


def _statistic(recipe: Recipe, fields: Fields, plan: Plan, result: Release, found: Found) -> Statistic:
    """Values, errors, labels and cautions from released totals."""
    mechanism, totals, spreads = plan.mechanism, np.asarray(result.value), found.spreads
    assert isinstance(mechanism, VectorStatistic)
    max_rows = 1 if plan.unit is None else plan.unit.full_rows
    spare = 1.0 / plan.rule.smallest_probability(plan.ball.radius) - 1.0
    ends = EndCounts.of(totals, mechanism, fields, max_rows=max_rows, spare=spare)
    own = replace(mechanism, blocks=tuple(block for block in mechanism.blocks if not isinstance(block, Ends)))
    uncertainty = Uncertainty(
        totals=totals[:, : own.places[-1].stop],
        mechanism=own,
        max_rows=max_rows,
        spare=spare,
        recipe=recipe,
        fields=fields,
        beyond=BeyondBounds.of(spreads, fields, ends, max_rows),
    )
    about = about_rows(recipe.title, plan.unit, uncertainty.noisy_rows, by_groups=bool(fields.by))
    if plan.delta > 0.0:
        warn(delta_concern(plan.delta, most_units(plan.unit, uncertainty.noisy_rows)))
    estimates, groups = uncertainty.estimates(), fields.groups
    lost, cautions = None, [*found.cautions]
    if recipe.needs_cells:
        hidden = uncertainty.lost()
        cautions += lost_cautions(hidden, fields)
        by_label = np.repeat(hidden, [len(field.labels) for field in fields.columns], axis=1)
        lost = np.repeat(by_label, len(estimates) // len(hidden), axis=0)
    shares = () if ends is None else ends.shares(spreads, plan.unit)
    if ends is not None:
        cautions += clipped_cautions(ends.excessive(), shares, fields, recipe.title)
    errors = uncertainty.standard_errors()
    notes = notes_of(shares, fields) if recipe.counts_clipped else [empty_note(estimates, errors, fields)]
    notes = [weights_note(recipe.title, plan.unit, uncertainty.noisy_rows), *notes]
    dates = recipe.is_date(fields).reshape(-1, estimates.shape[1])
    return Statistic(
        name=recipe.title,
        clipping=clipping_in_words(fields, shares, spreads, plan.unit, has_shares=recipe.needs_cells),
        clipped=shares,
        cautions=tuple(cautions),
        notes=tuple(filter(None, notes)),
        about=about,
        certificate=replace(result.certificate, about=about),
        estimates=estimates,
        standard_errors=errors,
        bounds=uncertainty.bounds,
        rows=combined(groups, recipe.rows(fields)),
        columns=recipe.columns(fields),
        is_date=np.tile(dates, (len(estimates) // len(dates), 1)),
        noise=_noise_in_words(plan, own),
        released=result.value,
        plan=plan,
        subject=only_label(fields),
        lost=lost,
    )


def _noise_in_words(plan: Plan, mechanism: VectorStatistic) -> str:
    max_rows = 1 if plan.unit is None else plan.unit.full_rows
    scales = sorted({max_rows * scale for scale in mechanism.block_scales})
    laws = {GaussianNoise: "Gaussian", GeometricNoise: "Two-sided geometric"}
    law = laws.get(type(mechanism.noise), "Laplace")
    words = " and ".join(f"{scale:.4g}" for scale in scales)
    probability = plan.rule.smallest_probability(plan.ball.radius)
    rows = (
        "All rows were used."
        if plan.rule.keeps_all
        else f"Rows were kept with probability {probability:.4g} or more; their part of the errors is an upper bound."
    )
    return f"{law} noise of scale {words} on each total. {rows}"
