"""The stage that finds names which nobody listed: it reads the names of all people and publishes frequent ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pais._base.lattice import IntArray, Lattice, current_tape
from pais._base.numerics import FloatArray
from pais._base.randomness import BitSource, Words64, bit_source, mixed64
from pais.data.engines.base import CarriedCells, Engine
from pais.data.kinds import OTHER, FoundCategories, Names
from pais.data.units import HashIndex, UnitHash
from pais.mechanisms.names import NameSelection, max_names_of
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


class FoundNames(NamedTuple):
    """Published names of a column, in their order, and the selection that found them. Public.

    `scores` are their noisy weights. The `n_left_out` names with the lowest scores are left out if there are too many.
    """

    names: tuple[str, ...]
    selection: NameSelection
    scores: tuple[float, ...] = ()
    n_left_out: int = 0

    @classmethod
    def of(cls, texts: Sequence[str], scores: FloatArray, selection: NameSelection) -> FoundNames:
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
    a chance of at most `delta`, in all columns together. With a share of epsilon, it costs this share and `delta`:
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
        delta = self.delta / len(self.columns)
        if not table.has_units:
            selection = _selection(noise, delta, 1)
            return table.found(*selection.scored_of_rows(table.counts, bits, keys=table.keys), selection)
        people, names = table.people_and_names()
        max_names, rest = self.max_names, noise
        if max_names is None:
            max_names, rest = _max_names(people, noise.part(_NUMBER_SHARE), bits), noise.part(1.0 - _NUMBER_SHARE)
        selection = _selection(rest, delta, max_names)
        turns = None
        if table.keys is not None:
            # Other people's names are cut in the same way, whoever is in the table. NOT PRIVATE.
            turns = mixed64(table.owners[people] + mixed64(table.keys[names] + bits.words64(1)))
        return table.found(*selection.scored(people, names, bits, turns=turns, keys=table.keys), selection)


def _selection(noise: SurveyNoise, delta: float, max_names: int) -> NameSelection:
    """The selection for a Gaussian shift, or for a share of epsilon with all of delta."""
    if noise.gaussian:
        return NameSelection(shift=noise.shift, delta=delta, max_names=max_names)
    # Half of delta is for the noise, and half for names of one person alone, so that a replay can tell them apart.
    shift = largest_shift(noise.epsilon, 0.5 * delta)  # [note: names-16]
    return NameSelection(shift=shift, delta=0.5 * delta, max_names=max_names)


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
        cells, places = self.column.distinct(self._stated.carried_cells(part.cells, self.column))
        # Different cells may have the same name. "Other" is no name: it is published anyway.
        coded = pc.if_else(pc.equal(cells, OTHER), pa.scalar(None, cells.type), cells).dictionary_encode()
        names = np.append(np.asarray(pc.fill_null(coded.indices, -1).to_numpy(zero_copy_only=False)), -1)
        words, codes = self._hash.words(coded.dictionary), names.take(places)
        named = codes >= 0
        all_named = bool(named.all())
        codes = codes if all_named else codes[named]
        if self.has_units:
            assert part.ids is not None
            owners = self._hash.words(part.ids if all_named else part.ids.filter(pa.array(named)))
            with self._lock:
                numbers, people = self._numbered(words, coded.dictionary), self._people.add(owners)
            pairs = people.astype(np.uint64) << np.uint64(32) | numbers.astype(np.uint64).take(codes)
            self._keep(sorted_unique(pairs))
            return
        weights = None if part.counts is None else part.counts[named]
        counts = np.bincount(codes, weights=weights, minlength=len(coded.dictionary)).astype(np.int64)
        with self._lock:
            numbers = self._numbered(words, coded.dictionary)
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

    @property
    def counts(self) -> IntArray:
        """The number of rows of each name."""
        return self._counts

    def people_and_names(self) -> tuple[IntArray, IntArray]:
        """Numbers of people and names, each pair once."""
        pairs = sorted_unique(np.concatenate(self._pairs))
        return (pairs >> np.uint64(32)).astype(np.int64), (pairs & np.uint64(2**32 - 1)).astype(np.int64)

    def found(self, numbers: IntArray, scores: FloatArray, selection: NameSelection) -> FoundNames:
        """The texts of published names."""
        return FoundNames.of(self._texts[0].take(pa.array(numbers)).to_pylist(), scores, selection)


def _mixed(words: NDArray[np.uint64]) -> Words64:
    """One word for each pair of words."""
    return mixed64(words[:, 0] + mixed64(words[:, 1]))
