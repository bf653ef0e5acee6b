"""From a request for a statistic to its release: open, survey what is not stated, plan, run, and estimate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from pais.accounting import Part, Prepaid, Release, accounts
from pais.data.engines import Engine
from pais.data.sources import cells, source
from pais.data.units import most_units
from pais.mechanisms import GaussianNoise, GeometricNoise, VectorStatistic
from pais.pipeline import run
from pais.planning import Plan
from pais.privacy.guarantee import delta_concern, epsilon_concern, ledger_concern, warn
from pais.statistics.frames import combined
from pais.statistics.legibility import warn_of_lost
from pais.statistics.planning import Price, Request, Survey, planned
from pais.statistics.recipes import Recipe
from pais.statistics.result import Statistic
from pais.statistics.table import Field, Fields, Selection
from pais.statistics.uncertainty import Uncertainty


def released(rows: object, recipe: Recipe, request: Request) -> Statistic:
    """Release a statistic."""
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
    if charged.empty and request.random_state is None:
        warn(ledger_concern())
    engine = opened_table(selection, request, by_cell=recipe.by_cell)
    survey = Survey.of(engine, request, price)
    if survey.noise is not None and price.gaussian:
        paid = Part(what=f"survey and {recipe.name}", epsilon=price.epsilon, delta=price.delta, unit=engine.unit_column)
        charged = Prepaid(charged, paid)
    engine, n_rows = survey.run(engine, charged, request.random_state)
    fields = selection.fields(engine.schema, pooled=pooled)
    plan = planned(engine, recipe, fields, request, price, survey, n_rows)
    result = run(plan, engine, random_state=request.random_state, ledger=charged)
    return _statistic(recipe, fields, plan, result)


def opened_table(selection: Selection, request: Request, *, by_cell: bool) -> Engine:
    """Open the table of a statistic. If `by_cell`, a missing value leaves out its cell alone."""
    if selection.schema is None:
        return source(
            selection.rows, unit=request.unit, max_rows_per_unit=request.max_rows_per_unit, missing=request.missing
        )
    open_table: Callable[..., Engine] = cells if by_cell else source
    return open_table(
        selection.rows,
        columns=selection.schema,
        unit=request.unit,
        max_rows_per_unit=request.max_rows_per_unit,
        missing=request.missing,
    )


def _statistic(recipe: Recipe, fields: Fields, plan: Plan, result: Release) -> Statistic:
    """Values, errors and labels from released totals."""
    mechanism = plan.mechanism
    assert isinstance(mechanism, VectorStatistic)
    uncertainty = Uncertainty(
        totals=np.asarray(result.value),
        mechanism=mechanism,
        max_rows=1 if plan.unit is None else plan.unit.max_rows,
        spare=1.0 / plan.rule.smallest_probability(plan.ball.radius) - 1.0,
        recipe=recipe,
        fields=fields,
    )
    if plan.delta > 0.0:
        warn(delta_concern(plan.delta, most_units(plan.unit, uncertainty.noisy_rows)))
    estimates, groups = uncertainty.estimates(), fields.groups
    lost = None
    if recipe.needs_cells:
        hidden = uncertainty.lost()
        warn_of_lost(hidden, fields)
        by_label = np.repeat(hidden, [len(field.labels) for field in fields.columns], axis=1)
        lost = np.repeat(by_label, len(estimates) // len(hidden), axis=0)
    dates = recipe.is_date(fields).reshape(-1, estimates.shape[1])
    return Statistic(
        name=recipe.title,
        clipping=clipping_in_words(fields),
        certificate=result.certificate,
        estimates=estimates,
        standard_errors=uncertainty.standard_errors(),
        bounds=uncertainty.bounds,
        rows=combined(groups, recipe.rows(fields)),
        columns=recipe.columns(fields),
        is_date=np.tile(dates, (len(estimates) // len(dates), 1)),
        noise=_noise_in_words(plan, mechanism),
        released=result.value,
        plan=plan,
        subject=only_label(fields),
        lost=lost,
    )


def only_label(fields: Fields) -> str:
    """The label of the only column, or nothing."""
    return fields.labels[0] if len(fields.labels) == 1 else ""


def clipping_in_words(fields: Fields) -> str:
    """What clipping did, in words. The number of clipped values is not released."""
    bounded = [field for field in fields.columns if not (field.is_listed or field.is_truth)]
    texts = []
    if bounded:
        bounds = "; ".join(f"{field.name} {_bounds_in_words(field)}" for field in bounded)
        texts.append(f"Values outside the bounds were clipped to them ({bounds}); how many is not known.")
    if any(field.is_listed for field in (*fields.columns, *fields.by)):
        texts.append("A category that is not listed belongs to none of those listed.")
    return " ".join(texts) or "No values were clipped."


def _bounds_in_words(field: Field) -> str:
    facts = field.column.facts()
    if "low" in facts:
        return f"{_end(facts['low'])} to {_end(facts['high'])}"
    return f"{field.low:.6g} to {field.high:.6g}, found privately"


def _end(bound: object) -> str:
    return f"{bound:.10g}" if isinstance(bound, float) else str(bound)


def _noise_in_words(plan: Plan, mechanism: VectorStatistic) -> str:
    max_rows = 1 if plan.unit is None else plan.unit.max_rows
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
