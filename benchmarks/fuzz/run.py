"""Damage files and arguments, a million times, and count what comes of it.

    python -m benchmarks.fuzz --cases 1000000 --jobs 2

Each case is one right file or argument vector with a little damage, read in this process. It must end in success or in
an error the package declares (for a command: exit 0, 2 or 3); warnings are errors. Cases depend on the seed and their
number alone. What was done is kept in out/fuzz/state.json, and a run goes on from there; `--fresh` begins anew. Spark
and remote addresses are not fuzzed.
"""

from __future__ import annotations

import argparse
import csv
import json
import multiprocessing
import multiprocessing.pool
import multiprocessing.util
import resource
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.fuzz.targets import SHARES, Corpus, Crash, as_errors, corpus_in, outcome_of, smaller
from benchmarks.state import source_state

RESULTS = Path(__file__).parent.parent / "results"
CHUNK = {"plan": 20, "arguments": 50}
_LONG_CHUNK = 1000
# Seconds between writings of what was done.
_KEEP = 15.0
_MOST_MEMORY = 8 << 30

Chunk = tuple[str, int, int, int]
Counts = dict[str, dict[str, int]]

_corpus: Corpus | None = None


def start_worker() -> None:
    """A corpus for this process, in memory where the system has such a place."""
    global _corpus
    # A case that asks for more is to fail by itself, and not to take the machine along.
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))
    memory = Path("/dev/shm")
    home = Path(tempfile.mkdtemp(prefix="pais-fuzz-", dir=memory if memory.is_dir() else None))
    _corpus = corpus_in(home)
    multiprocessing.util.Finalize(None, shutil.rmtree, (home,), {"ignore_errors": True}, exitpriority=1)
    as_errors()


def run_chunk(chunk: Chunk) -> tuple[Chunk, dict[str, int], list[Crash], float]:
    """Cases of one target, one after another."""
    assert _corpus is not None
    target, seed, first, number = chunk
    started = time.perf_counter()
    ends: Counter[str] = Counter()
    crashes: dict[tuple[str, str], Crash] = {}
    for case in range(first, first + number):
        ended, crash = outcome_of(_corpus, target, case, seed)
        ends[ended] += 1
        if crash is not None:
            crashes.setdefault((crash.kind, crash.detail), crash)
    small = [Crash(**{**asdict(crash), "made": smaller(_corpus, crash)}) for crash in crashes.values()]
    return chunk, dict(ends), small, time.perf_counter() - started


def chunks(cases: int, seed: int, done: set[str]) -> Iterator[Chunk]:
    """All chunks that are still to do, the targets side by side from first to last."""
    everything: list[tuple[float, Chunk]] = []
    for target, share in SHARES.items():
        number, size = max(1, round(cases * share)), CHUNK.get(target, _LONG_CHUNK)
        # Of the slow ones a part beside the others and the rest after them, should time run out.
        pace = 8.0 if target in CHUNK else 1.0
        for first in range(0, number, size):
            everything.append((pace * first / number, (target, seed, first, min(size, number - first))))
    for _, chunk in sorted(everything):
        if name_of(chunk) not in done:
            yield chunk


def name_of(chunk: Chunk) -> str:
    return "/".join(map(str, chunk))


def fuzz(cases: int, seed: int, seconds: float, jobs: int, out: Path, fresh: bool) -> dict[str, Any]:
    """Run what is not done yet, and keep what was."""
    out.mkdir(parents=True, exist_ok=True)
    file = out / "state.json"
    state: dict[str, Any] = {"done": [], "counts": {}, "crashes": {}, "seconds": {}, "wall": 0.0}
    if file.exists() and not fresh:
        state = json.loads(file.read_text())
    done, counts, crashes, spent = set(state["done"]), state["counts"], state["crashes"], state["seconds"]
    begun, before = time.monotonic(), state["wall"]
    kept = begun

    def keep() -> None:
        """Write what was done; whoever is stopped after it goes on from there."""
        state.update(seed=seed, jobs=jobs, done=sorted(done), wall=before + time.monotonic() - begun)
        new = file.with_suffix(".new")
        new.write_text(json.dumps(state))
        new.replace(file)

    def todo() -> Iterator[Chunk]:
        for chunk in chunks(cases, seed, done):
            if time.monotonic() - begun > seconds:
                return
            yield chunk

    context = multiprocessing.get_context("spawn")
    with context.Pool(jobs, start_worker) as pool:
        waiting: list[multiprocessing.pool.AsyncResult[tuple[Chunk, dict[str, int], list[Crash], float]]] = []
        source = todo()
        while True:
            # A few at a time, so that the clock is looked at.
            while len(waiting) < 3 * jobs and (chunk := next(source, None)) is not None:
                waiting.append(pool.apply_async(run_chunk, (chunk,)))
            if not waiting:
                break
            finished, ends, found, took = waiting.pop(0).get()
            done.add(name_of(finished))
            target = finished[0]
            counts[target] = dict(Counter(counts.get(target, {})) + Counter(ends))
            spent[target] = spent.get(target, 0.0) + took
            for crash in found:
                if crashes.setdefault(f"{crash.target}: {crash.kind}: {crash.detail}", crash.case) == crash.case:
                    name = f"{crash.target}-{crash.case}.{'json' if crash.target != 'arguments' else 'args'}"
                    (out / name).write_bytes(
                        crash.made.encode("latin-1" if name.endswith("json") else "utf-8", "replace")
                    )
            if time.monotonic() - kept > _KEEP:
                keep()
                kept = time.monotonic()
        pool.close()
        pool.join()
    keep()
    return state


def write_results(state: dict[str, Any], results: Path) -> str:
    """A table by target and end, and a list of crashes."""
    counts, crashes, spent = state["counts"], state["crashes"], state["seconds"]
    with (results / "fuzz.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["target", "outcome", "cases"])
        for target, ends in sorted(counts.items()):
            table.writerows([target, ended, number] for ended, number in sorted(ends.items()))
    total = sum(sum(ends.values()) for ends in counts.values())
    lines = [
        "# Fuzzing",
        "",
        f"`make fuzz`, seed {state['seed']}: {total:,} cases in {state['wall']:,.0f} s on {state['jobs']} processes. "
        "Each is a right file or argument vector with a little damage; each must end in success or in an error the "
        "package declares, warnings being errors. Not fuzzed: Spark, remote addresses, the rows themselves.",
        "",
        f"Crashes: {len(crashes)}. Measured at {source_state()}.",
        "",
        "| target | cases | ms a case | outcomes |",
        "|---|---:|---:|---|",
    ]
    for target in SHARES:
        ends = counts.get(target, {})
        number = sum(ends.values())
        shown = ", ".join(f"{ended} {count:,}" for ended, count in sorted(ends.items(), key=lambda item: -item[1]))
        lines.append(f"| {target} | {number:,} | {1e3 * spent.get(target, 0.0) / max(1, number):.2f} | {shown} |")
    lines += ["", *(f"- {name} (case {case})" for name, case in sorted(crashes.items()))]
    text = "\n".join(lines).rstrip() + "\n"
    (results / "fuzz.md").write_text(text, encoding="utf-8")
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cases", type=int, default=1_050_000)
    parser.add_argument("--seconds", type=float, default=3600.0, help="begin nothing new after so long")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("out/fuzz"), help="state and reproducers")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--fresh", action="store_true")
    given = parser.parse_args()
    state = fuzz(given.cases, given.seed, given.seconds, given.jobs, given.out, given.fresh)
    print(write_results(state, given.results))
    raise SystemExit(1 if state["crashes"] else 0)
