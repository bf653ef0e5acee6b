"""The stage that finds names which nobody listed: it reads the names of all people and publishes frequent ones."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pais._base.lattice import IntArray, Lattice, Named, current_tape
from pais._base.numerics import FloatArray
from pais._base.randomness import BitSource, Words64, bit_source, mixed64
from pais.data.ball import Ball
from pais.data.cells import is_text
from pais.data.engines.base import AllRows, CarriedCells, Engine
from pais.data.kinds import OTHER, FoundCategories, Names
from pais.data.schema import Schema
from pais.data.units import HashIndex, UnitHash
from pais.mechanisms.blocks import Bins, Levels, Rows, Split, VectorStatistic
from pais.mechanisms.names import CountLine, NameSelection, max_names_of
from pais.mechanisms.noise import geometric_noise
from pais.planning.facts import Stage, SurveyNoise
from pais.privacy.amplification import largest_shift

# Share of the stage for the number of names that people have, if it is not stated. Chosen by eye: THEORY names 2 % of
# the squared shift of a whole release.
_NUMBER_SHARE = 0.1

# People are counted by the octave of the number of their names, up to 2**12 names.
_N_OCTAVES = 13


# So many pairs of people and names are read before equal ones are looked for among all.
_MOST_NEW = 1 << 22


def sorted_unique(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The distinct numbers in order, as `numpy.unique` returns them. The array that is passed is sorted in place."""
    numbers.sort()
    first = np.ones(numbers.size, dtype=bool)
    np.not_equal(numbers[1:], numbers[:-1], out=first[1:])
    return numbers if first.all() else numbers[first]


class NamedTotals(NamedTuple):
    """Noisy totals that were published with names, of shape (names, groups of other columns, coordinates). Public.

    `counting` is the block of the mechanism whose sum is the count that decided. Counts of people have no mechanism.
    """

    totals: FloatArray
    mechanism: VectorStatistic | None = None
    counting: int = 0


class FoundNames(NamedTuple):
    """Published names of a column, in their order, and the selection that found them. Public.

    `scores` are their noisy weights. The `n_left_out` names with the lowest scores are left out if there are too many.
    `released` are the totals of the names, if these were published with their totals.
    """

    names: tuple[str, ...]
    selection: NameSelection | CountLine
    scores: tuple[float, ...] = ()
    n_left_out: int = 0
    released: NamedTotals | None = None

    @classmethod
    def of(cls, texts: Sequence[str], scores: FloatArray, selection: NameSelection | CountLine) -> FoundNames:
        """The names in their order, which does not depend on the order of the rows."""
        pairs = sorted(zip(texts, scores.tolist(), strict=True))  # [note: names-9]
        return cls(tuple(text for text, _ in pairs), selection, tuple(score for _, score in pairs))

    def most_frequent(self, n: int) -> FoundNames:
        """The names with the highest scores."""
        if len(self.names) <= n:
            return self
        kept = np.sort(np.argsort(-np.array(self.scores), kind="stable")[:n])
        names, scores = zip(*((self.names[place], self.scores[place]) for place in kept), strict=True)
        return FoundNames(names, self.selection, scores, len(self.names) - n)


@dataclass(frozen=True, kw_only=True, eq=False)
class NameStage(Stage):
    """Names of columns that nobody listed. Finds `FoundNames` of each column.

    Attributes
    ----------
    columns : tuple of Names or FoundCategories
        The columns, which the source carries.
    delta : float
        Largest probability that a name is published which one person alone has, in any of the columns.
    max_names : int, optional
        Names of a person that count; found privately if it is not stated.
    most_groups : int, optional
        Groups that the names of all columns may form, "other" among them. If there are more, the least frequent names
        of the columns with the most names are left out.
    most_names : int, optional
        Most frequent names of a column that are kept.

    Notes
    -----
    Guarantee. With Gaussian noise, the stage has the shift of its share, and publishes a name of one person alone with
    a chance of at most `delta`, in all columns together. With a share of epsilon, it costs this share and `delta`,
    whether rounds find the names or noisy numbers of people:
    `tests/conformance/test_replay_names.py`, `tests/conformance/test_found_categories.py`.
    """

    name: str = "names"
    columns: tuple[Names | FoundCategories, ...]
    delta: float
    max_names: int | None = None
    most_groups: int | None = None
    most_names: int | None = None

    def read(self, engine: Engine, noise: SurveyNoise, bits: BitSource) -> list[_NamesOfPeople]:
        # An audit compares the names of two tables, so that they need the same keys.
        seeded = not bits.private or current_tape() is not None
        tables = [_NamesOfPeople(column, engine, seeded=seeded) for column in self.columns]

        def add(part: CarriedCells) -> None:
            for table in tables:
                table.add(part)

        engine.over_carried(add)
        for table in tables:
            table.finish()
        return tables

    def release(
        self, totals: list[_NamesOfPeople], engine: Engine, noise: SurveyNoise, bits: BitSource
    ) -> tuple[Engine, dict[str, FoundNames]]:
        schema, each = engine.schema, noise.part(1.0 / len(totals))
        assert schema is not None
        # How many bits a column draws depends on its names. With a seed, draws that follow must not depend on it.
        own = [bits if bits.private else bit_source(int(bits.words64(1)[0])) for _ in totals]
        pairs = zip(totals, own, strict=True)
        found = self._few({table.column.name: self._found(table, each, source) for table, source in pairs})
        listed = schema.with_columns(table.column.listed(found[table.column.name].names) for table in totals)
        return engine.with_schema(listed), found

    def _few(self, found: dict[str, FoundNames]) -> dict[str, FoundNames]:
        """The names, without the least frequent ones of the longest columns if they form too many groups."""
        if self.most_names is not None:
            found = {name: one.most_frequent(self.most_names) for name, one in found.items()}
        if self.most_groups is None:
            return found
        sizes = {name: len(one.names) + 1 for name, one in found.items()}
        limit = max(sizes.values())
        while math.prod(min(size, limit) for size in sizes.values()) > self.most_groups and limit > 2:
            limit = limit * 9 // 10
        return {name: one.most_frequent(max(limit, 2) - 1) for name, one in found.items()}

    def _found(self, table: _NamesOfPeople, noise: SurveyNoise, bits: BitSource) -> FoundNames:
        delta, max_names, rest = self.delta / len(self.columns), self.max_names, noise
        if not table.has_units:
            rule = _rule(noise, delta, 1)
            if isinstance(rule, CountLine):
                return _counted(table, table.counts, rule, bits)
            return table.found(*rule.scored_of_rows(table.counts, bits, keys=table.keys), rule)
        people, names = table.people_and_names()
        if max_names is None:
            max_names, rest = _max_names(people, noise.part(_NUMBER_SHARE), bits), noise.part(1.0 - _NUMBER_SHARE)
        rule, turns = _rule(rest, delta, max_names), table.turns(people, names, bits)
        if isinstance(rule, CountLine):
            _, names = rule.cut(people, names, bits, turns=turns)
            return _counted(table, np.bincount(names), rule, bits)
        return table.found(*rule.scored(people, names, bits, turns=turns, keys=table.keys), rule)


@dataclass(frozen=True, kw_only=True, eq=False)
class TotalsStage(NameStage):
    """The names of one column, published with their totals: those whose noisy count is above a line.

    A row belongs to one name, so that noise on the totals of all names costs what noise on those of listed names costs.
    The totals that are published need no noise of their own.

    Attributes
    ----------
    totals : callable
        The totals for the columns of a schema, with the noise of the stage.
    ball : Ball
        Bounds of the rows.
    place : int
        Place of the column among those that form groups.

    Notes
    -----
    Guarantee. A row moves the totals of one name by what the noise of the stage pays for, and publishes a name of its
    own with a chance of at most `delta`: `tests/conformance/test_replay_names.py`.
    """

    totals: Callable[[Schema, SurveyNoise], VectorStatistic]
    ball: Ball
    place: int

    def _mechanism(self, engine: Engine, names: Sequence[str], noise: SurveyNoise) -> VectorStatistic:
        assert engine.schema is not None
        return self.totals(engine.schema.with_columns([self.columns[0].listed(names)]), noise)

    def read(self, engine: Engine, noise: SurveyNoise, bits: BitSource) -> tuple[_NamesOfPeople, IntArray]:  # type: ignore[override]
        """The names of the column, and the totals of each of them, by name, other group and coordinate."""
        (table,) = super().read(engine, noise, bits)
        mechanism = self._mechanism(engine, (), noise)
        if len(mechanism.by) == 1 and mechanism.blocks == (Rows(),):
            return table, (table.counts * round(1.0 / mechanism.lattice.step))[:, None, None]
        mechanism = self._mechanism(engine, table.texts, noise)
        assert engine.schema is not None
        listed = engine.with_schema(engine.schema.with_columns([table.column.listed(table.texts)]))
        rows = AllRows(engine=listed, ball=self.ball, seeded=not bits.private)
        totals = rows.total(mechanism.add).reshape(*(column.n_levels for column in mechanism.by), -1)
        # The last place is that of cells which are "other".
        totals = np.moveaxis(totals, self.place, 0)[:-1]
        # A table without any name has no rows here. The other groups still have to be counted.
        return table, totals.reshape(len(totals), math.prod(totals.shape[1:-1]), totals.shape[-1])

    def release(  # type: ignore[override]
        self, totals: tuple[_NamesOfPeople, IntArray], engine: Engine, noise: SurveyNoise, bits: BitSource
    ) -> tuple[Engine, dict[str, FoundNames]]:
        (table, steps), own = totals, bits if bits.private else bit_source(int(bits.words64(1)[0]))
        # Noise does not depend on the number of names.
        mechanism = self._mechanism(engine, (), noise)
        counting, line = counting_line(mechanism, steps.shape[1], self.delta)
        noisy = np.empty(steps.shape)
        for number, (block, place) in enumerate(zip(mechanism.blocks, mechanism.places, strict=True)):
            part, named = steps[:, :, place], None
            if table.keys is not None:
                each = np.arange(part.shape[1] * part.shape[2], dtype=np.uint64)
                keys = mixed64(mixed64(table.keys)[:, None] + each).ravel()
                # The chance that a name of one row alone is published is counted once.
                delta = self.delta if number == counting else 0.0
                named = Named(keys, np.repeat(table.counts, each.size), delta)
            drawn = mechanism.noise.added_to(
                part.reshape(1, -1), mechanism.lattice, own, unit=block.factor, names=named
            )  # [note: names-14]
            noisy[:, :, place] = mechanism.lattice.decode(drawn).reshape(part.shape)
        scores = noisy[:, :, mechanism.places[counting]].sum(axis=(1, 2))
        numbers = np.flatnonzero(scores > line.line)
        texts = table.texts_of(numbers)
        order = sorted(range(len(texts)), key=texts.__getitem__)
        numbers = numbers[order]
        names = tuple(texts[place] for place in order)
        released = NamedTotals(noisy[numbers], self._mechanism(engine, names, noise), counting)
        found = FoundNames(names, line, tuple(scores[numbers].tolist()), released=released)
        assert engine.schema is not None
        listed = engine.schema.with_columns([table.column.listed(names)])
        return engine.with_schema(listed), {table.column.name: found}


@dataclass(frozen=True, kw_only=True, eq=False)
class PeopleStage(NameStage):
    """The names of one column, published with the number of people who have them, if that is above a line.

    People have at most `max_names` names, which is stated. The noise is pure.

    Notes
    -----
    Guarantee. A person moves the counts of names by what the noise of the stage pays for, and publishes names of their
    own with a chance of at most `delta`: `tests/conformance/test_replay_names.py`.
    """

    max_names: int

    def release(
        self, totals: list[_NamesOfPeople], engine: Engine, noise: SurveyNoise, bits: BitSource
    ) -> tuple[Engine, dict[str, FoundNames]]:
        (table,), own = totals, bits if bits.private else bit_source(int(bits.words64(1)[0]))
        line = people_line(noise.epsilon, self.delta, self.max_names)
        people, names = table.people_and_names()
        _, names = line.cut(people, names, own, turns=table.turns(people, names, own))
        found = _counted(table, np.bincount(names), line, own)
        found = found._replace(released=NamedTotals(np.array(found.scores).reshape(-1, 1, 1)))
        assert engine.schema is not None
        listed = engine.schema.with_columns([table.column.listed(found.names)])
        return engine.with_schema(listed), {table.column.name: found}


def _counted(table: _NamesOfPeople, counts: IntArray, line: CountLine, bits: BitSource) -> FoundNames:
    """The names whose noisy number of rows or people is above the line."""
    # A name that nobody has left gets no noise.
    alive = np.flatnonzero(counts)
    named = None if table.keys is None else Named(table.keys[alive], counts[alive], line.delta)
    noisy = line.noise.added_to(counts[None, alive], Lattice(step=1.0), bits, names=named)[0].astype(np.float64)
    above = noisy > line.line
    return table.found(alive[above], noisy[above], line)


def people_line(epsilon: float, delta: float, max_names: int) -> CountLine:
    """The line for numbers of people, each of whom has at most `max_names` names."""
    # A person changes as many counts by one.
    return CountLine(noise=geometric_noise(epsilon=epsilon, sensitivity=max_names), delta=delta, max_names=max_names)


def counting_line(mechanism: VectorStatistic, n_groups: int, delta: float) -> tuple[int, CountLine]:
    """The number of the block that counts rows with the lowest line, and its line.

    `n_groups` is the number of groups of each name.
    """
    lines = {}
    for number, block in enumerate(mechanism.blocks):
        if isinstance(block, (Rows, Split, Levels, Bins)):
            law = replace(mechanism.noise, scale=mechanism.noise.scale * block.factor)  # type: ignore[type-var]
            n = n_groups * block.size
            lines[number] = CountLine(noise=law, n=n, delta=delta, step=mechanism.lattice.step)
    return min(lines.items(), key=lambda pair: pair[1].line)


def _rule(noise: SurveyNoise, delta: float, max_names: int) -> NameSelection | CountLine:
    """Rounds with a Gaussian shift; for a share of epsilon with all of delta, the rule that finds rarer names.

    A name of n people, each of whom has as many names as count, has at least the weight n over the root of that number.
    """
    if noise.gaussian:
        return NameSelection(shift=noise.shift, delta=delta, max_names=max_names)
    # Half of delta is for the noise, and half for names of one person alone, so that a replay can tell them apart.
    shift = largest_shift(noise.epsilon, 0.5 * delta)  # [note: names-16]
    rounds = NameSelection(shift=shift, delta=0.5 * delta, max_names=max_names)
    counts = people_line(noise.epsilon, delta, max_names)
    return counts if counts.line <= math.sqrt(max_names) * rounds.half_found else rounds


def _max_names(people: IntArray, noise: SurveyNoise, bits: BitSource) -> int:
    """A number of names that most people do not exceed, from noisy numbers of people. Each person counts once."""
    numbers = np.bincount(people) if people.size else people
    octaves = np.ceil(np.log2(np.maximum(numbers[numbers > 0], 1))).astype(np.int64)
    law = noise.on_counts(1.0)
    lattice = Lattice.for_scale(law.scale)
    counts = np.bincount(np.minimum(octaves, _N_OCTAVES - 1), minlength=_N_OCTAVES)
    steps = law.added_to(lattice.encode(counts[None, :].astype(np.float64)), lattice, bits)  # [note: names-8]
    return max_names_of(lattice.decode(steps)[0].tolist(), law.deviation(1))


class _NamesOfPeople:
    """The names of a column by number: how many rows have each, or which people have which. Secret.

    Takes about 40 bytes for each name and its text, and with units 8 to 24 bytes for each pair of a person and a name
    and 40 bytes for each person.
    """

    def __init__(self, column: Names | FoundCategories, engine: Engine, *, seeded: bool) -> None:
        self.column, self._stated, self._seeded, self._lock = column, engine.stated, seeded, Lock()
        self._hash, self._index, self._people = UnitHash(bytes(32) if seeded else None), HashIndex(), HashIndex()
        self._texts: list[pa.Array] = []
        self._counts: IntArray = np.zeros(0, dtype=np.int64)
        # The first of them are distinct; the others were read since.
        self._pairs: list[NDArray[np.uint64]] = [np.zeros(0, dtype=np.uint64)]
        self._n_new = 0
        self.has_units = engine.unit is not None
        #: Words of names and of people, by their numbers, if the run is not private.
        self.keys: Words64 | None = None
        self.owners: Words64 = np.zeros(0, dtype=np.uint64)

    def add(self, part: CarriedCells) -> None:
        """Number the names and people of some rows."""
        cells = self._stated.carried_cells(part.cells, self.column)
        texts, places = self.column.distinct(cells)
        # "Other" is no name: it is published anyway.
        is_name = np.asarray(pc.fill_null(pc.not_equal(texts, OTHER), False).to_numpy(zero_copy_only=False))
        if self.column.is_as_written and is_text(cells.type):
            texts = texts.filter(pa.array(is_name))
            names = np.where(is_name, np.cumsum(is_name) - 1, -1)
        else:
            # Different cells may have the same name.
            coded = pc.if_else(is_name, texts, pa.scalar(None, texts.type)).dictionary_encode()
            names, texts = np.asarray(pc.fill_null(coded.indices, -1).to_numpy(zero_copy_only=False)), coded.dictionary
        words, codes = self._hash.words(texts), np.append(names, -1).take(places)
        named = codes >= 0
        all_named = bool(named.all())
        codes = codes if all_named else codes[named]
        if self.has_units:
            assert part.ids is not None
            owners = self._hash.words(part.ids if all_named else part.ids.filter(pa.array(named)))
            with self._lock:
                numbers, people = self._numbered(words, texts), self._people.add(owners)
            pairs = people.astype(np.uint64) << np.uint64(32) | numbers.astype(np.uint64).take(codes)
            self._keep(sorted_unique(pairs))
            return
        weights = None if part.counts is None else part.counts[named]
        counts = np.bincount(codes, weights=weights, minlength=len(texts)).astype(np.int64)
        with self._lock:
            numbers = self._numbered(words, texts)
            if self._index.size > self._counts.size:
                more = max(self._index.size, 2 * self._counts.size) - self._counts.size
                self._counts = np.concatenate([self._counts, np.zeros(more, dtype=np.int64)])
            self._counts[numbers] += counts

    def _keep(self, pairs: NDArray[np.uint64]) -> None:
        """Keep pairs. They are joined whenever their number has doubled, so that equal ones take no memory for long."""
        with self._lock:
            self._pairs.append(pairs)
            self._n_new += pairs.size
            if self._n_new > max(_MOST_NEW, self._pairs[0].size):
                self._pairs, self._n_new = [sorted_unique(np.concatenate(self._pairs))], 0

    def _numbered(self, words: Words64, texts: pa.Array) -> NDArray[np.intp]:
        """The numbers of names. New names get the next numbers, and their texts are kept in this order."""
        before = self._index.size
        numbers = self._index.add(words)
        new = np.flatnonzero(numbers >= before)
        self._texts.append(texts.take(pa.array(new[np.argsort(numbers[new])])))
        return numbers

    def finish(self) -> None:
        """Join the texts. For a seed, number names by their text and people by their id: draws follow the numbers."""
        self._texts = [pa.concat_arrays([pa.array([], pa.large_string()), *self._texts])]
        self._counts = self._counts[: self._index.size]
        if self._seeded:
            order = np.asarray(pc.sort_indices(self._texts[0]).to_numpy(zero_copy_only=False))
            self._texts = [self._texts[0].take(pa.array(order))]
            rank = np.empty(order.size, dtype=np.uint64)
            rank[order] = np.arange(order.size, dtype=np.uint64)
            self.keys = _mixed(self._hash.words(self._texts[0]))
            if not self.has_units:
                self._counts = self._counts[order]
                return
            people = self._people.ranks()
            self.owners = np.empty(people.size, dtype=np.uint64)
            self.owners[people] = _mixed(self._people.keys)
            pairs = np.concatenate(self._pairs)
            owners, names = people[pairs >> np.uint64(32)], rank[pairs & np.uint64(2**32 - 1)]
            self._pairs = [owners.astype(np.uint64) << np.uint64(32) | names]

    @functools.cached_property
    def texts(self) -> list[str]:
        """All names. Secret."""
        return self.texts_of(np.arange(len(self._texts[0])))

    @property
    def counts(self) -> IntArray:
        """The number of rows of each name."""
        return self._counts

    def people_and_names(self) -> tuple[IntArray, IntArray]:
        """Numbers of people and names, each pair once."""
        pairs = sorted_unique(np.concatenate(self._pairs))
        return (pairs >> np.uint64(32)).astype(np.int64), (pairs & np.uint64(2**32 - 1)).astype(np.int64)

    def turns(self, people: IntArray, names: IntArray, bits: BitSource) -> Words64 | None:
        """Random words of pairs for a run that is not private: those of other people, whoever is in the table."""
        if self.keys is None:
            return None
        return mixed64(self.owners[people] + mixed64(self.keys[names] + bits.words64(1)))

    def found(self, numbers: IntArray, scores: FloatArray, selection: NameSelection | CountLine) -> FoundNames:
        """The texts of published names."""
        return FoundNames.of(self.texts_of(numbers), scores, selection)

    def texts_of(self, numbers: IntArray) -> list[str]:
        """The texts of some names."""
        return self._texts[0].take(pa.array(numbers)).to_pylist()  # type: ignore[no-any-return]


def _mixed(words: NDArray[np.uint64]) -> Words64:
    """One word for each pair of words."""
    return mixed64(words[:, 0] + mixed64(words[:, 1]))
