"""The ledger: sums on the safe side, one spender at a time, files that are never half there, and who is charged."""

from __future__ import annotations

import contextlib
import copy
import errno
import fcntl
import importlib.util
import json
import math
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import types
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import pais
from pais._base.numerics import exact
from pais._base.randomness import BitSource
from pais.accounting import stores
from pais.accounting.amounts import Budget, down, up
from pais.accounting.certificate import what_is_left
from pais.accounting.entries import Entry, Part, new_entry, parts_of

RADIUS = 4.0


def rows(n: int = 600, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, 2))


def norms() -> pais.NormDistribution:
    return pais.NormDistribution.from_quantiles(lambda level: RADIUS * level**0.5, n_rows=600, radius=RADIUS)


def model(**more: Any) -> pais.DPKMeans:
    return pais.DPKMeans(n_clusters=2, epsilon=1.0, delta=1e-6, radius=RADIUS, norms=norms(), **more)


def plan(epsilon: float = 1.0, delta: float = 1e-6, **more: Any) -> pais.Plan:
    more = {"mechanism": "gaussian" if delta else "l2", **more}
    return pais.plan_kmeans(
        n_clusters=2, n_features=2, epsilon=epsilon, delta=delta, ball=pais.Ball(radius=RADIUS), norms=norms(), **more
    )


@pytest.fixture(params=["memory", "file"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., pais.Ledger]:
    def made(**budget: float) -> pais.Ledger:
        return pais.Ledger(path=None if request.param == "memory" else tmp_path / "budget.json", **budget)

    return made


def test_what_is_spent_is_recorded_and_the_rest_remains(make: Callable[..., pais.Ledger]) -> None:
    ledger = make(epsilon=3.0, delta=1e-5)
    assert ledger.spent == pais.Budget(epsilon=0.0, delta=0.0)
    ledger.spend(what="a table", epsilon=0.1, delta=1e-6)
    ledger.spend(what="another", epsilon=0.2)
    assert ledger.spent == pais.Budget(epsilon=0.3, delta=1e-6)
    assert ledger.remaining == pais.Budget(epsilon=2.7, delta=9e-6)
    assert [entry.what for entry in ledger.entries] == ["a table", "another"]
    with pytest.raises(pais.BudgetError, match=r"epsilon=2.7, delta=9e-06 left"):
        ledger.check(epsilon=2.8)
    with pytest.raises(pais.BudgetError):
        ledger.spend(what="too many deltas", epsilon=0.1, delta=9.1e-6)
    assert len(ledger.entries) == 2


@pytest.mark.parametrize("epsilon", [0.1, 0.1 + 1e-16, 0.1 + 2e-17])
def test_a_tenth_of_a_budget_fits_ten_times_and_no_more(epsilon: float, make: Callable[..., pais.Ledger]) -> None:
    ledger = make(epsilon=1.0)
    fits = 0
    for _ in range(15):
        try:
            ledger.spend(what="a tenth", epsilon=epsilon)
            fits += 1
        except pais.BudgetError:
            pass
    assert fits == (10 if epsilon == 0.1 else 9)
    assert ledger.spent.epsilon <= 1.0


@given(st.lists(st.floats(0.0, 10.0), max_size=40))
def test_sums_are_rounded_to_the_safe_side(prices: list[float]) -> None:
    true = sum((Fraction(repr(price)) for price in prices), Fraction(0))
    assert exact(up(true)) >= true >= exact(down(true))
    assert up(true) - down(true) <= 4e-16 * max(float(true), 1.0)
    assert down(-true) == 0.0


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1.0, -1e-300, 1e7, "1", None, True, 10**400])
def test_amounts_that_are_none_are_refused(bad: Any, make: Callable[..., pais.Ledger]) -> None:
    ledger = make(epsilon=1.0, delta=0.5)
    for call in (ledger.check, lambda **price: ledger.spend(what="x", **price)):
        with pytest.raises(pais.ArgumentError):
            call(epsilon=bad)
        with pytest.raises(pais.ArgumentError):
            call(epsilon=0.1, delta=bad)
    if bad is not None:
        with pytest.raises(pais.ArgumentError):
            pais.Ledger(epsilon=bad)
    assert ledger.entries == ()


def test_a_budget_must_be_stated_for_a_new_ledger(tmp_path: Path) -> None:
    with pytest.raises(pais.ArgumentError, match="epsilon"):
        pais.Ledger()
    with pytest.raises(pais.ArgumentError, match="no ledger"):
        pais.Ledger(path=tmp_path / "budget.json")
    with pytest.raises(pais.ArgumentError):
        pais.Ledger(delta=1e-6)
    assert not list(tmp_path.iterdir())


def test_a_file_is_opened_again_with_what_was_spent_and_its_budget_cannot_be_changed(tmp_path: Path) -> None:
    path = tmp_path / "budget.json"
    pais.Ledger(epsilon=1.0, delta=1e-6, path=path).spend(what="a table", epsilon=0.25)
    again = pais.Ledger(path=path)
    assert again.remaining == pais.Budget(epsilon=0.75, delta=1e-6)
    assert pais.Ledger(epsilon=1.0, delta=1e-6, path=str(path)).entries == again.entries
    with pytest.raises(pais.MismatchError):
        pais.Ledger(epsilon=2.0, delta=1e-6, path=path)
    with pytest.raises(pais.MismatchError):
        pais.Ledger(epsilon=1.0, path=path)
    path.write_text(path.read_text().replace('"epsilon": 1.0', '"epsilon": 9.0'))
    with pytest.raises(pais.MismatchError, match="changed"):
        again.check(epsilon=0.1)


def test_a_file_that_vanished_is_no_new_budget(tmp_path: Path) -> None:
    ledger = pais.Ledger(epsilon=1.0, path=tmp_path / "budget.json")
    kept = pickle.dumps(ledger)
    (tmp_path / "budget.json").unlink()
    for call in (lambda: ledger.spent, lambda: ledger.spend(what="x", epsilon=0.1), lambda: pickle.loads(kept).spent):
        with pytest.raises(pais.ArgumentError):
            call()
    assert not (tmp_path / "budget.json").exists()


def edited(change: Callable[[Any], Any]) -> Callable[[str], str]:
    def edit(content: str) -> str:
        found = json.loads(content)
        change(found)
        return json.dumps(found)

    return edit


DAMAGE: dict[str, Callable[[str], str]] = {
    "empty": lambda content: "",
    "truncated": lambda content: content[: len(content) // 2],
    "not text": lambda content: "\x00\x01",
    "a list": lambda content: "[]",
    "of another kind": edited(lambda found: found.update(kind="survey")),
    "negative price": edited(lambda found: found["entries"][0].update(epsilon=-0.5)),
    "price as text": edited(lambda found: found["entries"][0].update(epsilon="0.5")),
    "no price": edited(lambda found: found["entries"][0].pop("epsilon")),
    "delta of 2": edited(lambda found: found["entries"][0].update(delta=2.0)),
    "budget as text": edited(lambda found: found.update(epsilon="1")),
    "budget that is no number": lambda content: content.replace('"epsilon": 1.0', '"epsilon": NaN'),
    "infinite budget": lambda content: content.replace('"epsilon": 1.0', '"epsilon": Infinity'),
    "overflowing budget": lambda content: content.replace('"epsilon": 1.0', '"epsilon": 1e999'),
    "entries gone": edited(lambda found: found.pop("entries")),
    "entries of another type": edited(lambda found: found.update(entries={})),
    "an entry twice": edited(lambda found: found["entries"].append(found["entries"][0])),
    "parts of another type": edited(lambda found: found["entries"][0].update(parts="none")),
    "deep": lambda content: "[" * 100_000,
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_or_foreign_file_is_refused_and_left_as_it_is(damage: str, tmp_path: Path) -> None:
    path = tmp_path / "budget.json"
    ledger = pais.Ledger(epsilon=1.0, path=path)
    ledger.spend(what="a table", epsilon=0.5)
    path.write_text(DAMAGE[damage](path.read_text()))
    before = path.read_bytes()
    for call in (
        lambda: pais.Ledger(path=path),
        lambda: pais.Ledger(epsilon=1.0, path=path),
        lambda: ledger.spend(what="more", epsilon=0.1),
        lambda: ledger.remaining,
    ):
        with pytest.raises(pais.ArgumentError, match=r"damaged"):
            call()
    assert path.read_bytes() == before


def test_threads_never_spend_more_than_there_is(make: Callable[..., pais.Ledger]) -> None:
    ledger = make(epsilon=1.0)

    def attempt(_: int) -> bool:
        try:
            ledger.spend(what="a part", epsilon=0.02)
        except pais.BudgetError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(attempt, range(80))) == 50
    assert ledger.spent.epsilon == 1.0
    assert len(ledger.entries) == 50


WORKER = """
import contextlib, sys, time
from pathlib import Path
import pais
from pais.accounting import stores
path, lock = Path(sys.argv[1]), sys.argv[2]
if lock == "none":
    # Nobody is alone from reading to writing; each write is whole, and the first waits until all have read.
    whole, alone = stores._replace, stores._exclusive
    stores._exclusive = lambda path: contextlib.nullcontext()
    def replace(path, content):
        Path(sys.argv[3] + ".read").touch()
        while len(list(path.parent.glob("*.read"))) < 4:
            time.sleep(0.001)
        with alone(path):
            whole(path, content)
    stores._replace = replace
if lock == "portable":
    stores.fcntl = None
ledger = pais.Ledger(path=path)
Path(sys.argv[3]).touch()
while not (path.parent / "go").exists():
    time.sleep(0.001)
done = 0
for _ in range(50):
    try:
        ledger.spend(what="a part", epsilon=0.01)
        done += 1
    except pais.PaisError:
        pass
print(done)
"""


def test_threads_that_read_beside_others_that_spend_see_nothing_gone(tmp_path: Path) -> None:
    ledger = pais.Ledger(epsilon=1.0, path=tmp_path / "budget.json")
    done = threading.Event()

    def look() -> int:
        looks = 0
        while not done.is_set():
            assert ledger.spent.epsilon <= 1.0
            looks += 1
        return looks

    with ThreadPoolExecutor(3) as pool:
        readers = [pool.submit(look) for _ in range(3)]
        try:
            for _ in range(60):
                ledger.spend(what="a part", epsilon=0.01)
        finally:
            done.set()
        assert all(reader.result() > 0 for reader in readers)


@pytest.mark.parametrize("lock", ["file", "portable", "none"])
def test_processes_never_spend_more_than_there_is_and_only_the_lock_keeps_them_from_it(
    lock: str, tmp_path: Path
) -> None:
    path = tmp_path / "budget.json"
    ledger = pais.Ledger(epsilon=1.0, path=path)
    command = [sys.executable, "-c", WORKER, str(path), lock]
    workers = [
        subprocess.Popen([*command, str(tmp_path / f"ready{i}")], stdout=subprocess.PIPE, text=True) for i in range(4)
    ]
    try:
        while not all((tmp_path / f"ready{i}").exists() for i in range(4)):
            assert all(worker.poll() is None for worker in workers)
            threading.Event().wait(0.01)
        (tmp_path / "go").touch()
        reported = sum(int(worker.communicate(timeout=120)[0]) for worker in workers)
    finally:
        for worker in workers:
            worker.kill()
    if lock == "none":
        # What this test would miss if it saw no difference: releases that were made and forgotten.
        assert reported >= len(ledger.entries) + 3
    else:
        assert (reported, len(ledger.entries), ledger.spent.epsilon) == (100, 100, 1.0)


def test_who_waited_to_make_a_ledger_finds_the_one_made_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, alone = tmp_path / "budget.json", stores._exclusive

    @contextlib.contextmanager
    def waited(at: Path) -> Iterator[None]:
        monkeypatch.setattr(stores, "_exclusive", alone)
        pais.Ledger(epsilon=1.0, path=at).spend(what="another's", epsilon=0.75)
        with alone(at):
            yield

    monkeypatch.setattr(stores, "_exclusive", waited)
    assert pais.Ledger(epsilon=1.0, path=path).remaining.epsilon == 0.25


# Both scripts hold the lock until they read a line. The second forks a process that leaves the block and stays alive.
HOLDER = """
import os, sys, time
from pathlib import Path
from pais.accounting import stores
lock = stores._exclusive(Path(sys.argv[1]))
lock.__enter__()
print("locked", flush=True)
sys.stdin.readline()
lock.__exit__(None, None, None)
time.sleep(600)
"""
FORKER = HOLDER.replace(
    'print("locked", flush=True)\n',
    """if os.fork() == 0:
    lock.__exit__(None, None, None)
    print("locked", flush=True)
    time.sleep(600)
""",
)


@pytest.mark.parametrize("script", [HOLDER, FORKER], ids=["alone", "forked"])
@pytest.mark.parametrize("end", ["killed", "left"])
def test_a_lock_ends_when_its_holder_is_killed_or_leaves_and_not_through_a_forked_process(
    end: str, script: str, tmp_path: Path
) -> None:
    path = tmp_path / "budget.json"
    ledger = pais.Ledger(epsilon=1.0, path=path)
    holder = subprocess.Popen(
        [sys.executable, "-c", script, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert holder.stdin is not None
    assert holder.stdout is not None
    with ThreadPoolExecutor(1) as pool, holder:
        try:
            assert holder.stdout.readline() == "locked\n"
            spend = pool.submit(ledger.spend, what="x", epsilon=0.5)
            assert not wait([spend], timeout=0.3).done
            if end == "killed":
                holder.kill()
            else:
                holder.stdin.write("\n")
                holder.stdin.flush()
            assert wait([spend], timeout=60.0).done
        finally:
            os.killpg(holder.pid, signal.SIGKILL)
    assert ledger.spent.epsilon == 0.5


def test_a_lock_file_left_behind_is_named_where_the_system_has_no_locks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "fcntl", None)
    monkeypatch.setattr(stores, "_PATIENCE", 0.05)
    ledger = pais.Ledger(epsilon=1.0, path=tmp_path / "budget.json")
    ledger.spend(what="x", epsilon=0.5)
    (tmp_path / "budget.json.held").touch()
    with pytest.raises(pais.ArgumentError, match="Delete it"):
        ledger.spend(what="x", epsilon=0.5)


def test_a_system_without_locks_is_noticed_when_the_store_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "fcntl", None)
    spec = importlib.util.spec_from_file_location("stores_without_locks", stores.__file__)
    assert spec is not None
    assert spec.loader is not None
    portable = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, portable)
    spec.loader.exec_module(portable)
    assert portable.fcntl is None
    store = portable.FileStore.open(tmp_path / "budget.json", Budget(epsilon=1.0, delta=0.0))
    held = tmp_path / "budget.json.held"

    def while_it_is_held(entries: tuple[Entry, ...]) -> Entry:
        assert held.exists()
        return new_entry("x", 0.5, 0.0, note="a test", parts=())

    store.append(while_it_is_held)
    assert not held.exists()
    assert len(store.read()) == 1


def test_a_directory_is_not_opened_where_systems_do_not_allow_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = pais.Ledger(epsilon=1.0, path=tmp_path / "budget.json")
    whole = os.open

    def no_directories(path: Any, *more: Any) -> int:
        assert not Path(path).is_dir()
        return whole(path, *more)

    # Only the module's own view of the system changes: paths would change with the real one.
    monkeypatch.setattr(stores, "os", types.SimpleNamespace(**{**vars(os), "name": "nt", "open": no_directories}))
    ledger.spend(what="x", epsilon=0.5)
    assert ledger.spent.epsilon == 0.5


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.ENOSYS])
def test_a_ledger_that_cannot_be_locked_is_refused(code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = pais.Ledger(epsilon=1.0, path=tmp_path / "budget.json")

    def refused(*_: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "flock", refused)
    with pytest.raises(pais.ArgumentError, match=f"cannot be locked: {os.strerror(code)}"):
        ledger.spend(what="x", epsilon=0.5)
    assert ledger.entries == ()


def test_a_forked_process_closes_its_copy_of_the_lock_once(tmp_path: Path) -> None:
    ledger = pais.Ledger(epsilon=1.0, path=tmp_path / "budget.json")
    with stores._exclusive(tmp_path / "budget.json"):
        stores._close_inherited_locks()
        ledger.spend(what="x", epsilon=0.5)
    ledger.spend(what="x", epsilon=0.5)
    assert ledger.spent.epsilon == 1.0


def test_a_ledger_makes_no_directory(tmp_path: Path) -> None:
    with pytest.raises(pais.ArgumentError, match="cannot be locked: No such file or directory"):
        pais.Ledger(epsilon=1.0, path=tmp_path / "mistyped" / "budget.json")
    assert not list(tmp_path.iterdir())


def test_a_disk_that_is_full_leaves_the_ledger_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = pais.Ledger(epsilon=1.0, path=tmp_path / "budget.json")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(stores.os, "fsync", full)
    with pytest.raises(pais.ArgumentError, match="No space left"):
        ledger.spend(what="x", epsilon=0.5)
    assert ledger.entries == ()


def test_a_ledger_is_never_copied(tmp_path: Path) -> None:
    memory, file = pais.Ledger(epsilon=1.0), pais.Ledger(epsilon=1.0, path=tmp_path / "budget.json")
    for ledger in (memory, file):
        assert copy.copy(ledger) is copy.deepcopy(ledger) is ledger
        assert clone(model(ledger=ledger)).ledger is ledger
    with pytest.raises(pais.ArgumentError, match="path"):
        pickle.dumps(memory)
    pickle.loads(pickle.dumps(file)).spend(what="there", epsilon=0.5)
    assert file.spent.epsilon == 0.5


def _spend_in_fork(ledger: pais.Ledger, queue: Any) -> None:
    try:
        ledger.spend(what="in a fork", epsilon=0.5)
        queue.put("spent")
    except pais.ArgumentError:
        queue.put("refused")


def test_a_ledger_in_memory_knows_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = pais.Ledger(epsilon=1.0)
    monkeypatch.setattr(stores.os, "getpid", lambda: -1)
    for use in (lambda: ledger.spend(what="x", epsilon=0.5), lambda: ledger.spent):
        with pytest.raises(pais.ArgumentError, match="another process"):
            use()


@pytest.mark.skipif(sys.platform == "win32", reason="no fork there")
def test_a_forked_process_cannot_spend_from_a_copy_in_memory(make: Callable[..., pais.Ledger]) -> None:
    ledger = make(epsilon=1.0)
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    worker = context.Process(target=_spend_in_fork, args=(ledger, queue))
    worker.start()
    outcome = queue.get()
    worker.join()
    assert outcome == ("refused" if ledger.path is None else "spent")
    assert len(ledger.entries) == (0 if ledger.path is None else 1)


def test_its_text_is_public_and_short(tmp_path: Path) -> None:
    assert repr(pais.Ledger(epsilon=1.0, delta=1e-6)) == "Ledger(epsilon=1.0, delta=1e-06)"
    assert "budget.json" in repr(model(ledger=pais.Ledger(epsilon=1.0, path=tmp_path / "budget.json")))


def test_fits_runs_and_surveys_are_charged_once_each(make: Callable[..., pais.Ledger]) -> None:
    ledger = make(epsilon=10.0, delta=1e-5)
    X = rows()
    pais.DPKMeans(n_clusters=2, epsilon=1.0, delta=1e-6, ledger=ledger).fit(X)
    assert [(entry.what, entry.epsilon, entry.delta) for entry in ledger.entries] == [
        ("survey", 0.06, 0.0),
        ("k-means", 0.94, 1e-6),
    ]
    pais.survey(X, epsilon=0.25, ledger=ledger)
    pais.run(plan(0.5), X, ledger=ledger)
    settings = pais.KMeansSettings(n_clusters=2, epsilon=0.75, mechanism="l2", radius=RADIUS, norms=norms())
    pais.private_kmeans(X, settings, ledger=ledger)
    assert [entry.epsilon for entry in ledger.entries] == pytest.approx([0.06, 0.94, 0.25, 0.5, 0.75], rel=1e-6)
    assert ledger.spent.epsilon <= 2.5
    assert {entry.note for entry in ledger.entries} == {"secure randomness"}


def test_rehearsals_are_charged_too_and_marked() -> None:
    ledger = pais.Ledger(epsilon=3.0, delta=1e-5)
    model(ledger=ledger, random_state=3).fit(rows())
    pais.survey(rows(), epsilon=0.5, random_state=3, ledger=ledger)
    assert [entry.note for entry in ledger.entries] == ["seeded, not private"] * 2


def test_an_active_ledger_is_charged_from_every_thread_and_left_when_its_block_ends() -> None:
    X = rows()
    with pais.Ledger(epsilon=3.0, delta=1e-5) as ledger:
        model().fit(X)
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda _: pais.survey(X, epsilon=0.25), range(2)))
        with pytest.raises(pais.BudgetError):
            pais.run(plan(2.0), X)
    model().fit(X)
    assert [entry.what for entry in ledger.entries] == ["k-means", "survey", "survey"]
    assert ledger.spent.epsilon == 1.5


def test_blocks_within_blocks_charge_all_and_a_ledger_named_twice_once(tmp_path: Path) -> None:
    X, path = rows(), tmp_path / "budget.json"
    with pais.Ledger(epsilon=3.0) as outer, pais.Ledger(epsilon=2.0, path=path) as inner:
        pais.survey(X, epsilon=0.5, ledger=pais.Ledger(path=path))
        pais.survey(X, epsilon=0.5, ledger=outer)
    assert outer.spent.epsilon == inner.spent.epsilon == 1.0
    assert len(outer.entries) == len(inner.entries) == 2


class Unread:
    """Rows that must not be looked at."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} of the rows was asked for")


def test_a_refusal_comes_before_a_row_is_read() -> None:
    ledger = pais.Ledger(epsilon=0.5, delta=1e-5)
    settings = pais.KMeansSettings(n_clusters=2, epsilon=1.0, delta=1e-6)
    made = plan()
    for call in (
        lambda: model(ledger=ledger).fit(Unread()),
        lambda: pais.private_kmeans(Unread(), settings, ledger=ledger),
        lambda: pais.run(made, Unread(), ledger=ledger),
        lambda: pais.survey(Unread(), epsilon=0.75, ledger=ledger),
    ):
        with pytest.raises(pais.BudgetError):
            call()
    assert ledger.entries == ()


@dataclass(frozen=True, kw_only=True)
class Failing(pais.WeightedCount):
    """Fails before or after its noise is drawn."""

    draws: bool

    def measure(self, content: Any, ball: pais.Ball, bits: Any) -> float:
        if self.draws:
            super().measure(content, ball, bits)
        raise KeyboardInterrupt


def sampled() -> pais.WeightedSample:
    return pais.sample(rows(), ball=pais.Ball(radius=RADIUS), rule=pais.UniformRule(rate=0.5))


@pytest.mark.parametrize("draws", [False, True])
def test_what_fails_on_the_rows_is_not_charged_and_what_fails_in_the_mechanism_is(draws: bool) -> None:
    ledger = pais.Ledger(epsilon=5.0, delta=1e-5)
    bad = rows()
    bad[3, 1] = np.nan

    def strict() -> object:
        return pais.source(bad, missing="error")

    for call in (lambda: model(ledger=ledger).fit(strict()), lambda: pais.survey(strict(), epsilon=1.0, ledger=ledger)):
        with pytest.raises(ValueError, match=r"NaN|finite"):
            call()
    with pytest.raises(KeyboardInterrupt):
        pais.release(Failing(noise=pais.laplace_noise(1.0), draws=draws), sampled(), ledger=ledger)
    assert len(ledger.entries) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"n_clusters": 0},
        {"n_clusters": 2.5},
        {"delta": 0.0},
        {"sample_size": -5.0},
        {"mechanism": "laplce"},
        {"sampling": "foo"},
        {"radius": 0.0},
        {"center": (0.0, 0.0, 0.0)},
        {"epsilon": math.inf},
    ],
    ids=str,
)
def test_what_could_never_be_run_is_refused_before_a_survey_is_paid_for(wrong: dict[str, Any]) -> None:
    ledger = pais.Ledger(epsilon=5.0, delta=1e-5)
    stated = {"n_clusters": 2, "epsilon": 1.0, "delta": 1e-6, **wrong}
    with pytest.raises(pais.PaisError):
        pais.DPKMeans(**stated, ledger=ledger).fit(rows())
    assert ledger.entries == ()


class Witness(BitSource):
    """Bits that look at the ledger each time they are asked for."""

    private = True

    def __init__(self, path: Path) -> None:
        self.path, self.seen = path, set()

    def raw(self, n_bytes: int) -> bytes:
        self.seen.add(len(pais.Ledger(path=self.path).entries))
        return bytes(range(256)) * (n_bytes // 256) + bytes(range(n_bytes % 256))


def test_not_a_bit_of_noise_is_drawn_before_its_price_is_on_disk(tmp_path: Path) -> None:
    ledger = pais.Ledger(epsilon=5.0, path=tmp_path / "budget.json")
    noise = Witness(tmp_path / "budget.json")
    pais.release(pais.WeightedCount(noise=pais.laplace_noise(1.0)), sampled(), ledger=ledger, random_state=noise)
    assert noise.seen == {1}
    looked = Witness(tmp_path / "budget.json")
    pais.survey(rows(), epsilon=0.5, ledger=ledger, random_state=looked)
    assert looked.seen == {2}


def test_a_mechanism_without_noise_is_charged_too() -> None:
    class Silent(pais.WeightedCount):
        def measure(self, content: Any, ball: pais.Ball, bits: Any) -> float:
            return 0.0

    ledger = pais.Ledger(epsilon=5.0)
    pais.release(Silent(noise=pais.laplace_noise(1.0)), sampled(), ledger=ledger)
    assert len(ledger.entries) == 1


@pytest.mark.parametrize(
    "wish",
    [
        {"sampling": "uniform", "sample_size": 1e9},
        {"sampling": "coreset", "sample_size": 1e9},
        {"sampling": pais.UniformRule(rate=0.5, radius=1e-9)},
    ],
    ids=lambda wish: str(wish["sampling"])[:8],
)
def test_a_survey_whose_numbers_a_refusal_may_tell_was_paid_for(wish: dict[str, Any]) -> None:
    ledger = pais.Ledger(epsilon=1.0, delta=1e-6)
    demanding = pais.DPKMeans(n_clusters=2, epsilon=1.0, delta=1e-6, ledger=ledger, **wish)
    with pytest.raises(pais.PaisError):
        demanding.fit(rows())
    assert [(entry.what, entry.epsilon) for entry in ledger.entries] == [("survey", 0.06)]
    # Not once more: the rest does not pay for another whole fit.
    with pytest.raises(pais.BudgetError):
        demanding.fit(rows())


def test_nothing_is_returned_when_another_spent_the_rest_meanwhile(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "budget.json"
    ledger = pais.Ledger(epsilon=1.0, delta=1e-5, path=path)
    real = pais.pipeline.sample

    def meanwhile(*args: Any, **kwargs: Any) -> Any:
        pais.Ledger(path=path).spend(what="another's", epsilon=0.75)
        return real(*args, **kwargs)

    monkeypatch.setattr("pais.pipeline.sample", meanwhile)
    fitted = model(ledger=ledger)
    with pytest.raises(pais.BudgetError):
        fitted.fit(rows())
    assert not hasattr(fitted, "cluster_centers_")
    assert [entry.what for entry in ledger.entries] == ["another's"]


def test_a_fit_begun_in_a_block_is_charged_though_the_block_ends_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    ledger, real = pais.Ledger(epsilon=5.0, delta=1e-5), pais.DPKMeans._rows

    def leaving(*args: Any, **kwargs: Any) -> Any:
        ledger.__exit__(None, None, None)
        return real(*args, **kwargs)

    monkeypatch.setattr(pais.DPKMeans, "_rows", leaving)
    ledger.__enter__()
    model().fit(rows())
    assert len(ledger.entries) == 1


def test_the_spend_is_on_disk_before_the_value_is_returned(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ledger = pais.Ledger(epsilon=1.0, delta=1e-5, path=tmp_path / "budget.json")

    def broken(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(stores, "_sync_directory", broken)
    fitted = model(ledger=ledger)
    with pytest.raises(pais.ArgumentError, match="cannot be written"):
        fitted.fit(rows())
    assert not hasattr(fitted, "cluster_centers_")


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("way", ["passed", "active"])
def test_a_grid_search_is_charged_for_every_fit_and_refused_when_the_budget_is_used_up(
    way: str, n_jobs: int, tmp_path: Path
) -> None:
    # 2 settings, 2 folds, and the fit of the best on all rows.
    ledger = pais.Ledger(epsilon=6.0, delta=1e-5, path=tmp_path / "budget.json")
    searched = model(ledger=ledger) if way == "passed" else model()
    search = GridSearchCV(searched, {"n_clusters": [2, 3]}, cv=2, n_jobs=n_jobs, error_score="raise")
    if way == "passed":
        search.fit(rows())
    else:
        with ledger:
            search.fit(rows())
    assert len(ledger.entries) == 5
    assert ledger.spent.epsilon == 5.0
    again = GridSearchCV(model(ledger=ledger), {"n_clusters": [2, 3]}, cv=2, n_jobs=n_jobs, error_score="raise")
    with pytest.raises(pais.BudgetError):
        again.fit(rows())
    assert ledger.spent.epsilon == 6.0


def test_a_search_in_other_processes_is_refused_with_a_ledger_in_memory() -> None:
    search = GridSearchCV(model(), {"n_clusters": [2, 3]}, cv=2, n_jobs=2, error_score="raise")
    with pais.Ledger(epsilon=9.0, delta=1e-5) as ledger, pytest.raises(Exception, match=r"path|pickle"):
        search.fit(rows())
    assert ledger.entries == ()


def test_a_fitted_model_can_be_kept_inside_the_block_of_a_ledger() -> None:
    with pais.Ledger(epsilon=9.0, delta=1e-5):
        fitted = model().fit(rows())
        again = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(again.cluster_centers_, fitted.cluster_centers_)


@pytest.mark.parametrize("sampling", ["constrained", "uniform", "coreset", "none"])
@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_an_entry_of_a_file_rebuilds_the_rule_and_the_profile_of_its_release(
    sampling: str, delta: float, tmp_path: Path
) -> None:
    made, X = plan(1.0, delta, sampling=sampling, sample_size=200), rows()
    ledger = pais.Ledger(epsilon=3.0, delta=1e-5, path=tmp_path / "budget.json")
    pais.run(made, X, ledger=ledger)
    pais.survey(X, epsilon=0.25, ledger=ledger)
    (part,) = parts_of(pais.Ledger(path=ledger.path).entries[0])
    grid = np.linspace(0.0, RADIUS, 999)
    assert part.rule is not None
    assert np.array_equal(part.rule.probability(grid), made.rule.probability(grid))
    assert part.profile == made.mechanism.profile
    here, there = ledger.record_losses(X), pais.Ledger(path=ledger.path).record_losses(X)
    assert np.array_equal(here, there)
    own = pais.record_losses(made, np.minimum(np.linalg.norm(X, axis=1), RADIUS))
    assert np.asarray(here) == pytest.approx(own + 0.25, rel=1e-9)
    assert here.max() <= ledger.spent.epsilon * (1.0 + 1e-12)


def test_a_release_that_cannot_be_rebuilt_counts_with_its_price(tmp_path: Path) -> None:
    rule = pais.FunctionRule(function=lambda norm: 0.2 + 0.1 * norm, radius=RADIUS)
    made, X = plan(sampling=rule), rows()
    ledger = pais.Ledger(epsilon=3.0, delta=1e-5, path=tmp_path / "budget.json")
    pais.run(made, X, ledger=ledger)
    known, rebuilt = ledger.record_losses(X), pais.Ledger(path=ledger.path).record_losses(X)
    assert np.median(known) < np.min(rebuilt)
    assert np.asarray(rebuilt) == pytest.approx(ledger.spent.epsilon)


def test_losses_of_records_say_that_they_are_not_protected() -> None:
    ledger = pais.Ledger(epsilon=3.0, delta=1e-5)
    model(ledger=ledger, sampling="uniform", sample_size=100).fit(rows())
    losses = ledger.record_losses(rows())
    assert losses.shape == (600,)
    assert losses.protected is False
    assert "NOT PROTECTED" in repr(losses)
    assert str(float(losses[0])) not in str(losses)
    assert np.median(losses) < 0.9 * losses.max() <= 1.0
    with pytest.raises(TypeError):
        json.dumps({"losses": losses})


def test_parts_must_add_up_to_the_price() -> None:
    ledger = pais.Ledger(epsilon=3.0)
    with pytest.raises(pais.ArgumentError, match="add up"):
        ledger.spend(what="two", epsilon=1.0, parts=[Part(what="one", epsilon=0.4), Part(what="other", epsilon=0.5)])


@pytest.mark.parametrize("bad", ["", "x" * 10_000, "\x1b[2J", None, 3])
def test_a_spend_must_be_named(bad: Any, make: Callable[..., pais.Ledger]) -> None:
    ledger = make(epsilon=1.0)
    with pytest.raises(pais.ArgumentError, match="what must be a text"):
        ledger.spend(what=bad, epsilon=0.5)
    assert ledger.spent.epsilon == 0.0


def test_a_profile_of_ones_own_counts_with_its_price_when_read_from_a_file(tmp_path: Path) -> None:
    own = pais.CustomProfile(lambda weight, norm: 0.2 * weight * np.hypot(0.1, norm))
    ledger = pais.Ledger(epsilon=3.0, path=tmp_path / "budget.json")
    rule = pais.UniformRule(rate=0.5)
    price = pais.worst_case(rule, own, radius=RADIUS).upper
    part = Part(what="own", epsilon=price, rule=rule, profile=own, ball=pais.Ball(radius=RADIUS))
    ledger.spend(what="own", epsilon=price, parts=[part])
    known, rebuilt = ledger.record_losses(rows()), pais.Ledger(path=ledger.path).record_losses(rows())
    assert np.min(known) < 0.5 * price
    assert np.asarray(rebuilt) == pytest.approx(price)
    assert np.min(rebuilt) >= price


def test_another_process_is_told_of_one_ledger_only(tmp_path: Path) -> None:
    first, second = (pais.Ledger(epsilon=9.0, delta=1e-4, path=tmp_path / name) for name in ("a.json", "b.json"))
    with first, first, second, pytest.raises(pais.ArgumentError, match="one only"):
        pickle.dumps(model())
    with first:
        pickle.loads(pickle.dumps(model())).fit(rows())
    assert (len(first.entries), len(second.entries)) == (1, 0)


def test_a_release_by_hand_is_charged_too_and_a_refused_one_leaves_the_sample_unspent() -> None:
    count = pais.WeightedCount(noise=pais.laplace_noise(1.0))
    first, second = (
        pais.sample(rows(), ball=pais.Ball(radius=RADIUS), rule=pais.UniformRule(rate=1.0)) for _ in range(2)
    )
    ledger, other = pais.Ledger(epsilon=1.5), pais.Ledger(epsilon=9.0)
    with other:
        made = pais.release(count, first, spent=(pais.Spent(what="earlier", epsilon=0.25),), ledger=ledger)
        # What was spent earlier was charged then.
        price = made.certificate.parts[-1]["epsilon"]
        assert price == pytest.approx(1.0)
        assert ledger.spent.epsilon == other.spent.epsilon == price
        with pytest.raises(pais.BudgetError):
            pais.release(count, second, ledger=ledger)
        assert len(other.entries) == 1
    pais.release(count, second)


def test_a_fitted_model_takes_its_ledger_along_and_is_loaded_where_that_is_not(tmp_path: Path) -> None:
    file, memory = (
        pais.Ledger(epsilon=9.0, delta=1e-4, path=tmp_path / "budget.json"),
        pais.Ledger(epsilon=9.0, delta=1e-4),
    )
    with file:
        kept = pickle.dumps(model().fit(rows()))
    pickle.loads(kept).fit(rows())
    assert len(file.entries) == 2
    with memory:
        elsewhere = pickle.loads(pickle.dumps(model().fit(rows())))
        copied = copy.copy(copy.deepcopy(model(ledger=memory).fit(rows())))
    for use in (lambda: elsewhere.fit(rows()), lambda: elsewhere.ledger.spend(what="x", epsilon=0.1)):
        with pytest.raises(pais.ArgumentError, match="set_params"):
            use()
    copied.fit(rows())
    assert len(memory.entries) == 3
    # Copies within the process are bound to no block; a pickle inside two of them holds the model's own ledger.
    with memory, file:
        assert copy.copy(model(ledger=None)).ledger is None
        assert copy.deepcopy(model(ledger=file)).ledger is file
        assert pickle.loads(pickle.dumps(copied)).ledger.path is None
    # Stored once more, and loaded where no ledger is: it predicts.
    (tmp_path / "budget.json").unlink()
    for stored in (kept, pickle.dumps(elsewhere)):
        loaded = pickle.loads(stored)
        assert loaded.predict(rows()).shape == (600,)
        with pytest.raises(pais.ArgumentError):
            loaded.fit(rows())


def restored(path: Path) -> None:
    path.write_text(path.with_suffix(".copy").read_text())


def linked(path: Path) -> None:
    path.with_name("other.json").hardlink_to(path)


def repeated(path: Path) -> None:
    path.write_text(path.read_text().replace('"entries": [', '"entries": [], "entries": [', 1))


def turned_round(path: Path) -> None:
    path.write_text(path.read_text().replace('"version"', '"entries": [],\n "version"', 1))


def extended(path: Path) -> None:
    path.write_text(path.read_text().replace('"version"', '"refunded": 1,\n "version"', 1))


def piped(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize("change", [restored, linked, repeated, turned_round, extended, piped])
def test_a_file_that_would_forget_what_was_spent_is_refused(change: Callable[[Path], None], tmp_path: Path) -> None:
    path = tmp_path / "budget.json"
    ledger = pais.Ledger(epsilon=1.0, path=path)
    path.with_suffix(".copy").write_text(path.read_text())
    ledger.spend(what="x", epsilon=1.0)
    change(path)
    with pytest.raises(pais.PaisError):
        ledger.spend(what="y", epsilon=1.0)


def test_a_lock_that_was_deleted_while_one_waited_is_not_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = pais.Ledger(epsilon=1.0, path=tmp_path / "budget.json")
    flock, n_locked = fcntl.flock, 0

    def deleted(descriptor: int, operation: int) -> None:
        nonlocal n_locked
        flock(descriptor, operation)
        if operation & fcntl.LOCK_EX:
            n_locked += 1
            if n_locked == 1:
                (tmp_path / "budget.json.lock").unlink()

    monkeypatch.setattr(fcntl, "flock", deleted)
    ledger.spend(what="x", epsilon=0.5)
    assert n_locked == 2


def test_an_interrupt_while_one_waits_for_the_lock_leaves_it_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = pais.Ledger(epsilon=1.0, path=tmp_path / "budget.json")
    flock = fcntl.flock

    def interrupted(descriptor: int, operation: int) -> None:
        flock(descriptor, operation)
        if operation & fcntl.LOCK_EX:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(fcntl, "flock", interrupted)
        with pytest.raises(KeyboardInterrupt):
            ledger.spend(what="x", epsilon=0.5)
    ledger.spend(what="x", epsilon=0.5)
    assert ledger.spent.epsilon == 0.5


def test_nothing_is_written_through_a_link_or_to_a_file_that_may_not_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = pais.Ledger(epsilon=1.0, path=tmp_path / "budget.json")
    (tmp_path / "precious").write_text("mine")
    (tmp_path / ".budget.json.new").symlink_to(tmp_path / "precious")
    ledger.spend(what="x", epsilon=0.5)
    assert (tmp_path / "precious").read_text() == "mine"
    assert not (tmp_path / "budget.json").is_symlink()
    monkeypatch.setattr(stores.os, "access", lambda *_: False)
    with pytest.raises(pais.ArgumentError, match="cannot be written"):
        ledger.spend(what="x", epsilon=0.5)
    assert ledger.spent.epsilon == 0.5


def test_rows_of_another_width_have_no_losses_here() -> None:
    ledger = pais.Ledger(epsilon=3.0, delta=1e-5)
    model(ledger=ledger).fit(rows())
    with pytest.raises(pais.MismatchError, match="2"):
        ledger.record_losses(rows()[:, :1])


@settings(deadline=None)
@given(budget=st.floats(1e-9, 1e6), share=st.floats(1e-9, 1.0, exclude_max=True))
def test_what_a_survey_leaves_fits_the_ledger_to_the_last_decimal(budget: float, share: float) -> None:
    ledger = pais.Ledger(epsilon=budget)
    ledger.spend(what="survey", epsilon=share * budget)
    ledger.spend(what="the rest", epsilon=what_is_left(budget, share * budget))
