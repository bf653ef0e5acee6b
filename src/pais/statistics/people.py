"""Totals and counts about people: sums over all of their rows, numbers of rows, and numbers of people."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields as fields_of, replace
from functools import cached_property, partial

import numpy as np
from scipy import special

from pais._base.lattice import IntArray, Lattice
from pais._base.numerics import FloatArray
from pais._base.randomness import BitSource, RandomState
from pais.accounting.certificate import Release
from pais.data.ball import Ball
from pais.data.cells import listed
from pais.data.engines.base import AllRows, Engine
from pais.data.kinds import OTHER
from pais.data.schema import Schema
from pais.data.units import Unit, people_word
from pais.errors import ArgumentError, QualityWarning, SurveyWarning
from pais.mechanisms.base import Mechanism
from pais.mechanisms.blocks import Block, Ends, Line
from pais.mechanisms.noise import GaussianNoise, GeometricNoise, LpNoise, NoiseLaw
from pais.planning.column_survey import ColumnBounds
from pais.planning.facts import Findings, Stage, Stages, SurveyNoise
from pais.planning.names import PeopleStage
from pais.planning.plan import Plan
from pais.planning.tails import Spread
from pais.privacy.amplification import largest_shift
from pais.privacy.guarantee import delta_concern, warn
from pais.privacy.rules import Rule, UniformRule
from pais.statistics.found import Published, names_cautions, names_notes, published_counts
from pais.statistics.people_totals import (
    MOST_SIZES,
    SPLIT_ERROR,
    Bound,
    NormsOfPeople,
    PeopleTotals,
    RowSteps,
    Totals,
    bound_from_octaves,
    bound_from_sizes,
)
from pais.statistics.recipes import Recipe
from pais.statistics.result import Statistic, Texts
from pais.statistics.settings import (
    TOTALS_SHARE,
    CountStage,
    StatisticSettings,
    in_sentence,
    is_sampled,
    is_whole,
    law_in_words,
    scaled_blocks,
    wide_ball,
    with_noise,
    without_guesses,
)
from pais.statistics.table import Caution, Field, Fields, combined, short, with_error
from pais.statistics.uncertainty import (
    ClippedShare,
    EndCounts,
    clipping_in_words,
    empty_note,
    noise_quantiles,
    notes_of,
    rounded_up,
)

# Share of epsilon, or of the squared Gaussian shift, for the histogram of people from which bounds are chosen. A total
# needs a good tail; the number of groups of a person is found with less. Each is (pure, Gaussian). Set
# with the constants of `people_totals` in b4f1a5f; benchmarks/results/coverage-statistics.md has the coverage.
_OCTAVES_SHARE, _SIZES_SHARE = (0.28, 0.28), (0.06, 0.1)

# The same for the numbers of values beyond the bounds of columns, of which each person counts once. Chosen by
# eye (b4f1a5f).
_ENDS_SHARE = (0.03, 0.04)


@dataclass(frozen=True, kw_only=True, eq=False)
class TotalSettings(StatisticSettings):
    """Settings of a total over rows. Where people are protected, it becomes a total over all rows of people."""

    def opened(self, rows: object, facts: None, random_state: RandomState) -> Engine:
        unit = rows.unit if isinstance(rows, Engine) else self.unit
        if self.recipe.presence and unit is None:
            raise ArgumentError("count_people needs the column that names people. Pass it, such as unit='customer_id'.")
        return super().opened(rows, facts, random_state)

    def for_rows(self, rows: Engine) -> TotalSettings:
        if rows.unit is None:
            return self
        if is_sampled(self.sampling, self.sample_size):
            raise ArgumentError(
                "sums and counts about people use all people. Leave out sampling and sample_size: the error of a "
                "sample would be far larger than that of the noise."
            )
        stated = {field.name: getattr(self, field.name) for field in fields_of(self)}
        return PeopleSettings(**stated, owner=rows.unit)


@dataclass(frozen=True, kw_only=True, eq=False)
class PeopleSettings(TotalSettings):
    """Settings of a total over all rows of people. Each person is one record."""

    owner: Unit

    @property
    def what(self) -> str:
        return self.recipe.name_for_people

    @cached_property
    def pure_names(self) -> bool:
        """Whether names and totals have pure noise. With many groups of a person, Gaussian noise is smaller.

        Sums keep Gaussian noise, for which bounds on people cut less off.
        """
        if not super().pure_names or self.recipe.power:
            return False
        most, (epsilon, delta, _) = self.max_groups_per_unit or 1, self.guarantee
        return math.sqrt(2.0) * most / epsilon <= math.sqrt(most) / largest_shift(epsilon, delta)

    @property
    def counts_with_names(self) -> bool:
        """Whether the numbers of people are published with the names."""
        is_stated = self.max_groups_per_unit is not None
        return self.recipe.presence and self.pure_names and is_stated and len(self.unlisted) == len(self.by) == 1

    def for_rows(self, rows: Engine) -> PeopleSettings:
        return self

    def statistic(self, schema: Schema | None, facts: Findings | None = None) -> PeopleStatistic:
        """The statistic for columns with these bounds, and with the bounds on people that are stated or found."""
        fields = self.fields(schema)
        blocks = scaled_blocks(self.recipe.blocks(fields), gaussian=self.gaussian)
        asked = PeopleStatistic(
            recipe=self.recipe,
            fields=fields,
            blocks=blocks,
            gaussian=self.gaussian,
            unit=self.owner,
            unlisted=bool(self.unlisted),
            max_groups=self.max_groups_per_unit,
        )
        if facts is None:
            return asked
        stated = asked.stated
        bounds = facts.found["people"] if stated is None else [Bound(size=stated)] * len(blocks)
        return replace(asked, bounds=tuple(bounds))

    def stages(self, rows: Engine, random_state: RandomState) -> Stages:
        """Bounds of "auto" columns, numbers of values beyond bounds, and the norms of people, as far as not stated."""
        asked = self.statistic(rows.schema)
        if self.counts_with_names:
            assert self.max_groups_per_unit is not None
            names = PeopleStage(columns=self.unlisted, delta=self.names_delta, max_names=self.max_groups_per_unit)
            return Stages(noise=self.survey_noise(TOTALS_SHARE), stages=(names,), passes=2, delta=self.names_delta)
        bounds, norms, ends = self.bounds_share(rows, is_exact=self.recipe.power > 0), 0.0, 0.0
        if asked.stated is None:
            norms = (_SIZES_SHARE if asked.by_size else _OCTAVES_SHARE)[self.gaussian]
        if self.recipe.counts_clipped and rows.stated.marked and asked.fields.bounded:
            ends = _ENDS_SHARE[self.gaussian]
        part = self.names_share + bounds + norms + ends
        noise, stages = self.survey_noise(part), self.name_stages(part)
        if noise is None:
            return Stages()
        if bounds:
            share = 1.0 - (self.names_share + norms + ends) / part
            stages.append(ColumnBounds(share=share, choose=self.chosen_bounds(noise)))
        if ends:
            # The values of a person count once in all.
            stages.append(CountStage(name="ends", share=ends / part, blocks=self._ends))  # [note: totals-10]
        if norms:
            stages.append(PeopleNorms(share=norms / part, settings=self, left=self.left(noise)))
        return Stages(noise=noise, stages=tuple(stages), passes=2 + bool(self.unlisted), delta=self.names_delta)

    def _ends(self, schema: Schema | None) -> tuple[Block, ...]:
        bounded = self.fields(schema).bounded
        return scaled_blocks([(Ends(column=field.start), 1.0) for field in bounded], gaussian=self.gaussian)

    def _mechanism(
        self, facts: Findings, rows: Engine, ball: Ball, epsilon: float, delta: float
    ) -> tuple[Rule, Mechanism]:
        return UniformRule(rate=1.0), self.statistic(rows.schema, facts).mechanism(epsilon, delta)

    def result(self, plan: Plan, release: Release, facts: Findings) -> Statistic:
        asked, (spreads, cautions) = self.statistic(plan.schema, facts), self.found_columns(facts)
        recipe, fields, mechanism = self.recipe, asked.fields, plan.mechanism
        assert isinstance(mechanism, PeopleTotals)
        cautions += [*asked.cautions(spreads), *names_cautions(facts, fields, plan.unit)]
        shares: tuple[ClippedShare, ...] = ()
        if "ends" in facts.found:
            counted, totals = facts.found["ends"]
            parts = [(np.ones(len(totals), dtype=bool), counted)]
            ends = EndCounts.of(totals, parts, fields._replace(by=()), max_rows=1, spare=0.0)
            assert ends is not None
            shares = ends.shares(spreads, plan.unit)
            cautions += ends.cautions(spreads, plan.unit, recipe.title, added=spreads)
        released, published = np.asarray(release.value), published_counts(facts)
        if published is not None:
            released = np.concatenate([published.scores[:, None], released[-1:]])
        values = _Estimates.of(released, asked, mechanism, spreads, published)
        if self.guarantee.delta > 0.0:
            warn(delta_concern(self.guarantee.delta, asked.n_people or 0.0))
        about, estimates, errors = asked.about(), values.estimates, values.standard_errors
        scales = dict.fromkeys(f"{scale:,.4g}" for scale in asked.in_units(mechanism.block_scales))
        law, many = law_in_words(mechanism.noise), people_word(self.owner.column)[1]
        noise = f"{law} noise of scale {listed(list(scales))} on each total"
        if published is not None:
            own = published.line.noise
            found = f"{law_in_words(own)} noise of scale {own.scale:.4g} on each total of a name that was found"
            noise = f"{found}, and {in_sentence(noise).replace('each total', f'that of {OTHER!r}')}"
        notes = notes_of(shares, fields) if recipe.counts_clipped else [empty_note(values.ends(0.95)[0] > 0.0, fields)]
        texts = Texts(
            noise=f"{noise}. All rows of all {many} were used.",
            clipping=" ".join(filter(None, (asked.clipping(), clipping_in_words(fields, shares, spreads, plan.unit)))),
            notes=tuple(filter(None, (*names_notes(facts, plan.unit), *asked.hidden_notes(), *notes))),
            clipped=shares,
        )
        result = Statistic(
            name=recipe.title,
            about=about,
            cautions=tuple(cautions),
            condition=asked.condition,
            certificate=replace(release.certificate, about=about),
            estimates=estimates,
            errors=partial(np.asarray, errors),
            bounds=values.ends,
            texts=partial(Texts, *texts),
            rows=combined(fields.groups, recipe.rows(fields)),
            columns=recipe.columns(fields),
            released=released,
            plan=plan,
            subject=fields.subject,
        )
        return without_guesses(result, facts, fields) if recipe.power and "columns" in facts.found else result


@dataclass(frozen=True, kw_only=True, eq=False)
class PeopleNorms(Stage):
    """Numbers of people by the norm of what they add to each block. Finds the bound of each block.

    `left` is what the survey leaves of epsilon and delta.
    """

    name: str = "people"
    settings: PeopleSettings
    left: tuple[float, float]

    def read(self, engine: Engine, noise: SurveyNoise, bits: BitSource) -> IntArray:
        fold = self.settings.statistic(engine.schema).norms(wide_ball(engine))
        return AllRows(engine=engine, ball=fold.ball, seeded=not bits.private).total_of_people(fold)

    def release(
        self, totals: IntArray, engine: Engine, noise: SurveyNoise, bits: BitSource
    ) -> tuple[Engine, list[Bound]]:
        asked = self.settings.statistic(engine.schema)
        fold, law = asked.norms(wide_ball(engine)), noise.on_cells(1.0, len(asked.blocks))  # [note: totals-9]
        noisy = law.added_to(totals[:, None], Lattice(step=1.0), bits).astype(np.float64)
        noisy = noisy.reshape(len(asked.blocks), fold.n_signs, fold.n_bins)
        choose: Callable[..., Bound] = bound_from_sizes if asked.by_size else bound_from_octaves
        pairs = zip(noisy, asked.blocks, strict=True)
        return engine, [choose(counts, law, asked.totals(block, *self.left)) for counts, block in pairs]


@dataclass(frozen=True, kw_only=True)
class PeopleStatistic:
    """A statistic that is a total over all rows of people, and what it says about itself. Public.

    `bounds` limit what a person adds to each of the `blocks`. They are empty before they are found. If groups are
    `unlisted`, their number is not known before names are found.
    """

    recipe: Recipe
    fields: Fields
    blocks: tuple[Block, ...]
    gaussian: bool
    unit: Unit
    unlisted: bool
    max_groups: int | None = None
    bounds: tuple[Bound, ...] = ()

    @property
    def n_groups(self) -> int:
        return 1 if self.fields.groups is None else len(self.fields.groups)

    @property
    def stated(self) -> float | None:
        """The bound on each block that follows from what is stated, in rows; None if it has to be found."""
        if self.recipe.presence:
            # A person with M rows is in at most M groups.
            stated = min(self.unit.max_rows or math.inf, self.max_groups or math.inf)
            most, is_known = min(self.n_groups, stated), (self.n_groups == 1 and not self.unlisted) or stated < math.inf
            return (math.sqrt(most) if self.gaussian else float(most)) if is_known else None
        return None if self.unit.max_rows is None else float(self.unit.max_rows)

    @property
    def by_size(self) -> bool:
        """Whether people are counted by the number of their groups."""
        return self.recipe.presence and self.n_groups <= MOST_SIZES

    def norms(self, ball: Ball) -> NormsOfPeople:
        """The histogram of people from which bounds are chosen."""
        return NormsOfPeople(
            ball=ball,
            contributions=RowSteps(blocks=self.blocks, by=self.fields.levels),
            order=2.0 if self.gaussian else 1.0,
            presence=self.recipe.presence,
            by_size=self.by_size,
            # Beside norms of 1, an octave has the norms of two and of three rows in different groups.
            bins_per_octave=2 if self.gaussian else 1,
        )

    def totals(self, block: Block, epsilon: float, delta: float) -> Totals:
        """What is public about the totals of a block, before its bound is chosen."""
        sign = 1 if not block.is_signed else 0
        if isinstance(block, Line) and -block.intercept >= abs(block.slope):
            sign = -1
        noise = replace(self, bounds=(Bound(size=1.0),) * len(self.blocks)).mechanism(epsilon, delta).noise
        noise = replace(noise, scale=noise.scale * block.factor)  # type: ignore[type-var]
        return Totals(
            n_coordinates=self.n_groups * block.size,
            sign=sign,
            whole=is_whole(block),
            noise=LpNoise(scale=noise.scale, p=1.0) if isinstance(noise, GeometricNoise) else noise,
            pure=not self.gaussian,
        )

    def mechanism(self, epsilon: float, delta: float) -> PeopleTotals:
        """The totals with the noise that their bounds need."""
        mechanism = PeopleTotals(
            name=self.recipe.name_for_people,
            blocks=self.blocks,
            noise=GaussianNoise(scale=1.0) if self.gaussian else LpNoise(scale=1.0),
            by=self.fields.levels,
            bounds=tuple(bound.size for bound in self.bounds),
            presence=self.recipe.presence,
        )
        # Whole totals that are not shared over groups stay whole when they are cut at a whole bound.
        whole = all(
            is_whole(block) and self.n_groups * block.size == 1 and bound.size % 1.0 == 0.0
            for block, bound in zip(self.blocks, self.bounds, strict=True)
        )
        return with_noise(mechanism, epsilon, delta, whole=whole)

    @property
    def n_people(self) -> float | None:
        """Released number of people; None if they were not counted."""
        zeros = any(not is_whole(block) for block in self.blocks)
        counts = [bound.n_people + zeros * bound.n_zero for bound in self.bounds if bound.n_people is not None]
        return max(counts, default=None)

    @property
    def _bounded(self) -> list[tuple[Bound, Field | None]]:
        """Each bound, with its column if it bounds a sum of values, and None if it bounds a number of rows."""
        columns = self.fields.columns or (None,) * len(self.blocks)
        triples = zip(self.bounds, self.blocks, columns, strict=True)
        return [(bound, None if is_whole(block) else field) for bound, block, field in triples]

    def about(self) -> str:
        """What the totals are about, and from where on what a person adds is cut off."""
        (one, many), n_people = people_word(self.unit.column), self.n_people
        number = f"about {n_people:,.0f} " if n_people else ""
        kinds = {"sum": "total over all rows of {}", "count": "number of rows of {}"}
        what = kinds.get(self.recipe.title, "number of rows by bin of {}").format(number + many)
        names = [field.name for field in self.fields.columns] or [""]
        limits = []
        for (bound, field), name in zip(self._bounded, names, strict=True):
            if field is not None:
                amount = short(bound.size * field.largest)
                limits.append(f"of a {one} whose {name} adds up to more than {amount}, {amount} counts")
            else:
                rows = _count(bound.size, "row", "" if len(names) == 1 else f" with a value of {name}")
                limits.append(f"of a {one} with more than {rows}, {_counting(bound.size)}")
        if self.recipe.presence:
            if self.n_groups == 1:
                return f"number of {many}; each {one} counts once, with any number of rows"
            what = f"number of {many} by group; a {one} with rows in several groups counts in each of them"
            size = self.bounds[0].size
            if size >= self.n_groups:
                return what
            n_groups = size**2 if self.gaussian else size
            limits = [f"of a {one} in more than {_count(n_groups, 'group')}, {_counting(n_groups)}"]
        rest = "is estimated and added" if all(bound.added_back for bound in self.bounds) else "does not count"
        return f"{what}; {_listed_once(limits)}, and the rest {rest}"

    def hidden_notes(self) -> list[str]:
        """For each block, how many people noise could hide who add more than its interval allows for."""
        # Nobody is in more groups than there are, and intervals allow for people in more groups than are seen.
        if self.recipe.presence:
            return []
        many, texts = people_word(self.unit.column)[1], []
        names = [f" with a value of {field.name}" for field in self.fields.columns] or [""]
        for (bound, field), named in zip(self._bounded, names, strict=True):
            if bound.most_hidden == 0.0:
                continue
            whose = f"with more than {_count(bound.reach, 'row')}{named}"
            if field is not None:
                single = f", such as by single values of up to {short(field.largest)}" if bound.reach < 1.0 else ""
                whose = f"whose {field.name} adds up to more than {short(bound.reach * field.largest)}{single}"
            texts.append(
                f"noise could hide up to about {rounded_up(bound.most_hidden)} {many} {whose}; intervals do not "
                "include them"
            )
        return list(dict.fromkeys(texts))

    @property
    def condition(self) -> str:
        """What the intervals take for granted: how much a person adds at most."""
        one = people_word(self.unit.column)[0]
        if self.stated is not None:
            # What is stated is not known to hold, and what exceeds it is left out.
            return self._limit(one, self.stated) if self.recipe.presence else _at_most(one, self.stated)
        if len(self.bounds) > 1 or math.isinf(self.bounds[0].reach):
            return ""
        ((bound, field),) = self._bounded
        if self.recipe.presence:
            return self._limit(one, bound.reach)
        if field is None:
            return _at_most(one, bound.reach)
        return f"if no {one} has more than {short(bound.reach * field.largest)}"

    def _limit(self, one: str, norm: float) -> str:
        """That a person is in at most as many groups as their norm allows; nothing if all groups are allowed."""
        n_groups = norm**2 if self.gaussian else norm
        return "" if n_groups >= self.n_groups else f"if no {one} is in more than {_count(round(n_groups), 'group')}"

    def cautions(self, spreads: Mapping[str, Spread]) -> list[Caution]:
        """Say if hardly any people stand out of the noise, or if a few may hold much of a total."""
        one, many = people_word(self.unit.column)
        concerns, cautions = {bound.concern for bound in self.bounds}, []
        if "unseen" in concerns:
            text = (
                f"too few {many} stand out of the noise to find how much each adds, so a public guess bounds it. State "
                f"how many rows of a {one} count (max_rows_per_unit), or raise epsilon."
            )
            cautions.append(Caution(text, SurveyWarning))
        if "heavy" in concerns:
            text = (
                f"a few {many} may hold much of the total, and noise hides how much. The intervals may be too short. "
                f"State how many rows of a {one} count (max_rows_per_unit), if you know it."
            )
            cautions.append(Caution(text, SurveyWarning))
        for bound, field in self._bounded:
            # One value can exceed by far what intervals allow for, so the few people whom noise hides can decide.
            if field is None or field.name in spreads or bound.most_hidden == 0.0 or bound.reach >= 1.0:
                continue
            most, amount = short(field.largest), short(bound.size * field.largest)
            text = (
                f"a single value of {field.name} may be as large as {most}, but a {one} counts with at most {amount} "
                f"in all. Noise could hide up to about {rounded_up(bound.most_hidden)} {many} with more than "
                f"{short(bound.reach * field.largest)}, and the interval does not include them. State narrower bounds "
                f"of {field.name} if so large values cannot occur."
            )
            cautions.append(Caution(text, QualityWarning))
        return cautions

    def clipping(self) -> str:
        """What the bounds on people did, in a sentence."""
        one, many = people_word(self.unit.column)
        if self.stated is not None:
            text = f"What a {one} adds beyond {self.stated:,.6g} rows is left out; how much this is is not known."
            return "" if self.recipe.presence else text
        texts = []
        for bound, value in zip(self.bounds, self.in_units([1.0] * len(self.blocks)), strict=True):
            amount = with_error(float(bound.cut * value), float(bound.cut_deviation * value))
            if bound.cut == bound.cut_deviation == 0.0:
                texts.append("they cut nothing off")
            elif bound.added_back:
                texts.append(f"an estimated {amount} in all was cut off and is added to the values")
            else:
                texts.append(f"an estimated {amount} in all is cut off; it is not in the values, but in the intervals")
        return f"The bounds on {many} were found privately: {_listed_once(texts)}."

    def in_units(self, numbers: list[float]) -> FloatArray:
        """A number of rows for each block, as a value of the statistic."""
        parts = [np.full((1, 1, block.size), number) for block, number in zip(self.blocks, numbers, strict=True)]
        places = np.cumsum([0, *(block.size for block in self.blocks)])[:-1]
        return np.asarray(self.recipe.estimate(parts, self.fields)[0, 0][places])

    def beyond(self, block: Block, total: float, bound: Bound, spreads: Mapping[str, Spread]) -> tuple[float, float]:
        """What is expected beyond bounds of a column that were found privately, and its deviation, in rows.

        The spread knows the values as if each person had one row. A person has as many rows as the total is larger. How
        the large values are shared between people is not known, so all that is added is uncertain too.
        """
        field = next((one for one in self.fields.columns if one.start == getattr(block, "column", None)), None)
        if field is None or field.name not in spreads:
            return 0.0, 0.0
        spread, unit = spreads[field.name], field.largest
        cut, once = spread.cut(field.low, field.high), abs(spread.n_values * spread.mean) / unit
        rows = min(max(abs(total) / max(once, 1e-300), 1.0), max(bound.size, 1.0))
        deviation = math.hypot(math.sqrt(cut.first_variance), cut.size)
        return cut.first * rows / unit, deviation * rows / unit


def _count(number: float, noun: str, rest: str = "") -> str:
    """A number of things: "one row", "3 rows with a value of age"."""
    return f"one {noun}{rest}" if number == 1.0 else f"{number:,.6g} {noun}s{rest}"


def _at_most(one: str, n_rows: float) -> str:
    return f"if no {one} has more than {_count(n_rows, 'row')}"


def _counting(number: float) -> str:
    return "one counts" if number == 1.0 else f"{number:,.6g} count"


def _listed_once(texts: list[str]) -> str:
    return "; ".join(dict.fromkeys(texts))


@dataclass(frozen=True, kw_only=True, eq=False)
class _Estimates:
    """Totals with what was cut off added back, the deviation of that part, and the law of their noise. Public.

    All arrays have shape (groups, coordinates), in rows. `hidden` is what people whom noise hides may lower and raise
    the totals by, as deviations. The ends of intervals are at least `least` and at most `most`, up to noise: where all
    that people add has one sign, a bound on it moves totals in one direction only.
    """

    totals: FloatArray
    spread: FloatArray
    hidden: tuple[FloatArray, FloatArray]
    least: FloatArray
    most: FloatArray
    recipe: Recipe
    fields: Fields
    mechanism: PeopleTotals
    # Groups before the last, of which the noise is another.
    published: Published | None = None

    @classmethod
    def of(
        cls,
        noisy: FloatArray,
        asked: PeopleStatistic,
        mechanism: PeopleTotals,
        spreads: Mapping[str, Spread],
        published: Published | None = None,
    ) -> _Estimates:
        totals, spread, below, above = noisy.copy(), *np.zeros((3, *noisy.shape))
        least, most = np.full_like(noisy, -math.inf), np.full_like(noisy, math.inf)
        for block, place, bound in zip(mechanism.blocks, mechanism.places, asked.bounds, strict=True):
            part = noisy[:, place]
            # The part that was cut off is shared over totals in proportion to them, none of them negative.
            positive = np.maximum(part * (-1.0 if bound.cut < 0.0 else 1.0), 0.0)
            shares = positive / positive.sum() if positive.sum() > 0.0 else np.full(part.shape, 1.0 / part.size)
            variance = (bound.cut_deviation * shares) ** 2
            if not bound.added_back:
                variance += (bound.cut * shares) ** 2
            else:
                totals[:, place] += bound.cut * shares
                if part.size > 1:
                    variance += (SPLIT_ERROR * bound.cut) ** 2 * (shares * (1.0 - shares) + 1.0 / part.size**2)
            beyond = asked.beyond(block, float(totals[:, place].sum()), bound, spreads)
            totals[:, place] += beyond[0] * shares
            spread[:, place] = np.sqrt(variance + (beyond[1] * shares) ** 2)
            below[:, place], above[:, place] = bound.hidden_below * shares, bound.hidden_above * shares
            if beyond == (0.0, 0.0) and bound.hidden_below == 0.0 < bound.hidden_above:
                least[:, place] = part
            elif beyond == (0.0, 0.0) and bound.hidden_above == 0.0 < bound.hidden_below:
                most[:, place] = part
        return cls(
            totals=totals,
            spread=spread,
            hidden=(below, above),
            least=least,
            most=most,
            recipe=asked.recipe,
            fields=asked.fields,
            mechanism=mechanism,
            published=published,
        )

    def _table(self, totals: FloatArray, *, limited: bool = True) -> FloatArray:
        """The values that follow from totals, of shape (rows, columns)."""
        parts = [totals[None, :, place] for place in self.mechanism.places]
        values = np.asarray(self.recipe.estimate(parts, self.fields)[0])
        values = self.recipe.limited(values, self.fields) if limited else values
        columns = self.recipe.columns(self.fields)
        return values.reshape(-1, 1 if columns is None else len(columns))

    def _noise(self, level: float | None) -> FloatArray:
        """For each coordinate, the size that its noise stays below with this probability, or its deviation."""
        sizes = []
        for block, scale in zip(self.mechanism.blocks, self.mechanism.block_scales, strict=True):
            law = replace(self.mechanism.noise, scale=scale)  # type: ignore[type-var]
            sizes += [_size(law, level)] * block.size
        if self.published is None:
            return np.array(sizes)
        own = np.full((len(self.totals), 1), _size(self.published.line.noise, level))
        own[-1] = sizes
        return own

    @property
    def estimates(self) -> FloatArray:
        return self._table(self.totals)

    @property
    def standard_errors(self) -> FloatArray:
        return self._table(np.hypot(self._noise(None), self.spread), limited=False)

    def ends(self, level: float) -> tuple[FloatArray, FloatArray]:
        """Ends of intervals. The quantiles of noise and of what was cut off add up as deviations do."""
        noise, factor = self._noise(level), special.ndtri(0.5 + 0.5 * level)
        below, above = (np.hypot(noise, factor * np.hypot(self.spread, hidden)) for hidden in self.hidden)
        low, high = self.totals - below, self.totals + above
        # A total below 0 is the noise of a small one: its interval reaches as far as that of 0.
        positive = np.concatenate([np.full(block.size, not block.is_signed) for block in self.mechanism.blocks])
        high = np.where(positive & (self.totals < 0.0), above, high)
        if self.published is not None:
            low[:-1], _ = self.published.ends(low[:-1], high[:-1], level, is_linear=True)
        return self._table(np.maximum(low, self.least - noise)), self._table(np.minimum(high, self.most + noise))


def _size(law: NoiseLaw, level: float | None) -> float:
    """The size that noise stays below with this probability, or its deviation."""
    return law.deviation(1) if level is None else float(noise_quantiles(law, np.array([0.5 + 0.5 * level]))[0])
