"""Certified privacy curves of sampled Gaussian releases, in both directions, evaluated on a grid.

A record of norm z has the pair P = (1-q) N(0,1) + q N(mu,1), Q = N(0,1). Removing the record compares P with Q, and
adding it compares Q with P. The supremum of the divergences over z is again convex in e^epsilon, so it is the curve
of some pair that dominates every record.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pais._base.numerics import ULP, FloatArray, log_gaussian_delta, round_down, round_up
from pais.accounting.part import Part
from pais.data.ball import Ball
from pais.privacy.amplification import invert_delta, log_amplified_delta
from pais.privacy.profiles import ShiftProfile
from pais.privacy.rules import ConstrainedRule, Rule, UniformRule

# Log of a divergence, as a function of epsilons, shifts and probabilities.
_LogDelta = Callable[[FloatArray, FloatArray, FloatArray], FloatArray]

# Number of cells for a rule that is not constant between its breakpoints; number of knots in a group that is first
# bounded as a whole.
_CELLS, _GROUP = 4096, 64

# A bound within this factor of an attained value is not refined.
_CLOSE = 1.0 + 1e-5


@dataclass(frozen=True, kw_only=True)
class Pairs:
    """(probability, shift) pairs such that every record of the ball is dominated by one of them."""

    probability: FloatArray
    shift: FloatArray

    def epsilon_at(self, delta: float) -> float:
        """Return an epsilon beyond which no curve exceeds delta."""
        return float(np.max(invert_delta(np.full_like(self.shift, delta), self.shift, self.probability)))


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


def removing(pairs: Pairs, epsilon: FloatArray) -> FloatArray:
    """Upper bound at each epsilon >= 0 on the supremum over the pairs of the divergence of P from Q."""
    return _supremum(pairs, epsilon, log_amplified_delta)


def adding(pairs: Pairs, epsilon: FloatArray) -> FloatArray:
    """Upper bound at each epsilon >= 0 on the supremum over the pairs of the divergence of Q from P."""
    return _supremum(pairs, epsilon, log_added_delta)


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


def _supremum(pairs: Pairs, epsilon: FloatArray, log_delta: _LogDelta) -> FloatArray:
    """Bound each group of knots as a whole; evaluate each knot only where that bound is far above an attained value."""
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
    raised = np.exp(result) * (1.0 + 4 * ULP) + np.finfo(np.float64).smallest_subnormal
    return np.asarray(np.minimum(raised, 1.0))
