"""A vector statistic: noisy totals of blocks, for each group of rows, in one release."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, cast

import numpy as np

from pais._base import files, validate
from pais._base.files import stored
from pais._base.lattice import IntArray, Lattice
from pais._base.numerics import FloatArray
from pais._base.randomness import BitSource
from pais.data.ball import Ball
from pais.data.engines.base import AllRows, WeightedRows
from pais.data.kinds import BEYOND
from pais.errors import ArgumentError
from pais.mechanisms.base import Extent, Mechanism, added
from pais.mechanisms.noise import GaussianNoise, GeometricNoise, LpNoise, NoiseLaw, exact_quotient
from pais.privacy.profiles import GaussianProfile, LinearProfile

#: Coordinates of a total, one number for all rows or one for each, and the steps that the rows add there.
Steps = list[tuple[int | IntArray, IntArray]]


@dataclass(frozen=True, kw_only=True)
class Block(ABC):
    """A few coordinates of a total, over which a row distributes at most its whole steps.

    Attributes
    ----------
    factor : float
        The noise of the block is this many times the noise of a count that is released alone.

    Notes
    -----
    Guarantee. The absolute values of what a row adds sum to at most its whole steps: `tests/theory/test_statistics.py`.
    """

    factor: float = 1.0

    def __post_init__(self) -> None:
        # A column that is no number would select all rows at once.
        validate.stored_fields(self)
        object.__setattr__(self, "factor", validate.positive("factor", self.factor))

    @property
    def size(self) -> int:
        """Number of coordinates."""
        return 1

    @property
    def is_signed(self) -> bool:
        """Whether a row can add negative steps."""
        return False

    @abstractmethod
    def steps(self, rows: FloatArray, whole: IntArray) -> Steps:
        """What each row adds, given its whole steps."""

    def to_dict(self) -> dict[str, Any]:
        """Public description of the block, for certificates and files."""
        return files.to_dict(self, "block")

    @staticmethod
    def from_dict(described: Mapping[str, Any]) -> Block:
        """Rebuild a block from its description."""
        return cast(Block, files.from_dict(described, "block"))


@stored("block", "rows")
@dataclass(frozen=True, kw_only=True)
class Rows(Block):
    """Number of rows."""

    def steps(self, rows: FloatArray, whole: IntArray) -> Steps:
        return [(0, whole)]


@stored("block", "split")
@dataclass(frozen=True, kw_only=True)
class Split(Block):
    """Steps of a row split by the place of its cell between the bounds of a column.

    The place a, from 0 to 1, splits the steps into shares 1 - a and a (degree 1), or (1 - a)^2, 2 a (1 - a) and a^2
    (degree 2). The shares add up to 1, so a row adds at most 1 in the l1 norm. With degree 0, cells are counted.
    """

    column: int
    degree: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.degree not in (0, 1, 2):
            raise ArgumentError(f"degree={self.degree!r} is not known. Pass 0, 1 or 2.")

    @property
    def size(self) -> int:
        return self.degree + 1

    def steps(self, rows: FloatArray, whole: IntArray) -> Steps:
        place, whole = present(rows[:, self.column], whole)
        place = 0.5 * place + 0.5
        if self.degree == 0:
            return [(0, whole)]
        if self.degree == 1:
            upper = _share_of(place, whole)
            return [(0, whole - upper), (1, upper)]  # [note: statistics-2]
        # Rounded down, so that the remainder is not negative.
        upper = np.floor(place * place * whole).astype(np.int64)
        middle = np.minimum(np.floor(2.0 * place * (1.0 - place) * whole).astype(np.int64), whole - upper)
        return [(0, whole - upper - middle), (1, middle), (2, upper)]  # [note: statistics-3]


@stored("block", "ends")
@dataclass(frozen=True, kw_only=True)
class Ends(Block):
    """Number of cells below the lower bound of a column, within its bounds, and above the upper bound."""

    column: int
    size = 3

    def steps(self, rows: FloatArray, whole: IntArray) -> Steps:
        cells = rows[:, self.column]
        _, whole = present(cells, whole)
        return [(1 + (cells == BEYOND).astype(np.int64) - (cells == -BEYOND), whole)]  # [note: statistics-7]


@stored("block", "line")
@dataclass(frozen=True, kw_only=True)
class Line(Block):
    """Sum of a column in own units, divided by the largest absolute value: intercept + slope * coordinate."""

    column: int
    slope: float
    intercept: float

    @property
    def is_signed(self) -> bool:
        return self.intercept < abs(self.slope)

    def steps(self, rows: FloatArray, whole: IntArray) -> Steps:
        place, whole = present(rows[:, self.column], whole)
        return [(0, _share_of(self.intercept + self.slope * place, whole))]


@stored("block", "product")
@dataclass(frozen=True, kw_only=True)
class Product(Block):
    """Sum of the products of the coordinates of two columns."""

    first: int
    second: int

    @property
    def is_signed(self) -> bool:
        return self.first != self.second

    def steps(self, rows: FloatArray, whole: IntArray) -> Steps:
        first, whole = present(rows[:, self.first], whole)
        second, whole = present(rows[:, self.second], whole)
        return [(0, _share_of(first * second, whole))]


@stored("block", "bins")
@dataclass(frozen=True, kw_only=True)
class Bins(Block):
    """Number of cells in each bin of a column. Each of the `edges` begins the next bin."""

    column: int
    edges: tuple[float, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "edges", tuple(map(float, self.edges)))
        if np.any(np.diff(self.edges) <= 0.0):
            raise ArgumentError("edges must increase. Pass the edges of the bins in order, each once.")

    @property
    def size(self) -> int:
        return len(self.edges) + 1

    def steps(self, rows: FloatArray, whole: IntArray) -> Steps:
        place, whole = present(rows[:, self.column], whole)
        return [(np.searchsorted(self.edges, place, side="right").astype(np.int64), whole)]


@stored("block", "levels")
@dataclass(frozen=True, kw_only=True)
class Levels(Block):
    """Number of cells in each category of a column; the last coordinate counts all other cells, if `others`."""

    column: int
    n_levels: int
    others: bool = True

    @property
    def size(self) -> int:
        return self.n_levels + self.others

    def steps(self, rows: FloatArray, whole: IntArray) -> Steps:
        level = self.level_of(rows)
        if not self.others:
            whole = np.where(level == self.n_levels, 0, whole)
            level = np.minimum(level, self.n_levels - 1)
        return [(level, whole)]

    def level_of(self, rows: FloatArray) -> IntArray:
        """The category of each row, by number, and the number of categories for other cells."""
        cells = rows[:, self.column : self.column + self.n_levels] > 0.0
        return np.where(cells.any(axis=1), cells.argmax(axis=1), self.n_levels).astype(np.int64)


@stored("block", "truth")
@dataclass(frozen=True, kw_only=True)
class Truth(Levels):
    """The same for a boolean column: false, true, and other cells."""

    n_levels: int = 2

    def level_of(self, rows: FloatArray) -> IntArray:
        cells = rows[:, self.column]
        return np.where(np.abs(cells) <= 1.0, cells > 0.0, 2).astype(np.int64)


@stored("block", "places")
@dataclass(frozen=True, kw_only=True)
class Places(Levels):
    """The same for a column with one coordinate, the place of its cell among `n_levels` names between -1 and 1."""

    def level_of(self, rows: FloatArray) -> IntArray:
        cells = rows[:, self.column]
        named = np.abs(cells) <= 1.0
        place = np.floor((np.where(named, cells, 0.0) + 1.0) * (0.5 * self.n_levels)).astype(np.int64)
        return np.where(named, np.clip(place, 0, self.n_levels - 1), self.n_levels)


def grouped(rows: FloatArray, whole: IntArray, by: Sequence[Levels]) -> tuple[IntArray, IntArray]:
    """The number of the group of each row, and the whole steps of the rows; a row without a group has none."""
    group = np.zeros(len(rows), dtype=np.int64)
    for column in by:
        level = column.level_of(rows)
        whole = np.where(level < column.n_levels, whole, 0)  # [note: statistics-5]
        group = group * column.n_levels + np.minimum(level, column.n_levels - 1)
    return group, whole


def present(cells: FloatArray, whole: IntArray) -> tuple[FloatArray, IntArray]:
    """Cells clipped to [-1, 1], and the whole steps of their rows; a row whose cell is missing has none."""
    size = np.abs(cells)
    outside = ~(size <= 1.0)
    if not outside.any():
        return cells, whole
    missing = outside & (size != BEYOND)
    return np.where(missing, 0.0, np.clip(cells, -1.0, 1.0)), np.where(missing, 0, whole)


def _share_of(share: FloatArray, whole: IntArray) -> IntArray:
    """A share in [-1, 1] of the whole steps, rounded to the nearest step; never more than all of them."""
    rounded = np.rint(np.clip(share, -1.0, 1.0) * whole).astype(np.int64)
    return np.clip(rounded, -whole, whole)  # [note: statistics-1]


# Steps in one row, or in the noise scale if that is larger. Sums of up to eight billion rows fit into 64 bits.
_STEPS = 2.0**30

#: Names of vector statistics, for certificates and ledgers.
NAMES = ("counts", "sums", "means", "variances", "histogram", "covariance", "description")


def stored_names(names: Sequence[str]) -> Callable[[type], type]:
    """Register a class of mechanisms for files under each of its names."""

    def registered(cls: type) -> type:
        for name in names:
            cls = stored("mechanism", name)(cls)
        return cls

    return registered


@stored_names(NAMES)
@dataclass(frozen=True, kw_only=True)
class VectorStatistic(Mechanism):
    """Noisy totals of several blocks of coordinates, for each group of rows.

    Parameters
    ----------
    name : str
        Name of the statistic, such as "means".
    blocks : tuple of Block
        What a row adds. A row distributes at most its weight over the coordinates of each block.
    noise : LpNoise of order 1, GeometricNoise or GaussianNoise
        Noise of a count that is released alone. A block has `factor` times this noise.
    by : tuple of Levels
        Columns whose categories divide the rows into groups. A row adds to the totals of one group. A row with an
        unknown category adds nothing.

    Notes
    -----
    Guarantee. The blocks together cost what a count with this noise costs, for any number of groups. The constructor
    raises if the factors are too small for this: the sum of 1 / factor must be at most 1 for pure noise, and the sum of
    1 / factor^2 for Gaussian noise: `tests/theory/test_statistics.py`.

    Examples
    --------
    >>> import numpy as np
    >>> import pais
    >>> from pais.mechanisms.blocks import Split
    >>> mechanism = pais.VectorStatistic(name="means", blocks=(Split(column=0),), noise=pais.laplace_noise(1.01))
    >>> plan = pais.Plan(ball=pais.Ball(radius=2), rule=pais.UniformRule(rate=1.0), mechanism=mechanism, epsilon=1.0)
    >>> pais.run(plan, np.zeros((1000, 1))).value.shape
    (1, 2)
    """

    name: str
    blocks: tuple[Block, ...]
    noise: NoiseLaw
    by: tuple[Levels, ...] = ()
    order = None
    protects_units = True
    streams = True
    names: ClassVar[tuple[str, ...]] = NAMES

    def __post_init__(self) -> None:
        object.__setattr__(self, "blocks", tuple(self.blocks))
        object.__setattr__(self, "by", tuple(self.by))
        if self.name not in self.names or not self.blocks:
            raise ArgumentError(f"a vector statistic needs a block, and one of the names {', '.join(self.names)}.")
        for block in (*self.blocks, *self.by):
            validate.instance("a block", block, Block, "Pass a Split or another block.")
        pure = isinstance(self.noise, GeometricNoise) or (isinstance(self.noise, LpNoise) and self.noise.p == 1.0)
        if not pure and not isinstance(self.noise, GaussianNoise):
            raise ArgumentError("noise must be Laplace, geometric or Gaussian. Pass laplace_noise or gaussian_noise.")
        shares = (1 / Fraction(block.factor) ** (1 if pure else 2) for block in self.blocks)
        if sum(shares) > 1:  # [note: statistics-4]
            raise ArgumentError("the factors of the blocks are too small for the price of one count. Raise them.")

    @property
    def profile(self) -> LinearProfile | GaussianProfile:
        return self.noise.count_profile()

    @property
    def lattice(self) -> Lattice:
        """Steps of the totals: whole rows for geometric noise, and a small part of a row otherwise."""
        if isinstance(self.noise, GeometricNoise):
            return self.noise.lattice
        return Lattice(step=2.0 ** math.floor(math.log2(max(self.noise.scale, 1.0))) / _STEPS)

    @property
    def n_groups(self) -> int:
        return math.prod(column.n_levels for column in self.by)

    @cached_property
    def places(self) -> list[slice]:
        """The coordinates of each block."""
        ends = np.cumsum([block.size for block in self.blocks]).tolist()
        return [slice(end - block.size, end) for block, end in zip(self.blocks, ends, strict=True)]

    @property
    def block_scales(self) -> list[float]:
        """Scale of the noise of each block."""
        return [self.noise.scale * block.factor for block in self.blocks]

    def require_lattice(self, extent: Extent) -> None:
        self.lattice.require(extent.weight)

    def exact_epsilon(self, ball: Ball) -> Fraction | None:
        # The noise of a block has the scale of the noise times its factor, rounded to a double.
        laws = [replace(self.noise, scale=scale) for scale in self.block_scales]  # type: ignore[type-var]
        return added([exact_quotient(1.0, law) for law in laws])  # [note: statistics-6]

    def measure(self, content: WeightedRows | AllRows, ball: Ball, bits: BitSource) -> FloatArray:
        """Return the noisy totals, of shape (groups, coordinates)."""
        return self.noisy(content.total(self.add), bits)

    def noisy(self, total: IntArray, bits: BitSource) -> FloatArray:
        """Totals in whole steps with noise, of shape (groups, coordinates)."""
        factors = np.repeat([block.factor for block in self.blocks], [block.size for block in self.blocks])
        factors = np.tile(factors, self.n_groups)
        # Geometric noise is faster to draw with one factor for all coordinates.
        unit = factors if len(set(factors.tolist())) > 1 else float(factors[0])
        noisy = self.noise.added_to(total[:, None], self.lattice, bits, unit=unit)
        return self.lattice.decode(noisy).reshape(self.n_groups, -1)

    def add(self, rows: FloatArray, weights: FloatArray) -> IntArray:
        """What rows add to the totals, in whole steps."""
        group, whole = grouped(rows, self.lattice.encode(weights), self.by)
        width = self.places[-1].stop
        total = np.zeros(self.n_groups * width, dtype=np.int64)
        for block, place in zip(self.blocks, self.places, strict=True):
            for position, steps in block.steps(rows, whole):
                if self.n_groups == 1 and isinstance(position, int):
                    total[place.start + position] += steps.sum()
                else:
                    np.add.at(total, group * width + place.start + position, steps)
        return total

    def in_rows(self, value: Any, max_rows: int) -> Any:
        return value * max_rows
