"""Work in a fresh process: what it answers, and its steps on the way."""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

STEP = "benchmark step"


class ChildError(Exception):
    """A child did not end well."""


def run(module: str, on_step: Callable[[], object], **arguments: object) -> dict[str, Any]:
    """What `job(**arguments)` of a module of this package returns, in a process of its own."""
    with tempfile.TemporaryDirectory() as place:
        answer, errors = Path(place) / "answer.json", Path(place) / "errors"
        command = [sys.executable, "-m", "benchmarks.stream.child", module, str(answer), json.dumps(arguments)]
        with errors.open("w", encoding="utf-8") as log:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True)
            try:
                assert process.stdout is not None
                for line in process.stdout:
                    if line.strip() == STEP:
                        on_step()
                process.wait()
            finally:
                # Also after Ctrl-C: the child and what it has started.
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
        if process.returncode or not answer.exists():
            raise ChildError(_last_words(errors.read_text(encoding="utf-8", errors="replace")))
        found: dict[str, Any] = json.loads(answer.read_text(encoding="utf-8"))
        return found


def step() -> None:
    """Tell the parent, if there is one, that a part of the work is done."""
    print(STEP, flush=True)


def peak_bytes() -> int:
    """The most memory this process has held so far: resident, as Linux counts it."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def _last_words(errors: str) -> str:
    lines = [line.strip() for line in errors.splitlines() if line.strip()] or ["no reason was given"]
    line = next((line for line in reversed(lines) if "error" in line.lower()), lines[-1])
    return line.replace("|", "/")[:160]


def main() -> None:
    module, answer, arguments = sys.argv[1:]
    job = importlib.import_module(f"benchmarks.stream.{module}").job
    Path(answer).write_text(json.dumps(job(**json.loads(arguments))), encoding="utf-8")


if __name__ == "__main__":
    main()
