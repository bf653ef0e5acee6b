"""Known mistakes in one-line statistics, each beside the right version.

NOT PRIVATE, on purpose. Nothing here is for use; it is here to be caught.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

import pais
from benchmarks.audit_cases import CLAIMED, Case, WeakGaussian, WeakLaplace
from benchmarks.audit_sums import SUM_DELTA
from pais._base.numerics import FloatArray
from pais.mechanisms.blocks import Levels, Split

# Two numbers and a column of two categories. The record has the largest numbers.
_ROWS = np.array([[0.0, 0.0, 1.4, 0.0], [-1.0, 0.5, 0.0, 1.4], [1.0, 1.0, 1.4, 0.0]])
_PAIR = pais.NeighbourPair(with_record=_ROWS, without_record=_ROWS[:2])
_BY = (Levels(column=2, n_levels=2, others=False),)


class WithoutFactors(pais.VectorStatistic):
    """Each of several columns has the noise of one column."""

    @property
    def _factors(self) -> FloatArray:
        return np.ones(sum(block.size for block in self.blocks))


def both(value: FloatArray) -> float:
    """The smaller of the two totals to which the record adds most."""
    return float(min(value[0, 1], value[0, 4]))


def summed(value: FloatArray) -> float:
    return float(value[0, 1] + value[0, 4])


def _statistic(kind: type[pais.VectorStatistic], gaussian: bool, weak: bool) -> dict[str, Any]:
    """A mean and a variance, by group, with the noise that the claim needs."""
    delta = SUM_DELTA if gaussian else 0.0
    right = pais.gaussian_noise(epsilon=CLAIMED, delta=delta) if gaussian else pais.laplace_noise(epsilon=CLAIMED)
    law = (WeakGaussian if gaussian else WeakLaplace) if weak else type(right)
    factor = float(np.nextafter(np.sqrt(2.0), 2.0)) if gaussian else 2.0
    blocks = tuple(replace(block, factor=factor) for block in (Split(column=0), Split(column=1, degree=2)))
    return {
        "target": kind(name="means", blocks=blocks, noise=law(scale=right.scale * (1.0 + 1e-9)), by=_BY),
        "rule": pais.UniformRule(rate=1.0),
        "ball": pais.Ball(radius=8.0),
        "delta": delta,
        "pair": _PAIR,
        "statistic": {"total": summed if gaussian else both},
    }


def weak_statistic(gaussian: bool, broken: bool) -> dict[str, Any]:
    return _statistic(pais.VectorStatistic, gaussian, broken)


def unpaid_columns(broken: bool) -> dict[str, Any]:
    return _statistic(WithoutFactors if broken else pais.VectorStatistic, False, False)


STATISTIC_CASES = tuple(
    Case(name=name, arguments=arguments, runs=runs, right_runs=8_000, slow=True)
    for name, runs, arguments in (
        ("statistics with 0.7 of their noise", 24_000, partial(weak_statistic, False)),
        ("statistics with 0.7 of their noise, Gaussian", 16_000, partial(weak_statistic, True)),
        ("two columns with the noise of one", 8_000, unpaid_columns),
    )
)
