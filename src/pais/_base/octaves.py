"""Bins of non-negative numbers that do not depend on the data: twelve to the octave, from 2^-100 to 2^100."""

from __future__ import annotations

import functools
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
