"""Bins of non-negative numbers that do not depend on the data: twelve to the octave, from 2^-100 to 2^100."""

from __future__ import annotations

import functools
from collections.abc import Callable
from decimal import Context, Decimal

import numpy as np
from numpy.typing import NDArray

from pais._base.numerics import FloatArray

# Twelve bins per octave, from 2^-100 to 2^100. The edges do not depend on the data.
BINS_PER_OCTAVE = 12
OCTAVES = 100
N_BINS = 2 * OCTAVES * BINS_PER_OCTAVE

# A cell of norms: all doubles with the same exponent and the same first five bits of the fraction.
_CELL_SHIFT = 47
_CELLS_PER_OCTAVE = 32
_LOWEST_CELL = (1023 - OCTAVES) * _CELLS_PER_OCTAVE

# A cell of powers: all doubles with the same exponent and the same first ten bits of the fraction.
_POWER_SHIFT = 42
_POWER_CELLS = 1024

# Larger than every relative difference between a rough norm and the norm in the fixed order, rounded up.
_SLACK = 2.0**-20

#: Upper edge of the last bin, to which larger numbers belong too.
WIDEST = 2.0**OCTAVES


def bin_of(norm: FloatArray) -> NDArray[np.intp]:
    """Index of the bin of each norm: its lower edge is at most the norm, and its upper edge is above the norm.

    This uses only bits and comparisons, because a logarithm can round differently at different places in an array.
    """
    cell = norm.view(np.int64) >> _CELL_SHIFT
    cell -= _LOWEST_CELL
    index = _first_bins().take(cell, mode="clip")
    index += edges()[1:].take(index) <= norm  # [note: survey-6]
    return np.minimum(index, N_BINS - 1, out=index)


def bins_of_powers(
    power: FloatArray, bins_per_octave: int, *, squared: bool, norms_at: Callable[[NDArray[np.intp]], FloatArray]
) -> NDArray[np.int16]:
    """Bin of the norm of each row, from its rough power; the number of bins for rows whose norm is NaN.

    The powers are norms, or their squares. The bin of most rows is that of every norm in the cell of their power. For
    the others, `norms_at` computes the norms, and these decide.
    """
    cell = (power.view(np.uint64) >> np.uint64(_POWER_SHIFT)).view(np.int64)
    cell -= (1023 - (2 if squared else 1) * OCTAVES) * _POWER_CELLS
    bins = _sure_bins(bins_per_octave, squared).take(cell, mode="clip")
    unsure = np.flatnonzero(bins < 0)
    if unsure.size:
        norm = norms_at(unsure)
        exact = bin_of(norm) // (BINS_PER_OCTAVE // bins_per_octave)
        bins[unsure] = np.where(np.isnan(norm), 2 * OCTAVES * bins_per_octave, exact)  # [note: survey-5]
    return bins


@functools.cache
def _sure_bins(bins_per_octave: int, squared: bool) -> NDArray[np.int16]:
    """The bin of all norms whose power is in a cell, or -1 if an edge is in it or near it.

    Smaller powers belong to the first cell, and larger ones, infinities and NaN to the last one, which has no bin.
    """
    octaves = 2 if squared else 1
    starts = np.ldexp(1.0 + np.arange(_POWER_CELLS) / _POWER_CELLS, np.arange(octaves)[:, None]).ravel()
    ends = np.append(starts[1:], 2.0**octaves)
    low, high = (
        bin_of((np.sqrt(power) if squared else power) * room) // (BINS_PER_OCTAVE // bins_per_octave)
        for power, room in ((starts, 1.0 - _SLACK), (ends, 1.0 + _SLACK))
    )
    first = OCTAVES * bins_per_octave
    sure = np.where(low == high, low - first, -2 * first)
    bins = np.maximum(sure + bins_per_octave * np.arange(2 * OCTAVES)[:, None], -1).ravel()
    # The first bin begins at zero.
    bins[0] = 0
    return bins.astype(np.int16)


def octave_of(size: FloatArray) -> NDArray[np.intp]:
    """Index of the octave of each nonnegative number: that of its bin, without the bins within it."""
    octave = size.view(np.int64) >> 52
    octave -= 1023 - OCTAVES
    return np.clip(octave, 0, 2 * OCTAVES - 1, out=octave)


@functools.cache
def edges() -> FloatArray:
    """Edges of the bins, correctly rounded, so that they are the same on every machine."""
    context = Context(prec=40)
    shares = [context.divide(Decimal(k), Decimal(BINS_PER_OCTAVE)) for k in range(BINS_PER_OCTAVE)]
    ratios = [float(context.power(Decimal(2), share)) for share in shares]
    octaves = np.arange(-OCTAVES, OCTAVES)[:, None]
    points: FloatArray = np.append(np.ldexp(np.array(ratios), octaves), 2.0**OCTAVES)
    points[0] = 0.0
    points.flags.writeable = False
    return points


@functools.cache
def _first_bins() -> NDArray[np.intp]:
    """The bin in which each cell of norms begins. Bins are wider than cells, so no cell contains two edges."""
    cells = _LOWEST_CELL + np.arange(2 * OCTAVES * _CELLS_PER_OCTAVE, dtype=np.int64)
    starts = (cells << _CELL_SHIFT).view(np.float64)
    return np.searchsorted(edges(), starts, side="right") - 1
