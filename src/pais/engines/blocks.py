"""Some rows on their way through a pass, stored by rows or by columns. Secret."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pais._numerics import ULP, FloatArray
from pais.domain import OVERFLOWN, Ball, require_finite
from pais.engines.screen import Screen
from pais.lattice import IntArray, Lattice

Index = NDArray[np.intp]

# Powers are added up in pieces that stay in the cache from column to column.
_PIECE_ROWS = 1 << 15

# Whole numbers up to here add up exactly in doubles.
_EXACT = 2.0**53


class Block(ABC):
    """Some rows, and the identity that their draws are keyed by where they are: one word for each row, or a few."""

    identity: NDArray[np.uint64]

    @property
    def n_rows(self) -> int:
        return len(self.identity)

    @abstractmethod
    def norms(self, ball: Ball) -> FloatArray:
        """Norms of all rows about the ball's center."""

    @abstractmethod
    def clipped_sum(self, ball: Ball, lattice: Lattice) -> IntArray:
        """Sum of all rows, shifted and clipped to the ball, in whole steps truncated toward zero."""

    @abstractmethod
    def rows(self) -> NDArray[np.generic]:
        """All rows, as an array of shape (n, d)."""

    @abstractmethod
    def columns(self) -> Sequence[NDArray[np.generic]]:
        """All rows, as one array for each column; nothing is copied."""

    @abstractmethod
    def survivors(self, screen: Screen, first: NDArray[np.uint8], *, read_all: bool) -> tuple[Index, FloatArray]:
        """Places of the rows that a screen lets pass, and these rows, shifted, as an array of shape (m, d).

        `read_all` looks at every row, which finds NaN anywhere and lets fewer pass.
        """


class RowBlock(Block):
    """Rows of an array of shape (n, d)."""

    def __init__(self, rows: NDArray[np.generic], identity: NDArray[np.uint64]) -> None:
        self._rows = rows
        self.identity = identity

    def norms(self, ball: Ball) -> FloatArray:
        return ball.norms(ball.shift(self._rows))

    def clipped_sum(self, ball: Ball, lattice: Lattice) -> IntArray:
        total: IntArray = lattice.encode(ball.clip(ball.shift(self._rows))).sum(axis=0)
        return total

    def rows(self) -> NDArray[np.generic]:
        return self._rows

    def columns(self) -> Sequence[NDArray[np.generic]]:
        return list(self._rows.T)

    def survivors(self, screen: Screen, first: NDArray[np.uint8], *, read_all: bool) -> tuple[Index, FloatArray]:
        if not read_all:
            index = screen.by_bits(first)
            return index, screen.ball.shift(self._rows.take(index, axis=0))
        shifted = screen.ball.shift(self._rows)
        index = screen.by_power(screen.ball.powers(shifted), first)
        return index, shifted.take(index, axis=0)


class ColumnBlock(Block):
    """One array for each column, as Arrow decodes them: never transposed, except for the rows that are left.

    Powers are added up column by column, in another order than `RowBlock` does. They serve to screen rows; who is left
    is measured as in a `RowBlock`, so both keep the same rows. Norms of all rows can differ from those of a `RowBlock`
    in the last bit, so a seeded survey, which must not depend on the layout, takes its rows by rows.
    """

    def __init__(self, columns: Sequence[FloatArray], identity: NDArray[np.uint64]) -> None:
        self._columns = columns
        self.identity = identity

    def norms(self, ball: Ball) -> FloatArray:
        if ball.order not in (1.0, 2.0):
            return ball.norms(ball.shift(self.rows()))
        return ball.norms_of_powers(self._powers(ball), len(self._columns))

    def clipped_sum(self, ball: Ball, lattice: Lattice) -> IntArray:
        # The way is chosen by public numbers: rows are rounded otherwise on the other one, all of them.
        if ball.order not in (1.0, 2.0) or _PIECE_ROWS * ball.radius / lattice.step >= _EXACT:
            return self._by_rows().clipped_sum(ball, lattice)
        power = self._powers(ball)
        beyond = np.flatnonzero(power >= OVERFLOWN)
        norm = np.sqrt(power, out=power) if ball.order == 2.0 else power
        edge = ball.radius * (1.0 - 2 * (len(self._columns) + 16) * ULP)
        # 1 within the ball, and what brings a row back to its edge beyond it.
        factor = np.divide(edge, np.maximum(norm, edge, out=norm), out=norm)
        factor /= lattice.step
        # A row whose power overflows is clipped by itself, and leaves the others as they are.
        factor[beyond] = 0.0  # [note: engines-1]
        total: IntArray = lattice.encode(ball.clip(self._gathered(beyond, ball))).sum(axis=0)
        steps = np.empty_like(factor)
        for number, column in enumerate(self._columns):
            if ball.center is None:
                np.multiply(column, factor, out=steps)
            else:
                np.subtract(column, ball.center[number], out=steps)
                steps *= factor
            np.trunc(steps, out=steps)
            for start in range(0, self.n_rows, _PIECE_ROWS):
                total[number] += int(np.add.reduce(steps[start : start + _PIECE_ROWS]))
        return total

    def rows(self) -> NDArray[np.generic]:
        return self._gathered(None, None)

    def columns(self) -> Sequence[NDArray[np.generic]]:
        return self._columns

    def survivors(self, screen: Screen, first: NDArray[np.uint8], *, read_all: bool) -> tuple[Index, FloatArray]:
        if not read_all:
            index = screen.by_bits(first)
        elif screen.ball.order in (1.0, 2.0):
            index = screen.by_power(self._powers(screen.ball), first)
        else:
            return self._by_rows().survivors(screen, first, read_all=True)
        return index, self._gathered(index, screen.ball)

    def _by_rows(self) -> RowBlock:
        return RowBlock(self.rows(), self.identity)

    def _gathered(self, index: Index | None, ball: Ball | None) -> FloatArray:
        """Some rows or all, by rows; relative to the center of a ball."""
        side = np.empty((len(self._columns), self.n_rows if index is None else index.size))
        for number, column in enumerate(self._columns):
            if index is None:
                side[number] = column
            else:
                np.take(column, index, out=side[number], mode="clip")
            if ball is not None and ball.center is not None:
                side[number] -= ball.center[number]
        return np.ascontiguousarray(side.T)

    def _powers(self, ball: Ball) -> FloatArray:
        """Sums of squares (order 2) or of sizes (order 1), finite; a column with NaN or infinity is refused."""
        power, gap = np.zeros(self.n_rows), np.empty(min(_PIECE_ROWS, self.n_rows))
        square = ball.order == 2.0
        with np.errstate(over="ignore", invalid="ignore"):
            for start in range(0, self.n_rows, _PIECE_ROWS):
                total = power[start : start + _PIECE_ROWS]
                out = gap[: total.size]
                for number, column in enumerate(self._columns):
                    part = column[start : start + _PIECE_ROWS]
                    if ball.center is not None:
                        part = np.subtract(part, ball.center[number], out=out)
                    total += np.multiply(part, part, out=out) if square else np.abs(part, out=out)
        if not (power.size == 0 or power.max() < np.inf):
            bad = [number for number, column in enumerate(self._columns) if not np.all(np.isfinite(column))]
            require_finite(np.array(bad, dtype=np.intp))
            power = np.minimum(power, OVERFLOWN)
        return power
