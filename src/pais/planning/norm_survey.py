"""The norm survey: a private release of the facts about the rows that planning needs.

The survey releases a noisy histogram of norms over fixed bins that do not depend on the data. Radius, number of rows,
mean square norm and the expected sample size of any rule follow from the histogram at no further privacy cost. If no
center is stated, the survey releases a noisy mean first.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from pais._base import validate
from pais._base.lattice import (
    BINS_PER_OCTAVE,
    HALVES,
    N_BINS,
    N_OCTAVES,
    OCTAVES,
    WIDEST,
    IntArray,
    Lattice,
    Rung,
    bin_of,
    edges,
)
from pais._base.numerics import FloatArray
from pais._base.randomness import BitSource, RandomState, bit_source
from pais.accounting.ledger import Ledger, accounts
from pais.accounting.part import Part
from pais.data.ball import Ball, norm_order
from pais.data.engines.base import Engine, Fold, Sampling
from pais.data.engines.blocks import Block, RowBlock
from pais.data.engines.local import MOST_WHOLE
from pais.data.sources import source
from pais.errors import ArgumentError, SurveyWarning
from pais.mechanisms.noise import GaussianNoise, NoiseLaw
from pais.planning.column_survey import ColumnBounds, ColumnRange
from pais.planning.facts import (
    CategoriesFound,
    Findings,
    NoisyCounts,
    NormCounts,
    Stage,
    Stages,
    Survey,
    SurveyNoise,
    combined,
    octave_weights,
)
from pais.planning.plan import radius_at
from pais.privacy.guarantee import warn
from pais.privacy.rules import NormDistribution, UniformRule

BoolArray = NDArray[np.bool_]

# Probability that noise alone shows a group of rows beyond the others, and how many octaves beyond them it is looked
# for, nearer ones at lower thresholds. A group counts by its norm about the origin if that is at least so many times as
# large as the norm of the center. Tuned on the sets `far-` of benchmarks.regimes.
_FAR_RISK, _FAR_OCTAVES, _FAR_FROM_CENTER, _BESIDE = 0.01, 6, 2.0, 1.5

# If no octave stands out of the noise, as many neighbouring ones may do so together, and noise alone shows some with
# this probability. The norms of a few rows lie within a factor of eight in most tables.
_MOST_WINDOW, _WINDOW_RISK = 3, 0.02

# If the number of rows is below this many standard deviations of a bin of the last histogram, counts are compared with
# whole distributions: of norms with these degrees of freedom and spreads of a lognormal factor in octaves, which reach
# so far. Rows are found if this many times as likely as none. The likely shapes and places have this share of the
# chance together, and the outermost share of the rows is left out. Tuned on 24 cells of the groups small and zoo.
_FEW_ROWS, _LEAST_ODDS, _LIKELY, _LEAST_TAIL = 40.0, 30.0, 0.95, 0.002
_DEGREES, _SPREADS, _OCTAVES_BELOW, _OCTAVES_ABOVE = (1.0, 2.0, 4.0, 10.0, 50.0), (0.1, 0.4, 0.8), 8, 5

# The norms of more columns lie in a narrow range, which bins show by themselves if the first histogram shows some rows:
# digits at epsilon 0.3 cost 1.5 % more with distributions.
_FEW_COLUMNS = 32

# Bins per octave of the last histogram then, if the first one shows some rows: of 1 to 4, the best on seven cells.
_BINS_FOR_SHAPES = 3

# Variance of the number of rows of a likely distribution, over that of a bin: such rows lie in several bins.
_ROWS_VARIANCE = 9.0

# Typical norm of the rows in an octave, as a share of its upper edge: the middle of the octave.
_TYPICAL_NORM = 0.75

# Of the draws for this sample; see `bit_source`.
_SAMPLE_STREAM = 4

# Bins per octave of the last histogram if the first one shows some rows, or none. Tuned for the costs of k-means with a
# survey (e92db7f), as is the number of rows below: benchmarks/results/kmeans-survey.md.
_BINS_FOR_SOME_ROWS, _BINS_FOR_FEW_ROWS = 4, 2

# From this many rows on, a sample with so many numbers shows the norms about the center if that saves a pass. Rows with
# few numbers are held in memory, so all of them are counted. A sample of 6 million numbers takes 48 MB (c347aa2).
_SAMPLED_FROM, _SAMPLED_NUMBERS, _HELD_NUMBERS = 1 << 20, 6 << 20, MOST_WHOLE

# Numbers of the rows that are held for this sample: so many more that noise on the number of rows hardly ever asks for
# a row that is not held, which would take another pass.
_CANDIDATE_NUMBERS = 8 << 20

# Noisy number of rows, in standard deviations of the noise of a bin, from which the last histogram has all bins.
_MANY_ROWS = 106.0


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
        two without, and two more for the bounds of "auto" columns, which take 60 % of the price.
    epsilon : float
        Price of the whole survey.
    center : sequence of float, optional
        Public origin of the norms. If None, the survey releases a noisy mean first, for 40 % of the price. If `rows`
        were opened with facts about all columns, the midpoint of their bounds is the center instead.
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
    payers = accounts(ledger)
    payers.check(Part(what="survey", epsilon=validate.target_epsilon(epsilon)))
    level = None if quantile is None else validate.quantile(quantile)
    noise, engine = SurveyNoise(epsilon=float(epsilon)), source(rows)
    if engine.schema is not None and engine.schema.unlisted:
        name = engine.schema.unlisted[0].name
        raise ArgumentError(
            f"the categories of {name!r} are not listed, and a survey with an epsilon alone cannot find them. List "
            f"them: columns={{{name!r}: ['a', 'b']}}, or fit a model, which surveys for itself."
        )
    if center is None and engine.schema is not None:
        center = engine.schema.midpoint
    origin = Ball(radius=WIDEST, order=norm_order(order), center=center)
    engine.require_width(origin)
    stages = survey_stages(engine, noise, lambda _: origin, random_state)
    survey = survey_of(stages.run(engine, payers, random_state), level)
    warn(survey.columns_concern, SurveyWarning)
    return survey


def survey_stages(
    engine: Engine,
    noise: SurveyNoise,
    origin: Callable[[Engine], Ball],
    random_state: RandomState | BitSource,
    *,
    then: int = 0,
) -> Stages:
    """The stages that find the bounds of "auto" columns and the norms about the center of a ball.

    `then` is the number of passes over the rows after the survey.
    """
    norm_passes = 2 if origin(engine).center is None else 1
    if engine.schema is None or not engine.schema.open:
        norms = NormStage(origin=origin, random_state=random_state)
        return Stages(noise=noise, stages=(norms,), passes=norm_passes + then)
    share = noise.columns_share
    norms = NormStage(share=1.0 - share, origin=origin, random_state=random_state)
    return Stages(noise=noise, stages=(ColumnBounds(share=share), norms), passes=norm_passes + 2 + then)


def survey_of(findings: Findings, quantile: float | None = None) -> Survey:
    """The survey with what its stages found; its radius is the stated quantile, or that of the outermost norms."""
    engine, noise, part = findings.engine, findings.noise, findings.part
    assert noise is not None
    assert part is not None
    found: FoundNorms = findings.found[NormStage.name]
    columns: dict[str, ColumnRange] = findings.found.get(ColumnBounds.name, {})
    order = found.ball.order
    norms = _norms_of(_unit_columns(engine.n_features, order) if found.counts is None else found.counts.counts)
    if quantile is not None:
        norms = NormDistribution(norms=norms.norms, masses=norms.masses, radius=radius_at(norms, quantile))
    return Survey(
        ball=Ball(radius=norms.radius, order=order, center=found.ball.center),
        norms=norms,
        epsilon=noise.epsilon,
        shift=noise.shift,
        secure_randomness=part.secure_randomness,
        above_noise=found.counts is not None,
        name=part.release,
        columns=None if engine.names is None else tuple(engine.names),
        unit=engine.unit,
        schema=engine.schema,
        unclear_columns=tuple(name for name, column in columns.items() if not column.clear),
        skewed_columns=tuple(name for name, column in columns.items() if column.clear and column.is_skewed),
        delta=0.0 if findings.part is None else findings.part.delta,
        categories=tuple(
            CategoriesFound(name, len(found.names) + found.n_left_out, found.n_left_out, found.selection.half_found)
            for name, found in findings.found.get("names", {}).items()
        ),
        quantile_asked=quantile is not None,
        ledger_entries=findings.ledger_entries,
        counts=found.noisy,
    )


class FoundNorms(NamedTuple):
    """The ball about a stated or found center, the numbers of rows by norm, and the noisy counts behind them.

    The numbers are None if no norm stands out of the noise. The counts are None if they are not counts of all rows.
    """

    ball: Ball
    counts: NormCounts | None
    noisy: NoisyCounts | None


@dataclass(frozen=True, kw_only=True, eq=False)
class NormStage(Stage):
    """The norms of the rows about the center of a ball, and the center itself if it is not stated.

    A histogram of octaves comes first. It decides where rows are clipped for the mean, and how many bins the last
    histogram has. The sums for the mean come from the same pass. With `joined`, both histograms together say
    which octaves hold rows: a few rows far beyond the others may be clusters of k-means. And if the table has few rows,
    as far as the first histogram shows, counts are compared with whole distributions. `origin` gives the ball for the
    columns as they are known when the stage begins.
    """

    name: str = "norms"
    origin: Callable[[Engine], Ball]
    random_state: RandomState | BitSource
    joined: bool = False

    def read(self, engine: Engine, noise: SurveyNoise, bits: BitSource) -> tuple[Engine, IntArray, IntArray]:
        engine = engine.collecting(self.random_state, stream=_SAMPLE_STREAM, most=_CANDIDATE_NUMBERS)
        return engine, *_first_pass(engine, self.origin(engine), bits)

    def release(
        self, totals: tuple[Engine, IntArray, IntArray], engine: Engine, noise: SurveyNoise, bits: BitSource
    ) -> tuple[Engine, FoundNorms]:
        # The candidates that the first pass collected are for the sample of this stage alone.
        collecting, counts, sums = totals
        origin = self.origin(engine)
        # A record changes one bin by one row. With units, a unit changes the bins by masses that add up to at most one.
        lattice = Lattice(step=1.0 if engine.unit is None else 2.0**-engine.unit.mass_bits)  # [note: survey-2]
        octaves = _noisy_counts(counts, noise.on_counts(noise.scale_share), lattice, bits, bins_per_octave=1)
        coarse = octaves.estimate()
        left, center, share = 1.0 - noise.scale_share, origin.center, 1.0
        if center is None:
            center = (0.0,) * engine.n_features
            if coarse is not None:
                center = _noisy_mean(sums, coarse, origin.order, noise, bits)
                left -= noise.center_share  # [note: survey-3]
                draws = bit_source(self.random_state, stream=_SAMPLE_STREAM)
                # In a seeded run, which is to be the same for every engine, all rows are counted.
                share = _sampled_share(collecting, coarse.n_rows) if collecting.collects and bits.private else 1.0
                counts = _norm_counts(collecting, replace(origin, center=center), bits, share, draws)
        n_rows = 0.0 if coarse is None else coarse.n_rows
        rest = noise.on_counts(left)
        signal = share * n_rows / rest.deviation(1)
        few = self.joined and noise.gaussian and signal < _FEW_ROWS
        few &= coarse is None or engine.n_features <= _FEW_COLUMNS
        bins = (1 if coarse is None else _BINS_FOR_SHAPES) if few else _bins_for(signal)
        noisy = _noisy_counts(counts, rest, lattice, bits, bins_per_octave=bins)
        if few:
            # Both histograms have the same bins and the same origin if no octave stands out of the first one.
            fine = _likely_counts(noisy if coarse is not None else _pooled(noisy, octaves))
        elif self.joined and share == 1.0:
            moved = 0.0 if origin.center is not None else float(np.linalg.norm(center, ord=origin.order))
            better, far = _joined(noisy, octaves, moved)
            fine = better.estimate(far)
        else:
            fine = noisy.estimate()
        ball = replace(origin, center=center)
        if coarse is None or fine is None:
            return engine, FoundNorms(ball, coarse, None) if fine is None else FoundNorms(ball, fine, noisy)
        if share < 1.0:
            # The number of rows comes from the first histogram, which counts all of them.
            return engine, FoundNorms(ball, replace(coarse, counts=fine.counts * (coarse.n_rows / fine.n_rows)), None)
        return engine, FoundNorms(ball, combined(coarse, fine), noisy)


def _pooled(noisy: NoisyCounts, other: NoisyCounts) -> NoisyCounts:
    """Counts of the same bins from two histograms with Gaussian noise, by their precisions."""
    own, others = noisy.deviation**-2.0, other.deviation**-2.0
    counts = (own * noisy.counts + others * other.counts) / (own + others)
    return replace(noisy, counts=counts, noise=GaussianNoise(scale=(own + others) ** -0.5))


@functools.cache
def _shapes(bins: int) -> tuple[FloatArray, FloatArray]:
    """Shares of the rows in bins about the place of their norms, and the same in the finest bins, for many shapes.

    The norms of rows spread in m directions alike have a chi distribution of m degrees, which a lognormal factor
    spreads further. A place is the lower edge of a bin of this width, or a quarter, half or three quarters above it.
    """
    step = BINS_PER_OCTAVE // bins
    octave = (np.arange(-_OCTAVES_BELOW * BINS_PER_OCTAVE, _OCTAVES_ABOVE * BINS_PER_OCTAVE) + 0.5) / BINS_PER_OCTAVE
    shapes = []
    for degrees, spread in itertools.product(_DEGREES, _SPREADS):
        chi = np.exp(math.log(2.0) * degrees * octave - 0.5 * degrees * np.exp2(2.0 * octave))
        shape = np.convolve(chi, np.exp(-0.5 * np.square((octave - octave.mean()) / spread)), "same")
        for moved in range(0, step, max(step // 4, 1)):
            padded = np.concatenate([np.zeros(moved), shape, np.zeros(step - moved)])
            shapes.append(padded / padded.sum())
    finest = np.array(shapes)
    return finest.reshape(len(finest), -1, step).sum(axis=2), finest


def _likely_counts(noisy: NoisyCounts) -> NormCounts | None:
    """Numbers of a few rows: means over the shapes and places that the counts make likely; None if no rows are likely.

    The noise hides bins one by one that would be clear together, so the counts are compared with whole distributions.
    The number of rows is the best one for each shape and place. Places have the prior weights of `_window`.
    """
    counts, n_bins, bins = noisy.counts, noisy.counts.size, noisy.bins_per_octave
    coarse, finest = _shapes(bins)
    width, below = coarse.shape[1], _OCTAVES_BELOW * bins
    padded = np.concatenate([np.zeros(below), counts, np.zeros(width - below)])
    length = np.linalg.norm(coarse, axis=1)
    product = np.lib.stride_tricks.sliding_window_view(padded, width)[:n_bins] @ coarse.T
    rows, score = product / length**2, product / (length * noisy.deviation)
    weights = np.repeat(np.square(octave_weights(n_bins // bins)), bins)
    # Odds of rows of this shape and place, of any number, against none: the number is uniform on a logarithmic scale.
    score = np.maximum(score, 1.0)
    odds = 0.5 * score**2 - np.log(score) + np.log(weights / weights.sum())[:, None]
    odds -= math.log(len(coarse))
    top = float(odds.max())
    chance = np.where(score > 1.0, np.exp(odds - top), 0.0)
    if top + math.log(max(float(chance.sum()), 1e-300)) < math.log(_LEAST_ODDS):
        return None
    # Unlikely ones are left out, because far places would decide the mean square norm.
    ranked = np.sort(chance, axis=None)[::-1]
    chance[chance < ranked[np.searchsorted(np.cumsum(ranked), _LIKELY * ranked.sum())]] = 0.0
    chance /= chance.sum()
    step = BINS_PER_OCTAVE // bins
    found = np.zeros(n_bins * step + finest.shape[1])
    for place, shape in np.argwhere(chance > 0.0).tolist():
        found[place * step : place * step + finest.shape[1]] += (
            chance[place, shape] * rows[place, shape] * finest[shape]
        )
    found = found[below * step :][: n_bins * step]
    total = float(found.sum())
    found[np.cumsum(found[::-1])[::-1] < _LEAST_TAIL * total] = 0.0
    found *= max(total, 1.0) / found.sum()
    return NormCounts(counts=found, variance=_ROWS_VARIANCE * noisy.deviation**2)


def _joined(noisy: NoisyCounts, octaves: NoisyCounts, moved: float) -> tuple[NoisyCounts, BoolArray]:
    """Octaves that hold rows by both histograms together, and the counts with what both say about these octaves.

    The noise of an octave is smaller in the first histogram, which has fewer bins. Its norms are about the origin. They
    are about the same as those about a center that is much nearer than the octave. Octaves beyond a gap are looked at
    if the last histogram shows where most rows are, and all octaves if it shows none.
    """
    above, fine = noisy.above, noisy.in_octaves()
    known = edges()[:-1:BINS_PER_OCTAVE] >= _FAR_FROM_CENTER * moved
    own, other = (noisy.bins_per_octave * noisy.deviation**2) ** -1.0, np.where(known, octaves.deviation**-2.0, 0.0)
    both, variance = (own * fine + other * octaves.counts) / (own + other), 1.0 / (own + other)
    if np.any(above):
        # Where only the last histogram counts, a group must stand out as clearly as any rows.
        far = _beyond_gap(above, fine, both, variance, noisy.noise) & (known | above)
    else:
        far = _window(both, variance, noisy.noise)
    counts = noisy.counts.reshape(-1, noisy.bins_per_octave) + (far * (both - fine) / noisy.bins_per_octave)[:, None]
    return replace(noisy, counts=counts.ravel()), far


def _beyond_gap(
    above: BoolArray, fine: FloatArray, both: FloatArray, variance: FloatArray, noise: NoiseLaw
) -> BoolArray:
    """Octaves with rows beyond a gap, seen from the run of octaves that holds most rows.

    An octave counts alone or together with the next one, since a cluster can lie on the edge between them.
    """
    run = np.cumsum(np.append(True, above[1:] != above[:-1]))
    bulk = np.argmax(np.bincount(run, np.where(above, fine, 0.0)))
    top = int(np.flatnonzero(run == bulk)[-1])
    place = np.arange(top + 2, min(top + _FAR_OCTAVES + 1, above.size - 1))
    weights = (place - top) ** -1.5
    bound = _bounds(noise, _FAR_RISK * weights / (2.0 * weights.sum()))
    alone = both[place] > bound * np.sqrt(variance[place])
    paired = both[place] + both[place + 1] > bound * np.sqrt(variance[place] + variance[place + 1])
    far = np.zeros_like(above)
    far[place] = alone | paired
    far[place + 1] |= paired & ~alone
    far[place] |= above[place]
    # The edge of a group may lie within the next octave.
    beside = np.append(False, far[:-1]) & (both > _BESIDE * np.sqrt(variance))
    beside[: top + 2] = False
    return far | beside


def _window(both: FloatArray, variance: FloatArray, noise: NoiseLaw) -> BoolArray:
    """The one to three neighbouring octaves that stand out most from the noise, if they do; else none."""
    # A wrong octave costs the more, the more extreme its norms are.
    weights, best, found = np.square(octave_weights(both.size)), 0.0, np.zeros(both.size, dtype=bool)
    weights /= weights.sum()
    for width in range(1, _MOST_WINDOW + 1):
        ones = np.ones(width)
        total, spread = np.convolve(both, ones, "valid"), np.sqrt(np.convolve(variance, ones, "valid"))
        bound = _bounds(noise, _WINDOW_RISK / _MOST_WINDOW * weights[: total.size])
        margin = total / spread - bound
        place = int(np.argmax(margin))
        if margin[place] > best:
            best, found = float(margin[place]), np.zeros(both.size, dtype=bool)
            found[place : place + width] = True
    return found


def _bounds(noise: NoiseLaw, chance: FloatArray) -> FloatArray:
    """Number of standard deviations that noise exceeds with these probabilities, at most."""
    if isinstance(noise, GaussianNoise):
        return np.asarray(-special.ndtri(chance))
    return np.asarray(-np.log(2.0 * chance) / math.sqrt(2.0))


def _bins_for(signal: float) -> int:
    """Bins per octave of the last histogram, for the number of rows over its noise. Fewer bins have less noise."""
    if signal > _MANY_ROWS:
        return BINS_PER_OCTAVE
    return _BINS_FOR_SOME_ROWS if signal > 0.0 else _BINS_FOR_FEW_ROWS


@dataclass(frozen=True, kw_only=True)
class _NormCounts(Fold):
    """Number of rows in each bin of norms, or their mass in steps."""

    uses_masses = True
    ball: Ball

    def of(self, block: Block) -> IntArray:
        return block.mass_in_bins(self.ball)


@dataclass(frozen=True, kw_only=True)
class _OctaveSums(Fold):
    """Number of rows in each half of an octave of norms, or their mass, and sums of rows by octave, in steps."""

    uses_masses = True
    ball: Ball

    def of(self, block: Block) -> IntArray:
        return block.octave_sums(self.ball)


def _first_pass(engine: Engine, origin: Ball, bits: BitSource) -> tuple[IntArray, IntArray]:
    """Number of rows in each bin of norms, and sums of rows by octave if no center is stated. Secret; one pass."""
    if origin.center is not None:
        return engine.fold_and_collect(_NormCounts(ball=origin), seeded=not bits.private), np.empty(0, dtype=np.int64)
    counts, sums = np.split(
        engine.fold_and_collect(_OctaveSums(ball=origin), seeded=not bits.private), [HALVES * N_OCTAVES]
    )
    return counts, sums.reshape(N_OCTAVES, -1)


def _norm_counts(engine: Engine, ball: Ball, bits: BitSource, share: float, draws: BitSource) -> IntArray:
    """Number of rows in each bin of norms, of all rows or of a sample with this share. Secret; one pass."""
    if share == 1.0:
        return engine.fold_again(_NormCounts(ball=ball), seeded=not bits.private)
    sample = engine.sample(Sampling(ball=ball, rule=UniformRule(rate=share)), draws)  # [note: survey-10]
    block = RowBlock(sample.rows, np.zeros(len(sample.rows), dtype=np.uint64))
    return _NormCounts(ball=replace(ball, center=None)).over(block)


def _sampled_share(engine: Engine, n_rows: float) -> float:
    """Share of the rows that the last histogram counts, for a released number of rows."""
    n_numbers = n_rows * engine.n_features
    return 1.0 if n_rows < _SAMPLED_FROM or n_numbers <= _HELD_NUMBERS else min(_SAMPLED_NUMBERS / n_numbers, 1.0)


def _noisy_counts(
    counts: IntArray, noise: NoiseLaw, lattice: Lattice, bits: BitSource, *, bins_per_octave: int
) -> NoisyCounts:
    """Noisy histogram of norms, whose counts are whole steps of a lattice."""
    # Merge neighbouring bins before the noise is drawn.
    counts = counts.reshape(2 * OCTAVES * bins_per_octave, -1).sum(axis=1)
    noisy = lattice.decode(noise.added_to(counts[:, None], lattice, bits)[:, 0])
    return NoisyCounts(counts=noisy, bins_per_octave=bins_per_octave, noise=noise)


def _noisy_mean(
    sums: IntArray, coarse: NormCounts, order: float, noise: SurveyNoise, bits: BitSource
) -> tuple[float, ...]:
    """Noisy sum of the clipped rows divided by the noisy number of rows, shrunk toward 0, clipped to the ball."""
    d = sums.shape[1]
    # The noise on a sum of rows within the unit ball. It is proportional to the radius.
    unit = noise.on_sum(noise.center_share, Ball(radius=1.0, order=order))
    rung = Rung(octave=_best_octave(coarse.counts, math.sqrt(d) * unit.deviation(d)), order=order)
    lattice = rung.lattice(unit.scale * rung.radius)
    ball = Ball(radius=rung.radius, order=order)
    law = noise.on_sum(noise.center_share, replace(ball, radius=rung.reach(lattice, d)))  # [note: survey-9]
    noisy = lattice.decode(law.added_to(rung.total(sums, lattice)[None, :], lattice, bits)[0])
    return tuple(ball.clip(shrunk_mean(noisy, law.deviation(d), coarse.n_rows)[None, :])[0].tolist())


def _best_octave(counts: FloatArray, spread: float) -> int:
    """The octave at whose upper edge the noise on a sum of clipped rows and their loss in length are least together."""
    radius = edges()[BINS_PER_OCTAVE::BINS_PER_OCTAVE]
    rows, length = (np.cumsum(mass[::-1])[::-1] for mass in (counts, counts * radius))
    # At each edge, the length that the rows from this octave outwards lose. Those of the octave itself lose none.
    lost = _TYPICAL_NORM * (length - rows * radius)
    return int(np.argmin(spread * radius + lost))


def shrunk_mean(noisy_sum: FloatArray, deviation: float, noisy_rows: float) -> FloatArray:
    """Mean from a noisy sum whose coordinates have a known deviation, shrunk toward 0 as James and Stein do."""
    square = float(np.square(noisy_sum / deviation).sum())
    kept = max(0.0, 1.0 - noisy_sum.size / square) if square > 0.0 else 0.0
    return np.asarray(kept * noisy_sum / noisy_rows)


def _unit_columns(d: int, order: float) -> FloatArray:
    """Counts used if no octave is above the noise: they assume columns of unit size, which is public."""
    typical = 2.0 * d ** (0.0 if math.isinf(order) else 1.0 / order)
    counts = np.zeros(N_BINS)
    counts[bin_of(np.array([typical]))] = 1.0
    return counts


def _norms_of(counts: FloatArray) -> NormDistribution:
    """Distribution of norms up to the last bin with rows. The rows of a merged bin are spread evenly over it."""
    width = N_BINS // counts.size
    fine = np.repeat(counts / width, width)
    last = int(np.flatnonzero(fine)[-1])
    return NormDistribution.from_histogram(edges(), fine, radius=float(edges()[last + 1]))
