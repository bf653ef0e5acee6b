"""Threads of this process, threads of BLAS, and the identity of the process.

Values that must not be used twice are tied to the process that created them.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from threadpoolctl import ThreadpoolController

T = TypeVar("T")
U = TypeVar("U")


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# Has the attribute `in_pool` in threads of the pool.
_place = threading.local()


def in_threads(work: Callable[[T], U], tasks: Sequence[T]) -> list[U]:
    """Call `work` on every task and return the results in the order of the tasks.

    A thread of the pool does its own tasks: if it waited for the pool, all threads could wait for each other.
    """
    if len(tasks) == 1 or hasattr(_place, "in_pool") or cores() == 1:
        return [work(task) for task in tasks]
    pool = _threads(os.getpid(), cores())
    futures: list[Future[U]] = []
    try:
        for task in tasks:
            # A task sees the context variables of the calling thread, such as the tape of an audit.
            futures.append(pool.submit(contextvars.copy_context().run, work, task))
        return [future.result() for future in futures]
    finally:
        # After an error or Ctrl-C, do not start the remaining tasks.
        for future in futures:
            future.cancel()


def over_stream(work: Callable[[T], U], items: Iterable[T]) -> Iterator[U]:
    """Yield the results of `work` on every item, in order. The calling thread takes items, and the pool works on them.

    At most three items for each thread are held at a time.
    """
    n_threads = cores()
    if n_threads == 1 or hasattr(_place, "in_pool"):
        yield from map(work, items)
        return
    pool, waiting = _threads(os.getpid(), n_threads), deque[Future[U]]()
    try:
        for item in items:
            waiting.append(pool.submit(contextvars.copy_context().run, work, item))
            if len(waiting) >= 3 * n_threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()


@functools.lru_cache(maxsize=1)
def _threads(process: int, n_threads: int) -> ThreadPoolExecutor:
    """Return a pool that later calls reuse. A forked process does not inherit threads, so it makes its own pool."""
    return ThreadPoolExecutor(n_threads, initializer=lambda: setattr(_place, "in_pool", True))


@functools.cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController()


def one_blas_thread() -> contextlib.AbstractContextManager[object]:
    """Return a context in which BLAS uses one thread. The search for BLAS is slow, so its result is cached."""
    limit: contextlib.AbstractContextManager[object] = _blas().limit(limits=1, user_api="blas")
    return limit


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
