"""A vector statistic: noisy totals of blocks, for each group of rows, in one release."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from pais._base import validate
from pais._base.files import stored
from pais._base.lattice import IntArray, Lattice
from pais._base.numerics import FloatArray
from pais._base.randomness import BitSource
from pais.data.ball import Ball
from pais.data.engines import AllRows, WeightedRows
from pais.errors import ArgumentError
from pais.mechanisms.base import Extent, Mechanism
from pais.mechanisms.blocks import Block, Levels
from pais.mechanisms.integer_noise import GeometricNoise
from pais.mechanisms.noise import GaussianNoise, LpNoise, NoiseLaw
from pais.privacy.profiles import GaussianProfile, LinearProfile

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
    def order(self) -> None:
        return None

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

    @property
    def _factors(self) -> FloatArray:
        return np.repeat([block.factor for block in self.blocks], [block.size for block in self.blocks])

    def require_lattice(self, extent: Extent) -> None:
        self.lattice.require(extent.weight)

    def measure(self, content: WeightedRows | AllRows, ball: Ball, bits: BitSource) -> FloatArray:
        """Return the noisy totals, of shape (groups, coordinates)."""
        total = content.total(self.add)
        factors = np.tile(self._factors, self.n_groups)
        # Geometric noise is faster to draw with one factor for all coordinates.
        unit = factors if len(set(factors.tolist())) > 1 else float(factors[0])
        noisy = self.noise.added_to(total[:, None], self.lattice, bits, unit=unit)
        return self.lattice.decode(noisy).reshape(self.n_groups, -1)

    def add(self, rows: FloatArray, weights: FloatArray) -> IntArray:
        """What rows add to the totals, in whole steps."""
        whole = self.lattice.encode(weights)
        group = np.zeros(len(rows), dtype=np.int64)
        for column in self.by:
            level = column.level_of(rows)
            whole = np.where(level < column.n_levels, whole, 0)  # [note: statistics-5]
            group = group * column.n_levels + np.minimum(level, column.n_levels - 1)
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
