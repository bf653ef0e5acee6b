"""The entries of a ledger, and their storage: in this process, or in a file that several processes share.

A file is changed by one process at a time, under a lock, and replaced as a whole.
"""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import stat
import threading
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, NoReturn

from pais._base import threads, validate
from pais._base.files import parse_json
from pais._version import __version__
from pais.accounting.part import UNREADABLE, Budget, Part
from pais.errors import ArgumentError, MismatchError, PaisError

try:
    import fcntl
except ImportError:
    # Windows has no fcntl; there, a lock file that exists only while the lock is held is used instead.
    fcntl = None  # type: ignore[assignment]  # stands for a missing module

SECURE, SEEDED = "secure randomness", "seeded, not private"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One release that was paid for. Public.

    Attributes
    ----------
    what : str
    epsilon, delta : float
        Price charged.
    when : str
        Time of the charge, UTC.
    note : str
        "secure randomness", or "seeded, not private". A rehearsal with a seed is charged too, as its values may be
        used.
    parts : tuple of dict
        Descriptions of the mechanisms that were run. Their prices add up to the price charged.
    id : str
        A random id, the same every time the file is read.
    release : str
        Name of the release, if a later command must recognise it; otherwise empty.
    """

    what: str
    epsilon: float
    delta: float
    when: str
    note: str
    parts: tuple[dict[str, Any], ...]
    id: str
    release: str = ""

    @property
    def units(self) -> set[str]:
        """Columns of the units that the entry protects, empty text for single rows. None if it was recorded by hand."""
        return {str(part.get("unit", "")) for part in self.parts}

    def to_dict(self) -> dict[str, Any]:
        """The entry as a ledger writes it."""
        described = {name: getattr(self, name) for name in self.__dataclass_fields__}
        described["parts"] = list(self.parts)
        return described

    @classmethod
    def from_dict(cls, described: object) -> Entry:
        """Parse an entry from a file; raise if it is not in the form that a ledger writes."""
        if not isinstance(described, Mapping) or set(described) != set(cls.__dataclass_fields__):
            raise ArgumentError("an entry has missing or unknown fields. Restore the file from a copy.")
        price = Budget(epsilon=described["epsilon"], delta=described["delta"])
        parts = described["parts"]
        if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
            raise ArgumentError("the parts of an entry are not a list of objects. Restore the file from a copy.")
        texts = {name: described[name] for name in ("what", "when", "note", "id")}
        are_texts = all(isinstance(text, str) and text for text in [*texts.values(), described["release"] or "-"])
        if not are_texts or not validate.is_text(texts["what"]):
            raise ArgumentError("an entry has a field that is not text. Restore the file from a copy.")
        prices = [Budget(epsilon=part.get("epsilon"), delta=part.get("delta")) for part in parts]
        if parts and not _adds_up(prices, price):
            raise ArgumentError("the parts of an entry do not add up to its price. Restore the file from a copy.")
        return cls(**texts, epsilon=price.epsilon, delta=price.delta, parts=tuple(parts), release=described["release"])


def new_name() -> str:
    """Return a random, unique name."""
    return uuid.uuid4().hex


def new_entry(part: Part, *, note: str, parts: tuple[Part, ...]) -> Entry:
    """Build an entry with the current time. The `parts`, if known, must add up to the price."""
    if parts and not _adds_up(parts, part):
        raise ArgumentError("the parts do not add up to the price. Pass parts with their own epsilon and delta.")
    return Entry(
        what=part.what,
        epsilon=part.epsilon,
        delta=part.delta,
        when=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        note=validate.text("note", note),
        parts=tuple(part.to_dict() for part in parts),
        id=new_name(),
        release=part.release,
    )


def parts_of(entry: Entry) -> tuple[Part, ...]:
    """Rebuild the parts of an entry from their public numbers, as far as possible.

    If the parts cannot be rebuilt, or do not add up to the entry's price, return a single part at that price. It is an
    upper bound on the loss of the release.
    """
    whole = Part(what=entry.what, epsilon=entry.epsilon, delta=entry.delta)
    try:
        parts = tuple(Part.from_dict(described) for described in entry.parts)
    except UNREADABLE:
        return (whole,)
    return parts if parts and _adds_up(parts, whole) else (whole,)


def _adds_up(parts: Sequence[Part | Budget], whole: Part | Budget) -> bool:
    """Whether the parts add up to the price of the whole, up to rounding."""
    return all(
        math.isclose(math.fsum(getattr(part, name) for part in parts), getattr(whole, name), rel_tol=1e-9)
        for name in ("epsilon", "delta")
    )


# How long the fallback waits for a lock file, in seconds, before it assumes that the owner is dead.
_PATIENCE = 60.0

# Open descriptors of lock files. A forked process closes its copies: otherwise they would hold the lock after the
# parent was killed, and leaving the block in the child would release the parent's lock.
_lock_descriptors: set[int] = set()

# Takes the entries so far and returns the entry to add; raises to refuse.
Decide = Callable[[tuple[Entry, ...]], Entry]


class Store(ABC):
    """A list of entries that is read as a snapshot and changed by one writer at a time."""

    @abstractmethod
    def read(self) -> tuple[Entry, ...]:
        """Return the current entries."""

    @abstractmethod
    def append(self, decide: Decide) -> Entry:
        """Add the entry that `decide` returns, under exclusive access; the entry is stored when this returns."""


@dataclass(frozen=True)
class LostStore(Store):
    """Store of a ledger that was kept in the memory of another process: it refuses every operation."""

    def read(self) -> NoReturn:
        raise ArgumentError(
            "the ledger of this model was in the memory of another process. Set a ledger with a path to fit again: "
            "model.set_params(ledger=pais.Ledger(..., path='budget.json'))."
        )

    def append(self, decide: Decide) -> NoReturn:
        self.read()


class MemoryStore(Store):
    """Entries in memory, shared by all threads of this process and by no other process."""

    def __init__(self) -> None:
        self._entries: tuple[Entry, ...] = ()
        self._lock = threading.Lock()
        self._process = threads.identity()

    def read(self) -> tuple[Entry, ...]:
        self._require_home()
        return self._entries

    def append(self, decide: Decide) -> Entry:
        self._require_home()
        with self._lock:
            entry = decide(self._entries)
            self._entries = (*self._entries, entry)
        return entry

    def _require_home(self) -> None:
        # A forked process has a copy of the entries, and its spending would never be recorded here.
        if threads.identity() != self._process:
            raise ArgumentError(
                "this ledger is kept in the memory of another process. Give it a path: pais.Ledger(path='budget.json')."
            )


@dataclass(frozen=True)
class FileStore(Store):
    """Entries in a JSON file with a lock file beside it. The file is replaced as a whole, never written in place.

    Notes
    -----
    Guarantee. Writers wait for each other, and a writer reads the current entries before it decides. If a writer is
    killed, the file is either unchanged or completely written: `tests/unit/accounting/test_ledger_files.py`.

    Assumes. A local file system, or a network file system with working locks.
    """

    path: Path
    budget: Budget
    # Ids of the entries read so far: restoring an older copy of the file must not give their price back.
    _seen: set[str] = field(default_factory=set, repr=False, compare=False)

    @classmethod
    def open(cls, path: Path, stated: Budget | None) -> FileStore:
        """Open the store at a path. If the file is missing and a budget is given, create it."""
        try:
            path = path.resolve()
            missing = not path.exists()
        except (OSError, RuntimeError):
            # The name is too long, or symbolic links form a cycle.
            raise ArgumentError(f"{path} cannot be the path of a ledger. Check the path.") from None
        if stated is not None and missing:
            with exclusive(path):
                # Another process may have created the file while this one waited for the lock.
                if not path.exists():
                    replace_file(path, _content(stated, ()))
        if not path.exists():
            raise ArgumentError(f"there is no ledger at {path}. State epsilon and delta to create one.")
        budget, _ = _parsed(path)
        if stated is not None and stated != budget:
            raise MismatchError(
                f"the ledger {path} has epsilon={budget.epsilon!r}, delta={budget.delta!r}, but "
                f"epsilon={stated.epsilon!r}, delta={stated.delta!r} was stated. State the same budget, or none."
            )
        return cls(path, budget)

    def read(self) -> tuple[Entry, ...]:
        # Entries seen before this read began must be in the file. Entries that another thread adds to `_seen` during
        # the read may be missing from it, so take a copy first.
        known = set(self._seen)
        budget, entries = _parsed(self.path)
        if budget != self.budget:
            raise MismatchError(
                f"the budget in {self.path} has changed since it was opened. Open the ledger again if this is intended."
            )
        names = {entry.id for entry in entries}
        if not known <= names:
            raise MismatchError(
                f"entries are missing from {self.path}: an older copy was restored, or the file was created again. "
                "Restore the latest copy, because past releases still count."
            )
        self._seen.update(names)
        return entries

    def append(self, decide: Decide) -> Entry:
        with exclusive(self.path):
            entries = self.read()
            entry = decide(entries)
            replace_file(self.path, _content(self.budget, (*entries, entry)))
            self._seen.add(entry.id)
        return entry


def _content(budget: Budget, entries: tuple[Entry, ...]) -> str:
    described = {
        "kind": "ledger",
        "epsilon": budget.epsilon,
        "delta": budget.delta,
        "entries": [entry.to_dict() for entry in entries],
        "version": __version__,
    }
    return json.dumps(described, indent=1, allow_nan=False) + "\n"


def _parsed(path: Path) -> tuple[Budget, tuple[Entry, ...]]:
    """Read the budget and the entries of a file. An unreadable file raises; it never counts as an empty ledger."""
    try:
        _require_plain(path)
        content = path.read_bytes()
    except OSError as error:
        raise ArgumentError(f"the ledger {path} cannot be read: {error.strerror}. Check the path.") from None
    try:
        return _checked(parse_json(content.decode()))
    except (PaisError, ValueError, KeyError, TypeError, OverflowError):
        raise ArgumentError(
            f"{path} is not a ledger, or it is damaged. Restore it from a copy; a new ledger would lose past entries."
        ) from None


def _require_plain(path: Path) -> None:
    """Require a regular file without other hard links.

    Replacing the file would separate two hard links of one ledger, and each of them would have its own lock.
    """
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise ArgumentError(f"{path} is not a regular file. Pass the path of a ledger.")
    if status.st_nlink > 1:
        raise ArgumentError(f"{path} has a second name, a hard link. Remove it, because a ledger must have one name.")


def _checked(content: Any) -> tuple[Budget, tuple[Entry, ...]]:
    fields = {"kind", "epsilon", "delta", "entries", "version"}
    if not isinstance(content, dict) or set(content) != fields or content["kind"] != "ledger":
        raise TypeError
    if not isinstance(content["version"], str) or not isinstance(content["entries"], list):
        raise TypeError
    entries = tuple(Entry.from_dict(described) for described in content["entries"])
    if len({entry.id for entry in entries}) != len(entries):
        raise TypeError
    return Budget(epsilon=content["epsilon"], delta=content["delta"]), entries


@contextlib.contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold the lock for the file at a path, against all processes and threads that use this function."""
    # With fcntl, the lock file stays after use; in the fallback, the lock is held as long as the file exists. The two
    # kinds need different names.
    lock = path.with_name(path.name + (".lock" if fcntl is not None else ".held"))
    try:
        descriptor = _lock_file(lock)
    except OSError as error:
        raise ArgumentError(f"{path} cannot be locked: {error.strerror}. Check the directory.") from None
    try:
        yield
    finally:
        if fcntl is not None:
            _close_lock(descriptor)
        else:
            os.close(descriptor)
            lock.unlink(missing_ok=True)


def _lock_file(lock: Path) -> int:
    if fcntl is not None:
        while True:
            # Every call opens its own descriptor, so threads wait for each other too.
            descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
            _lock_descriptors.add(descriptor)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                # If the file was deleted during the wait, this lock is on a file that no other process can open.
                with contextlib.suppress(FileNotFoundError):
                    if os.path.samestat(os.fstat(descriptor), lock.stat()):
                        return descriptor
            except BaseException:
                _close_lock(descriptor)
                raise
            _close_lock(descriptor)
    start = time.monotonic()
    while True:
        try:
            return os.open(lock, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        except FileExistsError:
            if time.monotonic() - start > _PATIENCE:
                raise ArgumentError(
                    f"{lock} has existed for {_PATIENCE:.0f} seconds. Delete it if no other process uses the ledger."
                ) from None
            time.sleep(0.01)


def _close_lock(descriptor: int) -> None:
    if descriptor in _lock_descriptors:  # otherwise this process is a fork and has closed its copy
        try:
            # Unlock explicitly: a process forked by another thread in the next lines has a copy.
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        finally:
            _lock_descriptors.remove(descriptor)
            os.close(descriptor)


def _close_inherited_locks() -> None:
    while _lock_descriptors:
        os.close(_lock_descriptors.pop())


if fcntl is not None:
    os.register_at_fork(after_in_child=_close_inherited_locks)


def replace_file(path: Path, content: str) -> None:
    """Replace a file; the new content is on disk when this returns.

    Callers hold the lock, so one fixed temporary name is enough.
    """
    new = path.with_name(f".{path.name}.new")
    try:
        if path.exists() and not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        # The file may be left over from a killed process, or be a link placed there by someone else.
        new.unlink(missing_ok=True)
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            new.chmod(path.stat().st_mode & 0o777)
        new.replace(path)  # [note: ledger-2]
        _sync_directory(path.parent)
    except OSError as error:
        raise ArgumentError(f"{path} cannot be written: {error.strerror}. Nothing was released.") from None


def _sync_directory(directory: Path) -> None:
    """Make a rename survive a loss of power, on systems where directories can be opened."""
    if os.name != "posix":
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
