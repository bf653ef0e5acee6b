"""From a request for a statistic to its release: open, survey what is not stated, plan, run, and estimate."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from pais._base import validate
from pais._base.numerics import FloatArray
from pais._base.randomness import BitSource, PaidBits, bit_source
from pais.accounting import Accounts, Part, Prepaid, accounts, new_name
from pais.accounting.amounts import what_is_left
from pais.column_survey import column_ranges
from pais.data.ball import Ball
from pais.data.checks import listed
from pais.data.columns import Missing
from pais.data.engines import AllRows, Engine
from pais.data.sources import cells, source
from pais.data.units import Unit
from pais.errors import ArgumentError, BudgetError, SurveyWarning
from pais.mechanisms import GaussianNoise, GeometricNoise, LpNoise, NoiseLaw, VectorStatistic
from pais.mechanisms.blocks import Bins, Block, Levels, Rows, Split
from pais.pipeline import run
from pais.planning import Plan
from pais.planning.settings import SAMPLINGS
from pais.planning.survey_noise import SurveyNoise
from pais.privacy.amplification import largest_shift
from pais.privacy.calibration import calibrate
from pais.privacy.guarantee import LARGEST_DEFAULT_DELTA, PURE_NOISE, STATED, epsilon_concern, ledger_concern, warn
from pais.privacy.joint import delta_after
from pais.privacy.norms import NormDistribution
from pais.privacy.rules import Rule, UniformRule
from pais.statistics.recipes import Recipe, Weighted
from pais.statistics.result import Axis, Statistic
from pais.statistics.table import By, Fields, Selection
from pais.statistics.uncertainty import Uncertainty, kept_spare

# Share of epsilon, or of the allowed Gaussian shift, for bounds of "auto" columns, and for a count that a sample needs.
_BOUNDS_SHARE, _BOUNDS_SHIFT, _COUNT_SHARE, _COUNT_SHIFT = 0.1, 0.3, 0.02, 0.1

# Room for the rounding errors of products of scales and factors.
_ROOM = 1.0 + 2.0**-44

_SAMPLED = frozenset(SAMPLINGS) - {"none"}


@dataclass(frozen=True, kw_only=True)
class Request:
    """The arguments that all statistics have in common: see `pais.mean`."""

    columns: Any
    by: By
    unit: str | Unit | None
    max_rows_per_unit: int
    missing: Missing
    epsilon: float
    delta: float | None
    sampling: Any
    sample_size: float | None
    ledger: Any
    random_state: Any

    def require(self) -> None:
        """Raise if an argument is not valid, before a row is read."""
        if not isinstance(self.sampling, Rule) and self.sampling not in SAMPLINGS:
            raise ArgumentError(
                f"sampling={self.sampling!r} is not known. Pass 'none', 'constrained', 'coreset', 'uniform' or a Rule."
            )
        if self.sample_size is not None:
            validate.positive("sample_size", self.sample_size)
            if isinstance(self.sampling, Rule) or self.sampling == "none":
                raise ArgumentError("sample_size needs sampling='constrained' or 'uniform'. State both, or neither.")


@dataclass(frozen=True, kw_only=True)
class Price:
    """The guarantee of a release: delta is 0 for pure noise."""

    epsilon: float
    delta: float
    basis: str

    @property
    def gaussian(self) -> bool:
        return self.delta > 0.0

    @classmethod
    def of(cls, request: Request, blocks: list[Weighted]) -> Price:
        """Pure noise, or Gaussian noise if it is allowed and smaller for these blocks."""
        epsilon = validate.target_epsilon(request.epsilon)
        delta = LARGEST_DEFAULT_DELTA if request.delta is None else validate.target_delta(request.delta)
        basis = "default" if request.delta is None else STATED
        weights = [weight for _, weight in blocks]
        pure = math.sqrt(2.0) * sum(weights) / epsilon
        if delta == 0.0 or pure <= math.hypot(*weights) / largest_shift(epsilon, delta):
            return cls(epsilon=epsilon, delta=0.0, basis=PURE_NOISE)
        return cls(epsilon=epsilon, delta=delta, basis=basis)


def released(rows: object, recipe: Recipe, request: Request) -> Statistic:
    """Release a statistic."""
    charged = accounts(request.ledger)
    request.require()
    selection = Selection.of(rows, request.columns, request.by, request.unit)
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
    plan = _plan(engine, recipe, fields, request, price, survey, n_rows)
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


@dataclass(frozen=True, kw_only=True)
class Survey:
    """What has to be found before the release: bounds of "auto" columns, and a number of rows for a sample."""

    noise: SurveyNoise | None
    count_share: float
    name: str

    @classmethod
    def of(cls, engine: Engine, request: Request, price: Price) -> Survey:
        bounds, counts = engine.schema is not None and bool(engine.schema.open), request.sample_size is not None
        if not (bounds or counts):
            return cls(noise=None, count_share=0.0, name="")
        if price.gaussian:
            shift = math.hypot(_BOUNDS_SHIFT * bounds, _COUNT_SHIFT * counts)
            noise = SurveyNoise(shift=min(shift * largest_shift(price.epsilon, price.delta), 1.0))
            share = _COUNT_SHIFT**2 * counts / shift**2
        else:
            part = _BOUNDS_SHARE * bounds + _COUNT_SHARE * counts
            noise, share = SurveyNoise(epsilon=part * price.epsilon), _COUNT_SHARE * counts / part
        return cls(noise=noise, count_share=share, name=new_name())

    def part(self, engine: Engine, *, secure: bool) -> tuple[Part, ...]:
        """The price or the shift of the survey."""
        if self.noise is None:
            return ()
        epsilon = 0.0 if self.noise.gaussian else self.noise.epsilon
        return (
            Part(
                what="survey",
                epsilon=epsilon,
                shift=self.noise.shift,
                secure_randomness=secure,
                release=self.name,
                unit=engine.unit_column,
            ),
        )

    def run(self, engine: Engine, charged: Accounts, random_state: Any) -> tuple[Engine, float]:
        """Return the source with all bounds, and the noisy number of rows (or 1 if it is not needed)."""
        if self.noise is None:
            return engine, 1.0
        drawn = bit_source(random_state, stream=2)
        parts = self.part(engine, secure=drawn.private)
        bits = PaidBits(drawn, lambda: _pay(charged, parts))
        schema, n_rows = engine.schema, 1.0
        if self.count_share > 0.0:
            n_rows = _noisy_rows(engine, self.noise.on_counts(self.count_share), bits)
        if schema is not None and schema.open:
            positions = [schema.labels.index(name) for name in schema.open]
            ranges = column_ranges(engine, positions, self.noise.part(1.0 - self.count_share), bits)
            named = dict(zip(schema.open, ranges, strict=True))
            unclear = [name for name, column in named.items() if not column.clear]
            if unclear:
                warn(
                    f"too little stands out of the noise to find good bounds for the auto column(s) {listed(unclear)}. "
                    "State their bounds, or raise epsilon.",
                    SurveyWarning,
                )
            scales = {name: (column.center, column.scale) for name, column in named.items()}
            engine = engine.with_schema(schema.resolved(scales))
        return engine, n_rows


def _pay(charged: Accounts, parts: tuple[Part, ...]) -> None:
    charged.spend(*parts)


def _noisy_rows(engine: Engine, noise: NoiseLaw, bits: BitSource) -> float:
    counted = VectorStatistic(name="counts", blocks=(Rows(),), noise=noise)
    ball = wide_ball(engine)
    value = counted.measure(AllRows(engine=engine, ball=ball, seeded=not bits.private), ball, bits)
    return max(float(value[0, 0]), 1.0)


def wide_ball(engine: Engine) -> Ball:
    """A ball that holds every scaled row, also one with missing cells, so that rows are not clipped to it."""
    return Ball(radius=4.0 * math.sqrt(engine.n_features) if engine.schema is not None else 1.0)


def _plan(
    engine: Engine,
    recipe: Recipe,
    fields: Fields,
    request: Request,
    price: Price,
    survey: Survey,
    n_rows: float,
) -> Plan:
    """The plan of the release, with noise for what the survey leaves."""
    secure = bit_source(request.random_state, stream=2).private
    spent = survey.part(engine, secure=secure)
    epsilon, delta = price.epsilon, price.delta
    if survey.noise is not None and price.gaussian:
        delta = delta_after(epsilon, delta, survey_shift=survey.noise.shift)
    elif survey.noise is not None:
        if not survey.noise.epsilon < epsilon:
            raise BudgetError(f"nothing of epsilon={epsilon!r} is left after the survey. Raise epsilon.", cost=epsilon)
        epsilon = what_is_left(epsilon, survey.noise.epsilon)
    ball = wide_ball(engine)
    blocks = _scaled(recipe.blocks(fields), gaussian=price.gaussian)
    by = tuple(field.levels(others=False) for field in fields.by)
    whole = engine.unit is None and not _is_sampled(request) and all(map(_is_whole, blocks))
    unit_noise: NoiseLaw = GaussianNoise(scale=1.0) if price.gaussian else LpNoise(scale=1.0)
    mechanism = VectorStatistic(name=recipe.name, blocks=blocks, noise=unit_noise, by=by)
    rule, scale = _calibrated(request, mechanism, ball, epsilon, delta, n_rows)
    noise: NoiseLaw = GeometricNoise(scale=scale) if whole and not price.gaussian else replace(unit_noise, scale=scale)  # type: ignore[type-var]
    return Plan(
        ball=ball,
        rule=rule,
        mechanism=replace(mechanism, noise=noise),
        epsilon=epsilon,
        delta=price.delta,
        delta_basis=price.basis,
        spent=spent,
        unit=engine.unit,
        schema=engine.schema,
    )


def _is_sampled(request: Request) -> bool:
    return isinstance(request.sampling, Rule) or request.sample_size is not None


def _calibrated(
    request: Request, mechanism: VectorStatistic, ball: Ball, epsilon: float, delta: float, n_rows: float
) -> tuple[Rule, float]:
    """The sampling rule, and the scale of the noise that it needs.

    The loss of a row does not depend on its values, so no row can be left out for free: without a sample size, all rows
    are used.
    """
    norms = NormDistribution(norms=np.array([ball.radius]), masses=np.array([n_rows]), radius=ball.radius)
    if isinstance(request.sampling, Rule):
        solved = calibrate(request.sampling, mechanism.profile, norms, epsilon=epsilon, delta=delta)
    elif request.sample_size is None:
        solved = calibrate("none", mechanism.profile, norms, epsilon=epsilon, delta=delta)
        return UniformRule(rate=1.0), solved.noise
    else:
        size = min(request.sample_size, n_rows)
        solved = calibrate(request.sampling, mechanism.profile, norms, epsilon=epsilon, delta=delta, sample_size=size)
    return solved.rule, solved.noise


def _scaled(blocks: list[Weighted], *, gaussian: bool) -> tuple[Block, ...]:
    """The blocks with the smallest factors that together have the price of one count."""
    weights = [weight for _, weight in blocks]
    total = math.hypot(*weights) if gaussian else math.fsum(weights)
    factors = [total / weight for weight in weights]
    power = 2 if gaussian else 1
    if sum(1 / Fraction(factor) ** power for factor in factors) > 1:
        factors = [factor * _ROOM for factor in factors]
    return tuple(replace(block, factor=factor) for (block, _), factor in zip(blocks, factors, strict=True))


def _is_whole(block: Block) -> bool:
    """Whether a row adds whole numbers to a block."""
    return isinstance(block, (Rows, Bins, Levels)) or (isinstance(block, Split) and block.degree == 0)


def _statistic(recipe: Recipe, fields: Fields, plan: Plan, result: Any) -> Statistic:
    """Values, errors and labels from released totals."""
    mechanism = plan.mechanism
    assert isinstance(mechanism, VectorStatistic)
    totals: FloatArray = result.value

    def estimate(drawn: FloatArray) -> FloatArray:
        return recipe.estimate([drawn[..., place] for place in mechanism.places], fields)

    inner, columns, groups = recipe.rows(fields), recipe.columns(fields), fields.groups
    width = 1 if columns is None else len(columns)

    def table(values: FloatArray) -> Any:
        return values.reshape(-1, width)

    uncertainty = Uncertainty(
        totals=totals,
        mechanism=mechanism,
        max_rows=1 if plan.unit is None else plan.unit.max_rows,
        spare=kept_spare(plan.rule.smallest_probability(plan.ball.radius)),
        estimate=estimate,
    )

    resolution = recipe.resolution(fields)

    def bounds(level: float) -> tuple[FloatArray, FloatArray]:
        low, high = uncertainty.bounds(level)
        ends = (recipe.limited(end, fields) for end in (low - resolution, high + resolution))
        return table(next(ends)), table(next(ends))

    return Statistic(
        name=recipe.title,
        clipping=clipping_in_words(fields),
        certificate=result.certificate,
        estimates=table(recipe.limited(estimate(totals[None])[0], fields)),
        standard_errors=table(np.hypot(uncertainty.standard_errors(), resolution / math.sqrt(6.0))),
        bounds=bounds,
        rows=combined(groups, inner),
        columns=columns,
        is_date=np.tile(recipe.is_date(fields).reshape(-1, width), (1 if groups is None else len(groups), 1)),
        noise=_noise_in_words(plan, mechanism),
        released=totals,
    )


def combined(groups: Axis | None, inner: Axis | None) -> Axis | None:
    """Labels of the rows of a table that stacks the tables of all groups."""
    if groups is None or inner is None:
        return inner if groups is None else groups
    outer = [tuple(label for label in level for _ in range(len(inner))) for level in groups.levels]
    return Axis(names=(*groups.names, *inner.names), levels=(*outer, *(level * len(groups) for level in inner.levels)))


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


def _bounds_in_words(field: Any) -> str:
    facts = field.column.facts()
    return (
        f"{facts['low']} to {facts['high']}"
        if "low" in facts
        else f"{field.low:.6g} to {field.high:.6g}, found privately"
    )


def _end(bound: object) -> str:
    return f"{bound:.10g}" if isinstance(bound, float) else str(bound)


def _noise_in_words(plan: Plan, mechanism: VectorStatistic) -> str:
    scales = sorted(set(mechanism.scales.tolist()))
    law = {"GaussianNoise": "Gaussian", "GeometricNoise": "Two-sided geometric"}.get(
        type(mechanism.noise).__name__, "Laplace"
    )
    words = " and ".join(f"{scale:.4g}" for scale in scales)
    probability = plan.rule.smallest_probability(plan.ball.radius)
    rows = (
        "All rows were used."
        if plan.rule.keeps_all
        else f"Rows were kept with probability {probability:.4g} or more; their part of the errors is an upper bound."
    )
    return f"{law} noise of scale {words} on each total. {rows}"
