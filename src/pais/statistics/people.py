"""Totals and counts about people: sums over all of their rows, numbers of rows, and numbers of people."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from pais._base.lattice import Lattice
from pais._base.numerics import FloatArray
from pais._base.randomness import BitSource, bit_source
from pais.accounting import Accounts, Part, Prepaid
from pais.data.checks import listed
from pais.data.engines import AllRows, Engine
from pais.data.units import people_word
from pais.errors import ArgumentError, QualityWarning, SurveyWarning
from pais.mechanisms import GaussianNoise, GeometricNoise, LpNoise, VectorStatistic
from pais.mechanisms.blocks import Block, Ends, Line
from pais.mechanisms.people_totals import NormsOfPeople, PeopleTotals, RowSteps
from pais.pipeline import run
from pais.planning import Plan
from pais.planning.spread import Spread
from pais.privacy.guarantee import delta_concern, warn
from pais.privacy.rules import UniformRule
from pais.statistics.clipping import (
    ClippedShare,
    EndCounts,
    bounded,
    clipped_cautions,
    clipping_in_words,
    notes_of,
    rounded_up,
)
from pais.statistics.estimates import largest
from pais.statistics.frames import combined, short, with_error
from pais.statistics.legibility import empty_note
from pais.statistics.people_bounds import MOST_SIZES, SPLIT_ERROR, Bound, Totals, bound_from_octaves, bound_from_sizes
from pais.statistics.planning import Aim, Price, Request, Survey, is_whole, scaled_blocks, wide_ball, with_noise
from pais.statistics.recipes import Recipe
from pais.statistics.result import Statistic
from pais.statistics.table import Fields, Selection
from pais.statistics.uncertainty import noise_quantiles
from pais.statistics.words import Caution, only_label

# Share of epsilon, or of the squared Gaussian shift, for the histogram of people from which bounds are chosen. A total
# needs a good tail; the number of groups of a person is found with less.
_NORMS_SHARE = {"octaves": (0.13, 0.15), "sizes": (0.06, 0.1)}

# The same for the numbers of values beyond the bounds of columns, of which each person counts once: pure, Gaussian.
_ENDS_SHARE = (0.03, 0.04)

# Where less than this part of the largest stated value of a column counts of a person, one value can exceed by far what
# counts of a person, so that the few people whom noise hides can decide the total.
_FAR_BELOW = 0.5


def released_totals(
    engine: Engine, selection: Selection, recipe: Recipe, request: Request, price: Price, charged: Accounts
) -> Statistic:
    """Release a statistic that is a total over all rows of people. Each person is one record."""
    if request.is_sampled:
        raise ArgumentError(
            "sums and counts about people use all people. Leave out sampling and sample_size: the error of a sample "
            "would be far larger than that of the noise."
        )
    pooled = request.missing != "drop"
    before = _Question.of(engine, recipe, selection.fields(engine.schema, pooled=pooled), price)
    survey = Survey.of(
        engine,
        request,
        price,
        n_exact=len(before.fields.columns) if recipe.power else 0,
        norms=before.norms_share,
        ends=before.ends_share,
    )
    if survey.noise is not None and price.gaussian:
        paid = Part(what=f"survey and {recipe.name_for_people}", epsilon=price.epsilon, delta=price.delta)
        charged = Prepaid(charged, replace(paid, unit=engine.unit_column))
    bits = survey.bits(engine, charged, request.random_state)
    found = survey.resolved(engine, bits, Aim.of(recipe, before.fields, price, survey))
    engine = found.engine
    question = _Question.of(engine, recipe, selection.fields(engine.schema, pooled=pooled), price)
    ends = question.ends(survey, bits)
    epsilon, delta = survey.left(price)
    bounds = question.bounds(epsilon, delta, survey, bits)
    plan = Plan(
        ball=wide_ball(engine),
        rule=UniformRule(rate=1.0),
        mechanism=question.mechanism(epsilon, delta, bounds),
        epsilon=epsilon,
        delta=price.delta,
        delta_basis=price.basis,
        spent=survey.part(engine, secure=bit_source(request.random_state, stream=2).private),
        unit=engine.unit,
        schema=engine.schema,
    )
    result = run(plan, engine, random_state=request.random_state, ledger=charged)
    shares = () if ends is None else ends.shares(found.spreads, engine.unit)
    values = _Values.of(np.asarray(result.value), question, bounds, plan, found.spreads)
    if plan.delta > 0.0:
        warn(delta_concern(plan.delta, question.n_people(bounds) or 0.0))
    about = question.about(bounds)
    estimates, errors = values.table(values.estimates), values.table(values.standard_errors)
    fields = question.fields
    clipped = clipping_in_words(fields, shares, found.spreads, engine.unit)
    return Statistic(
        name=recipe.title,
        about=about,
        clipping=" ".join(filter(None, (question.clipping(bounds), clipped))),
        clipped=shares,
        cautions=(*found.cautions, *question.cautions(bounds, found.spreads, ends, shares)),
        notes=question.notes(bounds, shares, estimates, errors),
        certificate=replace(result.certificate, about=about),
        estimates=estimates,
        standard_errors=errors,
        bounds=values.ends,
        rows=combined(fields.groups, recipe.rows(fields)),
        columns=recipe.columns(fields),
        is_date=np.zeros(estimates.shape, dtype=bool),
        noise=question.noise_in_words(plan),
        released=result.value,
        plan=plan,
        subject=only_label(fields),
    )


@dataclass(frozen=True, kw_only=True, repr=False)
class _Question:
    """Which totals are asked, of whose rows. Public, apart from the rows of the engine."""

    engine: Engine
    recipe: Recipe
    fields: Fields
    blocks: tuple[Block, ...]
    gaussian: bool

    @classmethod
    def of(cls, engine: Engine, recipe: Recipe, fields: Fields, price: Price) -> _Question:
        blocks = scaled_blocks(recipe.blocks(fields), gaussian=price.gaussian)
        return cls(engine=engine, recipe=recipe, fields=fields, blocks=blocks, gaussian=price.gaussian)

    @property
    def n_groups(self) -> int:
        return 1 if self.fields.groups is None else len(self.fields.groups)

    @property
    def stated(self) -> float | None:
        """The bound on each block that follows from what is stated, in rows; None if it has to be found."""
        assert self.engine.unit is not None
        if self.recipe.presence:
            # A person with M rows is in at most M groups.
            most = min(self.n_groups, self.engine.unit.max_rows or math.inf)
            is_known = self.n_groups == 1 or self.engine.unit.max_rows is not None
            return (math.sqrt(most) if self.gaussian else float(most)) if is_known else None
        return None if self.engine.unit.max_rows is None else float(self.engine.unit.max_rows)

    @property
    def _by_size(self) -> bool:
        return self.recipe.presence and self.n_groups <= MOST_SIZES

    @property
    def norms_share(self) -> float:
        """Share of the survey for the norms of people."""
        return _NORMS_SHARE["sizes" if self._by_size else "octaves"][self.gaussian] if self.stated is None else 0.0

    @property
    def ends_share(self) -> float:
        """Share of the survey for the numbers of values beyond the bounds."""
        counted = self.recipe.counts_clipped and self.engine.stated.marked and bool(bounded(self.fields))
        return _ENDS_SHARE[self.gaussian] if counted else 0.0

    def ends(self, survey: Survey, bits: BitSource) -> EndCounts | None:
        """Noisy numbers of values below, within and above the bounds; the values of a person count once in all."""
        if survey.noise is None or survey.ends_share == 0.0:
            return None
        blocks: list[tuple[Block, float]] = [(Ends(column=field.start), 1.0) for field in bounded(self.fields)]
        counted = VectorStatistic(
            name="counts",
            blocks=scaled_blocks(blocks, gaussian=self.gaussian),
            noise=survey.noise.on_counts(survey.ends_share),  # [note: totals-10]
        )
        ball = wide_ball(self.engine)
        totals = counted.measure(AllRows(engine=self.engine, ball=ball, seeded=not bits.private), ball, bits)
        fields = replace(self.fields, by=())
        return EndCounts.of(totals, counted, fields, max_rows=1, spare=0.0)

    @property
    def people(self) -> tuple[str, str]:
        """What one person and several of them are called."""
        return people_word(self.engine.unit_column)

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

    def bounds(self, epsilon: float, delta: float, survey: Survey, bits: BitSource) -> list[Bound]:
        """The bound of each block: stated, or chosen from a noisy histogram of people."""
        if self.stated is not None:
            return [Bound(size=self.stated)] * len(self.blocks)
        assert survey.noise is not None
        by_size = self._by_size
        law = survey.noise.on_cells(survey.norms_share, len(self.blocks))  # [note: totals-9]
        by = tuple(field.levels(others=False) for field in self.fields.by)
        fold = NormsOfPeople(
            ball=wide_ball(self.engine),
            contributions=RowSteps(blocks=self.blocks, by=by),
            order=2.0 if self.gaussian else 1.0,
            presence=self.recipe.presence,
            by_size=by_size,
        )
        rows = AllRows(engine=self.engine, ball=fold.ball, seeded=not bits.private)
        counts = rows.total_of_people(fold)
        noisy = (
            law.added_to(counts[:, None], Lattice(step=1.0), bits)
            .astype(np.float64)
            .reshape(len(self.blocks), fold.n_signs, fold.n_bins)
        )
        choose: Callable[..., Bound] = bound_from_sizes if by_size else bound_from_octaves
        return [
            choose(counts, law, self.totals(block, epsilon, delta))
            for counts, block in zip(noisy, self.blocks, strict=True)
        ]

    def mechanism(self, epsilon: float, delta: float, bounds: list[Bound]) -> PeopleTotals:
        """The totals with the noise that their bounds need."""
        mechanism = PeopleTotals(
            name=self.recipe.name_for_people,
            blocks=self.blocks,
            noise=GaussianNoise(scale=1.0) if self.gaussian else LpNoise(scale=1.0),
            by=tuple(field.levels(others=False) for field in self.fields.by),
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
                amount = short(bound.size * largest(field))
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
                amount, most = bound.size * largest(field), largest(field)
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
                most, amount = short(largest(field)), short(bound.size * largest(field))
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
        spread, unit = spreads[field.name], largest(field)
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
        laws = {GaussianNoise: "Gaussian", GeometricNoise: "Two-sided geometric"}
        law = laws.get(type(mechanism.noise), "Laplace")
        return f"{law} noise of scale {listed(list(scales))} on each total. All rows of all {self.people[1]} were used."


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
    not refer to the engine of a question.
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
        question: _Question,
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
            beyond = question.beyond(block, float(totals[:, place].sum()), bound, spreads)
            totals[:, place] += beyond[0] * shares
            spread[:, place] = np.sqrt(variance + (beyond[1] * shares) ** 2)
        return cls(totals=totals, spread=spread, recipe=question.recipe, fields=question.fields, mechanism=mechanism)

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
