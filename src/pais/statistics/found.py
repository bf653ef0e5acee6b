"""Groups that nobody listed: what a result says of them, and the errors of totals that are published with names."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from pais._base.numerics import FloatArray
from pais.data.cells import listed
from pais.data.kinds import OTHER, FoundCategories, Names
from pais.data.units import Unit, people_word
from pais.errors import QualityWarning
from pais.mechanisms.blocks import VectorStatistic
from pais.mechanisms.names import CountLine
from pais.planning.facts import Findings
from pais.planning.names import FoundNames
from pais.statistics.result import Statistic
from pais.statistics.table import Caution, Fields
from pais.statistics.uncertainty import Uncertainty, rounded_up

# With more groups than this, most of them have few rows and nobody reads them all.
_MANY_GROUPS = 10_000

# So many names that are alike are quoted.
_FEW = 3


def names_notes(facts: Findings, unit: Unit | None) -> list[str]:
    """For each column with unlisted names, how many people have to have a name so that it is probably shown."""
    many = "rows" if unit is None else people_word(unit.column)[1]
    return [_note(name, found, many, people=unit is not None) for name, found in _found(facts).items()]


def _note(name: str, found: FoundNames, many: str, *, people: bool) -> str:
    selection = found.selection
    text = (
        f"a name in {name!r} that fewer than about {rounded_up(selection.half_found)} {many} have is probably not "
        f"shown; its rows are in {OTHER!r}"
    )
    if not people:
        return text
    most = "one name" if selection.max_names == 1 else f"{selection.max_names} names"
    if not isinstance(selection, CountLine) and selection.max_names > 1:
        more = rounded_up(math.sqrt(selection.max_names) * selection.half_found)
        text = f"{text}. This is for {many} with one name each: with several names each it takes more of them, up to "
        text += f"about {more} with {most}"
    text = f"{text}. Of {many} with more than {most}, {most} drawn at random count{'s' if most == 'one name' else ''}"
    return f"{text}, so a name that many more {many} have may be missing too"


def names_cautions(facts: Findings, fields: Fields, unit: Unit | None) -> list[Caution]:
    """Say if no name was found, or so many that names were left out or hardly anybody reads the table."""
    columns, many = _found(facts), "rows" if unit is None else people_word(unit.column)[1]
    none = [name for name, found in columns.items() if not found.names]
    left_out = [name for name, found in columns.items() if found.n_left_out]
    n_groups = 1 if fields.groups is None else len(fields.groups)
    texts = []
    if none:
        option = "columns" if none[0] in [field.name for field in fields.columns] else "by"
        texts.append(
            f"no name in {listed([repr(name) for name in none])} was found, so all rows are in {OTHER!r}: too few "
            f"{many} have the same name. Raise epsilon or delta, or list the names: {option}={{{none[0]!r}: [...]}}."
        )
    if left_out:
        names = listed([repr(name) for name in left_out])
        texts.append(
            f"the names in {names} form too many groups. The most frequent names are shown, and the rows of the others "
            f"are in {OTHER!r}. Group by fewer columns, or list the names of one of them."
        )
    elif columns and n_groups > _MANY_GROUPS:
        texts.append(
            f"the names that were found form {n_groups:,} groups, and most of them may have few rows. Group by fewer "
            "columns, or list the names of one of them."
        )
    for field in (*fields.columns, *fields.by):
        named = field.column.named if isinstance(field.column, FoundCategories) else field.column
        if field.name in columns and isinstance(named, Names):
            apart, call = named.alike(columns[field.name].names)
            if apart:
                few = listed([repr(name) for name in apart[:_FEW]])
                more = f" and {len(apart) - _FEW} more" if len(apart) > _FEW else ""
                texts.append(
                    f"the found names {few}{more} in {field.name!r} are others but for case, blanks or Unicode form, "
                    f"and count apart. Pass {call} for the column to join them."
                )
    return [Caution(text, QualityWarning) for text in texts]


V = TypeVar("V", bound=np.generic)

#: Which groups have the noise of a mechanism.
Part = tuple[NDArray[np.bool_], VectorStatistic]


class Published(NamedTuple):
    """Groups whose totals were published because the noisy count of their name is above the line. Public.

    `scores` are the noisy counts of the name of each group, from the block with the number `counting`. The values
    follow from the first `n_blocks` blocks.
    """

    line: CountLine
    scores: FloatArray
    n_blocks: int = 1
    counting: int = 0

    def ends(
        self, low: FloatArray, high: FloatArray, level: float, *, is_linear: bool
    ) -> tuple[FloatArray, FloatArray]:
        """Ends of intervals, of shape (groups, values), that hold given that the names were published.

        Noise is high where it has put a rare name above the line.
        """
        if self.counting >= self.n_blocks:
            return low, high
        chance = 0.5 - 0.5 * level
        if is_linear:
            least = self.line.least_counts(self.scores, chance)
            if self.line.n == 1:
                return np.minimum(low, least[:, None]), high
            # Where the count is far above the line, this is the quantile of the noise.
            usual = self.line.least_counts(self.scores + _FAR * self.line.line, chance) - _FAR * self.line.line
            return low - np.maximum(usual - least, 0.0)[:, None], high
        # A count below the line says nothing about the values. Half of the chance is for the noise of the others.
        unclear = self.line.least_counts(self.scores, 0.5 * chance) < self.line.line
        return np.where(unclear[:, None], -math.inf, low), np.where(unclear[:, None], math.inf, high)


# Counts this many times as large as the line are far above it.
_FAR = 8.0


class Joined(NamedTuple):
    """The uncertainty of all groups, part by part, as each part has noise of its own."""

    parts: tuple[tuple[NDArray[np.bool_], Uncertainty], ...]
    published: Published | None = None

    def estimates(self) -> FloatArray:
        return self._as_values(self._together([one.estimates() for _, one in self.parts]))

    def standard_errors(self) -> FloatArray:
        return self._as_values(self._together([one.standard_errors() for _, one in self.parts]))

    def bounds(self, level: float) -> tuple[FloatArray, FloatArray]:
        ends = [one.bounds(level) for _, one in self.parts]
        if self.published is not None:
            one = self.parts[0][1]
            low, high = (end.reshape(len(one.totals), -1) for end in ends[0])
            low, high = self.published.ends(low, high, level, is_linear=one.recipe.is_linear)
            ends[0] = one.recipe.limited(low, one.fields), one.recipe.limited(high, one.fields)
        low, high = (self._together([end[side] for end in ends]) for side in (0, 1))
        return self._as_values(low), self._as_values(high)

    def lost(self) -> NDArray[np.bool_]:
        return self._together([one.lost() for _, one in self.parts])

    def _together(self, values: Sequence[NDArray[V]]) -> NDArray[V]:
        """The values of each part as one table, with a row for each group."""
        tables = [part.reshape(len(one.totals), -1) for part, (_, one) in zip(values, self.parts, strict=True)]
        joined = np.empty((len(self.parts[0][0]), tables[0].shape[1]), dtype=tables[0].dtype)
        for (mask, _), table in zip(self.parts, tables, strict=True):
            joined[mask] = table
        return joined

    def _as_values(self, table: FloatArray) -> FloatArray:
        return table.reshape(-1, self.parts[0][1].n_columns)


def with_published(
    facts: Findings, fields: Fields, totals: FloatArray, mechanism: VectorStatistic, n_blocks: int
) -> tuple[FloatArray, list[Part], Published | None]:
    """The totals of all groups, with those that were published with their names, and the noise of each part.

    `n_blocks` is the number of blocks from which values follow.
    """
    found = next((one for one in _found(facts).values() if one.released is not None), None)
    if found is None or found.released is None or not found.names:
        return totals, [(np.ones(len(totals), dtype=bool), mechanism)], None
    assert isinstance(found.selection, CountLine)
    released, law = found.released, found.released.mechanism
    assert law is not None
    sizes = [level.n_levels for level in fields.levels]
    place = [field.column.name in _found(facts) for field in fields.by].index(True)
    joined, scores = totals.reshape(*sizes, -1).copy(), np.full(sizes, math.nan)
    own = np.moveaxis(joined, place, 0)[:-1]
    own[...] = released.totals.reshape(own.shape)
    own = np.moveaxis(scores, place, 0)[:-1]
    own[...] = np.reshape(found.scores, (-1, *np.ones(own.ndim - 1, dtype=int)))
    is_own, scores = ~np.isnan(scores.ravel()), scores.ravel()
    published = Published(found.selection, scores[is_own], n_blocks, released.counting)
    return joined.reshape(totals.shape), [(is_own, law), (~is_own, mechanism)], published


def published_counts(facts: Findings) -> Published | None:
    """The numbers of people that were published with names, in their order; None if there are none."""
    found = next((one for one in _found(facts).values() if one.released is not None), None)
    if found is None or not found.names:
        return None
    assert isinstance(found.selection, CountLine)
    return Published(found.selection, np.array(found.scores))


def _found(facts: Findings) -> Mapping[str, FoundNames]:
    columns: Mapping[str, FoundNames] = facts.found.get("names", {})
    return columns


def most_frequent(result: Statistic, k: int) -> Statistic:
    """The k rows of a count with the highest values. Intervals allow for the choice."""
    assert result.rows is not None
    assert result.plan is not None
    schema, is_name = result.plan.schema, np.ones(len(result.rows), dtype=bool)
    for column, labels in zip(result.rows.names, result.rows.levels, strict=True):
        if schema is not None and column is not None and isinstance(schema[column], Names):
            is_name &= np.array(labels) != OTHER
    places = np.flatnonzero(is_name)
    order = places[np.argsort(-result.estimates[places, 0], kind="stable")][:k]
    if not order.size:
        return result
    levels = tuple(tuple(labels[place] for place in order) for labels in result.rows.levels)
    share, about = order.size / max(places.size, 1), f"{result.about}; the {order.size} highest of {places.size}"

    def bounds(level: float) -> tuple[FloatArray, FloatArray]:
        # Of intervals that were chosen, a higher share misses. Rule of Benjamini and Yekutieli (2005).
        low, high = result.bounds(1.0 - (1.0 - level) * share)
        return low[order], high[order]

    return replace(
        result,
        about=about,
        certificate=replace(result.certificate, about=about),
        estimates=result.estimates[order],
        errors=lambda: result.standard_errors[order],
        bounds=bounds,
        rows=replace(result.rows, levels=levels),
        lost=None if result.lost is None else result.lost[order],
    )
