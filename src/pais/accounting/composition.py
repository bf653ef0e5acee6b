"""Privacy bound for all releases on a ledger together, tighter than the sum of their prices."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pais._base.numerics import FloatArray
from pais.accounting.amounts import total, up
from pais.accounting.curves import Pairs, adding, pairs_of, removing
from pais.accounting.part import Part
from pais.errors import UnreachableError

if TYPE_CHECKING:
    # This module needs an optional package.
    from pais.accounting.pld import Curve

# Number of epsilons of a curve on each side of zero, and how strongly they are concentrated near zero. The 2 n + 1
# points stay below a thousand, the limit up to which the accountant keeps a curve unchanged.
_POINTS, _BEND = 490, 5.0

# Losses are multiples of a step. The step is a small share of the plain sum and of each part, with a lower limit that
# keeps memory use bounded.
_OF_SUM, _OF_PART, _SMALLEST = 1.0 / 30000.0, 1.0 / 200.0, 1.0 / 300000.0

# Share of delta reserved for the probability beyond the ends of the curves.
_TAIL = 1e-4

# Upper limit of the rounding error in each of the accountant's convolutions.
_HIDDEN = 1e-14


def tight_epsilon(parts: Sequence[Part], delta: float) -> float:
    """Epsilon at `delta` of all parts together: the smaller of the plain sum and the composed privacy curves."""
    if not parts:
        return 0.0
    plain = up(total(part.epsilon for part in parts))
    covered = up(total(part.delta for part in parts)) <= delta
    if delta == 0.0 and covered:
        return plain
    try:
        composed = _composed(parts, delta, plain)
    except (ArithmeticError, ValueError, MemoryError):
        # The prices or losses differ so much that no single grid of losses can hold them all.
        composed = math.inf
    best = min(composed, plain) if covered else composed
    if math.isinf(best):
        raise UnreachableError(
            f"the releases have no finite epsilon at delta={delta!r}. Pass a larger delta.",
            reachable=up(total(part.delta for part in parts)),
        )
    return best


def _composed(parts: Sequence[Part], delta: float, plain: float) -> float:
    from pais.accounting.pld import compose

    left = delta - _HIDDEN * (len(parts) + 1)
    if left <= 0.0 or plain == 0.0:
        return math.inf
    least = min(part.epsilon for part in parts if part.epsilon > 0.0)
    step = max(min(_OF_SUM * plain, _OF_PART * least), _SMALLEST * plain)
    tail = left * _TAIL / len(parts)
    curves: dict[str, tuple[Curve, int]] = {}
    for part in parts:
        # Equal releases share one curve, which is then composed with itself.
        key = json.dumps(part.to_dict(), sort_keys=True) if part.is_complete else str(id(part))
        known = curves.get(key)
        curve = known[0] if known else _curve(part, step, tail)
        curves[key] = curve, 1 + (known[1] if known else 0)
    return compose(list(curves.values()), step=step, delta=left)


def _curve(part: Part, step: float, tail: float) -> Curve:
    from pais.accounting.pld import Curve

    # A part that depends on an earlier release would have a different curve for a different earlier result, but the
    # same price. So use only its price.
    pairs = None if part.follows else pairs_of(part)
    if pairs is None:
        return Curve.of_price(part.epsilon, part.delta, step)
    end = pairs.epsilon_at(tail)
    multiples = np.unique(np.ceil(_grid(end) / step).astype(np.int64))
    return Curve.of_divergences(*_both(pairs, np.asarray(multiples * step, dtype=np.float64)), multiples, step)


def _grid(end: float) -> FloatArray:
    position = np.linspace(0.0, 1.0, _POINTS + 1)[1:]
    return np.asarray(np.sinh(_BEND * position) / math.sinh(_BEND) * end)


def _both(pairs: Pairs, epsilon: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Divergences at -epsilon, 0 and epsilon, for removing and for adding a record.

    At a factor a < 1, the divergence of P from Q is 1 - a plus a times the divergence of Q from P at 1/a.
    """
    at = np.append(0.0, epsilon)
    removed, added = removing(pairs, at), adding(pairs, at)

    def whole(positive: FloatArray, reverse: FloatArray) -> FloatArray:
        mirrored = -np.expm1(-epsilon) + np.exp(-epsilon) * reverse[1:]
        return np.append(np.minimum(mirrored, 1.0)[::-1], positive)

    # At factor 1 both divergences equal the total variation distance.
    removed[0] = added[0] = np.maximum(removed[0], added[0])
    return whole(removed, added), whole(added, removed)
