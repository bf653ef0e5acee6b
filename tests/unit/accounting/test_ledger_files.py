"""Ledger files: one process spends at a time, and no file is ever half written."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import multiprocessing
import os
import subprocess
import sys
import threading
import types
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import pais
from pais.accounting import stores
from pais.accounting.part import Budget
from pais.accounting.stores import Entry, new_entry


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
    "parts of another price": edited(
        lambda found: found["entries"][0].update(parts=[{"what": "x", "epsilon": 0.1, "delta": 0.0}])
    ),
    "a number for a text": edited(lambda found: found["entries"][0].update(note=7)),
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


def test_threads_never_spend_more_than_the_budget(make: Callable[..., pais.Ledger]) -> None:
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
    whole, alone = stores.replace_file, stores.exclusive
    stores.exclusive = lambda path: contextlib.nullcontext()
    def replace(path, content):
        Path(sys.argv[3] + ".read").touch()
        while len(list(path.parent.glob("*.read"))) < 2:
            time.sleep(0.001)
        with alone(path):
            whole(path, content)
    stores.replace_file = replace
if lock == "portable":
    stores.fcntl = None
ledger = pais.Ledger(path=path)
Path(sys.argv[3]).touch()
while not (path.parent / "go").exists():
    time.sleep(0.001)
done = 0
for _ in range(60):
    try:
        ledger.spend(what="a part", epsilon=0.01)
        done += 1
    except pais.PaisError:
        pass
print(done)
"""


def test_threads_read_a_ledger_while_others_spend(tmp_path: Path) -> None:
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


@pytest.mark.slow
@pytest.mark.parametrize("lock", ["file", "portable", "none"])
def test_processes_never_spend_more_than_the_budget_and_without_the_lock_they_do(lock: str, tmp_path: Path) -> None:
    path = tmp_path / "budget.json"
    ledger = pais.Ledger(epsilon=1.0, path=path)
    command = [sys.executable, "-c", WORKER, str(path), lock]
    workers = [
        subprocess.Popen([*command, str(tmp_path / f"ready{i}")], stdout=subprocess.PIPE, text=True) for i in range(2)
    ]
    try:
        while not all((tmp_path / f"ready{i}").exists() for i in range(2)):
            assert all(worker.poll() is None for worker in workers)
            threading.Event().wait(0.01)
        (tmp_path / "go").touch()
        reported = sum(int(worker.communicate(timeout=120)[0]) for worker in workers)
    finally:
        for worker in workers:
            worker.kill()
    if lock == "none":
        # What this test would miss if it saw no difference: releases that were made and forgotten.
        assert reported >= len(ledger.entries) + 1
    else:
        assert (reported, len(ledger.entries), ledger.spent.epsilon) == (100, 100, 1.0)


def test_ledger_created_by_another_process_meanwhile_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, alone = tmp_path / "budget.json", stores.exclusive

    @contextlib.contextmanager
    def waited(at: Path) -> Iterator[None]:
        monkeypatch.setattr(stores, "exclusive", alone)
        pais.Ledger(epsilon=1.0, path=at).spend(what="another's", epsilon=0.75)
        with alone(at):
            yield

    monkeypatch.setattr(stores, "exclusive", waited)
    assert pais.Ledger(epsilon=1.0, path=path).remaining.epsilon == 0.25


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
        return new_entry(pais.Part(what="x", epsilon=0.5), note="a test", parts=())

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


def test_a_disk_that_is_full_leaves_the_ledger_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = pais.Ledger(epsilon=1.0, path=tmp_path / "budget.json")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(stores.os, "fsync", full)
    with pytest.raises(pais.ArgumentError, match="No space left"):
        ledger.spend(what="x", epsilon=0.5)
    assert ledger.entries == ()


def _spend_in_fork(ledger: pais.Ledger, queue: Any) -> None:
    try:
        ledger.spend(what="in a fork", epsilon=0.5)
        queue.put("spent")
    except pais.ArgumentError:
        queue.put("refused")


def test_ledger_in_memory_is_tied_to_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_ledger_file_that_was_replaced_or_relinked_is_refused(change: Callable[[Path], None], tmp_path: Path) -> None:
    path = tmp_path / "budget.json"
    ledger = pais.Ledger(epsilon=1.0, path=path)
    path.with_suffix(".copy").write_text(path.read_text())
    ledger.spend(what="x", epsilon=1.0)
    change(path)
    with pytest.raises(pais.PaisError):
        ledger.spend(what="y", epsilon=1.0)


def test_a_ledger_with_a_second_name_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "budget.json"
    ledger = pais.Ledger(epsilon=1.0, path=path)
    linked(path)
    with pytest.raises(pais.ArgumentError, match="has a second name"):
        ledger.spend(what="x", epsilon=0.5)


def test_an_entry_is_on_disk_before_it_replaces_the_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = pais.Ledger(epsilon=1.0, path=tmp_path / "budget.json")
    events: list[str] = []
    synced, replaced = os.fsync, Path.replace

    def sync(descriptor: int) -> None:
        events.append(f"sync of {os.fstat(descriptor).st_ino}")
        synced(descriptor)

    def replace(self: Path, target: Path) -> Path:
        events.append(f"replacement by {self.stat().st_ino}, with {'x' in self.read_text()}")
        return replaced(self, target)

    monkeypatch.setattr(stores.os, "fsync", sync)
    monkeypatch.setattr(Path, "replace", replace)
    ledger.spend(what="x", epsilon=0.5)
    new = (tmp_path / "budget.json").stat().st_ino
    assert events[:2] == [f"sync of {new}", f"replacement by {new}, with True"]


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
