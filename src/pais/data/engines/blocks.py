"""Blocks of rows that an engine processes in a pass, stored by rows or by columns. Secret.

A block measures its rows, adds them up by octave of their norms, and gathers the rows that a sample may keep. `Screen`
tells which rows those are, from the first bits of their draws.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pais._base.lattice import (
    BINS_PER_OCTAVE,
    HALVES,
    N_BINS,
    N_OCTAVES,
    WIDEST,
    IntArray,
    add_steps,
    bins_of_powers,
    main_octaves,
    steps_per_unit,
)
from pais._base.numerics import ULP, FloatArray
from pais._base.rowwise import sum_columns
from pais.data.ball import Ball
from pais.privacy.rules import Rule

# A cell is given by the exponent of a power and the first three bits of its mantissa: eight cells per octave.
_SHIFT = 49

# All norms below this share of the radius fall into one cell.
_SMALL = 2.0**-24

# Factor that exceeds the rounding error of a look-up between knots.
_ROOM = 1.0 + 2.0**-48


@dataclass(frozen=True, kw_only=True, eq=False)
class Screen:
    """A table that gives, for each cell of powers, the largest first 8 bits with which a row may be kept. Public.

    The power of a row is its sum of squares for the l2 norm, and the norm itself for other norms. Rows that pass the
    screen are measured exactly afterwards. So a screen affects only the running time, provided that it never rules out
    a row that could be kept.

    Notes
    -----
    Guarantee. A rule is monotone between breakpoints. So its values on a cell are at most the largest of its values at
    the two ends of the cell and on both sides of the breakpoints inside it: `tests/unit/data/test_screen.py`.
    """

    rule: Rule
    ball: Ball
    n_features: int

    @cached_property
    def ceiling(self) -> int:
        """The largest first 8 bits with which any row in the ball may be kept."""
        return int(_first_bits(np.array(self.rule.largest_probability(self.ball.radius))))

    @cached_property
    def is_flat(self) -> bool:
        """Whether the rule keeps all rows of the ball with one probability, so that powers rule out none."""
        radius = self.ball.radius
        return self.rule.smallest_probability(radius) == self.rule.largest_probability(radius)

    @property
    def share(self) -> float:
        """Share of all rows that are expected to pass `by_bits`."""
        return (self.ceiling + 1) / 256.0

    def by_bits(self, first: NDArray[np.uint8]) -> NDArray[np.intp]:
        """Return the positions of the rows that may be kept, judging by their first bits alone."""
        return np.flatnonzero(first <= self.ceiling)

    def by_power(self, power: FloatArray, first: NDArray[np.uint8]) -> NDArray[np.intp]:
        """Return the positions of the rows that may be kept, judging by their powers and first bits."""
        cell = power.view(np.int64) >> _SHIFT
        cell -= self._lowest
        return np.flatnonzero(first <= self._largest.take(cell, mode="clip"))

    @cached_property
    def _lowest(self) -> int:
        return int(_cell(self._power(self.ball.radius * _SMALL)))

    @cached_property
    def _largest(self) -> NDArray[np.uint8]:
        radius = self.ball.radius
        cells = np.arange(self._lowest, int(_cell(self._power(radius))) + 2, dtype=np.int64)
        ends = (cells << _SHIFT).view(np.float64)
        norms = np.minimum(np.sqrt(ends) if self.ball.order == 2.0 else ends, radius)
        # Sums in another order can move a power into a neighbouring cell, so each cell is widened a little.
        slack = 4 * (self.n_features + 16) * ULP
        low, high = norms[:-1] * (1.0 - slack), np.minimum(norms[1:] * (1.0 + slack) + 1e-150, radius)
        # The first cell also covers all smaller powers, and the last cell all larger ones.
        low[0], high[-1] = 0.0, radius
        largest = np.maximum(self.rule.evaluate(low), self.rule.evaluate(high))
        knots = self.rule.probes(radius)
        values = self.rule.evaluate(knots)
        cell_of_knot = np.searchsorted(high, knots)
        for offset in (-1, 0, 1):
            np.maximum.at(largest, np.clip(cell_of_knot + offset, 0, largest.size - 1), values)
        return _first_bits(largest)

    def _power(self, norm: float) -> FloatArray:
        return np.array(norm * norm if self.ball.order == 2.0 else norm)


def _cell(power: FloatArray) -> NDArray[np.int64]:
    return np.asarray(power.view(np.int64) >> _SHIFT)


def _first_bits(probability: FloatArray) -> NDArray[np.uint8]:
    return np.asarray(np.minimum(probability * _ROOM * 256.0, 255.0).astype(np.uint8))


Index = NDArray[np.intp]
#: Integers of any size.
Numbers = NDArray[np.signedinteger[Any]]
Bins = NDArray[np.int16]

# Powers are summed in pieces of this many rows, which stay in the cache from one column to the next.
_PIECE_ROWS = 1 << 15

# Steps are added in pieces of this many numbers, which also stay in the cache.
_PIECE_NUMBERS = 1 << 17


class Block(ABC):
    """A block of rows and their identities, which key the random draws. An identity has one or more 64-bit words.

    A row that contains NaN or infinity stays in the block but contributes nothing: it has no norm, adds nothing to a
    sum and is never sampled.
    """

    identity: NDArray[np.uint64]
    n_rows: int
    n_features: int
    # Tells the blocks of a source apart, in every pass; None if a pass may divide the rows in another way.
    place: object = None
    units: pa.Array | None = None
    # The number of the unit of each row, or -1 for a row that is not usable.
    owners: Numbers | None = None
    # Masses of the rows, in whole steps. Without masses, every row has mass 1.
    masses: Numbers | None = None
    mass_step: float = 1.0
    # Whether it takes longer to gather single rows than to measure all of them.
    gathers_slowly = False

    @abstractmethod
    def finite(self) -> NDArray[np.bool_]:
        """Whether each row is finite."""

    @abstractmethod
    def all_norms(self, ball: Ball) -> FloatArray:
        """Return the norms of all rows, relative to the ball's center; NaN for rows that are not finite."""

    @abstractmethod
    def _rough_powers(self, ball: Ball) -> FloatArray:
        """Return the powers of all rows, up to rounding; infinite or NaN where they overflow or are not finite."""

    def _norms_at(self, index: Index, ball: Ball, power: FloatArray) -> FloatArray:
        """Return the norms of the rows at `index`, whose rough powers are known."""
        return ball.norms(self.taken(index, ball))

    def norm_bins(self, ball: Ball, bins_per_octave: int = BINS_PER_OCTAVE) -> Bins:
        """Return the bin of the norm of each row about the center; the number of bins if the row is not finite."""
        power, wide = self._rough_powers(ball), _widest(ball)
        squared = ball.order == 2.0
        return bins_of_powers(
            power, bins_per_octave, squared=squared, norms_at=lambda index: self._norms_at(index, wide, power)
        )

    def mass_in_bins(self, ball: Ball) -> IntArray:
        """Return the total mass of the finite rows in each bin of norms, in steps."""
        return self._masses_by(self.norm_bins(ball), N_BINS)

    @np.errstate(all="ignore")
    def octave_sums(self, ball: Ball) -> IntArray:
        """Return the mass of the finite rows in each half of an octave of norms, and the sums of rows by octave.

        The sums follow the masses in one flat array. They are in the steps of `pais._base.lattice`. Rows with a mass
        are multiplied by it before they are truncated toward zero.
        """
        bins = self.norm_bins(ball, HALVES)
        masses = self._masses_by(bins, HALVES * N_OCTAVES)
        octave = np.minimum(bins >> 1, N_OCTAVES - 1)
        main = main_octaves(masses).astype(np.int16)
        is_apart = np.ones(N_OCTAVES, dtype=bool)
        is_apart[main] = False
        apart = np.flatnonzero(is_apart.take(octave))
        # Rows in the last octave may be beyond its edge or not finite.
        far = apart.take(np.flatnonzero(octave.take(apart) == N_OCTAVES - 1))
        sums = np.zeros((N_OCTAVES, self.n_features), dtype=np.int64)
        if apart.size:
            self._add_apart(sums, ball, apart, octave.take(apart))
        if main.size:
            self._add_main(sums, ball, octave, main, far)
        return np.concatenate([masses, sums.ravel()])

    def _add_apart(self, sums: IntArray, ball: Ball, apart: Index, octave: Bins) -> None:
        """Add the steps of single rows to the sums of their octaves."""
        rows = self.taken(apart, ball)
        far = np.flatnonzero(octave == N_OCTAVES - 1)
        if far.size:
            rows[far] = _widest(ball).clip(rows[far])  # [note: ladder-4]
        rows *= steps_per_unit(octave)[:, None]
        if self.masses is not None:
            rows *= (self.masses.take(apart) * self.mass_step)[:, None]
        # Clipping turns every value of a row that is not finite into NaN.
        rows[np.isnan(rows[:, 0])] = 0.0  # [note: engines-2]
        add_steps(sums, np.trunc(rows, out=rows), octave, np.unique(octave))

    def _add_main(self, sums: IntArray, ball: Ball, octave: Bins, main: Bins, far: Index) -> None:
        """Add the steps of the rows in the main octaves, which have steps of one size; `far` may not be finite."""
        size, factor = max(1, _PIECE_NUMBERS // self.n_features), steps_per_unit(main[:1])
        scratch = self._scratch(min(size, self.n_rows))
        for start in range(0, self.n_rows, size):
            piece = slice(start, min(start + size, self.n_rows))
            steps = scratch[: piece.stop - start]
            self._scale(ball, piece, factor, steps)
            if self.masses is not None:
                steps *= (self.masses[piece] * self.mass_step)[:, None]
            np.trunc(steps, out=steps)
            first, last = np.searchsorted(far, (piece.start, piece.stop))
            steps[far[first:last] - start] = 0.0  # [note: engines-3]
            add_steps(sums, steps, octave[piece], main)

    @abstractmethod
    def _scratch(self, n_rows: int) -> FloatArray:
        """Return an empty array for so many rows, stored in the order of the block."""

    @abstractmethod
    def _scale(self, ball: Ball, piece: slice, factor: FloatArray, out: FloatArray) -> None:
        """Write a piece of the rows, relative to the ball's center and multiplied by a factor."""

    def _masses_by(self, bins: Bins, n_bins: int) -> IntArray:
        if self.masses is None:
            return np.bincount(bins, minlength=n_bins + 1)[:n_bins]
        # Sums of integers below 2**53, which are exact.
        weights = self.masses.astype(np.float64)  # [note: units-6]
        return np.bincount(bins, weights, minlength=n_bins + 1)[:n_bins].astype(np.int64)

    @abstractmethod
    def taken(self, index: Index, ball: Ball) -> FloatArray:
        """Return the rows at `index`, relative to the ball's center, as an array of shape (m, d)."""

    @abstractmethod
    def part(self, index: Index) -> Block:
        """Return a block of the rows at `index`, which refers to no other row."""

    @abstractmethod
    def rows(self) -> NDArray[np.generic]:
        """Return all rows, finite or not, as an array of shape (n, d)."""

    @abstractmethod
    def columns(self) -> Sequence[NDArray[np.generic]]:
        """Return all rows as one array per column, without copying."""

    def survivors(self, screen: Screen, first: NDArray[np.uint8], *, read_all: bool) -> tuple[Index, FloatArray]:
        """Return the positions of the rows that pass the screen, and these rows, shifted, as an array of shape (m, d).

        With `read_all`, the block measures every row, and fewer rows pass. Rows that are not finite may pass.
        """
        ball = screen.ball
        if screen.is_flat:
            index = screen.by_bits(first)
            return index, self.taken(index, ball)
        if read_all:
            index = screen.by_power(self._rough_powers(ball), first)
            return index, self.taken(index, ball)
        index = screen.by_bits(first)
        shifted = self.taken(index, ball)
        passing = screen.by_power(ball.rough_powers(shifted, is_shifted=True), first[index])
        return index[passing], shifted.take(passing, axis=0)


class RowBlock(Block):
    """Rows of an array of shape (n, d)."""

    def __init__(self, rows: NDArray[np.generic], identity: NDArray[np.uint64]) -> None:
        self._rows, self.identity = rows, identity
        self.n_rows, self.n_features = len(identity), int(rows.shape[1])
        self.gathers_slowly = not rows.flags.c_contiguous

    def finite(self) -> NDArray[np.bool_]:
        return np.asarray(np.isfinite(self._rows).all(axis=1))

    def all_norms(self, ball: Ball) -> FloatArray:
        return ball.norms(ball.shift(self._rows))

    def taken(self, index: Index, ball: Ball) -> FloatArray:
        with np.errstate(all="ignore"):
            rows = self._rows.take(index, axis=0).astype(np.float64, order="C", copy=False)
        # `take` has made a copy, so the center is subtracted in place.
        return rows if ball.center is None else np.subtract(rows, np.asarray(ball.center), out=rows)

    def _rough_powers(self, ball: Ball) -> FloatArray:
        return ball.rough_powers(self._rows)

    def _scratch(self, n_rows: int) -> FloatArray:
        return np.empty((n_rows, self.n_features))

    def _scale(self, ball: Ball, piece: slice, factor: FloatArray, out: FloatArray) -> None:
        np.multiply(ball.shift(self._rows[piece]), factor, out=out)

    def part(self, index: Index) -> Block:
        return RowBlock(self._rows.take(index, axis=0), self.identity.take(index, axis=0))

    def rows(self) -> NDArray[np.generic]:
        return self._rows

    def columns(self) -> Sequence[NDArray[np.generic]]:
        return list(self._rows.T)


class ColumnBlock(Block):
    """Rows as one array per column, the way Arrow decodes them. Only rows that pass the screen are transposed.

    Powers are summed column by column in the same order as in a `RowBlock`, so both classes give the same norms, bins,
    sums and sampled rows to the bit.
    """

    def __init__(self, columns: Sequence[FloatArray], identity: NDArray[np.uint64]) -> None:
        self._columns, self.identity = columns, identity
        self.n_rows, self.n_features = len(identity), len(columns)

    def finite(self) -> NDArray[np.bool_]:
        finite = np.ones(self.n_rows, dtype=bool)
        for column in self._columns:
            finite &= np.isfinite(column)
        return finite

    def all_norms(self, ball: Ball) -> FloatArray:
        if ball.order not in (1.0, 2.0):
            return ball.norms(ball.shift(self.rows()))
        return ball.norms_of_powers(self._rough_powers(ball), len(self._columns))

    def _norms_at(self, index: Index, ball: Ball, power: FloatArray) -> FloatArray:
        if ball.order not in (1.0, 2.0):
            return super()._norms_at(index, ball, power)
        return ball.norms_of_powers(power.take(index), len(self._columns))

    def taken(self, index: Index, ball: Ball) -> FloatArray:
        return self._gathered(index, ball)

    def _scratch(self, n_rows: int) -> FloatArray:
        return np.empty((self.n_features, n_rows)).T

    def _scale(self, ball: Ball, piece: slice, factor: FloatArray, out: FloatArray) -> None:
        for number, column in enumerate(self._columns):
            center = 0.0 if ball.center is None else ball.center[number]
            np.multiply(column[piece] - center if center else column[piece], factor, out=out[:, number])

    def part(self, index: Index) -> Block:
        return ColumnBlock([_taken(column, index) for column in self._columns], self.identity.take(index, axis=0))

    def rows(self) -> NDArray[np.generic]:
        return self._gathered(None, None)

    def columns(self) -> Sequence[NDArray[np.generic]]:
        return self._columns

    def _gathered(self, index: Index | None, ball: Ball | None) -> FloatArray:
        """Return the rows at `index`, or all rows, as a row-major array, relative to the center if a ball is given."""
        gathered = np.empty((len(self._columns), self.n_rows if index is None else index.size))
        for number, column in enumerate(self._columns):
            if index is None:
                gathered[number] = column
            else:
                np.take(column, index, out=gathered[number], mode="clip")
            if ball is not None and ball.center is not None:
                gathered[number] -= ball.center[number]
        return np.ascontiguousarray(gathered.T)

    def _rough_powers(self, ball: Ball) -> FloatArray:
        """Return the powers, of orders 1 and 2 in the fixed order, with NaN for rows that are not finite."""
        if ball.order not in (1.0, 2.0):
            return ball.rough_powers(self.rows())
        power = np.empty(self.n_rows)
        with np.errstate(all="ignore"):
            for start in range(0, self.n_rows, _PIECE_ROWS):
                piece = slice(start, min(start + _PIECE_ROWS, self.n_rows))
                size = piece.stop - start
                term = partial(self._term, ball, piece, np.empty(size))
                power[piece] = sum_columns(term, len(self._columns), size)
        return ball.completed(power, lambda index: self._gathered(index, None))

    def _term(self, ball: Ball, piece: slice, out: FloatArray, column: int) -> FloatArray:
        """Return the contribution of one column to the powers of a piece of the rows."""
        numbers = self._columns[column][piece]
        if ball.center is not None:
            numbers = np.subtract(numbers, ball.center[column], out=out)
        return np.multiply(numbers, numbers, out=out) if ball.order == 2.0 else np.abs(numbers, out=out)


def _taken(column: FloatArray, index: Index) -> FloatArray:
    """`column.take(index)` for positions in the column: four times as fast, because NumPy does not check them."""
    return np.take(column, index, out=np.empty(index.size), mode="clip")


def _widest(ball: Ball) -> Ball:
    """Return the ball with the largest radius of the bins of norms."""
    return ball if ball.radius == WIDEST else replace(ball, radius=WIDEST)


def empty_block(n_features: int) -> Block:
    """Return a block without rows. Its contribution to a sum is a zero of the right shape."""
    return RowBlock(np.empty((0, n_features)), np.empty(0, dtype=np.uint64))
