"""Totals and counts about people: sums over all of their rows, numbers of rows, and numbers of people."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields as fields_of, replace

import numpy as np
from scipy import special

from pais._base.lattice import IntArray, Lattice
from pais._base.numerics import FloatArray
from pais._base.octaves import OCTAVES
from pais._base.randomness import BitSource, RandomState
from pais.accounting.certificate import Release
from pais.data.ball import Ball
from pais.data.checks import listed
from pais.data.engines.base import AllRows, Engine
from pais.data.schema import Schema
from pais.data.units import Unit, people_word
from pais.errors import ArgumentError, QualityWarning, SurveyWarning
from pais.mechanisms.base import Mechanism
from pais.mechanisms.blocks import Block, Ends, Line
from pais.mechanisms.noise import GaussianNoise, GeometricNoise, LpNoise, NoiseLaw
from pais.planning.column_survey import ColumnBounds
from pais.planning.norm_counts import NoisyCounts
from pais.planning.plan import Plan
from pais.planning.survey import Findings, Stage, Stages, SurveyNoise
from pais.planning.tails import Beyond, Spread, Tail, most_unseen
from pais.privacy.guarantee import delta_concern, warn
from pais.privacy.rules import Rule, UniformRule
from pais.statistics.people_totals import FIRST_OCTAVE, N_OCTAVES, NormsOfPeople, PeopleTotals, RowSteps
from pais.statistics.recipes import Recipe
from pais.statistics.result import Statistic
from pais.statistics.settings import (
    CountStage,
    StatisticSettings,
    is_sampled,
    is_whole,
    law_in_words,
    scaled_blocks,
    wide_ball,
    with_noise,
)
from pais.statistics.table import Caution, Fields, combined, short, with_error
from pais.statistics.uncertainty import (
    ClippedShare,
    EndCounts,
    clipped_cautions,
    clipping_in_words,
    empty_note,
    noise_quantiles,
    notes_of,
    rounded_up,
)

#: Up to this many groups, people are counted by the number of their groups, and by octaves of it from there on.
MOST_SIZES = 16

# Possible bounds: this many octaves below and above the largest norm that is seen, in twelfths.
_BELOW, _ABOVE = 7, 4

# The smallest and the largest bound, in rows.
_LEAST, _MOST = 2.0**-24, 2.0**31

# Where what is cut off is shared over groups, relative error of the shares: to choose a bound, and in intervals. Chosen
# on people with a home group and geometric, lognormal and Zipf numbers of rows: docs/theory/notes/totals.md.
_SPLIT_CHOICE, SPLIT_ERROR = 0.3, 0.7

# Part of the predicted error of what is cut off that counts in the choice of a bound: it is predicted with caution. And
# how far beyond the bound, relative to it, intervals allow for as many people as one deviation of the noise of a count.
# Chosen with the share of the histogram for error and coverage of sums and numbers of rows with geometric, gamma and
# lognormal tails and with one row each, at epsilon 0.3 to 3.
_CAUTION, _HIDDEN_EXCESS = 0.35, 0.3

# Sizes of people are seen if as many people as this many deviations of the noise have them or larger ones.
_SEEN = 3.0

# Where the numbers of people by the number of their groups are not seen: the first of them relative to the largest that
# is seen, the factor from one to the next, and how much more weight than another continuation "nobody" has. Chosen for
# the coverage of numbers of people in 4 to 16 groups, with one group each or 1.5 to 4 on average, at epsilon 0.05 to 1.
_FIRSTS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
_FALLS = (0.05, 0.3, 0.5, 0.7, 0.85, 1.0)
_NOBODY = 20.0

# A tail that falls more slowly than this power of the norm, and of which much is not seen, makes a warning.
_HEAVY, _MUCH_UNSEEN = 2.5, 0.3

# The bound, in rows, if nothing stands out of the noise.
_UNSEEN_BOUND = 4.0


@dataclass(frozen=True, kw_only=True)
class Bound:
    """A bound on the norm of what a person adds to a block, and what it cuts off. Public; amounts are in rows.

    Attributes
    ----------
    size : float
        The bound.
    cut, cut_deviation : float
        Expected sum of what is cut off, with its sign, and its standard deviation; both 0 if the bound is stated.
    added_back : bool
        Whether the expected sum is added to the released totals. Otherwise it is a bias that widens the intervals.
    n_people, n_zero : float, optional
        Released number of people with a norm above 0, and with norm 0; None if they were not counted.
    most_hidden : float
        The number of people with a far larger norm, all alike, that noise hides with a probability of 5 %; 0 if no
        norm can be far larger.
    concern : str
        "unseen" if no people stand out of the noise, "heavy" if a few people may hold much of the total.
    """

    size: float
    cut: float = 0.0
    cut_deviation: float = 0.0
    added_back: bool = False
    n_people: float | None = None
    n_zero: float = 0.0
    most_hidden: float = 0.0
    concern: str = ""


@dataclass(frozen=True, kw_only=True)
class Totals:
    """What is public about the totals of a block.

    Attributes
    ----------
    n_coordinates : int
        Number of totals, over all groups.
    sign : int
        1 or -1 if a person adds only amounts of this sign, 0 if both are possible.
    whole : bool
        Whether a person adds whole numbers of rows.
    noise : NoiseLaw
        The noise of a total that a person changes by at most 1.
    pure : bool
        Whether norms are l1 norms, the sum of absolute values.
    """

    n_coordinates: int
    sign: int
    whole: bool
    noise: NoiseLaw
    pure: bool

    @property
    def adds_back(self) -> bool:
        """Whether the excess of a norm over the bound is what the person's total loses."""
        return self.n_coordinates == 1 or (self.pure and self.sign != 0)  # [note: totals-8]

    @property
    def per_norm(self) -> float:
        """What a vector loses in all totals together for each unit of its norm.

        An l2 norm of 1 over k totals is a sum between 1 and the root of k, of which this is the middle.
        """
        return 1.0 if self.pure else self.n_coordinates**0.25

    def noise_of(self, bounds: FloatArray) -> FloatArray:
        """Variance of the noise of all totals together, for each bound."""
        return np.asarray(self.n_coordinates * (self.noise.deviation(1) * bounds) ** 2)


def bound_from_octaves(counts: FloatArray, law: NoiseLaw, totals: Totals) -> Bound:
    """Choose a bound from noisy numbers of people by sign and octave of their norm, of shape (signs, 1 + octaves).

    The first bin of each sign is for people whose norm is 0. With one row of bins, all people have the sign of the
    totals, or signs are not told apart.
    """
    zero, signs = float(counts[0, 0]), [totals.sign or 1] if len(counts) == 1 else [1, -1]
    noisy = [_octaves(side[1:], law) for side in counts]
    sides = [(Tail.of(side), sign) for side, sign in zip(noisy, signs, strict=True)]
    most_hidden = sum(most_unseen(side) for side in noisy)
    tails = [(tail, sign) for tail, sign in sides if tail is not None and sign * totals.sign >= 0]
    if not tails:
        return replace(_unseen(totals, law, zero), most_hidden=most_hidden)
    bounds = max(tail.top for tail, _ in tails) * np.exp2(np.arange(-12 * _BELOW, 12 * _ABOVE + 1) / 12.0)
    bounds = np.unique(np.clip(np.maximum(np.rint(bounds), 1.0) if totals.whole else bounds, _LEAST, _MOST))
    parts = [_beyond(_without_single_rows(tail) if totals.whole else tail, bounds) for tail, _ in tails]
    cut = np.sum([sign * part.expected for part, (_, sign) in zip(parts, tails, strict=True)], axis=0)
    variance = np.sum([part.variance for part in parts], axis=0)
    predicted = np.sum([part.predicted for part in parts], axis=0)
    if totals.adds_back:
        error = _CAUTION * (predicted + (_SPLIT_CHOICE * cut) ** 2 * (totals.n_coordinates > 1))
    else:
        error = predicted + cut**2
    best = int(np.argmin(totals.noise_of(bounds) + totals.per_norm**2 * error))
    much = _MUCH_UNSEEN * totals.noise.deviation(1) * bounds[best]
    # A few people whom the noise hides may be beyond the bound.
    hidden = _HIDDEN_EXCESS * law.deviation(1) * float(bounds[best])
    pairs = zip(parts, tails, strict=True)
    heavy = any(tail.exponent < _HEAVY and part.unseen[best] > much for part, (tail, _) in pairs)
    return Bound(
        size=float(bounds[best]),
        cut=totals.per_norm * float(cut[best]),
        cut_deviation=totals.per_norm * math.hypot(math.sqrt(variance[best]), hidden),
        added_back=totals.adds_back,
        n_people=max(sum(float(tail.counts.sum()) for tail, _ in tails), 0.0),
        n_zero=zero if zero > 3.0 * law.deviation(1) else 0.0,
        most_hidden=most_hidden,
        concern="heavy" if heavy else "",
    )


def bound_from_sizes(counts: FloatArray, law: NoiseLaw, totals: Totals) -> Bound:
    """Choose a bound from noisy numbers of people by the number of their groups, from 0 to all of them; one row.

    The sizes of people are known, so what a bound cuts off is known up to the noise of the counts. Where sizes are not
    seen above the noise, their counts continue those that are seen in one of many ways, each of which has a weight by
    how well it fits.
    """
    (counts,) = counts
    deviation, sizes = law.deviation(1), np.arange(1.0, counts.size)
    outwards = np.cumsum(counts[:0:-1])[::-1]
    spread = deviation * np.sqrt(sizes[::-1])
    seen = int(np.flatnonzero(np.append(True, outwards[1:] > _SEEN * spread[1:]))[-1]) + 1
    norms = sizes if totals.pure else np.sqrt(sizes)
    lost = sizes * np.maximum(1.0 - norms[:, None] / norms, 0.0)
    tails = max(float(counts[1 : seen + 1].max()), deviation) * _continuations(sizes.size - seen)
    misfit = np.abs(counts[seen + 1 :] - tails) / deviation
    log_weights = -math.sqrt(2.0) * misfit.sum(axis=1) if totals.pure else -0.5 * np.square(misfit).sum(axis=1)
    log_weights[0] += math.log(_NOBODY)
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    by_tail = tails @ lost[:, seen:].T
    unseen = weights @ by_tail
    cut = np.maximum(lost[:, :seen] @ counts[1 : seen + 1], 0.0) + unseen
    noise = deviation**2 * np.square(lost[:, :seen]).sum(axis=1)
    variance = noise + weights @ np.square(by_tail - unseen)
    # Rare heavy tails enter the choice by their absolute deviation. Their variance would move every bound outwards.
    predicted = noise + np.square(weights @ np.abs(by_tail - unseen))
    best = int(np.argmin(totals.noise_of(norms) + predicted + (_SPLIT_CHOICE * cut) ** 2))
    n_people = max(float(outwards[0]), 0.0)
    return Bound(
        size=float(norms[best]),
        cut=float(cut[best]),
        cut_deviation=math.sqrt(variance[best]),
        added_back=True,
        n_people=n_people,
        concern="unseen" if n_people < 3.0 * spread[0] else "",
    )


def _continuations(n_sizes: int) -> FloatArray:
    """Possible numbers of people by size, of shape (tails, sizes), relative to the largest number that is seen."""
    falls = np.array(_FALLS)[:, None] ** np.arange(n_sizes)
    return np.concatenate([np.zeros((1, n_sizes)), *(first * falls for first in _FIRSTS)])


def _beyond(tail: Tail, bounds: FloatArray) -> Beyond:
    """What lies beyond each bound, interpolated between the edges of bins as powers of the bound.

    Most people in a wide bin are at its lower end, so that a bound within it cuts off less than an even spread would
    tell.
    """
    first, last = np.searchsorted(tail.points, [bounds[0], bounds[-1]])
    points = tail.points[max(first - 1, 1) : last + 1]
    places, logs = np.log(bounds), np.log(points)
    return Beyond(*(np.exp(np.interp(places, logs, np.log(np.maximum(each, 1e-9)))) for each in tail.beyond(points)))


def _octaves(counts: FloatArray, law: NoiseLaw) -> NoisyCounts:
    """The counts of the octaves of the norms of people, among all octaves."""
    per_octave = counts.size // N_OCTAVES
    whole = np.zeros(2 * OCTAVES * per_octave)
    whole[FIRST_OCTAVE * per_octave : (FIRST_OCTAVE + N_OCTAVES) * per_octave] = counts
    return NoisyCounts(counts=whole, bins_per_octave=per_octave, noise=law)


def _without_single_rows(tail: Tail) -> Tail:
    """The tail without people who have a single row: no bound of one row or more cuts anything off them."""
    # The points of the bins begin with the edge of the first one.
    first = int(np.searchsorted(tail.points, 1.0))
    single, inner = tail.window == first, tail.inner == first
    return replace(
        tail,
        means=np.where(single, 0.0, tail.means),
        variances=np.where(single, 0.0, tail.variances),
        inner_counts=np.where(inner, 0.0, tail.inner_counts),
    )


def _unseen(totals: Totals, law: NoiseLaw, zero: float) -> Bound:
    """A public bound if no people are seen, with room for as many people as noise may hide."""
    hidden = 10.0 * law.deviation(1)
    return Bound(
        size=_UNSEEN_BOUND,
        cut_deviation=hidden * _UNSEEN_BOUND,
        n_people=0.0,
        n_zero=zero if zero > 3.0 * law.deviation(1) else 0.0,
        concern="unseen",
    )


# Share of epsilon, or of the squared Gaussian shift, for the histogram of people from which bounds are chosen. A total
# needs a good tail; the number of groups of a person is found with less.
_NORMS_SHARE = {"octaves": (0.13, 0.15), "sizes": (0.06, 0.1)}

# The same for the numbers of values beyond the bounds of columns, of which each person counts once: pure, Gaussian.
_ENDS_SHARE = (0.03, 0.04)

# Where less than this part of the largest stated value of a column counts of a person, one value can exceed by far what
# counts of a person, so that the few people whom noise hides can decide the total.
_FAR_BELOW = 0.5


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

    def statistic(self, schema: Schema | None) -> PeopleStatistic:
        """The statistic for columns with these bounds."""
        fields = self.fields(schema)
        blocks = scaled_blocks(self.recipe.blocks(fields), gaussian=self.gaussian)
        return PeopleStatistic(
            recipe=self.recipe, fields=fields, blocks=blocks, gaussian=self.gaussian, unit=self.owner
        )

    def survey(self, rows: Engine, random_state: RandomState) -> Stages:
        """Bounds of "auto" columns, numbers of values beyond bounds, and the norms of people, as far as not stated."""
        asked = self.statistic(rows.schema)
        bounds, norms, ends = self.bounds_share(rows, n_exact=self._n_exact), asked.norms_share, 0.0
        if self.recipe.counts_clipped and rows.stated.marked and asked.fields.bounded:
            ends = _ENDS_SHARE[self.gaussian]
        part = bounds + norms + ends
        noise, stages = self.survey_noise(part), list[Stage]()
        if noise is None:
            return Stages()
        if bounds:
            share = 1.0 - norms / part - ends / part
            stages.append(ColumnBounds(share=share, choose=self.chosen_bounds(noise)))
        if ends:
            # The values of a person count once in all.
            stages.append(CountStage(name="ends", share=ends / part, blocks=self._ends))  # [note: totals-10]
        if norms:
            stages.append(PeopleNorms(share=norms / part, settings=self, left=self.left(noise)))
        return Stages(noise=noise, stages=tuple(stages), passes=2)

    def _ends(self, schema: Schema | None) -> tuple[Block, ...]:
        bounded = self.fields(schema).bounded
        return scaled_blocks([(Ends(column=field.start), 1.0) for field in bounded], gaussian=self.gaussian)

    def _mechanism(
        self, facts: Findings, rows: Engine, ball: Ball, epsilon: float, delta: float
    ) -> tuple[Rule, Mechanism]:
        asked = self.statistic(rows.schema)
        return UniformRule(rate=1.0), asked.mechanism(epsilon, delta, asked.bounds(facts))

    def result(self, plan: Plan, release: Release, facts: Findings) -> Statistic:
        asked, (spreads, cautions) = self.statistic(plan.schema), self.found_columns(facts)
        recipe, fields, bounds, ends = self.recipe, asked.fields, asked.bounds(facts), None
        if "ends" in facts.found:
            mechanism, totals = facts.found["ends"]
            ends = EndCounts.of(totals, mechanism, replace(fields, by=()), max_rows=1, spare=0.0)
        shares = () if ends is None else ends.shares(spreads, plan.unit)
        values = _Values.of(np.asarray(release.value), asked, bounds, plan, spreads)
        if plan.delta > 0.0:
            warn(delta_concern(plan.delta, asked.n_people(bounds) or 0.0))
        about = asked.about(bounds)
        estimates, errors = values.table(values.estimates), values.table(values.standard_errors)
        clipped = clipping_in_words(fields, shares, spreads, plan.unit)
        return Statistic(
            name=recipe.title,
            about=about,
            clipping=" ".join(filter(None, (asked.clipping(bounds), clipped))),
            clipped=shares,
            cautions=(*cautions, *asked.cautions(bounds, spreads, ends, shares)),
            notes=asked.notes(bounds, shares, estimates, errors),
            certificate=replace(release.certificate, about=about),
            estimates=estimates,
            standard_errors=errors,
            bounds=values.ends,
            rows=combined(fields.groups, recipe.rows(fields)),
            columns=recipe.columns(fields),
            is_date=np.zeros(estimates.shape, dtype=bool),
            noise=asked.noise_in_words(plan),
            released=release.value,
            plan=plan,
            subject=fields.subject,
        )


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
    """A statistic that is a total over all rows of people: its columns and blocks, and who the people are. Public."""

    recipe: Recipe
    fields: Fields
    blocks: tuple[Block, ...]
    gaussian: bool
    unit: Unit

    @property
    def n_groups(self) -> int:
        return 1 if self.fields.groups is None else len(self.fields.groups)

    @property
    def stated(self) -> float | None:
        """The bound on each block that follows from what is stated, in rows; None if it has to be found."""
        if self.recipe.presence:
            # A person with M rows is in at most M groups.
            most = min(self.n_groups, self.unit.max_rows or math.inf)
            is_known = self.n_groups == 1 or self.unit.max_rows is not None
            return (math.sqrt(most) if self.gaussian else float(most)) if is_known else None
        return None if self.unit.max_rows is None else float(self.unit.max_rows)

    @property
    def by_size(self) -> bool:
        """Whether people are counted by the number of their groups."""
        return self.recipe.presence and self.n_groups <= MOST_SIZES

    @property
    def norms_share(self) -> float:
        """Share of the survey for the norms of people."""
        return _NORMS_SHARE["sizes" if self.by_size else "octaves"][self.gaussian] if self.stated is None else 0.0

    @property
    def people(self) -> tuple[str, str]:
        """What one person and several of them are called."""
        return people_word(self.unit.column)

    def norms(self, ball: Ball) -> NormsOfPeople:
        """The histogram of people from which bounds are chosen."""
        return NormsOfPeople(
            ball=ball,
            contributions=RowSteps(blocks=self.blocks, by=self.fields.levels),
            order=2.0 if self.gaussian else 1.0,
            presence=self.recipe.presence,
            by_size=self.by_size,
        )

    def bounds(self, facts: Findings) -> list[Bound]:
        """The bound of each block: stated, or chosen from a noisy histogram of people."""
        if self.stated is not None:
            return [Bound(size=self.stated)] * len(self.blocks)
        found: list[Bound] = facts.found["people"]
        return found

    def totals(self, block: Block, epsilon: float, delta: float) -> Totals:
        """What is public about the totals of a block."""
        sign = 1 if not block.is_signed else 0
        if isinstance(block, Line) and -block.intercept >= abs(block.slope):
            sign = -1
        mechanism = self.mechanism(epsilon, delta, [Bound(size=1.0)] * len(self.blocks))
        noise = replace(mechanism.noise, scale=mechanism.noise.scale * block.factor)  # type: ignore[type-var]
        return Totals(
            n_coordinates=self.n_groups * block.size,
            sign=sign,
            whole=is_whole(block),
            noise=LpNoise(scale=noise.scale, p=1.0) if isinstance(noise, GeometricNoise) else noise,
            pure=not self.gaussian,
        )

    def mechanism(self, epsilon: float, delta: float, bounds: list[Bound]) -> PeopleTotals:
        """The totals with the noise that their bounds need."""
        mechanism = PeopleTotals(
            name=self.recipe.name_for_people,
            blocks=self.blocks,
            noise=GaussianNoise(scale=1.0) if self.gaussian else LpNoise(scale=1.0),
            by=self.fields.levels,
            bounds=tuple(bound.size for bound in bounds),
            presence=self.recipe.presence,
        )
        # Whole totals that are not shared over groups stay whole when they are cut at a whole bound.
        whole = all(
            is_whole(block) and self.n_groups * block.size == 1 and bound.size % 1.0 == 0.0
            for block, bound in zip(self.blocks, bounds, strict=True)
        )
        return with_noise(mechanism, epsilon, delta, whole=whole)

    def n_people(self, bounds: list[Bound]) -> float | None:
        """Released number of people; None if they were not counted."""
        zeros = any(not is_whole(block) for block in self.blocks)
        counts = [bound.n_people + zeros * bound.n_zero for bound in bounds if bound.n_people is not None]
        return max(counts, default=None)

    def about(self, bounds: list[Bound]) -> str:
        """What the totals are about."""
        one, many = self.people
        n_people, presence = self.n_people(bounds), self.recipe.presence
        number = "" if not n_people or presence else f"about {n_people:,.0f} "
        kinds = {"sum": "total over all rows of {}", "count": "number of rows of {}"}
        what = kinds.get(self.recipe.title, "number of rows by bin of {}").format(number + many)
        if presence:
            if self.n_groups == 1:
                return f"number of {many}; each {one} counts once, with any number of rows"
            what = f"number of {many} by group; a {one} with rows in several groups counts in each of them"
        limits = self._limits(bounds)
        rest = "is estimated and added" if all(bound.added_back for bound in bounds) else "does not count"
        if presence and bounds[0].size >= self.n_groups:
            return what
        return f"{what}; {_listed_once(limits)}, and the rest {rest}"

    def _limits(self, bounds: list[Bound]) -> list[str]:
        """For each block, from where on what a person adds is cut off."""
        one, _ = self.people
        texts = []
        names = [field.name for field in self.fields.columns] or [""]
        for bound, block, name in zip(bounds, self.blocks, names, strict=True):
            if self.recipe.presence:
                groups = bound.size if not self.gaussian else bound.size**2
                texts.append(f"of a {one} in more than {_several(groups, 'group')}")
            elif is_whole(block):
                what = "row" if len(names) == 1 else f"row with a value of {name}"
                texts.append(f"of a {one} with more than {_several(bound.size, what)}")
            else:
                field = next(field for field in self.fields.columns if field.name == name)
                amount = short(bound.size * field.largest)
                texts.append(f"of a {one} whose {name} adds up to more than {amount}, {amount} counts")
        return texts

    def notes(
        self, bounds: list[Bound], shares: tuple[ClippedShare, ...], estimates: FloatArray, errors: FloatArray
    ) -> tuple[str, ...]:
        """What intervals do not include, and how much noise could hide."""
        if self.recipe.counts_clipped:
            return (*self._hidden(bounds), *notes_of(shares, self.fields))
        return tuple(filter(None, (*self._hidden(bounds), empty_note(estimates, errors, self.fields))))

    def _hidden(self, bounds: list[Bound]) -> list[str]:
        """For each block, how many people noise could hide who add far more than its bound."""
        many, texts = self.people[1], []
        for bound, block, field in zip(bounds, self.blocks, self.fields.columns or (None,), strict=True):
            # Nobody is in more groups than there are, and intervals allow for people in more groups than are seen.
            if bound.most_hidden == 0.0 or self.recipe.presence:
                continue
            if field is None or is_whole(block):
                what = "" if field is None else f" with a value of {field.name}"
                whose = f"with far more than {_count(bound.size, 'row')}{what}"
            else:
                amount, most = bound.size * field.largest, field.largest
                single = f", such as by single values of up to {short(most)}" if bound.size < 1.0 else ""
                whose = f"whose {field.name} adds up to far more than {short(amount)}{single}"
            texts.append(
                f"noise could hide up to about {rounded_up(bound.most_hidden)} {many} {whose}; intervals do not "
                "include them"
            )
        return list(dict.fromkeys(texts))

    def cautions(
        self,
        bounds: list[Bound],
        spreads: Mapping[str, Spread],
        ends: EndCounts | None,
        shares: tuple[ClippedShare, ...],
    ) -> list[Caution]:
        """Say if hardly any people stand out of the noise, if few may hold much of a total, or if many were clipped."""
        one, many = self.people
        concerns, cautions = {bound.concern for bound in bounds}, []
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
        for bound, block, field in zip(bounds, self.blocks, self.fields.columns or (None,), strict=True):
            if field is None or is_whole(block) or field.name in spreads or bound.most_hidden == 0.0:
                continue
            if bound.size < _FAR_BELOW:
                most, amount = short(field.largest), short(bound.size * field.largest)
                text = (
                    f"a single value of {field.name} may be as large as {most}, but a {one} counts with at most "
                    f"{amount} in all. Noise could hide up to about {rounded_up(bound.most_hidden)} {many} with "
                    f"more, and the interval does not include them. State narrower bounds of {field.name} if so large "
                    "values cannot occur."
                )
                cautions.append(Caution(text, QualityWarning))
        excessive = [] if ends is None else [name for name in ends.excessive() if name not in spreads]
        return [*cautions, *clipped_cautions(excessive, shares, self.fields, self.recipe.title)]

    def clipping(self, bounds: list[Bound]) -> str:
        """What the bounds on people did, in a sentence."""
        one, many = self.people
        if self.stated is not None:
            if self.recipe.presence:
                return ""
            return f"What a {one} adds beyond {self.stated:,.6g} rows is left out; how much this is is not known."
        texts = []
        values = self.recipe.estimate([np.full((1, 1, block.size), 1.0) for block in self.blocks], self.fields)[0, 0]
        places = np.cumsum([0, *(block.size for block in self.blocks)])[:-1]
        for bound, unit in zip(bounds, values[places], strict=True):
            amount = with_error(float(bound.cut * unit), float(bound.cut_deviation * unit))
            if bound.cut == bound.cut_deviation == 0.0:
                texts.append("they cut nothing off")
                continue
            texts.append(
                f"an estimated {amount} in all was cut off and is added to the values"
                if bound.added_back
                else f"an estimated {amount} in all is cut off; it is not in the values, but in the intervals"
            )
        return f"The bounds on {many} were found privately: {_listed_once(texts)}."

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

    def noise_in_words(self, plan: Plan) -> str:
        """The law and the size of the noise, in own units."""
        mechanism = plan.mechanism
        assert isinstance(mechanism, PeopleTotals)
        parts = [
            np.full((1, 1, block.size), scale) for block, scale in zip(self.blocks, mechanism.block_scales, strict=True)
        ]
        scales = dict.fromkeys(f"{scale:,.4g}" for scale in self.recipe.estimate(parts, self.fields)[0, 0])
        law, words = law_in_words(mechanism.noise), listed(list(scales))
        return f"{law} noise of scale {words} on each total. All rows of all {self.people[1]} were used."


def _several(number: float, what: str) -> str:
    """The end of a sentence about more than so many: "3 rows, 3 count"."""
    counts = "one counts" if number == 1.0 else f"{number:,.6g} count"
    return f"{_count(number, what)}, {counts}"


def _count(number: float, what: str) -> str:
    """A number of things: "one row", "3 rows with a value of age"."""
    noun, _, rest = what.partition(" ")
    return " ".join(filter(None, ("one" if number == 1.0 else f"{number:,.6g}", noun + "s" * (number != 1.0), rest)))


def _listed_once(texts: list[str]) -> str:
    return "; ".join(dict.fromkeys(texts))


@dataclass(frozen=True, kw_only=True, eq=False)
class _Values:
    """Totals with what was cut off added back, the deviation of that part, and the law of their noise. Public.

    `totals` and `spread` have shape (groups, coordinates); both are in rows. A result holds these values, so they must
    not refer to the engine of a asked.
    """

    totals: FloatArray
    spread: FloatArray
    recipe: Recipe
    fields: Fields
    mechanism: PeopleTotals

    @classmethod
    def of(
        cls,
        noisy: FloatArray,
        asked: PeopleStatistic,
        bounds: list[Bound],
        plan: Plan,
        spreads: Mapping[str, Spread],
    ) -> _Values:
        mechanism = plan.mechanism
        assert isinstance(mechanism, PeopleTotals)
        totals, spread = noisy.copy(), np.zeros_like(noisy)
        for block, place, bound in zip(mechanism.blocks, mechanism.places, bounds, strict=True):
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
        return cls(totals=totals, spread=spread, recipe=asked.recipe, fields=asked.fields, mechanism=mechanism)

    def _values(self, totals: FloatArray) -> FloatArray:
        parts = [totals[None, :, place] for place in self.mechanism.places]
        return np.asarray(self.recipe.estimate(parts, self.fields)[0])

    def _noise(self, level: float | None) -> FloatArray:
        """For each coordinate, the size that its noise stays below with this probability, or its deviation."""
        sizes = []
        for block, scale in zip(self.mechanism.blocks, self.mechanism.block_scales, strict=True):
            law = replace(self.mechanism.noise, scale=scale)  # type: ignore[type-var]
            tail = None if level is None else noise_quantiles(law, np.array([0.5 + 0.5 * level]))[0]
            sizes += [law.deviation(1) if tail is None else float(tail)] * block.size
        return np.array(sizes)

    @property
    def estimates(self) -> FloatArray:
        return self.recipe.limited(self._values(self.totals), self.fields)

    @property
    def standard_errors(self) -> FloatArray:
        return self._values(np.hypot(self._noise(None), self.spread))

    def ends(self, level: float) -> tuple[FloatArray, FloatArray]:
        """Ends of intervals. The quantiles of noise and of what was cut off add up as deviations do."""
        half = np.hypot(self._noise(level), special.ndtri(0.5 + 0.5 * level) * self.spread)
        low, high = (
            self.table(self.recipe.limited(self._values(self.totals + sign * half), self.fields))
            for sign in (-1.0, 1.0)
        )
        return low, high

    def table(self, values: FloatArray) -> FloatArray:
        columns = self.recipe.columns(self.fields)
        return values.reshape(-1, 1 if columns is None else len(columns))
