"""Settings of statistics, which `pais.pipeline.fit` carries out: what is released, for what price, from which table.

`TableSettings` is what all statistics share. `StatisticSettings` are those of a recipe over weighted rows; totals about
people are in `people`, and quantiles in `quantile`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields as fields_of, replace
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from pais._base import validate
from pais._base.lattice import IntArray
from pais._base.numerics import FloatArray, exact
from pais._base.randomness import BitSource, RandomState
from pais.accounting.certificate import Release
from pais.accounting.part import Part, what_is_left
from pais.data.ball import Ball
from pais.data.cells import listed
from pais.data.columns import Missing
from pais.data.engines.base import AllRows, Engine
from pais.data.kinds import OTHER, FoundCategories, Names
from pais.data.schema import Schema
from pais.data.sources import cells, names_of, source
from pais.data.units import Unit, most_units, people_concern, people_word
from pais.errors import ArgumentError, SurveyWarning
from pais.mechanisms.base import Mechanism, exact_epsilon
from pais.mechanisms.blocks import Bins, Block, Levels, Rows, Split, VectorStatistic
from pais.mechanisms.names import MOST_NAMES
from pais.mechanisms.noise import (
    GaussianNoise,
    GeometricNoise,
    LpNoise,
    NoiseLaw,
    gaussian_noise,
    geometric_noise,
    laplace_noise,
)
from pais.pipeline import fit
from pais.planning.column_survey import ColumnBounds, ColumnRange, apart, settled_range
from pais.planning.facts import Findings, Stage, Stages, SurveyNoise
from pais.planning.names import NameStage, TotalsStage
from pais.planning.plan import Plan
from pais.planning.settings import SAMPLINGS
from pais.planning.tails import Spread
from pais.privacy.amplification import delta_after, largest_shift
from pais.privacy.calibration import calibrate
from pais.privacy.guarantee import PURE_NOISE, STATED, delta_concern, warn
from pais.privacy.rules import NormDistribution, Rule, UniformRule
from pais.statistics.found import Joined, names_cautions, names_notes, with_published
from pais.statistics.recipes import Recipe, Weighted
from pais.statistics.result import Interval, Statistic, Texts
from pais.statistics.table import Caution, Fields, Selection, combined
from pais.statistics.uncertainty import (
    CLEAR,
    BeyondBounds,
    EndCounts,
    Uncertainty,
    clipping_in_words,
    empty_note,
    lost_cautions,
    notes_of,
    with_ends,
)

#: The number of rows is not known before the release. This is a tenth of one over 100 million rows.
DEFAULT_DELTA = 1e-9

# Share of epsilon, or of the squared Gaussian shift, for bounds of "auto" columns: at least, and if all columns are
# "auto" and what lies beyond their bounds has to be known. The latter belong to the constants of `planning.tails`. Set
# in b4f1a5f; benchmarks/results/coverage-statistics.md has errors and coverage.
_BOUNDS_PURE, _BOUNDS_GAUSSIAN = (0.1, 0.29), (0.09, 0.28)

# The same for a count that a sample needs. Chosen by eye (b4f1a5f): its error is far below that of the sample.
_COUNT_PURE, _COUNT_GAUSSIAN = 0.02, 0.01

# Share of the squared Gaussian shift for names that nobody listed, and of delta for names of one person alone. With
# them, the noise of what follows grows by 4.5 %.
_NAMES_SHARE, _NAMES_DELTA = 0.075, 0.1

#: Share of epsilon, or of the squared Gaussian shift, for names that are published with their totals; the rest is for
#: "other". The error of a published total is 4 to 5 % above that of a listed group.
TOTALS_SHARE = 0.96

# Share of epsilon for names, if what follows has pure noise, which grows by a quarter. Chosen by eye, as for quantiles.
_PURE_NAMES_SHARE = 0.2

# The values of "other" beyond bounds are this many times as important as with listed groups, because the noise of the
# share of all values beyond bounds is mostly that of "other". Chosen by eye.
_ENDS_OF_OTHER = 10.0

# Importance of a count of rows, beside blocks that count nothing, for names that are published with their totals.
# Chosen by eye: a fifth of epsilon finds names of about 60 rows at epsilon 1.
_COUNT_IMPORTANCE = 0.25

# Groups that the names of several columns may form, so that a table of them fits into memory.
_MOST_GROUPS = 100_000

# Room for the rounding errors of products of scales and factors.
_ROOM = 1.0 + 2.0**-44

S = TypeVar("S", bound="TableSettings")
V = TypeVar("V", bound=VectorStatistic)


class Guarantee(NamedTuple):
    """Epsilon and delta of a release, and how delta was chosen. Delta is 0 for pure noise."""

    epsilon: float
    delta: float
    basis: str


@dataclass(frozen=True, kw_only=True, eq=False)
class TableSettings(ABC):
    """Settings that all statistics of a table have: see `pais.mean`. Public.

    Attributes
    ----------
    schema : Schema, optional
        What is stated about the columns.
    columns, by : tuple of str
        The summarised columns, and those whose categories form groups.
    unit, max_rows_per_unit, max_groups_per_unit, missing, epsilon
        As in `pais.mean`.
    by_cell : bool
        Whether a missing value leaves out its cell alone, or its row.
    has_people : bool
        Whether people are protected, by `unit` or by that of an open source.
    """

    schema: Schema | None
    columns: tuple[str, ...]
    by: tuple[str, ...]
    unit: str | Unit | None
    max_rows_per_unit: int | None
    missing: Missing
    epsilon: float
    by_cell: bool = True
    max_groups_per_unit: int | None = None
    has_people: bool = False

    @classmethod
    def released(
        cls, rows: object, arguments: Mapping[str, Any], *, needs_columns: bool = True, **own: Any
    ) -> Statistic:
        """Release the statistic of a table for the arguments of its function, and issue its cautions as warnings.

        `own` are settings that are not among the arguments. If not `needs_columns`, an open source states no columns.
        """
        selection = Selection.of(rows, arguments["columns"], arguments["by"], arguments["unit"])
        if isinstance(rows, Engine) and arguments["columns"] is None and not needs_columns:
            selection = selection._replace(columns=())
        own |= {"schema": selection.schema, "columns": selection.columns, "by": selection.by}
        opened = selection.rows.unit if isinstance(selection.rows, Engine) else None
        own["has_people"] = arguments["unit"] is not None or opened is not None
        shared = [field.name for field in fields_of(cls) if field.name in arguments and field.name not in own]
        settings = cls(**own, **{name: arguments[name] for name in shared})
        ledger, random_state = arguments["ledger"], arguments["random_state"]
        result: Statistic = fit(selection.rows, settings, random_state=random_state, ledger=ledger)
        for caution in result.cautions:
            warn(caution.text, caution.category)
        return result

    @property
    @abstractmethod
    def what(self) -> str:
        """What is released, for the ledger entry of a Gaussian survey and its release together."""

    @abstractmethod
    def require(self) -> None:
        """Raise if a setting is not valid, before a row is read."""

    @cached_property
    def guarantee(self) -> Guarantee:
        """The guarantee for everything that the call releases."""
        return Guarantee(validate.target_epsilon(self.epsilon), 0.0, PURE_NOISE)

    @property
    def gaussian(self) -> bool:
        return self.noise_delta > 0.0

    @property
    def unlisted(self) -> tuple[Names | FoundCategories, ...]:
        """The columns whose names form groups, but which nobody listed."""
        return () if self.schema is None else self.schema.unlisted

    @property
    def pure_names(self) -> bool:
        """Whether what follows names, or is published with them, has pure noise, so that all of delta covers names."""
        return False

    @property
    def names_delta(self) -> float:
        """The part of delta that covers the names of one person alone; 0 if all groups are listed."""
        share = 1.0 if self.pure_names else _NAMES_DELTA
        return share * self.guarantee.delta if self.unlisted else 0.0

    @property
    def noise_delta(self) -> float:
        """The part of delta that covers noise."""
        if self.pure_names:
            return 0.0
        return what_is_left(self.guarantee.delta, self.names_delta) if self.unlisted else self.guarantee.delta

    @property
    def price(self) -> Part:
        return Part(what=self.what, epsilon=self.guarantee.epsilon, delta=self.guarantee.delta)

    def fields(self, schema: Schema | None) -> Fields:
        """The columns, with the bounds of a schema."""
        return Fields.of(schema, self.columns, self.by, pooled=self.missing != "drop")

    def opened(self, rows: object, facts: None, random_state: RandomState) -> Engine:
        """Open the table, and warn of a column that looks like the id of people."""
        if self.unit is None and not isinstance(rows, Engine):
            warn(people_concern(names_of(rows), (*self.columns, *self.by)))
        stated = {"unit": self.unit, "max_rows_per_unit": self.max_rows_per_unit, "missing": self.missing}
        if self.schema is None:
            return source(rows, **stated)  # type: ignore[arg-type]  # a mapping of several types
        return cells(rows, columns=self.schema, by_cell=self.by_cell, **stated)  # type: ignore[arg-type]

    def for_rows(self: S, rows: Engine) -> S:
        """The settings for an open table: these, unless it protects people and the statistic is a total over rows."""
        return self

    def stages(self, rows: Engine, random_state: RandomState) -> Stages:
        """The stage that finds the bounds of "auto" columns."""
        noise = self.survey_noise(self.bounds_share(rows))
        return Stages() if noise is None else Stages(noise=noise, stages=(ColumnBounds(),), passes=2)

    def bounds_share(self, rows: Engine, *, is_exact: bool = False) -> float:
        """Share of epsilon, or of the squared Gaussian shift, for the bounds of "auto" columns.

        It is larger if the statistic needs to know exactly what lies beyond them.
        """
        if rows.schema is None or not rows.schema.open:
            return 0.0
        least, most = _BOUNDS_GAUSSIAN if self.gaussian else _BOUNDS_PURE
        return max(least, most * len(rows.schema.open) / len(self.columns)) if is_exact else least

    def survey_noise(self, share: float) -> SurveyNoise | None:
        """Noise of a survey for a share of epsilon, or of the squared Gaussian shift; None without a share."""
        if share == 0.0:
            return None
        epsilon = self.guarantee.epsilon
        if self.gaussian:
            return SurveyNoise(shift=min(math.sqrt(share) * largest_shift(epsilon, self.noise_delta), 1.0))
        return SurveyNoise(epsilon=share * epsilon)

    def left(self, noise: SurveyNoise | None) -> tuple[float, float]:
        """Epsilon and delta of the release after a survey with this noise."""
        epsilon, delta = self.guarantee.epsilon, self.noise_delta
        if noise is not None and self.gaussian:
            delta = delta_after(epsilon, delta, survey_shift=noise.shift)
        elif noise is not None:
            epsilon = what_is_left(epsilon, noise.epsilon)
        return epsilon, delta

    @property
    def names_share(self) -> float:
        """Share of epsilon, or of the squared Gaussian shift, for names that nobody listed."""
        return (_PURE_NAMES_SHARE if self.pure_names else _NAMES_SHARE) if self.unlisted else 0.0

    def name_stages(self, part: float) -> list[Stage]:
        """The stage that finds names, if there are any to find; `part` is the share of all stages."""
        if not self.unlisted:
            return []
        share, delta, max_names = self.names_share / part, self.names_delta, self.max_groups_per_unit
        # Columns without groups do not multiply each other.
        most = _MOST_GROUPS if len(self.unlisted) > 1 and self.by else None
        return [NameStage(share=share, columns=self.unlisted, delta=delta, max_names=max_names, most_groups=most)]

    def surveyed(self, findings: Findings) -> Findings:
        return findings

    def planned(self, facts: Findings, rows: Engine) -> Plan:
        """The plan of the release, with noise for what the survey leaves."""
        epsilon, delta = self.guarantee[:2] if facts.noise is None else self.left(facts.noise)
        ball = wide_ball(rows)
        rule, mechanism = self._mechanism(facts, rows, ball, epsilon, delta)
        return Plan(
            ball=ball,
            rule=rule,
            mechanism=mechanism,
            epsilon=epsilon,
            delta=self.noise_delta,
            # Delta beyond that of the noise covers the names that one person alone has. [note: names-10]
            certified_delta=self.guarantee.delta if self.unlisted and self.gaussian else None,
            delta_basis=self.guarantee.basis if self.gaussian else PURE_NOISE,
            spent=facts.spent,
            unit=rows.unit,
            schema=rows.schema,
        )

    @abstractmethod
    def _mechanism(
        self, facts: Findings, rows: Engine, ball: Ball, epsilon: float, delta: float
    ) -> tuple[Rule, Mechanism]:
        """The sampling rule, and the mechanism with noise for what the survey leaves."""

    @abstractmethod
    def result(self, plan: Plan, release: Release, facts: Findings) -> Statistic:
        """Values, errors, labels and cautions from what was released."""


def require_delta(delta: float, unlisted: Sequence[Names | FoundCategories]) -> None:
    """Raise unless delta covers the chance that the name of one person alone is published."""
    if delta == 0.0:
        name = unlisted[0].name
        raise ArgumentError(
            f"the names in {name!r} are not listed, and delta=0 forbids publishing a name from the table: it might be "
            f"that of one person. Pass delta > 0, or list the names: {{{name!r}: [...]}}."
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class CountStage(Stage):
    """Noisy totals over all rows of blocks, which may depend on bounds that an earlier stage found.

    Finds the mechanism that released them, and the totals.
    """

    blocks: Callable[[Schema | None], tuple[Block, ...]]

    def _mechanism(self, engine: Engine, noise: SurveyNoise) -> VectorStatistic:
        return VectorStatistic(name="counts", blocks=self.blocks(engine.schema), noise=noise.on_counts(1.0))

    def read(self, engine: Engine, noise: SurveyNoise, bits: BitSource) -> IntArray:
        rows = AllRows(engine=engine, ball=wide_ball(engine), seeded=not bits.private)
        return rows.total(self._mechanism(engine, noise).add)

    def release(
        self, totals: IntArray, engine: Engine, noise: SurveyNoise, bits: BitSource
    ) -> tuple[Engine, tuple[VectorStatistic, FloatArray]]:
        mechanism = self._mechanism(engine, noise)
        return engine, (mechanism, mechanism.noisy(totals, bits))


@dataclass(frozen=True, kw_only=True, eq=False)
class StatisticSettings(TableSettings):
    """Settings of a statistic that follows from totals over weighted rows."""

    recipe: Recipe
    delta: float | None
    sampling: Any
    sample_size: float | None

    @property
    def what(self) -> str:
        return self.recipe.name

    def require(self) -> None:
        if not isinstance(self.sampling, Rule) and self.sampling not in SAMPLINGS:
            raise ArgumentError(
                f"sampling={self.sampling!r} is not known. Pass 'none', 'constrained', 'coreset', 'uniform' or a Rule."
            )
        if self.sample_size is not None:
            validate.positive("sample_size", self.sample_size)
            if isinstance(self.sampling, Rule) or self.sampling == "none":
                raise ArgumentError("sample_size needs sampling='constrained' or 'uniform'. State both, or neither.")
        self.recipe.require(self.fields(self.schema))
        if self.max_groups_per_unit is None:
            return
        if validate.count("max_groups_per_unit", self.max_groups_per_unit) > MOST_NAMES:
            raise ArgumentError(f"max_groups_per_unit is too large. Pass a number up to {MOST_NAMES:,}.")
        if not self.unlisted and not self.recipe.presence:
            raise ArgumentError(
                "max_groups_per_unit is for groups that nobody listed, and for count_people. Leave it out."
            )
        if not self.has_people:
            raise ArgumentError("max_groups_per_unit is about people. Pass the column that names them as unit.")

    @cached_property
    def guarantee(self) -> Guarantee:
        """Pure noise, or Gaussian noise if it is allowed and smaller for the blocks of the recipe."""
        epsilon = validate.target_epsilon(self.epsilon)
        delta = DEFAULT_DELTA if self.delta is None else validate.target_delta(self.delta)
        if self.unlisted:
            require_delta(delta, self.unlisted)
        elif self._is_pure_better(epsilon, delta):
            return Guarantee(epsilon, 0.0, PURE_NOISE)
        return Guarantee(epsilon, delta, "default" if self.delta is None else STATED)

    def _is_pure_better(self, epsilon: float, delta: float) -> bool:
        """Whether pure noise is smaller than Gaussian noise for the blocks of the recipe."""
        weights = [weight for _, weight in self.recipe.blocks(self.fields(self.schema))]
        pure = math.sqrt(2.0) * sum(weights) / epsilon
        return delta == 0.0 or pure <= math.hypot(*weights) / largest_shift(epsilon, delta)

    @cached_property
    def names_with_totals(self) -> bool:
        """Whether names are published with their totals: if each row belongs to one name, and all rows are used.

        Noise has to be pure: Gaussian noise of many columns would hide names that rounds of their own find.
        """
        if self.schema is None or self.schema.open or self.has_people or not self.pure_names:
            return False
        if len(self.unlisted) != 1 or self.unlisted[0].name not in self.by:
            return False
        return not is_sampled(self.sampling, self.sample_size)

    @cached_property
    def pure_names(self) -> bool:
        return bool(self.unlisted) and self._is_pure_better(self.guarantee.epsilon, self.guarantee.delta)

    def _blocks(self, fields: Fields) -> list[Weighted]:
        """The blocks of the recipe, and a count of rows if names need one."""
        blocks = self.recipe.blocks(fields)
        if self.names_with_totals and not any(isinstance(block, (Rows, Split, Levels, Bins)) for block, _ in blocks):
            blocks = [*blocks, (Rows(), _COUNT_IMPORTANCE * math.fsum(weight for _, weight in blocks))]
        return blocks

    def stages(self, rows: Engine, random_state: RandomState) -> Stages:
        """Names that nobody listed, the number of rows for a sample, and the bounds of "auto" columns."""
        if self.sample_size is None and (rows.schema is None or not (rows.schema.open or self.unlisted)):
            return Stages()
        if self.names_with_totals:
            assert rows.unit is None
            noise = self.survey_noise(TOTALS_SHARE)
            totals = TotalsStage(
                columns=self.unlisted,
                delta=self.names_delta,
                totals=partial(self._totals, marked=rows.stated.marked),
                ball=wide_ball(rows),
                place=self.by.index(self.unlisted[0].name),
            )
            return Stages(noise=noise, stages=(totals,), passes=3, delta=self.names_delta)
        bounds = self.bounds_share(rows, is_exact=self.recipe.power > 0)
        count = 0.0 if self.sample_size is None else _COUNT_GAUSSIAN if self.gaussian else _COUNT_PURE
        part = self.names_share + bounds + count
        noise = self.survey_noise(part)
        assert noise is not None
        stages = self.name_stages(part)
        if count:
            stages.append(CountStage(name="rows", share=count / part, blocks=lambda _: (Rows(),)))
        if bounds:
            share = 1.0 - (self.names_share + count) / part
            stages.append(ColumnBounds(share=share, choose=self.chosen_bounds(noise)))
        return Stages(noise=noise, stages=tuple(stages), passes=2 + bool(self.unlisted), delta=self.names_delta)

    def chosen_bounds(self, noise: SurveyNoise) -> Callable[[str, ColumnRange], ColumnRange] | None:
        """How the bounds of "auto" columns are chosen; None if they are to hold nearly all values."""
        return Aim.of(self, noise).improved if self.recipe.power else None

    def found_columns(self, facts: Findings) -> tuple[dict[str, Spread], list[Caution]]:
        """How the "auto" columns spread, if what lies beyond their bounds counts, and where bounds may be poor."""
        columns: Mapping[str, ColumnRange] = facts.found.get("columns", {})
        if not columns:
            return {}, []
        if self.recipe.power == 0:
            return {}, unclear_cautions(columns)
        spreads = {name: column.spread for name, column in columns.items() if column.spread is not None}
        return spreads, [*Aim.of(self, facts.noise).heavy_cautions(columns), *unclear_cautions(columns)]

    def _vector(self, schema: Schema | None, *, marked: bool, ends: float = 1.0) -> VectorStatistic:
        """The totals, with noise of scale 1. If cells are `marked`, those beyond the bounds are counted too.

        These counts are more important by the factor `ends` if the totals of found names are released already.
        """
        fields, gaussian = self.fields(schema), self.gaussian
        blocks = own = self._blocks(fields)
        if self.recipe.counts_clipped and marked:
            blocks = with_ends(blocks, fields, gaussian=gaussian)
        if self.names_with_totals:
            blocks = [*own, *((block, ends * weight) for block, weight in blocks[len(own) :])]
        return VectorStatistic(
            name=self.recipe.name,
            blocks=scaled_blocks(blocks, gaussian=gaussian),
            noise=GaussianNoise(scale=1.0) if gaussian else LpNoise(scale=1.0),
            by=fields.levels,
        )

    def _totals(self, schema: Schema, noise: SurveyNoise, *, marked: bool) -> VectorStatistic:
        """The totals, with the noise of a stage."""
        mechanism = self._vector(schema, marked=marked)
        if noise.gaussian:
            return replace(mechanism, noise=noise.on_counts(1.0))
        return with_noise(mechanism, noise.epsilon, 0.0, whole=all(map(is_whole, mechanism.blocks)))

    def _mechanism(
        self, facts: Findings, rows: Engine, ball: Ball, epsilon: float, delta: float
    ) -> tuple[Rule, Mechanism]:
        mechanism = self._vector(rows.schema, marked=rows.stated.marked, ends=_ENDS_OF_OTHER)
        if self.sample_size is None and not isinstance(self.sampling, Rule):
            whole = rows.unit is None and all(map(is_whole, mechanism.blocks))
            return UniformRule(rate=1.0), with_noise(mechanism, epsilon, delta, whole=whole)
        n_rows = max(float(facts.found["rows"][1][0, 0]), 1.0) if "rows" in facts.found else 1.0
        norms = NormDistribution(norms=np.array([ball.radius]), masses=np.array([n_rows]), radius=ball.radius)
        size = None if self.sample_size is None else min(self.sample_size, n_rows)
        solved = calibrate(self.sampling, mechanism.profile, norms, epsilon=epsilon, delta=delta, sample_size=size)
        noise = replace(mechanism.noise, scale=mechanism.noise.scale * solved.noise)  # type: ignore[type-var]
        return solved.rule, replace(mechanism, noise=noise)

    def result(self, plan: Plan, release: Release, facts: Findings) -> Statistic:
        recipe, fields, mechanism = self.recipe, self.fields(plan.schema), plan.mechanism
        totals, spreads, cautions = np.asarray(release.value), dict[str, Spread](), list[Caution]()
        if "columns" in facts.found:
            spreads, cautions = self.found_columns(facts)
        assert isinstance(mechanism, VectorStatistic)
        max_rows = 1 if plan.unit is None else plan.unit.full_rows
        spare = 1.0 / plan.rule.smallest_probability(plan.ball.radius) - 1.0
        n_blocks, columns = len(recipe.blocks(fields)), recipe.columns(fields)
        totals, parts, published = with_published(facts, fields, totals, mechanism, n_blocks)
        ends = EndCounts.of(totals, parts, fields, max_rows=max_rows, spare=spare)
        beyond = BeyondBounds.of(spreads, fields, ends, max_rows) if spreads else None
        joined = []
        for is_own, law in parts:
            own = replace(law, blocks=law.blocks[:n_blocks])
            one = Uncertainty(
                totals=totals[is_own, : own.places[-1].stop],
                mechanism=own,
                max_rows=max_rows,
                spare=spare,
                recipe=recipe,
                fields=fields,
                n_columns=1 if columns is None else len(columns),
                beyond=beyond,
            )
            joined.append((is_own, one))
        uncertainty = Joined(tuple(joined), published)
        # The number of rows according to the release itself, or fewer; in rows of mass 1 if there are units.
        counts = [
            totals[:, place].sum() for block, place in zip(own.blocks, own.places, strict=True) if not block.is_signed
        ]
        n_rows = float(max(counts, default=0.0)) / max_rows
        about, note = about_rows(recipe.title, plan.unit, n_rows, by_groups=bool(fields.by))
        if self.guarantee.delta > 0.0:
            warn(delta_concern(self.guarantee.delta, most_units(plan.unit, n_rows)))
        estimates, lost = uncertainty.estimates(), None
        if recipe.needs_cells:
            hidden = uncertainty.lost()
            cautions += lost_cautions(hidden, fields) if hidden.any() else []
            by_label = np.repeat(hidden, [len(field.labels) for field in fields.columns], axis=1)
            lost = np.repeat(by_label, len(estimates) // len(hidden), axis=0)
        if ends is not None:
            cautions += ends.cautions(spreads, plan.unit, recipe.title)
        cautions += names_cautions(facts, fields, plan.unit)
        dates = recipe.is_date(fields)
        result = Statistic(
            name=recipe.title,
            cautions=tuple(cautions),
            about=about,
            certificate=replace(release.certificate, about=about),
            estimates=estimates,
            errors=uncertainty.standard_errors,
            bounds=uncertainty.bounds,
            texts=partial(_texts, uncertainty, ends, spreads, plan, (note, *names_notes(facts, plan.unit))),
            rows=combined(fields.groups, recipe.rows(fields)),
            columns=columns,
            is_date=None if dates is None else np.resize(dates, estimates.shape),
            released=totals,
            plan=plan,
            subject=fields.subject,
            lost=lost,
        )
        return without_guesses(result, facts, fields) if recipe.power and "columns" in facts.found else result


def _texts(
    uncertainty: Joined,
    ends: EndCounts | None,
    spreads: Mapping[str, Spread],
    plan: Plan,
    first: tuple[str, ...],
) -> Texts:
    """What a statistic of rows says about its noise, its bounds and its empty groups."""
    laws = [one for _, one in uncertainty.parts]
    recipe, fields = laws[0].recipe, laws[0].fields
    shares = () if ends is None else ends.shares(spreads, plan.unit)
    if recipe.counts_clipped:
        notes = notes_of(shares, fields)
    else:
        notes = [empty_note(uncertainty.estimates() > CLEAR * uncertainty.standard_errors(), fields)]
    kept = "All rows were used."
    if not plan.rule.keeps_all:
        rate = plan.rule.smallest_probability(plan.ball.radius)
        kept = f"Rows were kept with probability {rate:.4g} or more; their part of the errors is an upper bound."
    noises = []
    for one in laws:
        scales = sorted({one.max_rows * scale for scale in one.mechanism.block_scales})
        on_each = " and ".join(f"{scale:.4g}" for scale in scales)
        noises.append(f"{law_in_words(one.mechanism.noise)} noise of scale {on_each}")
    noise = f"{noises[0]} on each total"
    if len(noises) > 1:
        noise = f"{noise} of a name that was found, and {in_sentence(noises[1])} on those of {OTHER!r}"
    return Texts(
        noise=f"{noise}. {kept}",
        clipping=clipping_in_words(fields, shares, spreads, plan.unit, has_shares=recipe.needs_cells),
        notes=tuple(filter(None, [*first, *notes])),
        clipped=shares,
    )


def is_sampled(sampling: object, sample_size: float | None) -> bool:
    """Whether a sample is drawn.

    The loss of a row does not depend on its values, so that no row can be left out for free: without a sample size,
    "constrained", "uniform" and "coreset" keep all rows.
    """
    return isinstance(sampling, Rule) or sample_size is not None


@dataclass(frozen=True, kw_only=True)
class Aim:
    """What the bounds of "auto" columns are for: the statistic, and the noise of the totals of each column. Public."""

    recipe: Recipe
    deviations: Mapping[str, float]
    by_groups: bool

    @classmethod
    def of(cls, settings: StatisticSettings, noise: SurveyNoise | None) -> Aim:
        recipe, gaussian, fields = settings.recipe, settings.gaussian, settings.fields(settings.schema)
        epsilon, delta = settings.left(noise)
        blocks = scaled_blocks(with_ends(recipe.blocks(fields), fields, gaussian=gaussian), gaussian=gaussian)
        unit = 1.0 / largest_shift(epsilon, delta) if gaussian else math.sqrt(2.0) / epsilon
        deviations = {
            one.name: unit * next(block.factor for block in blocks if getattr(block, "column", None) == one.start)
            for one in fields.bounded
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


def unclear_cautions(columns: Mapping[str, ColumnRange]) -> list[Caution]:
    """Name "auto" columns of which the survey saw too little."""
    unclear = [name for name, column in columns.items() if not column.clear]
    if not unclear:
        return []
    text = (
        f"too little stands out of the noise to find good bounds for the auto column(s) {listed(unclear)}. State their "
        "bounds, or raise epsilon."
    )
    return [Caution(text, SurveyWarning)]


# Values are within guessed bounds if noise hides at most this share of them outside. Chosen by eye.
_FEW_OUTSIDE = 0.05


def without_guesses(result: Statistic, facts: Findings, fields: Fields) -> Statistic:
    """The result without intervals where bounds are a guess, since nothing but zeros stands out of the noise.

    They stay where nearly all values are known to be within the guess.
    """
    guessed = [name for name, column in facts.found.get("columns", {}).items() if not column.seen]
    if guessed:
        outside = {one.column: one.most for one in result.clipped}
        guessed = [name for name in guessed if not outside.get(name, 1.0) <= _FEW_OUTSIDE]
    if not guessed:
        return result
    unknown = np.tile(
        [field.name in guessed for field in fields.columns for _ in field.labels], (len(result.estimates), 1)
    )
    if result.name == "description" and result.rows is not None:
        unknown[np.array(result.rows.levels[-1]) == "count"] = False
    is_lost = unknown if result.lost is None else result.lost | unknown
    text = (
        f"nothing stands out of the noise in {listed(guessed)}, so values were clipped to a guess, -1 to 1. What "
        "follows says nothing about the values of the table. State bounds, or raise epsilon."
    )
    return replace(
        result,
        bounds=partial(_open_ends, result.bounds, unknown),
        lost=is_lost,
        cautions=(*result.cautions, Caution(text, SurveyWarning)),
    )


def _open_ends(bounds: Interval, unknown: NDArray[np.bool_], level: float) -> tuple[FloatArray, FloatArray]:
    low, high = bounds(level)
    return np.where(unknown, -math.inf, low), np.where(unknown, math.inf, high)


def wide_ball(engine: Engine) -> Ball:
    """A ball that holds every scaled row, also one with missing cells, so that rows are not clipped to it."""
    return Ball(radius=4.0 * math.sqrt(engine.n_features) if engine.schema is not None else 1.0)


def with_noise(mechanism: V, epsilon: float, delta: float, *, whole: bool) -> V:
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


def about_rows(title: str, unit: Unit | None, noisy_rows: float, *, by_groups: bool) -> tuple[str, str]:
    """What a statistic of rows is about, and a note on how much weight people have together.

    `noisy_rows` is a released number of rows. With units it is the sum of their weights, to which a person with missing
    cells adds less than one. The note is empty if the text or the values tell.
    """
    number = f"about {noisy_rows:,.0f}" if noisy_rows >= 0.5 else ""
    if unit is None:
        whole = {"count": "number of rows", "histogram": "number of rows by bin", "sum": "total over all rows"}
        return whole.get(title) or " ".join(filter(None, (title, "over", number, "rows"))), ""
    (one, many), note = people_word(unit.column), ""
    if unit.full_rows == 1:
        texts = [f"{title} over {many}; each {one} counts once, with all rows sharing one weight"]
        if by_groups:
            texts.append(f"a {one} in several groups counts in each by the share of rows there")
        if number and title != "description":
            note = f"the weights of the {many} add up to {number}; a {one} with missing cells adds less than 1"
    else:
        limit = f"a {one} with more than {unit.full_rows} rows counts as {unit.full_rows} rows"
        texts = [f"{title} over the rows of {many}; {limit}"]
    if title == "description":
        texts.append(
            f"count is no number of {many}, as one with missing cells adds less than 1: count adds up these weights"
        )
    return "; ".join(texts), note


def law_in_words(noise: NoiseLaw) -> str:
    return {GaussianNoise: "Gaussian", GeometricNoise: "Two-sided geometric"}.get(type(noise), "Laplace")


def in_sentence(law: str) -> str:
    """Words about noise within a sentence. Names of people keep their capital."""
    return law if law.startswith(("Laplace", "Gaussian")) else law[0].lower() + law[1:]
