"""What all releases on a ledger cost together: a bound below the sum of their prices, and the loss of each row.

`tight_epsilon` gives every release a privacy curve and composes the curves with the package dp-accounting. The curve of
a sampled Gaussian release dominates every record of its ball; any other release enters with its price.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from pais._base.numerics import ULP, FloatArray, log_gaussian_delta, round_down, round_up
from pais.accounting.part import Part, total, up
from pais.data.ball import Ball, table_of
from pais.data.tables import from_array, read
from pais.errors import MismatchError, UnreachableError
from pais.privacy.amplification import SUBNORMAL, amplified_epsilon, epsilon_at_delta, invert_delta, log_amplified_delta
from pais.privacy.profiles import Profile, ShiftProfile
from pais.privacy.rules import ConstrainedRule, Rule, UniformRule

# Number of epsilons of a curve on each side of zero, and how strongly they are concentrated near zero, chosen by eye.
# The 2 n + 1 points stay below a thousand, the limit up to which the accountant keeps a curve unchanged.
_POINTS, _BEND = 490, 5.0

# Losses are multiples of a step. The step is a small share of the plain sum and of each part, with a lower limit that
# keeps memory use bounded: a plain sum has at most 300,000 steps. Chosen by eye (b915f36).
_OF_SUM, _OF_PART, _SMALLEST = 1.0 / 30000.0, 1.0 / 200.0, 1.0 / 300000.0

# Share of delta reserved for the probability beyond the ends of the curves. Chosen by eye.
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


def _accountant() -> tuple[ModuleType, ModuleType, ModuleType]:
    try:
        from dp_accounting.pld import common, pld_pmf, privacy_loss_distribution
    except ImportError:
        raise ImportError(
            "tight composition needs the extra pais[accounting]. Run: pip install 'pais[accounting]'"
        ) from None
    return common, pld_pmf, privacy_loss_distribution


def _composed(parts: Sequence[Part], delta: float, plain: float) -> float:
    """Epsilon at `delta` of the composition of the curves of all parts; infinite if there is none."""
    _, _, distributions = _accountant()
    left = delta - _HIDDEN * (len(parts) + 1)
    if left <= 0.0 or plain == 0.0:
        return math.inf
    least = min(part.epsilon for part in parts if part.epsilon > 0.0)
    step = max(min(_OF_SUM * plain, _OF_PART * least), _SMALLEST * plain)
    tail = left * _TAIL / len(parts)
    # Equal releases share one curve, which is then composed with itself.
    keys = [json.dumps(part.to_dict(), sort_keys=True) if part.is_complete else str(id(part)) for part in parts]
    first = dict(zip(reversed(keys), reversed(parts), strict=True))
    result = distributions.identity(value_discretization_interval=step)
    for key in dict.fromkeys(keys):
        result = result.compose(_curve(first[key], step, tail).self_compose(keys.count(key)))
    epsilon = float(result.get_epsilon_for_delta(left))
    return epsilon if math.isinf(epsilon) else epsilon * (1.0 + 1e-9)


def _curve(part: Part, step: float, tail: float) -> Any:
    """A privacy loss distribution that dominates a release, in both directions."""
    common, pmfs, distributions = _accountant()
    # A part that depends on an earlier release would have a different curve for a different earlier result, but the
    # same price. So use only its price.
    pairs = None if part.follows else pairs_of(part)
    if pairs is None:
        # Raise epsilon slightly, so that a quotient that rounds down does not lose a step.
        price = common.DifferentialPrivacyParameters(part.epsilon * (1.0 + 1e-12), part.delta)
        return distributions.from_privacy_parameters(price, value_discretization_interval=step)
    # Beyond this epsilon no curve exceeds the probability of the tail.
    end = float(np.max(invert_delta(np.full_like(pairs.shift, tail), pairs.shift, pairs.probability)))
    position = np.linspace(0.0, 1.0, _POINTS + 1)[1:]
    grid = np.sinh(_BEND * position) / math.sinh(_BEND) * end
    multiples = np.unique(np.ceil(grid / step).astype(np.int64))
    points = np.concatenate([-multiples[::-1], [0], multiples])
    # Chords between the points lie above a convex curve.
    return distributions.PrivacyLossDistribution(
        *(
            pmfs.create_pmf_pessimistic_connect_dots(step, points, np.minimum.accumulate(curve))
            for curve in _both(pairs, np.asarray(multiples * step, dtype=np.float64))
        )
    )


def _both(pairs: Pairs, epsilon: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Divergences at -epsilon, 0 and epsilon, for removing and for adding a record.

    At a factor a < 1, the divergence of P from Q is 1 - a plus a times the divergence of Q from P at 1/a.
    """
    at = np.append(0.0, epsilon)
    removed = largest_divergence(pairs, at, log_amplified_delta)
    added = largest_divergence(pairs, at, log_added_delta)

    def whole(positive: FloatArray, reverse: FloatArray) -> FloatArray:
        mirrored = -np.expm1(-epsilon) + np.exp(-epsilon) * reverse[1:]
        return np.append(np.minimum(mirrored, 1.0)[::-1], positive)

    # At factor 1 both divergences equal the total variation distance.
    removed[0] = added[0] = np.maximum(removed[0], added[0])
    return whole(removed, added), whole(added, removed)


# Log of a divergence, as a function of epsilons, shifts and probabilities.
_LogDelta = Callable[[FloatArray, FloatArray, FloatArray], FloatArray]

# Number of cells for a rule that is not constant between its breakpoints; number of knots in a group that is first
# bounded as a whole. Only speed depends on the second.
_CELLS, _GROUP = 4096, 64

# A bound within this factor of an attained value is not refined.
_CLOSE = 1.0 + 1e-5


@dataclass(frozen=True, kw_only=True)
class Pairs:
    """(probability, shift) pairs such that every record of the ball is dominated by one of them."""

    probability: FloatArray
    shift: FloatArray


def pairs_of(part: Part) -> Pairs | None:
    """Dominating pairs of a sampled Gaussian release; None for other releases.

    On a cell of norms, the loss is at most the loss at the largest probability, the largest weight and the largest
    norm together: the shift grows with weight and norm, and both divergences grow with the probability and the shift.
    """
    if part.rule is None or part.ball is None or not isinstance(part.profile, ShiftProfile):
        return None
    low, high = _cells(part.rule, part.ball)
    smallest, largest = part.rule.bounds(low, high)
    weight = 1.0 / round_down(smallest, 16.0)
    shift = part.profile.loss(weight, round_up(high, 16.0))
    return Pairs(probability=np.minimum(round_up(largest, 16.0), 1.0), shift=round_up(shift, 16.0))


def _cells(rule: Rule, ball: Ball) -> tuple[FloatArray, FloatArray]:
    if type(rule) is UniformRule:
        # All norms have the same probability, so the largest norm has the largest shift.
        return np.array([ball.radius]), np.array([ball.radius])
    points = rule.breakpoints(ball.radius)
    if type(rule) is not ConstrainedRule:
        points = np.union1d(points, np.linspace(0.0, ball.radius, _CELLS + 1))
    # The first cell, (0, 0], covers the norm 0 itself.
    return np.append(0.0, points[:-1]), np.append(0.0, points[1:])


def log_added_delta(epsilon: FloatArray, mu: FloatArray, probability: FloatArray) -> FloatArray:
    """log of (1 - e^epsilon (1-q)) G(kappa), kappa = e^epsilon q / (1 - e^epsilon (1-q)); -inf where that is not > 0.

    A larger first factor makes kappa smaller and G larger. So raising the first factor by more than its rounding error
    gives an upper bound on the result.
    """
    grown = np.expm1(np.minimum(epsilon, 700.0)) * (1.0 - probability)
    factor = probability - grown + 8 * ULP * (probability + grown)
    positive = (factor > 0.0) & (mu > 0.0)
    safe = np.where(positive, factor, 1.0)
    log_kappa = epsilon + np.log(probability) - np.log(safe)
    slack = 8 * ULP * (epsilon - np.log(probability) - np.log(safe) + 1.0)
    value, error = log_gaussian_delta(np.maximum(log_kappa - np.abs(slack), 0.0), np.where(positive, mu, 1.0))
    log_delta = np.maximum(np.log(safe) + value, -1e300)
    return np.where(positive, np.minimum(log_delta + error + 8 * ULP * np.abs(log_delta), 0.0), -np.inf)


def largest_divergence(pairs: Pairs, epsilon: FloatArray, log_delta: _LogDelta) -> FloatArray:
    """Upper bound at each epsilon >= 0 on a divergence, over all pairs.

    Each group of knots is bounded as a whole, and each knot evaluated only where that bound is far above an attained
    value.
    """
    n_groups = -(-pairs.shift.size // _GROUP)
    group = np.arange(pairs.shift.size) // _GROUP
    starts = np.arange(n_groups) * _GROUP
    largest_q = np.maximum.reduceat(pairs.probability, starts)
    largest_mu = np.maximum.reduceat(pairs.shift, starts)

    def values(eps: FloatArray, mu: FloatArray, q: FloatArray) -> FloatArray:
        shape = np.broadcast_shapes(eps.shape, mu.shape)
        return log_delta(*(np.ascontiguousarray(np.broadcast_to(array, shape)) for array in (eps, mu, q)))

    column = epsilon[:, None]
    upper = values(column, largest_mu, largest_q)
    ends = np.append(starts[1:] - 1, pairs.shift.size - 1)
    attained = values(column, pairs.shift[ends], pairs.probability[ends]).max(axis=1)
    unresolved = upper > attained[:, None] + np.log(_CLOSE)
    result = np.maximum(attained, np.where(unresolved, -np.inf, upper).max(axis=1))
    for number in range(n_groups):
        index = np.flatnonzero(unresolved[:, number])
        if index.size:
            members = group == number
            largest = values(column[index], pairs.shift[members], pairs.probability[members]).max(axis=1)
            result[index] = np.maximum(result[index], largest)
    # Add the smallest subnormal to stay above values that underflow.
    raised = np.exp(result) * (1.0 + 4 * ULP) + SUBNORMAL
    return np.asarray(np.minimum(raised, 1.0))


# Number of rows processed at a time.
_BLOCK_ROWS = 1 << 16


class RecordLosses(np.ndarray[Any, np.dtype[np.float64]]):
    """An epsilon for each row. NOT PROTECTED: the values depend on the rows and must stay with their owner."""

    protected = False

    def __repr__(self) -> str:
        return f"RecordLosses(NOT PROTECTED, of {self.size} rows: they depend on the rows and stay with their owner)"

    __str__ = __repr__


def record_loss(rule: Rule, profile: Profile, norm: FloatArray, *, delta: float) -> FloatArray:
    """Epsilon at a delta of records with the given norms, for a sampling rule and a loss profile."""
    probability = rule.probability(norm)
    loss = profile(1.0 / probability, norm)
    if delta > 0.0:
        return np.asarray(epsilon_at_delta(delta, loss, probability))
    return np.asarray(amplified_epsilon(loss, probability))


def losses_of_rows(parts: Sequence[Part], rows: object) -> RecordLosses:
    """Sum of each row's loss over the parts: its own loss if that is known, otherwise the certified price.

    A row with a non-finite value contributes to no release, so its loss is 0. With a schema or units it may contribute.
    """
    table = table_of(read(rows).rows if hasattr(rows, "__arrow_c_stream__") else from_array(rows))
    paid = np.zeros(table.shape[0])
    for part in parts:
        # The loss of a unit follows from all of its rows, and that of a scaled row from a schema: neither is known.
        if part.rule is None or part.profile is None or part.ball is None or part.unit or part.scaled:
            paid += part.epsilon
            continue
        table_of(table, part.ball)
        if part.n_features not in (None, table.shape[1]):
            raise MismatchError(
                f"rows have {table.shape[1]} column(s), but a release on the ledger had {part.n_features}. Pass the "
                "same columns, in the same order and units."
            )
        for start in range(0, table.shape[0], _BLOCK_ROWS):
            block = slice(start, start + _BLOCK_ROWS)
            norms = np.nan_to_num(part.ball.norms(part.ball.shift(table[block])))
            # The certified price holds for every record, so a loss above it is a rounding error.
            own = record_loss(part.rule, part.profile, norms, delta=part.delta)
            paid[block] += np.minimum(own, part.epsilon)
    if not any(part.scaled or part.unit for part in parts):
        paid[~np.isfinite(table).all(axis=1)] = 0.0
    return round_up(paid, 4.0 + len(parts)).view(RecordLosses)
