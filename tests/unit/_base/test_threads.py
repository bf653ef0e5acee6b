"""Work in threads: order of results, errors, and tasks that have tasks of their own."""

from __future__ import annotations

import threading

import pytest

from pais._base import threads
from pais._base.threads import in_threads


def test_results_have_the_order_of_the_tasks() -> None:
    assert in_threads(lambda task: 2 * task, range(50)) == list(range(0, 100, 2))


def test_tasks_of_tasks_do_not_wait_for_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """With two threads, both of them busy, a task that waited for the pool would wait forever."""
    monkeypatch.setattr(threads, "cores", lambda: 2)
    both = threading.Barrier(2)

    def outer(task: int) -> int:
        both.wait(timeout=30.0)
        return sum(in_threads(lambda inner: task + inner, range(10)))

    results: list[list[int]] = []
    runner = threading.Thread(target=lambda: results.append(in_threads(outer, [0, 100])), daemon=True)
    runner.start()
    runner.join(timeout=60.0)
    assert results == [[45, 1045]]


def test_an_error_reaches_the_caller() -> None:
    def work(task: int) -> None:
        raise ValueError(task)

    with pytest.raises(ValueError, match="0"):
        in_threads(work, range(4))
