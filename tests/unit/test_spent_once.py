"""A weighted sample serves one release: it cannot be copied, and one thread of the process that drew it spends it."""

from __future__ import annotations

import copy
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

BALL = pais.Ball(radius=1.0)
MECHANISM = pais.WeightedCount(noise=pais.GaussianNoise(scale=20.0))
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork there")
# Python 3.12 warns of a fork while other threads run; the child here only spends and ends.
quiet_fork = pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")


def drawn() -> pais.WeightedSample:
    return pais.sample(np.ones((4, 2)), ball=BALL, rule=pais.UniformRule(rate=0.5))


def test_a_sample_is_released_once_and_a_refused_release_leaves_it_unspent() -> None:
    sample, count = drawn(), pais.WeightedCount(noise=pais.laplace_noise(1.0))
    for mechanism, delta, error in (
        (pais.WeightedSum(noise=pais.laplace_noise(1.0)), 0.0, "norm"),
        (count, 1e-6, "delta"),
        (MECHANISM, 0.0, "delta"),
    ):
        with pytest.raises(ValueError, match=error):
            pais.release(mechanism, sample, delta=delta)
        assert not sample.spent
    pais.release(count, sample)
    assert sample.spent
    with pytest.raises(pais.SpentError, match="already spent"):
        pais.release(MECHANISM, sample, delta=1e-6)


def test_a_sample_cannot_be_copied_or_pickled_before_or_after_it_is_spent() -> None:
    sample = drawn()
    for _ in range(2):
        for duplicate in (copy.copy, copy.deepcopy, pickle.dumps, lambda value: copy.deepcopy({"inside": [value]})):
            with pytest.raises(pais.SpentError, match="copied"):
                duplicate(sample)
        if not sample.spent:
            # The attempts took nothing away.
            assert sample.spend("a test").weights.ndim == 1


def test_attributes_of_a_sample_are_read_only_and_it_is_not_made_again() -> None:
    sample = drawn()
    for name, value in (("rule", pais.UniformRule(rate=1.0)), ("private", True), ("ball", pais.Ball(radius=2.0))):
        with pytest.raises(AttributeError):
            setattr(sample, name, value)
    content = sample.spend("a test")
    with pytest.raises(pais.SpentError):
        sample.__init__(content, rule=sample.rule, ball=sample.ball, private=True)  # type: ignore[misc]  # the attack
    with pytest.raises(pais.SpentError):
        sample.__getstate__()


def test_the_repr_of_a_sample_shows_no_row_and_no_size() -> None:
    ball, rule = pais.Ball(radius=5000.0), pais.UniformRule(rate=1.0)
    few = pais.sample(np.full((3, 2), 1234.5678), ball=ball, rule=rule, random_state=44)
    many = pais.sample(np.full((7777, 2), 0.25), ball=ball, rule=rule, random_state=44)
    assert repr(few) == repr(many) == str(few)
    content = few.spend("a test")
    assert not [text for text in ("1234", "5678", "7777") if text in f"{few!r}{many!r}{content!r}"]
    # What is public is shown: the rule, the ball, whether it was spent and whether the draws were secure.
    for public in ("UniformRule", "5000.0", "spent=True", "private=False"):
        assert public in repr(few)


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
def test_a_child_is_refused_before_and_after_its_parent_spends() -> None:
    sample = drawn()
    answer = in_fork(lambda: sample.spend("a count"))
    assert answer.startswith("SpentError: this sample was drawn in another process")
    assert "Draw a sample in this process" in answer
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


def test_a_thread_waits_while_another_one_spends() -> None:
    sample = drawn()
    with ThreadPoolExecutor(1) as pool:
        with sample._lock:
            spending = pool.submit(sample.spend, "a count")
            with pytest.raises(Late):
                spending.result(timeout=0.2)
        assert spending.result(timeout=20) is not None
