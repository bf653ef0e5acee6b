"""What the studio keeps beside the ledger: what the user typed, and the releases. Public values only."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pais.accounting.ledger import Ledger
from pais.accounting.part import total, up
from pais.errors import ArgumentError, PaisError
from pais.studio.question import Question

#: The files of a release that may be downloaded, and what they are.
DOWNLOADS = {
    "report.html": "Report (HTML)",
    "values.csv": "Values with errors (CSV)",
    "certificate.json": "Certificate (JSON)",
    "release.py": "Python that repeats it",
    "command.txt": "Command that repeats it",
    "columns.yaml": "Columns (YAML)",
    "by.yaml": "Groups (YAML)",
}

# A release is running if its process gave a sign of life in this many seconds; it gives several per second.
_ALIVE = 15.0


def write(path: Path, text: str) -> None:
    """Write a file that its owner alone can read; an existing one stays until the new one is complete."""
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)  # noqa: PTH105  # documented as atomic


def read_json(path: Path) -> dict[str, Any]:
    """The object in a file, or an empty one."""
    with contextlib.suppress(OSError, ValueError):
        content = json.loads(path.read_text(encoding="utf-8"))
        return content if isinstance(content, dict) else {}
    return {}


@dataclass(frozen=True)
class Job:
    """A release that was started: its directory holds the code that runs, and what it wrote."""

    place: Path

    @property
    def id(self) -> str:
        return self.place.name

    @property
    def about(self) -> dict[str, Any]:
        return read_json(self.place / "job.json")

    @property
    def outcome(self) -> dict[str, Any]:
        return read_json(self.place / "outcome.json")

    @property
    def status(self) -> str:
        """One of "running", "done", "failed", "cancelled" and "interrupted"."""
        found = self.outcome.get("status")
        if found:
            return str(found)
        with contextlib.suppress(OSError):
            if time.time() - (self.place / "alive").stat().st_mtime < _ALIVE:
                return "running"
        return "interrupted"

    @property
    def seconds(self) -> float:
        return max(0.0, time.time() - float(self.about.get("started", time.time())))

    def charged(self, ledger: Ledger | None) -> bool:
        """Whether the ledger was charged since this release began."""
        before = set(self.about.get("entries", ()))
        return ledger is not None and any(entry.id not in before for entry in ledger.entries)

    @property
    def entries(self) -> list[str]:
        """The ids of the ledger entries of the release."""
        return list(read_json(self.place / "certificate.json").get("ledger_entries") or ())

    def files(self) -> dict[str, str]:
        return {name: words for name, words in DOWNLOADS.items() if (self.place / name).is_file()}

    def cancel(self) -> None:
        """Ask the process of the release to stop. It answers in its outcome."""
        write(self.place / "cancel", "")


class Store:
    """The directory of the studio, which its owner alone can read."""

    def __init__(self, ledger: Path) -> None:
        self.place = ledger.with_name(ledger.name + ".studio")
        self._releases = self.place / "releases"
        try:
            for place in (self.place, self._releases):
                place.mkdir(mode=0o700, exist_ok=True)
                place.chmod(0o700)
        except OSError:
            raise ArgumentError(
                f"{self.place} cannot be written. Pass --ledger in a directory that you may write."
            ) from None
        kept = read_json(self.place / "state.json")
        self.typed: dict[str, list[str]] = {
            str(name): [str(value) for value in values]
            for name, values in kept.get("typed", {}).items()
            if isinstance(values, list)
        }
        #: The confirmation that is open: a token that can be used once, and the code that it is for.
        self.confirmation: dict[str, str] = kept.get("confirmation", {})

    def save(self) -> None:
        write(self.place / "state.json", json.dumps({"typed": self.typed, "confirmation": self.confirmation}, indent=1))

    def jobs(self) -> list[Job]:
        """All releases, the newest first."""
        found = [Job(place) for place in self._releases.iterdir() if (place / "job.json").is_file()]
        return sorted(found, key=lambda job: float(job.about.get("started", 0)), reverse=True)

    def job(self, name: str) -> Job | None:
        """A release by its id, which is no path."""
        return next((job for job in self.jobs() if job.id == name), None)

    def start(self, token: str, question: Question, entries: list[str]) -> Job | None:
        """Start a release in a process of its own; None if its token was used, here or in another process."""
        job = Job(self._releases / token)
        try:
            job.place.mkdir(mode=0o700)
        except FileExistsError:
            return None
        write(job.place / "release.py", question.code)
        write(job.place / "command.txt", question.command + "\n")
        for name, text in question.files.items():
            write(job.place / name, text)
        write(job.place / "alive", "")
        about = {"sentence": question.sentence, "title": question.title, "started": time.time(), "entries": entries}
        write(job.place / "job.json", json.dumps(about))
        # It outlives this process: what is paid for is not lost if the studio ends.
        process = subprocess.Popen(
            [sys.executable, "-m", "pais.studio.work", str(job.place.absolute())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        threading.Thread(target=process.wait, daemon=True).start()
        return job


def opened(path: Path) -> Ledger | None:
    """The ledger at a path, or None if there is none yet."""
    return Ledger(path=path) if path.exists() else None


def history(ledger: Ledger | None, jobs: list[Job]) -> Iterator[Mapping[str, Any]]:
    """The releases of a ledger, the newest first, each with its files. Entries of one release are taken together."""
    by_entry = {entry: job for job in jobs if job.status == "done" for entry in job.entries}
    groups: dict[str, list[Any]] = {}
    with contextlib.suppress(PaisError):
        for entry in () if ledger is None else ledger.entries:
            job = by_entry.get(entry.id)
            groups.setdefault(entry.id if job is None else job.id, []).append(entry)
    for entries in reversed(groups.values()):
        job = by_entry.get(entries[0].id)
        yield {
            "title": job.about.get("title", "") if job else " and ".join(entry.what for entry in entries),
            "when": entries[0].when.replace("T", " ").replace("+00:00", " UTC"),
            "epsilon": up(total(entry.epsilon for entry in entries)),
            "delta": up(total(entry.delta for entry in entries)),
            "job": job,
        }
