"""The data's way in one function: who reads only this knows the system."""

from __future__ import annotations

from dataclasses import dataclass

from numpy.typing import ArrayLike

from pais import _validate
from pais.domain import Ball
from pais.mechanisms import Mechanism
from pais.norms import NormDistribution
from pais.randomness import RandomState, bit_source
from pais.release import Release, Spent, certified_epsilon, release
from pais.rules import Rule
from pais.sampler import Strategy, sample


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
    epsilon, delta : float
        The guarantee that is wanted of this release; delta is 0 for pure noise. A plan that costs more is refused
        when it is made.
    norms : NormDistribution, optional
        Where norms are thought to lie, for the expected size.
    spent : tuple of Spent
        What earlier releases on the same rows have cost.
    """

    ball: Ball
    rule: Rule
    mechanism: Mechanism
    epsilon: float
    delta: float = 0.0
    norms: NormDistribution | None = None
    spent: tuple[Spent, ...] = ()

    def __post_init__(self) -> None:
        budget = _validate.target_epsilon(self.epsilon)
        certified_epsilon(self.mechanism, self.rule, self.ball, delta=self.delta, budget=budget)


def run(plan: Plan, rows: ArrayLike, *, random_state: RandomState = None, strategy: Strategy = "auto") -> Release:
    """Rows in, a protected value and its certificate out.

    rows (secret) -> clipped to the ball (secret) -> kept with public probabilities (secret)
    -> computed and noised once (protected) -> released with a certificate (may leave).
    """
    _validate.instance("plan", plan, Plan, "Build one with pais.Plan(...).")
    bits = bit_source(random_state)
    kept = sample(rows, ball=plan.ball, rule=plan.rule, random_state=bits, strategy=strategy)
    return release(plan.mechanism, kept, epsilon=plan.epsilon, delta=plan.delta, spent=plan.spent, random_state=bits)
