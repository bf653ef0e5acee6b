"""Totals over all rows of people: each person is one record, whose vector over groups and coordinates is bounded.

The rows of a person are added up first. A block of the vector is a few coordinates for every group. Its norm is bounded
as a whole, by scaling the block down. So a person moves the totals of a block by at most the bound, with any number of
rows in any groups, and noise in proportion to the bound protects the person.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pais._base import validate
from pais._base.lattice import IntArray, Lattice
from pais._base.numerics import FloatArray
from pais._base.octaves import BINS_PER_OCTAVE, bin_of
from pais._base.randomness import BitSource
from pais.data.ball import Ball
from pais.data.engines.base import AllRows, Contributions, PeopleFold, PeopleTable
from pais.errors import ArgumentError, MismatchError
from pais.mechanisms.base import Extent, added
from pais.mechanisms.blocks import Block, Levels, VectorStatistic, stored_names
from pais.mechanisms.noise import GaussianNoise, GeometricNoise, exact_quotient

#: Whole steps of a row. The steps of eight billion rows fit into 64 bits.
STEPS_PER_ROW = 1 << 30

# Doubles hold whole numbers below this exactly, and so sums of them in any order.
_EXACT = 2.0**53

# Scaled steps are multiplied by this, more than all rounding errors of a quotient and a product.
_ROOM = 1.0 - 2.0**-50

#: Names of totals about people, for certificates and ledgers.
NAMES = ("counts of people", "counts of rows", "totals", "histogram of rows")


@dataclass(frozen=True, kw_only=True)
class RowSteps(Contributions):
    """What a row adds to the vector of its person: the steps of each block, in the group of the row."""

    blocks: tuple[Block, ...]
    by: tuple[Levels, ...] = ()

    @property
    def width(self) -> int:
        """Number of coordinates of a group."""
        return sum(block.size for block in self.blocks)

    @property
    def n_groups(self) -> int:
        return math.prod(column.n_levels for column in self.by)

    @property
    def block_of(self) -> NDArray[np.intp]:
        """The number of the block of each coordinate of a group."""
        return np.repeat(np.arange(len(self.blocks)), [block.size for block in self.blocks])

    def entries(self, rows: FloatArray) -> list[tuple[IntArray, IntArray]]:
        whole = np.full(len(rows), STEPS_PER_ROW, dtype=np.int64)
        group = np.zeros(len(rows), dtype=np.int64)
        for column in self.by:
            level = column.level_of(rows)
            whole = np.where(level < column.n_levels, whole, 0)
            group = group * column.n_levels + np.minimum(level, column.n_levels - 1)
        first, entries = 0, []
        for block in self.blocks:
            for position, steps in block.steps(rows, whole):
                entries.append((group * self.width + first + position, steps))
            first += block.size
        return entries


@dataclass(frozen=True, kw_only=True, repr=False)
class _Vectors:
    """The vectors of all people, block by block, with their norms in steps, rounded up. Secret."""

    table: PeopleTable
    steps: IntArray
    # By entry: the number of its person and block, and how many of these there are.
    place: NDArray[np.intp]
    blocks: NDArray[np.intp]
    norms: FloatArray

    @classmethod
    def of(cls, table: PeopleTable, shape: RowSteps, *, order: float, presence: bool) -> _Vectors:
        """The vectors of a table; with `presence`, 1 for each coordinate at which a person has rows."""
        steps = np.where(table.steps > 0, STEPS_PER_ROW, 0) if presence else table.steps
        block = shape.block_of.take(table.coordinates % shape.width)
        named, place = np.unique(table.owners * len(shape.blocks) + block, return_inverse=True)
        size = np.abs(steps.astype(np.float64))
        # The powers of a person are added in the order of the coordinates, whatever other people there are.
        total = np.bincount(place, size if order == 1.0 else size * size, minlength=named.size)  # [note: totals-2]
        slack = 1.0 + (8.0 + shape.n_groups * shape.width) * 2.0**-52
        norms = np.where(total < _EXACT, total, total * slack) if order == 1.0 else np.sqrt(total) * slack
        return cls(table=table, steps=steps, place=place, blocks=named % len(shape.blocks), norms=norms)

    def bounded(self, bounds: IntArray, *, alone: NDArray[np.bool_]) -> IntArray:
        """The steps of each entry, scaled so that the norm of each block is at most its bound, in whole steps.

        A block of a single coordinate, marked in `alone`, is cut at the bound.
        """
        bound = bounds.take(self.blocks)
        with np.errstate(divide="ignore"):
            factor = np.where(self.norms > bound, bound / self.norms * _ROOM, 1.0).take(self.place)
        scaled = np.where(factor < 1.0, np.trunc(self.steps * factor), self.steps).astype(np.int64)  # [note: totals-3]
        limit = bound.take(self.place)
        cut = np.clip(self.steps, -limit, limit)  # [note: totals-4]
        return np.where(alone.take(self.blocks).take(self.place), cut, scaled)


@dataclass(frozen=True, kw_only=True)
class BoundedTotals(PeopleFold):
    """Sum over people of their bounded vectors, in whole steps of a lattice."""

    contributions: RowSteps
    order: float
    presence: bool
    bounds: tuple[int, ...]
    # Steps of a row in a step of the lattice.
    coarser: int

    def over_people(self, table: PeopleTable) -> IntArray:
        shape = self.contributions
        vectors = _Vectors.of(table, shape, order=self.order, presence=self.presence)
        alone = np.array([shape.n_groups * block.size == 1 for block in shape.blocks])
        steps = vectors.bounded(np.array(self.bounds, dtype=np.int64), alone=alone)
        total = np.zeros(shape.n_groups * shape.width, dtype=np.int64)
        # Toward zero, so that no norm grows.
        np.add.at(total, table.coordinates, np.sign(steps) * (np.abs(steps) // self.coarser))  # [note: totals-5]
        return total


#: The octaves of the norms of people, in rows: from one step to all steps that 64 bits hold.
FIRST_OCTAVE, N_OCTAVES = 70, 64


@dataclass(frozen=True, kw_only=True)
class NormsOfPeople(PeopleFold):
    """Number of people by the norm of each block, of shape (blocks, signs, 1 + bins), in one array.

    The first bin is for people whose norm is 0. The second sign has people whose vector adds up to less than 0; it is
    left out if there are several groups or coordinates. With `by_size`, the bins are numbers of groups, from 0 on.

    Notes
    -----
    Guarantee. A person changes at most one bin of each block, by one: `tests/theory/test_people_totals.py`.
    """

    contributions: RowSteps
    order: float
    presence: bool = False
    by_size: bool = False
    bins_per_octave: int = 1

    @property
    def n_bins(self) -> int:
        return 1 + (self.contributions.n_groups if self.by_size else N_OCTAVES * self.bins_per_octave)

    @property
    def n_signs(self) -> int:
        shape = self.contributions
        return 2 if any(block.is_signed and shape.n_groups * block.size == 1 for block in shape.blocks) else 1

    def over_people(self, table: PeopleTable) -> IntArray:
        shape = self.contributions
        vectors = _Vectors.of(table, shape, order=self.order, presence=self.presence)
        sums = np.bincount(vectors.place, vectors.steps.astype(np.float64), minlength=vectors.norms.size)
        if self.by_size:
            bins = np.rint(sums / STEPS_PER_ROW).astype(np.int64)
        else:
            number = bin_of(vectors.norms / STEPS_PER_ROW) // (BINS_PER_OCTAVE // self.bins_per_octave)
            number -= FIRST_OCTAVE * self.bins_per_octave
            bins = np.where(vectors.norms > 0.0, 1 + np.clip(number, 0, self.n_bins - 2), 0)
        sign = (sums < 0.0) & (self.n_signs == 2)
        number = (vectors.blocks * self.n_signs + sign) * self.n_bins + bins
        n_bins = len(shape.blocks) * self.n_signs * self.n_bins
        return np.bincount(number, minlength=n_bins).astype(np.int64)  # [note: totals-6]


@stored_names(NAMES)
@dataclass(frozen=True, kw_only=True)
class PeopleTotals(VectorStatistic):
    """Noisy totals over all rows of people, for each group.

    Parameters
    ----------
    name : str
        Name of the statistic, such as "totals".
    blocks, by : tuples
        As in `VectorStatistic`.
    noise : LpNoise of order 1, GeometricNoise or GaussianNoise
        Noise of a total that a person changes by at most 1. A block has `factor` times its bound times this noise.
    bounds : tuple of float
        Bound on the norm of what a person adds to each block, over all groups, in rows: l1 for pure noise and l2 for
        Gaussian noise. Choose them without the rows, or from released values.
    presence : bool
        Whether a person adds 1 to each group in which they have rows, instead of the rows themselves.

    Notes
    -----
    Guarantee. A person with any rows changes the totals of a block by at most its bound, so that all blocks together
    cost what a count with this noise costs: `tests/theory/test_people_totals.py`.
    """

    bounds: tuple[float, ...]
    presence: bool = False
    protects_units = True
    streams = True
    names: ClassVar[tuple[str, ...]] = NAMES

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "bounds", tuple(validate.positive("a bound", bound) for bound in self.bounds))
        if len(self.bounds) != len(self.blocks):
            raise ArgumentError("each block needs a bound on what a person adds. Pass as many bounds as blocks.")
        if any(not 1.0 <= bound * STEPS_PER_ROW < 2.0**62 for bound in self.bounds):
            raise ArgumentError("a bound on what a person adds is in rows. Pass a number from 1e-9 to 4e9.")

    @property
    def order(self) -> None:
        return None

    @property
    def _norm_order(self) -> float:
        return 2.0 if isinstance(self.noise, GaussianNoise) else 1.0

    @property
    def lattice(self) -> Lattice:
        """Steps of the totals: whole rows for geometric noise, and a small part of a row otherwise."""
        if isinstance(self.noise, GeometricNoise):
            return self.noise.lattice
        finest = max(min(self.block_scales), 1.0)
        return Lattice(step=min(2.0 ** math.floor(math.log2(finest)), float(STEPS_PER_ROW)) / STEPS_PER_ROW)

    @property
    def _units(self) -> list[float]:
        """What multiplies the noise of each block."""
        return [block.factor * bound for block, bound in zip(self.blocks, self.bounds, strict=True)]

    @property
    def block_scales(self) -> list[float]:
        return [self.noise.scale * unit for unit in self._units]

    @property
    def row_steps(self) -> RowSteps:
        """What a row adds to the vector of its person."""
        return RowSteps(blocks=self.blocks, by=self.by)

    def require_lattice(self, extent: Extent) -> None:
        self.lattice.require(max(self.bounds))

    def exact_epsilon(self, ball: Ball) -> Fraction | None:
        laws = [replace(self.noise, scale=scale) for scale in self.block_scales]  # type: ignore[type-var]
        pairs = zip(self.bounds, laws, strict=True)
        return added([exact_quotient(bound, law) for bound, law in pairs])  # [note: totals-7]

    def measure(self, content: Any, ball: Ball, bits: BitSource) -> FloatArray:
        """Return the noisy totals, of shape (groups, coordinates)."""
        if not isinstance(content, AllRows) or content.engine.unit is None:
            raise MismatchError("totals about people need all rows and a unit. Open the source with unit=.")
        fold = BoundedTotals(
            ball=ball,
            contributions=self.row_steps,
            order=self._norm_order,
            presence=self.presence,
            bounds=tuple(math.floor(bound * STEPS_PER_ROW) for bound in self.bounds),
            coarser=int(self.lattice.step * STEPS_PER_ROW),
        )
        total = content.total_of_people(fold)
        units = np.tile(np.repeat(self._units, [block.size for block in self.blocks]), self.n_groups)
        noisy = self.noise.added_to(total[:, None], self.lattice, bits, unit=units)
        return self.lattice.decode(noisy).reshape(self.n_groups, -1)

    def add(self, rows: FloatArray, weights: FloatArray) -> IntArray:
        raise MismatchError("totals about people add up the rows of each person first. Run the plan on a source.")

    def in_rows(self, value: Any, max_rows: int) -> Any:
        return value
