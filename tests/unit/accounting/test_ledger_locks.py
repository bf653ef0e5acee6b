"""The lock of a ledger file: held by one process, and free again whatever ends that process."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, TimeoutError as Late, wait
from pathlib import Path

import pytest

import pais
from pais.accounting import stores

# Both scripts hold the lock until they read a line. The second forks a process that leaves the block and stays alive.
HOLDER = """
import os, sys, time
from pathlib import Path
from pais.accounting import stores
lock = stores.exclusive(Path(sys.argv[1]))
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
def test_lock_ends_with_its_holder_and_not_through_a_forked_process(end: str, script: str, tmp_path: Path) -> None:
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
    with stores.exclusive(tmp_path / "budget.json"):
        stores._close_inherited_locks()
        ledger.spend(what="x", epsilon=0.5)
    ledger.spend(what="x", epsilon=0.5)
    assert ledger.spent.epsilon == 1.0


def test_a_ledger_makes_no_directory(tmp_path: Path) -> None:
    with pytest.raises(pais.ArgumentError, match="cannot be locked: No such file or directory"):
        pais.Ledger(epsilon=1.0, path=tmp_path / "mistyped" / "budget.json")
    assert not list(tmp_path.iterdir())


def test_deleted_lock_file_is_not_taken_for_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_interrupt_while_locking_leaves_the_lock_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_thread_waits_while_another_one_spends_from_memory() -> None:
    ledger = pais.Ledger(epsilon=1.0)
    with ThreadPoolExecutor(1) as pool:
        with ledger._store._lock:
            spending = pool.submit(ledger.spend, what="a count", epsilon=0.5)
            with pytest.raises(Late):
                spending.result(timeout=0.2)
        assert spending.result(timeout=20).epsilon == 0.5
