"""Planted faults: changes of the code that break a guarantee, and the tests that must fail with them.

``python -m tests.support.faults`` plants every fault of `faults.yaml` in a copy of the package, one at a time, and runs
the tests that the fault names. A fault that all of its tests let pass has survived, and the command fails. The checkout
itself is never changed.
"""

from __future__ import annotations

import argparse
import compileall
import multiprocessing
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "pais"
LIST = Path(__file__).with_name("faults.yaml")

# The tests of a fault that take longer than this, in seconds, no longer end: a fault can make a loop endless. All tests
# together, which run once without a fault, may take longer.
_PATIENCE, _PATIENCE_FOR_ALL = 300.0, 3600.0

CAUGHT, SURVIVED, UNCLEAR, EQUIVALENT = "caught", "SURVIVED", "UNCLEAR", "equivalent"

# Exit codes of pytest.
_PASSED, _FAILED = 0, 1

# Processes fork from a server that has loaded what tests need, but not the package.
_SERVER = multiprocessing.get_context("forkserver")
_QUIET = ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # a plugin that is loaded already
_LOADED = ["hypothesis.strategies", "mpmath", "pandas", "pyarrow.parquet", "pytest", "scipy.stats", "sklearn.base"]


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A change of the code that breaks a guarantee.

    Attributes
    ----------
    name : str
        What goes wrong.
    file : str
        The file, relative to `src/pais`.
    text, becomes : str
        The text, which occurs once in the file, and what replaces it.
    tests : tuple of str
        Tests that fail with the fault, relative to `tests`.
    equivalent : str
        Why the fault breaks nothing, if it breaks nothing. It then names no tests.
    """

    name: str
    file: str
    text: str
    becomes: str
    tests: tuple[str, ...] = ()
    equivalent: str = ""

    def planted_in(self, content: str) -> str:
        """The content of the file with the fault. Raises if the text does not occur exactly once."""
        found = content.count(self.text)
        if found != 1:
            raise ValueError(f"{self.file}: the text of the fault {self.name!r} occurs {found} times, not once")
        return content.replace(self.text, self.becomes)


def faults() -> list[Fault]:
    """The faults of the list. A file may stand in it more than once, which a dictionary would not show."""
    listed = yaml.compose(LIST.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    constructed = yaml.SafeLoader("").construct_object
    return [
        _fault(constructed(file), entry) for file, entries in listed.value for entry in constructed(entries, deep=True)
    ]


def _fault(file: str, entry: dict[str, Any]) -> Fault:
    tests = entry.get("tests", [])
    return Fault(
        name=entry["fault"],
        file=file,
        text=entry["text"],
        becomes=entry["becomes"],
        tests=(tests,) if isinstance(tests, str) else tuple(tests),
        equivalent=entry.get("equivalent", ""),
    )


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What the tests of a fault found: its verdict, and the test that failed or what else happened."""

    fault: Fault
    verdict: str
    by: str
    seconds: float

    def __str__(self) -> str:
        return f"{self.verdict:10} {self.seconds:5.1f} s  {self.fault.file}: {self.fault.name}\n{'':20}{self.by}"


def outcome(fault: Fault, package: Path) -> Outcome:
    """Plant a fault in a copy of the package and run its tests with the copy."""
    if fault.equivalent:
        return Outcome(fault=fault, verdict=EQUIVALENT, by=fault.equivalent, seconds=0.0)
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "pais"
        shutil.copytree(package, copy)
        file = copy / fault.file
        file.write_text(fault.planted_in(file.read_text(encoding="utf-8")), encoding="utf-8")
        verdict, by = _tested(fault.tests, folder, "-x")
    return Outcome(fault=fault, verdict=verdict, by=by, seconds=time.monotonic() - start)


def _tested(tests: tuple[str, ...], path: str, *options: str, patience: float = _PATIENCE) -> tuple[str, str]:
    """Run tests with the package at a path; return the verdict and the first test that failed."""
    arguments = ["-q", "--no-header", "--tb=no", "-rfE", "-p", "no:cacheprovider", *_QUIET, *options]
    with tempfile.NamedTemporaryFile() as output:
        child = _SERVER.Process(
            target=_run_tests, args=([*arguments, *(f"tests/{test}" for test in tests)], path, output.name)
        )
        child.start()
        child.join(patience)
        if child.exitcode is None:
            child.kill()
            return CAUGHT, "the tests do not end"
        text = Path(output.name).read_text(encoding="utf-8", errors="replace")
    if child.exitcode == _PASSED:
        return SURVIVED, "all of its tests pass"
    failed = re.search(r"^FAILED tests/(\S.*?)(?: - .*)?$", text, re.MULTILINE)
    if child.exitcode == _FAILED and failed:
        return CAUGHT, failed.group(1)
    # A fault with which the package cannot be imported, or a test that does not exist, shows nothing.
    return UNCLEAR, " ".join(text.split())[-300:]


def _run_tests(arguments: list[str], path: str, output: str) -> None:
    """Run pytest with the package at a path, in this process, and exit with its code."""
    import pytest

    os.chdir(ROOT)
    sys.path.insert(0, path)
    # For the processes that some tests start.
    os.environ["PYTHONPATH"] = path
    descriptor = os.open(output, os.O_WRONLY)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    sys.exit(int(pytest.main(arguments)))


def outcomes(chosen: list[Fault], *, jobs: int) -> Iterator[Outcome]:
    """The outcomes of faults, in their order, some at a time."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(jobs) as pool:
        package = Path(folder) / "pais"
        shutil.copytree(SOURCE, package, ignore=shutil.ignore_patterns("__pycache__"))
        # Copies keep the times of files, so that Python takes the compiled files and reads only the planted one.
        compileall.compile_dir(str(package), quiet=2)
        yield from pool.map(lambda fault: outcome(fault, package), chosen)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="only faults whose file or name contains this text")
    parser.add_argument("--jobs", type=int, default=2, help="faults that are tested at a time")
    parser.add_argument("--list", action="store_true", help="list the faults and run nothing")
    options = parser.parse_args()
    chosen = [fault for fault in faults() if options.only in f"{fault.file}: {fault.name}"]
    if not chosen:
        parser.error(f"no fault has {options.only!r} in its file or name: see --list")
    if options.list:
        print("\n".join(f"{fault.file}: {fault.name}" for fault in chosen))
        return 0
    # Several processes run at a time, so that threads of one of them would only wait.
    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    _SERVER.set_forkserver_preload(_LOADED)
    tests = tuple(dict.fromkeys(test for fault in chosen for test in fault.tests))
    if tests:
        verdict, by = _tested(tests, str(ROOT / "src"), "-n", str(options.jobs), patience=_PATIENCE_FOR_ALL)
        if verdict != SURVIVED:
            print(f"A test fails without a fault, so it tells nothing: {by}")
            return 1
    found = []
    for each in outcomes(chosen, jobs=options.jobs):
        print(each, flush=True)
        found.append(each)
    counts = {verdict: sum(each.verdict == verdict for each in found) for verdict in (CAUGHT, EQUIVALENT)}
    wrong = [each for each in found if each.verdict in (SURVIVED, UNCLEAR)]
    print(f"\n{len(found)} faults: {counts[CAUGHT]} caught, {counts[EQUIVALENT]} equivalent, {len(wrong)} not caught")
    for each in wrong:
        print(f"  {each.verdict}: {each.fault.file}: {each.fault.name}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
