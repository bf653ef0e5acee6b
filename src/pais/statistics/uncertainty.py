"""Errors of a statistic: from noise and sampling, and what clipping did to it, in numbers and in words.

A released total is the true total plus noise, so the true total is the released one minus noise of a known law. Drawing
that noise many times gives values that the statistic may have without noise. Their spread is the standard error, and
their quantiles are the ends of intervals. The share of the values beyond the bounds follows from released counts too.
All of this is post-processing with a fixed public seed, so that a caution tells nothing that the release does not tell.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from pais._base.lattice import Tails
from pais._base.numerics import FloatArray
from pais.data.cells import listed
from pais.data.kinds import OTHER, Dates, Intervals, Names
from pais.data.units import Unit, people_word
from pais.errors import QualityWarning
from pais.mechanisms.blocks import Bins, Block, Ends, Levels, Rows, Split, VectorStatistic
from pais.mechanisms.noise import GeometricNoise, NoiseLaw
from pais.planning.tails import Cut, Spread
from pais.statistics.recipes import Lost, Recipe
from pais.statistics.table import Caution, Field, Fields

# A smaller surplus of weights is a rounding error.
_TINY = 1e-12

# A number of cells below this many standard deviations of its noise is lost in it. Chosen by eye.
_LOST = 3.0

# Standard errors of values with ends of their own are those of a normal variable with this interval.
_LEVEL = 0.95

# Draws of each total, and numbers that are held at a time.
_FEWEST_DRAWS, _MOST_DRAWS, _MOST_NUMBERS = 1_000, 10_000, 2_000_000


class Uncertainty(NamedTuple):
    """Released totals, the law of their noise, and the recipe that computes a statistic from totals.

    Attributes
    ----------
    totals : array of shape (groups, coordinates)
        Released totals.
    mechanism : VectorStatistic
        Its noise and the factors of its blocks.
    max_rows : int
        Rows of a unit that count in full. Totals and noise were multiplied by it.
    spare : float
        1 / q - 1 for the smallest probability q with which a row was kept; 0 if all rows were used.
    recipe, fields : Recipe and Fields
        How values follow from totals.
    n_columns : int
        Number of columns of the result.
    beyond : BeyondBounds, optional
        What is expected beyond bounds that were found privately.
    """

    totals: FloatArray
    mechanism: VectorStatistic
    max_rows: int
    spare: float
    recipe: Recipe
    fields: Fields
    n_columns: int
    beyond: BeyondBounds | None = None

    def estimates(self) -> FloatArray:
        """The values, of shape (rows, columns)."""
        lost = None if self.beyond is None else self.beyond.drawn(np.zeros((1, 1, 1)), slice(None))
        values = self.recipe.limited(self._values(self.totals[None], lost)[0], self.fields)
        return values.reshape(-1, self.n_columns)

    def standard_errors(self) -> FloatArray:
        """Standard deviation of each value, of shape (rows, columns)."""
        if self._is_linear:
            # One standard deviation more in a total is one standard error more in its value.
            more = self.totals + self._ladder(None)
            noise = np.abs(self._values(more) - self._values(self.totals))
        else:
            noise = np.concatenate([values.std(axis=0) for values in self._draws()])
        # The true value and the estimate are anywhere in the same cell.
        errors = np.hypot(noise, self.recipe.resolution(self.fields) / math.sqrt(6.0))
        own = self._own_ends(_LEVEL)
        if own is not None:
            errors = np.fmax(errors, (own[1] - own[0]) / (2.0 * special.ndtri(0.5 + 0.5 * _LEVEL)))
        return np.asarray(errors).reshape(-1, self.n_columns)

    def bounds(self, level: float) -> tuple[FloatArray, FloatArray]:
        """Ends of intervals, each of shape (rows, columns)."""
        ends = [0.5 - 0.5 * level, 0.5 + 0.5 * level]
        if self._is_linear:
            high, low = self._values(self.totals - self._ladder(np.array(ends))[:, None, :])
        else:
            pairs = [np.quantile(values, ends, axis=0) for values in self._draws()]
            low, high = (np.concatenate(several) for several in zip(*pairs, strict=True))
        wide = self.recipe.resolution(self.fields)
        low, high = (self.recipe.limited(end, self.fields) for end in (low - wide, high + wide))
        own = self._own_ends(level)
        if own is not None:
            low, high = np.fmin(low, own[0]), np.fmax(high, own[1])
        return low.reshape(-1, self.n_columns), high.reshape(-1, self.n_columns)

    def lost(self) -> NDArray[np.bool_]:
        """Whether noise hides the number of cells behind each value, of shape (groups, columns)."""
        pairs = list(zip(self.mechanism.blocks, self.mechanism.places, strict=True))
        sampling = self._sampling_deviation() if self.spare > _TINY else 0.0
        variances = np.broadcast_to(self._ladder(None) ** 2 + sampling**2, self.totals.shape)
        rows = [place for block, place in pairs if isinstance(block, Rows)]
        lost = []
        for field in self.fields.columns:
            # The totals of these blocks add up to the number of cells.
            of_column = [(block, place) for block, place in pairs if getattr(block, "column", None) == field.start]
            own = [place for block, place in of_column if isinstance(block, (Split, Levels))]
            bins = [place for block, place in of_column if isinstance(block, Bins)]
            place = [*own, *rows, *bins][0]
            deviation = np.sqrt(variances[:, place].sum(axis=1))
            lost.append(self.totals[:, place].sum(axis=1) < _LOST * deviation)
        return np.stack(lost, axis=1)

    def _own_ends(self, level: float) -> tuple[FloatArray, FloatArray] | None:
        """Ends that the recipe knows without drawing noise."""
        sampling = self._sampling_deviation() if self.spare > _TINY else 0.0
        variances = np.broadcast_to(self._ladder(None) ** 2 + sampling**2, self.totals.shape)
        parts, each = ([array[..., place] for place in self.mechanism.places] for array in (self.totals, variances))
        return self.recipe.ends(parts, each, self.fields, level)

    def _values(self, totals: FloatArray, lost: Lost | None = None) -> FloatArray:
        parts = [totals[..., place] for place in self.mechanism.places]
        return self.recipe.estimate(parts, self.fields, lost)

    @property
    def _is_linear(self) -> bool:
        """Whether the distribution of each value is that of the noise of one total."""
        return self.recipe.is_linear and self.spare <= _TINY and self.beyond is None

    def _ladder(self, levels: FloatArray | None) -> FloatArray:
        """Quantiles of the noise of each total, one row for each level; without levels, its standard deviation."""
        noise = {}
        for factor in {block.factor for block in self.mechanism.blocks}:
            law = replace(self.mechanism.noise, scale=self.mechanism.noise.scale * factor)  # type: ignore[type-var]
            noise[factor] = np.array([law.deviation(1)]) if levels is None else noise_quantiles(law, levels)
        columns = [noise[block.factor] for block in self.mechanism.blocks for _ in range(block.size)]
        ladder = self.max_rows * np.stack(columns, axis=1)
        return ladder[0] if levels is None else ladder

    def _sampling_deviation(self) -> FloatArray:
        """Upper bound on the deviation of each total from sampling.

        A row adds v with |v| <= 1, so the sum of v^2 is at most that of |v|, which is the total itself if no v is
        negative. Otherwise it is at most the number of rows, which is released too.
        """
        sizes, pairs = np.abs(self.totals), list(zip(self.mechanism.blocks, self.mechanism.places, strict=True))
        rows = next((place for block, place in pairs if isinstance(block, Rows)), None)
        for place in (place for block, place in pairs if block.is_signed):
            sizes[:, place] = np.abs(self.totals[:, rows])
        return np.sqrt(self.spare * self.max_rows * sizes)

    def _draws(self) -> Iterator[FloatArray]:
        """Possible values of a few groups at a time, of shape (draws, groups, values)."""
        generator = np.random.default_rng(0)
        width = self.totals.shape[1]
        n_draws = int(np.clip(_MOST_NUMBERS // width, _FEWEST_DRAWS, _MOST_DRAWS))
        step = max(1, _MOST_NUMBERS // (n_draws * width))
        levels = (np.arange(n_draws) + 0.5) / n_draws
        ladder, normal = self._ladder(levels)[:, None, :], special.ndtri(levels)[:, None, None]
        deviations = self._sampling_deviation() if self.spare > _TINY else None
        for start in range(0, len(self.totals), step):
            totals = self.totals[start : start + step]
            shape = (n_draws, *totals.shape)
            # Each quantile of the noise is used once for each total, in random order.
            drawn = totals - generator.permuted(np.broadcast_to(ladder, shape), axis=0)
            if deviations is not None:
                drawn -= deviations[start : start + step] * generator.permuted(np.broadcast_to(normal, shape), axis=0)
            lost = None
            if self.beyond is not None:
                width = (n_draws, len(totals), self.beyond.centers.size)
                errors = generator.permuted(np.broadcast_to(normal, width), axis=0)
                lost = self.beyond.drawn(errors, slice(start, start + step))
            yield self._values(drawn, lost)


def noise_quantiles(law: NoiseLaw, levels: FloatArray) -> FloatArray:
    """Quantiles of noise at levels in (0, 1)."""
    tails = np.minimum(levels, 1.0 - levels)
    words: NDArray[np.uint64] = (tails * 2.0**64).astype(np.uint64)
    # A tail of 1/2 has 63 bits too; the sign stands before them.
    words -= words >> np.uint64(63)
    words |= (levels > 0.5).astype(np.uint64) << np.uint64(63)
    unit, _ = law.evaluate(Tails(raw=words[:, None]))
    noise = law.scale * unit[:, 0]
    return law.step * np.floor(noise / law.step + 0.5) if isinstance(law, GeometricNoise) else noise


# A count stands out of the noise if it is above this many standard errors.
CLEAR = 3.0


def lost_cautions(lost: NDArray[np.bool_], fields: Fields) -> list[Caution]:
    """Name columns and groups whose values noise hides. `lost` has shape (groups, columns)."""
    texts = []
    unread = np.all(lost, axis=0)
    if fields.groups is not None and unread.all():
        unread = np.zeros_like(unread)
    names = [
        f"{field.name!r} could be read as {_cell(field)}"
        for field, all_lost in zip(fields.columns, unread, strict=True)
        if all_lost
    ]
    if names:
        texts.append(
            f"hardly any cell of {listed(names)}, or there are too few rows. Check the type of the column and what was "
            "stated about it."
        )
    hidden = np.any(lost[:, ~unread], axis=1)
    if fields.groups is not None and hidden.any():
        labels = [text for text, is_hidden in zip(fields.groups.texts(), hidden, strict=True) if is_hidden]
        # Few rows are left in "other" if nearly all names were found.
        if labels != [OTHER] or hidden.size == 1 or fields.listed_by:
            spelled = "."
            if fields.listed_by:
                spelled = f", or are not spelled as in {_by(fields.listed_by)}. Check the groups and the columns."
            texts.append(
                f"values of {len(labels)} of {hidden.size} groups are lost in the noise: {listed(labels)}. They have "
                f"too few rows for this epsilon{spelled}"
            )
    return [Caution(text, QualityWarning) for text in texts]


def empty_note(clear: NDArray[np.bool_], fields: Fields) -> str:
    """What a count says if noise hides the rows of all groups; nothing if any stand out of it."""
    if fields.groups is None or np.any(clear):
        return ""
    if not fields.listed_by:
        return "no rows of any group stand out of the noise: there are too few for this epsilon"
    return (
        f"no rows of any group stand out of the noise: check how the groups are spelled in {_by(fields.listed_by)}, "
        "and that its cells can be read as stated"
    )


def _by(columns: Sequence[Field]) -> str:
    """Columns that form groups."""
    names = [repr(field.name) for field in columns]
    return f"{'column' if len(names) == 1 else 'columns'} {listed(names)}"


def _cell(field: Field) -> str:
    """What a cell has to be."""
    if isinstance(field.column, Intervals):
        return f"one of its {field.column.kind}"
    if field.is_listed:
        return "one of its categories"
    if field.is_truth:
        return "true or false"
    if isinstance(field.column, Dates):
        low, high = field.column.times(np.array([field.low, field.high])).astype("datetime64[D]")
        return f"a date between {low} and {high}"
    return f"a number between {field.low:.6g} and {field.high:.6g}"


# What the counts of values beyond the bounds take: the noise of the others grows by 3 %, or by 2 % if it is Gaussian.
_PURE_IMPORTANCE, _GAUSSIAN_IMPORTANCE = 0.03, 0.2

# A share is too large if it exceeds the first number by this many standard errors. So a share of 2 % is found if its
# standard error is at most 0.15 %, and a share below 1 % is reported in about one of 1,000 releases.
_HARMLESS, _CLEARLY = 0.01, 4.0

# Some values are clipped if their share exceeds this many standard errors. Noise alone does this in 0.2 % of releases
# (two Laplace counts), and in 0.02 % if it is Gaussian.
_SOME = 3.5

# So many standard errors above a share that does not stand out, noise could still hide clipped values.
_MARGIN = 2.0

# A share is not known if the number of values is below this many standard deviations of its noise.
_KNOWN = 5.0

# What a result says of values that noise could hide beyond stated bounds.
_AS_BOUND = "hidden by the noise; these values count as the nearer bound, however far they are"


class ClippedShare(NamedTuple):
    """Noisy share of the values of a column below its lower bound and above its upper one.

    The standard error is that of the sum of both. All are NaN if there are too few values for the noise. `bounds` are
    the bounds in words. If an estimate of what lies beyond them was added to the statistic, `unseen` says how many
    values far beyond them noise could hide, in words. `n_values` is the noisy number of values; NaN if people are
    protected, whose rows have weights.
    """

    column: str
    below: float
    above: float
    standard_error: float
    bounds: str
    unseen: str = ""
    n_values: float = math.nan

    @property
    def share(self) -> float:
        return self.below + self.above

    @property
    def narrows(self) -> bool:
        """Whether intervals are of clipped values: clearly some were clipped, and nothing was added for them."""
        return not self.unseen and self.is_clear

    @property
    def is_clear(self) -> bool:
        """Whether clearly some values were clipped."""
        return self.share > _SOME * self.standard_error

    @property
    def note(self) -> str:
        """What a reader of the intervals has to know, in a few words."""
        if self.narrows:
            return (
                f"intervals are for clipped values: about {percent(self.share)} of the values of {self.column} are "
                f"outside {self.bounds}, and how far is not known"
            )
        if self.unseen:
            return f"{self.unseen} ({self.bounds}); intervals do not include them"
        if math.isnan(self.share):
            return f"values of {self.column} outside {self.bounds} count as the nearer bound; how many is not known"
        few = f"{percent(self.most)} of the values of {self.column}"
        if not math.isnan(self.n_values):
            few = f"{rounded_up(self.most * self.n_values)} values of {self.column} ({percent(self.most)})"
        return f"up to {few} may be outside {self.bounds}, {_AS_BOUND}"

    @property
    def most(self) -> float:
        """The largest share that noise could hide."""
        return min(max(self.share, 0.0) + _MARGIN * self.standard_error, 1.0)

    @property
    def is_large(self) -> bool:
        """Whether so many values are clipped that the statistic is not that of the table."""
        return self.share - _CLEARLY * self.standard_error > _HARMLESS


def with_ends(blocks: list[tuple[Block, float]], fields: Fields, *, gaussian: bool) -> list[tuple[Block, float]]:
    """Blocks with their importance, and small ones that count the values beyond the bounds of each column."""
    columns = fields.bounded
    if not columns:
        return blocks
    weights = [weight for _, weight in blocks]
    if gaussian:
        importance = _GAUSSIAN_IMPORTANCE * math.hypot(*weights) / math.sqrt(len(columns))
    else:
        importance = _PURE_IMPORTANCE * math.fsum(weights) / len(columns)
    return [*blocks, *((Ends(column=field.start), importance) for field in columns)]


class EndCounts(NamedTuple):
    """Released counts of values below, within and above the bounds, of shape (groups, columns, 3), and their variance.

    The variance is that of noise and sampling together, in the same shape.
    """

    fields: Fields
    counts: FloatArray
    variance: FloatArray

    @classmethod
    def of(
        cls,
        totals: FloatArray,
        parts: Sequence[tuple[NDArray[np.bool_], VectorStatistic]],
        fields: Fields,
        *,
        max_rows: int,
        spare: float,
    ) -> EndCounts | None:
        """Take the counts out of totals; None if they were not counted. Each part of the groups has a mechanism."""
        mechanism = parts[0][1]
        pairs = zip(mechanism.blocks, mechanism.places, strict=True)
        places = [place for block, place in pairs if isinstance(block, Ends)]
        if not places:
            return None
        counts = np.stack([totals[:, place] for place in places], axis=1)
        variance = spare * max_rows * np.abs(counts)
        for is_own, one in parts:
            factors = [block.factor for block in one.blocks if isinstance(block, Ends)]
            variance[is_own] += (max_rows * one.noise.deviation(1) * np.array(factors)[:, None]) ** 2
        return cls(fields=fields, counts=counts, variance=variance)

    def shares(self, spreads: Mapping[str, Spread], unit: Unit | None) -> tuple[ClippedShare, ...]:
        """The shares of each column, of all groups together. What is beyond the bounds of spreads was added."""
        counts, variance = self.counts.sum(axis=0), self.variance.sum(axis=0)
        numbers = counts.sum(axis=-1)
        n = np.where(numbers > _KNOWN * np.sqrt(variance.sum(axis=-1)), numbers, np.nan)
        below, above = counts[:, 0] / n, counts[:, 2] / n
        beyond, ends = below + above, variance[:, 0] + variance[:, 2]
        error = np.sqrt((1.0 - beyond) ** 2 * ends + beyond**2 * variance[:, 1]) / n
        return tuple(
            ClippedShare(
                column=field.name,
                below=float(below[place]),
                above=float(above[place]),
                standard_error=float(error[place]),
                bounds=bounds_in_words(field),
                unseen=_unseen_in_words(field.name, spreads[field.name], unit) if field.name in spreads else "",
                n_values=float(numbers[place]) if unit is None else math.nan,
            )
            for place, field in enumerate(self.fields.bounded)
        )

    def parts(self, column: int) -> FloatArray:
        """Parts of the cells of a column that are in each group. They add up to 1."""
        n = np.maximum(self.counts[:, column].sum(axis=-1), 0.0) + 1e-9
        return np.asarray(n / n.sum())

    def cautions(
        self, spreads: Mapping[str, Spread], unit: Unit | None, title: str, *, added: Collection[str] = ()
    ) -> list[Caution]:
        """Name columns of which too many values are clipped, in all groups together or in one of them.

        Not those for which what lies beyond the bounds was `added`.
        """
        # A share is clearly not harmless if this is positive, with the noise of the number of values.
        weights = np.array([1.0 - _HARMLESS, -_HARMLESS, 1.0 - _HARMLESS])
        # The largest of many noises is larger than one of them.
        margin = _CLEARLY + math.log(len(self.counts)) / math.sqrt(2.0)
        in_a_group = np.any(self.counts @ weights > margin * np.sqrt(self.variance @ weights**2), axis=0)
        counts, variance = self.counts.sum(axis=0), self.variance.sum(axis=0)
        excessive = in_a_group | (counts @ weights > _CLEARLY * np.sqrt(variance @ weights**2))
        if not excessive.any():
            return []
        texts = []
        for one, is_excessive in zip(self.shares(spreads, unit), excessive, strict=True):
            if is_excessive and one.column not in added:
                many = "many" if math.isnan(one.share) else f"about {percent(one.share)}"
                texts.append(f"{many} of the values of {one.column!r} are outside the bounds {one.bounds}")
        if not texts:
            return []
        text = (
            f"{listed(texts)}. They were clipped, so the interval does not contain the {title} of the table itself. "
            "State wider bounds."
        )
        return [Caution(text, QualityWarning)]


@dataclass(frozen=True, kw_only=True, eq=False)
class BeyondBounds:
    """What is expected beyond bounds that were found privately, for sums over the cells of each group and label.

    Attributes
    ----------
    expected, deviation : array of shape (2, groups, labels)
        Expected decrease of the sums of values and of their squared distances from the centers, and its deviation.
    centers : array of shape (labels,)
        The centers.
    """

    expected: FloatArray
    deviation: FloatArray
    centers: FloatArray

    @classmethod
    def of(cls, spreads: Mapping[str, Spread], fields: Fields, ends: EndCounts | None, max_rows: int) -> BeyondBounds:
        """Follow from the spread of each column that has one."""
        places = {one.name: place for place, one in enumerate(fields.bounded)}
        columns = []
        for one in fields.columns:
            cut, parts = Cut(), np.ones(1 if fields.groups is None else len(fields.groups))
            if one.name in spreads:
                cut = spreads[one.name].cut(one.low, one.high)
                parts = parts / parts.size if ends is None else ends.parts(places[one.name])
            variance = np.multiply.outer([cut.first_variance, cut.second_variance], parts**2)
            if fields.groups is not None:
                # How much of it belongs to a group is a guess, and a possible group of values may belong to one alone.
                variance += np.multiply.outer([cut.size**2, cut.second**2], parts)
                variance += np.square([[cut.possible], [cut.possible_second]])
            deviation = np.sqrt(variance)
            expected = np.multiply.outer([cut.first, cut.second], parts)
            center = spreads[one.name].center if one.name in spreads else 0.0
            columns.extend([(max_rows * expected, max_rows * deviation, center)] * len(one.labels))
        sums, errors, centers = zip(*columns, strict=True)
        return cls(expected=np.stack(sums, axis=-1), deviation=np.stack(errors, axis=-1), centers=np.array(centers))

    def drawn(self, normal: FloatArray, groups: slice) -> Lost:
        """What is lost, for draws of a normal variable of shape (draws, groups, labels)."""
        first, second = (
            expected[groups] + deviation[groups] * normal
            for expected, deviation in zip(self.expected, self.deviation, strict=True)
        )
        return Lost(first=first, second=second, centers=self.centers)


def clipping_in_words(
    fields: Fields,
    shares: tuple[ClippedShare, ...] = (),
    spreads: Mapping[str, Spread] = MappingProxyType({}),
    unit: Unit | None = None,
    *,
    has_shares: bool = False,
) -> str:
    """What clipping did, in words. For the columns of spreads, the part beyond the bounds was added.

    `has_shares` tells whether the statistic of a column with categories is the share of each.
    """
    columns = fields.bounded
    known = {one.column: one for one in shares if not math.isnan(one.share)}
    texts = [_share_in_words(known[field.name]) for field in columns if field.name in known]
    unknown = [field for field in columns if field.name not in known]
    if unknown:
        bounds = "; ".join(f"{field.name} {bounds_in_words(field)}" for field in unknown)
        texts.append(f"Values outside the bounds were clipped to them ({bounds}); how many is not known.")
    narrow = [one.column for one in known.values() if one.narrows]
    if narrow:
        texts.append(
            f"Intervals are for clipped values: it is not known how far values of {listed(narrow)} lie outside the "
            "bounds, and a few can hold much of a mean or a sum."
        )
    if spreads:
        texts.append(
            f"An estimate of the part of {listed(list(spreads))} beyond the bounds was added. The error includes the "
            "uncertainty of this estimate."
        )
    for field in columns:
        if field.name in spreads:
            spread = spreads[field.name]
            if spread.cut(field.low, field.high).possible > 0.0:
                texts.append(
                    f"The noisy counts do not exclude a group of values of {field.name} far outside the bounds. "
                    "Intervals include it, so they are wide."
                )
            unseen = _unseen_in_words(field.name, spread, unit)
            texts.append(f"{unseen[0].upper()}{unseen[1:]}; intervals do not include them.")
    every = (*fields.columns, *fields.by)
    if any(field.is_listed and not isinstance(field.column, (Intervals, Names)) for field in every):
        listed_only = has_shares and any(field.is_listed for field in fields.columns)
        texts.append(
            "A category that is not listed belongs to none of those listed"
            + ("; shares are of the cells with a listed one." if listed_only else ".")
        )
    spans = [f"{field.name} {field.column.span()}" for field in every if isinstance(field.column, Intervals)]
    if spans:
        texts.append(f"A value outside the stated groups belongs to none of them ({'; '.join(spans)}).")
    return " ".join(texts) or "No values were clipped."


def _share_in_words(clipped: ClippedShare) -> str:
    if clipped.is_clear:
        share = f"{percent(clipped.share)} (± {percent(_MARGIN * clipped.standard_error)})"
        return f"About {share} of the values of {clipped.column} were clipped to the bounds {clipped.bounds}."
    # "At most 8 % were clipped" reads as if some were, although mostly none are.
    return (
        f"No clipped values of {clipped.column} stand out of the noise, which hides up to about "
        f"{percent(clipped.most)} (bounds {clipped.bounds})."
    )


def notes_of(shares: tuple[ClippedShare, ...], fields: Fields) -> list[str]:
    """What a reader of the intervals has to know about each column with bounds. Quiet columns share one sentence."""
    counted = {one.column for one in shares}
    every = [*shares] + [
        ClippedShare(field.name, math.nan, math.nan, math.nan, bounds_in_words(field))
        for field in fields.bounded
        if field.name not in counted
    ]
    quiet = [one for one in every if not (one.narrows or one.unseen)]
    known = [one for one in quiet if not math.isnan(one.share)]
    alone = [one.note for one in every if one not in known or len(known) == 1]
    if len(known) < 2:
        return alone
    columns = [f"{percent(one.most)} of {one.column} ({one.bounds})" for one in known]
    return [*alone, f"up to {listed(columns)} may be outside the bounds, {_AS_BOUND}"]


def percent(share: float) -> str:
    """A share in percent, with two digits if it is small."""
    number = 100.0 * share
    return f"{number:.0f} %" if number >= 10.0 else f"{number:.2g} %"


def _unseen_in_words(name: str, spread: Spread, unit: Unit | None) -> str:
    """How many values far beyond the bounds noise could hide."""
    count = rounded_up(spread.most_unseen)
    whose = (
        f"values of {name} of up to {count} {people_word(unit.column)[1]}"
        if unit
        else f"up to {count} values of {name}"
    )
    return f"noise could hide {whose} far outside the bounds"


def rounded_up(number: float) -> str:
    """A count with two digits, rounded up."""
    step = 10.0 ** max(math.floor(math.log10(max(number, 1.0))) - 1, 0)
    return f"{math.ceil(number / step) * step:,.0f}"


def bounds_in_words(field: Field) -> str:
    facts = field.column.facts()
    if "low" not in facts:
        return f"{field.low:.6g} to {field.high:.6g}, found privately"
    ends = (facts["low"], facts["high"])
    return " to ".join(f"{bound:.10g}" if isinstance(bound, float) else str(bound) for bound in ends)
