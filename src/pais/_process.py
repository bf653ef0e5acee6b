"""Which process this is: values that must not be used twice stay in the process that made them."""

from __future__ import annotations

import os

Identity = tuple[int, int]

# Forks between the first process of this lineage and this one. Process ids alone are not enough: the system gives the
# id of a process that ended to a later one.
_n_forks = 0


def _count_fork() -> None:
    global _n_forks
    _n_forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_count_fork)


def identity() -> Identity:
    """A value that is the same throughout a process, and different in every process forked from it."""
    return os.getpid(), _n_forks
