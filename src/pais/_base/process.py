"""Identity of the current process. Values that must not be used twice are tied to the process that created them."""

from __future__ import annotations

import os

Identity = tuple[int, int]

# Number of forks from the original process to this one. Process ids alone are not enough, because the system
# reuses the id of a process that has ended.
_n_forks = 0


def _count_fork() -> None:
    global _n_forks
    _n_forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_count_fork)


def identity() -> Identity:
    """Return a value that is constant within a process and different in every process forked from it."""
    return os.getpid(), _n_forks
