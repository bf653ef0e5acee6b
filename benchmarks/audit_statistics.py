"""Known mistakes in one-line statistics, quantiles and geometric noise, each beside the right version.

NOT PRIVATE, on purpose. Nothing here is for use; it is here to be caught.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import pais
from benchmarks.audit_cases import CLAIMED, Case, WeakGaussian, WeakLaplace
from benchmarks.audit_sums import SUM_DELTA
from pais._base.lattice import IntArray, Lattice
from pais._base.numerics import FloatArray
from pais._base.randomness import BitSource
from pais.mechanisms.blocks import Bins, Split
from pais.mechanisms.quantiles import Grid, GridQuantiles, QuantileValue

_ALL_ROWS = pais.UniformRule(rate=1.0)
_BALL = pais.Ball(radius=2.0)

# Two columns at their upper bounds, where a row adds to one coordinate of each block.
_PAIR = pais.NeighbourPair.of([1.0, 1.0], [[-1.0, -1.0]], name="record at the bounds")


@dataclass(frozen=True, kw_only=True)
class WeakGeometric(pais.GeometricNoise):
    """Geometric noise of 0.7 of the scale it states."""

    def draw_steps(
        self, shape: tuple[int, int], lattice: Lattice, bits: BitSource, *, unit: FloatArray | float = 1.0
    ) -> IntArray:
        return pais.GeometricNoise(scale=0.7 * self.scale, step=self.step).draw_steps(shape, lattice, bits, unit=unit)


class FullNoiseOnce(pais.VectorStatistic):
    """Every block has the noise of a count that is released alone."""

    @property
    def _factors(self) -> FloatArray:
        return np.ones(sum(block.size for block in self.blocks))


class WeakSelection(GridQuantiles):
    """Scores with noise of 0.7 of its scale."""

    def _scale(self, level: Any, price: Any) -> float:
        return 0.7 * super()._scale(level, price)


def geometric_count(broken: bool) -> dict[str, Any]:
    noise = (WeakGeometric if broken else pais.GeometricNoise)(scale=1.0 / CLAIMED)
    return {"target": pais.WeightedCount(noise=noise), "rule": _ALL_ROWS, "ball": _BALL}


def weak_histogram(broken: bool) -> dict[str, Any]:
    noise = (WeakGeometric if broken else pais.GeometricNoise)(scale=1.0 / CLAIMED)
    mechanism = pais.VectorStatistic(name="histogram", blocks=(Bins(column=0, edges=(-0.5, 0.5)),), noise=noise)
    return {"target": mechanism, "rule": _ALL_ROWS, "ball": _BALL, "pair": _PAIR}


def weak_means(gaussian: bool, broken: bool) -> dict[str, Any]:
    if gaussian:
        scale = pais.gaussian_noise(epsilon=CLAIMED, delta=SUM_DELTA).scale
        mechanism = _means((WeakGaussian if broken else pais.GaussianNoise)(scale=scale), factor=2.0**0.5 * (1 + 1e-15))
    else:
        mechanism = _means((WeakLaplace if broken else pais.LpNoise)(scale=1.0 / CLAIMED, p=1.0), factor=2.0)
    return _means_arguments(mechanism, SUM_DELTA if gaussian else 0.0)


def uncharged_blocks(broken: bool) -> dict[str, Any]:
    mechanism = _means(pais.laplace_noise(1.0 / CLAIMED), factor=2.0, kind=FullNoiseOnce if broken else None)
    return _means_arguments(mechanism, 0.0)


def _means(noise: pais.NoiseLaw, *, factor: float, kind: type[pais.VectorStatistic] | None = None) -> Any:
    blocks = tuple(Split(column=column, factor=factor) for column in (0, 1))
    return (kind or pais.VectorStatistic)(name="means", blocks=blocks, noise=noise)


def _means_arguments(mechanism: pais.VectorStatistic, delta: float) -> dict[str, Any]:
    """The record adds 1 to the upper totals of both columns, which are 0 without it."""

    def evidence(value: Any) -> float:
        upper, size = value[0, [1, 3]], mechanism.noise.scale * mechanism.blocks[0].factor
        if delta > 0.0:
            return float(upper.sum())
        return round(float(np.sum(np.abs(upper) - np.abs(upper - 1.0)) / size), 9)

    return {
        "target": mechanism,
        "rule": _ALL_ROWS,
        "ball": _BALL,
        "pair": _PAIR,
        "delta": delta,
        "statistic": {"evidence of both columns": evidence},
    }


def weak_quantile(broken: bool) -> dict[str, Any]:
    """A median between two points, with two rows between them: a record moves their scores in opposite directions."""
    grid = Grid(column=0, center=0.0, scale=1.0, step=2.0, first=-0.5, n_points=2)
    mechanism = (WeakSelection if broken else GridQuantiles)(epsilon=2.0 * CLAIMED, levels=(0.5,), grids=(grid,))
    pair = pais.NeighbourPair.of([1.0, 0.0], [[0.0, 0.0], [0.0, 0.0]], name="record at a point")

    def chosen(value: Any) -> float:
        assert isinstance(value, QuantileValue)
        return float(value.values[0, 0, 0])

    return {"target": mechanism, "rule": _ALL_ROWS, "ball": _BALL, "pair": pair, "statistic": {"median": chosen}}


STATISTIC_CASES = (
    Case(name="geometric count with 0.7 of its noise", arguments=geometric_count),
    *(
        Case(name=name, arguments=arguments, runs=runs, right_runs=8_000, slow=True)
        for name, runs, arguments in (
            ("histogram with 0.7 of its noise", 16_000, weak_histogram),
            ("means with 0.7 of their noise", 24_000, partial(weak_means, False)),
            ("means with 0.7 of their noise, Gaussian", 8_000, partial(weak_means, True)),
            ("blocks that each have the noise of one", 8_000, uncharged_blocks),
            ("quantile with 0.7 of its noise", 16_000, weak_quantile),
        )
    ),
)
