"""A job of a module of this package in a fresh process."""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any


def run(module: str, **arguments: object) -> Any:
    """What `job(**arguments)` of a module returns."""
    with tempfile.TemporaryDirectory() as place:
        answer = Path(place) / "answer.json"
        command = [sys.executable, "-m", "benchmarks.stream.child", module, str(answer), json.dumps(arguments)]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)
        try:
            process.wait()
        finally:
            # Also after Ctrl-C: the child and what it has started.
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        if process.returncode:
            raise SystemExit(f"the job of {module} ended with exit code {process.returncode}")
        return json.loads(answer.read_text(encoding="utf-8"))


if __name__ == "__main__":
    job = importlib.import_module(f"benchmarks.stream.{sys.argv[1]}").job
    Path(sys.argv[2]).write_text(json.dumps(job(**json.loads(sys.argv[3]))), encoding="utf-8")
