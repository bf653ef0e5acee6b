"""A weighted sample is spent once: by one thread, and only in the process that drew it."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor, TimeoutError as Late
from typing import Any

import numpy as np
import pytest

import pais
from pais._base import threads as process

BALL = pais.Ball(radius=1.0)
MECHANISM = pais.WeightedCount(noise=pais.GaussianNoise(scale=20.0))
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork there")
# Python 3.12 warns of a fork while other threads run; the child here only spends and ends.
quiet_fork = pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")


def drawn() -> pais.WeightedSample:
    return pais.sample(np.ones((4, 2)), ball=BALL, rule=pais.UniformRule(rate=0.5))


def in_fork(work: Any) -> str:
    """What `work` returns in a forked child, or the name and text of its error."""
    end, other_end = os.pipe()
    child = os.fork()
    if child == 0:
        # A child that waits for a lock nobody holds is ended, and the test fails instead of hanging.
        signal.alarm(20)
        try:
            answer = str(work())
        except BaseException as error:
            answer = f"{type(error).__name__}: {error}"
        os.write(other_end, answer.encode())
        os._exit(0)
    os.close(other_end)
    os.waitpid(child, 0)
    with os.fdopen(end) as pipe:
        return pipe.read()


def _release_to(queue: Any, sample: pais.WeightedSample, ledger: pais.Ledger) -> None:
    try:
        pais.release(MECHANISM, sample, delta=1e-6, ledger=ledger)
        queue.put("released")
    except pais.PaisError as error:
        queue.put(type(error).__name__)


@needs_fork
@quiet_fork
def test_forked_children_cannot_spend_the_sample_of_their_parent(tmp_path: Any) -> None:
    sample, ledger = drawn(), pais.Ledger(epsilon=10.0, delta=1e-5, path=tmp_path / "budget.json")
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    workers = [context.Process(target=_release_to, args=(queue, sample, ledger)) for _ in range(4)]
    for worker in workers:
        worker.start()
    answers = [queue.get(timeout=60) for _ in workers]
    for worker in workers:
        worker.join()
    assert answers == ["SpentError"] * 4
    # A refused release is not charged, and the process that drew the sample can still spend it.
    assert ledger.entries == ()
    pais.release(MECHANISM, sample, delta=1e-6, ledger=ledger)
    assert len(ledger.entries) == 1


@needs_fork
@quiet_fork
def test_a_refusal_in_a_child_says_what_to_do() -> None:
    sample = drawn()
    answer = in_fork(lambda: sample.spend("a count"))
    assert answer.startswith("SpentError: this sample was drawn in another process")
    assert "Draw a sample in this process" in answer


@needs_fork
@quiet_fork
def test_a_child_is_refused_before_and_after_its_parent_spends() -> None:
    sample = drawn()
    assert in_fork(lambda: sample.spend("a count")).startswith("SpentError")
    sample.spend("a count")
    assert in_fork(lambda: sample.spend("a count")).startswith("SpentError")


@needs_fork
@quiet_fork
def test_a_child_is_refused_while_its_parent_holds_the_lock() -> None:
    sample = drawn()
    with sample._lock:
        # A child that waited for the lock would wait forever: nobody in it can release it.
        assert in_fork(lambda: sample.spend("a count")).startswith("SpentError")


@needs_fork
@quiet_fork
def test_a_descendant_is_refused_even_if_it_has_the_process_id_of_its_ancestor(monkeypatch: pytest.MonkeyPatch) -> None:
    sample, own = drawn(), os.getpid()
    # The system gives ids of processes that ended to new ones.
    assert in_fork(lambda: (monkeypatch.setattr(os, "getpid", lambda: own), sample.spend("a count"))).startswith(
        "SpentError"
    )


@needs_fork
@quiet_fork
def test_a_child_may_draw_and_spend_a_sample_of_its_own() -> None:
    assert in_fork(lambda: drawn().spend("a count").rows.shape[1]) == "2"


@needs_fork
@quiet_fork
def test_a_child_forked_inside_a_mechanism_releases_nothing() -> None:
    end, other_end = os.pipe()
    parent = os.getpid()

    class Forking(pais.WeightedCount):
        def measure(self, *args: Any, **kwargs: Any) -> Any:
            child = os.fork()
            if child:
                os.waitpid(child, 0)
            return super().measure(*args, **kwargs)

    try:
        pais.release(Forking(noise=MECHANISM.noise), drawn(), delta=1e-6)
        answer = "released"
    except pais.SpentError:
        answer = "refused"
    if os.getpid() != parent:
        os.write(other_end, answer.encode())
        os._exit(0)
    os.close(other_end)
    with os.fdopen(end) as pipe:
        assert (answer, pipe.read()) == ("released", "refused")


def test_process_is_identified_by_its_id(monkeypatch: pytest.MonkeyPatch) -> None:
    sample = drawn()
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(pais.SpentError, match="drawn in another process"):
        sample.spend("a count")
    monkeypatch.undo()
    sample.spend("a count")


def test_a_spawned_process_cannot_be_sent_a_sample() -> None:
    with pytest.raises(pais.SpentError, match="cannot be copied or pickled"):
        pickle.dumps(drawn())
    worker = multiprocessing.get_context("spawn").Process(target=print, args=(drawn(),))
    with pytest.raises(pais.SpentError, match="cannot be copied or pickled"):
        worker.start()


def test_of_many_threads_exactly_one_spends_the_sample() -> None:
    switch = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    n_threads = 16
    try:
        with ThreadPoolExecutor(n_threads) as pool:
            for _ in range(100):
                sample, start = drawn(), threading.Barrier(n_threads)

                def spend(name: int, sample: Any = sample, start: Any = start) -> str:
                    start.wait()
                    try:
                        sample.spend(f"thread {name}")
                    except pais.SpentError as error:
                        return str(error)
                    return "spent"

                answers = list(pool.map(spend, range(n_threads)))
                assert answers.count("spent") == 1
                # Every refusal names the one that came first.
                winner = f"'thread {answers.index('spent')}'"
                assert all(winner in answer for answer in answers if answer != "spent")
    finally:
        sys.setswitchinterval(switch)


def test_the_identity_of_a_process_stays_the_same_within_it() -> None:
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(process.identity).result() == process.identity()


def test_a_thread_waits_while_another_one_spends() -> None:
    sample = drawn()
    with ThreadPoolExecutor(1) as pool:
        with sample._lock:
            spending = pool.submit(sample.spend, "a count")
            with pytest.raises(Late):
                spending.result(timeout=0.2)
        assert spending.result(timeout=20) is not None
