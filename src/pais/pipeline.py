"""The data's way in one function: who reads only this knows the system."""

from __future__ import annotations

from dataclasses import dataclass

from numpy.typing import ArrayLike

from pais.domain import Ball
from pais.mechanisms import Mechanism
from pais.randomness import RandomState, bit_source
from pais.release import Release, release
from pais.rules import Rule
from pais.sampler import sample


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Everything that is decided before a row is seen. Public.

    Attributes
    ----------
    ball : Ball
        Bounds the rows.
    rule : Rule
        Gives each norm its probability.
    mechanism : Mechanism
        Computes and protects; its profile says what a record pays.
    delta : float
        The delta at which epsilon is certified; 0 for pure noise.
    """

    ball: Ball
    rule: Rule
    mechanism: Mechanism
    delta: float = 0.0


def run(plan: Plan, rows: ArrayLike, *, random_state: RandomState = None) -> Release:
    """Rows in, a protected value and its certificate out.

    rows (secret) -> clipped to the ball (secret) -> kept with public probabilities (secret)
    -> computed and noised once (protected) -> released with a certificate (may leave).
    """
    bits = bit_source(random_state)
    kept = sample(rows, ball=plan.ball, rule=plan.rule, random_state=bits)
    return release(plan.mechanism, kept, delta=plan.delta, random_state=bits)
