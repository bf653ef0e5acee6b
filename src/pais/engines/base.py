"""The two verbs of an engine: fold, which adds up what each row contributes, and thin, which keeps some rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pais._numerics import FloatArray, round_down
from pais.domain import Ball
from pais.engines.blocks import Block, Index
from pais.engines.screen import Screen
from pais.errors import DataError
from pais.randomness import BitSource, RowBits, bernoulli
from pais.rules import Rule
from pais.sources import listed

#: From this share of candidates on it is quicker to measure all rows than to gather some.
READ_ALL_FROM = 0.3


class Fold(ABC):
    """What each block contributes to a sum. Sums of whole numbers are the same in every order and grouping."""

    @abstractmethod
    def of(self, block: Block) -> NDArray[Any]:
        """Contribution of the rows of a block; contributions are added."""

    def over(self, block: Block) -> NDArray[Any]:
        """The same for engines: rows that are not finite, or whose squares overflow, cause no warning."""
        with quiet():
            return self.of(block)


def quiet() -> np.errstate:
    """A context in which arithmetic on rows warns of nothing. It holds for the thread that enters it."""
    return np.errstate(over="ignore", invalid="ignore")


@dataclass(frozen=True, kw_only=True, repr=False)
class WeightedRows:
    """The content of a sample: secret, for the mechanism that spends it. It has no readable repr on purpose.

    `carried` are the columns a user wanted to keep beside the features, for the same rows.
    """

    rows: FloatArray
    weights: FloatArray
    carried: pa.Table | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class Kept:
    """Rows of a block that were drawn: where they are in it, and clipped to the ball; secret."""

    index: Index
    rows: FloatArray
    weights: FloatArray


@dataclass(frozen=True, kw_only=True)
class Thinning:
    """How rows are kept: a public function of the norm, and independent exact draws.

    The first 8 bits of every row's draw come before the row is measured. A row whose bits exceed what the rule allows
    on all the ball, or where the row roughly lies, is out. `read_all` looks at every row all the same; None lets the
    engine do what is quicker. A row that is not finite is never kept.
    """

    ball: Ball
    rule: Rule
    read_all: bool | None = None

    def screen(self, n_features: int) -> Screen:
        return Screen(rule=self.rule, ball=self.ball, n_features=n_features)

    def keep(self, block: Block, screen: Screen, bits: RowBits) -> Kept:
        """The rows of a block that are drawn."""
        with quiet():
            return self._keep(block, screen, bits)

    def _keep(self, block: Block, screen: Screen, bits: RowBits) -> Kept:
        read_all = screen.share >= READ_ALL_FROM if self.read_all is None else self.read_all
        first = bits.first(block.identity)  # [note: keep-1]
        index, rows = block.survivors(screen, first, read_all=read_all)
        norm = self.ball.norms(rows)
        bad = np.isnan(norm)
        if bad.any():
            index, rows, norm = index[~bad], rows[~bad], norm[~bad]  # [note: keep-5]
        probability = self.rule.evaluate(norm)
        identity = block.identity[index]
        # [note: keep-2]
        drawn = bernoulli(probability, first[index], lambda place, turn: bits.more(identity[place], turn))
        rows = rows[drawn]
        outside = np.flatnonzero(norm[drawn] >= self.ball.radius)
        rows[outside] = self.ball.clip(rows[outside])  # [note: keep-3]
        # Rounded toward less loss: weight times probability never exceeds 1.
        weights = np.maximum(round_down(1.0 / probability[drawn], 1.0), 1.0)  # [note: keep-4]
        return Kept(index=index[drawn], rows=rows, weights=weights)


class Engine(ABC):
    """Rows somewhere, and how to go over them once. Secret, except for its width and the names of its columns."""

    names: tuple[str, ...] | None
    n_features: int

    def __repr__(self) -> str:
        """Kind and columns, which are public; how many rows there are is not."""
        columns = f"{self.n_features} column(s)" if self.names is None else listed(self.names)
        return f"<{type(self).__name__}: {columns}>"

    @property
    def titles(self) -> tuple[str, ...]:
        """What errors call each column of numbers."""
        return tuple(map(str, range(self.n_features)) if self.names is None else map(repr, self.names))

    @abstractmethod
    def fold(self, fold: Fold, *, seeded: bool) -> NDArray[Any]:
        """The sum of the contributions of all rows. `seeded`: bit for bit the same in every engine and layout."""

    @abstractmethod
    def thin(self, thinning: Thinning, bits: BitSource) -> WeightedRows:
        """The rows that were drawn, in no order that means anything."""

    @property
    def known_rows(self) -> int | None:
        """Rows, where they are counted already; None where not. Secret; for a progress bar."""
        return None

    def held(self) -> Engine:
        """The same rows in memory, where they were elsewhere."""
        return self

    def require_width(self, ball: Ball) -> None:
        """Refuse a center of another width than the rows."""
        if ball.center is not None and self.n_features != len(ball.center):
            raise DataError(
                f"rows have {self.n_features} column(s) where the center has {len(ball.center)}. Pass the same "
                "features."
            )


@dataclass(frozen=True, kw_only=True)
class _BadCells(Fold):
    """Cells of each column that are not finite."""

    def of(self, block: Block) -> NDArray[Any]:
        return np.asarray((~np.isfinite(block.rows().astype(np.float64, copy=False))).sum(axis=0))


def require_finite(engine: Engine) -> None:
    """Refuse rows that are not finite, by the columns; one pass. One row decides: this is outside the guarantee."""
    bad = np.flatnonzero(engine.fold(_BadCells(), seeded=False))
    if bad.size:
        raise DataError(
            f"column(s) {', '.join(engine.titles[place] for place in bad)} have values that are missing, NaN, infinite "
            "or not numbers. Correct them, or leave those rows out with missing='drop'."
        )


def together(parts: list[Kept], n_features: int, carried: pa.Table | None = None) -> WeightedRows:
    """The parts of a sample as one. They are taken out of the list one by one, so that memory holds the sample once."""
    weights = np.concatenate([np.empty(0), *(part.weights for part in parts)])
    rows = np.empty((weights.size, n_features))
    end = weights.size
    while parts:
        part = parts.pop()
        rows[end - part.weights.size : end] = part.rows
        end -= part.weights.size
    return WeightedRows(rows=rows, weights=weights, carried=carried)
