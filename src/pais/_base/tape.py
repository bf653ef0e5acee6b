"""A tape that records what a call releases, and can force it: the means of a replay audit."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any, Protocol

from pais._base.lattice import IntArray
from pais._base.numerics import FloatArray


class Tape(Protocol):
    """What a replay sees of a call: secret totals with their noise, choices, and the samples that were used."""

    #: Whether the audit is over. A task that a call has started may outlive it, and then makes ordinary releases.
    closed: bool

    def noisy(self, total: IntArray, noisy: IntArray, *, law: str, order: float, scales: FloatArray) -> IntArray:
        """Return the totals that leave, given the secret ones and those with noise.

        A row is one vector of whole steps; `scales` holds the scale of its noise in steps, in the norm `order`.
        """

    def chosen(self, scores: IntArray, choice: int, *, scale: float) -> int:
        """Return the candidate that leaves, given the secret scores and the candidate that was chosen."""

    def begin_sample(self, content: Any, plan: Any) -> None:
        """Note that the following draws are made from the content of a sample, drawn by the rule of a plan."""

    def end_sample(self) -> None:
        """Note that the sample is spent."""


#: The tape of this thread, or None. An audit sets it. A global variable would also record, and force, the releases of
#: other threads; the threads of `pais._base.threads` inherit the tape of the thread that gives them work.
TAPE: ContextVar[Tape | None] = ContextVar("TAPE", default=None)


def current_tape() -> Tape | None:
    """The tape of a running audit, or None."""
    tape = TAPE.get()
    return None if tape is None or tape.closed else tape


@contextlib.contextmanager
def on_sample(content: Any, plan: Any) -> Iterator[None]:
    """Tell the tape, if there is one, that the draws in this block are made from a sample."""
    tape = current_tape()
    if tape is None:
        yield
        return
    tape.begin_sample(content, plan)
    try:
        yield
    finally:
        tape.end_sample()
