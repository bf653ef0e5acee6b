"""Rounds of residual k-means without noise: whole steps, and the noise scales that would have been added to them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import mpmath as mp
import numpy as np
from numpy.typing import NDArray

from pais import GaussianNoise, LpNoise, laplace_noise
from pais._base.lattice import IntArray, Lattice
from pais._base.numerics import FloatArray
from pais._base.randomness import bit_source
from pais.data.engines.base import WeightedRows
from pais.kmeans.rounds import ResidualRound, ResidualSample
from pais.mechanisms.noise import NoiseLaw

MECHANISMS = ["gaussian", "l2", "laplace"]


def round_of(mechanism: str, *, radius: float = 1.0, flat: float = 0.3, **changes: Any) -> ResidualRound:
    laws: dict[str, tuple[NoiseLaw, NoiseLaw, NoiseLaw]] = {
        "gaussian": (GaussianNoise(scale=7.0), GaussianNoise(scale=11.0), GaussianNoise(scale=3.0)),
        "l2": (laplace_noise(7.0), laplace_noise(11.0), LpNoise(scale=3.0, p=2.0)),
        "laplace": (laplace_noise(7.0), laplace_noise(11.0), laplace_noise(3.0)),
    }
    count, distance, residual = laws[mechanism]
    settings = {"count_noise": count, "distance_noise": distance, "residual_noise": residual}
    return ResidualRound(**{**settings, "radius": radius, "flat_share": flat, **changes})


@dataclass(frozen=True, kw_only=True)
class Cells:
    """Public choices of a round: centers, clips, and the cells whose rows are summed whole."""

    centers: FloatArray
    clip: FloatArray
    whole: NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Steps:
    """Counts, distances and residual sums of the cells in whole steps, and the noise scales in those steps."""

    values: tuple[IntArray, IntArray, IntArray]
    scales: tuple[FloatArray, FloatArray, FloatArray]


@contextmanager
def without_noise() -> Iterator[tuple[list[IntArray], list[FloatArray]]]:
    """Noise of zero; collects the steps that are released and the scales that the noise should have had."""
    values: list[IntArray] = []
    scales: list[FloatArray] = []
    decode = Lattice.decode

    def zeros(law: object, shape: tuple[int, int], scale: FloatArray | float, bits: object) -> IntArray:
        scales.append(np.broadcast_to(np.asarray(scale, dtype=np.float64), (shape[0],)))
        return np.zeros(shape, dtype=np.int64)

    def recorded(lattice: Lattice, steps: IntArray) -> FloatArray:
        values.append(steps.copy())
        return decode(lattice, steps)

    with patch("pais.mechanisms.noise.rounded_noise", zeros), patch.object(Lattice, "decode", recorded):
        yield values, scales


def exact_steps(
    rows: FloatArray, weights: FloatArray, round_: ResidualRound, cells: Cells, *, largest_weight: float
) -> Steps:
    content = WeightedRows(rows=rows, weights=weights)
    with without_noise() as (values, scales):
        sample = ResidualSample(content, (round_,), n_rows=1000.0, largest_weight=largest_weight)
        sample.summarise(cells.centers, cells.clip, cells.whole, round_, bit_source(0))
    assert len(values) == len(scales) == 3
    return Steps(values=(values[0], values[1], values[2]), scales=(scales[0], scales[1], scales[2]))


def norm_of(values: Any, order: float) -> mp.mpf:
    """Norm in the working precision of mpmath; entries may be doubles or whole numbers."""
    numbers = [abs(mp.mpf(value)) for value in np.asarray(values).ravel().tolist()]
    return mp.fsum(numbers) if order == 1.0 else mp.sqrt(mp.fsum(value * value for value in numbers))


def loss_of(with_record: Steps, without: Steps, order: float, *, gaussian: bool) -> mp.mpf:
    """Privacy loss, or Gaussian shift, of two exact releases in one round."""
    cells: set[int] = set()
    parts = []
    for one, other, scale in zip(with_record.values, without.values, with_record.scales, strict=True):
        change = (one - other).reshape(len(scale), -1)
        for cell in np.flatnonzero(np.any(change != 0, axis=1)).tolist():
            cells.add(cell)
            parts.append(norm_of(change[cell], order) / mp.mpf(float(scale[cell])))
    assert len(cells) <= 1, "a record is in one cell"
    return mp.sqrt(mp.fsum(part * part for part in parts)) if gaussian else mp.fsum(parts)


def in_ball(rows: FloatArray, radius: float, order: float) -> FloatArray:
    """Rows scaled into the ball, by less than an ulp too much rather than too little."""
    norm = np.linalg.norm(rows, ord=order, axis=1)
    return np.asarray(rows * (radius * (1.0 - 2.0**-50) / np.maximum(norm, radius))[:, None])
