"""Damage files and arguments, a million times, and count what comes of it.

    python -m tests.support.fuzz.run --cases 1000000 --jobs 2

Each case is one right file or argument vector with a little damage, read in this process. It must end in success or in
an error the package declares (for a command: exit 0, 2 or 3); warnings are errors. Cases depend on the seed and their
number alone. A case that ends otherwise is shortened and kept in out/fuzz. Spark and remote addresses are not fuzzed.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import tempfile
import time
import warnings
from collections import Counter
from dataclasses import replace
from pathlib import Path

from tests.support.fuzz.targets import SHARES, Corpus, Crash, corpus_in, outcome_of, smaller

CHUNK = {"plan": 20, "arguments": 50}
_LONG_CHUNK = 1000
_MOST_MEMORY = 8 << 30

#: Target, seed, first case and number of cases.
Chunk = tuple[str, int, int, int]

_corpus: Corpus | None = None


def start_worker(place: str) -> None:
    """Make a corpus for this process."""
    global _corpus
    # A case that asks for more fails by itself, and the machine goes on.
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))
    _corpus = corpus_in(Path(tempfile.mkdtemp(dir=place)))
    warnings.simplefilter("error")


def run_chunk(chunk: Chunk) -> tuple[str, Counter[str], list[Crash]]:
    """Run cases of one target; each kind of crash is returned once."""
    assert _corpus is not None
    target, seed, first, number = chunk
    ends: Counter[str] = Counter()
    crashes: dict[tuple[str, str], Crash] = {}
    for case in range(first, first + number):
        ended, crash = outcome_of(_corpus, target, case, seed)
        ends[ended] += 1
        if crash is not None:
            crashes.setdefault((crash.kind, crash.detail), crash)
    return target, ends, [replace(crash, made=smaller(_corpus, crash)) for crash in crashes.values()]


def chunks(cases: int, seed: int) -> list[Chunk]:
    """Chunks of all targets, side by side from first to last."""
    every: list[tuple[float, Chunk]] = []
    for target, share in SHARES.items():
        number, size = max(1, round(cases * share)), CHUNK.get(target, _LONG_CHUNK)
        every += [
            (first / number, (target, seed, first, min(size, number - first))) for first in range(0, number, size)
        ]
    return [chunk for _, chunk in sorted(every)]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cases", type=int, default=1_050_000)
    parser.add_argument("--seconds", type=float, default=3600.0, help="stop after so long")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("out/fuzz"), help="cases that end in a crash")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    counts: dict[str, Counter[str]] = {target: Counter() for target in SHARES}
    crashes: dict[str, Crash] = {}
    start, memory = time.monotonic(), Path("/dev/shm")
    with (
        tempfile.TemporaryDirectory(prefix="pais-fuzz-", dir=memory if memory.is_dir() else None) as place,
        multiprocessing.get_context("spawn").Pool(options.jobs, start_worker, (place,)) as pool,
    ):
        for target, ends, found in pool.imap_unordered(run_chunk, chunks(options.cases, options.seed)):
            counts[target] += ends
            crashes |= {f"{crash.target}: {crash.kind}: {crash.detail}": crash for crash in found}
            if time.monotonic() - start > options.seconds:
                break
    for target, ends in counts.items():
        print(f"{target}: {ends.total():,} cases: " + ", ".join(f"{name} {n:,}" for name, n in ends.most_common()))
    for name, crash in crashes.items():
        print(f"{name} (case {crash.case})")
        is_text = crash.target != "arguments"
        made = crash.made.encode("latin-1" if is_text else "utf-8", "replace")
        (options.out / f"{crash.target}-{crash.case}.{'json' if is_text else 'args'}").write_bytes(made)
    print(f"{len(crashes)} crashes")
    raise SystemExit(1 if crashes else 0)


if __name__ == "__main__":
    main()
