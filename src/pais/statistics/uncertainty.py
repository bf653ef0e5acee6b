"""Standard errors and intervals of a statistic, from its released totals and the public law of their noise.

A released total is the true total plus noise, so the true total is the released one minus noise of a known law. Drawing
that noise many times gives values that the statistic may have without noise. Their spread is the standard error, and
their quantiles are the ends of intervals. All of this is post-processing with a fixed public seed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import special

from pais._base.lattice import Tails
from pais._base.numerics import FloatArray
from pais.mechanisms.blocks import Levels, Rows, Split, VectorStatistic
from pais.mechanisms.noise import GeometricNoise, NoiseLaw
from pais.statistics.clipping import BeyondBounds
from pais.statistics.recipes import Lost, Recipe
from pais.statistics.table import Fields

# A smaller surplus of weights is a rounding error.
_TINY = 1e-12

# A number of cells below this many standard deviations of its noise is lost in it.
_LOST = 3.0

# Draws of each total, and numbers that are held at a time.
_FEWEST_DRAWS, _MOST_DRAWS, _MOST_NUMBERS = 1_000, 10_000, 2_000_000


@dataclass(frozen=True, kw_only=True, eq=False)
class Uncertainty:
    """Released totals, the law of their noise, and the recipe that computes a statistic from totals.

    Attributes
    ----------
    totals : array of shape (groups, coordinates)
        Released totals.
    mechanism : VectorStatistic
        Its noise and the factors of its blocks.
    max_rows : int
        Rows of a unit that count in full. Totals and noise were multiplied by it.
    spare : float
        1 / q - 1 for the smallest probability q with which a row was kept; 0 if all rows were used.
    recipe, fields : Recipe and Fields
        How values follow from totals.
    beyond : BeyondBounds, optional
        What is expected beyond bounds that were found privately.
    """

    totals: FloatArray
    mechanism: VectorStatistic
    max_rows: int
    spare: float
    recipe: Recipe
    fields: Fields
    beyond: BeyondBounds | None = None

    @property
    def noisy_rows(self) -> float:
        """Number of rows according to the release itself, or fewer; in rows of mass 1 if there are units."""
        pairs = zip(self.mechanism.blocks, self.mechanism.places, strict=True)
        counts = [float(self.totals[:, place].sum()) for block, place in pairs if not block.is_signed]
        return max(counts, default=0.0) / self.max_rows

    def estimates(self) -> FloatArray:
        """The values, of shape (rows, columns)."""
        lost = None if self.beyond is None else self.beyond.drawn(np.zeros((1, 1, 1)), slice(None))
        return self._table(self.recipe.limited(self._values(self.totals[None], lost)[0], self.fields))

    def standard_errors(self) -> FloatArray:
        """Standard deviation of each value, of shape (rows, columns)."""
        if self._is_linear:
            # One standard deviation more in a total is one standard error more in its value.
            more = self.totals + self._ladder(None)
            noise = np.abs(self._values(more) - self._values(self.totals))
        else:
            noise = np.concatenate([values.std(axis=0) for values in self._draws()])
        # The true value and the estimate are anywhere in the same cell.
        return self._table(np.hypot(noise, self.recipe.resolution(self.fields) / math.sqrt(6.0)))

    def bounds(self, level: float) -> tuple[FloatArray, FloatArray]:
        """Ends of intervals, each of shape (rows, columns)."""
        ends = [0.5 - 0.5 * level, 0.5 + 0.5 * level]
        if self._is_linear:
            high, low = self._values(self.totals - self._ladder(np.array(ends))[:, None, :])
        else:
            pairs = [np.quantile(values, ends, axis=0) for values in self._draws()]
            low, high = (np.concatenate(several) for several in zip(*pairs, strict=True))
        wide = self.recipe.resolution(self.fields)
        low, high = (self.recipe.limited(end, self.fields) for end in (low - wide, high + wide))
        return self._table(low), self._table(high)

    def lost(self) -> NDArray[np.bool_]:
        """Whether noise hides the number of cells behind each value, of shape (groups, columns)."""
        pairs = list(zip(self.mechanism.blocks, self.mechanism.places, strict=True))
        sampling = self._sampling_deviation() if self.spare > _TINY else 0.0
        variances = np.broadcast_to(self._ladder(None) ** 2 + sampling**2, self.totals.shape)
        rows = [place for block, place in pairs if isinstance(block, Rows)]
        lost = []
        for field in self.fields.columns:
            # The totals of these blocks add up to the number of cells.
            own = [
                place for block, place in pairs if isinstance(block, (Split, Levels)) and block.column == field.start
            ]
            place = [*own, *rows][0]
            deviation = np.sqrt(variances[:, place].sum(axis=1))
            lost.append(self.totals[:, place].sum(axis=1) < _LOST * deviation)
        return np.stack(lost, axis=1)

    def _values(self, totals: FloatArray, lost: Lost | None = None) -> FloatArray:
        parts = [totals[..., place] for place in self.mechanism.places]
        return self.recipe.estimate(parts, self.fields, lost)

    def _table(self, values: FloatArray) -> FloatArray:
        columns = self.recipe.columns(self.fields)
        return values.reshape(-1, 1 if columns is None else len(columns))

    @property
    def _is_linear(self) -> bool:
        """Whether the distribution of each value is that of the noise of one total."""
        return self.recipe.is_linear and self.spare <= _TINY and self.beyond is None

    def _ladder(self, levels: FloatArray | None) -> FloatArray:
        """Quantiles of the noise of each total, one row for each level; without levels, its standard deviation."""
        noise = {}
        for factor in {block.factor for block in self.mechanism.blocks}:
            law = replace(self.mechanism.noise, scale=self.mechanism.noise.scale * factor)  # type: ignore[type-var]
            noise[factor] = np.array([law.deviation(1)]) if levels is None else noise_quantiles(law, levels)
        columns = [noise[block.factor] for block in self.mechanism.blocks for _ in range(block.size)]
        ladder = self.max_rows * np.stack(columns, axis=1)
        return ladder[0] if levels is None else ladder

    def _sampling_deviation(self) -> FloatArray:
        """Upper bound on the deviation of each total from sampling.

        A row adds v with |v| <= 1, so the sum of v^2 is at most that of |v|, which is the total itself if no v is
        negative. Otherwise it is at most the number of rows, which is released too.
        """
        sizes = np.abs(self.totals)
        blocks, places = self.mechanism.blocks, self.mechanism.places
        signed = [place for block, place in zip(blocks, places, strict=True) if block.is_signed]
        for place in signed:
            rows = next(place for block, place in zip(blocks, places, strict=True) if isinstance(block, Rows))
            sizes[:, place] = np.abs(self.totals[:, rows])
        return np.sqrt(self.spare * self.max_rows * sizes)

    def _draws(self) -> Iterator[FloatArray]:
        """Possible values of a few groups at a time, of shape (draws, groups, values)."""
        generator = np.random.default_rng(0)
        width = self.totals.shape[1]
        n_draws = int(np.clip(_MOST_NUMBERS // width, _FEWEST_DRAWS, _MOST_DRAWS))
        step = max(1, _MOST_NUMBERS // (n_draws * width))
        levels = (np.arange(n_draws) + 0.5) / n_draws
        ladder, normal = self._ladder(levels)[:, None, :], special.ndtri(levels)[:, None, None]
        deviations = self._sampling_deviation() if self.spare > _TINY else None
        for start in range(0, len(self.totals), step):
            totals = self.totals[start : start + step]
            shape = (n_draws, *totals.shape)
            # Each quantile of the noise is used once for each total, in random order.
            drawn = totals - generator.permuted(np.broadcast_to(ladder, shape), axis=0)
            if deviations is not None:
                drawn -= deviations[start : start + step] * generator.permuted(np.broadcast_to(normal, shape), axis=0)
            lost = None
            if self.beyond is not None:
                width = (n_draws, len(totals), self.beyond.centers.size)
                errors = generator.permuted(np.broadcast_to(normal, width), axis=0)
                lost = self.beyond.drawn(errors, slice(start, start + step))
            yield self._values(drawn, lost)


def noise_quantiles(law: NoiseLaw, levels: FloatArray) -> FloatArray:
    """Quantiles of noise at levels in (0, 1)."""
    tails = np.minimum(levels, 1.0 - levels)
    words: NDArray[np.uint64] = (tails * 2.0**64).astype(np.uint64)
    unit, _ = law.evaluate(Tails(signs=np.where(levels > 0.5, 1.0, -1.0)[:, None], words=words[:, None]))
    noise = law.scale * unit[:, 0]
    return law.step * np.floor(noise / law.step + 0.5) if isinstance(law, GeometricNoise) else noise
