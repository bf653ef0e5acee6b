"""A tape that records what a call releases, and can force it: the means of a replay audit."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Protocol

from pais._base.lattice import IntArray
from pais._base.numerics import FloatArray


class Tape(Protocol):
    """What a replay sees of a call: secret totals with their noise, choices, and the moment a sample is used."""

    def noisy(self, total: IntArray, noisy: IntArray, *, law: str, order: float, scales: FloatArray) -> IntArray:
        """Return the totals that leave, given the secret ones and those with noise.

        A row is one vector of whole steps; `scales` holds the scale of its noise in steps, in the norm `order`.
        """

    def chosen(self, scores: IntArray, choice: int, *, scale: float) -> int:
        """Return the candidate that leaves, given the secret scores and the candidate that was chosen."""

    def sampled(self, *, keeps_all: bool) -> None:
        """Note that what follows is computed from a sample."""


#: The tape of this thread, or None. It is set by an audit only.
TAPE: ContextVar[Tape | None] = ContextVar("TAPE", default=None)
