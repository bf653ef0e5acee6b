"""The commit, the sources, the day and the machine of a table. No host name, no paths, no user."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_info

import pais
from pais._base.threads import cores

ROOT = Path(__file__).parents[1]
_LINE = re.compile(r"Measured at ([\w ]+), sources (\w+)(?:, on ([\d-]+), (.+?)\.(?:\s|$))?")


@dataclass(frozen=True, kw_only=True)
class State:
    """The state that a published table names; day and machine are empty in tables of earlier versions."""

    commit: str
    sources: str
    day: str = ""
    machine: str = ""

    def __str__(self) -> str:
        return f"{self.commit}, sources {self.sources}, on {self.day}, {self.machine}"


def source_state() -> str:
    """The words after "Measured at" in a table."""
    day = time.strftime("%Y-%m-%d", time.gmtime())
    return str(State(commit=commit(), sources=sources(), day=day, machine=machine()))


def read_state(text: str) -> State | None:
    """The state that the text of a table names."""
    match = _LINE.search(text)
    if match is None:
        return None
    return State(commit=match[1], sources=match[2], day=match[3] or "", machine=match[4] or "")


def commit() -> str:
    """The commit, marked if files of the package differ from it."""
    head = _git("rev-parse", "--short=7", "HEAD")
    return (head + (" with uncommitted changes" if uncommitted() else "")) if head else "no commit"


def uncommitted() -> list[str]:
    """Files of the package that differ from the commit."""
    return [line[3:] for line in (_git("status", "--porcelain", "--", "src") or "").splitlines()]


def sources() -> str:
    """A short digest of the package's sources: equal for commits that differ elsewhere alone."""
    digest = hashlib.sha256()
    for path in sorted(Path(pais.__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def machine() -> str:
    """Processor, cores, memory and the versions that times depend on."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    blas = {f"{pool['internal_api']} {pool['version']}" for pool in threadpool_info() if pool["user_api"] == "blas"}
    return (
        f"{cores()} cores of {_processor()}, {memory:.0f} GB of memory, Python {platform.python_version()}, "
        f"NumPy {np.__version__}, BLAS {' and '.join(sorted(blas)) or 'unknown'}"
    )


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def _git(*words: str) -> str | None:
    git = shutil.which("git")
    if git is None:
        return None
    process = subprocess.run([git, "-C", str(ROOT), *words], capture_output=True, text=True)
    return process.stdout.rstrip() if process.returncode == 0 else None
