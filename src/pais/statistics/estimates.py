"""Means, variances and quartiles from noisy totals. All totals are arrays whose last axis holds the coordinates."""

from __future__ import annotations

import numpy as np

from pais._base.numerics import FloatArray
from pais.statistics.table import Field


def largest(field: Field) -> float:
    return max(abs(field.low), abs(field.high))


def equal_bins(field: Field, n_bins: int) -> FloatArray:
    """Edges of bins of equal width, without digits that are rounding errors."""
    edges = np.linspace(field.low, field.high, n_bins + 1)
    inner = [float(f"{edge:.12g}") for edge in edges[1:-1]]
    return np.array([field.low, *inner, field.high])


def shares(part: FloatArray) -> FloatArray:
    """Shares of noisy counts; equal shares if no count is positive."""
    counts = np.maximum(part, 0.0)
    total = counts.sum(axis=-1, keepdims=True)
    return np.where(total > 0.0, counts / np.where(total > 0.0, total, 1.0), 1.0 / part.shape[-1])


def mean_place(part: FloatArray, n: FloatArray | None) -> FloatArray:
    """Mean place between the bounds, from the two totals of a split or from one total of coordinates in [-1, 1].

    If the number of cells `n` is known from other totals too, only the difference of the two totals is used.
    """
    if n is None:
        return shares(part)[..., 1:]
    total = part if part.shape[-1] == 1 else part[..., 1:] - part[..., :1]
    return np.clip(0.5 + 0.5 * total / np.maximum(n, 1.0), 0.0, 1.0)


def mean_and_variance(part: FloatArray, field: Field) -> tuple[FloatArray, FloatArray]:
    """Mean and variance in own units, from the totals of a split or of categories."""
    n = np.maximum(part.sum(axis=-1, keepdims=True), 2.0)
    if field.is_listed or field.is_truth:
        share = shares(part) if field.is_listed else shares(part)[..., 1:]
        return share, share * (1.0 - share) * n / (n - 1.0)
    mean = np.clip((0.5 * part[..., 1:2] + part[..., 2:]) / n, 0.0, 1.0)
    square = part[..., 2:] / n
    variance = np.clip(square - mean * mean, 0.0, mean * (1.0 - mean)) * n / (n - 1.0)
    return field.low + field.width * mean, field.width**2 * variance


def quartiles_of(part: FloatArray, n: FloatArray, edges: FloatArray) -> FloatArray:
    """Quartiles from counts in bins, with the edges of all bins, and the number of cells."""
    below = np.cumsum(part, axis=-1)
    # Counts below and above an edge both tell the number of cells below it; this weighs them by their noise.
    below -= np.linspace(0.0, 1.0, part.shape[-1] + 1)[1:] * (below[..., -1:] - n)
    # A noisy distribution function is made to increase, by the mean of the nearest ones above and below that do.
    above = np.maximum.accumulate(below, axis=-1)
    under = np.minimum.accumulate(below[..., ::-1], axis=-1)[..., ::-1]
    below = np.concatenate([np.zeros_like(n), np.maximum(0.5 * (above + under), 0.0)], axis=-1)
    quartiles = []
    for level in (0.25, 0.5, 0.75):
        target = level * below[..., -1:]
        bin_of = np.clip((below[..., 1:] < target).sum(axis=-1, keepdims=True), 0, part.shape[-1] - 1)
        low, high = (np.take_along_axis(below, bin_of + offset, axis=-1) for offset in (0, 1))
        within = np.where(high > low, (target - low) / np.where(high > low, high - low, 1.0), 0.5)
        quartiles.append(edges[bin_of] + np.clip(within, 0.0, 1.0) * np.diff(edges)[bin_of])
    return np.concatenate(quartiles, axis=-1)
