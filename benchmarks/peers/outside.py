"""Packages with an environment of their own, made once; each fit is timed inside their script."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console

from benchmarks.data import N_CLUSTERS, DataSet
from benchmarks.peers.outcome import Outcome

INSTALL_LIMIT = 900


@dataclass(frozen=True, kw_only=True)
class Peer:
    """A package, what its environment needs, its script, and the form it is given rows in."""

    name: str
    requirements: tuple[str, ...]
    script: str
    rows: str = "npy"


DIFFPRIVLIB = Peer(name="diffprivlib", requirements=("diffprivlib", "scikit-learn<=1.8"), script="with_diffprivlib.py")
SPARK = Peer(name="spark", requirements=("pyspark", "numpy"), script="with_spark.py", rows="parquet")
FAISS = Peer(name="faiss", requirements=("faiss-cpu", "numpy"), script="with_faiss.py")


@dataclass(frozen=True, kw_only=True)
class Environment:
    """The interpreter of a peer, or why there is none."""

    python: Path
    problem: str | None = None


@dataclass(frozen=True, kw_only=True)
class Call:
    """One run of a script: its last word, the seeds, the seconds it may take in all, the rows a fit uses, and k."""

    word: str
    seeds: int
    limit: float
    rows_used: int
    n_clusters: int = N_CLUSTERS


def environment(peer: Peer, cache: Path, console: Console) -> Environment:
    """The environment of a peer: made where it is absent or was made for other requirements."""
    home = cache / "environments" / peer.name
    home.parent.mkdir(parents=True, exist_ok=True)
    # Two tables that are measured at the same time may need the same environment.
    with home.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return _environment(peer, home, console)


def _environment(peer: Peer, home: Path, console: Console) -> Environment:
    python, ready = home / "bin" / "python", home / "ready"
    requirements = "\n".join(peer.requirements)
    if ready.exists() and ready.read_text(encoding="utf-8") == requirements:
        return Environment(python=python)
    console.print(f"Making an environment with {' and '.join(peer.requirements)} ...", markup=False)
    commands = (
        [sys.executable, "-m", "venv", "--clear", str(home)],
        [str(python), "-m", "pip", "install", "--quiet", *peer.requirements],
    )
    for command in commands:
        problem = problem_of(command, Path.cwd(), INSTALL_LIMIT)
        if problem is not None:
            return Environment(python=python, problem=f"not installable here: {problem}")
    ready.write_text(requirements, encoding="utf-8")
    return Environment(python=python)


def write_rows(data: DataSet, directory: Path) -> None:
    """The preprocessed rows in every form a peer reads."""
    directory.mkdir(parents=True, exist_ok=True)
    np.save(directory / "rows.npy", data.rows)
    columns = {f"x{column}": data.rows[:, column] for column in range(data.rows.shape[1])}
    pq.write_table(pa.table(columns), directory / "rows.parquet")


def run(peer: Peer, home: Environment, data: DataSet, directory: Path, call: Call) -> Outcome:
    """What the peer made of the rows that `write_rows` left in the directory."""
    if home.problem is not None:
        return Outcome(notes=(home.problem,))
    out = directory / peer.name
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    script = Path(__file__).with_name(peer.script).resolve()
    arguments = (str(directory / f"rows.{peer.rows}"), str(out), str(call.n_clusters), str(call.seeds), call.word)
    problem = problem_of([str(home.python), "-I", str(script), *arguments], out, call.limit)
    outcome = _collect(out, data, call.rows_used, problem)
    shutil.rmtree(out, ignore_errors=True)
    return outcome


def _collect(out: Path, data: DataSet, rows_used: int, problem: str | None) -> Outcome:
    log = out / "runs.jsonl"
    lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    entries = [json.loads(line) for line in lines]
    fits = [entry for entry in entries if entry["event"] == "fit"]
    ready: dict[str, Any] = next((entry for entry in entries if entry["event"] == "ready"), {})
    notes = [] if problem is None else [f"did not finish: {problem}"]
    if "session" in ready:
        notes.append(f"session start {ready['session']:.1f} s and first fit {ready['first_fit']:.1f} s not counted")
    if "threads" in ready:
        notes.append(f"threads: {ready['threads']}, the faster number")
    return Outcome(
        ratios=tuple(data.cost(np.load(out / f"centers-{fit['seed']}.npy")) / data.floor for fit in fits),
        seconds=tuple(fit["seconds"] for fit in fits),
        version=ready.get("version", ""),
        rows_used=rows_used,
        notes=tuple(notes),
    )


def problem_of(command: list[str], directory: Path, limit: float) -> str | None:
    """Run a command with all its children; None when it ended well, else a short line of why not."""
    process = subprocess.Popen(
        command, cwd=directory, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        _, errors = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        return f"stopped after {limit:g} s"
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    return None if process.returncode == 0 else _short(errors)


def _short(errors: str) -> str:
    """The last line that says what went wrong, without addresses, so that it fits a cell."""
    lines = [line.strip() for line in errors.splitlines() if line.strip()] or ["no reason was given"]
    line = next((line for line in reversed(lines) if "error" in line.lower()), lines[-1])
    return re.sub(r"\S+://\S+", "(address)", line).removeprefix("ERROR: ").replace("|", "/")[:100]
