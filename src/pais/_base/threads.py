"""Work shared among the cores this process may use."""

from __future__ import annotations

import contextlib
import functools
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from threadpoolctl import ThreadpoolController

T = TypeVar("T")
U = TypeVar("U")


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_threads(work: Callable[[T], U], tasks: Sequence[T]) -> list[U]:
    """The work of every task, in order."""
    return list(results(work, tasks))


def results(work: Callable[[T], U], tasks: Sequence[T]) -> Iterator[U]:
    """The work of every task, in order, each as soon as those before it are done; few are ahead of the reader."""
    number = cores()
    if len(tasks) == 1 or number == 1:
        yield from map(work, tasks)
        return
    pool = _threads(os.getpid(), number)
    waiting: deque[Future[U]] = deque()
    try:
        for task in tasks:
            waiting.append(pool.submit(work, task))
            if len(waiting) > 2 * number:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        # After an error or Ctrl-C nothing more is begun.
        for future in waiting:
            future.cancel()


@functools.lru_cache(maxsize=1)
def _threads(process: int, number: int) -> ThreadPoolExecutor:
    """Threads that are kept; a forked process has none of its parent's, so it makes its own."""
    return ThreadPoolExecutor(number)


@functools.cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController()


def one_blas_thread() -> contextlib.AbstractContextManager[object]:
    """A context in which BLAS has one thread. Libraries are looked up once: that takes longer than a small table."""
    found: contextlib.AbstractContextManager[object] = _blas().limit(limits=1, user_api="blas")
    return found
