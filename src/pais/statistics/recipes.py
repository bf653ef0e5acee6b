"""Recipes of statistics: the blocks of totals that each releases, and how its values follow from them."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from pais._base import validate
from pais._base.numerics import FloatArray
from pais.data.kinds import Auto, Dates
from pais.errors import ArgumentError
from pais.mechanisms.blocks import Bins, Block, Line, Product, Rows, Split
from pais.statistics.table import Axis, Bin, Field, Fields

#: A block, and its importance: the noise of a block is inversely proportional to it.
Weighted = tuple[Block, float]


class Lost(NamedTuple):
    """What clipping took away from the sums over the cells of each label, of shape (draws, groups, labels).

    `second` belongs to squares of distances from the `centers`, one for each label.
    """

    first: FloatArray
    second: FloatArray
    centers: FloatArray


class Recipe(ABC):
    """A statistic of the columns of a table."""

    #: Name of the mechanism, in certificates and ledgers.
    name: ClassVar[str]
    #: Name of the statistic.
    title: ClassVar[str]
    #: Whether each value is one total times a number.
    is_linear: ClassVar[bool] = False
    #: Name of the mechanism where people are protected, if the statistic is a total over all of their rows.
    name_for_people: ClassVar[str] = ""
    #: Whether it is defined for dates, and for categories. If a value can be a date, `is_date` says which ones are.
    has_dates: ClassVar[bool] = True
    has_categories: ClassVar[bool] = True
    #: Whether a person counts once in each group, however many rows they have there.
    presence: ClassVar[bool] = False
    #: Power of the values whose sum decides the statistic, for bounds that are found privately; 0 if such bounds are to
    #: hold nearly all values. A power above 0 needs `noise_of_bounds`.
    power: ClassVar[int] = 0
    #: Whether the values beyond the bounds are counted. Those of a histogram are in its first and last bins.
    counts_clipped: ClassVar[bool] = True
    #: Whether values mean nothing without cells. Counts and sums do: they are 0.
    needs_cells: ClassVar[bool] = True

    def require(self, fields: Fields) -> None:
        """Raise if the statistic is not defined for these columns."""
        fields.require(self.title, dates=self.has_dates, categories=self.has_categories)

    @abstractmethod
    def blocks(self, fields: Fields) -> list[Weighted]:
        """The blocks to release, with their importance."""

    @abstractmethod
    def estimate(self, parts: list[FloatArray], fields: Fields, lost: Lost | None = None) -> FloatArray:
        """The values of each group, of shape (draws, groups, values), from the totals of each block.

        What is `lost` beyond the bounds is added, if it is known.
        """

    def noise_of_bounds(self, low: FloatArray, high: FloatArray, mean: float) -> FloatArray:
        """Variance of a value times its number of cells, for totals with noise of variance one: decides the bounds."""
        raise NotImplementedError

    def limited(self, values: FloatArray, fields: Fields) -> FloatArray:
        """Values within their natural limits, such as counts that are not negative."""
        return values

    def resolution(self, fields: Fields) -> FloatArray | float:
        """Width of the cells in which each value of a group is known without noise; 0 if it is known exactly."""
        return 0.0

    def ends(
        self, parts: list[FloatArray], variances: list[FloatArray], fields: Fields, level: float
    ) -> tuple[FloatArray, FloatArray] | None:
        """Ends that the interval of each value reaches at least, NaN for values whose noise tells them; None for all.

        `parts` and the variances of their noise have the shape (groups, coordinates).
        """
        return None

    def rows(self, fields: Fields) -> Axis | None:
        """Labels of the rows of the result of one group; None if it has one row."""
        return None

    def columns(self, fields: Fields) -> Axis | None:
        """Labels of the columns of the result; None if it has one column."""
        return None if len(fields.labels) <= 1 else Axis.of(fields.labels)

    def is_date(self, fields: Fields) -> NDArray[np.bool_] | None:
        """Which values of a group are dates; None if none are."""
        return None


class Counts(Recipe):
    """Number of rows, of cells that are not missing, or of rows in each category."""

    name, title, name_for_people = "counts", "count", "counts of rows"
    needs_cells = False
    counts_clipped = False
    is_linear = True

    def require(self, fields: Fields) -> None:
        if fields.columns:
            super().require(fields)

    def blocks(self, fields: Fields) -> list[Weighted]:
        if not fields.columns:
            return [(Rows(), 1.0)]
        return [
            (field.levels() if field.is_listed else Split(column=field.start, degree=0), 1.0)
            for field in fields.columns
        ]

    def estimate(self, parts: list[FloatArray], fields: Fields, lost: Lost | None = None) -> FloatArray:
        return np.concatenate(parts, axis=-1)

    def limited(self, values: FloatArray, fields: Fields) -> FloatArray:
        return np.maximum(values, 0.0)


class PeopleCounts(Counts):
    """Number of people who have rows, in all or in each group."""

    name = name_for_people = "counts of people"
    title = "number of people"
    presence = True

    def require(self, fields: Fields) -> None:
        if fields.columns:
            raise ArgumentError(
                f"count_people counts people, not cells. Leave out column {fields.columns[0].name!r}, or put it in by."
            )


class Sums(Recipe):
    """Sum of each column in own units; for booleans the number of true, for categories the number of rows in each."""

    name, title, name_for_people = "sums", "sum", "sums of people"
    has_dates = False
    power = 1
    needs_cells = False
    is_linear = True

    def blocks(self, fields: Fields) -> list[Weighted]:
        return [(field.levels() if field.is_listed else self._line(field), 1.0) for field in fields.columns]

    def _line(self, field: Field) -> Line:
        half, middle = 0.5 * field.width, 0.5 * field.low + 0.5 * field.high
        size = field.largest
        return Line(column=field.start, slope=half / size, intercept=middle / size)

    def estimate(self, parts: list[FloatArray], fields: Fields, lost: Lost | None = None) -> FloatArray:
        pairs = zip(parts, fields.columns, strict=True)
        sums = np.concatenate([part if field.is_listed else part * field.largest for part, field in pairs], axis=-1)
        return sums if lost is None else sums + lost.first

    def noise_of_bounds(self, low: FloatArray, high: FloatArray, mean: float) -> FloatArray:
        return np.maximum(np.abs(low), np.abs(high)) ** 2

    def limited(self, values: FloatArray, fields: Fields) -> FloatArray:
        least = [
            0.0 if field.is_listed or field.low >= 0.0 else -np.inf for field in fields.columns for _ in field.labels
        ]
        return np.maximum(values, least)


class SumsOfSample(Sums):
    """The same for a sample. A column with both signs is split, so that its totals bound the error of the sample."""

    is_linear = False

    def blocks(self, fields: Fields) -> list[Weighted]:
        whole = super().blocks(fields)
        pairs = zip(whole, fields.columns, strict=True)
        return [(Split(column=field.start) if block.is_signed else block, weight) for (block, weight), field in pairs]

    def estimate(self, parts: list[FloatArray], fields: Fields, lost: Lost | None = None) -> FloatArray:
        split = [
            part
            if field.is_listed or part.shape[-1] == 1
            else (part @ [field.low, field.high])[..., None] / field.largest
            for part, field in zip(parts, fields.columns, strict=True)
        ]
        return super().estimate(split, fields, lost)


def shares(part: FloatArray) -> FloatArray:
    """Shares of noisy counts; equal shares if no count is positive."""
    counts = np.maximum(part, 0.0)
    total = counts.sum(axis=-1, keepdims=True)
    return np.where(total > 0.0, counts / np.where(total > 0.0, total, 1.0), 1.0 / part.shape[-1])


# From this many columns with one number of cells, a total for each and one count have less noise than splits (43e987f).
_FEWEST_SHARED = 4


class Means(Recipe):
    """Mean of each column in own units; for booleans the share of true, for categories the share of each."""

    name, title = "means", "mean"
    power = 1

    def blocks(self, fields: Fields) -> list[Weighted]:
        # One count serves all columns of numbers.
        shared = fields.pooled and sum(not field.is_listed for field in fields.columns) >= _FEWEST_SHARED
        blocks: list[Weighted] = []
        for field in fields.columns:
            if field.is_listed:
                blocks.append((field.levels(), 1.0))
            elif shared:
                blocks.append((Line(column=field.start, slope=1.0, intercept=0.0), 1.0))
            else:
                blocks.append((Split(column=field.start), 1.0))
        # The best importance of the count for means halfway between the middle and a bound.
        return [*blocks, (Rows(), float(np.cbrt(0.25 * len(blocks))))] if shared else blocks

    def estimate(self, parts: list[FloatArray], fields: Fields, lost: Lost | None = None) -> FloatArray:
        shared, n = len(parts) > len(fields.columns), None
        pairs = list(zip(parts, fields.columns, strict=not shared))
        if shared:
            n = parts[-1]
        elif fields.pooled:
            # All columns have the same number of cells, and each tells it.
            rows = [part.sum(axis=-1, keepdims=True) for part, field in pairs if not field.is_listed]
            n = np.mean(rows, axis=0) if len(rows) > 1 else None
        means = []
        for part, field in pairs:
            if field.is_listed:
                means.append(shares(part))
                continue
            place = shares(part)[..., 1:]
            if n is not None:
                total = part if part.shape[-1] == 1 else part[..., 1:] - part[..., :1]
                place = np.clip(0.5 + 0.5 * total / np.maximum(n, 1.0), 0.0, 1.0)
            means.append(field.low + field.width * place)
        if lost is None:
            return np.concatenate(means, axis=-1)
        cells = [part.sum(axis=-1, keepdims=True) if n is None else n for part, _ in pairs]
        return np.concatenate(means, axis=-1) + lost.first / np.maximum(by_label(cells, fields), 1.0)

    def noise_of_bounds(self, low: FloatArray, high: FloatArray, mean: float) -> FloatArray:
        return (mean - low) ** 2 + (high - mean) ** 2

    def limited(self, values: FloatArray, fields: Fields) -> FloatArray:
        """Means within the bounds. What lies beyond bounds that were found is added, so only their sign is a limit."""
        limits = []
        for field in fields.columns:
            low, high = field.low, field.high
            if isinstance(field.column, Auto):
                low, high = (0.0 if low >= 0.0 else -np.inf), (0.0 if high <= 0.0 else np.inf)
            limits.extend([(low, high)] * len(field.labels))
        least, most = np.array(limits).T
        return np.clip(values, least, most)

    def is_date(self, fields: Fields) -> NDArray[np.bool_]:
        return np.array([field.is_date for field in fields.columns for _ in field.labels])


def mean_and_variance(part: FloatArray, field: Field) -> tuple[FloatArray, FloatArray]:
    """Mean and variance in own units, from the totals of a split or of categories."""
    n = np.maximum(part.sum(axis=-1, keepdims=True), 2.0)
    if not field.is_bounded:
        share = shares(part) if field.is_listed else shares(part)[..., 1:]
        return share, share * (1.0 - share) * n / (n - 1.0)
    mean = np.clip((0.5 * part[..., 1:2] + part[..., 2:]) / n, 0.0, 1.0)
    square = part[..., 2:] / n
    variance = np.clip(square - mean * mean, 0.0, mean * (1.0 - mean)) * n / (n - 1.0)
    return field.low + field.width * mean, field.width**2 * variance


def moments(field: Field) -> Block:
    """The block from which mean and variance of a column follow."""
    if field.is_listed:
        return field.levels()
    return Split(column=field.start, degree=1 if field.is_truth else 2)


def by_label(parts: list[FloatArray], fields: Fields) -> FloatArray:
    """One number for each column as one for each label."""
    repeated = [np.repeat(part, len(field.labels), axis=-1) for part, field in zip(parts, fields.columns, strict=True)]
    return np.concatenate(repeated, axis=-1)


def moments_of(parts: list[FloatArray], fields: Fields, lost: Lost | None) -> tuple[FloatArray, FloatArray]:
    """Mean and variance of each label, from the totals of the blocks of `moments`."""
    pairs = [mean_and_variance(part, field) for part, field in zip(parts, fields.columns, strict=True)]
    mean, variance = (np.concatenate(several, axis=-1) for several in zip(*pairs, strict=True))
    if lost is None:
        return mean, variance
    n = np.maximum(by_label([part.sum(axis=-1, keepdims=True) for part in parts], fields), 2.0)
    shift = lost.first / n
    more = lost.second / n - shift * (2.0 * (mean - lost.centers) + shift)
    return mean + shift, np.maximum(variance + more, 0.0)


class Variances(Recipe):
    """Variance of each column, in squares of own units."""

    name, title = "variances", "variance"
    power = 2

    def blocks(self, fields: Fields) -> list[Weighted]:
        return [(moments(field), 1.0) for field in fields.columns]

    def estimate(self, parts: list[FloatArray], fields: Fields, lost: Lost | None = None) -> FloatArray:
        return moments_of(parts, fields, lost)[1]

    def noise_of_bounds(self, low: FloatArray, high: FloatArray, mean: float) -> FloatArray:
        # The squared distance from the mean is a combination of the three totals with these squared factors.
        low, high = (low - mean) ** 2, (high - mean) ** 2
        return low**2 + low * high + high**2


@dataclass(frozen=True, kw_only=True)
class Histogram(Recipe):
    """Number of cells in each bin of a column, or in each category."""

    name, title, name_for_people = "histogram", "histogram", "histogram of rows"
    needs_cells = False
    counts_clipped = False
    is_linear = True
    bins: Any = 10

    def require(self, fields: Fields) -> None:
        super().require(fields)
        self.blocks(fields)

    def blocks(self, fields: Fields) -> list[Weighted]:
        return [
            (
                field.levels()
                if not field.is_bounded
                else Bins(column=field.start, edges=field.coordinates(self.edges(field)[1:-1])),
                1.0,
            )
            for field in fields.columns
        ]

    def edges(self, field: Field) -> FloatArray:
        """The edges of the bins of a column in own units, its bounds included."""
        bins = self.bins.get(field.name, 10) if isinstance(self.bins, Mapping) else self.bins
        if isinstance(bins, (Sequence, np.ndarray)):
            if isinstance(field.column, Auto):
                raise ArgumentError(
                    f"bins of column {field.name!r} are edges, but its bounds are not known before the release. State "
                    "its bounds, or pass a number of bins."
                )
            edges = validate.real_array("bins", bins)
            inside = edges.ndim == 1 and edges.size > 1 and edges[0] == field.low and edges[-1] == field.high
            if not inside or np.any(np.diff(edges) <= 0.0):
                raise ArgumentError(
                    f"bins of column {field.name!r} must increase from its lower bound {field.low:g} to its upper "
                    f"bound {field.high:g}. Pass such edges, or a number of bins."
                )
            return edges
        # Edges of bins of equal width, without digits that are rounding errors.
        edges = np.linspace(field.low, field.high, validate.count("bins", bins) + 1)
        return np.array([field.low, *(float(f"{edge:.12g}") for edge in edges[1:-1]), field.high])

    def estimate(self, parts: list[FloatArray], fields: Fields, lost: Lost | None = None) -> FloatArray:
        return np.concatenate(parts, axis=-1)

    def limited(self, values: FloatArray, fields: Fields) -> FloatArray:
        return np.maximum(values, 0.0)

    def _labels(self, field: Field) -> list[Any]:
        if not field.is_bounded:
            return list(field.values)
        edges = self.edges(field)
        ends = field.column.times(edges) if isinstance(field.column, Dates) else edges.tolist()
        return [Bin(low, high) for low, high in itertools.pairwise(ends)]

    def rows(self, fields: Fields) -> Axis | None:
        names = [field.name for field in fields.columns]
        labels = [self._labels(field) for field in fields.columns]
        if len(names) == 1:
            return Axis.of(labels[0], names[0])
        first = [name for name, several in zip(names, labels, strict=True) for _ in several]
        return Axis(
            names=("column", "bin"), levels=(tuple(first), tuple(label for several in labels for label in several))
        )

    def columns(self, fields: Fields) -> Axis | None:
        return None


class Covariance(Recipe):
    """Covariances of all pairs of columns, from rows without missing values."""

    name, title = "covariance", "covariance"
    has_categories = False

    def blocks(self, fields: Fields) -> list[Weighted]:
        starts = [field.start for field in fields.columns]
        first, second = np.triu_indices(len(starts))
        products = [Product(first=starts[i], second=starts[j]) for i, j in zip(first, second, strict=True)]
        # Means and the count enter the covariances with small factors, so their noise may be larger.
        lines = [Line(column=start, slope=1.0, intercept=0.0) for start in starts]
        return [*((block, 1.0) for block in products), *((block, 0.5) for block in lines), (Rows(), 0.5)]

    def estimate(self, parts: list[FloatArray], fields: Fields, lost: Lost | None = None) -> FloatArray:
        d = len(fields.columns)
        totals = np.concatenate(parts, axis=-1)
        n = np.maximum(totals[..., -1:], 2.0)
        mean = np.clip(totals[..., -1 - d : -1] / n, -1.0, 1.0)
        first, second = np.triu_indices(d)
        product = totals[..., : first.size] / n - mean[..., first] * mean[..., second]
        product *= n / (n - 1.0)
        half = np.array([0.5 * field.width for field in fields.columns])
        product = np.where(first == second, np.maximum(product, 0.0), product) * half[first] * half[second]
        matrix = np.empty((*totals.shape[:-1], d, d))
        matrix[..., first, second] = matrix[..., second, first] = product
        return matrix.reshape(*totals.shape[:-1], d * d)

    def rows(self, fields: Fields) -> Axis | None:
        return self.columns(fields)


#: Statistics of each column that a description has by default.
DESCRIBED = ("count", "mean", "std", "25%", "50%", "75%")

# All that it can have, with the place among the quartiles; -1 for what is none of them.
_PLACES = {"count": -1, "sum": -1, "mean": -1, "variance": -1, "std": -1, "25%": 0, "50%": 1, "median": 1, "75%": 2}

# Bins of equal width of a column from which quartiles are read, chosen by eye (3388a1c). Two more bins hold the bounds
# alone, where many values may be equal, such as zeros: coordinates this near to a bound count as the bound.
_N_BINS, _AT_BOUND = 64, 2.0**-40

# Sums of few Laplace variables have longer tails than normal ones: 2.12 deviations for one variable at 95 %.
_TAIL_ROOM = 1.1


def quartiles_of(part: FloatArray, n: FloatArray, edges: FloatArray) -> FloatArray:
    """Quartiles from counts in bins, with the edges of all bins, and the number of cells."""
    below = np.cumsum(part, axis=-1)
    # Counts below and above an edge both tell the number of cells below it; this weighs them by their noise.
    below -= np.linspace(0.0, 1.0, part.shape[-1] + 1)[1:] * (below[..., -1:] - n)
    # A noisy distribution function is made to increase, by the mean of the nearest ones above and below that do.
    above = np.maximum.accumulate(below, axis=-1)
    under = np.minimum.accumulate(below[..., ::-1], axis=-1)[..., ::-1]
    below = np.concatenate([np.zeros_like(n), np.maximum(0.5 * (above + under), 0.0)], axis=-1)
    quartiles = []
    for level in (0.25, 0.5, 0.75):
        target = level * below[..., -1:]
        bin_of = np.clip((below[..., 1:] < target).sum(axis=-1, keepdims=True), 0, part.shape[-1] - 1)
        low, high = (np.take_along_axis(below, bin_of + offset, axis=-1) for offset in (0, 1))
        within = np.where(high > low, (target - low) / np.where(high > low, high - low, 1.0), 0.5)
        quartiles.append(edges[bin_of] + np.clip(within, 0.0, 1.0) * np.diff(edges)[bin_of])
    return np.concatenate(quartiles, axis=-1)


def _edges_of(field: Field) -> FloatArray:
    """The edges of all bins of a column; values at a bound have a bin of their own."""
    return np.array([field.low, *np.linspace(field.low, field.high, _N_BINS + 1), field.high])


def quartile_ends(
    part: FloatArray, n: FloatArray, variance: FloatArray, variance_of_n: FloatArray, edges: FloatArray, level: float
) -> tuple[FloatArray, FloatArray]:
    """Ends of intervals of the quartiles: from the first to the last bin that noise does not exclude.

    A quartile is below an edge if the share of the cells below it is at least the level of the quartile. Noise excludes
    a bin if the share is clearly too small at its upper edge, or clearly large enough at its lower one. In few cells
    noise makes a distribution function that rises evenly, so that noise drawn for its quartiles misses theirs.
    """
    share = np.linspace(0.0, 1.0, part.shape[-1] + 1)[1:]
    below = np.cumsum(part, axis=-1)
    below -= share * (below[..., -1:] - n)
    total = variance.sum(axis=-1, keepdims=True)
    inner = (1.0 - 2.0 * share) * np.cumsum(variance, axis=-1) + share**2 * total
    reach = _TAIL_ROOM * special.ndtri(0.5 + 0.5 * level)
    lows, highs = [], []
    for quartile in (0.25, 0.5, 0.75):
        surplus = below - quartile * n
        deviation = reach * np.sqrt(inner + (share - quartile) ** 2 * variance_of_n)
        too_low = surplus < -deviation
        enough = np.concatenate([np.zeros_like(too_low[..., :1]), surplus[..., :-1] > deviation[..., :-1]], axis=-1)
        kept = ~(too_low | enough)
        # Without any bin left, all of them are.
        kept |= ~kept.any(axis=-1, keepdims=True)
        lows.append(edges[kept.argmax(axis=-1)])
        highs.append(edges[part.shape[-1] - kept[..., ::-1].argmax(axis=-1)])
    return np.stack(lows, axis=-1), np.stack(highs, axis=-1)


@dataclass(frozen=True, kw_only=True)
class Description(Recipe):
    """Several statistics of each column, from the same counts. Quartiles are known up to a bin."""

    name, title = "description", "description"
    power = 1
    statistics: tuple[str, ...] = DESCRIBED

    def require(self, fields: Fields) -> None:
        unknown = [name for name in self.statistics if name not in _PLACES]
        if unknown or not self.statistics or len(set(self.statistics)) < len(self.statistics):
            raise ArgumentError(
                f"statistics={list(self.statistics)!r} is not a list of different statistics. Pass some of "
                f"{', '.join(map(repr, _PLACES))}."
            )
        fields.require(self.title)
        if "sum" in self.statistics:
            fields.require("sum", dates=False)

    @property
    def _degree(self) -> int:
        """Degree of the moments that are asked for: 0 for counts of cells alone."""
        asked = set(self.statistics)
        return 2 if asked & {"variance", "std"} else 1 if asked & {"mean", "sum"} else 0

    def blocks(self, fields: Fields) -> list[Weighted]:
        return [weighted for field in fields.columns for weighted in ((self._moments(field), 1.0), *self._bins(field))]

    def _moments(self, field: Field) -> Block:
        if field.is_listed or self._degree == 2:
            return moments(field)
        return Split(column=field.start, degree=self._degree)

    def _bins(self, field: Field) -> list[Weighted]:
        if not field.is_bounded or all(_PLACES[name] < 0 for name in self.statistics):
            return []
        inner = np.linspace(-1.0, 1.0, _N_BINS + 1)[1:-1].tolist()
        return [(Bins(column=field.start, edges=(-1.0 + _AT_BOUND, *inner, 1.0 - _AT_BOUND)), 1.0)]

    def estimate(self, parts: list[FloatArray], fields: Fields, lost: Lost | None = None) -> FloatArray:
        remaining, counted, places = iter(parts), [], []
        for field in fields.columns:
            counted.append(next(remaining))
            n = counted[-1].sum(axis=-1, keepdims=True)
            quartiles = np.full((*n.shape[:-1], len(field.labels), 3), np.nan)
            if self._bins(field):
                quartiles[..., 0, :] = quartiles_of(next(remaining), n, _edges_of(field))
            places.append((n, quartiles))
        values = {"count": by_label([n for n, _ in places], fields)}
        if self._degree == 2:
            values["mean"], values["variance"] = moments_of(counted, fields, lost)
            values["std"] = np.sqrt(values["variance"])
        elif self._degree == 1:
            values["mean"] = Means().estimate(counted, fields._replace(pooled=False), lost)
        if self._degree:
            values["sum"] = np.maximum(values["count"], 0.0) * values["mean"]
        quartiles = np.concatenate([several for _, several in places], axis=-2)
        values |= {name: quartiles[..., place] for name, place in _PLACES.items() if place >= 0}
        table = np.stack([values[name] for name in self.statistics], axis=-2)
        return table.reshape(*table.shape[:-2], -1)

    def ends(
        self, parts: list[FloatArray], variances: list[FloatArray], fields: Fields, level: float
    ) -> tuple[FloatArray, FloatArray] | None:
        remaining, several = iter(zip(parts, variances, strict=True)), []
        for field in fields.columns:
            n, of_n = (each.sum(axis=-1, keepdims=True) for each in next(remaining))
            ends = np.full((2, len(n), len(field.labels), 3), np.nan)
            if self._bins(field):
                part, variance = next(remaining)
                ends[:, :, 0] = quartile_ends(part, n, variance, of_n, _edges_of(field), level)
            several.append(ends)
        quartiles = np.concatenate(several, axis=-2)
        places = [_PLACES[name] for name in self.statistics]
        table = [quartiles[..., place] if place >= 0 else np.full(quartiles.shape[:-1], np.nan) for place in places]
        low, high = np.stack(table, axis=-2).reshape(2, len(parts[0]), -1)
        return low, high

    def noise_of_bounds(self, low: FloatArray, high: FloatArray, mean: float) -> FloatArray:
        return Means().noise_of_bounds(low, high, mean)

    def limited(self, values: FloatArray, fields: Fields) -> FloatArray:
        pairs = [
            (0.0, 1.0) if field.is_listed else (field.low, field.high) for field in fields.columns for _ in field.labels
        ]
        low, high = np.array(pairs).T
        nothing, anything = np.zeros_like(low), np.full_like(low, np.inf)
        limits = dict.fromkeys(("count", "variance", "std"), (nothing, anything))
        limits["sum"] = np.where(low >= 0.0, 0.0, -np.inf), np.where(high <= 0.0, 0.0, np.inf)
        least, most = zip(*(limits.get(name, (low, high)) for name in self.statistics), strict=True)
        return np.clip(values, np.concatenate(least), np.concatenate(most))

    def resolution(self, fields: Fields) -> FloatArray:
        widths = [field.width / _N_BINS if self._bins(field) else 0.0 for field in fields.columns for _ in field.labels]
        return np.concatenate([np.array(widths) * (_PLACES[name] >= 0) for name in self.statistics])

    def rows(self, fields: Fields) -> Axis | None:
        return Axis.of(self.statistics)

    def columns(self, fields: Fields) -> Axis | None:
        return Axis.of(fields.labels)

    def is_date(self, fields: Fields) -> NDArray[np.bool_]:
        dates = np.array([field.is_date for field in fields.columns for _ in field.labels])
        return np.concatenate([dates & (name not in ("count", "variance", "std")) for name in self.statistics])
