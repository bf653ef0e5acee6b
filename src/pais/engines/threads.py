"""Work shared among the cores this process may use."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
U = TypeVar("U")


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_threads(work: Callable[[T], U], tasks: Sequence[T]) -> list[U]:
    """The work of every task, in order."""
    if len(tasks) == 1 or cores() == 1:
        return [work(task) for task in tasks]
    pool = _threads(os.getpid(), cores())
    futures = [pool.submit(work, task) for task in tasks]
    try:
        return [future.result() for future in futures]
    finally:
        # After an error or Ctrl-C nothing more is begun.
        for future in futures:
            future.cancel()


@functools.lru_cache(maxsize=1)
def _threads(process: int, number: int) -> ThreadPoolExecutor:
    """Threads that are kept; a forked process has none of its parent's, so it makes its own."""
    return ThreadPoolExecutor(number)
