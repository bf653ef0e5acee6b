"""The norm survey: a private release of the facts about the rows that planning needs.

The survey releases a noisy histogram of norms over fixed bins that do not depend on the data. Radius, number of rows,
mean square norm and the expected sample size of any rule follow from the histogram at no further privacy cost. If no
center is stated, the survey releases a noisy mean first.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from decimal import Context, Decimal

import numpy as np
from numpy.typing import NDArray
from scipy import special
from scipy.optimize import isotonic_regression

from pais._base import validate
from pais._base.lattice import IntArray, Lattice
from pais._base.numerics import FloatArray
from pais._base.randomness import BitSource, PaidBits, RandomState, bit_source
from pais.accounting import Accounts, Ledger, Part, accounts, new_name
from pais.data.ball import Ball, norm_order
from pais.data.engines import Block, Engine, Fold
from pais.data.sources import source
from pais.mechanisms import GaussianNoise, NoiseLaw
from pais.planning import Facts, Settings, Survey
from pais.planning.radius import radius_at
from pais.planning.survey_noise import SurveyNoise
from pais.privacy.norms import NormDistribution

# Twelve bins per octave, from 2^-100 to 2^100. The edges do not depend on the data.
_BINS_PER_OCTAVE = 12
_OCTAVES = 100
_N_BINS = 2 * _OCTAVES * _BINS_PER_OCTAVE

# A cell of norms: all doubles with the same exponent and the same first five bits of the fraction.
_CELL_SHIFT = 47
_CELLS_PER_OCTAVE = 32
_LOWEST_CELL = (1023 - _OCTAVES) * _CELLS_PER_OCTAVE

# Share of the raw rows that are not clipped in the noisy mean.
_CENTER_QUANTILE = 0.9

# The outermost bin shown has more rows beyond it than this many standard deviations of their noise.
_CLEAR_TAIL = 1.5

# Probability that noise alone lifts any empty octave above the threshold.
_EMPTY_OCTAVE_RISK = 0.01


@validate.without_sizes
def survey(
    rows: object,
    *,
    epsilon: float,
    center: tuple[float, ...] | None = None,
    quantile: float | None = None,
    order: float = 2.0,
    random_state: RandomState | BitSource = None,
    ledger: Ledger | None = None,
) -> Survey:
    """Release a noisy distribution of the norms of the rows, and a ball computed from it, for pure `epsilon`.

    Parameters
    ----------
    rows : array, table, path, Spark DataFrame or source
        Any input of `pais.source`. Each stage reads, clips and counts every row once: one pass with a stated center,
        three without.
    epsilon : float
        Price of the whole survey. With a stated center, all of it is spent on the norms.
    center : sequence of float, optional
        Public origin of the norms. If None, the survey releases a noisy mean first, for half of the price.
    quantile : float, optional
        Share of the rows that lie within the radius, up to noise and the width of a bin. If None, the radius is that of
        the outermost norms above the noise, and a plan chooses a smaller one: the best trade between noise, which grows
        with the radius, and clipped rows.
    order : float
        Order of the norm: 2, or 1 for Laplace noise.
    ledger : Ledger, optional
        Charged `epsilon` before any noise is drawn, as is every active ledger.

    Notes
    -----
    Guarantee. In each stage, a record changes one bin by one, or one sum by a vector within a ball that was already
    released. The costs of the stages add up to `epsilon`: `tests/theory/test_survey.py`.
    """
    charged = accounts(ledger)
    charged.check(Part(what="survey", epsilon=validate.target_epsilon(epsilon)))
    noise = SurveyNoise(epsilon=float(epsilon))
    return charged_survey(
        rows, charged, noise=noise, center=center, quantile=quantile, order=order, random_state=random_state
    )


def surveyed_facts(rows: Engine, settings: Settings, charged: Accounts, random_state: RandomState) -> Facts:
    """The facts that a plan needs: those that the settings state, and a survey of the others, charged to accounts.

    For a Gaussian mechanism the survey has Gaussian noise and no price of its own. The accounts must be `Prepaid`.

    With a stated radius and no center, the ball is centered at the origin. Norms are surveyed unless they are stated
    together with a radius, because the expected sample size and the number of rounds follow from them.
    """
    if settings.survey_passes == 0:
        return settings.facts(None)
    center = settings.center
    if settings.radius is not None and center is None:
        center = (0.0,) * rows.n_features
    survey = charged_survey(
        rows,
        charged,
        noise=settings.survey_noise,
        center=center,
        # The plan takes the quantile that the settings state, if any.
        quantile=None,
        order=settings.order,
        random_state=random_state,
    )
    return settings.facts(survey)


def charged_survey(
    rows: object,
    charged: Accounts,
    *,
    noise: SurveyNoise,
    center: tuple[float, ...] | None,
    quantile: float | None,
    order: float,
    random_state: RandomState | BitSource,
) -> Survey:
    """Run a survey and charge it to accounts that the caller has checked."""
    level = None if quantile is None else validate.quantile(quantile)
    name, drawn = new_name(), bit_source(random_state, stream=2)
    entries: list[str] = []
    epsilon = 0.0 if noise.gaussian else noise.epsilon
    part = Part(what="survey", epsilon=epsilon, shift=noise.shift, secure_randomness=drawn.private, release=name)
    bits = PaidBits(drawn, lambda: entries.extend(charged.spend(part)))
    origin = Ball(radius=_widest(), order=norm_order(order), center=center)
    engine = source(rows)
    engine.require_width(origin)
    left = 1.0
    if center is None:
        scale_share, center_share = noise.stage_shares
        scale = _histogram(engine, origin, noise.on_counts(scale_share), bits, width=_BINS_PER_OCTAVE)
        left -= scale_share
        center = (0.0,) * engine.n_features
        if scale.above_noise:
            coarse = Ball(radius=radius_at(scale.norms(), _CENTER_QUANTILE), order=origin.order)
            center = _noisy_mean(engine, coarse, scale.total, noise.on_sum(center_share, coarse), bits)
            left -= center_share  # [note: survey-3]
        origin = Ball(radius=_widest(), order=origin.order, center=center)
    histogram = _histogram(engine, origin, noise.on_counts(left), bits)
    norms = histogram.norms()
    if level is not None:
        norms = NormDistribution(norms=norms.norms, masses=norms.masses, radius=radius_at(norms, level))
    return Survey(
        ball=Ball(radius=norms.radius, order=origin.order, center=center),
        norms=norms,
        epsilon=noise.epsilon,
        shift=noise.shift,
        secure_randomness=bits.private,
        above_noise=histogram.above_noise,
        name=name,
        columns=None if engine.names is None else tuple(engine.names),
        quantile_asked=level is not None,
        ledger_entries=tuple(entries),
    )


@dataclass(frozen=True, kw_only=True)
class _NormCounts(Fold):
    """Number of rows in each bin of norms."""

    ball: Ball

    def of(self, block: Block) -> IntArray:
        return np.bincount(block.norm_bins(self.ball, _bin_of, _edges()[1:]), minlength=_N_BINS)


@dataclass(frozen=True, kw_only=True)
class _ClippedSum(Fold):
    """Sum of the rows clipped to the ball, in whole steps of a lattice."""

    ball: Ball
    lattice: Lattice

    def of(self, block: Block) -> IntArray:
        return block.clipped_sum(self.ball, self.lattice)


@dataclass(frozen=True, kw_only=True)
class _NoisyHistogram:
    """Noisy counts of norms by bin, in a range of bins that stands above the noise; zero elsewhere."""

    counts: FloatArray
    above_noise: bool

    @property
    def total(self) -> float:
        return max(float(self.counts.sum()), 1.0)

    def norms(self) -> NormDistribution:
        """Distribution of the norms up to the last bin with rows."""
        last = np.flatnonzero(self.counts)[-1]
        return NormDistribution.from_histogram(_edges(), self.counts, radius=float(_edges()[last + 1]))


def _histogram(engine: Engine, ball: Ball, noise: NoiseLaw, bits: BitSource, *, width: int = 1) -> _NoisyHistogram:
    """Noisy histogram of norms. Each record is in one bin, which it changes by one."""
    counts = engine.fold(_NormCounts(ball=ball), seeded=not bits.private)
    # Merge `width` neighbouring bins into one, placed at its upper edge: fewer bins add less noise in total.
    counts = counts.reshape(-1, width).sum(axis=1)
    # The step is one row, so that a record changes a count by exactly one step at any price.
    lattice = Lattice(step=1.0)  # [note: survey-2]
    noisy = lattice.decode(counts + noise.draw_steps((counts.size, 1), lattice, bits)[:, 0])
    spread = np.zeros(_N_BINS)
    spread[width - 1 :: width] = noisy
    by_octave = spread.reshape(-1, _BINS_PER_OCTAVE)
    above = by_octave.sum(axis=1) > _threshold(noise, _BINS_PER_OCTAVE // width)
    if not np.any(above):
        return _unit_columns(engine.n_features, ball.order)
    # The octaves beside one above the threshold contain the tails of its norms.
    near = above | np.append(above[1:], False) | np.append(False, above[:-1])
    drawn = np.repeat(near, _BINS_PER_OCTAVE) & (np.arange(_N_BINS) % width == width - 1)
    return _NoisyHistogram(counts=denoised(spread, drawn, noise.deviation(1)), above_noise=True)


def denoised(noisy: FloatArray, seen: NDArray[np.bool_], deviation: float) -> FloatArray:
    """Counts in the bins `seen`, up to the outermost one with rows above the noise: never negative, same total.

    The number of rows from each bin outwards falls with the norm. Its noisy values are therefore replaced by the
    nearest ones that fall (isotonic regression).
    """
    bins = np.flatnonzero(seen)
    outer = np.cumsum(noisy[bins][::-1])[::-1]
    n_outer = np.arange(bins.size, 0, -1)
    clear = np.flatnonzero(outer > _CLEAR_TAIL * deviation * np.sqrt(n_outer))
    bins = bins[: clear[-1] + 1] if clear.size else bins
    outer = np.cumsum(noisy[bins][::-1])[::-1]
    falling = np.maximum(isotonic_regression(outer, increasing=False).x, 0.0)
    counts = np.zeros_like(noisy)
    counts[bins] = falling - np.append(falling[1:], 0.0)
    total = max(float(outer[0]), 1.0)
    if not np.any(counts > 0.0):
        counts[bins[-1]] = 1.0
    return np.asarray(counts * (total / counts.sum()))


def _threshold(noise: NoiseLaw, n_bins: int) -> float:
    """Upper bound on the noise of a sum of `n_bins` counts; with high probability, it holds in all empty octaves."""
    if isinstance(noise, GaussianNoise):
        return -noise.scale * math.sqrt(n_bins) * float(special.ndtri(_EMPTY_OCTAVE_RISK / (2 * _OCTAVES)))
    # Chernoff bound for Laplace noise.
    tilt = np.linspace(0.01, 0.99, 99)
    log_chances = math.log(2 * _OCTAVES / _EMPTY_OCTAVE_RISK)
    return noise.scale * float(np.min((log_chances - n_bins * np.log1p(-tilt * tilt)) / tilt))


def _unit_columns(d: int, order: float) -> _NoisyHistogram:
    """Histogram used if no octave is above the noise: it assumes columns of unit size, which is public."""
    typical = 2.0 * d ** (0.0 if math.isinf(order) else 1.0 / order)
    counts = np.zeros(_N_BINS)
    counts[_bin_of(np.array([typical]))] = 1.0
    return _NoisyHistogram(counts=counts, above_noise=False)


def _noisy_mean(engine: Engine, ball: Ball, noisy_rows: float, noise: NoiseLaw, bits: BitSource) -> tuple[float, ...]:
    """Noisy sum of the clipped rows divided by the noisy number of rows, clipped to the ball."""
    lattice = Lattice.for_scale(noise.scale)
    total = engine.fold(_ClippedSum(ball=ball, lattice=lattice), seeded=not bits.private)
    noisy = lattice.decode(total + noise.draw_steps((1, engine.n_features), lattice, bits)[0])
    mean = ball.clip((noisy / noisy_rows)[None, :])[0]
    return tuple(mean.tolist())


def _bin_of(norm: FloatArray) -> NDArray[np.intp]:
    """Index of the bin of each norm: its lower edge is at most the norm, and its upper edge is above the norm.

    This uses only bits and comparisons, because a logarithm can round differently at different places in an array.
    """
    cell = norm.view(np.int64) >> _CELL_SHIFT
    cell -= _LOWEST_CELL
    index = _first_bins().take(cell, mode="clip")
    index += _edges()[1:].take(index) <= norm  # [note: survey-6]
    return np.minimum(index, _N_BINS - 1, out=index)


@functools.cache
def _edges() -> FloatArray:
    """Edges of the bins, correctly rounded, so that they are the same on every machine."""
    context = Context(prec=40)
    shares = [context.divide(Decimal(k), Decimal(_BINS_PER_OCTAVE)) for k in range(_BINS_PER_OCTAVE)]
    ratios = [float(context.power(Decimal(2), share)) for share in shares]
    octaves = np.arange(-_OCTAVES, _OCTAVES)[:, None]
    edges: FloatArray = np.append(np.ldexp(np.array(ratios), octaves), 2.0**_OCTAVES)
    edges[0] = 0.0
    edges.flags.writeable = False
    return edges


@functools.cache
def _first_bins() -> NDArray[np.intp]:
    """The bin in which each cell of norms begins. Bins are wider than cells, so no cell contains two edges."""
    cells = _LOWEST_CELL + np.arange(2 * _OCTAVES * _CELLS_PER_OCTAVE, dtype=np.int64)
    starts = (cells << _CELL_SHIFT).view(np.float64)
    return np.searchsorted(_edges(), starts, side="right") - 1


def _widest() -> float:
    return 2.0**_OCTAVES
