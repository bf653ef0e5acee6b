"""Composition of privacy curves with the dp-accounting package. No other module imports that package."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pais._base.numerics import FloatArray

try:
    from dp_accounting.pld import common, pld_pmf, privacy_loss_distribution
except ImportError:
    raise ImportError(
        "tight composition needs the extra pais[accounting]. Run: pip install 'pais[accounting]'"
    ) from None


@dataclass(frozen=True)
class Curve:
    """A privacy loss distribution that dominates a release, in both directions."""

    distribution: Any

    @classmethod
    def of_price(cls, epsilon: float, delta: float, step: float) -> Curve:
        """Return a curve that dominates every (epsilon, delta)-private release."""
        # Raise epsilon slightly, so that a quotient that rounds down does not lose a step.
        price = common.DifferentialPrivacyParameters(epsilon * (1.0 + 1e-12), delta)
        return cls(privacy_loss_distribution.from_privacy_parameters(price, value_discretization_interval=step))

    @classmethod
    def of_divergences(cls, removed: FloatArray, added: FloatArray, multiples: NDArray[np.int64], step: float) -> Curve:
        """Build a curve from divergences at -m, 0 and m steps, joined by chords, which lie above a convex curve."""
        points = np.concatenate([-multiples[::-1], [0], multiples])
        pmfs = [
            pld_pmf.create_pmf_pessimistic_connect_dots(step, points, np.minimum.accumulate(curve))
            for curve in (removed, added)
        ]
        return cls(privacy_loss_distribution.PrivacyLossDistribution(*pmfs))


def compose(curves: Sequence[tuple[Curve, int]], *, step: float, delta: float) -> float:
    """Epsilon at delta of the composition of all curves, each repeated the given number of times."""
    result = privacy_loss_distribution.identity(value_discretization_interval=step)
    for curve, times in curves:
        result = result.compose(curve.distribution.self_compose(times))
    epsilon = float(result.get_epsilon_for_delta(delta))
    return epsilon if math.isinf(epsilon) else epsilon * (1.0 + 1e-9)
