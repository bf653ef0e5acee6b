"""The plan of a statistic: its guarantee, a survey of what is not stated, its noise and its sampling rule."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields as fields_of, replace
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np

from pais._base import validate
from pais._base.numerics import exact
from pais._base.randomness import BitSource, PaidBits, bit_source
from pais.accounting.ledger import Accounts
from pais.accounting.part import Part, what_is_left
from pais.accounting.stores import new_name
from pais.data.ball import Ball
from pais.data.checks import listed
from pais.data.columns import Missing
from pais.data.engines.base import AllRows, Engine
from pais.data.units import Unit
from pais.errors import ArgumentError, BudgetError, SurveyWarning
from pais.mechanisms.base import exact_epsilon
from pais.mechanisms.blocks import Bins, Block, Levels, Rows, Split, VectorStatistic
from pais.mechanisms.noise import GaussianNoise, LpNoise, NoiseLaw, gaussian_noise, geometric_noise, laplace_noise
from pais.planning.column_survey import ColumnRange, apart, column_ranges, settled_range
from pais.planning.plan import Plan
from pais.planning.settings import SAMPLINGS
from pais.planning.survey_noise import SurveyNoise
from pais.planning.tails import Spread
from pais.privacy.amplification import largest_shift
from pais.privacy.calibration import calibrate
from pais.privacy.guarantee import PURE_NOISE, STATED
from pais.privacy.joint import delta_after
from pais.privacy.norms import NormDistribution
from pais.privacy.rules import Rule, UniformRule
from pais.statistics.clipping import bounded, with_ends
from pais.statistics.recipes import Recipe, Weighted
from pais.statistics.table import By, Caution, Fields

#: The number of rows is not known before the release. This is a tenth of one over 100 million rows.
DEFAULT_DELTA = 1e-9

# Share of epsilon, or of the squared Gaussian shift, for bounds of "auto" columns: at least, and if all columns are
# "auto" and what lies beyond their bounds has to be known. The latter belong to the constants of `planning.tails`.
_BOUNDS_PURE, _BOUNDS_GAUSSIAN = (0.1, 0.29), (0.09, 0.28)

# The same for a count that a sample needs.
_COUNT_PURE, _COUNT_GAUSSIAN = 0.02, 0.01

# Room for the rounding errors of products of scales and factors.
_ROOM = 1.0 + 2.0**-44


Totals = TypeVar("Totals", bound=VectorStatistic)


@dataclass(frozen=True, kw_only=True)
class Request:
    """The arguments that all statistics have in common: see `pais.mean`."""

    columns: Any
    by: By
    unit: str | Unit | None
    max_rows_per_unit: int | None
    missing: Missing
    epsilon: float
    delta: float | None
    sampling: Any
    sample_size: float | None
    ledger: Any
    random_state: Any

    @classmethod
    def of(cls, arguments: Mapping[str, Any]) -> Request:
        """Take the common arguments out of all arguments of a function."""
        return cls(**{field.name: arguments[field.name] for field in fields_of(cls)})

    @property
    def is_sampled(self) -> bool:
        """Whether a sample is drawn.

        The loss of a row does not depend on its values, so that no row can be left out for free: without a sample size,
        "constrained", "uniform" and "coreset" keep all rows.
        """
        return isinstance(self.sampling, Rule) or self.sample_size is not None

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
        delta = DEFAULT_DELTA if request.delta is None else validate.target_delta(request.delta)
        basis = "default" if request.delta is None else STATED
        weights = [weight for _, weight in blocks]
        pure = math.sqrt(2.0) * sum(weights) / epsilon
        if delta == 0.0 or pure <= math.hypot(*weights) / largest_shift(epsilon, delta):
            return cls(epsilon=epsilon, delta=0.0, basis=PURE_NOISE)
        return cls(epsilon=epsilon, delta=delta, basis=basis)


@dataclass(frozen=True, kw_only=True)
class Survey:
    """What has to be found before the release: bounds of "auto" columns, and a number of rows for a sample."""

    noise: SurveyNoise | None
    count_share: float
    name: str
    norms_share: float = 0.0
    ends_share: float = 0.0

    @classmethod
    def of(
        cls,
        engine: Engine,
        request: Request,
        price: Price,
        *,
        n_exact: int = 0,
        norms: float = 0.0,
        ends: float = 0.0,
    ) -> Survey:
        """The survey for a statistic.

        `n_exact` is its number of columns if it needs to know what lies beyond their bounds, and 0 otherwise. `norms`
        and `ends` are shares of epsilon, or of the squared shift, for norms of people and for values beyond the bounds.
        """
        schema, counts = engine.schema, request.sample_size is not None
        bounds = 0.0
        if schema is not None and schema.open:
            least, most = _BOUNDS_GAUSSIAN if price.gaussian else _BOUNDS_PURE
            bounds = max(least, most * len(schema.open) / n_exact) if n_exact else least
        count = counts * (_COUNT_GAUSSIAN if price.gaussian else _COUNT_PURE)
        part = bounds + count + norms + ends
        if part == 0.0:
            return cls(noise=None, count_share=0.0, name="")
        if price.gaussian:
            noise = SurveyNoise(shift=min(math.sqrt(part) * largest_shift(price.epsilon, price.delta), 1.0))
        else:
            noise = SurveyNoise(epsilon=part * price.epsilon)
        return cls(
            noise=noise, count_share=count / part, name=new_name(), norms_share=norms / part, ends_share=ends / part
        )

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

    def left(self, price: Price) -> tuple[float, float]:
        """Epsilon and delta of the release after the survey."""
        epsilon, delta = price.epsilon, price.delta
        if self.noise is not None and price.gaussian:
            delta = delta_after(epsilon, delta, survey_shift=self.noise.shift)
        elif self.noise is not None:
            if not self.noise.epsilon < epsilon:
                raise BudgetError(
                    f"nothing of epsilon={epsilon!r} is left after the survey. Raise epsilon.", cost=epsilon
                )
            epsilon = what_is_left(epsilon, self.noise.epsilon)
        return epsilon, delta

    def run(self, engine: Engine, charged: Accounts, random_state: Any, aim: Aim | None = None) -> Found:
        """Find what is not stated. An aim chooses the bounds."""
        return self.resolved(engine, self.bits(engine, charged, random_state), aim)

    def bits(self, engine: Engine, charged: Accounts, random_state: Any) -> BitSource:
        """The random bits of the survey. The first draw from them charges it."""
        drawn = bit_source(random_state, stream=2)
        parts = self.part(engine, secure=drawn.private)
        return PaidBits(drawn, lambda: _pay(charged, parts))

    def resolved(self, engine: Engine, bits: BitSource, aim: Aim | None = None) -> Found:
        """The same with bits of the survey, which may be used for more draws."""
        if self.noise is None:
            return Found(engine=engine)
        engine.require_passes(2)
        schema, n_rows = engine.schema, 1.0
        if self.count_share > 0.0:
            n_rows = _noisy_rows(engine, self.noise.on_counts(self.count_share), bits)
        if schema is not None and schema.open:
            positions = [schema.labels.index(name) for name in schema.open]
            share = 1.0 - self.count_share - self.norms_share - self.ends_share
            ranges = column_ranges(engine, positions, self.noise.part(share), bits)
            named = dict(zip(schema.open, ranges, strict=True))
            cautions = []
            if aim is not None:
                named = {name: aim.improved(name, column) for name, column in named.items()}
                cautions += aim.heavy_cautions(named)
            unclear = [name for name, column in named.items() if not column.clear]
            if unclear:
                text = (
                    f"too little stands out of the noise to find good bounds for the auto column(s) {listed(unclear)}. "
                    "State their bounds, or raise epsilon."
                )
                cautions.append(Caution(text, SurveyWarning))
            scales = {name: (column.center, column.scale) for name, column in named.items()}
            engine = engine.with_schema(schema.resolved(scales))
            spreads = {name: column.spread for name, column in named.items() if column.spread is not None}
            return Found(
                engine=engine,
                n_rows=n_rows,
                spreads=spreads if aim is not None else {},
                cautions=tuple(cautions),
            )
        return Found(engine=engine, n_rows=n_rows)


@dataclass(frozen=True, kw_only=True)
class Found:
    """What a survey found: the source with all bounds, the noisy number of rows, and how "auto" columns spread.

    `cautions` say where the survey may have found poor bounds.
    """

    engine: Engine
    n_rows: float = 1.0
    spreads: Mapping[str, Spread] = field(default_factory=dict)
    cautions: tuple[Caution, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Aim:
    """What the bounds of "auto" columns are for: the statistic, and the noise of the totals of each column. Public."""

    recipe: Recipe
    deviations: Mapping[str, float]
    by_groups: bool

    @classmethod
    def of(cls, recipe: Recipe, fields: Fields, price: Price, survey: Survey) -> Aim | None:
        """The aim of a statistic that follows from sums over values; None for another one."""
        if recipe.power == 0:
            return None
        epsilon, delta = survey.left(price)
        gaussian = price.gaussian
        blocks = scaled_blocks(with_ends(recipe.blocks(fields), fields, gaussian=gaussian), gaussian=gaussian)
        unit = 1.0 / largest_shift(epsilon, delta) if price.gaussian else math.sqrt(2.0) / epsilon
        deviations = {
            one.name: unit * next(block.factor for block in blocks if getattr(block, "column", None) == one.start)
            for one in bounded(fields)
        }
        return cls(recipe=recipe, deviations=deviations, by_groups=fields.groups is not None)

    def improved(self, name: str, column: ColumnRange) -> ColumnRange:
        """The column with the best bounds for the statistic."""
        spread = column.spread
        if spread is None:
            return column
        low, high = spread.best_bounds(
            self.recipe.noise_of_bounds, self.deviations[name], self.recipe.power, by_groups=self.by_groups
        )
        chosen = settled_range(
            apart(low, high), clear=not spread.is_weak, negative=spread.negative, positive=spread.positive
        )
        return replace(chosen, spread=spread)

    def heavy_cautions(self, columns: Mapping[str, ColumnRange]) -> list[Caution]:
        """Name columns of which a few values that noise hides may decide the statistic."""
        heavy = []
        for name, column in columns.items():
            if column.spread is not None:
                ends = np.array([column.low]), np.array([column.high])
                noise = self.recipe.noise_of_bounds(*ends, column.spread.mean).item()
                if column.spread.is_heavy(column.low, column.high, self.deviations[name] * math.sqrt(noise)):
                    heavy.append(name)
        if not heavy:
            return []
        text = (
            f"the values of the auto column(s) {listed(heavy)} have a heavy tail: a few very large ones, which noise "
            f"hides, may decide the {self.recipe.title}, and the interval need not contain it. State bounds, or "
            "release a median."
        )
        return [Caution(text, SurveyWarning)]


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


def planned(
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
    epsilon, delta = survey.left(price)
    ball = wide_ball(engine)
    blocks = recipe.blocks(fields)
    if recipe.counts_clipped and engine.stated.marked:
        blocks = with_ends(blocks, fields, gaussian=price.gaussian)
    mechanism = VectorStatistic(
        name=recipe.name,
        blocks=scaled_blocks(blocks, gaussian=price.gaussian),
        noise=GaussianNoise(scale=1.0) if price.gaussian else LpNoise(scale=1.0),
        by=tuple(field.levels(others=False) for field in fields.by),
    )
    if request.is_sampled:
        rule, mechanism = _calibrated(request, mechanism, ball, epsilon, delta, n_rows)
    else:
        whole = engine.unit is None and all(map(is_whole, mechanism.blocks))
        rule, mechanism = UniformRule(rate=1.0), with_noise(mechanism, epsilon, delta, whole=whole)
    return Plan(
        ball=ball,
        rule=rule,
        mechanism=mechanism,
        epsilon=epsilon,
        delta=price.delta,
        delta_basis=price.basis,
        spent=spent,
        unit=engine.unit,
        schema=engine.schema,
    )


def with_noise(mechanism: Totals, epsilon: float, delta: float, *, whole: bool) -> Totals:
    """The mechanism with the noise that all rows need. Whole totals have geometric noise."""
    if delta > 0.0:
        return replace(mechanism, noise=gaussian_noise(epsilon=epsilon, delta=delta))
    noise: NoiseLaw = geometric_noise(epsilon=epsilon) if whole else laplace_noise(epsilon=epsilon)
    mechanism = replace(mechanism, noise=noise)
    limit = min(Fraction(epsilon), exact(epsilon))
    while (exact_epsilon(mechanism, UniformRule(rate=1.0), Ball(radius=1.0)) or 0) > limit:
        # Products of the scale and the factors are rounded.
        noise = replace(noise, scale=math.nextafter(noise.scale, math.inf))  # type: ignore[type-var]
        mechanism = replace(mechanism, noise=noise)
    return mechanism


def _calibrated(
    request: Request, mechanism: VectorStatistic, ball: Ball, epsilon: float, delta: float, n_rows: float
) -> tuple[Rule, VectorStatistic]:
    """The sampling rule, and the mechanism with the noise that it needs."""
    norms = NormDistribution(norms=np.array([ball.radius]), masses=np.array([n_rows]), radius=ball.radius)
    size = None if request.sample_size is None else min(request.sample_size, n_rows)
    solved = calibrate(request.sampling, mechanism.profile, norms, epsilon=epsilon, delta=delta, sample_size=size)
    noise = replace(mechanism.noise, scale=mechanism.noise.scale * solved.noise)  # type: ignore[type-var]
    return solved.rule, replace(mechanism, noise=noise)


def scaled_blocks(blocks: list[Weighted], *, gaussian: bool) -> tuple[Block, ...]:
    """The blocks with the smallest factors that together have the price of one count."""
    weights = [weight for _, weight in blocks]
    total = math.hypot(*weights) if gaussian else math.fsum(weights)
    factors = [total / weight for weight in weights]
    power = 2 if gaussian else 1
    if sum(1 / Fraction(factor) ** power for factor in factors) > 1:
        factors = [factor * _ROOM for factor in factors]
    return tuple(replace(block, factor=factor) for (block, _), factor in zip(blocks, factors, strict=True))


def is_whole(block: Block) -> bool:
    """Whether a row adds whole numbers to a block."""
    return isinstance(block, (Rows, Bins, Levels)) or (isinstance(block, Split) and block.degree == 0)
